"""The loop that all decoding methods share, written against the Decoder interface alone.

At each step the decoder scores the extensions of every live hypothesis, and an `ExtensionSelector` selects those to
keep. Those that end (with the end token, or at the maximum length without it) are set aside, ranked by the score of Wu
et al. 2016; the others stay live. A sentence is finished when no live hypothesis can beat the worst of those set
aside, and then leaves the batch.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

import torch

from regard.decoding.hypothesis import End, History, Hypothesis
from regard.decoding.penalties import best_length_penalty, coverage_penalty, length_penalty
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.token_limits import NEVER, Rules
from regard.errors import ConfigError, ModelError
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Bool, Float, Int, Tensor

State = TypeVar("State")


class SelectedExtensions(NamedTuple):
    """The extensions to keep at one step, M for each sentence."""

    tokens: Int[Tensor, "B M"]
    parents: Int[Tensor, "B M"]
    """The slot of the hypothesis that each one extends."""
    kept: Bool[Tensor, "B M"] | None = None
    """Which slots are filled; None for all."""


class ExtensionSelector(ABC):
    """Selects extensions. Slots are split into `groups`, each with its own list of finished hypotheses."""

    groups: int = 1
    moves: bool
    """Whether an extension may be in another slot than the hypothesis it extends."""

    @abstractmethod
    def __call__(
        self,
        totals: Float[Tensor, "B N"],
        possible: Float[Tensor, "B N W"],
        length: int,
        sentences: Int[Tensor, " B"],
    ) -> SelectedExtensions:
        """Select tokens number `length`, given each hypothesis's total and each extension's log-probability."""


class Finished:
    """The best finished hypotheses of each group, as places in the history; all on the device."""

    def __init__(self, sentences: int, groups: int, n_best: int, device: torch.device) -> None:
        self.groups = groups
        self.scores = torch.full((sentences * groups, n_best), NEVER, device=device)
        self.lengths = torch.zeros((sentences * groups, n_best), dtype=torch.long, device=device)
        self.slots = torch.zeros((sentences * groups, n_best), dtype=torch.long, device=device)
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)
        """Number of hypotheses finished so far, kept or not."""

    def add(self, sentences: Int[Tensor, " B"], scores: Float[Tensor, "B N"], length: int) -> Float[Tensor, "B G"]:
        """Add those that ended at this length (the others have score -inf); return the worst score kept."""
        slots = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
        self.count[sentences] += (scores > NEVER).sum(dim=1)
        if self.groups > 1:
            scores, slots = (part.reshape(len(sentences) * self.groups, -1) for part in (scores, slots))
            numbers = torch.arange(self.groups, device=scores.device)
            rows = (sentences[:, None] * self.groups + numbers).flatten()
        else:
            rows = sentences
        merged = torch.cat([self.scores[rows], scores], dim=1)
        kept, chosen = merged.topk(self.scores.shape[1], dim=1)
        self.scores[rows] = kept
        for table, new in ((self.lengths, torch.full_like(slots, length)), (self.slots, slots)):
            table[rows] = torch.cat([table[rows], new], dim=1).gather(1, chosen)
        return kept[:, -1].view(len(sentences), self.groups)

    def ends(self) -> list[list[End]]:
        """Return where the hypotheses of each sentence end, best first."""
        found: list[list[End]] = [[] for _ in range(len(self.scores) // self.groups)]
        tables = zip(self.scores.tolist(), self.lengths.tolist(), self.slots.tolist(), strict=True)
        for row, table in enumerate(tables):
            number = row // self.groups
            ends = (End(number, length, slot, score) for score, length, slot in zip(*table, strict=True))
            found[number] += [end for end in ends if end.score > NEVER]
        return [sorted(ends, key=lambda end: -end.score) for ends in found]


class Endings(NamedTuple):
    """Finished hypotheses, by how they ended."""

    complete: Finished
    """With the end token."""
    cut: Finished
    """At the maximum length, without the end token."""

    def ends(self, copies: int) -> list[list[End]]:
        """Return where the hypotheses of each sentence end: complete ones, then those cut off."""
        both = zip(self.complete.ends(), self.cut.ends(), strict=True)
        ends = [[*complete, *cut] for complete, cut in both]
        if not all(ends):
            raise no_translation(next(number for number, group in enumerate(ends) if not group) // copies)
        return ends


class Live(NamedTuple):
    """The live hypotheses: N slots for each of the B sentences still searched."""

    sentences: Int[Tensor, " B"]
    totals: Float[Tensor, "B N"]
    """Log-probability of each hypothesis; -inf for an empty slot."""
    covered: Float[Tensor, "B N S"]
    """Total attention of each hypothesis on each source position; updated only for the coverage penalty."""


class Outcome(NamedTuple):
    """The history of a search, and where its hypotheses end: for each sentence, best first."""

    history: History
    ends: list[list[End]]
    mask: Bool[Tensor, "B S"]

    def trace(self, ends: Sequence[Sequence[End]]) -> list[list[Hypothesis]]:
        """Reconstruct the hypotheses that end at the given places."""
        traced = iter(self.history.trace([end for group in ends for end in group], self.mask))
        return [[next(traced) for _ in group] for group in ends]


def run_search(
    decoder: Decoder[State],
    encoded: Encoded,
    rules: Rules,
    request: DecodingRequest,
    choose: ExtensionSelector,
    copies: int = 1,
) -> Outcome:
    """Run the decoder until every sentence is finished.

    With `copies`, every sentence is searched that many times: sentence n has the numbers from n * copies on.
    """
    stepping = steps(decoder, encoded, rules, request, choose, copies)
    while True:
        try:
            next(stepping)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome


def steps(
    decoder: Decoder[State],
    encoded: Encoded,
    rules: Rules,
    request: DecodingRequest,
    choose: ExtensionSelector,
    copies: int = 1,
) -> Generator[tuple[History, Float[Tensor, "B N"]], None, Outcome]:
    """Run the same search a step at a time: after each, yield the history and the totals of the chosen extensions."""
    mask = encoded.mask if copies == 1 else encoded.mask.repeat_interleave(copies, dim=0)
    device, count = mask.device, len(mask)
    finished = Endings(*(Finished(count, choose.groups, request.n_best, device) for _ in range(2)))
    history = History()
    numbers = list(range(count))  # the sentences still searched, on the host
    every_sentence = torch.arange(count, device=device)
    live = Live(
        every_sentence, torch.zeros(count, 1, device=device), torch.zeros(count, 1, mask.shape[1], device=device)
    )
    look = request.look or rules.options.coverage_penalty > 0
    state, token = decoder.start(encoded), torch.full((count,), request.bos, device=device)
    if copies > 1:
        state = decoder.reorder(state, every_sentence // copies)
    for length in itertools.count(1):
        step = decoder.step(token, state, look)
        logits = rules.shorten(step.logits.float().view(*live.totals.shape, -1), live.sentences)
        # The log-sum-exp is subtracted from the few chosen logits, not from all.
        whole = logits.logsumexp(dim=-1)
        possible = rules.apply(logits, length, live.sentences)
        tokens, parents, chosen = choose(live.totals - whole, possible, length, live.sentences)
        log_probs = possible.flatten(1).gather(1, parents * possible.shape[2] + tokens) - whole.gather(1, parents)
        history.record(numbers, tokens, parents, log_probs, step.weights if request.look else None)
        if request.candidates:
            history.candidates.append(best((logits - whole[..., None]).flatten(0, 1), request.candidates))
        totals = live.totals.gather(1, parents) + log_probs
        totals = totals if chosen is None else totals.masked_fill(~chosen, NEVER)
        covered = live.covered
        if rules.options.coverage_penalty:
            assert step.weights is not None
            covered = _look(covered, step.weights, parents)
        yield history, totals
        live, going = _settle(Live(live.sentences, totals, covered), tokens, mask, rules, finished, length)

        # Host sync (as in monotonic attention, which must know where it stopped): which sentences go on, and
        # whether there was a NaN.
        *kept, broken = torch.cat([going, live.totals.isnan().any()[None]]).tolist()
        if broken:
            raise not_finite(length)
        if not any(kept):
            break
        rows = torch.arange(len(token), device=device).view(len(numbers), -1).gather(1, parents)
        reorder = decoder.reorder_within if rows.numel() == len(token) else decoder.reorder
        if not all(kept):
            numbers = list(itertools.compress(numbers, kept))
            places = torch.tensor(list(itertools.compress(itertools.count(), kept)), device=device)
            rows, tokens, live = rows[places], tokens[places], Live(*(part[places] for part in live))
            reorder = decoder.reorder
        moved = choose.moves or not all(kept)
        state = reorder(step.state, rows.flatten()) if moved else step.state
        token = tokens.flatten()
    return Outcome(history, finished.ends(copies), mask)


def no_translation(number: int) -> ModelError:
    """Return the error for a sentence, counted from 0, without any hypothesis."""
    return ModelError(f"The model gives zero probability to every allowed translation of sentence {number + 1}.")


def not_finite(length: int) -> ModelError:
    """Return the error for logits that are NaN or infinite."""
    return ModelError(
        f"The model's logits for token {length} are not finite (NaN or infinity): "
        "its weights are damaged, or its training diverged."
    )


def _settle(
    live: Live, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "R S"], rules: Rules, finished: Endings, length: int
) -> tuple[Live, Bool[Tensor, " B"]]:
    """Set finished hypotheses aside; return the live ones, and which sentences may still improve their results."""
    sentences, totals, covered = live
    alpha, beta = rules.options.length_penalty, rules.options.coverage_penalty
    limits = rules.limits[sentences]
    scores = totals / length_penalty(length, alpha)
    if beta:
        scores = scores + coverage_penalty(covered, mask[sentences][:, None], beta)
    complete = tokens == rules.eos
    ended = complete | (length >= limits)[:, None]
    worst = finished.complete.add(sentences, scores.masked_fill(~complete, NEVER), length)
    finished.cut.add(sentences, scores.masked_fill(complete | ~ended, NEVER), length)
    # Not masked_fill: a NaN must be detected.
    totals = torch.where(ended & (totals == totals), NEVER, totals)
    bound = totals.view(*worst.shape, -1).amax(dim=2) / best_length_penalty(length, limits, alpha)[:, None]
    going = (bound > worst).any(dim=1)
    if rules.options.patience:
        going &= finished.complete.count[sentences] < rules.options.patience * rules.options.beam
    return Live(sentences, totals, covered), going


def best(values: Float[Tensor, "B W"], count: int) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"]]:
    """Return the `count` largest of each row, best first, or all if there are fewer.

    A single one is the first of equal values; which of them are among several, and in which order, is unspecified.
    """
    if count == 1:  # `topk` promises nothing about equal values, `max` does
        largest = values.max(dim=1, keepdim=True)
        return largest.values, largest.indices
    top = values.topk(min(count, values.shape[1]), dim=1)
    return top.values, top.indices


def _look(
    covered: Float[Tensor, "B M S"], weights: Float[Tensor, "R L H S"], parents: Int[Tensor, "B N"]
) -> Float[Tensor, "B N S"]:
    """Add a step's attention (the mean over layers and heads) to the total of each hypothesis."""
    if not weights.shape[1]:
        raise ConfigError("decoding.coverage_penalty needs a model with attention, but this one has none: set it to 0.")
    looked = covered + weights.float().mean(dim=(1, 2)).view_as(covered)
    return looked.gather(1, parents[..., None].expand(-1, -1, looked.shape[2]))
