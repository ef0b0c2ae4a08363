"""Prepare the corpora for word alignment: tokenized Europarl, and the 508 sentences with gold alignments.

    python recipes/europarl_prepare.py europarl-en-de alignments data/alignment

The gold sentences are tokenized, so the training text is tokenized in the same way: words (with inner hyphens and
apostrophes), numbers with their points and commas, and every other character by itself. `source ||| target` becomes two
files.
"""

import argparse
import lzma
import re
from pathlib import Path

TOKEN = re.compile(r"\d+(?:[.,]\d+)*|\w+(?:[-'’]\w+)*|[^\w\s]")
LANGUAGES = ("de", "en")


def tokenise(line: str) -> str:
    """Put a space between the tokens of a line."""
    return " ".join(TOKEN.findall(line))


def prepare(europarl: Path, alignments: Path, folder: Path) -> None:
    """Write train, dev and gold in both languages, and the gold alignments."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, name in (("train", "train200k"), ("dev", "dev")):
        for language in LANGUAGES:
            with (
                lzma.open(europarl / f"{name}.{language}.xz", "rt", encoding="utf-8", newline="\n") as source,
                open(folder / f"{part}.{language}", "w", encoding="utf-8", newline="\n") as target,
            ):
                target.writelines(tokenise(line) + "\n" for line in source)
    pairs = (alignments / "test.de-en").read_text(encoding="utf-8").splitlines()
    for side, language in enumerate(LANGUAGES):
        lines = [" ".join(pair.split("|||")[side].split()) for pair in pairs]
        (folder / f"gold.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    gold = (alignments / "deen.talp").read_text(encoding="utf-8")
    (folder / "gold.de-en.talp").write_text(gold, encoding="utf-8")
    turned = re.sub(r"(\d+)([-p])(\d+)", r"\3\2\1", gold)
    (folder / "gold.en-de.talp").write_text(turned, encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("europarl", type=Path, help="folder with train200k and dev, .de.xz and .en.xz")
    parser.add_argument("alignments", type=Path, help="folder with test.de-en and deen.talp")
    parser.add_argument("folder", type=Path, help="where the files go")
    options = parser.parse_args()
    prepare(options.europarl, options.alignments, options.folder)


if __name__ == "__main__":
    main()
