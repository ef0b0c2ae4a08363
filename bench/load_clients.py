"""HTTP clients for the benches of the server: many at once in one process, each over a connection that stays open."""

import asyncio
import json
import time
import urllib.parse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

REFUSED = 503
PATIENCE = 120.0
"""Seconds until an answer that has not come counts as lost."""
MANY, RAMP = 128, 2.0
"""More clients than this begin one after the other, within so many seconds."""


@dataclass(frozen=True)
class Service:
    """How a server is asked for a translation: by regard's API or LibreTranslate's."""

    name: str
    path: str
    body: Callable[[str], bytes]
    kind: str
    read: Callable[[Any], str]


def regard_service(beam: int) -> Service:
    """Return regard's API with a beam size."""
    return Service(
        f"regard, beam {beam}",
        "/api/translate",
        lambda text: json.dumps({"texts": [text], "beam": beam}).encode(),
        "application/json",
        lambda answer: str(answer["translations"][0]["text"]),
    )


def libre_service(source: str, target: str) -> Service:
    """Return LibreTranslate's API."""
    return Service(
        "LibreTranslate",
        "/translate",
        lambda text: urllib.parse.urlencode({"q": text, "source": source, "target": target}).encode(),
        "application/x-www-form-urlencoded",
        lambda answer: str(answer["translatedText"]),
    )


@dataclass
class Told:
    """What became of the requests of a run."""

    texts: dict[int, str] = field(default_factory=dict)
    """The answers, by the number of the question."""
    delays: list[float] = field(default_factory=list)
    """Seconds until each answer."""
    refusals: list[float] = field(default_factory=list)
    """Seconds until each refusal."""
    unsent: int = 0
    """Requests that found no server: the connection was refused, or closed before a byte came back, and sent again."""
    lost: list[str] = field(default_factory=list)
    """Requests that got half an answer, none in time, or one of another status."""


class Line:
    """A connection that is opened when it is needed."""

    def __init__(self, port: int, service: Service) -> None:
        self.port, self.service = port, service
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, text: str) -> tuple[int, dict[str, str], Any]:
        """Send a request; return status, headers and the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self._streams
        body = self.service.body(text)
        writer.write(
            f"POST {self.service.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {self.service.kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        answer = json.loads(await reader.readexactly(int(headers["content-length"])))
        if headers.get("connection") == "close":
            self.close()
        return int(head[0].split()[1]), headers, answer

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def load(
    port: int,
    service: Service,
    texts: Sequence[str],
    clients: int,
    *,
    until: float = float("inf"),
    gone: Callable[[], bool] = lambda: False,
) -> Told:
    """Ask for texts, one a request, by several clients, until all are answered or the time `until` has come.

    Refused requests are sent again after as long as the server says. When `gone`, clients whose connection is refused
    end instead of trying again.
    """
    told, waiting = Told(), iter(enumerate(texts))

    async def client(place: int) -> None:
        await asyncio.sleep(place * RAMP / clients if clients > MANY else 0.0)
        line = Line(port, service)
        for number, text in waiting:
            while time.monotonic() < until and not await _try(line, told, number, text):
                if gone():
                    line.close()
                    return
        line.close()

    await asyncio.gather(*(client(place) for place in range(clients)))
    return told


async def _try(line: Line, told: Told, number: int, text: str) -> bool:
    """Send a request once; return whether it is settled."""
    begun = time.perf_counter()
    try:
        status, headers, answer = await asyncio.wait_for(line.ask(text), PATIENCE)
    except (ConnectionError, asyncio.IncompleteReadError) as error:
        line.close()
        if isinstance(error, asyncio.IncompleteReadError) and error.partial:
            told.lost.append(f"half an answer to {text!r}")
            return True
        told.unsent += 1
        await asyncio.sleep(0.02)
        return False
    except TimeoutError:
        line.close()
        told.lost.append(f"no answer to {text!r}")
        return True
    taken = time.perf_counter() - begun
    if status == REFUSED:
        told.refusals.append(taken)
        await asyncio.sleep(float(headers["retry-after"]))
        return False
    if status != 200:
        told.lost.append(f"status {status} to {text!r}: {answer}")
        return True
    told.delays.append(taken)
    told.texts[number] = line.service.read(answer)
    return True


def percentile(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of the values do not exceed."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else 0.0
