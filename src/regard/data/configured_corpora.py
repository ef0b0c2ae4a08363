"""Open the training and validation corpora that settings name: one, several with weights, or several with tags."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from regard.config import DataConfig
from regard.data.corpus import Corpus, open_corpus
from regard.data.languages import check_languages
from regard.data.mixed_corpora import ONE, MixedCorpora, WeightedCorpus, parse_mixed
from regard.data.tagged_corpora import TaggedCorpora, check_tagged, embedded, open_tagged, own_part, parse_entry
from regard.data.validation_split import Part, Selection
from regard.errors import ConfigError


class Split(NamedTuple):
    """A corpus in two parts."""

    train: Corpus
    valid: Corpus | None
    """None if there are too few distinct sources to hold some out."""


def entries_of(data: DataConfig) -> tuple[WeightedCorpus, ...]:
    """Return the training corpora as entries."""
    if data.tagged:
        return tuple(parse_entry(entry) for entry in data.tagged)
    return tuple(parse_mixed(entry) for entry in data.mixed) or (WeightedCorpus(data.train),)


def weights_of(data: DataConfig) -> tuple[Fraction, ...]:
    """Return the weight of each corpus; empty if every epoch has each of them once."""
    weights = tuple(entry.weight for entry in entries_of(data))
    return weights if any(weight != ONE for weight in weights) else ()


def open_data(data: DataConfig, split: str, seed: int, reads: bool = True) -> Corpus | None:
    """Open the training (`train`) or validation corpus (`valid`) that the settings name.

    Embedded corpora have their own validation part. Returns None if there is no validation corpus. `reads` is whether
    the model reads a source, by which pairs are held out.
    """
    if data.held_out:
        halves = open_split(data, seed, reads)
        return halves.train if split == "train" else halves.valid
    if split == "train":
        entries = entries_of(data)
        return _joined(data, entries, [open_corpus(entry.parts, split, seed) for entry in entries])
    if data.tagged:
        tagged = data.valid_tagged or embedded(data.tagged)
        return open_tagged(tagged, split, seed) if tagged else None
    if data.valid:
        return open_corpus(data.valid, split, seed)
    own = dict.fromkeys(name for entry in entries_of(data) for name in own_part(entry.parts))
    opened = [open_corpus((name,), split, seed) for name in own]
    return MixedCorpora(opened) if len(opened) > 1 else next(iter(opened), None)


def open_split(data: DataConfig, seed: int, reads: bool = True) -> Split:
    """Open the training corpus and hold out a part of it for validation, each pair once, whatever the weights."""
    entries = entries_of(data)
    whole = [open_corpus(entry.parts, "train", seed) for entry in entries]
    selection = Selection(whole, data.held_out, seed, by_target=not reads)
    if not selection.hashes:
        return Split(_joined(data, entries, whole), None)
    train, valid = ([Part(corpus, selection, held_out) for corpus in whole] for held_out in (False, True))
    once = [entry._replace(weight=ONE) for entry in entries]
    return Split(_joined(data, entries, train), _joined(data, once, valid))


def _joined(data: DataConfig, entries: Sequence[WeightedCorpus], opened: Sequence[Corpus]) -> Corpus:
    weights = [entry.weight for entry in entries]
    if data.tagged:
        return TaggedCorpora([(entry.tag, corpus) for entry, corpus in zip(entries, opened, strict=True)], weights)
    return MixedCorpora(opened, weights) if data.mixed else opened[0]


def check_corpora(data: DataConfig) -> None:
    """Raise a ConfigError for settings of corpora that contradict each other."""
    check_tagged(data)
    check_languages(data)
    for entry in data.mixed:
        parse_mixed(entry)
    for name in ("train", "tagged"):
        if data.mixed and getattr(data, name):
            raise ConfigError(f"data.{name} and data.mixed are both given: give one of them.")
    if data.held_out < 0:
        raise ConfigError(f"data.held_out is {data.held_out}; it must be at least 0.")
    given = next((name for name in ("valid", "valid_tagged") if getattr(data, name)), None)
    if data.held_out and given is not None:
        raise ConfigError(
            f"data.{given} is a validation corpus, and data.held_out={data.held_out} takes another from the training "
            "corpus: leave one of them out."
        )
