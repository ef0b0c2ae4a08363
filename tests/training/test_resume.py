"""An interrupted run that is resumed ends with the same files, bit for bit, as one that was not."""

import itertools
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import tiny_run
import torch
from tiny_run import HARD, LOOKING, MODEL, PLAIN, Killed, Listener, changed, contents, install, killed, settings, train

from regard.config import TrainingConfig
from regard.config_io import read_toml, to_toml
from regard.training import setting_checks, train_model
from regard.training.checkpoint import Name, Saved
from regard.training.resume import drawn_in_few_shapes
from regard.training.run_state import RunState, Score

STEPS = 9

# Every schedule, optimizer and average occurs, with every other at least once where that could matter.
VARIANTS = [
    {"optimizer": "adam", "schedule": "plateau", "average": "none", "log_every": 1},
    {"optimizer": "adamw", "schedule": "cosine", "average": "last", "average_last": 3, "weight_decay": 0.1},
    {"optimizer": "sgd", "schedule": "inverse-sqrt", "average": "ema", "warmup": 3, "log_every": 3},
    {"optimizer": "adam", "schedule": "constant", "average": "last", "average_last": 2, "save_every": 3},
    {"optimizer": "adamw", "schedule": "plateau", "average": "ema", "validate_every": 0, "metric": "loss"},
    {"optimizer": "adam", "label_smoothing": 0.1, "clip": 0.01, "accumulate": 3},
]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    install(monkeypatch)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values())))
def test_killed_after_any_step_and_resumed_ends_the_same(tmp_path, variant):
    config = settings(MODEL if variant is VARIANTS[0] else PLAIN, **variant)
    whole = tmp_path / "whole"
    steps = train(config, whole).steps
    # Every step for the first three; for the others, which share most with those, every second.
    for step in range(1, steps + 1, 1 if variant in VARIANTS[:3] else 2):
        part = tmp_path / f"killed-{step}"
        with pytest.raises(Killed):
            train(config, part, reporter=Listener(step, killed))
        result = train(config, part, resume=True)
        assert result.steps == steps
        assert contents(part) == contents(whole), f"killed after step {step}"


# What steps are made of beside the batches and the rate: all of it must come from the checkpoint or from the step.
OTHERS = [
    (PLAIN, {"average": "best", "average_last": 2, "validate_every": 1, "metric": "loss", "patience": 0}),
    (PLAIN, {"average": "best", "average_last": 3, "validate_every": 2, "save_every": 3}),
    (MODEL, {"teacher_forcing": 0.3, "teacher_forcing_schedule": "linear"}),
    (MODEL, {"r_drop": 2.0, "teacher_forcing": 0.5}),
    (LOOKING, {"coverage_loss": 0.5, "guided": 0.3, "log_every": 4}),
    (HARD, {"average": "ema", "optimizer": "adamw", "weight_decay": 0.1}),
    (HARD, {"average": "last", "teacher_forcing": 0.5, "entropy": 0.1}),
]


@pytest.mark.parametrize(("model", "variant"), OTHERS, ids=lambda given: "-".join(given) if type(given) is dict else "")
def test_what_steps_are_made_of_is_restored(tmp_path, model, variant):
    config = settings(model, **variant)
    train(config, tmp_path / "whole")
    for step in (3, 8):
        part = tmp_path / f"killed-{step}"
        with pytest.raises(Killed):
            train(config, part, reporter=Listener(step, killed))
        train(config, part, resume=True)
        assert contents(part) == contents(tmp_path / "whole"), f"killed after step {step}"


@pytest.mark.parametrize(("variant", "number"), [(0, signal.SIGINT), (1, signal.SIGTERM), (2, signal.SIGINT)])
def test_stopped_after_every_step_and_resumed_ends_the_same(tmp_path, variant, number):
    """Which of the two signals it was is known to nothing but the handler that both share."""
    config = settings(PLAIN, **VARIANTS[variant])
    train(config, tmp_path / "whole")
    for step in itertools.count(1):
        listener = Listener(step, lambda: os.kill(os.getpid(), number))
        result = train(config, tmp_path / "part", resume=step > 1, reporter=listener)
        assert listener.steps == 1 or result.end != "interrupted"
        if result.end != "interrupted":
            break
        assert result.steps == step
        assert listener.messages[-1] == f"Stopped after step {step} and saved. Go on with --resume."
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_stop_during_validation_repeats_the_validation(tmp_path, monkeypatch):
    config = settings(average="last", average_last=3)
    train(config, tmp_path / "whole")

    def stopping(model, check):
        os.kill(os.getpid(), signal.SIGINT)
        return tiny_run.validate(model, check)

    with monkeypatch.context() as patch:
        install(patch, replace(tiny_run.DATA, validate=stopping))
        for resume in (False, True):
            assert train(config, tmp_path / "part", resume=resume).steps == 2
    assert [path.name for path in (tmp_path / "part" / "state").iterdir()] == ["step-00000002-stopped"]
    train(config, tmp_path / "part", resume=True)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_second_interrupt_leaves_at_once(tmp_path):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    config, before = settings(), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "part", reporter=Listener(3, twice))
    assert signal.getsignal(signal.SIGINT) is before
    train(config, tmp_path / "part", resume=True)
    train(config, tmp_path / "whole")
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_resuming_before_the_first_checkpoint_starts_from_the_beginning(tmp_path):
    config = settings()
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(1, killed))
    listener = Listener()
    train(config, tmp_path / "part", resume=True, reporter=listener)
    assert listener.messages[0] == "There is no checkpoint yet: starting from the beginning."


def test_a_longer_run_is_the_shorter_one_gone_on_with(tmp_path):
    """`epochs` may change: where the schedule does not depend on it, the run is the one that had it from the start."""
    short, long = settings(epochs=2, validate_every=0), settings(epochs=3, validate_every=0)
    train(short, tmp_path / "part")
    listener = Listener()
    train(long, tmp_path / "part", resume=True, reporter=listener)
    assert listener.messages[0] == "Going on with training.epochs: 2 → 3"
    train(long, tmp_path / "whole")
    part, whole = contents(tmp_path / "part"), contents(tmp_path / "whole")
    assert part["model.safetensors"] == whole["model.safetensors"]
    assert part["config.toml"] == whole["config.toml"]
    assert part["state/step-00000009/weights.safetensors"] == whole["state/step-00000009/weights.safetensors"]


def test_a_finished_run_says_so(tmp_path):
    config = settings()
    first = train(config, tmp_path / "run")
    before = contents(tmp_path / "run")
    listener = Listener()
    assert train(config, tmp_path / "run", resume=True, reporter=listener) == first
    assert listener.messages == ["Training already finished after 9 steps: there is nothing to resume."]
    assert contents(tmp_path / "run") == before


def test_patience_ends_a_run_and_the_best_is_kept(tmp_path):
    config = settings(epochs=50, validate_every=1, patience=2)
    listener = Listener()
    result = train(config, tmp_path / "run", reporter=listener)
    scores = [record["bleu"] for record in listener.records if "bleu" in record]
    assert result.end == "patience"
    assert len(scores) == result.steps
    assert result.best_score == max(scores)
    assert scores.index(max(scores)) == len(scores) - 3
    assert result.best_step == len(scores) - 2
    # More patience lets it go on.
    assert train(changed(config, patience=3), tmp_path / "run", resume=True).steps > result.steps


@pytest.mark.parametrize(
    ("warmup", "best", "last", "waited"),
    [(0, 1, 4, 3), (2, 1, 4, 2), (4, 1, 4, 0), (9, 1, 4, 0), (2, 3, 4, 1), (0, 4, 4, 0)],
)
def test_patience_does_not_count_the_warm_up(warmup, best, last, waited):
    history = [Score(step, float(step == best), 1.0) for step in range(1, last + 1)]
    assert RunState(history=history).waited(warmup) == waited


def test_a_small_corpus_does_not_end_in_its_warm_up(tmp_path):
    """Nothing gets better while the rate is next to nothing, and the epochs are short: the made-up score falls."""
    ended = [
        train(settings(epochs=50, validate_every=1, patience=2, warmup=warmup), tmp_path / f"{warmup}").steps
        for warmup in (0, 30)
    ]
    assert ended[0] < 30 < ended[1]


def test_the_mean_of_the_best_is_the_model_to_use(tmp_path):
    """Whatever the last validation was, model.safetensors is the mean of the checkpoints with the three best."""
    from safetensors.torch import load_file

    config = settings(PLAIN, average="best", average_last=3, validate_every=1, patience=0)
    listener = Listener()
    result = train(config, tmp_path / "run", reporter=listener)
    scores = {record["step"]: record["bleu"] for record in listener.records if "bleu" in record}
    best = sorted(scores, key=scores.get)[-3:]
    assert len(scores) == 9
    assert max(best) < 9  # the last one is not among them, so that the mean was kept from before
    assert result.best_step == best[-1]
    # The weights at a step do not depend on the averaging: another run shows them.
    snapshots = []
    for step in sorted(best):
        train(changed(config, average="none", steps=step), tmp_path / str(step))
        snapshots.append(load_file(tmp_path / str(step) / "state" / f"step-{step:08d}" / "weights.safetensors"))
    for name, tensor in load_file(tmp_path / "run" / "model.safetensors").items():
        assert tensor.equal(sum(snapshot[name].double() for snapshot in snapshots).div(3).float())


def test_without_a_validation_corpus_the_last_model_is_the_one_to_use(tmp_path, monkeypatch):
    install(monkeypatch, replace(tiny_run.DATA, validate=None))
    result = train(settings(save_every=4), tmp_path / "run")
    assert (result.best_step, result.best_score, result.end) == (None, None, "epochs")
    files = contents(tmp_path / "run")
    assert files["model.safetensors"] == files["state/step-00000009/weights.safetensors"]


def test_tf32_is_float32_without_a_gpu(tmp_path):
    for precision in ("float32", "tf32"):
        train(settings(precision=precision, epochs=1), tmp_path / precision)
    plain, coarse = (contents(tmp_path / precision)["model.safetensors"] for precision in ("float32", "tf32"))
    assert plain == coarse
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize("native", [True, False])
def test_auto_is_what_the_cpu_multiplies_in_and_stays_that_elsewhere(tmp_path, monkeypatch, native):
    monkeypatch.setattr(setting_checks, "multiplies_bfloat16", lambda: native)
    config = settings(precision="auto", epochs=1)
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(3, killed))
    monkeypatch.setattr(setting_checks, "multiplies_bfloat16", lambda: not native)  # it goes on on another machine
    train(config, tmp_path / "part", resume=True)
    found = "bfloat16" if native else "float32"
    assert read_toml(tmp_path / "part/config.toml").training.precision == found
    train(settings(precision=found, epochs=1), tmp_path / "whole")
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("version", "capability", "found"), [(None, (9, 0), "tf32"), (None, (7, 5), "float32"), ("6.3", (9, 0), "float32")]
)
def test_auto_is_tf32_on_a_gpu_that_multiplies_so(monkeypatch, version, capability, found):
    monkeypatch.setattr(torch.version, "hip", version)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert TrainingConfig().precision == "auto"
    assert setting_checks.settled(settings(), torch.device("cuda")).training.precision == found


def test_bfloat16_resumes_too(tmp_path):
    config = settings(precision="bfloat16", epochs=1)
    train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(3, killed))
    train(config, tmp_path / "part", resume=True)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


@pytest.fixture
def by_device(monkeypatch):
    """Batches that depend on the device as real ones do; return what makes this device pass for a GPU, or not."""

    def opened(config, folder, sources, reporter, few_shapes):
        def order(epoch):
            rows = np.concatenate(tiny_run.order(epoch))
            return [rows[at : at + 2] for at in range(0, 15, 2)] if few_shapes else tiny_run.order(epoch)

        return None, replace(tiny_run.DATA, order=order, decoding=config.decoding)

    tiny_run.open_data_with(monkeypatch, opened)
    return lambda gpu: monkeypatch.setattr(train_model, "records_steps", lambda config, device: gpu)


@pytest.mark.parametrize("gpu", [True, False])
def test_on_another_device_a_run_keeps_to_its_batches(tmp_path, by_device, gpu):
    by_device(gpu)
    config = settings(PLAIN)
    train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(3, killed))
    by_device(not gpu)
    train(config, tmp_path / "part", resume=True)
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(tmp_path):
    """It has no digest of its record, and does not tell how its batches were drawn."""
    train(settings(PLAIN), tmp_path / "whole")
    with pytest.raises(Killed):
        train(settings(PLAIN), tmp_path / "part", reporter=Listener(5, killed))
    path = tmp_path / "part" / "state" / "step-00000004" / "place.json"
    record = json.loads(path.read_text())
    del record["digest"], record["place"]["few_shapes"]
    path.write_text(json.dumps(record))
    listener = Listener()
    train(settings(PLAIN), tmp_path / "part", resume=True, reporter=listener)
    assert listener.messages[0] == "Going on after step 4 (epoch 2)."
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("asked", "here", "drawn"),
    [("cpu", "cuda", False), ("cuda", "cpu", True), ("auto", "cpu", False), ("auto", "cuda", True)],
)
def test_where_no_checkpoint_tells_how_batches_were_drawn_the_device_does(tmp_path, asked, here, drawn):
    (tmp_path / "config.toml").write_text(to_toml(settings(device=asked)))
    saved = Saved(tmp_path, Name(3, scheduled=True), {"step": 3}, {})
    assert drawn_in_few_shapes(saved, torch.device(here)) == drawn
