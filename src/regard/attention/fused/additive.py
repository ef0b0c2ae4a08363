"""Additive scores, and attention with them, as functions that autograd knows.

Rows (B·H of them) are worked on by the chunk, and long ones by pieces of their queries, so that what lives between two
kernels is small beside inputs and outputs, and stays in the chip's cache where it can.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from regard.attention.fused import launch
from regard.attention.fused.launch import AFTER_ALL, FEW, PADDING, Gradients, Look, Pairs, on_the_device_of, up
from regard.errors import RegardError
from regard.shapes import Float, Tensor

__all__ = ["AFTER_ALL", "AdditiveAttention", "AdditiveScores"]

ROOM = 32 * 2**20
"""Bytes that the work on a chunk may take where inputs and outputs are small."""
SHARE = 0.75
"""What it may take of the room of inputs and outputs where they are large."""
PIECE = 256
"""The fewest queries that are worth a launch."""
KEPT = 0.5
"""Scores that take no more than this of the room of inputs and outputs are kept for the gradients, not made again."""


class AdditiveScores(torch.autograd.Function):
    r"""`e_{ts} = v^\top \tanh(q_t + k_s)`; queries M×T×A, keys M×S×A, vectors H×A, where M is B·H."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vectors: Tensor) -> Tensor:
        """All scores, in the type of the queries."""
        ctx.save_for_backward(queries, keys, vectors)
        found = queries.new_empty(*queries.shape[:2], keys.shape[1])
        with on_the_device_of(queries):
            pairs = Pairs(queries, keys, vectors)
            launch.score(pairs if queries.shape[1] < FEW else launch.prepare(pairs), found)
        return found

    @staticmethod
    def backward(ctx: Any, back: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of queries, keys and vectors."""
        _only_once()
        queries, keys, vectors = ctx.saved_tensors
        few, (steps, size) = queries.shape[1] < FEW, back.shape[1:]
        back = back.float()
        tall = steps if few else up(steps, PADDING)
        back = functional.pad(back, (0, up(size, PADDING) - size, 0, tall - steps)).contiguous()
        with on_the_device_of(queries):
            pairs = Pairs(queries, keys, vectors)
            found = Gradients.zeros(pairs)
            launch.differentiate(pairs if few else launch.prepare(pairs, gradients=True, scores=False), back, found)
        return found.queries.to(queries.dtype), found.keys.to(keys.dtype), _by_head(found.vectors(), vectors)


class AdditiveAttention(torch.autograd.Function):
    r"""`c_t = \sum_s \alpha_{ts} x_s` with `\alpha_t = \mathrm{softmax}(e_t)`, and values `x` of M×S×V.

    Weights are never written on the way there, and live as long as a chunk on the way back, as large scores do. A
    query that may look at nothing sees zeros, and none looks at a key after it: `position` is that of the first query.
    """

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        vectors: Tensor,
        values: Tensor,
        mask: Tensor,
        position: int,
        learning: bool,
    ) -> Tensor:
        """All contexts, in the type of the values; if somebody is `learning`, gradients will be wanted."""
        given = _Given(queries, keys, vectors, values, mask, position)
        context = values.new_empty(*queries.shape[:2], values.shape[-1])
        norms = queries.new_empty(*queries.shape[:2], 2, dtype=torch.float32)
        seen = _Seen(norms, given.room_for_scores(context) if learning else None)
        with on_the_device_of(queries):
            for piece in (one for pieces in given.chunks(False, seen.scores, context) for one in pieces):
                _look(given, piece, context, seen)
        ctx.save_for_backward(queries, keys, vectors, values, mask, *seen)
        ctx.position = position
        return context

    @staticmethod
    def backward(ctx: Any, back: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of queries, keys, vectors and values."""
        _only_once()
        back = back.contiguous()
        queries, keys, vectors, values, mask, *left = ctx.saved_tensors
        given, seen = _Given(queries, keys, vectors, values, mask, ctx.position), _Seen(*left)
        grads = [torch.empty_like(one) for one in (queries, keys, values)]
        by_row = vectors.new_empty(len(queries), vectors.shape[1])
        with on_the_device_of(back):
            for pieces in given.chunks(True, seen.scores, back, back, *grads):
                _back_of_rows(given, seen, back, pieces, grads, by_row)
        return grads[0], grads[1], _by_head(by_row, vectors), grads[2], None, None, None


def _only_once() -> None:
    """Refuse to be differentiated again, rather than be taken for a constant."""
    if torch.is_grad_enabled():
        raise RegardError(
            "The fused additive attention has no second derivative, and a backward pass with create_graph=True asks "
            "for one: compute in float64, which takes the plain version."
        )


Piece = tuple[slice, slice]
"""Rows, and queries among theirs."""


class _Given(NamedTuple):
    """What attention is computed of."""

    queries: Float[Tensor, "M T A"]
    keys: Float[Tensor, "M S A"]
    vectors: Float[Tensor, "H A"]
    values: Float[Tensor, "M S V"]
    mask: Tensor
    position: int

    def at(self, piece: Piece) -> tuple[Pairs, Look]:
        """A piece of it."""
        rows, steps = piece
        look = Look(self.mask, self.position + steps.start)
        return Pairs(self.queries[rows, steps], self.keys[rows], self.vectors, rows.start), look

    def room_for_scores(self, context: Tensor) -> Float[Tensor, "M _ _"] | None:
        """Room for all scores, or None if they take too much."""
        (count, steps, _), size = self.queries.shape, self.keys.shape[1]
        there = sum(one.nbytes for one in (self.queries, self.keys, self.values, context))
        needed = 4 * count * up(steps, PADDING) * up(size, PADDING)
        return None if needed > KEPT * there else _room(self.queries, count, steps, size)

    def scores(self, pairs: Pairs, look: Look, kept: Tensor | None = None) -> Float[Tensor, "N _ _"]:
        """Scores of a piece, where they are kept if they are."""
        scores = _room(pairs.queries, *pairs.sizes[:3]) if kept is None else kept
        launch.score(pairs, scores, look)
        return scores

    def chunks(self, gradients: bool, kept: Tensor | None, *others: Tensor) -> Iterator[list[Piece]]:
        """Cut the rows so that the work on a chunk fits in its room; what is too long for that, by its queries.

        The pieces of the same rows come together; `kept` are all scores, if they are, and take of the room; `others`
        are what there is besides.
        """
        (count, steps, units), size = self.queries.shape, self.keys.shape[1]
        there = (self.queries, self.keys, self.values, *others)
        room = max(ROOM, SHARE * sum(one.nbytes for one in there) - (0 if kept is None else kept.nbytes))
        by_key = 4 * units * ((3 if kept is None else 2) if gradients else 1)
        score = 4 if gradients or kept is None else 0
        by_query = 4 * units * (2 if gradients else 1) + (score + self.values.element_size() * gradients) * size
        row = by_key * size + by_query * steps
        if row > room:
            piece = max(PIECE, int((room - by_key * size) / by_query) // PADDING * PADDING)
            for one in range(count):
                yield [(slice(one, one + 1), slice(at, at + piece)) for at in range(0, steps, piece)]
            return
        each = -(-count // -(-count // int(room / row)))
        for one in range(0, count, each):
            yield [(slice(one, one + each), slice(0, steps))]


def _room(like: Tensor, count: int, steps: int, size: int) -> Float[Tensor, "N _ _"]:
    """Room for scores in float32, with rows and columns to spare (see `launch.differentiate`)."""
    return like.new_empty(count, up(steps, PADDING), up(size, PADDING), dtype=torch.float32)


class _Seen(NamedTuple):
    """What a look leaves for its gradients."""

    norms: Float[Tensor, "M T 2"]
    """What makes weights of scores again."""
    scores: Float[Tensor, "M _ _"] | None

    def scores_of(self, piece: Piece) -> Float[Tensor, "N _ _"] | None:
        """Those of a piece, where they are kept."""
        rows, steps = piece
        return None if self.scores is None else self.scores[rows, steps.start : up(steps.stop, PADDING)]


def _look(given: _Given, piece: Piece, context: Tensor, seen: _Seen) -> None:
    """Write the contexts of a piece, and what its gradients will need."""
    pairs, look = given.at(piece)
    scores = given.scores(launch.prepare(pairs), look, seen.scores_of(piece))
    launch.norms(scores, seen.norms[piece], pairs, look)
    launch.contexts(scores, seen.norms[piece], given.values[piece[0]], context[piece], pairs, look)


def _back_of_rows(
    given: _Given, seen: _Seen, back: Tensor, pieces: list[Piece], grads: list[Tensor], by_row: Tensor
) -> None:
    """Write the gradients of some rows, found piece by piece of their queries."""
    rows = pieces[0][0]
    kept: Gradients | None = None
    values_back: Tensor | None = None
    for piece in pieces:
        kept, part = _back_of_piece(given, seen, back, piece, kept)
        values_back = part if values_back is None else values_back.float() + part
        grads[0][piece] = kept.queries
    assert kept is not None
    assert values_back is not None
    grads[1][rows], grads[2][rows], by_row[rows] = kept.keys, values_back, kept.vectors()


def _back_of_piece(
    given: _Given, seen: _Seen, back: Tensor, piece: Piece, kept: Gradients | None
) -> tuple[Gradients, Float[Tensor, "N S V"]]:
    """Add what a piece gives to the gradients of its rows; and what it gives to those of the values."""
    pairs, look = given.at(piece)
    scores = seen.scores_of(piece)
    pairs = launch.prepare(pairs, gradients=True, scores=scores is None)
    # A copy of what is kept: its gradients take its place, and there may be another pass back.
    scores = given.scores(pairs, look) if scores is None else scores.clone()
    weights = back[piece] @ given.values[piece[0]].transpose(1, 2)
    launch.softmax_back(scores, weights, seen.norms[piece], pairs, look)
    found = Gradients.zeros(pairs, kept)
    launch.differentiate(pairs, scores, found, look.position)
    return found, weights.transpose(1, 2) @ back[piece]


def _by_head(by_row: Float[Tensor, "M A"], vectors: Float[Tensor, "H A"]) -> Float[Tensor, "H A"]:
    return by_row.view(-1, *vectors.shape).sum(dim=0)
