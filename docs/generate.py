"""The reference, written from the program: every command, setting, preset, part and HTTP path.

`mkdocs` calls `pages` through `docs/hooks.py`; `python docs/generate.py FOLDER` writes the pages as files.
"""

import argparse
import importlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

NOTE = "This page is generated from the source.\n"


def pages() -> dict[str, str]:
    """Return every generated page: its path below `docs/`, and its Markdown."""
    return {
        **{f"reference/commands/{name}.md": page for name, page in commands().items()},
        "reference/settings.md": settings(),
        "reference/presets.md": presets(),
        "reference/parts.md": parts(),
        "reference/python.md": python(),
        "reference/http.md": http(),
    }


def table(head: str, rows: Iterator[tuple[str, ...]] | list[tuple[str, ...]]) -> str:
    """Write a Markdown table; `head` names the columns, separated by bars."""
    columns = [column.strip() for column in head.split("|")]
    lines = [columns, ["---"] * len(columns), *([_cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _plain(text: str) -> str:
    """Let square brackets be text and no link."""
    return text.replace("[", "\\[")


def _code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# -- commands ---------------------------------------------------------------------------------------------------------


def commands() -> dict[str, str]:
    """Write a page for each command of `regard`."""
    import typer

    from regard.cli.main import app

    return {name: command(name, made) for name, made in typer.main.get_command(app).commands.items()}  # type: ignore[attr-defined]


def command(name: str, made: Any) -> str:
    """Write the page of one command: usage, what it does, arguments, options."""
    arguments = [each for each in made.params if each.param_type_name == "argument"]
    options = [each for each in made.params if each.param_type_name == "option"]
    usage = " ".join(["regard", name, *(["[OPTIONS]"] if options else []), *map(_shown_argument, arguments)])
    text = f"# regard {name}\n\n```text\n{usage}\n```\n\n{_help(inspect.cleandoc(made.help or ''))}\n"
    if arguments:
        text += f"\n## Arguments\n\n{table('argument | what it is', [(_code(_metavar(a)), a.help) for a in arguments])}"
    rows = [(_option_names(option), _default(option), _without_default(option.help)) for option in options]
    rows.append(("`-h`, `--help`", "", "Show the options and exit."))
    text += f"\n## Options\n\n{table('option | default | what it does', rows)}"
    return f"{text}\n{NOTE}"


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _shown_argument(argument: Any) -> str:
    name = _metavar(argument)
    several = "..." if argument.nargs == -1 and not name.endswith("...") and "..." not in name else ""
    return f"{name}{several}" if argument.required else f"[{name}{several}]"


def _option_names(option: Any) -> str:
    names = ", ".join(_code(name) for name in (*option.opts, *option.secondary_opts))
    return names if getattr(option, "is_flag", False) or not option.metavar else f"{names} {_code(option.metavar)}"


def _default(option: Any) -> str:
    """Return the default that help shows, whether the option has it or its help tells it."""
    told = (option.help or "").partition("[default: ")[2].rpartition("]")[0]
    if told:
        return told
    if option.required:
        return "required"
    flag = getattr(option, "is_flag", False)
    return "" if flag or option.default is None or option.multiple else _code(option.default)


def _without_default(text: str | None) -> str:
    return (text or "").partition("[default: ")[0].strip()


def _help(text: str) -> str:
    """Turn the help of a command into Markdown: paragraphs of command lines become blocks."""
    found = []
    for paragraph in text.replace("\b\n", "").split("\n\n"):
        lines = paragraph.strip("\n")
        found.append(f"```sh\n{inspect.cleandoc(lines)}\n```" if lines.lstrip().startswith("regard ") else lines)
    return "\n\n".join(found)


# -- settings ---------------------------------------------------------------------------------------------------------


def settings() -> str:
    """Write every setting with its type, default and help, by group."""
    from regard.config_io import describe

    groups: dict[str, list[Any]] = {}
    for setting in describe():
        groups.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    text = (
        "# Settings\n\nEvery setting with its default where no preset and no [plan](../plan.md) says otherwise. Change "
        "one with `--set NAME=VALUE`, or write it into a file for `--config`. `regard list settings` prints the same.\n"
    )
    for group, found in groups.items():
        rows = [(f"`{one.name}`{{ #{one.name} }}", one.type, _value(one.default), one.help) for one in found]
        heading = f"\n## {group}\n" if group else "\n## Without a group\n"
        text += f"{heading}\n{table('setting | type | default | what it does', rows)}"
    return f"{text}\n{NOTE}"


def _value(default: Any) -> str:
    from regard.config_io import toml_value

    return "" if default in ("", ()) else _code(toml_value(list(default) if isinstance(default, tuple) else default))


# -- presets and parts ------------------------------------------------------------------------------------------------


def presets() -> str:
    """Write every preset: the paper's system in words, and its main sizes."""
    from regard.presets.base import presets as texts
    from regard.presets.vision import visions

    text = (
        "# Presets\n\nA preset is a complete configuration, named after the paper that described the system. Take "
        "one with `--preset NAME`; without it `regard train` [chooses a system from the corpus](../plan.md). A "
        "`-small` sibling keeps what the system is and shrinks its sizes for a laptop.\n"
    )
    rows = [(_code(name), _first(made), *_sizes(made().model)) for name, made in texts.items()]
    text += f"\n## Models that read text\n\n{table('preset | what it is | encoder | attention | decoder', rows)}"
    seen = [
        (_code(name), _first(made), _code(made().model.task), _image(made().model.image))
        for name, made in visions.items()
    ]
    text += f"\n## Models that read images\n\n{table('preset | what it is | task | image encoder', seen)}"
    return f"{text}\n{NOTE}"


def _sizes(model: Any) -> tuple[str, str, str]:
    """Describe encoder, attention and decoder in a few words each."""
    encoder, decoder, look = model.encoder, model.decoder, model.attention
    recurrent = encoder.kind in ("recurrent", "gnmt")
    way = "bidirectional " if recurrent and encoder.bidirectional else ""
    kind = encoder.cell.upper() if encoder.kind == "recurrent" else encoder.kind
    read = "none" if encoder.kind == "none" else f"{way}{kind}, {_layers(encoder.layers)} of {encoder.width}"
    if model.task == "classify":
        return read, look.score, "none: it classifies"
    cell = "" if decoder.kind in ("transformer", "lstmn") else f" {decoder.cell.upper()}"
    write = f"{decoder.kind}{cell}, {_layers(decoder.layers)} of {decoder.width}"
    if look is None or encoder.kind == "none":
        return read, "none", write
    reach = "" if look.reach == "global" else f" {look.reach},"
    return read, f"{look.score},{reach} {_heads(look.heads)}", write


def _image(image: Any) -> str:
    what = "cells" if image.kind == "regions" else "pixels"
    return f"{image.kind}, {image.size} × {image.size} {what}, {image.width} units"


def _layers(number: int) -> str:
    return "1 layer" if number == 1 else f"{number} layers"


def _heads(number: int) -> str:
    return "1 head" if number == 1 else f"{number} heads"


def _first(made: object) -> str:
    return (inspect.getdoc(made) or "").partition("\n\n")[0]


def parts() -> str:
    """Write what every setting that names a part can be: all registries, as `regard list` has them."""
    from regard.cli.list import BESIDE, KINDS

    text = "# Parts\n\nThe names that settings and options take. `regard list KIND` prints one of these tables.\n"
    for kind, place in KINDS.items():
        if kind in ("presets", "visions"):
            continue  # they have a page of their own
        rows: list[tuple[str, ...]] = []
        for where in (place, *([BESIDE[kind]] if kind in BESIDE else [])):
            module, _, name = where.partition(":")
            registry: Mapping[str, Callable[..., Any]] = getattr(importlib.import_module(module), name)
            rows += [(_code(part), _first(made)) for part, made in registry.items()]
        text += f"\n## {kind.capitalize()}\n\n{table('name | what it is', rows)}"
    return f"{text}\n{NOTE}"


# -- Python -----------------------------------------------------------------------------------------------------------


def python() -> str:
    """List the public names for mkdocstrings, which writes their signatures and docstrings."""
    import regard

    text = (
        "# Python\n\nThe public interface: the names in `regard.__all__`, `regard.attention.__all__`, "
        "`regard.batch.__all__`, `regard.runtime.__all__` and `regard.viz.__all__`. It changes only with a note in the "
        "[changelog](../../CHANGELOG.md). Everything else is private and may change in any release. "
        "[How to use it](../how-to/use-from-python.md).\n"
    )
    text += _documented("regard", regard.__all__)
    text += _documented("regard.batch", importlib.import_module("regard.batch").__all__, "In bulk: ")
    text += _documented("regard.viz", importlib.import_module("regard.viz").__all__, "Attention of other models: ")
    text += _documented("regard.runtime", importlib.import_module("regard.runtime").__all__, "Without torch: ")
    text += _documented("regard.attention", importlib.import_module("regard.attention").__all__, "Attention: ")
    return f"{text}\n{NOTE}"


def _documented(module: str, names: Iterable[str], before: str = "") -> str:
    found = importlib.import_module(module)
    shown = [name for name in names if name[0] != "_" and not inspect.ismodule(getattr(found, name))]
    functions = [name for name in shown if inspect.isfunction(getattr(found, name))]
    classes = [name for name in shown if inspect.isclass(getattr(found, name))]
    errors = [name for name in classes if issubclass(getattr(found, name), Exception)]
    classes = [name for name in classes if name not in errors]
    text = ""
    for heading, some in (("functions", functions), ("classes", classes), ("exceptions", errors)):
        text += f"\n## {f'{before}{heading}'.capitalize()}\n" if some else ""
        text += "".join(f"\n::: {module}.{name}\n" for name in some)
    others = [name for name in shown if name not in (*functions, *classes, *errors)]
    return text + (f"\nRegistries: {', '.join(_code(name) for name in others)}.\n" if others else "")


# -- HTTP -------------------------------------------------------------------------------------------------------------


def http() -> str:
    """Write every path of the server and what goes in and out, from its OpenAPI description."""
    from regard.serve.app import make_app

    described = make_app([]).openapi()
    text = (
        "# HTTP\n\nWhat a server started by `regard serve` answers. It shows the same at `/docs`, where it can be "
        "tried, and as OpenAPI at `/openapi.json`. [Serving](../serving.md) explains limits and batching.\n"
    )
    for path, methods in described["paths"].items():
        for method, call in methods.items():
            text += (
                f"\n## {method.upper()} {path}\n\n{call.get('description', '')}\n\n{_request(call)}{_responses(call)}"
            )
    text += "\n## Objects\n"
    for name, schema in described["components"]["schemas"].items():
        needed = schema.get("required", ())
        rows = [
            (_code(field), _type(about), _json_default(about, field in needed), _plain(about.get("description", "")))
            for field, about in schema.get("properties", {}).items()
        ]
        about = schema.get("description", "")
        text += f"\n### {name}\n\n{about}\n\n{table('field | type | default | what it is', rows)}"
    return f"{text}\n{NOTE}"


def _request(call: Mapping[str, Any]) -> str:
    text = ""
    if "parameters" in call:
        rows = [
            (_code(one["name"]), one["in"], _type(one["schema"]),
             _json_default(one["schema"], one.get("required", False)), one.get("description", ""))
            for one in call["parameters"]
        ]  # fmt: skip
        text += table("parameter | in | type | default | what it is", rows) + "\n"
    for kind, body in call.get("requestBody", {}).get("content", {}).items():
        what = "the bytes of a file" if kind == "image/*" else _type(body.get("schema", {}))
        text += f"Body: `{kind}`, {what}.\n\n"
    return text


def _responses(call: Mapping[str, Any]) -> str:
    rows = []
    for status, answer in call["responses"].items():
        shown = ", ".join(_type(body.get("schema", {})) for body in answer.get("content", {}).values())
        rows.append((status, answer["description"], shown))
    return table("status | when | body", rows)


def _type(schema: Mapping[str, Any]) -> str:
    """Describe a JSON schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    least = schema.get("minimum", schema.get("minLength"))
    most = schema.get("maximum", schema.get("maxLength"))
    span = f" ({least} to {most})" if least is not None and most is not None else ""
    return f"{kind}{span}"


def _json_default(schema: Mapping[str, Any], required: bool) -> str:
    if required:
        return "required"
    return "" if schema.get("default") is None else _code(json.dumps(schema["default"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the generated pages of the reference as files.")
    parser.add_argument("folder", type=Path)
    target = parser.parse_args().folder
    for place, page in pages().items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(page, encoding="utf-8")
