"""Clients of LibreTranslate, as they are on PyPI, speak to a server that really runs."""

import re
import shutil
import subprocess
import sys
import urllib.error

import deep_translator
import libretranslatepy
import pytest

import regard

SENTENCES = ["the red dress", "the old cat is red"]


@pytest.fixture(scope="module")
def served(folders, tmp_path_factory):
    """The address of a server of a translator from English to French, and what it translates."""
    folder = shutil.copytree(folders["translate"], tmp_path_factory.mktemp("clients") / "model")
    text = (folder / "config.toml").read_text(encoding="utf-8")
    text = text.replace("from_language = []", 'from_language = ["en"]').replace(
        'to_language = ""', 'to_language = "fr"'
    )
    (folder / "config.toml").write_text(text, encoding="utf-8")
    expected = [each.text for each in regard.load(folder).translate(SENTENCES)]
    command = [sys.executable, "-m", "regard", "serve", folder, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            said = [server.stdout.readline() for _ in range(2)]
            yield re.findall(r"http://127\.0\.0\.1:\d+", said[1])[0], dict(zip(SENTENCES, expected, strict=True))
        finally:
            server.terminate()


def test_libretranslatepy(served):
    address, expected = served
    client = libretranslatepy.LibreTranslateAPI(address, api_key="any")
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["fr"]},
        {"code": "fr", "name": "French", "targets": []},
    ]
    assert client.translate(SENTENCES[0], "en", "fr") == expected[SENTENCES[0]]
    assert client.translate("\n\n - ".join(SENTENCES), "auto", "fr") == "\n\n - ".join(expected.values())
    detected = client.detect("where is the old cat of my sister?")
    assert detected[0]["language"] == "en"
    assert detected[0]["confidence"] > 50
    with pytest.raises(urllib.error.HTTPError) as refused:
        client.translate("a", "en", "de")
    assert refused.value.code == 400
    assert refused.value.read() == '{"error":"de is not supported. Served pairs: en → fr."}'.encode()
    refused.value.close()


def test_deep_translator(served, tmp_path):
    address, expected = served
    client = deep_translator.LibreTranslator(source="en", target="fr", api_key="any", custom_url=f"{address}/")
    assert client.translate(SENTENCES[0]) == expected[SENTENCES[0]]
    assert client.translate_batch(SENTENCES) == [*expected.values()]
    file = tmp_path / "text.txt"
    file.write_text("\n".join(SENTENCES), encoding="utf-8")
    assert client.translate_file(file) == "\n".join(expected.values())
    wrong = deep_translator.LibreTranslator(source="de", target="fr", api_key="any", custom_url=f"{address}/")
    with pytest.raises(deep_translator.exceptions.ServerException):
        wrong.translate(SENTENCES[0])
