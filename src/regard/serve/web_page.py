"""The web page, and the interactive documentation's Content-Security-Policy."""

import hashlib
import re
from base64 import b64encode
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, Response

from regard.viz.word_stepper import text

_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; script-src 'self'; style-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches only from its own server and runs only its own script, whatever a text contains."""
_HEADERS = {"Cache-Control": "no-cache"}
_PARTS = ("word_stepper", "overlay_page", "trace_page")
"""Styles and scripts that the page shares with the pages that `regard attend` writes."""
_PANELS = ("edit", "steps", "tree", "heads", "right", "models", "files")
_OWN = ("microscope", *(f"microscope_{panel}" for panel in _PANELS))
"""The scripts of the microscope, which opens up a translation: one for each of its panels."""


def add_page(app: FastAPI) -> None:
    """Add the routes of the web page, whose style and script are assembled once."""
    page, style, script = (_read(f"page.{kind}") for kind in ("html", "css", "js"))
    style = "".join(text(f"{part}.css") for part in _PARTS) + style + _read("microscope.css")
    script = "".join(text(f"{part}.js") for part in _PARTS) + "".join(_read(f"{part}.js") for part in _OWN) + script
    hidden: dict[str, Any] = {"include_in_schema": False}

    @app.get("/", **hidden)
    def home() -> Response:
        return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": _POLICY})

    @app.get("/docs", **hidden)
    def documentation(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        static = f"{root}/static-offline-docs"
        shown = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=f"{app.title}: the API",
            swagger_js_url=f"{static}/swagger-ui-bundle.js",
            swagger_css_url=f"{static}/swagger-ui.css",
            swagger_favicon_url=f"{static}/favicon.png",
        )
        own = [f"'sha256-{_digest(script)}'" for script in re.findall(rb"<script>(.*?)</script>", shown.body, re.S)]
        shown.headers["Content-Security-Policy"] = _POLICY.replace(
            "script-src 'self'", " ".join(["script-src 'self'", *own])
        )
        return shown

    @app.get("/page.css", **hidden)
    def styled() -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    @app.get("/page.js", **hidden)
    def scripted() -> Response:
        return Response(script, media_type="text/javascript", headers=_HEADERS)


def _digest(script: bytes) -> str:
    return b64encode(hashlib.sha256(script).digest()).decode()


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
