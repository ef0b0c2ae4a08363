"""Recurrent translation models."""

from dataclasses import replace

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.presets.base import SUBWORDS, presets, register_both, register_small


@presets.register("sutskever2014")
def sutskever2014() -> Config:
    """LSTMs, four layers deep, source reversed, no attention: all in one fixed-size vector (Sutskever et al. 2014)."""
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

    Differs from the paper: the summary is the encoder's last state, without the paper's layer `tanh(V h)` on it.
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


def bahdanau2014_conditional() -> Config:
    """The model of Sennrich et al. 2017 at the sizes of its public toolkit."""
    return Config(
        tokenizer=SUBWORDS,
        model=ModelConfig(
            embedding=512,
            tie="output",
            dropout=0.2,
            encoder=EncoderConfig(cell="gru", width=1024, bidirectional=True),
            decoder=DecoderConfig(
                kind="conditional",
                cell="gru",
                width=1024,
                readout="tanh",
                readout_width=512,
                start="mean",
                context_dropout=0.2,
            ),
            attention=AttentionConfig(score="additive", width=2048),
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
    register_small(_preset.__name__, _preset)

register_both(
    "bahdanau2014-conditional",
    bahdanau2014_conditional,
    "bahdanau2014 with the conditional GRU of its public successors: step, attend, step again; started from the mean "
    "of the states, tanh readout, output tied to the target embeddings (Sennrich et al. 2017).",
)

# Table 4 of Luong et al. 2015, and the concat score, which is in its section 3.1.
TABLE_4 = {
    "global": ("location", "dot", "general", "concat"),
    "local-m": ("dot", "general"),
    "local-p": ("dot", "general"),
}


def _variant(reach: str, score: str) -> None:
    def made() -> Config:
        config = luong2015()
        attention = AttentionConfig(score=score, reach=reach, width=1000, window=10)
        return replace(config, model=replace(config.model, attention=attention))

    where = {
        "global": "the whole source",
        "local-m": "a window that moves by one word per step",
        "local-p": "a window around a predicted word",
    }[reach]
    place = "section 3.1" if score == "concat" else "Table 4"
    words = f"luong2015 with the {score} score over {where} (Luong et al. 2015, {place})."
    register_both(f"luong2015-{reach}-{score}", made, words)


for _reach, _scores in TABLE_4.items():
    for _score in _scores:
        _variant(_reach, _score)
