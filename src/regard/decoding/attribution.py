"""Is the attention right? Two other measures of what each source token matters, and how far the attention agrees.

Attention says where a model looked, which need not be what its output depends on (Jain & Wallace 2019, Wiegreffe &
Pinter 2019). Occlusion and gradient × input measure the latter. They differ from each other too, since each asks a
question of its own.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batching import pad_sources
from regard.decoding.editing import opened, token_ids
from regard.decoding.teacher_forcing import force, shifted
from regard.decoding.translation import Translation
from regard.masks import reversal
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Tensor
from regard.viz.token_labels import friendly
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from regard.decoding.translator import Translator

Matrix = NDArray[np.float32]

AGREES, PARTLY = 2 / 3, 1 / 3
"""Shares of target tokens from which attention agrees with another measure, and agrees in part."""
SHARP, SPREAD = 0.4, 0.8
"""Relative entropies up to which attention is sharp, and from which it is spread out."""
TWICE, NEVER = 1.5, 0.15
"""Total weights, in target tokens, from which a source token counts as attended to twice, and up to which as never."""
PAIRS = 1 << 18
"""Maximum number of source and target positions in memory at a time, over all rows, for gradients."""
LONGEST = 1 << 23
"""Source length × target length² up to which gradients are computed: each target token takes a pass of its own."""
FEWEST = 3
"""Rank correlations need this many source tokens."""


class Agreement(NamedTuple):
    """How far attention agrees with another measure, over the source tokens that are not special."""

    correlation: float | None
    """Rank correlation, the mean over target tokens; most ranks are those of tokens that matter hardly at all."""
    same_top: float
    """Share of target tokens for which both put the same source token first."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each source token matters for each target token. Matrices are target × source; special tokens have NaN."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    log_probs: tuple[float, ...]
    """Log-probability of each target token."""
    occlusion: Matrix
    """By how much the log-probability of a target token falls when the source token is taken out of the text."""
    gradient: Matrix | None
    """Gradient of the log-probability with respect to the source embedding, times the embedding.

    None for ensembles and very long texts."""
    attention: Matrix | None
    """Attention weights, the mean over layers and heads; None without attention."""
    entropy: tuple[float, ...]
    """Entropy of each step's attention, relative to uniform attention: 0 is one position, 1 is all alike."""
    coverage: tuple[float, ...]
    """Total attention to each source token."""
    occlusion_agreement: Agreement | None
    """How far attention agrees with occlusion; None without attention or with too few source tokens."""
    gradient_agreement: Agreement | None
    """How far it agrees with the size of gradient × input."""
    head_agreement: tuple[tuple[float | None, ...], ...]
    """Rank correlation with occlusion of each layer's heads."""
    special: frozenset[str]

    @property
    def findings(self) -> tuple[str, ...]:
        """What the numbers say, in plain words."""
        if self.attention is None:
            return ("This model has no attention, so there is nothing to compare with occlusion and gradients.",)
        told = [_agreement("occlusion", "without which its probability falls most", self.occlusion_agreement)]
        if self.gradient is not None:
            told.append(_agreement("gradient × input", "to which it is most sensitive", self.gradient_agreement))
        mean = float(np.mean(self.entropy))
        kind = "sharp" if mean <= SHARP else "spread out" if mean >= SPREAD else "neither sharp nor spread out"
        told.append(f"The attention is {kind}: its entropy is {mean:.0%} of that of uniform attention.")
        for what, names in (("more than once", self.looked_twice), ("never", self.never_looked)):
            if names:
                listed = ", ".join(f"“{name}”" for name in names)
                told.append(f"Attended to {what}, all steps together: {listed}.")
        return tuple(told)

    @property
    def looked_twice(self) -> tuple[str, ...]:
        """The source tokens with much more attention than one target token's."""
        return self._covered(lambda total: total >= TWICE)

    @property
    def never_looked(self) -> tuple[str, ...]:
        """The source tokens with next to no attention."""
        return self._covered(lambda total: total <= NEVER)

    def _covered(self, fits: Callable[[float], bool]) -> tuple[str, ...]:
        names = friendly(self.source, self.special)
        return tuple(
            name
            for token, name, total in zip(self.source, names, self.coverage, strict=False)
            if token not in self.special and fits(total)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings; NaN is null."""
        return {
            "source": list(self.source),
            "target": list(self.target),
            "log_probs": list(self.log_probs),
            "occlusion": _numbers(self.occlusion),
            "gradient": None if self.gradient is None else _numbers(self.gradient),
            "attention": None if self.attention is None else _numbers(self.attention),
            "entropy": list(self.entropy),
            "coverage": list(self.coverage),
            "occlusion_agreement": None if self.occlusion_agreement is None else self.occlusion_agreement._asdict(),
            "gradient_agreement": None if self.gradient_agreement is None else self.gradient_agreement._asdict(),
            "head_agreement": [list(heads) for heads in self.head_agreement],
            "findings": list(self.findings),
        }


def attribution(translator: "Translator", of: Translation | AttentionTrace) -> Attribution:
    """See `Translator.attribution`. Edits are not applied: it is about the model itself."""
    translator.check_source()
    source, translation = opened(translator, of)
    trace = translation.attention
    target = token_ids(translator.tokenizers.target, translation.tokens)
    real = [place for place, token in enumerate(trace.source) if token not in trace.special]
    ((log_probs, looks),) = translator._force([source], [target], None, partial(force, look=True), None)
    weights = looks.permute(1, 2, 0, 3).numpy()  # layers, heads, target, source
    occluded = occlusion(translator, source, target, real, log_probs)
    gradient = None
    if isinstance(translator.model, Seq2Seq) and len(source) * len(target) ** 2 <= LONGEST:
        gradient = np.full_like(occluded, np.nan)
        gradient[:, real] = source_gradient(translator.model, source, target)[:, real]
    attention = weights.mean(axis=(0, 1)) if weights.shape[0] else None
    by_head = tuple(tuple(_mean_correlation(head, occluded, real) for head in layer) for layer in weights)
    return Attribution(
        source=trace.source,
        target=translation.tokens,
        log_probs=tuple(log_probs),
        occlusion=occluded,
        gradient=gradient,
        attention=attention,
        entropy=() if attention is None else tuple(relative_entropy(attention).tolist()),
        coverage=() if attention is None else tuple(attention.sum(axis=0).tolist()),
        occlusion_agreement=None if attention is None else agreement(attention, occluded, real),
        gradient_agreement=None
        if attention is None or gradient is None
        else agreement(attention, np.abs(gradient), real),
        head_agreement=by_head,
        special=trace.special,
    )


def occlusion(
    translator: "Translator",
    source: list[int],
    target: list[int],
    places: Sequence[int],
    log_probs: Sequence[float],
) -> Matrix:
    """Return how much each target token's log-probability falls without each of these source tokens; NaN elsewhere."""
    found = np.full((len(target), len(source)), np.nan, np.float32)
    if places:
        without = [source[:place] + source[place + 1 :] for place in places]
        forced = translator._force(without, [target] * len(places), None, partial(force, look=False), None)
        for place, (own, _) in zip(places, forced, strict=True):
            found[:, place] = np.array(log_probs) - np.array(own)
    return found


def gradient_times_input(
    value: Callable[[Float[Tensor, "B S E"]], Float[Tensor, " B"]], inputs: Float[Tensor, "B S E"]
) -> Float[Tensor, "B S"]:
    r"""Return `\sum_e x_{se}\, \partial f / \partial x_{se}` of a function of each row: exact if it is linear."""
    leaf = inputs.detach().clone().requires_grad_()
    with torch.enable_grad():
        (slopes,) = torch.autograd.grad(value(leaf).sum(), leaf)
    return (slopes * leaf).sum(dim=-1).detach()


@torch.inference_mode(False)
def source_gradient(model: Seq2Seq, source: list[int], target: list[int]) -> Matrix:
    """Return gradient × input of each target token's log-probability, for each source embedding."""
    device = next(model.parameters()).device
    training = model.training
    model.eval()
    # cuDNN has no backward of recurrent networks in evaluation mode.
    plain = torch.backends.cudnn.flags(enabled=False) if device.type == "cuda" else nullcontext()
    rows = max(1, PAIRS // (len(source) * len(target)))
    try:
        with plain:
            steps = range(0, len(target), rows)
            parts = [_gradient_rows(model, source, target[: first + rows], first) for first in steps]
    finally:
        model.train(training)
    return torch.cat(parts).float().cpu().numpy()


def _gradient_rows(model: Seq2Seq, source: list[int], target: list[int], first: int) -> Float[Tensor, "T S"]:
    """Return the gradients of the target's tokens from `first` on, by one backward pass: each has a row of its own."""
    device, count = next(model.parameters()).device, len(target) - first
    tokens = torch.tensor([target] * count, device=device)
    read, mask = (part.to(device) for part in pad_sources([source] * count))
    order = reversal(mask, kept=1) if model.reverse_source else None
    assert model.source_embedding is not None
    with torch.no_grad():
        embedded = model.source_embedding(read if order is None else read.gather(1, order))

    def value(inputs: Tensor) -> Tensor:
        encoded = model.turned(read, mask, lambda _: model.encoder(inputs, mask))
        every = model.decoder.logits(model.decoder.teach(shifted(tokens), encoded)).float().log_softmax(dim=-1)
        return every.gather(-1, tokens[..., None])[..., 0].diagonal(offset=first)

    found = gradient_times_input(value, embedded)
    return found if order is None else found.gather(1, order)


def relative_entropy(weights: Matrix) -> Matrix:
    """Return each row's entropy relative to uniform weights; 0 for a row without weight, or with one position."""
    share = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-30)
    terms = np.where(share > 0, share * np.log(np.maximum(share, 1e-30)), 0.0)
    return np.asarray(-terms.sum(axis=-1) / np.log(max(2, weights.shape[-1])), np.float32)


def rank_correlation(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return Spearman's rank correlation, with equal values sharing their mean rank; NaN if a side is constant."""
    first, second = (_ranks(side) for side in (one, other))
    first, second = first - first.mean(), second - second.mean()
    scale = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / scale) if scale > 0 else float("nan")


def _ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray((last - (count - 1) / 2)[place], np.float64)


def agreement(weights: Matrix, other: Matrix, places: Sequence[int]) -> Agreement | None:
    """Compare two target × source matrices at these source positions."""
    if len(places) < FEWEST or not len(weights):
        return None
    chosen = list(places)
    same = weights[:, chosen].argmax(axis=1) == other[:, chosen].argmax(axis=1)
    return Agreement(_mean_correlation(weights, other, places), float(same.mean()))


def _mean_correlation(weights: Matrix, other: Matrix, places: Sequence[int]) -> float | None:
    if len(places) < FEWEST:
        return None
    every = [
        rank_correlation(row[list(places)], with_[list(places)]) for row, with_ in zip(weights, other, strict=True)
    ]
    found = [one for one in every if not np.isnan(one)]
    return float(np.mean(found)) if found else None


def _agreement(name: str, meaning: str, found: Agreement | None) -> str:
    if found is None:
        return f"The source is too short to say whether attention and {name} agree."
    verb = "agree" if found.same_top >= AGREES else "agree in part" if found.same_top >= PARTLY else "do not agree"
    ranks = "" if found.correlation is None else f" Over all ranks the correlation is {found.correlation:.2f}."
    return (
        f"Attention and {name} {verb}: for {found.same_top:.0%} of the target tokens, the source token attended to "
        f"most is the one {meaning}.{ranks}"
    )


def _numbers(values: Matrix) -> list[list[float | None]]:
    return [[round(float(one), 6) if np.isfinite(one) else None for one in row] for row in values]
