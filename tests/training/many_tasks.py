"""Small runs of every family of presets and every task, for what has to hold of all of them."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from regard.config import Config
from regard.config_io import override
from regard.presets.vision import any_preset
from regard.training import train_model
from regard.training.progress import Silent

COMMON = (
    *(
        "training.flip=false",
        "training.shift=0",
        "model.dropout=0",
        "training.device=cpu",
        "training.precision=float32",
        "training.log_every=1",
    ),
    *("training.warmup=0", "training.learning_rate=0.001", "training.validate_every=3", "training.steps=3"),
    "decoding.max_length=5",  # who knows nothing writes until it has to stop
)
NARROW = (
    *("model.embedding=8", "model.encoder.width=8", "model.decoder.width=8", "tokenizer.vocabulary=300"),
    *("model.encoder.feed_forward=8", "model.decoder.feed_forward=8", "training.batch_tokens=60"),
    *("model.decoder.readout_width=8",),
)
TEXTS = {
    "sutskever2014-small": (),
    "cho2014-small": (),
    "bahdanau2014-small": ("model.attention.width=4", "training.accumulate=2"),
    "bahdanau2014-conditional-small": ("model.attention.width=4", "model.decoder.context_dropout=0"),
    "luong2015-small": (),
    "luong2015-local-p-general-small": (),
    "gnmt2016-small": ("model.attention.width=4", "model.encoder.layers=3", "model.decoder.layers=3"),
    "cheng2016-small": ("model.attention.width=4", "model.self_attention.width=4"),
    "cheng2016-lm-small": ("model.self_attention.width=4",),
    "transformer2017-small": ("model.attention.heads=2", "model.self_attention.heads=2", "training.average=ema"),
    "chen2018-hybrid-small": ("model.attention.heads=2", "model.self_attention.heads=2", "model.attention.width=4"),
    "lm-lstm-small": (),
    "lm-attention-small": ("model.self_attention.width=4",),
    "gpt-small": ("model.self_attention.heads=2",),
}
CELLS = (
    *("model.image.width=16", "model.image.units=1", "model.image.stages=2", "model.embedding=16"),
    *("model.encoder.width=16", "model.encoder.feed_forward=8", "model.decoder.width=16"),
    *("model.decoder.feed_forward=8", "model.image.feed_forward=8", "model.image.size=32"),
    *("model.decoder.readout_width=8",),
    *("training.batch_tokens=80",),
)
PICTURES = {
    "xu2015-soft-small": ("model.attention.width=4", "training.told=2"),
    "xu2015-hard-small": ("model.attention.width=4",),
    "captioner-small": (),
    "hu2017-se-small": ("model.image.reduction=2",),
    "wang2018-nonlocal-small": ("model.image.where=2",),
    "dosovitskiy2020-vit-small": ("model.image.layers=1", "model.image.patch=8"),
    "anderson2017-small": ("model.attention.width=4", "model.questions.fusion=8", "training.asked=3"),
    "asker-small": ("training.asked=3",),
    "carion2020-small": ("model.detection.mask_channels=4", "model.detection.mask_maps=4"),
}
CLASSES = ("hu2017-se-small", "wang2018-nonlocal-small", "dosovitskiy2020-vit-small")
FAMILIES = tuple(name for name in (*TEXTS, *PICTURES) if name != "xu2015-hard-small")  # it looks by chance


def family(name: str, folder: Path, *changes: str) -> Config:
    """Return the configuration of a run of a few steps without dropout; the folder is that of `clothes`."""
    texts = name in TEXTS
    own = TEXTS[name] if texts else PICTURES[name]
    config = override(any_preset(name), [*COMMON, *(NARROW if texts else CELLS), *own, *changes])
    if texts:
        return replace(config, data=replace(config.data, train=("phrasebook:40",), valid=("phrasebook:5",)))
    parts = (str(folder),) if name in CLASSES else ("scenes:24",)
    return replace(config, data=replace(config.data, train=parts, valid=() if name in CLASSES else ("scenes:5",)))


def clothes(folder: Path) -> Path:
    """Write a folder of IDX files: 24 pictures to train on and to validate by, 6 to test on."""
    random = np.random.default_rng(5)
    folder.mkdir(exist_ok=True)
    for part, count in (("train", 24), ("t10k", 6)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        pixels = random.integers(0, 256, (count, 28, 28), np.uint8)
        head = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (count, 28, 28))
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        content = b"\0\0\x08\x01" + count.to_bytes(4, "big") + labels.tobytes()
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(content))
    return folder


def in_float64() -> None:
    """Compute everything in this process in float64: what remains of a difference is a difference."""
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double


def undrawn() -> None:
    """Draw no learning curve: that takes longer than the run."""
    train_model._draw_curve = lambda folder: None


def train(config: Config, folder: Path, **options):
    return train_model.train(config, Path(folder), **{"reporter": Silent(), **options})


def told(folder: Path) -> list[dict]:
    """Return the lines of metrics.jsonl without times."""
    lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name != "seconds" and not name.endswith("_per_second")}
        for line in lines
    ]


def weights(folder: Path, name: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / name)
