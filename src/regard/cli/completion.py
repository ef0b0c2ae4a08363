"""What the shell offers when Tab is pressed (`regard --install-completion`); quick, since it imports no torch."""

import contextlib
import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from regard.config_io import Setting, describe
from regard.presets import presets
from regard.presets.vision import visions
from regard.task_table import MAKES

Choices = list[tuple[str, str]]

NAMED = {
    "model.attention.score": "scores",
    "model.attention.reach": "reaches",
    "model.attention.focus": "focuses",
    "model.attention.coverage": "coverages",
    "model.self_attention.score": "scores",
    "model.self_attention.reach": "reaches",
    "model.self_attention.focus": "focuses",
    "model.self_attention.coverage": "coverages",
    "model.positions": "positions",
    "model.encoder.kind": "encoders",
    "model.encoder.cell": "cells",
    "model.decoder.kind": "decoders",
    "model.decoder.cell": "cells",
    "model.decoder.readout": "readouts",
    "model.image.kind": "stems",
    "model.image.block": "blocks",
    "model.image.positions": "grids",
    "model.questions.kind": "answerers",
    "model.detection.kind": "queries",
    "tokenizer.kind": "kinds",
    "tokenizer.target_kind": "kinds",
    "training.optimizer": "optimizers",
    "training.schedule": "schedules",
    "training.average": "averages",
    "training.teacher_forcing_schedule": "forcings",
    "decoding.method": "methods",
    "decoding.mbr_metric": "utilities",
}
"""Settings whose value is the name of a part, and the registry that has it."""
CHOICES = {
    "model.task": MAKES,
    "model.tie": ("none", "output", "all"),
    "model.decoder.start": ("last", "mean"),
    "model.decoder.fusion": ("deep", "shallow"),
    "model.image.normalise": ("groups", "batch"),
    "model.image.pooling": ("mean", "class"),
    "model.questions.pooling": ("first", "mean"),
    "training.precision": ("auto", "float32", "tf32", "bfloat16"),
    "training.metric": ("bleu", "chrf", "exact", "accuracy", "ap", "loss"),
    "training.device": ("auto", "cpu", "cuda"),
    "decoding.ensemble": ("arithmetic", "geometric"),
    "decoding.precision": ("float32", "bfloat16", "int8"),
    **{f"model.{part}.norm": ("pre", "post") for part in ("encoder", "decoder", "image")},
    **{f"model.{part}.activation": ("relu", "gelu") for part in ("encoder", "decoder", "image")},
}
"""Settings with a few values that are no parts."""


def preset_names(incomplete: str) -> Choices:
    """Offer presets."""
    every = {**presets, **visions}
    return [(name, make.__doc__ or "") for name, make in every.items() if name.startswith(incomplete)]


def several_presets(incomplete: str) -> Choices:
    """Offer presets after the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", about) for name, about in preset_names(begun)]


def assignments(incomplete: str) -> Choices:
    """Offer settings, ready for a value; once one is named, the values it can have, where they have names.

    If there is one setting left, its values are offered with it, or else the usual one: a shell ends a word that is the
    only one to choose, and after `=` it is not at its end.
    """
    name, equals, begun = incomplete.partition("=")
    if not equals:
        found = [setting for setting in describe() if setting.name.startswith(incomplete)]
        values = [(f"{only.name}={value}", "") for only in found[:1] for value in _values(only) or _usual(only)]
        return [(f"{setting.name}=", setting.help) for setting in found] + (values if len(found) == 1 else [])
    known = [setting for setting in describe() if setting.name == name]
    return [(f"{name}={value}", "") for setting in known for value in _values(setting) if value.startswith(begun)]


def _values(setting: Setting) -> list[str]:
    """Find the names that a setting can have, as the source registers them: to import it would take seconds."""
    if setting.type == "true or false":
        return ["true", "false"]
    if setting.name not in NAMED:
        return list(CHOICES.get(setting.name, ()))
    entry = re.compile(rf'^@{NAMED[setting.name]}\.register\("([^"]+)"\)', re.MULTILINE)
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return [name for file in files for name in entry.findall(file.read_text(encoding="utf-8"))]


def _usual(setting: Setting) -> list[str]:
    return [str(setting.default)] if isinstance(setting.default, int | float) else []


BASH = {"_REGARD_COMPLETE": "complete_bash"}
"""What the environment has where bash asks."""
BREAKS = ("=", ":")
"""Where bash cuts words in two."""


def answer_bash(app: Callable[[], object]) -> None:
    """Let the app answer as if bash did not cut `name=value` and `corpus:size` in two; it hears the last part alone."""
    asked = os.environ.get("COMP_WORDS", "")
    words, place = whole_words(re.split(r"\n" if "\n" in asked else " ", asked), int(os.environ.get("COMP_CWORD", 0)))
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(place))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        app()
    word = re.sub(r"^--[a-z-]+=", "", words[place] if place < len(words) else "")  # answers are without the option
    told = max(word.rfind(end) for end in BREAKS) + 1
    for line in said.getvalue().splitlines():
        print(line.removeprefix(word[:told]))


def whole_words(parts: Sequence[str], place: int) -> tuple[list[str], int]:
    """Put words together again that were cut, and say which of them holds the part in a given place."""
    words: list[str] = []
    for number, part in enumerate(parts[: place + 1]):
        if words and (part in BREAKS or (number and parts[number - 1] in BREAKS)):
            words[-1] += part
        else:
            words.append(part)
    ends = place >= len(parts)  # the cursor stands after a space
    return words, len(words) - (not ends)


def decoding_assignments(incomplete: str) -> Choices:
    """Offer the settings that can be changed in a trained model, ready for a value."""
    return [(name, about) for name, about in assignments(incomplete) if name.startswith("decoding.")]


def devices(incomplete: str) -> list[str]:
    """Offer devices."""
    return [name for name in CHOICES["training.device"] if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Offer what `regard list` can list."""
    from regard.cli.list import KINDS, SETTINGS

    return [kind for kind in (*KINDS, SETTINGS) if kind.startswith(incomplete)]
