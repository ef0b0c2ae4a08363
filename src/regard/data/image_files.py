"""Read image files of any common format with Pillow, as 8-bit RGB.

EXIF rotation is applied. Transparent areas become white. The first frame of an animation and the upper 8 of 16 bits are
used; greyscale and CMYK are converted to RGB. If a size is given, the largest centred square is resized to it (bicubic,
with antialiasing when shrinking).
"""

import io
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from PIL import Image

MEGAPIXELS: Final = 50.0
"""The default limit on image size: a small file can decompress to fill the memory."""
_LARGEST_FILE: Final = 1 << 28
_SIXTEEN_BITS: Final = ("I", "I;16", "I;16B", "I;16L", "I;16N")
_WHITE: Final = (255, 255, 255, 255)

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""


class UnknownImageError(DataError):
    """A file in an unknown image format."""


class LargeImageError(DataError):
    """An image with more pixels than the limit."""


def read_image(path: str | Path, pixels: int | None = None, megapixels: float = MEGAPIXELS) -> NDArray[np.uint8]:
    """Read an image file: height × width × 3, or `pixels` × `pixels` × 3 if a size is given."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except IsADirectoryError:
        raise DataError(f"{name} is a folder, not an image. Give a file in it.") from None
    except FileNotFoundError:
        raise DataError(f"No image {name!r}.{_near(Path(path))}") from None
    except OSError as error:
        raise DataError(f"Cannot read {name}: {(error.strerror or str(error)).lower()}.") from None
    if len(content) > _LARGEST_FILE:
        raise DataError(f"{name} is larger than {_LARGEST_FILE >> 20} MB. Is this an image? Make it smaller if it is.")
    return decode_image(content, name, pixels, megapixels)


def decode_image(
    content: bytes, name: str = "the image", pixels: int | None = None, megapixels: float = MEGAPIXELS
) -> NDArray[np.uint8]:
    """Decode the bytes of an image file; `name` is used in messages."""
    pillow = _pillow()
    if not content:
        raise DataError(f"{name} is empty. Fetch it again, or leave it out.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of sizes, which are checked here, and of damage to what is not needed
        image = _open(pillow, content, name, megapixels)
        _check_size(image.size, name, megapixels)
        try:
            image.load()
            image = _opaque(pillow, _eight_bits(_turned(image), name))
        except DataError:
            raise
        except Exception as error:  # Pillow and the libraries under it raise whatever a damaged file leads to
            raise _damaged(name, error) from None
    return np.array(image if pixels is None else _square(pillow, image, pixels), dtype=np.uint8)


def resize(picture: NDArray[np.uint8], pixels: int) -> NDArray[np.uint8]:
    """Crop and resize a picture, height × width × 1 or 3, to `pixels` × `pixels`, as for image files."""
    if picture.shape[:2] == (pixels, pixels):
        return picture
    pillow = _pillow()
    alone = pillow.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
    return np.array(_square(pillow, alone, pixels), dtype=np.uint8).reshape(pixels, pixels, -1)


def on_whole(box: Box, pixels: int, size: tuple[int, int]) -> Box:
    """Convert a box from an image read at `pixels` × `pixels` to the whole image of `size` (rows, columns).

    The image that was read is the largest centred square of the whole.
    """
    left, top, right, _ = _middle((size[1], size[0]))
    times = (right - left) / pixels
    return box[0] * times + left, box[1] * times + top, box[2] * times + left, box[3] * times + top


def mask_on_whole(mask: NDArray[np.bool_], size: tuple[int, int]) -> NDArray[np.bool_]:
    """Convert a mask from an image that was read to the whole image of `size` (rows, columns).

    Pixels of the largest centred square take the nearest value; those outside it are false.
    """
    left, top, right, bottom = _middle((size[1], size[0]))
    nearest = (np.arange(right - left) * 2 + 1) * len(mask) // (2 * (right - left))
    whole = np.zeros(size, np.bool_)
    whole[top:bottom, left:right] = mask[nearest[:, None], nearest]
    return whole


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise DataError("Pillow is needed to read images: pip install 'regard[vision]'.") from None
    return Image


def _near(path: Path) -> str:
    if not path.parent.is_dir():
        return f" There is no folder {str(path.parent)!r} either."
    return did_you_mean(path.name, sorted(os.listdir(path.parent)))


def _open(pillow: Any, content: bytes, name: str, megapixels: float) -> "Image.Image":
    """Read an image's header; its size is checked against our own limit instead of Pillow's."""
    try:
        image: Image.Image = pillow.open(io.BytesIO(content))
    except pillow.UnidentifiedImageError:
        raise UnknownImageError(
            f"{name} is not an image that can be read. PNG, JPEG, GIF, WebP, BMP and TIFF are: convert it, or leave it "
            "out."
        ) from None
    except pillow.DecompressionBombError:
        raise _too_large(name, "hundreds of", megapixels) from None
    except Exception as error:
        raise _damaged(name, error) from None
    return image


def _damaged(name: str, error: Exception) -> DataError:
    return DataError(f"{name} is truncated or damaged ({error}). Fetch it again, or leave it out.")


def _check_size(size: tuple[int, int], name: str, megapixels: float) -> None:
    count = size[0] * size[1] / 1e6
    if count > megapixels:
        raise _too_large(name, f"{size[0]:,} × {size[1]:,} pixels, {count:,.0f}", megapixels)
    if not count:
        raise DataError(f"{name} has no pixels ({size[0]} × {size[1]}). Leave it out.")


def _too_large(name: str, what: str, megapixels: float) -> LargeImageError:
    return LargeImageError(
        f"{name} has {what} megapixels, and at most {megapixels:g} are read, so that no file can fill the memory. "
        "Make it smaller."
    )


def _turned(image: "Image.Image") -> "Image.Image":
    """Apply EXIF rotation; if the EXIF data are damaged, return the image unchanged."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _eight_bits(image: "Image.Image", name: str) -> "Image.Image":
    """Reduce 16-bit pixels to their upper 8 bits; raise a DataError for 32-bit pixels, whose white is undefined."""
    from PIL import Image

    if image.mode not in (*_SIXTEEN_BITS, "F"):
        return image
    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > 65_535:
        raise DataError(
            f"{name} has 32-bit pixels, whose black and white levels are not defined. Convert it to 8 or 16 bits."
        )
    return Image.fromarray((values.astype(np.uint32) >> 8).astype(np.uint8))


def _opaque(pillow: Any, image: "Image.Image") -> "Image.Image":
    """Composite an image over white and convert it to RGB."""
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = pillow.alpha_composite(pillow.new("RGBA", over.size, _WHITE), over)
    return image.convert("RGB")


def _square(pillow: Any, image: "Image.Image", pixels: int) -> "Image.Image":
    return image.crop(_middle(image.size)).resize((pixels, pixels), pillow.Resampling.BICUBIC)


def _middle(size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the largest centred square of an image: left, top, right, bottom."""
    width, height = size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
