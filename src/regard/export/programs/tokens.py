"""Tokenization: texts to tokens and back."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.export.programs.graphs import HERE

UNKNOWN, MARKS = 1, 4
"""The id of the unknown token, and the number of special tokens at the start of a vocabulary."""
SPACE, ESCAPE, ESCAPED = "▁", "\ufdd0", "\ufdd0\ufdd1"
"""SentencePiece uses `▁` for a space, so a literal `▁` in a text is escaped."""


class Tokenizer:
    """A tokenizer described by export.json: SentencePiece subwords, characters, words, or spelled words."""

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
        """Return the tokens of a text, without special tokens; with tags, the text must begin with one: `<2de> `."""
        tag = re.match(r"<2([^\s<>]+)>(?: |$)", text) if self._tags else None
        if self._tags and (tag is None or tag[1] not in self._tags):
            known = ", ".join(f"<2{name}>" for name in self._tags)
            raise SystemExit(f"A text has to begin with the tag of the language to write ({known}): {text}")
        first = [] if tag is None else [self._size + self._tags.index(tag[1])]
        return first + self._cut(text if tag is None else text[tag.end() :])

    def _cut(self, text: str) -> list[int]:
        if self._pieces is not None:
            escaped = text.replace(ESCAPE, ESCAPE + ESCAPE).replace(SPACE, ESCAPED)
            return [int(piece) for piece in self._pieces.encode(escaped, out_type=int)]
        units = text.split() if self._kind == "words" else self._spelled(text) if self._kind == "spelled" else text
        return [self._ids.get(unit, UNKNOWN) for unit in units]

    def _spelled(self, text: str) -> Iterator[str]:
        """Yield in-vocabulary words whole, each with a leading space, and the characters of all others."""
        before = None
        for word in text.split(" "):
            whole = bool(word) and f" {word}" in self._ids
            if before is not None and not (word and before and (whole or f" {before}" in self._ids)):
                yield " "
            yield from (f" {word}",) if whole else word
            before = word

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens and tags."""
        real = [token for token in tokens if MARKS <= token < self._size or token == UNKNOWN]
        if self._pieces is None:
            units = [self._units[token] for token in real]
            return _joined(units) if self._kind == "spelled" else (" " if self._kind == "words" else "").join(units)
        written: str = self._pieces.decode(real)
        return re.sub(f"{ESCAPE}([\ufdd0\ufdd1])", lambda found: ESCAPE if found[1] == ESCAPE else SPACE, written)


def _joined(units: Sequence[str]) -> str:
    """Join units, with one space between a whole word, which starts with one, and its neighbours."""
    written, before = "", ""
    for unit in units:
        whole = any(len(one) > 1 and one[0] == " " for one in (before, unit))
        written += (" " if whole and before and " " not in (before, unit) else "") + (unit.strip(" ") or unit)
        before = unit
    return written
