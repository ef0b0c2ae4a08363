"""The OpenAPI description and the server agree: requests that fit it are accepted, answers are as it says."""

import numpy as np
import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.viz.png import png

FEW, MANY = 6, 1_000
PICTURES = [png(np.random.default_rng(size).integers(0, 256, (size, size + 3, 3), np.uint8)) for size in (1, 7, 40)]
QUESTION = "how many red cats are there"
SMALL = Limits(characters=40, texts=5, weights=10**9)
ANSWERED = (200, 404, 405)
"""405: a path is described, another method of it is not."""
REFUSED = (400, 404, 405, 413, 415, 422)

OPENED = [f"POST /api/translate/{what}" for what in ("attribution", "edit", "self-attention", "step", "tree")]

schemathesis.openapi.media_type("image/*", st.sampled_from(PICTURES))


@pytest.fixture(scope="module")
def described(models):
    """A server with limits that are soon reached, and its description."""
    app = make_app(models, SMALL)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client, schemathesis.openapi.from_dict(client.get("/openapi.json").json())


def operations():
    return ["GET /api/models", "GET /health", "GET /metrics", "GET /ready", "POST /api/ask", "POST /api/caption",
            "POST /api/classify", "POST /api/classify-text", "POST /api/detect", "POST /api/translate",
            *OPENED, "POST /api/translate/stream"]  # fmt: skip


def send(client, case):
    sent = case.as_transport_kwargs(base_url="http://testserver")
    content = {"content": sent.pop("data")} if isinstance(sent.get("data"), bytes) else {}
    return client.request(**{name: value for name, value in sent.items() if name not in ("cookies", "auth")}, **content)


def check(described, name, count, mode, statuses):
    client, schema = described
    method, _, path = name.partition(" ")
    operation = schema[path][method]

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(generation_mode=mode))
    def run(case):
        if path == "/api/ask" and "question" in case.query and mode is GenerationMode.POSITIVE:
            case.query["question"] = QUESTION  # which has words that the model knows
        if name in OPENED and mode is GenerationMode.POSITIVE:
            for field in ("edits", "step"):  # which have to fit the text and its translation
                case.body.pop(field, None)
        answer = send(client, case)
        assert answer.status_code in statuses, (answer.status_code, answer.text[:300], case.body, case.query)
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
