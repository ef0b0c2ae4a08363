"""Error responses: a status code and a JSON body `{"error": "…"}`."""

import random
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.data.image_files import LargeImageError, UnknownImageError
from regard.errors import RegardError
from regard.serve.batching_queue import BatchingQueue, BusyError
from regard.serve.request_limits import TOO_LARGE
from regard.serve.served_models import NoModelError

_BAD, _NO_KEY, _NOT_THERE, _TOO_SLOW, _UNKNOWN_KIND, _DOES_NOT_FIT, _TOO_OFTEN = 400, 401, 404, 408, 415, 422, 429
_BUG, _BUSY, _TIMED_OUT = 500, 503, 504

_LONGEST_WAIT = 3
"""Seconds after which a client is asked to come again, at most."""
_FULL = "The request queue is full. Retry in a moment."
_STATUS: dict[type[Exception], int] = {
    LargeImageError: TOO_LARGE,
    UnknownImageError: _UNKNOWN_KIND,
    NoModelError: _NOT_THERE,
}
"""Status codes of errors that a client can fix; all others give 400."""


class Problem(BaseModel):
    """The body of every response with a status of 400 or more."""

    error: str = Field(description="What is wrong, what was got, and what to do.")


SAID: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": why}
    for status, why in {
        _BAD: "The model cannot do that, or the body is malformed.",
        _NO_KEY: "The server needs an API key, and none or an unknown one was sent.",
        _NOT_THERE: "There is no such model.",
        _TOO_SLOW: "The request did not arrive in time.",
        TOO_LARGE: "The request exceeds a limit of the server.",
        _UNKNOWN_KIND: "The body is of another type than the one described.",
        _DOES_NOT_FIT: "A field is missing or has the wrong type.",
        _TOO_OFTEN: "Too many requests of this key or address: retry after as many seconds as `Retry-After` says.",
        _BUG: "The server failed; its log has the error under the response's X-Request-ID.",
        _BUSY: "The request queue is full: retry after as many seconds as `Retry-After` says.",
        _TIMED_OUT: "There was no answer within the time limit of the server.",
    }.items()
}
"""Error responses, for the API documentation."""


def add_problems(app: FastAPI) -> None:
    """Register the error handlers of an app."""
    app.add_exception_handler(RequestValidationError, _not_fitting)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RegardError, _mendable)
    app.add_exception_handler(BusyError, _busy)


def said(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error response; characters that are not valid Unicode are escaped."""
    clean = message.encode(errors="backslashreplace").decode()
    return JSONResponse({"error": clean}, status, headers)


def _not_fitting(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found: Sequence[Any] = error.errors()
    if any(each["type"] == "json_invalid" for each in found):
        return said(_BAD, f"The body is not JSON: {found[0]['ctx']['error']}.")
    if [each["loc"] for each in found] == [("body",)] and not _says_json(request):
        return said(_UNKNOWN_KIND, "The body must be JSON, sent with the header Content-Type: application/json.")
    return said(_DOES_NOT_FIT, "; ".join(_one(each) for each in found[:3]) + ".")


def _says_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().endswith("json")


def _one(error: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"][1:]) or str(error["loc"][0])
    return f"{where}: {error['msg'].rstrip('.')}"


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, UnicodeDecodeError):
        return said(_BAD, f"The body is not valid UTF-8 (byte {error.__cause__.start}): send JSON in UTF-8.")
    message = f"There is nothing at {request.url.path}." if error.detail == "Not Found" else str(error.detail)
    headers = None if error.headers is None else dict(error.headers)
    return said(error.status_code, message, headers)


def _mendable(request: Request, error: Exception) -> JSONResponse:
    return said(_STATUS.get(type(error), _BAD), str(error))


def _busy(request: Request, error: Exception) -> JSONResponse:
    return busy()


def busy() -> JSONResponse:
    """Return the response where the queue is full; clients are asked to come again at different times."""
    return said(_BUSY, _FULL, {"Retry-After": str(random.randint(1, _LONGEST_WAIT))})


class Overload:
    """Middleware that refuses requests while the queue is full, before their bodies are read: that takes least time."""

    def __init__(self, app: ASGIApp, queue: BatchingQueue) -> None:
        self.app, self.queue = app, queue

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        wants_work = scope["type"] == "http" and scope["method"] == "POST"
        await (busy() if wants_work and self.queue.is_full else self.app)(scope, receive, send)


def message_of(error: Exception) -> str | None:
    """Return what a client is told of an error, where the response has begun; None for a bug."""
    if isinstance(error, HTTPException):
        return str(error.detail)
    if isinstance(error, RegardError):
        return str(error).encode(errors="backslashreplace").decode()
    return _FULL if isinstance(error, BusyError) else None


def bug(error: Exception) -> JSONResponse:
    """Return the response to a request that raised an error nobody expected."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        message = "The server is out of memory. Send fewer or shorter inputs per request."
        return said(_BUSY, message, {"Retry-After": "1"})
    return said(_BUG, "Internal server error; see the server's log.")
