"""Read the picture of a request: the bytes of the body, or an embedded scene."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Any, Literal

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
"""Maximum pixels per side of a displayed picture: more than models read."""
_NAME = "The picture"
_OTHER_BODIES = ("multipart/", "application/json", "text/")

BODY: dict[str, Any] = {
    "requestBody": {
        "description": "The bytes of an image file, of any type that Pillow reads; may be empty if `scene` is given.",
        "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
        "required": True,
    }
}
"""The request body, for the API documentation: FastAPI does not know of bodies that are read as a stream."""

UNSEEN: dict[int | str, dict[str, Any]] = {**SAID, 415: {**SAID[400], "description": "The body is not an image."}}
Name = Annotated[
    str | None,
    Query(
        description="A name from /api/models; by default the first model of this task.",
        json_schema_extra={"x-limit": "models"},
    ),
]
Attention = Annotated[bool, Query(description="Return the attention.")]
View = Annotated[bool, Query(description="Also return the attention as HTML for the web page.")]
SceneNumber = Annotated[
    int | None, Query(ge=0, lt=1_000_000, description="Use this embedded scene; the body is not read.")
]
Split = Annotated[
    Literal["train", "valid", "test"], Query(description="Part that `scene` counts in: train, valid or test.")
]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as the model reads it, and at a higher resolution for display."""

    pixels: NDArray[np.uint8]
    shown: NDArray[np.uint8]
    """The same part of the picture, its largest centred square, for display."""
    size: tuple[int, int]
    """Height and width of the whole picture."""

    def on_shown(self, box: Box) -> Box:
        """Convert a box from the pixels that the model read to those of `shown`."""
        return on_whole(box, self.pixels.shape[0], (self.shown.shape[0], self.shown.shape[1]))

    def on_whole(self, box: Box) -> Box:
        """Convert a box from the pixels that the model read to those of the whole picture."""
        return on_whole(box, self.pixels.shape[0], self.size)


class Uploads:
    """Reads the pictures of requests; decodes one at a time, since decoding takes much memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._one = limits, Lock()

    async def read(self, request: Request, served: Served, number: int | None, split: str) -> Picture:
        """Return the picture of a request."""
        image = served.config.model.image
        assert image is not None
        if number is not None:
            return await run_in_threadpool(_painted, image, number, split)
        content = await request.body()
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
    """Stack pictures into a batch."""
    return np.stack([picture.pixels for picture in pictures])


def overlaid(
    trace: AttentionTrace,
    picture: Picture,
    grid: tuple[int, int],
    outlines: Sequence[Sequence[Box]] = (),
    phrases: bool = False,
) -> str | None:
    """Return the HTML that the page shows for a trace; None for a model without attention."""
    if not trace.weights.size:
        return None
    boxes = tuple(tuple(some) for some in outlines)
    return image_part(ImageTrace(trace, picture.shown, grid, outlines=boxes), phrases=phrases)
