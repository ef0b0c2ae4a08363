"""The bilinear score."""

from regard.attention.base import Score, Sizes, scores
from regard.attention.multi_head import HeadLinear
from regard.batched_weight_gradients import products
from regard.shapes import Float, Tensor


@scores.register("general")
class General(Score):
    r"""Score by a learned bilinear form (Luong et al. 2015, section 3.1).

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top W_a \bar h_s

    `W_a h_s` does not depend on the step, so `keys` computes it once per sentence.
    Differs from the paper: nothing.
    """

    dotted = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.query
        self.W_a = HeadLinear(sizes.groups, sizes.key, sizes.query)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """`W_a h_s` for all s."""
        keys: Tensor = self.W_a(states)
        return keys

    def asked(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T Q"]:
        """What keys are multiplied by: the query itself."""
        return query

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S Q"]) -> Float[Tensor, "B H T S"]:
        """All bilinear forms at once."""
        return products(query, keys)
