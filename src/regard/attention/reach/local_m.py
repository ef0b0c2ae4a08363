"""The monotonic local reach."""

import torch

from regard.attention.base import LocalReach, Sizes, Window, reaches
from regard.shapes import Bool, Float, Int, Place, Tensor, places


@reaches.register("local-m")
class LocalM(LocalReach):
    r"""Look around the place in the source that one is at in the target (Luong et al. 2015, section 3.2: local-m).

    .. math:: p_t = t \qquad R_t = \{s : |s - p_t| \le D\}

    `D` is `model.attention.window`. Costs `T·D`, whatever the source's length (coverage, which tells
    every key how much it was looked at, adds `T·S`). Differs from the paper: where the target
    is longer than the source, `p_t` stays at the source's last position, so that there is always something to see.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width = sizes.window

    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place) -> Window:
        """The places around the query's own."""
        at = places(first, query.shape[1], query.device)
        last = mask.sum(dim=1, keepdim=True) - 1
        centre = torch.minimum(at[None], last.clamp(min=0))
        positions = centre[..., None] + torch.arange(-self.width, self.width + 1, device=query.device)
        return Window(positions, real(positions, mask))


def real(positions: Int[Tensor, "B T N"], mask: Bool[Tensor, "B S"]) -> Bool[Tensor, "B T N"]:
    """Say which of these positions there are."""
    size = mask.shape[1]
    rows = torch.arange(mask.shape[0], device=mask.device)[:, None, None]
    return (positions >= 0) & (positions < size) & mask[rows, positions.clamp(0, size - 1)]
