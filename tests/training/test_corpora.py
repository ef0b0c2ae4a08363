"""Training on several corpora and without a part that is held out: what is learnt from, and going on after a kill."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_run import MODEL, Killed, Listener, contents, killed, train

from regard.config import Config, DataConfig, TokenizerConfig, TrainingConfig
from regard.config_io import assign
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import Tokenizers
from regard.errors import ConfigError, TrainingError

MIXED = DataConfig(mixed=("a.tsv*1.3", "b.en,b.de*0.4"), held_out=6)
TAGGED = DataConfig(tagged=("x=a.tsv*2", "y=b.en,b.de"), held_out=6)


def config(data, **training) -> Config:
    chosen = {
        "epochs": 3,
        "batch_tokens": 40,
        "log_every": 3,
        "device": "cpu",
        "precision": "float32",
        "metric": "loss",
    }
    return Config(
        data=data,
        tokenizer=TokenizerConfig("words", joint=False),
        model=MODEL,
        training=TrainingConfig(**{**chosen, **training}),
    )


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tsv").write_text("".join(f"a{n} a a\tA{n}\n" for n in range(40)))
    Path("b.en").write_text("".join(f"b{n} b\n" for n in range(20)))
    Path("b.de").write_text("".join(f"B{n}\n" for n in range(20)))
    Path("c.txt").write_text("".join(f"c{n} c\n" for n in range(40)))


@pytest.mark.parametrize("data", [MIXED, TAGGED, DataConfig(train=("a.tsv",), held_out=5)])
def test_killed_and_resumed_ends_the_same(data):
    """The split and the draws of each epoch are those that the run began with, whatever became of the text."""
    steps = train(config(data), "whole").steps
    for step, text_is_there in ((2, True), (steps - 1, False)):
        with pytest.raises(Killed):
            train(config(data, save_every=1), f"killed-{step}", reporter=Listener(step, killed))
        if not text_is_there:
            for name in ("a.tsv", "b.en", "b.de"):
                Path(name).rename(f"{name}.gone")
        train(config(data, save_every=1), f"killed-{step}", resume=True)
        if not text_is_there:
            for name in ("a.tsv", "b.en", "b.de"):
                Path(f"{name}.gone").rename(name)
        whole, part = contents("whole"), contents(f"killed-{step}")
        for name in ("model.safetensors", "metrics.jsonl", "cache/held_out.jsonl", "cache/train/source.tokens"):
            assert part[name] == whole[name], name


def test_what_is_held_out_is_neither_trained_on_nor_in_the_vocabulary():
    listener = Listener()
    train(config(MIXED), "model", reporter=listener)
    assert listener.messages[:4] == [
        "Held out 6 pairs of a.tsv × 1.3, b.en and b.de × 0.4 for validation; to train on all, give a validation "
        "corpus or set data.held_out=0.",
        "Learning a vocabulary (words) from a.tsv × 1.3, b.en and b.de × 0.4",
        listener.messages[2],
        listener.messages[3],
    ]
    tokenizers, cache = Tokenizers.load(Path("model")), TokenCache.open(Path("model/cache/train"))
    sources = {tokenizers.source.decode(cache.source(row)) for row in range(len(cache))}
    stored = Path("model/cache/held_out.jsonl").read_text()
    held_out = {
        text for text in (*(f"a{n} a a" for n in range(40)), *(f"b{n} b" for n in range(20))) if f'"{text}"' in stored
    }
    assert (len(sources), len(held_out), sources & held_out) == (54, 6, set())
    first, second = cache.index.each
    assert listener.messages[2] == "54 training pairs, a vocabulary of 60 and 58 entries"
    assert listener.messages[3] == (
        f"An epoch has {first * 13 // 10 + second * 4 // 10} pairs: {first * 13 // 10} of a.tsv, "
        f"{second * 4 // 10} of b.en and b.de"
    )
    for text in held_out:
        assert tokenizers.source.pieces(tokenizers.source.encode(text))[0] == "<unk>"
    assert len(TokenCache.open(Path("model/cache/valid"))) == 6


def test_too_few_to_hold_some_out():
    Path("one.tsv").write_text("a\tb\n" * 7)
    listener = Listener()
    assert train(config(DataConfig(train=("one.tsv",), held_out=50)), "again", reporter=listener).best_step is None
    assert listener.messages[0] == (
        "one.tsv has too few distinct sources to hold some out for validation: training on all of them."
    )
    assert "No validation corpus (data.valid): keeping the last model instead of the best." in listener.messages
    with pytest.raises(Killed):
        train(config(DataConfig(train=("one.tsv",), held_out=50), save_every=1), "part", reporter=Listener(2, killed))
    Path("one.tsv").unlink()
    train(config(DataConfig(train=("one.tsv",), held_out=50), save_every=1), "part", resume=True)
    assert contents("part")["model.safetensors"] == contents("again")["model.safetensors"]


def test_several_pairs_of_a_source_are_told():
    Path("refs.tsv").write_text("".join(f"a{n % 30}\tA{n}\n" for n in range(60)))
    listener = Listener()
    train(config(DataConfig(train=("refs.tsv",), held_out=3)), "model", reporter=listener)
    assert listener.messages[0] == (
        "Held out 6 pairs of 3 sources of refs.tsv for validation; to train on all, give a validation corpus or set "
        "data.held_out=0."
    )


def test_texts_of_a_language_model():
    lm = assign(config(DataConfig(train=("c.txt",), held_out=5)), "model.encoder.kind", "none")
    lm = assign(assign(lm, "model.attention", "none"), "model.decoder.kind", "luong")
    with pytest.raises(Killed):
        train(replace(lm, training=replace(lm.training, save_every=1)), "part", reporter=Listener(4, killed))
    train(replace(lm, training=replace(lm.training, save_every=1)), "part", resume=True)
    train(lm, "whole")
    assert contents("part")["model.safetensors"] == contents("whole")["model.safetensors"]
    assert contents("whole")["cache/held_out.jsonl"].count(b"\n") == 5
    assert len(TokenCache.open(Path("whole/cache/train"))) == 35


def test_a_lost_split_is_made_again():
    with pytest.raises(Killed):
        train(config(MIXED, save_every=1), "part", reporter=Listener(2, killed))
    Path("part/cache/held_out.jsonl").write_text("{")
    train(config(MIXED, save_every=1), "part", resume=True)
    train(config(MIXED), "whole")
    assert contents("part")["model.safetensors"] == contents("whole")["model.safetensors"]
    assert contents("part")["cache/held_out.jsonl"] == contents("whole")["cache/held_out.jsonl"]


@pytest.mark.parametrize(
    "other",
    [
        replace(MIXED, held_out=7),
        replace(MIXED, mixed=("a.tsv*1.4", "b.en,b.de*0.4")),
        replace(MIXED, mixed=("b.en,b.de*0.4", "a.tsv*1.3")),
        replace(MIXED, held_out=0),
    ],
)
def test_another_split_or_weight_cannot_be_gone_on_with(other):
    with pytest.raises(Killed):
        train(config(MIXED, save_every=1), "part", reporter=Listener(2, killed))
    with pytest.raises(TrainingError, match="cannot be resumed with other settings"):
        train(config(other, save_every=1), "part", resume=True)


def test_what_is_started_from_another_model_holds_out_a_part_of_its_own_corpus():
    from regard.training.finetune import configuration_of

    train(config(MIXED), "old")
    data = configuration_of(Path("old")).data
    assert (data.mixed, data.held_out) == ((), 0)


def test_pictures_are_neither_mixed_nor_held_out():
    from regard.presets.vision import any_preset

    preset = any_preset("captioner-small")
    for data, message in (
        (DataConfig(train=("scenes:20",), held_out=5), "data.held_out is for texts, and this model reads pictures "
                                                      "(model.image): leave it out."),
        (DataConfig(mixed=("scenes:20*2",)), "data.mixed is for texts, and this model reads pictures (model.image): "
                                             "give data.train."),
    ):  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            train(replace(preset, data=data), "model")
        assert str(caught.value) == message
