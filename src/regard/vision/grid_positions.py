"""Position encodings for a grid of cells."""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional

from regard.attention.positions import PositionSizes, Sinusoidal
from regard.errors import ConfigError
from regard.registry import Registry
from regard.shapes import Float, Tensor

Grid = tuple[int, int]
"""Rows and columns."""


class GridPosition(nn.Module, ABC):
    """Vectors that are added to cells, by row and column."""

    def __init__(self, grid: Grid, width: int) -> None:
        """`grid` is the grid that it is built for."""
        super().__init__()

    @abstractmethod
    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Return the vectors for a grid of any size, row by row."""


grids: Registry[type[GridPosition]] = Registry("grid position", "grids")


@grids.register("learned")
class LearnedGrid(GridPosition):
    r"""A learned vector for each cell, interpolated for other grids (Dosovitskiy et al. 2020, sections 3.1 and 3.2).

    .. math:: z_0 = [x_{class};\, x_p^1 E;\, \dots;\, x_p^N E] + E_{pos}

    In another grid a cell gets the bicubic interpolation at its relative position in the image. Differs from the paper:
    the class token has no position, which would be redundant with the token itself.
    """

    def __init__(self, grid: Grid, width: int) -> None:
        super().__init__(grid, width)
        self.E_pos = nn.Parameter(torch.empty(*grid, width))
        self.draw()

    def draw(self) -> None:
        """Initialise the vectors at the authors' scale."""
        nn.init.normal_(self.E_pos, std=0.02)

    def resize(self, grid: Grid) -> None:
        """Change the grid: from now on, learn what was interpolated for it."""
        with torch.no_grad():
            self.E_pos = nn.Parameter(self(grid).unflatten(0, grid).clone())

    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Return the vectors, interpolated if the grid is another."""
        if grid == self.E_pos.shape[:2]:
            return self.E_pos.flatten(0, 1)
        maps = self.E_pos.permute(2, 0, 1)[None]
        return functional.interpolate(maps, grid, mode="bicubic", align_corners=False)[0].flatten(1).T


@grids.register("sinusoidal")
class SinusoidalGrid(GridPosition):
    r"""Sinusoidal positions of the row in half of the units, of the column in the other (Vaswani et al. 2017, in 2-D).

    .. math:: p_{ij} = [PE_i;\, PE_j]

    with PE of section 3.5 at half the width. Nothing is learned, and grids may have any size. It is the spatial
    encoding of Carion et al. 2020 without their normalisation of positions.
    """

    def __init__(self, grid: Grid, width: int) -> None:
        super().__init__(grid, width)
        if width % 4:
            raise ConfigError(
                f"Sinusoidal grid positions need a width that is a multiple of 4, got {width}: change "
                "model.image.width, or set model.image.positions=learned."
            )
        self.waves = Sinusoidal(PositionSizes(width // 2))
        self.register_buffer("like", torch.zeros(1, 1, width // 2), persistent=False)
        self.like: Tensor

    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Concatenate the encodings of rows and columns."""
        rows, columns = (self.waves.embed(self.like.expand(1, size, -1), 0)[0] for size in grid)
        both = rows[:, None].expand(-1, grid[1], -1), columns[None].expand(grid[0], -1, -1)
        return torch.cat(both, dim=-1).flatten(0, 1)
