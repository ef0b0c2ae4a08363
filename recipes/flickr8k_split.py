"""Split Flickr8k's training pictures into train and valid, and normalise the features of all parts.

    python recipes/flickr8k_split.py flickr8k data/flickr8k --pooled 128

A hash of a picture's name decides its part, independently of seeds and other pictures: one in twelve is for validation,
on which all settings are chosen. Results are reported on `dev`, which is left whole.

Each feature is divided by its standard deviation over the training pictures. With `--pooled N`, the first N principal
components of the whole picture's features, scaled likewise, are appended to those of each region. Components, means and
deviations are computed on the training pictures only.
"""

import argparse
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.caption_files import read_captions
from regard.data.line_files import open_lines
from regard.errors import RegardError

PARTS = 12
THUMBNAILS = "thumbnails"
FINEST = 24
"""Whole numbers in a standard deviation: what is five deviations off still fits into a byte."""

Numbers = NDArray[Any]


def is_valid(name: str) -> bool:
    """Tell whether a picture is one to choose settings on."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % PARTS == 0


def in_bytes(features: Numbers, mean: Numbers, deviation: Numbers) -> Numbers:
    """Return features of mean zero and deviation one, `FINEST` times, as bytes."""
    return np.clip(np.rint(FINEST * (features - mean) / deviation), -127, 127).astype(np.int8)


def components(pooled: Numbers, count: int) -> Numbers:
    """Return the first principal components, as columns."""
    _, vectors = np.linalg.eigh(np.cov(pooled, rowvar=False))
    return np.asarray(vectors[:, ::-1][:, :count])


def split(source: Path, folder: Path, pooled: int) -> dict[str, int]:
    """Write the features and captions of the three parts; return how many pictures each has."""
    stored = {name: dict(np.load(source / f"{name}.npz")) for name in ("train", "dev")}
    chosen = np.array([is_valid(name) for name in stored["train"]["names"]])
    parts = {
        "train": {key: value[~chosen] for key, value in stored["train"].items() if key != "regions_scale"},
        "valid": {key: value[chosen] for key, value in stored["train"].items() if key != "regions_scale"},
        "dev": stored["dev"],
    }
    known = parts["train"]
    regions = known["regions"].astype(np.float32)
    scale = regions.mean((0, 1)), regions.std((0, 1))
    whole = known["pooled"].astype(np.float32)
    turn = components(whole, pooled)
    turned = whole @ turn
    of_whole = turned.mean(0), turned.std(0)
    folder.mkdir(parents=True, exist_ok=True)
    for part, values in parts.items():
        made = in_bytes(values["regions"].astype(np.float32), *scale)
        if pooled:
            beside = in_bytes(values["pooled"].astype(np.float32) @ turn, *of_whole)
            made = np.concatenate([made, np.broadcast_to(beside[:, None], (*made.shape[:2], pooled))], axis=2)
        np.savez(folder / f"{part}.npz", regions=made, regions_scale=np.float32(1 / FINEST), names=values["names"])
        _write_captions(source, folder, part, set(map(str, values["names"])))
    (folder / THUMBNAILS).mkdir(exist_ok=True)
    for thumbnail in (source / THUMBNAILS).glob("*"):
        shutil.copyfile(thumbnail, folder / THUMBNAILS / thumbnail.name)
    return {part: len(values["names"]) for part, values in parts.items()}


def _write_captions(source: Path, folder: Path, part: str, names: set[str]) -> None:
    file = source / f"{'dev' if part == 'dev' else 'train'}.captions.tsv.gz"
    if part == "dev":
        shutil.copyfile(file, folder / f"{part}.captions.tsv.gz")
        return
    with open(folder / f"{part}.captions.tsv", "w", encoding="utf-8", newline="\n") as out:
        for name, captions in read_captions(open_lines(str(file))).items():
            out.writelines(f"{name}\t{caption}\n" for caption in captions if name in names)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder with train.npz, dev.npz and their captions")
    parser.add_argument("folder", type=Path, help="where the three parts go")
    parser.add_argument("--pooled", type=int, default=0, help="components of the whole picture beside each region")
    given = parser.parse_args()
    try:
        counts = split(given.source, given.folder, given.pooled)
    except RegardError as error:
        parser.exit(2, f"flickr8k_split: {error}\n")
    except OSError as error:
        parser.exit(2, f"flickr8k_split: {error.filename}: {error.strerror}\n")
    for part, count in counts.items():
        print(f"{given.folder / part}.npz: {count:,} pictures")


if __name__ == "__main__":
    main()
