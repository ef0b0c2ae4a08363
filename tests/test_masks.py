"""Laws of masks and of the one softmax that all attention goes through."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.masks import from_lengths, masked_softmax, reversal

law = settings(deadline=None, max_examples=50)


@st.composite
def masked(draw, low=-60.0, high=60.0):
    """Draw scores and a mask of 3 rows of up to 7 positions."""
    width = draw(st.integers(1, 7))
    numbers = st.floats(low, high, width=32)
    scores = draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=3, max_size=3))
    allowed = draw(st.lists(st.lists(st.booleans(), min_size=width, max_size=width), min_size=3, max_size=3))
    return torch.tensor(scores, dtype=torch.float32), torch.tensor(allowed)


@law
@given(masked())
def test_with_everything_allowed_it_is_softmax(drawn):
    scores, _ = drawn
    everything = torch.ones_like(scores, dtype=torch.bool)
    assert torch.equal(masked_softmax(scores, everything), torch.softmax(scores, dim=-1))


@law
@given(masked())
def test_it_is_the_softmax_of_what_is_allowed_alone(drawn):
    scores, allowed = drawn
    weights = masked_softmax(scores, allowed)
    for row, mask, got in zip(scores, allowed, weights, strict=True):
        assert (got[~mask] == 0).all()
        torch.testing.assert_close(got[mask], torch.softmax(row[mask], dim=-1))


@law
@given(masked())
def test_rows_sum_to_one_or_to_nothing(drawn):
    scores, allowed = drawn
    sums = masked_softmax(scores, allowed).sum(-1)
    torch.testing.assert_close(sums, allowed.any(-1).float())


@law
@given(masked(), st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30]))
def test_what_is_masked_changes_no_bit_whatever_it_is(drawn, poison):
    scores, allowed = drawn
    poisoned = torch.where(allowed, scores, poison)
    assert torch.equal(masked_softmax(scores, allowed), masked_softmax(poisoned, allowed))


@law
@given(masked())
def test_no_gradient_reaches_what_is_masked(drawn):
    scores, allowed = drawn
    scores = scores.requires_grad_()
    masked_softmax(scores, allowed).square().sum().backward()
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[~allowed] == 0).all()


def test_a_row_with_nothing_allowed_is_zero_forward_and_backward():
    scores = torch.randn(2, 5, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False], [True]]).expand(2, 5))
    weights[0].sum().backward()
    assert (weights[0] == 0).all()
    assert (scores.grad == 0).all()


@law
@given(masked(low=-(2.0**127), high=2.0**127))
def test_huge_scores_give_finite_weights(drawn):
    scores, allowed = drawn
    weights = masked_softmax(scores, allowed)
    assert torch.isfinite(weights).all()
    torch.testing.assert_close(weights.sum(-1), allowed.any(-1).float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_normalised_in_single_and_returned_as_it_came(dtype):
    scores = (torch.randn(3, 101) * 5).to(dtype)
    allowed = torch.rand(3, 101) < 0.7
    weights = masked_softmax(scores, allowed)
    assert weights.dtype == dtype
    assert torch.equal(weights, masked_softmax(scores.float(), allowed).to(dtype))


def test_double_precision_stays_double():
    scores = torch.randn(2, 3, dtype=torch.float64)
    everything = torch.ones(2, 3, dtype=torch.bool)
    assert torch.equal(masked_softmax(scores, everything), torch.softmax(scores, dim=-1))


def test_one_mask_can_serve_several_rows():
    scores, allowed = torch.randn(2, 3, 5), torch.tensor([[[True, False, True, True, False]]])
    expected = masked_softmax(scores, allowed.expand(2, 3, 5))
    assert torch.equal(masked_softmax(scores, allowed.expand(2, 1, 5)), expected)


def test_the_worked_example():
    weights = masked_softmax(torch.tensor([[2.0, 1.0, 0.0]]), torch.ones(1, 3, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.tensor([[0.665, 0.245, 0.090]]), atol=5e-4, rtol=0)


@law
@given(st.lists(st.integers(0, 11), min_size=1, max_size=5), st.one_of(st.none(), st.integers(0, 13)))
def test_masks_from_lengths(lengths, longest):
    mask = from_lengths(torch.tensor(lengths), longest)
    size = max(lengths) if longest is None else longest
    assert mask.tolist() == [[s < length for s in range(size)] for length in lengths]


def test_a_reversal_undoes_itself_and_leaves_padding_and_what_is_kept():
    mask = from_lengths(torch.tensor([5, 3, 1, 0]), 5)
    assert reversal(mask).tolist() == [[4, 3, 2, 1, 0], [2, 1, 0, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]
    for kept in (0, 1, 2):
        order = reversal(mask, kept)
        assert order.gather(1, order).tolist() == [list(range(5))] * 4
