"""What a client may ask for, and the guard that stops a body which is too large before it fills the memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.viz.trace import AttentionTrace

TOO_LARGE = 413
MOST_BEAM = 32
MOST_BEST = 10
MOST_CANDIDATES = 10


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


def check_texts(texts: Sequence[str], limits: Limits) -> None:
    """Refuse more than the server takes, and what is no text."""
    if len(texts) > limits.texts:
        raise HTTPException(TOO_LARGE, f"There are {len(texts):,} texts; at most {limits.texts:,} are taken at once.")
    for place, text in enumerate(texts, start=1):
        if len(text) > limits.characters:
            most = f"at most {limits.characters:,} are taken. Send it in parts"
            raise HTTPException(TOO_LARGE, f"Text {place} has {len(text):,} characters; {most}.")
        if not _is_valid(text):
            raise HTTPException(422, f"Text {place} has half a surrogate pair in it, which is no valid text.")


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_weights(traces: Iterator[AttentionTrace], limits: Limits) -> None:
    """Refuse to write more numbers than a client can want to read."""
    count = sum(trace.weights.size for trace in traces)
    if count > limits.weights:
        most = f"at most {limits.weights:,} are sent: ask for fewer or shorter texts, or without attention"
        raise HTTPException(TOO_LARGE, f"The attention has {count:,} numbers; {most}.")
