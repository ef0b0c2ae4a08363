"""Text in, ids out, and back: BPE and unigram pieces, characters, words."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from regard.config import TokenizerConfig
from regard.data.pair import Pair
from regard.data.tokenizers.base import Tokenizer, kinds
from regard.data.tokenizers.plain import Characters, Words
from regard.data.tokenizers.subwords import BytePairs, Subwords, Unigram
from regard.data.vocabulary import MARKS
from regard.errors import ConfigError, ModelError
from regard.files import write_atomically

__all__ = ["BytePairs", "Characters", "Tokenizer", "Tokenizers", "Unigram", "Words", "kinds", "train_tokenizers"]

INDEX = "tokenizer.json"
SAMPLE = 200_000
"""Pairs that subwords are learnt from; of a larger corpus, a random part of this size."""
_SAMPLE_LONGEST = 10_000
"""Characters of a sampled text that are kept, so that the sample's memory is bounded whatever the lines are."""


@dataclass(frozen=True)
class Tokenizers:
    """A model's two tokenizers: one and the same object where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """Stand for all that decides which ids a text becomes."""
        digest = sha256()
        for tokenizer in (self.source, self.target):
            digest.update(f"{tokenizer.kind} ".encode() + sha256(tokenizer.to_bytes()).digest())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the vocabularies first and `tokenizer.json`, which holds their checksums, last."""
        sides = {"joint": self.source} if self.joint else {"source": self.source, "target": self.target}
        index: dict[str, Any] = {"kind": self.source.kind}
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
            index = json.loads(path.read_bytes())
            kind = kinds[index["kind"]]
            sides = ["joint"] if "joint" in index else ["source", "target"]
            loaded = [_load_side(folder, kind, index[side]["file"], index[side]["sha256"]) for side in sides]
        except FileNotFoundError:
            raise ModelError(f"{path} is missing: {folder} is no model folder, or not a whole one.") from None
        except OSError as error:
            raise ModelError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, KeyError, TypeError, ConfigError):
            raise ModelError(f"{path} is damaged. Copy the model folder again, or train anew.") from None
        return cls(loaded[0], loaded[-1])


def _load_side(folder: Path, kind: type[Tokenizer], file: str, checksum: str) -> Tokenizer:
    path = folder / Path(file).name
    try:
        content = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelError(f"Cannot read {path}, which {INDEX} names: {reason}.") from None
    if sha256(content).hexdigest() != checksum:
        raise ModelError(f"{path} is not the file that {INDEX} was written with. Copy the model folder again.")
    try:
        return kind.from_bytes(content)
    except ValueError as error:
        raise ModelError(f"{path} holds no {kind.kind} vocabulary: {error}.") from None


def train_tokenizers(config: TokenizerConfig, corpus: Iterable[Pair], seed: int) -> Tokenizers:
    """Learn the vocabularies of both sides, or a joint one, from a corpus (from a sample of it where it is huge).

    A corpus that does not yield `config.vocabulary` entries gives a smaller vocabulary: see `Tokenizer.size`.
    """
    kind = kinds[config.kind]
    fewest = 300 if issubclass(kind, Subwords) else len(MARKS) + 1
    if config.vocabulary < fewest:
        why = f"{len(MARKS)} marks and 256 bytes come first" if issubclass(kind, Subwords) else "4 marks come first"
        raise ConfigError(
            f"tokenizer.vocabulary is {config.vocabulary}, but {config.kind} needs at least {fewest}: {why}."
        )
    if issubclass(kind, Subwords):
        pairs: Iterable[Pair] = _sample(corpus, seed)
    else:
        # The two sides are two passes: what can be passed over only once has to be kept.
        pairs = list(corpus) if isinstance(corpus, Iterator) else corpus
    if config.joint:
        joint = kind.train(chain.from_iterable((pair.source, pair.target) for pair in pairs), config.vocabulary)
        return Tokenizers(joint, joint)
    source = kind.train((pair.source for pair in pairs), config.vocabulary)
    return Tokenizers(source, kind.train((pair.target for pair in pairs), config.vocabulary))


def _sample(corpus: Iterable[Pair], seed: int) -> list[Pair]:
    """Draw pairs in one pass, each with the same chance (reservoir sampling); all of a corpus that is small enough."""
    random = Random(seed)
    sample: list[Pair] = []
    for seen, pair in enumerate(corpus, start=1):
        place = len(sample) if seen <= SAMPLE else int(random.random() * seen)
        if place < SAMPLE:
            kept = Pair(pair.source[:_SAMPLE_LONGEST], pair.target[:_SAMPLE_LONGEST])
            sample[place : place + 1] = [kept]
    return sample
