"""From an object query to a mask over the image."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from regard.masks import exact, masked_softmax
from regard.shapes import Float, Int, Tensor
from regard.vision.convolution import group_norm
from regard.vision.detection.detector_output import Detected
from regard.vision.detection.queries import Spotlight, centers


class ConvBlock(nn.Sequential):
    """A 3×3 convolution, a norm and a ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), group_norm(outputs), nn.ReLU())


class Segmenter(nn.Module):
    r"""Maps of attention over cells, made finer step by step (Carion et al. 2020, section 4.4 and figure 8).

    .. math:: m_{ih} = \mathrm{softmax}_s(q_{ih}^\top k_{sh} / \sqrt{d})

    The maps of a query, beside what the cells and the query hold, pass convolutions; each step doubles rows and columns
    and adds finer features of the image, up to its pixels. Differs from the paper: the finer features are those of a
    small network of the segmenter's own, not the backbone's, so that any encoder of images will do; the query itself
    takes part beside its maps; anchors light the maps as they light every look; masks are as fine as the image, not a
    quarter; only the queries that are asked for are computed, and masks are not merged: each says what it says.
    """

    def __init__(self, width: int, channels: int, maps: int, pixels: int, doublings: int, lit: bool) -> None:
        """`pixels` is how many channels an image has, `doublings` how often the grid doubles up to its pixels."""
        super().__init__()
        self.maps = maps
        self.W_q, self.W_k = nn.Linear(width, width), nn.Linear(width, width)
        self.light = Spotlight(width, maps) if lit else None
        wide = [channels * min(4, 1 << step) for step in range(doublings + 1)]  # from pixels down to cells
        self.fine = nn.ModuleList([nn.Sequential(ConvBlock(pixels, wide[0]), ConvBlock(wide[0], wide[0]))])
        self.fine.extend(ConvBlock(a, b, stride=2) for a, b in pairwise(wide[:-1]))
        self.W_s, self.W_x = nn.Linear(width, wide[-1]), nn.Linear(width, wide[-1])
        self.enter = ConvBlock(wide[-1] + maps, wide[-1])
        self.shrink = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in pairwise(wide))
        self.turn = nn.ModuleList(nn.Linear(width, a) for a in wide[:-1])
        self.refine = nn.ModuleList(ConvBlock(a, a) for a in wide[:-1])
        self.leave = nn.Conv2d(wide[0], 1, 3, padding=1)

    def forward(
        self, image: Float[Tensor, "B C h w"], found: Detected, rows: Int[Tensor, " P"], which: Int[Tensor, " P"]
    ) -> Float[Tensor, "P h w"]:
        """Return logits of the masks of P queries: query `which[p]` of image `rows[p]`."""
        if not rows.shape[0]:
            return image.new_zeros(0, *image.shape[2:])
        maps = self.attend(found)[rows, which].transpose(1, 2)  # P S H
        asked = found.features[rows, which]
        below = functional.relu(self.W_s(found.states))[rows] + self.W_x(asked)[:, None]
        below = torch.cat([below, maps.to(below.dtype) * maps.shape[1] ** 0.5], dim=-1)
        features = self.enter(below.transpose(1, 2).reshape(below.shape[0], -1, *found.grid))
        finer = [image]
        for part in self.fine:
            finer.append(part(finer[-1]))
        for step in reversed(range(len(self.shrink))):
            beside = finer[step + 1]
            features = functional.interpolate(self.shrink[step](features), beside.shape[2:], mode="nearest")
            features = features + beside[rows] + self.turn[step](asked)[..., None, None]
            features = self.refine[step](features)
        logits: Tensor = self.leave(features)
        return logits[:, 0]

    def attend(self, found: Detected) -> Float[Tensor, "B N H S"]:
        """Return each query's maps over the cells."""
        queries, keys = (x.unflatten(-1, (self.maps, -1)) for x in (self.W_q(found.features), self.W_k(found.states)))
        scores = exact(torch.einsum("bnhd,bshd->bhns", queries, keys)) * queries.shape[-1] ** -0.5
        if self.light is not None:
            boxes = found.boxes[:, -1].detach()
            cells = centers(found.grid, boxes.device).to(boxes.dtype)
            scores = scores + self.light(found.features, boxes, cells)
        return masked_softmax(scores, found.mask[:, None, None]).transpose(1, 2)
