"""Write the pages of vision mechanisms as Markdown, from measurements, docstrings and vision.toml."""

import json
import textwrap
import tomllib
from typing import Any

from mechanisms import DOCS, from_docstring
from vision_systems import SCENES, Mechanism, System, mechanisms, systems


def pages() -> dict[str, str]:
    """Return every page by its file name."""
    texts = tomllib.loads((DOCS / "vision.toml").read_text(encoding="utf-8"))
    measured = json.loads((DOCS / "vision.json").read_text(encoding="utf-8"))
    every = [one for one in mechanisms() if one.key in measured.get(one.system, {}).get("pictures", {})]
    made = {f"{one.key}.md": page(one, texts[one.kind][one.name], measured) for one in every}
    made["vision.md"] = index(every, texts, measured)
    return made


def filled(text: str) -> str:
    """Wrap a text, without breaking names."""
    return textwrap.fill(text, 120, break_on_hyphens=False)


def system_named(name: str) -> System:
    """Return a system."""
    (system,) = (one for one in systems() if one.name == name)
    return system


def named(system: System) -> str:
    """Return a model's preset with its changes, or the recipe that trained it."""
    if system.variant is not None:
        recipe, variant = system.variant
        assert system.config.model.image is not None
        pixels = system.config.model.image.size
        return f"`{variant}` of `recipes/{recipe}.sh`, `{system.config.preset}` for {pixels} pixels"
    guided = " and guided (`training.guided=1`)" if "training.guided=1" in system.changes else ""
    if system.changes[: len(SCENES)] != SCENES:
        return f"`{system.preset}` made small{guided}"
    return " with ".join(f"`{part}`" for part in (system.preset, *system.changes[len(SCENES) :]))


def scored(measured: dict[str, Any]) -> str:
    """Return the scores of a model in words."""
    return ", ".join(f"{name} {value}" for name, value in measured["scores"].items())


def trained(system: System, measured: dict[str, Any]) -> str:
    """Return the training data and scores of a model in words."""
    told = (
        f"The model: {named(system)}, {measured['steps']:,} steps on `{measured['data']}`, seed {measured['seed']}; on "
        f"the test part of `{measured['test']}`: {scored(measured)}."
    )
    more = " It was trained on a GPU; [the results](../results.md#pictures) have more of its scores, on 2,000 scenes."
    return told if system.variant is None else told + more


def page(mechanism: Mechanism, text: dict[str, str], every: dict[str, Any]) -> str:
    """Write one page."""
    measured, plain = every[mechanism.system], every["plain"]
    shown = f"{measured['pictures'][mechanism.key]} {trained(system_named(mechanism.system), measured)}"
    cost = (
        f"Measured: the model has {measured['parameters']:,} parameters, and its image encoder takes "
        f"{measured['milliseconds']} ms per picture, forward and backward, on one CPU thread"
    )
    if mechanism.kind == "block":
        cost += (
            f"; without the block these are {plain['parameters']:,} and {plain['milliseconds']} ms, and the accuracy "
            f"is {plain['scores']['accuracy']}"
        )
    described = "\n\n".join(from_docstring(one) for one in mechanism.described)
    known = {**measured["scores"], **measured.get("limits", {}), "minutes": measured["training_seconds"] / 60}
    beyond = text.get("limits", "").format(**known)
    weak = f"## Limits of this model\n\n{filled(beyond)}\n\n" if beyond else ""
    return f"""# {text["title"]}

`{mechanism.setting}` · [vision mechanisms](vision.md) · [all mechanisms](README.md)

{described}

![what the model attends to](../images/mechanisms/{mechanism.key}.png)

{filled(shown)}

{weak}## When to use it

{filled(text["when"])}

## What it costs

{filled(text["cost"])}

{filled(cost + ".")}

Made with {measured["made_with"]}.
"""


def index(every: list[Mechanism], texts: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return the index page."""
    rows = [("none", "", "plain")] + [
        (f"[{texts[one.kind][one.name]['title']}]({one.key}.md)", f"`{one.setting}`", one.system) for one in every
    ]
    lines = "\n".join(
        f"| {title} | {setting} | {made_by(system)} | {scored(measured[system])} | {measured[system]['parameters']:,} "
        f"| {measured[system]['milliseconds']} |"
        for title, setting, system in rows
    )
    return f"""# Vision mechanisms

One page for each mechanism: its equation, the attention of a trained model, when to use it, what it costs. The
[tutorial](../vision.md) trains and uses such models; [the other mechanisms](README.md) work over image cells as over
words.

| mechanism | setting | trained | score | parameters | ms per picture |
|---|---|---|---|---|---|
{lines}

Small models were trained for minutes on one CPU core: blocks in a residual network of three units and the Vision
Transformer on Fashion-MNIST, others on [scenes](../vision.md#scenes) of 32 pixels. These numbers show that each
works and what it costs; one short run does not say which is best. [The results](../results.md#pictures) compare
full trainings. Models named by a recipe were trained by that [recipe](../../recipes/README.md) on a GPU, on scenes of
64 pixels. Times are of the image encoder, forward and backward, on one CPU thread.

Written by `python bench/vision_mechanisms.py pages`, from models made by `python bench/vision_mechanisms.py train`,
which takes those of recipes by `--model NAME=FOLDER`.
"""


def made_by(name: str) -> str:
    """Return in a word how a model was trained."""
    variant = system_named(name).variant
    return "small" if variant is None else f"`recipes/{variant.recipe}.sh`"
