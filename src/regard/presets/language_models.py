"""Recurrent language models."""

from dataclasses import replace

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.presets.base import SUBWORDS, register_both, small

LSTM = DecoderConfig(kind="luong", cell="lstm", layers=2, width=650, readout="none")


def lm_lstm() -> Config:
    """The medium network of Zaremba et al. 2014, section 4.1."""
    return Config(
        tokenizer=replace(SUBWORDS, vocabulary=10000),
        model=ModelConfig(embedding=650, dropout=0.5, encoder=EncoderConfig(kind="none"), decoder=LSTM, attention=None),
        training=TrainingConfig(metric="loss", clip=5.0),
    )


def lm_attention() -> Config:
    """The same network with attention to its own past states."""
    config = lm_lstm()
    model = replace(
        config.model,
        decoder=replace(LSTM, kind="looking-back", readout="tanh", readout_width=650),
        self_attention=AttentionConfig(score="additive", width=650),
    )
    return replace(config, model=model)


def two_layers(config: Config) -> Config:
    """Shrink it, its self-attention too, and keep both layers."""
    shrunk = small(config)
    model = replace(
        shrunk.model,
        decoder=replace(shrunk.model.decoder, layers=2),
        self_attention=replace(shrunk.model.self_attention, width=128),
    )
    return replace(shrunk, model=model)


register_both(
    "lm-lstm",
    lm_lstm,
    "Language model: two layers of LSTMs, no attention (Zaremba et al. 2014).",
    two_layers,
    "256 units, 2 layers, 8k subwords",
)
register_both(
    "lm-attention",
    lm_attention,
    "Language model: lm-lstm with attention to its own past states (Tran et al. 2016; Daniluk et al. 2017).",
    two_layers,
    "256 units, 2 layers, 8k subwords",
)
