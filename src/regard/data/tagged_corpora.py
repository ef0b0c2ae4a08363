"""Mix several corpora, each with a tag before its sources that selects the target language (Johnson et al. 2017).

The tag `<2de>` is one token at the start of the source; nothing else in the model is multilingual. It never occurs in a
target. So the model can also be asked for language pairs that it never saw together (zero-shot translation).
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
from regard.data.mixed_corpora import MixedCorpora, WeightedCorpus, parse_mixed
from regard.data.pair import Pair
from regard.data.special_tokens import tag_mark
from regard.errors import ConfigError, did_you_mean

_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


class TaggedCorpora(MixedCorpora):
    """The concatenation of several corpora, each source prefixed with its corpus's tag."""

    def __init__(self, tagged: Sequence[tuple[str, Corpus]], weights: Sequence[Fraction] = ()) -> None:
        super().__init__([_Tagged(tag, corpus) for tag, corpus in tagged], weights)
        self.tags = tuple(dict.fromkeys(tag for tag, _ in tagged))
        self._untagged = [corpus for _, corpus in tagged]

    def untagged(self) -> "Untagged":
        """Return the pairs without tags, from which vocabularies are learned."""
        return Untagged(self._untagged)


class _Tagged(Corpus):
    """One corpus with a tag before its sources. Alignments do not count the tag as a word."""

    def __init__(self, tag: str, corpus: Corpus) -> None:
        self._tag, self._corpus = tag, corpus
        self.name = f"{tag}={corpus.name}"
        self.paired = corpus.paired

    def __iter__(self) -> Iterator[Pair]:
        mark = tag_mark(self._tag)
        return (Pair(f"{mark} {pair.source}", pair.target, pair.alignment) for pair in self._corpus)

    def identity(self) -> str:
        """Cover the tag too."""
        return f"{self._tag}={self._corpus.identity()}"


class Untagged:
    """A re-iterable stream of the pairs of several corpora, without tags."""

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self._corpora = corpora

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(self._corpora)


def open_tagged(entries: Sequence[str], split: str = "train", seed: int = 1) -> TaggedCorpora:
    """Open corpora given as `TAG=CORPUS`: `de=train.en,train.de`, `fr=pairs.tsv*2`, `fr=phrasebook:2000`.

    A tag may occur more than once. Commas separate the files of a corpus; a weight may follow.
    """
    parsed = [parse_entry(entry) for entry in entries]
    opened = [(entry.tag, open_corpus(entry.parts, split, seed)) for entry in parsed]
    return TaggedCorpora(opened, [entry.weight for entry in parsed])


def embedded(entries: Sequence[str]) -> tuple[str, ...]:
    """Return the entries that are embedded corpora, which have held-out parts, without their sizes and splits."""
    return tuple(f"{entry.tag}={name}" for entry in map(parse_entry, entries) for name in own_part(entry.parts))


def own_part(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the name of an embedded corpus without size and split; empty for files, which have no held-out part."""
    name = parts[0].partition(":")[0] if len(parts) == 1 else ""
    return (name,) if name in corpora else ()


def parse_entry(entry: str, setting: str = "data.tagged") -> WeightedCorpus:
    """Parse one `TAG=CORPUS` or `TAG=CORPUS*WEIGHT`."""
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
        raise ConfigError(f"{setting}: {entry!r} is standard input, which cannot be mixed: give a file.")
    return parse_mixed(corpus, setting)._replace(tag=tag.strip())


def check_tagged(data: DataConfig) -> None:
    """Raise a ConfigError for settings of tagged corpora that contradict each other."""
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
