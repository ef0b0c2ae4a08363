"""What all tasks that read pictures have in common."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config
from regard.data.builtin_corpora import corpora
from regard.data.pictures import Pictures, are_pictures, needed_by, open_pictures
from regard.errors import ConfigError, DataError, ModelError
from regard.evaluation.report import Report
from regard.task import EvaluationRequest, Task, open_model

REGIONS = "regions"


class PictureTask(Task):
    """From pictures to something."""

    def check(self, config: Config) -> None:
        """Refuse texts, and what is for texts alone, for a model that reads pictures."""
        for name in ("tagged", "mixed", "held_out"):
            if getattr(config.data, name):
                instead = "leave it out" if name == "held_out" else "give data.train"
                raise ConfigError(f"data.{name} is for texts, and this model reads pictures (model.image): {instead}.")
        for name in ("train", "valid"):
            parts = getattr(config.data, name)
            if parts and not are_pictures(parts) and _are_texts(parts):
                what = f" (preset {config.preset})" if config.preset else ""
                raise ConfigError(
                    f"data.{name}={parts[0]} has texts, and this model{what} reads pictures: give scenes, "
                    "fashion-mnist, a folder of images or an .npz file of region features, or take a model of texts "
                    "(regard list presets)."
                )
        if config.tokenizer.sampling:
            raise ConfigError(
                f"tokenizer.sampling is {config.tokenizer.sampling}, which is for models of texts, and this one reads "
                "pictures: set it to 0."
            )

    def fitted(self, config: Config) -> Config:
        """Fit the model to its pictures."""
        from regard.tasks.picture_sources import fitted

        return fitted(config)

    def draw(self, model: nn.Module) -> None:
        """Draw first weights."""
        from regard.vision.initialisation import draw

        draw(model)

    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the pictures."""
        from regard.tasks.picture_sources import open_picture_sources

        return open_picture_sources(config, resumed)

    def open_folder(self, folder: Path, device: str) -> tuple[Any, Any, Config]:
        """Return a folder's model, its vocabulary and its configuration."""
        return open_model(folder, device, self.entry)

    def open_pictures(self, parts: Sequence[str], split: str, config: Config) -> Pictures:
        """Open pictures as a model of this configuration reads them; scenes are made from seed 1."""
        assert config.model.image is not None
        size, plain = max(config.model.image.size, 1), config.data.plain_captions
        return open_pictures(parts, split, pixels=size, plain=plain, needed=needed_by(config.model))

    def evaluate(self, folder: Path, asked: EvaluationRequest) -> Report:
        """Score what is made of pictures."""
        reader = self.load(folder, asked.device)
        return self.score(reader, self.open_pictures(asked.parts, asked.split, reader.config), asked)

    @abstractmethod
    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score what a reader makes of pictures."""

    def open_test(self, test: Any, config: Config) -> Pictures:
        """Open the pictures that variants are scored on."""
        return self.open_pictures(test.parts, test.split, config)

    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return what is said of the pictures, and a handful of them by their numbers."""
        from regard.compare.scored_data import Subject
        from regard.compare.variants import choose_pictures

        pictures = self.open_test(test, config)
        chosen = terms.sentences or choose_pictures(pictures)
        right = {pictures.called(place): _said(pictures, place) for place in numbers_in(chosen, pictures)}
        return Subject(pictures.name, self.references(pictures), chosen, right)

    def references(self, pictures: Pictures) -> list[tuple[str, ...]]:
        """Return what is right of each picture, where something is written."""
        return []

    def check_served(self, folder: Path, config: Config) -> None:
        """Refuse a model that reads features of regions."""
        assert config.model.image is not None
        if config.model.image.kind == REGIONS:
            raise ModelError(
                f"{folder} reads features of regions that another network made, and no pixels, so pictures cannot be "
                "shown to it: serve a model that was trained on pictures."
            )

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Tell whether the model was trained on the embedded scenes, which it can then be tried with."""
        return {"scenes": bool(config.data.train) and config.data.train[0].startswith("scenes")}


def numbers_in(given: Sequence[str], pictures: Pictures) -> list[int]:
    """Read the numbers of pictures that are to be shown."""
    for text in given:
        if not text.strip().isdecimal() or int(text) >= len(pictures):
            raise DataError(
                f"{text!r} is no picture of {pictures.name}: pictures to be shown are given by their numbers, "
                f"0 to {len(pictures) - 1}."
            )
    return [int(text) for text in given]


def _said(pictures: Pictures, place: int) -> str:
    """Return what is right of a picture, in a line."""
    if "captions" in pictures.has:
        return " / ".join(pictures.captions(place))
    return pictures.labels[pictures.label(place)] if "label" in pictures.has else ""


def _are_texts(parts: tuple[str, ...]) -> bool:
    return parts[0] == "-" or parts[0].partition(":")[0] in corpora or Path(parts[0]).is_file()
