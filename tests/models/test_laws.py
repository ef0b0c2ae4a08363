"""Laws of every encoder-decoder, swept over presets, cells, scores and decoders. Axes are distinct primes."""

import itertools
from dataclasses import replace

import pytest
import torch

from regard.attention import scores
from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.cells import cells
from regard.layers.readout import readouts
from regard.masks import from_lengths
from regard.models.build import build_model
from regard.models.registries import decoders
from regard.models.seq2seq import Seq2Seq, reversal
from regard.presets import preset, presets

B, S, T, W = 3, 7, 5, 29
LENGTHS = torch.tensor([7, 4, 2])


def shrunk(config: ModelConfig) -> ModelConfig:
    """Make a configuration tiny and keep what it is."""
    double = 2 if config.encoder.bidirectional else 1
    return replace(
        config,
        embedding=11,
        encoder=replace(config.encoder, width=26 // double),
        decoder=replace(config.decoder, width=26, readout_width=11),
        attention=None if config.attention is None else replace(config.attention, width=17),
    )


def variants() -> dict[str, ModelConfig]:
    found = {name: shrunk(preset(name).model) for name in presets}
    for kind, score, cell in itertools.product(decoders, scores, cells):
        found[f"{kind} {score} {cell}"] = shrunk(
            ModelConfig(
                encoder=EncoderConfig(cell=cell), decoder=DecoderConfig(kind, cell), attention=AttentionConfig(score)
            )
        )
    product = itertools.product(decoders, readouts, cells, (None, AttentionConfig()), (False, True))
    for kind, readout, cell, attention, feeding in product:
        if (kind, readout) == ("luong", "none") and attention is not None:
            continue  # refused: see below
        if feeding and kind != "luong":
            continue  # likewise
        deep = ModelConfig(
            variational=True,
            encoder=EncoderConfig(cell="lstm" if cell == "gru" else "gru", layers=2, residual=True),
            decoder=DecoderConfig(kind, cell, layers=3, residual=True, readout=readout, input_feeding=feeding),
            attention=attention,
        )
        found[f"deep {kind} {readout} {cell} {'attention' if attention else 'fixed'}{' fed' if feeding else ''}"] = (
            shrunk(deep)
        )
    for kind, attention in itertools.product(decoders, (None, AttentionConfig())):
        found[f"shallow {kind} {'attention' if attention else 'fixed'}"] = shrunk(
            ModelConfig(
                encoder=EncoderConfig(cell="lstm", layers=3, bidirectional=False),
                decoder=DecoderConfig(kind, "lstm", layers=2, readout="tanh"),
                attention=attention,
            )
        )
    for tie, reverse in (("output", False), ("all", True)):
        found[f"tie {tie}"] = shrunk(ModelConfig(tie=tie, reverse_source=reverse))
    return found


VARIANTS = variants()


@pytest.fixture(params=VARIANTS)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    torch.manual_seed(1)
    return build_model(VARIANTS[request.param], W, W).double().eval()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(2)
    mask = from_lengths(LENGTHS)
    source = torch.randint(4, W, (B, S), generator=generator)
    source[torch.arange(B), LENGTHS - 1] = 3
    return source.masked_fill(~mask, 0), mask, torch.randint(4, W, (B, T), generator=generator)


def logits_of(model, source, mask, tokens):
    taught = model.decoder.teach(tokens, model.encode(source, mask))
    return model.decoder.project(taught.features), taught.weights


def test_stepping_equals_teaching(model, batch):
    source, mask, tokens = batch
    logits, weights = logits_of(model, source, mask, tokens)
    state = model.decoder.start(model.encode(source, mask))
    for t in range(T):
        step = model.decoder.step(tokens[:, t], state)
        torch.testing.assert_close(step.logits, logits[:, t])
        torch.testing.assert_close(step.weights, weights[:, t])
        state = step.state


def test_the_future_does_not_change_the_past(model, batch):
    source, mask, tokens = batch
    logits, _ = logits_of(model, source, mask, tokens)
    changed = tokens.clone()
    changed[:, 3:] = (changed[:, 3:] - 3) % (W - 4) + 4
    again, _ = logits_of(model, source, mask, changed)
    assert torch.equal(logits[:, :3], again[:, :3])
    assert not torch.allclose(logits[:, 3:], again[:, 3:])


def test_more_padding_changes_nothing(model, batch):
    source, mask, tokens = batch
    logits, weights = logits_of(model, source, mask, tokens)
    wider = torch.nn.functional.pad(source, (0, 4), value=9)
    again, wide_weights = logits_of(model, wider, torch.nn.functional.pad(mask, (0, 4)), tokens)
    torch.testing.assert_close(logits, again)
    torch.testing.assert_close(weights, wide_weights[..., :S])
    assert (wide_weights[..., S:] == 0).all()


def test_what_stands_in_padding_changes_no_bit(model, batch):
    source, mask, tokens = batch
    poisoned = torch.where(mask, source, 17)
    assert torch.equal(logits_of(model, source, mask, tokens)[0], logits_of(model, poisoned, mask, tokens)[0])


def test_batch_mates_change_nothing(model, batch):
    source, mask, tokens = batch
    together, _ = logits_of(model, source, mask, tokens)
    for b, length in enumerate(LENGTHS):
        alone, _ = logits_of(model, source[b : b + 1, :length], mask[b : b + 1, :length], tokens[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone)


def test_every_parameter_gets_a_gradient(model, batch):
    logits, _ = logits_of(model.train(), *batch)
    logits.square().sum().backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert missing == []


def test_reordering_is_picking_rows(model, batch):
    source, mask, tokens = batch
    rows = torch.tensor([2, 0, 0, 1])
    decoder = model.decoder
    state = decoder.step(tokens[:, 0], decoder.start(model.encode(source, mask))).state
    picked = decoder.step(tokens[rows, 1], decoder.reorder(state, rows))
    whole = decoder.step(tokens[:, 1], state)
    torch.testing.assert_close(picked.logits, whole.logits[rows])
    torch.testing.assert_close(picked.weights, whole.weights[rows])


def test_a_state_can_be_gone_back_to(model, batch):
    source, mask, tokens = batch
    decoder = model.decoder
    state = decoder.step(tokens[:, 0], decoder.start(model.encode(source, mask))).state
    first = decoder.step(tokens[:, 1], state).logits
    decoder.step(tokens[:, 2], state)
    assert torch.equal(first, decoder.step(tokens[:, 1], state).logits)


def test_weights_sum_to_one_over_the_source(model, batch):
    _, weights = logits_of(model, *batch)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert (weights.shape[2] == 0) == (model.decoder.attention is None)


def test_the_source_matters_and_dropout_is_off_in_eval(model, batch):
    source, mask, tokens = batch
    logits, _ = logits_of(model, source, mask, tokens)
    assert torch.equal(logits, logits_of(model, source, mask, tokens)[0])
    assert not torch.allclose(logits, logits_of(model, (source + 1) % W, mask, tokens)[0])


def test_bfloat16_autocast_trains_and_is_near(model, batch):
    model = model.float()
    exact, _ = logits_of(model, *batch)
    with torch.autocast("cpu", torch.bfloat16):
        near, _ = logits_of(model, *batch)
    assert (near.float() - exact).norm() < 0.05 * exact.norm()
    near.float().square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_variational_dropout_holds_its_mask_over_the_steps():
    from regard.layers.dropout import Dropout

    ones = torch.ones(3, 101, 13)
    held = Dropout(0.5, variational=True).train()(ones)
    assert (held == held[:, :1]).all()
    drawn = Dropout(0.5).train()(ones)
    assert not (drawn == drawn[:, :1]).all()
    assert drawn.mean().item() == pytest.approx(1.0, abs=0.1)


def test_reversal_leaves_the_end_mark_and_padding():
    mask = from_lengths(torch.tensor([5, 3, 1]))
    assert reversal(mask).tolist() == [[3, 2, 1, 0, 4], [1, 0, 2, 3, 4], [0, 1, 2, 3, 4]]


def test_reversed_states_are_in_source_order():
    """A reader from right to left has, at the first word, seen all words; at the last one only that."""
    torch.manual_seed(1)
    config = shrunk(ModelConfig(reverse_source=True, encoder=EncoderConfig(bidirectional=False)))
    model = build_model(config, W, W).eval()
    mask = torch.ones(1, 5, dtype=torch.bool)
    source = torch.tensor([[4, 5, 6, 7, 3]])
    states = model.encode(source, mask).states
    changed = model.encode(torch.tensor([[9, 5, 6, 7, 3]]), mask).states
    assert torch.equal(states[:, 1:4], changed[:, 1:4])
    assert not torch.allclose(states[:, 0], changed[:, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tie": "both"}, "model.tie must be one of none, output, all, got 'both'."),
        ({"dropout": 1.0}, "model.dropout must be at least 0 and below 1, got 1.0."),
        (
            {"decoder": DecoderConfig("luong", readout="none")},
            "The luong decoder looks after its step, and with model.decoder.readout=none nothing would read what it "
            "saw: take model.decoder.readout=tanh, or model.attention=none.",
        ),
        ({"embedding": 0}, "model.embedding must be at least 1, got 0."),
        (
            {"decoder": DecoderConfig("bahdanau", input_feeding=True)},
            "model.decoder.input_feeding feeds the attentional vector of the luong decoder; the bahdanau decoder's "
            "context enters its recurrence already. Set model.decoder.kind=luong, or leave it out.",
        ),
        (
            {"tie": "output", "embedding": 8},
            "model.tie shares the target embeddings (8 wide) with the output layer, which reads 256: set "
            "model.decoder.readout_width=8 (with model.decoder.readout=maxout or tanh), or model.tie=none.",
        ),
        (
            {"encoder": EncoderConfig(cell="gur")},
            "No recurrent cell named 'gur'. Did you mean 'gru'? (regard list cells shows all)",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(change, message):
    with pytest.raises(ConfigError) as caught:
        build_model(replace(ModelConfig(), **change), W, W)
    assert str(caught.value) == message


def test_all_tied_needs_one_vocabulary():
    with pytest.raises(ConfigError, match="vocabularies have 29 and 31 entries"):
        build_model(ModelConfig(tie="all"), 29, 31)
