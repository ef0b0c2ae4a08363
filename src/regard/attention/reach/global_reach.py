"""The global reach."""

from regard.attention.base import Reach, reaches


@reaches.register("global")
class Everywhere(Reach):
    r"""Look at every real position (Bahdanau et al. 2014; "global" in Luong et al. 2015, section 3.1).

    .. math:: R_t = \{1, \dots, S\}

    In a decoder that looks at its own sequence, every one up to its own, as the future is not written yet. Differs from
    the papers: nothing.
    """

    of_another = True
