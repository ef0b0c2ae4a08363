"""The loop: step, validate, save, until an end.

What step n does is a pure function of the weights, the settings, the seed and n: which batches it reads comes from the
batch order, its dropout from a seed of its own, its learning rate from the schedule. So a run that goes on from a
checkpoint repeats what the interrupted one would have done, and no generator's state needs saving.

Several processes make the same steps: each reads its rows of the batches, the gradients are added up over all of them
(`regard.training.data_parallel`), and every decision is made of numbers that are the same in all.
"""

import contextlib
import dataclasses
import hashlib
import math
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from safetensors import SafetensorError
from torch import nn

from regard.config import Config
from regard.config_io import to_toml
from regard.distributed import current
from regard.errors import ConfigError, TrainingError, first_line
from regard.models.model_folder import CONFIG, WEIGHTS, weights_of
from regard.shapes import Float, Tensor
from regard.task import Rows, StoppedError, TrainingData, task_of
from regard.training import checkpoint, time_budget
from regard.training.checkpoint import Checkpoints, Name, Saved
from regard.training.cuda_graphs import RecordedSteps, Steps, own_stream
from regard.training.data_parallel import AllReducedSteps, DDPSteps
from regard.training.interrupts import Interruption
from regard.training.learning_rate_schedule import ScheduleStep, learning_rate, warmup_steps
from regard.training.metrics_log import Metrics
from regard.training.optimizer import gradient_norm, load_state, optimizers, state_tensors
from regard.training.prefetch import AsyncScalars, Prefetcher
from regard.training.progress import Progress, Reporter
from regard.training.run_state import RunState, Score, Window, metric_value
from regard.training.scheduled_sampling import forcing_ratio
from regard.training.setting_checks import device_of
from regard.training.sharding import Sharded, ShardedSteps, cut_as, put_together
from regard.training.weight_averaging import PREFIX, averages, set_weights

METRICS, STATE = "metrics.jsonl", "state"
LAST, OPTIMIZER, BEST = "weights.safetensors", "optimizer.safetensors", "best.safetensors"
INTERRUPTED = "interrupted"
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as numbers have."""


class Gradient(NamedTuple):
    """What the batches of a step gave, beside the gradient itself; where a device computes, it may not be there yet."""

    loss: Float[Tensor, ""]
    """Per token: the cross-entropy, label smoothing included."""
    tokens: int
    norm: Float[Tensor, ""]
    beside: dict[str, Tensor]
    """The other losses, per token."""
    reached: list[Tensor]
    """Rewards of hard attention, batch by batch; where several processes train, the mean of all."""
    own: Float[Tensor, ""] | None = None
    """This process's part of the loss, where there are several."""
    stop: Float[Tensor, ""] | None = None
    """How many processes were asked to stop, where there are several."""


class Part(NamedTuple):
    """What of a step's batches this process computes, where several train together."""

    tokens: int
    """What the whole step's loss is divided by."""
    rows: int
    """Rows of the whole step."""
    counts: tuple[bool, ...]
    """Whether this process has rows of each batch. Where it has none, it runs a row that counts for nothing."""


class Planned(NamedTuple):
    """What a step reads."""

    epoch: int
    first: int
    """How many of the epoch's batches came before."""
    batches: list[Any]
    part: Part | None = None
    """None where this process reads all of it."""


@dataclasses.dataclass(frozen=True)
class Unread:
    """A step that was made, and whose numbers nobody has looked at."""

    step: int
    epoch: int
    rate: float
    tokens: int
    numbers: AsyncScalars
    """The loss, the norm of the gradient, and the other losses."""
    beside: tuple[str, ...]
    """The names of these."""
    batches: tuple[int, int]
    """The first and the last of the epoch's batches that it read, counted from 1."""
    own: Float[Tensor, ""] | None
    """This process's part of the loss, where there are several."""


class Trainer:
    """One run of training, in one folder."""

    ready: ClassVar = 3
    """Steps whose batches are made ahead."""
    unread_on_device: ClassVar = 2
    """Steps that a GPU may be behind: so it has work while the host prepares the next."""

    def __init__(self, config: Config, folder: Path, model: nn.Module, data: TrainingData, reporter: Reporter) -> None:
        self.config, self.folder, self.model, self.data, self.reporter = config, folder, model, data, reporter
        self.settings = config.training
        self.world = current()
        self.device = next(model.parameters()).device
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.optimizer = optimizers[self.settings.optimizer](list(self.names), self.settings)
        self.objective = data.objective(model, self.settings)
        self.records = records_steps(config, self.device) and not self.settings.shard
        self.steps: Steps = (
            RecordedSteps(self.objective, self._autocast, self.device, reporter.message)
            if self.records
            else Steps(self.objective, self._autocast, self.device)
        )
        self.average = averages[self.settings.average](self.settings)
        self.weights = weights_of(model)  # views: they are always those of now
        self.average.start(self.weights)
        self.checkpoints = Checkpoints(folder / STATE)
        self.place = RunState(fingerprint=data.fingerprint)
        self.budget = time_budget.Budget(self.settings.minutes, self.place.pace)
        self.began: float | None = None
        """When the process began to open the corpus, by `budget.now`; None for when `run` is called."""
        self.saved: Saved | None = None
        self.metrics: Metrics | None = None
        self._orders: dict[int, Sequence[Rows]] = {}
        self._ordering = threading.Lock()
        self._unread: deque[Unread] = deque()
        self.sharded: Sharded | None = None
        self._interruption: Interruption | None = None
        self._stop_agreed = False
        self._behind = self.unread_on_device if self.device.type == "cuda" else 0
        self._first_epoch = math.ceil(len(self._batches(1)) / self.settings.accumulate)

    # -- where the run is ---------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many steps are planned, going by the first epoch (others may have a batch more or less)."""
        planned = self.place.pace.planned if self.settings.minutes else 0
        limits = (self._first_epoch * self.settings.epochs, self.settings.steps, planned)
        return min(limit for limit in limits if limit)

    @property
    def epoch_ended(self) -> bool:
        """Whether the last step was its epoch's last."""
        return self.place.batch >= len(self._batches(self.place.epoch)) if self.place.epoch else False

    def end(self) -> str | None:
        """Say why there is no further step to make, or None."""
        patience = self.settings.patience
        if patience and self.place.waited(warmup_steps(self.total, self.settings)) >= patience:
            return "patience"
        return self._limit()

    def _limit(self) -> str | None:
        if 0 < self.settings.minutes <= self.place.pace.used_up:
            return "minutes"
        if self.settings.steps and self.place.step >= self.settings.steps:
            return "steps"
        epochs_done = self.place.epoch if self.epoch_ended else self.place.epoch - 1
        return "epochs" if epochs_done >= self.settings.epochs else None

    def _validation_scheduled(self) -> bool:
        every = self.settings.validate_every
        by_itself = self.budget.validates if self.settings.minutes else self.epoch_ended
        due = self.place.step % every == 0 if every else by_itself
        return self.place.step > 0 and (due or self._limit() is not None)

    def _save_scheduled(self) -> bool:
        every = self.settings.save_every
        return self._validation_scheduled() or bool(every and self.place.step and self.place.step % every == 0)

    def _batches(self, epoch: int) -> Sequence[Rows]:
        """Return an epoch's batches; those of epochs to come are kept too, where the thread that reads ahead may be."""
        found = self._orders.get(epoch)
        if found is None:
            with self._ordering:
                found = self._orders.get(epoch) or self.data.order(epoch)
                kept = {other: rows for other, rows in self._orders.items() if other >= self.place.epoch}
                self._orders = {**kept, epoch: found}
        return found

    def _plan(self) -> Iterator[Planned]:
        """Yield what each coming step reads: as many batches as are to be accumulated, or as the epoch still has."""
        first, pinned = self.place.batch, self.device.type == "cuda"
        for epoch in range(max(self.place.epoch, 1), self.settings.epochs + 1):
            order = self._batches(epoch)
            for start in range(first, len(order), self.settings.accumulate):
                taken = order[start : start + self.settings.accumulate]
                made = [self.data.batch(self._own_rows(rows)) for rows in taken]
                part = self._part(taken) if self.world.joined else None
                if self.records:
                    most, own = self.config.data.max_length + 1, -(-self.settings.batch_tokens // self.world.size)
                    made = [batch.regular(own, most) for batch in made]
                yield Planned(epoch, start, [batch.pinned() for batch in made] if pinned else made, part)
            first = 0

    def _own_rows(self, rows: Rows) -> Rows:
        """Return the rows of a batch that this process runs: at least one, so that it has a gradient to give."""
        own: Rows = self.world.part(rows, self.data.each)
        return own if len(own) else rows[: self.data.each]

    def _part(self, taken: Sequence[Rows]) -> Part:
        count = self.data.count or (lambda rows: self.data.batch(rows).count)
        counts = tuple(len(self.world.part(rows, self.data.each)) > 0 for rows in taken)
        return Part(sum(map(count, taken)), sum(map(len, taken)), counts)

    def check(self) -> None:
        """Raise a ConfigError for settings that only the model and the corpus show to be wrong."""
        if self.settings.average == "best" and self.data.validate is None:
            raise ConfigError(
                "training.average=best goes by validations, and there is no validation corpus: give data.valid, or set "
                "training.average=last."
            )
        self.objective.check(self.data.batch(self._batches(1)[0]).to(self.device))

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Train until an end or an interruption, and say which."""
        began = time_budget.now() if self.began is None else self.began
        if self.settings.shard:
            self._shard()
        self._started = time_budget.now() - self.place.seconds
        if self.settings.minutes:
            self.budget.begin(time_budget.now() - began, self.place.step, self.place.seconds)
            self._agree_on_time()
        self.metrics = Metrics(self.folder / METRICS, self.place.step) if self.world.first else None
        try:
            with (
                self._products(),
                own_stream(self.device),
                Interruption() as interruption,
                Prefetcher(self._plan(), self.ready) as ahead,
            ):
                self._interruption = interruption
                self._connect()
                return self._loop(interruption, ahead)
        finally:
            if self.metrics is not None:
                self.metrics.close()

    def _connect(self) -> None:
        """Let gradients be added up over all processes. Each of them has to call it."""
        if not self.world.joined or self.settings.shard:
            return
        self.model.train()
        if self.records:
            self.steps = AllReducedSteps(self.steps, self.model, self.world)
            return
        first = self.data.batch(self._batches(1)[0][: self.data.each])
        self.steps = DDPSteps(self.model, self.objective, self._autocast, self.device, self.world, first)

    def _shard(self) -> None:
        """Cut the model up over the processes, with all that is remembered of it. Each of them has to call it."""
        state, averaged = state_tensors(self.optimizer, self.names), self.average.files()
        self.device = device_of(self.config)
        self.model.train()
        self.sharded = Sharded(self.model, self.objective, self.device, self.world.size)
        self.names = {parameter: name for name, parameter in self.model.named_parameters()}
        self.weights = weights_of(self.model)
        self.optimizer = optimizers[self.settings.optimizer](list(self.names), self.settings)
        load_state(
            self.optimizer,
            self.names,
            {name: cut_as(tensor, self.weights[name.rpartition("/")[0]]) for name, tensor in state.items()},
        )
        self.average.load({file: self.sharded.cut(kept, self.weights) for file, kept in averaged.items()})
        self.steps = ShardedSteps(self.sharded, self.objective, self._autocast, self.device, self.world.size)
        self._behind = self.unread_on_device if self.device.type == "cuda" else 0

    def _agree_on_time(self) -> None:
        """Go by the clock of the first process, where several train for so many minutes."""
        pace, self.budget.validates = self.world.from_first((self.place.pace, self.budget.validates))
        self.place.pace = self.budget.pace = pace

    def _loop(self, interruption: Interruption, ahead: Prefetcher[Planned]) -> str:
        self.model.train()
        while True:
            if self._save_scheduled() and not self._is_saved():
                self._read(0)  # nothing is saved of a run that has gone astray
                began, validates = self._used(), self._validation_scheduled()
                self.average.checkpoint(self.place.step, self.weights)
                try:
                    self._validate_if_due(interruption)
                except StoppedError:
                    return self._stop()
                self._count_validation(began, validates)
                self._save(scheduled=True)
                self._count_validation(began, validates)
            if (end := self.end()) is not None:
                return end
            if self._stop_agreed or (self.world.size == 1 and interruption.asked):
                return self._stop()
            self._step(ahead)

    def _count_validation(self, began: float, validates: bool) -> None:
        """Learn what a validation took: before it is saved, so that this is, and after it, with the save."""
        if self.settings.minutes and validates:
            self.budget.validated(self._used() - began, self._used())

    def _stop(self) -> str:
        self._read(0)
        self.reporter.message("Stopping after this step and saving. Press Ctrl-C again to quit at once.")
        if self.saved is None or self.saved.name.step != self.place.step:
            self._save(scheduled=False)
        return INTERRUPTED

    def _step(self, ahead: Prefetcher[Planned]) -> None:
        if not self._unread:
            self._read_at = time_budget.now()
        planned, place, settings = ahead.take(), self.place, self.settings
        step = place.step + 1
        moment = ScheduleStep(step, self.total, place.scores)
        rate = learning_rate(moment, settings)
        # Each process has dropout of its own; that of the first is what a process by itself would have.
        seed_from(self.device, self.config.seed, "step", step, *(("rank", self.world.rank) if self.world.rank else ()))
        made = self._gradient(planned.batches, forcing_ratio(moment, settings), planned.part)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.objective.settle(made.reached)
        self.average.step(step, self.weights)
        place.step, place.epoch, place.batch = step, planned.epoch, planned.first + len(planned.batches)
        stop = [] if made.stop is None else [made.stop]
        numbers = AsyncScalars(torch.stack([made.loss, made.norm, *stop, *made.beside.values()]))
        batches = (planned.first + 1, place.batch)
        self._unread.append(
            Unread(step, planned.epoch, rate, made.tokens, numbers, tuple(made.beside), batches, made.own)
        )
        if settings.minutes:
            self.budget.plan(step, self._used())
            self._agree_on_time()
        self._read(0 if self._log_scheduled() else self._behind)

    def _read(self, most: int) -> None:
        """Look at what steps gave, in their order, until at most so many are unread; raise for what is not finite."""
        while len(self._unread) > most:
            made, window = self._unread.popleft(), self.place.window
            loss, norm, *beside = made.numbers.read()
            if made.own is not None:
                self._stop_agreed |= beside.pop(0) > 0
            if not math.isfinite(loss) or not math.isfinite(norm):
                what = "gradient" if math.isfinite(loss) else "loss"
                raise self._not_finite(what, made.step, made.epoch, self._where(made))
            now = time_budget.now()
            window.add(made.tokens, loss, now - self._read_at, dict(zip(made.beside, beside, strict=True)))
            if self.settings.minutes:
                self.budget.took(now - self._read_at)
            self._read_at = now
            self.reporter.step(self._progress(made))
            if made.step == self.place.step and self._log_scheduled():
                self._log_step(made.rate, norm)

    def _progress(self, made: Unread) -> Progress:
        window, settings = self.place.window, self.settings
        # Until some steps have been measured, nobody knows how many fit into the time.
        total = made.step if settings.minutes and not self.place.pace.planned else self.total
        left = max(self.budget.seconds - self._used(), 0.0) if settings.minutes else None
        speed, unit = window.tokens_per_second, self.data.unit
        return Progress(made.step, total, made.epoch, window.mean_loss, speed, unit, left)

    def _gradient(self, batches: Sequence[Any], ratio: float = 1.0, part: Part | None = None) -> Gradient:
        """Leave the gradient of the mean loss per token of all batches; `ratio` is that of teacher forcing.

        Of a `part` the gradient is that of all processes together, and so are the numbers.
        """
        tokens = sum(batch.count for batch in batches) if part is None else part.tokens
        counts = (True,) * len(batches) if part is None else part.counts
        divisors = [tokens if counted else math.inf for counted in counts]
        # Recorded steps add to gradients that stay where they are.
        self.optimizer.zero_grad(set_to_none=not self.records)
        made = self.steps.all_of(batches, divisors, ratio)
        norm = gradient_norm(self.names, self.settings.clip)
        each = [*zip(made, divisors, strict=True)]
        loss = torch.stack([one.loss / divisor for one, divisor in each]).sum()
        beside = {
            name: torch.stack([one.beside[name] / divisor for one, divisor in each]).sum() for name in made[0].beside
        }
        reached = [
            one.reached[: len(batch.rows)]
            for one, batch, counted in zip(made, batches, counts, strict=True)
            if one.reached is not None and counted
        ]
        if part is None:
            return Gradient(loss, tokens, norm, beside, reached)
        return self._summed(Gradient(loss, tokens, norm, beside, reached), part, made[0].reached is not None)

    def _summed(self, own: Gradient, part: Part, rewarded: bool) -> Gradient:
        """Add up over all processes what a step gave; all numbers go at once."""
        asked = self._interruption is not None and self._interruption.asked
        stop = torch.full_like(own.loss, float(asked))
        reached = torch.cat(own.reached).sum() / part.rows if own.reached else torch.zeros_like(own.loss)
        kind = own.loss.dtype
        numbers = torch.stack([own.loss, stop, reached.to(kind), *(value.to(kind) for value in own.beside.values())])
        loss, stop, mean, *beside = self.world.sum_(numbers).unbind()
        named = dict(zip(own.beside, beside, strict=True))
        return Gradient(loss, own.tokens, own.norm, named, [mean[None]] if rewarded else [], own.loss, stop)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.settings.precision != "bfloat16":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    @contextlib.contextmanager
    def _products(self) -> Iterator[None]:
        """Let the products of a GPU be as coarse as was asked for, and as fine as they were again afterwards."""
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        if self.device.type == "cuda":
            coarse = self.settings.precision == "tf32"
            torch.set_float32_matmul_precision("high" if coarse else "highest")
            torch.backends.cudnn.allow_tf32 = coarse
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32 = before[1]

    def _where(self, made: Unread) -> str:
        """Name the batches of a step that went wrong, and the processes whose rows did, where there are several."""
        if made.own is None:
            return ""
        first, last = made.batches
        numbers = f"batch {first:,}" if first == last else f"batches {first:,} to {last:,}"
        finite = self.world.gather(math.isfinite(float(made.own)))
        wrong = [str(rank) for rank, well in enumerate(finite) if not well]
        who = f", in the rows of process {' and '.join(wrong)} of {self.world.size}" if wrong else ""
        return f", {numbers}{who}"

    def _not_finite(self, what: str, step: int, epoch: int, where: str = "") -> TrainingError:
        kept = (
            f"The last good checkpoint, of step {self.saved.name.step}, is kept: go on from it with --resume and a "
            "lower training.learning_rate or training.clip."
            if self.saved
            else "There is no checkpoint yet: start again with a lower training.learning_rate or training.clip."
        )
        return TrainingError(
            f"The {what} is not finite at step {step} (epoch {epoch}{where}), so training stopped. {kept}"
        )

    def _log_scheduled(self) -> bool:
        return self.place.step % max(self.settings.log_every, 1) == 0 or self._limit() is not None

    def _log_step(self, rate: float, norm: float) -> None:
        place, window = self.place, self.place.window
        self._log(
            {
                "step": place.step,
                "epoch": place.epoch,
                "loss": window.mean_loss,
                **window.mean_beside,
                "learning_rate": rate,
                "gradient_norm": norm,
                f"{self.data.unit}_per_second": window.tokens_per_second,
                "steps_per_second": window.steps_per_second,
                "seconds": self._seconds(),
            }
        )
        place.window = Window()

    def _log(self, record: dict[str, Any]) -> None:
        if self.metrics is not None:
            self.metrics.add(record)
        self.reporter.logged(record)

    def _seconds(self) -> float:
        return time_budget.now() - self._started

    def _used(self) -> float:
        return self._seconds() + self.place.pace.before

    # -- validating and saving ----------------------------------------------------------------------------------------

    def _validate_if_due(self, interruption: Interruption) -> None:
        validated = bool(self.place.history) and self.place.history[-1].step == self.place.step
        if self.data.validate is None or validated or not self._validation_scheduled():
            return

        def check() -> None:
            if self.world.any(interruption.asked):
                raise StoppedError

        self.model.eval()
        whole = contextlib.nullcontext() if self.sharded is None else self.sharded.whole()
        with self.average.applied(self.model), torch.no_grad(), whole:
            result = self.data.validate(self.model, check)
        self.model.train()
        if not math.isfinite(result["valid_loss"]):
            raise self._not_finite("validation loss", self.place.step, self.place.epoch)
        self.place.history.append(
            Score(self.place.step, metric_value(result, self.settings.metric), result["valid_loss"])
        )
        self.average.validated(self.place.history, self.weights)
        best = self.place.best is self.place.history[-1]
        place = {"step": self.place.step, "epoch": self.place.epoch}
        self._log({**place, **result, "metric": self.settings.metric, "best": best, "seconds": self._seconds()})

    def _is_saved(self) -> bool:
        return self.saved is not None and self.saved.name == Name(self.place.step, scheduled=True)

    def _save(self, scheduled: bool) -> None:
        """Write a checkpoint; once it stands, model.safetensors follows it. One process of several writes it."""
        self._check_alike()
        files = self._files() if self.world.first or self.sharded is not None else {}
        if self.world.first:
            self._write(scheduled, files)
        self.saved = self.world.from_first(self.saved)

    def _write(self, scheduled: bool, files: Mapping[str, bytes | Path]) -> None:
        self.place.seconds = self._seconds()
        if self.place.step and self.metrics is not None:
            self.metrics.sync()
        name = Name(self.place.step, scheduled)
        self.saved = self.checkpoints.save(name, dataclasses.asdict(self.place), files, self.saved)
        self._publish()

    def _check_alike(self) -> None:
        """Raise a TrainingError where the weights of some process have become others than those of the first."""
        if self.world.size == 1 or self.sharded is not None:
            return
        numbers = [
            tensor.view(INTEGERS[tensor.element_size()]).sum(dtype=torch.int64) for tensor in self.weights.values()
        ]
        every = self.world.gather(torch.stack(numbers).tolist())
        for rank, found in enumerate(every):
            if found != every[0]:
                raise TrainingError(
                    f"At step {self.place.step} the weights of process {rank} are not those of process 0, so training "
                    "stopped and nothing was saved of it. Check the machine of that process, and go on with --resume."
                )

    def save_start(self) -> None:
        """Write the weights that a run starts from as its first checkpoint: it then needs no other folder to go on."""
        self._started = time_budget.now()
        self._write(True, self._files())

    def _files(self) -> dict[str, bytes | Path]:
        files: dict[str, bytes | Path] = {
            CONFIG: to_toml(self.config).encode(),
            LAST: self._bytes(self.weights),
            OPTIMIZER: self._bytes(state_tensors(self.optimizer, self.names)),
        }
        old = self.saved
        for file, tensors in self.average.files().items():
            files[file] = old.path / file if old and file in old.digests else self._bytes(tensors)
        best = self.place.best
        if old and best and not self.average.is_new(self.place.step, best.step):
            files[BEST] = old.path / BEST
        else:
            files[BEST] = self._bytes(self.average.mean(self.weights))
        return files

    def _bytes(self, tensors: Mapping[str, Tensor]) -> bytes:
        """Serialise tensors; those that are cut up are put together first, which all processes take part in."""
        if self.sharded is None:
            return checkpoint.to_bytes(tensors)
        whole = put_together(tensors)
        return checkpoint.to_bytes(whole) if self.world.first else b""

    def _publish(self) -> None:
        assert self.saved is not None
        checkpoint.publish(self.saved.path / BEST, self.folder / WEIGHTS)

    def settle(self) -> None:
        """Let all else follow from the checkpoint that was loaded, as a kill may have kept it from doing."""
        assert self.saved is not None
        self._publish()
        self.checkpoints.let_go(self.saved.name)

    def load(self, saved: Saved) -> None:
        """Go back to where a checkpoint was made."""
        try:
            set_weights(self.model, saved.tensors(LAST))
            load_state(self.optimizer, self.names, saved.tensors(OPTIMIZER))
            files = [file for file in saved.digests if file.startswith(PREFIX)]
            self.average.load({file: saved.tensors(file, self.device) for file in files})
            self.place = RunState.from_dict(saved.place)
        except (AttributeError, LookupError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
            raise TrainingError(
                f"{saved.path} is no checkpoint of this run ({first_line(error)}): train anew with --overwrite, or "
                "into another folder."
            ) from error
        self.budget = time_budget.Budget(self.settings.minutes, self.place.pace)
        self.saved = saved


def records_steps(config: Config, device: torch.device) -> bool:
    """Say whether steps are recorded, and their batches filled up to few shapes for it."""
    return config.training.graphs and device.type == "cuda" and task_of(config.model).records_steps(config.model)


def seed_from(device: torch.device, *parts: int | str) -> None:
    """Seed torch's generators with a number made of all parts."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    seed = int.from_bytes(digest, "big") >> 1
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
