"""Preallocated tensors for a beam search of fixed shapes, and its step, written against the Decoder interface alone."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from regard.decoding.penalties import length_penalty
from regard.decoding.state_reordering import reorder_rows_, rows_of
from regard.decoding.token_limits import NEVER
from regard.decoding.top_k import MOST, TopLogits, top_k_logits
from regard.devices import runs_kernels
from regard.models.protocol import Decoder, Encoded, leaves
from regard.shapes import Bool, Float, Int, Tensor


class SearchSettings(NamedTuple):
    """Options that are fixed for a set of buffers."""

    beam: int
    n_best: int
    bos: int
    eos: int
    banned: frozenset[int]
    min_length: int
    alpha: float
    """Exponent of the length penalty."""
    patience: float


class BufferShape(NamedTuple):
    """Capacity of a set of buffers."""

    sentences: int
    places: int
    """Source positions."""
    steps: int


class SearchState(NamedTuple):
    """State of the B sentences in a set of buffers, with N hypotheses each, of which K are to be returned."""

    limits: Int[Tensor, " B"]
    """Maximum length of each sentence, the end token included."""
    highest: Float[Tensor, " B"]
    """The length penalty at that length."""
    going: Bool[Tensor, " B"]
    """Whether the sentence is still searched."""
    totals: Float[Tensor, "B N"]
    """Log-probability of each hypothesis; -inf for an empty slot, or if its sentence is finished."""
    scores: Float[Tensor, "B K"]
    """Scores of the best complete hypotheses; -inf if there are fewer."""
    lengths: Int[Tensor, "B K"]
    slots: Int[Tensor, "B K"]
    finished: Int[Tensor, " B"]
    """Number of complete hypotheses so far, kept or not."""
    cut: Float[Tensor, "B N"]
    """Scores of those that reached the maximum length without the end token; -inf for the others."""
    token: Int[Tensor, "B N"]
    """The last token of each hypothesis."""


class SearchRecord(NamedTuple):
    """What was chosen at each step, as in `History`."""

    tokens: Int[Tensor, "T B N"]
    parents: Int[Tensor, "T B N"]
    log_probs: Float[Tensor, "T B N"]


class SearchBuffers:
    """Preallocated tensors at fixed addresses for the search of some sentences, and the step that updates them."""

    def __init__(
        self, decoder: Decoder[Any], like: Encoded, asked: SearchSettings, shape: BufferShape, allowed: Tensor
    ) -> None:
        """`like` is an encoder output with the same widths as those to be searched."""
        self.decoder, self.asked, self.shape = decoder, asked, shape
        count, (size, most) = shape.sentences, (asked.beam, asked.n_best)
        device, new = like.mask.device, torch.zeros(shape.sentences, device=like.mask.device)
        state = decoder.steady(_filled(like, shape), shape.steps, size)
        assert state is not None
        self.state = each(torch.clone, state)
        self.forbidden = ~allowed
        self.is_eos = torch.arange(len(allowed), device=device) == asked.eos
        # One more than the number of steps: the penalty for ending at the next step.
        penalties = [length_penalty(length, asked.alpha) for length in range(shape.steps + 2)]
        self.penalties = torch.tensor(penalties, device=device)
        self.length = torch.ones(1, dtype=torch.long, device=device)
        """Number of the token to be generated next."""
        self.broken = torch.zeros(1, dtype=torch.long, device=device)
        """The first step with NaN logits; 0 if there is none."""
        whole = torch.zeros(count, size, dtype=torch.long, device=device)
        kept = torch.zeros(count, most, dtype=torch.long, device=device)
        self.beams = SearchState(
            kept[:, 0].clone(), new, new > 0, whole + NEVER, kept + NEVER, kept, kept.clone(), kept[:, 0].clone(),
            whole + NEVER, whole,
        )  # fmt: skip
        steps = torch.zeros(shape.steps, count, size, dtype=torch.long, device=device)
        self.record = SearchRecord(steps, steps.clone(), torch.zeros(steps.shape, device=device))
        self.graph: torch.cuda.CUDAGraph | None = None

    # -- input
    # ------------------------------------------------------------------------------------------------------------

    def begin(self, encoded: Encoded, limits: Sequence[int]) -> None:
        """Start the search of some sentences; the other places stay empty."""
        asked, device = self.asked, encoded.mask.device
        state = self.decoder.steady(_filled(encoded, self.shape), self.shape.steps, asked.beam)
        for ours, new in zip(leaves(self.state), leaves(state), strict=True):
            ours.copy_(new)
        empty = self.shape.sentences - len(limits)
        known = torch.tensor([*limits, *[0] * empty])
        highest = ((5 + known) / 6).pow(asked.alpha)
        beams = self.beams
        beams.limits.copy_(send(known, device), non_blocking=True)
        beams.highest.copy_(send(highest, device), non_blocking=True)
        torch.gt(beams.limits, 0, out=beams.going)
        beams.totals.fill_(NEVER)
        # All slots extend the first one, which is still empty.
        beams.totals[:, 0].masked_fill_(beams.going, 0.0)
        beams.scores.fill_(NEVER)
        beams.cut.fill_(NEVER)
        beams.token.fill_(asked.bos)
        for part in (beams.lengths, beams.slots, beams.finished, self.broken):
            part.zero_()
        self.length.fill_(1)

    def take_over(self, other: "SearchBuffers", places: Int[Tensor, " B"]) -> None:
        """Continue with the sentences in these places of other buffers; their record stays there."""
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
        for ours, theirs in zip(self.beams, other.beams, strict=True):
            ours.copy_(theirs.index_select(0, places))
        self.beams.going[kept:] = False
        self.beams.totals[kept:] = NEVER
        self.length.copy_(other.length)
        self.broken.copy_(other.broken)

    # -- one step
    # ---------------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Generate the next token of every hypothesis."""
        if self.graph is None:
            self._advance()
        else:
            self.graph.replay()

    def capture(self, pool: Any) -> None:
        """Capture the step as a CUDA graph.

        It runs once before, so that kernels are compiled and libraries initialised; set the input after this.
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
                with suppress(RuntimeError):  # it would only repeat that there was an error
                    graph.capture_end()
                raise
            graph.capture_end()
        torch.cuda.current_stream().wait_stream(aside)
        self.graph = graph

    def _advance(self) -> None:
        asked, beams = self.asked, self.beams
        step = self.decoder.step(beams.token.flatten(), self.state, False)
        forbidden = self.forbidden
        if asked.min_length:
            forbidden = forbidden | (self.is_eos & (self.length <= asked.min_length))
        parents, rows = self._choose(top_k_logits(step.logits, forbidden, asked.beam))
        self._carry_on(step.state, parents, rows)
        self.length.add_(1)

    def _choose(self, top: TopLogits) -> tuple[Int[Tensor, "B N"], Int[Tensor, " R"]]:
        """Choose the next hypotheses; return which ones they extend, within their sentence and among all rows."""
        asked, beams = self.asked, self.beams
        count, size = beams.totals.shape
        if size <= MOST and top.words.shape[1] == size and runs_kernels(beams.totals.device):
            from regard.decoding.search_kernels import Choosing, choose

            at = (self.penalties, self.length, self.broken, beams, self.record, asked.eos, asked.patience * asked.beam)
            return choose(*top, Choosing(*at))
        near, words, whole = top
        ranked = ((beams.totals.flatten() - whole)[:, None] + near).view(count, -1)
        chosen = ranked.topk(size, dim=1).indices
        parents = chosen // near.shape[1]
        tokens = words.view(count, -1).gather(1, chosen)
        log_probs = near.view(count, -1).gather(1, chosen) - whole.view(count, -1).gather(1, parents)
        self._settle(beams.totals.gather(1, parents) + log_probs, tokens)
        for table, new in zip(self.record, (tokens, parents, log_probs), strict=True):
            table.index_copy_(0, self.length - 1, new[None])
        beams.token.copy_(tokens)
        return parents, rows_of(parents)

    def _carry_on(self, after: Any, parents: Int[Tensor, "B N"], rows: Int[Tensor, " R"]) -> None:
        """Store the state after a step at the address of the one before, reordered for the new hypotheses.

        Masks are those of a source, or of a past that has the same length for all: they need not be reordered.
        """
        moves = self.asked.beam > 1
        for ours, new in zip(leaves(self.state), leaves(after), strict=True):
            moved = moves and new.dim() and len(new) == len(rows) and new.dtype != torch.bool
            if moved and new is ours:
                reorder_rows_(ours, parents)
            elif moved:
                torch.index_select(new, 0, rows, out=ours)
            elif new is not ours:
                ours.copy_(new)

    def _settle(self, totals: Float[Tensor, "B N"], tokens: Int[Tensor, "B N"]) -> None:
        """Set finished hypotheses aside, and stop searching finished sentences."""
        asked, beams, length = self.asked, self.beams, self.length
        penalty = self.penalties.index_select(0, length)
        scores = totals / penalty
        complete = tokens == asked.eos
        ended = complete | (length >= beams.limits)[:, None]
        worst = self._set_aside(scores.masked_fill(~complete, NEVER))
        is_last = (length == beams.limits)[:, None] & ~complete
        beams.cut.copy_(torch.where(is_last, scores, beams.cut))
        # A NaN must be detected, in a sentence that is still searched.
        numbers = totals == totals
        lost = (~numbers.all(dim=1) & beams.going).any()
        self.broken.copy_(torch.where(lost & (self.broken == 0), length, self.broken))
        totals = torch.where(ended & numbers, NEVER, totals)
        best = beams.highest.maximum(self.penalties.index_select(0, length + 1))
        going = totals.amax(dim=1) / best > worst
        if asked.patience:
            going &= beams.finished < asked.patience * asked.beam
        beams.going.copy_(going)
        beams.totals.copy_(totals.masked_fill(~going[:, None], NEVER))

    def _set_aside(self, scores: Float[Tensor, "B N"]) -> Float[Tensor, " B"]:
        """Add those with a score to the results; return the worst score kept."""
        beams = self.beams
        beams.finished.add_((scores > NEVER).sum(dim=1))
        kept, chosen = torch.cat([beams.scores, scores], dim=1).topk(beams.scores.shape[1], dim=1)
        slots = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
        for table, new in ((beams.lengths, self.length.expand_as(slots)), (beams.slots, slots)):
            table.copy_(torch.cat([table, new], dim=1).gather(1, chosen))
        beams.scores.copy_(kept)
        return kept[:, -1]


def _filled(encoded: Encoded, shape: BufferShape) -> Encoded:
    """Pad with masked positions, and with copies of the last sentence."""
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
    """Copy numbers from the host to the device without a host sync."""
    return numbers.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else numbers.to(device)
