"""What uvicorn lacks against slow clients: a time limit for the head of a request, and a limit on connections."""

import asyncio
import json
from typing import Any, ClassVar

from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

_CHECKED = 10
"""Of uvicorn's ticks of a tenth of a second, each how manieth looks at the connections."""
_BODY = json.dumps({"error": "There are too many connections. Retry in a moment."}).encode()
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class Connection(H11Protocol):
    """A connection that knows since when it has been without a request."""

    most: ClassVar[int]
    """How many there may be."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, unless there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self.closing: float | None = None
        if len(self.connections) > self.most:
            transport.write(_FULL)
            transport.close()

    def on_response_complete(self) -> None:
        """Count the time until the next request from now."""
        self.since = self.loop.time()
        super().on_response_complete()

    def is_stale(self, now: float, idle: float) -> bool:
        """Return whether its client has sent no whole head of a request, or not read the end of an answer, so long."""
        if self.transport.is_closing():
            self.closing = self.closing or now
            return now - self.closing > idle
        return (self.cycle is None or self.cycle.response_complete) and now - self.since > idle


def limited_connection(most: int) -> type[Connection]:
    """Return the protocol of a server with at most so many connections."""
    return type("LimitedConnection", (Connection,), {"most": most})


class ConnectionServer(Server):
    """A uvicorn server that closes stale connections, and stops without cutting off those that are about to ask."""

    def __init__(self, config: Config, state: Any, idle: float) -> None:
        """`state` is the app's, whose `leaving` is set before the server stops."""
        super().__init__(config)
        self._state, self._idle = state, idle

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections now and then."""
        if counter % _CHECKED == 0:
            now = asyncio.get_running_loop().time()
            for each in list(self.server_state.connections):
                if isinstance(each, Connection) and each.is_stale(now, self._idle):
                    each.transport.abort()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: Any = None) -> None:
        """Answer everything with `Connection: close` for a moment, so that clients that keep theirs open see it."""
        self._state.leaving = True
        for _ in range(_CHECKED):
            if not self.server_state.connections:
                break
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
