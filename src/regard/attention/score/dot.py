"""The dot-product score, and what it shares with its relatives: query and key must be of one width."""

import torch

from regard.attention.base import Score, scores
from regard.errors import ConfigError
from regard.shapes import Float, Tensor


@scores.register("dot")
class Dot(Score):
    r"""Score by the inner product (Luong et al. 2015, section 3.1).

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top \bar h_s

    Differs from the paper: nothing.
    """

    def __init__(self, query_width: int, state_width: int, width: int) -> None:
        super().__init__(query_width, state_width, width)
        if query_width != state_width:
            raise ConfigError(
                f"The dot scores need decoder and encoder states of one width, got {query_width} and {state_width}: "
                "set model.decoder.width to the encoder's (twice model.encoder.width if it is bidirectional), "
                "or take model.attention.score=general."
            )

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """The states themselves."""
        return states

    def forward(self, query: Float[Tensor, "B T Q"], keys: Float[Tensor, "B S Q"]) -> Float[Tensor, "B T S"]:
        """All inner products at once."""
        return torch.bmm(query, keys.transpose(1, 2))
