"""Shell completion (`regard --install-completion`). It imports no torch, so it is quick."""

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
"""Settings whose values are names in a registry, and that registry."""
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
"""Settings with a fixed set of values that are not in a registry."""


def preset_names(incomplete: str) -> Choices:
    """Complete a preset."""
    every = {**presets, **visions}
    return [(name, make.__doc__ or "") for name, make in every.items() if name.startswith(incomplete)]


def several_presets(incomplete: str) -> Choices:
    """Complete the preset after the last comma."""
    before, comma, begun = incomplete.rpartition(",")
    return [(f"{before}{comma}{name}", about) for name, about in preset_names(begun)]


def assignments(incomplete: str) -> Choices:
    """Complete `NAME=VALUE`: the setting's name, then its value where the values have names.

    If only one setting matches, complete it together with its values, or with its default. Otherwise the shell would
    take `NAME=` for the finished word and add a space.
    """
    name, equals, begun = incomplete.partition("=")
    if not equals:
        found = [setting for setting in describe() if setting.name.startswith(incomplete)]
        values = [(f"{only.name}={value}", "") for only in found[:1] for value in _values(only) or _usual(only)]
        return [(f"{setting.name}=", setting.help) for setting in found] + (values if len(found) == 1 else [])
    known = [setting for setting in describe() if setting.name == name]
    return [(f"{name}={value}", "") for setting in known for value in _values(setting) if value.startswith(begun)]


def _values(setting: Setting) -> list[str]:
    """Return a setting's named values, found by searching the source for registrations: importing takes seconds."""
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
"""The environment variable that marks a completion request from bash."""
BREAKS = ("=", ":")
"""Characters at which bash splits words."""


def answer_bash(app: Callable[[], object]) -> None:
    """Answer bash, which splits `name=value` and `corpus:size`: join the words, ask the app, print the last part."""
    asked = os.environ.get("COMP_WORDS", "")
    words, place = whole_words(re.split(r"\n" if "\n" in asked else " ", asked), int(os.environ.get("COMP_CWORD", 0)))
    os.environ.update(COMP_WORDS="\n".join(words), COMP_CWORD=str(place))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        app()
    word = re.sub(r"^--[a-z-]+=", "", words[place] if place < len(words) else "")  # answers do not repeat the option
    told = max(word.rfind(end) for end in BREAKS) + 1
    for line in said.getvalue().splitlines():
        print(line.removeprefix(word[:told]))


def whole_words(parts: Sequence[str], place: int) -> tuple[list[str], int]:
    """Join the words that bash split; return them with the index of the word that holds part `place`."""
    words: list[str] = []
    for number, part in enumerate(parts[: place + 1]):
        if words and (part in BREAKS or (number and parts[number - 1] in BREAKS)):
            words[-1] += part
        else:
            words.append(part)
    ends = place >= len(parts)  # the cursor is after a space
    return words, len(words) - (not ends)


def decoding_assignments(incomplete: str) -> Choices:
    """Complete the settings that can be changed in a trained model."""
    return [(name, about) for name, about in assignments(incomplete) if name.startswith("decoding.")]


def devices(incomplete: str) -> list[str]:
    """Complete a device."""
    return [name for name in CHOICES["training.device"] if name.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """Complete a kind that `regard list` can list."""
    from regard.cli.list import KINDS, SETTINGS

    return [kind for kind in (*KINDS, SETTINGS) if kind.startswith(incomplete)]
