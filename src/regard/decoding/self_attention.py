"""The self-attention of a Transformer's encoder and decoder, as traces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard.attention import Attention
from regard.attention.weight_hooks import hooked
from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS
from regard.decoding.edit_hooks import hooks_of
from regard.decoding.editing import EditedTranslation, opened, token_ids
from regard.decoding.ensemble import Ensemble
from regard.decoding.step_explanation import Recorder, recorders
from regard.decoding.teacher_forcing import shifted
from regard.decoding.translation import Translation
from regard.masks import reversal
from regard.models.inference_mode import inference_mode
from regard.shapes import Bool, Float, Tensor
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from regard.decoding.translator import Translator


@dataclass(frozen=True, eq=False)
class SelfAttention:
    """Where the source looks at itself, and the translation at what is written; None where there is none."""

    encoder: AttentionTrace | None
    """Row t: where the encoder, reading source token t, attends to in the source."""
    decoder: AttentionTrace | None
    """Row t: where the decoder, writing target token t, attends to among the start token and the tokens before."""

    def to_json(self) -> dict[str, Any]:
        """Return both traces, or null."""
        return {
            "encoder": None if self.encoder is None else self.encoder.to_json(),
            "decoder": None if self.decoder is None else self.decoder.to_json(),
        }


def self_attention(translator: "Translator", of: Translation | AttentionTrace) -> SelfAttention:
    """See `Translator.self_attention`."""
    translator.check_source()
    source, translation = opened(translator, of)
    target, decoder = translator.tokenizers.target, translator.decoder(translator.options)
    edits = translation.edits if isinstance(translation, EditedTranslation) else ()
    edited = hooks_of(decoder, edits, len(source))
    model = translator.model
    members = model.members if isinstance(model, Ensemble) else [model]
    reading = [(module, member.reverse_source) for member in members for module in member.encoder.own_attentions]
    recorded = recorders([*(module for module, _ in reading), *decoder.own_attentions], edited)
    tokens = token_ids(target, translation.tokens)
    read, mask = (part.to(translator.device) for part in pad_sources([source]))
    with inference_mode(model), hooked({**edited, **recorded}):
        encoded = model.encode(read, mask)
        decoder.teach(shifted(torch.tensor([tokens], device=translator.device)), encoded, look=False)
    own = [_looked(recorded, module) for module in decoder.own_attentions]
    encoding = [_in_order(_looked(recorded, module), mask, turned) for module, turned in reading]
    trace = translation.attention
    before = (*target.pieces([BOS]), *translation.tokens[:-1])
    words = (-1, *trace.target_words[:-1]) if trace.target_words else ()
    return SelfAttention(
        _trace(encoding, trace.source, trace.source, trace, trace.source_words, trace.source_words),
        _trace(own, before, translation.tokens, trace, words, trace.target_words),
    )


def _looked(recorded: dict[Any, Recorder], module: Attention) -> Float[Tensor, "H T S"]:
    """Join the looks of one module: one over all queries, or one for each."""
    rows = [look.weights[0].float().cpu() for look in recorded[module].looks]
    return torch.cat(rows, dim=1)


def _in_order(weights: Float[Tensor, "H S S"], mask: Bool[Tensor, "1 S"], turned: bool) -> Float[Tensor, "H S S"]:
    """Return the weights over the source as written, if the encoder has read it backwards."""
    if not turned:
        return weights
    order = reversal(mask, kept=1)[0].cpu()
    return weights[:, order][:, :, order]


def _trace(
    layers: Sequence[Float[Tensor, "H T S"]],
    source: Sequence[str],
    target: Sequence[str],
    like: AttentionTrace,
    source_words: tuple[int, ...],
    target_words: tuple[int, ...],
) -> AttentionTrace | None:
    if not layers:
        return None
    if len({layer.shape[0] for layer in layers}) > 1:  # members of an ensemble
        layers = [layer.mean(dim=0, keepdim=True) for layer in layers]
    return AttentionTrace(
        tuple(source),
        tuple(target),
        np.asarray(torch.stack(list(layers)).numpy(), dtype=np.float32),
        (),
        None,
        source_words=source_words,
        target_words=target_words,
        special=like.special,
    )
