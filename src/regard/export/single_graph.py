"""Models that answer at once, as one graph."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from regard.export.decoder_state import axes_of
from regard.export.graph_inputs import Source
from regard.export.onnx_graph import Graph, Port
from regard.shapes import Tensor

LOOKS = "looks."
"""What stands before the names of what an image encoder attends to on the way."""


class Whole(nn.Module, ABC):
    """From a source to all that a model says of it, by name."""

    about: ClassVar[Mapping[str, str]]
    """What is told of outputs in export.json."""

    @abstractmethod
    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Return what the model says."""

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        """Return the same without names; what has no room for anything is left out."""
        return tuple(said for said in self.say(*source).values() if 0 not in said.shape[1:])


def export_whole(module: Whole, source: Source) -> dict[str, Graph]:
    """Make the graph of a model that answers at once."""

    def say(sizes: Mapping[str, int]) -> dict[str, Tensor]:
        with torch.no_grad():
            return module.say(*source.examples(sizes))

    axes = {name: grown for name, grown in axes_of(say, source.grows).items() if 0 not in grown}
    outputs = [
        Port(name, grown, torch.float32, module.about.get(name, "what was attended to")) for name, grown in axes.items()
    ]
    return {"model": Graph(module, source.ports, outputs)}
