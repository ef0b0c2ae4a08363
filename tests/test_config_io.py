"""Laws of reading, checking, overriding and writing settings, and the exact words of what is refused."""

import dataclasses
import tomllib
import types
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import AttentionConfig, Config, ImageConfig, ModelConfig, TrainingConfig
from regard.config_io import assign, describe, differences, from_dict, override, read_toml, to_dict, to_toml, toml_value
from regard.errors import ConfigError
from regard.presets import preset, presets

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=7)
VALUES = {str: TEXTS, int: st.integers(-(1 << 62), 1 << 62), float: st.floats(allow_nan=False), bool: st.booleans()}
law = settings(deadline=None, max_examples=40)

WHOLE = Config(model=ModelConfig(image=ImageConfig()))
"""The defaults, with all groups that may be left out."""
GROUPS = ("model.attention", "model.image")
"""Groups that may be left out: these are described themselves."""


def drawn(kind=Config):
    """Draw the settings of any configuration at all, whether or not it makes sense; `build` makes it."""
    hints = typing.get_type_hints(kind)
    return st.fixed_dictionaries({name: values(hint) for name, hint in hints.items()})


def values(hint):
    if isinstance(hint, types.UnionType):
        return st.one_of(*(st.none() if option is type(None) else drawn(option) for option in typing.get_args(hint)))
    if dataclasses.is_dataclass(hint):
        return drawn(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(TEXTS, max_size=3).map(tuple)
    return VALUES[hint]


def build(settings, kind=Config):
    """Make a configuration (not within a strategy: the checks of annotations draw random numbers of their own)."""
    made = {}
    for name, hint in typing.get_type_hints(kind).items():
        group = next((option for option in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(option)), None)
        inner = group is not None and settings[name] is not None
        made[name] = build(settings[name], group) if inner else settings[name]
    return kind(**made)


@law
@given(drawn())
def test_to_dict_and_back(values):
    config = build(values)
    assert from_dict(Config, to_dict(config)) == config


@law
@given(drawn())
def test_to_toml_and_back(values):
    config = build(values)
    assert from_dict(Config, tomllib.loads(to_toml(config))) == config


@pytest.mark.parametrize("name", [*presets])
def test_every_preset_survives_a_file(name, tmp_path):
    path = tmp_path / "config.toml"
    path.write_text(to_toml(preset(name)), encoding="utf-8")
    assert read_toml(path) == preset(name)


@law
@given(drawn())
def test_nothing_given_is_the_default_and_a_base_keeps_what_is_not_given(values):
    config = build(values)
    assert from_dict(Config, {}) == Config()
    assert from_dict(Config, {}, base=config) == config
    assert override(config, []) == config


@law
@given(drawn(), drawn())
def test_overriding_every_setting_gives_the_other_configuration(one, other):
    """Any configuration can be made of any other, one `--set` at a time, as `regard list settings` names them."""
    made, other = build(one), build(other)
    for name, value in flat(to_dict(other)):
        made = override(made, [f"{name}={toml_value(value)}"])
    assert made == other


@law
@given(drawn(), drawn())
def test_differences_are_exactly_what_differs(one, other):
    one, other = build(one), build(other)
    assert differences(one, one) == []
    named = [line.partition(":")[0] for line in differences(one, other)]
    before, after = dict(flat(to_dict(one))), dict(flat(to_dict(other)))
    assert sorted(named) == sorted(name for name in before | after if before.get(name) != after.get(name))


def flat(table, path=""):
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def test_differences_read_well():
    new = override(Config(), ["training.batch_tokens=2000", "model.attention=none", "tokenizer.joint=false"])
    first, score, *inner, batch, last = differences(Config(), new)
    assert first == "tokenizer.joint: True → False"
    assert score == "model.attention.score: additive → (absent)"
    assert all(line.startswith("model.attention.") and line.endswith(" → (absent)") for line in inner)
    assert (batch, last) == ("training.batch_tokens: 4000 → 2000", "model.attention: (absent) → none")


@pytest.mark.parametrize(
    ("assignment", "read", "value"),
    [
        ("training.epochs=3", lambda config: config.training.epochs, 3),
        (" training.epochs = 3 ", lambda config: config.training.epochs, 3),
        ("model.dropout=0", lambda config: config.model.dropout, 0.0),
        ("training.learning_rate=1e-4", lambda config: config.training.learning_rate, 1e-4),
        ("tokenizer.joint=false", lambda config: config.tokenizer.joint, False),
        ("tokenizer.kind=words", lambda config: config.tokenizer.kind, "words"),
        ('tokenizer.kind="words"', lambda config: config.tokenizer.kind, "words"),
        ("data.train=a.tsv", lambda config: config.data.train, ("a.tsv",)),
        ("data.train=a=b.tsv", lambda config: config.data.train, ("a=b.tsv",)),
        ('data.train=["a.en", "a.de"]', lambda config: config.data.train, ("a.en", "a.de")),
        ("data.train=[]", lambda config: config.data.train, ()),
        ("model.attention=none", lambda config: config.model.attention, None),
        ("model.attention.score=dot", lambda config: config.model.attention.score, "dot"),
        ("preset=", lambda config: config.preset, ""),
        ("model.attention.pruned=0.10", lambda config: config.model.attention.pruned, ("0.10",)),
        ("model.attention.pruned=0.1,0.2", lambda config: config.model.attention.pruned, ("0.1,0.2",)),
    ],
)
def test_what_an_assignment_means(assignment, read, value):
    found = read(override(Config(), [assignment]))
    assert found == value
    assert type(found) is type(value)


def test_the_last_assignment_wins():
    assert override(Config(), ["seed=2", "seed=3"]).seed == 3


def test_attention_can_be_taken_away_and_given_back():
    wide = override(Config(), ["model.attention.width=99"])
    without = override(wide, ["model.attention=none"])
    assert without.model.attention is None
    assert override(without, ["model.attention.score=dot"]).model.attention == AttentionConfig(score="dot")
    assert override(wide, ["model.attention.score=dot"]).model.attention == AttentionConfig(score="dot", width=99)


def test_a_group_that_was_taken_away_is_not_given_back_in_the_same_breath():
    away, back = "model.attention=none", "model.attention.score=dot"
    with pytest.raises(ConfigError) as caught:
        override(Config(), [away, "seed=3", back])
    assert str(caught.value) == f"{away} and {back} contradict each other: leave one of them out."
    assert override(Config(), [back, away]).model.attention is None
    given = override(Config(), [away, 'model.attention={score="dot"}', "model.attention.width=3"])
    assert given.model.attention == AttentionConfig(score="dot", width=3)


def test_an_override_changes_nothing_else():
    changed = override(preset("luong2015"), ["model.encoder.layers=3"])
    assert differences(preset("luong2015"), changed) == ["model.encoder.layers: 4 → 3"]


SHOWS_ALL = "(regard list settings shows all)"


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.epochs", "'training.epochs' sets nothing: write NAME=VALUE, such as training.epochs=3."),
        ("=3", "'=3' sets nothing: write NAME=VALUE, such as training.epochs=3."),
        ("", "'' sets nothing: write NAME=VALUE, such as training.epochs=3."),
        ("model.droput=0.1", f"Unknown setting 'model.droput'. Did you mean 'model.dropout'? {SHOWS_ALL}"),
        ("trainning.epochs=1", f"Unknown setting 'trainning'. Did you mean 'training'? {SHOWS_ALL}"),
        (
            "model.encoder.wdth=1",
            f"Unknown setting 'model.encoder.wdth'. Did you mean 'model.encoder.width'? {SHOWS_ALL}",
        ),
        ("training.seed=-1", f"Unknown setting 'training.seed'. Did you mean 'seed'? {SHOWS_ALL}"),
        (
            "model.decoder.dropout=0",
            f"Unknown setting 'model.decoder.dropout'. Did you mean 'model.dropout'? {SHOWS_ALL}",
        ),
        ("model.atention.score=dot", f"Unknown setting 'model.atention'. Did you mean 'model.attention'? {SHOWS_ALL}"),
        ("decoder.width=3", f"Unknown setting 'decoder'. Did you mean 'model.decoder'? {SHOWS_ALL}"),
        ("epochs=3", f"Unknown setting 'epochs'. Did you mean 'training.epochs'? {SHOWS_ALL}"),
        ("model.beam=3", f"Unknown setting 'model.beam'. Did you mean 'decoding.beam'? {SHOWS_ALL}"),
        ("model.xyzzy=3", f"Unknown setting 'model.xyzzy'. {SHOWS_ALL}"),
        ("training.epochs=three", "training.epochs must be a whole number, got 'three'."),
        ("training.epochs=2.5", "training.epochs must be a whole number, got 2.5."),
        ("training.epochs=true", "training.epochs must be a whole number, got True."),
        ("model.dropout=high", "model.dropout must be a number, got 'high'."),
        ("model.dropout=true", "model.dropout must be a number, got True."),
        ("tokenizer.joint=1", "tokenizer.joint must be true or false, got 1."),
        ("tokenizer.joint=True", "tokenizer.joint must be true or false, got 'True'."),
        ("tokenizer.kind=3", "tokenizer.kind must be a text, got 3."),
        ("data.train=[3]", "data.train must be a list of texts, got [3]."),
        ("training=3", "training is a group of settings, got 3."),
        ("model.encoder=none", "model.encoder is a group of settings, got 'none'."),
        ("model.attention=off", "model.attention is a group of settings or 'none', got 'off'."),
        ("training.epochs.x=3", "training.epochs is one setting, not a group: it has no 'x'."),
        ("tokenizer.kind=\udcff", "tokenizer.kind is not valid UTF-8: '\\udcff'."),
        ("data.train=\udcff", "data.train is not valid UTF-8: '\\udcff'."),
    ],
)
def test_what_is_refused_and_how(assignment, message):
    with pytest.raises(ConfigError) as caught:
        override(Config(), [assignment])
    assert str(caught.value) == message


def test_assigning_a_value_is_overriding_with_its_text():
    assert assign(Config(), "training.epochs", 3) == override(Config(), ["training.epochs=3"])
    assert assign(Config(), "data.train", ["a", "b"]).data.train == ("a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"model = [", "{path} is not valid TOML: Invalid value (at end of document)."),
        (
            b"[model]\ndroput = 0.1\n",
            f"{{path}}: Unknown setting 'model.droput'. Did you mean 'model.dropout'? {SHOWS_ALL}",
        ),
        (b"seed = 'x'\n", "{path}: seed must be a whole number, got 'x'."),
        (b"model = 3\n", "{path}: model is a group of settings, got 3."),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, content, message):
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_toml(path)
    assert str(caught.value) == message.format(path=path)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin1.toml").write_bytes(b"preset = '\xe9'\n")
    for name, words in (
        ("nothing.toml", "cannot be read: No such file or directory."),
        (".", "cannot be read: Is a directory."),
        ("latin1.toml", "is not valid TOML: 'utf-8' codec can't decode"),
    ):
        with pytest.raises(ConfigError) as caught:
            read_toml(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name} {words}")


def test_a_file_may_name_little_and_the_rest_is_the_default(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[training]\nepochs = 7\n[model]\nattention = 'none'\n")
    assert read_toml(path) == Config(training=TrainingConfig(epochs=7), model=ModelConfig(attention=None))


def test_every_setting_is_described():
    """Everything that a file holds has a help, a type and its default; nothing else is described."""
    described = {setting.name: setting for setting in describe()}
    leaves = dict(flat(to_dict(WHOLE)))
    assert {*described} == {*leaves, *GROUPS}
    for name, value in leaves.items():
        setting = described[name]
        assert setting.help.strip(), name
        assert setting.help.endswith((".", ".)")), name
        assert setting.type in ("a text", "a whole number", "a number", "true or false", "a list of texts")
        assert setting.default == (tuple(value) if isinstance(value, list) else value)


def test_every_described_setting_can_be_set_to_its_default():
    for setting in describe():
        if setting.name not in GROUPS:
            default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
            assert override(WHOLE, [f"{setting.name}={toml_value(default)}"]) == WHOLE


def test_configurations_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 3
