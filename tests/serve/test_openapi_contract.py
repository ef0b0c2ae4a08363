"""The OpenAPI description and the server agree: requests that fit it are accepted, answers are as it says."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from regard.config_io import override, read_toml, to_toml
from regard.models.model_folder import CONFIG
from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.serve.served_models import open_models
from regard.viz.png import png

FEW, MANY = 6, 1_000
PICTURES = [png(np.random.default_rng(size).integers(0, 256, (size, size + 3, 3), np.uint8)) for size in (1, 7, 40)]
QUESTION = "how many red cats are there"
FILE = b"the red dress.\n\n  - a cat\n"
SMALL = Limits(characters=40, texts=5, weights=10**9)
OTHER_METHOD = 405
"""A path is described, another method of it is not."""
ANSWERED = (200, 404, OTHER_METHOD)
REFUSED = (400, 404, OTHER_METHOD, 413, 415, 422)

OPENED = [f"POST /api/translate/{what}" for what in ("attribution", "edit", "self-attention", "step", "tree")]

schemathesis.openapi.media_type("image/*", st.sampled_from(PICTURES))


@pytest.fixture(scope="module")
def knowing(folders, tmp_path_factory):
    """A translator of English that says so: a server of it also has LibreTranslate's paths."""
    folder = Path(shutil.copytree(folders["translate"], tmp_path_factory.mktemp("knowing") / "english"))
    config = override(read_toml(folder / CONFIG), ["data.from_language=en", "data.to_language=fr"])
    (folder / CONFIG).write_text(to_toml(config))
    return folder


@pytest.fixture(scope="module")
def described(folders, knowing):
    """A server with limits that are soon reached, and its description."""
    app = make_app(open_models([*folders.values(), knowing]), SMALL)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client, schemathesis.openapi.from_dict(client.get("/openapi.json").json())


def operations():
    return ["GET /download_file/{name}", "GET /frontend/settings", "GET /languages", "POST /detect", "POST /translate",
            "POST /translate_file",
            "GET /api/models", "GET /health", "GET /metrics", "GET /ready", "POST /api/ask", "POST /api/caption",
            "POST /api/classify", "POST /api/classify-text", "POST /api/detect", "POST /api/translate",
            *OPENED, "POST /api/translate/stream"]  # fmt: skip


def text(value):
    """A part of a form: Schemathesis leaves numbers as they are."""
    return value if isinstance(value, str | bytes) else str(value)


def send(client, case, file=None):
    """Send a request; a file, of which the description cannot say what has to be in it, instead of the one there."""
    sent = case.as_transport_kwargs(base_url="http://testserver")
    content = {"content": sent.pop("data")} if isinstance(sent.get("data"), bytes) else {}
    if sent.get("files"):  # numbers are left as they are
        sent["files"] = [(field, (name, text(value))) for field, (name, value) in sent["files"]]
        sent["files"] = [(field, file if file and field == "file" else part) for field, part in sent["files"]]
    return client.request(**{name: value for name, value in sent.items() if name not in ("cookies", "auth")}, **content)


def check(described, name, count, mode, statuses):
    client, schema = described
    method, _, path = name.partition(" ")
    operation = schema[path][method]
    told = {int(status) for status in client.get("/openapi.json").json()["paths"][path][method.lower()]["responses"]}

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def run(case):
        if path == "/api/ask" and "question" in case.query and mode is GenerationMode.POSITIVE:
            case.query["question"] = QUESTION  # which has words that the model knows
        if name in OPENED and mode is GenerationMode.POSITIVE:
            for field in ("edits", "step"):  # which have to fit the text and its translation
                case.body.pop(field, None)
        file = ("a.txt", FILE) if path == "/translate_file" and mode is GenerationMode.POSITIVE else None
        answer = send(client, case, file)
        assert answer.status_code in statuses, (answer.status_code, answer.text[:300], case.body, case.query)
        assert answer.status_code in told | {OTHER_METHOD}, "the description does not have this status"
        operation.validate_response(answer, case=case)

    run()


COUNTS = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])


@COUNTS
@pytest.mark.parametrize("name", operations())
def test_what_the_description_allows_is_accepted(described, name, count):
    check(described, name, count, GenerationMode.POSITIVE, ANSWERED)


@COUNTS
@pytest.mark.parametrize("name", [name for name in operations() if name.startswith("POST")])
def test_what_it_does_not_allow_is_answered_as_it_says(described, name, count):
    check(described, name, count, GenerationMode.NEGATIVE, (200, *REFUSED))


def test_every_operation_is_tried(described):
    client, _ = described
    paths = client.get("/openapi.json").json()["paths"]
    assert {f"{method.upper()} {path}" for path in paths for method in paths[path]} == {*operations()}
