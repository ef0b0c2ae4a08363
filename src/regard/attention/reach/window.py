"""The sliding window."""

import torch

from regard.attention.base import Blocks, Reach, Sizes, reaches
from regard.attention.block_sparse import SMALLEST, cut
from regard.shapes import Bool, Int, Tensor


@reaches.register("window")
class SlidingWindow(Reach):
    r"""Attend to the `w` positions to each side (Beltagy et al. 2020, section 3.1).

    .. math:: R_i = \{j : |i - j| \le w\}

    In a decoder, to the left only. `w` is `model.self_attention.window`.
    Costs `T·w`. Differs from the paper: its window is `w` in all, ours `w` to each side.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width = sizes.window

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Cut along the sequence; a block attends to its own positions and a window to each side."""
        after = 0 if self.causal else self.width
        block = max(self.width, SMALLEST)
        return (cut(first, steps, size, device, block=block, before=self.width, after=after),)

    def allowed(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0) -> Bool[Tensor, "T N"]:
        """Allow keys within the window."""
        back = queries[:, None] - keys
        return (back >= (0 if self.causal else -self.width)) & (back <= self.width)
