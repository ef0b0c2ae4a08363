"""Several worker processes on one socket, and the supervisor that starts them and replaces those that die."""

import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from prometheus_client import multiprocess

from regard.errors import ConfigError, RegardError
from regard.serve.json_log import set_up_logs
from regard.serve.metrics import SHARED as SHARED_METRICS
from regard.serve.serve_config import ServeConfig
from regard.serve.server import PATIENCE, address_line, model_lines, open_socket, serve
from regard.serve.translated_files import SHARED as SHARED_FILES
from regard.worker_environment import cores

logger = logging.getLogger("regard")

_LONG = 10.0
"""Seconds after which a worker that dies is replaced at once; one that dies sooner after a while."""
_LONGEST_DELAY = 30.0


@dataclass
class _Worker:
    slot: int
    process: BaseProcess | None = None
    news: Connection | None = None
    begun: float = 0.0
    delay: float = 0.0
    due: float = 0.0
    ready: bool = False
    hangup: bool = False
    """Whether a SIGHUP came before it was ready, which would have ended it."""


class Supervisor:
    """Starts workers, forwards signals to them, and replaces those that die, ever more slowly if they die at once."""

    def __init__(self, config: ServeConfig, own: socket.socket) -> None:
        self._config, self._own = config, own
        self._context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks, not the threads
        self._workers = [_Worker(slot) for slot in range(config.workers)]
        self._stopping = False

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGHUP, self._hang_up)
        try:
            for worker in self._workers:
                self._start(worker)
            lines = [self._first_news(worker) for worker in self._workers]
            if not self._stopping:
                print(*lines[0], address_line(self._own), sep="\n", flush=True)
            while not self._stopping:
                self._watch()
        finally:
            self._own.close()
            self._end()

    def _start(self, worker: _Worker) -> None:
        worker.news, theirs = self._context.Pipe()
        arguments = (self._config, self._own, worker.slot, theirs)
        worker.process = self._context.Process(target=_work, args=arguments, name=f"regard-worker-{worker.slot}")
        worker.process.start()
        theirs.close()
        worker.begun, worker.ready = time.monotonic(), False

    def _first_news(self, worker: _Worker) -> list[str]:
        """Wait until a worker serves and return what it serves; raise the error that it ended with."""
        assert worker.news is not None
        try:
            while not self._stopping:
                if worker.news.poll(0.2):
                    news = worker.news.recv()
                    if isinstance(news, RegardError):
                        raise news
                    worker.ready = True
                    return list(news)
        except EOFError:
            raise ConfigError(f"Worker {worker.slot} ended before it could serve; see its messages above.") from None
        return []

    def _watch(self) -> None:
        """Wait a moment; replace workers that died."""
        alive = {worker.process.sentinel: worker for worker in self._workers if worker.process is not None}
        now = time.monotonic()
        for sentinel in wait(list(alive), timeout=0.2):
            worker = alive[sentinel]  # type: ignore[index]
            process, worker.process = worker.process, None
            assert process is not None
            process.join()
            multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            if self._stopping:
                continue
            worker.delay = 0.0 if now - worker.begun > _LONG else min(max(2 * worker.delay, 0.5), _LONGEST_DELAY)
            worker.due = now + worker.delay
            logger.error(
                f"Worker {worker.slot} ended with status {process.exitcode}; another starts in {worker.delay:g} s."
            )
        for worker in self._workers:
            if worker.process is None and now >= worker.due and not self._stopping:
                self._start(worker)
            self._note(worker)

    def _note(self, worker: _Worker) -> None:
        """Note that a worker which was started again is ready."""
        if worker.ready or worker.news is None:
            return
        try:
            worker.ready = worker.news.poll() and not isinstance(worker.news.recv(), RegardError)
        except EOFError:  # it has ended, as `_watch` will see
            return
        if worker.ready and worker.hangup:
            worker.hangup = False
            self._signal(worker, signal.SIGHUP)

    def _hang_up(self, *_: Any) -> None:
        for worker in self._workers:
            worker.hangup = not worker.ready
            if worker.ready:
                self._signal(worker, signal.SIGHUP)

    def _signal(self, worker: _Worker, number: int) -> None:
        if worker.process is not None and worker.process.pid is not None and worker.process.is_alive():
            os.kill(worker.process.pid, number)

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _end(self) -> None:
        """Let the workers answer what is pending; end those that cannot."""
        for worker in self._workers:
            self._signal(worker, signal.SIGTERM)
        until = time.monotonic() + PATIENCE + 5
        for worker in self._workers:
            if worker.process is not None:
                worker.process.join(max(0.0, until - time.monotonic()))
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()


def run_workers(config: ServeConfig) -> None:
    """Serve with several workers until SIGINT or SIGTERM."""
    set_up_logs(config.log)
    shared = {SHARED_METRICS: "regard-metrics-", SHARED_FILES: "regard-files-"}
    os.environ |= {name: tempfile.mkdtemp(prefix=prefix) for name, prefix in shared.items()}
    try:
        with open_socket(config.host, config.port) as own:
            Supervisor(config, own).run()
    finally:
        for name in shared:
            shutil.rmtree(os.environ.pop(name), ignore_errors=True)


def _work(config: ServeConfig, own: socket.socket, slot: int, news: Connection) -> None:
    """Serve as one of the workers."""
    import torch

    def ready(models: Any) -> None:
        news.send(model_lines(models))
        threading.Thread(target=_end_with_supervisor, args=(news,), daemon=True).start()

    count = torch.cuda.device_count() if config.device in ("auto", "cuda") else 0
    if not count and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, cores() // config.workers))
    try:
        serve(config, own, f"cuda:{slot % count}" if count else config.device, ready)
    except RegardError as error:
        logger.error(f"Worker {slot}: {error}")
        news.send(error)
        sys.exit(2)


def _end_with_supervisor(news: Connection) -> None:
    """End this worker if its supervisor is gone: its end of the pipe is then closed."""
    try:
        news.recv()
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
