"""Language codes are checked where they are given, and say which pairs a model translates."""

import pytest

from regard.config import Config, DataConfig
from regard.config_io import from_dict, to_dict
from regard.data.languages import canonical, check_code, check_languages, language_pairs
from regard.errors import ConfigError
from regard.presets import preset
from regard.presets.vision import visions
from regard.training.setting_checks import check
from regard.training.training_request import TrainingRequest, resolve


@pytest.mark.parametrize(
    ("code", "right"),
    [
        ("en", "en"),
        ("FR", "fr"),
        ("pt-br", "pt-BR"),
        ("ZH-hant-tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("gsw", "gsw"),
    ],
)
def test_codes_are_written_as_recommended(code, right):
    assert canonical(code) == right
    assert canonical(right) == right


@pytest.mark.parametrize("code", ["", "e", "auto", "english", "en_US", "en-", "-en", "en us", "e1", "en-US-x", "日本"])
def test_what_is_no_code_is_refused(code):
    assert canonical(code) is None
    with pytest.raises(ConfigError, match=r"--to-language: .* is not a language code such as en, pt-BR or zh-Hant"):
        check_code(code, "--to-language")


def test_the_near_code_is_suggested():
    with pytest.raises(ConfigError, match=r"Did you mean 'pt-BR'\?$"):
        check_code("pt_br", "--to-language")


def test_pairs_of_models():
    data = DataConfig(from_language=("en", "de"), to_language="FR")
    assert language_pairs(data, ()) == [("en", "fr", None), ("de", "fr", None)]
    tagged = DataConfig(from_language=("en",), tagged=("fr=a", "pt-br=b", "formal=c", "en=d"))
    tags = ("fr", "pt-br", "formal", "en")
    assert language_pairs(tagged, tags) == [("en", "fr", "fr"), ("en", "pt-BR", "pt-br")]
    assert language_pairs(DataConfig(), ()) == language_pairs(DataConfig(from_language=("en",)), ()) == []
    assert language_pairs(DataConfig(to_language="fr"), ()) == []


def test_a_language_to_write_beside_tags_is_refused():
    with pytest.raises(ConfigError, match=r"data.to_language is fr, but the tags of data.tagged say what is written"):
        check_languages(DataConfig(tagged=("fr=a.tsv",), to_language="fr"))


def test_options_become_settings_and_outlive_the_file(tmp_path):
    asked = TrainingRequest(
        out=tmp_path / "model", data=["copy:50"], preset="bahdanau2014-small", from_language=["EN"], to_language="pt-br"
    )
    data = resolve(asked).config.data
    assert (data.from_language, data.to_language) == (("en",), "pt-BR")
    assert from_dict(Config, to_dict(Config(data=data))).data == data


def test_only_translators_have_languages():
    config = visions["xu2015-soft-small"]()
    with pytest.raises(ConfigError, match="say what a translator reads and writes, and this is a captioner"):
        check(from_dict(Config, {"data": {"train": ["scenes:10"], "to_language": "en"}}, base=config))
    check(from_dict(Config, {"data": {"train": ["copy:50"], "to_language": "en"}}, base=preset("bahdanau2014-small")))
