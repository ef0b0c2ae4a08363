"""Documents: what is translated in them, and how they are put together again; and plain texts."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from regard.serve.sentence_translation import Rendering
from regard.serve.sentences import segments

Written = TypeVar("Written", str, bytes, covariant=True)


class Document(Protocol[Written]):
    """A document that is translated sentence by sentence."""

    needs_links: bool
    """Whether it has markup, which is placed by the words that were translated to each other."""

    def text(self) -> str:
        """Return the text without markup, by which the language is detected."""

    def split(self, language: str, longest: int) -> list[str]:
        """Find the sentences, of at most `longest` characters, and return them in order."""

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> Written:
        """Return the document with its sentences translated: the best translations, or others of the n-best lists."""


class TextDocument:
    """A plain text. All white space outside sentences, and list markers, stay as they are."""

    needs_links = False

    def __init__(self, text: str) -> None:
        self._text = text

    def text(self) -> str:
        """Return the text."""
        return self._text

    def split(self, language: str, longest: int) -> list[str]:
        """Split it into sentences, lines one by one."""
        self._segments = list(segments(self._text, language, longest))
        return [segment.text for segment in self._segments if segment.is_sentence]

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> str:
        """Put the translated sentences in the place of the sentences."""
        return "".join(
            chosen(translations[segment.text], rank).text if segment.is_sentence else segment.text
            for segment in self._segments
        )


def chosen(n_best: Sequence[Rendering], rank: int) -> Rendering:
    """Return the translation of a rank, or the last where there are fewer."""
    return n_best[min(rank, len(n_best) - 1)]
