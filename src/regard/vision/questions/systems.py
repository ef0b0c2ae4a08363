"""The systems that answer questions, by name: the network, and how question and image meet."""

from collections.abc import Callable
from dataclasses import replace

from regard.config import AttentionConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.registry import Registry
from regard.vision.questions.settings import QuestionsConfig

System = tuple[ModelConfig, QuestionsConfig]
askers: Registry[Callable[[], System]] = Registry("system for questions", "askers")

_CELLS = ImageConfig("resnet", size=64, width=128, stages=3, units=2, positions="sinusoidal", feed_forward=256)
"""16 by 16 cells of an image of 64 by 64 pixels, which know where they lie."""


def _looks(heads: int) -> AttentionConfig:
    return AttentionConfig(score="scaled-dot", heads=heads, project=True)


@askers.register("anderson2017")
def anderson2017() -> System:
    """A GRU reads a question, which looks once at 36 given regions of 2,048 features (Anderson et al. 2018).

    Sizes are the paper's: 300 units of a word, 512 of all else.
    """
    model = ModelConfig(
        embedding=300,
        dropout=0.5,
        encoder=EncoderConfig("recurrent", "gru", width=512, bidirectional=False),
        attention=AttentionConfig("gated-tanh", width=512),
        image=ImageConfig("regions", channels=2048, size=0, width=2048),
    )
    return model, QuestionsConfig("top-down", fusion=512)


@askers.register("anderson2017-small")
def anderson2017_small() -> System:
    """anderson2017 over the cells of a small residual network."""
    model = ModelConfig(
        embedding=128,
        dropout=0.0,
        encoder=EncoderConfig("recurrent", "gru", width=256, bidirectional=False),
        attention=AttentionConfig("gated-tanh", width=128),
        image=_CELLS,
    )
    return model, QuestionsConfig("top-down", fusion=256)


@askers.register("anderson2017-glimpses")
def anderson2017_glimpses() -> System:
    """anderson2017-small with eight looks at once, at cells that have looked at each other."""
    model, config = anderson2017_small()
    attention = AttentionConfig("gated-tanh", width=64, heads=8)
    image = replace(_CELLS, layers=2)
    return replace(model, attention=attention, self_attention=_looks(4), image=image), config


@askers.register("asker")
def asker() -> System:
    """A Transformer whose words look at the cells of a residual network in four layers, and cells at cells in two.

    One look finds what one name speaks of; what stands in a relation to it takes another, and so does the comparison.
    """
    model = ModelConfig(
        embedding=128,
        dropout=0.0,
        encoder=EncoderConfig("transformer", layers=4, width=128, feed_forward=512),
        attention=_looks(8),
        self_attention=_looks(8),
        positions="sinusoidal",
        image=replace(_CELLS, layers=2),
    )
    return model, QuestionsConfig("cross")


@askers.register("asker-small")
def asker_small() -> System:
    """The asker for images of 32 by 32 pixels, at the size of a laptop: cells of 64 units, three layers."""
    model, config = asker()
    return (
        replace(
            model,
            embedding=64,
            encoder=replace(model.encoder, layers=3, width=64, feed_forward=128),
            attention=_looks(4),
            self_attention=_looks(4),
            image=replace(_CELLS, size=32, width=64, units=1, layers=1, feed_forward=128),
        ),
        config,
    )


def blind_to_places(system: System) -> System:
    """Take all attention to the image away: what is left of it is the mean of its cells, whatever is asked."""
    model, config = system
    assert model.image is not None
    return replace(model, attention=None, image=replace(model.image, layers=0)), config
