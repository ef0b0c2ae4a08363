"""Keep freed memory for the next training step, instead of returning it to the system."""

import ctypes

_TRIM, _MMAP = -1, -3
_KEEP = 1 << 30


def keep_memory() -> bool:
    """Make the C library keep freed memory for reuse; return whether that worked.

    Otherwise it returns large blocks to the system, which clears each of their pages before handing them out again:
    about 4 % of training time on a CPU. The process then stays as large as its largest step made it.
    """
    try:
        tell = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or another system
        return False
    return bool(tell(_TRIM, _KEEP)) and bool(tell(_MMAP, _KEEP))
