"""The global reach."""

from regard.attention.base import Reach, reaches
from regard.shapes import Bool, Float, Tensor


@reaches.register("global")
class Everywhere(Reach):
    """Look at every real source position (Bahdanau et al. 2014; "global" in Luong et al. 2015, section 3.1)."""

    def forward(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: int) -> Bool[Tensor, "B 1 S"]:
        """The same for every query: what is not padding."""
        return mask[:, None]
