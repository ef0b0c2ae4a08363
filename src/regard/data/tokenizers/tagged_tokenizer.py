"""A tokenizer that also knows tags: marks before a source that tell what to write (Johnson et al. 2017, section 3)."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from regard.data.special_tokens import tag_mark
from regard.data.tokenizers.base import Learned, Tokenizer
from regard.errors import DataError, did_you_mean

_LEADING: Final = re.compile(r"^<2([^\s<>]+)>(?: |$)")
_SHOWN: Final = 40
"""Characters of a text that messages show."""


class Tagged(Tokenizer):
    """Another tokenizer whose vocabulary has the tags at its end, one entry each.

    The tag at the start of a text is read as one, if this is the tokenizer of a side that `reads`; elsewhere, and on
    the target side, `<2de>` is text like any other. A tag belongs to no word and adds no text.
    """

    def __init__(self, plain: Learned, tags: Sequence[str], reads: bool = True) -> None:
        self.kind = plain.kind
        self.plain = plain
        self.tags = tuple(tags)
        self._reads = reads
        self._ids = {tag: plain.size + place for place, tag in enumerate(self.tags)}

    @property
    def size(self) -> int:
        """Count the tags, too."""
        return self.plain.size + len(self.tags)

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """The ids of the tags, which no translation may hold."""
        return tuple(self._ids.values())

    @property
    def control_ids(self) -> tuple[int, ...]:
        """Those of the tokenizer within."""
        return self.plain.control_ids

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Read the tag before each text; a text of white space alone needs none."""
        if not self._reads:
            return self.plain.encode_all(texts)
        read = [self._split(text) for text in texts]
        encoded = self.plain.encode_all([text for _, text in read])
        return [[*tag, *ids] for (tag, _), ids in zip(read, encoded, strict=True)]

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Put the number of its tag before each text's own."""
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
                f"{_begun(text)} does not tell what to write, and this model writes more than one language ({known}): "
                f"say --to {self.tags[0]} (to train it, --tagged {self.tags[0]}=CORPUS), or begin it with "
                f"{tag_mark(self.tags[0])}."
            )
        if match[1] not in self._ids:
            raise DataError(
                f"{_begun(text)} asks for {match[1]!r}, but this model writes {known}."
                f"{did_you_mean(match[1], self.tags)}"
            )
        return [self._ids[match[1]]], text[match.end() :]

    def decode(self, ids: Sequence[int]) -> str:
        """Leave the tags out."""
        return self.plain.decode(self._texts(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show a tag as it is written."""
        plain = iter(self.plain.pieces(self._texts(ids)))
        return [next(plain) if i < self.plain.size else tag_mark(self.tags[i - self.plain.size]) for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Give nothing for a tag."""
        plain = iter(self.plain.surfaces(self._texts(ids)))
        return [next(plain) if i < self.plain.size else "" for i in ids]

    def spell(self, token: int) -> bytes:
        """Give nothing for a tag."""
        return self.plain.spell(token) if token < self.plain.size else b""

    def words(self, ids: Sequence[int]) -> list[int]:
        """Count the words of the text; a tag is none of them."""
        plain = iter(self.plain.words(self._texts(ids)))
        return [next(plain) if i < self.plain.size else -1 for i in ids]

    def _texts(self, ids: Sequence[int]) -> list[int]:
        return [i for i in ids if i < self.plain.size]


def has_tag(text: str) -> bool:
    """Tell whether a text begins with a tag, known or not."""
    return _LEADING.match(text) is not None


def without_tag(text: str) -> str:
    """Return a text without the tag before it, if there is one."""
    return _LEADING.sub("", text, count=1)


def _begun(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
