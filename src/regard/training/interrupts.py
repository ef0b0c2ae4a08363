"""Being asked to stop: Ctrl-C and SIGTERM let the current step end and be saved; a second Ctrl-C leaves at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """While entered, remembers in `asked` that the process was asked to stop, instead of dying of it.

    Signals reach the main thread only; elsewhere this does nothing and `asked` stays False.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
