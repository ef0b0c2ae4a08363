"""Questions as tensors: all that is asked about some pictures, with the answers and where they are to be seen."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import DataError, did_you_mean
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.pixels import from_pixels
from regard.vision.questions.base import Asking
from regard.vision.questions.words import PAD, QuestionWords


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

    @property
    def count(self) -> int:  # type: ignore[override]  # nobody counts equal tensors
        """How many questions: what sums are divided by."""
        return len(self.answers)

    @property
    def asking(self) -> Asking:
        """What a model reads beside the images."""
        return Asking(self.tokens, self.tokens_mask, self.about)

    @property
    def features(self) -> Float[Tensor, "B ..."]:
        """What the image encoder reads: bytes become numbers here, on the device."""
        return from_pixels(self.source) if self.source.dtype == torch.uint8 else self.source

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


class QuestionSet:
    """Pictures with questions, encoded once: numbers instead of words, ready to be put into batches."""

    def __init__(
        self,
        sources: Sequence[NDArray[Any]] | NDArray[Any],
        questions: Sequence[Sequence[Question]],
        words: QuestionWords,
        answers: Sequence[str],
        kinds: Sequence[str] = ("",),
    ) -> None:
        """Take the image (uint8) or the regions (float32) of each picture, and what is asked about it."""
        if len(sources) != len(questions):
            raise DataError(f"There are {len(sources)} pictures and questions about {len(questions)}.")
        self.sources, self.answers, self.kinds = sources, tuple(answers), tuple(kinds)
        flat = [question for some in questions for question in some]
        if not flat:
            raise DataError("No question is asked about any of the pictures.")
        self._tokens = _padded([words.encode(question.text) for question in flat])
        self._answers = _numbers([question.answer for question in flat], self.answers, "answer")
        self._kinds = _numbers([question.kind for question in flat], self.kinds, "kind of question")
        self._held_out = np.array([question.held_out for question in flat])
        known = [question.gold for question in flat if question.gold is not None]
        if 0 < len(known) < len(flat):
            raise DataError(f"Of {len(flat)} questions, {len(known)} say where the answer is to be seen: all, or none.")
        self._gold = np.stack(known) if known else None
        self.starts = np.cumsum([0, *(len(some) for some in questions)])
        """The number of each picture's first question; one more than the last at the end."""

    def __len__(self) -> int:
        """Count the pictures."""
        return len(self.sources)

    @property
    def count(self) -> int:
        """How many questions there are."""
        return len(self._tokens)

    def batch(self, pictures: Sequence[int] | NDArray[Any]) -> QuestionBatch:
        """Put some pictures and all their questions together."""
        counts = [self.starts[i + 1] - self.starts[i] for i in pictures]
        rows = np.concatenate([np.arange(self.starts[i], self.starts[i + 1]) for i in pictures])
        tokens = self._tokens[rows]
        tokens = tokens[:, : max(1, int((tokens != PAD).sum(axis=1).max(initial=1)))]
        about = torch.from_numpy(np.repeat(np.arange(len(pictures)), counts))
        return self._batch(pictures, rows, tokens, about)

    def draw(self, pictures: Sequence[int] | NDArray[Any], each: int, chance: np.random.Generator) -> QuestionBatch:
        """Draw so many questions about each picture, some twice only where there are fewer: all batches have one shape.

        There must be at least one about each.
        """
        rows = []
        for i in pictures:
            asked = np.arange(self.starts[i], self.starts[i + 1])
            if not len(asked):
                raise DataError(f"No question is asked about picture {i}.")
            rows.append(np.resize(chance.permutation(asked), each))
        chosen = np.concatenate(rows)
        return self._batch(pictures, chosen, self._tokens[chosen], None)

    def batches(self, pictures: int, seed: int | None = None, epoch: int = 0, each: int = 0) -> Iterator[QuestionBatch]:
        """Go through all pictures, so many at a time, in an order that seed and epoch decide; in theirs without.

        With `each`, so many questions are drawn about each picture, and pictures that do not fill a batch are left out.
        """
        order, chance = np.arange(len(self)), np.random.default_rng((seed or 0, epoch))
        if seed is not None:
            order = chance.permutation(order)
        for first in range(0, len(self), pictures):
            chosen = order[first : first + pictures]
            if each and len(chosen) == pictures:
                yield self.draw(chosen, each, chance)
            elif not each and (self.starts[chosen + 1] > self.starts[chosen]).any():
                yield self.batch(chosen)

    def _batch(
        self, pictures: Sequence[int] | NDArray[Any], rows: NDArray[Any], tokens: NDArray[Any], about: Tensor | None
    ) -> QuestionBatch:
        source, mask = _stack([self.sources[i] for i in pictures])
        read = torch.from_numpy(tokens.astype(np.int64))
        return QuestionBatch(
            source,
            mask,
            read,
            read != PAD,
            about,
            torch.from_numpy(self._answers[rows]),
            torch.from_numpy(self._kinds[rows]),
            torch.from_numpy(self._held_out[rows]),
            None if self._gold is None else torch.from_numpy(self._gold[rows]),
            rows,
        )


def _padded(sentences: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    padded = np.full((len(sentences), max(map(len, sentences))), PAD, np.int32)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded


def _stack(sources: Sequence[NDArray[Any]]) -> tuple[Tensor, Bool[Tensor, "B S"] | None]:
    """Stack images, which must be of one size, or regions, of which there may be more or fewer."""
    if sources[0].dtype == np.uint8:
        if len(sizes := {source.shape for source in sources}) > 1:
            raise DataError(f"Images of {len(sizes)} sizes cannot be in one batch: read them with one size.")
        return torch.from_numpy(np.stack(sources)), None
    most = max(len(source) for source in sources)
    stacked = torch.zeros(len(sources), most, sources[0].shape[1])
    mask = torch.zeros(len(sources), most, dtype=torch.bool)
    for row, real, source in zip(stacked, mask, sources, strict=True):
        row[: len(source)] = torch.from_numpy(source)
        real[: len(source)] = True
    return stacked, mask


def _numbers(given: Sequence[str], names: Sequence[str], noun: str) -> NDArray[np.int64]:
    numbers = {name: number for number, name in enumerate(names)}
    for name in given:
        if name not in numbers:
            raise DataError(f"No {noun} is {name!r}.{did_you_mean(name, names)} There are {', '.join(names)}.")
    return np.array([numbers[name] for name in given], np.int64)
