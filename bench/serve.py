"""Measure what dynamic batching gains: requests from a single client, and from many concurrent clients.

    python bench/serve.py demo/model
    python bench/serve.py demo/model --clients 32 --requests 512

`regard serve` runs as a separate process, with batches of 64 and with batches of one. Clients in this process send one
held-out sentence of the phrasebook per request, over persistent connections. All answers must be the same in all runs.
The server's CPU time per sentence is read from /proc; it depends less than wall-clock time on other load.
"""

import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from regard.data.phrasebook import generate


class Run(NamedTuple):
    """The result of one run."""

    seconds: float
    delays: list[float]
    texts: list[str]


@contextmanager
def server(model: str, batch: int, wait: int) -> Iterator[tuple[int, int]]:
    """Serve a model within a context; yield the port and the process id."""
    program = [sys.executable, "-m", "regard", "serve", model, "--port", "0"]
    with subprocess.Popen(
        [*program, "--batch", str(batch), "--wait", str(wait)], stdout=subprocess.PIPE, text=True
    ) as it:
        try:
            assert it.stdout is not None
            opened = next(found for line in it.stdout if (found := re.search(r":(\d+) \(Ctrl-C", line)))
            yield int(opened[1]), it.pid
        finally:
            it.terminate()


def ask(port: int, texts: list[str], clients: int) -> Run:
    """Send texts, one per request, from several concurrent clients."""
    shares = [range(first, len(texts), clients) for first in range(clients)]
    answers, delays = [""] * len(texts), [0.0] * len(texts)

    def work(share: range) -> None:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        for place in share:
            begun = time.perf_counter()
            body = json.dumps({"texts": [texts[place]]})
            line.request("POST", "/api/translate", body, {"Content-Type": "application/json"})
            answers[place] = json.load(line.getresponse())["translations"][0]["text"]
            delays[place] = time.perf_counter() - begun
        line.close()

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(work, shares))
    return Run(time.perf_counter() - begun, delays, answers)


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run all, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a translator's folder")
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--requests", type=int, default=512)
    given = parser.parse_args()
    texts = [pair.source for pair in generate("test", given.requests, 1)]
    known: list[str] = []
    head = ("clients", "batch", "wait", "sentences/s", "CPU a sentence", "median", "95 % within")
    print(f"| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for clients, batch, wait in ((1, 1, 0), (1, 64, 5), (given.clients, 1, 0), (given.clients, 64, 5)):
        with server(given.model, batch, wait) as (port, process):
            ask(port, texts[: 2 * clients], clients)  # warm
            before = cpu_seconds(process)
            run = ask(port, texts, clients)
            worked = cpu_seconds(process) - before
        known = known or run.texts
        assert run.texts == known, "answers differ"
        times = worked / len(texts), statistics.median(run.delays), statistics.quantiles(run.delays, n=20)[-1]
        shown = (f"{seconds * 1e3:.1f} ms" for seconds in times)
        cells = (clients, batch, f"{wait} ms", f"{len(texts) / run.seconds:.0f}", *shown)
        print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
