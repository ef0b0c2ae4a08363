"""Beam search and diverse beam search; a beam of one is greedy search."""

from collections.abc import Iterable
from typing import Any

import torch

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search_loop import ExtensionSelector, SelectedExtensions, best, run_search
from regard.decoding.search_methods import DecodingRequest, methods
from regard.decoding.terminology.constrained_beam_search import constrained_beam_search
from regard.decoding.token_limits import NEVER, Rules
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Float, Int, Tensor


class Beam(ExtensionSelector):
    r"""Keep the best extensions of all live hypotheses of a group (Sutskever et al. 2014, section 3.2).

    With G groups of B / G hypotheses, the groups choose in turn, and each time that an earlier group has chosen a token
    at the same step it costs the later ones more (Vijayakumar et al. 2016, equation 5, with their Hamming diversity):

    .. math::
        Y^g_{[t]} = \mathrm{argmax} \sum_b \Theta(y^g_{b,[t]}) + \lambda \sum_{h < g} \Delta(Y^h_{[t]})[y^g_{b,t}]
        \qquad \Delta(Y^h)[w] = -|\{b : y^h_{b,t} = w\}|

    :math:`\Theta` is the log-probability of all tokens so far; the diversity cost of a step is not carried over.
    """

    def __init__(self, width: int, groups: int = 1, diversity: float = 0.0) -> None:
        self.width, self.groups, self.diversity = width, groups, diversity
        self.moves = width > 1

    def __call__(
        self,
        totals: Float[Tensor, "B N"],
        possible: Float[Tensor, "B N W"],
        length: int,
        sentences: Int[Tensor, " B"],
    ) -> SelectedExtensions:
        """Let the groups choose in turn; before the first token they all extend the same single hypothesis."""
        slots = max(1, totals.shape[1] // self.groups)
        chosen = []
        taken = possible.new_zeros(len(possible), possible.shape[2]) if self.groups > 1 else None
        for group in range(self.groups):
            first = 0 if length == 1 else group * slots
            within = slice(first, first + slots)
            costly = possible[:, within] if taken is None else possible[:, within] - self.diversity * taken[:, None]
            ranked, tokens, parents = self._best(totals[:, within], costly)
            chosen.append((tokens, parents + first))
            if taken is not None:
                taken.scatter_add_(1, tokens, (ranked > NEVER).to(taken.dtype))
        return SelectedExtensions(*(torch.cat(parts, dim=1) for parts in zip(*chosen, strict=True)))

    def _best(
        self, totals: Float[Tensor, "B N"], possible: Float[Tensor, "B N W"]
    ) -> tuple[Float[Tensor, "B M"], Int[Tensor, "B M"], Int[Tensor, "B M"]]:
        """Return the best extensions of one group: their ranking scores, their tokens, and the slots they extend."""
        count = self.width // self.groups
        # At most `count` extensions of one hypothesis are kept: take those first, rather than add over the vocabulary.
        near, tokens = best(possible.flatten(0, 1), count)
        ranked, chosen = best((totals.reshape(-1, 1) + near).view(len(totals), -1), count)
        return ranked, tokens.view(len(totals), -1).gather(1, chosen), chosen // near.shape[1]


@methods.register("beam")
def beam_search(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Keep the decoding.beam best hypotheses at each step (Sutskever et al. 2014); greedy with a beam of one."""
    if request.constraints is not None:
        return constrained_beam_search(decoder, encoded, options, request)
    rules = Rules.make(encoded.mask, options, request)
    outcome = run_search(decoder, encoded, rules, request, Beam(options.beam))
    return outcome.trace([ends[: request.n_best] for ends in outcome.ends])


@methods.register("diverse")
def diverse_beam_search(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Split the beam into groups that avoid each other's words (Vijayakumar et al. 2016).

    A hypothesis that several groups find is returned once. Scores are those of `beam`, without the diversity cost.
    Differs from the paper: a length penalty where `decoding.length_penalty` is not 0.
    """
    rules = Rules.make(encoded.mask, options, request)
    choose = Beam(options.beam, options.groups or options.beam, options.diversity)
    outcome = run_search(decoder, encoded, rules, request, choose)
    return [_distinct(found)[: request.n_best] for found in outcome.trace(outcome.ends)]


def _distinct(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Drop duplicates, keeping the first."""
    kept: dict[tuple[int, ...], Hypothesis] = {}
    for hypothesis in hypotheses:
        kept.setdefault(tuple(hypothesis.tokens), hypothesis)
    return list(kept.values())
