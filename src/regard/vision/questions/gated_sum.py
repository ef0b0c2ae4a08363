"""A look that adds up all that fits."""

import torch
from torch import nn

from regard.attention.multi_head import Heads
from regard.config import AttentionConfig
from regard.errors import ConfigError
from regard.masks import exact
from regard.models.protocol import Encoded
from regard.shapes import Float, Tensor
from regard.vision.questions.base import QuestionTokens, of_questions


class SummedLook(nn.Module):
    r"""Lets each cell in by a gate of its own, and adds up what is behind those that are open.

    .. math:: \hat v = \operatorname{asinh} \sum_s \sigma(q^\top k_s / \sqrt{d} + b - \log S)\, v_s

    Weights that sum to one are the same for one red thing and for three: how many fit, and whether any does, is lost
    (Zhang et al. 2018, section 3). Here it is what the sum is of. `log S` makes the gates add up to about one before
    anything is learned, however many the cells. asinh leaves small sums as they are and makes of large ones their
    logarithm: a sum over hundreds of cells would grow until beside it nothing counts that later parts add to the same
    word, such as whether two things are alike. Differs from the paper: it has softmax weights undone afterwards, by
    overlaps of boxes, and this has none of either.
    """

    def __init__(self, config: AttentionConfig, query_width: int, state_width: int) -> None:
        super().__init__()
        if query_width % config.heads:
            raise ConfigError(
                f"model.attention.heads is {config.heads}, which does not divide the width of words, {query_width}: "
                "change one of them, or set model.questions.summed=false."
            )
        width = query_width // config.heads
        self.heads = Heads(query_width, state_width, config.heads, config.heads, width, query_width)
        self.bias = nn.Parameter(torch.zeros(config.heads))

    def forward(
        self, words: Float[Tensor, "N T D"], encoded: Encoded, asking: QuestionTokens
    ) -> Float[Tensor, "N T D"]:
        """Look with all words."""
        keys, values, mask = self.heads.keys(encoded.states), self.heads.values(encoded.states), encoded.mask
        keys, values, mask = of_questions((keys, values, mask), asking)  # B H S d, where B divides N
        questions, steps = words.shape[:2]
        queries = self.heads.queries(words.reshape(mask.shape[0], -1, words.shape[2]))  # B H N/B·T d
        scores = exact(queries @ keys.transpose(2, 3)) * queries.shape[-1] ** -0.5
        offset = self.bias[:, None] - mask.sum(dim=1).clamp(min=1).to(scores.dtype).log()[:, None, None]  # B H 1
        gates = torch.sigmoid(scores + offset[..., None]) * mask[:, None, None]
        context: Tensor = self.heads.join(torch.asinh(gates.to(values.dtype) @ values))
        return context.reshape(questions, steps, -1)
