"""Who may ask, and how often: API keys and rate limits."""

import math
from typing import Any

from fastapi import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from regard.serve.api_keys import ApiKeys
from regard.serve.http_errors import said
from regard.serve.rate_limits import RateLimits, network

UNKNOWN, TOO_OFTEN = 401, 429
_ADMITTED = "regard.admitted"
_GUARDED = "/api/"
"""What is behind the keys and limits; the page, the documentation and the probes are not."""

SECURITY: dict[str, Any] = {"bearer": {"type": "http", "scheme": "bearer", "description": "An API key."}}
"""How a key is sent, for the API documentation."""


class Access:
    """Admits requests. `/api/…` is checked before its body is read; routes whose key is in the body call `admit`."""

    def __init__(self, keys: ApiKeys | None = None, rate: int = 0) -> None:
        """`rate` is how many requests a minute a key may send, or an address where there are no keys; 0 for any."""
        self.keys, self.rate = keys, rate
        self._limits = RateLimits()

    def admit(self, request: HTTPConnection, key: str | None = None, unknown: int = UNKNOWN) -> None:
        """Raise an HTTPException unless a request may be answered; a request is counted once.

        `key` is one that was sent in the body or query; it goes before the header `Authorization: Bearer`. `unknown` is
        the status for a key that is missing or wrong.
        """
        if request.scope.get(_ADMITTED):
            return
        client, rate = self._client(request, key or _bearer(request), unknown)
        wait = self._limits.take(client, rate) if rate else 0.0
        if wait:
            seconds = str(math.ceil(wait))
            raise HTTPException(
                TOO_OFTEN, f"More than {rate} requests a minute: retry in {seconds} s.", {"Retry-After": seconds}
            )
        request.scope[_ADMITTED] = True

    def _client(self, request: HTTPConnection, key: str | None, unknown: int) -> tuple[bytes | str, int]:
        """Return by what a client is counted, and its requests a minute."""
        address = network(request.client.host if request.client else "")
        if self.keys is None:
            return address, self.rate
        found = self.keys.find(key) if key else None
        if found is None:
            what = "This API key is not known." if key else "This server needs an API key: Authorization: Bearer KEY."
            raise HTTPException(unknown, what, {"WWW-Authenticate": "Bearer"} if unknown == UNKNOWN else None)
        return found.digest, self.rate if found.rate is None else found.rate


class AccessMiddleware:
    """Admits what is under `/api/` before anything of it is read."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is admitted; answer one that is not."""
        if scope["type"] == "http" and scope["path"].startswith(_GUARDED):
            try:
                self.access.admit(HTTPConnection(scope))
            except HTTPException as error:
                await said(error.status_code, str(error.detail), dict(error.headers or {}))(scope, receive, send)
                return
        await self.app(scope, receive, send)


def _bearer(request: HTTPConnection) -> str | None:
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if kind.lower() == "bearer" else None
