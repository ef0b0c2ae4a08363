"""The monotonic local reach."""

import torch

from regard.attention.base import LocalReach, Sizes, Window, reaches
from regard.shapes import Bool, Float, Int, Place, Tensor, places


@reaches.register("local-m")
class LocalM(LocalReach):
    r"""Look around the place in the source that one is at in the target (Luong et al. 2015, section 3.2: local-m).

    .. math:: p_t = t \qquad R_t = \{s : |s - p_t| \le D\}

    `D` is `model.attention.window`. Costs `T·D`, however long the source is, and never more than `T·S`, however short
    (coverage, which tells every key how much it was looked at, adds `T·S`). Differs from the paper: where the target
    is longer than the source, `p_t` stays at the source's last position, so that there is always something to see.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width = sizes.window

    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place) -> Window:
        """The places around the query's own."""
        at = places(first, query.shape[1], query.device)
        last = mask.sum(dim=1, keepdim=True) - 1
        centre = torch.minimum(at[None], last.clamp(min=0))[..., None]
        positions = within(centre - self.width, self.width, mask)
        return Window(positions, real(positions, mask) & ((positions - centre).abs() <= self.width))


def within(start: Int[Tensor, "B T 1"], width: int, mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B T N"]:
    """Return the places of a window of `2 width + 1` from `start` on, moved so that it lies within the mask.

    So none is picked that there is not, and none twice. What came in by the move is for the caller to forbid.
    """
    size = mask.shape[1]
    # While a graph is exported the size is a symbol: `min` keeps it one only where torch has replaced it.
    number: int = torch.sym_min(2 * width + 1, size)  # type: ignore[no-untyped-call]
    return start.clamp(0, size - number) + torch.arange(number, device=mask.device)


def real(positions: Int[Tensor, "B T N"], mask: Bool[Tensor, "B S"]) -> Bool[Tensor, "B T N"]:
    """Say which of these positions are no padding."""
    return mask[torch.arange(mask.shape[0], device=mask.device)[:, None, None], positions]
