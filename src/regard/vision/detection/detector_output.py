"""Output of a detector."""

from typing import NamedTuple

from regard.shapes import Bool, Float, Tensor
from regard.vision.grid_positions import Grid


class Detected(NamedTuple):
    """Result of a detector."""

    logits: Float[Tensor, "B L N W"]
    """After each layer, for each class and, last, for nothing; the last layer's are the prediction."""
    boxes: Float[Tensor, "B L N 4"]
    """After each layer: centre x, centre y, width and height, from 0 to 1."""
    weights: Float[Tensor, "B N L H S"] | None
    """Attention weights of each query; None if not requested."""
    features: Float[Tensor, "B N D"]
    """The final state of each query."""
    states: Float[Tensor, "B S D"]
    """The cells attended to."""
    mask: Bool[Tensor, "B S"]
    """Which cells are real: all."""
    grid: Grid
    """Rows and columns of the cells; cell s is in row s // columns and column s % columns."""
