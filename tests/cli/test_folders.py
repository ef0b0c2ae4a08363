"""Model folders that are missing, incomplete or damaged: one clear message from every command, and no traceback."""

import shutil

import pytest

from regard.config_io import to_toml


def remove(name):
    return lambda model: (model / name).unlink()


def truncate(name, kept):
    def damage(model):
        content = (model / name).read_bytes()
        (model / name).unlink()  # it may be linked with a checkpoint's
        (model / name).write_bytes(content[:kept])

    return damage


def write(name, content):
    def damage(model):
        (model / name).unlink()
        (model / name).write_bytes(content)

    return damage


def replace(old, new):
    def damage(model):
        content = (model / "config.toml").read_text(encoding="utf-8")
        assert old in content
        (model / "config.toml").write_text(content.replace(old, new), encoding="utf-8")

    return damage


def folder(name):
    def damage(model):
        (model / name).unlink()
        (model / name).mkdir()

    return damage


DAMAGES = {
    "everything": (shutil.rmtree, "There is no model folder {model}: train a model with regard train … --out {model}."),
    "no settings": (remove("config.toml"), "{model} is not a model folder: it has no config.toml."),
    "settings in a folder": (folder("config.toml"), "{model} is not a model folder: it has no config.toml."),
    "broken settings": (
        write("config.toml", b"model = ["),
        "{model}/config.toml is not valid TOML: Invalid value (at end of document).",
    ),
    "empty settings": (
        truncate("config.toml", 0),
        "{model}/config.toml is empty. Copy the model folder again, or train the model again.",
    ),
    "settings of a later release": (
        replace("dropout =", "droppout ="),
        "{model}/config.toml: Unknown setting 'model.droppout'. Did you mean 'model.dropout'? "
        "(regard list settings shows all)",
    ),
    "settings without sense": (
        replace("dropout = 0.3", "dropout = 3"),
        "model.dropout must be at least 0 and below 1, got 3.0.",
    ),
    "another width": (
        replace("embedding = 5", "embedding = 6"),
        "{model}/model.safetensors holds the weights of another model: ",
    ),
    "no weights": (remove("model.safetensors"), "{model}/model.safetensors cannot be read: No such file or directory."),
    "weights in a folder": (folder("model.safetensors"), "{model}/model.safetensors cannot be read: Is a directory."),
    "empty weights": (truncate("model.safetensors", 0), "{model}/model.safetensors is damaged: "),
    "cut header": (truncate("model.safetensors", 100), "{model}/model.safetensors is damaged: "),
    "cut weights": (truncate("model.safetensors", -1), "{model}/model.safetensors is damaged: "),
    "other bytes": (write("model.safetensors", b"\xff" * 1000), "{model}/model.safetensors is damaged: "),
    "no tokenizer": (
        remove("tokenizer.json"),
        "{model}/tokenizer.json is missing: {model} is not a model folder, or is incomplete.",
    ),
    "broken tokenizer": (
        write("tokenizer.json", b"{"),
        "{model}/tokenizer.json is damaged. Copy the model folder again, or train anew.",
    ),
    "no vocabulary": (
        remove("source.vocabulary.json"),
        "Cannot read {model}/source.vocabulary.json, which tokenizer.json names: no such file or directory.",
    ),
    "another vocabulary": (
        write("target.vocabulary.json", b"[]"),
        "{model}/target.vocabulary.json is not the file that tokenizer.json was written with. "
        "Copy the model folder again.",
    ),
}


@pytest.mark.parametrize("name", [*DAMAGES])
def test_a_damaged_folder_is_told_in_one_message(regard, refused, model, corpus, name):
    damage, message = DAMAGES[name]
    damage(model)
    told = refused("attend", model, "the dog")
    expected = message.format(model=model)
    assert told == expected if expected.endswith((".", ")")) else told.startswith(expected)
    assert "\n" not in told
    assert refused("translate", model, stdin=b"the dog\n") == told
    assert refused("evaluate", model, "--data", corpus / "pairs.tsv") == told


def test_not_a_folder_at_all(refused, here):
    (here / "file").write_text("mine")
    said = "file is a file, not a model folder: give a folder made by regard train --out."
    assert refused("attend", "file", "a text") == said
    said = "file is a file: give a model folder, and the texts on stdin (regard translate MODEL < file)."
    assert refused("translate", "file") == said
    assert refused("translate", ".") == ". is not a model folder: it has no config.toml."


def test_what_is_not_needed_may_go(regard, model, trained):
    """For translating: a folder of the configuration, the weights and the tokenizer can be shipped."""
    for name in ("state", "cache"):
        shutil.rmtree(model / name)
    (model / "metrics.jsonl").unlink()
    assert regard("translate", model, stdin=b"the dog\n").out == regard("translate", trained, stdin=b"the dog\n").out


def test_a_resume_without_its_checkpoints_is_refused_and_the_model_kept(refused, model):
    shutil.rmtree(model / "state")
    before = (model / "model.safetensors").read_bytes()
    assert "the checkpoints in its state/ are gone" in refused("train", "--resume", "--out", model)
    assert (model / "model.safetensors").read_bytes() == before


def test_a_resume_with_broken_settings_names_the_file(refused, model):
    (model / "config.toml").write_text("model = [")
    assert refused("train", "--resume", "--out", model) == (
        f"{model}/config.toml is not valid TOML: Invalid value (at end of document)."
    )


def test_the_folder_holds_what_it_was_made_with(trained):
    from regard.config_io import read_toml

    content = (trained / "config.toml").read_text(encoding="utf-8")
    assert to_toml(read_toml(trained / "config.toml")) == content
