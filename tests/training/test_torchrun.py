"""The command line in several processes: what goes wrong is told once, and a process that is lost ends the others."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import ranks
import tiny_run
from many_tasks import family, weights

from regard.config_io import override
from regard.distributed import World, joined
from regard.errors import ConfigError, TrainingError
from regard.training import launch, rank_consistency, setting_checks
from regard.training.launch import check_devices, is_restart

TINY = (
    *("--preset", "bahdanau2014-small", "--data", "copy:40", "--valid", "copy:8", "--device", "cpu"),
    *("--set", "model.embedding=5", "--set", "model.encoder.width=7", "--set", "model.decoder.width=11"),
    *(
        "--set",
        "model.decoder.readout_width=5",
        "--set",
        "model.attention.width=3",
        "--set",
        "training.precision=float32",
    ),
    *("--set", "training.batch_tokens=60", "--set", "training.log_every=1", "--set", "data.max_length=100"),
)


def environment():
    path = os.pathsep.join(sys.path)
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "80"}


def started(*arguments, torchrun=()):
    front = ["-m", "torch.distributed.run", *torchrun, "-m", "regard"] if torchrun else ["-m", "regard"]
    command = [sys.executable, *front, "train", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment())


def ranks_of(process):
    """Return the processes that train, by rank, once all of them do."""
    found = {}
    for folder in Path("/proc").iterdir():
        try:
            variables = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
        except OSError:
            continue
        own = dict(one.split(b"=", 1) for one in variables if b"=" in one)
        if own.get(b"TEST_RUN") == str(os.getpid()).encode() and b"RANK" in own and own.get(b"LOCAL_RANK"):
            found[int(own[b"RANK"])] = int(folder.name)
    return found


def test_devices_train_one_model_and_a_signal_stops_all(tmp_path, monkeypatch):
    """From the start by `--devices`, through a SIGTERM to the front, to the end."""
    monkeypatch.setenv("TEST_RUN", str(os.getpid()))
    with started("--out", tmp_path / "m", *TINY, "--epochs", "2000", "--devices", "2") as process:
        assert process.stderr is not None
        lines = []
        for line in process.stderr:
            lines.append(line)
            if line.startswith("step 3 "):
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 130
    assert "Training on the CPU in float32, in 2 processes\n" in lines
    assert lines[-1].startswith("Stopped after step ")
    assert sum("Stopping after this step and saving." in line for line in lines) == 1
    assert not (tmp_path / "m" / launch.STARTED_BY).exists()


@pytest.mark.slow
def test_a_process_that_is_killed_ends_the_others_and_torchrun_goes_on_from_the_last_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_RUN", str(os.getpid()))
    settings = (*TINY, "--steps", "12", "--set", "training.save_every=2", "--set", "model.dropout=0.3")
    again = ("--nproc-per-node=2", "--max-restarts=1", "--standalone")
    with started("--out", tmp_path / "parts", *settings, torchrun=again) as process:
        assert process.stderr is not None
        lines, killed = [], False
        for line in process.stderr:
            lines.append(line)
            if line.startswith("step 5 ") and not killed:
                killed = True
                os.kill(ranks_of(process)[1], signal.SIGKILL)
    assert process.returncode == 0, "".join(lines)
    assert any(line.startswith("Going on after step ") for line in lines), "".join(lines)
    with started("--out", tmp_path / "whole", *settings, "--devices", "2") as process:
        process.communicate()
    assert process.returncode == 0
    assert (
        tiny_run.contents(tmp_path / "parts")["metrics.jsonl"] == tiny_run.contents(tmp_path / "whole")["metrics.jsonl"]
    )
    one, other = weights(tmp_path / "parts"), weights(tmp_path / "whole")
    assert all(one[name].equal(other[name]) for name in one)


def test_an_error_is_told_once(tmp_path):
    with started("--out", tmp_path / "m", *TINY, "--set", "model.droput=1", "--devices", "2") as process:
        _, told = process.communicate()
    assert (
        told
        == "regard: Unknown setting 'model.droput'. Did you mean 'model.dropout'? (regard list settings shows all)\n"
    )
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("count", "device", "gpus", "message"),
    [
        (0, "auto", 0, "--devices is 0; it must be at least 1."),
        (
            4,
            "auto",
            2,
            "--devices is 4, and this machine has 2 GPUs: give at most 2, or train on the CPU with --device cpu.",
        ),
        (2, "cuda:1", 2, "--devices 2 takes one GPU after the other: give --device cuda, not cuda:1."),
    ],
)
def test_devices_that_are_not_there(count, device, gpus, message, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpus > 0)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    with pytest.raises(ConfigError) as caught:
        check_devices(count, device)
    assert str(caught.value) == message


PLACE = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RANK": "2"}, "RANK is 2 and WORLD_SIZE is 2: a rank is at least 0 and below the world size."),
        ({"WORLD_SIZE": "two"}, "The environment variable WORLD_SIZE is 'two'; it must be a number."),
    ],
)
def test_places_that_do_not_fit(changes, message):
    with pytest.raises(ConfigError) as caught, joined("cpu", {**PLACE, **changes}):
        pass
    assert str(caught.value) == message


def test_a_port_in_use(monkeypatch):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for name, value in {**PLACE, "MASTER_PORT": str(port)}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(TrainingError) as caught, joined("cpu"):
            pass
    assert str(caught.value) == (
        f"The address 127.0.0.1:{port} is in use by another program: choose another port with torchrun --master-port."
    )


def unlike(folder, what):
    """Train in processes that differ."""
    from regard.distributed import current

    with pytest.MonkeyPatch.context() as patch:
        tiny_run.install(patch)
        last = current().rank == 1
        config = tiny_run.settings(clip=0.5 if what == "settings" and last else 1.0)
        if what == "code" and last:
            patch.setattr(rank_consistency, "code_digest", lambda: "another")
        patch.setattr(rank_consistency.socket, "gethostname", lambda: f"host{current().rank}")
        if what == "data" and last:
            tiny_run.open_data_with(patch, nothing_there)
        tiny_run.train(config, folder)


def nothing_there(*_):
    from regard.errors import DataError

    raise DataError("Cannot read m/cache/train/cache.json: no such file or directory.")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (
            "settings",
            "Process 1 of 2, on host1, was started with other settings than process 0:\n  training.clip: 1.0 → 0.5\n"
            "Give the same command on all machines.",
        ),
        (
            "code",
            "Process 1 of 2, on host1, runs other code of regard than process 0, on host0: install the same "
            "everywhere.",
        ),
        (
            "data",
            "Process 1 of 2, on host1: Cannot read m/cache/train/cache.json: no such file or directory. Every process "
            "reads what the first one has written to --out: it has to be in a file system that all machines share, and "
            "a validation corpus has to be on each of them.",
        ),
    ],
)
def test_processes_that_differ_are_refused(tmp_path, what, message):
    found = ranks.answers(ranks.start(2, unlike, tmp_path / "m", what))
    assert [str(one) for one in found] == [message] * 2
    assert not (tmp_path / "m").exists()


def test_only_its_own_run_is_gone_on_with_after_a_restart(tmp_path):
    place = {"TORCHELASTIC_RUN_ID": "job7", "TORCHELASTIC_RESTART_COUNT": "1"}
    assert not is_restart(tmp_path, place)
    (tmp_path / launch.STARTED_BY).write_text("job6")
    assert not is_restart(tmp_path, place)
    (tmp_path / launch.STARTED_BY).write_text("job7")
    assert is_restart(tmp_path, place)
    assert not is_restart(tmp_path, {**place, "TORCHELASTIC_RESTART_COUNT": "0"})


def slow(folder):
    """Train, but for the moment that it takes to be killed."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_run.install(patch)
        tiny_run.train(tiny_run.settings(save_every=2, epochs=400), folder)


@pytest.mark.parametrize("victim", [0, 1])
def test_kill_9_of_one_ends_the_other_at_once(tmp_path, victim):
    processes = ranks.start(2, slow, tmp_path / "m")
    while not (tmp_path / "m" / "state").is_dir():
        assert all(process.is_alive() for process, _ in processes)
        time.sleep(0.01)
    processes[victim][0].kill()
    found = ranks.answers(processes)
    assert isinstance(found[victim], ranks.LostError)
    assert str(found[1 - victim]) == (
        "Another process of this run was lost, so training stopped. What was saved is kept: go on from it with "
        "--resume, as torchrun --max-restarts does by itself."
    )


def test_what_one_process_cannot_cut_up_and_several_cannot_normalise(monkeypatch):
    config = family("dosovitskiy2020-vit-small", Path("clothes"))
    with pytest.raises(ConfigError) as caught:
        setting_checks.check(override(config, ["training.shard=true"]))
    assert str(caught.value) == (
        "training.shard=true cuts a model up over several processes: start them with regard train --devices N or "
        "torchrun, or set it to false."
    )
    monkeypatch.setattr(setting_checks, "current", lambda: World(0, 2, joined=True))
    with pytest.raises(ConfigError) as caught:
        setting_checks.check(override(config, ["model.image.kind=resnet", "model.image.normalise=batch"]))
    assert str(caught.value) == (
        "model.image.normalise=batch normalises over all pictures of a batch, and each of 2 processes has a part of "
        "them: set it to groups, or train in one process."
    )
