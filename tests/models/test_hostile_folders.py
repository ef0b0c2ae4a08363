"""Folders made to harm: one clear error, no code run, nothing read outside, little memory, and an end."""

import shutil

import pytest

from hostile import CASES, SPARE, attempt, setting
from hostile_fuzzing import sound_folder, survive
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.presets import preset

AS_COMMANDS = {*list(CASES)[::12]}
"""These are given to `regard translate` itself; a command line takes ten times as long as the rest."""


@pytest.fixture(scope="session")
def sound(make_folder, tmp_path_factory):
    """A small translator with subwords, as training leaves it."""
    return sound_folder(make_folder, tmp_path_factory.mktemp("sound") / "model")


@pytest.fixture
def places(sound, tmp_path):
    """A copy of the folder, and one beside it that holds a secret."""
    folder, outside = tmp_path / "model", tmp_path / "outside"
    shutil.copytree(sound, folder)
    outside.mkdir()
    return folder, outside


def test_the_watched_command_translates_with_a_sound_folder(places):
    folder, _ = places
    found = attempt(folder, "translate", str(folder))
    assert (found.status, found.err, found.opened, found.ran) == (0, "", (), ())


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused(name, places):
    folder, outside = places
    CASES[name](folder, outside)
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file() and path.stat().st_blocks)
    found = attempt(folder, *(("translate", str(folder)) if name in AS_COMMANDS else ()))
    assert found.status == 2, found
    assert found.err.startswith("regard: ")
    assert found.err.count("\n") == 1
    assert len(found.err) < 1200
    assert not found.ran
    assert not found.opened
    assert not (outside / "ran").exists()
    assert found.memory < 2 * min(size, 1 << 28) + SPARE, f"{found.memory:,} for {size:,}"


def test_mutated_folders_translate_or_are_refused(sound, tmp_path):
    """A hundred thousand of them: bench/hostile_folders.py."""
    found, wrong = survive(sound, range(150), tmp_path / "mutated")
    assert not wrong
    assert found.total() == 150
    assert min(found.values()) > 5, found


@pytest.mark.parametrize("name", ["gnmt2016-small", "lm-lstm-small", "lm-attention-small", "transformer2017-small"])
def test_a_billion_layers_are_refused_in_any_system(name, make_folder, tmp_path):
    words = Words(["a", "b", "c"])
    narrow = [f"model.{part}=8" for part in ("embedding", "encoder.width", "decoder.width", "decoder.readout_width")]
    folder = make_folder(tmp_path / "model", override(preset(name), narrow), Tokenizers(words, words))
    setting(folder, "model.decoder.layers", "1_000_000_000")
    found = attempt(folder)
    assert found.status == 2, found
    assert (
        found.err == f"regard: {folder}/config.toml describes a larger model than model.safetensors has weights for.\n"
    )
    assert found.memory < SPARE


COMMANDS = {
    "evaluate": ("evaluate", "{model}", "--data", "dates:20"),
    "attend": ("attend", "{model}", "s1 s2"),
    "align": ("align", "{model}", "--data", "dates:20"),
    "export": ("export", "{model}", "{model}-exported"),
    "serve": ("serve", "{model}", "--port", "0"),
    "train --from": ("train", "--from", "{model}", "--out", "{model}-tuned", "--data", "dates:20", "--steps", "1"),
    "train --config": ("train", "--config", "{model}/config.toml", "--out", "{model}-new", "--data", "dates:20"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_them(name, places):
    folder, outside = places
    config_alone = name == "train --config"
    CASES["a configuration with nested arrays" if config_alone else "weights as torch.save writes them, with code"](
        folder, outside
    )
    found = attempt(folder, *(part.format(model=folder) for part in COMMANDS[name]))
    assert found.status == 2, found
    assert "Traceback" not in found.err
    assert not found.ran
    assert not (outside / "ran").exists()
