"""Sequence-to-sequence models with attention: train them in minutes, see where they look, ship them.

>>> import regard
>>> translator = regard.load("models/mine")
>>> translation = translator.translate(["the red dress"])[0]
>>> translation.attention.save("look.svg")
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.decoding.translator import Translator

__version__ = "0.1.0"


def load(*folders: str | Path, device: str = "cpu") -> "Translator":
    """Open a model folder for translating; several with the same vocabularies translate as one, an ensemble."""
    from regard.decoding.translator import Translator  # torch is imported only where it is needed

    return Translator.load(folders, device)
