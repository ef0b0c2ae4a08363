"""The global reach."""

from regard.attention.base import Reach, reaches


@reaches.register("global")
class Everywhere(Reach):
    r"""Attend to every real position (Bahdanau et al. 2014; "global" in Luong et al. 2015, section 3.1).

    .. math:: R_t = \{1, \dots, S\}

    In a decoder's self-attention, to every position up to the query's own. Differs from the papers: nothing.
    """

    of_another = True
