"""Classify texts with an exported classifier."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.errors import DataError
from regard.runtime.export_entries import Entries
from regard.runtime.graphs import MANIFEST, Arrays, Graph
from regard.runtime.text_batches import batches, padded
from regard.runtime.token_limits import Floats
from regard.runtime.tokenizer import Tokenizer
from regard.runtime.trace import Trace

BATCH = 32
"""Texts that are read at once, where the model reads them whole."""
SENTENCE_ENDS = ("always", "before_space", "closing", "opens")
"""Kinds of tokens by which sentences are told apart."""
CANDIDATES = 5
"""Classes in a trace."""


class Guess(NamedTuple):
    """A class that a text may be of."""

    label: str
    probability: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a text is of, and how much attention each of its tokens got."""

    text: str
    guesses: tuple[Guess, ...]
    """The most probable classes, best first."""
    attention: Trace
    """One row, the class; weights over all tokens of the text sum to one. No layers without attention."""
    sentences: tuple[tuple[int, float], ...] = ()
    """How many tokens each sentence has, and its weight, where the model is hierarchical."""

    @property
    def label(self) -> str:
        """The most probable class."""
        return self.guesses[0].label

    @property
    def probability(self) -> float:
        """How probable that is."""
        return self.guesses[0].probability


class TextLabeller:
    """An exported text classifier; its results are those of `regard.load` with the model folder."""

    task = "text_classification"

    def __init__(self, export: Mapping[str, Any], folder: Path, threads: int = 1) -> None:
        entries = Entries(export, folder / MANIFEST)
        self._labels = entries.texts("labels")
        if not self._labels:
            raise entries.refused("labels", self._labels, "a list of at least one class")
        self._tokenizer = Tokenizer(export.get("source"), folder, "source")
        last = self._tokenizer.size - 1
        self._end, self._longest = entries.whole("end", most=last), entries.whole_or_none("longest", least=2)
        self._ends = None
        if export.get("sentence_ends") is not None:
            ends = entries.part("sentence_ends")
            self._ends = {name: frozenset(ends.wholes(name, most=last)) for name in SENTENCE_ENDS}
        self._graph = Graph(folder / "model.onnx", threads)
        self._graph.require("logits")

    def classify(self, texts: Sequence[str], top: int = 1) -> list[Labelled]:
        """Return the most probable classes of each text, and the attention that its tokens got.

        A text is cut off after the longest that the model can read, if there is such a limit.
        """
        if isinstance(texts, str):
            raise DataError("classify takes a list of texts, got a single one: write classify([text]).")
        sources = [self._encode(text) for text in texts]
        found: dict[int, Labelled] = {}
        if self._ends is None:
            for rows in batches([len(source) for source in sources], BATCH):
                said = self._read([sources[row] for row in rows])
                for place, row in enumerate(rows):
                    words = said["words"][place, :, : len(sources[row])] if "words" in said else None
                    found[row] = self._labelled(texts[row], sources[row], said["logits"][place], words, (), top)
        else:
            for row, source in enumerate(sources):
                sentences = cut(source, self._ends)
                said = self._read(sentences)
                words, shares = _of_sentences(said, [len(sentence) for sentence in sentences])
                found[row] = self._labelled(texts[row], source, said["logits"][0], words, shares, top)
        return [found[row] for row in range(len(texts))]

    def _encode(self, text: str) -> list[int]:
        ids, longest = [*self._tokenizer.encode(text), self._end], self._longest
        return [*ids[: longest - 1], self._end] if longest and len(ids) > longest else ids

    def _read(self, texts: Sequence[Sequence[int]]) -> Arrays:
        tokens, mask = padded(texts, 0)
        said = self._graph.run({"tokens": tokens, "mask": mask})
        shapes = {"logits": (1 if self._ends else len(texts), len(self._labels))}
        ways = {"words": (len(texts), tokens.shape[1]), "sentences": (1, len(texts))}
        shapes |= {name: (wide[0], *said[name].shape[1:2], wide[1]) for name, wide in ways.items() if name in said}
        for name, shape in shapes.items():
            if said[name].shape != shape or said[name].dtype != np.float32:
                raise self._graph.unusable(f"{name} has the shape {said[name].shape}; it must be {shape}")
        if not np.isfinite(said["logits"]).all():
            raise self._graph.unusable("logits are not finite")
        return said

    def _labelled(
        self,
        text: str,
        source: Sequence[int],
        logits: Floats,
        words: Floats | None,
        sentences: tuple[tuple[int, float], ...],
        top: int,
    ) -> Labelled:
        """Build the result for one text; `words` are the weights of its tokens, heads × tokens."""
        log_probs = logits - logits.max()
        log_probs -= np.log(np.exp(log_probs).sum())
        order = np.argsort(-log_probs, kind="stable")[: max(top, CANDIDATES)]
        guesses = tuple(Guess(self._labels[place], float(np.exp(log_probs[place]))) for place in order)
        weights = np.zeros((0, 1, 1, len(source)), np.float32) if words is None else words[None, :, None]
        trace = Trace(
            tuple(self._tokenizer.pieces(source)),
            (guesses[0].label,),
            np.ascontiguousarray(weights, np.float32),
            (float(log_probs[order[0]]),),
            None,
            (guesses,),
            tuple(self._tokenizer.words(source)),
            (0,),
        )
        return Labelled(text, guesses[:top], trace, sentences)


def cut(ids: Sequence[int], ends: Mapping[str, frozenset[int]]) -> list[list[int]]:
    """Split a text's tokens into sentences; the end mark stays with the last."""
    sentences: list[list[int]] = [[]]
    goes_on = ends["always"] | ends["before_space"] | ends["closing"]
    always = ended = False
    for token, following in itertools.pairwise(ids):
        closing = token in ends["closing"]
        always = token in ends["always"] or (closing and always)
        ended = token in ends["always"] or token in ends["before_space"] or (closing and ended)
        sentences[-1].append(token)
        final = (always and following not in goes_on) or (ended and following in ends["opens"])
        if final and following != ids[-1]:
            sentences.append([])
    sentences[-1].append(ids[-1])
    return sentences


def _of_sentences(said: Arrays, lengths: Sequence[int]) -> tuple[Floats | None, tuple[tuple[int, float], ...]]:
    """Return the weights of a text's tokens, that of the sentence times that within it, and those of the sentences."""
    if "words" not in said:
        return None, ()
    words = [said["words"][row, :, :length] for row, length in enumerate(lengths)]
    if "sentences" not in said:
        return np.concatenate(words, axis=1), ()
    shares = said["sentences"][0, :, : len(lengths)].mean(axis=0)
    whole = np.concatenate([share * own for share, own in zip(shares, words, strict=True)], axis=1)
    return whole, tuple(zip(lengths, shares.tolist(), strict=True))
