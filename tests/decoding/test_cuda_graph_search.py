"""The search in fixed shapes finds what the plain one finds. On a CPU its steps are called instead of replayed."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import DecodingConfig
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding import cuda_graph_search as module
from regard.decoding.cuda_graph_search import SearchGraphs
from regard.decoding.search import search_for
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.static_search import SearchBuffers
from regard.decoding.translator import Translator
from regard.errors import ModelError
from regard.models.build import build_model
from regard.presets import preset, presets

BOS, EOS, BANNED = 2, 3, (0, 1, 2)
WORDS = 61
NARROW = ("embedding=16", "encoder.width=16", "decoder.width=16", "tie=none", "decoder.readout_width=16")
LENGTHS = (7, 2, 11, 5, 3, 13, 1, 4, 6, 8)
EVERY = sorted(name for name in presets if name.endswith("-small"))


def model_of(name, *changes, seed=0, device="cpu"):
    """A small model with strong opinions, some of which are to end."""
    torch.manual_seed(seed)
    config = override(preset(name), [f"model.{change}" for change in (*NARROW, *changes)])
    model = build_model(config.model, WORDS, WORDS).eval()
    with torch.no_grad():
        model.decoder.output.weight.mul_(4.0)
        if model.decoder.output.bias is not None:
            model.decoder.output.bias.normal_(std=0.5)
            model.decoder.output.bias[EOS] += 1.5
    return model.to(device)


def read(model, lengths=LENGTHS, padding=0, seed=0):
    device = next(model.parameters()).device
    drawn = torch.Generator().manual_seed(seed)
    source = torch.randint(4, WORDS, (len(lengths), max(lengths) + padding), generator=drawn)
    mask = torch.arange(source.shape[1]) < torch.tensor(lengths)[:, None]
    with torch.inference_mode():
        return model.encode(source.masked_fill(~mask, 0).to(device), mask.to(device))


def both(model, encoded, options, graphs, n_best=1):
    request = DecodingRequest(BOS, EOS, BANNED, n_best=n_best, look=False, most=model.decoder.most)
    assert graphs.supports(options, request)
    return graphs.search(model.decoder, encoded, options, request), search_for(model.decoder, encoded, options, request)


def assert_same(found, expected):
    assert found is not None
    assert [[one.tokens for one in own] for own in found] == [[one.tokens for one in own] for own in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one.score, other.score, rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(one.log_probs, other.log_probs, rtol=1e-4, atol=1e-4)
            assert one.weights.shape == other.weights.shape


OPTIONS = [
    DecodingConfig(beam=5),
    DecodingConfig(beam=1, length_penalty=0.0, min_length=3),
    DecodingConfig(beam=5, length_penalty=-2.0, min_length=4, max_length=20),
    DecodingConfig(beam=3, patience=1.0, max_length=40),
]
OFTEN = ("bahdanau2014-small", "transformer2017-small")
UNSTEADY = ("cheng", "lm-attention", "luong2015-local")
"""Decoders that look at a past that grows, or ask how far to look."""


COPYING = ("bahdanau2014-small", "luong2015-small", "gnmt2016-small", "transformer2017-small")


@pytest.mark.parametrize("name", COPYING)
@pytest.mark.parametrize("options", OPTIONS[:2], ids=["beam", "greedy"])
def test_what_copies_finds_what_the_plain_search_finds(name, options):
    model = model_of(name, "copy=true")
    assert_same(*both(model, read(model), options, SearchGraphs(smallest=1)))


@pytest.mark.parametrize("name", EVERY)
def test_it_finds_what_the_plain_search_finds(name):
    model, graphs = model_of(name), SearchGraphs(smallest=1)
    for number, options in enumerate(OPTIONS if name in OFTEN else OPTIONS[:2]):
        encoded, n_best = read(model, padding=number % 3, seed=number), min(options.beam, 1 + number)
        if name.startswith(UNSTEADY):
            request = DecodingRequest(BOS, EOS, BANNED, n_best=n_best, look=False, most=model.decoder.most)
            assert graphs.search(model.decoder, encoded, options, request) is None
        else:
            assert_same(*both(model, encoded, options, graphs, n_best=n_best))


POSITIONS = ["learned", "sinusoidal", "rotary", "alibi", "shaw"]


@pytest.mark.parametrize("positions", POSITIONS)
def test_it_knows_where_it_stands(positions):
    model = model_of("transformer2017-small", f"positions={positions}")
    assert_same(*both(model, read(model), OPTIONS[0], SearchGraphs(smallest=1), n_best=3))


@pytest.mark.parametrize("name", ["bahdanau2014-small", "transformer2017-small"])
def test_batches_that_use_buffers_again_know_nothing_of_each_other(name, monkeypatch):
    """Buffers that are small and soon full: sentences move often, to fewer places and to room for more steps."""
    monkeypatch.setattr(module, "SENTENCES", (1, 2))
    monkeypatch.setattr(module, "STEPS", 4)
    monkeypatch.setattr(module, "SHARE", 2)
    model, graphs, options = model_of(name), SearchGraphs(smallest=1), DecodingConfig(beam=4, length_penalty=0.6)
    moved = count_moves(monkeypatch)
    for seed, lengths in enumerate([LENGTHS, LENGTHS[:5], (3,), LENGTHS[::-1], (9, 9), LENGTHS]):
        assert_same(*both(model, read(model, lengths, seed=seed), options, graphs, n_best=2))
    assert {"fewer", "longer"} <= moved if name.startswith("transformer") else "fewer" in moved
    shapes = [buffers.shape for buffers in graphs._buffers.values()]
    assert len(set(shapes)) == len(shapes)


def count_moves(monkeypatch):
    seen, take_over = set(), SearchBuffers.take_over

    def watched(self, other, places):
        seen.add("fewer" if self.shape.sentences < other.shape.sentences else "longer")
        take_over(self, other, places)

    monkeypatch.setattr(SearchBuffers, "take_over", watched)
    return seen


def test_other_weights_are_another_model():
    """Weights that change in place are read as they are; where they stand elsewhere, buffers are made anew."""
    model, graphs, options = model_of("luong2015-small"), SearchGraphs(), DecodingConfig(beam=2)
    encoded = read(model)
    assert_same(*both(model, encoded, options, graphs))
    with torch.no_grad():
        model.decoder.output.bias.add_(torch.randn(WORDS))
    assert_same(*both(model, encoded, options, graphs))
    model.decoder.output.weight = torch.nn.Parameter(model.decoder.output.weight.flip(0))
    assert_same(*both(model, encoded, options, graphs))


def test_what_is_no_number_is_told_as_by_the_plain_search():
    model = model_of("luong2015-small")
    with torch.no_grad():
        model.decoder.output.weight.fill_(float("nan"))
    encoded, request = read(model), DecodingRequest(BOS, EOS, BANNED, look=False)
    said = []
    for search in (SearchGraphs().search, search_for):
        with pytest.raises(ModelError) as caught:
            search(model.decoder, encoded, DecodingConfig(beam=3), request)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    "asked",
    [
        {"look": True},
        {"candidates": 3},
        {"prefix": [[4], []]},
        {"words": [np.array([3, 4], np.int32)] * 2},
    ],
)
def test_what_it_does_not_know_is_left_to_the_plain_search(asked):
    assert not SearchGraphs.supports(DecodingConfig(), DecodingRequest(BOS, EOS, **{"look": False, **asked}))
    assert not SearchGraphs.supports(DecodingConfig(method="sample"), DecodingRequest(BOS, EOS, look=False))
    assert not SearchGraphs.supports(DecodingConfig(coverage_penalty=0.1), DecodingRequest(BOS, EOS, look=False))
    assert SearchGraphs.supports(DecodingConfig(), DecodingRequest(BOS, EOS, look=False, prefix=[[], []]))


# -- on a GPU, by recorded graphs -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize(
    "name", ["bahdanau2014-small", "luong2015-small", "gnmt2016-small", "sutskever2014-small", "transformer2017-small"]
)
def test_recorded_steps_find_what_the_plain_search_finds(name, beam):
    model, graphs = model_of(name, device="cuda"), SearchGraphs(smallest=8)
    many = LENGTHS * 9
    for seed, lengths in enumerate([many, LENGTHS, (3,), many[::-1], LENGTHS[:7], many]):
        options = DecodingConfig(beam=beam, length_penalty=0.6, max_length=40)
        assert_close(*both(model, read(model, lengths, seed=seed), options, graphs, n_best=min(beam, 2)))
    assert all(buffers.graph is not None for buffers in graphs._buffers.values())


class Asking(TorchDispatchMode):
    """Counts how often the host asks for one number."""

    asked = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.asked += function is torch.ops.aten._local_scalar_dense.default
        return function(*args, **(kwargs or {}))


def test_longer_searches_ask_for_no_more():
    """A host that asks for a number makes a GPU wait: once at the end, and not at a step."""
    model, found = model_of("bahdanau2014-small"), []
    encoded, request = read(model), DecodingRequest(BOS, EOS, BANNED, look=False)
    for steps in (4, 31):
        options = DecodingConfig(beam=5, min_length=steps, max_length=steps + 1)
        with torch.inference_mode(), Asking() as asking:
            found.append(SearchGraphs(captures=False).search(model.decoder, encoded, options, request))
        assert asking.asked <= 1
    assert [min(len(one.tokens) for (one,) in own) for own in found] == [5, 32]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["bahdanau2014-small", "transformer2017-small"])
def test_a_search_waits_for_the_gpu_only_at_its_end(name):
    """While steps are taken nothing asks the device: torch would warn."""
    model, graphs, options = model_of(name, device="cuda"), SearchGraphs(), DecodingConfig(beam=5, min_length=30)
    encoded, request = read(model), DecodingRequest(BOS, EOS, BANNED, look=False)
    with torch.inference_mode():
        graphs.search(model.decoder, encoded, options, request)
        (buffers, *_) = graphs._buffers.values()
        torch.cuda.set_sync_debug_mode("error")
        try:
            buffers.begin(encoded, [40] * len(encoded.mask))
            for _ in range(20):
                buffers.advance()
        finally:
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.gpu
def test_texts_are_translated_on_a_gpu_as_on_a_cpu():
    source, target = (Words([f"{letter}{n}" for n in range(WORDS - 4)]) for letter in "st")
    model = model_of("bahdanau2014-small")
    texts = [" ".join(f"s{(n * 7 + at) % 50}" for at in range(1 + n % 11)) for n in range(100)]
    options = DecodingConfig(beam=5, max_length=30)
    expected = Translator(model, Tokenizers(source, target), options).translate(texts, look=False)
    translator = Translator(model.cuda(), Tokenizers(source, target), options)
    for batch in (None, 64, 7):
        found = translator.translate(texts, look=False, batch_size=batch)
        same = sum(ours.text == theirs.text for ours, theirs in zip(found, expected, strict=True))
        assert same >= 97
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], rel=1e-3, abs=1e-3)
    assert translator._graphs._buffers
    assert all(buffers.graph is not None for buffers in translator._graphs._buffers.values())


def assert_close(found, expected):
    """The same but for what rounding decides: nearly all tokens, and scores as good."""
    assert found is not None
    same = sum(ours[0].tokens == theirs[0].tokens for ours, theirs in zip(found, expected, strict=True))
    assert same >= 0.97 * len(found), f"{same} of {len(found)}"
    for ours, theirs in zip(found, expected, strict=True):
        assert ours[0].score == pytest.approx(theirs[0].score, rel=1e-3, abs=1e-3)
