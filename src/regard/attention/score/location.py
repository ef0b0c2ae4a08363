"""The location score."""

from regard.attention.base import Score, Sizes, scores
from regard.attention.multi_head import HeadLinear
from regard.batched_weight_gradients import products
from regard.errors import ModelError
from regard.shapes import Float, Tensor


@scores.register("location")
class Location(Score):
    r"""Score each source position by the query alone, whatever token is there (Luong et al. 2015, equation 8).

    .. math:: a_t = \mathrm{softmax}(W_a h_t)

    Row s of `W_a` is a learned key for position s, the same for every sentence, and its inner product with the query is
    the score. So `model.attention.longest`, the number of rows, limits the source length. Training refuses longer
    sources; translation truncates them, with a warning.
    Differs from the paper: nothing. With several heads, those of one group share `W_a`.
    """

    of_itself = False
    reads_states = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.query
        self.longest = sizes.longest
        self.W_a = HeadLinear(sizes.groups, sizes.query, sizes.longest)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """The rows of `W_a`, one for each position."""
        batch, groups, size, _ = states.shape
        if size > self.longest:
            raise ModelError(
                f"model.attention.score=location has weights for {self.longest} positions, but a source has {size} "
                f"tokens: train with model.attention.longest={size} or more, or use shorter sources."
            )
        return self.W_a.weight.view(groups, self.longest, -1)[:, :size].expand(batch, -1, -1, -1)

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S Q"]) -> Float[Tensor, "B H T S"]:
        """All inner products at once."""
        return products(query, keys)
