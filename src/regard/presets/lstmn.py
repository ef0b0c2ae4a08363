"""Long short-term memory-networks: as translators, with deep or shallow fusion, and as a language model."""

from dataclasses import replace

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.presets.base import SUBWORDS, register_both, small


def _translator(fusion: str) -> Config:
    """450 units and embeddings of 300, as for the paper's sentence pairs (Cheng et al. 2016, section 5.3)."""
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
    """The translator with deep fusion."""
    return _translator("deep")


def cheng2016_shallow() -> Config:
    """The translator with shallow fusion."""
    return _translator("shallow")


def cheng2016_lm() -> Config:
    """300 units and embeddings of 150, as in the paper's language models (section 5.1)."""
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
    """Shrink it, its self-attention too."""
    shrunk = small(config)
    self_attention = replace(shrunk.model.self_attention, width=128)
    return replace(shrunk, model=replace(shrunk.model, self_attention=self_attention))


register_both(
    "cheng2016",
    cheng2016,
    "LSTMN: each word attends to the words before it, on both sides; the source's memories enter the decoder's (deep "
    "fusion; Cheng et al. 2016).",
    narrow,
)
register_both(
    "cheng2016-shallow",
    cheng2016_shallow,
    "cheng2016 with shallow fusion: the context of the source enters the decoder's gates (Cheng et al. 2016).",
    narrow,
)
register_both(
    "cheng2016-lm",
    cheng2016_lm,
    "LSTMN as a language model: it attends to its own memory tape (Cheng et al. 2016).",
    narrow,
)
