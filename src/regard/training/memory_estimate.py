"""How much memory a training needs at most, reckoned before anything is built; and how much there is."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from regard.config import Config, ModelConfig, TokenizerConfig
from regard.data.special_tokens import MARKS
from regard.data.survey import SAMPLE, Survey
from regard.models.build import TRANSFORMER
from regard.task import build_empty

NOTHING: Final = "none"
FLOAT: Final = 4
KEPT: Final = 4 * FLOAT
"""Bytes: a weight, its gradient and Adam's two averages."""
HIDDEN: Final = ("additive", "concat", "tanh")
"""Scores with a hidden layer, which is kept for each token and each place it looks at."""
CHUNK: Final = {"cpu": 1 << 22, "cuda": 1 << 28}
"""Logits that are made at a time."""
_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def of_weights(model: ModelConfig, vocabulary: int, written: int | None = None) -> int:
    """Return the bytes of the weights, their gradient and the optimizer's averages. Nothing is built.

    `written` is how many entries there are to write or choose from, where that is not the vocabulary.
    """
    with torch.device("meta"):
        return KEPT * sum(
            weight.numel() for weight in build_empty(model, vocabulary, written or vocabulary).parameters()
        )


def of_batch(config: Config, vocabulary: int, device: str) -> int:
    """Reckon the bytes that a batch keeps for its gradient: each side is full, of texts as long as there may be."""
    model, longest = config.model, config.data.max_length + 1
    if model.task == "classify":
        return round(1.2 * FLOAT * max(config.training.batch_tokens, longest) * (_read(model) + _pooled(model)))
    tokens = max(config.training.batch_tokens, longest) * (2 if config.training.r_drop > 0 else 1)
    logits = 4 * tokens * vocabulary if model.copy else 2 * min(tokens * vocabulary, CHUNK[device])
    floats = tokens * (_read(model) + _written(model) + longest * _looked(model)) + logits
    return round(1.2 * FLOAT * floats)


def _read(model: ModelConfig) -> int:
    """Return the numbers that the encoder keeps of a token."""
    encoder = model.encoder
    if encoder.kind == NOTHING:
        return 0
    if encoder.kind == TRANSFORMER:
        return encoder.layers * (14 * encoder.width + 3 * encoder.feed_forward)
    return 4 * model.embedding + encoder.layers * 12 * encoder.width * (2 if encoder.bidirectional else 1)


def _written(model: ModelConfig) -> int:
    """Return the numbers that the decoder keeps of a token."""
    decoder = model.decoder
    if decoder.kind == TRANSFORMER:
        return decoder.layers * (22 * decoder.width + 3 * decoder.feed_forward)
    return 4 * model.embedding + 4 * decoder.readout_width + decoder.layers * 20 * decoder.width


def _pooled(model: ModelConfig) -> int:
    """Return the numbers that are kept of a token where one query attends to a text."""
    return 0 if model.attention is None else 3 * model.attention.heads + 2 * model.attention.width


def _looked(model: ModelConfig) -> int:
    """Return the numbers that are kept for each place that a token looks at; fused attention keeps none."""
    attention, transformer = model.attention, model.decoder.kind == TRANSFORMER
    if attention is None or (transformer and not model.copy):
        return 0
    layers = model.decoder.layers if transformer else 1
    return layers * (3 * attention.heads + (attention.width if attention.score in HIDDEN else 0))


def vocabulary_of(settings: TokenizerConfig, survey: Survey) -> int:
    """Estimate the entries of a vocabulary, from above."""
    sides = (survey.source, survey.target)
    letters, types = sum(side.alphabet for side in sides), sum(side.types for side in sides)
    frequent = sum(side.frequent for side in sides)
    found = {"characters": letters, "words": types, "spelled": letters + frequent}.get(settings.kind)
    if found is None or survey.pairs > SAMPLE:  # more of them may be in what was not looked at
        return settings.vocabulary
    return min(settings.vocabulary, found + len(MARKS) + 1)


def classes_of(model: ModelConfig, survey: Survey) -> int | None:
    """Return how many classes a classifier has; None for a model that writes."""
    return max(survey.targets, 2) if model.task == "classify" else None


def available(device: torch.device) -> int:
    """Return the bytes of memory that a device has, or that a container may use of it."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            found.append(int(Path(limit).read_text(encoding="utf-8")))
    return min(found)
