"""Pictures by number, with what is said of them, wherever they come from: what training and evaluation know of them.

A source of pictures has a length, and for each number from 0 some of these:

| part      | what                                                   | scenes | Fashion-MNIST | folder | .npz |
|-----------|--------------------------------------------------------|--------|---------------|--------|------|
| image     | the picture: uint8, height × width × `channels`        | yes    | yes           | yes    |      |
| regions   | features of its regions: float32, regions × width      |        |               |        | yes  |
| captions  | what is said of it: one or more texts                  | yes    |               | yes    | yes  |
| questions | what is asked about it, and the answers                | yes    |               |        |      |
| objects   | what is in it: classes, boxes, masks                   | yes    |               |        |      |
| spoken    | the objects that each word of each caption speaks of   | yes    |               |        |      |
| label     | what it shows, as a place in `labels`                  |        | yes           |        |      |

`has` names the parts that there are; to ask for another raises a DataError that says so.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.config import ModelConfig
from regard.data.builtin_corpora import pictured
from regard.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from regard.data.scene_painting_workers import Painters
    from regard.data.scenes import Scene

EMBEDDED: Final = "scenes"
INSTALLED: Final = "fashion-mnist"
_NEEDED: Final = {"write": "captions", "classify": "label", "answer": "questions", "detect": "objects"}
"""What a model of each task learns from, and is scored by."""
PARTS: Final = ("image", "regions", "captions", "questions", "objects", "spoken", "label")
_DEFAULT_SIZES: Final = {"train": 40_000, "valid": 1_000, "test": 2_000}
_PIXELS: Final = 64
_AT_ONCE: Final = 4096
"""Scenes that several processes are asked for at once."""
IMAGES: Final = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_CLASSES: Final = "fashion-mnist or a folder with its IDX files"
_FOLDER: Final = "a folder of images and a captions file"
_FEATURES: Final = "an .npz file of region features and a captions file"
_FORMS: Final = f"Give scenes, {_CLASSES}, {_FOLDER}, or {_FEATURES}"
_TOLD: Final = {"image": "images", "regions": "features of regions", "spoken": "objects of words", "label": "classes"}
"""What messages call a part, where it is not its name."""
_HOLDERS: Final = {
    "image": f"scenes, {_CLASSES}, or {_FOLDER}",
    "regions": _FEATURES,
    "captions": f"scenes, {_FOLDER}, or {_FEATURES}",
    "label": _CLASSES,
}
"""What has a part; all others scenes alone have."""


T = TypeVar("T")
Skip = Callable[[DataError], None]
"""Is told why a picture is left out."""


class PictureQuestion(NamedTuple):
    """A question about a picture."""

    question: str
    answer: str
    kind: str = ""
    held_out: bool = False
    """Whether it is about a combination that training never saw."""
    things: tuple[int, ...] = ()
    """The numbers of the objects that decide the answer, where they are known."""
    named: tuple[tuple[int, ...], ...] = ()
    """For each word the objects that it is a name of, or a part of one, where they are known."""


Spoken = tuple[tuple[int, ...], ...]
"""For each word of a caption the numbers of the objects that it speaks of; of none for articles and the like."""


class Things(NamedTuple):
    """What is in a picture."""

    classes: NDArray[np.int64]
    """Of each thing, as a place in `labels`."""
    boxes: NDArray[np.int64]
    """Things × (left, top, right, bottom), in pixels; right and bottom lie just beyond."""
    masks: NDArray[np.bool_]
    """Things × height × width."""
    held_out: bool = False
    """Whether one of them is a combination that training never saw."""


class Pictures(ABC):
    """Pictures by number. A source overrides what it has, and names it in `has`."""

    name: str
    """What messages call it."""
    has: frozenset[str]
    channels: int = 3
    """Of an image: 3 for red, green and blue, 1 for grey."""
    labels: tuple[str, ...] = ()
    """The names of the classes, of pictures or of what is in them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def identity(self) -> str:
        """Return what changes whenever the pictures, or what is said of them, may have changed."""

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return a picture: height × width × channels."""
        raise self.lacks("image")

    def images(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return several pictures of one size: pictures × height × width × channels."""
        return np.stack([self.image(int(index)) for index in indices])

    def regions(self, index: int) -> NDArray[np.float32]:
        """Return the features of a picture's regions: regions × width."""
        raise self.lacks("regions")

    def captions(self, index: int) -> tuple[str, ...]:
        """Return what is said of a picture; its words are what white space separates."""
        raise self.lacks("captions")

    def shown(self, index: int) -> NDArray[np.uint8] | None:
        """Return a picture as people are to see it, which may be finer than what models read; None if there is none."""
        return self.image(index) if "image" in self.has else None

    def called(self, index: int) -> str:
        """Return what people are to know a picture by."""
        return f"picture {index}"

    def questions(self, index: int) -> tuple[PictureQuestion, ...]:
        """Return what is asked about a picture."""
        raise self.lacks("questions")

    def objects(self, index: int) -> Things:
        """Return what is in a picture."""
        raise self.lacks("objects")

    def spoken(self, index: int) -> tuple[Spoken, ...]:
        """Return for each caption of a picture of which objects its words speak."""
        raise self.lacks("spoken")

    def label(self, index: int) -> int:
        """Return the class of a picture."""
        raise self.lacks("label")

    def every(self, part: str) -> Iterator[Any]:
        """Yield a part (`captions`, `questions`, `objects`, `spoken`, `label`) of all pictures, in order."""
        self.require(part)
        return (getattr(self, part)(index) for index in range(len(self)))

    def require(self, *parts: str) -> None:
        """Raise a DataError unless all these parts are there."""
        for part in parts:
            if part not in self.has:
                raise self.lacks(part)

    def lacks(self, part: str) -> DataError:
        """Say that a part is not there."""
        return _lacking(self.name, self.has, part)


def _lacking(name: str, has: frozenset[str], part: str) -> DataError:
    parts = ", ".join(_TOLD.get(one, one) for one in PARTS if one in has)
    return DataError(
        f"{name} has no {_TOLD.get(part, part)} for its pictures (it has {parts}). Give "
        f"{_HOLDERS.get(part, EMBEDDED)}; or take another model (regard list visions)."
    )


class ScenePictures(Pictures):
    """The embedded scenes. `scene` gives all that there is to know of one: things, masks, gold regions."""

    has = frozenset(("image", "captions", "questions", "objects", "spoken"))

    def __init__(self, split: str, size: int, seed: int = 1, pixels: int = 64) -> None:
        from regard.data.scenes import generate
        from regard.data.scenes.objects import SHAPES

        self.labels = SHAPES
        generate(split, size, seed, pixels=pixels)  # says at once what cannot be had
        self.name = f"{EMBEDDED}:{split}:{size}"
        self._made = split, size, seed, pixels

    def __len__(self) -> int:
        return self._made[1]

    def identity(self) -> str:
        """Take in the first scenes, so that a release that draws others from the same seed is noticed."""
        digest = blake2b(digest_size=16)
        for index in range(min(len(self), 20)):
            digest.update(self.scene(index).painting.image.tobytes())
            digest.update(repr((self.captions(index), self.questions(index))).encode())
        return f"{EMBEDDED} {self._made} {digest.hexdigest()}"

    def scene(self, index: int) -> "Scene":
        """Return a scene with all that is known of it."""
        from regard.data.scenes import scene

        split, size, seed, pixels = self._made
        return scene(split, within(index, size), seed, pixels)

    def image(self, index: int) -> NDArray[np.uint8]:
        """Paint a scene."""
        return self.scene(index).painting.image

    def images(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Paint several scenes; of many, by several processes."""
        if self._painters is None or not isinstance(indices, range) or indices.step != 1 or len(indices) < 64:
            return super().images(indices)
        return np.concatenate([made["image"] for made in self._painters.make("image", indices.start, indices.stop)])

    def every(self, part: str) -> Iterator[Any]:
        """Yield a part of all scenes; of many, by several processes."""
        if self._painters is None:
            yield from super().every(part)
            return
        for start in range(0, len(self), _AT_ONCE):
            for made in self._painters.make(part, start, min(start + _AT_ONCE, len(self))):
                yield from _told(part, made)

    @cached_property
    def _painters(self) -> "Painters | None":
        from regard.data.scene_painting_workers import ALONE, Painters, cores

        split, size, seed, pixels = self._made
        return Painters(split, seed, pixels) if size > ALONE and cores() > 1 else None

    def captions(self, index: int) -> tuple[str, ...]:
        """Say all that can be said of a scene."""
        return tuple(caption.text for caption in self.scene(index).captions)

    def questions(self, index: int) -> tuple[PictureQuestion, ...]:
        """Ask about a scene; the words have no question mark."""
        return tuple(
            PictureQuestion(" ".join(one.words), one.answer, one.kind, one.held_out, one.things, one.named)
            for one in self.scene(index).questions
        )

    def objects(self, index: int) -> Things:
        """Tell the things of a scene; their classes are their shapes."""
        scene = self.scene(index)
        classes = np.array([self.labels.index(thing.shape) for thing in scene.things], np.int64)
        return Things(classes, scene.painting.boxes, scene.painting.masks, scene.held_out)

    def spoken(self, index: int) -> tuple[Spoken, ...]:
        """Tell for each caption of a scene of which things its words speak."""
        return tuple(caption.things for caption in self.scene(index).captions)


def _told(part: str, made: Mapping[str, NDArray[Any]]) -> Iterator[Any]:
    """Yield what processes that paint have made, one scene after the other, as the scenes themselves tell it."""
    if part == "captions":
        yield from (tuple(some) for some in json.loads(made[part].tobytes()))
    elif part == "spoken":
        for some in json.loads(made[part].tobytes()):
            yield tuple(tuple(map(tuple, words)) for words in some)
    elif part == "questions":
        for some in json.loads(made[part].tobytes()):
            yield tuple(
                PictureQuestion(text, answer, kind, new, tuple(things), tuple(map(tuple, named)))
                for text, answer, kind, new, things, named in some
            )
    else:
        ends = made["counts"].cumsum()
        for end, count, new in zip(ends, made["counts"], made["held_out"], strict=True):
            boxes, packed = made["boxes"][end - count : end], made["masks"][end - count : end]
            masks = np.unpackbits(packed, axis=-1, count=packed.shape[1]).view(np.bool_)
            yield Things(made["classes"][end - count : end], boxes, masks, bool(new))


def within(index: int, size: int) -> int:
    """Return an index that is one of a picture; anything else is a mistake of ours, not of a user."""
    if not 0 <= index < size:
        raise IndexError(f"picture {index} of {size}")
    return index


def are_pictures(parts: Sequence[str]) -> bool:
    """Tell whether what is given as a corpus is a source of pictures, going by its form."""
    if not parts:
        return False
    name = parts[0].partition(":")[0]
    return name in pictured or parts[0].endswith(".npz") or Path(parts[0]).is_dir()


def held_out(parts: Sequence[str]) -> tuple[str, ...]:
    """Name the part of a source that is kept for validation, where it has one of its own."""
    from regard.data.fashion_mnist import is_fashion

    name = parts[0].partition(":")[0]
    if len(parts) == 1 and (name == INSTALLED or (Path(parts[0]).is_dir() and is_fashion(Path(parts[0])))):
        return (parts[0],)
    return (name,) if len(parts) == 1 and name == EMBEDDED else ()


def needed_by(model: ModelConfig) -> tuple[str, ...]:
    """Name the parts that pictures must have for a model: what its task is about, and what it reads."""
    task = [_NEEDED[model.task]] if model.task in _NEEDED else []
    reads = [] if model.image is None else ["regions" if model.image.kind == "regions" else "image"]
    return (*task, *reads)


def open_pictures(
    parts: Sequence[str],
    split: str = "train",
    seed: int = 1,
    pixels: int = 0,
    plain: bool = False,
    needed: Iterable[str] = (),
) -> Pictures:
    """Open pictures that are given in any of their forms.

    `parts` is `scenes`, which may be followed by a size and a split of its own (`scenes:20000`, `scenes:test:200`); or
    `fashion-mnist`, where Debian has put it, or a folder with its IDX files; or a folder of images or an .npz file of
    region features, and then a captions file, unless it is there or beside. `split` is for scenes and Fashion-MNIST,
    `seed` for scenes, `pixels` for all but features (0: as many rows and columns as Fashion-MNIST has, or 64), `plain`
    for captions from files: they are taken in lower case and without punctuation. `needed` are parts that there must be
    (`needed_by`): scenes that lack one are refused for that, and not for being of the wrong size.
    """
    from regard.data.caption_files import CaptionedImages, RegionFeatures
    from regard.data.fashion_mnist import FashionMnist, is_fashion

    if not parts or len(parts) > 2:
        raise DataError(f"{len(parts)} parts of a source of pictures. {_FORMS}.")
    given, captions = parts[0], parts[1] if len(parts) == 2 else None
    name = given.partition(":")[0]
    path = Path(given)
    lacked = [part for part in needed if part not in ScenePictures.has]
    if captions is None and name == EMBEDDED and lacked:
        raise _lacking(given, ScenePictures.has, lacked[0])
    if captions is None and (name == EMBEDDED or (given == INSTALLED and not path.exists())):
        return pictured[name](given, split, seed, pixels)
    if given.endswith(".npz"):
        return RegionFeatures(path, None if captions is None else Path(captions), plain)
    if path.is_dir():
        if captions is None and is_fashion(path):
            return FashionMnist(path, split, pixels)
        return CaptionedImages(path, None if captions is None else Path(captions), pixels or _PIXELS, plain=plain)
    if name == INSTALLED and given != name:
        raise DataError(f"{given!r}: {name} alone is its name; a --split, where there is one, says which part of it.")
    hint = did_you_mean(name, pictured)
    raise DataError(f"No pictures {given!r}: neither a folder nor an .npz file.{hint} {_FORMS}.")


def read_files(
    given: Sequence[str | Path], pixels: int, channels: int = 3, skip: Skip | None = None
) -> tuple[list[str], NDArray[np.uint8]]:
    """Read image files, and all images of folders, as a model reads them; return their names, too.

    What cannot be read is told to `skip` and left out.
    """
    from regard.data.image_files import read_image

    _, inside = read_each(map(str, given), _files_in, skip)
    names, found = read_each((name for some in inside for name in some), partial(read_image, pixels=pixels), skip)
    return names, in_channels(np.stack(found) if found else np.zeros((0, pixels, pixels, 3), np.uint8), channels)


def read_each(names: Iterable[str], read: Callable[[str], T], skip: Skip | None = None) -> tuple[list[str], list[T]]:
    """Read what has names, in order, and return the names of what could be read, too.

    Of the rest `skip` is told; without it the first that cannot be read is refused.
    """
    done, found = list[str](), list[T]()
    for name in names:
        try:
            found.append(read(name))
        except DataError as error:
            if skip is None:
                raise
            skip(error)
        else:
            done.append(name)
    return done, found


def _files_in(given: str) -> list[str]:
    """Name the images of a folder; what is none stands for itself."""
    path = Path(given)
    if not path.is_dir():
        return [given]
    inside = sorted(str(file) for file in path.iterdir() if file.suffix.lower() in IMAGES)
    if not inside:
        raise DataError(f"{path} has no images ({', '.join(IMAGES)}).")
    return inside


def in_channels(pictures: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Make coloured pictures grey for a model that reads one channel: as bright as eyes find colours (ITU-R BT.601)."""
    if channels != 1:
        return pictures
    grey: NDArray[np.uint8] = (pictures @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)[..., None]
    return grey


def open_scenes(given: str, split: str = "train", seed: int = 1, pixels: int = 0) -> ScenePictures:
    """Open the embedded scenes: `scenes`, `scenes:20000`, `scenes:test:200`; the size given last counts."""
    size = None
    for detail in given.split(":")[1:]:
        if detail in _DEFAULT_SIZES:
            split = detail
        elif detail.isdecimal() and int(detail) > 0:
            size = int(detail)
        else:
            raise DataError(
                f"{detail!r} in {given!r} is neither a number of scenes nor a split ({', '.join(_DEFAULT_SIZES)}). "
                f"Write for instance {EMBEDDED}:20000."
            )
    return ScenePictures(split, _DEFAULT_SIZES.get(split, 1) if size is None else size, seed, pixels or _PIXELS)
