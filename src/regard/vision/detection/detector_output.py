"""What object queries found in images."""

from typing import NamedTuple

from regard.shapes import Bool, Float, Tensor
from regard.vision.grid_positions import Grid


class Detected(NamedTuple):
    """What a detector yields."""

    logits: Float[Tensor, "B L N W"]
    """After each layer, of each class and, last, of nothing; the last layer's are the answer."""
    boxes: Float[Tensor, "B L N 4"]
    """After each layer: centre x, centre y, width and height, from 0 to 1."""
    weights: Float[Tensor, "B N L H S"] | None
    """Where each query looked; None where nobody asked."""
    features: Float[Tensor, "B N D"]
    """What each query holds at the end."""
    states: Float[Tensor, "B S D"]
    """The cells that were looked at."""
    mask: Bool[Tensor, "B S"]
    """Which of them are real: all."""
    grid: Grid
    """Rows and columns of the cells; cell s lies in row s // columns and column s % columns."""
