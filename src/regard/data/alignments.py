"""Gold alignments: parse `0-0 1-2 2p3`, counted from 0 (Pharaoh) or 1 (Talp), and convert them to token links."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.data.pair import Alignment
from regard.errors import DataError

_LINK = re.compile(r"([0-9]{1,9})([-p])([0-9]{1,9})")
FORMATS: Final = {"pharaoh": 0, "talp": 1}
"""The first index of each format. A file's suffix (`.talp`) or a prefix (`talp:FILE`) selects the format."""


@dataclass(frozen=True)
class Counting:
    """How an alignment file counts words, with a hint about the other format for error messages."""

    file: str
    first: int = 0
    hint: str = ""


def told_counting(given: str) -> Counting:
    """Parse the argument for an alignment file: `links`, `links.talp`, `talp:links` or `pharaoh:links.talp`."""
    prefix, colon, rest = given.partition(":")
    file = rest if colon and prefix in FORMATS else given
    endings = [ending for ending in Path(file).suffixes if ending not in (".gz", ".xz")]
    by_ending = "talp" if endings and endings[-1].lower() == ".talp" else "pharaoh"
    chosen = prefix if colon and prefix in FORMATS else by_ending
    other = next(name for name in FORMATS if name != chosen)
    return Counting(file, FORMATS[chosen], f" If the file counts from {FORMATS[other]}, give it as {other}:{file}.")


def parse_alignment(written: str, source: str, target: str, at: str, first: int = 0, hint: str = "") -> Alignment:
    """Parse links `i-j` (sure) and `ipj` (possible), from source word i to target word j, counted from `first`.

    `at` names the line in error messages; `hint` is added to those that the other format might fix.
    """
    lengths = len(source.split()), len(target.split())
    links: dict[str, set[tuple[int, int]]] = {"-": set(), "p": set()}
    for link in written.split():
        match = _LINK.fullmatch(link)
        if match is None:
            raise DataError(
                f"{at}: {link[:40]!r} is not a link of an alignment such as 0-0 1-2 2p3 (i-j sure, ipj possible)."
            )
        ends = int(match[1]) - first, int(match[3]) - first
        for side, end, length in zip(("source", "target"), ends, lengths, strict=True):
            if end < 0:
                raise DataError(
                    f"{at}: link {link} goes before the first word of the {side} (words count from 1).{hint}"
                )
            if end >= length:
                words = "1 word" if length == 1 else f"{length} words"
                raise DataError(
                    f"{at}: link {link} goes past the {words} of the {side} (words count from {first}).{hint}"
                )
        links[match[2]].add(ends)
    return Alignment(frozenset(links["-"]), frozenset(links["p"]))


def token_links(
    alignment: Alignment, source_words: Sequence[int], target_words: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the links of a gold alignment as pairs of positions (target token, source token), in order.

    `source_words` and `target_words` give the word of each token (`Tokenizer.words`), -1 for none. Each token of a
    target word is linked to each token of its aligned source words: by its sure links, or by its possible links if it
    has no sure one. The end token, which follows the last token, is linked to the end token.
    """
    places: dict[int, list[int]] = {}
    for place, word in enumerate(source_words):
        places.setdefault(word, []).append(place)
    linked: dict[int, set[int]] = {}
    for source, target in alignment.guiding():
        linked.setdefault(target, set()).update(places.get(source, ()))
    found = [(t, s) for t, word in enumerate(target_words) for s in sorted(linked.get(word, ()))]
    return [*found, (len(target_words), len(source_words))]
