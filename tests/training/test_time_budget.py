"""Training for so many minutes, by a clock that the tests move."""

import itertools
import json
from dataclasses import replace

import pytest
import tiny_run
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tiny_run import PLAIN, Killed, Listener, changed, install, killed, settings, train

from regard.config import Config, TrainingConfig
from regard.errors import ConfigError
from regard.presets import preset
from regard.training import time_budget, trainer
from regard.training.learning_rate_schedule import ScheduleStep, learning_rate, warmup_steps
from regard.training.run_state import Pace, RunState
from regard.training.time_budget import FOREVER, Budget, within


class Run:
    """A run whose steps and validations take given times."""

    def __init__(self, minutes, steps, validation, before=0.0, pace=None, done=0, used=0.0):
        self.budget, self.planned, self.validations, self.rates = Budget(minutes, pace or Pace()), [], [], []
        self.used = used
        self.budget.begin(before, done, used)
        self.used = used + self.budget.pace.before
        self.step = done
        config = TrainingConfig(minutes=minutes, schedule="cosine", warmup=400, learning_rate=1.0)
        while not self.budget.pace.used_up:
            took = next(steps)
            self.rates.append(learning_rate(ScheduleStep(self.step + 1, self.budget.pace.planned or FOREVER), config))
            self.step, self.used = self.step + 1, self.used + took
            self.budget.plan(self.step, self.used)
            self.budget.took(took)
            self.planned.append(self.budget.pace.planned)
            if self.budget.validates or self.budget.pace.used_up:
                self.used += validation
                self.validations.append(self.used)
                self.budget.validated(validation, self.used)


@examples(max_examples=60, deadline=None)
@given(st.floats(0.1, 3.0), st.floats(0.01, 2.0), st.floats(0.0, 4.0), st.floats(0.0, 20.0))
def test_a_run_ends_with_its_time_whatever_the_machine(minutes, step, validation, before):
    """By a step more at most, and by what could not be known: what a first validation takes."""
    run = Run(minutes, itertools.repeat(step), validation, before)
    seconds = 60 * minutes
    assert run.step >= 1
    if before + 2 * step + 3 * validation < seconds:
        assert run.used <= seconds + step + 1e-6
        # Nor is time thrown away, but for the margin of the last validation.
        assert run.used >= seconds - 1.2 * step - 1.2 * validation - 1e-6 or len(run.validations) == 2
        assert all(planned <= FOREVER for planned in run.planned)


@examples(max_examples=30, deadline=None)
@given(st.floats(1.0, 5.0), st.floats(0.05, 0.5), st.floats(0.0, 5.0))
def test_validations_take_a_small_part_and_are_some_ten_where_they_are_cheap(minutes, step, validation):
    run = Run(minutes, itertools.repeat(step), validation)
    seconds, share = 60 * minutes, validation / (60 * minutes)
    assert len(run.validations) * validation <= time_budget.SHARE * seconds + 2 * validation
    if share <= 0.01:
        assert 9 <= len(run.validations) <= 11
    assert len(run.validations) >= 2 or share > 0.02


def test_the_rate_warms_up_stays_below_the_highest_and_ends_at_zero():
    run = Run(1.0, itertools.repeat(0.1), 0.2)
    assert max(run.rates) == pytest.approx(1.0, abs=0.01)
    assert run.rates[-1] == pytest.approx(0.0, abs=1e-4)
    high = run.rates.index(max(run.rates))
    assert 0.05 <= high / len(run.rates) <= 0.15  # 400 steps of warm-up were two thirds of the time: it gets a tenth
    assert all(after <= before + 0.02 for before, after in itertools.pairwise(run.rates[high:]))


def test_a_slow_beginning_does_not_skip_the_warm_up():
    """On a GPU the first steps are recorded: they take a hundred times as long as those to come."""
    run = Run(1.0, itertools.chain([5.0, 2.0, 0.01, 1.0], itertools.repeat(0.01)), 0.1)
    assert max(run.rates[:40]) < 0.3
    assert run.rates[-1] < 1e-3


@examples(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.05, 1.0), min_size=200, max_size=200))
def test_a_machine_with_other_work_changes_the_plan_and_not_the_end(steps):
    run = Run(0.5, itertools.cycle(steps), 0.5)
    assert run.used <= 30 + 1.0 + 1e-6
    assert run.rates[-1] <= 0.1


def test_a_step_longer_than_the_time_is_made_and_no_other():
    assert Run(0.1, itertools.repeat(20.0), 1.0).step == 1
    assert Run(1.0, itertools.repeat(45.0), 1.0).step == 1


def test_more_minutes_go_on_as_if_they_had_been_planned():
    first = Run(1.0, itertools.repeat(0.1), 0.0)
    more = Run(2.0, itertools.repeat(0.1), 0.0, pace=replace(first.budget.pace), done=first.step, used=first.used)
    assert more.used == pytest.approx(120, abs=0.2)
    assert more.rates[0] == pytest.approx(0.5, abs=0.1)  # half-way along the cosine
    assert more.rates[-1] == pytest.approx(0.0, abs=1e-4)


@examples(deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 5000))
def test_only_a_time_budget_shortens_the_warm_up(total, warmup):
    assert warmup_steps(total, TrainingConfig(warmup=warmup)) == warmup
    assert warmup_steps(total, TrainingConfig(warmup=warmup, minutes=1.0)) == min(warmup, total // 10)


@pytest.mark.parametrize("name", ["transformer2017", "bahdanau2014-small"])
def test_minutes_alone_decide(name):
    config = within(preset(name), 5.0)
    assert config == replace(
        preset(name),
        training=replace(
            preset(name).training,
            minutes=5.0,
            epochs=FOREVER,
            steps=0,
            patience=0,
            schedule="cosine",
            validate_every=0,
        ),
    )
    on = within(preset(name), 5.0, resume=True).training
    assert (on.schedule, on.validate_every) == (preset(name).training.schedule, preset(name).training.validate_every)


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan"), float("inf")])
def test_minutes_that_are_none(minutes):
    with pytest.raises(ConfigError, match=rf"^--minutes is {minutes:g}; it must be above 0 and finite\.$"):
        within(Config(), minutes)


# -- in a run ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that moves by 2 s with every step and by 1 s with every validation, and by nothing else."""
    time = [100.0]

    def validate(model, check):
        time[0] += 1.0
        return tiny_run.validate(model, check)

    gradient = trainer.Trainer._gradient

    def slow(self, *given):
        time[0] += 2.0
        return gradient(self, *given)

    install(monkeypatch, replace(tiny_run.DATA, validate=validate))
    monkeypatch.setattr(trainer.Trainer, "_gradient", slow)
    monkeypatch.setattr(time_budget, "now", lambda: time[0])
    return time


def timed(minutes, **training):
    return within(settings(PLAIN, **training), minutes)


def records(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_of_two_minutes(tmp_path, clock):
    listener = Listener()
    result = train(timed(2.0), tmp_path / "run", reporter=listener)
    assert result.end == "minutes"
    assert listener.messages[-2] == f"Finished after {result.steps} steps in 1 min 59 s: the time is up."
    validated = [record for record in records(tmp_path / "run") if "valid_loss" in record]
    assert 7 <= len(validated) <= 11
    assert validated[-1]["step"] == result.steps
    rates = [record["learning_rate"] for record in records(tmp_path / "run") if "learning_rate" in record]
    assert rates[-1] < 0.001 < rates[2]
    again = Listener()
    assert train(timed(2.0), tmp_path / "run", reporter=again, resume=True) == result
    assert again.messages[-1].startswith("Training already finished")


def test_what_was_used_counts_after_a_kill_and_opening_the_corpus_always(tmp_path, clock):
    with pytest.raises(Killed):
        train(timed(2.0), tmp_path / "run", reporter=Listener(40, killed), began=80.0)
    clock[0] = 500.0
    result = train(timed(2.0), tmp_path / "run", resume=True, began=490.0)
    place = RunState.from_dict(json.loads(next((tmp_path / "run/state").glob("*/place.json")).read_text())["place"])
    assert place.pace.before == 30.0  # 20 s before the first part, 10 before the second
    assert result.end == "minutes"
    assert 85 <= result.seconds <= 90  # as the checkpoint knows; what was lost by the kill is not in it


def test_more_minutes_are_gone_on_with(tmp_path, clock):
    first = train(timed(1.0), tmp_path / "run")
    listener = Listener()
    longer = within(timed(1.0), 2.0, resume=True)
    second = train(longer, tmp_path / "run", reporter=listener, resume=True)
    assert listener.messages[:2] == [
        "Going on with training.minutes: 1.0 → 2.0",
        f"Going on after step {first.steps} (epoch {first.epochs}).",
    ]
    assert first.steps < second.steps
    assert 110 <= second.seconds <= 120


def test_fewer_minutes_than_were_used_end_it_at_once(tmp_path, clock):
    with pytest.raises(Killed):
        train(timed(2.0), tmp_path / "run", reporter=Listener(40, killed))
    result = train(timed(0.5), tmp_path / "run", resume=True)
    assert result.end == "minutes"
    assert result.steps < 40


def test_a_run_that_began_by_epochs_can_go_on_by_minutes(tmp_path, clock):
    config = settings(PLAIN, schedule="cosine")
    train(config, tmp_path / "run")
    result = train(within(config, 1.0, resume=True), tmp_path / "run", resume=True)
    assert result.end == "minutes"
    assert result.steps > 9


@pytest.mark.parametrize(("limit", "steps"), [({"steps": 4}, 4), ({"epochs": 2}, 6)])
def test_steps_and_epochs_end_it_where_they_come_first(tmp_path, clock, limit, steps):
    config = changed(timed(2.0), **limit)
    result = train(config, tmp_path / "run")
    assert (result.end, result.steps) == (next(iter(limit)), steps)


def test_without_validation_it_ends_too(tmp_path, clock, monkeypatch):
    install(monkeypatch, replace(tiny_run.DATA, validate=None))
    assert train(timed(1.0), tmp_path / "run").end == "minutes"


def test_lines_tell_the_time_that_is_left(tmp_path, clock):
    told = []

    class Watcher(Listener):
        def step(self, progress):
            told.append((progress.step, progress.total, progress.left))

    result = train(timed(1.0), tmp_path / "run", reporter=Watcher())
    assert told[0] == (1, 1, 58.0)  # nobody knows yet how many will fit in
    assert told[-1][:2] == (result.steps, result.steps)
    assert told[-1][2] <= 4.0
