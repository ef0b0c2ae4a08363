"""Workers take the GPUs in turn; without any, they share the cores."""

import os

import torch

from regard.worker_environment import worker_environment


def test_workers_take_the_gpus_in_turn(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def devices(device="auto", workers=3):
        made = [worker_environment(slot, workers, device) for slot in range(3)]
        return [variables.get("CUDA_VISIBLE_DEVICES") for variables in made]

    assert devices() == ["0", "1", "0"]
    assert devices("cuda:1") == [None, None, None]
    assert devices("cpu") == [None, None, None]
    assert devices(workers=1) == [None, None, None]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-ab")
    assert devices() == ["5", "GPU-ab", "5"]


def test_workers_share_the_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(13), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert worker_environment(0, 4, "auto")["OMP_NUM_THREADS"] == "3"
    assert worker_environment(0, 99, "auto")["OMP_NUM_THREADS"] == "1"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert worker_environment(0, 4, "auto")["OMP_NUM_THREADS"] == "7"
