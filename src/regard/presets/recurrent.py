"""The recurrent systems."""

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.presets.base import SUBWORDS, presets, register_small


@presets.register("sutskever2014")
def sutskever2014() -> Config:
    """LSTMs, four layers deep, source reversed, no attention: all passes through one vector (Sutskever et al. 2014)."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=1000,
            dropout=0.0,
            reverse_source=True,
            encoder=EncoderConfig(cell="lstm", layers=4, width=1000, bidirectional=False),
            decoder=DecoderConfig(kind="luong", cell="lstm", layers=4, width=1000, readout="none"),
            attention=None,
        ),
        training=TrainingConfig(clip=5.0),
    )


@presets.register("cho2014")
def cho2014() -> Config:
    """GRUs; the source's one summary vector enters every step and the maxout readout (Cho et al. 2014).

    Differs from the paper: the summary is the encoder's last state itself, without the paper's layer `tanh(V h)` on it.
    """
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=100,
            dropout=0.0,
            encoder=EncoderConfig(cell="gru", width=1000, bidirectional=False),
            decoder=DecoderConfig(kind="bahdanau", cell="gru", width=1000, readout="maxout", readout_width=500),
            attention=None,
        ),
    )


@presets.register("bahdanau2014")
def bahdanau2014() -> Config:
    """Bidirectional GRU encoder, additive attention before each GRU step, maxout readout (Bahdanau et al. 2014)."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=620,
            dropout=0.0,
            encoder=EncoderConfig(cell="gru", width=1000, bidirectional=True),
            decoder=DecoderConfig(kind="bahdanau", cell="gru", width=1000, readout="maxout", readout_width=500),
            attention=AttentionConfig(score="additive", width=1000),
        ),
    )


@presets.register("luong2015")
def luong2015() -> Config:
    """Four-layer LSTMs, source reversed, global general attention after each step, fed back (Luong et al. 2015)."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=1000,
            dropout=0.2,
            reverse_source=True,
            encoder=EncoderConfig(cell="lstm", layers=4, width=1000, bidirectional=False),
            decoder=DecoderConfig(
                kind="luong", cell="lstm", layers=4, width=1000, input_feeding=True, readout="tanh", readout_width=1000
            ),
            attention=AttentionConfig(score="general"),
        ),
        training=TrainingConfig(clip=5.0),
    )


for _preset in (sutskever2014, cho2014, bahdanau2014, luong2015):
    register_small(_preset)
