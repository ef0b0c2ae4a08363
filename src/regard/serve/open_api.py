"""The OpenAPI description, with the limits and models of this very server: what it allows is accepted."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from fastapi import FastAPI

from regard.serve.access import SECURITY
from regard.serve.event_stream import KIND
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served
from regard.task_table import TEXT

MARK = "x-limit"
"""In the schema of a field: which limit it has here. `characters` and `texts` are those of `Limits`; `models:PATH` are
the names of the models of a path, `translators` of those of translation that read a source, `tags` the languages that
they write, and `glossary` is for models with a source."""


def describe_server(app: FastAPI, models: Sequence[Served], limits: Limits, needs_key: bool) -> None:
    """Let an app describe itself with its own limits; models are looked up whenever it is asked."""
    general = app.openapi

    def described() -> dict[str, Any]:
        found = deepcopy(general())
        for path, operation in _operations(found):
            for parameter in operation.get("parameters", ()):
                _without_null(parameter)
                _limit(parameter["schema"], models, limits, path)
            if needs_key and path.startswith("/api/"):
                operation["security"] = [{name: []} for name in SECURITY]
            for content in operation["responses"].get("200", {}).get("content", {}):
                if content == KIND:  # events, which are described in words: FastAPI says that they are a text
                    operation["responses"]["200"]["content"][content] = {}
        for schema in found.get("components", {}).get("schemas", {}).values():
            if schema.get("properties", {}).get("glossary", {}).pop(MARK, None):
                _limit_glossary(schema, models)
            for one in schema.get("properties", {}).values():
                _limit(one, models, limits, "")
        if needs_key:
            found["components"]["securitySchemes"] = SECURITY
        return found

    app.openapi = described  # type: ignore[method-assign]


def _operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in described["paths"].items():
        for operation in methods.values():
            yield path, operation


def _without_null(parameter: dict[str, Any]) -> None:
    """Leave out null, which a query cannot say: a parameter that may be absent is not required, and that is all."""
    every = parameter["schema"].pop("anyOf", None)
    if every is not None:
        (only,) = [one for one in every if one.get("type") != "null"]
        parameter["schema"].update(only)


def _limit(schema: dict[str, Any], models: Sequence[Served], limits: Limits, path: str) -> None:
    """Replace the mark of a field by what it stands for."""
    kind, _, own = schema.pop(MARK, "").partition(":")
    if kind == "characters":
        schema["maxLength"] = limits.characters
    elif kind == "texts":
        schema["maxItems"] = limits.texts
        schema["items"]["maxLength"] = limits.characters
    elif kind == "models":
        own = own or path.removeprefix("/api/")
        _allow(schema, [model.name for model in models if model.task.path == own])
    elif kind == "translators":
        able = [model for model in models if model.task.path == "translate" and model.task.entry.reads == TEXT]
        _allow(schema, [model.name for model in able])
    elif kind == "tags":
        _allow(schema, list(dict.fromkeys(tag for model in models for tag in model.entry["tags"])))


def _limit_glossary(schema: dict[str, Any], models: Sequence[Served]) -> None:
    """Say that language models, which have no source, take no glossary."""
    able = [model for model in models if model.task.path == "translate"]
    reading = [model.name for model in able if model.task.entry.reads == TEXT]
    if len(reading) == len(able):
        return
    none: dict[str, Any] = {"properties": {"glossary": {"maxProperties": 0}}}
    if able[0].name in reading:  # which also answers requests that name no model
        others = [model.name for model in able if model.name not in reading]
        named = {"properties": {"model": {"enum": others}}, "required": ["model"]}
        schema.update({"if": named, "then": none})
    else:
        schema.update({"if": {"properties": {"model": {"enum": reading}}, "required": ["model"]}, "else": none})


def _allow(schema: dict[str, Any], names: list[str]) -> None:
    """Restrict a text that may be null to some names; without any, to null."""
    every = schema.get("anyOf")
    if every is None:
        schema.update({"enum": names} if names else {})
        return
    schema["anyOf"] = [{**one, "enum": names} for one in every if one["type"] == "string" and names]
    schema["anyOf"] += [one for one in every if one["type"] == "null"]
