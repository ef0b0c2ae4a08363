"""Split a file of pronunciations by word into train.tsv, valid.tsv and test.tsv.

    python recipes/g2p_split.py g014b2b.train.gz data/g2p

A line is a word, a tab and its phonemes, with one line per pronunciation. A hash of the word decides its part, so that
all its pronunciations stay together, independently of seed, order and other words. One word in ten is for testing, one
in forty for validation.

With --develop, the test words are left out and replaced by another tenth of the words, taken from the training part:
settings can be chosen on as many words as the test set has, without seeing any test word.
"""

import argparse
from hashlib import blake2b
from pathlib import Path

from regard.atomic_files import write_atomically
from regard.data.corpus import open_corpus
from regard.errors import RegardError

PARTS = 40
TEST, VALID, DEVELOP = range(4), range(4, 5), range(5, 9)


def part_of(word: str, develop: bool = False) -> str | None:
    """Return which split a word belongs to; None for one that is left out."""
    number = int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "big") % PARTS
    if number in TEST:
        return None if develop else "test"
    if develop and number in DEVELOP:
        return "test"
    return "valid" if number in VALID else "train"


def split(file: str, folder: Path, develop: bool = False) -> dict[str, int]:
    """Write the three files; return how many pronunciations each has."""
    lines: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for pair in open_corpus([file]):
        part = part_of(pair.source, develop)
        if part is not None:
            lines[part].append(f"{pair.source}\t{pair.target}\n")
    folder.mkdir(parents=True, exist_ok=True)
    for part, found in lines.items():
        write_atomically(folder / f"{part}.tsv", "".join(found).encode())
    return {part: len(found) for part, found in lines.items()}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="word TAB phonemes, a line for each pronunciation; plain, .gz or .xz")
    parser.add_argument("folder", type=Path, help="where the three files go")
    parser.add_argument("--develop", action="store_true", help="leave the test words out, and test on others")
    given = parser.parse_args()
    try:
        counts = split(given.file, given.folder, given.develop)
    except RegardError as error:
        parser.exit(2, f"g2p_split: {error}\n")
    for part, count in counts.items():
        print(f"{given.folder / part}.tsv: {count:,} pronunciations")


if __name__ == "__main__":
    main()
