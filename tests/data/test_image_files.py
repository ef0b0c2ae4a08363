"""Images of every kind become red, green and blue, or are refused with one message that names them."""

import builtins
import contextlib
import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data.image_files import decode_image, read_image
from regard.errors import DataError
from regard.viz.png import png

RED, GREEN, WHITE, BLACK = (255, 0, 0), (0, 128, 0), (255, 255, 255), (0, 0, 0)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def content(image, kind="PNG", **options):
    written = io.BytesIO()
    image.save(written, kind, **options)
    return written.getvalue()


def halves(mode="RGB", left=RED, right=GREEN, size=(10, 6)):
    image = Image.new(mode, size, left)
    image.paste(right, (size[0] // 2, 0, *size))
    return image


def refused(call, *args, **options):
    with pytest.raises(DataError) as error:
        call(*args, **options)
    return str(error.value)


def test_an_image_is_height_width_and_colours():
    image = decode_image(content(halves()))
    assert image.shape == (6, 10, 3)
    assert image.dtype == np.uint8
    assert image[0, 0].tolist() == list(RED)
    assert image[5, 9].tolist() == list(GREEN)
    image[0, 0] = 1  # it may be written to


def test_what_we_write_is_what_pillow_reads():
    random = np.random.default_rng(1)
    for channels in (1, 3, 4):
        image = random.integers(0, 256, (7, 11, channels), dtype=np.uint8)
        back = np.asarray(Image.open(io.BytesIO(png(image)))).reshape(image.shape)
        assert np.array_equal(back, image)


def test_a_size_is_the_largest_square_in_the_middle():
    picture = np.zeros((20, 60, 3), np.uint8)
    picture[:, 20:40] = GREEN
    image = decode_image(png(picture), pixels=10)
    assert image.shape == (10, 10, 3)
    assert (image == GREEN).all()
    shrunk = decode_image(png(np.tile(np.uint8([[[0], [254]], [[254], [0]]]), (20, 20, 1))), pixels=10)
    assert np.abs(shrunk.astype(int) - 127).max() <= 12  # averaged, not picked


@pytest.mark.parametrize("size", [(1, 1), (1, 5_000), (5_000, 1)])
def test_one_pixel_and_one_line_are_images(size):
    image = decode_image(content(Image.new("RGB", size, RED)), pixels=16)
    assert image.shape == (16, 16, 3)
    assert (image == RED).all()


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("L", "PNG"), ("1", "PNG"), ("P", "PNG"), ("RGBA", "PNG"), ("LA", "PNG"), ("CMYK", "TIFF"), ("YCbCr", "TIFF")],
)
def test_all_kinds_of_colour_become_red_green_and_blue(mode, kind):
    image = decode_image(content(halves(left=WHITE, right=BLACK).convert(mode), kind))
    assert image.shape == (6, 10, 3)
    assert np.abs(image[0, 0].astype(int) - WHITE).max() <= 2
    assert np.abs(image[0, 9].astype(int) - BLACK).max() <= 2


def test_cmyk_of_a_jpeg():
    image = decode_image(content(halves("CMYK", (0, 255, 255, 0), (255, 0, 255, 0), (32, 16)), "JPEG", quality=95))
    assert np.abs(image[8, 4].astype(int) - RED).max() < 12
    assert np.abs(image[8, 28].astype(int) - (0, 255, 0)).max() < 12


def test_of_sixteen_bits_the_upper_eight():
    values = np.uint16([[0, 255, 256, 32_768, 65_535]])
    image = decode_image(content(Image.fromarray(values)))
    assert image[0].tolist() == [[0] * 3, [0] * 3, [1] * 3, [128] * 3, [255] * 3]
    assert (decode_image(content(Image.fromarray(values), "TIFF")) == image).all()


@pytest.mark.parametrize("values", [np.float32([[0.5, 1.5]]), np.int32([[-1, 70_000]])])
def test_numbers_without_an_agreed_white_are_refused(values):
    assert refused(decode_image, content(Image.fromarray(values), "TIFF"), "x.tif") == (
        "x.tif has 32-bit pixels, whose black and white levels are not defined. Convert it to 8 or 16 bits."
    )


def test_what_is_transparent_shows_white():
    palette = halves().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    index = palette.getpixel((0, 0))
    for transparency in (index, bytes(0 if i == index else 255 for i in range(4))):
        image = decode_image(content(palette, transparency=transparency))
        assert image[0, 0].tolist() == list(WHITE)
        assert np.abs(image[0, 9].astype(int) - GREEN).max() <= 2
    half = decode_image(content(Image.new("RGBA", (2, 2), (*RED, 51))))
    assert half[0, 0].tolist() == [255, 204, 204]
    keyed = decode_image(content(halves(), transparency=RED))
    assert keyed[0, 0].tolist() == list(WHITE)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_as_its_exif_says(orientation):
    marked = np.zeros((48, 32, 3), np.uint8)
    marked[:16, :16] = WHITE  # the upper left of what is meant
    turns = {1: lambda a: a, 2: np.fliplr, 3: lambda a: np.rot90(a, 2), 4: np.flipud,
             5: lambda a: a.transpose(1, 0, 2), 6: lambda a: np.rot90(a, 1),
             7: lambda a: np.rot90(a, 2).transpose(1, 0, 2), 8: lambda a: np.rot90(a, -1)}  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(turns[orientation](marked)))
    image = decode_image(content(stored, "JPEG", quality=95, exif=exif))
    assert image.shape == marked.shape
    assert np.abs(image[4:12, 4:12].astype(int) - 255).max() < 12
    assert image[28:, 20:].max() < 12


def test_damaged_exif_leaves_the_image_as_it_is():
    image = decode_image(content(halves(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"))
    assert image.shape == (6, 10, 3)


def test_of_an_animation_the_first_frame(here):
    first, second = halves(left=RED, right=RED), halves(left=GREEN, right=GREEN)
    image = decode_image(content(first, "GIF", save_all=True, append_images=[second], duration=100))
    assert (image == RED).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
def test_a_file_that_is_cut_short_is_refused_and_named(here, kind):
    random = np.random.default_rng(1)
    whole = content(Image.fromarray(random.integers(0, 256, (64, 64, 3), dtype=np.uint8)), kind)
    for part in (0.9, 0.5, 0.02):
        (here / "cut.img").write_bytes(whole[: int(len(whole) * part)])
        message = refused(read_image, "cut.img")
        assert message.startswith(("cut.img is truncated or damaged (", "cut.img is not an image that can be read."))
        assert message.endswith("leave it out.")


def test_damage_never_escapes_as_anything_else():
    """Whatever byte is changed: an image of the same kind, or a DataError."""
    random = np.random.default_rng(2)
    whole = content(halves(size=(40, 24)))
    for place in range(8, len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= int(random.integers(1, 256))
        with contextlib.suppress(DataError):
            assert decode_image(bytes(damaged)).shape[2] == 3


def png_header(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b"")]
    packed = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ((8_000, 7_000), "8,000 × 7,000 pixels, 56"),
        ((12_000, 9_000), "12,000 × 9,000 pixels, 108"),
        ((50_000, 50_000), "hundreds of"),
    ],
)
def test_what_would_fill_the_memory_is_refused(size, told):
    assert refused(decode_image, png_header(*size), "bomb.png") == (
        f"bomb.png has {told} megapixels, and at most 50 are read, so that no file can fill the memory. "
        "Make it smaller."
    )


def test_the_limit_can_be_set():
    small = content(halves())
    assert "60 megapixels" not in refused(decode_image, small, "x.png", megapixels=5e-5)
    assert decode_image(small, megapixels=7e-5).shape == (6, 10, 3)


@pytest.mark.parametrize(
    ("name", "made", "message"),
    [
        ("no.png", b"hello", "no.png is not an image that can be read. PNG, JPEG, GIF, WebP, BMP and TIFF are: "
                             "convert it, or leave it out."),
        ("empty.png", b"", "empty.png is empty. Fetch it again, or leave it out."),
        ("folder", None, "folder is a folder, not an image. Give a file in it."),
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused(here, name, made, message):
    if made is None:
        (here / name).mkdir()
    else:
        (here / name).write_bytes(made)
    assert refused(read_image, name) == message


def test_a_missing_file_is_named_with_the_nearest(here):
    (here / "cat.png").write_bytes(content(halves()))
    assert read_image("cat.png").shape == (6, 10, 3)
    assert refused(read_image, "cta.png") == "No image 'cta.png'. Did you mean 'cat.png'?"
    assert refused(read_image, "a/cat.png") == "No image 'a/cat.png'. There is no folder 'a' either."


def test_without_pillow_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **options):
        if name.split(".")[0] == "PIL":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refused(decode_image, b"x") == "Pillow is needed to read images: pip install 'regard[vision]'."
