"""What cannot be exported, or not there, is refused with one message, and nothing is left behind."""

import errno
import sys

import numpy as np
import pytest
import torch

from regard.cli.export import export as export_command
from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig
from regard.data.tokenizers import Tokenizers, Words
from regard.errors import ConfigError, ModelError


def refused(error, call, *args, **settings):
    with pytest.raises(error) as raised:
        call(*args, **settings)
    return str(raised.value)


def test_what_is_no_model_folder(export, tmp_path):
    there = f"There is no model folder {tmp_path / 'm'}: train a model with regard train … --out {tmp_path / 'm'}."
    assert refused(ModelError, export, tmp_path / "m", tmp_path / "out") == there
    assert (
        refused(ModelError, export, tmp_path, tmp_path / "out")
        == f"{tmp_path} is not a model folder: it has no config.toml."
    )
    assert not (tmp_path / "out").exists()


def test_a_place_that_is_taken(folders, export, tmp_path):
    model, file, other, old = folders["classify"], tmp_path / "file", tmp_path / "other", tmp_path / "old"
    file.write_text("")
    for folder, name in ((other, "thesis.txt"), (old, "export.json")):
        folder.mkdir()
        (folder / name).write_text("mine")
    assert refused(ConfigError, export, model, file) == f"{file} is a file; an export is a folder: give another name."
    said = f"{other} exists and is not an export: give the name of a new folder."
    assert refused(ConfigError, export, model, other, overwrite=True) == said
    said = f"{old} already holds an export. Replace it with --overwrite, or give another name."
    assert refused(ConfigError, export, model, old) == said
    assert (other / "thesis.txt").read_text() == (old / "export.json").read_text() == "mine"


def test_an_old_export_is_replaced_only_by_one_that_is_right(folders, export, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "export.json").write_text("old")
    monkeypatch.setattr("regard.export.verification.MOST", -1.0)
    said = refused(ModelError, export, folders["classify"], out, overwrite=True)
    assert said.startswith("The export is wrong: onnxruntime and torch differ by ")
    assert said.endswith(" Nothing was written.")
    assert (out / "export.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_full_disk_is_told_with_the_name_of_what_was_written(folders, export, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("regard.export.export_model._save", full)
    with pytest.raises(OSError, match="No space left") as raised:
        export(folders["classify"], tmp_path / "out")
    assert raised.value.filename == str(tmp_path / "out")
    assert not [*tmp_path.iterdir()]


def test_a_loop_over_the_source(make_folder, export, tmp_path):
    looks = AttentionConfig(width=3)
    model = ModelConfig(
        embedding=5,
        encoder=EncoderConfig("lstmn", width=7),
        decoder=DecoderConfig("lstmn", width=7, readout="tanh", readout_width=5),
        attention=looks,
        self_attention=looks,
    )
    words = Words(["a", "b"])
    folder = make_folder(tmp_path / "m", Config(model=model), Tokenizers(words, words))
    said = (
        "This model cannot be exported: its encoder (model.encoder.kind=lstmn) attends to all previous positions in a "
        "loop as long as the source, and torch's exporter unrolls loops to a fixed length."
    )
    assert refused(ModelError, export, folder, tmp_path / "out") == said


@pytest.mark.parametrize("name", ["onnx", "onnxscript", "onnxruntime"])
def test_a_package_that_is_missing(folders, tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    said = f"regard export needs {name}: pip install 'regard[export]'."
    assert refused(ConfigError, export_command, folders["classify"], tmp_path / "out") == said


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.6])
def test_a_number_that_is_wrong_or_none_is_far_off(wrong):
    pytest.importorskip("onnxruntime")
    from regard.export.verification import MOST, _difference

    right = torch.tensor([0.5, -np.inf, 9.0])
    assert _difference(right.numpy(), right) == 0.0
    for place in (0, 1):
        found = right.numpy().copy()
        found[place] = wrong
        assert max(0.0, _difference(found, right)) > MOST
