"""A beam search as a tree: every hypothesis that was kept, pruned or finished."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS, EOS
from regard.decoding.beam_search import Beam
from regard.decoding.editing import encode, options_for
from regard.decoding.edits import ForcePrefix
from regard.decoding.hypothesis import End
from regard.decoding.penalties import length_penalty
from regard.decoding.search import DecodingRequest, check_options
from regard.decoding.search_loop import SelectedExtensions, best, run_search
from regard.decoding.token_limits import NEVER, Rules
from regard.errors import ConfigError
from regard.models.inference_mode import inference_mode
from regard.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from regard.decoding.translator import Translator


@dataclass(frozen=True)
class SearchNode:
    """A hypothesis: its last token, and the node that it extends."""

    number: int
    """Its index in the tree; the root, before the first token, is 0."""
    parent: int
    """-1 for the root."""
    token: str
    step: int
    """The step that wrote the token, from 0; -1 for the root."""
    token_log_prob: float
    """Log-probability of the token, given those before."""
    log_prob: float
    """Log-probability of all tokens."""
    score: float
    """The same divided by the length penalty; with the coverage penalty too, if it is finished."""
    status: str
    """`kept` in the beam, `pruned` (an extension that the beam left out, or one finished but beaten), or `finished`."""


@dataclass(frozen=True)
class SearchTree:
    """All hypotheses of a beam search, parents before children.

    The search is that of `translate` with `n_best` as large as the beam. Of each hypothesis in the beam, as many
    extensions are listed as the beam is wide; no other could have been kept.
    """

    text: str
    """The source text."""
    beam: int
    length_penalty: float
    """The exponent `decoding.length_penalty`."""
    nodes: tuple[SearchNode, ...]
    finished: tuple[int, ...]
    """The numbers of the finished nodes, best first."""

    def tokens(self, number: int) -> tuple[str, ...]:
        """Return the tokens from the root to a node."""
        if not 0 <= number < len(self.nodes):
            raise ConfigError(f"There is no node {number}: the tree has {len(self.nodes)}, counted from 0.")
        path, node = [], self.nodes[number]
        while node.parent >= 0:
            path.append(node.token)
            node = self.nodes[node.parent]
        return tuple(reversed(path))

    def prefix(self, number: int) -> ForcePrefix:
        """Return the edit that continues from a node: `translator.edit(tree.text, tree.prefix(7))`."""
        return ForcePrefix(self.tokens(number))

    def __str__(self) -> str:
        count = Counter(node.status for node in self.nodes[1:])
        told = ", ".join(f"{count[status]} {status}" for status in ("kept", "pruned", "finished"))
        return f"beam {self.beam} of {self.text!r}: {told}"

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings."""
        return {
            "text": self.text,
            "beam": self.beam,
            "length_penalty": self.length_penalty,
            "finished": list(self.finished),
            "nodes": [
                {
                    "number": node.number,
                    "parent": node.parent,
                    "token": node.token,
                    "step": node.step,
                    "token_log_prob": node.token_log_prob,
                    "log_prob": node.log_prob,
                    "score": node.score,
                    "status": node.status,
                }
                for node in self.nodes
            ],
        }


@dataclass
class Considered:
    """An extension that the beam considered."""

    token: int
    parent: int
    """Number of its parent among all that were considered; 0 for the root."""
    length: int
    log_prob: float
    kept: bool


class RecordingBeam(Beam):
    """Chooses as `Beam` does, for a single sentence, and records what it chose from."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.considered = [Considered(BOS, -1, 0, 0.0, True)]
        self.slots: list[dict[int, int]] = [{0: 0}]
        """At each length, the number of the hypothesis in each slot."""

    def __call__(
        self,
        totals: Float[Tensor, "1 N"],
        possible: Float[Tensor, "1 N W"],
        length: int,
        sentences: Int[Tensor, " 1"],
    ) -> SelectedExtensions:
        """Choose and record."""
        chosen = super().__call__(totals, possible, length, sentences)
        near, tokens = best(possible[0], self.width)
        sums = (totals[0][:, None] + near).tolist()
        kept = list(zip(chosen.parents[0].tolist(), chosen.tokens[0].tolist(), strict=True))
        numbers: dict[tuple[int, int], int] = {}
        for slot, (own_tokens, own_sums) in enumerate(zip(tokens.tolist(), sums, strict=True)):
            for token, total in zip(own_tokens, own_sums, strict=True):
                if total > NEVER:
                    numbers[slot, token] = len(self.considered)
                    parent = self.slots[-1][slot]
                    self.considered.append(Considered(token, parent, length, total, (slot, token) in kept))
        self.slots.append({slot: numbers[place] for slot, place in enumerate(kept) if place in numbers})
        return chosen


def search_tree(translator: "Translator", text: str, beam: int | None, to: str | None) -> SearchTree:
    """See `Translator.search_tree`."""
    translator.check_source()
    beam = translator.options.beam if beam is None else beam
    options = options_for(translator.options, beam)
    check_options(options, max(1, beam))
    source, text = encode(translator, text, to)
    target, decoder = translator.tokenizers.target, translator.decoder(options)
    most = translator.model.decoder.most
    request = DecodingRequest(BOS, EOS, translator._banned(options), n_best=beam, most=most, look=False)
    choose = RecordingBeam(beam)
    with inference_mode(translator.model):
        encoded = translator.model.encode(*(part.to(translator.device) for part in pad_sources([source])))
        outcome = run_search(decoder, encoded, Rules.make(encoded.mask, options, request), request, choose)
    finished = {choose.slots[end.length][end.slot]: end for end in outcome.ends[0][:beam]}
    nodes = _nodes(choose.considered, finished, options.length_penalty)
    pieces = target.pieces([one.token for one in choose.considered])
    named = (replace(node, token=piece) for node, piece in zip(nodes, pieces, strict=True))
    return SearchTree(text, beam, options.length_penalty, tuple(named), tuple(finished))


def _nodes(considered: list[Considered], finished: dict[int, End], alpha: float) -> list[SearchNode]:
    nodes = []
    for number, one in enumerate(considered):
        end = finished.get(number)
        status = "kept" if one.kept and one.token != EOS else "pruned"
        before = considered[one.parent].log_prob if number else 0.0
        score = one.log_prob / length_penalty(one.length, alpha) if end is None else end.score
        step = one.length - 1
        status = status if end is None else "finished"
        nodes.append(SearchNode(number, one.parent, "", step, one.log_prob - before, one.log_prob, score, status))
    return nodes
