"""The causal reach."""

from regard.attention.base import Reach, Sizes, reaches


@reaches.register("causal")
class Causal(Reach):
    r"""Attend to the query's own position and those before it (Vaswani et al. 2017, section 3.2.3).

    .. math:: R_i = \{j : j \le i\}

    In a decoder the global reach does the same; this one does it in an encoder too. Differs from the paper: nothing.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.causal = True
