"""Google's translation model of 2016 (GNMT)."""

from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ModelConfig,
    TrainingConfig,
)
from regard.presets.base import SUBWORDS, register_both, small


def gnmt2016() -> Config:
    """The model of Wu et al. 2016: 1024 units everywhere, alpha and beta of 0.2 (section 7)."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=1024,
            dropout=0.2,
            encoder=EncoderConfig(kind="gnmt", cell="lstm", layers=8, width=1024, bidirectional=True, residual=True),
            decoder=DecoderConfig(kind="gnmt", cell="lstm", layers=8, width=1024, residual=True, readout="none"),
            attention=AttentionConfig(score="additive", width=1024),
        ),
        training=TrainingConfig(clip=5.0),
        decoding=DecodingConfig(length_penalty=0.2, coverage_penalty=0.2),
    )


def four_layers(config: Config) -> Config:
    """Shrink it, but keep enough layers for residuals on both sides."""
    shrunk = small(config)
    model = shrunk.model
    return replace(
        shrunk,
        model=replace(
            model,
            encoder=replace(model.encoder, layers=4, width=256),
            decoder=replace(model.decoder, layers=4, width=256),
        ),
    )


register_both(
    "gnmt2016",
    gnmt2016,
    "8+8 layers of LSTMs, the lowest bidirectional, residuals from the third; the lowest decoder layer attends, all "
    "read its context; length and coverage penalties (Wu et al. 2016).",
    four_layers,
    "256 units, 4+4 layers, 8k subwords",
)
