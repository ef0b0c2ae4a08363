"""The bodies of LibreTranslate's requests: JSON, a form, or the query string; and how OpenAPI describes them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastapi import HTTPException, Request
from starlette.datastructures import UploadFile

from regard.serve.language_routing import Routes
from regard.serve.request_limits import MOST_BEST, Limits

AUTO: Final = "auto"
FORMATS: Final = ("text", "html")
MOST_ALTERNATIVES: Final = MOST_BEST - 1
FORM: Final = ("application/x-www-form-urlencoded", "multipart/form-data")
_BAD: Final = 400


class Upload(NamedTuple):
    """An uploaded file."""

    name: str
    content: bytes


class Fields(NamedTuple):
    """The fields of a request, as they were sent."""

    values: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a required text."""
        value = self.values.get(name)
        if value is None or value == "":
            raise refused(f"missing {name} parameter")
        if not isinstance(value, str):
            raise refused(f"{name} must be a text")
        return _unicode(value, name)

    def option(self, name: str) -> str | None:
        """Return a text that may be left out."""
        return None if self.values.get(name) is None else self.text(name) if self.values[name] != "" else None

    def file(self, name: str) -> Upload:
        """Return an uploaded file."""
        value = self.values.get(name)
        if not isinstance(value, Upload):
            raise refused(f"missing {name} parameter")
        return value

    def texts(self, name: str, limits: Limits) -> list[str]:
        """Return a text, or the texts of a list."""
        value = self.values.get(name)
        if value is None or value in ("", []):
            raise refused(f"missing {name} parameter")
        texts, longest = (value, limits.characters) if isinstance(value, list) else ([value], most_characters(limits))
        if not all(isinstance(text, str) for text in texts):
            raise refused(f"{name} must be a text or a list of texts")
        if len(texts) > limits.texts:
            raise refused(f"{name} has {len(texts):,} texts, and at most {limits.texts:,} are allowed")
        for text in texts:
            if len(text) > longest:
                raise refused(f"{name} has a text of {len(text):,} characters, and at most {longest:,} are allowed")
        return [_unicode(text, name) for text in texts]

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Return one of several values; the first, if the field is left out."""
        value = self.values.get(name)
        if value is not None and value not in allowed:
            raise refused(f"{name} must be one of {', '.join(allowed)}")
        return allowed[0] if value is None else str(value)

    def number(self, name: str, most: int) -> int:
        """Return a whole number from 0; 0, if the field is left out."""
        value = self.values.get(name)
        if value is None:
            return 0
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 1:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise refused(f"{name} must be a number from 0 to {most}")
        return value


def refused(why: str) -> HTTPException:
    """Return the error for a request that is not as it has to be."""
    return HTTPException(_BAD, f"Invalid request: {why}.")


def most_characters(limits: Limits) -> int:
    """Return the most characters of one text, which is split into sentences: as many as of a list of texts."""
    return limits.characters * limits.texts


async def read_fields(request: Request) -> Fields:
    """Read the fields of a JSON object, or of a form; those that it lacks from the query string."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    values: dict[str, Any] = {}
    if kind.endswith("json"):
        try:
            read = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise refused("the body is not valid JSON") from None
        if not isinstance(read, dict):
            raise refused("the body must be a JSON object")
        values = read
    elif kind in FORM:
        async with request.form(max_files=1, max_fields=1_000) as form:
            values = _merged([(name, await _content(value)) for name, value in form.multi_items()])
    return Fields({**_merged(request.query_params.multi_items()), **values})


async def _content(value: UploadFile | str) -> "Upload | str":
    return value if isinstance(value, str) else Upload(value.filename or "", await value.read())


def _merged(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields of a form; `q` is a list if there are several."""
    found: dict[str, Any] = {}
    for name, value in items:
        if name == "q" and name in found:
            found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), value]
        else:
            found[name] = value
    return found


def _unicode(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise refused(f"{name} is not valid Unicode: it has an unpaired surrogate") from None
    return text


# -- how OpenAPI describes them ---------------------------------------------------------------------------------------


def translate_body(routes: Routes, limits: Limits) -> dict[str, Any]:
    """Describe the body of `/translate`."""
    number = {"type": "integer", "minimum": 0, "maximum": MOST_ALTERNATIVES}
    properties = {
        "q": _q(limits),
        **_languages(),
        "format": {"enum": [*FORMATS, None], "description": "text, unless given"},
        "alternatives": {
            "anyOf": [number, {"type": "string", "pattern": "^[0-9]$"}, {"type": "null"}],
            "description": "How many further translations of each text; not for html.",
        },
        "api_key": _key(),
    }
    both = _object(properties, ("q", "source", "target"), routes)
    form = {
        **properties,
        "q": _text(limits),
        "format": {"enum": [*FORMATS]},
        "alternatives": number,
        "api_key": {"type": "string"},
    }
    return _body({"application/json": both, FORM[0]: _object(form, ("q", "source", "target"), routes)})


def detect_body(limits: Limits) -> dict[str, Any]:
    """Describe the body of `/detect`."""
    both = {"type": "object", "required": ["q"], "properties": {"q": _q(limits), "api_key": _key()}}
    form = {**both, "properties": {"q": _text(limits), "api_key": {"type": "string"}}}
    return _body({"application/json": both, FORM[0]: form})


def file_body(routes: Routes, suffixes: Sequence[str]) -> dict[str, Any]:
    """Describe the body of `/translate_file`."""
    file = {"type": "string", "format": "binary", "description": f"A file: {', '.join(suffixes)}."}
    properties = {"file": file, **_languages(), "api_key": {"type": "string"}}
    return _body({FORM[1]: _object(properties, ("file", "source", "target"), routes)})


def _body(content: Mapping[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {kind: {"schema": own} for kind, own in content.items()}}}


def _object(properties: Mapping[str, Any], required: Sequence[str], routes: Routes) -> dict[str, Any]:
    """Describe an object whose source and target are a pair that is served."""
    sources: dict[str, list[str]] = {}
    for source, target in routes.pairs:
        sources.setdefault(target, [AUTO, target]).append(source)
    pairs = [{"properties": {"source": {"enum": own}, "target": {"const": target}}} for target, own in sources.items()]
    return {"type": "object", "required": [*required], "properties": properties, "anyOf": pairs}


def _languages() -> dict[str, Any]:
    return {
        "source": {"type": "string", "description": f"Language of the text; {AUTO} to detect it."},
        "target": {"type": "string", "description": "Language of the translation."},
    }


def _key() -> dict[str, Any]:
    return {"type": ["string", "null"], "description": "An API key, where the server asks for one."}


def _q(limits: Limits) -> dict[str, Any]:
    texts = {"type": "string", "maxLength": limits.characters}
    several = {"type": "array", "minItems": 1, "maxItems": limits.texts, "items": texts}
    return {"anyOf": [_text(limits), several], "description": "A text, or several."}


def _text(limits: Limits) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most_characters(limits)}
