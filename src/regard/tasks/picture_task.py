"""The base class of all picture tasks."""

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
    """A task that reads pictures."""

    def check(self, config: Config) -> None:
        """Raise a ConfigError for text corpora, and for settings that apply to texts only."""
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
                    "fashion-mnist, a folder of images or an .npz file of region features, or use a text model "
                    "(regard list presets)."
                )
        if config.tokenizer.sampling:
            raise ConfigError(
                f"tokenizer.sampling is {config.tokenizer.sampling}, which is for text models, and this one reads "
                "pictures: set it to 0."
            )

    def fitted(self, config: Config) -> Config:
        """Fit the model to its pictures."""
        from regard.tasks.picture_sources import fitted

        return fitted(config)

    def draw(self, model: nn.Module) -> None:
        """Initialise the weights."""
        from regard.vision.initialisation import draw

        draw(model)

    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the pictures."""
        from regard.tasks.picture_sources import open_picture_sources

        return open_picture_sources(config, resumed)

    def open_folder(self, folder: Path, device: str) -> tuple[Any, Any, Config]:
        """Return the model, vocabulary and configuration of a folder."""
        return open_model(folder, device, self.entry)

    def open_pictures(self, parts: Sequence[str], split: str, config: Config) -> Pictures:
        """Open pictures in the form that a model of this configuration reads; scenes use seed 1."""
        assert config.model.image is not None
        size, plain = max(config.model.image.size, 1), config.data.plain_captions
        return open_pictures(parts, split, pixels=size, plain=plain, needed=needed_by(config.model))

    def evaluate(self, folder: Path, asked: EvaluationRequest) -> Report:
        """Load a model and score it on pictures."""
        reader = self.load(folder, asked.device)
        return self.score(reader, self.open_pictures(asked.parts, asked.split, reader.config), asked)

    @abstractmethod
    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score the output of a reader on pictures."""

    def open_test(self, test: Any, config: Config) -> Pictures:
        """Open the test pictures."""
        return self.open_pictures(test.parts, test.split, config)

    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return the references of the test pictures, and a few example pictures by number."""
        from regard.compare.scored_data import Subject
        from regard.compare.variants import choose_pictures

        pictures = self.open_test(test, config)
        chosen = terms.sentences or choose_pictures(pictures)
        right = {pictures.called(place): _said(pictures, place) for place in numbers_in(chosen, pictures)}
        return Subject(pictures.name, self.references(pictures), chosen, right)

    def references(self, pictures: Pictures) -> list[tuple[str, ...]]:
        """Return the reference texts of each picture; empty for tasks that write none."""
        return []

    def check_served(self, folder: Path, config: Config) -> None:
        """Raise a ModelError for a model of region features."""
        assert config.model.image is not None
        if config.model.image.kind == REGIONS:
            raise ModelError(
                f"{folder} reads region features computed by another network, not pixels, so it cannot read uploaded "
                "pictures: serve a model that was trained on pictures."
            )

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Return whether the model was trained on the embedded scenes and can be tried with them."""
        return {"scenes": bool(config.data.train) and config.data.train[0].startswith("scenes")}


def numbers_in(given: Sequence[str], pictures: Pictures) -> list[int]:
    """Parse the numbers of example pictures; raise a DataError for any out of range."""
    for text in given:
        if not text.strip().isdecimal() or int(text) >= len(pictures):
            raise DataError(
                f"{text!r} is not a picture of {pictures.name}: give pictures to show by number, "
                f"0 to {len(pictures) - 1}."
            )
    return [int(text) for text in given]


def _said(pictures: Pictures, place: int) -> str:
    """Return the references of a picture in one line."""
    if "captions" in pictures.has:
        return " / ".join(pictures.captions(place))
    return pictures.labels[pictures.label(place)] if "label" in pictures.has else ""


def _are_texts(parts: tuple[str, ...]) -> bool:
    return parts[0] == "-" or parts[0].partition(":")[0] in corpora or Path(parts[0]).is_file()
