"""Questions as tensors: those about some pictures, with their answers and the cells that show them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import DataError, did_you_mean
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.pixels import from_pixels
from regard.vision.questions.base import QuestionTokens
from regard.vision.questions.question_words import PAD, QuestionWords


class QuestionBatch(NamedTuple):
    """Some pictures, and all questions about them."""

    source: Tensor
    """Images, uint8 B×h×w×C, or features of regions, B×S×D."""
    mask: Bool[Tensor, "B S"] | None
    """Which regions are real; None for images."""
    tokens: Int[Tensor, "N T"]
    tokens_mask: Bool[Tensor, "N T"]
    about: Int[Tensor, " N"] | None
    """Index of the picture that each question is about; None if each has the same number of questions."""
    answers: Int[Tensor, " N"]
    kinds: Int[Tensor, " N"]
    held_out: Bool[Tensor, " N"]
    """Which are about combinations that are not in the training data."""
    gold: Bool[Tensor, "N S"] | None
    """Cells that show what decides the answer; None if unknown, a row of False if there are none."""
    rows: NDArray[Any]
    """Indices of the questions, counted over all pictures."""
    named: Bool[Tensor, "N T K"] | None = None
    """Which objects of its picture each token names; None if unknown."""
    covered: Bool[Tensor, "B K S"] | None = None
    """Which cells of a picture each of its objects covers."""

    @property
    def count(self) -> int:  # type: ignore[override]  # hides the tuple's own `count`, which is not used
        """Number of questions: the divisor of sums."""
        return len(self.answers)

    @property
    def asking(self) -> QuestionTokens:
        """The questions, as input of a model."""
        return QuestionTokens(self.tokens, self.tokens_mask, self.about)

    @property
    def features(self) -> Float[Tensor, "B ..."]:
        """The image encoder's input; bytes are converted here, on the device."""
        return from_pixels(self.source) if self.source.dtype == torch.uint8 else self.source

    @property
    def places(self) -> Bool[Tensor, "N T S"] | None:
        """Cells covered by what each token names; None if unknown."""
        if self.named is None or self.covered is None:
            return None
        each = self.count // max(len(self.covered), 1)
        covered = self.covered.repeat_interleave(each, dim=0) if self.about is None else self.covered[self.about]
        return self.named.float() @ covered.float() > 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the pictures and of the questions; batches of one shape share a CUDA graph."""
        return (*self.source.shape, *self.tokens.shape)

    def tensors(self) -> list[Tensor]:
        """Return the tensors."""
        return [part for part in self if isinstance(part, Tensor)]

    def regular(self, batch_tokens: int, longest: int) -> "QuestionBatch":
        """Return the batch unchanged: all but an epoch's last have one shape."""
        return self

    def to(self, device: torch.device | str) -> "QuestionBatch":
        """Copy the tensors to a device; asynchronously to a GPU, if they are `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "QuestionBatch":
        """Copy the tensors to page-locked memory, for asynchronous copies to a GPU."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "QuestionBatch":
        tensors: dict[str, Any] = {
            name: change(part) for name, part in self._asdict().items() if isinstance(part, Tensor)
        }
        return self._replace(**tensors)


class Question(NamedTuple):
    """A question about one picture."""

    text: str
    answer: str
    kind: str = ""
    held_out: bool = False
    gold: NDArray[np.bool_] | None = None
    """For each cell of the encoder's grid, row by row, whether it shows what decides the answer."""


class QuestionArrays(NamedTuple):
    """All questions about some pictures as arrays, one picture's questions after the other's."""

    tokens: NDArray[Any]
    """Questions × words, padded to one length."""
    answers: NDArray[Any]
    kinds: NDArray[Any]
    held_out: NDArray[Any]
    starts: NDArray[Any]
    """Index of each picture's first question, and the total at the end."""

    @classmethod
    def of(
        cls, questions: Sequence[Sequence[Question]], words: QuestionWords, answers: Sequence[str], kinds: Sequence[str]
    ) -> "QuestionArrays":
        """Encode the questions about each picture."""
        flat = [question for some in questions for question in some]
        if not flat:
            raise DataError("None of the pictures has a question.")
        return cls(
            _padded([words.encode(question.text) for question in flat]),
            _numbers([question.answer for question in flat], answers, "answer"),
            _numbers([question.kind for question in flat], kinds, "kind of question"),
            np.array([question.held_out for question in flat]),
            np.cumsum([0, *(len(some) for some in questions)]),
        )

    @property
    def counts(self) -> NDArray[Any]:
        """Number of questions about each picture."""
        return np.diff(self.starts)


class Names(NamedTuple):
    """What the tokens of questions name, and which cells that covers: bits, eight to a byte."""

    named: NDArray[Any]
    """Questions × tokens × objects."""
    covered: NDArray[Any]
    """Pictures × objects × cells."""
    sizes: NDArray[Any]
    """Number of objects, and of cells."""

    @classmethod
    def of(cls, named: NDArray[np.bool_], covered: NDArray[np.bool_]) -> "Names":
        """Pack the masks into bits."""
        sizes = np.array([covered.shape[1], covered.shape[2]])
        return cls(np.packbits(named, axis=-1), np.packbits(covered, axis=-1), sizes)

    def take(self, rows: NDArray[Any], pictures: Sequence[int] | NDArray[Any], tokens: int) -> tuple[Tensor, Tensor]:
        """Return `named` of some questions, truncated to `tokens`, and `covered` of some pictures."""
        things, cells = (int(size) for size in self.sizes)
        named = np.unpackbits(self.named[rows, :tokens], axis=-1, count=things)
        covered = np.unpackbits(self.covered[np.asarray(pictures)], axis=-1, count=cells)
        return torch.from_numpy(named.view(np.bool_)), torch.from_numpy(covered.view(np.bool_))


class QuestionSet:
    """Pictures with encoded questions, ready for batching."""

    def __init__(
        self,
        sources: Sequence[NDArray[Any]] | NDArray[Any],
        asked: QuestionArrays,
        gold: NDArray[np.bool_] | None = None,
        names: Names | None = None,
    ) -> None:
        """Take each picture's image (uint8) or regions (float32), the questions, the gold cells, and the names."""
        if len(sources) != len(asked.counts):
            raise DataError(f"There are {len(sources)} pictures, but questions about {len(asked.counts)}.")
        self.sources, self.asked, self._gold, self._names = sources, asked, gold, names

    @classmethod
    def of(
        cls,
        sources: Sequence[NDArray[Any]] | NDArray[Any],
        questions: Sequence[Sequence[Question]],
        words: QuestionWords,
        answers: Sequence[str],
        kinds: Sequence[str] = ("",),
    ) -> "QuestionSet":
        """Build a set from questions as text."""
        asked = QuestionArrays.of(questions, words, answers, kinds)
        known = [question.gold for some in questions for question in some if question.gold is not None]
        if 0 < len(known) < len(asked.answers):
            raise DataError(
                f"Of {len(asked.answers)} questions, {len(known)} have gold cells: give them to all, or to none."
            )
        return cls(sources, asked, np.stack(known) if known else None)

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.sources)

    @property
    def count(self) -> int:
        """Number of questions."""
        return len(self.asked.answers)

    def batch(self, pictures: Sequence[int] | NDArray[Any]) -> QuestionBatch:
        """Return a batch of some pictures with all their questions."""
        starts, counts = self.asked.starts, self.asked.counts
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in pictures])
        tokens = self.asked.tokens[rows]
        tokens = tokens[:, : max(1, int((tokens != PAD).sum(axis=1).max(initial=1)))]
        about = torch.from_numpy(np.repeat(np.arange(len(pictures)), counts[np.asarray(pictures)]))
        return self._batch(pictures, rows, tokens, about)

    def chosen(self, rows: NDArray[Any], each: int) -> QuestionBatch:
        """Return a batch of some questions, `each` per picture, one picture after the other, of a fixed shape."""
        pictures = np.searchsorted(self.asked.starts, rows[::each], side="right") - 1
        return self._batch(pictures, rows, self.asked.tokens[rows], None)

    def batches(self, pictures: int) -> Iterator[QuestionBatch]:
        """Iterate over all pictures in batches; a batch without any question is skipped."""
        for first in range(0, len(self), pictures):
            some = np.arange(first, min(first + pictures, len(self)))
            if self.asked.counts[some].any():
                yield self.batch(some)

    def _batch(
        self, pictures: Sequence[int] | NDArray[Any], rows: NDArray[Any], tokens: NDArray[Any], about: Tensor | None
    ) -> QuestionBatch:
        source, mask = _stack(self.sources, pictures)
        read = torch.from_numpy(tokens.astype(np.int64))
        asked = self.asked
        named, covered = (None, None) if self._names is None else self._names.take(rows, pictures, read.shape[1])
        return QuestionBatch(
            source,
            mask,
            read,
            read != PAD,
            about,
            torch.from_numpy(asked.answers[rows].astype(np.int64)),
            torch.from_numpy(asked.kinds[rows].astype(np.int64)),
            torch.from_numpy(asked.held_out[rows].astype(np.bool_)),
            None if self._gold is None else torch.from_numpy(self._gold[rows]),
            rows,
            named,
            covered,
        )


def _padded(sentences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    padded = np.full((len(sentences), max(map(len, sentences))), PAD, np.int32)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded


def _stack(
    sources: Sequence[NDArray[Any]] | NDArray[Any], which: Sequence[int] | NDArray[Any]
) -> tuple[Tensor, Bool[Tensor, "B S"] | None]:
    """Stack images, which must have one size, or regions, padded to the largest number."""
    if isinstance(sources, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(sources[np.asarray(which)])), None
    some = [sources[i] for i in which]
    if some[0].dtype == np.uint8:
        if len(sizes := {source.shape for source in some}) > 1:
            raise DataError(f"Images of {len(sizes)} sizes cannot be in one batch: read them all at one size.")
        return torch.from_numpy(np.stack(some)), None
    most = max(len(source) for source in some)
    stacked = torch.zeros(len(some), most, some[0].shape[1])
    mask = torch.zeros(len(some), most, dtype=torch.bool)
    for row, real, source in zip(stacked, mask, some, strict=True):
        row[: len(source)] = torch.from_numpy(source)
        real[: len(source)] = True
    return stacked, mask


def _numbers(given: Sequence[str], names: Sequence[str], noun: str) -> NDArray[np.int64]:
    numbers = {name: number for number, name in enumerate(names)}
    for name in given:
        if name not in numbers:
            raise DataError(f"No {noun} is {name!r}.{did_you_mean(name, names)} There are {', '.join(names)}.")
    return np.array([numbers[name] for name in given], np.int64)
