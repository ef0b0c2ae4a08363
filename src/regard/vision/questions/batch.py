"""Questions as tensors: all that is asked about some pictures, with the answers and where they are to be seen."""

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
    """Some pictures, and all that is asked about them."""

    source: Tensor
    """Images, uint8 B×h×w×C, or features of regions, B×S×D."""
    mask: Bool[Tensor, "B S"] | None
    """Which regions are real; None for images."""
    tokens: Int[Tensor, "N T"]
    tokens_mask: Bool[Tensor, "N T"]
    about: Int[Tensor, " N"] | None
    """Which of the pictures each question is about; None if there are as many about each."""
    answers: Int[Tensor, " N"]
    kinds: Int[Tensor, " N"]
    held_out: Bool[Tensor, " N"]
    """Which are about combinations that training never saw."""
    gold: Bool[Tensor, "N S"] | None
    """Cells in which lies what decides the answer; None where nobody knows, a row of False where nothing does."""
    rows: NDArray[Any]
    """Which questions these are, counted through all pictures."""
    named: Bool[Tensor, "N T K"] | None = None
    """Which things of its picture each token is a name of; None where nobody knows."""
    covered: Bool[Tensor, "B K S"] | None = None
    """In which cells of a picture each of its things lies."""

    @property
    def count(self) -> int:  # type: ignore[override]  # nobody counts equal tensors
        """How many questions: what sums are divided by."""
        return len(self.answers)

    @property
    def asking(self) -> QuestionTokens:
        """What a model reads beside the images."""
        return QuestionTokens(self.tokens, self.tokens_mask, self.about)

    @property
    def features(self) -> Float[Tensor, "B ..."]:
        """What the image encoder reads: bytes become numbers here, on the device."""
        return from_pixels(self.source) if self.source.dtype == torch.uint8 else self.source

    @property
    def places(self) -> Bool[Tensor, "N T S"] | None:
        """Cells in which lies what each token is a name of; None where nobody knows."""
        if self.named is None or self.covered is None:
            return None
        each = self.count // max(len(self.covered), 1)
        covered = self.covered.repeat_interleave(each, dim=0) if self.about is None else self.covered[self.about]
        return self.named.float() @ covered.float() > 0

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is: of its pictures, and of its questions."""
        return (*self.source.shape, *self.tokens.shape)

    def tensors(self) -> list[Tensor]:
        """Return what there is on a device."""
        return [part for part in self if isinstance(part, Tensor)]

    def regular(self, batch_tokens: int, longest: int) -> "QuestionBatch":
        """Return it as it is: all but an epoch's last are of one shape."""
        return self

    def to(self, device: torch.device | str) -> "QuestionBatch":
        """Copy the tensors to a device; to a GPU the copies are under way when this returns, if they were `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "QuestionBatch":
        """Copy the tensors to memory that a GPU can copy from by itself."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "QuestionBatch":
        tensors: dict[str, Any] = {
            name: change(part) for name, part in self._asdict().items() if isinstance(part, Tensor)
        }
        return self._replace(**tensors)


class Question(NamedTuple):
    """What is asked about one picture."""

    text: str
    answer: str
    kind: str = ""
    held_out: bool = False
    gold: NDArray[np.bool_] | None = None
    """For each cell of the encoder's grid, row by row, whether what decides the answer lies in it."""


class QuestionArrays(NamedTuple):
    """All that is asked about some pictures, as numbers: one picture's questions after the other's."""

    tokens: NDArray[Any]
    """Questions × words, padded: all of one length."""
    answers: NDArray[Any]
    kinds: NDArray[Any]
    held_out: NDArray[Any]
    starts: NDArray[Any]
    """The number of each picture's first question; one more than the last at the end."""

    @classmethod
    def of(
        cls, questions: Sequence[Sequence[Question]], words: QuestionWords, answers: Sequence[str], kinds: Sequence[str]
    ) -> "QuestionArrays":
        """Encode the questions about each picture."""
        flat = [question for some in questions for question in some]
        if not flat:
            raise DataError("No question is asked about any of the pictures.")
        return cls(
            _padded([words.encode(question.text) for question in flat]),
            _numbers([question.answer for question in flat], answers, "answer"),
            _numbers([question.kind for question in flat], kinds, "kind of question"),
            np.array([question.held_out for question in flat]),
            np.cumsum([0, *(len(some) for some in questions)]),
        )

    @property
    def counts(self) -> NDArray[Any]:
        """How many questions there are about each picture."""
        return np.diff(self.starts)


class Names(NamedTuple):
    """What the tokens of questions are names of, and where in its picture that lies: bits, eight to a byte."""

    named: NDArray[Any]
    """Questions × tokens × things."""
    covered: NDArray[Any]
    """Pictures × things × cells."""
    sizes: NDArray[Any]
    """How many things, and how many cells."""

    @classmethod
    def of(cls, named: NDArray[np.bool_], covered: NDArray[np.bool_]) -> "Names":
        """Pack them."""
        sizes = np.array([covered.shape[1], covered.shape[2]])
        return cls(np.packbits(named, axis=-1), np.packbits(covered, axis=-1), sizes)

    def take(self, rows: NDArray[Any], pictures: Sequence[int] | NDArray[Any], tokens: int) -> tuple[Tensor, Tensor]:
        """Return `named` of some questions, cut after so many tokens, and `covered` of some pictures."""
        things, cells = (int(size) for size in self.sizes)
        named = np.unpackbits(self.named[rows, :tokens], axis=-1, count=things)
        covered = np.unpackbits(self.covered[np.asarray(pictures)], axis=-1, count=cells)
        return torch.from_numpy(named.view(np.bool_)), torch.from_numpy(covered.view(np.bool_))


class QuestionSet:
    """Pictures with questions, encoded once: numbers instead of words, ready to be put into batches."""

    def __init__(
        self,
        sources: Sequence[NDArray[Any]] | NDArray[Any],
        asked: QuestionArrays,
        gold: NDArray[np.bool_] | None = None,
        names: Names | None = None,
    ) -> None:
        """Take the image (uint8) or the regions (float32) of each picture, what is asked, gold cells, names."""
        if len(sources) != len(asked.counts):
            raise DataError(f"There are {len(sources)} pictures and questions about {len(asked.counts)}.")
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
        """Make one of questions in words."""
        asked = QuestionArrays.of(questions, words, answers, kinds)
        known = [question.gold for some in questions for question in some if question.gold is not None]
        if 0 < len(known) < len(asked.answers):
            raise DataError(
                f"Of {len(asked.answers)} questions, {len(known)} say where the answer is to be seen: all, or none."
            )
        return cls(sources, asked, np.stack(known) if known else None)

    def __len__(self) -> int:
        """Count the pictures."""
        return len(self.sources)

    @property
    def count(self) -> int:
        """How many questions there are."""
        return len(self.asked.answers)

    def batch(self, pictures: Sequence[int] | NDArray[Any]) -> QuestionBatch:
        """Put some pictures and all their questions together."""
        starts, counts = self.asked.starts, self.asked.counts
        rows = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in pictures])
        tokens = self.asked.tokens[rows]
        tokens = tokens[:, : max(1, int((tokens != PAD).sum(axis=1).max(initial=1)))]
        about = torch.from_numpy(np.repeat(np.arange(len(pictures)), counts[np.asarray(pictures)]))
        return self._batch(pictures, rows, tokens, about)

    def chosen(self, rows: NDArray[Any], each: int) -> QuestionBatch:
        """Put some questions together, so many about each picture, one picture after the other: it has one shape."""
        pictures = np.searchsorted(self.asked.starts, rows[::each], side="right") - 1
        return self._batch(pictures, rows, self.asked.tokens[rows], None)

    def batches(self, pictures: int) -> Iterator[QuestionBatch]:
        """Go through all pictures, so many at a time; where none of these has a question, there is no batch."""
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
    """Stack images, which must be of one size, or regions, of which there may be more or fewer."""
    if isinstance(sources, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(sources[np.asarray(which)])), None
    some = [sources[i] for i in which]
    if some[0].dtype == np.uint8:
        if len(sizes := {source.shape for source in some}) > 1:
            raise DataError(f"Images of {len(sizes)} sizes cannot be in one batch: read them with one size.")
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
