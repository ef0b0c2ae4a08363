"""Laws of the compiled search: it finds what the search in Python finds, whatever the decoder is made of.

Both sum up floats, in another order: where two hypotheses are as good as one another, each may keep another of them. So
they find the same, unless a search in float64 has seen two that are nearer to each other than `TIE`.
"""

import copy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from known import KNOWN, LENGTHS, WORDS, attention, make, recurrent, sources, transformer
from regard.config import DecodingConfig
from regard.decoding.beam_search import Beam
from regard.decoding.native_search import Engines, in_threads, search_natively, together
from regard.decoding.penalties import length_penalty
from regard.decoding.search import search_for
from regard.decoding.search_loop import run_search
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.token_limits import Rules
from regard.errors import ConfigError, ModelError
from regard.native.decoder import Engine, UnknownError
from regard.native.library import COMPILERS, PRECISIONS, library

BOS, EOS, BANNED = 2, 3, (0, 1, 2)
TIE = 1e-4
"""Log-probabilities of whole hypotheses that differ by less are the same to a search in float32."""

# Where there is a compiler, what does not compile is to fail.
pytestmark = pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C++ compiler")


UNKNOWN = {
    "sparsemax": recurrent("luong", "gru", 1, attention("general", focus="sparsemax"), "tanh"),
    "local": recurrent("luong", "gru", 1, attention("general", reach="local-m", window=2), "tanh"),
    "coverage": recurrent("bahdanau", "gru", 1, attention("additive", coverage="see2017"), "tanh"),
    "rotary": transformer(positions="rotary"),
    "copying": replace(transformer(), copy=True),
    "copying, gru": replace(recurrent("bahdanau", "gru", 1, attention("additive"), "maxout"), copy=True),
    "window": transformer(reach="window", window=2, looks=attention("scaled-dot", heads=2)),
}


def both(model, options, request, cut=((0, 6),)):
    """What Python finds, and what the library finds in batches that are cut so."""
    source, mask = sources()
    with torch.inference_mode():
        plain = search_for(model.decoder, model.encode(source, mask), options, request)
        starts = [model.decoder.start(model.encode(source[a:b], mask[a:b])) for a, b in cut]
        requests = [
            replace(
                request,
                prefix=None if request.prefix is None else request.prefix[a:b],
                words=None if request.words is None else request.words[a:b],
            )
            for a, b in cut
        ]
        return plain, search_natively(Engine(model.decoder, options.precision), starts, options, requests)


class Watched(Beam):
    """A beam that notes, for each sentence, how near what was dropped has ever come to what was kept."""

    def __init__(self, width, sentences):
        super().__init__(width)
        self.nearest = torch.full((sentences,), float("inf"), dtype=torch.float64)

    def __call__(self, totals, possible, length, sentences):
        ranked = (totals[..., None] + possible).flatten(1).topk(self.width + 1).values
        gap = (ranked[:, -2] - ranked[:, -1]).double().nan_to_num(nan=float("inf"))
        self.nearest[sentences] = torch.minimum(self.nearest[sentences], gap)
        return super().__call__(totals, possible, length, sentences)


def nearest(exact, options, request):
    """Search with a model in float64, and return how near each sentence came to being searched otherwise."""
    source, mask = sources()
    with torch.inference_mode():
        watched, encoded = Watched(options.beam, len(mask)), exact.encode(source, mask)
        run_search(exact.decoder, encoded, Rules.make(mask, options, request), request, watched)
    return watched.nearest.tolist()


def exact_score(exact, row, tokens, alpha):
    """What a model in float64 gives to these tokens."""
    source, mask = (part[row : row + 1] for part in sources())
    with torch.inference_mode():
        taught = exact.decoder.teach(torch.tensor([[BOS, *tokens[:-1]]]), exact.encode(source, mask))
        log_probs = exact.decoder.project(taught.features)[0].log_softmax(dim=-1)
    return float(log_probs[range(len(tokens)), tokens].sum()) / length_penalty(len(tokens), alpha)


def check_same_but_ties(model, options, request):
    """Check that the same is found, or something as good; return how many sentences have something else."""
    plain, native = both(model, options, request)
    others = [
        row
        for row, found in enumerate(zip(plain, native, strict=True))
        if len({tuple(tuple(one.tokens) for one in hypotheses) for hypotheses in found}) > 1
    ]
    check_same(*([own for row, own in enumerate(found) if row not in others] for found in (plain, native)))
    exact = copy.deepcopy(model).double() if others else None
    for row in others:
        scores = []
        for found in (plain[row], native[row]):
            scores.append([exact_score(exact, row, one.tokens, options.length_penalty) for one in found])
            assert [one.score for one in found] == pytest.approx(scores[-1], rel=1e-4, abs=1e-4)
        assert scores[0] == pytest.approx(scores[1], rel=0, abs=TIE) or nearest(exact, options, request)[row] < TIE
    return len(others)


def every(found):
    return [hypothesis for hypotheses in found for hypothesis in hypotheses]


def start(model):
    with torch.inference_mode():
        return model.decoder.start(model.encode(*sources()))


def check_same(plain, native):
    assert [len(hypotheses) for hypotheses in native] == [len(hypotheses) for hypotheses in plain]
    for own, other in zip(every(plain), every(native), strict=True):
        assert other.tokens == own.tokens
        assert other.score == pytest.approx(own.score, rel=1e-4, abs=1e-4)
        assert other.log_probs == pytest.approx(own.log_probs, rel=1e-3, abs=1e-4)
        torch.testing.assert_close(other.weights, own.weights, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("config", KNOWN.values(), ids=KNOWN)
def test_it_finds_what_the_search_in_python_finds(config):
    model = make(config)
    for options, n_best in (
        (DecodingConfig(beam=1), 1),
        (DecodingConfig(beam=5), 3),
        (DecodingConfig(beam=4, length_penalty=0.0, min_length=3), 4),
        (DecodingConfig(beam=3, length_penalty=-0.5, max_length=6), 2),
        (DecodingConfig(beam=4, patience=1.0), 2),
    ):
        assert check_same_but_ties(model, options, DecodingRequest(BOS, EOS, BANNED, n_best=n_best)) <= 1


@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer"])
def test_of_equal_logits_greedy_search_takes_the_first(name):
    model, tied = make(KNOWN[name]), [5, 7, 11]
    with torch.no_grad():
        model.decoder.output.weight.zero_()
        model.decoder.output.bias.zero_()
        model.decoder.output.bias[tied] = 3.0
    options = DecodingConfig(beam=1, max_length=4)
    for found in both(model, options, DecodingRequest(BOS, EOS, BANNED)):
        assert [one.tokens for one in every(found)] == [[5] * 4] * len(LENGTHS)


@pytest.mark.parametrize("seed", [842, 1002])
def test_what_it_finds_otherwise_is_as_good(seed):
    """Seeds with which two hypotheses are so near that one of the searches, on some machine, dropped another one."""
    model = make(recurrent("luong", "gru", 2, None, "maxout"), seed)
    for options, n_best in ((DecodingConfig(beam=5), 3), (DecodingConfig(beam=4, length_penalty=0.0, min_length=3), 4)):
        assert check_same_but_ties(model, options, DecodingRequest(BOS, EOS, BANNED, n_best=n_best)) <= 1


@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer"])
def test_prefixes_shortlists_and_batches(name):
    model, options = make(KNOWN[name]), DecodingConfig(beam=4)
    prefix = [[5, 6], [], [7], [], [9, 9, 9], [1]]
    cut = ((0, 2), (2, 3), (3, 6))
    check_same(*both(model, options, DecodingRequest(BOS, EOS, BANNED, prefix, n_best=2), cut))
    words = [np.unique([EOS, 5 + row, 8 + 2 * row, 28, *start]).astype(np.int32) for row, start in enumerate(prefix)]
    plain, native = both(model, options, DecodingRequest(BOS, EOS, BANNED, prefix, n_best=2, words=words), cut)
    check_same(plain, native)
    assert all(set(one.tokens) <= set(own) for own, found in zip(words, native, strict=True) for one in found)


def test_nobody_looked():
    model = make(KNOWN["transformer"])
    plain, native = both(model, DecodingConfig(), DecodingRequest(BOS, EOS, BANNED, look=False))
    check_same(plain, native)
    assert native[0][0].weights.shape == (len(native[0][0].tokens), 0, 1, LENGTHS[0])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads, monkeypatch):
    model, request = make(KNOWN["conditional, gru, additive"]), DecodingRequest(BOS, EOS, BANNED, n_best=3)
    found = both(model, DecodingConfig(), request)[1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr("regard.decoding.native_search.ROWS", 10)
    again = both(model, DecodingConfig(), request)[1]
    assert [one.__dict__ | {"weights": one.weights.tolist()} for one in every(again)] == [
        one.__dict__ | {"weights": one.weights.tolist()} for one in every(found)
    ]


CROWDED = """
import resource, sys, torch
sys.path.append("..")
from test_decoder import *

model = make(KNOWN["conditional, gru, additive"])
engine, begun, stack = Engine(model.decoder), start(model), resource.getrlimit(resource.RLIMIT_STACK)[0]

def found(threads):
    torch.get_num_threads = lambda: threads
    return search_natively(engine, [begun], DecodingConfig(), [DecodingRequest(BOS, EOS, BANNED)])

alone, pages = found(1), int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 5 * stack // 2,) * 2)
check_same(alone, found(16))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits are set as Linux has them")
def test_where_there_is_room_for_few_threads_these_do_all():
    """In a process of its own, with stacks so large that two fit."""
    command = f"ulimit -s {1 << 19} || exit 77; exec '{sys.executable}' -c '{CROWDED}'"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    if ended.returncode == 77:
        pytest.skip("stacks may not be that large here")
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "transformer, additive look"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_helpers_change_nothing(name, precision, monkeypatch):
    """One sentence has all threads, and they share in products as wide as these: not one bit is another."""
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")
    config = KNOWN[name]
    wide = 256 if config.decoder.kind == "transformer" else 192
    sides = {"width": wide, "feed_forward": 1100}
    config = replace(
        config,
        embedding=wide,
        encoder=replace(config.encoder, **sides),
        decoder=replace(config.decoder, **sides, readout_width=wide),
    )
    model, options = make(config, sharpness=1.0), DecodingConfig(beam=5, precision=precision)
    engine, source = Engine(model.decoder, precision), sources((9,))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        with torch.inference_mode():
            begun = model.decoder.start(model.encode(*source))
        (best,) = search_natively(engine, [begun], options, [DecodingRequest(BOS, EOS, BANNED, n_best=5)])
        found.append([one.__dict__ | {"weights": one.weights.tolist()} for one in best])
    assert found[0] == found[1] == found[2]


# -- counted work -----------------------------------------------------------------------------------------------------


class Multiplied(TorchDispatchMode):
    """Counts the multiply-adds of products with matrices, of so many rows."""

    def __init__(self, rows):
        super().__init__()
        self.rows, self.found = rows, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.split(".")[0]
        if name == "linear":
            x, weight = args[:2]
        elif name in ("mm", "addmm"):
            x, weight = args[-2:]
        if name in ("linear", "mm", "addmm") and x.numel() == self.rows * x.shape[-1]:
            self.found += self.rows * weight.numel()
        return function(*args, **(kwargs or {}))


class Living(Beam):
    """A beam that counts the hypotheses that are there to be extended."""

    rows = 0

    def __call__(self, totals, possible, length, sentences):
        self.rows += int((totals > float("-inf")).sum())
        return super().__call__(totals, possible, length, sentences)


def plain_work(model, options, request):
    """The steps that hypotheses take in the plain search, and the multiply-adds of its products with matrices."""
    source, mask = sources()
    with torch.inference_mode():
        encoded, living = model.encode(source, mask), Living(options.beam)
        run_search(model.decoder, encoded, Rules.make(mask, options, request), request, living)
        begun = model.decoder.start(encoded)
        with Multiplied(len(mask)) as each:
            model.decoder.step(torch.full((len(mask),), BOS), begun, False)
    return [living.rows, living.rows * each.found // len(mask)]


def native_work(model, options, request, monkeypatch):
    counted, search = [], Engine.search

    def watched(self, *given):
        found = search(self, *given)
        counted.append(found.work.tolist())
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "search", watched)
        search_natively(Engine(model.decoder, options.precision), [start(model)], options, [request])
    (found,) = counted
    return found


@pytest.mark.parametrize("config", KNOWN.values(), ids=KNOWN)
def test_it_does_no_more_than_the_plain_search_has_to(config, monkeypatch):
    """As many steps, of hypotheses that live, and a product with each matrix at each of them: exactly."""
    model = make(config)
    for options, n_best in (
        (DecodingConfig(beam=1), 1),
        (DecodingConfig(beam=5), 1),
        (DecodingConfig(beam=4, length_penalty=0.0, min_length=3), 2),
        (DecodingConfig(beam=4, patience=1.0), 1),
    ):
        request = DecodingRequest(BOS, EOS, BANNED, n_best=n_best)
        assert native_work(model, options, request, monkeypatch) == plain_work(model, options, request)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_it_multiplies_as_often_in_every_precision_and_with_any_threads(precision, monkeypatch):
    """Tokens are told, so that all write as many."""
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")
    model, options = make(KNOWN["transformer"]), DecodingConfig(beam=1, precision=precision, max_length=6)
    request = DecodingRequest(BOS, EOS, BANNED, [[5, 9, 12, 4, 28, 17]] * len(LENGTHS), look=False)
    for threads in (1, 3, 8):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert native_work(model, options, request, monkeypatch) == plain_work(model, options, request)


def test_a_shortlist_is_all_that_is_multiplied_for(monkeypatch):
    model, options = make(KNOWN["transformer"]), DecodingConfig(beam=1, max_length=6)
    request = DecodingRequest(BOS, EOS, BANNED, [[5, 9, 12, 4, 28, 17]] * len(LENGTHS), look=False)
    words = [np.array([EOS, 4, 5, 9, 12, 17, 28], np.int32)] * len(LENGTHS)
    steps, whole = native_work(model, options, request, monkeypatch)
    assert steps == 6 * len(LENGTHS)
    fewer = steps * (WORDS - 7) * model.decoder.output.in_features
    assert native_work(model, options, replace(request, words=words), monkeypatch) == [steps, whole - fewer]


@pytest.mark.parametrize("config", UNKNOWN.values(), ids=UNKNOWN)
def test_what_it_does_not_know_it_refuses(config):
    model = make(config)
    with pytest.raises(UnknownError):
        Engine(model.decoder)
    assert Engines().find(model, DecodingConfig(), 0, 10) is None


@pytest.mark.parametrize(
    ("options", "candidates"),
    [(DecodingConfig(method="sample"), 0), (DecodingConfig(coverage_penalty=0.1), 0), (DecodingConfig(), 3)],
)
def test_what_only_python_can_do_is_left_to_it(options, candidates):
    assert Engines().find(make(KNOWN["transformer"]), options, candidates, 10) is None


def test_a_precision_that_is_not_followed_is_told_of_once(caplog):
    engines, options = Engines(), DecodingConfig(precision="int8", coverage_penalty=0.2)
    for _ in range(2):
        engines.find(make(KNOWN["transformer"]), options, 0, 10)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("decoding.precision=int8 (for --fast) is not available: ")
    assert Engines().find(make(KNOWN["transformer"]), DecodingConfig(coverage_penalty=0.2), 0, 10) is None
    assert len(caplog.messages) == 1


def test_an_engine_is_kept_until_weights_change():
    model, engines = make(KNOWN["transformer"]), Engines()
    engine = engines.find(model, DecodingConfig(), 0, 10)
    assert engines.find(model, DecodingConfig(beam=2), 0, 500) is engine
    with torch.no_grad():
        model.decoder.output.bias.add_(1.0)
    assert engines.find(model, DecodingConfig(), 0, 10) is not engine


def trained_by(optimizer):
    def change(model):
        for weight in model.parameters():
            weight.grad = torch.ones_like(weight)
        optimizer(model.parameters(), lr=0.01, fused=True).step()

    return change


UNCOUNTED = {
    "Adam": trained_by(torch.optim.Adam),
    "SGD": trained_by(torch.optim.SGD),
    "data": lambda model: model.source_embedding.weight.data.mul_(3.0),
}


@pytest.mark.parametrize("change", UNCOUNTED.values(), ids=UNCOUNTED)
def test_changes_that_torch_does_not_count_are_seen(change):
    model, engines = make(KNOWN["luong, gru, general"]), Engines()
    engine = engines.find(model, DecodingConfig(), 0, 10)
    change(model)
    assert engines.find(model, DecodingConfig(), 0, 10) is not engine


def test_one_engine_is_kept_for_sources_of_all_lengths():
    model, engines = make(KNOWN["transformer"]), Engines()
    long = [engines.find(model, DecodingConfig(), 0, longest) for longest in (3, 600, 20, 1000, 600)]
    assert long[0] is not long[1]
    assert len(set(long[1:])) == 1
    assert engines.find(model, DecodingConfig(), 0, 1025) is not long[1]
    assert len(engines._made) == 1


def test_weights_made_in_inference_mode_have_an_engine_that_is_kept():
    with torch.inference_mode():
        model = make(KNOWN["transformer"])
    engines = Engines()
    engine = engines.find(model, DecodingConfig(), 0, 10)
    assert engine is not None
    assert engines.find(model, DecodingConfig(), 0, 10) is engine


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "name", ["output.bias", "output.weight", "stack.1.feed_forward.W_1.weight", "embedding.weight"]
)
def test_numbers_that_are_none_are_seen(name, bad, precision):
    """Also where they are rounded to whole numbers, which are always some."""
    offered(precision)
    model = make(KNOWN["transformer"])
    with torch.no_grad():
        weight = model.decoder.get_parameter(name)
        weight[(BOS if name == "embedding.weight" else 7, *([3] * (weight.dim() - 1)))] = bad
    with pytest.raises(ModelError, match="logits for token 1 are not finite"):
        search_natively(
            Engine(model.decoder, precision), [start(model)], DecodingConfig(), [DecodingRequest(BOS, EOS, BANNED)]
        )


def test_what_no_search_can_follow_is_refused():
    model = make(KNOWN["transformer"])
    with pytest.raises(ConfigError, match="All 29 tokens of the vocabulary are banned"):
        search_natively(
            Engine(model.decoder), [start(model)], DecodingConfig(), [DecodingRequest(BOS, EOS, range(WORDS))]
        )


@pytest.mark.parametrize(("precision", "near"), [("float32", 1e-6), ("bfloat16", 0.01), ("int8", 0.02)])
def test_products(precision, near):
    """Over odd sizes, one row to many: as exact as the precision is, for every row and output by itself."""
    offered(precision)
    rng = np.random.default_rng(1)
    for rows, outputs, inputs in ((1, 3, 5), (5, 64, 64), (7, 130, 33), (40, 67, 1100)):
        sizes = (10.0 ** rng.integers(-3, 4, size=(count, 1)) for count in (rows, outputs))
        x, w = ((size * rng.normal(size=(len(size), inputs))).astype(np.float32) for size in sizes)
        bias, y = np.zeros(outputs, np.float32), np.zeros((rows, outputs), np.float32)
        at = (x.ctypes.data, rows, w.ctypes.data, bias.ctypes.data, outputs, inputs, PRECISIONS.index(precision))
        library().calls.regard_product(*at, y.ctypes.data)
        exact = x.astype(np.float64) @ w.T.astype(np.float64)
        scale = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(w, axis=1) / np.sqrt(inputs)
        assert np.abs((y - exact) / scale).max() < 5 * near
        assert np.sqrt(np.square((y - exact) / scale).mean()) < near


def test_a_bias_is_added():
    x, w = np.zeros((2, 3), np.float32), np.ones((4, 3), np.float32)
    bias, y = np.arange(4, dtype=np.float32), np.zeros((2, 4), np.float32)
    library().calls.regard_product(x.ctypes.data, 2, w.ctypes.data, bias.ctypes.data, 4, 3, 0, y.ctypes.data)
    assert y.tolist() == [[0, 1, 2, 3]] * 2


def offered(precision):
    if not library().offers(precision):
        pytest.skip(f"this machine does not multiply in {precision}")


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("name", ["luong, lstm, additive, fed", "conditional, gru, additive", "transformer"])
def test_lower_precisions_are_near(name, precision):
    """The same tokens are scored nearly as float32 scores them."""
    offered(precision)
    model, request = (
        make(KNOWN[name], sharpness=1.0),
        DecodingRequest(BOS, EOS, BANNED, [[5, 9, 12, 4, 28, 17]] * len(LENGTHS)),
    )
    exact, rough = (
        np.array([found[0].log_probs[:6] for found in both(model, DecodingConfig(precision=kind), request)[1]])
        for kind in ("float32", precision)
    )
    assert 0 < np.abs(exact - rough).max() < 0.1


def test_jobs_are_done_in_order_and_threads_are_given_back():
    before = torch.get_num_threads()
    assert in_threads(lambda job: (job, torch.get_num_threads()), [3, 1, 2]) == [(3, 1), (1, 1), (2, 1)]
    assert torch.get_num_threads() == before


def test_batches_are_put_together_up_to_a_size(monkeypatch):
    monkeypatch.setattr("regard.decoding.native_search.PLACES", 10)
    assert together([[0, 1], [2], [3, 4, 5]], [4, 2, 2, 9, 1, 1]) == [[[0, 1], [2]], [[3, 4, 5]]]
