"""Each focus against its definition written out with loops, and what only some of them promise."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from regard.attention import Carry, build_attention, focuses
from regard.attention.base import Sizes
from regard.config import AttentionConfig
from regard.errors import ConfigError

B, H, T, S = 3, 2, 5, 7
SPARSE = ("sparsemax", "entmax")
DRAWN = ("hard", "gumbel")


def make(name, heads=H, **sizes):
    return focuses[name](Sizes(query=11, key=11, heads=heads, **sizes)).double()


@pytest.fixture
def rows():
    """Scores on both sides of what a sparse focus keeps, and what is allowed: prefixes, holes, one, and nothing."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(B, H, T, S, generator=generator, dtype=torch.float64)
    allowed = torch.rand(B, 1, T, S, generator=generator) < 0.7
    allowed[0, 0, 0], allowed[1, 0, 1], allowed[1, 0, 2] = True, False, torch.arange(S) == 3
    return scores, allowed


# -- each by its definition, one row at a time; in evaluation --------------------------------------------------------


def naive_softmax(scores):
    return [math.exp(e) / sum(math.exp(other) for other in scores) for e in scores]


def bisect(total):
    """Find where a falling function of the threshold is one."""
    low, high = -100.0, 100.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) > 1 else (low, middle)
    return low


def naive_sparsemax(scores):
    tau = bisect(lambda tau: sum(max(e - tau, 0.0) for e in scores))
    return [max(e - tau, 0.0) for e in scores]


def naive_entmax(scores):
    tau = bisect(lambda tau: sum(max(e / 2 - tau, 0.0) ** 2 for e in scores))
    return [max(e / 2 - tau, 0.0) ** 2 for e in scores]


def naive_argmax(scores):
    best = 0
    for place, e in enumerate(scores):
        best = place if e > scores[best] else best
    return [float(place == best) for place in range(len(scores))]


def naive_first_that_fits(scores, r=-1.0):
    """The first look of monotonic attention: from the first position on, stop where sigmoid(e + r) > 1/2."""
    for place, e in enumerate(scores):
        if 1 / (1 + math.exp(-(e + r))) > 0.5:
            return [float(place == other) for other in range(len(scores))]
    return [0.0] * len(scores)


NAIVE = {
    "softmax": naive_softmax,
    "sparsemax": naive_sparsemax,
    "entmax": naive_entmax,
    "hard": naive_argmax,
    "gumbel": naive_argmax,
    "monotonic": naive_first_that_fits,
}


def test_every_focus_has_a_naive_reference():
    assert set(NAIVE) == set(focuses)


@pytest.mark.parametrize("name", list(NAIVE))
def test_equals_the_definition(name, rows):
    scores, allowed = rows
    focus = make(name).eval()
    for t in range(T):
        at = slice(t, t + 1)  # monotonic takes one at a time
        got = focus(scores[:, :, at], allowed[:, :, at]).weights
        for b, h in itertools.product(range(B), range(H)):
            real = [s for s in range(S) if allowed[b, 0, t, s]]
            expected = torch.zeros(S, dtype=torch.float64)
            if real:
                expected[real] = torch.tensor(NAIVE[name]([scores[b, h, t, s].item() for s in real])).double()
            torch.testing.assert_close(got[b, h, 0], expected)


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_focuses_give_exactly_nothing_to_some_and_something_to_several(name, rows):
    scores, allowed = rows
    kept = (make(name)(scores, allowed).weights > 0).sum(dim=-1)
    reals = allowed.sum(dim=-1).expand_as(kept)
    assert ((kept < reals) & (kept > 1)).any()


def test_sparsemax_of_two_is_a_clipped_line():
    """Martins & Astudillo 2016, section 2.4: of (t, 0) it is t/2 + 1/2, between 0 and 1."""
    t = torch.linspace(-2, 2, 17, dtype=torch.float64)
    scores = torch.stack([t, torch.zeros_like(t)], dim=-1)[None, None]
    got = make("sparsemax", heads=1)(scores, torch.ones_like(scores, dtype=torch.bool)).weights[0, 0, :, 0]
    torch.testing.assert_close(got, (t / 2 + 0.5).clamp(0, 1))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_sparse_focuses_hold_for_long_rows_in_float32(name, scale):
    """Sums over thousands of low scores must not wash out the few that count."""
    torch.manual_seed(1)
    scores = scale * torch.randn(2, 1, 3, 4099) + 100
    allowed = torch.ones(2, 1, 1, 4099, dtype=torch.bool)
    got = focuses[name](Sizes(11, 11))(scores, allowed).weights
    exact = focuses[name](Sizes(11, 11))(scores.double(), allowed).weights
    torch.testing.assert_close(got.double(), exact, atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(got.sum(dim=-1), torch.ones(2, 1, 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", [name for name in focuses if name not in DRAWN])
def test_gradients_are_those_of_finite_differences(name, rows):
    scores, allowed = rows
    focus = make(name).train()
    steps = slice(0, 1) if focus.goes_on else slice(0, T)
    scores, allowed = scores[:, :, steps].clone().requires_grad_(), allowed[:, :, steps]

    def weights(e):
        torch.manual_seed(2)  # the same noise every time
        return focus(e, allowed).weights

    assert torch.autograd.gradcheck(weights, (scores,))


# -- the laws of a focus, also where it draws ------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", list(focuses))
def test_what_is_forbidden_gets_exactly_nothing_forward_and_backward(name, training, rows):
    scores, allowed = rows
    focus = make(name).train(training)
    for t in range(T) if focus.goes_on else [slice(0, T)]:
        at = slice(t, t + 1) if isinstance(t, int) else t
        some, real = scores[:, :, at].clone().requires_grad_(), allowed[:, :, at].expand(B, H, -1, S)
        torch.manual_seed(3)
        focused = focus(some, allowed[:, :, at])
        torch.manual_seed(3)
        again = focus(some.detach().masked_fill(~real, 1e300), allowed[:, :, at])
        assert torch.equal(focused.weights, again.weights)
        assert (focused.weights[~real] == 0).all()
        assert (focused.weights >= 0).all()
        assert (focused.weights.sum(dim=-1) <= 1 + 1e-12).all()
        told = [part for part in focused[:3] if part is not None and part.requires_grad]
        if told:
            sum((part * torch.randn_like(part)).sum() for part in told).backward()
            assert some.grad.isfinite().all()
            assert (some.grad[~real] == 0).all()
            nothing = ~real.any(dim=-1)
            assert all((part[nothing] == 0).all() for part in focused[:3] if part is not None)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", list(focuses))
def test_half_precision_is_normalised_in_float32_and_returned_as_it_came(name, dtype, training):
    """2,048 equal scores: their softmax sums to one in float32 and to anything in half precision."""
    focus = focuses[name](Sizes(11, 11)).train(training)
    scores = torch.full((1, 1, 1, 2048), 0.1, dtype=dtype)
    scores[..., :3] = torch.tensor([0.2, 3.0, 2.5])
    allowed = torch.ones(1, 1, 1, 2048, dtype=torch.bool)
    torch.manual_seed(1)
    got = focus(scores, allowed)
    torch.manual_seed(1)
    exact = focus(scores.float(), allowed)
    assert got.weights.dtype == dtype
    torch.testing.assert_close(got.weights, exact.weights.to(dtype))
    for one, other in zip(got[1:3], exact[1:3], strict=True):
        assert (one is None) == (other is None)
        assert one is None or (one.dtype == torch.float32 and torch.equal(one, other))


# -- drawing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DRAWN)
def test_draws_follow_the_softmax(name):
    torch.manual_seed(1)
    scores = torch.tensor([1.0, 0.0, 9.0, 2.0, -1.0], dtype=torch.float64)
    allowed = torch.tensor([True, True, False, True, True])
    many = 20_000
    focus = make(name, heads=1, soft_chance=0.0).train()
    drawn = focus(scores.expand(many, 1, 1, 5), allowed.expand(many, 1, 1, 5)).weights[:, 0, 0]
    assert ((drawn == 0) | (drawn == 1)).all()
    assert (drawn.sum(dim=-1) == 1).all()
    expected = torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1)
    # Five standard deviations of a frequency.
    assert ((drawn.mean(dim=0) - expected).abs() <= 5 * (expected * (1 - expected) / many).sqrt()).all()


def test_hard_tells_the_probability_of_its_draw_and_the_entropy(rows):
    torch.manual_seed(2)
    scores, allowed = rows
    focused = make("hard", soft_chance=0.0).train()(scores, allowed)
    for b, h, t in itertools.product(range(B), range(H), range(T)):
        real = [s for s in range(S) if allowed[b, 0, t, s]]
        probabilities = dict(zip(real, naive_softmax([scores[b, h, t, s].item() for s in real]), strict=True))
        entropy = -sum(p * math.log(p) for p in probabilities.values())
        assert focused.entropy[b, h, t].item() == pytest.approx(entropy)
        drawn = [s for s in range(S) if focused.weights[b, h, t, s] == 1]
        assert len(drawn) == bool(real)
        expected = math.log(probabilities[drawn[0]]) if drawn else 0.0
        assert focused.log_prob[b, h, t].item() == pytest.approx(expected)


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_hard_is_soft_as_often_as_it_is_told_to(chance):
    torch.manual_seed(3)
    many = 2_000
    scores = torch.randn(many, 2, 1, S, dtype=torch.float64)
    allowed = torch.ones(many, 1, 1, S, dtype=torch.bool)
    focused = make("hard", soft_chance=chance).train()(scores, allowed)
    soft = torch.isclose(focused.weights, torch.softmax(scores, dim=-1)).all(dim=-1)
    assert soft.double().mean().item() == pytest.approx(chance, abs=0.06)
    assert torch.equal(soft[:, 0], soft[:, 1])  # all heads alike
    assert torch.equal(soft, focused.log_prob == 0)
    assert (focused.weights[~soft].amax(dim=-1) == 1).all()


def test_hard_is_soft_until_its_first_steps_are_over():
    hard = make("hard", soft_chance=0.0, soft_first=2).train()
    scores = torch.randn(50, 2, 1, S, dtype=torch.float64)
    allowed = torch.ones(50, 1, 1, S, dtype=torch.bool)
    for step in range(4):
        focused = hard(scores, allowed)
        assert torch.equal(focused.log_prob == 0, torch.full((50, 2, 1), step < 2))
        hard.update(torch.tensor(-1.0))
    kept = make("hard", soft_chance=0.0, soft_first=2).train()
    kept.load_state_dict(hard.state_dict())
    assert (kept(scores, allowed).log_prob != 0).all()


@pytest.mark.parametrize(
    ("reach", "coverage"),
    [("global", "none"), ("local-m", "none"), ("local-p", "none"), ("window", "none"), ("global", "see2017")],
)
def test_hard_looks_at_one_position_and_tells_what_it_drew_from(reach, coverage):
    """A loss of the weights has the gradient that it has in soft attention; what is seen is the draw's."""
    width, steps, told = 11, 1 if coverage != "none" else T, []
    for focus in ("softmax", "hard"):
        torch.manual_seed(3)
        config = AttentionConfig("additive", reach=reach, focus=focus, width=5, window=2, soft_chance=0.0)
        config = replace(config, coverage=coverage)  # whose first look depends on no draw
        attention = build_attention(config, width, width, itself=reach == "window").double().train()
        states = torch.randn(B, S, width, dtype=torch.float64)
        query = states[:, :steps] if reach == "window" else torch.randn(B, steps, width, dtype=torch.float64)
        attended = attention(query, attention.remember(states, torch.ones(B, S, dtype=torch.bool)))
        attended.weights[..., 2].clamp_min(1e-9).log().sum().backward()
        told.append([attended.weights.detach(), *(weight.grad for weight in attention.score.parameters())])
    torch.testing.assert_close(told[1], told[0])
    if reach != "local-p":  # whose window fades
        apart = (attended.context[:, :, None] - states[:, None]).abs().amax(dim=-1)
        assert (apart.amin(dim=-1) < 1e-12).all()


def test_reinforce_is_an_unbiased_gradient_of_the_expected_reward():
    """With any baseline: the mean over many draws of (reward - b) ∇ log p is ∇ of the expected reward."""
    torch.manual_seed(4)
    many = 40_000
    scores = torch.tensor([0.5, -0.3, 1.0], dtype=torch.float64)
    reward = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    exact = scores.clone().requires_grad_()
    (torch.softmax(exact, dim=-1) * reward).sum().backward()
    rows = scores.clone().requires_grad_()
    allowed = torch.ones(many, 1, 1, 3, dtype=torch.bool)
    focused = make("hard", heads=1, soft_chance=0.0).train()(rows.expand(many, 1, 1, 3), allowed)
    (through,) = torch.autograd.grad((focused.weights * reward).sum(), rows, retain_graph=True)
    assert (through == 0).all()  # none passes through the draws themselves
    advantage = (focused.weights.detach() * reward).sum(dim=-1) - 0.7
    (advantage * focused.log_prob).mean().backward()
    torch.testing.assert_close(rows.grad, exact.grad, atol=0.02, rtol=0)


def test_the_baseline_is_a_moving_average_that_checkpoints_keep():
    hard = make("hard")
    expected = 0.0
    for reached in (-3.0, -2.5, 1.0):
        hard.update(torch.tensor(reached, dtype=torch.float64, requires_grad=True))
        expected = 0.9 * expected + 0.1 * reached
        assert hard.baseline.item() == pytest.approx(expected)
    kept = dict(hard.named_parameters())
    assert kept.keys() == {"baseline", "steps"}  # as parameters, which model folders and averages are made of
    assert {parameter.shape for parameter in kept.values()} == {(1,)}
    assert not any(parameter.requires_grad for parameter in kept.values())  # so who counts what is learnt finds nothing


def test_gumbel_has_the_gradient_of_its_relaxation(rows):
    scores, allowed = rows
    scores = scores.requires_grad_()
    values = torch.randn(S, dtype=torch.float64)
    torch.manual_seed(5)
    weights = make("gumbel").train()(scores, allowed).weights
    assert ((weights == 0) | (weights == 1)).all()
    (got,) = torch.autograd.grad((weights @ values).square().sum(), scores)
    torch.manual_seed(5)
    noise = -torch.log(torch.empty_like(scores).exponential_())
    soft = torch.softmax((scores + noise).masked_fill(~allowed, -torch.inf), dim=-1).nan_to_num(0.0)
    upstream = 2 * (weights @ values).detach()
    (expected,) = torch.autograd.grad(((soft @ values) * upstream).sum(), scores)
    torch.testing.assert_close(got, expected.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0))


@pytest.mark.parametrize("chance", [-0.1, 1.5, float("nan")])
def test_a_chance_that_is_none_is_refused(chance):
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig(focus="hard", soft_chance=chance), 11, 11)
    assert str(caught.value) == f"model.attention.soft_chance must be between 0 and 1, got {chance}."


# -- monotonic -------------------------------------------------------------------------------------------------------


def looks(scores, allowed, training):
    """Run monotonic attention over steps, and return the weights of each."""
    focus = make("monotonic").train(training)
    last, found = None, []
    for t in range(scores.shape[2]):
        focused = focus(scores[:, :, t : t + 1], allowed[:, :, t : t + 1], last)
        place = focused.weights if focused.place is None else focused.place
        last = place[:, :, 0]
        found.append(focused.weights)
    return torch.cat(found, dim=2)


def test_monotonic_training_is_the_expectation_over_all_ways_to_stop(rows):
    """Go through all places where the last look may have stopped, and all where this one may."""
    scores, _ = rows
    allowed = torch.rand(B, 1, 1, S, generator=torch.Generator().manual_seed(4)) < 0.8
    torch.manual_seed(6)
    got = looks(scores, allowed.expand(B, 1, T, S), training=True)
    torch.manual_seed(6)
    noise = torch.stack([torch.randn(B, H, S, dtype=torch.float64) for _ in range(T)], dim=2)
    stop = torch.sigmoid(scores + noise - 1.0)
    for b, h in itertools.product(range(B), range(H)):
        before = [1.0] + [0.0] * (S - 1)
        for t in range(T):
            now = [0.0] * S
            for start, place in itertools.combinations_with_replacement(range(S), 2):
                way = before[start] * allowed[b, 0, 0, place].item()
                for passed in range(start, place):
                    way *= 1 - stop[b, h, t, passed].item() * allowed[b, 0, 0, passed].item()
                now[place] += way * stop[b, h, t, place].item()
            torch.testing.assert_close(got[b, h, t], torch.tensor(now, dtype=torch.float64))
            before = now


def test_monotonic_evaluation_moves_over_the_source_once():
    """Raffel et al. 2017, algorithm 1, with a bound of 1/2 for the draw."""
    generator = torch.Generator().manual_seed(7)
    scores = 2 * torch.randn(B, H, 11, S, generator=generator, dtype=torch.float64)
    mask = torch.arange(S) < torch.tensor([S, 5, 2])[:, None]
    got = looks(scores, mask[:, None, None].expand(B, 1, 11, S), training=False)
    nothing = 0
    for b, h in itertools.product(range(B), range(H)):
        stands = 0
        for t in range(11):
            expected = torch.zeros(S, dtype=torch.float64)
            for j in range(stands, int(mask[b].sum())):
                if torch.sigmoid(scores[b, h, t, j] - 1.0) > 0.5:
                    expected[j], stands = 1.0, j
                    break
            assert torch.equal(got[b, h, t], expected)
            nothing += int(expected.sum() == 0)
    assert 0 < nothing < B * H * 11


def test_after_a_look_at_nothing_monotonic_goes_on_from_where_it_stood():
    focus = make("monotonic", heads=1).eval()
    allowed = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    steps = torch.tensor([[-9.0, 9, -9, -9], [-9, -9, -9, -9], [9, -9, -9, 9]], dtype=torch.float64)
    last, seen = None, []
    for step in steps:
        focused = focus(step[None, None, None], allowed, last)
        last = focused.place[:, :, 0]
        seen.append(focused.weights.flatten().tolist())
    assert seen == [[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_attention_carries_the_place_of_monotonic_from_look_to_look():
    torch.manual_seed(8)
    look = build_attention(AttentionConfig("dot", focus="monotonic"), 2, 2).double().eval()
    memory = look.remember(torch.eye(2).double()[None], torch.ones(1, 2, dtype=torch.bool))
    query = torch.tensor([[[-9.0, 9.0], [-9.0, -9.0], [9.0, -9.0], [9.0, 9.0]]]).double()
    whole = look(query, memory)
    assert whole.weights[0, :, 0].tolist() == [[0, 1], [0, 0], [0, 0], [0, 1]]
    half = look(query[:, :2], memory)
    assert half.carry.last.tolist() == [[[0, 1]]]
    assert torch.equal(look(query[:, 2:], memory, half.carry).weights, whole.weights[:, 2:])
    assert look(query[:, 2:], memory, Carry(2)).weights[0, 0, 0].tolist() == [1, 0]


@pytest.mark.parametrize("coverage", ["none", "tu2016"])
@pytest.mark.parametrize("heads", [1, 4])
def test_monotonic_attention_equals_its_focus_over_all_positions(heads, coverage):
    """Attention scores stretches from where it stands; the focus sees whole rows."""
    torch.manual_seed(9)
    config = AttentionConfig(
        focus="monotonic", width=13, heads=heads, groups=2 if heads > 1 else 0, head_width=6, coverage=coverage
    )
    look = build_attention(config, 11, 11).double()
    torch.nn.init.uniform_(look.focus.r, -1.5, -0.5)
    query, states = torch.randn(B, T, 11).double(), torch.randn(B, 53, 11).double()
    mask = torch.arange(53) < torch.tensor([53, 31, 0])[:, None]
    mask[0, 20:23] = False
    memory = look.remember(states, mask)
    onward = look.eval()(query, memory)
    look.train()
    look.focus.eval()
    at_all = look(query, memory)
    assert torch.equal(onward.weights, at_all.weights)
    torch.testing.assert_close(onward.context, at_all.context)
    assert torch.equal(onward.carry.last, at_all.carry.last)
    assert 0 < onward.weights.sum() < B * T * heads


@pytest.mark.parametrize("size", [503, 2003])
def test_monotonic_decoding_takes_linear_time(size):
    """All looks together score the source about once, not once each."""
    look = build_attention(AttentionConfig("dot", focus="monotonic"), 2, 2).double().eval()
    steps = size // 4
    places = torch.arange(size).double()
    states = torch.stack([torch.cos(places), torch.sin(places)], dim=-1)[None]
    query = 3.0 * states[:, ::4][:, :steps]  # fits at its own place, and at few others
    counted, score = [], look.score.forward
    look.score.forward = lambda asked, keys: counted.append(keys.shape[2]) or score(asked, keys)
    weights = look(query, look.remember(states, torch.ones(1, size, dtype=torch.bool))).weights
    stopped = weights[0, :, 0].argmax(dim=-1)
    assert (stopped.diff() >= 0).all()
    assert stopped[-1] > size / 2
    assert sum(counted) < size + 2 * 16 * steps < steps * size / 5


def test_monotonic_training_holds_for_long_sources_in_float32():
    """Half the mass stands behind thousands of places whose survival is below any float32."""
    torch.manual_seed(9)
    size = 4099
    focus = focuses["monotonic"](Sizes(11, 11)).train()
    scores = torch.full((1, 1, 1, size), 1.0).requires_grad_()
    last = torch.zeros(1, 1, size)
    last[..., 0], last[..., 3000] = 0.5, 0.5
    last.requires_grad_()
    weights = focus(scores, torch.ones(1, 1, 1, size, dtype=torch.bool), last).weights
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert weights[..., 3000:3100].sum().item() == pytest.approx(0.5, abs=1e-5)
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[..., 3000].abs() > 1e-4
    assert last.grad.isfinite().all()
