"""A tokenizer with tags, which start a source and select the target language (Johnson et al. 2017, section 3)."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from regard.data.special_tokens import tag_mark
from regard.data.tokenizers.base import Learned, Tokenizer
from regard.errors import DataError, did_you_mean

_LEADING: Final = re.compile(r"^<2([^\s<>]+)>(?: |$)")
_SHOWN: Final = 40
"""Maximum characters of a text in messages."""


class Tagged(Tokenizer):
    """Wraps a tokenizer and adds the tags at the end of its vocabulary.

    On the source side (`reads`), a tag at the start of a text becomes its token; elsewhere, and on the target side,
    `<2de>` is ordinary text. A tag belongs to no word and has no text.
    """

    def __init__(self, plain: Learned, tags: Sequence[str], reads: bool = True) -> None:
        self.kind = plain.kind
        self.plain = plain
        self.tags = tuple(tags)
        self._reads = reads
        self._ids = {tag: plain.size + place for place, tag in enumerate(self.tags)}

    @property
    def size(self) -> int:
        """The vocabulary size, tags included."""
        return self.plain.size + len(self.tags)

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """The ids of the tags, which never occur in a translation."""
        return tuple(self._ids.values())

    @property
    def control_ids(self) -> tuple[int, ...]:
        """Those of the wrapped tokenizer."""
        return self.plain.control_ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode texts with their tags; a text of only white space needs none."""
        if not self._reads:
            return self.plain.encode_all(texts)
        read = [self._split(text) for text in texts]
        encoded = self.plain.encode_all([text for _, text in read])
        return [[*tag, *ids] for (tag, _), ids in zip(read, encoded, strict=True)]

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Pack texts with their tags."""
        if not self._reads:
            return self.plain.pack(texts, dtype)
        read = [self._split(text) for text in texts]
        packed = self.plain.pack([text for _, text in read], dtype)
        return [np.array(tag, dtype).tobytes() + ids for (tag, _), ids in zip(read, packed, strict=True)]

    def _split(self, text: str) -> tuple[list[int], str]:
        if not text.strip():
            return [], text
        match = _LEADING.match(text)
        known = ", ".join(self.tags)
        if match is None:
            raise DataError(
                f"{_begun(text)} has no tag for the language to write, and this model writes several ({known}): "
                f"give --to {self.tags[0]} (in training, --tagged {self.tags[0]}=CORPUS), or begin it with "
                f"{tag_mark(self.tags[0])}."
            )
        if match[1] not in self._ids:
            raise DataError(
                f"{_begun(text)} asks for {match[1]!r}, but this model writes {known}."
                f"{did_you_mean(match[1], self.tags)}"
            )
        return [self._ids[match[1]]], text[match.end() :]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode without tags."""
        return self.plain.decode(self._texts(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the display form of each id; tags as they are written."""
        plain = iter(self.plain.pieces(self._texts(ids)))
        return [next(plain) if i < self.plain.size else tag_mark(self.tags[i - self.plain.size]) for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id; empty for a tag."""
        plain = iter(self.plain.surfaces(self._texts(ids)))
        return [next(plain) if i < self.plain.size else "" for i in ids]

    def spell(self, token: int) -> bytes:
        """Return the bytes of an id; empty for a tag."""
        return self.plain.spell(token) if token < self.plain.size else b""

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the word number of each id; a tag belongs to no word."""
        plain = iter(self.plain.words(self._texts(ids)))
        return [next(plain) if i < self.plain.size else -1 for i in ids]

    def _texts(self, ids: Sequence[int]) -> list[int]:
        return [i for i in ids if i < self.plain.size]


def has_tag(text: str) -> bool:
    """Return whether a text begins with a tag, known or not."""
    return _LEADING.match(text) is not None


def without_tag(text: str) -> str:
    """Return a text without the tag before it, if there is one."""
    return _LEADING.sub("", text, count=1)


def _begun(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
