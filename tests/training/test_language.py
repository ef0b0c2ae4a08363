"""Language models: nothing to read, nothing to translate, and everything else as for translators."""

import json
import math
from dataclasses import replace

import pytest
from tiny_run import Killed, Listener, contents, killed

from regard.config import Config, DataConfig, DecoderConfig, EncoderConfig, ModelConfig, TokenizerConfig, TrainingConfig
from regard.data.pair import Pair
from regard.decoding.translator import Translator
from regard.errors import DataError
from regard.training.train_model import train

LANGUAGE = ModelConfig(
    embedding=8,
    dropout=0.1,
    encoder=EncoderConfig(kind="none"),
    decoder=DecoderConfig(kind="transformer", width=8, layers=1, feed_forward=11),
    attention=None,
    positions="sinusoidal",
)


@pytest.fixture
def config(tmp_path):
    """Thirty texts to learn, seven to be scored on."""
    texts = [" ".join("abcdefg"[(i + j * j) % 7] for j in range(2 + i % 4)) for i in range(37)]
    (tmp_path / "train.txt").write_text("\n".join(texts[:30]) + "\n")
    (tmp_path / "valid.txt").write_text("\n".join(texts[30:]) + "\n")
    return Config(
        data=DataConfig((str(tmp_path / "train.txt"),), (str(tmp_path / "valid.txt"),)),
        tokenizer=TokenizerConfig(kind="words", vocabulary=30),
        model=LANGUAGE,
        training=TrainingConfig(epochs=2, batch_tokens=40, log_every=2, save_every=3, device="cpu", metric="loss"),
    )


def test_only_loss_and_perplexity_are_told(tmp_path, config):
    listener = Listener()
    result = train(config, tmp_path / "run", reporter=listener)
    validations = [record for record in listener.records if "valid_loss" in record]
    assert len(validations) == 2
    for record in validations:
        assert not {"bleu", "signature"} & record.keys()
        assert record["perplexity"] == pytest.approx(math.exp(record["valid_loss"]))
    assert result.best_score == max(-record["valid_loss"] for record in validations)
    assert (tmp_path / "run" / "curve.svg").exists()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == listener.records


def test_the_validation_is_that_of_the_model(tmp_path, config):
    """The loss told is the mean over the tokens that the finished model gives to the texts."""
    listener = Listener()
    train(replace(config, training=replace(config.training, epochs=1)), tmp_path / "run", reporter=listener)
    texts = (tmp_path / "valid.txt").read_text().splitlines()
    tokens = [
        score for text in Translator.load(tmp_path / "run").score([Pair("", text) for text in texts]) for score in text
    ]
    told = [record for record in listener.records if "valid_loss" in record]
    assert told[-1]["valid_loss"] == pytest.approx(-math.fsum(tokens) / len(tokens), rel=1e-5)


def test_killed_and_resumed_it_is_the_same(tmp_path, config):
    train(config, tmp_path / "whole", reporter=Listener())
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(4, killed))
    train(config, tmp_path / "part", resume=True, reporter=Listener())
    part, whole = contents(tmp_path / "part"), contents(tmp_path / "whole")
    for both in (part, whole):
        both.pop("curve.svg")
    assert part == whole


def test_pairs_are_learned_from_by_their_targets(tmp_path, config):
    texts = (tmp_path / "train.txt").read_text().splitlines()
    (tmp_path / "pairs.tsv").write_text("".join(f"z\t{text}\n" for text in texts))
    train(config, tmp_path / "texts", reporter=Listener())
    pairs = replace(config, data=replace(config.data, train=(str(tmp_path / "pairs.tsv"),)))
    train(pairs, tmp_path / "pairs", reporter=Listener())
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("texts", "pairs")]
    assert models[0] == models[1]


def test_a_translator_needs_pairs(tmp_path, config):
    reading = replace(config, model=ModelConfig(embedding=5))
    with pytest.raises(DataError, match="this model needs pairs of source and target"):
        train(reading, tmp_path / "run", reporter=Listener())
    assert not (tmp_path / "run").exists()
