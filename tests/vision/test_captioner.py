"""A captioner is a translator that reads images: the same decoders, searches and traces, without a change to them."""

from dataclasses import replace

import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.models.registries import decoders
from regard.models.seq2seq import Seq2Seq
from regard.vision.build import build_captioner

B, T, W, D = 3, 5, 19, 24
BOS, EOS = 2, 3
HEADS = AttentionConfig("scaled-dot", heads=3, project=True)
RESNET = ImageConfig("resnet", size=12, width=D, units=1)
VIT = ImageConfig("patches", size=12, width=D, patch=3, layers=2, feed_forward=29, positions="learned", pooling="class")
REGIONS = ImageConfig("regions", channels=7, size=0, width=D)


def captioner(image: ImageConfig, kind: str, **changes) -> ModelConfig:
    look = HEADS if kind == "transformer" else AttentionConfig("additive", width=17)
    whole = ModelConfig(
        embedding=D,
        dropout=0.0,
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig(kind, "lstm", width=D, readout="tanh", readout_width=D, feed_forward=29, start="mean"),
        attention=look,
        self_attention=HEADS,
        positions="sinusoidal" if kind == "transformer" else "none",
        image=image,
    )
    return replace(whole, **changes)


MODELS = {
    **{f"resnet → {kind}": captioner(RESNET, kind) for kind in decoders},
    "vit → transformer": captioner(VIT, "transformer"),
    "vit → bahdanau": captioner(VIT, "bahdanau"),
    "regions → bahdanau, hard": captioner(REGIONS, "bahdanau", attention=AttentionConfig("additive", focus="hard")),
    "regions → transformer": captioner(REGIONS, "transformer"),
}


def made(config: ModelConfig, kind: torch.dtype = torch.float32):
    torch.manual_seed(1)
    return build_captioner(config, W).to(kind).eval()


def source(config: ModelConfig, kind: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(2)
    if config.image.kind != "regions":
        return torch.randn(B, 3, 12, 12, generator=generator).to(kind), None
    mask = torch.arange(7) < torch.tensor([[7], [4], [2]])
    return torch.randn(B, 7, 7, generator=generator).to(kind), mask


def tokens() -> torch.Tensor:
    return torch.randint(4, W, (B, T), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", MODELS)
def test_stepping_equals_teaching_over_an_image(name):
    model = made(MODELS[name], torch.float64)
    assert isinstance(model, Seq2Seq)
    assert model.reads
    image, mask = source(MODELS[name], torch.float64)
    encoded = model.encode(image, mask)
    taught = model.decoder.teach(tokens(), encoded)
    grid = model.see(image, mask).grid
    assert taught.weights.shape[0:2] == (B, T)
    assert taught.weights.shape[-1] == grid[0] * grid[1]
    state = model.decoder.start(encoded)
    for t in range(T):
        step = model.decoder.step(tokens()[:, t], state)
        torch.testing.assert_close(step.logits, model.decoder.project(taught.features[:, t]))
        torch.testing.assert_close(step.weights, taught.weights[:, t])
        state = step.state


@pytest.mark.parametrize("name", MODELS)
def test_the_same_searches_find_captions_with_their_attention(name):
    model = made(MODELS[name])
    image, mask = source(MODELS[name])
    with torch.inference_mode():
        encoded = model.encode(image, mask)
    options = DecodingConfig(beam=3, max_length=6)
    found = search(model.decoder, encoded, options, bos=BOS, eos=EOS, n_best=2)
    for b, hypotheses in enumerate(found):
        assert len(hypotheses) == 2
        best = hypotheses[0]
        cells = encoded.mask.shape[1] if mask is None else int(mask[b].sum())
        assert best.weights.shape[0] == len(best.tokens)
        assert best.weights.shape[-1] == cells
        torch.testing.assert_close(best.weights.sum(-1), torch.ones(best.weights.shape[:-1]))
        # A hypothesis's score is the teacher-forced one of the same tokens, of this image alone.
        one = image[b : b + 1] if mask is None else image[b : b + 1, :cells]
        with torch.inference_mode():
            read = torch.tensor([[BOS, *best.tokens[:-1]]])
            taught = model.decoder.teach(read, model.encode(one))
            logs = model.decoder.project(taught.features)[0].log_softmax(dim=-1)
        wanted = sum(logs[t, token] for t, token in enumerate(best.tokens))
        torch.testing.assert_close(torch.tensor(sum(best.log_probs)), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet → bahdanau", "vit → transformer", "regions → transformer"])
def test_a_captioner_learns_what_it_is_shown(name):
    config = MODELS[name]
    model = made(config).train()
    image, mask = source(config)
    right = tokens()
    right[:, -1] = EOS
    read = torch.cat([torch.full((B, 1), BOS), right[:, :-1]], dim=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(25):
        logits = model.decoder.project(model.decoder.teach(read, model.encode(image, mask), look=False).features)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), right.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        encoded = model.encode(image, mask)
    found = search(model.decoder, encoded, DecodingConfig(max_length=8), bos=BOS, eos=EOS)
    assert [hypotheses[0].tokens for hypotheses in found] == right.tolist()


def test_every_weight_of_a_captioner_learns():
    model = made(captioner(replace(RESNET, block="squeeze-excitation", reduction=2), "bahdanau"))
    image, _ = source(MODELS["resnet → bahdanau"])
    taught = model.decoder.teach(tokens(), model.encode(image))
    model.decoder.project(taught.features).square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.ne(0).any()] == []


def test_what_is_no_captioner_is_refused():
    with pytest.raises(ConfigError) as caught:
        build_captioner(captioner(RESNET, "bahdanau", encoder=EncoderConfig("recurrent")), W)
    assert str(caught.value) == (
        "A captioner reads an image and no text, but model.encoder.kind is recurrent: set it to none."
    )
    with pytest.raises(ConfigError) as caught:
        build_model(captioner(RESNET, "bahdanau"), W, W)
    assert str(caught.value) == (
        "This model reads images (model.image), but the data is text only: set model.image=none."
    )
