"""Several workers on one socket: one that dies is replaced, signals reach all, and their numbers are one page."""

import itertools
import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.errors import ConfigError
from regard.serve.serve_config import ServeConfig
from regard.serve.server import open_socket
from regard.serve.workers import Supervisor


@contextmanager
def started(*command):
    full = [sys.executable, "-m", "regard", "serve", *command, "--port", "0", "--device", "cpu", "--workers", "2"]
    with subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.kill()


def workers_of(server):
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return [int(child) for child in children if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()]


def ask(address):
    body = json.dumps({"texts": ["a cat"]}).encode()
    head = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/translate", body, head), timeout=30) as answer:
        return json.load(answer)["translations"][0]["text"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children of a process are read from /proc")
def test_a_worker_that_dies_is_replaced_and_all_stop_together(folders):
    with started(folders["translate"]) as server:
        server.stdout.readline()
        (address,) = re.findall(r"^Serving at (http://\S+) ", server.stdout.readline())
        expected = ask(address)
        first = workers_of(server)
        assert len(first) == 2
        subprocess.run(["kill", "-KILL", str(first[0])], check=True)
        while len(now := workers_of(server)) < 2 or set(now) == set(first):
            assert ask(address) == expected  # the other one answers
            time.sleep(0.05)
        for _ in range(20):
            assert ask(address) == expected
        with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
            counts = re.findall(r'path="/api/translate",status="200"} ([\d.]+)', answer.read().decode())
        assert sum(map(float, counts)) >= 20
        time.sleep(5)  # for the new one to be ready
        server.send_signal(signal.SIGHUP)
        assert [server.stdout.readline() for _ in range(2)] == ["Reloaded.\n"] * 2
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=40)
    assert (server.returncode, out) == (0, "")
    assert "ended with status -9; another starts in" in err
    with pytest.raises(urllib.error.URLError):
        ask(address)


@pytest.mark.slow
def test_workers_that_cannot_begin_are_one_error(tmp_path):
    with started(tmp_path / "none") as server:
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out) == (2, "")
    assert err.splitlines()[-1].startswith("regard: There is no model folder")


class Process:
    """A worker that ends, or lives, as it is told."""

    def __init__(self, code, pid=0):
        self.exitcode, self.pid, self.sentinel, self.joined = code, pid, object(), False

    def join(self):
        self.joined = True


def test_a_worker_that_keeps_dying_is_started_ever_more_slowly(monkeypatch):
    with open_socket("127.0.0.1", 0) as own:
        supervisor = Supervisor(ServeConfig(workers=1), own)
        (worker,) = supervisor._workers
        now, begun = [100.0], []

        def start(each):
            each.process, each.news, each.begun = Process(1), None, now[0]
            begun.append(now[0])

        monkeypatch.setattr(supervisor, "_start", start)
        monkeypatch.setattr("regard.serve.workers.time.monotonic", lambda: now[0])
        monkeypatch.setattr("regard.serve.workers.wait", lambda alive, timeout: alive)
        monkeypatch.setattr("regard.serve.workers.multiprocess.mark_process_dead", lambda pid: None)
        start(worker)
        for _ in range(4_000):
            supervisor._watch()
            now[0] += 0.05
        pauses = [b - a for a, b in itertools.pairwise(begun)]
    assert pauses[:4] == pytest.approx([0.5, 1, 2, 4], abs=0.2)
    assert max(pauses) == pytest.approx(30, abs=0.2)


def test_no_socket_no_workers():
    with open_socket("127.0.0.1", 0) as own, pytest.raises(ConfigError, match="address already in use"):
        open_socket(*own.getsockname())
