"""Measure `regard serve`: throughput and latency, overload, signals under load, and memory over time.

    python bench/serve.py demo/model                                  # everything, with 20,000 requests; no soak
    python bench/serve.py demo/model --requests 200 --clients 1 8     # a trial
    python bench/serve.py transformer --argos en-fr.argosmodel        # beside LibreTranslate with the same weights
    python bench/serve.py demo/model --only soak --soak 20

Servers are processes of their own, at a free port of this machine; the clients are in this process, and share its
cores. Each request has one held-out sentence of the phrasebook. An answer that is not the one which the model gives to
that very sentence counts as swapped: runs say how many requests were lost or swapped, and the bench fails if any was.

- throughput: requests a second and latency by the number of clients, and the server's CPU time a request. With --argos,
  LibreTranslate serves a package that `regard export MODEL en-fr.argosmodel --format argos` made of the same model, in
  turns with regard, with Argos' beam of 4 for both. Its environment is the one of bench/argos.py.
- overload: ten times as many clients as there is room in queue and batch; how fast the excess is refused.
- signals: model folders reloaded (SIGHUP) under load, with one worker and two; then the server stopped (SIGTERM).
- soak: resident memory while clients ask for as long as --soak says.
"""

import argparse
import asyncio
import importlib
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from load_clients import Service, Told, libre_service, load, percentile, regard_service

import regard
from regard.data.phrasebook import generate

PARTS = ("throughput", "overload", "signals", "soak")
ROOM, BATCH = 32, 16
"""Of the overloaded server: texts in its queue, and in a batch."""
TIMES = 10
FAST = 0.1
"""Seconds within which a refusal has to come."""
BEAM = 4
"""Argos Translate's beam size."""
FLAT = 1.03
"""How much larger memory may be in the last quarter of a soak than in the second."""


class Server(NamedTuple):
    """A server that runs."""

    port: int
    process: subprocess.Popen[str]


@contextmanager
def served(model: str, *options: str, limits: str = "") -> Iterator[Server]:
    """Serve a model within a context."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "serve.toml"
        settings.write_text(f"[limits]\n{limits}\n", encoding="utf-8")
        program = [sys.executable, "-m", "regard", "serve", model, "--config", str(settings)]
        with subprocess.Popen([*program, "--port", "0", *options], stdout=subprocess.PIPE, text=True) as it:
            try:
                assert it.stdout is not None
                opened = next(found for line in it.stdout if (found := re.search(r":(\d+) \(Ctrl-C", line)))
                yield Server(int(opened[1]), it)
            finally:
                it.terminate()


def run(server: Server, service: Service, texts: Sequence[str], clients: int, **options: Any) -> tuple[float, Told]:
    """Ask a server for texts; return the seconds it took and what became of them."""
    begun = time.perf_counter()
    told = asyncio.run(load(server.port, service, texts, clients, **options))
    return time.perf_counter() - begun, told


def check(told: Told, expected: Sequence[str], what: str, settled: bool = True) -> str:
    """Return how many were lost and swapped; end the bench if any was."""
    swapped = sum(text != expected[number] for number, text in told.texts.items())
    missing = len(expected) - len(told.texts) if settled else 0
    said = f"{len(told.texts):,} answered, {max(len(told.lost), missing)} lost, {swapped} swapped"
    if told.lost or swapped or missing:
        raise SystemExit(f"{what}: {said}. {'; '.join(told.lost[:3])}")
    return said


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far, with that of its children (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(cpu_seconds, children(process)))


def children(process: int) -> list[int]:
    """Return the processes that a process has started (Linux)."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def resident(process: int) -> float:
    """Return the resident memory of a process and its children, in MB (Linux)."""
    (pages,) = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(pages) / 1024 + sum(map(resident, children(process)))


# -- throughput -------------------------------------------------------------------------------------------------------


def throughput(
    model: str, texts: list[str], counts: Sequence[int], batches: Sequence[int], argos: Path | None, cache: Path
) -> None:
    """Print requests a second and latencies, in turns with LibreTranslate."""
    head = ("server", "clients", "requests/s", "CPU a request", "p50", "p99")
    print(f"\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    service = regard_service(BEAM if argos else 5)
    expected = {service.name: translations(model, texts, BEAM if argos else 5)}
    for clients in counts:
        for batch in batches:
            with served(model, "--batch", str(batch)) as server:
                _row(server, service, texts, clients, expected, f", batch {batch}")
        if argos is not None:
            with libretranslate(argos, cache) as (server, peer):
                _row(server, peer, texts, clients, expected)


def _row(
    server: Server,
    service: Service,
    texts: Sequence[str],
    clients: int,
    expected: dict[str, list[str]],
    note: str = "",
) -> None:
    run(server, service, texts[: 2 * clients], clients)  # warm
    before = cpu_seconds(server.process.pid)
    seconds, told = run(server, service, texts, clients)
    worked = cpu_seconds(server.process.pid) - before
    own = expected.setdefault(service.name, [told.texts.get(number, "") for number in range(len(texts))])
    check(told, own, f"{service.name}, {clients} clients")
    times = worked / len(texts), percentile(told.delays, 0.5), percentile(told.delays, 0.99)
    cells = (service.name + note, clients, f"{len(texts) / seconds:.0f}", *(f"{each * 1e3:.1f} ms" for each in times))
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def translations(model: str, texts: Sequence[str], beam: int) -> list[str]:
    """Return what the model writes."""
    return [each.text for each in regard.load(model).translate(texts, beam=beam, look=False)]


@contextmanager
def libretranslate(package: Path, cache: Path) -> Iterator[tuple[Server, Service]]:
    """Serve an Argos package by LibreTranslate within a context."""
    peer: Any = importlib.import_module("argos")
    programs, home = peer.environment(cache), cache / "argos-home"
    data = home / ".local/share/argos-translate"
    data.mkdir(parents=True, exist_ok=True)
    (data / "index.json").write_text("[]")  # what can be downloaded: nothing
    code = f"from argostranslate import package as p; p.install_from_path({str(package.resolve())!r})"
    apart = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "PYTHONPATH")
    environ = {name: value for name, value in os.environ.items() if name not in apart} | {"HOME": str(home)}
    subprocess.run([str(programs / "python"), "-W", "ignore", "-c", code], env=environ, check=True)
    with zipfile.ZipFile(package) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("metadata.json"))
        metadata = json.loads(archive.read(name))
    source, target = metadata["from_code"], metadata["to_code"]
    port = _free_port()
    command = [str(programs / "libretranslate"), "--host", "127.0.0.1", "--port", str(port)]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*command, "--load-only", f"{source},{target}"], env=environ, text=True, **quiet) as it:
        try:
            peer.wait_for(it, f"http://127.0.0.1:{port}/languages")
            yield Server(port, it), libre_service(source, target)
        finally:
            it.terminate()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


# -- overload ---------------------------------------------------------------------------------------------------------


def overload(model: str, texts: list[str], expected: list[str]) -> None:
    """Print how fast a server with ten times too many clients refuses, and that it loses nothing."""
    clients = min(TIMES * (ROOM + BATCH), len(texts))
    with served(model, "--batch", str(BATCH), limits=f"waiting = {ROOM}") as server:
        seconds, told = run(server, regard_service(5), texts, clients)
    late = sum(each > FAST for each in told.refusals)
    said = check(told, expected, "overload")
    print(f"\noverload: {clients} clients, room for {ROOM + BATCH}: {said} in {seconds:.0f} s")
    print(
        f"  {len(told.refusals):,} refusals: p50 {percentile(told.refusals, 0.5) * 1e3:.1f} ms, "
        f"p99 {percentile(told.refusals, 0.99) * 1e3:.1f} ms, at most {max(told.refusals, default=0) * 1e3:.1f} ms; "
        f"{late} took longer than {FAST * 1e3:.0f} ms",
        flush=True,
    )


# -- signals ----------------------------------------------------------------------------------------------------------


def signals(model: str, texts: list[str], expected: list[str], clients: int = 32) -> None:
    """Print that nothing is lost when models are reloaded and when the server stops, under load."""
    for workers in (1, 2):
        with served(model, "--workers", str(workers)) as server:
            hung, told = asyncio.run(_with_hangups(server, texts, clients))
            print(
                f"\nSIGHUP, {workers} workers: {hung} reloads under load: {check(told, expected, 'SIGHUP')}", flush=True
            )
            told, status = asyncio.run(_with_end(server, texts, clients))
            said = check(told, expected, "SIGTERM", settled=False)
            print(
                f"SIGTERM, {workers} workers: {said}, {told.unsent} found no server; exit status {status}", flush=True
            )


async def _with_hangups(server: Server, texts: Sequence[str], clients: int) -> tuple[int, Told]:
    asking = asyncio.create_task(load(server.port, regard_service(5), texts, clients))
    count = 0
    while not asking.done():
        server.process.send_signal(signal.SIGHUP)
        count += 1
        await asyncio.wait([asking], timeout=1.0)
    return count, await asking


async def _with_end(server: Server, texts: Sequence[str], clients: int) -> tuple[Told, int]:
    stopping = asyncio.Event()
    asking = asyncio.create_task(load(server.port, regard_service(5), texts, clients, gone=stopping.is_set))
    await asyncio.wait([asking], timeout=0.5)
    server.process.terminate()
    stopping.set()
    return await asking, await asyncio.to_thread(server.process.wait, 30)


# -- soak -------------------------------------------------------------------------------------------------------------


def soak(model: str, texts: list[str], expected: list[str], minutes: float, clients: int = 8) -> None:
    """Print the resident memory of a server over time; end the bench if it grows."""
    with served(model) as server:
        sizes, count = asyncio.run(_soaked(server, texts, expected, minutes * 60, clients))
    quarter = max(1, len(sizes) // 4)
    early, late = statistics.median(sizes[quarter : 2 * quarter] or sizes), statistics.median(sizes[-quarter:])
    print(
        f"\nsoak: {count:,} requests in {minutes:g} min: {sizes[0]:.0f} MB at first, {early:.0f} MB in the second "
        f"quarter, {late:.0f} MB in the last, {max(sizes):.0f} MB at most",
        flush=True,
    )
    if late > FLAT * early:
        raise SystemExit("soak: memory grows.")


async def _soaked(
    server: Server, texts: Sequence[str], expected: Sequence[str], seconds: float, clients: int
) -> tuple[list[float], int]:
    until, sizes, count = time.monotonic() + seconds, [], 0
    while time.monotonic() < until:
        asking = asyncio.create_task(load(server.port, regard_service(5), texts, clients, until=until))
        while not asking.done():
            sizes.append(resident(server.process.pid))
            await asyncio.wait([asking], timeout=min(5.0, seconds / 20))
        told = await asking
        check(told, expected, "soak", settled=False)
        count += len(told.texts)
    return sizes, count


def main() -> None:
    """Run the parts, and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a translator's folder")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--batch", type=int, nargs="+", default=[64], help="of throughput: sizes of batches to compare")
    parser.add_argument("--requests", type=int, default=20_000, help="of overload; others take a tenth")
    parser.add_argument("--argos", type=Path, help="the same model as an Argos package, for LibreTranslate")
    parser.add_argument("--soak", type=float, default=0.0, metavar="MINUTES")
    default = Path(os.environ.get("REGARD_BENCH_CACHE", Path.home() / ".cache/regard-bench"))
    parser.add_argument("--cache", type=Path, default=default)
    given = parser.parse_args()
    texts = [pair.source for pair in generate("test", given.requests, 1)]
    few = texts[: max(1, given.requests // 10)]
    expected = translations(given.model, texts, 5)
    if "throughput" in given.only:
        throughput(given.model, few, given.clients, given.batch, given.argos, given.cache.resolve())
    if "overload" in given.only:
        overload(given.model, texts, expected)
    if "signals" in given.only:
        signals(given.model, few, expected[: len(few)])
    if "soak" in given.only and given.soak:
        soak(given.model, few, expected[: len(few)], given.soak)


if __name__ == "__main__":
    main()
