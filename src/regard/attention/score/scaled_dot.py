"""The scaled dot-product score."""

from regard.attention.base import scores
from regard.attention.score.dot import Dot
from regard.shapes import Float, Tensor


@scores.register("scaled-dot")
class ScaledDot(Dot):
    r"""Score by the inner product divided by the root of the width (Vaswani et al. 2017, equation 1).

    .. math:: \mathrm{score}(q, k) = q^\top k / \sqrt{d_k}

    The inner product of independent unit-variance vectors has variance `d_k`; the scale undoes that.
    Differs from the paper: nothing (the learned projections of its heads are not part of the score).
    """

    def asked(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T Q"]:
        """The query, scaled."""
        scale: float = query.shape[-1] ** -0.5
        return query * scale
