"""Attention of Hugging Face encoder-decoders: `generate` tells what a forward pass over its output tells."""

import logging

import numpy as np
import pytest
import torch

from regard.errors import DisplayError
from regard.viz import from_transformers

transformers = pytest.importorskip("transformers", reason="pip install 'regard[huggingface]'")

SOURCES = [[5, 6, 7, 8, 9, 2], [9, 8, 7, 2]]
PAD, START, END = 1, 1, 2


@pytest.fixture(scope="module", params=["marian", "bart", "t5"])
def model(request):
    logging.getLogger("transformers").setLevel(logging.ERROR)
    sizes = {
        "vocab_size": 31, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 32,
        "pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START, "forced_eos_token_id": None,
        "attn_implementation": "eager", "bos_token_id": 0,
    }  # fmt: skip
    torch.manual_seed(3)
    if request.param == "marian":
        made = transformers.MarianMTModel(transformers.MarianConfig(**sizes))
    elif request.param == "t5":
        own = {"d_kv": 4, "d_ff": 12, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
        made = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **own))
    else:
        made = transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes))
    with torch.no_grad():
        for parameter in made.parameters():
            # First weights hardly tell one token from another; T5's are larger.
            parameter.mul_(2.0 if request.param == "t5" else 6.0)
    return made.eval()


def batch():
    longest = max(map(len, SOURCES))
    source = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in SOURCES])
    return {"input_ids": source, "attention_mask": (source != PAD).long()}


def names(ids):
    return [f"w{one}" for one in ids]


@torch.no_grad()
def forward(model, row, target):
    """The weights of one sentence by itself, over given tokens."""
    source = torch.tensor([SOURCES[row]])
    return model(
        input_ids=source, attention_mask=torch.ones_like(source), decoder_input_ids=torch.tensor([target]),
        output_attentions=True,
    )  # fmt: skip


def stack(layers):
    return torch.cat(tuple(layers)).numpy()


@pytest.mark.parametrize("row", [0, 1])
def test_a_forward_pass(model, row):
    target = [[START, 11, 12, 13], [START, 14, 15, 16]]
    with torch.no_grad():
        outputs = model(**batch(), decoder_input_ids=torch.tensor(target), output_attentions=True)
    labels = names([*target[row][1:], END])
    found = from_transformers(outputs, names(SOURCES[row]), labels, row=row)
    alone = forward(model, row, target[row])
    np.testing.assert_allclose(found.cross.weights, stack(alone.cross_attentions), atol=1e-5)
    np.testing.assert_allclose(found.encoder.weights, stack(alone.encoder_attentions), atol=1e-5)
    np.testing.assert_allclose(found.decoder.weights, stack(alone.decoder_attentions), atol=1e-5)
    assert found.cross.source == found.encoder.target == tuple(names(SOURCES[row]))
    assert found.cross.target == tuple(labels)
    assert found.decoder.source == ("<s>", *labels[:-1])
    np.testing.assert_allclose(found.cross.weights.sum(axis=-1), 1, rtol=1e-5)


GENERATED = {
    "greedy": {"num_beams": 1},
    "beams": {"num_beams": 4, "num_return_sequences": 3},
    "uncached": {"num_beams": 3, "use_cache": False},
    "sampled": {"do_sample": True, "num_return_sequences": 2},
}


@pytest.mark.parametrize("how", GENERATED)
def test_what_was_generated_is_what_a_forward_pass_over_it_gives(model, how):
    torch.manual_seed(1)
    outputs = model.generate(
        **batch(), **GENERATED[how], max_new_tokens=6, min_new_tokens=2, output_attentions=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    copies = len(outputs.sequences) // len(SOURCES)
    for row, sequence in enumerate(outputs.sequences.tolist()):
        sentence = row // copies
        found = from_transformers(outputs, names(SOURCES[sentence]), names(sequence), row=row)
        written = sequence[1:]
        if END in written:
            written = written[: written.index(END) + 1]
        count = len(written)
        assert found.cross.target[:count] == tuple(names(written))
        assert found.decoder.source[0] == f"w{START}"
        alone = forward(model, sentence, [START, *written[:-1]])
        cross, own = stack(alone.cross_attentions), stack(alone.decoder_attentions)
        np.testing.assert_allclose(found.cross.weights[:, :, :count], cross, atol=2e-5)
        np.testing.assert_allclose(found.decoder.weights[:, :, :count, :count], own, atol=2e-5)
        np.testing.assert_allclose(found.encoder.weights, stack(alone.encoder_attentions), atol=1e-5)
        same = from_transformers(outputs, names(SOURCES[sentence]), names(written), row=row)
        np.testing.assert_array_equal(same.cross.weights, found.cross.weights[:, :, :count])
        assert same.decoder.source == ("<s>", *names(written[:-1]))


def test_beams_cross(model):
    """Otherwise the test above would not see a row that is taken for another."""
    outputs = model.generate(
        **batch(), num_beams=4, num_return_sequences=4, max_new_tokens=6, output_attentions=True,
        return_dict_in_generate=True,
    )  # fmt: skip
    assert any(len({*row.tolist()} - {-1}) > 1 for row in outputs.beam_indices)


def test_what_does_not_fit_is_refused(model):
    with torch.no_grad():
        outputs = model(**batch(), decoder_input_ids=torch.tensor([[START, 3]] * 2), output_attentions=True)
        blind = model(**batch(), decoder_input_ids=torch.tensor([[START, 3]] * 2))
    source = names(SOURCES[0])
    for given, message in (
        ((outputs, source[:-1], ["a", "b"]), "5 source tokens were given, but there is a weight of "),
        ((outputs, [*source, "x"], ["a", "b"]), "The outputs have weights for 2 target and 6 source tokens, but 2"),
        ((outputs, source, ["a", "b", "c"]), "The outputs have weights for 2 target and 6 source tokens, but 3 and 6"),
        ((blind, source, ["a", "b"]), "The outputs have no attention weights: pass output_attentions=True"),
    ):
        with pytest.raises(DisplayError) as caught:
            from_transformers(*given)
        assert str(caught.value).startswith(message)
    with pytest.raises(DisplayError, match=r"There is no row 2: the batch has 2, counted from 0\."):
        from_transformers(outputs, source, ["a", "b"], row=2)
    generated = model.generate(
        **batch(), max_new_tokens=3, min_new_tokens=3, output_attentions=True, return_dict_in_generate=True
    )
    with pytest.raises(DisplayError, match="There are 7 target tokens, but the sequence was generated in 3 steps"):
        from_transformers(generated, source, ["a"] * 7)
    with pytest.raises(DisplayError, match=r"There is no row 2: 2 sequences were returned, counted from 0\."):
        from_transformers(generated, source, ["a"], row=2)
