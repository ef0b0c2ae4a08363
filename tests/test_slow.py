"""Trainings that take minutes: what the README promises of them. Run by make slow."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import regard
from regard.config_io import override
from regard.data.corpus import open_corpus
from regard.tasks.translation.demo import configuration
from regard.tasks.translation.evaluation import evaluate
from regard.training.train_model import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The demo's model."""
    folder = tmp_path_factory.mktemp("demo") / "model"
    train(configuration(), folder)
    return folder


def score(model, corpus):
    return evaluate(regard.load(model), open_corpus([corpus]), data=corpus)


def test_the_demo_s_model_translates_and_aligns(model):
    report = score(model, "phrasebook:test:500")
    assert report["BLEU"].value >= 95
    assert report["AER"].value <= 0.15


def test_without_attention_long_sentences_fall_apart(model, tmp_path):
    train(override(configuration(), ["model.attention=none"]), tmp_path / "fixed")
    looking, fixed = (score(folder, "phrasebook:31-60:200")["BLEU"].value for folder in (model, tmp_path / "fixed"))
    assert looking - fixed >= 30


def test_killed_again_and_again_a_run_ends_with_the_same_weights(tmp_path):
    """Kill -9 at times that nobody chose, at the size of a real model, on all threads."""
    options = (
        "--data",
        "phrasebook:3000",
        "--set",
        "training.steps=60",
        "--set",
        "training.save_every=7",
        "--device",
        "cpu",
    )

    def command(folder: Path, *more: str) -> list[str]:
        return [sys.executable, "-m", "regard", "train", "--out", str(folder), *more]

    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    subprocess.run(command(tmp_path / "whole", *options), check=True, env=environment, capture_output=True)
    torn = tmp_path / "torn"
    more, kills = options, 0
    while True:
        process = subprocess.Popen(command(torn, *more), env=environment, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 9 + 2 * kills
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        more, kills = ("--resume",), kills + 1
    assert process.returncode == 0
    assert kills >= 2
    assert (torn / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
