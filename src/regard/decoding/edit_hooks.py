"""Edits become hooks on a decoder's attention modules: checked against what the model has, and applied to weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.weight_hooks import Look, WeightHook
from regard.decoding.edits import OVER, AblateHead, DropSource, Edit, SetRow, SetWeights, WeightEdit
from regard.errors import ConfigError
from regard.models.protocol import Decoder
from regard.shapes import Bool, Float, Tensor


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
            weights[:, heads, at] = edited(edit, weights[:, heads, at], allowed[:, heads, at])
        return weights


def edited(
    edit: WeightEdit, rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B #H #T S"]
) -> Float[Tensor, "B H T S"]:
    """Return the new weights of rows; `free` are the positions that may be attended to."""
    if isinstance(edit, SetWeights):
        return _shared(list(edit.weights), list(edit.weights.values()), rows, free.expand_as(rows))
    if isinstance(edit, SetRow):
        return rows.new_tensor(edit.row).expand_as(rows)
    assert isinstance(edit, AblateHead)
    if edit.to == "zero":
        return rows.new_zeros(rows.shape)
    uniform = free.expand_as(rows).to(rows.dtype)
    return uniform / uniform.sum(dim=-1, keepdim=True).clamp_min(1.0)


def _shared(
    at: list[int], given: list[float], rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B H T S"]
) -> Float[Tensor, "B H T S"]:
    """Set some weights; the others share the rest of each row's sum."""
    left = (rows.sum(dim=-1, keepdim=True) - sum(given)).clamp_min(0.0)
    others, open_to = rows.clone(), free.to(rows.dtype)
    others[..., at] = open_to[..., at] = 0.0
    had, room = others.sum(dim=-1, keepdim=True), open_to.sum(dim=-1, keepdim=True)
    if bool(((had == 0) & (room == 0) & (left > OVER)).any()):
        raise ConfigError(
            f"An edit leaves no position for a weight of {float(left.max()):.4g}: give it to another position, or "
            "silence the head with AblateHead."
        )
    in_proportion = others * (left / had.clamp_min(torch.finfo(rows.dtype).tiny))
    new = in_proportion + (had == 0) * open_to * (left / room.clamp_min(1.0))
    new[..., at] = rows.new_tensor(given)
    return new


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
        for position in _positions(edit):
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
    for position in _positions(edit):
        if position >= source_length:
            raise _no_position(position, source_length)
    if isinstance(edit, SetRow) and len(edit.row) != source_length:
        raise ConfigError(
            f"An edit's row has {len(edit.row)} weights, but the source has {source_length} tokens (with the end "
            "token): give one for each."
        )
    if lost := set(_positions(edit)) & set(dropped):
        raise ConfigError(f"An edit gives weight to position {min(lost)}, which another edit drops.")


def _positions(edit: WeightEdit) -> tuple[int, ...]:
    """Return the positions that an edit gives weight."""
    if isinstance(edit, SetWeights):
        return tuple(edit.weights)
    return tuple(at for at, weight in enumerate(edit.row) if weight) if isinstance(edit, SetRow) else ()


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
