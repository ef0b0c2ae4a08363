"""Many heads against torch's own; groups, temperatures, pruning, values, and the fused way of looking."""

import itertools

import pytest
import torch
from torch import nn

from regard.attention import Carry, build_attention, focuses, scores
from regard.config import AttentionConfig

B, T, S, D, H = 3, 5, 7, 22, 2
MASK = torch.arange(S) < torch.tensor([S, 4, 1])[:, None]


def inputs(width=D):
    generator = torch.Generator().manual_seed(2)
    made = [torch.randn(B, steps, width, generator=generator, dtype=torch.float64) for steps in (T, S)]
    return [one.requires_grad_() for one in made]


def build(width=D, seed=1, causal=False, **config):
    torch.manual_seed(seed)
    config = {"score": "scaled-dot", "heads": H, **config}
    return build_attention(AttentionConfig(**config), width, width, itself=causal, causal=causal).double()


@pytest.mark.parametrize("causal", [False, True])
def test_equals_torch(causal):
    """The same weights in `torch.nn.MultiheadAttention`: same contexts, same weights, same gradients."""
    look = build(causal=causal)
    theirs = nn.MultiheadAttention(D, H, batch_first=True).double()
    with torch.no_grad():
        ours = (look.heads.W_q, look.heads.W_k, look.heads.W_v)
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in ours]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in ours]))
        theirs.out_proj.load_state_dict(look.heads.W_o.state_dict())
    query, states = inputs()
    forbidden = torch.ones(T, S, dtype=torch.bool).triu(1) if causal else None
    expected, seen = theirs(
        query, states, states, key_padding_mask=~MASK, attn_mask=forbidden, average_attn_weights=False
    )
    for wanted in (True, False):
        attended = look(query, look.remember(states, MASK), look=wanted)
        torch.testing.assert_close(attended.context, expected)
        if wanted:
            torch.testing.assert_close(attended.weights, seen.transpose(1, 2))
        pairs = (
            torch.autograd.grad(one.square().sum(), (query, states), retain_graph=True)
            for one in (attended.context, expected)
        )
        for one, other in zip(*pairs, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("score", [name for name in scores if name not in ("location", "concat", "tanh", "additive")])
def test_groups_are_heads_whose_keys_are_repeated(score, groups):
    """Grouped, and with one group multi-query: as if each group's keys and values were written out for its heads."""
    few = build(24, score=score, heads=4, groups=groups)
    many = build(24, score=score, heads=4)
    same = {name: value for name, value in few.state_dict().items() if "W_k" not in name and "W_v" not in name}
    missing, unexpected = many.load_state_dict(
        {name: value for name, value in same.items() if many.state_dict()[name].shape == value.shape}, strict=False
    )
    with torch.no_grad():
        for name in missing:
            value = few.state_dict()[name]
            repeated = value.unflatten(0, (groups, -1)).repeat_interleave(4 // groups, dim=0).flatten(0, 1)
            many.get_parameter(name).copy_(repeated)
    assert unexpected == []
    assert few.heads.W_k.weight.shape == (groups * 6, 24)
    query, states = inputs(24)
    one, other = (look(query, look.remember(states, MASK)) for look in (few, many))
    torch.testing.assert_close(one.context, other.context)
    torch.testing.assert_close(one.weights, other.weights)
    assert few.remember(states, MASK).keys.shape[1] == groups


def test_one_group_is_the_smaller_memory():
    query, states = inputs(24)
    look = build(24, heads=4, groups=1)
    memory = look.remember(states, MASK)
    assert memory.keys.shape == memory.values.shape == (B, 1, S, 6)
    assert look(query, memory).weights.shape == (B, T, 4, S)


def test_each_head_is_a_look_of_its_own():
    """Written out: a loop over heads with slices of the matrices, for a score with weights of its own."""
    look = build(score="additive", width=D)
    heads, score = look.heads, look.score
    query, states = inputs()
    attended = look(query, look.remember(states, MASK))
    wide, units = D // H, score.key_width
    for b, t in itertools.product(range(B), range(T)):
        seen = []
        for h in range(H):
            part, hidden = slice(h * wide, (h + 1) * wide), slice(h * units, (h + 1) * units)
            q = heads.W_q.weight[part] @ query[b, t] + heads.W_q.bias[part]
            e, values = [], []
            for s in range(int(MASK[b].sum())):
                k = heads.W_k.weight[part] @ states[b, s] + heads.W_k.bias[part]
                inside = torch.tanh(score.W_a.weight[hidden] @ q + score.U_a.weight[hidden] @ k)
                e.append(score.v_a.weight[h] @ inside)
                values.append(heads.W_v.weight[part] @ states[b, s] + heads.W_v.bias[part])
            a = torch.softmax(torch.stack(e), dim=0)
            torch.testing.assert_close(attended.weights[b, t, h, : len(a)], a)
            seen.append(sum(weight * value for weight, value in zip(a, values, strict=True)))
        torch.testing.assert_close(attended.context[b, t], heads.W_o(torch.cat(seen)))


def test_one_head_with_projections():
    look = build(heads=1, project=True, head_width=6)
    query, states = inputs()
    attended = look(query, look.remember(states, MASK))
    assert look.heads.W_q.weight.shape == (6, D)
    assert attended.context.shape == (B, T, D)
    assert attended.weights.shape == (B, T, 1, S)


# -- temperature -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("focus", ["softmax", "sparsemax", "entmax"])
def test_temperature_divides_scores(focus):
    query, states = inputs()
    warm = build(focus=focus, temperature=2.5)
    plain = build(focus=focus)
    half = query.detach() / 2.5
    # Scores are linear in the query, but for the bias of its projection.
    for look in (warm, plain):
        nn.init.zeros_(look.heads.W_q.bias)
    torch.testing.assert_close(
        warm(query, warm.remember(states, MASK)).weights, plain(half, plain.remember(states, MASK)).weights
    )


def test_each_head_learns_a_temperature_of_its_own():
    look = build(learn_temperature=True)
    plain = build()
    query, states = inputs()
    at_first = look(query, look.remember(states, MASK))
    torch.testing.assert_close(at_first.context, plain(query, plain.remember(states, MASK)).context)
    with torch.no_grad():
        look.log_temperature.copy_(torch.tensor([0.0, 3.0]).log().clamp_min(0.0))
    hot = look(query, look.remember(states, MASK))
    torch.testing.assert_close(hot.weights[:, :, 0], at_first.weights[:, :, 0])
    cooled = at_first.weights[:, :, 1] ** (1 / 3)
    torch.testing.assert_close(hot.weights[:, :, 1], cooled / cooled.sum(-1, keepdim=True))
    hot.context.square().sum().backward()
    assert (look.log_temperature.grad.abs() > 0).all()


# -- pruning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [True, False])
def test_a_pruned_head_is_one_whose_part_of_the_last_matrix_is_zero(wanted):
    pruned, whole = build(24, heads=4, pruned=("0.1", "0.3", "7.0")), build(24, heads=4)
    query, states = inputs(24)
    before = whole(query, whole.remember(states, MASK)).context
    with torch.no_grad():
        for head in (1, 3):
            whole.heads.W_o.weight[:, head * 6 : (head + 1) * 6] = 0.0
    expected = whole(query, whole.remember(states, MASK), look=wanted).context
    got = pruned(query, pruned.remember(states, MASK), look=wanted).context
    torch.testing.assert_close(got, expected)
    assert not torch.allclose(got, before)
    got.square().sum().backward()
    for part in (pruned.heads.W_q, pruned.heads.W_v):
        by_head = part.weight.grad.unflatten(0, (4, 6)).abs().amax(dim=(1, 2))
        assert ((by_head > 0) == torch.tensor([True, False, True, False])).all()


def test_pruning_counts_by_layer():
    config = AttentionConfig("scaled-dot", heads=4, pruned=("0.1", "2.0", "2.3", "2.3"))
    assert [build_attention(config, 24, 24, layer=layer).pruned for layer in range(4)] == [(1,), (), (0, 3), ()]


# -- values ----------------------------------------------------------------------------------------------------------


def test_values_can_be_projected_alone():
    torch.manual_seed(1)
    look = build_attention(AttentionConfig("dot", values=True), D, D).double()
    plain = build_attention(AttentionConfig("dot"), D, D).double()
    query, states = inputs()
    attended = look(query, look.remember(states, MASK))
    expected = plain(query, plain.remember(states, MASK))
    torch.testing.assert_close(attended.weights, expected.weights)
    torch.testing.assert_close(attended.context, expected.context @ look.values.weight.T)


def test_projections_have_values_already():
    assert build(values=True).values is None


# -- the fused way ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [0, 1])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, H])
def test_fused_equals_plain(heads, causal, groups):
    """Contexts and all gradients; also where a query has nothing to look at, and in the middle of a sequence."""
    look = build(heads=heads, groups=groups, causal=causal)
    assert look._fusible()
    mask = MASK.clone()
    mask[1] = False
    mask[2] = torch.arange(S) == S - 1  # nothing in the past of all but the last queries
    found = []
    for wanted in (True, False):
        query, states = inputs()
        look.zero_grad()
        attended = look(query, look.remember(states, mask), Carry(2), look=wanted)
        assert (attended.weights is None) == (not wanted)
        assert attended.carry == Carry(2 + T)
        attended.context.square().sum().backward()
        found.append([attended.context, query.grad, states.grad, *(p.grad for p in look.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
        assert one.isfinite().all()


def test_only_what_torch_computes_is_fused():
    assert build()._fusible()
    assert build(causal=True)._fusible()
    for change in ({"score": "dot"}, {"temperature": 2.0}, {"learn_temperature": True}, {"reach": "local-m"}):
        look = build(**change)
        query, states = inputs()
        whole, part = (look(query, look.remember(states, MASK), look=wanted).context for wanted in (True, False))
        assert torch.equal(whole, part)
    assert all(not build(focus=focus)._fusible() for focus in focuses if focus != "softmax")


def test_pruned_heads_may_be_one_list_or_many():
    asked = [AttentionConfig(heads=4, pruned=pruned) for pruned in (("0.1", "0.3"), ("0.1,0.3",), ("0.3, 0.1",))]
    assert {build_attention(config, 8, 8).pruned for config in asked} == {(1, 3)}
