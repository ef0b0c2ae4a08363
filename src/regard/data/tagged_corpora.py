"""Several corpora in one, each with a tag before its sources that tells what to write (Johnson et al. 2017).

The tag `<2de>` is one token at the start of the source, and all that a model is told of the target language: nothing
else in it is multilingual. It never stands in a target. So a pair of languages that was never seen together can be
asked for too (zero-shot translation).
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Final

from regard.config import DataConfig
from regard.data.builtin_corpora import corpora
from regard.data.corpus import Corpus, open_corpus
from regard.data.line_files import STDIN
from regard.data.mixed_corpora import Entry, MixedCorpora, parse_mixed
from regard.data.pair import Pair
from regard.data.special_tokens import tag_mark
from regard.errors import ConfigError, did_you_mean

_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class TaggedCorpora(MixedCorpora):
    """All pairs of several corpora, one corpus after the other, each source with its corpus's tag before it."""

    def __init__(self, tagged: Sequence[tuple[str, Corpus]], weights: Sequence[Fraction] = ()) -> None:
        super().__init__([_Tagged(tag, corpus) for tag, corpus in tagged], weights)
        self.tags = tuple(dict.fromkeys(tag for tag, _ in tagged))
        self._untagged = [corpus for _, corpus in tagged]

    def untagged(self) -> "Untagged":
        """Return the pairs as they are in their corpora: vocabularies are learnt from these."""
        return Untagged(self._untagged)


class _Tagged(Corpus):
    """One corpus with a tag before its sources. An alignment counts the words after the tag, which is none."""

    def __init__(self, tag: str, corpus: Corpus) -> None:
        self._tag, self._corpus = tag, corpus
        self.name = f"{tag}={corpus.name}"
        self.paired = corpus.paired

    def __iter__(self) -> Iterator[Pair]:
        mark = tag_mark(self._tag)
        return (Pair(f"{mark} {pair.source}", pair.target, pair.alignment) for pair in self._corpus)

    def identity(self) -> str:
        """Take in the tag."""
        return f"{self._tag}={self._corpus.identity()}"


class Untagged:
    """All pairs of several corpora, as they are, to be passed over as often as one likes."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self._corpora = corpora

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(self._corpora)


def open_tagged(entries: Sequence[str], split: str = "train", seed: int = 1) -> TaggedCorpora:
    """Open corpora given as `TAG=CORPUS`: `de=train.en,train.de`, `fr=pairs.tsv*2`, `fr=phrasebook:2000`.

    A tag may come more than once. The files of a corpus are separated by commas, a weight may follow.
    """
    parsed = [parse_entry(entry) for entry in entries]
    opened = [(entry.tag, open_corpus(entry.parts, split, seed)) for entry in parsed]
    return TaggedCorpora(opened, [entry.weight for entry in parsed])


def embedded(entries: Sequence[str]) -> tuple[str, ...]:
    """Name those that are embedded corpora, which hold pairs out, without their sizes and splits."""
    return tuple(f"{entry.tag}={name}" for entry in map(parse_entry, entries) for name in own_part(entry.parts))


def own_part(parts: Sequence[str]) -> tuple[str, ...]:
    """Name an embedded corpus without its size and split; a corpus of files holds nothing out."""
    name = parts[0].partition(":")[0] if len(parts) == 1 else ""
    return (name,) if name in corpora else ()


def parse_entry(entry: str, setting: str = "data.tagged") -> Entry:
    """Read one `TAG=CORPUS` or `TAG=CORPUS*WEIGHT`."""
    tag, equals, corpus = entry.partition("=")
    parts = [part.strip() for part in corpus.split(",")]
    if not equals or not all(parts):
        raise ConfigError(
            f"{setting}: {entry!r} is not TAG=CORPUS, such as de=train.en,train.de or fr=pairs.tsv "
            "(commas separate the files of a corpus)."
        )
    if not _TAG.fullmatch(tag.strip()):
        raise ConfigError(
            f"{setting}: {tag!r} cannot be a tag. A tag is letters, digits, - and _, such as de or pt-BR."
        )
    if STDIN in parts:
        raise ConfigError(f"{setting}: {entry!r} is standard input, which goes alone: give a file.")
    return parse_mixed(corpus, setting)._replace(tag=tag.strip())


def check_tagged(data: DataConfig) -> None:
    """Raise a ConfigError for tagged corpora that cannot be followed."""
    for entry in data.tagged:
        parse_entry(entry)
    if data.tagged and data.train:
        raise ConfigError("data.train and data.tagged are both given: give either one corpus or several with tags.")
    if data.tagged and data.valid:
        raise ConfigError("data.valid has no tags, but data.tagged has: give data.valid_tagged instead.")
    if data.valid_tagged and not data.tagged:
        raise ConfigError("data.valid_tagged has tags, but the training corpus has none: give data.valid instead.")
    check_known(data.valid_tagged, data.tagged, "data.valid_tagged")


def check_known(entries: Sequence[str], trained: Sequence[str], setting: str) -> None:
    """Raise a ConfigError for a tag that is not among those of the training corpora."""
    known = [parse_entry(entry).tag for entry in trained]
    for entry in entries:
        tag = parse_entry(entry, setting).tag
        if tag not in known:
            raise ConfigError(
                f"{setting}: there is no tag {tag!r} in data.tagged, which has "
                f"{', '.join(dict.fromkeys(known))}.{did_you_mean(tag, known)}"
            )
