"""The model's own numbers at one decoding step: scores, mask, weights, the mix of values, and the top tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.attention import Attention
from regard.attention.weight_hooks import Look, WeightHook, hooked
from regard.data.batching import pad_sources
from regard.decoding.edit_hooks import hooks_of
from regard.decoding.editing import EditedTranslation, check_step, opened, token_ids
from regard.decoding.teacher_forcing import shifted
from regard.decoding.translation import Translation
from regard.errors import ConfigError
from regard.models.inference_mode import inference_mode
from regard.shapes import Float, Tensor
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from regard.decoding.translator import Translator


@dataclass(frozen=True, eq=False)
class LayerStep:
    """One layer's attention to the source at one step; all arrays are heads × source positions."""

    scores: NDArray[np.float32]
    """How well the query fits each key, with temperature and position bias, before the mask."""
    allowed: NDArray[np.bool_]
    """Where the head may attend to."""
    weights: NDArray[np.float32]
    """The weights used, after edits."""
    contributions: NDArray[np.float32]
    """The length of each position's part in the context: its weighted value, after the output projection if any."""

    def to_json(self) -> dict[str, Any]:
        """Return plain lists; a masked score is null."""
        masked = np.where(self.allowed, self.scores, np.nan)
        return {
            "scores": _numbers(self.scores),
            "masked": _numbers(masked),
            "weights": _numbers(self.weights),
            "contributions": _numbers(self.contributions),
        }


@dataclass(frozen=True, eq=False)
class StepExplanation:
    """How a model came to one token."""

    source: tuple[str, ...]
    step: int
    token: str
    """The token of the translation at this step."""
    log_prob: float
    """Its log-probability."""
    candidates: tuple[tuple[str, float], ...]
    """The most probable tokens and their probabilities, best first."""
    layers: tuple[LayerStep, ...]
    """The attention to the source of each layer; empty without attention."""

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings."""
        return {
            "source": list(self.source),
            "step": self.step,
            "token": self.token,
            "log_prob": self.log_prob,
            "candidates": [[token, probability] for token, probability in self.candidates],
            "layers": [layer.to_json() for layer in self.layers],
        }


class Recorder(WeightHook):
    """Keeps every look of an attention module, with the weights that an edit leaves."""

    def __init__(self, edit: WeightHook | None = None) -> None:
        self.edit = edit
        self.dropped = () if edit is None else edit.dropped
        self.looks: list[Look] = []

    def __call__(self, look: Look) -> Float[Tensor, "B H T S"]:
        """Record a look."""
        weights = look.weights if self.edit is None else self.edit(look)
        self.looks.append(look._replace(weights=weights))
        return weights


def recorders(modules: Sequence[Attention], edits: Mapping[nn.Module, WeightHook]) -> dict[nn.Module, Recorder]:
    """Return a recorder for each module, which also applies its edits."""
    return {module: Recorder(edits.get(module)) for module in modules}


def explain_step(
    translator: "Translator", of: Translation | AttentionTrace, step: int, candidates: int
) -> StepExplanation:
    """See `Translator.explain_step`."""
    translator.check_source()
    source, translation = opened(translator, of)
    check_step(step, len(translation.tokens))
    if candidates < 0:
        raise ConfigError(f"candidates is {candidates}; it must be at least 0 (0 for none).")
    target, decoder = translator.tokenizers.target, translator.decoder(translator.options)
    edits = translation.edits if isinstance(translation, EditedTranslation) else ()
    edited = hooks_of(decoder, edits, len(source))
    recorded = recorders(decoder.source_attentions, edited)
    tokens = torch.tensor([token_ids(target, translation.tokens[: step + 1])], device=translator.device)
    with inference_mode(translator.model), hooked({**edited, **recorded}):
        encoded = translator.model.encode(*(part.to(translator.device) for part in pad_sources([source])))
        taught = decoder.teach(shifted(tokens), encoded, look=True)
        log_probs = decoder.logits(taught)[0, step].float().log_softmax(dim=-1)
    top = log_probs.topk(min(candidates, len(log_probs)))
    names = target.pieces(top.indices.tolist())
    return StepExplanation(
        source=tuple(translator.tokenizers.source.pieces(source)),
        step=step,
        token=translation.tokens[step],
        log_prob=float(log_probs[tokens[0, step]]),
        candidates=tuple(zip(names, top.values.exp().tolist(), strict=True)),
        layers=tuple(_layer(module, recorded[module], step) for module in decoder.source_attentions),
    )


@torch.inference_mode()
def _layer(module: Attention, recorder: Recorder, step: int) -> LayerStep:
    (look,) = [look for look in recorder.looks if look.first <= step < look.first + look.weights.shape[2]]
    row = step - look.first
    weights = look.weights[0, :, row]
    allowed = look.allowed.expand_as(look.weights)[0, :, row]
    lengths = value_lengths(module, look.values[0])
    parts = (look.scores[0, :, row].float(), allowed, weights.float(), (weights * lengths).float())
    return LayerStep(*(part.cpu().numpy() for part in parts))


@torch.inference_mode()
def value_lengths(module: Attention, values: Float[Tensor, "H S V"]) -> Float[Tensor, "H S"]:
    r"""Return the length of each value as it enters the context: `|W_O^h v|` (Kobayashi et al. 2020, section 3.1)."""
    if module.heads is not None:
        by_head = module.heads.W_o.weight.view(-1, *values.shape[::2])  # D H V
        values = torch.einsum("dhv,hsv->hsd", by_head, values.to(by_head.dtype))
    lengths: Tensor = values.norm(dim=-1)
    return lengths


def _numbers(values: NDArray[np.float32]) -> list[list[float | None]]:
    return [[round(float(one), 6) if np.isfinite(one) else None for one in row] for row in values]
