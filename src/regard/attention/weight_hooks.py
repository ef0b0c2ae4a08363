"""Read and edit the weights of single attention modules, for all calls within a `with` block of this thread.

Nothing is stored on the modules, so that another thread may use the same model at the same time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import nn

from regard.shapes import Bool, Float, Tensor


class Look(NamedTuple):
    """What one attention call computes, before the context."""

    first: int
    """Position of the first query in its sequence: the decoding step."""
    scores: Float[Tensor, "B H T S"]
    """What the focus gets: scores with position bias and temperature, of forbidden positions too."""
    allowed: Bool[Tensor, "B #H #T S"]
    weights: Float[Tensor, "B H T S"]
    values: Float[Tensor, "B H S V"]


class WeightHook(ABC):
    """Reads the weights of an attention module, and may replace them."""

    dropped: tuple[int, ...] = ()
    """Positions that may not be attended to."""

    @abstractmethod
    def __call__(self, look: Look) -> Float[Tensor, "B H T S"]:
        """Return the weights to use: those given, or others. Coverage, copying and traces get them too."""


_hooks: ContextVar[Mapping[nn.Module, WeightHook] | None] = ContextVar("weight hooks", default=None)


@contextmanager
def hooked(hooks: Mapping[nn.Module, WeightHook]) -> Iterator[None]:
    """Call these hooks, and no others, in all attention calls of this thread within the block."""
    token = _hooks.set(hooks or None)
    try:
        yield
    finally:
        _hooks.reset(token)


def is_hooked() -> bool:
    """Whether any module has a hook, so that compiled and recorded searches, which know none, must not be used."""
    return _hooks.get() is not None


def hook_of(module: nn.Module) -> WeightHook | None:
    """Return the module's hook, if it has one."""
    hooks = _hooks.get()
    return None if hooks is None else hooks.get(module)
