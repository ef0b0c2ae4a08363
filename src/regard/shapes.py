"""One legend of tensor axes for the whole package, and the annotations that carry it.

B batch, S source steps, T target steps, L layers, H heads, D width, A attention width, Q query width,
K key width, V value width, W vocabulary (words), N any number of rows.

`Float[Tensor, "B T S"]` is jaxtyping's. It is checked while the tests run and costs nothing otherwise: where jaxtyping
is not installed, the annotation is the bare `Tensor`.
"""

from typing import TYPE_CHECKING

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

__all__ = ["Bool", "Float", "Int", "Tensor"]
