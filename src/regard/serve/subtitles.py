"""SubRip subtitles (.srt): what is said is translated; numbers, times and line ends stay."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from regard.serve.html_documents import HtmlDocument
from regard.serve.sentence_translation import Rendering

_END: Final = r"(?>\r\n|[\r\n])"
_CUE: Final = re.compile(
    rf"^[ \t]*\d+:\d+:\d+[,.]\d+[ \t]*-->[^\r\n]*{_END}(?P<text>.*?)(?={_END}[ \t]*(?:{_END}|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
"""The line with the times of a subtitle, and its lines up to an empty one."""
_SPEAKER: Final = re.compile(r"^[ \t]*[-–—][ \t]*", re.MULTILINE)
"""How the lines of dialogue begin."""


class Subtitles:
    """A file of subtitles. A sentence may run over lines; its translation is broken where the source was."""

    needs_links = True

    def __init__(self, source: str) -> None:
        self._parts: list[str | HtmlDocument] = []
        done = 0
        for cue in _CUE.finditer(source):
            begin = cue.start("text")
            for speaker in _SPEAKER.finditer(cue["text"]):
                start, end = cue.start("text") + speaker.start(), cue.start("text") + speaker.end()
                self._add(source, done, begin, start)
                done, begin = start, end
            self._add(source, done, begin, cue.end())
            done = cue.end()
        self._parts.append(source[done:])

    def _add(self, source: str, kept: int, begin: int, end: int) -> None:
        """Add a part to keep, up to `begin`, and one to translate, which may have tags such as `<i>`."""
        self._parts += [source[kept:begin], HtmlDocument(source[begin:end], lines=True)]

    def text(self) -> str:
        """Return what is said."""
        return "\n".join(part.text() for part in self._parts if isinstance(part, HtmlDocument))

    def split(self, language: str, longest: int) -> list[str]:
        """Find the sentences of all subtitles."""
        said = [part for part in self._parts if isinstance(part, HtmlDocument)]
        return [sentence for part in said for sentence in part.split(language, longest)]

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> str:
        """Return the file with its subtitles translated."""
        return "".join(part if isinstance(part, str) else part.join(translations, rank) for part in self._parts)
