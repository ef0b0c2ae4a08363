"""A small residual network, optionally with attention blocks."""

import torch
from torch import nn
from torch.nn import functional

from regard.config import ImageConfig
from regard.errors import ConfigError
from regard.shapes import Bool, Float, Tensor
from regard.vision.blocks import blocks
from regard.vision.blocks.base import Block, BlockSizes
from regard.vision.convolution import Convolutions
from regard.vision.grid_positions import Grid
from regard.vision.residual import ResidualUnit
from regard.vision.stem import Cells, Stem, check_image, stems

NONE = "none"


class Stage(nn.Sequential):
    """Residual units of one width, and optionally a block; all but the first stage halve rows and columns."""

    def __init__(self, config: ImageConfig, number: int) -> None:
        """`number` counts from 0."""
        made = Convolutions(config.standardised, config.normalise)
        width = config.width >> (config.stages - 1 - number)
        inputs, stride = (width, 1) if number == 0 else (width // 2, 2)
        has_block = config.block != NONE and (not config.where or number + 1 in stages_with_block(config))

        def make_block() -> Block:
            return blocks[config.block](
                BlockSizes(width, config.reduction, config.depth, config.trunk, config.subsample, made)
            )

        within = make_block if has_block and config.within else None
        units = [
            ResidualUnit(width if unit else inputs, width, 1 if unit else stride, made, within)
            for unit in range(config.units)
        ]
        super().__init__(*units, *([make_block()] if has_block and not config.within else []))


@stems.register("resnet")
class ResidualNetwork(Stem):
    """Stages of residual units (He et al. 2016), for images of about 28 to 128 pixels a side.

    A 3×3 convolution, then stages; each but the first halves rows and columns and doubles the channels, up to
    `model.image.width`. The cells are the positions of the last stage, after a norm and a ReLU. Images may have any
    size, even of one pixel. Norms are over groups of channels, so that no image depends on others of its batch, or with
    `model.image.normalise=batch` over the batch, which is faster on a GPU and learns better from large batches.
    """

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        check_network(config)
        self.channels = config.channels
        # Channels-last suits the GPU's convolutions; group norms would convert it back.
        self.by_place = config.normalise == "batch"
        first = config.width >> (config.stages - 1)
        made = Convolutions(config.standardised, config.normalise)
        self.enter = made.filters(config.channels, first, 3)
        self.stages = nn.ModuleList(Stage(config, number) for number in range(config.stages))
        self.norm = made.norm(config.width)
        self.grid = self._grid((config.size, config.size))

    def forward(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> Cells:
        """Run all stages."""
        check_image(source, mask, self.channels)
        features = self.enter(source)
        if self.by_place and features.is_cuda:
            features = features.contiguous(memory_format=torch.channels_last)
        for stage in self.stages:
            features = stage(features)
        features = functional.relu(self.norm(features))
        cells = features.flatten(2).transpose(1, 2)
        real = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return Cells(cells, real, (features.shape[2], features.shape[3]))

    def _grid(self, size: Grid) -> Grid:
        divisor = 1 << (len(self.stages) - 1)
        return -(-size[0] // divisor), -(-size[1] // divisor)


def stages_with_block(config: ImageConfig) -> set[int]:
    """Parse the stages that `model.image.where` names."""
    found = set()
    for text in (part.strip() for texts in config.where for part in texts.split(",")):
        if not text.isdigit() or not 1 <= int(text) <= config.stages:
            raise ConfigError(
                f"model.image.where contains {text!r}: the stages are 1 to {config.stages} (model.image.stages)."
            )
        found.add(int(text))
    return found


def check_network(config: ImageConfig) -> None:
    """Refuse settings that no residual network can be built from."""
    for name in ("channels", "stages", "units"):
        if getattr(config, name) < 1:
            raise ConfigError(f"model.image.{name} must be at least 1, got {getattr(config, name)}.")
    halvings = 1 << (config.stages - 1)
    if config.width < 2 * halvings or config.width % halvings:
        raise ConfigError(
            f"model.image.width is {config.width}, but each of {config.stages} stages (model.image.stages) has half "
            f"the channels of the next: use a multiple of {halvings}, at least {2 * halvings}."
        )
    stages_with_block(config)
    if config.block != NONE:
        blocks[config.block]
    elif config.where or config.within:
        name = "where" if config.where else "within"
        raise ConfigError(
            f"model.image.{name} says where a block goes, but model.image.block is none: name one (regard list "
            "blocks shows all), or leave it out."
        )
