"""Laws of every attention mechanism, swept over the product of registered parts. Axes are distinct primes."""

import itertools

import pytest
import torch

from regard.attention import Attention, Carry, build_attention, focuses, reaches, scores
from regard.config import AttentionConfig

B, T, S, D, A = 3, 5, 7, 11, 13
PRODUCT = list(itertools.product(scores, reaches, focuses))


@pytest.fixture(params=PRODUCT, ids="×".join)
def attention(request: pytest.FixtureRequest) -> Attention:
    torch.manual_seed(1)
    score, reach, focus = request.param
    return build_attention(AttentionConfig(score, reach, focus, width=A), query_width=D, state_width=D).double()


@pytest.fixture
def inputs():
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(B, T, D, generator=generator, dtype=torch.float64)
    states = torch.randn(B, S, D, generator=generator, dtype=torch.float64)
    mask = torch.arange(S) < torch.tensor([S, 4, 1])[:, None]
    return query, states, mask


def test_weights_are_a_distribution_over_what_is_real(attention, inputs):
    query, states, mask = inputs
    weights = attention(query, attention.remember(states, mask)).weights[:, :, 0]
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, T, dtype=torch.float64))
    assert (weights[~mask[:, None].expand_as(weights)] == 0).all()


def test_context_is_the_weighted_sum_of_the_states(attention, inputs):
    query, states, mask = inputs
    context, weights, _, _ = attention(query, attention.remember(states, mask))
    weights = weights[:, :, 0]
    for b, t in itertools.product(range(B), range(T)):
        expected = sum(weights[b, t, s] * states[b, s] for s in range(S) if mask[b, s])
        torch.testing.assert_close(context[b, t], expected)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -1e300])
def test_poisoned_padding_changes_no_bit(attention, inputs, poison):
    query, states, mask = inputs
    poisoned = states.masked_fill(~mask[..., None], poison).requires_grad_()
    clean = attention(query, attention.remember(states, mask))
    dirty = attention(query, attention.remember(poisoned, mask))
    assert torch.equal(clean.context, dirty.context)
    assert torch.equal(clean.weights, dirty.weights)
    dirty.context.square().sum().backward()
    assert (poisoned.grad[~mask] == 0).all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in attention.parameters())


def test_every_parameter_gets_a_gradient(attention, inputs):
    query, states, mask = inputs
    query.requires_grad_()
    attention(query, attention.remember(states, mask)).context.square().sum().backward()
    assert query.grad.abs().max() > 0
    for name, parameter in attention.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_stepwise_equals_all_at_once(attention, inputs):
    query, states, mask = inputs
    memory = attention.remember(states, mask)
    whole = attention(query, memory)
    steps = [attention(query[:, t : t + 1], memory, Carry(t)) for t in range(T)]
    torch.testing.assert_close(whole.context, torch.cat([step.context for step in steps], dim=1))
    torch.testing.assert_close(whole.weights, torch.cat([step.weights for step in steps], dim=1))


def test_a_fully_masked_row_is_zero_forward_and_backward(attention, inputs):
    query, states, mask = inputs
    mask = mask.clone()
    mask[1] = False
    query.requires_grad_()
    states.requires_grad_()
    context, weights, _, _ = attention(query, attention.remember(states, mask))
    assert (context[1] == 0).all()
    assert (weights[1] == 0).all()
    context.square().sum().backward()
    assert (query.grad[1] == 0).all()
    assert (states.grad[1] == 0).all()
    assert query.grad.isfinite().all()


def test_order_of_the_source_does_not_matter_to_a_global_look(inputs):
    query, states, mask = inputs
    shuffle = torch.randperm(S, generator=torch.Generator().manual_seed(3))
    for score, focus in itertools.product(scores, focuses):
        torch.manual_seed(1)
        look = build_attention(AttentionConfig(score, "global", focus, width=A), D, D).double()
        straight = look(query, look.remember(states, mask))
        shuffled = look(query, look.remember(states[:, shuffle], mask[:, shuffle]))
        torch.testing.assert_close(straight.context, shuffled.context)
        torch.testing.assert_close(straight.weights[..., shuffle], shuffled.weights)


@pytest.mark.parametrize("name", list(scores))
def test_gradients_are_those_of_finite_differences(name):
    torch.manual_seed(4)
    look = build_attention(AttentionConfig(name, width=3), 2, 2).double()
    mask = torch.tensor([[True, True, False]])
    query = torch.randn(1, 2, 2, dtype=torch.float64, requires_grad=True)
    states = torch.randn(1, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q, h: look(q, look.remember(h, mask)).context, (query, states))
