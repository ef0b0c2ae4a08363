"""Export a model that takes one forward pass as a single graph."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from regard.export.decoder_state import axes_of
from regard.export.graph_inputs import GraphInputs
from regard.export.onnx_graph import OnnxGraph, Port
from regard.shapes import Tensor

LOOKS = "looks."
"""The prefix of the names of an image encoder's own attention outputs."""


class Whole(nn.Module, ABC):
    """A module that maps a source to the named outputs of a model."""

    about: ClassVar[Mapping[str, str]]
    """Descriptions of the outputs, for export.json."""

    @abstractmethod
    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name."""

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs as a tuple, without empty ones."""
        return tuple(said for said in self.say(*source).values() if 0 not in said.shape[1:])


def export_whole(module: Whole, source: GraphInputs) -> dict[str, OnnxGraph]:
    """Return the graph of a model that takes one forward pass."""

    def say(sizes: Mapping[str, int]) -> dict[str, Tensor]:
        with torch.no_grad():
            return module.say(*source.examples(sizes))

    axes = {name: grown for name, grown in axes_of(say, source.grows).items() if 0 not in grown}
    outputs = [
        Port(name, grown, torch.float32, module.about.get(name, "attention weights")) for name, grown in axes.items()
    ]
    return {"model": OnnxGraph(module, source.ports, outputs)}
