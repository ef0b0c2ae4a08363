"""Image files as a model reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_picture(path: str | Path, told: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Read one picture: the largest square in its middle, resized; or an .npy file of features, regions × width.

    It is turned as its EXIF data says, and what is transparent shows white.
    """
    if told["kind"] == "regions":
        regions = np.load(path, allow_pickle=False).astype(np.float32)[None]
        return {"regions": regions, "mask": np.ones(regions.shape[:2], np.bool_)}
    image = open_picture(path)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    size = told["size"]
    pixels = np.array(image.crop((left, top, left + side, top + side)).resize((size, size), 3))  # 3: bicubic
    if told["channels"] == 1:
        pixels = (pixels @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)[..., None]
    return {"pixels": pixels[None]}


def open_picture(path: str | Path) -> Any:
    """Open an image file as red, green and blue."""
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # of 16 bits the upper eight
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, (255, 255, 255, 255)), over)
    return image.convert("RGB")


def shares(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the probabilities that logits stand for."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: NDArray[np.float32] = raised / raised.sum(axis=-1, keepdims=True)
    return found
