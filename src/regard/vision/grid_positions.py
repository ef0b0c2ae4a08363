"""How a cell knows where it lies in a grid of rows and columns."""

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
    """Vectors that are added to cells, by their row and column."""

    def __init__(self, grid: Grid, width: int) -> None:
        """`grid` is what it is made for."""
        super().__init__()

    @abstractmethod
    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Return the vectors of a grid of any size, row by row."""


grids: Registry[type[GridPosition]] = Registry("grid position", "grids")


@grids.register("learned")
class LearnedGrid(GridPosition):
    r"""A vector of its own for each cell, interpolated for other grids (Dosovitskiy et al. 2020, sections 3.1 and 3.2).

    .. math:: z_0 = [x_{class};\, x_p^1 E;\, \dots;\, x_p^N E] + E_{pos}

    In another grid a cell gets what lies at its place of the image, by bicubic interpolation. Differs from the paper:
    the class token has no position, which nothing could tell from the token itself.
    """

    def __init__(self, grid: Grid, width: int) -> None:
        super().__init__(grid, width)
        self.E_pos = nn.Parameter(torch.empty(*grid, width))
        self.draw()

    def draw(self) -> None:
        """Draw first values, as small as the authors'."""
        nn.init.normal_(self.E_pos, std=0.02)

    def resize(self, grid: Grid) -> None:
        """Be made for another grid from now on: learn what was interpolated for it."""
        with torch.no_grad():
            self.E_pos = nn.Parameter(self(grid).unflatten(0, grid).clone())

    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Interpolate where the grid is another."""
        if grid == self.E_pos.shape[:2]:
            return self.E_pos.flatten(0, 1)
        maps = self.E_pos.permute(2, 0, 1)[None]
        return functional.interpolate(maps, grid, mode="bicubic", align_corners=False)[0].flatten(1).T


@grids.register("sinusoidal")
class SinusoidalGrid(GridPosition):
    r"""Waves along the rows in one half of the units, and along the columns in the other (Vaswani et al. 2017, in 2-D).

    .. math:: p_{ij} = [PE_i;\, PE_j]

    with PE of section 3.5 at half the width. Nothing is learned, and grids may be of any size. It is the encoding of
    Carion et al. 2020 (spatial positional encoding) without their normalisation of places.
    """

    def __init__(self, grid: Grid, width: int) -> None:
        super().__init__(grid, width)
        if width % 4:
            raise ConfigError(
                f"Sinusoidal positions of a grid need a width that 4 divides, got {width}: change model.image.width, "
                "or take model.image.positions=learned."
            )
        self.waves = Sinusoidal(PositionSizes(width // 2))
        self.register_buffer("like", torch.zeros(1, 1, width // 2), persistent=False)
        self.like: Tensor

    def forward(self, grid: Grid) -> Float[Tensor, "S D"]:
        """Lay the waves of rows and columns together."""
        rows, columns = (self.waves.embed(self.like.expand(1, size, -1), 0)[0] for size in grid)
        both = rows[:, None].expand(-1, grid[1], -1), columns[None].expand(grid[0], -1, -1)
        return torch.cat(both, dim=-1).flatten(0, 1)
