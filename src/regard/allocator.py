"""Memory that is given back and asked for again at every step of training."""

import ctypes

_TRIM, _MMAP = -1, -3
_KEEP = 1 << 30


def keep_memory() -> bool:
    """Let the C library keep what is freed, for the next step to use; say whether it could be told.

    It gives large pieces back to the system otherwise, which clears each of their pages before it hands them out again:
    some 4 % of training on a CPU. The process then stays as large as its largest step made it.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or another system
        return False
    return bool(tell(_TRIM, _KEEP)) and bool(tell(_MMAP, _KEEP))
