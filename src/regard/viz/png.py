"""PNG files with Python's own zlib, so that Pillow is not needed."""

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""By number of channels: grey, RGB, RGBA."""


def png(image: NDArray[Any]) -> bytes:
    """Return an image (uint8, height × width × 1, 3 or 4 channels) as the bytes of a PNG file."""
    height, width, channels = image.shape
    rows = image.reshape(height, width * channels)
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    filtered = b"".join(b"\0" + row.tobytes() for row in rows)  # each row: no filter
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(filtered, 9)), (b"IEND", b"")
    return _SIGNATURE + b"".join(_chunk(kind, content) for kind, content in parts)


def from_png(content: bytes) -> NDArray[np.uint8]:
    """Read the result of `png`. Files of other programs need Pillow: `regard.data.image_files`."""
    try:
        if content[:16] != _SIGNATURE + struct.pack(">I4s", 13, b"IHDR"):
            raise ValueError("no header")
        width, height, depth, kind = struct.unpack(">IIBB", content[16:26])
        channels = {code: count for count, code in _COLOUR_TYPES.items()}[kind]
        (length,) = struct.unpack(">I", content[33:37])
        # Unpack no more than the header says: a small file cannot fill the memory.
        size = height * (1 + width * channels)
        unpacked = zlib.decompressobj().decompress(content[41 : 41 + length], size) if size else b""
        rows = np.frombuffer(unpacked, np.uint8).reshape(height, 1 + width * channels)
        if depth != 8 or rows[:, 0].any():
            raise ValueError("filtered rows, or not 8 bits")
    except (KeyError, ValueError, struct.error, zlib.error) as error:
        raise DisplayError(f"Not a PNG file written by regard: {error}.") from error
    return np.array(rows[:, 1:]).reshape(height, width, channels)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
