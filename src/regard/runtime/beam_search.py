"""Beam search over a step function, with NumPy: the rules are those of the search that runs with torch.

At each step the decoder scores the extensions of every live hypothesis, and the best are kept. Those that end (with the
end token, or at the maximum length without it) are set aside, ranked by the score of Wu et al. 2016; the others stay
live. A sentence is finished when no live hypothesis can beat the worst of those set aside, and then leaves the batch.
"""

import itertools
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError, ModelError
from regard.runtime.hypotheses import End, History, Hypothesis, Taken
from regard.runtime.search_options import SearchOptions
from regard.runtime.token_limits import NEVER, Floats, Ints, TokenLimits

State = TypeVar("State")
BLOCK = 32
"""Words whose largest is found first, where only a few of many words are wanted."""


class Scored(NamedTuple):
    """What a decoder says of its rows."""

    log_probs: Floats
    """Rows × words: the log-probability of each next token. It is the search's own, to write in."""
    weights: Floats | None
    """Attention: rows × layers × heads × source positions; None without attention, or if it was not asked for."""


class StepFunction(Protocol[State]):
    """A decoder: one step of it, and the choice of rows."""

    def step(self, tokens: Ints, state: State, look: bool) -> tuple[Scored, State]:
        """Read the last token of each row (first: the start token); `look` asks for attention."""

    def reorder(self, state: State, rows: Ints, within: bool) -> State:
        """Return the state whose row n is row `rows[n]`; `within` says that each stays within its sentence."""


class Live(NamedTuple):
    """The live hypotheses: N slots for each of the sentences still searched."""

    sentences: Ints
    totals: Floats
    """Log-probability of each hypothesis; -inf for a slot without one."""
    covered: Floats
    """Total attention of each hypothesis on each source position; kept up for the coverage penalty alone."""


class Finished:
    """The best finished hypotheses of each sentence, as places in the history."""

    def __init__(self, sentences: int, n_best: int) -> None:
        self.scores = np.full((sentences, n_best), NEVER)
        self.places = np.zeros((sentences, n_best, 2), np.int64)
        """Length and slot of each."""
        self.count = np.zeros(sentences, np.int64)
        """Number of hypotheses finished so far, kept or not."""

    def add(self, sentences: Ints, scores: Floats, length: int) -> Floats:
        """Add those that ended at this length (the others have score -inf); return the worst score kept."""
        self.count[sentences] += (scores > NEVER).sum(axis=1)
        new = np.empty((*scores.shape, 2), np.int64)
        new[..., 0], new[..., 1] = length, np.arange(scores.shape[1])
        every = np.concatenate([self.scores[sentences], scores], axis=1)
        places = np.concatenate([self.places[sentences], new], axis=1)
        order = np.argsort(-every, axis=1, kind="stable")[:, : self.scores.shape[1]]
        self.scores[sentences] = np.take_along_axis(every, order, axis=1)
        self.places[sentences] = np.take_along_axis(places, order[..., None], axis=1)
        worst: Floats = self.scores[sentences, -1]
        return worst

    def ends(self) -> list[list[End]]:
        """Return where the hypotheses of each sentence end, best first."""
        return [
            [End(row, int(length), int(slot), float(score)) for score, (length, slot) in own if score > NEVER]
            for row, own in enumerate(map(zip, self.scores, self.places))
        ]


def search(
    decoder: StepFunction[State],
    state: State,
    mask: NDArray[np.bool_],
    limits: TokenLimits,
    options: SearchOptions,
    n_best: int = 1,
    look: bool = True,
) -> list[list[Hypothesis]]:
    """Return `n_best` hypotheses of every sentence, best first (fewer if fewer exist).

    A hypothesis cut off at the maximum length comes after all complete ones, whatever its score. `mask` says which
    positions of each source are real.
    """
    count = len(mask)
    complete, cut = Finished(count, n_best), Finished(count, n_best)
    history = History()
    live = Live(np.arange(count), np.zeros((count, 1), np.float32), np.zeros((count, 1, mask.shape[1]), np.float32))
    tokens = np.full((count, 1), limits.start, np.int64)
    for length in itertools.count(1):
        (log_probs, weights), state = decoder.step(tokens.ravel(), state, look or options.coverage_penalty > 0)
        if np.isnan(log_probs.max(axis=1)).any():
            raise ModelError(
                f"The model's logits for token {length} are not finite (NaN or infinity): "
                "its weights are damaged, or its training diverged."
            )
        possible = log_probs.reshape(*live.totals.shape, -1)
        if weights is not None:
            before = history[-1].weights if history else None
            width = (*weights.shape[1:3], mask.shape[1]) if before is None else before.shape[1:]
            if weights.shape[1:] != width:
                raise ModelError(f"The model's attention has the shape {weights.shape[1:]}; it must be {width}.")
        limits.forbid(possible, length, live.sentences)
        totals, tokens, parents = _extend(live.totals, possible, options.beam)
        chosen = possible[np.arange(len(tokens))[:, None], parents, tokens]
        history.append(Taken(live.sentences, tokens, parents, chosen, weights if look else None))
        covered = _look(live.covered, weights, parents) if options.coverage_penalty else live.covered
        live, going = _settle(
            Live(live.sentences, totals, covered), tokens, mask, limits, options, (complete, cut), length
        )
        if not going.any():
            break
        rows = np.arange(possible.shape[0] * possible.shape[1]).reshape(possible.shape[:2])
        rows = np.take_along_axis(rows, parents, axis=1)
        within = bool(going.all()) and rows.size == log_probs.shape[0]
        if not going.all():
            rows, tokens = rows[going], tokens[going]
            live = Live(live.sentences[going], live.totals[going], live.covered[going])
        state = state if within and options.beam == 1 else decoder.reorder(state, rows.ravel(), within)
    return _traced(history, complete, cut, mask)


def _extend(totals: Floats, possible: Floats, beam: int) -> tuple[Floats, Ints, Ints]:
    """Return the best extensions of each sentence's hypotheses: their totals, tokens, and the slots they extend."""
    # At most `beam` extensions of one hypothesis are kept: take those first.
    near, words = best(possible.reshape(-1, possible.shape[2]), beam)
    ranked, chosen = best((totals.reshape(-1, 1) + near).reshape(len(totals), -1), beam)
    tokens = np.take_along_axis(words.reshape(len(totals), -1), chosen, axis=1)
    return ranked, tokens, chosen // near.shape[1]


def best(values: Floats, count: int) -> tuple[Floats, Ints]:
    """Return the `count` largest of each row, or all if there are fewer, and their places; of equal ones the first."""
    width = values.shape[1]
    blocks = width // BLOCK
    if count == 1:
        order = values.argmax(axis=1)[:, None]
    elif blocks > 2 * count:
        order = _within_blocks(values, count)
    else:
        order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    return np.take_along_axis(values, order, axis=1), order


def _within_blocks(values: Floats, count: int) -> Ints:
    """Look for the largest in the blocks with the largest maxima alone: many words are then read only once."""
    rows, width = values.shape
    whole = width // BLOCK * BLOCK
    largest = values[:, :whole].reshape(rows, -1, BLOCK).max(axis=2)
    blocks = np.sort(np.argsort(-largest, axis=1, kind="stable")[:, :count], axis=1)
    places = (blocks[..., None] * BLOCK + np.arange(BLOCK)).reshape(rows, -1)
    places = np.concatenate([places, np.broadcast_to(np.arange(whole, width), (rows, width - whole))], axis=1)
    order = np.argsort(-np.take_along_axis(values, places, axis=1), axis=1, kind="stable")[:, :count]
    return np.take_along_axis(places, order, axis=1)


def _settle(
    live: Live,
    tokens: Ints,
    mask: NDArray[np.bool_],
    limits: TokenLimits,
    options: SearchOptions,
    finished: tuple[Finished, Finished],
    length: int,
) -> tuple[Live, NDArray[np.bool_]]:
    """Set finished hypotheses aside; return the live ones, and which sentences may still improve their results."""
    sentences, totals, covered = live
    complete, longest = tokens == limits.end, limits.longest[sentences]
    ended = complete | (length >= longest)[:, None]
    scores = totals / length_penalty(length, options.length_penalty)
    if options.coverage_penalty:
        scores = scores + coverage_penalty(covered, mask[sentences][:, None], options.coverage_penalty)
    worst = finished[0].add(sentences, np.where(complete, scores, NEVER), length)
    finished[1].add(sentences, np.where(ended & ~complete, scores, NEVER), length)
    totals = np.where(ended, NEVER, totals)
    going = totals.max(axis=1) / best_length_penalty(length, longest, options.length_penalty) > worst
    if options.patience:
        going &= finished[0].count[sentences] < options.patience * options.beam
    return Live(sentences, totals, covered), going


def length_penalty(length: int, alpha: float) -> np.float32:
    """Return lp of Wu et al. 2016 (section 7) for a hypothesis of this many tokens, the end token included."""
    return np.float32(((5 + length) / 6) ** alpha)


def best_length_penalty(length: int, longest: Ints, alpha: float) -> Floats:
    """Return the largest lp that a live hypothesis of `length` tokens can have when it ends.

    A log-probability never rises, so `log P / best_length_penalty` is an upper bound of the final score. lp grows with
    the length for `alpha >= 0` and falls for `alpha < 0`: it is largest either at the limit or at the very next step.
    """
    limit = ((5 + longest) / 6).astype(np.float32) ** np.float32(alpha)
    return np.asarray(np.maximum(limit, length_penalty(length + 1, alpha)), np.float32)


def coverage_penalty(covered: Floats, real: NDArray[np.bool_], beta: float) -> Floats:
    """Return cp of Wu et al. 2016 (section 7), given the total attention on each source position over all steps.

    A position without any attention counts as the smallest normal number, so that hypotheses stay comparable.
    """
    logs = np.log(np.clip(covered, np.finfo(np.float32).tiny, 1.0))
    return np.asarray(np.float32(beta) * np.where(real, logs, np.float32(0)).sum(axis=-1), np.float32)


def _look(covered: Floats, weights: Floats | None, parents: Ints) -> Floats:
    """Add a step's attention (the mean over layers and heads) to the total of each hypothesis."""
    if weights is None or not weights.shape[1]:
        raise ConfigError("decoding.coverage_penalty needs a model with attention, but this one has none: set it to 0.")
    looked = covered + weights.mean(axis=(1, 2)).reshape(covered.shape)
    return np.take_along_axis(looked, parents[..., None], axis=1)


def _traced(history: History, complete: Finished, cut: Finished, mask: NDArray[np.bool_]) -> list[list[Hypothesis]]:
    """Trace the complete hypotheses of each sentence, and after them those cut off."""
    ends = [
        [*whole, *part][: complete.scores.shape[1]] for whole, part in zip(complete.ends(), cut.ends(), strict=True)
    ]
    if not all(ends):
        number = next(row for row, own in enumerate(ends) if not own)
        raise ModelError(f"The model gives zero probability to every allowed translation of sentence {number + 1}.")
    traced = iter(history.trace([end for own in ends for end in own], mask))
    return [[next(traced) for _ in own] for own in ends]
