"""Additive attention on a GPU: the same results as the plain version, without its B×H×T×S×A tensor.

The plain version, in `attention/score/`, reads like the papers, and the kernels are tested against it. The kernels are
chosen automatically where they can run: on an NVIDIA GPU with Triton (which PyTorch installs there), for float32 and
below. On a CPU they run only in Triton's interpreter (`TRITON_INTERPRET=1`), which the tests use.
"""

import torch
from torch.nn import functional

from regard.batched_weight_gradients import current
from regard.devices import runs_kernels
from regard.shapes import Bool, Float, Tensor

UNITS = 16
"""Hidden units are padded to a multiple of this: four are read at once, at addresses aligned to 16 bytes."""
KINDS = (torch.float32, torch.bfloat16, torch.float16)


def usable(queries: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S A"]) -> bool:
    """Whether the score kernels can run on these tensors."""
    return (
        queries.dtype in KINDS
        and keys.dtype in KINDS
        and keys.numel() > 0 < queries.numel()
        and runs_kernels(queries.device)
    )


def can_attend(
    queries: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S A"], values: Float[Tensor, "B G S V"]
) -> bool:
    """Whether the context kernels can run too."""
    return values.dtype in KINDS and usable(queries, keys)


def additive_scores(
    queries: Float[Tensor, "B H T A"], keys: Float[Tensor, "B H S A"], vectors: Float[Tensor, "#H A"] | None
) -> Float[Tensor, "B H T S"]:
    r"""`e_{ts} = v^\top \tanh(q_t + k_s)` of each head; allocates nothing larger than B×H×T×S.

    `vectors` may be one for all heads, or None if all units have weight one.
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
    r"""`c_t = \sum_s \mathrm{softmax}_s(e_t) x_s` of each head; allocates little more than its inputs take.

    If `position` is given, the queries start there, and none may attend to a key after it.
    """
    from regard.attention.fused.additive import AFTER_ALL, AdditiveAttention

    laid_out = (*_laid_out(queries, keys, vectors), values.flatten(0, 1).contiguous(), mask.contiguous())
    learning = torch.is_grad_enabled() and any(one.requires_grad for one in laid_out)
    context: Tensor = AdditiveAttention.apply(*laid_out, AFTER_ALL if position is None else position, learning)  # type: ignore[no-untyped-call]
    return context.view(*queries.shape[:3], -1)


def is_step(
    queries: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S A"], values: Float[Tensor, "B G S V"]
) -> bool:
    """Whether this is a step of a `decoder_loop` that has registered these keys and values."""
    loop = current()
    if loop is None or queries.shape[2] > 1 or not can_attend(queries, keys, values):
        return False
    return loop.knows(keys) and loop.knows(values)


def step(
    query: Float[Tensor, "B H 1 A"],
    keys: Float[Tensor, "B G S A"],
    values: Float[Tensor, "B G S V"],
    mask: Bool[Tensor, "B S"],
    vectors: Float[Tensor, "H A"] | None,
) -> Float[Tensor, "B H 1 V"]:
    r"""`c = \sum_s \mathrm{softmax}_s(e) x_s` of each head, as a step of a `decoder_loop`.

    Scores `e` are `v^\top \tanh(q + k_s)`, or without vectors `q^\top k_s`. Keys, values, mask and vectors must be the
    same tensors at every step: their gradients are computed once, after the last step.
    """
    from regard.attention.fused.decoder_step import DecoderStepAttention

    loop = current()
    assert loop is not None
    shared = loop.shared(DecoderStepAttention, keys, values, mask, *(() if vectors is None else (vectors,)))
    return loop.rename(*shared.apply_all(loop.take(query)))


def _laid_out(queries: Tensor, keys: Tensor, vectors: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Merge batch and heads, cast to a common dtype, and pad the hidden units with units of weight zero."""
    (_, heads, _, units), kind = queries.shape, torch.promote_types(queries.dtype, keys.dtype)
    queries, keys = (part.flatten(0, 1).to(kind) for part in (queries, keys))
    vectors = (queries.new_ones(1, units) if vectors is None else vectors).float().expand(heads, -1)
    more = -units % UNITS
    if more:
        queries, keys, vectors = (functional.pad(part, (0, more)) for part in (queries, keys, vectors))
    return queries.contiguous(), keys.contiguous(), vectors.contiguous()


FEW = 16
"""Up to this many queries per row, a kernel that handles one query at a time is as fast."""


def can_use_inference_kernel(
    queries: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B G S A"], values: Float[Tensor, "B G S V"]
) -> bool:
    """Whether this is a call without gradients, with few queries and keys that are not too wide."""
    few = queries.shape[2] <= FEW and keys.shape[3] <= 1024
    return few and not torch.is_grad_enabled() and can_attend(queries, keys, values)
