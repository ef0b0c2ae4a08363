"""`/api/translate`: what is served is what the model says, and nothing that is sent breaks the server."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.viz.trace import AttentionTrace

TEXTS = ["the red dress", "a cat", "", "the old cat is red and the dress is old", " \t ", "dress", "a zebra is old"]


def asked(client, status=200, path="/api/translate", **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def refused(client, status, **body):
    told = asked(client, status, **body)
    assert list(told) == ["error"]
    return told["error"]


def test_what_is_served_is_what_the_folder_says(client, folders):
    translator = regard.load(folders["translate"])
    for options in ({}, {"beam": 3, "n_best": 3}, {"beam": 1, "attention": True, "candidates": 3}):
        own = {name: value for name, value in options.items() if name != "attention"}
        expected = translator.translate(TEXTS, **own)
        found = asked(client, texts=TEXTS, **options)["translations"]
        assert [each["text"] for each in found] == [each.text for each in expected]
        assert [each["tokens"] for each in found] == [list(each.tokens) for each in expected]
        np.testing.assert_allclose([each["score"] for each in found], [each.score for each in expected], rtol=1e-4)
        rest = [[other["text"] for other in each["n_best"]] for each in found]
        assert rest == [[other.text for other in each.n_best] for each in expected]


def test_attention_is_a_trace_whose_rows_sum_to_one(client):
    found = asked(client, texts=TEXTS, attention=True, candidates=4)["translations"]
    for each in found:
        trace = AttentionTrace.from_json(each["attention"])
        assert list(trace.target) == each["tokens"]
        np.testing.assert_allclose(trace.weights.sum(axis=-1), 1, atol=1e-4)
        assert all(len(step) == 4 for step in trace.candidates)
    assert "attention" not in asked(client, texts=TEXTS)["translations"][0]


def test_a_language_model_continues(client, folders):
    expected = regard.load(folders["continue"]).translate(["la robe", ""])
    found = asked(client, texts=["la robe", ""], model="continue", view=True)["translations"]
    assert [each["text"] for each in found] == [each.text for each in expected]
    assert 'class="stepper trace blind"' in found[0]["view"]


def test_clients_that_come_together_get_their_own_answers(models, folders):
    texts = [" ".join(text.split() * times) for times in (1, 2) for text in TEXTS if text.strip()] * 3
    expected = [each.text for each in regard.load(folders["translate"]).translate(texts)]
    with TestClient(make_app(models, wait=0.05)) as client, ThreadPoolExecutor(16) as many:
        found = many.map(lambda text: asked(client, texts=[text])["translations"][0]["text"], texts)
        assert list(found) == expected


def test_what_is_too_much_is_refused(models):
    limits = Limits(characters=20, texts=2, bytes=300, weights=9)
    with TestClient(make_app(models, limits)) as client:
        assert refused(client, 413, texts=["a"] * 3) == "There are 3 texts; at most 2 are allowed."
        said = "Text 2 has 21 characters; at most 20 are allowed. Send it in parts."
        assert refused(client, 413, texts=["a", "a" * 21]) == said
        said = "The request is larger than the limit of 0.000286102 MB."
        assert refused(client, 413, texts=["a" * 400]) == said
        chunks = (b"x" * 50 for _ in range(100))  # of a length that nobody told
        assert client.post("/api/translate", content=chunks).json() == {"error": said}
        assert "weights; at most 9 are sent" in refused(client, 413, texts=["the red dress is old"], attention=True)
        assert asked(client, texts=["a cat"])["translations"]


def test_each_mistake_has_one_message(client):
    assert refused(client, 404, texts=["a"], model="translat") == (
        "There is no model 'translat'. Did you mean 'translate'? Served here: translate, continue."
    )
    assert refused(client, 400, texts=["a"], model="caption") == (
        "caption describes pictures: POST to /api/caption instead."
    )
    assert refused(client, 422, texts=[]) == "texts: List should have at least 1 item after validation, not 0."
    assert refused(client, 422, texts=["a"], beem=3) == "beem: Extra inputs are not permitted."
    assert refused(client, 400, texts=["a"], to="fr").startswith("This model was trained without tags")
    half = client.post(
        "/api/translate", content=rb'{"texts": ["\ud800"]}', headers={"Content-Type": "application/json"}
    )
    assert half.status_code == 422
    assert half.json() == {"error": "Text 1 is not valid Unicode: it has an unpaired surrogate."}
    latin = client.post(
        "/api/translate", content=b'{"texts": ["\xe9t\xe9"]}', headers={"Content-Type": "application/json"}
    )
    assert latin.status_code == 400
    assert latin.json() == {"error": "The body is not valid UTF-8 (byte 12): send JSON in UTF-8."}
    form = client.post("/api/translate", data={"texts": "a"})
    assert (form.status_code, form.json()["error"][:22]) == (415, "The body must be JSON,")
    assert client.get("/api/translate").status_code == 405
    assert client.get("/api/nothing").json() == {"error": "There is nothing at /api/nothing."}


def test_a_server_of_one_task_tells_that_it_has_no_other(models):
    with TestClient(make_app([model for model in models if model.task.served_as == "caption"])) as client:
        said = "No served model supports /api/translate. GET /api/models lists the models."
        assert refused(client, 404, texts=["a"]) == said


def test_too_many_at_once_are_told_to_come_again(models):
    with TestClient(make_app(models, Limits(waiting=1))) as client:
        answer = client.post("/api/translate", json={"texts": ["a", "cat"]})
        assert answer.status_code == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 3


def test_a_bug_is_told_in_one_message_and_the_server_goes_on(models, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("a secret")

    with TestClient(make_app(models), raise_server_exceptions=False) as client:
        monkeypatch.setattr(models[0].reader, "translate", fail)
        assert refused(client, 500, texts=["a"]) == "Internal server error; see the server's log."
        monkeypatch.undo()
        assert asked(client, texts=["a cat"])["translations"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(("texts", "model", "beam", "n_best", "candidates", "to", "attention", "view"))
bodies = st.fixed_dictionaries({"texts": st.just(["a cat"]) | anything}).flatmap(
    lambda body: st.dictionaries(fields, anything | st.integers(-1, 40), max_size=3).map(lambda more: {**body, **more})
)


@settings(max_examples=60, deadline=None)
@given(bodies | anything)
def test_any_body_is_answered_or_refused_with_a_message(client, body):
    import json

    answer = client.post("/api/translate", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in (200, 400, 404, 413, 415, 422), answer.text
    told = answer.json()
    assert "translations" in told if answer.status_code == 200 else isinstance(told["error"], str) and told["error"]


@settings(max_examples=40, deadline=None)
@given(
    st.binary(max_size=60), st.sampled_from(["", "application/json", "text/plain", "image/png", "multipart/form-data"])
)
@pytest.mark.parametrize("path", ["translate", "caption", "classify", "ask?question=a", "detect"])
def test_any_bytes_are_refused_with_a_message(client, path, content, kind):
    answer = client.post(f"/api/{path}", content=content, headers={"Content-Type": kind})
    assert answer.status_code in (400, 413, 415, 422), answer.text
    assert answer.json()["error"]


def test_a_glossary_is_followed(client):
    found = asked(client, texts=["the red dress", "a cat"], glossary={"dress": "chat", "red": "noir"})["translations"]
    assert {"chat", "noir"} <= set(found[0]["text"].split())
    assert found[1] == asked(client, texts=["a cat"])["translations"][0]
    assert "at most 200 characters" in refused(client, 422, texts=["a"], glossary={"a": "b" * 201})
