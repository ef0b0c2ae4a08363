"""The whole road with the real corpora, tokenizers, models and searches."""

import json
import math
import shutil
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tiny_run import MODEL, Killed, Listener, contents, killed

from regard.config import Config, DataConfig, DecodingConfig, TokenizerConfig, TrainingConfig
from regard.data.tokenizers import Tokenizers
from regard.errors import DataError, TrainingError
from regard.models.build import build_model
from regard.models.model_folder import load_weights, open_folder
from regard.tasks.translation.training import stretched
from regard.training import resume, train_model
from regard.training.setting_checks import settled
from regard.training.train_model import train

TRAINING = TrainingConfig(
    epochs=2, batch_tokens=60, log_every=3, save_every=4, device="cpu", average="ema", label_smoothing=0.1
)


@pytest.fixture
def config(tmp_path):
    """Forty pairs to reverse, ten to be scored on, two too long, one of them in both."""
    words = list("abcdefg")
    pairs = [" ".join(words[(i + j * j) % 7] for j in range(2 + i % 4)) for i in range(50)] + ["a " * 30, "b " * 30]
    lines = [f"{pair.strip()}\t{' '.join(reversed(pair.split()))}\n" for pair in pairs]
    (tmp_path / "train.tsv").write_text("".join(lines[:40] + lines[50:]))
    (tmp_path / "valid.tsv").write_text("".join(lines[40:51]))
    return Config(
        data=DataConfig((str(tmp_path / "train.tsv"),), (str(tmp_path / "valid.tsv"),), max_length=20),
        tokenizer=TokenizerConfig(kind="words", vocabulary=30),
        model=MODEL,
        training=TRAINING,
    )


def test_a_run_leaves_a_model_folder(tmp_path, config):
    listener = Listener()
    result = train(config, tmp_path / "run", reporter=listener)
    folder = tmp_path / "run"
    assert open_folder(folder) == settled(config, torch.device("cpu"))
    tokenizers = Tokenizers.load(folder)
    model = build_model(config.model, tokenizers.source.size, tokenizers.target.size)
    load_weights(folder / "model.safetensors", model)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert records == listener.records
    validations = [record for record in records if "valid_loss" in record]
    assert [record["epoch"] for record in validations] == [1, 2]
    for record in validations:
        assert record["perplexity"] == pytest.approx(math.exp(record["valid_loss"]))
        assert record["signature"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
        assert record["chrf_signature"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")
        assert all(0 <= record[score] <= 100 for score in ("bleu", "chrf", "exact"))
        assert record["metric"] == "bleu"
    assert result.end == "epochs"
    assert result.best_score == max(record["bleu"] for record in validations)
    assert (
        "2 training pairs left out: more than data.max_length = 20 tokens (the longest text has 30)."
        in listener.messages
    )
    assert (
        "1 validation pair left out: more than data.max_length = 20 tokens (the longest text has 30)."
        in listener.messages
    )
    assert (folder / "curve.svg").exists()


def test_killed_and_resumed_it_is_the_same(tmp_path, config):
    train(config, tmp_path / "whole", reporter=Listener())
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(6, killed))
    # A resumed run has its tokens: what became of the text is no matter.
    (tmp_path / "train.tsv").unlink()
    train(config, tmp_path / "part", resume=True, reporter=Listener())
    part, whole = contents(tmp_path / "part"), contents(tmp_path / "whole")
    for both in (part, whole):
        both.pop("curve.svg")  # it shows times
    assert part == whole


def test_the_generator_of_the_caller_is_left_alone(tmp_path, config):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(config, tmp_path / "run", reporter=Listener())
    assert torch.equal(torch.rand(3), expected)


def test_an_embedded_corpus_brings_its_own_validation(tmp_path, config):
    data = DataConfig(train=("copy:60",))
    listener = Listener()
    embedded = replace(config, data=data, training=replace(TRAINING, epochs=1, steps=2, batch_tokens=4000))
    train(embedded, tmp_path / "run", reporter=listener)
    assert "valid_loss" in listener.records[-1]


def test_bad_lines_leave_nothing_behind(tmp_path, config):
    with open(tmp_path / "train.tsv", "a") as file:
        file.write("no tab\n")
    with pytest.raises(DataError, match=r"train\.tsv"):
        train(config, tmp_path / "run", reporter=Listener())
    assert not (tmp_path / "run").exists()


def test_bad_lines_leave_the_run_they_were_to_replace_as_it_was(tmp_path, config):
    train(config, tmp_path / "run", reporter=Listener())
    before = contents(tmp_path / "run")
    with open(tmp_path / "train.tsv", "a") as file:
        file.write("no tab\n")
    with pytest.raises(DataError, match=r"train\.tsv"):
        train(config, tmp_path / "run", overwrite=True, reporter=Listener())
    assert contents(tmp_path / "run") == before


def test_a_run_is_replaced_only_when_the_other_can_begin(tmp_path, config, monkeypatch):
    run, other = tmp_path / "run", replace(config, tokenizer=replace(config.tokenizer, kind="characters"))
    train(config, run, reporter=Listener())
    (run / "notes.txt").write_text("mine")
    before = contents(run)

    def fails(why):
        monkeypatch.setattr(train_model, "_model", Mock(side_effect=why))
        with pytest.raises(why):
            train(other, run, overwrite=True, reporter=Listener())

    for why in (MemoryError, KeyboardInterrupt):
        fails(why)
        assert contents(run) == before
    with monkeypatch.context() as patch:
        patch.setattr(resume, "_bring_back", lambda folder: None)  # as if it were killed
        fails(KeyboardInterrupt)
    assert not (run / "model.safetensors").exists()
    fails(MemoryError)
    assert contents(run) == before


def test_a_model_whose_checkpoints_are_gone_is_not_trained_over(tmp_path, config):
    train(config, tmp_path / "run", reporter=Listener())
    shutil.rmtree(tmp_path / "run" / "state")
    before = contents(tmp_path / "run")
    with pytest.raises(TrainingError) as caught:
        train(config, tmp_path / "run", resume=True, reporter=Listener())
    assert str(caught.value) == (
        f"{tmp_path / 'run'} cannot be resumed: it holds a model, but the checkpoints in its state/ are gone. "
        "Train into another folder, or replace it with --overwrite."
    )
    assert contents(tmp_path / "run") == before


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_every_number(tmp_path, config):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    listener = Listener()
    train(config, tmp_path / "run", reporter=listener, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    seen = [(event.step, event.value) for event in events.Scalars("validation/bleu")]
    told = [(record["step"], record["bleu"]) for record in listener.records if "bleu" in record]
    assert seen == [(step, pytest.approx(bleu)) for step, bleu in told]
    assert "training/loss" in events.Tags()["scalars"]


def test_outputs_may_be_as_long_as_the_corpus_has_them(tmp_path, config):
    """Letters to words: without more room, no translation could be finished."""
    (tmp_path / "train.tsv").write_text("".join(f"{i}\t{'a b c d e f g ' * 3}{i}\n" for i in range(40)))
    config = replace(config, data=replace(config.data, valid=(), max_length=30))
    train(config, tmp_path / "run", reporter=Listener())
    assert open_folder(tmp_path / "run").decoding.max_ratio == pytest.approx((22 + 1 - 10) / 2)
    assert config.decoding.max_ratio == 2.0


def test_one_pair_in_a_thousand_may_be_longer_than_outputs():
    longer = [90] * 8 + [410] * 2  # of 4,000 targets, all of sources of ten tokens
    lengths = np.array([10] * 3990 + longer), np.full(4000, 10)
    cache = Mock(target_lengths=lengths[0], source_lengths=lengths[1])
    assert stretched(DecodingConfig(), cache).max_ratio == (90 - 10) / 10
    assert stretched(DecodingConfig(max_ratio=9.0), cache).max_ratio == 9.0
