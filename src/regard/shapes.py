"""The axis letters of tensor annotations, for the whole package.

B batch, S source steps, T target steps, L layers, H heads, D width, A attention width, Q query width,
K key width, V value width, W vocabulary (words), N any number of rows. For images: C channels, h rows and w columns (of
pixels or of cells; the S = h·w cells are in row-major order).

`Float[Tensor, "B T S"]` is jaxtyping's. It is checked while the tests run and costs nothing otherwise: if jaxtyping is
not installed, the annotation is the bare `Tensor`.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Bare:
            def __class_getitem__(cls, annotation: tuple[type, str]) -> type:
                return annotation[0]

        Bool = Float = Int = _Bare

__all__ = ["Bool", "Float", "Int", "Place", "Tensor", "places"]

Place = int | Tensor
"""A position in a sequence: an int, or a tensor on the device that the host need not know."""


def places(first: Place, steps: int, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return `steps` consecutive positions from `first` on."""
    if isinstance(first, Tensor):
        return first + torch.arange(steps, device=device, dtype=dtype)
    return torch.arange(first, first + steps, device=device, dtype=dtype)
