"""The picture of a request: the body's own bytes, or an embedded scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any

import numpy as np
from fastapi import HTTPException, Query, Request
from fastapi.concurrency import run_in_threadpool
from numpy.typing import NDArray

from regard.config import ImageConfig
from regard.data.image_files import decode_image, on_whole
from regard.data.pictures import in_channels
from regard.data.scenes import PIXELS, scene
from regard.serve.http_errors import SAID
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served
from regard.viz.image_trace import Box, ImageTrace
from regard.viz.overlay_page import image_part
from regard.viz.trace import AttentionTrace

SHOWN = 640
"""Pixels a side that are shown of a picture, if it has them: more than models read."""
_NAME = "The picture"
_OTHER_BODIES = ("multipart/", "application/json", "text/")

BODY: dict[str, Any] = {
    "requestBody": {
        "description": "The bytes of an image file, or nothing where `scene` is given.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
    }
}
"""For the documentation: FastAPI does not see what is read from a stream."""

UNSEEN: dict[int | str, dict[str, Any]] = {**SAID, 415: {**SAID[400], "description": "The body is no image."}}
Name = Annotated[str | None, Query(description="A name of /api/models; the first that does this, unless given.")]
Attention = Annotated[bool, Query(description="Tell where the model looked.")]
View = Annotated[bool, Query(description="Also give that as HTML for the page.")]
SceneNumber = Annotated[
    int | None, Query(ge=0, lt=1_000_000, description="Take this embedded scene instead of a body.")
]
Split = Annotated[str, Query(description="Which scenes: train, valid or test.")]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as a model reads it, and as people see it."""

    pixels: NDArray[np.uint8]
    shown: NDArray[np.uint8]
    """The same part of it: the largest square in the middle."""
    size: tuple[int, int]
    """Rows and columns of the whole picture."""

    def on_shown(self, box: Box) -> Box:
        """Turn a box in pixels that the model read into one of pixels that are shown."""
        return on_whole(box, self.pixels.shape[0], (self.shown.shape[0], self.shown.shape[1]))

    def on_whole(self, box: Box) -> Box:
        """Turn a box in pixels that the model read into one of pixels of the whole picture."""
        return on_whole(box, self.pixels.shape[0], self.size)


class Uploads:
    """Reads pictures of requests, one at a time: unpacking them takes memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._one = limits, Lock()

    async def read(self, request: Request, served: Served, number: int | None, split: str) -> Picture:
        """Return the picture that a request is about."""
        image = served.config.model.image
        assert image is not None
        content = await request.body()
        if number is not None:
            if content:
                raise HTTPException(400, "Give either a picture or scene=N, not both.")
            return await run_in_threadpool(_painted, image, number, split)
        kind = request.headers.get("content-type", "")
        if kind.startswith(_OTHER_BODIES):
            raise HTTPException(
                415, f"The body is {kind.partition(';')[0]}. Send the bytes of an image file themselves, as image/png."
            )
        if not content:
            raise HTTPException(400, "There is no picture: send the bytes of an image file as the body, or scene=N.")
        return await run_in_threadpool(self._decode, image, content)

    def _decode(self, image: ImageConfig, content: bytes) -> Picture:
        with self._one:
            return _decoded(image, content, self._limits.megapixels)


def _decoded(image: ImageConfig, content: bytes, megapixels: float) -> Picture:
    whole = decode_image(content, _NAME, None, megapixels)
    pixels = decode_image(content, _NAME, image.size, megapixels)
    shown = decode_image(content, _NAME, min(*whole.shape[:2], SHOWN), megapixels)
    return Picture(in_channels(pixels, image.channels), shown, (whole.shape[0], whole.shape[1]))


def _painted(image: ImageConfig, number: int, split: str) -> Picture:
    pixels = scene(split, number, pixels=image.size).painting.image
    shown = scene(split, number, pixels=PIXELS[1]).painting.image
    return Picture(in_channels(pixels, image.channels), shown, (PIXELS[1], PIXELS[1]))


def stacked(pictures: Sequence[Picture]) -> NDArray[np.uint8]:
    """Return pictures of one model as one batch."""
    return np.stack([picture.pixels for picture in pictures])


def overlaid(
    trace: AttentionTrace,
    picture: Picture,
    grid: tuple[int, int],
    outlines: Sequence[Sequence[Box]] = (),
    phrases: bool = False,
) -> str | None:
    """Write what the page shows of a trace; nothing for a model without attention."""
    if not trace.weights.size:
        return None
    boxes = tuple(tuple(some) for some in outlines)
    return image_part(ImageTrace(trace, picture.shown, grid, outlines=boxes), phrases=phrases)
