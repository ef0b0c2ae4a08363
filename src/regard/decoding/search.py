"""Beam search over the Decoder protocol alone; with a beam of one it is greedy search.

At each step every live hypothesis is extended by every token, and the `beam` best extensions of a sentence are kept
(Sutskever et al. 2014, section 3.2). Those that end (with the end mark, or at the longest length without one) are set
aside, ranked by the score of Wu et al. 2016; the others live on. A sentence is done when no live hypothesis can still
beat the worst of the `n_best` set aside, and then it leaves the batch.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

from regard.config import DecodingConfig
from regard.decoding.hypothesis import End, History, Hypothesis
from regard.decoding.penalties import best_length_penalty, coverage_penalty, length_penalty
from regard.errors import ConfigError, ModelError
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Bool, Float, Int, Tensor

__all__ = ["Hypothesis", "search"]

NEVER = float("-inf")
State = TypeVar("State")

SPARE = 10
"""Tokens that are allowed beyond what `decoding.max_ratio` gives: short texts vary more."""


def search(
    decoder: Decoder[State],
    encoded: Encoded,
    options: DecodingConfig,
    *,
    bos: int,
    eos: int,
    banned: Sequence[int] = (),
    prefix: Sequence[Sequence[int]] | None = None,
    n_best: int = 1,
    candidates: int = 0,
) -> list[list[Hypothesis]]:
    """Find the best `n_best` hypotheses of every sentence, best first (fewer where fewer exist).

    One that was cut off at the longest length comes after all that ended by themselves, whatever their scores: a model
    that goes round in circles is sure of every step.

    `banned` tokens are never written. `prefix` gives each sentence the tokens it must start with (they may differ in
    number, and may be banned ones); they count in lengths and scores like all others. With `candidates`, each
    hypothesis tells the most probable tokens at every one of its steps.
    """
    check_options(options, n_best, candidates)
    if not len(encoded.mask):
        return []
    with torch.inference_mode():
        rules = Rules.make(encoded.mask, options, eos, banned, prefix)
        finished = Endings(*(Finished(len(encoded.mask), n_best, encoded.mask.device) for _ in range(2)))
        history = _run(decoder, encoded, rules, finished, bos, candidates)
        ends = finished.ends(n_best)
        traced = iter(history.trace([end for group in ends for end in group], encoded.mask))
    return [[next(traced) for _ in group] for group in ends]


def check_options(options: DecodingConfig, n_best: int = 1, candidates: int = 0) -> None:
    """Raise a ConfigError for options that no search can follow."""
    if options.beam < 1:
        raise ConfigError(f"decoding.beam is {options.beam}; it must be at least 1 (1 is greedy search).")
    if n_best < 1:
        raise ConfigError(f"n_best is {n_best}; it must be at least 1.")
    if n_best > options.beam:
        raise ConfigError(
            f"n_best is {n_best} but decoding.beam is {options.beam}: a search gives at most as many hypotheses as its "
            f"beam is wide. Set the beam to {n_best} or more."
        )
    if candidates < 0:
        raise ConfigError(f"candidates is {candidates}; it must be at least 0 (0 for none).")
    if not math.isfinite(options.length_penalty):
        raise ConfigError(f"decoding.length_penalty is {options.length_penalty}; it must be a finite number.")
    if not 0 <= options.coverage_penalty < math.inf:
        raise ConfigError(f"decoding.coverage_penalty is {options.coverage_penalty}; it must be at least 0 and finite.")
    if not 0 <= options.max_ratio < math.inf:
        raise ConfigError(f"decoding.max_ratio is {options.max_ratio}; it must be at least 0 and finite.")
    if options.min_length < 0 or options.max_length < 0:
        name = "min_length" if options.min_length < 0 else "max_length"
        raise ConfigError(f"decoding.{name} is {getattr(options, name)}; it must be at least 0.")
    if 0 < options.max_length < options.min_length:
        raise ConfigError(
            f"decoding.min_length is {options.min_length} but decoding.max_length is {options.max_length}: "
            "the fewest tokens cannot be more than the most."
        )


@dataclass
class Rules:
    """What may be written where."""

    options: DecodingConfig
    eos: int
    banned: frozenset[int]
    forced: Int[Tensor, "B P"]
    """The tokens each sentence must start with, then -1."""
    limits: Int[Tensor, " B"]
    """The most tokens of each sentence, the end mark counted."""
    allowed: Bool[Tensor, " W"] | None = None
    """Which tokens are not banned; the first step shows how many there are."""

    @classmethod
    def make(
        cls,
        real: Bool[Tensor, "B S"],
        options: DecodingConfig,
        eos: int,
        banned: Sequence[int],
        prefix: Sequence[Sequence[int]] | None,
    ) -> "Rules":
        """Check the prefixes and find every sentence's longest length."""
        prefix = [()] * len(real) if prefix is None else prefix
        if len(prefix) != len(real):
            raise ConfigError(f"There are {len(real)} sentences but {len(prefix)} prefixes: give one for each.")
        longest = max(map(len, prefix), default=0)
        if any(eos in tokens for tokens in prefix):
            raise ConfigError("A prefix holds the end mark; leave it out, so that there is something to search.")
        if 0 < options.max_length < longest:
            raise ConfigError(
                f"A prefix has {longest} tokens but decoding.max_length is {options.max_length}: "
                f"set it to {longest} or more."
            )
        padded = [[*tokens, *[-1] * (longest - len(tokens))] for tokens in prefix]
        forced = torch.tensor(padded, dtype=torch.long, device=real.device).view(len(real), longest)
        limits = [
            options.max_length
            or max(math.ceil(options.max_ratio * source) + SPARE, len(tokens) + SPARE, options.min_length + 1)
            for source, tokens in zip(real.sum(dim=1).tolist(), prefix, strict=True)
        ]
        return cls(options, eos, frozenset(banned), forced, torch.tensor(limits, device=real.device))

    def _not_banned(self, size: int) -> Bool[Tensor, " W"]:
        if self.forced.numel() and int(self.forced.max()) >= size:
            raise ConfigError(f"A prefix holds token {int(self.forced.max())}, but the vocabulary has only {size}.")
        if set(range(size)) <= self.banned | ({self.eos} if self.options.min_length else set()):
            raise ConfigError(f"All {size} tokens of the vocabulary are banned, so nothing can be written.")
        return torch.tensor([token not in self.banned for token in range(size)], device=self.forced.device)

    def apply(
        self, log_probs: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N W"]:
        """Make what may not be written as token number `length` impossible; the rest keeps its probability."""
        if self.allowed is None:
            self.allowed = self._not_banned(log_probs.shape[-1])
        allowed = self.allowed
        if length <= self.options.min_length:
            allowed = allowed.clone()
            allowed[self.eos] = False
        if length <= self.forced.shape[1]:
            forced = self.forced[sentences, length - 1, None]
            asked = torch.arange(len(allowed), device=forced.device) == forced
            allowed = torch.where(forced < 0, allowed, asked)[:, None]
        return log_probs.masked_fill(~allowed, NEVER)


class Finished:
    """The best hypotheses of each sentence that have ended in one way, as places in the history; all on the device."""

    def __init__(self, sentences: int, n_best: int, device: torch.device) -> None:
        self.scores = torch.full((sentences, n_best), NEVER, device=device)
        self.lengths = torch.zeros((sentences, n_best), dtype=torch.long, device=device)
        self.slots = torch.zeros((sentences, n_best), dtype=torch.long, device=device)

    def add(self, sentences: Int[Tensor, " B"], scores: Float[Tensor, "B N"], length: int) -> Float[Tensor, " B"]:
        """Enter those that ended at this length (the others have no score); return the worst score kept."""
        slots = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
        merged = torch.cat([self.scores[sentences], scores], dim=1)
        kept, chosen = merged.topk(self.scores.shape[1], dim=1)
        self.scores[sentences] = kept
        for table, new in ((self.lengths, torch.full_like(slots, length)), (self.slots, slots)):
            table[sentences] = torch.cat([table[sentences], new], dim=1).gather(1, chosen)
        return kept[:, -1]

    def ends(self) -> list[list[End]]:
        """Return where the hypotheses of each sentence end, best first."""
        groups = zip(self.scores.tolist(), self.lengths.tolist(), self.slots.tolist(), strict=True)
        return [
            [End(number, length, slot, score) for score, length, slot in zip(*group, strict=True) if score > NEVER]
            for number, group in enumerate(groups)
        ]


class Endings(NamedTuple):
    """The two ways to end."""

    complete: Finished
    """With the end mark."""
    cut: Finished
    """At the longest length, without it."""

    def ends(self, n_best: int) -> list[list[End]]:
        """Return where the best hypotheses of each sentence end: the complete ones, then those cut off."""
        both = zip(self.complete.ends(), self.cut.ends(), strict=True)
        ends = [[*complete, *cut][:n_best] for complete, cut in both]
        if not all(ends):
            number = next(number for number, group in enumerate(ends) if not group)
            raise ModelError(
                f"The model gives every allowed translation of sentence {number + 1} no probability at all."
            )
        return ends


class Live(NamedTuple):
    """The hypotheses that are still being written: N slots for each of the B sentences still searched."""

    sentences: Int[Tensor, " B"]
    totals: Float[Tensor, "B N"]
    """Log-probability of each hypothesis; -inf where a slot is empty."""
    covered: Float[Tensor, "B N S"]
    """How much each hypothesis has looked at every source position; kept up only for the coverage penalty."""


class Choice(NamedTuple):
    """What was chosen at one step: the best extensions of all live hypotheses of a sentence."""

    tokens: Int[Tensor, "B N"]
    parents: Int[Tensor, "B N"]
    log_probs: Float[Tensor, "B N"]
    live: Live


def _run(
    decoder: Decoder[State], encoded: Encoded, rules: Rules, finished: Endings, bos: int, candidates: int
) -> History:
    """Step the decoder until every sentence is done."""
    device, count = encoded.mask.device, len(encoded.mask)
    history = History()
    numbers = list(range(count))  # the sentences still searched, as the host knows them
    live = Live(
        torch.arange(count, device=device),
        torch.zeros(count, 1, device=device),
        torch.zeros(count, 1, encoded.mask.shape[1], device=device),
    )
    state, token = decoder.start(encoded), torch.full((count,), bos, device=device)
    for length in itertools.count(1):
        step = decoder.step(token, state)
        every = step.logits.float().log_softmax(dim=-1)
        tokens, parents, log_probs, live = _extend(live, every, step.weights, rules, length)
        history.record(numbers, tokens, parents, log_probs, step.weights)
        if candidates:
            history.candidates.append(_best(every, candidates))
        live, going = _settle(live, tokens, encoded, rules, finished, length)

        # The one place where the host waits for the device: which sentences go on, and was any number not a number?
        *kept, broken = torch.cat([going, live.totals.isnan().any()[None]]).tolist()
        if broken:
            raise ModelError(
                f"The model's logits for token {length} are not finite (NaN or infinity): "
                "its weights are damaged, or its training diverged."
            )
        if not any(kept):
            break
        rows = torch.arange(len(every), device=device).view(len(numbers), -1).gather(1, parents)
        if not all(kept):
            numbers = list(itertools.compress(numbers, kept))
            places = torch.tensor(list(itertools.compress(itertools.count(), kept)), device=device)
            rows, tokens, live = rows[places], tokens[places], Live(*(part[places] for part in live))
        # A beam of one that lost no sentence stays as it is.
        moved = rules.options.beam > 1 or not all(kept)
        state = decoder.reorder(step.state, rows.flatten()) if moved else step.state
        token = tokens.flatten()
    return history


def _extend(
    live: Live, log_probs: Float[Tensor, "R W"], weights: Float[Tensor, "R L H S"], rules: Rules, length: int
) -> Choice:
    """Choose the best extensions of each sentence's hypotheses."""
    size, options = log_probs.shape[1], rules.options
    possible = rules.apply(log_probs.view(*live.totals.shape, size), length, live.sentences)
    # No sentence takes more than `beam` extensions of one hypothesis: those first, not a sum over the whole vocabulary.
    near, tokens = _best(possible.flatten(0, 1), options.beam)
    totals, chosen = _best((live.totals.view(-1, 1) + near).view(len(live.totals), -1), options.beam)
    parents = chosen // near.shape[1]
    tokens, near = (part.view(len(chosen), -1).gather(1, chosen) for part in (tokens, near))
    covered = _look(live.covered, weights, parents) if options.coverage_penalty else live.covered
    return Choice(tokens, parents, near, Live(live.sentences, totals, covered))


def _settle(
    live: Live, tokens: Int[Tensor, "B N"], encoded: Encoded, rules: Rules, finished: Endings, length: int
) -> tuple[Live, Bool[Tensor, " B"]]:
    """Set aside what has ended; tell which sentences have hypotheses left that may still beat what they have."""
    sentences, totals, covered = live
    alpha, beta = rules.options.length_penalty, rules.options.coverage_penalty
    limits = rules.limits[sentences]
    scores = totals / length_penalty(length, alpha)
    if beta:
        scores = scores + coverage_penalty(covered, encoded.mask[sentences][:, None], beta)
    complete = tokens == rules.eos
    ended = complete | (length >= limits)[:, None]
    worst = finished.complete.add(sentences, scores.masked_fill(~complete, NEVER), length)
    finished.cut.add(sentences, scores.masked_fill(complete | ~ended, NEVER), length)
    # Not masked_fill for what is no number: it must be seen.
    totals = torch.where(ended & (totals == totals), NEVER, totals)
    best = totals.amax(dim=1) / best_length_penalty(length, limits, alpha)
    return Live(sentences, totals, covered), best > worst


def _best(values: Float[Tensor, "B W"], count: int) -> tuple[Float[Tensor, "B N"], Int[Tensor, "B N"]]:
    """Return the `count` largest of each row, best first, or all where there are fewer."""
    top = values.topk(min(count, values.shape[1]), dim=1)
    return top.values, top.indices


def _look(
    covered: Float[Tensor, "B M S"], weights: Float[Tensor, "R L H S"], parents: Int[Tensor, "B N"]
) -> Float[Tensor, "B N S"]:
    """Add a step's attention (the mean over layers and heads) to what each hypothesis has looked at so far."""
    if not weights.shape[1]:
        raise ConfigError("decoding.coverage_penalty needs a model with attention, and this one has none: set it to 0.")
    looked = covered + weights.float().mean(dim=(1, 2)).view_as(covered)
    return looked.gather(1, parents[..., None].expand(-1, -1, looked.shape[2]))
