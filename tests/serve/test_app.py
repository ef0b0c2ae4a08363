"""The page, the documentation, the list of models, and the command that serves them."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from regard.errors import ConfigError, ModelError
from regard.serve.served_models import open_models
from regard.serve.server import open_socket


def test_models_are_listed_with_what_they_do(client, models):
    told = {model["name"]: model for model in client.get("/api/models").json()}
    assert [*told] == [model.name for model in models]
    assert {name: (model["task"], model["reads"], model["path"]) for name, model in told.items()} == {
        "translate": ("translate", "text", "/api/translate"),
        "continue": ("continue", "text", "/api/translate"),
        "caption": ("caption", "image", "/api/caption"),
        "classify": ("classify", "image", "/api/classify"),
        "answer": ("answer", "image", "/api/ask"),
        "detect": ("detect", "image", "/api/detect"),
        "classify-text": ("classify-text", "text", "/api/classify-text"),
        "classify-documents": ("classify-text", "text", "/api/classify-text"),
    }
    assert all(model["parameters"] > 0 for model in told.values())
    assert client.get("/health").json()["status"] == "ok"


def test_the_page_and_the_documentation_fetch_nothing_from_elsewhere(client):
    page = client.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy + client.get("/docs").headers["content-security-policy"]
    for path in ("/", "/page.css", "/page.js", "/docs"):
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.findall(r"https?://|//cdn", text), path
        for link in re.findall(r'(?:src|href)="([^":]+)"', text):
            assert client.get(link).status_code == 200, link


def test_the_page_knows_every_task_and_the_documentation_every_route(client):
    script = client.get("/page.js").text
    told = client.get("/api/models").json()
    for model in told:
        assert re.search(rf"""^  "?{model["task"]}"?: \{{""", script, re.MULTILINE)
    described = client.get("/openapi.json").json()["paths"]
    opened = {f"/api/translate/{what}" for what in ("stream", "edit", "step", "tree", "self-attention", "attribution")}
    server = {"/api/models", "/health", "/ready", "/metrics"}
    assert {model["path"] for model in told} | server | opened == {*described}
    for path in described.values():
        for route in path.values():
            assert route["description"]
            assert "HTTPValidationError" not in str(route)


def test_names_tell_models_apart(folders, tmp_path):
    copy = shutil.copytree(folders["translate"], tmp_path / "other" / "translate")
    names = [model.name for model in open_models([folders["translate"], copy, folders["continue"]])]
    own = folders["translate"].parent.name
    assert names == [f"{own}/translate", "other/translate", f"{own}/continue"]
    with pytest.raises(ConfigError, match="A model folder is given twice"):
        open_models([folders["translate"], folders["translate"]])
    with pytest.raises(ModelError, match="There is no model folder"):
        open_models([tmp_path / "nothing"])


def test_an_address_that_cannot_be_had_is_one_clear_error():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as told:
            open_socket("127.0.0.1", port)
    said = f"Cannot serve at 127.0.0.1, port {port}: address already in use. Give another --port; 0 picks a free"
    assert str(told.value) == f"{said} one."
    with pytest.raises(ConfigError, match="There is no host 'no such host'"):
        open_socket("no such host", 0)


def test_the_command_serves_until_it_is_told_to_stop(folders):
    program = [sys.executable, "-m", "regard"]
    command = [*program, "serve", folders["translate"], folders["caption"], "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            said = [server.stdout.readline() for _ in range(3)]
            assert said[:2] == [
                "translate  translates texts (/api/translate)\n",
                "caption    describes pictures (/api/caption)\n",
            ]
            (address,) = re.findall(r"^Serving at (http://127\.0\.0\.1:\d+) \(Ctrl-C to stop\)\.$", said[2], re.M)
            with urllib.request.urlopen(f"{address}/health", timeout=30) as answer:
                assert answer.status == 200
            server.send_signal(signal.SIGHUP)
            assert server.stdout.readline() == "Reloaded.\n"
            server.send_signal(signal.SIGTERM)
            _, err = server.communicate(timeout=30)
        finally:
            server.kill()
    assert (server.returncode, err) == (0, "")


def test_without_fastapi_the_command_says_what_to_install(folders):
    code = "import sys; sys.modules['fastapi'] = None\nfrom regard.cli.main import run; run()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "serve", str(folders["translate"])], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "regard: regard serve needs fastapi: pip install 'regard[serve]'.\n"
