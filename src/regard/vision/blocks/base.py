"""Interface of attention blocks: features in, features of the same shape out, and on request attention weights."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import nn

from regard.attention import Attended
from regard.registry import Registry
from regard.shapes import Float, Tensor
from regard.vision.convolution import PLAIN, Convolutions

Looks = dict[str, Float[Tensor, "B ..."]]
"""Attention weights by module name."""


class Seen(NamedTuple):
    """Result of a block."""

    features: Float[Tensor, "B C h w"]
    looks: Float[Tensor, "B ..."] | None
    """Channel gates B×C, a mask B×C×h×w, or weights B×T×H×S between cells; None if not requested."""


class BlockSizes(NamedTuple):
    """Sizes that a block is built with."""

    channels: int
    reduction: int = 16
    """Squeeze-excitation: channels divided by hidden units."""
    depth: int = 2
    """Soft mask: number of times its branch halves rows and columns."""
    trunk: int = 0
    """Soft mask: number of residual units in the trunk."""
    subsample: bool = False
    """Non-local: whether keys and values are max-pooled over two by two cells."""
    made: Convolutions = PLAIN
    """How to make convolutions and norms."""


class Block(nn.Module, ABC):
    """An attention block, which can be placed anywhere in a convolutional network, including an `nn.Sequential`."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()

    @property
    @abstractmethod
    def attends(self) -> nn.Module:
        """The submodule whose output is the attention: gates, a mask, or `Attended`."""

    @abstractmethod
    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Return the features after attention."""

    def see(self, features: Float[Tensor, "B C h w"], look: bool = True) -> Seen:
        """Return the features and, if requested, the attention weights."""
        if not look:
            return Seen(self(features), None)
        with watched_blocks(self) as looks:
            attended = self(features)
        return Seen(attended, looks[""])


@contextmanager
def watched_blocks(model: nn.Module) -> Iterator[Looks]:
    """Collect the attention of every block in a network, detached; of several runs the last one counts."""
    looks: Looks = {}

    def watch(name: str, block: Block) -> Any:
        def keep(module: nn.Module, given: Any, found: Tensor | Attended) -> None:
            weights = found.weights if isinstance(found, Attended) else found
            assert weights is not None
            looks[name] = weights.detach()

        return block.attends.register_forward_hook(keep)

    hooks = [watch(name, module) for name, module in model.named_modules() if isinstance(module, Block)]
    try:
        yield looks
    finally:
        for hook in hooks:
            hook.remove()


blocks: Registry[type[Block]] = Registry("block of attention", "blocks")
