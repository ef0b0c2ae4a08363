"""Limits on requests, and the middleware that rejects large bodies before they fill the memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BeforeValidator
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.viz.trace import AttentionTrace

TOO_LARGE = 413
MOST_BEAM = 32
MOST_BEST = 10
MOST_CANDIDATES = 10


def _whole(value: Any) -> Any:
    """Take 3.0 for 3, as JSON does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)
"""Of a whole number in JSON, where 3.0 is one; it goes behind the bounds, which would not be described otherwise."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server."""

    characters: int = 2_000
    """Per text."""
    texts: int = 64
    """Per request."""
    bytes: int = 10 << 20
    """Per body: an image file, or the JSON with texts."""
    megapixels: float = 25.0
    """Per picture, decoded, which may be far larger than its file."""
    weights: int = 4_000_000
    """Attention weights in one response."""
    waiting: int = 1_024
    """Texts and pictures in the queue; further requests get status 503."""
    streams: int = 64
    """Streams at the same time; further ones get status 503."""
    seconds: float = 60.0
    """From the head of a request to the end of its answer."""
    idle: float = 10.0
    """Seconds until the whole head of a request is there; connections that take longer are closed."""
    connections: int = 1_024
    """At the same time; further ones get status 503."""
    rate: int = 0
    """Requests a minute of one API key, or of one address where there are no keys; 0 for any number."""


class BodyLimit:
    """Middleware that rejects bodies of more than `most` bytes, with or without a Content-Length."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, counting the bytes of its body as they are read."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        said = dict(scope["headers"]).get(b"content-length", b"")
        too_long = said.isdigit() and int(said[:20]) > self.most
        came = 0

        async def counted() -> Message:
            nonlocal came
            if too_long:
                raise self._refused()
            message = await receive()
            came += len(message.get("body", b""))
            if came > self.most:
                raise self._refused()
            return message

        await self.app(scope, counted, send)

    def _refused(self) -> HTTPException:
        return HTTPException(TOO_LARGE, f"The request is larger than the limit of {self.most / 2**20:g} MB.")


def check_texts(texts: Sequence[str], limits: Limits) -> None:
    """Raise an HTTPException for too many or too long texts, and for invalid Unicode."""
    if len(texts) > limits.texts:
        raise HTTPException(TOO_LARGE, f"There are {len(texts):,} texts; at most {limits.texts:,} are allowed.")
    for place, text in enumerate(texts, start=1):
        if len(text) > limits.characters:
            most = f"at most {limits.characters:,} are allowed. Send it in parts"
            raise HTTPException(TOO_LARGE, f"Text {place} has {len(text):,} characters; {most}.")
        if not _is_valid(text):
            raise HTTPException(422, f"Text {place} is not valid Unicode: it has an unpaired surrogate.")


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_weights(traces: Iterator[AttentionTrace], limits: Limits) -> None:
    """Raise an HTTPException for a response with too many attention weights."""
    count = sum(trace.weights.size for trace in traces)
    if count > limits.weights:
        most = f"at most {limits.weights:,} are sent: send fewer or shorter texts, or leave out the attention"
        raise HTTPException(TOO_LARGE, f"The attention has {count:,} weights; {most}.")
