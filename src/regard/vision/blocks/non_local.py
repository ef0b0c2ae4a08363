"""Attention of every cell to every cell: the non-local block, in the paper's four forms."""

from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional

from regard.attention import Attention, Focus, Memory, Score, Sizes
from regard.attention.attention import Parts
from regard.attention.base import Focused
from regard.attention.focus import Softmax
from regard.attention.reach import Everywhere
from regard.attention.score import Dot
from regard.shapes import Bool, Float, Tensor
from regard.vision.blocks.base import Block, BlockSizes, blocks


class OverNumber(Focus):
    """Divide scores by the number of cells, `C(x) = N`: the weights are no distribution, and may be negative."""

    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Divide by the number of allowed positions."""
        return Focused(scores.masked_fill(~allowed, 0.0) / allowed.sum(dim=-1, keepdim=True).clamp(min=1))


class Concatenated(Score):
    """A ReLU of a weighted sum over the units of both vectors; nothing is ever concatenated."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = 1
        self.w_query = nn.Linear(sizes.query, 1, bias=False)
        self.w_key = nn.Linear(sizes.key, 1, bias=False)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S 1"]:
        """The keys' share of the sum."""
        keys: Tensor = self.w_key(states)
        return keys

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S 1"]) -> Float[Tensor, "B H T S"]:
        """Apply the ReLU to the sum of both shares."""
        return functional.relu(self.w_query(query) + keys.transpose(2, 3))


class NonLocal(Block):
    r"""Add to each cell its context over all cells (Wang et al. 2018, equations 1 and 6).

    .. math:: y_i = \frac{1}{C(x)} \sum_j f(x_i, x_j)\, g(x_j) \qquad z_i = W_z y_i + x_i

    Each form has an `f` of its own. It is the attention of this package over cells instead of words: the weights,
    `f / C(x)`, are B×T×H×S with one head. `θ`, `φ` and `g` halve the channels (section 3.3). The norm after `W_z`
    starts at a scale of zero, so that a block added to a trained network changes nothing at first (section 4.1). With
    `model.image.subsample`, `φ` and `g` are max-pooled over two by two cells (section 3.3).
    Differs from the paper: the norm is over groups of channels, unless `model.image.normalise` is batch.
    """

    score: ClassVar[type[Score]] = Dot
    focus: ClassVar[type[Focus]] = Softmax
    embeds: ClassVar[bool] = True
    """Whether there are projections theta and phi."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__(sizes)
        channels, inner = sizes.channels, max(1, sizes.channels // 2)
        width = inner if self.embeds else channels
        self.theta = nn.Linear(channels, inner) if self.embeds else nn.Identity()
        self.phi = nn.Linear(channels, inner) if self.embeds else nn.Identity()
        self.g = nn.Linear(channels, inner)
        between = Sizes(query=width, key=width)
        parts = Parts(self.score(between), Everywhere(between), self.focus(between), inner)
        self.attention = Attention(parts)
        self.W_z = nn.Linear(inner, channels)
        self.norm = sizes.made.norm(channels)
        nn.init.zeros_(self.norm.weight)
        self.subsample = sizes.subsample

    @property
    def attends(self) -> nn.Module:
        """The attention module; weights are B×T×1×S."""
        return self.attention

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Attend from every cell to all."""
        cells = features.flatten(2).transpose(1, 2)
        keys, values = (self._pooled(part(cells), features) for part in (self.phi, self.g))
        mask = torch.ones(keys.shape[:2], dtype=torch.bool, device=cells.device)
        memory = Memory(self.attention.score.keys(keys[:, None]), values[:, None], mask)
        seen = self.W_z(self.attention(self.theta(cells), memory).context)
        added: Tensor = self.norm(seen.transpose(1, 2).reshape(features.shape))
        return features + added

    def _pooled(self, cells: Float[Tensor, "B S D"], like: Float[Tensor, "B C h w"]) -> Float[Tensor, "B N D"]:
        if not self.subsample:
            return cells
        grid = cells.transpose(1, 2).reshape(*cells.shape[::2], *like.shape[2:])
        return functional.max_pool2d(grid, 2, ceil_mode=True).flatten(2).transpose(1, 2)


@blocks.register("nonlocal-gaussian")
class Gaussian(NonLocal):
    r"""Attend from every cell to all by similarity (Wang et al. 2018, equation 2).

    .. math:: f(x_i, x_j) = e^{x_i^\top x_j} \qquad C(x) = \sum_j f(x_i, x_j)

    Softmax attention by the dot score, without projections of queries and keys. Differs: see `NonLocal`.
    """

    embeds = False


@blocks.register("nonlocal-embedded")
class EmbeddedGaussian(NonLocal):
    r"""Attend from every cell to all by softmax attention (Wang et al. 2018, equation 3).

    .. math:: f(x_i, x_j) = e^{\theta(x_i)^\top \phi(x_j)} \qquad C(x) = \sum_j f(x_i, x_j)

    The attention of Vaswani et al. 2017 with one head and no scale, as the paper says. Differs: see `NonLocal`.
    """


@blocks.register("nonlocal-dot")
class DotProduct(NonLocal):
    r"""Attend from every cell to all by inner products without a softmax (Wang et al. 2018, equation 4).

    .. math:: f(x_i, x_j) = \theta(x_i)^\top \phi(x_j) \qquad C(x) = N

    Weights may be negative and may have any sum. Differs: see `NonLocal`.
    """

    focus = OverNumber


@blocks.register("nonlocal-concat")
class Concatenation(NonLocal):
    r"""Attend from every cell to all by a ReLU over both (Wang et al. 2018, equation 5).

    .. math:: f(x_i, x_j) = \mathrm{ReLU}(w_f^\top [\theta(x_i), \phi(x_j)]) \qquad C(x) = N

    Weights are non-negative and may have any sum. Differs: see `NonLocal`.
    """

    score = Concatenated
    focus = OverNumber
