"""The dilated window."""

import torch

from regard.attention.base import Blocks, Reach, Sizes, reaches
from regard.attention.block_sparse import SMALLEST, cut
from regard.shapes import Bool, Int, Tensor


@reaches.register("dilated")
class Dilated(Reach):
    r"""Attend to every `d`-th position, `w` of them to each side (Beltagy et al. 2020, section 3.1).

    .. math:: R_i = \{j : i - j = k d,\ |k| \le w\}

    It reaches `d` times as far as a window at the same cost, `T·w`. In a decoder, to the left only. `d` is
    `model.self_attention.stride`, `w` its `window`. Differs from the paper: there each head may have a `d` of its own.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width, self.stride = sizes.window, sizes.stride

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Divide the positions into `d` interleaved sequences that do not attend to one another, each with a window."""
        after = 0 if self.causal else self.width
        block = max(self.width, SMALLEST)
        return (cut(first, steps, size, device, block=block, before=self.width, after=after, stride=self.stride),)

    def allowed(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0) -> Bool[Tensor, "T N"]:
        """Allow keys within the window whose distance is a multiple of the stride."""
        back, far = queries[:, None] - keys, self.width * self.stride
        near = (back >= (0 if self.causal else -far)) & (back <= far)
        return near & (back % self.stride == 0)
