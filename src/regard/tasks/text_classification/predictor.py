"""From texts to classes: a classifier with its vocabularies, ready to be used."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.config import Config
from regard.data.batching import pad_sources
from regard.data.documents import SentenceEnds, as_documents
from regard.data.special_tokens import EOS
from regard.data.tokenizers import Tokenizers
from regard.models.inference_mode import inference_mode
from regard.models.text_classifier import Classified, Documents, TextClassifier
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.tasks.text_classification.training import classes_of
from regard.viz.shaded_text import ShadedSentence
from regard.viz.trace import AttentionTrace

AT_ONCE = 8192
"""Tokens that are read at once, padding included."""


class Guess(NamedTuple):
    """A class that a text may be of."""

    label: str
    probability: float


@dataclass(frozen=True, eq=False)
class Labelled:
    """What a text is of, and how much attention each of its words got."""

    text: str
    guesses: tuple[Guess, ...]
    """The most probable classes, best first."""
    attention: AttentionTrace
    """One row, the class; weights over all tokens of the text sum to one. No layers without attention."""
    sentences: tuple[ShadedSentence, ...] = ()
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
    """A text classifier that is ready to be used."""

    task: ClassVar[str] = "text_classification"
    """The name of its task."""

    def __init__(self, model: TextClassifier, tokenizers: Tokenizers, config: Config) -> None:
        self.model, self.tokenizers, self.config = model, tokenizers, config
        self.classes = classes_of(tokenizers)
        self._cut = SentenceEnds.of(tokenizers.source) if model.hierarchical else None

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "TextLabeller":
        """Read a classifier's folder."""
        return cls(*open_model(Path(folder), device, BY_NAME["text_classification"]))

    def classify(self, texts: Sequence[str], top: int = 1) -> list[Labelled]:
        """Return the most probable classes of each text, and the attention that its tokens got.

        A text is cut off after the longest that the model can read, if there is such a limit.
        """
        sources = [self._encode(text) for text in texts]
        found: list[Labelled | None] = [None] * len(texts)
        for rows in _by_length(sources):
            documents, seen = self._see([sources[row] for row in rows])
            log_probs = seen.logits.float().log_softmax(dim=-1).cpu().numpy()
            for place, row in enumerate(rows):
                found[row] = self._labelled(texts[row], sources[row], log_probs[place], documents, seen, place, top)
        return [each for each in found if each is not None]

    def log_probs(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-probability of each class for each text."""
        sources = [self._encode(text) for text in texts]
        found = np.zeros((len(texts), len(self.classes)), np.float32)
        for rows in _by_length(sources):
            seen = self._see([sources[row] for row in rows])[1]
            found[rows] = seen.logits.float().log_softmax(dim=-1).cpu().numpy()
        return found

    def _encode(self, text: str) -> list[int]:
        ids, longest = [*self.tokenizers.source.encode(text), EOS], self.model.embedding.longest
        return ids if longest is None or len(ids) <= longest else [*ids[: longest - 1], EOS]

    def _see(self, sources: Sequence[Sequence[int]]) -> tuple[Documents, Classified]:
        tokens, mask = pad_sources(sources)
        documents = as_documents(tokens.numpy(), mask.numpy(), self._cut)
        with inference_mode(self.model):
            return documents, self.model.see(documents.to(next(self.model.parameters()).device))

    def _labelled(
        self,
        text: str,
        ids: Sequence[int],
        log_probs: NDArray[np.float32],
        documents: Documents,
        seen: Classified,
        row: int,
        top: int,
    ) -> Labelled:
        order = np.argsort(-log_probs, kind="stable")[: max(top, 5)]
        guesses = [Guess(self.classes[place], float(np.exp(log_probs[place]))) for place in order]
        weights, sentences = _token_weights(documents, seen, row)
        source = self.tokenizers.source
        trace = AttentionTrace(
            source=tuple(source.pieces(ids)),
            target=(guesses[0].label,),
            weights=weights,
            log_probs=(float(log_probs[order[0]]),),
            score=None,
            candidates=(tuple(guesses),),
            source_words=tuple(source.words(ids)),
            target_words=(0,),
        )
        return Labelled(text, tuple(guesses[:top]), trace, sentences)


def _token_weights(
    documents: Documents, seen: Classified, row: int
) -> tuple[NDArray[np.float32], tuple[ShadedSentence, ...]]:
    """Return the weights of a text's tokens (layers, heads, 1, tokens), and those of its sentences.

    In a hierarchical model a token has the weight of its sentence times its weight therein.
    """
    count = int(documents.counts[row])
    places = documents.sentences[row, :count].tolist()
    lengths = documents.lengths[places].tolist()
    if seen.words is None:
        return np.zeros((0, 1, 1, sum(lengths)), np.float32), ()
    words = [seen.words[place, :, :length].float().cpu().numpy() for place, length in zip(places, lengths, strict=True)]
    if seen.sentences is None:
        return np.ascontiguousarray(words[0][None, :, None], np.float32), ()
    shares = seen.sentences[row, :, :count].float().mean(dim=0).cpu().numpy()
    whole = np.concatenate([share * own for share, own in zip(shares, words, strict=True)], axis=1)
    sentences = tuple(map(ShadedSentence, lengths, shares.tolist()))
    return np.ascontiguousarray(whole[None, :, None], np.float32), sentences


def _by_length(sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Put texts of like length together, as many as may be read at once."""
    batches: list[list[int]] = []
    longest = 0
    for row in sorted(range(len(sources)), key=lambda row: -len(sources[row])):
        if not batches or longest * (len(batches[-1]) + 1) > AT_ONCE:
            longest = len(sources[row])
            batches.append([])
        batches[-1].append(row)
    return batches
