"""The strided pattern of sparse Transformers."""

import torch

from regard.attention.base import Blocks, Reach, Sizes, reaches
from regard.attention.block_sparse import SMALLEST, cut
from regard.shapes import Bool, Int, Tensor


@reaches.register("strided")
class Strided(Reach):
    r"""Attend to the last `l` positions, and to every `l`-th one before (Child et al. 2019, section 4.3).

    .. math:: R_i = \{j : i - l \le j \le i\} \cup \{j \le i : (i - j) \bmod l = 0\}

    Every position is at most two layers away from any other. `l` is `model.self_attention.stride`. Costs `T·(l + S/l)`,
    which is lowest, `T·√S`, with `l` near `√S`. Differs from the paper: one head has both sets (its section 5.1 allows
    that, too), and in an encoder they reach to both sides.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.stride = sizes.stride

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Cut twice: along the sequence for near keys, and into interleaved sequences for keys whole strides away."""
        side = self.stride - 1
        after, block = 0 if self.causal else side, max(self.stride, SMALLEST)
        near = cut(first, steps, size, device, block=block, before=side, after=after)
        seen = min(size, first + steps) if self.causal else size
        far = cut(first, steps, seen, device, block=steps, before=first + steps, after=size, stride=self.stride)
        return near, far

    def allowed(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0) -> Bool[Tensor, "T N"]:
        """Allow near keys in the first cut; keys whole strides away that are not near in the second."""
        back = queries[:, None] - keys
        near = back.abs() < self.stride
        chosen = near if cut == 0 else ~near & (back % self.stride == 0)
        return chosen & (back >= 0) if self.causal else chosen

    def allowed_in_all(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"]) -> Bool[Tensor, "T N"]:
        """Allow what either cut allows."""
        return self.allowed(queries, keys) | self.allowed(queries, keys, 1)
