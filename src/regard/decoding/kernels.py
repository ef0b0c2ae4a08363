"""What a step of a search does on a GPU beside the model's own work, reading and writing memory once (Triton)."""
# What Triton compiles has no types that Python's would fit.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import no_type_check

import torch
import triton
import triton.language as tl

from regard.shapes import Bool, Float, Int, Tensor


@triton.jit
@no_type_check
def _top(logits, forbidden, best, words, whole, width, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Take the largest of a row, again and again; of equal ones the first."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    z = tl.load(logits + row * width + at, mask=at < width, other=float("-inf")).to(tl.float32)
    most = tl.max(z, axis=0)
    tl.store(whole + row, most + tl.log(tl.sum(tl.exp(z - most), axis=0)))
    z = tl.where(tl.load(forbidden + at, mask=at < width, other=1) != 0, float("-inf"), z)
    for number in range(COUNT):
        largest, place = tl.max(z, axis=0, return_indices=True)
        place = tl.minimum(place, width - 1)  # what is no number is in no order, and may be found anywhere
        tl.store(best + row * COUNT + number, largest)
        tl.store(words + row * COUNT + number, place.to(tl.int64))
        z = tl.where(at == place, float("-inf"), z)


def top(
    logits: Float[Tensor, "B W"], forbidden: Bool[Tensor, " W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, " B"]]:
    """Find the best logits that are not forbidden, their words, and the log of the sum of all exponentials."""
    rows, width = logits.shape
    best = torch.empty(rows, count, device=logits.device)
    words = torch.empty(rows, count, dtype=torch.long, device=logits.device)
    whole = torch.empty(rows, device=logits.device)
    block = triton.next_power_of_2(width)
    _top[(rows,)](
        logits.contiguous(), forbidden.view(torch.uint8), best, words, whole, width,
        COUNT=count, BLOCK=block, num_warps=max(1, min(16, block // 1024)),
    )  # fmt: skip
    return best, words, whole


@triton.jit
@no_type_check
def _move(state, parents, size, BEAM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Move a piece of all hypotheses of a sentence to where their extensions stand."""
    sentence = tl.program_id(0).to(tl.int64)
    at, row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, ROWS)
    parent = tl.load(parents + sentence * BEAM + row, mask=row < BEAM, other=0)
    inside = (row < BEAM)[:, None] & (at < size)[None, :]
    first = state + sentence * BEAM * size
    moved = tl.load(first + parent[:, None] * size + at[None, :], mask=inside)
    tl.debug_barrier()  # all are read before one is written
    tl.store(first + row[:, None] * size + at[None, :], moved, mask=inside)


def move(state: Tensor, parents: Int[Tensor, "B N"]) -> None:
    """Put row `parents[b, n]` of sentence b into its row n, in place; each row lies in one piece."""
    sentences, beam = parents.shape
    size = state.numel() // len(state)
    block = min(1024, triton.next_power_of_2(size))
    _move[(sentences, triton.cdiv(size, block))](
        state, parents, size, BEAM=beam, ROWS=triton.next_power_of_2(beam), BLOCK=block, num_warps=4
    )
