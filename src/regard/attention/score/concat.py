"""The concat score."""

from regard.attention.base import Sizes, scores
from regard.attention.multi_head import HeadLinear, repeat
from regard.attention.score.additive import HiddenLayer
from regard.batched_weight_gradients import linear
from regard.shapes import Float, Tensor


@scores.register("concat")
class Concat(HiddenLayer):
    r"""Score by a network that reads the concatenation of query and key (Luong et al. 2015, section 3.1).

    .. math:: \mathrm{score}(h_t, \bar h_s) = v_a^\top \tanh(W_a [h_t; \bar h_s])

    The same functions as the additive score's, with one matrix instead of two. The product of its right half with the
    keys does not depend on the step, so `keys` computes it once per sentence; nothing is ever concatenated.
    Differs from the paper: nothing in the equation; the paper's own runs left a part of `W_a` the identity (footnote
    15). With several heads, those that share their keys share `W_a` too.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.hidden
        self.query_width = sizes.query
        self.W_a = HeadLinear(sizes.groups, sizes.query + sizes.key, sizes.hidden)
        self.v_a = HeadLinear(sizes.heads, sizes.hidden, 1)

    def _matrices(self) -> Float[Tensor, "G D A"]:
        return self.W_a.weight.view(self.W_a.heads, self.key_width, -1).transpose(1, 2)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """The right half of `W_a` times each state."""
        return states @ self._matrices()[:, self.query_width :]

    def units(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T A"]:
        """The left half of `W_a` times each query."""
        if self.W_a.heads == 1:
            return linear(query, self.W_a.weight[:, : self.query_width])
        return query @ repeat(self._matrices()[None, :, : self.query_width], query.shape[1])

    def vectors(self) -> Float[Tensor, "H A"]:
        """`v_a` of each head."""
        return self.v_a.weight
