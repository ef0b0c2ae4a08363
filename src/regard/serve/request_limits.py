"""What a client may ask for, and the guard that stops a body which is too large before it fills the memory."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOO_LARGE = 413


@dataclass(frozen=True)
class Limits:
    """The most of everything."""

    characters: int = 2_000
    """Of one text."""
    texts: int = 64
    """Of one request."""
    bytes: int = 10 << 20
    """Of a body: a picture's file, or the JSON of texts."""
    megapixels: float = 25.0
    """Of a picture, which may be far more than its file."""
    weights: int = 4_000_000
    """Numbers of attention in one answer."""
    waiting: int = 1_024
    """Texts and pictures that wait for their turn; beyond that clients are asked to come again."""


class BodyLimit:
    """Refuses bodies of more than so many bytes, whether or not they say how long they are."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand on a request whose body is counted while it is read."""
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
        return HTTPException(TOO_LARGE, f"The request has more than {self.most / 2**20:g} MB, which is the most here.")
