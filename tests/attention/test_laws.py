"""Laws of every attention mechanism, swept over pairs of registered parts. Axes are distinct primes.

In each sight, every two of score, reach, focus, heads, temperature, coverage and positions that have a meaning together
meet in some case, whatever is registered.
"""

import importlib
import itertools
import pkgutil
from typing import NamedTuple

import pytest
import torch

import regard.attention.reach
from pairwise import pairwise
from regard.attention import Attention, Carry, build_attention, coverages, focuses, reaches, scores
from regard.attention.positions import Position, positions
from regard.config import AttentionConfig
from regard.errors import ConfigError

B, T, S, D, A = 3, 5, 7, 11, 13
LENGTHS = torch.tensor([S, 4, 1])

SIGHTS = {
    "another": {},
    "past": {"itself": True, "causal": True},
    "around": {"itself": True},
}
"""A decoder at its source, a decoder at its own past, an encoder at its own sequence."""

AT_MOST_ONE = {"local-p", "monotonic"}
"""The two whose weights may sum to less than one: a Gaussian takes from them, or the look may end at nothing."""

BY_PLACE = {"location", "monotonic"}
"""What minds the order of a source that is looked at everywhere."""


class Case(NamedTuple):
    sight: str
    config: AttentionConfig
    position: str

    @property
    def itself(self) -> bool:
        return self.sight != "another"

    def build(self, query_width: int = D, state_width: int = D) -> Attention:
        torch.manual_seed(1)
        look = build_attention(self.config, query_width, state_width, **SIGHTS[self.sight], position=self.position)
        for name, parameter in look.named_parameters():
            if name in ("log_temperature", "focus.r"):
                torch.nn.init.uniform_(parameter, -0.3, 0.3)  # no two heads alike, and monotonic stops now and then
        return look.double()


HEADS = ({"heads": 1}, {"heads": 1, "values": True}, *({"heads": 4, "groups": groups} for groups in (0, 1, 2)))
CHOICES = {
    "score": [*scores],
    "reach": [*reaches],
    "focus": [*focuses],
    "heads": range(len(HEADS)),
    "temperature": [1.0, 1.5],
    "learn_temperature": [False, True],
}
COVERAGES, POSITIONS = ["none", *coverages], ["none", *positions]


def meaningless(sight: str, score: str, reach: str, focus: str) -> bool:
    """What has no meaning, as a table; build.py must refuse exactly this."""
    local, of_distance = {"local-m", "local-p"}, {"causal", "window", "dilated", "strided", "chunked"}
    if sight == "another":
        return reach in of_distance or (focus == "monotonic" and reach in local)
    return reach in local or score == "location" or focus == "monotonic"


def can_stand(position: str, score: str, heads: int) -> bool:
    """Whether positions can: those that turn need an inner product and an even width."""
    return position == "none" or not positions[position].dotted or (scores[score].dotted and "groups" in HEADS[heads])


def cases_of(sight: str) -> list[Case]:
    """Choose cases in which every two parts meet that can."""
    choices = CHOICES | {"coverage": COVERAGES} if sight == "another" else CHOICES | {"position": POSITIONS}
    if sight == "around":
        choices |= {"score": ["scaled-dot"]}  # it differs from "past" in the reach alone

    def has_meaning(one: dict) -> bool:
        stands = can_stand(one.get("position", "none"), one["score"], one["heads"])
        return stands and not meaningless(sight, one["score"], one["reach"], one["focus"])

    found = []
    for one in pairwise(choices, has_meaning):
        settings = one | {"head_width": 6, "width": A, "window": 2, "stride": 3, "longest": 17, **HEADS[one["heads"]]}
        position = settings.pop("position", "none")
        found.append(Case(sight, AttentionConfig(**settings), position))
    return found


CASES = [case for sight in SIGHTS for case in cases_of(sight)]


def name_of(case: Case) -> str:
    config = case.config
    return f"{case.sight} {config.score} {config.reach} {config.focus}"


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    """Cut short sequences as long ones are cut: else they would all be one block."""
    for module in pkgutil.iter_modules(regard.attention.reach.__path__, "regard.attention.reach."):
        if hasattr(found := importlib.import_module(module.name), "SMALLEST"):
            monkeypatch.setattr(found, "SMALLEST", 2)


@pytest.fixture(params=CASES, ids=name_of)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def inputs(case):
    generator = torch.Generator().manual_seed(2)
    # Small ones, lest a sparse focus keep a single position of every row.
    query = 0.3 * torch.randn(B, S if case.itself else T, D, generator=generator, dtype=torch.float64)
    states = torch.randn(B, S, D, generator=generator, dtype=torch.float64)
    return query, states, torch.arange(S) < LENGTHS[:, None]


def told(attended):
    """What a loss would be made of."""
    parts = [attended.context.square().sum()]
    return sum(parts + [extra.square().sum() for extra in attended.extras if extra is not None])


def drawn(attention, query, states, mask, look=True):
    """Look, with the same chance every time."""
    torch.manual_seed(5)
    return attention(query, attention.remember(states, mask), look=look)


# -- what has a meaning ----------------------------------------------------------------------------------------------


def test_exactly_what_has_no_meaning_is_refused():
    for sight, score, reach, focus in itertools.product(SIGHTS, scores, reaches, focuses):
        config = AttentionConfig(score, reach, focus, width=2, longest=2)
        if not meaningless(sight, score, reach, focus):
            build_attention(config, 2, 2, **SIGHTS[sight])
            continue
        with pytest.raises(ConfigError, match=r"^model\.(self_)?attention\.(score|reach|focus)=.*: use "):
            build_attention(config, 2, 2, **SIGHTS[sight])


def test_every_two_parts_that_have_a_meaning_together_are_swept():
    for sight in SIGHTS:
        asked = scores if sight != "around" else ["scaled-dot"]
        meant = [parts for parts in itertools.product(asked, reaches, focuses) if not meaningless(sight, *parts)]
        swept = [(c.config.score, c.config.reach, c.config.focus) for c in CASES if c.sight == sight]
        for one, other in itertools.combinations((0, 1, 2), 2):
            assert {(parts[one], parts[other]) for parts in swept} == {(parts[one], parts[other]) for parts in meant}
    for kind in ("heads", "groups", "learn_temperature", "temperature"):
        for part, registry in (("score", scores), ("reach", reaches), ("focus", focuses)):
            for name in registry:
                dealt = {getattr(c.config, kind) for c in CASES if getattr(c.config, part) == name}
                assert len(dealt) > 1, (kind, name)
    assert {c.position for c in CASES} == {"none", *positions}
    assert {c.config.coverage for c in CASES} == {"none", *coverages}
    for registry, part in ((scores, "score"), (reaches, "reach"), (focuses, "focus")):
        for name, heads in itertools.product(registry, (1, 4)):
            assert any(getattr(c.config, part) == name and c.config.heads == heads for c in CASES), (name, heads)


# -- weights and contexts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
def test_weights_are_a_distribution_over_what_is_real(case, inputs, training):
    query, states, mask = inputs
    weights = drawn(case.build().train(training), query, states, mask).weights
    assert (weights >= 0).all()
    assert (weights[~mask[:, None, None].expand_as(weights)] == 0).all()
    total = weights.sum(-1)
    if AT_MOST_ONE & set(case.config.__dict__.values()):
        assert (total <= 1 + 1e-12).all()
        assert total.max() > 0
        return
    # A query that is padding itself may have nothing in reach, and then looks at nothing.
    looks = (total > 0) | mask[:, :, None] if case.itself else torch.ones_like(total, dtype=torch.bool)
    torch.testing.assert_close(total, looks.expand_as(total).double())


def test_context_is_the_weighted_sum_of_the_values(case, inputs):
    query, states, mask = inputs
    look = case.build().eval()
    memory = look.remember(states, mask)
    context, weights, _, _ = look(query, memory)
    heads, groups = weights.shape[2], memory.values.shape[1]
    if look.position is not None and type(look.position).seen is not Position.seen:
        return  # positions add to the values: tested with them
    for b in range(B):
        seen = []
        for h in range(heads):
            values = memory.values[b, h // (heads // groups)]
            seen.append(sum(weights[b, :, h, s, None] * values[s] for s in range(S) if mask[b, s]))
        expected = seen[0] if look.heads is None else look.heads.W_o(torch.cat(seen, dim=-1))
        torch.testing.assert_close(context[b], expected)


def test_without_a_look_the_context_and_its_gradient_are_the_same(case, inputs):
    query, states, mask = inputs
    look = case.build().train()
    found = []
    for wanted in (True, False):
        asked, read = query.clone().requires_grad_(), states.clone().requires_grad_()
        attended = drawn(look, asked, read, mask, look=wanted)
        grads = torch.autograd.grad(attended.context.square().sum(), (asked, read), allow_unused=True)
        found.append((attended.context, *(grad for grad in grads if grad is not None)))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


# -- padding ---------------------------------------------------------------------------------------------------------


def test_poisoned_padding_changes_no_bit(case, inputs):
    query, states, mask = inputs
    look = case.build().train()
    poison = torch.tensor([float("nan"), float("inf"), -1e300], dtype=torch.float64).repeat(3)[:S]
    poisoned = torch.where(mask[..., None], states, poison[:, None]).requires_grad_()
    clean, dirty = (drawn(look, query, some, mask) for some in (states, poisoned))
    assert torch.equal(clean.context, dirty.context)
    assert torch.equal(clean.weights, dirty.weights)
    told(dirty).backward()
    assert (poisoned.grad[~mask] == 0).all()
    assert poisoned.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in look.parameters())


def test_a_fully_masked_row_is_zero_forward_and_backward(case, inputs):
    query, states, mask = inputs
    look = case.build().train()
    mask = mask.clone()
    mask[1] = False
    query.requires_grad_()
    states.requires_grad_()
    attended = drawn(look, query, states, mask)
    nothing = torch.zeros_like(attended.context[1]) if look.heads is None else look.heads.W_o.bias
    torch.testing.assert_close(attended.context[1], nothing.expand_as(attended.context[1]), atol=0, rtol=0)
    assert (attended.weights[1] == 0).all()
    assert all((extra[1] == 0).all() for extra in attended.extras if extra is not None)
    told(attended).backward()
    for grad in (query.grad, states.grad):
        assert grad.isfinite().all()
        assert (grad[1] == 0).all()
        assert grad.abs().max() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in look.parameters())


# -- learning --------------------------------------------------------------------------------------------------------


def test_every_parameter_gets_a_gradient(case, inputs):
    query, states, mask = inputs
    look = case.build().train()
    query.requires_grad_()
    told(drawn(look, query, states, mask)).backward()
    assert query.grad.abs().max() > 0
    for name, parameter in look.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert parameter.grad.abs().max() > 0, name
        else:
            assert name in ("focus.baseline", "focus.steps")


@pytest.mark.parametrize("name", list(scores))
def test_gradients_are_those_of_finite_differences(name):
    torch.manual_seed(4)
    look = build_attention(AttentionConfig(name, width=3, longest=3), 2, 2).double()
    mask = torch.tensor([[True, True, False]])
    query = torch.randn(1, 2, 2, dtype=torch.float64, requires_grad=True)
    states = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, h: look(q, look.remember(h, mask)).context, (query, states))


# -- order -----------------------------------------------------------------------------------------------------------


def test_stepwise_equals_all_at_once(case, inputs):
    query, states, mask = inputs
    look = case.build().eval()
    memory = look.remember(states, mask)
    whole = look(query, memory)
    carry, steps = Carry(), []
    for t in range(query.shape[1]):
        steps.append(look(query[:, t : t + 1], memory, carry))
        carry = steps[-1].carry
    assert carry.position == whole.carry.position == query.shape[1]
    torch.testing.assert_close(whole.context, torch.cat([step.context for step in steps], dim=1))
    torch.testing.assert_close(whole.weights, torch.cat([step.weights for step in steps], dim=1))
    if whole.extras.overlap is not None:
        torch.testing.assert_close(whole.extras.overlap, torch.cat([step.extras.overlap for step in steps], dim=1))


PAST = [case for case in CASES if case.sight == "past"]


@pytest.mark.parametrize("case", PAST, ids=name_of)
def test_the_future_changes_nothing(case, inputs):
    query, states, _ = inputs
    mask = torch.ones(B, S, dtype=torch.bool)
    look = case.build().eval()
    whole = look(query, look.remember(states, mask))
    later = states.clone()
    later[:, 4:] = -3 * later[:, 4:] + 1
    changed = look(query, look.remember(later, mask))
    assert torch.equal(whole.context[:, :4], changed.context[:, :4])
    assert torch.equal(whole.weights[:, :4], changed.weights[:, :4])
    assert (whole.weights[:, :4, :, 4:] == 0).all()
    assert not torch.allclose(whole.context[:, 4:], changed.context[:, 4:])


@pytest.mark.parametrize("case", PAST, ids=name_of)
def test_a_memory_that_grows_equals_one_made_at_once(case, inputs):
    query, states, _ = inputs
    look = case.build().eval()
    at_once = look.remember(states, torch.ones(B, S, dtype=torch.bool))
    whole = look(query, at_once)
    memory, carry = look.remember(states[:, :2], torch.ones(B, 2, dtype=torch.bool)), Carry(2)
    for t in range(2, S):
        memory = look.extend(memory, states[:, t : t + 1])
        step = look(query[:, t : t + 1], memory, carry)
        carry = step.carry
        torch.testing.assert_close(step.context, whole.context[:, t : t + 1])
        torch.testing.assert_close(step.weights, whole.weights[:, t : t + 1, :, : t + 1])
    for one, other in zip(memory[:3], at_once[:3], strict=True):
        torch.testing.assert_close(one, other)


GLOBAL = [case for case in CASES if case.sight == "another" and case.config.reach == "global"]


@pytest.mark.parametrize("case", GLOBAL, ids=name_of)
def test_order_of_the_source_does_not_matter_to_a_global_look(case, inputs):
    query, states, mask = inputs
    shuffle = torch.randperm(S, generator=torch.Generator().manual_seed(3))
    look = case.build().eval()
    straight = look(query, look.remember(states, mask))
    shuffled = look(query, look.remember(states[:, shuffle], mask[:, shuffle]))
    same = torch.allclose(straight.context, shuffled.context)
    assert same != bool(BY_PLACE & {case.config.score, case.config.focus})
    if same:
        torch.testing.assert_close(straight.weights[..., shuffle], shuffled.weights)
