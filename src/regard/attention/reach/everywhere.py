"""The global reach."""

from regard.attention.base import Reach, reaches


@reaches.register("global")
class Everywhere(Reach):
    """Look at every real position (Bahdanau et al. 2014; "global" in Luong et al. 2015, section 3.1).

    In a decoder that looks at its own sequence, every one up to its own, as the future is not written yet.
    """

    of_another = True
