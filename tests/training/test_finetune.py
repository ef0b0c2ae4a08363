"""Starting from a model folder: its weights, its vocabulary, its settings, and nothing else of it."""

import math
import shutil
from dataclasses import replace

import pytest
from safetensors.torch import load_file
from tiny_run import MODEL, Killed, Listener, changed, contents, killed

from regard.config import Config, DataConfig, TokenizerConfig, TrainingConfig
from regard.config_io import override, read_toml
from regard.data.pair import Pair
from regard.data.tokenizers import Tokenizers
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError, RegardError, TrainingError
from regard.tasks.translation.task import Translation
from regard.training.finetune import configuration_of
from regard.training.train_model import train

WEIGHTS = "model.safetensors"


def write(path, words, count):
    """Texts to reverse."""
    texts = [" ".join(words[(i + j * j) % len(words)] for j in range(2 + i % 4)) for i in range(count)]
    path.write_text("".join(f"{text}\t{' '.join(reversed(text.split()))}\n" for text in texts))


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    """Two corpora, the second with words that the first has not, and a model of the first."""
    folder = tmp_path_factory.mktemp("finetune")
    write(folder / "old.tsv", "abcdefg", 30)
    write(folder / "new.tsv", "gfexyz", 17)
    config = Config(
        data=DataConfig((str(folder / "old.tsv"),), (str(folder / "old.tsv"),), max_length=20),
        tokenizer=TokenizerConfig(kind="words", vocabulary=30),
        model=replace(MODEL, dropout=0.0),
        training=TrainingConfig(epochs=2, batch_tokens=60, log_every=1, device="cpu", learning_rate=0.02),
    )
    train(config, folder / "old", reporter=Listener())
    return folder


@pytest.fixture
def config(material):
    chosen = configuration_of(material / "old")
    assert chosen.data == DataConfig(max_length=20)
    return override(chosen, [f"data.train={material / 'new.tsv'}", "training.epochs=1", "training.optimizer=sgd"])


def test_a_soft_look_can_become_a_hard_one_and_back(tmp_path, material, config):
    """Hard attention has a baseline that soft attention has not: it begins at zero, and is left behind."""
    hard = override(config, ["model.attention.focus=hard"])
    train(hard, tmp_path / "hard", reporter=Listener())
    baselines = {name: value for name, value in load_file(tmp_path / "hard" / WEIGHTS).items() if "baseline" in name}
    assert len(baselines) == 1
    assert all(value.abs().sum() > 0 for value in baselines.values())
    soft = override(configuration_of(tmp_path / "hard"), [f"data.train={material / 'new.tsv'}"])
    train(changed(override(soft, ["model.attention.focus=softmax"]), epochs=1), tmp_path / "soft", reporter=Listener())
    assert load_file(tmp_path / "soft" / WEIGHTS).keys() == load_file(material / "old" / WEIGHTS).keys()


def test_the_first_step_has_the_loss_of_the_old_model(tmp_path, material, config):
    listener = Listener()
    whole = changed(config, batch_tokens=4000, precision="float32")
    train(whole, tmp_path / "new", reporter=listener)
    pairs = [line.split("\t") for line in (material / "new.tsv").read_text().splitlines()]
    scores = Translator.load(material / "old").score([Pair(*pair) for pair in pairs])
    tokens = [score for sentence in scores for score in sentence]
    assert listener.records[0]["step"] == 1
    assert listener.records[0]["loss"] == pytest.approx(-math.fsum(tokens) / len(tokens), rel=1e-5)
    assert f"Taking weights and vocabulary from {material / 'old'}" in listener.messages


def test_the_vocabulary_is_kept_and_the_folder_is_whole(tmp_path, material, config):
    train(config, tmp_path / "new", reporter=Listener())
    old, new = (Tokenizers.load(folder) for folder in (material / "old", tmp_path / "new"))
    assert new.fingerprint == old.fingerprint
    saved = read_toml(tmp_path / "new" / "config.toml")
    assert saved.started_from == str(material / "old")
    assert saved.data.train == (str(material / "new.tsv"),)
    before, after = (load_file(folder / WEIGHTS) for folder in (material / "old", tmp_path / "new"))
    assert before.keys() == after.keys()
    assert any(not tensor.equal(after[name]) for name, tensor in before.items())
    assert Translator.load(tmp_path / "new").translate(["a b"])


def test_start_from_in_python(tmp_path, material, config):
    train(config, tmp_path / "a", reporter=Listener())
    plain = replace(config, started_from="")
    train(plain, tmp_path / "b", start_from=material / "old", reporter=Listener())
    assert (tmp_path / "a" / WEIGHTS).read_bytes() == (tmp_path / "b" / WEIGHTS).read_bytes()
    train(plain, tmp_path / "c", reporter=Listener())
    assert (tmp_path / "a" / WEIGHTS).read_bytes() != (tmp_path / "c" / WEIGHTS).read_bytes()


@pytest.mark.parametrize(("step", "reached"), [(1, (0, 0)), (4, (3, 2))])
def test_resuming_needs_no_old_folder(tmp_path, material, config, step, reached):
    """Killed before the first scheduled checkpoint, and after it."""
    config = changed(config, save_every=3, epochs=2, optimizer="adam", average="ema")
    old = shutil.copytree(material / "old", tmp_path / "copy")
    config = replace(config, started_from=str(old))
    train(config, tmp_path / "whole", reporter=Listener())
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener(step, killed))
    shutil.rmtree(old)
    listener = Listener()
    train(config, tmp_path / "part", resume=True, reporter=listener)
    assert f"Going on after step {reached[0]} (epoch {reached[1]})." in listener.messages
    part, whole = contents(tmp_path / "part"), contents(tmp_path / "whole")
    for both in (part, whole):
        both.pop("curve.svg")
    assert part == whole


def test_a_run_killed_before_it_began_starts_from_the_model_again(tmp_path, material, config, monkeypatch):
    real = Translation.open_data
    monkeypatch.setattr(Translation, "open_data", lambda *given: (real(*given), killed()))
    with pytest.raises(Killed):
        train(config, tmp_path / "part", reporter=Listener())
    monkeypatch.setattr(Translation, "open_data", real)
    train(config, tmp_path / "part", resume=True, reporter=Listener())
    train(config, tmp_path / "whole", reporter=Listener())
    assert (tmp_path / "part" / WEIGHTS).read_bytes() == (tmp_path / "whole" / WEIGHTS).read_bytes()


def refusal(kind, config, folder, **options):
    existed = folder.exists()
    with pytest.raises(RegardError) as error:
        train(config, folder, reporter=Listener(), **options)
    assert type(error.value) is kind
    assert folder.exists() == existed
    return str(error.value)


def test_settings_that_do_not_fit_the_weights(tmp_path, material, config):
    old = material / "old"
    other = override(config, ["model.dropout=0.3", "model.embedding=7", "model.decoder.width=9"])
    assert refusal(ConfigError, other, tmp_path / "new") == (
        f"The weights of {old} do not fit these settings, of which at least one changes their shapes:\n"
        "  model.embedding: 5 → 7\n  model.dropout: 0.0 → 0.3\n  model.decoder.width: 7 → 9\n"
        "Leave them as they were, or train anew without --from."
    )
    train(override(config, ["model.dropout=0.3", "training.steps=1"]), tmp_path / "dropped", reporter=Listener())


def test_settings_of_the_tokenizer(tmp_path, material, config):
    other = override(config, ["tokenizer.kind=characters", "tokenizer.joint=false"])
    assert refusal(ConfigError, other, tmp_path / "new") == (
        f"A run that starts from {material / 'old'} has its vocabulary, so these settings cannot change:\n"
        "  tokenizer.kind: words → characters\n  tokenizer.joint: True → False"
    )


def test_tags_that_the_model_does_not_know(tmp_path, material, config):
    other = replace(config, data=replace(config.data, train=(), tagged=(f"de={material / 'new.tsv'}",)))
    assert refusal(ConfigError, other, tmp_path / "new") == (
        f"data.tagged has the tag 'de', but the vocabulary of {material / 'old'} knows no tags."
    )


def test_folders_that_cannot_be_started_from(tmp_path, material, config):
    missing = tmp_path / "missing"
    assert refusal(ModelError, config, tmp_path / "new", start_from=missing) == (
        f"There is no model folder {missing}: train a model with regard train … --out {missing}."
    )
    old = shutil.copytree(material / "old", tmp_path / "old")
    content = (old / WEIGHTS).read_bytes()
    (old / WEIGHTS).unlink()
    assert refusal(ModelError, config, tmp_path / "new", start_from=old) == (
        f"{old / WEIGHTS} cannot be read: No such file or directory."
    )
    (old / WEIGHTS).write_bytes(content[:300])
    assert refusal(ModelError, config, tmp_path / "new", start_from=old).startswith(f"{old / WEIGHTS} is damaged: ")
    (old / "tokenizer.json").unlink()
    assert refusal(ModelError, config, tmp_path / "new", start_from=old) == (
        f"{old / 'tokenizer.json'} is missing: {old} is not a model folder, or is incomplete."
    )


def test_a_damaged_start_leaves_the_run_it_was_to_replace(tmp_path, material, config):
    train(config, tmp_path / "run", reporter=Listener())
    before = contents(tmp_path / "run")
    old = shutil.copytree(material / "old", tmp_path / "old")
    (old / WEIGHTS).unlink()
    refusal(ModelError, config, tmp_path / "run", start_from=old, overwrite=True)
    assert contents(tmp_path / "run") == before


def test_a_model_does_not_replace_itself(tmp_path, material, config):
    old = shutil.copytree(material / "old", tmp_path / "old")
    before = contents(old)
    assert refusal(TrainingError, config, old, start_from=old, overwrite=True) == (
        f"{old} cannot start from itself: train into another folder, or go on with --resume."
    )
    assert refusal(TrainingError, config, old, start_from=old, resume=True) == (
        "--from starts a new run and --resume goes on with one: give one of them."
    )
    assert contents(old) == before
