"""Texts to tokens and back, as in training: subwords, characters, words, spelled words; and tags."""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, DataError, ModelError, did_you_mean
from regard.folder_files import LARGE, parse_json, read_member
from regard.runtime.export_entries import Entries, damaged
from regard.runtime.graphs import MANIFEST, unreadable
from regard.sentencepiece_file import open_model_file

MARKS = ("<pad>", "<unk>", "<s>", "</s>")
"""The special tokens, with which every vocabulary starts."""
UNKNOWN = 1
SUBWORDS = ("bpe", "unigram")
LISTED = ("characters", "words", "spelled", "lines")
"""The kinds whose vocabulary is a list."""
MOST = 1_000_000
"""Entries of a vocabulary; a larger one is refused."""
SPACE, ESCAPE, ESCAPED = "▁", "\ufdd0", "\ufdd0\ufdd1"
"""SentencePiece uses `▁` for a space, so a literal `▁` in a text is escaped."""
LEADING = re.compile(r"<2([^\s<>]+)>(?: |$)")
"""The tag before a source, which says what language to write."""


class Tokenizer:
    """A tokenizer described by export.json."""

    def __init__(self, told: Any, folder: Path, side: str = "target") -> None:
        """Open the tokenizer of a side, which is the name of its entry."""
        entries = Entries(told, folder / MANIFEST, side)
        self.kind, self.tags = entries.text("kind"), tuple(entries.texts("tags"))
        if self.kind not in (*SUBWORDS, *LISTED):
            raise entries.refused("kind", self.kind, f"one of {', '.join((*SUBWORDS, *LISTED))}")
        self.size = entries.whole("size", most=MOST) - len(self.tags)
        """The vocabulary size, without the tags that a source may begin with; a tag's id is `size` and more."""
        path = folder / entries.text("file")
        try:
            content = read_member(folder, entries.text("file"), LARGE)
        except OSError as error:
            raise unreadable(path, error) from None
        self._pieces: Any = None
        try:
            if self.kind in SUBWORDS:
                self._pieces = _sentencepiece(content)
                size = self._pieces.get_piece_size()
            else:
                self._units = [*MARKS, *_listed(content)]
                size = len(self._units)
        except ValueError as error:
            raise damaged(path, str(error)) from None
        if size != self.size:
            raise damaged(path, f"it has {size:,} entries where {side}.size and the tags leave {self.size:,}")
        if self._pieces is None:
            self._ids = {unit: place for place, unit in enumerate(self._units) if place >= len(MARKS)}

    def tagged(self, text: str, to: str | None) -> str:
        """Put the tag for the language `to` before a text, unless it has one or is empty."""
        if to is None:
            return text
        if not self.tags:
            raise ConfigError(f"This model was trained without tags, so it cannot write {to!r}: leave out `to`.")
        if to not in self.tags:
            raise ConfigError(
                f"This model does not write {to!r}, but {', '.join(self.tags)}.{did_you_mean(to, self.tags)}"
            )
        return text if LEADING.match(text) or not text.strip() else f"<2{to}> {text}"

    def untagged(self, text: str) -> str:
        """Return a text without the tag before it."""
        return LEADING.sub("", text, count=1) if self.tags else text

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special tokens; with tags, the text must begin with one: `<2de> `."""
        if not self.tags or not text.strip():
            return self._cut(text)
        tag = LEADING.match(text)
        if tag is None or tag[1] not in self.tags:
            known = ", ".join(f"<2{name}>" for name in self.tags)
            raise DataError(f"A text has to begin with the tag of the language to write ({known}): {text:.40}")
        return [self.size + self.tags.index(tag[1]), *self._cut(text[tag.end() :])]

    def _cut(self, text: str) -> list[int]:
        if self._pieces is not None:
            escaped = text.replace(ESCAPE, ESCAPE + ESCAPE).replace(SPACE, ESCAPED)
            return [int(piece) for piece in self._pieces.encode(escaped, out_type=int)]
        return [self._ids.get(unit, UNKNOWN) for unit in self.units(text)]

    def units(self, text: str) -> list[str]:
        """Return the character, word or spelled unit of each token of a text without a tag."""
        if self.kind == "words":
            return text.split()
        return list(self._spelled(text) if self.kind == "spelled" else text)

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
        real = [token for token in tokens if len(MARKS) <= token < self.size or token == UNKNOWN]
        if self._pieces is not None:
            return _unescaped(self._pieces.decode(real))
        return (" " if self.kind == "words" else "").join(
            surface.removeprefix(" ") if self.kind == "words" else surface for surface in self.surfaces(real)
        )

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """Return the display form of each token: `▁` for a space, bytes as <0xC3>, tags as they are written."""
        return [self._shown[token] for token in tokens]

    @cached_property
    def _shown(self) -> list[str]:
        if self._pieces is not None:
            own = [_unescaped(self._pieces.id_to_piece(token)) for token in range(self._pieces.get_piece_size())]
        elif self.kind == "words":
            own = self._units
        elif self.kind == "spelled":
            own = [unit.replace(" ", SPACE) for unit in self._units]
        else:
            own = [SPACE if unit == " " else unit for unit in self._units]
        return [*own, *(f"<2{tag}>" for tag in self.tags)]

    def surfaces(self, tokens: Sequence[int]) -> list[str]:
        """Return the text of each token, white space included; none for special tokens and tags."""
        if self._pieces is None:
            units = ["" if is_mark(token) or token >= self.size else self._units[token] for token in tokens]
            if self.kind == "words":
                return [unit and f" {unit}" for unit in units]
            return _joined(units) if self.kind == "spelled" else units
        surfaces = [
            ""
            if is_mark(token) or token >= self.size
            else _unescaped(self._pieces.id_to_piece(token).replace(SPACE, " "))
            for token in tokens
        ]
        start = 0
        for place, token in enumerate([*tokens, UNKNOWN]):
            if not (token < self.size and self._pieces.is_byte(token)):
                spelt = bytes(int(self._pieces.id_to_piece(byte)[3:5], 16) for byte in tokens[start:place])
                surfaces[start:place] = _by_byte(spelt)
                start = place + 1
        return surfaces

    def words(self, tokens: Sequence[int]) -> list[int]:
        """Return the number of the word, as white space parts them, that each token belongs to; -1 for special tokens.

        A token of white space alone belongs to the word after it.
        """
        word, between, found = -1, True, []
        for token, surface in zip(tokens, self.surfaces(tokens), strict=True):
            if is_mark(token) or token >= self.size:
                found.append(-1)
                continue
            first = None
            for character in surface:
                if character.isspace():
                    between = True
                    continue
                word, between = word + between, False
                first = word if first is None else first
            found.append(word + between if first is None else first)
        return [min(number, word) for number in found]


def is_mark(token: int) -> bool:
    """Say whether a token is the padding, start or end token."""
    return token < len(MARKS) and token != UNKNOWN


def _sentencepiece(content: bytes) -> Any:
    try:
        return open_model_file(content)
    except ImportError:
        raise ModelError(
            "This model reads or writes subwords, which need SentencePiece: pip install sentencepiece."
        ) from None


def _listed(content: bytes) -> list[str]:
    """Return the entries of a vocabulary that is a list; raise a ValueError for anything else."""
    if content.count(b'",') > MOST:
        raise ValueError(f"more than {MOST:,} entries")
    units = parse_json(content)
    if not isinstance(units, list) or not all(isinstance(unit, str) and unit for unit in units):
        raise ValueError("not a list of units")
    if len(set(units)) != len(units):
        raise ValueError("a unit is there twice")
    "".join(units).encode()  # half of a surrogate pair, which JSON can spell, could not be printed
    return units


def _unescaped(text: str) -> str:
    return re.sub(f"{ESCAPE}([\ufdd0\ufdd1])", lambda found: ESCAPE if found[1] == ESCAPE else SPACE, text)


def _by_byte(spelt: bytes) -> list[str]:
    """Return the text of each of several bytes: a character belongs to its first byte, an invalid byte is �."""
    surfaces = []
    for character in spelt.decode("utf-8", "surrogateescape"):
        length = len(character.encode("utf-8", "surrogateescape"))
        surfaces += [character if length > 1 or character.isascii() else "\ufffd", *[""] * (length - 1)]
    return surfaces


def _joined(units: Sequence[str]) -> list[str]:
    """Return the surfaces of spelled units: a space is implied between a whole word and its neighbours."""
    surfaces, before = [], ""
    for unit in units:
        whole, after = (len(one) > 1 and one[0] == " " for one in (unit, before))
        implied = unit and before and " " not in (unit, before) and (whole or after)
        surfaces.append((" " if implied else "") + (unit[1:] if whole else unit))
        before = unit or before
    return surfaces
