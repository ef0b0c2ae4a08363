"""Build a model from its configuration, with initial weights."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from regard.attention import focuses, reaches, scores
from regard.attention.multi_head import HeadLinear
from regard.attention.positions import Position, PositionSizes, positions
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.readout import Tanh
from regard.models import (  # noqa: F401 (importing them registers them)
    attentive_language_model,
    bahdanau,
    conditional_decoder,
    gnmt,
    lstmn,
    luong,
    no_encoder,
    recurrent_encoder,
    transformer,
    xu2015,
)
from regard.models.lstmn import FUSIONS
from regard.models.pointer_generator import Pointer, check_copying
from regard.models.protocol import Decoder
from regard.models.registries import DecoderParts, decoders, encoders
from regard.models.seq2seq import Seq2Seq
from regard.models.transformer_layer import check_choices

PAD = 0
TRANSFORMER = "transformer"
TIES = ("none", "output", "all")
LOOKING_AT_ITSELF = {TRANSFORMER, "lstmn", "looking-back"}
"""Encoders and decoders with self-attention."""


def build_model(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Build the model that a configuration describes; weights are sampled from torch's generator."""
    model = assemble(config, source_size, target_size)
    initialise(model)
    return model


def build_empty(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Build the same model without initialising it, which takes most of the time: its weights are to be loaded."""
    with SkipInitialisation():
        return assemble(config, source_size, target_size)


class SkipInitialisation(TorchFunctionMode):
    """Disable random initialisation: tensors that would be filled at random stay uninitialised."""

    drawing: ClassVar = {
        *(torch.Tensor.uniform_, torch.Tensor.normal_),
        *(nn.init.uniform_, nn.init.normal_, nn.init.kaiming_uniform_, nn.init.xavier_uniform_),
    }

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func is torch.randn:
            return torch.empty(*args, **given)
        if func in self.drawing:
            return args[0] if args else given["tensor"]
        return func(*args, **given)


def assemble(config: ModelConfig, source_size: int, target_size: int) -> Seq2Seq:
    """Build the same model without initial weights."""
    if config.image is not None:
        raise ConfigError("This model reads images (model.image), but the data is text only: set model.image=none.")
    check_model(config, source_size, target_size)
    dropout = Dropout(config.dropout, config.variational)
    position = make_position(config)
    source_embedding = None
    if config.encoder.kind != "none":
        source_embedding = make_embedding(config, source_size, config.encoder.kind, position)
    target_embedding = make_embedding(config, target_size, config.decoder.kind, position)
    if config.tie == "all" and source_embedding is not None:
        target_embedding.weight = source_embedding.weight
    encoder = encoders[config.encoder.kind](config, dropout)
    parts = DecoderParts(
        embedding=target_embedding,
        dropout=dropout,
        state_width=encoder.state_width,
        summary=encoder.summary,
        target_size=target_size,
    )
    decoder: Decoder[Any] = decoders[config.decoder.kind](config, parts)
    if config.copy:
        decoder = Pointer(decoder, source_size)
    return Seq2Seq(source_embedding, encoder, decoder, dropout, config.reverse_source)


def make_embedding(config: ModelConfig, size: int, kind: str, position: Position | None) -> Embedding:
    """Build the embedding of one side. In a hybrid with a Transformer, the recurrent side gets no positions."""
    kinds = (config.encoder.kind, config.decoder.kind)
    own = position if kind == TRANSFORMER or TRANSFORMER not in kinds else None
    return Embedding(size, config.embedding, PAD, own, scaled=own is not None or kind == TRANSFORMER)


def make_position(config: ModelConfig) -> Position | None:
    """Build the position encoding that is added to embeddings; None if there is none."""
    if config.positions == "none" or not positions[config.positions].absolute:
        return None
    return positions[config.positions](PositionSizes(config.embedding, longest=config.self_attention.longest))


def check_model(config: ModelConfig, source_size: int, target_size: int) -> None:
    """Refuse configurations that no model can be built from."""
    if config.tie not in TIES:
        raise ConfigError(f"model.tie must be one of {', '.join(TIES)}, got {config.tie!r}.")
    if config.tie == "all" and source_size != target_size:
        raise ConfigError(
            f"model.tie=all shares one embedding, but the vocabularies have {source_size} and {target_size} entries: "
            "set tokenizer.joint=true, or model.tie=output."
        )
    if not 0.0 <= config.dropout < 1.0:
        raise ConfigError(f"model.dropout must be at least 0 and below 1, got {config.dropout}.")
    if config.decoder.input_feeding and config.decoder.kind != "luong":
        raise ConfigError(
            f"model.decoder.input_feeding feeds the attentional vector of the luong decoder; the {config.decoder.kind} "
            "decoder's context enters its recurrence already. Set model.decoder.kind=luong, or leave it out."
        )
    if config.encoder.kind == "none" and config.attention is not None and config.image is None:
        raise ConfigError(
            "model.encoder.kind=none makes a language model, which has no source to attend to: set "
            "model.attention=none (model.self_attention configures attention to its own past)."
        )
    if config.decoder.kind == "luong" and config.decoder.readout == "none" and config.attention is not None:
        raise ConfigError(
            "The luong decoder attends after its recurrent step, so with model.decoder.readout=none nothing would use "
            "the context: set model.decoder.readout=tanh, or model.attention=none."
        )
    if config.encoder.kind in LOOKING_AT_ITSELF and config.self_attention.focus == "hard":
        raise ConfigError(
            "model.self_attention.focus=hard gets its reward from the target token that follows each step, and the "
            "steps of an encoder's self-attention have none: use gumbel, which has a gradient of its own."
        )
    check_copying(config)
    _check_names(config)
    sizes = {
        "model.embedding": config.embedding,
        "model.encoder.width": config.encoder.width,
        "model.encoder.layers": config.encoder.layers,
        "model.decoder.width": config.decoder.width,
        "model.decoder.layers": config.decoder.layers,
        "model.decoder.readout_width": config.decoder.readout_width,
        "model.attention.width": 1 if config.attention is None else config.attention.width,
    }
    for name, size in sizes.items():
        if size < 1:
            raise ConfigError(f"{name} must be at least 1, got {size}.")


def _check_names(config: ModelConfig) -> None:
    """Refuse misspelt names and settings without effect, even those that this model would never read."""
    for attention in (config.attention, config.self_attention):
        if attention is not None:
            _ = scores[attention.score], reaches[attention.reach], focuses[attention.focus]
    for side in ("encoder", "decoder"):
        check_choices(config, side)
    if config.decoder.fusion not in FUSIONS:
        raise ConfigError(f"model.decoder.fusion must be one of {', '.join(FUSIONS)}, got {config.decoder.fusion!r}.")
    looks = LOOKING_AT_ITSELF & {config.encoder.kind, config.decoder.kind}
    if config.positions != "none" and not positions[config.positions].absolute and not looks:
        absolute = " or ".join(name for name in positions if positions[name].absolute)
        raise ConfigError(
            f"model.positions={config.positions} acts in self-attention, and this model has none: set it to none, "
            f"or use {absolute}, which are added to embeddings."
        )


@torch.no_grad()
def initialise(model: nn.Module) -> None:
    """Set initial weights: Glorot for matrices, orthogonal for each recurrent gate, zero for biases.

    Embeddings are standard normal: smaller ones all but vanish in deep LSTMs, which then need some hundred steps to
    find them. Those that are scaled, or shared with an output layer, have variance 1/width. The gates of an LSTM are
    initialised separately, and its forget gate starts open (bias 1, Gers et al. 2000). Luong's attentional vector
    depends on states and their mean alone, which start at a quarter or less: its weights are four times larger. The
    papers used small uniform or Gaussian weights; these need no tuning. Norms, `HeadLinear`, positions, and learned
    scales and offsets keep initial values of their own.
    """
    of_own = (nn.LayerNorm, HeadLinear, Position)
    kept = {id(p) for module in model.modules() if isinstance(module, of_own) for p in module.parameters()}
    whole = _whole_embeddings(model)
    for name, parameter in model.named_parameters():
        kind = name.rsplit(".", 2)[-2:]
        if id(parameter) in kept:
            continue
        if "embedding" in kind[0]:
            nn.init.normal_(parameter, std=1.0 if id(parameter) in whole else parameter.shape[1] ** -0.5)
            parameter[PAD].zero_()
        elif "bias" in kind[-1]:
            parameter.zero_()
        elif parameter.dim() == 1:  # a scale or an offset, with an initial value of its own
            continue
        elif kind[-1].startswith("weight_hh"):
            for gate in parameter.chunk(parameter.shape[0] // parameter.shape[1]):
                nn.init.orthogonal_(gate)
        else:
            nn.init.xavier_uniform_(parameter)
    for module in model.modules():
        if isinstance(module, nn.LSTM):
            _draw_lstm(module)
        elif isinstance(module, luong.LuongDecoder) and isinstance(module.readout, Tanh):
            module.readout.W_c.weight.mul_(4.0)


def _whole_embeddings(model: nn.Module) -> set[int]:
    """Return the embeddings that start at unit variance: those not scaled, if no weights in the model are tied."""
    tables = [module for module in model.modules() if isinstance(module, Embedding)]
    names = Counter(id(parameter) for _, parameter in model.named_parameters(remove_duplicate=False))
    if any(names[id(table.weight)] > 1 for table in tables):
        return set()
    return {id(table.weight) for table in tables if table.scale == 1.0}


def _draw_lstm(network: nn.LSTM) -> None:
    width = network.hidden_size
    for name, parameter in network.named_parameters():
        if name.startswith("weight_ih"):
            for gate in parameter.chunk(4):
                nn.init.xavier_uniform_(gate)
        elif name.startswith("bias_ih"):
            parameter[width : 2 * width].fill_(1.0)
