"""Segments with one segment of memory."""

import torch

from regard.attention.base import Blocks, Reach, Sizes, reaches
from regard.attention.block_sparse import SMALLEST, cut
from regard.shapes import Bool, Int, Tensor


@reaches.register("chunked")
class Chunked(Reach):
    r"""Attend to the query's own segment and the one before, the memory (Dai et al. 2019, section 3.2).

    .. math:: R_i = \{j : 0 \le \lfloor i / w \rfloor - \lfloor j / w \rfloor \le 1\}

    In a decoder, only up to position `i`. Segments have `w` positions, `model.self_attention.window`.
    Costs `T·w`. Each layer reaches one segment back, so `n` layers reach `n`. Differs from the paper: the gradient
    flows into the memory too, as all segments of a sequence are trained at once.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width = sizes.window

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Cut at segment boundaries; a block holds several short segments."""
        # From the start of the first segment to the end of the last one.
        lead = first % self.width
        end = first + steps if self.causal else -(-(first + steps) // self.width) * self.width
        block = -(-SMALLEST // self.width) * self.width
        made = cut(first - lead, end - first + lead, size, device, block=block, before=self.width, after=0)
        if made.queries.shape[0] == 1:
            at = torch.arange(steps, device=device)
            return (Blocks(at[None], made.keys, at),)
        return (Blocks(made.queries - lead, made.keys, made.slots[lead : lead + steps]),)

    def allowed(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0) -> Bool[Tensor, "T N"]:
        """Allow keys in the query's own segment or the one before."""
        back = queries[:, None] // self.width - keys.div(self.width, rounding_mode="floor")
        chosen = (back >= 0) & (back <= 1)
        return chosen & (keys <= queries[:, None]) if self.causal else chosen
