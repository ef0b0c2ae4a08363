"""Nobody waits: batches are made ahead, numbers are read later, and neither changes what a run gives."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_run import DATA, Listener, changed, contents, install, settings, train

from regard.config import Config
from regard.errors import DataError, TrainingError
from regard.training import train_model
from regard.training.prefetch import AsyncScalars, Prefetcher
from regard.training.trainer import Trainer


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "regard-ahead"]


class TestAhead:
    def test_everything_comes_in_order(self):
        with Prefetcher(iter(range(100)), most=3) as ahead:
            assert [ahead.take() for _ in range(100)] == list(range(100))

    def test_no_more_are_made_than_may_be_ready(self):
        made, waited = [], threading.Event()

        def making():
            for number in range(100):
                made.append(number)
                if number == 3:
                    waited.set()
                yield number

        with Prefetcher(making(), most=3) as ahead:
            assert waited.wait(60)
            assert made == [0, 1, 2, 3], "three are ready, the fourth waits for room"
            ahead.take()
        assert not threads()

    def test_what_goes_wrong_is_raised_where_it_is_taken(self):
        def making():
            yield 1
            raise DataError("train.de is gone.")

        with Prefetcher(making(), most=3) as ahead:
            assert ahead.take() == 1
            with pytest.raises(DataError, match=r"^train.de is gone.$"):
                ahead.take()
        assert not threads()

    @pytest.mark.parametrize("taken", [0, 1, 5])
    def test_the_thread_ends_whatever_happens(self, taken):
        def interrupted():
            with Prefetcher(iter(range(9)), most=1) as ahead:
                for _ in range(taken):
                    ahead.take()
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert not threads()


def test_numbers_are_what_they_were():
    assert AsyncScalars(torch.tensor([0.5, float("inf")])).read() == [0.5, float("inf")]


@pytest.fixture
def behind(monkeypatch):
    """Let the host run two steps ahead of the CPU, as it does of a GPU."""
    install(monkeypatch)
    real = Trainer.__init__

    def lagging(trainer, *given):
        real(trainer, *given)
        trainer._behind = 2

    monkeypatch.setattr(Trainer, "__init__", lagging)


@pytest.mark.parametrize("training", [{}, {"accumulate": 2}, {"log_every": 4, "save_every": 3, "average": "ema"}])
def test_reading_later_changes_nothing(training, behind, monkeypatch, tmp_path):
    config = changed(settings(), epochs=3, **training)
    told = Listener()
    train(config, tmp_path / "later", reporter=told)
    monkeypatch.undo()
    install(monkeypatch)
    plain = Listener()
    train(config, tmp_path / "at-once", reporter=plain)
    assert contents(tmp_path / "later") == contents(tmp_path / "at-once")
    assert told.steps == plain.steps
    assert not threads()


def test_an_interruption_in_between_is_gone_on_from(behind, tmp_path):
    import os
    import signal

    config = changed(settings(), epochs=3, log_every=100)
    listener = Listener(at=4, action=lambda: os.kill(os.getpid(), signal.SIGINT))
    assert train(config, tmp_path / "parts", reporter=listener).end == "interrupted"
    train(config, tmp_path / "parts", resume=True)
    train(config, tmp_path / "whole")
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@pytest.mark.parametrize("bad", [2, 3, 4])
def test_nothing_is_saved_after_a_loss_that_is_not_finite(bad, behind, monkeypatch, tmp_path):
    """A checkpoint is due after step 4: whichever step goes astray, the message names it and none is made."""
    real, calls = Trainer._gradient, []

    def diverging(trainer, batches, *how):
        calls.append(1)
        made = real(trainer, batches, *how)
        return made._replace(norm=torch.tensor(float("inf"))) if len(calls) == bad else made

    monkeypatch.setattr(Trainer, "_gradient", diverging)
    config = changed(settings(), save_every=4, validate_every=100, log_every=100)
    with pytest.raises(TrainingError, match=rf"^The gradient is not finite at step {bad} \(epoch \d\)"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run" / "state").exists()
    assert not threads()


def test_a_batch_that_cannot_be_made_is_told_in_its_own_words(monkeypatch, tmp_path):
    calls = []

    def failing(rows):
        calls.append(rows)
        if len(calls) == 5:
            raise DataError("cache/train is damaged.")
        return DATA.batch(rows)

    install(monkeypatch, replace(DATA, batch=failing))
    with pytest.raises(DataError, match=r"^cache/train is damaged.$"):
        train(settings(), tmp_path / "run")
    assert not threads()


def test_each_order_is_made_once(monkeypatch, tmp_path):
    epochs = []

    def order(epoch):
        epochs.append(epoch)
        return DATA.order(epoch)

    install(monkeypatch, replace(DATA, order=order))
    train(changed(settings(), epochs=3), tmp_path / "run")
    assert epochs == [1, 2, 3]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_steps_do_not_wait_for_the_device(kind, tmp_path):
    """Between two logs, no step may ask the device for anything: CUDA itself watches."""
    from regard.config_io import override
    from regard.presets import preset

    name = "bahdanau2014-small" if kind == "recurrent" else "transformer2017-small"
    own = ["data.train=copy:2000", "training.steps=12", "training.log_every=12", "training.metric=loss"]
    config: Config = override(preset(name), [*own, "training.batch_tokens=800", "training.device=cuda"])
    real = Trainer._step

    def watched(trainer, ahead):
        # The first steps make what is made once; the last is logged.
        watching = 4 <= trainer.place.step < 10
        torch.cuda.set_sync_debug_mode("error" if watching else "default")
        try:
            real(trainer, ahead)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_step", watched)
        train_model.train(config, tmp_path / "run", reporter=Listener())
    records = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(records) == 2
    assert np.isfinite([float(line.split('"loss": ')[1].split(",")[0]) for line in records[:1]]).all()
