"""The registry of presets, and their laptop-sized siblings."""

from collections.abc import Callable
from dataclasses import replace

from regard.config import Config, TokenizerConfig
from regard.registry import Registry

presets: Registry[Callable[[], Config]] = Registry("preset", "presets")
visions: Registry[Callable[[], Config]] = Registry("vision preset", "visions")
"""Presets of models that read images."""

SUBWORDS = TokenizerConfig(kind="bpe", vocabulary=32000, joint=True)


def preset(name: str) -> Config:
    """Return the configuration of a preset."""
    return replace(presets[name](), preset=name)


def small(config: Config) -> Config:
    """Shrink a paper's model to one that trains in minutes on a laptop: narrower, shallower, an 8k vocabulary.

    What characterises the model (cell, directions, order of attention and step, score, readout) stays. Encoder and
    decoder states have the same width, so that every score fits. Dropout, label smoothing and the cosine schedule were
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


def register_small(
    name: str, made: Callable[[], Config], shrink: Callable[[Config], Config] = small, size: str = ""
) -> None:
    """Register a preset's laptop-sized sibling, under its name and `-small`."""

    def sibling() -> Config:
        return shrink(made())

    sibling.__doc__ = f"{name} at the size of a laptop: {size or '256 units, at most 2 layers, 8k subwords'}."
    presets.register(f"{name}-small")(sibling)


def register_both(
    name: str, made: Callable[[], Config], words: str, shrink: Callable[[Config], Config] = small, size: str = ""
) -> None:
    """Register the preset that `made` returns, described by `words`, and its sibling by `shrink`."""

    def large() -> Config:
        return made()

    large.__doc__ = words
    presets.register(name)(large)
    register_small(name, made, shrink, size)
