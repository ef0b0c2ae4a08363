"""The dot-product score, and what related scores share with it: query and key must have the same width."""

from typing import ClassVar

from regard.attention.base import Score, Sizes, scores
from regard.batched_weight_gradients import products
from regard.errors import ConfigError
from regard.shapes import Float, Tensor


@scores.register("dot")
class Dot(Score):
    r"""Score by the inner product (Luong et al. 2015, section 3.1).

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top \bar h_s

    Differs from the paper: nothing.
    """

    dotted = True
    needs: ClassVar[str] = "dot scores need"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.key
        if sizes.query != sizes.key:
            raise ConfigError(
                f"The {self.needs} decoder and encoder states of the same width, got {sizes.query} and {sizes.key}: "
                "set model.decoder.width to the encoder's (twice model.encoder.width if it is bidirectional), "
                "or set model.attention.score=general or model.attention.project=true."
            )

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S D"]:
        """The states themselves."""
        return states

    def asked(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T Q"]:
        """What keys are multiplied by: the query itself."""
        return query

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S Q"]) -> Float[Tensor, "B H T S"]:
        """All inner products at once."""
        return products(self.asked(query), keys)
