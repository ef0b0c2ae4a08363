"""Beam search for hypotheses that hold given terms, by dynamic beam allocation (Post & Vilar 2018).

The beam goes on as it would without terms. Beside it there are further slots for hypotheses that are made to write
terms: at every step each hypothesis is also extended by every token that begins a missing term or goes on with one.
Hypotheses that lack as many tokens of terms make a bank, and only those of the same bank compete for its slots, by what
the model says of them; so a term lands where it costs least. As the free slots hold what beam search holds, a
translation that it finds and that has all terms anyway is found here, too.

Differs from the paper: banks have slots beside the beam, not in it (as in grid beam search: Hokamp & Liu 2017), so a
narrow beam, and greedy search, are no worse off for many terms. Whether a term is there is decided on the text.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from regard.config import DecodingConfig
from regard.decoding.constraints import Constraints
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.loop import Choose, Chosen, best, run
from regard.decoding.methods import Request
from regard.decoding.penalties import length_penalty
from regard.decoding.rules import NEVER, Rules
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Float, Int, Tensor

MOST = 24
"""Slots for banks, at most, beyond as many as the beam has: with more tokens to write, banks take turns."""
NOBODY = -1
"""The state of an empty slot."""


class Extension(NamedTuple):
    """One token more for one hypothesis."""

    score: float
    slot: int
    token: int
    state: int
    """How far it has come then; NOBODY where it can never hold all terms."""


class FreeBeam:
    """What beam search would have found of a sentence, terms or none: it tells when that search would have ended."""

    def __init__(self, n_best: int) -> None:
        self.scores = [NEVER] * n_best
        self.live = True

    def is_over(self, chosen: Sequence[Extension], eos: int, length: int, limit: int, alpha: float) -> bool:
        """Follow a step; tell whether what is live could still beat what has ended."""
        ended = [each.score / length_penalty(length, alpha) for each in chosen if each.token == eos]
        self.scores = sorted([*self.scores, *ended], reverse=True)[: len(self.scores)]
        most = max(length_penalty(limit, alpha), length_penalty(length + 1, alpha))
        bound = max((each.score for each in chosen if each.token != eos), default=NEVER) / most
        self.live = self.live and length < limit and bound > self.scores[-1]
        return not self.live


class Banks(Choose):
    """Extends the beam as beam search does, and fills the slots beside it bank by bank."""

    moves = True

    def __init__(self, rules: Rules, constraints: Sequence[Constraints], reserved: Sequence[int], n_best: int) -> None:
        """`reserved` are tokens that may be written as a part of a term alone."""
        self.rules, self.constraints = rules, constraints
        self.beam, self.eos = rules.options.beam, rules.eos
        self.width = self.beam + max(map(self._beside, constraints))
        self.limits: list[int] = rules.limits.tolist()
        self.states = [[own.start] for own in constraints]
        """How far each slot's hypothesis has come, by sentence."""
        self.free = [FreeBeam(n_best) for _ in constraints]
        self.ended = [0] * len(constraints)
        """Hypotheses that have ended with all terms, by sentence."""
        self.reserved = torch.tensor(sorted(reserved), dtype=torch.long, device=rules.limits.device)

    def _beside(self, constraints: Constraints) -> int:
        return max(self.beam, min(constraints.total, MOST)) if constraints.total else 0

    def __call__(
        self, totals: Float[Tensor, "B N"], possible: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Chosen:
        """Score on the device what may come next, and choose on the host, which knows how far all have come."""
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
            chosen = self._choose(number, free, beside, length)
            if self._is_done(number, chosen, length):
                chosen = [each if each.token == self.eos else each._replace(state=NOBODY) for each in chosen]
            self.states[number] = [each.state for each in chosen]
            rows.append([(each.token, each.slot, each.state != NOBODY) for each in chosen])
        made = torch.tensor(rows, device=totals.device)
        return Chosen(made[..., 0], made[..., 1], made[..., 2] > 0)

    def _wanted(self, number: int, state: int) -> set[int]:
        return set() if state == NOBODY else self.constraints[number].wanted(state)

    def _free(
        self, possible: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N W"]:
        """Leave out what is reserved for terms, unless the prefix says so."""
        if not len(self.reserved):
            return possible
        free = possible.index_fill(2, self.reserved, NEVER)
        if length > self.rules.forced.shape[1]:
            return free
        forced = self.rules.forced[sentences, length - 1] >= 0
        return torch.where(forced[:, None, None], possible, free)

    def _choose(
        self,
        number: int,
        free: Sequence[Sequence[tuple[int, float]]],
        forced: Sequence[Sequence[tuple[int, float]]],
        length: int,
    ) -> list[Extension]:
        """Choose the extensions of one sentence, given the scores of tokens after each slot."""
        own = self.constraints[number]
        states = self.states[number]

        def extensions(some: Sequence[Sequence[tuple[int, float]]]) -> Iterator[Extension]:
            for slot, scored in enumerate(some):
                if states[slot] != NOBODY:
                    for token, score in scored:
                        if score > NEVER:
                            yield Extension(score, slot, token, NOBODY)

        ranked = sorted(extensions(free), key=lambda each: -each.score)
        kept = [each for each in ranked if each.slot < self.beam][: self.beam]
        chosen = [self._reached(own, number, each, length) for each in kept]
        chosen += [Extension(NEVER, 0, self.eos, NOBODY)] * (self.beam - len(chosen))
        if own.total:
            others = self._others(ranked, kept, list(extensions(forced)), self._beside(own))
            reached = (self._reached(own, number, each, length) for each in others)
            chosen += _allocate([each for each in reached if each.state != NOBODY], own, self._beside(own))
        return chosen + [Extension(NEVER, 0, self.eos, NOBODY)] * (self.width - len(chosen))

    def _others(
        self, ranked: Sequence[Extension], kept: Sequence[Extension], forced: Sequence[Extension], count: int
    ) -> list[Extension]:
        """Return what may stand in a bank: the best there are, the best of each hypothesis, and what is forced."""
        beside = [each for each in ranked if each not in kept]
        first: dict[int, Extension] = {}
        for each in beside:
            first.setdefault(each.slot, each)
        taken = {(each.slot, each.token) for each in kept}
        every = {(each.slot, each.token): each for each in (*beside[:count], *first.values(), *forced)}
        return [each for key, each in every.items() if key not in taken]

    def _is_done(self, number: int, chosen: Sequence[Extension], length: int) -> bool:
        """Whether beam search would have ended, and as many hypotheses as the beam is wide have ended with all terms."""
        self.ended[number] += sum(each.token == self.eos and each.state != NOBODY for each in chosen)
        options, limit = self.rules.options, self.limits[number]
        over = self.free[number].is_over(chosen[: self.beam], self.eos, length, limit, options.length_penalty)
        return over and self.ended[number] >= self.beam and not options.coverage_penalty

    def _reached(self, own: Constraints, number: int, each: Extension, length: int) -> Extension:
        """Tell how far an extension has come; one that lacks terms may not end, and must leave room for them."""
        state = self.states[number][each.slot]
        if each.token == self.eos:
            return each._replace(state=NOBODY if own.needed(state) else state)
        state = own.next(state, each.token)
        needed = own.needed(state)
        return each._replace(state=NOBODY if needed and length + needed + 1 > self.limits[number] else state)


def _allocate(others: Sequence[Extension], own: Constraints, count: int) -> list[Extension]:
    """Give each bank a slot in turn, those that lack least first, until there are no more slots."""
    banks: dict[int, list[Extension]] = {}
    for each in sorted(others, key=lambda each: -each.score):
        banks.setdefault(own.needed(each.state), []).append(each)
    # What has no term yet is in the beam already.
    order = sorted(needed for needed in banks if needed < own.total)
    if len(order) > count:
        order = [order[0], *sorted(order[1:], key=lambda needed: -banks[needed][0].score)]
    turns = max((len(banks[needed]) for needed in order), default=0)
    return [banks[needed][turn] for turn in range(turns) for needed in order if turn < len(banks[needed])][:count]


def _table(rows: Sequence[Sequence[int]]) -> Int[Tensor, "N F"]:
    """Lay out rows of tokens, filled up with anything."""
    most = max(1, *map(len, rows))
    return torch.tensor([[*row, *[0] * (most - len(row))] for row in rows])


def constrained_beam_search(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: Request
) -> list[list[Hypothesis]]:
    """Find the best hypotheses that hold what they must."""
    constraints = request.constraints
    assert constraints is not None
    forced = {token for own in constraints for token in own.tokens}
    reserved = forced.intersection(request.banned)
    rules = Rules.make(encoded.mask, options, request)
    rules.banned = rules.banned - reserved
    outcome = run(decoder, encoded, rules, request, Banks(rules, constraints, sorted(reserved), request.n_best))
    return outcome.trace([ends[: request.n_best] for ends in outcome.ends])
