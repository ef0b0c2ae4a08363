"""From edits to hooks on a decoder's attention modules."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from regard.attention import Attention
from regard.attention.weight_hooks import Look, WeightHook
from regard.decoding.edits import DropSource, Edit, SetRow, WeightEdit
from regard.errors import ConfigError
from regard.models.protocol import Decoder
from regard.shapes import Float, Tensor


class EditHook(WeightHook):
    """Applies edits to the weights of one attention module."""

    def __init__(self, edits: Sequence[WeightEdit], dropped: tuple[int, ...] = ()) -> None:
        self.edits, self.dropped = edits, dropped

    def __call__(self, look: Look) -> Float[Tensor, "B H T S"]:
        """Return the given tensor itself if no edit is about these steps."""
        weights, steps = look.weights, look.weights.shape[2]
        for edit in self.edits:
            at = slice(None) if edit.step is None else slice(edit.step - look.first, edit.step - look.first + 1)
            if edit.step is not None and not look.first <= edit.step < look.first + steps:
                continue
            heads = slice(None) if edit.head is None else slice(edit.head, edit.head + 1)
            allowed = look.allowed.expand(-1, weights.shape[1], steps, -1)
            weights = weights.clone()
            weights[:, heads, at] = edit.applied(weights[:, heads, at], allowed[:, heads, at])
        return weights


def hooks_of(decoder: Decoder[Any], edits: Sequence[Edit], source_length: int) -> Mapping[nn.Module, WeightHook]:
    """Return the hook of each attention module that edits change; raise a ConfigError for what it does not have."""
    dropped = _dropped(decoder, edits, source_length)
    chosen = [edit for edit in edits if isinstance(edit, WeightEdit)]
    for edit in chosen:
        _check_positions(edit, source_length, dropped)
    hooks: dict[nn.Module, WeightHook] = {}
    for side, modules in (("source", decoder.source_attentions), ("own", decoder.own_attentions)):
        for edit in chosen:
            if edit.attention == side:
                _check_heads(edit, modules)
        own_dropped = dropped if side == "source" else ()
        for layer, module in enumerate(modules):
            about = [edit for edit in chosen if edit.attention == side and edit.layer in (None, layer)]
            if about or own_dropped:
                hooks[module] = EditHook(about, own_dropped)
    return hooks


def _dropped(decoder: Decoder[Any], edits: Sequence[Edit], source_length: int) -> tuple[int, ...]:
    dropped = tuple(sorted({edit.position for edit in edits if isinstance(edit, DropSource)}))
    if dropped and not decoder.source_attentions:
        raise _no_attention("source")
    for position in dropped:
        if position >= source_length:
            raise _no_position(position, source_length)
    if dropped and len(dropped) == source_length:
        raise ConfigError(f"The edits drop all {source_length} source positions: leave at least one.")
    return dropped


def _check_positions(edit: WeightEdit, source_length: int, dropped: tuple[int, ...]) -> None:
    if edit.attention == "own":
        for position in edit.positions:
            if edit.step is None or position > edit.step:
                raise ConfigError(
                    f"An edit gives weight to position {position} of the decoder's own past at step {edit.step}: name "
                    "a step, and positions from 0 (the start token) up to it."
                )
        if isinstance(edit, SetRow) and edit.step is not None and len(edit.row) != edit.step + 1:
            raise ConfigError(
                f"An edit's row has {len(edit.row)} weights, but step {edit.step} sees {edit.step + 1} positions."
            )
        return
    for position in edit.positions:
        if position >= source_length:
            raise _no_position(position, source_length)
    if isinstance(edit, SetRow) and len(edit.row) != source_length:
        raise ConfigError(
            f"An edit's row has {len(edit.row)} weights, but the source has {source_length} tokens (with the end "
            "token): give one for each."
        )
    if lost := set(edit.positions) & set(dropped):
        raise ConfigError(f"An edit gives weight to position {min(lost)}, which another edit drops.")


def _check_heads(edit: WeightEdit, modules: Sequence[Attention]) -> None:
    if not modules:
        raise _no_attention(edit.attention)
    if edit.layer is not None and edit.layer >= len(modules):
        raise ConfigError(f"There is no layer {edit.layer}: this model has {len(modules)}, counted from 0.")
    for layer in range(len(modules)) if edit.layer is None else [edit.layer]:
        heads = modules[layer].head_count
        if edit.head is not None and edit.head >= heads:
            raise ConfigError(f"There is no head {edit.head} in layer {layer}: it has {heads}, counted from 0.")


def _no_position(position: int, source_length: int) -> ConfigError:
    return ConfigError(
        f"There is no source position {position}: the source has {source_length} tokens, counted from 0."
    )


def _no_attention(side: str) -> ConfigError:
    if side == "own":
        return ConfigError("Edits of the decoder's own attention need a Transformer decoder, which this model has not.")
    return ConfigError("This model has no attention to the source to edit; only a prefix can be forced.")
