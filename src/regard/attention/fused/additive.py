"""Additive scores, and attention with them, as autograd functions.

Rows (B·H of them) are processed in chunks, and long rows by pieces of their queries, so that intermediate results are
small compared with inputs and outputs, and stay in the GPU's cache where possible.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from regard.attention.fused import launch
from regard.attention.fused.launch import AFTER_ALL, FEW, PADDING, AttentionMask, Gradients, Pairs, on_the_device_of, up
from regard.errors import RegardError
from regard.shapes import Float, Tensor

__all__ = ["AFTER_ALL", "AdditiveAttention", "AdditiveScores"]

ROOM = 32 * 2**20
"""Bytes of intermediate results allowed per chunk where inputs and outputs are small."""
SHARE = 0.75
"""Intermediate results allowed per chunk as a share of inputs and outputs, where these are large."""
PIECE = 256
"""The smallest number of queries worth a kernel launch."""
KEPT = 0.5
"""Scores that take no more than this share of inputs and outputs are kept for the backward pass, not recomputed."""


class AdditiveScores(torch.autograd.Function):
    r"""`e_{ts} = v^\top \tanh(q_t + k_s)`; queries M×T×A, keys M×S×A, vectors H×A, where M is B·H."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, vectors: Tensor) -> Tensor:
        """All scores, in the dtype of the queries."""
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

    The forward pass never writes the weights; the backward pass holds those of one chunk, and so do both for scores too
    large to keep. A query with no allowed key gets zeros. None attends to a key after it; `position` is the first
    query's.
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
        """All contexts, in the dtype of the values; `learning` says that there will be a backward pass."""
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
    """Refuse a second derivative, which would otherwise silently be zero."""
    if torch.is_grad_enabled():
        raise RegardError(
            "The fused additive attention has no second derivative, as create_graph=True needs: "
            "compute in float64, which uses the plain version."
        )


Piece = tuple[slice, slice]
"""Slice of rows, and slice of their queries."""


class _Given(NamedTuple):
    """The inputs of attention."""

    queries: Float[Tensor, "M T A"]
    keys: Float[Tensor, "M S A"]
    vectors: Float[Tensor, "H A"]
    values: Float[Tensor, "M S V"]
    mask: Tensor
    position: int

    def at(self, piece: Piece) -> tuple[Pairs, AttentionMask]:
        """The inputs of one piece."""
        rows, steps = piece
        look = AttentionMask(self.mask, self.position + steps.start)
        return Pairs(self.queries[rows, steps], self.keys[rows], self.vectors, rows.start), look

    def room_for_scores(self, context: Tensor) -> Float[Tensor, "M _ _"] | None:
        """Allocate memory for all scores; None if they take too much."""
        (count, steps, _), size = self.queries.shape, self.keys.shape[1]
        there = sum(one.nbytes for one in (self.queries, self.keys, self.values, context))
        needed = 4 * count * up(steps, PADDING) * up(size, PADDING)
        return None if needed > KEPT * there else _room(self.queries, count, steps, size)

    def scores(self, pairs: Pairs, look: AttentionMask, kept: Tensor | None = None) -> Float[Tensor, "N _ _"]:
        """Compute the scores of a piece, into `kept` if given."""
        scores = _room(pairs.queries, *pairs.sizes[:3]) if kept is None else kept
        launch.score(pairs, scores, look)
        return scores

    def chunks(self, gradients: bool, kept: Tensor | None, *others: Tensor) -> Iterator[list[Piece]]:
        """Split the rows so that a chunk's intermediate results fit its budget; rows too long for that, by queries.

        The pieces of one row are yielded together. `kept` are all scores if they are kept, and count towards the
        budget; `others` are the other large tensors, which raise it.
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
    """Allocate float32 scores, padded in rows and columns (see `launch.differentiate`)."""
    return like.new_empty(count, up(steps, PADDING), up(size, PADDING), dtype=torch.float32)


class _Seen(NamedTuple):
    """What the forward pass saves for the backward pass."""

    norms: Float[Tensor, "M T 2"]
    """Two numbers per query, from which weights are recomputed from scores."""
    scores: Float[Tensor, "M _ _"] | None

    def scores_of(self, piece: Piece) -> Float[Tensor, "N _ _"] | None:
        """The kept scores of a piece; None if scores are not kept."""
        rows, steps = piece
        return None if self.scores is None else self.scores[rows, steps.start : up(steps.stop, PADDING)]


def _look(given: _Given, piece: Piece, context: Tensor, seen: _Seen) -> None:
    """Write the contexts of a piece, and what the backward pass needs."""
    pairs, look = given.at(piece)
    scores = given.scores(launch.prepare(pairs), look, seen.scores_of(piece))
    launch.norms(scores, seen.norms[piece], pairs, look)
    launch.contexts(scores, seen.norms[piece], given.values[piece[0]], context[piece], pairs, look)


def _back_of_rows(
    given: _Given, seen: _Seen, back: Tensor, pieces: list[Piece], grads: list[Tensor], by_row: Tensor
) -> None:
    """Write the gradients of some rows, accumulated over the pieces of their queries."""
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
    """Add a piece to the gradients of its rows, and return its share of the gradient of the values."""
    pairs, look = given.at(piece)
    scores = seen.scores_of(piece)
    pairs = launch.prepare(pairs, gradients=True, scores=scores is None)
    # Copy kept scores: gradients overwrite them, and there may be another backward pass.
    scores = given.scores(pairs, look) if scores is None else scores.clone()
    weights = back[piece] @ given.values[piece[0]].transpose(1, 2)
    launch.softmax_back(scores, weights, seen.norms[piece], pairs, look)
    found = Gradients.zeros(pairs, kept)
    launch.differentiate(pairs, scores, found, look.position)
    return found, weights.transpose(1, 2) @ back[piece]


def _by_head(by_row: Float[Tensor, "M A"], vectors: Float[Tensor, "H A"]) -> Float[Tensor, "H A"]:
    return by_row.view(-1, *vectors.shape).sum(dim=0)
