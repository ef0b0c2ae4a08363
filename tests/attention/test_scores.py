"""Each score against its equation written out with loops, against torch where it has one, and by worked examples."""

import itertools

import pytest
import torch
from torch.nn import functional

from regard.attention import Memory, build_attention, scores
from regard.attention.base import Focused, Sizes
from regard.config import AttentionConfig
from regard.errors import ConfigError, ModelError
from regard.masks import from_lengths, masked_softmax

B, T, S, Q, D, A = 2, 3, 5, 7, 11, 13


# Each takes the score, a query, a key, the place of the key, and which head and group are meant.


def of(linear, number):
    """The matrix of one head."""
    return linear.weight.chunk(linear.heads)[number]


def naive_additive(score, q, h, place, head, group):
    return of(score.v_a, head)[0] @ torch.tanh(of(score.W_a, head) @ q + of(score.U_a, group) @ h)


def naive_concat(score, q, h, place, head, group):
    return of(score.v_a, head)[0] @ torch.tanh(of(score.W_a, group) @ torch.cat([q, h]))


def naive_tanh(score, q, h, place, head, group):
    W_1, W_2, total = of(score.W_1, group), of(score.W_2, head), 0.0
    for a in range(A):
        inside = sum(W_1[a, j] * h[j] for j in range(len(h))) + sum(W_2[a, i] * q[i] for i in range(len(q)))
        total = total + torch.tanh(inside)
    return total


def naive_dot(score, q, h, place, head, group):
    return sum(q[d] * h[d] for d in range(len(q)))


def naive_scaled_dot(score, q, h, place, head, group):
    return sum(q[d] * h[d] for d in range(len(q))) / len(q) ** 0.5


def naive_cosine(score, q, h, place, head, group):
    lengths = (sum(x**2 for x in q) * sum(x**2 for x in h)) ** 0.5
    return score.log_beta[head].exp() * naive_dot(score, q, h, place, head, group) / lengths


def naive_general(score, q, h, place, head, group):
    W_a = of(score.W_a, group)
    return sum(q[i] * W_a[i, j] * h[j] for i in range(len(q)) for j in range(len(h)))


def naive_location(score, q, h, place, head, group):
    return sum(of(score.W_a, group)[place, i] * q[i] for i in range(len(q)))


NAIVE = {
    "additive": naive_additive,
    "concat": naive_concat,
    "cosine": naive_cosine,
    "dot": naive_dot,
    "general": naive_general,
    "location": naive_location,
    "scaled-dot": naive_scaled_dot,
    "tanh": naive_tanh,
}
ONE_WIDTH = ("dot", "scaled-dot", "cosine")


def test_every_score_has_a_naive_reference():
    assert set(NAIVE) == set(scores)


@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("name", list(NAIVE))
@torch.no_grad()
def test_equals_the_equation(name, heads, groups):
    torch.manual_seed(1)
    query_width = D if name in ONE_WIDTH else Q
    score = scores[name](Sizes(query_width, D, heads, groups, hidden=A, longest=17)).double()
    for parameter in score.parameters():
        parameter.normal_()  # no two heads alike
    query = torch.randn(B, heads, T, query_width, dtype=torch.float64)
    states = torch.randn(B, groups, S, D, dtype=torch.float64)
    keys = score.keys(states)
    assert keys.shape == (B, groups, S, score.key_width)
    got = score(query, keys.repeat_interleave(heads // groups, dim=1))
    for b, head, t, s in itertools.product(range(B), range(heads), range(T), range(S)):
        group = head // (heads // groups)
        expected = NAIVE[name](score, query[b, head, t], states[b, group, s], s, head, group)
        torch.testing.assert_close(got[b, head, t, s], expected)


def test_concat_is_additive_with_its_two_matrices_side_by_side():
    torch.manual_seed(1)
    additive, concat = (scores[name](Sizes(Q, D, hidden=A)) for name in ("additive", "concat"))
    with torch.no_grad():
        concat.W_a.weight.copy_(torch.cat([additive.W_a.weight, additive.U_a.weight], dim=1))
        concat.v_a.weight.copy_(additive.v_a.weight)
    query, states = torch.randn(B, 1, T, Q), torch.randn(B, 1, S, D)
    torch.testing.assert_close(concat(query, concat.keys(states)), additive(query, additive.keys(states)))


def test_a_cosine_without_an_angle_is_zero_and_has_a_finite_gradient():
    """Also for lengths whose square is too small for a float32, and in half precision."""
    torch.manual_seed(1)
    for dtype, tiny in ((torch.float32, 0.0), (torch.float32, 1e-30), (torch.bfloat16, 0.0)):
        score = scores["cosine"](Sizes(D, D))
        query = torch.randn(B, 1, T, D).to(dtype)
        states = torch.randn(B, 1, S, D).to(dtype)
        query[:, :, 1], states[:, :, 2] = tiny, tiny
        query.requires_grad_()
        states.requires_grad_()
        got = score.to(dtype)(query, score.keys(states))
        assert (got[:, :, 1].abs() < 1e-9).all()
        assert (got[..., 2].abs() < 1e-9).all()
        assert got[:, :, 0, 0].abs().min() > 0
        got.float().square().sum().backward()
        assert all(grad.isfinite().all() for grad in (query.grad, states.grad, score.log_beta.grad))


def test_cosine_goes_by_the_angle_alone_and_can_be_sharp():
    torch.manual_seed(1)
    score = scores["cosine"](Sizes(D, D)).double()
    query, states = torch.randn(B, 1, T, D).double(), torch.randn(B, 1, S, D).double()
    torch.testing.assert_close(score(7 * query, score.keys(states / 3)), score(query, score.keys(states)))
    assert score(query, score.keys(query)).amax().item() == pytest.approx(D**0.5)


def test_location_goes_by_the_place_alone():
    torch.manual_seed(1)
    look = build_attention(AttentionConfig("location", longest=S), Q, D)
    query, states = torch.randn(B, T, Q), torch.randn(B, S, D)
    mask = torch.ones(B, S, dtype=torch.bool)
    weights = look(query, look.remember(states, mask)).weights
    assert torch.equal(weights, look(query, look.remember(states.flip(1), mask)).weights)
    expected = torch.softmax(query @ look.score.W_a.weight.T, dim=-1)
    torch.testing.assert_close(weights[:, :, 0], expected)


def test_location_refuses_a_source_longer_than_its_places():
    look = build_attention(AttentionConfig("location", longest=S), Q, D)
    with pytest.raises(ModelError) as caught:
        look.remember(torch.randn(B, S + 1, D), torch.ones(B, S + 1, dtype=torch.bool))
    assert str(caught.value) == (
        "model.attention.score=location has weights for 5 positions, but a source has 6 tokens: train with "
        "model.attention.longest=6 or more, or use shorter sources."
    )


def test_scaled_dot_equals_torch():
    torch.manual_seed(1)
    look = build_attention(AttentionConfig("scaled-dot"), D, D)
    query, states = torch.randn(B, T, D), torch.randn(B, S, D)
    mask = from_lengths(torch.tensor([S, 2]))
    expected = functional.scaled_dot_product_attention(query, states, states, attn_mask=mask[:, None])
    torch.testing.assert_close(look(query, look.remember(states, mask)).context, expected)


@pytest.mark.parametrize(
    ("name", "subject"),
    [("dot", "dot scores need"), ("scaled-dot", "dot scores need"), ("cosine", "cosine score needs")],
)
def test_dot_and_cosine_refuse_two_widths(name, subject):
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig(name), Q, D)
    assert str(caught.value) == (
        f"The {subject} decoder and encoder states of the same width, got 7 and 11: set model.decoder.width to the "
        "encoder's (twice model.encoder.width if it is bidirectional), or set model.attention.score=general or "
        "model.attention.project=true."
    )


def test_a_misspelt_score_is_told_the_nearest():
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig("aditive"), D, D)
    assert str(caught.value) == (
        "No attention score named 'aditive'. Did you mean 'additive'? (regard list scores shows all)"
    )


def test_worked_example_context():
    """States [1, 1] and [2, 0] under weights 0.3 and 0.7."""

    look = build_attention(AttentionConfig("dot"), 2, 2)
    look.focus.forward = lambda scores, allowed, last=None: Focused(torch.tensor([[[[0.3, 0.7]]]]))
    states = torch.tensor([[[1.0, 1.0], [2.0, 0.0]]])
    context = look(torch.ones(1, 1, 2), look.remember(states, torch.ones(1, 2, dtype=torch.bool))).context
    torch.testing.assert_close(context, torch.tensor([[[1.70, 0.30]]]))


def test_worked_example_softmax():
    weights = masked_softmax(torch.tensor([2.0, 1.0, 0.0]), torch.ones(3, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.tensor([0.665, 0.245, 0.090]), atol=5e-4, rtol=0)


def test_worked_example_tanh():
    """tanh(W1 h + W2 s), read off the additive score one component at a time."""
    score = scores["additive"](Sizes(2, 2, hidden=2))
    with torch.no_grad():
        score.U_a.weight.copy_(torch.tensor([[0.5, -0.3], [0.2, 0.4]]))
        score.W_a.weight.copy_(torch.tensor([[0.1, 0.2], [-0.3, 0.1]]))
    h, s = torch.tensor([[[[1.0, 2.0]]]]), torch.tensor([[[[0.5, 1.0]]]])
    for component, expected in enumerate((0.149, 0.740)):
        with torch.no_grad():
            score.v_a.weight.copy_(torch.eye(2)[[component]])
        assert score(s, score.keys(h)).item() == pytest.approx(expected, abs=5e-4)
    vector_free = scores["tanh"](Sizes(2, 2, hidden=2))
    with torch.no_grad():
        vector_free.W_1.weight.copy_(score.U_a.weight)
        vector_free.W_2.weight.copy_(score.W_a.weight)
    assert vector_free(s, vector_free.keys(h)).item() == pytest.approx(0.149 + 0.740, abs=1e-3)


def test_worked_example_dot():
    """Query [10, 5, 10] against four keys: 15, 60, 15, 35, so the softmax all but picks the second."""
    look = build_attention(AttentionConfig("dot"), 3, 3)
    query = torch.tensor([[[10.0, 5.0, 10.0]]])
    states = torch.tensor([[[0.0, 1.0, 1.0], [5.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 5.0, 1.0]]])
    memory = look.remember(states, torch.ones(1, 4, dtype=torch.bool))
    assert isinstance(memory, Memory)
    assert look.score(query[:, None], memory.keys).flatten().tolist() == [15, 60, 15, 35]
    torch.testing.assert_close(look(query, memory).context, torch.tensor([[[5.0, 0.0, 1.0]]]))
