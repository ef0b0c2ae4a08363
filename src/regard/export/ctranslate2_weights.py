"""The weights of a Transformer in the layout of CTranslate2.

CTranslate2 has one kind of attention: inner products of projected queries and keys, divided by the root of a head's
width. Everything else that is linear is folded into its projections: other scales, temperatures, the bilinear score,
key and value heads that several query heads share, pruned heads, and attention without projections.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from regard.attention import Attention
from regard.attention.positions import Rotary, Shaw
from regard.attention.score import General, ScaledDot
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.models.transformer_layer import DecoderLayer, EncoderLayer, FeedForward
from regard.shapes import Float, Tensor

POSITIONS = 2048
"""Rows of the table of sines and cosines; CTranslate2 itself cuts sources at 1024 tokens by default."""


class Linear(NamedTuple):
    """A linear map."""

    weight: Float[Tensor, "O I"]
    bias: Float[Tensor, " O"]


class Projections(NamedTuple):
    """The four maps of multi-head attention, each head with keys and values of its own."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear


@torch.no_grad()
def transformer_spec(model: Seq2Seq) -> Any:
    """Return CTranslate2's specification of a model, with its weights."""
    from ctranslate2.specs import transformer_spec as specs
    from ctranslate2.specs.common_spec import Activation

    encoder, decoder = model.encoder, model.decoder
    assert isinstance(encoder, TransformerEncoder)
    assert isinstance(decoder, TransformerDecoder)
    sides = []
    for kind, side in ((specs.TransformerEncoderSpec, encoder), (specs.TransformerDecoderSpec, decoder)):
        layers: list[Any] = list(side.layers)
        own = layers[0].self_attention
        is_gelu = layers[0].feed_forward.activation is nn.functional.gelu
        options: dict[str, Any] = {}
        if isinstance(own.position, Rotary):
            options = {"rotary_dim": _head_width(own, len(own_norm(side))), "rotary_interleave": True}
        sides.append(
            kind(
                len(layers),
                1 if own.heads is None else own.heads.heads,
                pre_norm=side.norm is not None,
                activation=Activation.GELU if is_gelu else Activation.RELU,
                relative_position=isinstance(own.position, Shaw),
                head_dim=_head_width(own, len(own_norm(side))),
                **options,
            )
        )
    spec = specs.TransformerSpec(*sides)
    _fill_encoder(spec.encoder, model, encoder)
    _fill_decoder(spec.decoder, decoder)
    return spec


def own_norm(side: TransformerEncoder | TransformerDecoder) -> Tensor:
    """Return a weight as long as the model is wide."""
    first: Any = side.layers[0]
    weight: Tensor = first.around_network.norm.weight
    return weight


def _fill_encoder(spec: Any, model: Seq2Seq, encoder: TransformerEncoder) -> None:
    assert model.source_embedding is not None
    spec.embeddings[0].weight = _stored(model.source_embedding.weight)
    _fill_positions(spec, model.source_embedding)
    for own, layer in zip(spec.layer, encoder.layers, strict=True):
        assert isinstance(layer, EncoderLayer)
        _fill_self_attention(own.self_attention, layer.self_attention, layer.around_look.norm)
        _fill_network(own.ffn, layer.feed_forward, layer.around_network.norm)
    if encoder.norm is not None:
        _fill_norm(spec.layer_norm, encoder.norm)


def _fill_decoder(spec: Any, decoder: TransformerDecoder) -> None:
    spec.embeddings.weight = _stored(decoder.embedding.weight)
    _fill_positions(spec, decoder.embedding)
    for own, layer in zip(spec.layer, decoder.layers, strict=True):
        _fill_decoder_layer(own, layer)
    if decoder.norm is not None:
        _fill_norm(spec.layer_norm, decoder.norm)
    _fill_linear(spec.projection, Linear(decoder.output.weight, decoder.output.bias))


def _fill_decoder_layer(spec: Any, layer: DecoderLayer) -> None:
    assert layer.attention is not None
    _fill_self_attention(spec.self_attention, layer.self_attention, layer.around_past.norm)
    query, key, value, output = projections(layer.attention, len(layer.around_network.norm.weight))
    for own, linear in zip(spec.attention.linear, (query, _joined(key, value), output), strict=True):
        _fill_linear(own, linear)
    _fill_norm(spec.attention.layer_norm, layer.around_source.norm)
    _fill_network(spec.ffn, layer.feed_forward, layer.around_network.norm)


def _fill_positions(spec: Any, embedding: Any) -> None:
    """Store what is added to embeddings; CTranslate2's own sines and cosines have another order and other rates."""
    if not hasattr(spec, "position_encodings"):
        return
    rows, width = embedding.longest or POSITIONS, embedding.embedding_dim
    nothing = torch.zeros(1, rows, width)
    table = nothing if embedding.position is None else embedding.position.embed(nothing, 0)
    spec.position_encodings.encodings = _stored(table[0])


def _fill_self_attention(spec: Any, attention: Attention, norm: nn.LayerNorm) -> None:
    query, key, value, output = projections(attention, len(norm.weight))
    _fill_linear(spec.linear[0], _joined(query, key, value))
    _fill_linear(spec.linear[1], output)
    _fill_norm(spec.layer_norm, norm)
    if isinstance(attention.position, Shaw):
        spec.relative_position_keys = _stored(attention.position.a_K)
        spec.relative_position_values = _stored(attention.position.a_V)


def _fill_network(spec: Any, network: FeedForward, norm: nn.LayerNorm) -> None:
    _fill_linear(spec.linear_0, Linear(network.W_1.weight, network.W_1.bias))
    _fill_linear(spec.linear_1, Linear(network.W_2.weight, network.W_2.bias))
    _fill_norm(spec.layer_norm, norm)


def _fill_linear(spec: Any, linear: Linear) -> None:
    spec.weight, spec.bias = _stored(linear.weight), _stored(linear.bias)


def _fill_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _stored(norm.weight), _stored(norm.bias)


def _stored(tensor: Tensor) -> Any:
    return tensor.detach().to(torch.float32).contiguous().clone().numpy()


def _joined(*parts: Linear) -> Linear:
    return Linear(torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts]))


# -- attention as CTranslate2 has it -----------------------------------------------------------------------------------


def projections(attention: Attention, width: int) -> Projections:
    """Return an attention's maps, with its score, temperatures and pruned heads folded in."""
    heads = attention.heads
    if heads is None:
        same = Linear(torch.eye(width), torch.zeros(width))
        values = same if attention.values is None else Linear(attention.values.weight, torch.zeros(width))
        query, key, value, output, groups, count = same, same, values, same, 1, 1
    else:
        assert heads.W_k is not None
        query, key, value, output = (
            Linear(part.weight, part.bias) for part in (heads.W_q, heads.W_k, heads.W_v, heads.W_o)
        )
        groups, count = heads.groups, heads.heads
    if isinstance(attention.score, General):
        key = _after(attention.score.W_a.weight, key, groups)
    key, value = _for_each_head(key, groups, count), _for_each_head(value, groups, count)
    return Projections(_scaled(query, _scales(attention, count, width)), key, value, _pruned(output, attention, count))


def _head_width(attention: Attention, width: int) -> int:
    """Return the width of one head."""
    return width if attention.heads is None else len(attention.heads.W_q.weight) // attention.heads.heads


def _scales(attention: Attention, heads: int, width: int) -> Float[Tensor, " H"]:
    """Return the factor of each head's scores, relative to the scaled dot product."""
    factor = 1.0 if isinstance(attention.score, ScaledDot) else _head_width(attention, width) ** 0.5
    scales = torch.full((heads,), factor / attention.temperature)
    return scales if attention.log_temperature is None else scales * torch.exp(-attention.log_temperature)


def _after(weight: Float[Tensor, "O I"], first: Linear, groups: int) -> Linear:
    """Apply a further map to the outputs of each group."""
    maps, inner = weight.view(groups, -1, weight.shape[1]), first.weight.view(groups, weight.shape[1], -1)
    bias = torch.einsum("goi,gi->go", maps, first.bias.view(groups, -1))
    return Linear(torch.einsum("goi,gid->god", maps, inner).flatten(0, 1), bias.flatten())


def _for_each_head(linear: Linear, groups: int, heads: int) -> Linear:
    """Repeat the outputs of each group for all heads that share them."""
    times = heads // groups
    weight = linear.weight.view(groups, -1, linear.weight.shape[1]).repeat_interleave(times, dim=0)
    return Linear(weight.flatten(0, 1), linear.bias.view(groups, -1).repeat_interleave(times, dim=0).flatten())


def _scaled(linear: Linear, scales: Float[Tensor, " H"]) -> Linear:
    """Multiply the outputs of each head by its factor."""
    every = scales.repeat_interleave(len(linear.bias) // len(scales))
    return Linear(linear.weight * every[:, None], linear.bias * every)


def _pruned(output: Linear, attention: Attention, heads: int) -> Linear:
    """Ignore the contexts of pruned heads."""
    if not attention.pruned:
        return output
    weight = output.weight.clone().view(len(output.bias), heads, -1)
    weight[:, list(attention.pruned)] = 0.0
    return Linear(weight.flatten(1), output.bias)
