"""Launch the kernels: their arguments, grids and tile sizes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import torch

from regard.attention.fused import additive_kernels, decoder_step_kernels
from regard.shapes import Bool, Float, Tensor

FEW = 8
"""With fewer queries, exponentials do not pay off, as each would be used only that often."""
AFTER_ALL = 2**30
"""Position of a query that may attend to every key."""
PADDING = 32
"""Rows of keys and queries are padded to a multiple of this; only tiles of scores and contexts may be taller."""


class Tile(NamedTuple):
    """How many rows and columns one program computes, with how many warps of 32 threads."""

    rows: int
    columns: int
    warps: int


TILES = {
    "scores": Tile(8, 512, 4),
    "scores of short sources": Tile(8, 64, 2),
    "scores of few": Tile(16, 128, 4),
    "grad_keys": Tile(16, 128, 4),
    "grad_queries": Tile(16, 256, 4),
    "contexts": Tile(64, 256, 4),
    "contexts of parts, elsewhere": Tile(64, 128, 8),
    "fits": Tile(2, 2048, 4),
    "see": Tile(64, 128, 4),
    "ask_back": Tile(64, 64, 4),
}
"""Measured on an H200 by `bench/additive.py --sweep`. Each thread holds whole columns (see the kernels), except for
contexts, which are matrix products; on other GPUs, products in several parts need more registers than the first tile
of contexts leaves.

The last three are for a decoder's step, measured by `bench/gpu_step.py --sweep`. Where a row or a column is shorter,
the tile of `fits` is taller by as much, and the others are smaller.
"""


class Pairs(NamedTuple):
    """Queries and keys, with what the kernels need to know of them; `first` is the index of the first of B·H rows."""

    queries: Float[Tensor, "N T A"]
    keys: Float[Tensor, "N S A"]
    vectors: Float[Tensor, "H A"]
    first: int = 0
    exp_queries: Float[Tensor, "N _ A"] | None = None
    exp_keys: Float[Tensor, "N _ A"] | None = None
    quads: Float[Tensor, "N _ _ 4"] | None = None
    scales: Float[Tensor, "N _"] | None = None
    """c of each row's units, as in `quads` (see `additive_kernels.exponentials`, also for the three tops)."""
    top_queries: Float[Tensor, "3 N T"] | None = None
    top_keys: Float[Tensor, "3 N S"] | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """N, T, S, A."""
        return (*self.queries.shape[:2], *self.keys.shape[1:])

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.vectors.shape[0]


@contextmanager
def on_the_device_of(tensor: Tensor) -> Iterator[None]:
    """Make the tensor's device the current one, on which kernels run, and turn autocast off."""
    here = torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
    with here, torch.autocast(tensor.device.type, enabled=False):
        yield


def up(number: int, multiple: int) -> int:
    """Round up to a multiple."""
    return -(-number // multiple) * multiple


def prepare(pairs: Pairs, gradients: bool = False, scores: bool = True) -> Pairs:
    """Compute the exponentials of queries and keys, once; those of keys in the layouts for gradients and for scores."""
    exp_queries, _, _, top_queries = _exponentials(pairs, pairs.queries, PADDING, natural=True, quad=False)
    wide = max(PADDING, _tile(pairs.keys.shape[1]).columns)
    exp_keys, quads, scales, top_keys = _exponentials(pairs, pairs.keys, wide, natural=gradients, quad=scores)
    return Pairs(*pairs[:4], exp_queries, exp_keys, quads, scales, top_queries, top_keys)


def _exponentials(
    pairs: Pairs, rows: Float[Tensor, "N M A"], multiple: int, natural: bool, quad: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor]:
    count, size, units = rows.shape
    tall = up(size, multiple)
    top = rows.new_empty(3, count, size, dtype=torch.float32)
    exp = rows.new_empty(count, tall, units, dtype=torch.float32) if natural else None
    quads = rows.new_empty(count, units // 4, tall, 4, dtype=torch.float32) if quad else None
    scales = rows.new_empty(count, units + 2, dtype=torch.float32) if quad else None
    additive_kernels.exponentials[(tall // 16, count)](
        rows, pairs.vectors, exp if natural else top, quads if quad else top, scales if quad else top, top, size, tall,
        pairs.heads, pairs.first, A=units, NATURAL=natural, QUAD=quad, BN=16, BA=128, num_warps=4,
    )  # fmt: skip
    return exp, quads, scales, top


def score(pairs: Pairs, scores: Float[Tensor, "N _ _"], look: "AttentionMask | None" = None) -> None:
    """Write all scores; tiles with no allowed pair are left unwritten."""
    count, steps, size, units = pairs.sizes
    if pairs.exp_queries is None or pairs.quads is None:
        tile = TILES["scores of few"]
        additive_kernels.scores_of_few[(-(-size // tile.rows), steps, count)](
            pairs.queries, pairs.keys, pairs.vectors, scores, steps, size, pairs.heads, pairs.first,
            A=units, BS=tile.rows, BA=tile.columns, num_warps=tile.warps,
        )  # fmt: skip
        return
    tile = _tile(size)
    additive_kernels.scores[(-(-size // tile.columns), -(-steps // tile.rows), count)](
        pairs.queries, pairs.keys, pairs.vectors, pairs.exp_queries, pairs.quads, pairs.scales,
        pairs.top_queries, pairs.top_keys, scores if look is None else look.mask.view(torch.uint8), scores, steps, size,
        pairs.exp_queries.shape[1], pairs.quads.shape[2], scores.stride(0), scores.stride(1), pairs.heads, pairs.first,
        AFTER_ALL if look is None else look.position,
        A=units, MASKED=look is not None, BT=tile.rows, BS=tile.columns, num_warps=tile.warps,
    )  # fmt: skip


def _tile(size: int) -> Tile:
    """The tile of scores for a source of this length."""
    short = TILES["scores of short sources"]
    return short if size <= 2 * short.columns else TILES["scores"]


class AttentionMask(NamedTuple):
    """The attention mask: real keys, and none after the query; `position` is that of the first query."""

    mask: Bool[Tensor, "B S"]
    position: int = AFTER_ALL


def _block(size: int) -> int:
    return min(1024, 1 << math.ceil(math.log2(max(size, 16))))


def norms(scores: Float[Tensor, "N _ _"], found: Float[Tensor, "N T 2"], pairs: Pairs, look: AttentionMask) -> None:
    """Write, for each query, the two numbers from which weights are computed from scores (see the kernel)."""
    _, steps, size, _ = pairs.sizes
    additive_kernels.norms[(steps, len(scores))](
        scores, look.mask.view(torch.uint8), found, steps, size, scores.stride(0), scores.stride(1),
        pairs.heads, pairs.first, look.position, BS=_block(size),
    )  # fmt: skip


def contexts(
    scores: Float[Tensor, "N _ _"],
    norms: Float[Tensor, "N T 2"],
    values: Float[Tensor, "N S V"],
    found: Float[Tensor, "N T V"],
    pairs: Pairs,
    look: AttentionMask,
) -> None:
    """Write the contexts: the sums of the values, weighted by the softmax that scores and norms give."""
    count, steps, size, _ = pairs.sizes
    width, parts = values.shape[-1], _parts(values)
    tile = TILES["contexts" if parts == 1 or _is_hopper(values) else "contexts of parts, elsewhere"]
    tile = tile._replace(columns=min(tile.columns, max(16, _power(width))))
    additive_kernels.contexts[(-(-width // tile.columns), -(-steps // tile.rows), count)](
        scores, look.mask.view(torch.uint8), norms, values, found, steps, size, scores.stride(0), scores.stride(1),
        pairs.heads, pairs.first, look.position,
        W=width, PARTS=parts, BT=tile.rows, BS=32, BW=tile.columns, num_warps=tile.warps, num_stages=2,
    )  # fmt: skip


def _parts(values: Tensor) -> int:
    """Number of bfloat16 parts of a number in a product: as exact as torch's own products are set to be."""
    if values.dtype != torch.float32:
        return 1
    # Not get_float32_matmul_precision, which raises if fp32_precision was set.
    return 2 if torch.backends.cuda.matmul.fp32_precision in ("tf32", "bf16") else 3


def _is_hopper(tensor: Tensor) -> bool:
    return tensor.is_cuda and torch.cuda.get_device_capability(tensor.device)[0] == 9


def softmax_back(
    scores: Float[Tensor, "N _ _"],
    weights_back: Float[Tensor, "N T S"],
    norms: Float[Tensor, "N T 2"],
    pairs: Pairs,
    look: AttentionMask,
) -> None:
    """Replace scores by their gradients, and the weights' gradients by the weights, both in place."""
    count, steps, size, _ = pairs.sizes
    scores[:, steps:].zero_()
    additive_kernels.softmax_back[(steps, count)](
        scores, weights_back, look.mask.view(torch.uint8), norms, steps, size, scores.stride(0), scores.stride(1),
        pairs.heads, pairs.first, look.position, BS=_block(size),
    )  # fmt: skip


class Gradients(NamedTuple):
    """Gradients in float32, accumulated by each launch."""

    queries: Float[Tensor, "N T A"]
    keys: Float[Tensor, "N S A"]
    once: Float[Tensor, "N _ A"]
    """Σ dE r, in partial sums."""
    total: Float[Tensor, "N"]
    """Σ dE: zero after a softmax, up to rounding."""

    @staticmethod
    def zeros(pairs: Pairs, kept: "Gradients | None" = None) -> "Gradients":
        """All zero; or the accumulated gradients of the keys in `kept`, with zeros for the new queries."""
        count, _, size, units = pairs.sizes
        queries = torch.zeros_like(pairs.queries, dtype=torch.float32)
        if kept is not None:
            return kept._replace(queries=queries)
        parts = -(-size // TILES["grad_keys"].rows)
        keys = torch.zeros_like(pairs.keys, dtype=torch.float32)
        return Gradients(queries, keys, queries.new_zeros(count, parts, units), queries.new_zeros(count))

    def vectors(self) -> Float[Tensor, "N A"]:
        """Gradients of the vectors, since `tanh = 1 - 2 r`."""
        return self.total[:, None] - 2.0 * self.once.sum(dim=1)


def differentiate(
    pairs: Pairs, back: Float[Tensor, "N _ _"], found: Gradients, position: int = AFTER_ALL, queries: bool = True
) -> None:
    """Add the gradients of keys and vectors, and of queries if wanted, given those of the scores.

    `back` is padded with zeros to a multiple of PADDING keys, and of 2 queries.
    """
    count, steps, size, units = pairs.sizes
    found.total.add_(back.sum(dim=(1, 2)))
    exact = pairs.exp_queries is None or pairs.exp_keys is None
    tables = [pairs.exp_queries, pairs.exp_keys, pairs.top_queries, pairs.top_keys]
    tables = [pairs.queries if one is None or exact else one for one in tables]
    tall, wide = (one.shape[1] for one in tables[:2] if one is not None)
    numbers = (steps, size, tall, wide, back.stride(0), back.stride(1), pairs.heads, pairs.first)
    same = torch.are_deterministic_algorithms_enabled()
    tile = TILES["grad_keys"]
    additive_kernels.grad_keys[(-(-units // tile.columns), -(-size // tile.rows), count)](
        pairs.queries, pairs.keys, pairs.vectors, *tables, back, found.queries, found.keys, found.once,
        *numbers, position, A=units, EXACT=exact, QUERIES=queries and not same,
        BS=tile.rows, BA=tile.columns, num_warps=tile.warps,
    )  # fmt: skip
    if queries and same:
        tile = TILES["grad_queries"]
        additive_kernels.grad_queries[(-(-units // tile.columns), -(-steps // tile.rows), count)](
            pairs.queries, pairs.keys, pairs.vectors, *tables, back, found.queries, *numbers,
            A=units, EXACT=exact, BT=tile.rows, BA=tile.columns, num_warps=tile.warps,
        )  # fmt: skip


# -- attention with one query -----------------------------------------------------------------------------------------


class StepOperands(NamedTuple):
    """What a decoder attends to at every step: the keys and values of each of B·G groups."""

    keys: Float[Tensor, "M S A"]
    values: Float[Tensor, "M S W"]
    mask: Bool[Tensor, "B S"]
    vectors: Float[Tensor, "H A"] | None
    """Weight of each hidden unit; None if scores are inner products."""
    heads: int

    @property
    def repeat(self) -> int:
        """Number of heads that share a group."""
        return len(self.mask) * self.heads // len(self.keys)

    @property
    def rows(self) -> int:
        """B·H."""
        return len(self.mask) * self.heads


def fits(source: StepOperands, query: Float[Tensor, "B H 1 A"]) -> Float[Tensor, "M S"]:
    """Score each key for one query per head."""
    return _fits(source, query, source.keys, source.vectors)


def step_backward_weights(
    source: StepOperands, slope: Float[Tensor, "B H 1 W"], other: Float[Tensor, "B H 1 W"] | None = None
) -> Float[Tensor, "M S"]:
    """Return gradients of the weights: products of values with the context's gradients, of which there may be two."""
    return _fits(source, slope, source.values, None, other)


def _fits(
    source: StepOperands,
    query: Float[Tensor, "B H 1 A"],
    keys: Float[Tensor, "G S A"],
    vectors: Tensor | None,
    other: Tensor | None = None,
) -> Float[Tensor, "M S"]:
    size, units = keys.shape[1:]
    found = keys.new_empty(source.rows, size, dtype=torch.float32)
    tile, second = TILES["fits"], query if other is None else other
    columns = min(tile.columns, _power(units))
    rows = min(tile.rows * (tile.columns // columns), _power(size))
    strides, unit = _strides(query, second)
    decoder_step_kernels.fits[(-(-size // rows), source.rows)](
        query, second, keys, keys if vectors is None else vectors, found, size, *strides, source.heads, source.repeat,
        UNIT=unit, A=units, BENT=vectors is not None, TWO=other is not None, FAST=keys.dtype != torch.float32,
        BS=rows, BA=columns, num_warps=tile.warps,
    )  # fmt: skip
    return found


def step_forward(
    source: StepOperands, scores: Float[Tensor, "M S"]
) -> tuple[Float[Tensor, "M W"], Float[Tensor, "M S"]]:
    """Return contexts and weights for these scores."""
    size, width = source.values.shape[1:]
    context = source.values.new_empty(source.rows, width)
    weights = torch.empty_like(scores)
    tile, rows = TILES["see"], _rows("see", size)
    decoder_step_kernels.step_forward[(-(-width // tile.columns), source.rows)](
        scores, source.mask.view(torch.uint8), source.values, weights, context, size, source.heads, source.repeat,
        W=width, SHORT=size <= rows, BS=rows, BW=tile.columns, num_warps=tile.warps,
    )  # fmt: skip
    return context, weights


def step_backward_query(
    source: StepOperands,
    query: Float[Tensor, "B H 1 A"],
    weights: Float[Tensor, "M S"],
    weights_back: Float[Tensor, "M S"],
) -> tuple[Float[Tensor, "B H 1 A"], Float[Tensor, "M S"]]:
    """Return the gradients of the query and of its scores, given weights and their gradients."""
    size, units = source.keys.shape[1:]
    found, scores_back = torch.empty(query.shape, dtype=query.dtype, device=query.device), torch.empty_like(weights)
    vectors, tile, rows = source.vectors, TILES["ask_back"], _rows("ask_back", size)
    strides, unit = _strides(query)
    decoder_step_kernels.step_backward_query[(-(-units // tile.columns), source.rows)](
        weights, weights_back, query, source.keys, source.keys if vectors is None else vectors, scores_back, found,
        size, *strides, source.heads, source.repeat, UNIT=unit, A=units, BENT=vectors is not None,
        FAST=source.keys.dtype != torch.float32, SHORT=size <= rows, BS=rows, BA=tile.columns, num_warps=tile.warps,
    )  # fmt: skip
    return found, scores_back


def _strides(*queries: Float[Tensor, "B H 1 _"]) -> tuple[list[int], int]:
    """Strides of queries over batch and heads, in multiples of a unit, and that unit."""
    strides = [stride for query in queries for stride in query.stride()[:2]]
    unit = 8 if all(stride % 8 == 0 for stride in strides) else 1
    return [stride // unit for stride in strides], unit


def _power(number: int) -> int:
    """The smallest power of two that is no smaller."""
    return 1 << max(number - 1, 0).bit_length()


def _rows(name: str, size: int) -> int:
    return min(TILES[name].rows, max(16, _power(size)))
