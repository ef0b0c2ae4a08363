"""Texts as tokens, and back."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.export.programs.graphs import HERE

UNKNOWN, MARKS = 1, 4
"""The mark of what a vocabulary lacks, and how many marks it starts with."""
SPACE, ESCAPE, ESCAPED = "▁", "\ufdd0", "\ufdd0\ufdd1"
"""SentencePiece writes the first for a space, so a text's own is escaped."""


class Tokenizer:
    """A tokenizer as export.json describes it: SentencePiece's pieces, characters or words."""

    def __init__(self, told: Mapping[str, Any], folder: Path = HERE) -> None:
        self._kind, self._tags, self._pieces = told["kind"], told["tags"], None
        self._size = told["size"] - len(self._tags)
        if self._kind in ("bpe", "unigram"):
            import sentencepiece

            self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / told["file"]))
        else:
            units = json.loads((folder / told["file"]).read_text(encoding="utf-8"))
            self._units = [*[""] * MARKS, *units]
            self._units[UNKNOWN] = "<unk>"
            self._ids = {unit: place for place, unit in enumerate(units, start=MARKS)}

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without marks; where there are tags, it begins with one, such as `<2de> `."""
        tag = re.match(r"<2([^\s<>]+)>(?: |$)", text) if self._tags else None
        if self._tags and (tag is None or tag[1] not in self._tags):
            known = ", ".join(f"<2{name}>" for name in self._tags)
            raise SystemExit(f"A text has to begin with what to write ({known}): {text}")
        first = [] if tag is None else [self._size + self._tags.index(tag[1])]
        return first + self._cut(text if tag is None else text[tag.end() :])

    def _cut(self, text: str) -> list[int]:
        if self._pieces is not None:
            escaped = text.replace(ESCAPE, ESCAPE + ESCAPE).replace(SPACE, ESCAPED)
            return [int(piece) for piece in self._pieces.encode(escaped, out_type=int)]
        return [self._ids.get(unit, UNKNOWN) for unit in (text.split() if self._kind == "words" else text)]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens; marks and tags have none."""
        real = [token for token in tokens if MARKS <= token < self._size or token == UNKNOWN]
        if self._pieces is None:
            return (" " if self._kind == "words" else "").join(self._units[token] for token in real)
        written: str = self._pieces.decode(real)
        return re.sub(f"{ESCAPE}([\ufdd0\ufdd1])", lambda found: ESCAPE if found[1] == ESCAPE else SPACE, written)
