"""Sparse reaches as batched matrix products: queries are cut into blocks, and each block gathers the keys it needs.

All blocks of a cut have one size, so they form one batched product, and the backward pass accumulates each key's
gradient once. (A loop over slices would be slower: the gradient of every slice is a tensor as long as the sequence.)
"""

import torch
from torch.nn import functional

from regard.attention.base import Blocks
from regard.shapes import Float, Int, Tensor

SMALLEST = 32
"""Least number of queries in a block: smaller matrix products are slower than the pairs they would save."""


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
    """Cut the queries from position `first` on into blocks of `block`, for keys at positions below `size`.

    A block attends to `before` keys before its first query and `after` keys after its last. With a `stride`, positions
    are first divided into that many interleaved sequences, each is cut, and all distances count in strides.
    """
    hands = min(stride, steps)
    longest = -(-steps // stride)
    if before + block + after >= -(-size // stride):
        block = longest
    block = min(block, longest)
    each = -(-longest // block)
    starts = torch.arange(hands, device=device)[:, None] + stride * block * torch.arange(each, device=device)
    starts = first + starts.flatten()[:, None]
    # Drop the key columns that are out of range for every block.
    last = first + hands - 1 + stride * block * (each - 1)
    low, high = max(-before, -(last // stride)), min(block + after, (size - 1 - first) // stride + 1)
    # Queries beyond all keys keep one forbidden column: most focuses cannot take an empty row.
    high = max(low + 1, high)
    at = torch.arange(steps, device=device)
    return Blocks(
        starts - first + stride * torch.arange(block, device=device),
        starts + stride * torch.arange(low, high, device=device),
        at % stride * (each * block) + at // stride,
    )


def pick(rows: Float[Tensor, "B H S K"], index: Int[Tensor, "#B M N"]) -> Float[Tensor, "_ H N K"]:
    """Gather rows for each of M blocks and stack the blocks along the batch; an out-of-range index gets any row."""
    batch, heads, size, width = rows.shape
    index = index.clamp(0, size - 1)
    if index.shape[:2] == (1, 1):
        return rows.index_select(2, index[0, 0])
    starts = size * torch.arange(batch * heads, device=rows.device).view(batch, 1, heads, 1)
    # An embedding lookup is a gather with a fast backward pass.
    return functional.embedding(starts + index[:, :, None], rows.reshape(-1, width)).flatten(0, 1)


def lay_out(blocks: Float[Tensor, "_ H T K"], batch: int, slots: Int[Tensor, " N"]) -> Float[Tensor, "B H N K"]:
    """Put the results of blocks back into the order of the queries: the inverse of `pick`."""
    rows = blocks.view(batch, -1, *blocks.shape[1:]).transpose(1, 2).flatten(2, 3)
    return pick(rows, slots[None, None])
