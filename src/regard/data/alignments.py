"""Reading gold alignments as they are written: `0-0 1-2 2p3`."""

import re

from regard.data.pair import Alignment
from regard.errors import DataError

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")


def parse_alignment(written: str, source: str, target: str, at: str) -> Alignment:
    """Read links `i-j` (sure) and `ipj` (possible), from source word i to target word j, counted from 0.

    `at` names the line in errors.
    """
    lengths = len(source.split()), len(target.split())
    links: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
    for link in written.split():
        match = _LINK.fullmatch(link)
        if match is None:
            raise DataError(
                f"{at}: {link[:40]!r} is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."
            )
        ends = int(match[1]), int(match[3])
        for side, end, length in zip(("source", "target"), ends, lengths, strict=True):
            if end >= length:
                words = "1 word" if length == 1 else f"{length} words"
                raise DataError(f"{at}: link {link} goes past the {words} of the {side} (words count from 0).")
        links[match[2]].add(ends)
    return Alignment(frozenset(links["-"]), frozenset(links["p"]))
