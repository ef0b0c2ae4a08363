"""Transformers, a Transformer language model, and a hybrid of a Transformer and a recurrent network."""

from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)
from regard.presets.base import SUBWORDS, presets


def _transformer(layers: int, width: int, feed_forward: int, heads: int, norm: str, dropout: float) -> ModelConfig:
    """The model of Vaswani et al. 2017 at some size."""
    attention = AttentionConfig(score="scaled-dot", heads=heads, project=True)
    encoder = EncoderConfig("transformer", layers=layers, width=width, feed_forward=feed_forward, norm=norm)
    return ModelConfig(
        embedding=width,
        tie="all",
        dropout=dropout,
        encoder=encoder,
        decoder=DecoderConfig("transformer", layers=layers, width=width, feed_forward=feed_forward, norm=norm),
        attention=attention,
        self_attention=attention,
        positions="sinusoidal",
    )


@presets.register("transformer2017")
def transformer2017() -> Config:
    """Attention alone: 6 + 6 layers of 512 units and 8 heads, post-norm (Vaswani et al. 2017, base).

    Batches of 25,000 tokens are accumulated from four smaller ones. Differs from the paper: gradients are clipped, and
    Adam's epsilon is torch's default.
    """
    return Config(
        tokenizer=TokenizerConfig(kind="bpe", vocabulary=37000, joint=True),
        model=_transformer(layers=6, width=512, feed_forward=2048, heads=8, norm="post", dropout=0.1),
        training=TrainingConfig(
            learning_rate=7e-4,  # equation 3 at its peak: 512^-0.5 · 4000^-0.5
            beta2=0.98,
            schedule="inverse-sqrt",
            warmup=4000,
            label_smoothing=0.1,
            batch_tokens=6250,
            accumulate=4,
            average="last",
            average_last=5,
        ),
        decoding=DecodingConfig(beam=4, length_penalty=0.6),
    )


@presets.register("transformer2017-big")
def transformer2017_big() -> Config:
    """Attention alone: 6 + 6 layers of 1024 units and 16 heads (Vaswani et al. 2017, big)."""
    base = transformer2017()
    return replace(
        base,
        model=_transformer(layers=6, width=1024, feed_forward=4096, heads=16, norm="post", dropout=0.3),
        training=replace(base.training, learning_rate=5e-4, average_last=20),
    )


@presets.register("transformer2017-tiny")
def transformer2017_tiny() -> Config:
    """A Transformer for some ten thousand pairs: 4 + 4 layers of 256 units, pre-norm, much dropout.

    The idea is Transformer-tiny's (Wu et al. 2021); sizes and rates were chosen here. It is narrow and only as deep as
    so little data allows, and most of its regularisation is dropout.
    """
    base = transformer2017()
    return replace(
        base,
        tokenizer=replace(base.tokenizer, vocabulary=10000),
        model=_transformer(layers=4, width=256, feed_forward=512, heads=4, norm="pre", dropout=0.4),
        training=replace(
            base.training,
            learning_rate=3e-3,
            warmup=1000,
            batch_tokens=8000,
            accumulate=1,
            epochs=100,
            steps=5000,
            validate_every=250,
            average="best",
            patience=0,
        ),
        decoding=DecodingConfig(beam=5, length_penalty=1.0),
    )


@presets.register("gpt")
def gpt() -> Config:
    """A language model of 12 Transformer layers, learned positions, GELU, post-norm (Radford et al. 2018).

    Differs from the paper: embeddings are initialised as in other models here, there is no weight decay, and samples
    are sentences, not blocks of 512 tokens.
    """
    return Config(
        tokenizer=replace(SUBWORDS, vocabulary=40000),
        model=ModelConfig(
            embedding=768,
            tie="output",
            dropout=0.1,
            encoder=EncoderConfig("none"),
            decoder=DecoderConfig(
                "transformer", layers=12, width=768, feed_forward=3072, activation="gelu", norm="post"
            ),
            attention=None,
            self_attention=AttentionConfig(score="scaled-dot", heads=12, project=True, longest=512),
            positions="learned",
        ),
        training=TrainingConfig(learning_rate=2.5e-4, schedule="cosine", warmup=2000, metric="loss"),
    )


@presets.register("chen2018-hybrid")
def chen2018_hybrid() -> Config:
    """A Transformer encoder, and eight LSTM layers with additive attention of 4 heads (Chen et al. 2018, section 5.1).

    The encoder is the big Transformer with pre-norm and feed-forward layers of 8192 units; the decoder is that of GNMT,
    whose lowest layer attends for all. Differs from the paper: LSTMs have no layer norm, and there is a tanh layer
    before the output layer.
    """
    big = transformer2017_big()
    return replace(
        big,
        tokenizer=SUBWORDS,
        model=replace(
            big.model,
            encoder=replace(big.model.encoder, norm="pre", feed_forward=8192),
            decoder=DecoderConfig(
                "gnmt", cell="lstm", layers=8, width=1024, residual=True, readout="tanh", readout_width=1024
            ),
            attention=AttentionConfig(score="additive", width=1024, heads=4),
        ),
    )


LAPTOP = TrainingConfig(
    learning_rate=2e-3, beta2=0.98, schedule="cosine", warmup=300, label_smoothing=0.1, batch_tokens=2000
)


def _small(config: Config) -> Config:
    """Shrink a Transformer to train in minutes on a laptop: 256 units, 4 heads, at most 3 layers, 8k subwords.

    It is pre-norm, whatever the paper's was: at this size that allows a high learning rate and a short warm-up.
    """
    model, self_attention = config.model, replace(config.model.self_attention, heads=4)
    attention = None if model.attention is None else replace(model.attention, heads=4, width=128)
    return replace(
        config,
        tokenizer=replace(config.tokenizer, vocabulary=8000),
        model=replace(
            model,
            embedding=256,
            dropout=0.3,
            encoder=replace(
                model.encoder, layers=min(model.encoder.layers, 3), width=256, feed_forward=512, norm="pre"
            ),
            decoder=replace(
                model.decoder,
                layers=min(model.decoder.layers, 3),
                width=256,
                feed_forward=512,
                norm="pre",
                readout_width=256,
            ),
            attention=attention,
            self_attention=self_attention,
        ),
        training=replace(LAPTOP, metric=config.training.metric),
        decoding=DecodingConfig(),
    )


@presets.register("transformer2017-small")
def transformer2017_small() -> Config:
    """transformer2017 at the size of a laptop: 3 + 3 layers of 256 units, pre-norm, 8k subwords."""
    return _small(transformer2017())


@presets.register("gpt-small")
def gpt_small() -> Config:
    """The gpt at the size of a laptop: 3 layers of 256 units, pre-norm, 8k subwords."""
    return _small(gpt())


@presets.register("chen2018-hybrid-small")
def chen2018_hybrid_small() -> Config:
    """chen2018-hybrid at the size of a laptop: 3 Transformer and 3 LSTM layers of 256 units, 8k subwords."""
    return _small(chen2018_hybrid())
