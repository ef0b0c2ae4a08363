"""The contract of blocks: features in, features of the same shape out, and on request what was attended to."""

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
"""What was attended to, by the name of the module that did."""


class Seen(NamedTuple):
    """What a block yields."""

    features: Float[Tensor, "B C h w"]
    looks: Float[Tensor, "B ..."] | None
    """Gates of channels B×C, a mask B×C×h×w, or weights B×T×H×S of cells for cells; None where nobody asked."""


class BlockSizes(NamedTuple):
    """What a block is built for."""

    channels: int
    reduction: int = 16
    """How many times fewer units than channels squeeze-excitation has between."""
    depth: int = 2
    """How often a soft mask's branch halves rows and columns."""
    trunk: int = 0
    """Residual units beside a soft mask."""
    subsample: bool = False
    """Whether a non-local block looks at the largest of every two by two cells."""
    made: Convolutions = PLAIN
    """How its convolutions and norms are made."""


class Block(nn.Module, ABC):
    """Attends to features, and can stand anywhere in a convolutional network, an `nn.Sequential` too."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()

    @property
    @abstractmethod
    def attends(self) -> nn.Module:
        """The part whose output is what the block attends to: gates, a mask, or `Attended`."""

    @abstractmethod
    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Attend."""

    def see(self, features: Float[Tensor, "B C h w"], look: bool = True) -> Seen:
        """Attend, and tell to what."""
        if not look:
            return Seen(self(features), None)
        with watched_blocks(self) as looks:
            attended = self(features)
        return Seen(attended, looks[""])


@contextmanager
def watched_blocks(model: nn.Module) -> Iterator[Looks]:
    """Collect what every block within any network attends to while it runs, detached; the last run counts."""
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
