"""Tokenizers: BPE and unigram subwords, characters, words; and tags for multilingual models."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from regard.atomic_files import write_atomically
from regard.config import TokenizerConfig
from regard.data.pair import Pair
from regard.data.special_tokens import MARKS, tag_mark
from regard.data.tagged_corpora import TaggedCorpora
from regard.data.tokenizers.base import Learned, Tokenizer, kinds
from regard.data.tokenizers.characters_and_words import Characters, Words
from regard.data.tokenizers.spelled_words import Spelled
from regard.data.tokenizers.subwords import BytePairs, Subwords, Unigram
from regard.data.tokenizers.tagged_tokenizer import Tagged, has_tag
from regard.data.tokenizers.whole_lines import Lines
from regard.errors import ConfigError, ModelError, did_you_mean
from regard.folder_files import LARGE, parse_json, read_member

__all__ = [
    "BytePairs",
    "Characters",
    "Lines",
    "Spelled",
    "Tagged",
    "Tokenizer",
    "Tokenizers",
    "Unigram",
    "Words",
    "check_kinds",
    "kinds",
    "train_tokenizers",
]

INDEX = "tokenizer.json"
_LONGEST_NAME = 100
SAMPLE = 200_000
"""Pairs that subwords are learned from: a random sample of at most this size."""
_SAMPLE_LONGEST = 10_000
"""Maximum characters kept of a sampled text, to bound the sample's memory."""


@dataclass(frozen=True)
class Tokenizers:
    """A model's two tokenizers: the same object if the vocabulary is joint (and has no tags)."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return _learned(self.source) is _learned(self.target)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that select the language to write; empty for a model that writes only one."""
        return self.source.tags if isinstance(self.source, Tagged) else ()

    def tag(self, texts: Sequence[str], to: str | None) -> list[str]:
        """Prefix texts with the tag `to`, unless they are empty or have one; with None, return them unchanged."""
        if to is None:
            return list(texts)
        if not self.tags:
            raise ConfigError(f"This model was trained without tags, so it cannot write {to!r}: leave out --to.")
        if to not in self.tags:
            raise ConfigError(
                f"This model does not write {to!r}, but {', '.join(self.tags)}.{did_you_mean(to, self.tags)}"
            )
        return [text if has_tag(text) or not text.strip() else f"{tag_mark(to)} {text}" for text in texts]

    @property
    def fingerprint(self) -> str:
        """A checksum of everything that determines the tokenization."""
        digest = sha256()
        for tokenizer in (self.source, self.target):
            digest.update(f"{tokenizer.kind} ".encode() + sha256(_learned(tokenizer).to_bytes()).digest())
        if self.tags:
            digest.update(json.dumps(self.tags).encode())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the vocabularies first and `tokenizer.json`, which holds their checksums, last."""
        source, target = _learned(self.source), _learned(self.target)
        sides = {"joint": source} if self.joint else {"source": source, "target": target}
        index: dict[str, Any] = {"kind": source.kind}
        if target.kind != source.kind:
            index["target_kind"] = target.kind
        if self.tags:
            index["tags"] = self.tags
        for side, tokenizer in sides.items():
            content = tokenizer.to_bytes()
            file = f"{side}.model" if isinstance(tokenizer, Subwords) else f"{side}.vocabulary.json"
            index[side] = {"file": file, "size": tokenizer.size, "sha256": sha256(content).hexdigest()}
            write_atomically(folder / file, content)
        write_atomically(folder / INDEX, json.dumps(index, indent=2).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> "Tokenizers":
        """Read what `save` wrote into a model folder."""
        path = folder / INDEX
        try:
            index = parse_json(read_member(folder, INDEX))
            kind = kinds[index["kind"]]
            own = {"target": kinds[index.get("target_kind", index["kind"])]}
            sides = ["joint"] if "joint" in index else ["source", "target"]
            loaded = [
                _load_side(folder, own.get(side, kind), index[side]["file"], index[side]["sha256"]) for side in sides
            ]
            tags = [str(tag) for tag in index.get("tags", ())]
        except FileNotFoundError:
            raise ModelError(f"{path} is missing: {folder} is not a model folder, or is incomplete.") from None
        except OSError as error:
            raise ModelError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, KeyError, TypeError, ConfigError):
            raise ModelError(f"{path} is damaged. Copy the model folder again, or train anew.") from None
        return _with_tags(loaded[0], loaded[-1], tags)


def _learned(tokenizer: Tokenizer) -> Learned:
    plain = tokenizer.plain if isinstance(tokenizer, Tagged) else tokenizer
    assert isinstance(plain, Learned)
    return plain


def _with_tags(source: Learned, target: Learned, tags: Sequence[str]) -> Tokenizers:
    """Add tags to the source side. A joint vocabulary has them on the target side too, where no text maps to them."""
    if not tags:
        return Tokenizers(source, target)
    return Tokenizers(Tagged(source, tags), Tagged(target, tags, reads=False) if source is target else target)


def _load_side(folder: Path, kind: type[Learned], file: str, checksum: str) -> Learned:
    path = folder / Path(file).name
    if len(path.name.encode()) > _LONGEST_NAME:
        raise ValueError
    try:
        content = read_member(folder, path.name, LARGE)
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        raise ModelError(f"Cannot read {path}, which {INDEX} names: {reason}.") from None
    if sha256(content).hexdigest() != checksum:
        raise ModelError(f"{path} is not the file that {INDEX} was written with. Copy the model folder again.")
    try:
        return kind.from_bytes(content)
    except ValueError as error:
        raise ModelError(f"{path} holds no {kind.kind} vocabulary: {error}.") from None


def check_kinds(config: TokenizerConfig) -> None:
    """Raise a ConfigError for kinds that are unknown, cannot be combined, or need a larger vocabulary."""
    for name in _kinds(config):
        kind = kinds[name]
        fewest = 300 if issubclass(kind, Subwords) else len(MARKS) + 1
        if config.vocabulary < fewest:
            more = " and 256 bytes" if issubclass(kind, Subwords) else ""
            why = f"{len(MARKS)} special tokens{more} come first"
            raise ConfigError(
                f"tokenizer.vocabulary is {config.vocabulary}, but {name} needs at least {fewest}: {why}."
            )
    source, target = _kinds(config)
    if config.joint and source != target:
        raise ConfigError(
            f"tokenizer.target_kind={target} beside tokenizer.kind={source} makes two vocabularies, but "
            "tokenizer.joint=true asks for one: set tokenizer.joint=false."
        )
    _check_sampling(config)


def _check_sampling(config: TokenizerConfig) -> None:
    if not 0 <= config.sampling < 1:
        raise ConfigError(f"tokenizer.sampling is {config.sampling}; it must be at least 0 and below 1.")
    whole = [name for name in _kinds(config) if not issubclass(kinds[name], Subwords)]
    if config.sampling and whole:
        raise ConfigError(
            f"tokenizer.sampling is {config.sampling}, but {whole[0]} have only one segmentation: use "
            "tokenizer.kind=bpe or unigram, or set it to 0."
        )


def _kinds(config: TokenizerConfig) -> tuple[str, str]:
    return config.kind, config.target_kind or config.kind


def train_tokenizers(config: TokenizerConfig, corpus: Iterable[Pair], seed: int) -> Tokenizers:
    """Learn the vocabularies of both sides, or a joint one, from a corpus (or from a sample of a large one).

    A corpus that does not yield `config.vocabulary` entries gives a smaller vocabulary: see `Tokenizer.size`. Tags are
    added as entries, not learned. If no pair has a source, both sides use the target vocabulary.
    """
    check_kinds(config)
    tags: tuple[str, ...] = ()
    if isinstance(corpus, TaggedCorpora):
        tags, corpus = corpus.tags, corpus.untagged()
    source_kind, target_kind = (kinds[name] for name in _kinds(config))
    # Each side needs a pass, so keep a corpus that can be iterated only once.
    pairs = list(corpus) if isinstance(corpus, Iterator) else corpus
    sample = _sample(pairs, seed) if issubclass(source_kind, Subwords) or issubclass(target_kind, Subwords) else []
    sources, targets = (sample if issubclass(kind, Subwords) else pairs for kind in (source_kind, target_kind))
    with_tags = config.vocabulary - len(tags)
    if config.joint or not any(pair.source for pair in sources):
        joint = target_kind.train(chain.from_iterable((pair.source, pair.target) for pair in targets), with_tags)
        return _with_tags(joint, joint, tags)
    source = source_kind.train((pair.source for pair in sources), with_tags)
    return _with_tags(source, target_kind.train((pair.target for pair in targets), config.vocabulary), tags)


def _sample(corpus: Iterable[Pair], seed: int) -> list[Pair]:
    """Return a uniform sample of pairs in one pass (reservoir sampling); all pairs of a small corpus."""
    random = Random(seed)
    sample: list[Pair] = []
    for seen, pair in enumerate(corpus, start=1):
        place = len(sample) if seen <= SAMPLE else int(random.random() * seen)
        if place < SAMPLE:
            kept = Pair(pair.source[:_SAMPLE_LONGEST], pair.target[:_SAMPLE_LONGEST])
            sample[place : place + 1] = [kept]
    return sample
