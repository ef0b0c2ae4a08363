"""Object queries: their positions, how they attend to cells, and how their boxes are predicted."""

import math
from abc import ABC, abstractmethod

import torch
from torch import nn

from regard.attention import Attended, Attention, Carry, Memory, build_attention
from regard.attention.multi_head import Heads
from regard.config import AttentionConfig, ModelConfig
from regard.errors import ConfigError
from regard.masks import exact, masked_softmax
from regard.registry import Registry
from regard.shapes import Bool, Float, Tensor
from regard.vision.grid_positions import Grid

NARROWEST = 0.02
"""Lower bound of a spotlight's spread, as a fraction of the image: a box may shrink to nothing on the way."""

UNLIT = ("temperature", "learn_temperature", "groups", "head_width", "values", "coverage", "pruned")
"""Attention settings that `GaussianAttention` does not use."""


def centers(grid: Grid, device: torch.device) -> Float[Tensor, "S 2"]:
    """Return the centre (x, y) of each cell, row by row, as fractions of the image."""
    down, across = ((torch.arange(size, device=device) + 0.5) / size for size in grid)
    return torch.stack([across.repeat(grid[0]), down.repeat_interleave(grid[1])], dim=-1)


def waves(places: Float[Tensor, "*N C"], width: int) -> Float[Tensor, "*N D"]:
    r"""Encode each coordinate from 0 to 1 as `width` sines and cosines (after Vaswani et al. 2017).

    .. math:: \sin(2\pi x / \omega_k),\ \cos(2\pi x / \omega_k)
        \qquad \omega_k \mathrm{\ from\ } 2 \mathrm{\ down\ to\ } 1/16

    Carion et al. 2020 encode positions so. Differs from both papers: the wavelengths suit coordinates from 0 to 1.
    """
    count = width // 2
    lengths = 2.0 * (1 / 32) ** (torch.arange(count, device=places.device) / max(1, count - 1))
    angles = places[..., None] * (2 * math.pi / lengths)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class CellAttention(nn.Module, ABC):
    """How queries attend to the cells of an image."""

    def __init__(self, config: AttentionConfig, width: int, layer: int) -> None:
        super().__init__()

    @abstractmethod
    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Compute keys and values of cells, whose states include their positions."""

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "B N D"],
        memory: Memory,
        boxes: Float[Tensor, "B N 4"],
        cells: Float[Tensor, "S 2"],
        look: bool,
    ) -> Attended:
        """Attend; `boxes` are the queries' current boxes, `cells` the centre of each cell."""


class GlobalCellAttention(CellAttention):
    """Any attention of the package, over all cells (Carion et al. 2020, appendix A.3)."""

    def __init__(self, config: AttentionConfig, width: int, layer: int) -> None:
        super().__init__(config, width, layer)
        self.attention: Attention = build_attention(config, width, width, layer=layer)
        if self.attention.context_width != width or self.attention.one_by_one:
            raise ConfigError(
                "Object queries attend all at once, and add their context: set model.attention.project=true, "
                "model.attention.coverage=none, and a focus other than monotonic."
            )

    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Compute keys and values of cells, as a decoder does of words."""
        return self.attention.remember(states, mask)

    def forward(
        self,
        query: Float[Tensor, "B N D"],
        memory: Memory,
        boxes: Float[Tensor, "B N 4"],
        cells: Float[Tensor, "S 2"],
        look: bool,
    ) -> Attended:
        """Attend, independently of the boxes."""
        attended: Attended = self.attention(query, memory, None, look)
        return attended


class Spotlight(nn.Module):
    r"""A Gaussian bias on each head's scores, placed relative to the query's current box (Gao et al. 2021, SMCA).

    .. math:: \log G_{ij} = -\frac{(x_j - c_x - o_x w)^2}{2 (s_x w)^2} - \frac{(y_j - c_y - o_y h)^2}{2 (s_y h)^2}

    Offsets o and spreads s of each head are predicted from the query. Differs from the paper: each layer's Gaussian is
    placed around the box that the layer before predicted, not around a centre predicted before the first attention;
    offset and spread are in units of that box; and the initial offsets point at the middle and at the four sides.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W = nn.Linear(width, 4 * heads)
        self.draw()

    def draw(self) -> None:
        """Start with Gaussians that depend on the boxes alone."""
        toward = torch.tensor([(0.0, 0.0), (-0.5, 0.0), (0.5, 0.0), (0.0, -0.5), (0.0, 0.5)])
        with torch.no_grad():
            self.W.weight.zero_()
            spread = torch.full((self.heads, 2), math.log(0.4))
            self.W.bias.copy_(torch.cat([toward[torch.arange(self.heads) % 5], spread], dim=1).flatten())

    def forward(
        self, query: Float[Tensor, "B N D"], boxes: Float[Tensor, "B N 4"], cells: Float[Tensor, "S 2"]
    ) -> Float[Tensor, "B H N S"]:
        """Return what to add to scores, in at least float32."""
        shifts = exact(self.W(query)).view(*query.shape[:2], self.heads, 4)
        center, size = exact(boxes[..., None, :2]), exact(boxes[..., None, 2:])
        middle = center + shifts[..., :2] * size  # B N H 2
        spread = (shifts[..., 2:].clamp(-3, 3).exp() * size).clamp(min=NARROWEST)
        away = (cells - middle[..., None, :]) / spread[..., None, :]  # B N H S 2
        dark: Tensor = -0.5 * away.square().sum(dim=-1).transpose(1, 2)
        return dark


class GaussianAttention(CellAttention):
    r"""Scaled dot-product attention with a Gaussian bias around the box (Gao et al. 2021, SMCA).

    .. math:: \alpha_i = \mathrm{softmax}_j(q_i^\top k_j / \sqrt{d} + \log G_{ij})
    """

    def __init__(self, config: AttentionConfig, width: int, layer: int) -> None:
        super().__init__(config, width, layer)
        if (config.score, config.reach, config.focus) != ("scaled-dot", "global", "softmax"):
            raise ConfigError(
                "model.detection.kind=anchors adds a bias to scaled dot products: set model.attention.score="
                "scaled-dot, reach=global and focus=softmax, or model.detection.kind=learned, which takes any."
            )
        usual = AttentionConfig()
        unread = [f"model.attention.{name}" for name in UNLIT if getattr(config, name) != getattr(usual, name)]
        if unread:
            raise ConfigError(
                f"model.detection.kind=anchors does not use {', '.join(unread)}: leave that at its default, or set "
                "model.detection.kind=learned, which uses all but coverage and values."
            )
        if width % config.heads:
            raise ConfigError(f"model.attention.heads is {config.heads}, which does not divide the width {width}.")
        self.heads = Heads(width, width, config.heads, config.heads, width // config.heads, width)
        self.light = Spotlight(width, config.heads)

    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Compute keys and values of each head."""
        return Memory(self.heads.keys(states), self.heads.values(states), mask)

    def forward(
        self,
        query: Float[Tensor, "B N D"],
        memory: Memory,
        boxes: Float[Tensor, "B N 4"],
        cells: Float[Tensor, "S 2"],
        look: bool,
    ) -> Attended:
        """Attend with the bias."""
        queries = self.heads.queries(query)
        scores = exact(queries @ memory.keys.transpose(2, 3)) * queries.shape[-1] ** -0.5
        weights = masked_softmax(scores + self.light(query, boxes, cells), memory.mask[:, None, None])
        context = self.heads.join(weights.to(memory.values.dtype) @ memory.values)
        return Attended(context, weights.transpose(1, 2) if look else None, Carry())


class Queries(nn.Module, ABC):
    """The object queries of a model."""

    look: type[CellAttention]
    lit: bool
    """Whether a Gaussian bias around the current box is added to scores, for masks too."""

    def __init__(self, count: int, model: ModelConfig) -> None:
        super().__init__()
        self.width = model.decoder.width

    @abstractmethod
    def draw(self) -> None:
        """Initialise the parameters."""

    @abstractmethod
    def start(self) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N 4"]]:
        """Return the initial states and boxes of the queries."""

    @abstractmethod
    def places(self, boxes: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N D"]:
        """Return the position vectors that are added to queries in attention, given their current boxes."""

    @abstractmethod
    def move(self, boxes: Float[Tensor, "B N 4"], told: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N 4"]:
        """Return a layer's boxes, given the previous ones and the output of its head."""


queries: Registry[type[Queries]] = Registry("kind of object queries", "queries")


@queries.register("learned")
class LearnedQueries(Queries):
    r"""A learned position vector for each query, added in attention (Carion et al. 2020, section 3.2).

    .. math:: \hat b = \sigma(\mathrm{MLP}(x))

    Initial states are zero, so queries differ by these vectors alone. Differs from the paper: nothing.
    """

    look = GlobalCellAttention
    lit = False

    def __init__(self, count: int, model: ModelConfig) -> None:
        super().__init__(count, model)
        self.place = nn.Parameter(torch.empty(count, self.width))
        self.draw()

    def draw(self) -> None:
        """Initialise the vectors from a standard normal distribution."""
        nn.init.normal_(self.place)

    def start(self) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N 4"]]:
        """Return zero states, and boxes in the middle, which are not used."""
        return torch.zeros_like(self.place), self.place.new_full((len(self.place), 4), 0.5)

    def places(self, boxes: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N D"]:
        """Return the learned vectors, whatever the boxes are."""
        return self.place.expand(boxes.shape[0], -1, -1)

    def move(self, boxes: Float[Tensor, "B N 4"], told: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N 4"]:
        """Predict boxes from the head's output alone."""
        return told.sigmoid()


@queries.register("anchors")
class AnchorQueries(Queries):
    r"""A box for each query, which each layer refines and attends around (Liu et al. 2022, DAB-DETR).

    .. math:: p = W\,\mathrm{PE}(\hat b) \qquad \hat b' = \sigma(\sigma^{-1}(\hat b) + \mathrm{MLP}(x))

    The gradient of a layer's boxes stays in that layer. Differs from the paper: p is a linear map, not a network, and
    is added to the query, not concatenated (as in Meng et al. 2021, conditional DETR); each query starts from a learned
    vector, not from zeros; a Gaussian bias (`GaussianAttention`), not a scaling of sines, expresses the size of a box.
    """

    look = GaussianAttention
    lit = True

    def __init__(self, count: int, model: ModelConfig) -> None:
        super().__init__(count, model)
        self.content = nn.Parameter(torch.empty(count, self.width))
        self.anchors = nn.Parameter(torch.empty(count, 4))
        self.W = nn.Linear(4 * (self.width // 4), self.width)
        if self.width % 8:
            raise ConfigError(f"Anchors need a width that 8 divides, got model.decoder.width={self.width}.")
        self.draw()

    @torch.no_grad()
    def draw(self) -> None:
        """Spread the anchors over the image, each a third of it wide."""
        nn.init.normal_(self.content, std=0.02)
        index = torch.arange(len(self.anchors))
        golden = (index * (math.sqrt(5) - 1) / 2) % 1
        spread = torch.stack([(index + 0.5) / len(index), golden], dim=-1) * 0.8 + 0.1
        self.anchors.copy_(torch.logit(torch.cat([spread, torch.full_like(spread, 0.35)], dim=-1)))

    def start(self) -> tuple[Float[Tensor, "N D"], Float[Tensor, "N 4"]]:
        """Return the learned vectors, and the anchors."""
        return self.content, self.anchors.sigmoid()

    def places(self, boxes: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N D"]:
        """Encode the boxes sinusoidally."""
        made: Tensor = self.W(waves(boxes, self.width // 4).to(self.W.weight.dtype))
        return made

    def move(self, boxes: Float[Tensor, "B N 4"], told: Float[Tensor, "B N 4"]) -> Float[Tensor, "B N 4"]:
        """Shift the boxes by the head's output."""
        return (torch.logit(boxes, eps=1e-4) + told).sigmoid()
