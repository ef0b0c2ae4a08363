"""Short reaches as matrix products: queries are cut into blocks, and each block picks the keys that it may look at.

All blocks of a cut have one size, so they are one batch of products, and backward each key gathers its gradient in one
pass. (A loop over slices would not do: the gradient of every slice is a tensor as long as the sequence.)
"""

import torch
from torch.nn import functional

from regard.attention.base import Blocks
from regard.shapes import Float, Int, Tensor

SMALLEST = 32
"""Queries in a block, where the reach is shorter: smaller products waste more time than they save."""


def cut(
    first: int,
    steps: int,
    size: int,
    device: torch.device,
    *,
    block: int,
    before: int,
    after: int,
    stride: int = 1,
) -> Blocks:
    """Cut the queries of positions `first` and on into blocks of `block`, for keys of positions below `size`.

    A block sees `before` keys before its first query and `after` keys after its last. With a `stride`, positions are
    first dealt into that many hands, as cards are, and each hand is cut: all distances then count in strides.
    """
    hands = min(stride, steps)
    longest = -(-steps // stride)
    if before + block + after >= -(-size // stride):
        block = longest
    block = min(block, longest)
    each = -(-longest // block)
    starts = torch.arange(hands, device=device)[:, None] + stride * block * torch.arange(each, device=device)
    starts = first + starts.flatten()[:, None]
    # What lies outside the sequence for all blocks need not be padded with.
    last = first + hands - 1 + stride * block * (each - 1)
    low, high = max(-before, -(last // stride)), min(block + after, (size - 1 - first) // stride + 1)
    # Queries beyond all keys have one that they may not look at: most focuses need something to forbid.
    high = max(low + 1, high)
    at = torch.arange(steps, device=device)
    return Blocks(
        starts - first + stride * torch.arange(block, device=device),
        starts + stride * torch.arange(low, high, device=device),
        at % stride * (each * block) + at // stride,
    )


def pick(rows: Float[Tensor, "B H S K"], index: Int[Tensor, "#B M N"]) -> Float[Tensor, "_ H N K"]:
    """Pick rows for each of M blocks, and lay the blocks along the batch; an index out of range picks any row."""
    batch, heads, size, width = rows.shape
    index = index.clamp(0, size - 1)
    if index.shape[:2] == (1, 1):
        return rows.index_select(2, index[0, 0])
    starts = size * torch.arange(batch * heads, device=rows.device).view(batch, 1, heads, 1)
    # An embedding is picking rows of a table, with a backward made for that.
    return functional.embedding(starts + index[:, :, None], rows.reshape(-1, width)).flatten(0, 1)


def lay_out(blocks: Float[Tensor, "_ H T K"], batch: int, slots: Int[Tensor, " N"]) -> Float[Tensor, "B H N K"]:
    """Undo `pick` for queries: bring what was found in blocks back into the order of the queries."""
    rows = blocks.view(batch, -1, *blocks.shape[1:]).transpose(1, 2).flatten(2, 3)
    return pick(rows, slots[None, None])
