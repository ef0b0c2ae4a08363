"""Each score against its equation written out with loops, against torch where it has one, and by worked examples."""

import pytest
import torch
from torch.nn import functional

from regard.attention import Memory, build_attention, scores
from regard.attention.base import Focused, Sizes
from regard.config import AttentionConfig
from regard.errors import ConfigError
from regard.masks import from_lengths, masked_softmax

B, T, S, Q, D, A = 2, 3, 5, 7, 11, 13


def naive_additive(score, q, h):
    return score.v_a.weight[0] @ torch.tanh(score.W_a.weight @ q + score.U_a.weight @ h)


def naive_dot(score, q, h):
    return sum(q[d] * h[d] for d in range(len(q)))


def naive_scaled_dot(score, q, h):
    return sum(q[d] * h[d] for d in range(len(q))) / len(q) ** 0.5


def naive_general(score, q, h):
    return sum(q[i] * score.W_a.weight[i, j] * h[j] for i in range(len(q)) for j in range(len(h)))


NAIVE = {
    "additive": naive_additive,
    "dot": naive_dot,
    "scaled-dot": naive_scaled_dot,
    "general": naive_general,
}


def test_every_score_has_a_naive_reference():
    assert set(NAIVE) == set(scores)


@pytest.mark.parametrize("name", list(NAIVE))
def test_equals_the_equation(name):
    torch.manual_seed(1)
    query_width = D if "dot" in name else Q
    score = scores[name](Sizes(query_width, D, hidden=A)).double()
    query = torch.randn(B, T, query_width, dtype=torch.float64)
    states = torch.randn(B, S, D, dtype=torch.float64)
    got = score(query[:, None], score.keys(states[:, None]))[:, 0]
    for b in range(B):
        for t in range(T):
            for s in range(S):
                torch.testing.assert_close(got[b, t, s], NAIVE[name](score, query[b, t], states[b, s]))


def test_scaled_dot_equals_torch():
    torch.manual_seed(1)
    look = build_attention(AttentionConfig("scaled-dot"), D, D)
    query, states = torch.randn(B, T, D), torch.randn(B, S, D)
    mask = from_lengths(torch.tensor([S, 2]))
    expected = functional.scaled_dot_product_attention(query, states, states, attn_mask=mask[:, None])
    torch.testing.assert_close(look(query, look.remember(states, mask)).context, expected)


def test_dot_refuses_two_widths():
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig("dot"), Q, D)
    assert str(caught.value) == (
        "The dot scores need decoder and encoder states of one width, got 7 and 11: set model.decoder.width to the "
        "encoder's (twice model.encoder.width if it is bidirectional), or take model.attention.score=general."
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


def test_worked_example_dot():
    """Query [10, 5, 10] against four keys: 15, 60, 15, 35, so the softmax all but picks the second."""
    look = build_attention(AttentionConfig("dot"), 3, 3)
    query = torch.tensor([[[10.0, 5.0, 10.0]]])
    states = torch.tensor([[[0.0, 1.0, 1.0], [5.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 5.0, 1.0]]])
    memory = look.remember(states, torch.ones(1, 4, dtype=torch.bool))
    assert isinstance(memory, Memory)
    assert look.score(query[:, None], memory.keys).flatten().tolist() == [15, 60, 15, 35]
    torch.testing.assert_close(look(query, memory).context, torch.tensor([[[5.0, 0.0, 1.0]]]))
