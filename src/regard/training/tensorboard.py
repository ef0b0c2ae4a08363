"""TensorBoard, for those who ask for it: every number of metrics.jsonl as a scalar."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import ConfigError
from regard.training.progress import Progress, Reporter


def check_tensorboard() -> None:
    """Raise a ConfigError where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise ConfigError("TensorBoard was asked for but is not installed: pip install 'regard[tensorboard]'.")


class TensorBoard:
    """Tells another reporter everything, and TensorBoard every number."""

    def __init__(self, folder: Path, inner: Reporter, first_step: int) -> None:
        """Hide what an earlier process wrote from `first_step` on."""
        from torch.utils.tensorboard import SummaryWriter

        self._inner = inner
        self._writer = SummaryWriter(str(folder), purge_step=first_step)

    def message(self, text: str) -> None:
        """Pass it on."""
        self._inner.message(text)

    def step(self, progress: Progress) -> None:
        """Pass it on."""
        self._inner.step(progress)

    def logged(self, record: Mapping[str, Any]) -> None:
        """Write its numbers, and pass it on."""
        kind = "validation" if "valid_loss" in record else "training"
        for name, value in record.items():
            if isinstance(value, int | float) and name not in ("step", "epoch", "best"):
                self._writer.add_scalar(f"{kind}/{name}", value, record["step"])
        self._inner.logged(record)

    def close(self) -> None:
        """Write what is left; who made the other reporter closes it."""
        self._writer.close()
