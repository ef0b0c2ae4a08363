"""What every worker shares: how it talks to the script that times it, and how it counts what it trains on.

A worker runs in the environment of the toolkit it drives, so this file and all workers need nothing but Python and
torch. It gets one argument, its task as JSON, and then works when it is told to, so that toolkits can be timed in
turns. Whatever the toolkit prints goes to the worker's log.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

Task = dict[str, Any]
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def toolkit(module: str) -> Any:
    """Import a module that is installed where the worker runs, and not where its types are checked."""
    return importlib.import_module(module)


class Boss:
    """The script that gives work: one line of JSON for each task, and one for each answer."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # what the toolkit prints is no answer

    def ask(self) -> Task:
        """Wait for work; when there is no more, end without a farewell: a toolkit's loop would not stop here."""
        line = sys.stdin.readline()
        if not line:
            sys.stderr.flush()
            os._exit(0)
        task: Task = json.loads(line)
        return task

    def answer(self, **found: Any) -> None:
        """Tell what was found."""
        print(json.dumps(found), file=self._answers, flush=True)


class Meter:
    """Counts target tokens (no padding, the end mark included) and the time between two steps of an optimiser.

    The clock runs from the end of one step to the end of another, so that everything in between is in it: batches,
    forward, backward, the step, and whatever else a toolkit does while it trains.
    """

    def __init__(self, boss: Boss, task: Task, model: Callable[[], Any], version: str, hooked: bool = True) -> None:
        """A toolkit that is not `hooked` into torch's optimisers calls `stepped` itself."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._boss, self._model, self._version, self._torch = boss, model, version, torch
        self._warm, self._last = int(task["warmup"]), int(task["steps"])
        self._done, self._is_warm = 0, False
        self._clock, self._until = time.perf_counter, 0.0
        self._start()
        if hooked:
            register_optimizer_step_post_hook(self.stepped)

    def saw(self, tokens: int, padded: int) -> None:
        """Count a batch."""
        self._tokens += tokens
        self._padded += padded

    def _start(self) -> None:
        self._began, self._busy = time.perf_counter(), time.process_time()
        self._steps, self._tokens, self._padded = 0, 0, 0

    def stepped(self, *_: Any) -> None:
        """Note the end of a step."""
        self.went(1)

    def went(self, steps: int) -> None:
        """Note the end of some steps; where a turn is over, answer and wait for the next."""
        self._done += steps
        self._steps += steps
        if self._last or self._done < self._warm:  # a training to its end is not timed
            return
        if not self._is_warm:
            self._is_warm = True
            parameters = sum(p.numel() for p in self._model().parameters() if p.requires_grad)
            self._boss.answer(version=self._version, torch=self._torch.__version__, parameters=parameters)
        elif self._clock() < self._until:
            return
        else:
            self._synchronize()
            clocks = {"wall": time.perf_counter() - self._began, "cpu": time.process_time() - self._busy}
            self._boss.answer(steps=self._steps, tokens=self._tokens, padded=self._padded, seconds=clocks)
        self._synchronize()
        task = self._boss.ask()
        self._clock = CLOCKS[task["clock"]]
        self._start()
        self._until = self._clock() + float(task["seconds"])

    def _synchronize(self) -> None:
        if self._torch.cuda.is_available():
            self._torch.cuda.synchronize()


def serve(boss: Boss, translate: Callable[[Sequence[str], int], list[list[str]]], **about: Any) -> None:
    """Translate, as pieces, what the boss asks for, with the beam it asks for; tell how long that took."""
    boss.answer(**about)
    while True:
        task = boss.ask()
        lines, beam = task["lines"], int(task["beam"])
        seconds: dict[str, list[float]] = {"wall": [], "cpu": []}
        found = []
        for batch in [[line] for line in lines] if task["single"] else [lines]:
            began, busy = time.perf_counter(), time.process_time()
            found += translate(batch, beam)
            seconds["wall"].append(time.perf_counter() - began)
            seconds["cpu"].append(time.process_time() - busy)
        boss.answer(seconds=seconds, pieces=found)


def threads(task: Task) -> None:
    """Take as many threads as all others."""
    import torch

    torch.set_num_threads(int(task["threads"]))
