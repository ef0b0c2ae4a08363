"""Systems that classify texts by attention."""

from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DataConfig,
    EncoderConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)
from regard.presets.base import register_both

CLASSES = TokenizerConfig(kind="words", vocabulary=30_000, joint=False, target_kind="lines")
TRAINING = TrainingConfig(metric="accuracy", clip=5.0)
DOCUMENTS = DataConfig(max_length=1000)


def yang2016() -> Config:
    """Make the hierarchical network of the paper's section 3.3."""
    return Config(
        data=DOCUMENTS,
        tokenizer=CLASSES,
        model=ModelConfig(
            task="classify",
            hierarchical=True,
            embedding=200,
            dropout=0.0,
            encoder=EncoderConfig(cell="gru", width=50),
            attention=AttentionConfig(score="additive", width=100),
        ),
        training=TRAINING,
    )


def zhou2016() -> Config:
    """Make the flat network of the paper's section 4.2."""
    return Config(
        data=DOCUMENTS,
        tokenizer=CLASSES,
        model=ModelConfig(
            task="classify",
            embedding=100,
            dropout=0.3,
            encoder=EncoderConfig(cell="lstm", width=100),
            attention=AttentionConfig(score="additive", width=100),
        ),
        training=TRAINING,
    )


def small(config: Config) -> Config:
    """Make it train in minutes on a corpus of thousands of texts: subwords, a high learning rate, a cosine schedule.

    Learning rate and dropout were chosen on the validation part of Reuters-21578 (recipes/reuters.sh). After one epoch
    the hierarchical model has 70.8 % with 0.002 and 0.5, 76.1 % with 0.002 and 0.2, and 80.5 % with 0.005 and 0.2.
    """
    return replace(
        config,
        tokenizer=replace(config.tokenizer, kind="bpe", vocabulary=8000),
        model=replace(config.model, embedding=100, dropout=0.2, encoder=replace(config.model.encoder, width=64)),
        training=replace(
            config.training,
            batch_tokens=2000,
            schedule="cosine",
            learning_rate=5e-3,
            warmup=100,
            label_smoothing=0.1,
            epochs=10,
            patience=3,
        ),
    )


register_both(
    "yang2016",
    yang2016,
    "Document classification: GRUs and attention over words, then over sentences (hierarchical, Yang et al. 2016).",
    small,
    "64 units in each direction, 8k subwords",
)
register_both(
    "zhou2016",
    zhou2016,
    "Text classification: a bidirectional LSTM, its states summed by attention (Zhou et al. 2016, which scores "
    "tanh(h) without a hidden layer and sums the directions).",
    small,
    "64 units in each direction, 8k subwords",
)
