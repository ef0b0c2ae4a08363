"""`/api/translate/stream`: drafts that grow into what `/api/translate` answers, taking turns with other requests."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fastapi.testclient import TestClient

import regard
from regard.serve.app import make_app
from regard.serve.request_limits import Limits

TEXTS = ["the red dress", "the old cat is red and the dress is old", "a zebra", "", " \t"]


def streamed(client, text, status=200, **options):
    """Return the drafts and the end of a stream."""
    answer = client.post("/api/translate/stream", json={"text": text, **options})
    assert answer.status_code == status, answer.text
    if status != 200:
        return answer.json()["error"]
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [part.split("\n") for part in answer.text.removesuffix("\n\n").split("\n\n")]
    found = [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]
    assert [name for name, _ in found] == ["token"] * (len(found) - 1) + ["end"]
    return [data for _, data in found[:-1]], found[-1][1]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("options", [{}, {"beam": 3, "n_best": 2, "attention": True, "candidates": 2}, {"beam": None}])
def test_the_end_is_what_is_answered_in_one_piece(client, text, options):
    _, end = streamed(client, text, **options)
    whole = client.post("/api/translate", json={"texts": [text], "beam": 1, **options})
    assert end == whole.json()


@pytest.mark.parametrize("model", ["translate", "continue"])
@pytest.mark.parametrize("beam", [1, 4])
def test_drafts_add_up_to_the_translation(client, folders, model, beam):
    for text in TEXTS[:3] if model == "translate" else ["la robe", ""]:
        drafts, end = streamed(client, text, model=model, beam=beam)
        tokens, chances, weights = [], [], []
        for place, draft in enumerate(drafts):
            assert ("source" in draft) == (place == 0)
            assert draft["kept"] == len(tokens) or beam > 1
            tokens[draft["kept"] :] = draft["tokens"]
            chances[draft["kept"] :] = draft["probabilities"]
            weights[draft["kept"] :] = draft.get("weights", [])
            assert len(tokens) == len(chances) == place + 1 or model == "continue"
        if beam == 1:
            (best,) = regard.load(folders[model]).translate([text], beam=1)
            assert tokens == end["translations"][0]["tokens"] == list(best.tokens)
            assert drafts[-1]["text"] == best.text
            np.testing.assert_allclose(chances, np.exp(best.attention.log_probs), atol=1e-5)
        if model == "translate":
            assert list(best.attention.source if beam == 1 else drafts[0]["source"]) == drafts[0]["source"]
            np.testing.assert_allclose(np.sum(weights, axis=-1), 1, atol=2e-3)
            if beam == 1:
                np.testing.assert_allclose(weights, best.attention.look(), atol=1e-4)


def test_what_is_wrong_has_a_status_before_anything_is_sent(client):
    assert streamed(client, "a", 404, model="none").startswith("There is no model 'none'.")
    assert "trained without tags" in streamed(client, "a", 400, to="fr")
    assert "2,001 characters" in streamed(client, "a" * 2_001, 413)
    assert "beem" in streamed(client, "a", 422, beem=1)


def test_a_glossary_is_followed_without_drafts(client):
    drafts, end = streamed(client, "the red dress", glossary={"dress": "chat"})
    assert drafts == []
    assert "chat" in end["translations"][0]["text"].split()


def test_a_stream_lets_others_in_between_its_steps(models, monkeypatch):
    """A stream that never ends of itself, and a request that must be answered all the same."""
    reader, told, enough = models[0].reader, [], threading.Event()

    def endless(text, **_):
        (draft,) = reader.translate(["a cat"], beam=1)
        while not enough.is_set():
            told.append(text)
            yield draft

    monkeypatch.setattr(reader, "drafts", endless)
    with TestClient(make_app(models)) as client, ThreadPoolExecutor(2) as pool:
        streams = [pool.submit(streamed, client, text) for text in ("a", "b")]
        while len(set(told)) < 2:
            pass
        for _ in range(3):
            before = len(told)
            assert client.post("/api/translate", json={"texts": ["the red dress"]}).is_success
            while len(told) == before:
                pass
        enough.set()
        drafts = [len(each.result()[0]) for each in streams]
    assert sum(drafts) == len(told)


def test_an_error_on_the_way_is_an_event(models, monkeypatch):
    reader = models[0].reader

    def failing(text, **_):
        yield reader.translate(["a cat"], beam=1)[0]
        raise regard.RegardError("It broke.")

    monkeypatch.setattr(reader, "drafts", failing)
    with TestClient(make_app(models)) as client:
        events = client.post("/api/translate/stream", json={"text": "a"}).text.split("\n\n")
    assert events[1:] == ['event: error\ndata: {"error":"It broke."}', ""]


def test_too_many_streams_are_told_to_come_again(models):
    with TestClient(make_app(models, Limits(waiting=0))) as client:
        answer = client.post("/api/translate/stream", json={"text": "a"})
        assert answer.status_code == 503
        assert 1 <= int(answer.headers["retry-after"]) <= 3


def test_a_client_that_leaves_ends_its_stream(models, monkeypatch, run_server):
    reader, left = models[0].reader, threading.Event()

    def endless(text, **_):
        (draft,) = reader.translate(["a cat"], beam=1)
        try:
            while True:
                yield draft
        finally:
            left.set()

    monkeypatch.setattr(reader, "drafts", endless)
    with run_server(models) as (app, port):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        line.request("POST", "/api/translate/stream", '{"text": "a"}', {"Content-Type": "application/json"})
        assert line.getresponse().readline() == b"event: token\n"
        line.close()
        assert left.wait(20)
        while app.state.queue.length:
            pass
