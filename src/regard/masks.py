"""Masks are boolean and True means *may be looked at*, everywhere in this package."""

import torch

from regard.shapes import Bool, Float, Int, Tensor


def from_lengths(lengths: Int[Tensor, " B"], longest: int | None = None) -> Bool[Tensor, "B S"]:
    """Make the mask of a padded batch: position s of row b is real if `s < lengths[b]`."""
    size = int(lengths.max()) if longest is None else longest
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def masked_softmax(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Float[Tensor, "*N S"]:
    """Softmax over the allowed positions; the others get exactly zero, forward and backward.

    A row where nothing is allowed gives zeros: neither NaN, nor weight on padding. Half precision is normalised in
    float32 and returned as it came.
    """
    exact = scores.float() if scores.dtype in (torch.bfloat16, torch.float16) else scores
    forbidden = ~allowed
    # The lowest finite number instead of -inf: a wholly forbidden row becomes uniform, not NaN, and is then erased.
    weights = torch.softmax(exact.masked_fill(forbidden, torch.finfo(exact.dtype).min), dim=-1)
    return weights.masked_fill(forbidden, 0.0).to(scores.dtype)
