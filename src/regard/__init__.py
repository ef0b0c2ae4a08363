"""Sequence-to-sequence models with attention: train them in minutes, see where they look, ship them.

>>> import regard
>>> result = regard.train("dates.tsv", valid="dates:200", out="models/dates")
>>> translator = regard.load("models/dates")
>>> translation = translator.translate(["the 22nd of august, 1984"])[0]
>>> translation.attention.save("look.svg")
>>> print(regard.evaluate(translator, "dates:500"))

What `__all__` and `regard.attention.__all__` name is public, and changes only with a note in the changelog. Everything
else may change in any release. Importing the package imports no torch: each name is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING

from regard.errors import ConfigError, DataError, DisplayError, ModelError, RegardError, TrainingError

if TYPE_CHECKING:
    from regard import attention, runtime
    from regard.api import evaluate, load, train
    from regard.decoding.editing import EditedTranslation
    from regard.decoding.edits import AblateHead, DropSource, ForcePrefix, SetRow, SetWeights, edits_from_json
    from regard.decoding.translation import Translation
    from regard.decoding.translator import Translator
    from regard.evaluation.report import Report
    from regard.tasks.captioning.predictor import CaptionPredictor
    from regard.tasks.detection.predictor import DetectionPredictor
    from regard.tasks.image_classification.predictor import ImageClassPredictor
    from regard.tasks.text_classification.predictor import TextLabeller
    from regard.tasks.visual_questions.predictor import AnswerPredictor
    from regard.training.train_model import Result as TrainingResult
    from regard.viz.trace import AttentionTrace

__version__ = "0.1.0"

__all__ = [
    "AblateHead",
    "AnswerPredictor",
    "AttentionTrace",
    "CaptionPredictor",
    "ConfigError",
    "DataError",
    "DetectionPredictor",
    "DisplayError",
    "DropSource",
    "EditedTranslation",
    "ForcePrefix",
    "ImageClassPredictor",
    "ModelError",
    "RegardError",
    "Report",
    "SetRow",
    "SetWeights",
    "TextLabeller",
    "TrainingError",
    "TrainingResult",
    "Translation",
    "Translator",
    "attention",
    "edits_from_json",
    "evaluate",
    "load",
    "runtime",
    "train",
]

_PLACES = {
    "AblateHead": "regard.decoding.edits",
    "AnswerPredictor": "regard.tasks.visual_questions.predictor",
    "AttentionTrace": "regard.viz.trace",
    "CaptionPredictor": "regard.tasks.captioning.predictor",
    "DetectionPredictor": "regard.tasks.detection.predictor",
    "DropSource": "regard.decoding.edits",
    "EditedTranslation": "regard.decoding.editing",
    "ForcePrefix": "regard.decoding.edits",
    "ImageClassPredictor": "regard.tasks.image_classification.predictor",
    "Report": "regard.evaluation.report",
    "SetRow": "regard.decoding.edits",
    "SetWeights": "regard.decoding.edits",
    "TextLabeller": "regard.tasks.text_classification.predictor",
    "TrainingResult": "regard.training.train_model:Result",
    "Translation": "regard.decoding.translation",
    "Translator": "regard.decoding.translator",
    "edits_from_json": "regard.decoding.edits",
    "evaluate": "regard.api",
    "load": "regard.api",
    "train": "regard.api",
}
"""Where names are that are imported when they are first used."""

_MODULES = ("attention", "runtime")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name."""
        if name in _MODULES:
            return importlib.import_module(f"regard.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, own = _PLACES[name].partition(":")
        globals()[name] = found = getattr(importlib.import_module(module), own or name)
        return found

    def __dir__() -> list[str]:
        """List what is public."""
        return sorted({*globals(), *__all__})
