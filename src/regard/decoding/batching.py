"""Batch sizes of searches, and grouping sentences into batches."""

import math
from collections.abc import Sequence

import torch

from regard.config import DecodingConfig
from regard.decoding.native_search import together
from regard.errors import ConfigError

BATCH = 64
"""Default batch size, in sentences."""
LARGE_BATCH = 512
"""Default on a GPU, which larger batches use better."""
LARGE_MEMORY = 16 * 2**30
"""GPU memory in bytes required for that; with less, a quarter of it."""
FULL = 100
"""Sentences of up to this many tokens count as one; longer ones count as several."""
SMALLEST = 8
"""Batches are not made smaller than this to give each thread one."""
FEW = 8
"""Up to this many samples a sentence counts as one; with more, as several."""


def batch_size_for(device: torch.device, options: DecodingConfig, n_best: int, asked: int | None) -> int:
    """Return the batch size: `asked` if given, else the device's default; smaller with many samples."""
    size = asked
    if size is None:
        size = BATCH
        if device.type == "cuda":
            room = torch.cuda.get_device_properties(device).total_memory
            size = LARGE_BATCH if room >= LARGE_MEMORY else LARGE_BATCH // 4
    drawn = {"sample": n_best, "mbr": options.samples}.get(options.method, 1)
    return size if drawn <= FEW or size < 1 else max(1, size * FEW // drawn)


def batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Group sentences of similar length, the longest first (so that an out-of-memory error comes at once or never).

    The memory of a search grows with the square of the length: a batch has `batch_size` sentences of up to `FULL`
    tokens, fewer of longer ones.
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
    """Group sentences into batches, and batches into groups that are searched together."""
    if not natively:
        return [[batch] for batch in batches(lengths, batch_size)]
    # Give each thread a batch to encode.
    share = max(SMALLEST, math.ceil(len(lengths) / torch.get_num_threads()))
    return together(batches(lengths, min(batch_size, share)), lengths)
