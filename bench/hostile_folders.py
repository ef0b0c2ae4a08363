"""Use a hundred thousand mutated model folders: each translates or is refused by one clear error.

    python bench/hostile_folders.py --count 100000 --results bench/results/hostile_folders.txt

A folder is wrong if it raises anything but a RegardError, ends the process, opens a file outside itself, runs code,
takes more than 20 s, or makes the process grow by 64 MB. The seed that is printed with it makes the same folder again:
`--first SEED --count 1`. The mutations are those of `tests/hostile_fuzzing.py`.
"""

import argparse
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

from regard import __version__

AT_ONCE = 250
"""Folders of one child process."""


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    began, found = time.time(), Counter[str]()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        sound, survive = prepared(Path(place))
        end = given.first + given.count
        for first in range(given.first, end, AT_ONCE):
            what, bad = survive(sound, range(first, min(first + AT_ONCE, end)), Path(place) / "mutated")
            found, wrong = found + what, wrong + bad
            for line in bad:
                print(line, flush=True)
    lines = [
        f"regard {__version__}, torch {torch.__version__}, {platform.machine()}, {time.strftime('%Y-%m-%d')}",
        f"{given.count:,} mutated model folders from seed {given.first}, in {time.time() - began:.0f} s: "
        f"{found['refused']:,} refused, {found['translated']:,} translated, {len(wrong):,} wrong",
        *wrong,
    ]
    print("\n".join(lines))
    if given.results:
        given.results.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(1 if wrong else 0)


def prepared(place: Path) -> tuple[Path, Callable[..., Any]]:
    """Make the folder that is mutated."""
    from hostile_fuzzing import sound_folder, survive
    from tiny_models import write_folder

    return sound_folder(write_folder, place / "model"), survive


if __name__ == "__main__":
    main()
