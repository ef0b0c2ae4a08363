"""Launches of the kernels: what they need beside the tensors, and how large their tiles are."""

import math
from typing import NamedTuple

import torch

from regard.attention.fused import kernels
from regard.shapes import Bool, Float, Tensor

FEW = 8
"""With fewer queries, exponentials do not pay: each is used that often."""
AFTER_ALL = 2**30
"""Where a query stands that may look at every key."""
PADDING = 32
"""Rows of keys and queries are filled up to a multiple of this; no tile but that of scores may be higher."""


class Tile(NamedTuple):
    """How many rows and columns one program computes, with how many warps of 32 threads."""

    rows: int
    columns: int
    warps: int


TILES = {
    "scores": Tile(8, 512, 4),
    "scores of short sources": Tile(8, 64, 2),
    "scores of few": Tile(16, 128, 4),
    "grad_keys": Tile(32, 128, 4),
    "grad_queries": Tile(16, 256, 4),
}
"""Measured on an H200 by `bench/additive.py --sweep`; each thread holds whole columns (see the kernels)."""


class Pairs(NamedTuple):
    """Some queries and keys, with what the kernels need to know of them; `first` is the first of the B·H rows."""

    queries: Float[Tensor, "N T A"]
    keys: Float[Tensor, "N S A"]
    vectors: Float[Tensor, "H A"]
    first: int = 0
    exp_queries: Float[Tensor, "N _ A"] | None = None
    exp_keys: Float[Tensor, "N _ A"] | None = None
    quads: Float[Tensor, "N _ _ 4"] | None = None
    top_queries: Float[Tensor, "N T"] | None = None
    top_keys: Float[Tensor, "N S"] | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """N, T, S, A."""
        return (*self.queries.shape[:2], *self.keys.shape[1:])

    @property
    def heads(self) -> int:
        """How many there are."""
        return self.vectors.shape[0]


def up(number: int, multiple: int) -> int:
    """Round up."""
    return -(-number // multiple) * multiple


def prepare(pairs: Pairs, gradients: bool = False) -> Pairs:
    """Take the exponentials of queries and keys, once; for gradients also as the keys come."""
    exp_queries, _, top_queries = _exponentials(pairs, pairs.queries, PADDING, natural=True, quad=False)
    wide = max(PADDING, _tile(pairs.keys.shape[1]).columns)
    exp_keys, quads, top_keys = _exponentials(pairs, pairs.keys, wide, natural=gradients, quad=True)
    return pairs._replace(
        exp_queries=exp_queries, exp_keys=exp_keys, quads=quads, top_queries=top_queries, top_keys=top_keys
    )


def _exponentials(
    pairs: Pairs, rows: Float[Tensor, "N M A"], multiple: int, natural: bool, quad: bool
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    count, size, units = rows.shape
    tall = up(size, multiple)
    top = rows.new_empty(count, size, dtype=torch.float32)
    exp = rows.new_empty(count, tall, units, dtype=torch.float32) if natural else None
    quads = rows.new_empty(count, units // 4, tall, 4, dtype=torch.float32) if quad else None
    kernels.exponentials[(tall // 16, count)](
        rows, pairs.vectors, exp if natural else top, quads if quad else top, top, size, tall,
        pairs.heads, pairs.first, A=units, NATURAL=natural, QUAD=quad, BN=16, BA=128, num_warps=4,
    )  # fmt: skip
    return exp, quads, top


def score(pairs: Pairs, scores: Float[Tensor, "N _ _"], look: "Look | None" = None) -> None:
    """Write all scores; those of a tile where nothing may be looked at are left as they are."""
    count, steps, size, units = pairs.sizes
    if pairs.exp_queries is None or pairs.quads is None:
        tile = TILES["scores of few"]
        kernels.scores_of_few[(-(-size // tile.rows), steps, count)](
            pairs.queries, pairs.keys, pairs.vectors, scores, steps, size, pairs.heads, pairs.first,
            A=units, BS=tile.rows, BA=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
        return
    tile = _tile(size)
    kernels.scores[(-(-size // tile.columns), -(-steps // tile.rows), count)](
        pairs.queries, pairs.keys, pairs.vectors, pairs.exp_queries, pairs.quads, pairs.top_queries, pairs.top_keys,
        scores if look is None else look.mask.view(torch.uint8), scores, steps, size,
        pairs.exp_queries.shape[1], pairs.quads.shape[2], scores.stride(0), scores.stride(1), pairs.heads, pairs.first,
        AFTER_ALL if look is None else look.position,
        A=units, MASKED=look is not None, BT=tile.rows, BS=tile.columns, num_warps=tile.warps,
    )  # fmt: skip


def _tile(size: int) -> Tile:
    """The tile of scores for a source of this size."""
    short = TILES["scores of short sources"]
    return short if size <= 2 * short.columns else TILES["scores"]


class Look(NamedTuple):
    """Who may be looked at: real keys, and none after its query; `position` is that of the first query."""

    mask: Bool[Tensor, "B S"]
    position: int = AFTER_ALL


def _block(size: int) -> int:
    return min(1024, 1 << math.ceil(math.log2(max(size, 16))))


def softmax(
    scores: Float[Tensor, "N _ _"],
    weights: Float[Tensor, "N T S"],
    logs: Float[Tensor, "N T"],
    pairs: Pairs,
    look: Look,
) -> None:
    """Make weights of scores, and the logarithms of the sums of their exponentials."""
    _, steps, size, _ = pairs.sizes
    kernels.softmax[(steps, len(scores))](
        scores, look.mask.view(torch.uint8), weights, logs, steps, size, scores.stride(0), scores.stride(1),
        pairs.heads, pairs.first, look.position, BS=_block(size),
    )  # fmt: skip


def softmax_back(
    scores: Float[Tensor, "N _ _"],
    weights_back: Float[Tensor, "N T S"],
    logs: Float[Tensor, "N T"],
    pairs: Pairs,
    look: Look,
) -> None:
    """Turn scores into their gradients, and the weights' gradients into weights, both where they are."""
    count, steps, size, _ = pairs.sizes
    scores[:, steps:].zero_()
    kernels.softmax_back[(steps, count)](
        scores, weights_back, look.mask.view(torch.uint8), logs, steps, size, scores.stride(0), scores.stride(1),
        pairs.heads, pairs.first, look.position, BS=_block(size),
    )  # fmt: skip


class Gradients(NamedTuple):
    """Gradients in float32, to which each launch adds."""

    queries: Float[Tensor, "N T A"]
    keys: Float[Tensor, "N S A"]
    once: Float[Tensor, "N _ A"]
    """Σ dE r, in parts."""

    @staticmethod
    def zeros(pairs: Pairs, kept: "Gradients | None" = None) -> "Gradients":
        """Nothing yet; or what is kept of the keys, and nothing of these queries."""
        count, _, size, units = pairs.sizes
        queries = torch.zeros_like(pairs.queries, dtype=torch.float32)
        if kept is not None:
            return kept._replace(queries=queries)
        parts = -(-size // TILES["grad_keys"].rows)
        return Gradients(
            queries, torch.zeros_like(pairs.keys, dtype=torch.float32), queries.new_zeros(count, parts, units)
        )

    def vectors(self) -> Float[Tensor, "N A"]:
        """What `tanh = 1 - 2 r` makes of them, for gradients of scores that sum to zero."""
        return -2.0 * self.once.sum(dim=1)


def differentiate(pairs: Pairs, back: Float[Tensor, "N _ _"], found: Gradients, position: int = AFTER_ALL) -> None:
    """Add the gradients that those of the scores give.

    `back` is filled up with zeros to a multiple of PADDING keys, and of 2 queries.
    """
    count, steps, size, units = pairs.sizes
    exact = pairs.exp_queries is None or pairs.exp_keys is None
    tables = [pairs.exp_queries, pairs.exp_keys, pairs.top_queries, pairs.top_keys]
    tables = [pairs.queries if one is None or exact else one for one in tables]
    tall, wide = (one.shape[1] for one in tables[:2] if one is not None)
    numbers = (steps, size, tall, wide, back.stride(0), back.stride(1), pairs.heads, pairs.first)
    same = torch.are_deterministic_algorithms_enabled()
    tile = TILES["grad_keys"]
    kernels.grad_keys[(-(-units // tile.columns), -(-size // tile.rows), count)](
        pairs.queries, pairs.keys, pairs.vectors, *tables, back, *found, *numbers, position,
        A=units, EXACT=exact, QUERIES=not same, BS=tile.rows, BA=tile.columns, num_warps=tile.warps,
    )  # fmt: skip
    if same:
        tile = TILES["grad_queries"]
        kernels.grad_queries[(-(-units // tile.columns), -(-steps // tile.rows), count)](
            pairs.queries, pairs.keys, pairs.vectors, *tables, back, found.queries, *numbers,
            A=units, EXACT=exact, BT=tile.rows, BA=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
