"""Additive attention on a GPU: the same numbers as the plain version, without its tensor of B×H×T×S×A.

The plain version, in `attention/score/`, reads like the papers and is what these are tested against. They are chosen by
themselves where they can run: on an NVIDIA GPU with Triton (which comes with torch there), for float32 and below. On a
CPU they run only within Triton's interpreter (`TRITON_INTERPRET=1`), which tests use.
"""

import importlib.util
import os
from functools import cache

import torch
from torch.nn import functional

from regard.shapes import Bool, Float, Tensor

UNITS = 16
"""Hidden units come in multiples of this: four are read at once, at addresses that are multiples of 16 bytes."""
KINDS = (torch.float32, torch.bfloat16, torch.float16)


@cache
def _runs_on(device: torch.device) -> bool:
    if importlib.util.find_spec("triton") is None:
        return False
    if device.type != "cuda":
        return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def usable(queries: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S A"]) -> bool:
    """Whether there are kernels for what is made of these."""
    return (
        queries.dtype in KINDS
        and keys.dtype in KINDS
        and keys.numel() > 0 < queries.numel()
        and _runs_on(queries.device)
    )


def additive_scores(
    queries: Float[Tensor, "B H T A"], keys: Float[Tensor, "B H S A"], vectors: Float[Tensor, "#H A"] | None
) -> Float[Tensor, "B H T S"]:
    r"""`e_{ts} = v^\top \tanh(q_t + k_s)` of each head; writes B×H×T×S and nothing larger.

    Vectors may be one for all heads, or none if all units weigh one.
    """
    from regard.attention.fused.additive import AdditiveScores

    scores: Tensor = AdditiveScores.apply(*_laid_out(queries, keys, vectors))  # type: ignore[no-untyped-call]
    return scores.view(*queries.shape[:3], -1)


def additive_attention(
    queries: Float[Tensor, "B H T A"],
    keys: Float[Tensor, "B H S A"],
    vectors: Float[Tensor, "#H A"] | None,
    values: Float[Tensor, "B H S V"],
    mask: Bool[Tensor, "B S"],
    position: int | None = None,
) -> Float[Tensor, "B H T V"]:
    r"""`c_t = \sum_s \mathrm{softmax}_s(e_t) x_s` of each head; writes nothing much larger than its inputs.

    If `position` is given, the queries stand there and on, and none may look at a key that comes after it.
    """
    from regard.attention.fused.additive import AFTER_ALL, AdditiveAttention

    laid_out = (*_laid_out(queries, keys, vectors), values.flatten(0, 1).contiguous(), mask.contiguous())
    context: Tensor = AdditiveAttention.apply(*laid_out, AFTER_ALL if position is None else position)  # type: ignore[no-untyped-call]
    return context.view(*queries.shape[:3], -1)


def _laid_out(queries: Tensor, keys: Tensor, vectors: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of B·H, of one type, filled up with units that weigh nothing."""
    (_, heads, _, units), kind = queries.shape, torch.promote_types(queries.dtype, keys.dtype)
    queries, keys = (part.flatten(0, 1).to(kind) for part in (queries, keys))
    vectors = (queries.new_ones(1, units) if vectors is None else vectors).float().expand(heads, -1)
    more = -units % UNITS
    if more:
        queries, keys, vectors = (functional.pad(part, (0, more)) for part in (queries, keys, vectors))
    return queries.contiguous(), keys.contiguous(), vectors.contiguous()
