"""Repeated products with the same matrix."""

from functools import cache

import torch

from regard.shapes import Float, Tensor

LARGE = 1 << 15
"""Number of elements from which on packing a matrix pays off."""


class Matrix:
    """A matrix packed for products: on a CPU in oneDNN's layout, elsewhere unchanged.

    For float32 on a CPU that is a quarter faster than the BLAS that torch calls otherwise, and as exact; bfloat16 would
    otherwise be packed for every product. Packing costs about as much as one product with 60 rows.
    """

    def __init__(self, weight: Float[Tensor, "O I"], rows: int) -> None:
        """`rows` is the approximate number of rows of a product."""
        self._transposed = weight.t()
        known = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and multiplies_bfloat16())
        fits = weight.device.type == "cpu" and known and weight.numel() >= LARGE
        self._packed: Tensor | None = None
        if fits and rows > 1 and _has_onednn(weight.dtype):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)

    def map(
        self,
        inputs: Float[Tensor, "N I"],
        bias: Float[Tensor, " O"] | None = None,
        add: Float[Tensor, "N O"] | None = None,
    ) -> Float[Tensor, "N O"]:
        """Multiply every row by the matrix, and add a bias and another term if given."""
        if self._packed is not None:
            if add is None:
                found: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self._packed, bias, "none", [], "")
            else:
                found = torch.ops.mkldnn._linear_pointwise(inputs, add.to(inputs.dtype), self._packed, bias, "add")
            return found
        found = inputs @ self._transposed if bias is None else torch.addmm(bias, inputs, self._transposed)
        return found if add is None else found + add


@cache
def multiplies_bfloat16() -> bool:
    """Whether this CPU has bfloat16 multiplication that torch uses."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    asked = [getattr(torch.cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile")]
    return any(known() for known in asked if known is not None)


@cache
def _has_onednn(kind: torch.dtype) -> bool:
    """Whether torch has oneDNN, and its linear map, a private function, still works as expected."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    inputs, weight, bias, add = torch.ones(3, 5), torch.arange(35.0).view(7, 5), torch.arange(7.0), torch.ones(3, 7)
    right = (inputs[:, None] * weight).sum(dim=-1)
    inputs, weight, bias, add = (part.to(kind) for part in (inputs, weight, bias, add))
    try:
        laid_out = torch.ops.mkldnn._reorder_linear_weight(weight, 3)
        plain = torch.ops.mkldnn._linear_pointwise(inputs, laid_out, None, "none", [], "")
        added = torch.ops.mkldnn._linear_pointwise(inputs, add, laid_out, bias, "add")
    except (AttributeError, RuntimeError, TypeError):
        return False
    near = 10 * torch.finfo(kind).eps
    return torch.allclose(plain.float(), right, near) and torch.allclose(added.float(), right + bias + add, near)
