"""The formats of files that are translated: from the bytes of a file to a document, and back."""

import codecs
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final

from regard.errors import DataError, did_you_mean
from regard.serve.html_documents import HtmlDocument
from regard.serve.sentence_translation import Rendering
from regard.serve.subtitles import Subtitles
from regard.serve.text_documents import Document, TextDocument
from regard.serve.word_documents import WordDocument

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_TYPES: Final[Mapping[str, tuple[str, Callable[[str], Document[str]] | None]]] = {
    ".txt": ("text/plain", TextDocument),
    ".srt": ("application/x-subrip", Subtitles),
    ".html": ("text/html", HtmlDocument),
    ".htm": ("text/html", HtmlDocument),
    ".docx": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", None),
}
SUFFIXES: Final = tuple(_TYPES)


class EncodedDocument:
    """A document of text in a file; its encoding and its byte order mark stay."""

    def __init__(self, content: bytes, kind: Callable[[str], Document[str]]) -> None:
        self._mark, self._encoding = next((pair for pair in _MARKS if content.startswith(pair[0])), (b"", "utf-8"))
        try:
            self._document = kind(content[len(self._mark) :].decode(self._encoding))
        except UnicodeDecodeError as error:
            raise DataError(
                f"The file is not in UTF-8 (byte {error.start + len(self._mark)}): save it in this encoding."
            ) from None
        self.needs_links = self._document.needs_links

    def text(self) -> str:
        """Return the text without markup."""
        return self._document.text()

    def split(self, language: str, longest: int) -> list[str]:
        """Find the sentences."""
        return self._document.split(language, longest)

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> bytes:
        """Return the translated file."""
        return self._mark + self._document.join(translations, rank).encode(self._encoding)


def open_document(name: str, content: bytes) -> Document[bytes]:
    """Read a file, in the format that the end of its name says; raise a DataError if it cannot be read."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in _TYPES:
        known = ", ".join(SUFFIXES)
        raise DataError(
            f"The file format {suffix or name!r} is not supported: send one of {known}.{did_you_mean(suffix, SUFFIXES)}"
        )
    kind = _TYPES[suffix][1]
    return WordDocument(content) if kind is None else EncodedDocument(content, kind)


def media_type(name: str) -> str:
    """Return the media type of a file."""
    known: tuple[str, Any] = _TYPES.get(PurePath(name).suffix.lower(), ("application/octet-stream", None))
    return known[0]
