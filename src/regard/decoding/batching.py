"""How many sentences are searched at once, and which."""

import math
from collections.abc import Sequence

import torch

from regard.config import DecodingConfig
from regard.decoding.native_search import together
from regard.errors import ConfigError

BATCH = 64
"""Sentences of a batch, unless it is said how many."""
LARGE_BATCH = 512
"""On a GPU, which has little to do otherwise."""
LARGE_MEMORY = 16 * 2**30
"""Bytes that a GPU needs for those; with less, it gets a quarter as many."""
FULL = 100
"""Up to this many tokens a sentence counts as one of a batch; longer ones take the place of several."""
SMALLEST = 8
"""Batches are not made smaller than this for the sake of having one for each thread."""
FEW = 8
"""Up to this many samples a sentence counts as one of a batch; with more, it takes the place of several."""


def batch_size_for(device: torch.device, options: DecodingConfig, n_best: int, asked: int | None) -> int:
    """Return how many sentences make a batch: as many as the device likes, unless that was said."""
    size = asked
    if size is None:
        size = BATCH
        if device.type == "cuda":
            room = torch.cuda.get_device_properties(device).total_memory
            size = LARGE_BATCH if room >= LARGE_MEMORY else LARGE_BATCH // 4
    drawn = {"sample": n_best, "mbr": options.samples}.get(options.method, 1)
    return size if drawn <= FEW or size < 1 else max(1, size * FEW // drawn)


def batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Put sentences of like length together, the longest first (so that memory runs out at once or never).

    What a search keeps grows with the square of the length: `batch_size` sentences of up to `FULL` tokens make a
    batch, and fewer of longer ones.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
    made: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not room:
            made.append([])
            room = max(1, min(batch_size, batch_size * FULL**2 // max(1, lengths[row]) ** 2))
        made[-1].append(row)
        room -= 1
    return made


def groups(lengths: Sequence[int], batch_size: int, natively: bool) -> Sequence[list[list[int]]]:
    """Cut the work into batches, and put together those that are searched at once."""
    if not natively:
        return [[batch] for batch in batches(lengths, batch_size)]
    # Each thread gets something to encode.
    share = max(SMALLEST, math.ceil(len(lengths) / torch.get_num_threads()))
    return together(batches(lengths, min(batch_size, share)), lengths)
