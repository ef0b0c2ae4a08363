"""The inputs of graphs: texts, pictures, or region features."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from regard.config import ModelConfig
from regard.export.decoder_state import BATCH, SOURCE
from regard.export.onnx_graph import Port
from regard.shapes import Tensor

REAL = "mask: false for padding"
_MARKS = 4
"""The number of special tokens."""


@dataclass(frozen=True)
class GraphInputs:
    """The inputs of a graph."""

    ports: tuple[Port, ...]
    vocabulary: int = _MARKS + 1
    """The vocabulary size."""

    @property
    def grows(self) -> tuple[str, ...]:
        """The names of the dynamic axes."""
        return tuple(dict.fromkeys(axis for port in self.ports for axis in port.axes if isinstance(axis, str)))

    def examples(self, sizes: Mapping[str, int]) -> tuple[Tensor, ...]:
        """Draw random inputs; every other row is padded if there is a mask."""
        return tuple(self._draw(port, sizes) for port in self.ports)

    def _draw(self, port: Port, sizes: Mapping[str, int]) -> Tensor:
        like = port.example(sizes)
        if port.dtype == torch.bool:
            like[1::2, max(1, like.shape[1] - 2) :] = False
            return like
        if port.dtype == torch.uint8:
            return torch.randint_like(like, 256)
        return torch.randn_like(like) if like.is_floating_point() else torch.randint_like(like, _MARKS, self.vocabulary)


def texts(vocabulary: int, reads: bool) -> GraphInputs:
    """Return the inputs for texts; a language model has no source, and only the batch size of this input matters."""
    axes = (BATCH, SOURCE if reads else 1)
    about = "tokens of the text, the end token last" if reads else "the end token only: there is no source"
    ports = Port("source", axes, torch.int64, about), Port("mask", axes, torch.bool, REAL)
    return GraphInputs(ports, vocabulary)


def pictures(model: ModelConfig) -> GraphInputs:
    """Return the inputs for pictures: pixels, or region features."""
    image = model.image
    assert image is not None
    if image.kind == "regions":
        axes = (BATCH, image.size**2 or SOURCE)
        about = "features of the regions of a picture" + (", row by row" if image.size else "")
        ports = Port("regions", (*axes, image.channels), torch.float32, about), Port("mask", axes, torch.bool, REAL)
        return GraphInputs(ports)
    shape = (BATCH, image.size, image.size, image.channels)
    return GraphInputs((Port("pixels", shape, torch.uint8, "rows × columns × channels, from 0 to 255"),))
