"""Beam search with terms that must occur, by dynamic beam allocation (Post & Vilar 2018).

The beam proceeds as it would without terms. Beside it there are further slots for hypotheses that are forced to
generate terms: at every step each hypothesis is also extended by every token that starts or continues a missing term.
Hypotheses that lack the same number of term tokens form a bank, and only those of the same bank compete for its slots,
by model score; so a term is placed where it costs least. As the beam itself is unconstrained, a translation that beam
search finds and that has all terms anyway is found here, too.

Differs from the paper: banks have slots beside the beam, not in it (as in grid beam search: Hokamp & Liu 2017), so a
narrow beam, or greedy search, is not crowded out by many terms. Whether a term occurs is decided on the text.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.penalties import length_penalty
from regard.decoding.search_loop import ExtensionSelector, SelectedExtensions, best, run_search
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.terminology.constraint_state import Constraints
from regard.decoding.token_limits import NEVER, Rules
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Float, Int, Tensor

MOST = 24
"""Maximum number of slots for banks beyond the beam's size: with more tokens to generate, banks take turns."""
NOBODY = -1
"""The state of an empty slot."""


Scored = Sequence[tuple[int, float]]
"""Next tokens of a hypothesis, with the score it would have."""


class Extension(NamedTuple):
    """A hypothesis extended by one token."""

    score: float
    slot: int
    token: int
    state: int
    """Its constraint state; NOBODY if it can no longer contain all terms."""


class FreeBeam:
    """Follows the unconstrained beam search of a sentence, to know when it would end."""

    def __init__(self, options: DecodingConfig, n_best: int, limit: int) -> None:
        self.options, self.limit = options, limit
        self.scores = [NEVER] * n_best
        self.ended = 0
        self.is_over = False

    def follow(self, chosen: Sequence[Extension], eos: int, length: int) -> None:
        """Update with a step, by the rules of `regard.decoding.search_loop`; without coverage, unknown here."""
        alpha, patience = self.options.length_penalty, self.options.patience
        ended = [each.score / length_penalty(length, alpha) for each in chosen if each.token == eos]
        self.ended += sum(score > NEVER for score in ended)
        self.scores = sorted([*self.scores, *ended], reverse=True)[: len(self.scores)]
        most = max(length_penalty(self.limit, alpha), length_penalty(length + 1, alpha))
        bound = max((each.score for each in chosen if each.token != eos), default=NEVER) / most
        self.is_over |= length >= self.limit or (bound <= self.scores[-1] and not self.options.coverage_penalty)
        self.is_over |= 0 < patience * self.options.beam <= self.ended


class Banks(ExtensionSelector):
    """Extends the beam as beam search does, and fills the slots beside it bank by bank."""

    moves = True

    def __init__(
        self,
        rules: Rules,
        options: DecodingConfig,
        constraints: Sequence[Constraints],
        reserved: Sequence[int],
        n_best: int,
    ) -> None:
        """`reserved` are banned tokens that are allowed as part of a term."""
        self.rules, self.options, self.constraints = rules, options, constraints
        self.beam, self.eos = options.beam, rules.eos
        self.width = self.beam + max(map(self._beside, constraints))
        self.limits: list[int] = rules.limits.tolist()
        self.states = [[own.start] for own in constraints]
        """Constraint state of each slot's hypothesis, by sentence."""
        self.free = [FreeBeam(options, n_best, limit) for limit in self.limits]
        self.ended = [0] * len(constraints)
        """Number of hypotheses that ended with all terms, by sentence."""
        self.reserved = torch.tensor(sorted(reserved), dtype=torch.long, device=rules.limits.device)

    def _beside(self, constraints: Constraints) -> int:
        return max(self.beam, min(constraints.total, MOST)) if constraints.total else 0

    def __call__(
        self, totals: Float[Tensor, "B N"], possible: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> SelectedExtensions:
        """Score extensions on the device, and choose on the host, which keeps the constraint states."""
        numbers = sentences.tolist()
        asked = [[sorted(self._wanted(number, state)) for state in self.states[number]] for number in numbers]
        near, tokens = best(self._free(possible, length, sentences).flatten(0, 1), self.beam)
        scores = totals[..., None] + near.view(*totals.shape, -1)
        wanted = _table([asked_one for own in asked for asked_one in own]).view(*totals.shape, -1).to(totals.device)
        forced = totals[..., None] + possible.gather(2, wanted)
        known = torch.cat([scores, forced], dim=2).tolist()
        free_tokens = tokens.view(scores.shape).tolist()
        rows = []
        for number, own, written, forced_tokens in zip(numbers, known, free_tokens, asked, strict=True):
            free = [list(zip(some, slot, strict=False)) for some, slot in zip(written, own, strict=True)]
            beside = [
                list(zip(some, slot[scores.shape[2] :], strict=False))
                for some, slot in zip(forced_tokens, own, strict=True)
            ]
            chosen = self._without_late(number, self._choose(number, free, beside, length), length)
            self.states[number] = [each.state for each in chosen]
            rows.append([(each.token, each.slot, each.state != NOBODY) for each in chosen])
        made = torch.tensor(rows, device=totals.device)
        return SelectedExtensions(made[..., 0], made[..., 1], made[..., 2] > 0)

    def _wanted(self, number: int, state: int) -> set[int]:
        """Return tokens to try whatever their score: those of missing terms, or the end token once all are there."""
        own = self.constraints[number]
        if state == NOBODY or not own.total:
            return set()
        return own.wanted(state) or {self.eos}

    def _free(
        self, possible: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N W"]:
        """Mask the tokens reserved for terms, unless the prefix has them."""
        if not len(self.reserved):
            return possible
        free = possible.index_fill(2, self.reserved, NEVER)
        if length > self.rules.forced.shape[1]:
            return free
        forced = self.rules.forced[sentences, length - 1] >= 0
        return torch.where(forced[:, None, None], possible, free)

    def _choose(self, number: int, free: Sequence[Scored], forced: Sequence[Scored], length: int) -> list[Extension]:
        """Choose the extensions of one sentence, given the scores of tokens after each slot."""
        own, last = self.constraints[number], length == self.limits[number]
        every: dict[tuple[int, int], Extension] = {}
        for slot, state in enumerate(self.states[number]):
            for token, score in (*free[slot], *forced[slot]) if state != NOBODY else ():
                if score > NEVER and (slot, token) not in every:
                    every[slot, token] = Extension(score, slot, token, self._state(own, state, token, last))
        in_beam = [(slot, token) for slot, scored in enumerate(free[: self.beam]) for token, _ in scored]
        kept = sorted((every[key] for key in in_beam if key in every), key=_rank)[: self.beam]
        nothing = Extension(NEVER, 0, self.eos, NOBODY)
        chosen = kept + [nothing] * (self.beam - len(kept))
        if own.total:
            for each in kept:
                del every[each.slot, each.token]
            room = self.limits[number] - length
            chosen += _allocate([each for each in every.values() if _has_room(own, each, room)], own, self._beside(own))
        return chosen + [nothing] * (self.width - len(chosen))

    def _state(self, own: Constraints, state: int, token: int, last: bool) -> int:
        """Return the constraint state after one more token; a hypothesis that lacks terms may not end."""
        ends = token == self.eos
        state = state if ends else own.next(state, token)
        return NOBODY if (ends or last) and own.needed(state) else state

    def _without_late(self, number: int, chosen: list[Extension], length: int) -> list[Extension]:
        """Drop hypotheses that are too late: once beam search would have ended, none may start its first term any more.

        All are dropped once as many hypotheses as the beam holds have ended with all terms.
        """
        own, free = self.constraints[number], self.free[number]
        self.ended[number] += sum(each.token == self.eos and each.state != NOBODY for each in chosen)
        free.follow(chosen[: self.beam], self.eos, length)
        if not free.is_over:
            return chosen
        enough = self.ended[number] >= self.beam * (self.options.patience or 1)
        begun = self.ended[number] or any(each.state != NOBODY for each in chosen[self.beam :])

        def is_late(each: Extension) -> bool:
            goes_on = each.token != self.eos and each.state != NOBODY
            return goes_on and (enough or (0 < own.total == own.needed(each.state) and bool(begun)))

        return [each._replace(state=NOBODY) if is_late(each) else each for each in chosen]


def _has_room(own: Constraints, each: Extension, room: int) -> bool:
    """Whether the length limit leaves room for everything that is missing, and for the end token."""
    needed = 0 if each.state == NOBODY else own.needed(each.state)
    return each.state != NOBODY and (not needed or needed < room)


def _allocate(others: Sequence[Extension], own: Constraints, count: int) -> list[Extension]:
    """Give each bank a slot in turn, those that lack least first, until no slots are left."""
    banks: dict[int, list[Extension]] = {}
    for each in sorted(others, key=_rank):
        banks.setdefault(own.needed(each.state), []).append(each)
    # Hypotheses without any term are in the beam already.
    order = sorted(needed for needed in banks if needed < own.total)
    if len(order) > count:
        order = [order[0], *sorted(order[1:], key=lambda needed: -banks[needed][0].score)]
    turns = max((len(banks[needed]) for needed in order), default=0)
    return [banks[needed][turn] for turn in range(turns) for needed in order if turn < len(banks[needed])][:count]


def _rank(each: Extension) -> float:
    return -each.score


def _table(rows: Sequence[Sequence[int]]) -> Int[Tensor, "N F"]:
    """Pad rows of tokens to a table."""
    most = max(1, *map(len, rows))
    return torch.tensor([[*row, *[0] * (most - len(row))] for row in rows])


def constrained_beam_search(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Return the best hypotheses that contain all required terms."""
    constraints = request.constraints
    assert constraints is not None
    forced = {token for own in constraints for token in own.tokens}
    reserved = forced.intersection(request.banned)
    # Patience applies to the unconstrained beam: a term that was easy to generate must not end the search.
    rules = Rules.make(encoded.mask, replace(options, patience=0.0), request)
    rules.banned = rules.banned - reserved
    choose = Banks(rules, options, constraints, sorted(reserved), request.n_best)
    outcome = run_search(decoder, encoded, rules, request, choose)
    return outcome.trace([ends[: request.n_best] for ends in outcome.ends])
