"""Raw sockets: slow clients, half requests and giant headers harm nobody else."""

import asyncio
import json
import time

import pytest

from regard.serve.request_limits import Limits

HEAD = b"POST /api/translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
BODY = json.dumps({"texts": ["a cat"]}).encode()
HALVES = {
    "nothing": b"",
    "half a line": b"POST /api/tr",
    "half a head": HEAD,
    "half a body": HEAD + b"Content-Length: 500\r\n\r\n" + BODY,
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n500\r\n{",
    "half of the next": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /hea",
}
BROKEN = {
    "a giant header": b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000,
    "many headers": b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 40_000,
    "a giant path": b"GET /" + b"a" * 200_000,
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n" * 50,
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n{}",
}


async def opened(port, data, trickle=0):
    """Send something on a new connection, its end byte by byte if wanted; return what comes back until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data[: len(data) - trickle])
        await writer.drain()
        for place in range(len(data) - trickle, len(data)):
            await asyncio.sleep(0.05)
            writer.write(data[place : place + 1])
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def health(port):
    begun = time.monotonic()
    found = await opened(port, b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200")
    return time.monotonic() - begun


async def siege(port, clients):
    """Let many bad clients come at once; return how long `/health` took at most while they were there."""
    kinds = [*HALVES.values(), *BROKEN.values()]
    bad = [
        asyncio.create_task(opened(port, kinds[number % len(kinds)], min(10, len(kinds[number % len(kinds)]))))
        for number in range(clients)
    ]
    longest = 0.0
    while not all(each.done() for each in bad):
        longest = max(longest, await health(port))
        await asyncio.sleep(0.05)
    for each in bad:
        await each
    return longest


@pytest.mark.parametrize("clients", [24, pytest.param(200, marks=pytest.mark.slow)])
def test_slow_and_broken_clients_are_closed_while_others_are_answered(models, run_server, clients):
    with run_server(models, Limits(idle=0.8, seconds=1.5)) as (_, port):
        assert asyncio.run(asyncio.wait_for(siege(port, clients), 60)) < 1


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_request_is_refused_and_closed(models, run_server, kind):
    with run_server(models, Limits(idle=5)) as (_, port):
        found = asyncio.run(asyncio.wait_for(opened(port, BROKEN[kind]), 4))
    assert found.startswith(b"HTTP/1.1 400") or found == b""


@pytest.mark.parametrize("kind", HALVES)
def test_half_a_request_is_waited_for_only_so_long(models, run_server, kind):
    with run_server(models, Limits(idle=0.4, seconds=0.4)) as (_, port):
        found = asyncio.run(asyncio.wait_for(opened(port, HALVES[kind]), 10))
    if kind in ("half a body", "half a chunk"):
        assert found.startswith(b"HTTP/1.1 408")
        assert b"The request did not arrive within 0.4 s." in found
    else:
        assert found.startswith(b"HTTP/1.1 200") or found == b""


def test_connections_beyond_the_limit_are_refused_at_once(models, run_server):
    async def come(port):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        found = await opened(port, b"")
        for _, writer in held:
            writer.close()
        while not (
            again := await opened(port, b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        ).startswith(b"HTTP/1.1 200"):
            assert again.startswith(b"HTTP/1.1 503")
        return found

    with run_server(models, Limits(connections=3)) as (_, port):
        found = asyncio.run(asyncio.wait_for(come(port), 20))
    assert found.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 1\r\n" in found
    assert json.loads(found.partition(b"\r\n\r\n")[2])["error"].startswith("There are too many connections.")
