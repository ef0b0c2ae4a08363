"""Training on texts that are cut otherwise in each epoch: resumed exactly, and nothing but training sees it."""

import math
from dataclasses import replace

import pytest
from tiny_run import Killed, Listener, changed, contents, killed

from regard.config import Config, DataConfig, DecoderConfig, EncoderConfig, ModelConfig, TokenizerConfig, TrainingConfig
from regard.data.corpus import open_corpus
from regard.decoding.translator import Translator
from regard.errors import ConfigError
from regard.presets.vision import any_preset
from regard.training.setting_checks import check
from regard.training.train_model import train

MODEL = ModelConfig(
    embedding=8,
    dropout=0.1,
    encoder=EncoderConfig(kind="transformer", width=8, layers=1, feed_forward=11),
    decoder=DecoderConfig(kind="transformer", width=8, layers=1, feed_forward=11),
    positions="sinusoidal",
)


WORDS = [a + b for a in ("mai", "chan", "rai", "cha") for b in ("son", "ger", "sin", "teau")]


@pytest.fixture
def config(monkeypatch, tmp_path):
    """Forty texts, three epochs of a few steps."""
    texts = [" ".join(WORDS[(i * 5 + j * j) % 16] for j in range(2 + i % 3)) for i in range(46)]
    rows = [f"{text}\t{text.upper()}\n" for text in texts]
    (tmp_path / "train.tsv").write_text("".join(rows[:40]))
    (tmp_path / "valid.tsv").write_text("".join(rows[40:]))
    monkeypatch.setattr("regard.training.train_model._draw_curve", lambda folder: None)
    return Config(
        data=DataConfig((str(tmp_path / "train.tsv"),), (str(tmp_path / "valid.tsv"),), max_length=40),
        tokenizer=TokenizerConfig(vocabulary=330, sampling=0.3),
        model=replace(MODEL, attention=replace(MODEL.attention, score="scaled-dot", project=True)),
        training=TrainingConfig(
            epochs=3, batch_tokens=80, log_every=1, device="cpu", precision="float32", metric="loss"
        ),
    )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_killed_after_any_step_and_resumed_it_ends_the_same(tmp_path, config, kind):
    unseen = replace(config.data, valid=())
    config = replace(config, data=unseen, tokenizer=replace(config.tokenizer, kind=kind))
    steps = train(config, tmp_path / "whole", reporter=Listener()).steps
    assert steps > 6
    for step in (1, steps // 2, steps - 2):
        part = tmp_path / f"killed-{step}"
        with pytest.raises(Killed):
            train(changed(config, save_every=2), part, reporter=Listener(step, killed))
        train(changed(config, save_every=2), part, resume=True, reporter=Listener())
        for name in ("model.safetensors", "metrics.jsonl", "cache/train/source.tokens"):
            assert contents(part)[name] == contents(tmp_path / "whole")[name], (step, name)


def test_epochs_differ_and_validation_reads_the_usual_tokens(tmp_path, config):
    listener = Listener()
    train(config, tmp_path / "run", reporter=listener)
    pairs = list(open_corpus(config.data.valid))
    tokens = [score for text in Translator.load(tmp_path / "run").score(pairs) for score in text]
    told = [record["valid_loss"] for record in listener.records if "valid_loss" in record]
    assert min(told) == pytest.approx(-math.fsum(tokens) / len(tokens), rel=1e-5)
    usual = Listener()
    train(replace(config, tokenizer=replace(config.tokenizer, sampling=0.0)), tmp_path / "usual", reporter=usual)
    for name in ("joint.model", "cache/train/source.tokens", "cache/valid/target.tokens"):
        assert contents(tmp_path / "run")[name] == contents(tmp_path / "usual")[name]
    assert listener.records[0]["loss"] != usual.records[0]["loss"]


def test_it_goes_with_r_drop_and_may_change_for_a_finer_tuning(tmp_path, config):
    train(changed(config, r_drop=1.0, epochs=1), tmp_path / "old", reporter=Listener())
    finer = replace(config, tokenizer=replace(config.tokenizer, sampling=0.0))
    train(finer, tmp_path / "new", start_from=tmp_path / "old", reporter=Listener())


def test_refusals(config):
    guided = changed(config, guided=0.5)
    with pytest.raises(ConfigError) as caught:
        check(guided)
    assert str(caught.value) == (
        "tokenizer.sampling is 0.3 and training.guided is 0.5, but the links of alignments are between the usual "
        "tokens: set one of them to 0."
    )
    pictures = any_preset("captioner-small")
    with pytest.raises(ConfigError) as caught:
        check(
            replace(
                pictures,
                data=DataConfig(("scenes:9",)),
                tokenizer=replace(pictures.tokenizer, kind="bpe", sampling=0.1),
            )
        )
    assert str(caught.value) == (
        "tokenizer.sampling is 0.1, which is for text models, and this one reads pictures: set it to 0."
    )
