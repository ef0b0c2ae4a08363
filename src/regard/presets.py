"""Complete configurations by the name of the paper that described the system, each with a `-small` sibling.

A preset is the paper's model; where the paper's training cannot be had on one machine (vocabularies of 30,000 to
160,000 whole words, weeks of training), the tokenizer and the schedule are today's and only the network is the paper's.
"""

from collections.abc import Callable
from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)
from regard.registry import Registry

presets: Registry[Callable[[], Config]] = Registry("preset", "presets")

SUBWORDS = TokenizerConfig(kind="bpe", vocabulary=32000, joint=True)


def preset(name: str) -> Config:
    """Return the configuration that a preset stands for."""
    return replace(presets[name](), preset=name)


def _small(config: Config) -> Config:
    """Turn a paper's system into one that a laptop trains in minutes: narrower, shallower, an 8k vocabulary.

    What the paper's system *is* (cell, directions, order of looking and stepping, score, readout) stays. Encoder and
    decoder states are of one width, so that every score fits. Dropout, label smoothing and the cosine schedule were
    chosen on Multi30k's validation set, where they are worth 2 BLEU over a plateau schedule without smoothing.
    """
    model = config.model
    attention = None if model.attention is None else replace(model.attention, width=128)
    layers = min(model.encoder.layers, 2)
    return replace(
        config,
        tokenizer=replace(config.tokenizer, vocabulary=8000),
        model=replace(
            model,
            embedding=256,
            dropout=0.3,
            encoder=replace(model.encoder, width=128 if model.encoder.bidirectional else 256, layers=layers),
            decoder=replace(model.decoder, width=256, layers=layers, readout_width=256),
            attention=attention,
        ),
        training=replace(
            config.training,
            batch_tokens=2000,
            schedule="cosine",
            learning_rate=2e-3,
            warmup=300,
            label_smoothing=0.1,
        ),
    )


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


def _register_small(of: Callable[[], Config]) -> None:
    def small() -> Config:
        return _small(of())

    small.__doc__ = f"{of.__name__} at the size of a laptop: 256 units, at most 2 layers, 8k subwords."
    presets.register(f"{of.__name__}-small")(small)


for _preset in (sutskever2014, cho2014, bahdanau2014, luong2015):
    _register_small(_preset)
