"""The outermost layer of the server: the id, headers, metrics and log line of every request, and what a bug answers."""

import logging
import re
import secrets
import time
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.deadline import OUTCOME
from regard.serve.http_errors import bug
from regard.serve.metrics import Metrics

logger = logging.getLogger("regard.requests")

ID = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_OTHER = "other"
"""The path of requests for nothing that is there, in metrics: clients must not be able to make up labels."""
_METHODS = frozenset(("GET", "POST", "HEAD", "OPTIONS"))
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of every response that does not set them itself."""


class RequestLog:
    """Middleware that observes requests. Neither the log nor the metrics have anything of bodies or queries."""

    def __init__(self, app: ASGIApp, metrics: Metrics, leaving: Callable[[], bool]) -> None:
        """`leaving` says whether the server is about to stop, so that connections are to be closed."""
        self.app, self.metrics, self.leaving = app, metrics, leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and record what becomes of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(ID, "")
        own = given if _SANE.fullmatch(given) else secrets.token_hex(8)
        begun, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[ID] = own
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if self.leaving():
                    headers["Connection"] = "close"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            what = f"{scope['method']} {_path(scope)} failed"
            logger.error(what, exc_info=error, extra={"request": {"id": own}})
            if status:
                raise
            await bug(error)(scope, receive, sending)
        finally:
            self._record(scope, own, status, time.perf_counter() - begun)

    def _record(self, scope: Scope, own: str, status: int, seconds: float) -> None:
        path, method = _path(scope), scope["method"] if scope["method"] in _METHODS else _OTHER
        status = scope.get(OUTCOME, status)
        self.metrics.request(path, method, status, seconds)
        told = {"id": own, "method": method, "path": path, "status": status, "seconds": round(seconds, 6)}
        logger.info("request", extra={"request": told})


def _path(scope: Scope) -> str:
    """Return the path as the app declares it."""
    return getattr(scope.get("route"), "path", _OTHER)
