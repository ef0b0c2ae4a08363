"""Masks are boolean, and True means *may attend*, everywhere in this package."""

import torch

from regard.shapes import Bool, Float, Int, Tensor


def from_lengths(lengths: Int[Tensor, " B"], longest: int | None = None) -> Bool[Tensor, "B S"]:
    """Make the mask of a padded batch: position s of row b is real if `s < lengths[b]`."""
    size = int(lengths.max()) if longest is None else longest
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def reversal(mask: Bool[Tensor, "B S"], kept: int = 0) -> Int[Tensor, "B S"]:
    """Return the index that reverses each row's real positions, except the last `kept`; it is its own inverse."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    last = mask.sum(dim=1, keepdim=True) - 1 - kept
    return torch.where(positions <= last, last - positions, positions)


def exact(values: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Convert half precision to float32, for sums over a row."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def masked_softmax(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Float[Tensor, "*N S"]:
    """Softmax over the allowed positions; the others get exactly zero, forward and backward.

    A row where nothing is allowed gives zeros: neither NaN, nor weight on padding. Half precision is normalised in
    float32 and converted back.
    """
    summed, forbidden = exact(scores), ~allowed
    # The lowest finite number instead of -inf: a row with nothing allowed becomes uniform, not NaN, and is then zeroed.
    weights = torch.softmax(summed.masked_fill(forbidden, torch.finfo(summed.dtype).min), dim=-1)
    return weights.masked_fill(forbidden, 0.0).to(scores.dtype)


def is_known(values: Tensor) -> bool:
    """Whether code may branch on these values without a host sync: on a CPU, except while a graph is exported."""
    return values.device.type == "cpu" and not torch.compiler.is_exporting()


def erase(states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
    """Zero the padding of states, whatever it contains, and stop its gradient.

    On a CPU only padding is touched, and nothing if there is none; on a GPU, finding that out would be a host sync.
    """
    if not is_known(mask):
        return states.masked_fill(~mask[..., None], 0.0)
    padding = (~mask).flatten().nonzero()[:, 0]
    if not len(padding):
        return states
    return states.flatten(0, 1).index_fill(0, padding, 0.0).view_as(states)
