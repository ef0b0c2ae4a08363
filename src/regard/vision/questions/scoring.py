"""Loss, predictions and scores of question answering: by kind of question, and for held-out combinations."""

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
    """Cross-entropy of the right answers, with label smoothing."""
    right: Int[Tensor, ""]
    """Number of right answers."""
    astray: Float[Tensor, ""] | None
    """The loss of guided attention, if requested."""


def question_loss(
    model: Answerer, batch: QuestionBatch, label_smoothing: float = 0.0, guided: tuple[int, int] | None = None
) -> AnswerLoss:
    """Run the model over a batch; `guided` is the layer and the head (-1: all) to guide to the named objects."""
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
    r"""Sum over the words that name something the negative log of the attention on the cells that it covers.

    .. math:: -\sum_t \log \sum_{s \in G_t} \alpha_{ts}

    The weights are those of one layer, and of one head or the mean of heads (-1). A question with one set of weights
    (top-down) is guided to all that is named. Words that name nothing, or nothing in the picture, do not count.
    """
    if weights.shape[1] == 1:
        places = places.any(dim=1, keepdim=True)
    looks = weights[:, :, layer].float()
    chosen = looks.mean(dim=2) if head < 0 else looks[:, :, head]
    found = (chosen * places).sum(dim=2).clamp(min=1e-6)
    return -(found.log() * places.any(dim=2)).sum()


class Answer(NamedTuple):
    """A model's answer to one question."""

    answer: str
    probability: float
    others: tuple[tuple[str, float], ...]
    """The next best answers with their probabilities."""
    weights: Float[Tensor, "T L H S"] | None
    """Attention weights of each token, the question token first; top-down: T = 1. On the CPU."""
    grid: Grid


@torch.inference_mode()
def predict(
    model: Answerer, batch: QuestionBatch, answers: Sequence[str], look: bool = True, top: int = 3
) -> list[Answer]:
    """Answer every question of a batch; padding is removed from the weights."""
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
    """Return the number of real regions of each question's image."""
    assert batch.mask is not None
    counts = batch.mask.sum(dim=1)
    each = batch.count // len(counts)
    numbers = counts.repeat_interleave(each) if batch.about is None else counts[batch.about]
    return [int(number) for number in numbers.tolist()]


def looked_at(weights: Float[Tensor, "N T L H S"], mask: Bool[Tensor, "N _"]) -> Float[Tensor, "N S"]:
    """Return the attention on each cell, averaged over layers, heads and real tokens; sums to one."""
    if weights.shape[1] == 1:
        return weights.mean(dim=(1, 2, 3))  # one set of weights for the whole question
    by_token = weights.mean(dim=(2, 3))
    return (by_token * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)


def hits(
    seen: AnswererOutput, batch: QuestionBatch, layer: int | None = None, head: int | None = None
) -> tuple[Bool[Tensor, " N"], Bool[Tensor, " N"]]:
    """Return for which questions the cell with most attention is a gold one, and which questions have gold cells.

    Counts all layers and heads, or one layer or head.
    """
    if batch.gold is None or seen.weights is None or seen.weights.shape[2] == 0:
        none = torch.zeros_like(batch.held_out)
        return none, none
    weights = seen.weights if layer is None else seen.weights[:, :, layer, None]
    weights = weights if head is None else weights[:, :, :, head, None]
    peak = looked_at(weights, batch.tokens_mask).argmax(dim=1)
    return batch.gold.gather(1, peak[:, None])[:, 0], batch.gold.any(dim=1)


class Share(NamedTuple):
    """A count out of a total."""

    right: int
    whole: int

    @property
    def value(self) -> float:
        """The ratio, from 0 to 1; NaN if the total is 0."""
        return self.right / self.whole if self.whole else float("nan")


class QuestionScores:
    """Counts right answers and attention hits: by kind, and for familiar and held-out combinations."""

    def __init__(self, kinds: Sequence[str]) -> None:
        self.kinds = tuple(kinds)
        self._counts = torch.zeros(len(kinds), 2, 4, dtype=torch.long)
        """By kind, and by whether held out: questions, right answers, questions with gold cells, and their hits."""
        self._loss, self.count = 0.0, 0

    def add(
        self, seen: AnswererOutput, batch: QuestionBatch, layer: int | None = None, head: int | None = None
    ) -> None:
        """Count a batch; `layer` and `head` restrict whose attention counts."""
        right = seen.logits.argmax(dim=1) == batch.answers
        hit, there = hits(seen, batch, layer, head)
        flags = torch.stack([torch.ones_like(right), right, there, hit & there], dim=1).long().cpu()
        cell = (batch.kinds * 2 + batch.held_out).cpu()
        self._counts.view(-1, 4).index_add_(0, cell, flags)
        self._loss += float(functional.cross_entropy(seen.logits.float(), batch.answers, reduction="sum"))
        self.count += batch.count

    def include(self, other: "QuestionScores") -> None:
        """Count what was counted of other questions, too."""
        self._counts += other._counts
        self._loss += other._loss
        self.count += other.count

    def accuracy(self, kind: str | None = None, held_out: bool | None = None) -> Share:
        """Return the share of right answers, overall or by kind, for all, held-out or familiar combinations."""
        count, right, _, _ = self._of(kind, held_out)
        return Share(right, count)

    def hit(self, kind: str | None = None, held_out: bool | None = None) -> Share:
        """Return the share of questions with gold cells whose most attended cell is one."""
        _, _, there, hit = self._of(kind, held_out)
        return Share(hit, there)

    def summary(self) -> dict[str, float]:
        """Return all scores; those with nothing counted are left out."""
        found = {"valid_loss": self._loss / max(self.count, 1)}
        for name, new in (("", None), ("_familiar", False), ("_held_out", True)):
            shares = {"accuracy": self.accuracy(None, new), "hit": self.hit(None, new)}
            shares |= {f"accuracy_{kind}": self.accuracy(kind, new) for kind in self.kinds if kind}
            found |= {f"{score}{name}": share.value for score, share in shares.items() if share.whole}
        return found

    def table(self) -> str:
        """Format the accuracies as a table, by kind, in percent."""
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
    """Answer all questions and count; the model's mode is restored.

    With `look=False` attention is not scored, which is faster.
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
    """Guess without the image: the commonest training answer to the same question, or to all if it is new."""
    counts: dict[str, Tensor] = {}
    for text, answer in zip(questions, answers.tolist(), strict=True):
        counts.setdefault(text, torch.zeros(size, dtype=torch.long))[answer] += 1
    common = torch.bincount(answers, minlength=size)
    return torch.stack([counts.get(text, common).argmax() for text in asked])
