"""Presets for visual question answering and for object detection, sized for the embedded scenes.

Those without a suffix are for images of 64 pixels a side and a GPU, the small ones for 32 pixels and a CPU.
"""

from collections.abc import Callable
from dataclasses import replace

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    DetectionConfig,
    EncoderConfig,
    ImageConfig,
    ModelConfig,
    QuestionsConfig,
    TrainingConfig,
)
from regard.presets.base import visions

NO_TEXT = EncoderConfig("none")
ANSWERS = TrainingConfig(
    optimizer="adamw",
    learning_rate=2e-3,
    weight_decay=0.01,
    beta2=0.98,
    schedule="cosine",
    warmup=500,
    batch_tokens=2048,
    asked=8,
    epochs=1000,
    steps=9000,
    validate_every=1000,
    metric="accuracy",
    patience=0,
    guided_layer=0,
)
"""Training of question answering: 128 pictures a batch, with eight questions about each.

If attention is guided (training.guided), it is that of the first layer: it finds what is named, and later layers
compare.
"""
OBJECTS = replace(ANSWERS, learning_rate=1e-3, warmup=300, steps=6000, metric="ap")
"""Training of detectors."""
CELLS = ImageConfig("resnet", size=64, width=128, stages=3, units=2, positions="sinusoidal", feed_forward=256)
"""16 by 16 cells of an image of 64 by 64 pixels, with positions."""


def _looks(heads: int) -> AttentionConfig:
    return AttentionConfig(score="scaled-dot", heads=heads, project=True)


def _of_task(task: str, training: TrainingConfig, model: ModelConfig) -> Config:
    return Config(training=training, model=replace(model, task=task))


def anderson2017() -> Config:
    """A GRU reads a question, which attends once to the cells of a residual network (Anderson et al. 2018).

    Sizes are the paper's (300 units per word embedding, 512 elsewhere), except for the image: instead of given regions,
    a residual network reads pixels. There are eight heads, over cells that have attended to each other.
    """
    model = ModelConfig(
        embedding=300,
        dropout=0.0,
        encoder=EncoderConfig("recurrent", "gru", width=512, bidirectional=False),
        attention=AttentionConfig("gated-tanh", width=64, heads=8),
        self_attention=_looks(8),
        image=replace(CELLS, layers=2),
        questions=QuestionsConfig("top-down", fusion=512),
    )
    return _of_task("answer", ANSWERS, model)


def asker() -> Config:
    """A Transformer whose words attend to the cells of a residual network in each layer (Tan & Bansal 2019).

    One layer finds the object that a name refers to; an object related to it takes another layer, and so does a
    comparison.
    """
    model = ModelConfig(
        embedding=128,
        dropout=0.0,
        encoder=EncoderConfig("transformer", layers=4, width=128, feed_forward=512),
        attention=_looks(8),
        self_attention=_looks(8),
        positions="sinusoidal",
        image=replace(CELLS, contents=0.25),
        questions=QuestionsConfig("cross", summed=True),
    )
    return _of_task("answer", ANSWERS, model)


def carion2020() -> Config:
    """Object queries find the objects of an image, their boxes and their masks (Carion et al. 2020, DETR)."""
    model = ModelConfig(
        dropout=0.0,
        encoder=NO_TEXT,
        decoder=DecoderConfig("transformer", layers=3, width=128, feed_forward=512),
        attention=_looks(8),
        self_attention=_looks(8),
        image=replace(CELLS, layers=1),
        detection=DetectionConfig(kind="anchors", mask_channels=16),
    )
    return _of_task("detect", OBJECTS, model)


def _small(config: Config) -> Config:
    """Shrink a question answering model or a detector to images of 32 pixels a side: 8 by 8 cells of 64 units."""
    model, attention = config.model, config.model.attention
    assert model.image is not None
    assert attention is not None
    reader = replace(model.encoder, width=128) if model.encoder.kind == "recurrent" else model.encoder
    if reader.kind == "transformer":
        reader = replace(reader, layers=3, width=64, feed_forward=128)
    small = replace(
        model,
        embedding=64,
        encoder=reader,
        decoder=replace(model.decoder, layers=2, width=64, feed_forward=128),
        attention=replace(attention, heads=4, width=64),
        self_attention=_looks(4),
        image=replace(model.image, size=32, width=64, units=1, layers=min(model.image.layers, 1), feed_forward=128),
        questions=replace(model.questions, fusion=128),
        detection=replace(model.detection, mask_channels=8),
    )
    rate = 3e-3 if model.task == "answer" else 2e-3
    steps = 3000 if model.task == "answer" else 1500
    training = replace(
        config.training, learning_rate=rate, warmup=200, batch_tokens=512, steps=steps, validate_every=500
    )
    return replace(config, model=small, training=training)


def _register(name: str, made: Callable[[], Config]) -> None:
    def sibling() -> Config:
        return _small(made())

    sibling.__doc__ = f"{name} at the size of a laptop: images of 32 pixels a side, cells of 64 units."
    visions.register(name)(made)
    visions.register(f"{name}-small")(sibling)


SYSTEMS = (anderson2017, asker, carion2020)
NAMES = tuple(f"{made.__name__}{size}" for made in SYSTEMS for size in ("", "-small"))
"""All presets registered here."""
for _made in SYSTEMS:
    _register(_made.__name__, _made)
