"""The monotonic local reach."""

import torch

from regard.attention.base import LocalReach, Sizes, Window, reaches
from regard.shapes import Bool, Float, Int, Place, Tensor, places


@reaches.register("local-m")
class LocalM(LocalReach):
    r"""Attend around the source position that equals the target position (Luong et al. 2015, section 3.2: local-m).

    .. math:: p_t = t \qquad R_t = \{s : |s - p_t| \le D\}

    `D` is `model.attention.window`. Costs `T·D`, however long the source is. A source of up to three windows (of one,
    if the score has a hidden layer) is scored in full, which is faster than gathering keys. Coverage, which updates
    every key at every step, adds `T·S`. Differs from the paper: where the target is longer than the source, `p_t` stays
    at the source's last position, so that there is always something to attend to.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.width = sizes.window

    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place, most: int) -> Window:
        """Return the window around the query's own position."""
        at = places(first, query.shape[1], query.device)
        last = mask.sum(dim=1, keepdim=True) - 1
        centre = torch.minimum(at[None], last.clamp(min=0))[..., None]
        return around(centre, self.width, mask, most)[0]


def around(
    centre: Float[Tensor, "B T 1"] | Int[Tensor, "B T 1"], width: int, mask: Bool[Tensor, "B S"], most: int
) -> tuple[Window, Float[Tensor, "B T N"] | Int[Tensor, "B T N"]]:
    """Return the window of `width` on either side of a centre, and each position's distance from the centre.

    The window is shifted to lie within the source, so that all positions exist and are distinct. Sources of up to
    `most` windows are returned whole. Positions farther than `width` from the centre are not allowed.
    """
    size, device = mask.shape[1], mask.device
    whole = not torch.compiler.is_exporting() and size <= most * (2 * width + 1)
    if whole:
        positions = torch.arange(size, device=device).expand(*centre.shape[:2], -1)
        real = mask[:, None]
    else:
        # During export the size is symbolic: `min` keeps it so only where torch has replaced it.
        number: int = torch.sym_min(2 * width + 1, size)  # type: ignore[no-untyped-call]
        start = centre.detach() - width
        start = torch.ceil(start).long() if start.is_floating_point() else start  # ONNX rounds no integers
        positions = start.clamp(0, size - number) + torch.arange(number, device=device)
        real = mask[torch.arange(mask.shape[0], device=device)[:, None, None], positions]
    away = positions - centre
    return Window(positions, real & (away.detach().abs() <= width), whole=whole), away
