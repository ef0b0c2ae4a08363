"""The demo, with a training of a moment instead of minutes."""

import shutil

import pytest

from regard.errors import TrainingError
from regard.tasks.translation import demo
from regard.viz.trace import AttentionTrace

TINY = (
    "data.train=phrasebook:60",
    "data.valid=phrasebook:5",
    "model.embedding=11",
    "model.encoder.width=5",
    "model.decoder.width=7",
    "model.attention.width=3",
    "training.steps=3",
    "decoding.max_length=7",
)


@pytest.fixture
def shown(monkeypatch):
    monkeypatch.setattr(demo, "SHORT", TINY)
    monkeypatch.setattr(demo, "TEST", "phrasebook:5")

    def run(folder):
        lines = []
        demo.show(folder, long=False, width=80, color=False, say=lines.append)
        return "\n".join(lines)

    return run


@pytest.fixture
def said(shown, once, tmp_path, monkeypatch):
    """A first run, and another in the same place; neither draws."""
    monkeypatch.setattr(AttentionTrace, "save", lambda *_, **__: [])
    shutil.copytree(once("demo", shown), tmp_path / "demo")
    return lambda: shown(tmp_path / "demo")


def test_it_trains_scores_translates_draws_and_says_what_next(shown, tmp_path):
    text = shown(tmp_path / "demo")
    assert "Training a small translator" in text
    assert "BLEU" in text
    assert "AER" in text
    assert "the red dress" in text
    assert "Try next" in text
    pictures = sorted(path.name for path in (tmp_path / "demo" / "pictures").iterdir())
    assert pictures == sorted(f"{n}{suffix}" for n in range(1, 7) for suffix in (".png", ".svg"))


def test_a_second_run_uses_what_is_there(said, tmp_path):
    weights = (tmp_path / "demo" / "model" / "model.safetensors").stat()
    assert "Using the trained model" in said()
    assert (tmp_path / "demo" / "model" / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns


def test_other_settings_train_anew(said, monkeypatch):
    monkeypatch.setattr(demo, "SHORT", (*TINY, "seed=2"))
    assert "Training a small translator" in said()


def test_a_model_without_its_checkpoints_is_used_as_it_is(said, tmp_path):
    shutil.rmtree(tmp_path / "demo" / "model" / "state")
    assert "Using the trained model" in said()


def test_another_model_is_not_overwritten(said, tmp_path):
    config = tmp_path / "demo" / "model" / "config.toml"
    config.write_text(config.read_text().replace("phrasebook:60", "mine.tsv"))
    with pytest.raises(TrainingError, match="is not the demo's"):
        said()


def test_the_demo_has_a_sentence_of_over_forty_words():
    assert max(len(pair.source.split()) for pair in demo.demo_pairs()) > 40


def test_both_configurations_are_the_preset_with_changes():
    for long in (False, True):
        config = demo.configuration(long)
        assert config.preset == "bahdanau2014-small"
        assert config.model.attention is not None
