"""Laws of every system, swept over presets, encoders, decoders and the parts of attention. Axes are distinct primes.

Laws of the parts of attention themselves are in tests/attention: here each part stands once in a Transformer, where a
sequence looks at itself and at another one, and each score once in a recurrent decoder.
"""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from torch.utils._pytree import tree_leaves

from regard.attention import Attention, coverages, focuses, reaches, scores
from regard.attention.base import Sizes
from regard.attention.positions import Rotary, positions
from regard.attention.score import Cosine
from regard.config import AttentionConfig, DataConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.readout import readouts
from regard.layers.rnn_cells import cells
from regard.masks import from_lengths, reversal
from regard.models.build import build_model
from regard.models.pointer_generator import Pointer, PointerState
from regard.models.registries import decoders, encoders
from regard.models.seq2seq import Seq2Seq
from regard.models.tape_attention import TapeAttention
from regard.models.transformer import TransformerDecoder, TransformerState
from regard.presets import preset, presets
from regard.task import build_empty
from regard.training.setting_checks import check

B, S, T, W = 3, 7, 5, 29
LENGTHS = torch.tensor([7, 4, 2])
TRANSFORMER = "transformer"
RECURRENT = [kind for kind in decoders if kind != TRANSFORMER]
HEADS = AttentionConfig("scaled-dot", heads=2, project=True)
REFUSALS = (
    "A transformer decoder reads the source only by attention",
    *(
        f"The {kind} decoder attends after its recurrent step, so with model.decoder.readout=none nothing would use"
        for kind in ("luong", "looking-back")
    ),
    *(
        f"The {kind} decoder reads from a source at every step, but model.encoder.kind=none has no source"
        for kind in ("bahdanau", "conditional", "gnmt", "xu")
    ),
)
"""How the reasons begin for which a combination below may be refused; any other refusal is a bug."""


def narrow(config: AttentionConfig) -> AttentionConfig:
    """Make attention tiny and keep what it is."""
    return replace(
        config,
        width=17,
        heads=min(config.heads, 2),
        groups=min(config.groups, 2),
        head_width=10 if config.project or config.heads > 1 else 0,
        window=2,
        stride=2,
        longest=13,
    )


def shrunk(config: ModelConfig) -> ModelConfig:
    """Make a configuration tiny and keep what it is. What a Transformer adds to its embeddings is as wide as they."""
    double = 2 if config.encoder.bidirectional else 1
    embedding = 22 if TRANSFORMER in (config.encoder.kind, config.decoder.kind) else 12
    return replace(
        config,
        embedding=embedding,
        dropout=0.1,
        encoder=replace(
            config.encoder,
            width=embedding if config.encoder.kind == TRANSFORMER else 26 // double,
            feed_forward=17,
        ),
        decoder=replace(
            config.decoder,
            width=embedding if config.decoder.kind == TRANSFORMER else 26,
            feed_forward=19,
            readout_width=embedding,
        ),
        attention=None if config.attention is None else narrow(config.attention),
        self_attention=narrow(config.self_attention),
    )


def as_deep(config: ModelConfig) -> ModelConfig:
    """Give every deep stack three layers, so that a preset and its small sibling are one system, if they are one."""
    deep = [replace(side, layers=min(side.layers, 2) * 2 - 1) for side in (config.encoder, config.decoder)]
    return replace(config, encoder=deep[0], decoder=deep[1])


def recurrent_systems() -> dict[str, ModelConfig]:
    """Every decoder with every readout and depth; cells take turns, and so does attention where readouts are swept."""
    found = {}
    for score, (kind, cell) in zip(scores, itertools.cycle(itertools.product(RECURRENT, cells)), strict=False):
        found[f"{kind} {score} {cell}"] = ModelConfig(
            encoder=EncoderConfig(cell=cell), decoder=DecoderConfig(kind, cell), attention=AttentionConfig(score)
        )
    looks = [None, AttentionConfig()]
    turns = [
        (kind, readout, looks[(k + r) % 2], False)
        for k, kind in enumerate(RECURRENT)
        for r, readout in enumerate(readouts)
    ]
    turns += itertools.product(["luong"], readouts, looks, (False, True))
    for (kind, readout, attention, feeding), cell in zip(turns, itertools.cycle(cells), strict=False):
        name = f"deep {kind} {readout} {cell} {'attention' if attention else 'fixed'}{' fed' if feeding else ''}"
        found[name] = ModelConfig(
            variational=True,
            encoder=EncoderConfig(cell="lstm" if cell == "gru" else "gru", layers=2, residual=True),
            decoder=DecoderConfig(kind, cell, layers=3, residual=True, readout=readout, input_feeding=feeding),
            attention=attention,
        )
    for kind, attention in itertools.product(RECURRENT, (None, AttentionConfig())):
        found[f"shallow {kind} {'attention' if attention else 'fixed'}"] = ModelConfig(
            encoder=EncoderConfig(cell="lstm", layers=3, bidirectional=False),
            decoder=DecoderConfig(kind, "lstm", layers=2, readout="tanh"),
            attention=attention,
        )
    for tie, reverse in (("output", False), ("all", True)):
        found[f"tie {tie}"] = ModelConfig(tie=tie, reverse_source=reverse)
    return found


def transformers() -> dict[str, ModelConfig]:
    """Every part of attention in a Transformer, in looks at itself and at the source, wherever it has a meaning."""
    plain = ModelConfig(
        encoder=EncoderConfig(TRANSFORMER, layers=2),
        decoder=DecoderConfig(TRANSFORMER, layers=2),
        attention=HEADS,
        self_attention=HEADS,
        positions="sinusoidal",
    )

    def looking(own: AttentionConfig = HEADS, other: AttentionConfig = HEADS, position: str = "none") -> ModelConfig:
        return replace(plain, self_attention=own, attention=other, positions=position)

    found = {f"positions {name}": looking(position=name) for name in ("none", *positions)}
    for name, score in scores.items():
        changed = replace(HEADS, score=name)
        found[f"score {name}"] = looking(changed if score.of_itself else HEADS, changed)
    for name, reach in reaches.items():
        changed = replace(HEADS, reach=name)
        found[f"reach {name}"] = looking(changed if reach.of_itself else HEADS, changed if reach.of_another else HEADS)
    for name, focus in focuses.items():
        changed = replace(HEADS, focus=name)
        # What is sampled is rewarded by the target, which an encoder's looks have no place in.
        found[f"focus {name}"] = looking(HEADS if focus.goes_on or name == "hard" else changed, changed)
    for name in coverages:
        found[f"coverage {name}"] = looking(other=replace(HEADS, score="additive", coverage=name))
    found["one head, bare"] = looking(AttentionConfig("scaled-dot"), AttentionConfig("scaled-dot"), "sinusoidal")
    found["multi-query"] = looking(*[replace(HEADS, groups=1)] * 2)
    found["learned temperatures"] = looking(*[replace(HEADS, learn_temperature=True)] * 2)
    found["hard language model"] = replace(
        looking(replace(HEADS, focus="hard")), encoder=EncoderConfig("none"), attention=None
    )
    return {f"{TRANSFORMER} {name}": model for name, model in found.items()}


def hybrids() -> dict[str, ModelConfig]:
    """Every encoder with every decoder that looks at it; with no encoder, they are language models.

    Without attention encoders and decoders take turns: each stands in some system that has one vector of the source.
    """
    reading = [encoder for encoder in encoders if encoder != "none"]
    found = {}
    for encoder, decoder in itertools.product(encoders, decoders):
        found[f"{encoder} → {decoder}"] = ModelConfig(
            encoder=EncoderConfig(encoder, layers=2),
            decoder=DecoderConfig(decoder, readout="tanh"),
            attention=None if encoder == "none" else replace(HEADS, score="additive"),
            self_attention=HEADS,
            positions="sinusoidal" if TRANSFORMER in (encoder, decoder) else "none",
        )
    for encoder, decoder in zip(itertools.cycle(reading), decoders, strict=False):
        found[f"{encoder} → {decoder} fixed"] = replace(found[f"{encoder} → {decoder}"], attention=None)
    return found


def copying() -> dict[str, ModelConfig]:
    """Every decoder copies from what it looks at, and one of them with looks of other kinds."""
    found = {}
    for kind in decoders:
        found[f"copying {kind}"] = ModelConfig(
            copy=True,
            encoder=EncoderConfig(TRANSFORMER if kind == TRANSFORMER else "recurrent", layers=2),
            decoder=DecoderConfig(kind, layers=2, readout="tanh"),
            attention=HEADS,
            self_attention=HEADS,
        )
    for name in ("sparsemax", "hard", "monotonic"):
        found[f"copying, {name}"] = replace(found["copying transformer"], attention=replace(HEADS, focus=name))
    found["copying, in a window"] = replace(found["copying luong"], attention=AttentionConfig(reach="local-p"))
    found["copying, in reverse"] = replace(found["copying bahdanau"], reverse_source=True, tie="all")
    return found


def refusal(model: ModelConfig) -> str | None:
    try:
        build_empty(model, W, W)
    except ConfigError as error:
        return str(error)
    return None


ALL = (
    {name: as_deep(preset(name).model) for name in presets if preset(name).model.task == "write"}
    | recurrent_systems()
    | transformers()
    | hybrids()
    | copying()
)
# Of those that are the same once they are tiny, the first is enough.
ALL = {name: model for model, name in {shrunk(model): name for name, model in reversed([*ALL.items()])}.items()}
REFUSED = {name: reason for name, model in ALL.items() if (reason := refusal(model)) is not None}
VARIANTS = {name: model for name, model in ALL.items() if name not in REFUSED}


@pytest.fixture(scope="module", params=VARIANTS)
def settings(request: pytest.FixtureRequest) -> ModelConfig:
    return VARIANTS[request.param]


@pytest.fixture(scope="module")
def model(settings: ModelConfig) -> Seq2Seq:
    """Make a model, once for all laws: those that change it take a copy."""
    torch.manual_seed(1)
    return build_model(settings, W, W).double().eval()


@pytest.fixture(scope="module")
def batch():
    generator = torch.Generator().manual_seed(2)
    mask = from_lengths(LENGTHS)
    source = torch.randint(4, W, (B, S), generator=generator)
    source[torch.arange(B), LENGTHS - 1] = 3
    return source.masked_fill(~mask, 0), mask, torch.randint(4, W, (B, T), generator=generator)


def logits_of(model, source, mask, tokens):
    taught = model.decoder.teach(tokens, model.encode(source, mask))
    return model.decoder.logits(taught), taught.weights


@pytest.fixture(scope="module")
def encoded(model, batch):
    source, mask, _ = batch
    with torch.no_grad():
        return model.encode(source, mask)


@pytest.fixture(scope="module")
def taught(model, batch, encoded):
    with torch.no_grad():
        return model.decoder.teach(batch[2], encoded)


@pytest.fixture(scope="module")
def found(model, taught):
    """Return the logits and weights that the laws compare others with."""
    with torch.no_grad():
        return model.decoder.logits(taught), taught.weights


@pytest.fixture(scope="module")
def state(model, batch, encoded):
    """Return the state after the first token."""
    with torch.no_grad():
        return model.decoder.step(batch[2][:, 0], model.decoder.start(encoded)).state


def test_what_is_refused_has_one_of_the_known_reasons():
    assert {name: reason for name, reason in REFUSED.items() if not reason.startswith(REFUSALS)} == {}
    for reason in REFUSALS:
        assert any(refused.startswith(reason) for refused in REFUSED.values()), f"never refused: {reason}"


@torch.no_grad()
def test_stepping_equals_teaching(model, batch, encoded, found):
    _, _, tokens = batch
    logits, weights = found
    state = model.decoder.start(encoded)
    for t in range(T):
        step = model.decoder.step(tokens[:, t], state)
        torch.testing.assert_close(step.logits, logits[:, t])
        torch.testing.assert_close(step.weights, weights[:, t])
        state = step.state


def test_teaching_learns_what_stepping_learns(model, settings, batch):
    """Gradients too: a loop over many steps (`decoder_loop`) computes them in another way than single steps do."""
    if settings.decoder.kind == TRANSFORMER:
        pytest.skip("has no loop over its steps")
    source, mask, tokens = batch
    learned = [p for p in model.parameters() if p.requires_grad]

    def slopes(logits):
        factors = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view_as(logits)
        return torch.autograd.grad((logits * factors).sum(), learned, allow_unused=True)

    encoded = model.encode(source, mask)
    state, stepped = model.decoder.start(encoded), []
    for t in range(T):
        step = model.decoder.step(tokens[:, t], state)
        stepped.append(step.logits)
        state = step.state
    taught = model.decoder.logits(model.decoder.teach(tokens, model.encode(source, mask), look=False))
    for one, other in zip(slopes(torch.stack(stepped, dim=1)), slopes(taught), strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


@torch.no_grad()
def test_looking_does_not_change_what_is_found(model, batch, encoded, taught):
    unseen = model.decoder.teach(batch[2], encoded, look=False)
    torch.testing.assert_close(taught.features, unseen.features)
    for told, untold in zip(taught.extras, unseen.extras, strict=True):
        assert (told is None) == (untold is None)
        if told is not None:
            torch.testing.assert_close(told, untold)


@torch.no_grad()
def test_the_future_does_not_change_the_past(model, batch, found):
    source, mask, tokens = batch
    logits, _ = found
    changed = tokens.clone()
    changed[:, 3:] = (changed[:, 3:] - 3) % (W - 4) + 4
    again, _ = logits_of(model, source, mask, changed)
    assert torch.equal(logits[:, :3], again[:, :3])
    assert not torch.allclose(logits[:, 3:], again[:, 3:])


@torch.no_grad()
def test_more_padding_changes_nothing(model, batch, found):
    source, mask, tokens = batch
    logits, weights = found
    wider = torch.nn.functional.pad(source, (0, 4), value=9)
    again, wide_weights = logits_of(model, wider, torch.nn.functional.pad(mask, (0, 4)), tokens)
    torch.testing.assert_close(logits, again)
    torch.testing.assert_close(weights, wide_weights[..., :S])
    assert (wide_weights[..., S:] == 0).all()


@torch.no_grad()
def test_what_stands_in_padding_changes_no_bit(model, batch, found):
    source, mask, tokens = batch
    logits, weights = logits_of(model, torch.where(mask, source, 17), mask, tokens)
    assert torch.equal(found[0], logits)
    assert torch.equal(found[1], weights)


@torch.no_grad()
def test_batch_mates_change_nothing(model, batch, found):
    source, mask, tokens = batch
    together, _ = found
    for b, length in enumerate(LENGTHS):
        alone, _ = logits_of(model, source[b : b + 1, :length], mask[b : b + 1, :length], tokens[b : b + 1])
        torch.testing.assert_close(together[b : b + 1], alone)


def without_effect(model):
    """Biases of keys: they add the same to all scores of an inner product, which no focus can tell from nothing.

    Not where keys are turned or normalised, nor where a score is held against a threshold.
    """
    for module in model.modules():
        if isinstance(module, Attention) and module.heads is not None and module.score.dotted:
            turned = isinstance(module.score, Cosine) or isinstance(module.position, Rotary)
            if not turned and not module.focus.goes_on:
                yield module.heads.W_k.bias


def test_every_parameter_gets_a_gradient(model, batch):
    source, mask, tokens = batch
    model = copy.deepcopy(model).train()
    taught = model.decoder.teach(tokens, model.encode(source, mask))
    loss = model.decoder.logits(taught).square().sum()
    # What is sampled is learned through its log-probability.
    loss = loss if taught.extras.log_prob is None else loss + taught.extras.log_prob.sum()
    loss.backward()
    exempt = {id(bias) for bias in without_effect(model)}
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad and id(p) not in exempt}
    missing = [name for name, p in trained.items() if p.grad is None or not p.grad.abs().max() > 0]
    assert missing == []


@torch.no_grad()
def test_reordering_is_picking_rows(model, batch, state):
    _, _, tokens = batch
    rows = torch.tensor([2, 0, 0, 1])
    decoder = model.decoder
    picked = decoder.step(tokens[rows, 1], decoder.reorder(state, rows))
    whole = decoder.step(tokens[:, 1], state)
    torch.testing.assert_close(picked.logits, whole.logits[rows])
    torch.testing.assert_close(picked.weights, whole.weights[rows])


@torch.no_grad()
def test_reordering_within_a_source_is_reordering(model, batch, encoded):
    """Two hypotheses of each source, which have come different ways, then change places, or one takes both."""
    _, _, tokens = batch
    decoder = model.decoder
    twice = torch.arange(B).repeat_interleave(2)
    state = decoder.reorder(decoder.start(encoded), twice)
    written = tokens[twice, :3] + torch.tensor([0, 1]).repeat(B)[:, None]
    for t in range(2):
        state = decoder.step(written[:, t] % W, state).state
    rows = torch.tensor([1, 0, 2, 2, 5, 5])
    within, whole = (
        decoder.step(written[:, 2] % W, reorder(state, rows)) for reorder in (decoder.reorder_within, decoder.reorder)
    )
    assert torch.equal(within.logits, whole.logits)
    assert torch.equal(within.weights, whole.weights)
    kept = decoder.step(written[:, 2] % W, state)
    assert not torch.allclose(kept.logits, whole.logits)


@torch.no_grad()
def test_a_state_can_be_gone_back_to(model, batch, state):
    _, _, tokens = batch
    decoder = model.decoder
    first = decoder.step(tokens[:, 1], state).logits
    decoder.step(tokens[:, 2], state)
    assert torch.equal(first, decoder.step(tokens[:, 1], state).logits)


def look_plainly(decoder):
    """Return a copy whose looks at the source share one weight among the places that they may look at."""
    decoder = copy.deepcopy(decoder)
    if isinstance(decoder, Pointer):
        decoder.writer = look_plainly(decoder.writer)
        return decoder
    for owner in decoder.layers if isinstance(decoder, TransformerDecoder) else [decoder]:
        look = owner.attention.attention if isinstance(owner.attention, TapeAttention) else owner.attention
        look.reach, look.focus = reaches["global"](Sizes(1, 1)), focuses["softmax"](Sizes(1, 1))
    return decoder


def hide_all_but(state, places):
    """Mask the source but for one place of each row: the naive way to see it alone."""

    def hide(memory):
        return memory._replace(mask=torch.nn.functional.one_hot(places, memory.mask.shape[1]).bool())

    if isinstance(state, PointerState):
        return state._replace(own=hide_all_but(state.own, places))
    if isinstance(state, TransformerState):
        return state._replace(layers=tuple(layer._replace(source=hide(layer.source)) for layer in state.layers))
    return state._replace(memory=hide(state.memory))


def check_alone(decoder, state, tokens):
    """Compare what is seen at one place alone with what is seen where all others are hidden; rows in any order."""
    rows, places = torch.tensor([2, 0, 0, 1, 0, 2]), torch.tensor([1, 0, 6, 3, 6, 0])
    before = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in tree_leaves(state)]
    alone = decoder.step(tokens[rows], decoder.alone(state, rows, places), look=False)
    for leaf, kept in zip(tree_leaves(state), before, strict=True):
        assert torch.equal(leaf, kept) if isinstance(leaf, torch.Tensor) else leaf == kept
    hidden = look_plainly(decoder).step(tokens[rows], hide_all_but(decoder.reorder(state, rows), places))
    assert (hidden.weights.flatten(1, 2) == torch.nn.functional.one_hot(places, S)[:, None]).all()
    torch.testing.assert_close(alone.logits, hidden.logits)
    torch.testing.assert_close(alone.logits[2], alone.logits[4])
    assert not torch.allclose(alone.logits[1], alone.logits[2])


@torch.no_grad()
def test_one_place_alone_is_what_is_seen_where_all_others_are_hidden(model, settings, batch, encoded, state):
    decoder, tokens = model.decoder, batch[2]
    if settings.attention is None:  # it sees what it has always seen
        rows = torch.tensor([2, 0, 0])
        alone = decoder.step(tokens[rows, 1], decoder.alone(state, rows, torch.tensor([1, 0, 6])))
        torch.testing.assert_close(alone.logits, decoder.step(tokens[:, 1], state).logits[rows])
        return
    check_alone(decoder, decoder.start(encoded), tokens[:, 0])
    check_alone(decoder, state, tokens[:, 1])


ALONE = {
    "values": ModelConfig(attention=AttentionConfig(values=True)),
    "a head is pruned": ModelConfig(attention=replace(HEADS, pruned=("0.1",))),
    "heads share keys": ModelConfig(attention=replace(HEADS, groups=1)),
    "coverage": ModelConfig(attention=AttentionConfig(coverage="tu2016")),
    "sparsemax, local-p": ModelConfig(attention=AttentionConfig(focus="sparsemax", reach="local-p")),
    "monotonic": ModelConfig(attention=AttentionConfig(focus="monotonic")),
    "two tapes, values": ModelConfig(
        encoder=EncoderConfig("lstmn"), decoder=DecoderConfig("lstmn"), attention=AttentionConfig(values=True)
    ),
    "two tapes, a head is pruned": ModelConfig(
        decoder=DecoderConfig("lstmn"), attention=replace(HEADS, score="additive", pruned=("0.0",))
    ),
}
"""Looks that no system above has."""


@pytest.mark.parametrize("name", ALONE)
@torch.no_grad()
def test_one_place_alone_in_other_looks(name, batch):
    torch.manual_seed(1)
    source, mask, tokens = batch
    model = build_model(shrunk(ALONE[name]), W, W).double().eval()
    state = model.decoder.start(model.encode(source, mask))
    check_alone(model.decoder, model.decoder.step(tokens[:, 0], state).state, tokens[:, 1])


@torch.no_grad()
def test_the_only_place_alone_is_what_is_seen_anyway(model, settings, batch):
    look = settings.attention
    if look is None or look.reach not in ("global", "local-m") or focuses[look.focus].goes_on:
        pytest.skip("does not give all of its weight to the only place")
    source, mask, tokens = batch
    decoder = model.decoder
    state = decoder.start(model.encode(source[:, :1], mask[:, :1]))
    for t in range(3):
        step = decoder.step(tokens[:, t], state)
        alone = decoder.alone(state, torch.arange(B), torch.zeros(B, dtype=torch.long))
        torch.testing.assert_close(decoder.step(tokens[:, t], alone, look=False).logits, step.logits)
        state = step.state


def test_weights_sum_to_one_over_the_source(settings, batch, found):
    _, mask, _ = batch
    _, weights = found
    sums = weights.sum(-1)
    assert (weights >= 0).all()
    assert (weights.masked_select(~mask[:, None, None, None].expand_as(weights)) == 0).all()
    assert (weights.shape[2] == 0) == (settings.attention is None)
    if settings.attention is None:
        return
    if settings.attention.reach in ("global", "local-m") and not focuses[settings.attention.focus].goes_on:
        torch.testing.assert_close(sums, torch.ones_like(sums))
    else:  # a Gaussian takes its share, and who moves through the source may have left it
        assert (sums < 1 + 1e-9).all()
        assert (sums > 0.01).any()


@torch.no_grad()
def test_the_source_matters_and_dropout_is_off_in_eval(model, batch, found):
    source, mask, tokens = batch
    logits, _ = found
    assert torch.equal(logits, logits_of(model, source, mask, tokens)[0])
    changed, _ = logits_of(model, (source + 1) % W, mask, tokens)
    if model.reads:
        assert not torch.allclose(logits, changed)
    else:  # a language model
        assert torch.equal(logits, changed)


def is_hard(settings, weights):
    one_place = weights.numel() > 0 and bool(((weights == 0) | (weights == 1)).all())
    return one_place or settings.self_attention.focus == "hard"


def test_bfloat16_autocast_trains_and_is_near(model, settings, batch, found):
    model = copy.deepcopy(model).float()
    exact, weights = found
    with torch.autocast("cpu", torch.bfloat16):
        near, _ = logits_of(model, *batch)
    near.float().square().sum().backward()
    trained = [p for p in model.parameters() if p.requires_grad]
    assert all(p.grad.isfinite().all() for p in trained if p.grad is not None)
    if not is_hard(settings, weights):
        # Which of two is the greater, bfloat16 may see otherwise, and no gradient goes through the choice.
        assert (near.float() - exact).norm() < 0.05 * exact.norm()
        assert all(p.grad is not None for p in trained)


@pytest.mark.parametrize("name", presets)
def test_every_preset_can_be_trained_and_is_made_at_its_full_size(name):
    config = preset(name)
    check(replace(config, data=DataConfig(train=("reverse",))))
    size = config.tokenizer.vocabulary
    with torch.device("meta"):
        model = build_empty(config.model, size, size)
    assert sum(parameter.numel() for parameter in model.parameters()) > 1_000_000


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
    assert reversal(mask, kept=1).tolist() == [[3, 2, 1, 0, 4], [1, 0, 2, 3, 4], [0, 1, 2, 3, 4]]


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
            "The luong decoder attends after its recurrent step, so with model.decoder.readout=none nothing would use "
            "the context: set model.decoder.readout=tanh, or model.attention=none.",
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
