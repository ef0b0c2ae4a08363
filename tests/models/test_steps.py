"""Decoders that step by kernels are the plain ones: outputs and all gradients, captured in a CUDA graph too.

The laws are marked `gpu`: `make gpu-test` runs them there. On a CPU the first test runs them in Triton's interpreter.
"""

import importlib.util
import os

import pytest
import torch

from launches import Kernels
from regard import batched_weight_gradients
from regard.attention import fused
from regard.config_io import override
from regard.layers import rnn_gates
from regard.layers.rnn_cells import CellState, cells
from regard.masks import masked_softmax
from regard.models.build import build_model
from regard.presets import preset

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
gpu = pytest.mark.gpu
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter: an overflow is meant
B, S, T = 3, 7, 3 if INTERPRETED else 5
CLOSE = {False: 2e-5, True: 3e-2}
"""How close, by their norms, gradients are to those of float64: in float32, and under autocast to bfloat16."""


def test_the_laws_hold_in_the_interpreter(interpret):
    interpret(__file__)


# -- counted work -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton")
@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
@pytest.mark.parametrize(
    ("kind", "there", "back"),
    [
        (("bahdanau", "gru", "additive"), 5, 6),
        (("bahdanau", "lstm", "dot"), 5, 5),
        (("conditional", "gru", "additive"), 7, 8),
        (("luong", "lstm", "general"), 8, 8),
    ],
    ids=str,
)
def test_a_step_is_few_kernels(monkeypatch, kind, there, back):
    """Two products and a look of two kernels, gates of one; where nothing has to be added up or cast on the way."""
    model, work = built("cpu", *kind), Kernels(monkeypatch)
    tokens, encoded = drawn(model, "cpu")
    encoded = encoded._replace(states=encoded.states.requires_grad_(), summary=encoded.summary.requires_grad_())
    learned = [encoded.states, encoded.summary, *model.decoder.parameters()]
    found = []
    for steps in (12, 16):
        counted = []
        with work:
            for go in ("there", "back"):
                work.found.clear()
                if go == "there":
                    with torch.autocast("cpu", torch.bfloat16):
                        features = model.decoder.teach(tokens[:, :1].expand(-1, steps), encoded, look=False).features
                else:
                    torch.autograd.grad(features.float().square().sum(), learned, allow_unused=True)
                counted.append(work.found.copy())
        found.append(counted)
    for most, short, long in zip((there, back), *found, strict=True):
        each = {name: (long[name] - short[name]) / 4 for name in long if long[name] != short[name]}
        assert sum(each.values()) <= most, str(each)


# -- the laws ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch):
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here, and TRITON_INTERPRET is not set")
    if INTERPRETED:  # several tiles of little
        from regard.attention.fused import launch

        small = {"fits": launch.Tile(4, 8, 4), "see": launch.Tile(16, 16, 4), "ask_back": launch.Tile(16, 8, 4)}
        monkeypatch.setattr(launch, "TILES", {**launch.TILES, **small, "grad_keys": launch.Tile(16, 32, 4)})
        monkeypatch.setattr(rnn_gates, "WIDE", 8)
    return torch.device("cpu" if INTERPRETED else "cuda")


@pytest.fixture
def plainly(monkeypatch):
    """Return what makes everything be computed without kernels, and without gradients at once."""

    def switch():
        monkeypatch.setattr(fused, "runs_kernels", lambda device: False)
        monkeypatch.setattr(rnn_gates, "runs_kernels", lambda device: False)
        monkeypatch.setattr(batched_weight_gradients, "runs_kernels", lambda device: False)

    return switch


def built(device, decoder="bahdanau", cell="gru", score="additive", *more):
    torch.manual_seed(5)
    settings = ["model.encoder.width=8", "model.decoder.width=16", "model.attention.width=13", "model.embedding=9"]
    settings += [f"model.decoder.kind={decoder}", f"model.decoder.cell={cell}", f"model.attention.score={score}"]
    settings += ["model.decoder.readout=tanh", "model.decoder.readout_width=9", "model.dropout=0"]
    settings += [f"model.decoder.input_feeding={'true' if decoder == 'luong' else 'false'}", "model.tie=none", *more]
    return build_model(override(preset("bahdanau2014-small"), settings).model, 31, 31).to(device).train()


def drawn(model, device, batch=B, size=S, seed=1):
    """Tokens, and what an encoder might have yielded, padded."""
    torch.manual_seed(seed)
    tokens = torch.randint(4, 31, (batch, T), device=device)
    source = torch.randint(4, 31, (batch, size), device=device)
    lengths = torch.tensor([size, 3, size - 1], device=device)[:batch]
    mask = torch.arange(size, device=device) < lengths[:, None]
    with torch.no_grad():
        encoded = model.encode(source, mask)
    return tokens, encoded


def learned(model, tokens, encoded, half=False):
    """Features and all gradients of the decoder, in float64."""
    states, summary = (part.detach().clone().requires_grad_() for part in (encoded.states, encoded.summary))
    encoded = encoded._replace(states=states, summary=summary)
    parameters = list(model.decoder.parameters())
    with torch.autocast(tokens.device.type, torch.bfloat16, enabled=half):
        features = model.decoder.teach(tokens, encoded, look=False).features
    weights = torch.linspace(0.1, 1.0, features.numel(), device=features.device, dtype=features.dtype)
    total = (features * weights.view_as(features)).double().sin().sum()
    found = torch.autograd.grad(total, [states, summary, *parameters], allow_unused=True)
    return [features.double(), *(None if one is None else one.double() for one in found)]


def check(ours, right, close):
    for one, two in zip(ours, right, strict=True):
        if one is None or two is None:
            assert one is two
            continue
        assert one.isfinite().all()
        assert (one - two).norm() <= close * (two.norm() + 0.01)


def exactly(model, tokens, encoded, plainly):
    """In float64, without any kernel."""
    plainly()
    exact = encoded._replace(states=encoded.states.double(), summary=encoded.summary.double())
    return learned(model.double(), tokens, exact)


KINDS = [
    *[(decoder, cell, score) for decoder in ("bahdanau", "luong", "conditional") for cell in ("gru", "lstm")
      for score in ("additive", "dot", "general")],
    *[("bahdanau", "gru", score) for score in ("concat", "tanh", "scaled-dot", "cosine")],
]  # fmt: skip
KINDS = [(kind, half) for kind in KINDS for half in (False, True)]
SOME = [
    (("bahdanau", "gru", "additive"), False),
    (("bahdanau", "gru", "additive"), True),
    (("luong", "lstm", "scaled-dot"), False),
    (("conditional", "gru", "tanh"), False),
]
"""What there is time for in the interpreter."""


@gpu
@pytest.mark.parametrize(("kind", "half"), SOME if INTERPRETED else KINDS, ids=str)
def test_decoders_learn_as_the_plain_ones(device, plainly, kind, half):
    model = built(device, *kind)
    given = drawn(model, device)
    ours = learned(model, *given, half)
    check(ours, exactly(model, *given, plainly), CLOSE[half])


@gpu
@pytest.mark.parametrize(
    "more",
    [
        ["model.attention.heads=4", "model.attention.groups=2", "model.attention.learn_temperature=true"],
        ["model.attention.heads=2", "model.attention.score=general", "model.attention.temperature=1.7"],
        ["model.decoder.layers=2", "model.attention.temperature=0.7"],
        ["model.decoder.kind=gnmt", "model.decoder.cell=lstm", "model.encoder.kind=recurrent"],
    ],
    ids=["groups", "heads", "layers", "gnmt"],
)
def test_heads_temperatures_and_layers(device, plainly, more):
    model = built(device, "bahdanau", "gru", "additive", *more)
    given = drawn(model, device, batch=2)
    ours = learned(model, *given)
    check(ours, exactly(model, *given, plainly), 2e-5)


@gpu
@pytest.mark.parametrize("score", ["additive", "dot"])
def test_long_sources_are_looked_at_by_blocks(device, plainly, score):
    model = built(device, "bahdanau", "gru", score)
    given = drawn(model, device, batch=1, size=19 if INTERPRETED else 517)
    ours = learned(model, *given)
    check(ours, exactly(model, *given, plainly), 2e-5)


@gpu
def test_many_steps(device, plainly):
    """As many as let keys' gradients be made of exponentials."""
    model = built(device)
    tokens, encoded = drawn(model, device, batch=1)
    tokens = tokens.repeat(1, 4)
    ours = learned(model, tokens, encoded)
    check(ours, exactly(model, tokens, encoded, plainly), 2e-5)


@gpu
@pytest.mark.parametrize("bent", [False, True], ids=["dot", "tanh"])
def test_what_is_padding_is_not_looked_at(device, bent):
    """All, some and nothing to look at, by four heads of two groups; a row with nothing sees zeros, and learns none."""
    torch.manual_seed(1)
    sizes = [(B, 2, S, 5), (B, 2, S, 11), (4, 5), (B, 4, 1, 5), (B, 4, 1, 5)]
    keys, values, vectors, *queries = given = [torch.randn(size, device=device, requires_grad=True) for size in sizes]
    mask = torch.arange(S, device=device) < torch.tensor([S, 5, 0], device=device)[:, None]

    def plain(keys, values, vectors, *queries):
        keys, values = (part.repeat_interleave(2, dim=1) for part in (keys, values))
        hidden = [torch.tanh(query + keys) * vectors[:, None] if bent else query * keys for query in queries]
        return [masked_softmax(one.sum(dim=-1)[:, :, None], mask[:, None, None]) @ values for one in hidden]

    with batched_weight_gradients.decoder_loop(2, keys, values):
        ours = [fused.step(query, keys, values, mask, vectors if bent else None) for query in queries]
    exact = [one.detach().double().requires_grad_() for one in given]
    right = plain(*exact)
    found = [
        [*seen, *torch.autograd.grad(sum(one.sin().sum() for one in seen), entered, allow_unused=not bent)]
        for seen, entered in ((ours, given), (right, exact))
    ]
    assert (ours[0][2] == 0).all()
    check([None if one is None else one.double() for one in found[0]], found[1], 1e-5)


@gpu
@pytest.mark.parametrize("kind", cells)
@pytest.mark.parametrize("large", [1.0, 30.0])
def test_gates_are_the_plain_ones(device, plainly, kind, large):
    """Of both outputs, at saturated gates too."""
    torch.manual_seed(1)
    cell = cells[kind](3, 13).to(device)
    given = [torch.randn(B, cell.input_size, device=device), torch.randn(B, 13, device=device)]
    given += [torch.randn(B, 13, device=device)] if kind == "lstm" else []

    def found(number):
        entering = [part.to(number).requires_grad_() for part in given]
        inputs, state = entering[0] * large, CellState(*entering[1:])
        with batched_weight_gradients.decoder_loop(T):
            for _ in range(2):
                state = cell.to(number)(inputs, state)
        total = state.hidden.sin().sum() + (0 if state.memory is None else state.memory.cos().sum())
        learns = [p for name, p in cell.named_parameters() if "_hh" in name]
        return [part.double() for part in (state.hidden, *torch.autograd.grad(total, [*entering, *learns]))]

    ours = found(torch.float32)
    plainly()
    check(ours, found(torch.float64), 1e-4)


@gpu
def test_maps_of_the_same_input_are_one_product(device):
    torch.manual_seed(1)
    weights = [torch.randn(4, 6, device=device, requires_grad=True) for _ in range(2)]
    bias = torch.randn(4, device=device, requires_grad=True)
    first = torch.randn(B, 6, device=device, requires_grad=True)

    def found():
        state, total, kinds = first, 0.0, []
        for _ in range(T):
            one = batched_weight_gradients.linear(state[:, None], weights[0])[:, 0]
            two = batched_weight_gradients.linear(state, weights[1], bias)
            kinds.append(one.grad_fn.next_functions[0][0] is two.grad_fn)
            state = torch.cat([one, two], dim=-1)[:, 1:7].tanh()
            total = total + state.sum()
        return kinds, torch.autograd.grad(total, [*weights, bias, first])

    _, right = found()
    with batched_weight_gradients.decoder_loop(T):
        _, ours = found()
        (together,) = [
            one
            for one in batched_weight_gradients._current.get()._shared.values()
            if isinstance(one._waiting, batched_weight_gradients._Together)
        ]
        assert together._steps == T - 1
    check(ours, right, 1e-5)


@gpu
def test_maps_that_read_the_same_by_chance_part_again(device):
    """Like two layers that both start from one state of zeros."""
    weights = [torch.randn(6, 6, device=device, requires_grad=True) for _ in range(2)]
    zero = torch.zeros(B, 6, device=device, requires_grad=True)

    def found():
        low, high, total = zero, zero, 0.0
        for _ in range(T):
            low = (batched_weight_gradients.linear(low, weights[0]) + 0.3).tanh()
            high = (batched_weight_gradients.linear(high, weights[1]) + low).tanh()
            total = total + high.sum()
        return torch.autograd.grad(total, [*weights, zero])

    right = found()
    with batched_weight_gradients.decoder_loop(T):
        ours = found()
    check(ours, right, 1e-5)


@gpu
@pytest.mark.skipif(INTERPRETED, reason="there is no graph to capture")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("half", [False, True], ids=["fp32", "bf16"])
@pytest.mark.parametrize(
    "kind", [("bahdanau", "gru", "additive"), ("luong", "lstm", "general"), ("conditional", "gru", "dot")], ids="-".join
)
def test_steps_can_be_captured_and_replayed_on_other_data(device, kind, half):
    model = built(device, *kind)
    tokens, encoded = drawn(model, device)
    encoded = type(encoded)(*(None if part is None else part.clone() for part in encoded))
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(2):
            learned(model, tokens, encoded, half)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=aside):
        captured = learned(model, tokens, encoded, half)
    other_tokens, other = drawn(model, device, seed=2)
    tokens.copy_(other_tokens)
    for here, there in zip(encoded, other, strict=True):
        if here is not None:
            here.copy_(there)
    graph.replay()
    check(
        [None if one is None else one.clone() for one in captured],
        learned(model, tokens, encoded, half),
        1e-2 if half else 1e-5,
    )
