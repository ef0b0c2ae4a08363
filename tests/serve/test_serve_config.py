"""The configuration file of a server: what it says, what goes before it, and what is refused."""

import pytest

from regard.config_io import describe
from regard.errors import ConfigError
from regard.serve.request_limits import Limits
from regard.serve.serve_config import ServeConfig, check_config, read_config


def read(tmp_path, text):
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return read_config(path)


def test_paths_are_relative_to_the_file_and_the_rest_keeps_its_defaults(tmp_path):
    found = read(tmp_path, 'models = ["a", "/b"]\napi_keys = "keys"\nport = 0\n[limits]\nrate = 5\nseconds = 3\n')
    assert found == ServeConfig(
        models=(str(tmp_path / "a"), "/b"), api_keys=str(tmp_path / "keys"), port=0, limits=Limits(rate=5, seconds=3.0)
    )
    check_config(found)
    assert read(tmp_path, "") == ServeConfig()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "Unknown setting 'prot'. Did you mean 'port'? There are: models, host"),
        ("[limits]\ncharakters = 1", "Unknown setting 'limits.charakters'. Did you mean 'limits.characters'?"),
        ("[limit]\nrate = 1", "Unknown setting 'limit.rate'. Did you mean 'limits.rate'?"),
        ("rate = 1", "Unknown setting 'rate'. Did you mean 'rate'?"),
        ("port = '1'", "port must be a whole number, got '1'."),
        ("limits = 1", "limits is a group of settings, got 1."),
        ("port = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_name(tmp_path, text, said):
    with pytest.raises(ConfigError) as told:
        read(tmp_path, text)
    assert str(told.value).startswith(str(tmp_path / "serve.toml"))
    assert said in str(told.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"port": 70_000}, "port is 70000; it must be at most 65535."),
        ({"workers": 0}, "workers is 0; it must be at least 1."),
        ({"log": "jsn"}, "log is 'jsn'; it must be text or json. Did you mean 'json'?"),
        ({"origins": ("*",)}, "any page could use the API"),
        ({"origins": ("https://a.org/b",)}, "an origin is like https://example.org, without a path"),
        ({"limits": Limits(seconds=float("nan"))}, "limits.seconds is nan; it must be a finite number above 0."),
        ({"limits": Limits(waiting=0)}, "limits.waiting is 0; it must be at least 1."),
        ({"models": ()}, "There is no model to serve"),
    ],
)
def test_what_is_out_of_range_is_told(change, said):
    with pytest.raises(ConfigError) as told:
        check_config(ServeConfig(**{"models": ("a",), **change}))
    assert said in str(told.value)


def test_every_setting_has_a_help():
    assert all(setting.help for setting in describe(ServeConfig))
