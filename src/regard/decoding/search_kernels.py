"""Triton kernels for beam search: choosing and reordering hypotheses, each in one pass over memory."""
# Triton's functions have no Python types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import Any, NamedTuple, no_type_check

import torch
import triton
import triton.language as tl

from regard.shapes import Bool, Float, Int, Tensor


@triton.jit
@no_type_check
def _top(logits, forbidden, best, words, whole, width, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    """Find the largest elements of a row, one after the other; of equal ones the first."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    z = tl.load(logits + row * width + at, mask=at < width, other=float("-inf")).to(tl.float32)
    most = tl.max(z, axis=0)
    tl.store(whole + row, most + tl.log(tl.sum(tl.exp(z - most), axis=0)))
    z = tl.where(tl.load(forbidden + at, mask=at < width, other=1) != 0, float("-inf"), z)
    for number in range(COUNT):
        largest, place = tl.max(z, axis=0, return_indices=True)
        place = tl.minimum(place, width - 1)  # NaN has no order, so the index may be out of range
        tl.store(best + row * COUNT + number, largest)
        tl.store(words + row * COUNT + number, place.to(tl.int64))
        z = tl.where(at == place, float("-inf"), z)


def top(
    logits: Float[Tensor, "B W"], forbidden: Bool[Tensor, " W"], count: int
) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"], Float[Tensor, " B"]]:
    """Return the largest logits that are not forbidden, their words, and the log-sum-exp of all logits."""
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
def _reorder_rows(state, parents, size, BEAM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Move a block of all hypotheses of a sentence to the slots of their extensions."""
    sentence = tl.program_id(0).to(tl.int64)
    at, row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, ROWS)
    parent = tl.load(parents + sentence * BEAM + row, mask=row < BEAM, other=0)
    inside = (row < BEAM)[:, None] & (at < size)[None, :]
    first = state + sentence * BEAM * size
    moved = tl.load(first + parent[:, None] * size + at[None, :], mask=inside)
    tl.debug_barrier()  # read all before writing any
    tl.store(first + row[:, None] * size + at[None, :], moved, mask=inside)


def reorder_rows_(state: Tensor, parents: Int[Tensor, "B N"]) -> None:
    """Move row `parents[b, n]` of sentence b to its row n, in place; rows must be contiguous."""
    sentences, beam = parents.shape
    size = state.numel() // len(state)
    block = min(1024, triton.next_power_of_2(size))
    _reorder_rows[(sentences, triton.cdiv(size, block))](
        state, parents, size, BEAM=beam, ROWS=triton.next_power_of_2(beam), BLOCK=block, num_warps=4
    )


@triton.jit
@no_type_check
def _choose(
    near, words, whole, penalties, length, limits, highest, going, totals, scores, lengths, slots, finished, cut, token,
    broken, told_tokens, told_parents, told_log_probs, parents, rows, count, eos, most,
    BEAM: tl.constexpr, KEPT: tl.constexpr, PATIENT: tl.constexpr, WIDE: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Do everything for one sentence between the best words of its hypotheses and the next step."""
    b = tl.program_id(0).to(tl.int64)
    slot, other = tl.arange(0, WIDE), tl.arange(0, ALL)
    inside, never = slot < BEAM, float("-inf")
    now = tl.load(length)
    # Rank the extensions; NaN comes first, so that it is detected.
    origin = other // BEAM
    real = other < BEAM * BEAM
    total = tl.load(totals + b * BEAM + origin, mask=real, other=never)
    sum_of_all = tl.load(whole + b * BEAM + origin, mask=real, other=0.0)
    found = total - sum_of_all + tl.load(near + b * BEAM * BEAM + other, mask=real, other=never)
    lost = tl.max((found != found).to(tl.int32), axis=0) > 0
    # Impossible extensions may be all there is: choose them one after the other, none twice.
    left = tl.where(found != found, float("inf"), tl.maximum(found, -3.0e38))
    left = tl.where(real, left, never)
    place = tl.zeros([WIDE], dtype=tl.int32)
    for number in range(BEAM):
        best = tl.argmax(left, axis=0)
        place = tl.where(slot == number, best, place)
        left = tl.where(other == best, never, left)
    parent = place // BEAM
    word = tl.load(words + b * BEAM * BEAM + place, mask=inside, other=0)
    log_prob = tl.load(near + b * BEAM * BEAM + place, mask=inside, other=never)
    log_prob = log_prob - tl.load(whole + b * BEAM + parent, mask=inside, other=0.0)
    total = tl.load(totals + b * BEAM + parent, mask=inside, other=never) + log_prob
    # Finished hypotheses.
    limit, went = tl.load(limits + b), tl.load(going + b) != 0
    score = total / tl.load(penalties + now)
    complete = (word == eos) & inside
    ended = complete | (now >= limit)
    entering = tl.where(complete, score, never)
    done = tl.load(finished + b) + tl.sum((entering > never).to(tl.int64), axis=0)
    tl.store(finished + b, done)
    kept = tl.load(scores + b * KEPT + slot, mask=slot < KEPT, other=never)
    old_lengths = tl.load(lengths + b * KEPT + slot, mask=slot < KEPT, other=0)
    old_slots = tl.load(slots + b * KEPT + slot, mask=slot < KEPT, other=0)
    worst = never
    for number in range(KEPT):
        before, after = tl.max(kept, axis=0), tl.max(entering, axis=0)
        was, new = tl.argmax(kept, axis=0), tl.argmax(entering, axis=0)
        stays = before >= after
        worst = tl.where(stays, before, after)
        own_length = tl.sum(tl.where(slot == was, old_lengths, 0), axis=0)
        own_slot = tl.sum(tl.where(slot == was, old_slots, 0), axis=0)
        tl.store(scores + b * KEPT + number, worst)
        tl.store(lengths + b * KEPT + number, tl.where(stays, own_length, now))
        tl.store(slots + b * KEPT + number, tl.where(stays, own_slot, new.to(tl.int64)))
        kept = tl.where(slot == tl.where(stays, was, -1), never, kept)
        entering = tl.where(slot == tl.where(stays, -1, new), never, entering)
    is_last = (now == limit) & (complete == 0)
    tl.store(cut + b * BEAM + slot, score, mask=inside & is_last)
    # Sentences that go on.
    if lost & went:
        if tl.load(broken) == 0:
            tl.store(broken, now)
    total = tl.where(ended & (total == total), never, total)
    dearest = tl.maximum(tl.load(highest + b), tl.load(penalties + now + 1))
    goes = tl.max(tl.where(inside, total, never), axis=0) / dearest > worst
    if PATIENT:
        goes = goes & (done.to(tl.float32) < most)
    tl.store(going + b, goes.to(tl.uint8))
    tl.store(totals + b * BEAM + slot, tl.where(goes, total, never), mask=inside)
    tl.store(token + b * BEAM + slot, word, mask=inside)
    tl.store(parents + b * BEAM + slot, parent.to(tl.int64), mask=inside)
    tl.store(rows + b * BEAM + slot, b * BEAM + parent.to(tl.int64), mask=inside)
    at = (now - 1) * count * BEAM + b * BEAM + slot
    tl.store(told_tokens + at, word, mask=inside)
    tl.store(told_parents + at, parent.to(tl.int64), mask=inside)
    tl.store(told_log_probs + at, log_prob, mask=inside)


class Choosing(NamedTuple):
    """State of a search: `static_search.SearchState` and `Record`, and what changes with the step."""

    penalties: Float[Tensor, " L"]
    length: Int[Tensor, " 1"]
    broken: Int[Tensor, " 1"]
    beams: Any
    record: Any
    eos: int
    most: float
    """Number of finished hypotheses that ends a sentence's search; 0 for no limit."""


def choose(
    near: Float[Tensor, "R N"], words: Int[Tensor, "R N"], whole: Float[Tensor, " R"], at: Choosing
) -> tuple[Int[Tensor, "B N"], Int[Tensor, " R"]]:
    """Choose and store the next hypotheses; return which ones they extend, within their sentence and among all."""
    beams = at.beams
    count, beam = beams.totals.shape
    kept = beams.scores.shape[1]
    parents = torch.empty(count, beam, dtype=torch.long, device=near.device)
    rows = torch.empty(count * beam, dtype=torch.long, device=near.device)
    going = beams.going.view(torch.uint8)
    _choose[(count,)](
        near, words, whole, at.penalties, at.length, beams.limits, beams.highest, going, beams.totals,
        beams.scores, beams.lengths, beams.slots, beams.finished, beams.cut, beams.token, at.broken,
        *at.record, parents, rows, count, at.eos, at.most,
        BEAM=beam, KEPT=kept, PATIENT=at.most > 0, WIDE=max(2, triton.next_power_of_2(max(beam, kept))),
        ALL=max(2, triton.next_power_of_2(beam * beam)), num_warps=1,
    )  # fmt: skip
    return parents, rows
