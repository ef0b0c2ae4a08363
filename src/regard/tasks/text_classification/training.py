"""What a text classifier learns from and is scored on: a corpus whose targets are the names of classes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from regard.config import Config, TrainingConfig
from regard.data.batching import Batch, BatchOrder, make_batch
from regard.data.documents import SentenceEnds, as_documents
from regard.data.pair import Pair
from regard.data.special_tokens import MARKS, UNK
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers
from regard.data.tokenizers.whole_lines import Lines
from regard.errors import DataError, did_you_mean
from regard.evaluation.classification import macro_f1
from regard.models.text_classifier import Documents, TextClassifier
from regard.shapes import Int, Tensor
from regard.task import BatchLoss, Rows, Say, TrainingData
from regard.tasks.text_sources import Sources, TextData


class TextBatch(NamedTuple):
    """Texts and their classes."""

    documents: Documents
    labels: Int[Tensor, " B"]
    rows: NDArray[Any]

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many texts there are."""
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is."""
        return (*self.documents.tokens.shape, *self.documents.sentences.shape)

    def to(self, device: torch.device | str) -> "TextBatch":
        """Copy the tensors to a device."""
        later = torch.device(device).type == "cuda"
        return self._replace(documents=self.documents.to(device), labels=self.labels.to(device, non_blocking=later))

    def pinned(self) -> "TextBatch":
        """Copy the tensors to page-locked memory, from which a GPU copies while the host goes on."""
        return self._replace(documents=self.documents.mapped(Tensor.pin_memory), labels=self.labels.pin_memory())

    def regular(self, batch_tokens: int, longest: int) -> "TextBatch":
        """Return it as it is: steps of this task are not recorded as CUDA graphs."""
        return self

    def tensors(self) -> list[Tensor]:
        """Return what there is on a device."""
        return [*self.documents[:4], self.labels]


class TextClassObjective:
    """The cross-entropy of classes, by a run's settings."""

    reads_with_host = True

    def __init__(self, model: TextClassifier, settings: TrainingConfig) -> None:
        self._model, self._settings = model, settings

    def __call__(self, batch: TextBatch, ratio: float = 1.0) -> BatchLoss:
        """Classify texts."""
        return self.write(batch, None)

    def read(self, batch: TextBatch) -> None:
        """Leave all to `write`."""

    def write(self, batch: TextBatch, encoded: None, ratio: float = 1.0) -> BatchLoss:
        """Classify texts."""
        logits = self._model(batch.documents).float()
        smoothing = self._settings.label_smoothing
        loss = functional.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=smoothing)
        return BatchLoss(loss, loss.detach(), {}, None)

    def settle(self, reached: list[Tensor]) -> None:
        """Have nothing to settle."""

    def check(self, batch: TextBatch) -> None:
        """Have nothing to refuse."""


def open_data(config: Config, folder: Path, sources: Sources, say: Say) -> tuple[Tokenizers, TrainingData]:
    """Make vocabularies and token caches in a model folder, or take those that a resumed run made when it began."""
    texts = TextData(config, folder, sources, say, few_shapes=False)
    tokenizers, classes = texts.tokenizers, classes_of(texts.tokenizers)
    cut = SentenceEnds.of(tokenizers.source) if config.model.hierarchical else None
    _check_classes(texts, classes)
    cache = texts.open_validation()
    if sources.train is not None:
        say(f"{len(classes):,} classes: {', '.join(classes[:10])}{', …' if len(classes) > 10 else ''}")
    check_known(texts.sources.valid_pairs, classes, "the validation corpus")

    def batch(rows: Rows) -> TextBatch:
        return text_batch(texts.batch(rows), cut)

    validate = None if cache is None else TextClassValidation(cache, cut, config.training.batch_tokens, len(classes))
    known_by = texts.fingerprint(cache)
    data = TrainingData(texts.order, batch, validate, known_by, config.decoding, TextClassObjective, unit="texts")
    return tokenizers, data


def classes_of(tokenizers: Tokenizers) -> tuple[str, ...]:
    """Return the names of the classes, in the order of a model's outputs."""
    assert isinstance(tokenizers.target, Lines)
    return tokenizers.target.names


def text_batch(batch: Batch, cut: SentenceEnds | None) -> TextBatch:
    """Read a batch whose targets are one token, the class."""
    documents = as_documents(batch.source.numpy(), batch.source_mask.numpy(), cut)
    return TextBatch(documents, batch.tokens_out[:, 0] - len(MARKS), batch.rows)


def check_known(pairs: Sequence[Pair], classes: Sequence[str], where: str) -> None:
    """Raise a DataError for a class that training does not have."""
    known = {*classes}
    for number, pair in enumerate(pairs, start=1):
        if (name := " ".join(pair.target.split())) not in known:
            some = ", ".join(classes[:20])
            raise DataError(
                f"Pair {number:,} of {where} has the class {name!r}, which the training corpus does not have: "
                f"{some}{', …' if len(classes) > 20 else ''}.{did_you_mean(name, classes)}"
            )


def _check_classes(texts: TextData, classes: Sequence[str]) -> None:
    """Refuse corpora whose targets are not the names of a few classes."""
    train, corpus = texts.train, texts.sources.train
    name = "The training corpus" if corpus is None else corpus.name
    if len(classes) < 2:
        raise DataError(f"{name} has a single class, {classes[0]!r}: there is nothing to tell apart.")
    # Rare classes are left out of a full vocabulary: a row without its end mark's neighbour would then be unknown.
    if len(train) and bool((train.tokens[1][train.offsets[1][:-1]] == UNK).any()):
        raise DataError(
            f"{name} has more different targets than the {len(classes):,} that tokenizer.vocabulary leaves room for. "
            "Are they classes? To write targets instead, take a preset that translates (regard list presets)."
        )


class TextClassValidation:
    """Scores a classifier: the mean loss of a text, accuracy and macro F1 in per cent."""

    def __init__(self, cache: TokenCache, cut: SentenceEnds | None, tokens: int, classes: int) -> None:
        self._cache, self._cut, self._classes = cache, cut, classes
        ones = np.ones(len(cache), np.int64)
        self._batches = BatchOrder(cache.source_lengths, ones, tokens, seed=0).batches(0)

    def __call__(self, model: TextClassifier, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model in evaluation mode; `check` is called between batches, to be stopped by it."""
        device = next(model.parameters()).device
        total, right, chosen = 0.0, [], []
        for rows in self._batches:
            check()
            batch = text_batch(make_batch(self._cache, rows), self._cut).to(device)
            logits = model(batch.documents).float()
            total += float(functional.cross_entropy(logits, batch.labels, reduction="sum"))
            right.append(batch.labels.cpu().numpy())
            chosen.append(logits.argmax(dim=-1).cpu().numpy())
        labels, guesses = np.concatenate(right), np.concatenate(chosen)
        return {
            "valid_loss": total / len(labels),
            "accuracy": 100 * float((labels == guesses).mean()),
            "f1": 100 * macro_f1(labels, guesses, self._classes),
        }
