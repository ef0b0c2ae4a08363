"""Each position encoding against its equation written out with loops, and the laws of those that know distances alone.

Axes are distinct primes.
"""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from regard.attention import Carry, build_attention
from regard.attention.positions import PositionSizes, positions
from regard.attention.positions.alibi import slopes
from regard.config import AttentionConfig
from regard.errors import ConfigError, ModelError
from regard.masks import from_lengths

B, T, H, D = 2, 23, 3, 4
WIDTH = H * D
LENGTHS = torch.tensor([23, 19])
RELATIVE = [name for name in positions if not positions[name].absolute]
ABSOLUTE = [name for name in positions if positions[name].absolute]

by_relative = pytest.mark.parametrize("name", RELATIVE)
by_direction = pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])


def test_these_are_all():
    assert RELATIVE == ["alibi", "rotary", "shaw"]
    assert ABSOLUTE == ["learned", "sinusoidal"]


def made(name, *, score="scaled-dot", causal=False, reach="global", heads=H, groups=0, **config):
    torch.manual_seed(1)
    settings = AttentionConfig(score, reach, heads=heads, groups=groups, window=3, width=5, project=True, **config)
    return build_attention(settings, WIDTH, WIDTH, itself=True, causal=causal, position=name).double()


@pytest.fixture
def states():
    return torch.randn(B, T, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def attend(look, states, mask=None):
    mask = torch.ones(states.shape[:2], dtype=torch.bool) if mask is None else mask
    return look(states, look.remember(states, mask))


# -- added to embeddings ----------------------------------------------------------------------------------------------


def test_sinusoidal_equals_the_equation():
    position = positions["sinusoidal"](PositionSizes(6))
    got = position.embed(torch.zeros(B, T, 6, dtype=torch.float64), 5)
    for t, i in itertools.product(range(T), range(3)):
        angle = (5 + t) / 10000 ** (2 * i / 6)
        torch.testing.assert_close(got[0, t, 2 * i].item(), math.sin(angle))
        torch.testing.assert_close(got[1, t, 2 * i + 1].item(), math.cos(angle))


def test_sinusoidal_knows_far_positions_in_half_precision():
    position = positions["sinusoidal"](PositionSizes(6))
    got = position.embed(torch.zeros(1, 2, 6, dtype=torch.bfloat16), 8190)
    exact = position.embed(torch.zeros(1, 2, 6, dtype=torch.float64), 8190)
    torch.testing.assert_close(got.double(), exact, atol=4e-3, rtol=4e-3)


def test_learned_adds_the_vector_of_each_position():
    torch.manual_seed(1)
    position = positions["learned"](PositionSizes(7, longest=29)).double()
    embedded = torch.randn(B, T, 7, dtype=torch.float64)
    got = position.embed(embedded, 6)
    for b, t in itertools.product(range(B), range(T)):
        torch.testing.assert_close(got[b, t], embedded[b, t] + position.p[6 + t])
    got.square().sum().backward()
    used = position.p.grad.abs().sum(-1) > 0
    assert used.tolist() == [False] * 6 + [True] * 23


@pytest.mark.parametrize(("first", "steps"), [(0, 30), (29, 1), (7, 23)])
def test_learned_refuses_what_is_longer(first, steps):
    position = positions["learned"](PositionSizes(7, longest=29))
    with pytest.raises(ModelError) as caught:
        position.embed(torch.zeros(1, steps, 7), first)
    assert str(caught.value) == (
        "model.positions=learned has vectors for 29 positions, and a sequence has 30: train with "
        "model.self_attention.longest=30 or more, or give shorter sequences."
    )
    assert position.embed(torch.zeros(1, 29, 7), 0).shape == (1, 29, 7)


@pytest.mark.parametrize("name", ABSOLUTE)
def test_parts_of_a_sequence_get_what_they_get_in_the_whole(name):
    torch.manual_seed(1)
    position = positions[name](PositionSizes(6, longest=29)).double()
    embedded = torch.randn(B, T, 6, dtype=torch.float64)
    parts = [
        position.embed(embedded[:, :5], 0),
        position.embed(embedded[:, 5:6], 5),
        position.embed(embedded[:, 6:], 6),
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), position.embed(embedded, 0))


@pytest.mark.parametrize("name", ABSOLUTE)
def test_what_is_added_to_embeddings_is_not_added_to_looks(name):
    assert made(name).position is None


# -- each against its equation ----------------------------------------------------------------------------------------


def parts_of(look, states):
    """Return queries, keys and values of all heads, before positions are told."""
    return tuple(
        one.detach() for one in (look.heads.queries(states), look.heads.keys(states), look.heads.values(states))
    )


def expected(look, states, lengths, causal, score, seen=lambda a, i, j: 0.0):
    """Attend with loops: `score(h, q, k, i, j)` and what `seen` adds to values, or nothing."""
    queries, keys, values = parts_of(look, states)
    contexts = torch.zeros(B, T, H, D, dtype=torch.float64)
    for b, h, i in itertools.product(range(B), range(H), range(T)):
        near = [j for j in range(int(lengths[b])) if j <= i or not causal]
        scores = [score(h, queries[b, h, i], keys[b, h, j], i, j) for j in near]
        total = sum(math.exp(one) for one in scores)
        for j, one in zip(near, scores, strict=True):
            contexts[b, i, h] += math.exp(one) / total * (values[b, h, j] + seen(look, i, j))
    return look.heads.W_o(contexts.flatten(2))


@by_direction
@torch.no_grad()
def test_shaw_equals_the_equations(causal, states):
    look = made("shaw", causal=causal)
    a_K, a_V = look.position.a_K, look.position.a_V
    assert a_K.shape == a_V.shape == (33, D)

    def which(i, j):
        return max(-16, min(16, j - i)) + 16

    def score(h, q, k, i, j):
        return float(q @ (k + a_K[which(i, j)])) / math.sqrt(D)

    got = attend(look, states, from_lengths(LENGTHS)).context
    wanted = expected(look, states, LENGTHS, causal, score, lambda look, i, j: a_V[which(i, j)])
    torch.testing.assert_close(got, wanted)


def turned(x, m):
    """Multiply by the matrix of the paper's equation 15, block by block."""
    matrix = torch.zeros(len(x), len(x), dtype=torch.float64)
    for i in range(len(x) // 2):
        angle = m * 10000 ** (-2 * i / len(x))
        matrix[2 * i, 2 * i], matrix[2 * i, 2 * i + 1] = math.cos(angle), -math.sin(angle)
        matrix[2 * i + 1, 2 * i], matrix[2 * i + 1, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return matrix @ x


@by_direction
@torch.no_grad()
def test_rotary_equals_the_equations(causal, states):
    look = made("rotary", causal=causal)

    def score(h, q, k, i, j):
        return float(turned(q, i) @ turned(k, j)) / math.sqrt(D)

    got = attend(look, states, from_lengths(LENGTHS))
    torch.testing.assert_close(got.context, expected(look, states, LENGTHS, causal, score))


def test_rotary_scores_know_the_difference_of_positions_alone():
    position = positions["rotary"](PositionSizes(6))
    q, k = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    scores = {(m, n): (position.turn(q, m) * position.turn(k, n)).sum().item() for m in range(9) for n in range(9)}
    for (m, n), (m2, n2) in itertools.product(scores, scores):
        if m - n == m2 - n2:
            assert scores[m, n] == pytest.approx(scores[m2, n2])
    assert len({round(score, 9) for score in scores.values()}) == 17


@by_direction
@torch.no_grad()
def test_alibi_equals_adding_the_matrix(causal, states):
    look = made("alibi", causal=causal)
    # The paper's rule for three heads: those of two, and the first of four.
    rates = [2**-4, 2**-8, 2**-2]

    def score(h, q, k, i, j):
        return float(q @ k) / math.sqrt(D) - rates[h] * abs(i - j)

    got = attend(look, states, from_lengths(LENGTHS))
    torch.testing.assert_close(got.context, expected(look, states, LENGTHS, causal, score))


def test_alibi_equals_torch_with_the_matrix_as_its_mask(states):
    look = made("alibi", causal=True)
    queries, keys, values = parts_of(look, states)
    back = (torch.arange(T)[:, None] - torch.arange(T)).double()
    bias = -torch.tensor(slopes(H), dtype=torch.float64)[:, None, None] * back
    bias = bias.masked_fill(back < 0, -math.inf)
    seen = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
    torch.testing.assert_close(attend(look, states).context, look.heads.join(seen))


@pytest.mark.parametrize(
    ("heads", "powers"),
    [
        (1, [8]),
        (2, [4, 8]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (16, [i / 2 for i in range(1, 17)]),
        (6, [2, 4, 6, 8, 1, 3]),
        (12, [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5]),
    ],
)
def test_alibi_slopes(heads, powers):
    assert slopes(heads) == pytest.approx([2**-power for power in powers])


def test_alibi_is_exact_far_away_in_half_precision():
    """Beyond 256, bfloat16 counts in steps of two and more."""
    position = positions["alibi"](PositionSizes(4, heads=1))
    distance = torch.tensor([[-1001, -1000, -999]])
    score = made("alibi").score
    bias = position.bias(torch.zeros(1, 1, 1, 4, dtype=torch.bfloat16), distance, score)
    assert (bias * 256).flatten().tolist() == [-1001, -1000, -999]


# -- laws -------------------------------------------------------------------------------------------------------------


@by_relative
@by_direction
@pytest.mark.parametrize("reach", ["global", "window", "dilated"])
def test_what_stands_before_does_not_matter_where_it_is_hidden(name, causal, reach, states):
    """Positions that know distances alone see the same in a sequence that starts later."""
    look = made(name, causal=causal, reach=reach)
    plain = attend(look, states)
    later = functional.pad(states, (0, 0, 7, 0), value=1.0)
    mask = torch.arange(T + 7).expand(B, -1) >= 7
    shifted = attend(look, later, mask)
    torch.testing.assert_close(shifted.context[:, 7:], plain.context)
    torch.testing.assert_close(shifted.weights[:, 7:, :, 7:], plain.weights)


@by_relative
def test_order_matters_with_positions_and_not_without(name, states):
    order = torch.randperm(T, generator=torch.Generator().manual_seed(3))
    for position, matters in ((name, True), ("none", False)):
        look = made(position)
        straight, shuffled = attend(look, states).context[:, order], attend(look, states[:, order]).context
        assert torch.allclose(straight, shuffled) is not matters


@by_relative
@pytest.mark.parametrize("reach", ["global", "window", "strided", "chunked"])
@pytest.mark.parametrize("groups", [1, H])
def test_with_a_cache_equals_all_at_once(name, reach, groups, states):
    look = made(name, causal=True, reach=reach, groups=groups)
    whole = attend(look, states)
    memory, carry, found = None, Carry(), []
    for more in states.split((1, 1, 11, 1, 9), dim=1):
        real = torch.ones(more.shape[:2], dtype=torch.bool)
        memory = look.remember(more, real) if memory is None else look.extend(memory, more)
        attended = look(more, memory, carry)
        carry = attended.carry
        found.append(attended.context)
    torch.testing.assert_close(torch.cat(found, dim=1), whole.context)


@by_relative
@by_direction
def test_unseen_equals_seen(name, causal, states):
    look = made(name, causal=causal)
    mask = from_lengths(LENGTHS)
    memory = look.remember(states, mask)
    torch.testing.assert_close(look(states, memory, look=False).context, look(states, memory).context)


@by_relative
def test_every_parameter_gets_a_gradient(name, states):
    look = made(name)
    attend(look, states).context.square().sum().backward()
    assert [n for n, p in look.named_parameters() if p.grad is None or not p.grad.abs().max() > 0] == []


@by_relative
def test_gradients_are_those_of_finite_differences(name):
    look = made(name, heads=2)
    states = torch.randn(1, 3, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: attend(look, x).context, (states,))


@by_relative
@pytest.mark.parametrize("score", ["dot", "general", "cosine"])
def test_other_inner_products_take_positions_too(name, score, states):
    """The scores of single pairs, by hand: turned, with `a` joined to the key, or with the distance taken off."""
    look = made(name, score=score)
    got = attend(look, states).weights.detach()
    queries, keys, _ = parts_of(look, states)
    keys = look.score.keys(keys)
    for h, i in ((0, 0), (1, 5), (2, 22)):
        scores = []
        for j in range(T):
            q, k, more = queries[1, h, i], keys[1, h, j], 0.0
            if name == "rotary":
                q, k = turned(q, i), turned(k, j)
            elif name == "shaw":  # `k` is the key as the score has prepared it, for cosine of length one
                k = k + look.position.a_K[max(-16, min(16, j - i)) + 16]
            else:
                more = -slopes(H)[h] * abs(i - j)
            length = q.norm() / look.score.log_beta[h].exp() if score == "cosine" else 1.0
            scores.append(q @ k / length + more)
        torch.testing.assert_close(got[1, i, h], torch.stack(scores).softmax(0).detach())


@by_direction
@torch.no_grad()
def test_with_shaw_the_vector_of_a_distance_joins_a_key_of_length_one_and_the_score_is_no_cosine(causal, states):
    look = made("shaw", score="cosine", causal=causal)
    a_K, a_V = look.position.a_K, look.position.a_V
    a_K.mul_(5.0)  # so long that no cosine could be mistaken for the score
    bounds, beyond = [float(log.exp()) for log in look.score.log_beta], []

    def which(i, j):
        return max(-16, min(16, j - i)) + 16

    def prepared(h, q, k, i, j):
        found = bounds[h] * float(q / q.norm() @ (k / k.norm() + a_K[which(i, j)]))
        beyond.append(abs(found) > bounds[h])
        return found

    def cosine(h, q, k, i, j):
        near = k + a_K[which(i, j)]
        return bounds[h] * float(q @ near / (q.norm() * near.norm()))

    def seen(look, i, j):
        return a_V[which(i, j)]

    got = attend(look, states, from_lengths(LENGTHS)).context
    torch.testing.assert_close(got, expected(look, states, LENGTHS, causal, prepared, seen))
    assert not torch.allclose(got, expected(look, states, LENGTHS, causal, cosine, seen), atol=1e-2)
    assert any(beyond)


def test_additive_scores_take_alibi(states):
    look = made("alibi", score="additive")
    query, keys, _ = parts_of(look, states)
    scores = look.score(query, look.score.keys(keys))
    away = (torch.arange(T)[:, None] - torch.arange(T)).abs()
    bias = torch.tensor(slopes(H), dtype=torch.float64)[:, None, None] * away
    torch.testing.assert_close(attend(look, states).weights.transpose(1, 2), (scores - bias).softmax(-1))


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in RELATIVE if positions[name].dotted])
def test_a_score_that_is_no_inner_product_is_refused(name):
    with pytest.raises(ConfigError) as caught:
        made(name, score="additive")
    assert str(caught.value).startswith(
        f"model.positions={name} changes the inner product of query and key, but model.self_attention.score=additive "
        "is not one: use one of "
    )
    assert str(caught.value).endswith(", or model.positions=alibi.")


def test_rotary_refuses_half_a_pair():
    with pytest.raises(ConfigError) as caught:
        made("rotary", head_width=5)
    assert str(caught.value) == (
        "Rotary positions rotate pairs of units, so the width of a head must be even, got 5: set "
        "model.self_attention.head_width to an even number."
    )


def test_sinusoidal_refuses_half_a_pair():
    with pytest.raises(ConfigError) as caught:
        positions["sinusoidal"](PositionSizes(7))
    assert str(caught.value) == (
        "Sinusoidal positions need an even width, got 7: change model.embedding, or set model.positions=learned."
    )


def test_a_misspelt_position_is_told_the_nearest():
    with pytest.raises(ConfigError) as caught:
        made("rotery")
    assert str(caught.value) == (
        "No position encoding named 'rotery'. Did you mean 'rotary'? (regard list positions shows all)"
    )
