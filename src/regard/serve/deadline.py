"""End requests whose time is over or whose client has left."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.http_errors import said

TOO_SLOW, TIMED_OUT, LEFT = 408, 504, 499
OUTCOME = "regard.outcome"
"""Where the scope says that a client left: status 499, which nobody gets."""


class Deadline:
    """Middleware that cancels a request after `seconds`, or as soon as its client leaves.

    What is cancelled gives its place in the queue to others. A body that is not there in time gets status 408, an
    answer that is not, 504; one that has begun is cut off.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self.app, self.seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on the request, and watch the clock and the connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = _Client(receive, send)
        try:
            async with asyncio.timeout(self.seconds) as client.time:
                await self.app(scope, client.receive, client.send)
        except TimeoutError:
            if not client.time.expired():
                raise
            if not client.left and not client.answered:
                status = TIMED_OUT if client.sent else TOO_SLOW
                waited = f"within {self.seconds:g} s"
                slow = f"The request did not arrive {waited}. Send it faster, or less of it."
                late = f"There was no answer {waited}. Retry later, or send fewer or shorter inputs."
                close = {"Connection": "close"} if status == TOO_SLOW else {"Retry-After": "1"}
                await said(status, late if client.sent else slow, close)(scope, receive, send)
        finally:
            if client.left:
                scope[OUTCOME] = LEFT
            client.forget()


class _Client:
    """The other end of a request: whether it has sent everything, has left, and has been answered."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.time = asyncio.timeout(None)
        self.sent = True
        """Whether everything is there that the app asked for."""
        self.left = self.answered = self._done = False
        self._watch: asyncio.Task[Message] | None = None

    async def receive(self) -> Message:
        """Receive from the client; once the body is there, watch for its leaving."""
        if self._watch is not None:
            return await asyncio.shield(self._watch)
        self.sent = False
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.left = True
        elif not message.get("more_body", False):
            self.sent = True
            self._watch = asyncio.create_task(self._watching())
        return message

    async def send(self, message: Message) -> None:
        """Send to the client."""
        self.answered = True
        self._done = message["type"] == "http.response.body" and not message.get("more_body", False)
        await self._send(message)

    def forget(self) -> None:
        """Watch no longer."""
        if self._watch is not None:
            self._watch.cancel()

    async def _watching(self) -> Message:
        message = await self._receive()
        if not (self._done or self.time.expired()):
            self.left = True
            self.time.reschedule(asyncio.get_running_loop().time())
        return message
