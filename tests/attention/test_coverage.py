"""Coverage against its equations written out with loops."""

import itertools

import pytest
import torch

from regard.attention import Carry, build_attention, coverages
from regard.config import AttentionConfig

B, T, S, Q, D, A = 3, 5, 7, 11, 13, 17
MASK = torch.arange(S) < torch.tensor([S, 4, 1])[:, None]


def build(name, **config):
    torch.manual_seed(1)
    return build_attention(AttentionConfig(coverage=name, width=A, **config), Q, D).double()


def inputs():
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(B, n, width, generator=generator, dtype=torch.float64) for n, width in ((T, Q), (S, D))]


def naive_see(look, h, covered):
    """What is added within the tanh: `w_c c`."""
    return look.coverage.w_c.weight[:, 0] * covered


def naive_tu(look, h, covered):
    """`V_a C`, where each look has added its weight over the fertility `2 sigmoid(U_f h)`."""
    fertility = 2 / (1 + torch.exp(-sum(look.coverage.U_f.weight[0, d] * h[d] for d in range(D))))
    return look.coverage.V_a.weight[:, 0] * (covered / fertility)


NAIVE = {"see2017": naive_see, "tu2016": naive_tu}


def test_every_coverage_has_a_naive_reference():
    assert set(NAIVE) == set(coverages)


@pytest.mark.parametrize("name", list(NAIVE))
def test_equals_the_equation(name):
    look = build(name)
    query, states = inputs()
    attended = look(query, look.remember(states, MASK))
    score = look.score
    for b in range(B):
        real = range(int(MASK[b].sum()))
        covered = [torch.zeros(()).double() for _ in real]
        for t in range(T):
            e = [
                score.v_a.weight[0]
                @ torch.tanh(
                    score.W_a.weight @ query[b, t]
                    + score.U_a.weight @ states[b, s]
                    + NAIVE[name](look, states[b, s], covered[s])
                )
                for s in real
            ]
            a = torch.softmax(torch.stack(e), dim=0)
            torch.testing.assert_close(attended.weights[b, t, 0, : len(a)], a)
            overlap = sum(min(a[s].item(), covered[s].item()) for s in real)
            assert attended.extras.overlap[b, t].item() == pytest.approx(overlap)
            covered = [covered[s] + a[s] for s in real]


@pytest.mark.parametrize("name", list(coverages))
def test_what_was_covered_changes_what_is_looked_at(name):
    """And it is what the carry holds that does so."""
    look = build(name)
    query, states = inputs()
    same = query[:, :1].expand(-1, T, -1)
    memory = look.remember(states, MASK)
    attended = look(same, memory)
    assert not torch.allclose(attended.weights[0, 0], attended.weights[0, 1])
    torch.testing.assert_close(attended.carry.covered, attended.weights.sum(dim=1))
    fresh = look(same[:, 1:2], memory, Carry(1))
    torch.testing.assert_close(fresh.weights[:, 0], attended.weights[:, 0])


@pytest.mark.parametrize("name", list(coverages))
def test_the_overlap_has_a_gradient_and_is_summed_over_heads(name):
    look = build(name, heads=4, head_width=6, groups=2)
    query, states = inputs()
    attended = look(query, look.remember(states, MASK))
    covered = torch.zeros(B, 4, S).double()
    for t in range(T):
        weights = attended.weights[:, t]
        expected = [
            sum(min(weights[b, h, s], covered[b, h, s]) for h, s in itertools.product(range(4), range(S)))
            for b in range(B)
        ]
        torch.testing.assert_close(attended.extras.overlap[:, t], torch.stack(expected))
        covered = covered + weights
    attended.extras.overlap.sum().backward()
    for part, parameter in look.named_parameters():
        if not part.startswith(("heads.W_v", "heads.W_o")):
            assert parameter.grad.abs().max() > 0, part


def test_no_word_wants_more_than_two_looks_or_none():
    look = build("tu2016")
    _, states = inputs()
    fertility = look.remember(states, MASK).fertility
    assert fertility.shape == (B, S)
    assert ((fertility > 0) & (fertility < 2)).all()
    assert build("see2017").remember(states, MASK).fertility is None
