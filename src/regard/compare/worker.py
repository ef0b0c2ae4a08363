"""`python -m regard.compare.worker FOLDER NAME`: do one job of a comparison in a process of its own.

The record says what became of it. Exit codes: 0 finished, 1 failed, 130 interrupted.
"""

import sys
from pathlib import Path

from regard.compare.job import FAILED, INTERRUPTED, Place
from regard.compare.work import work


def main(folder: str, name: str) -> int:
    """Do the job and return the exit code."""
    try:
        record = work(Place(Path(folder), name), lambda text: print(text, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        return 130
    return {FAILED: 1, INTERRUPTED: 130}.get(record.state, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
