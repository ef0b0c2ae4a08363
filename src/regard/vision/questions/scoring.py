"""What training makes small, what a model answers, and how often that is right: by kind, and by what is new."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

from regard.models.inference_mode import inference_mode
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.grid_positions import Grid
from regard.vision.questions.base import Answerer, AnswererOutput
from regard.vision.questions.batch import QuestionBatch


class AnswerLoss(NamedTuple):
    """Sums over the questions of a batch."""

    total: Float[Tensor, ""]
    """The cross-entropy of the right answers, label smoothing included."""
    right: Int[Tensor, ""]
    """How many answers are right."""
    astray: Float[Tensor, ""] | None
    """How far looks were from what is named, where that was asked for."""


def question_loss(
    model: Answerer, batch: QuestionBatch, label_smoothing: float = 0.0, guided: tuple[int, int] | None = None
) -> AnswerLoss:
    """Run the model over a batch; `guided` is the layer and the head (-1: all) held to what is named."""
    logits, weights = model.answer(model.encode(batch.features, batch.asking, batch.mask), batch.asking, bool(guided))
    logits = logits.float()
    total = functional.cross_entropy(logits, batch.answers, reduction="sum", label_smoothing=label_smoothing)
    right = (logits.detach().argmax(dim=1) == batch.answers).sum()
    if guided is None or (places := batch.places) is None:
        return AnswerLoss(total, right, None)
    assert weights is not None
    return AnswerLoss(total, right, astray(weights, places, *guided))


def astray(
    weights: Float[Tensor, "N _ L H S"], places: Bool[Tensor, "N T S"], layer: int, head: int
) -> Float[Tensor, ""]:
    r"""Sum over the words that name something how improbable it is that their look falls on a cell of it.

    .. math:: -\sum_t \log \sum_{s \in G_t} \alpha_{ts}

    Of one layer, and of one head or their mean (-1). A question that looks as one (top-down) is to look at all that is
    named. Words that name nothing, or nothing that is there, do not count.
    """
    if weights.shape[1] == 1:
        places = places.any(dim=1, keepdim=True)
    looks = weights[:, :, layer].float()
    chosen = looks.mean(dim=2) if head < 0 else looks[:, :, head]
    found = (chosen * places).sum(dim=2).clamp(min=1e-6)
    return -(found.log() * places.any(dim=2)).sum()


class Answer(NamedTuple):
    """What a model says to one question."""

    answer: str
    probability: float
    others: tuple[tuple[str, float], ...]
    """The next best answers with their probabilities."""
    weights: Float[Tensor, "T L H S"] | None
    """Where each token looked, the mark before the question first; top-down: T = 1. On the CPU."""
    grid: Grid


@torch.inference_mode()
def predict(
    model: Answerer, batch: QuestionBatch, answers: Sequence[str], look: bool = True, top: int = 3
) -> list[Answer]:
    """Answer every question of a batch; padding is cut from its weights."""
    seen = model.see(batch.features, batch.asking, batch.mask, look)
    chances, chosen = torch.softmax(seen.logits.float(), dim=1).topk(min(top, seen.logits.shape[1]), dim=1)
    weights = None if seen.weights is None else seen.weights.float().cpu()
    steps = batch.tokens_mask.sum(dim=1).tolist()
    real = None if batch.mask is None else _regions(batch)
    said = []
    for n, (numbers, shares) in enumerate(zip(chosen.tolist(), chances.tolist(), strict=True)):
        named = [(answers[number], share) for number, share in zip(numbers, shares, strict=True)]
        cut = None if weights is None else weights[n, : steps[n], ..., : None if real is None else real[n]]
        grid = seen.grid if real is None else (1, real[n])
        said.append(Answer(*named[0], tuple(named[1:]), cut, grid))
    return said


def _regions(batch: QuestionBatch) -> list[int]:
    """Count the real regions of each question's image."""
    assert batch.mask is not None
    counts = batch.mask.sum(dim=1)
    each = batch.count // len(counts)
    numbers = counts.repeat_interleave(each) if batch.about is None else counts[batch.about]
    return [int(number) for number in numbers.tolist()]


def looked_at(weights: Float[Tensor, "N T L H S"], mask: Bool[Tensor, "N _"]) -> Float[Tensor, "N S"]:
    """Say how much each cell was looked at: in all layers and heads, by all real tokens together; sums to one."""
    if weights.shape[1] == 1:
        return weights.mean(dim=(1, 2, 3))  # the question looks as one
    by_token = weights.mean(dim=(2, 3))
    return (by_token * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def hits(
    seen: AnswererOutput, batch: QuestionBatch, layer: int | None = None, head: int | None = None
) -> tuple[Bool[Tensor, " N"], Bool[Tensor, " N"]]:
    """Tell for which questions the cell most looked at is a gold one, and for which there is any.

    All looks count, or those of one layer or head.
    """
    if batch.gold is None or seen.weights is None or seen.weights.shape[2] == 0:
        none = torch.zeros_like(batch.held_out)
        return none, none
    weights = seen.weights if layer is None else seen.weights[:, :, layer, None]
    weights = weights if head is None else weights[:, :, :, head, None]
    peak = looked_at(weights, batch.tokens_mask).argmax(dim=1)
    return batch.gold.gather(1, peak[:, None])[:, 0], batch.gold.any(dim=1)


class Share(NamedTuple):
    """So many of so many."""

    right: int
    whole: int

    @property
    def value(self) -> float:
        """The share, from 0 to 1; nan of nothing."""
        return self.right / self.whole if self.whole else float("nan")


class QuestionScores:
    """Counts what was right: by kind, for what is familiar and what is new; and how often the attention was."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._counts = torch.zeros(len(kinds), 2, 4, dtype=torch.long)
        """By kind, and by whether it is new: questions, right answers, those with a gold cell, and hits of these."""
        self._loss, self.count = 0.0, 0

    def add(
        self, seen: AnswererOutput, batch: QuestionBatch, layer: int | None = None, head: int | None = None
    ) -> None:
        """Count a batch; `layer` and `head` say whose looks count."""
        right = seen.logits.argmax(dim=1) == batch.answers
        hit, there = hits(seen, batch, layer, head)
        told = torch.stack([torch.ones_like(right), right, there, hit & there], dim=1).long().cpu()
        cell = (batch.kinds * 2 + batch.held_out).cpu()
        self._counts.view(-1, 4).index_add_(0, cell, told)
        self._loss += float(functional.cross_entropy(seen.logits.float(), batch.answers, reduction="sum"))
        self.count += batch.count

    def include(self, other: "QuestionScores") -> None:
        """Count what was counted of other questions, too."""
        self._counts += other._counts
        self._loss += other._loss
        self.count += other.count

    def accuracy(self, kind: str | None = None, held_out: bool | None = None) -> Share:
        """Return the share of right answers, of all or one kind, of all or of what is (or is not) new."""
        count, right, _, _ = self._of(kind, held_out)
        return Share(right, count)

    def hit(self, kind: str | None = None, held_out: bool | None = None) -> Share:
        """Return for which share of the questions that have a gold cell the cell most looked at is one."""
        _, _, there, hit = self._of(kind, held_out)
        return Share(hit, there)

    def summary(self) -> dict[str, float]:
        """Return all that there is to report; what nothing was counted for is left out."""
        found = {"valid_loss": self._loss / max(self.count, 1)}
        for name, new in (("", None), ("_familiar", False), ("_held_out", True)):
            shares = {"accuracy": self.accuracy(None, new), "hit": self.hit(None, new)}
            shares |= {f"accuracy_{kind}": self.accuracy(kind, new) for kind in self.kinds if kind}
            found |= {f"{score}{name}": share.value for score, share in shares.items() if share.whole}
        return found

    def table(self) -> str:
        """Lay the accuracies out, kind by kind, in percent."""
        heads = ("all", "familiar", "held out", "hit", "questions")
        lines = [f"{'':12}" + "".join(f"{head:>11}" for head in heads)]
        for kind in (*self.kinds, None):
            shares = [self.accuracy(kind), self.accuracy(kind, False), self.accuracy(kind, True), self.hit(kind)]
            numbers = "".join(f"{100 * share.value:11.2f}" if share.whole else f"{'-':>11}" for share in shares)
            lines.append(f"{kind or 'all':12}{numbers}{shares[0].whole:11,}")
        return "\n".join(lines)

    def _of(self, kind: str | None, held_out: bool | None) -> list[int]:
        counts = self._counts if kind is None else self._counts[self.kinds.index(kind)][None]
        chosen = counts if held_out is None else counts[:, int(held_out)][:, None]
        return [int(number) for number in chosen.sum(dim=(0, 1))]


def score_questions(
    model: Answerer,
    batches: Iterable[QuestionBatch],
    kinds: Sequence[str],
    device: torch.device | str = "cpu",
    look: bool = True,
) -> QuestionScores:
    """Let a model answer all questions, and count; the model is left in the mode in which it was.

    Without `look`, nothing is known of where it looked, which takes less time.
    """
    scores = QuestionScores(kinds)
    with inference_mode(model):
        for batch in batches:
            here = batch.to(device)
            scores.add(model.see(here.features, here.asking, here.mask, look), here)
    return scores


def blind_guess(
    answers: Int[Tensor, " N"], questions: Sequence[str], asked: Sequence[str], size: int
) -> Int[Tensor, " M"]:
    """Answer without looking: the commonest training answer to the same words, or of all where the words are new."""
    counts: dict[str, Tensor] = {}
    for text, answer in zip(questions, answers.tolist(), strict=True):
        counts.setdefault(text, torch.zeros(size, dtype=torch.long))[answer] += 1
    common = torch.bincount(answers, minlength=size)
    return torch.stack([counts.get(text, common).argmax() for text in asked])
