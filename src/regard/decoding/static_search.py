"""Room for a search in tensors of fixed shapes, and the one step that changes them, over the Decoder protocol alone."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from regard.decoding.penalties import length_penalty
from regard.decoding.state_reordering import move, rows_of
from regard.decoding.token_limits import NEVER
from regard.decoding.top_k import MOST, Top, top_of
from regard.models.protocol import Decoder, Encoded, leaves
from regard.shapes import Bool, Float, Int, Tensor
from regard.step_loop import runs_kernels


class SearchSettings(NamedTuple):
    """What does not change while a frame lives."""

    beam: int
    n_best: int
    bos: int
    eos: int
    banned: frozenset[int]
    min_length: int
    alpha: float
    """Of the length penalty."""
    patience: float


class Shape(NamedTuple):
    """How much a frame has room for."""

    sentences: int
    places: int
    """Of each source."""
    steps: int


class SearchState(NamedTuple):
    """What is known of the B sentences of a frame and of their N hypotheses each, K of which are to be found."""

    limits: Int[Tensor, " B"]
    """The most tokens of each sentence, the end mark counted."""
    highest: Float[Tensor, " B"]
    """The length penalty of a hypothesis of that many tokens."""
    going: Bool[Tensor, " B"]
    """Whether it is still searched."""
    totals: Float[Tensor, "B N"]
    """Log-probability of each hypothesis; -inf where a slot is empty, or its sentence is done."""
    scores: Float[Tensor, "B K"]
    """Of the best that ended with the end mark; -inf where there are fewer."""
    lengths: Int[Tensor, "B K"]
    slots: Int[Tensor, "B K"]
    finished: Int[Tensor, " B"]
    """How many ended so, kept or not."""
    cut: Float[Tensor, "B N"]
    """Scores of those that reached the longest length without it; -inf for the others."""
    token: Int[Tensor, "B N"]
    """The token that each hypothesis wrote last."""


class Record(NamedTuple):
    """What was chosen at each step, as in `History`."""

    tokens: Int[Tensor, "T B N"]
    parents: Int[Tensor, "T B N"]
    log_probs: Float[Tensor, "T B N"]


class Frame:
    """Room for the search of some sentences: tensors that stay where they are, and the step that changes them."""

    def __init__(
        self, decoder: Decoder[Any], like: Encoded, asked: SearchSettings, shape: Shape, allowed: Tensor
    ) -> None:
        """`like` has sources of the same widths as those that will be searched."""
        self.decoder, self.asked, self.shape = decoder, asked, shape
        count, (size, most) = shape.sentences, (asked.beam, asked.n_best)
        device, new = like.mask.device, torch.zeros(shape.sentences, device=like.mask.device)
        state = decoder.steady(_filled(like, shape), shape.steps, size)
        assert state is not None
        self.state = each(torch.clone, state)
        self.forbidden = ~allowed
        self.is_eos = torch.arange(len(allowed), device=device) == asked.eos
        # One more than there are steps: the penalty of what may end at the next.
        penalties = [length_penalty(length, asked.alpha) for length in range(shape.steps + 2)]
        self.penalties = torch.tensor(penalties, device=device)
        self.length = torch.ones(1, dtype=torch.long, device=device)
        """The number of the token that is written next."""
        self.broken = torch.zeros(1, dtype=torch.long, device=device)
        """The first token whose logits were no numbers; 0 where all are."""
        whole = torch.zeros(count, size, dtype=torch.long, device=device)
        kept = torch.zeros(count, most, dtype=torch.long, device=device)
        self.board = SearchState(
            kept[:, 0].clone(), new, new > 0, whole + NEVER, kept + NEVER, kept, kept.clone(), kept[:, 0].clone(),
            whole + NEVER, whole,
        )  # fmt: skip
        steps = torch.zeros(shape.steps, count, size, dtype=torch.long, device=device)
        self.record = Record(steps, steps.clone(), torch.zeros(steps.shape, device=device))
        self.graph: torch.cuda.CUDAGraph | None = None

    # -- what is put in -----------------------------------------------------------------------------------------------

    def begin(self, encoded: Encoded, limits: Sequence[int]) -> None:
        """Start the search of some sentences; the other places stay empty."""
        asked, device = self.asked, encoded.mask.device
        state = self.decoder.steady(_filled(encoded, self.shape), self.shape.steps, asked.beam)
        for ours, new in zip(leaves(self.state), leaves(state), strict=True):
            ours.copy_(new)
        empty = self.shape.sentences - len(limits)
        known = torch.tensor([*limits, *[0] * empty])
        highest = ((5 + known) / 6).pow(asked.alpha)
        board = self.board
        board.limits.copy_(send(known, device), non_blocking=True)
        board.highest.copy_(send(highest, device), non_blocking=True)
        torch.gt(board.limits, 0, out=board.going)
        board.totals.fill_(NEVER)
        # All slots extend the first one, which has written nothing yet.
        board.totals[:, 0].masked_fill_(board.going, 0.0)
        board.scores.fill_(NEVER)
        board.cut.fill_(NEVER)
        board.token.fill_(asked.bos)
        for part in (board.lengths, board.slots, board.finished, self.broken):
            part.zero_()
        self.length.fill_(1)

    def take_over(self, other: "Frame", places: Int[Tensor, " B"]) -> None:
        """Go on with what stands in these places of another frame; what was recorded there stays there."""
        count, size = self.shape.sentences, self.asked.beam
        kept = len(places)
        places = functional.pad(places, (0, count - kept))
        rows = (places[:, None] * size + torch.arange(size, device=places.device)).flatten()
        for ours, theirs in zip(leaves(self.state), leaves(other.state), strict=True):
            if not ours.dim():
                ours.copy_(theirs)
                continue
            picked = theirs.index_select(0, rows if len(theirs) == other.shape.sentences * size else places)
            ours[tuple(slice(min(a, b)) for a, b in zip(ours.shape, picked.shape, strict=True))].copy_(picked)
        for ours, theirs in zip(self.board, other.board, strict=True):
            ours.copy_(theirs.index_select(0, places))
        self.board.going[kept:] = False
        self.board.totals[kept:] = NEVER
        self.length.copy_(other.length)
        self.broken.copy_(other.broken)

    # -- a step -------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Write the next token of every hypothesis."""
        if self.graph is None:
            self._advance()
        else:
            self.graph.replay()

    def capture(self, pool: Any) -> None:
        """Record the step. It is taken once before, so that kernels are compiled and libraries have set themselves up:
        what is put in comes after.
        """
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(aside):
            self._advance()
            aside.synchronize()
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                self._advance()
            except BaseException:
                with suppress(RuntimeError):  # which would only say that there was an error
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = graph

    def _advance(self) -> None:
        asked, board = self.asked, self.board
        step = self.decoder.step(board.token.flatten(), self.state, False)
        forbidden = self.forbidden
        if asked.min_length:
            forbidden = forbidden | (self.is_eos & (self.length <= asked.min_length))
        parents, rows = self._choose(top_of(step.logits, forbidden, asked.beam))
        self._carry_on(step.state, parents, rows)
        self.length.add_(1)

    def _choose(self, top: Top) -> tuple[Int[Tensor, "B N"], Int[Tensor, " R"]]:
        """Choose the next hypotheses; return which ones they extend, in their sentence and among all rows."""
        asked, board = self.asked, self.board
        count, size = board.totals.shape
        if size <= MOST and top.words.shape[1] == size and runs_kernels(board.totals.device):
            from regard.decoding.search_kernels import Choosing, choose

            at = (self.penalties, self.length, self.broken, board, self.record, asked.eos, asked.patience * asked.beam)
            return choose(*top, Choosing(*at))
        near, words, whole = top
        ranked = ((board.totals.flatten() - whole)[:, None] + near).view(count, -1)
        chosen = ranked.topk(size, dim=1).indices
        parents = chosen // near.shape[1]
        tokens = words.view(count, -1).gather(1, chosen)
        log_probs = near.view(count, -1).gather(1, chosen) - whole.view(count, -1).gather(1, parents)
        self._settle(board.totals.gather(1, parents) + log_probs, tokens)
        for table, new in zip(self.record, (tokens, parents, log_probs), strict=True):
            table.index_copy_(0, self.length - 1, new[None])
        board.token.copy_(tokens)
        return parents, rows_of(parents)

    def _carry_on(self, after: Any, parents: Int[Tensor, "B N"], rows: Int[Tensor, " R"]) -> None:
        """Put the state after a step where the one before stood, each hypothesis where its extension now stands.

        Masks are those of a source, or of a past as long as all others': they need not move.
        """
        moves = self.asked.beam > 1
        for ours, new in zip(leaves(self.state), leaves(after), strict=True):
            moved = moves and new.dim() and len(new) == len(rows) and new.dtype != torch.bool
            if moved and new is ours:
                move(ours, parents)
            elif moved:
                torch.index_select(new, 0, rows, out=ours)
            elif new is not ours:
                ours.copy_(new)

    def _settle(self, totals: Float[Tensor, "B N"], tokens: Int[Tensor, "B N"]) -> None:
        """Set aside what has ended, and leave those sentences alone that are done."""
        asked, board, length = self.asked, self.board, self.length
        penalty = self.penalties.index_select(0, length)
        scores = totals / penalty
        complete = tokens == asked.eos
        ended = complete | (length >= board.limits)[:, None]
        worst = self._set_aside(scores.masked_fill(~complete, NEVER))
        is_last = (length == board.limits)[:, None] & ~complete
        board.cut.copy_(torch.where(is_last, scores, board.cut))
        # What is no number must be seen, in a sentence that is still searched.
        numbers = totals == totals
        lost = (~numbers.all(dim=1) & board.going).any()
        self.broken.copy_(torch.where(lost & (self.broken == 0), length, self.broken))
        totals = torch.where(ended & numbers, NEVER, totals)
        best = board.highest.maximum(self.penalties.index_select(0, length + 1))
        going = totals.amax(dim=1) / best > worst
        if asked.patience:
            going &= board.finished < asked.patience * asked.beam
        board.going.copy_(going)
        board.totals.copy_(totals.masked_fill(~going[:, None], NEVER))

    def _set_aside(self, scores: Float[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """Enter those that have a score; return the worst that is kept."""
        board = self.board
        board.finished.add_((scores > NEVER).sum(dim=1))
        kept, chosen = torch.cat([board.scores, scores], dim=1).topk(board.scores.shape[1], dim=1)
        slots = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
        for table, new in ((board.lengths, self.length.expand_as(slots)), (board.slots, slots)):
            table.copy_(torch.cat([table, new], dim=1).gather(1, chosen))
        board.scores.copy_(kept)
        return kept[:, -1]


def _filled(encoded: Encoded, shape: Shape) -> Encoded:
    """Fill up with places that are not real, and with sentences like the last."""
    more = shape.places - encoded.mask.shape[1]
    rows = torch.arange(shape.sentences, device=encoded.mask.device).clamp(max=len(encoded.mask) - 1)

    def fill(part: Tensor | None, places: bool = True) -> Tensor | None:
        if part is None:
            return None
        picked = part.index_select(0, rows)
        return functional.pad(picked, (0, 0) * (part.dim() - 2) + (0, more)) if places else picked

    filled = {name: fill(part, name != "summary") for name, part in encoded._asdict().items()}
    return Encoded(**filled)  # type: ignore[arg-type]


def each(function: Any, tree: Any) -> Any:
    """Apply a function to every tensor of a state."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, tuple):
        mapped = [each(function, branch) for branch in tree]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else tuple(mapped)
    return tree


def send(numbers: Tensor, device: torch.device) -> Tensor:
    """Send numbers that the host knows to the device without waiting for it."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)
