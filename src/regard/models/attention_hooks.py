"""Record the weights of every attention module of a model, self-attention included."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from regard.attention import Attended, Attention
from regard.shapes import Float, Tensor

Looks = dict[str, list[Float[Tensor, "B T H S"]]]


@contextmanager
def watched(model: nn.Module) -> Iterator[Looks]:
    """Collect attention weights by module name, each list in the order of the calls.

    Within the context, weights are computed even where nothing else needs them; nothing else changes.
    """
    looks: Looks = {}
    hooks = []

    def ask(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return given[:3], {**named, "look": True}

    for name, module in model.named_modules():
        if isinstance(module, Attention):
            found = looks.setdefault(name, [])

            def keep(module: nn.Module, given: Any, attended: Attended, found: list[Tensor] = found) -> None:
                assert attended.weights is not None
                found.append(attended.weights.detach())

            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(module.register_forward_hook(keep))
    try:
        yield looks
    finally:
        for hook in hooks:
            hook.remove()
