"""Sources of pictures with their annotations, in one interface for training and evaluation.

A source of pictures has a length, and for each picture number from 0 some of these parts:

| part      | what                                                   | scenes | Fashion-MNIST | folder | .npz |
|-----------|--------------------------------------------------------|--------|---------------|--------|------|
| image     | the picture: uint8, height × width × `channels`        | yes    | yes           | yes    |      |
| regions   | features of its regions: float32, regions × width      |        |               |        | yes  |
| captions  | one or more captions                                   | yes    |               | yes    | yes  |
| questions | questions about it, with answers                       | yes    |               |        |      |
| objects   | the objects in it: classes, boxes, masks               | yes    |               |        |      |
| spoken    | the objects that each word of each caption names       | yes    |               |        |      |
| label     | its class, as an index into `labels`                   |        | yes           |        |      |

`has` names the parts of a source; accessing another part raises a DataError.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.config import ImageConfig, ModelConfig
from regard.data.builtin_corpora import pictured
from regard.errors import ConfigError, DataError, did_you_mean

if TYPE_CHECKING:
    from regard.data.scene_painting_workers import Painters
    from regard.data.scenes import Scene

EMBEDDED: Final = "scenes"
INSTALLED: Final = "fashion-mnist"
_NEEDED: Final = {"write": "captions", "classify": "label", "answer": "questions", "detect": "objects"}
"""The annotation that each task is trained and scored on."""
PARTS: Final = ("image", "regions", "captions", "questions", "objects", "spoken", "label")
_DEFAULT_SIZES: Final = {"train": 40_000, "valid": 1_000, "test": 2_000}
_PIXELS: Final = 64
_AT_ONCE: Final = 4096
"""Scenes per request to the worker processes."""
IMAGES: Final = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_CLASSES: Final = "fashion-mnist or a folder with its IDX files"
_FOLDER: Final = "a folder of images and a captions file"
_FEATURES: Final = "an .npz file of region features and a captions file"
_FORMS: Final = f"Give scenes, {_CLASSES}, {_FOLDER}, or {_FEATURES}"
_TOLD: Final = {"image": "images", "regions": "region features", "spoken": "objects of words", "label": "classes"}
"""The names of parts in messages, where they differ."""
_HOLDERS: Final = {
    "image": f"scenes, {_CLASSES}, or {_FOLDER}",
    "regions": _FEATURES,
    "captions": f"scenes, {_FOLDER}, or {_FEATURES}",
    "label": _CLASSES,
}
"""The sources that have a part; other parts exist only in scenes."""


T = TypeVar("T")
PictureInput: TypeAlias = NDArray[Any] | str | Path | Sequence[str | Path]
"""Files of images, or arrays of what a model reads: pixels, or features of regions."""
Skip = Callable[[DataError], None]
"""Receives the error of a picture that is skipped."""


class PictureQuestion(NamedTuple):
    """A question about a picture."""

    question: str
    answer: str
    kind: str = ""
    held_out: bool = False
    """Whether it is about a held-out combination."""
    things: tuple[int, ...] = ()
    """The numbers of the objects that decide the answer, if known."""
    named: tuple[tuple[int, ...], ...] = ()
    """For each word the objects that it names or helps to name, if known."""


Spoken = tuple[tuple[int, ...], ...]
"""For each word of a caption the numbers of the objects that it names; none for articles and the like."""


class Things(NamedTuple):
    """The objects in a picture."""

    classes: NDArray[np.int64]
    """The class of each object, as an index into `labels`."""
    boxes: NDArray[np.int64]
    """Objects × (left, top, right, bottom), in pixels; right and bottom are exclusive."""
    masks: NDArray[np.bool_]
    """Objects × height × width."""
    held_out: bool = False
    """Whether one of them is a held-out combination."""


class Pictures(ABC):
    """A source of pictures. Subclasses override the parts they have, and name them in `has`."""

    name: str
    """The name of the source in messages."""
    has: frozenset[str]
    channels: int = 3
    """Channels of an image: 3 for RGB, 1 for greyscale."""
    labels: tuple[str, ...] = ()
    """The names of the classes, of pictures or of the objects in them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def identity(self) -> str:
        """Return an identifier that changes if the pictures or their annotations may have changed."""

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
        """Return the captions of a picture; words are split at white space."""
        raise self.lacks("captions")

    def shown(self, index: int) -> NDArray[np.uint8] | None:
        """Return a picture for display, perhaps at a higher resolution than models read; None if there is none."""
        return self.image(index) if "image" in self.has else None

    def called(self, index: int) -> str:
        """Return the name of a picture for display."""
        return f"picture {index}"

    def questions(self, index: int) -> tuple[PictureQuestion, ...]:
        """Return the questions about a picture."""
        raise self.lacks("questions")

    def objects(self, index: int) -> Things:
        """Return the objects in a picture."""
        raise self.lacks("objects")

    def spoken(self, index: int) -> tuple[Spoken, ...]:
        """Return the objects that each word names, for each caption of a picture."""
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
        """Return the error for a missing part."""
        return _lacking(self.name, self.has, part)


def _lacking(name: str, has: frozenset[str], part: str) -> DataError:
    parts = ", ".join(_TOLD.get(one, one) for one in PARTS if one in has)
    return DataError(
        f"{name} has no {_TOLD.get(part, part)} for its pictures (it has {parts}). Give "
        f"{_HOLDERS.get(part, EMBEDDED)}; or use another model (regard list visions)."
    )


class ScenePictures(Pictures):
    """The embedded scenes. `scene` returns all annotations of one: objects, masks, gold regions."""

    has = frozenset(("image", "captions", "questions", "objects", "spoken"))

    def __init__(self, split: str, size: int, seed: int = 1, pixels: int = 64) -> None:
        from regard.data.scenes import generate
        from regard.data.scenes.objects import SHAPES

        self.labels = SHAPES
        generate(split, size, seed, pixels=pixels)  # fail early on invalid arguments
        self.name = f"{EMBEDDED}:{split}:{size}"
        self._made = split, size, seed, pixels

    def __len__(self) -> int:
        return self._made[1]

    def identity(self) -> str:
        """Cover the first scenes, so that a release whose generator differs is noticed."""
        digest = blake2b(digest_size=16)
        for index in range(min(len(self), 20)):
            digest.update(self.scene(index).painting.image.tobytes())
            digest.update(repr((self.captions(index), self.questions(index))).encode())
        return f"{EMBEDDED} {self._made} {digest.hexdigest()}"

    def scene(self, index: int) -> "Scene":
        """Return a scene with all its annotations."""
        from regard.data.scenes import scene

        split, size, seed, pixels = self._made
        return scene(split, within(index, size), seed, pixels)

    def image(self, index: int) -> NDArray[np.uint8]:
        """Paint a scene."""
        return self.scene(index).painting.image

    def images(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Paint several scenes; many are painted by worker processes."""
        if self._painters is None or not isinstance(indices, range) or indices.step != 1 or len(indices) < 64:
            return super().images(indices)
        return np.concatenate([made["image"] for made in self._painters.make("image", indices.start, indices.stop)])

    def every(self, part: str) -> Iterator[Any]:
        """Yield a part of all scenes; for many scenes, from worker processes."""
        if self._painters is None:
            yield from super().every(part)
            return
        for start in range(0, len(self), _AT_ONCE):
            for made in self._painters.make(part, start, min(start + _AT_ONCE, len(self))):
                yield from _told(part, made)

    @cached_property
    def _painters(self) -> "Painters | None":
        from regard.data.scene_painting_workers import ALONE, Painters
        from regard.worker_environment import cores

        split, size, seed, pixels = self._made
        return Painters(split, seed, pixels) if size > ALONE and cores() > 1 else None

    def captions(self, index: int) -> tuple[str, ...]:
        """Return all captions of a scene."""
        return tuple(caption.text for caption in self.scene(index).captions)

    def questions(self, index: int) -> tuple[PictureQuestion, ...]:
        """Return the questions about a scene, without question marks."""
        return tuple(
            PictureQuestion(" ".join(one.words), one.answer, one.kind, one.held_out, one.things, one.named)
            for one in self.scene(index).questions
        )

    def objects(self, index: int) -> Things:
        """Return the objects of a scene; their classes are their shapes."""
        scene = self.scene(index)
        classes = np.array([self.labels.index(thing.shape) for thing in scene.things], np.int64)
        return Things(classes, scene.painting.boxes, scene.painting.masks, scene.held_out)

    def spoken(self, index: int) -> tuple[Spoken, ...]:
        """Return the objects that each word names, for each caption of a scene."""
        return tuple(caption.things for caption in self.scene(index).captions)


def _told(part: str, made: Mapping[str, NDArray[Any]]) -> Iterator[Any]:
    """Yield the arrays of worker processes scene by scene, in the form that ScenePictures returns them."""
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
    """Return a valid index; raise an IndexError for any other, which would be a bug."""
    if not 0 <= index < size:
        raise IndexError(f"picture {index} of {size}")
    return index


def are_pictures(parts: Sequence[str]) -> bool:
    """Return whether a corpus argument is a source of pictures, judging by its form."""
    if not parts:
        return False
    name = parts[0].partition(":")[0]
    return name in pictured or parts[0].endswith(".npz") or Path(parts[0]).is_dir()


def held_out(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the validation part of a source, if it has one; else an empty tuple."""
    from regard.data.fashion_mnist import is_fashion

    name = parts[0].partition(":")[0]
    if len(parts) == 1 and (name == INSTALLED or (Path(parts[0]).is_dir() and is_fashion(Path(parts[0])))):
        return (parts[0],)
    return (name,) if len(parts) == 1 and name == EMBEDDED else ()


def needed_by(model: ModelConfig) -> tuple[str, ...]:
    """Return the parts that a model needs: the annotation of its task, and its input."""
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
    """Open pictures given in any form.

    `parts` is one of: `scenes`, optionally with a size and a split (`scenes:20000`, `scenes:test:200`);
    `fashion-mnist` (Debian's copy) or a folder with its IDX files; a folder of images or an .npz file of region
    features, followed by a captions file unless it has the default name. `split` applies to scenes and Fashion-MNIST,
    `seed` to scenes, `pixels` to all but features (0: the size of Fashion-MNIST, or 64), `plain` to captions from files
    (lower case, without punctuation). `needed` are required parts (`needed_by`), which are checked for scenes before
    their size.
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
        raise DataError(f"{given!r}: the name is just {name}; use --split, if the command has it, to choose a part.")
    hint = did_you_mean(name, pictured)
    raise DataError(f"No pictures {given!r}: neither a folder nor an .npz file.{hint} {_FORMS}.")


def read_files(
    given: Sequence[str | Path], pixels: int, channels: int = 3, skip: Skip | None = None
) -> tuple[list[str], NDArray[np.uint8]]:
    """Read image files and folders of images in the form a model reads; return their names and the array.

    Unreadable images are passed to `skip` and left out.
    """
    from regard.data.image_files import read_image

    _, inside = read_each(map(str, given), _files_in, skip)
    names, found = read_each((name for some in inside for name in some), partial(read_image, pixels=pixels), skip)
    return names, in_channels(np.stack(found) if found else np.zeros((0, pixels, pixels, 3), np.uint8), channels)


def as_read(pictures: PictureInput, image: ImageConfig | None) -> NDArray[Any]:
    """Read image files, and all images of folders, as a model reads them; arrays are what it reads already."""
    if isinstance(pictures, np.ndarray):
        return pictures
    assert image is not None
    if image.kind == "regions":
        raise ConfigError(
            "This model reads features of regions that another network made, and no pixels: give an array of them, "
            "pictures × regions × features."
        )
    return read_files([pictures] if isinstance(pictures, str | Path) else pictures, image.size, image.channels)[1]


def read_each(names: Iterable[str], read: Callable[[str], T], skip: Skip | None = None) -> tuple[list[str], list[T]]:
    """Read each name with `read`; return the names that could be read, and the results.

    Errors are passed to `skip`; without it, the first error is raised.
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
    """Return the images of a folder; a file is returned by itself."""
    path = Path(given)
    if not path.is_dir():
        return [given]
    inside = sorted(str(file) for file in path.iterdir() if file.suffix.lower() in IMAGES)
    if not inside:
        raise DataError(f"{path} has no images ({', '.join(IMAGES)}).")
    return inside


def in_channels(pictures: NDArray[np.uint8], channels: int) -> NDArray[np.uint8]:
    """Convert RGB pictures to greyscale (ITU-R BT.601 luma) for a model that reads one channel."""
    if channels != 1:
        return pictures
    grey: NDArray[np.uint8] = (pictures @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)[..., None]
    return grey


def open_scenes(given: str, split: str = "train", seed: int = 1, pixels: int = 0) -> ScenePictures:
    """Open the embedded scenes: `scenes`, `scenes:20000`, `scenes:test:200`; the last size counts."""
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
