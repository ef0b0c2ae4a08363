"""Long short-term memory-networks: as translators, with deep or shallow fusion, and as a language model."""

from dataclasses import replace

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.presets.base import SUBWORDS, register_both, small


def _translator(fusion: str) -> Config:
    """450 units and words of 300, as where the paper reads pairs of sentences (Cheng et al. 2016, section 5.3)."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=300,
            encoder=EncoderConfig(kind="lstmn", cell="lstm", width=450, bidirectional=False),
            decoder=DecoderConfig(
                kind="lstmn", cell="lstm", width=450, readout="tanh", readout_width=300, fusion=fusion
            ),
            attention=AttentionConfig(score="additive", width=450),
            self_attention=AttentionConfig(score="additive", width=450),
        ),
    )


def cheng2016() -> Config:
    """Make the translator with deep fusion."""
    return _translator("deep")


def cheng2016_shallow() -> Config:
    """Make the translator with shallow fusion."""
    return _translator("shallow")


def cheng2016_lm() -> Config:
    """300 units and words of 150, as in the paper's language models (section 5.1)."""
    return Config(
        tokenizer=replace(SUBWORDS, vocabulary=10000),
        model=ModelConfig(
            embedding=150,
            encoder=EncoderConfig(kind="none"),
            decoder=DecoderConfig(kind="lstmn", cell="lstm", width=300, readout="none"),
            attention=None,
            self_attention=AttentionConfig(score="additive", width=300),
        ),
        training=TrainingConfig(metric="loss"),
    )


def narrow(config: Config) -> Config:
    """Make it small, its looks at itself too."""
    shrunk = small(config)
    self_attention = replace(shrunk.model.self_attention, width=128)
    return replace(shrunk, model=replace(shrunk.model, self_attention=self_attention))


register_both(
    "cheng2016",
    cheng2016,
    "LSTMN: each word looks at the words before it, on both sides; the source's memories go into the decoder's (deep "
    "fusion; Cheng et al. 2016).",
    narrow,
)
register_both(
    "cheng2016-shallow",
    cheng2016_shallow,
    "cheng2016 with shallow fusion: what is seen of the source enters the decoder's gates (Cheng et al. 2016).",
    narrow,
)
register_both(
    "cheng2016-lm",
    cheng2016_lm,
    "LSTMN as a language model: it looks at its own memory tape (Cheng et al. 2016).",
    narrow,
)
