r"""Vocabulary shortlists: the likely translations of the source's words, and the most frequent words.

Most of the work of a step is the output layer, over a vocabulary of which one sentence uses little (Jean et al. 2015,
section 3.3). IBM model 1 (Brown et al. 1993) gives the word translation probabilities, over the tokens of the training
pairs, by expectation maximisation:

.. math:: t(f|e) \propto \sum_{(F, E)} \sum_{f \in F,\, e \in E} \frac{t(f|e)}{\sum_{e' \in E} t(f|e')}

where each source also has an empty word, which generates the words that no other source word explains.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.atomic_files import write_atomically
from regard.data.special_tokens import BOS, EOS, PAD
from regard.data.token_cache import TokenCache
from regard.errors import ModelError, first_line
from regard.folder_files import read_member

SHORTLIST = "shortlist.safetensors"
"""File name in a model folder."""
KEPT = 64
"""Maximum number of words kept for each source word."""
FREQUENT = 512
"""Number of most frequent words, which are always allowed."""
LINKS = 12_000_000
"""Maximum number of token pairs used: beyond it, every n-th sentence pair is."""
ROUNDS = 4
MANY = 2000
"""With a smaller vocabulary a shortlist saves nothing, and training makes none."""
NOTHING = PAD
"""The empty source word."""


class Shortlist(NamedTuple):
    """Likely translations, learned from the training data."""

    likely: NDArray[np.int32]
    """For each source token its most likely target tokens, best first, then -1."""
    frequent: NDArray[np.int32]
    """The most frequent target tokens, the most frequent first."""
    joint: bool
    """Whether both sides share a vocabulary, so that a token can be copied."""

    def words(self, source: Sequence[int], count: int, beside: Sequence[int] = ()) -> NDArray[np.int32]:
        """Return the shortlist of a source, sorted: `count` words for each of its own, and others."""
        read = np.asarray(source)
        parts = [self.likely[read, :count].ravel(), self.frequent, np.asarray(beside, np.int32)]
        if self.joint:
            parts.append(read[read > EOS].astype(np.int32))
        found = np.unique(np.concatenate(parts))
        return found[found >= 0]

    def save(self, folder: Path) -> None:
        """Write the file in a model folder."""
        content = save({"likely": self.likely, "frequent": self.frequent, "joint": np.array([self.joint], np.int32)})
        write_atomically(folder / SHORTLIST, content)

    @classmethod
    def load(cls, folder: Path, source_size: int, target_size: int) -> "Shortlist | None":
        """Read the file in a folder of a model with vocabularies of these sizes; None if there is none."""
        path = folder / SHORTLIST
        if not os.path.lexists(path):
            return None
        try:
            found = load(read_member(folder, SHORTLIST, most=None))
            made = cls(found["likely"], found["frequent"], bool(found["joint"].item()))
            made._check(source_size, target_size)
            return made
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise ModelError(
                f"{path} is damaged: {first_line(error)}. "
                f"Remove it, and make it again with regard train --out {folder} --resume."
            ) from None

    def _check(self, source_size: int, target_size: int) -> None:
        """Raise a ValueError for what is not of these vocabularies: the compiled search looks words up unchecked."""
        for name, words, axes in (("likely", self.likely, 2), ("frequent", self.frequent, 1)):
            if words.dtype != np.int32 or words.ndim != axes:
                raise ValueError(f"{name!r} is no table of words")
            if words.size and not (int(words.min()) >= -1 and int(words.max()) < target_size):
                raise ValueError(f"{name!r} has words that the vocabulary has not")
        if len(self.likely) != source_size:
            raise ValueError(f"'likely' has {len(self.likely)} words, the vocabulary {source_size}")


def learn(pairs: TokenCache, source_size: int, target_size: int, joint: bool) -> Shortlist:
    """Learn word translations from sentence pairs."""
    keys, columns, written = _links(pairs, target_size)
    known, links = np.unique(keys, return_inverse=True)
    source = known // target_size
    likely = np.ones(len(known), np.float32)
    for _ in range(ROUNDS):
        shares = likely[links]
        shares /= np.bincount(columns, shares)[columns].astype(np.float32)
        counts = np.bincount(links, shares, len(known))
        likely = (counts / np.bincount(source, counts, source_size)[source]).astype(np.float32)
    counted = np.bincount(written, minlength=target_size)
    counted[[PAD, BOS]] = 0
    order = np.argsort(-counted, kind="stable")[:FREQUENT]
    frequent = order[counted[order] > 0].astype(np.int32)
    return Shortlist(_likeliest(source, known % target_size, likely, source_size), frequent, joint)


def _links(pairs: TokenCache, target_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return all token pairs of the sentence pairs as numbers, the target position of each, and all targets."""
    keys, columns, targets, first = [], [], [], 0
    for source, target in _sample(pairs):
        read = np.concatenate([[NOTHING], source])
        keys.append(np.add.outer(read * target_size, target).ravel())
        columns.append(np.tile(np.arange(first, first + len(target)), len(read)))
        targets.append(target)
        first += len(target)
    return np.concatenate(keys), np.concatenate(columns), np.concatenate(targets)


def _sample(pairs: TokenCache) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield every n-th pair, to limit the number of links."""
    some = range(0, len(pairs), max(1, len(pairs) // 1000))
    mean = sum((len(pairs.source(row)) + 1) * len(pairs.target(row)) for row in some) / len(some)
    for row in range(0, len(pairs), max(1, round(mean * len(pairs) / LINKS))):
        yield pairs.source(row), pairs.target(row)


def _likeliest(
    source: NDArray[np.int64], target: NDArray[np.int64], likely: NDArray[np.float32], source_size: int
) -> NDArray[np.int32]:
    """Collect the most likely words of each source word in a table."""
    real = (target != PAD) & (target != BOS)
    source, target, likely = source[real], target[real], likely[real]
    order = np.lexsort((-likely, source))
    source, target = source[order], target[order]
    place = np.arange(len(source)) - np.searchsorted(source, source)
    table = np.full((source_size, KEPT), -1, np.int32)
    table[source[place < KEPT], place[place < KEPT]] = target[place < KEPT]
    return table
