"""Presets of models that read images, in a registry of their own, as other commands train them.

`model.encoder.kind` is none without text, and otherwise that of the question. All classifiers share a backbone,
whatever the paper's was, so that they differ only in their attention blocks.
"""

from collections.abc import Callable
from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DataConfig,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ImageConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)
from regard.errors import ConfigError, did_you_mean
from regard.presets import questions_and_detection
from regard.presets.base import preset, presets, visions

__all__ = ["any_preset", "vision", "visions"]

BACKBONE = ImageConfig("resnet", size=28, width=256, stages=3, units=2)
"""Stages of 64, 128 and 256 channels, 2.8M weights, for images of Fashion-MNIST's size."""
NO_TEXT = EncoderConfig("none")
CAPTIONS = TokenizerConfig(kind="words", vocabulary=10000)
CLASSES = TrainingConfig(
    optimizer="adamw",
    weight_decay=0.05,
    schedule="cosine",
    warmup=200,
    label_smoothing=0.1,
    batch_tokens=2048,
    flip=True,
    shift=2,
    metric="accuracy",
    patience=0,
)
"""Training of classifiers: 128 pictures a batch, augmented by flips and shifts only."""
WORDS = TrainingConfig(schedule="cosine", warmup=300, batch_tokens=2000, patience=0)
"""Training of captioners."""


def vision(name: str) -> Config:
    """Return the configuration of a vision preset."""
    return replace(visions[name](), preset=name)


def any_preset(name: str) -> Config:
    """Return the configuration of a preset, of any kind."""
    if name in visions:
        return vision(name)
    if name in presets:
        return preset(name)
    hint = did_you_mean(name, (*presets, *visions))
    raise ConfigError(f"No preset named {name!r}.{hint} (regard list presets and regard list visions show all)")


def _classifier(image: ImageConfig, heads: int = 4, dropout: float = 0.1) -> Config:
    looks = AttentionConfig(score="scaled-dot", heads=heads, project=True)
    return Config(
        training=CLASSES,
        model=ModelConfig(
            task="classify",
            dropout=dropout,
            encoder=NO_TEXT,
            attention=None,
            self_attention=looks,
            image=image,
        ),
    )


@visions.register("resnet")
def resnet() -> Config:
    """The residual network without attention: three stages of two units, 64 to 256 channels (He et al. 2016)."""
    return _classifier(BACKBONE)


@visions.register("hu2017-se")
def hu2017_se() -> Config:
    """The residual network with channel gates in each unit (Hu et al. 2017, squeeze-and-excitation)."""
    return _classifier(replace(BACKBONE, block="squeeze-excitation", within=True))


@visions.register("wang2017-residual")
def wang2017_residual() -> Config:
    """The residual network with soft spatial masks after its first two stages (Wang et al. 2017).

    As in the paper, the branch halves the grid as often as it allows: twice here, from 28 rows and columns.
    """
    return _classifier(replace(BACKBONE, block="soft-mask", where=("1", "2"), depth=2))


@visions.register("wang2018-nonlocal")
def wang2018_nonlocal() -> Config:
    """The residual network with embedded Gaussian non-local blocks after its last two stages (Wang et al. 2018)."""
    return _classifier(replace(BACKBONE, block="nonlocal-embedded", where=("2", "3"), subsample=True))


@visions.register("dosovitskiy2020-vit")
def dosovitskiy2020_vit() -> Config:
    """A Vision Transformer: patches of 16 in images of 224, 12 layers of 768 units (Dosovitskiy et al. 2020, ViT-B)."""
    image = ImageConfig(
        "patches", size=224, width=768, patch=16, positions="learned", layers=12, feed_forward=3072, pooling="class"
    )
    return _classifier(image, heads=12)


@visions.register("xu2015-soft")
def xu2015_soft() -> Config:
    """An LSTM with soft attention to 14 by 14 given features of 512 units generates a caption (Xu et al. 2015).

    The features are those of VGG's last convolution but one; sizes are the authors' settings for Flickr8k. The gate is
    the decoder's, the doubly stochastic penalty is in training. With pixels instead of features, a residual network
    reads them.
    """
    return Config(
        data=DataConfig(plain_captions=True),
        tokenizer=CAPTIONS,
        training=replace(WORDS, doubly_stochastic=1.0),
        model=ModelConfig(
            embedding=512,
            dropout=0.5,
            encoder=NO_TEXT,
            decoder=DecoderConfig("xu", "lstm", width=1800, readout="sum", readout_width=512, start="mean"),
            attention=AttentionConfig(score="additive", width=512),
            image=ImageConfig("regions", channels=512, size=14, width=512, normalised=True),
        ),
        decoding=DecodingConfig(max_length=50),
    )


@visions.register("xu2015-hard")
def xu2015_hard() -> Config:
    """xu2015-soft with sampled attention, trained by reward (Xu et al. 2015, section 4.1)."""
    config = xu2015_soft()
    attention = AttentionConfig(score="additive", width=512, focus="hard")
    return replace(config, model=replace(config.model, attention=attention), training=WORDS)


@visions.register("captioner")
def captioner() -> Config:
    """A Transformer generates captions from a residual network with three Transformer layers over its cells."""
    width, looks = 256, AttentionConfig(score="scaled-dot", heads=8, project=True)
    return Config(
        data=DataConfig(plain_captions=True),
        tokenizer=CAPTIONS,
        training=replace(WORDS, label_smoothing=0.1),
        model=ModelConfig(
            embedding=width,
            tie="output",
            dropout=0.1,
            encoder=NO_TEXT,
            decoder=DecoderConfig("transformer", layers=3, width=width, feed_forward=1024),
            attention=looks,
            self_attention=looks,
            positions="sinusoidal",
            image=replace(BACKBONE, size=32, positions="sinusoidal", layers=3, feed_forward=1024, normalised=True),
        ),
        decoding=DecodingConfig(max_length=50),
    )


def _small(config: Config) -> Config:
    """Shrink a model to one that trains in minutes on a laptop, on images of about 32 pixels a side."""
    model = config.model
    assert model.image is not None
    image = replace(model.image, width=128)
    if image.kind == "patches":
        image = replace(image, size=28, patch=4, layers=6, feed_forward=256)
    elif image.kind == "regions":  # there are no given features: read pixels
        image = ImageConfig("resnet", width=128, normalised=True)
    elif image.layers:
        image = replace(image, layers=1, feed_forward=256)
    attention = None if model.attention is None else replace(model.attention, width=128)
    attention = attention if attention is None or attention.heads == 1 else replace(attention, heads=4)
    return replace(
        config,
        model=replace(
            model,
            embedding=128,
            dropout=min(model.dropout, 0.1),
            decoder=replace(
                model.decoder,
                layers=min(model.decoder.layers, 2),
                width=256 if model.decoder.kind == "xu" else 128,
                feed_forward=256,
                readout_width=128,
            ),
            attention=attention,
            self_attention=replace(model.self_attention, heads=4),
            image=image,
        ),
    )


def _register_small(name: str, made: Callable[[], Config]) -> None:
    def sibling() -> Config:
        return _small(made())

    sibling.__doc__ = f"{name} at the size of a laptop: cells of 128 units."
    visions.register(f"{name}-small")(sibling)


for _name, _made in [*visions.items()]:
    if _name not in questions_and_detection.NAMES:
        _register_small(_name, _made)
