"""The life of a request: its id, log line and metrics, its deadline, and a client that leaves."""

import asyncio
import json
import logging
import threading

import pytest
from fastapi.testclient import TestClient

from regard.serve.app import make_app
from regard.serve.json_log import JsonLines, WithoutTexts
from regard.serve.request_limits import Limits

SECRET = "the red dress of nobody"


class Slow:
    """A reader that translates only when it is let go."""

    def __init__(self, reader):
        self.reader, self.go, self.begun, self.texts = reader, threading.Event(), threading.Event(), []

    def __getattr__(self, name):
        return getattr(self.reader, name)

    def translate(self, texts, **options):
        self.begun.set()
        assert self.go.wait(20)
        self.texts += texts
        return self.reader.translate(texts, **options)


@pytest.fixture
def slow(models, monkeypatch):
    held = Slow(models[0].reader)
    monkeypatch.setitem(models[0].__dict__, "reader", held)
    yield held
    held.go.set()


def value(client, name):
    lines = dict(line.rsplit(" ", 1) for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    return float(lines.get(name, 0))


def test_ids_are_given_or_made(client):
    assert client.get("/health", headers={"X-Request-ID": "a.b-c_1"}).headers["x-request-id"] == "a.b-c_1"
    for bad in ("a b", "a" * 65, 'a"b', "é".encode()):
        made = client.get("/health", headers={"X-Request-ID": bad}).headers["x-request-id"]
        assert len(made) == 16
        assert made.isalnum()
    assert client.get("/nothing").headers["x-request-id"]


def test_logs_are_lines_of_json_without_the_texts(models, caplog, monkeypatch):
    with caplog.at_level(logging.INFO, "regard"), TestClient(make_app(models)) as client:
        client.post("/api/translate?a=secret", json={"texts": [SECRET]}, headers={"X-Request-ID": "one"})
        monkeypatch.setattr(models[0].reader, "translate", lambda *_, **__: 1 / 0)
        client.post("/api/translate", json={"texts": [SECRET]}, headers={"X-Request-ID": "two"})
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if record.name.startswith("regard")]
    first, error, second = (line for line in lines if line.get("id"))
    assert {name: first[name] for name in ("event", "id", "path", "status")} == {
        "event": "request",
        "id": "one",
        "path": "/api/translate",
        "status": 200,
    }
    assert (error["id"], error["error"], error["event"]) == ("two", "ZeroDivisionError", "POST /api/translate failed")
    assert any("batching_queue.py" in frame for frame in error["frames"])
    assert (second["id"], second["status"]) == ("two", 500)
    assert "secret" not in json.dumps(lines)
    assert "dress" not in json.dumps(lines)


def test_what_models_warn_of_is_logged_without_the_text():
    record = logging.LogRecord("regard", logging.WARNING, "", 1, "A text of %d tokens. %.40s…", (7, SECRET), None)
    WithoutTexts().filter(record)
    assert json.loads(JsonLines().format(record))["event"] == "A text of 7 tokens. ……"


def test_metrics_count_requests_batches_and_tokens(models):
    with TestClient(make_app(models)) as client:
        found = client.post("/api/translate", json={"texts": ["a cat", "the dress"]}).json()["translations"]
        client.get("/made/up")
        client.get("/made/up/too")
        assert value(client, 'regard_requests_total{method="POST",path="/api/translate",status="200"}') == 1
        assert value(client, 'regard_requests_total{method="GET",path="other",status="404"}') == 2
        assert value(client, "regard_tokens_total") == sum(len(each["tokens"]) for each in found)
        assert (value(client, "regard_batch_size_count"), value(client, "regard_batch_size_sum")) == (1, 2)
        assert value(client, 'regard_request_seconds_count{path="/api/translate"}') == 1
        assert value(client, "regard_queue_length") == 0


def test_a_request_that_takes_too_long_is_told_so(models, slow):
    with TestClient(make_app(models, Limits(seconds=0.2))) as client:
        answer = client.post("/api/translate", json={"texts": ["a cat"]})
        assert (answer.status_code, answer.headers["retry-after"]) == (504, "1")
        assert answer.json()["error"].startswith("There was no answer within 0.2 s.")
        waiting = client.post("/api/translate", json={"texts": ["dress"]})  # behind a batch that does not end
        assert waiting.status_code == 504
        assert value(client, "regard_queue_length") == 0
        assert value(client, 'regard_refusals_total{reason="timeout"}') == 2
        assert client.get("/ready").status_code == 503
        slow.go.set()
        while not client.get("/ready").is_success:
            pass
        assert client.post("/api/translate", json={"texts": ["old"]}).is_success
    assert slow.texts == ["a cat", "old"]


def test_a_client_that_leaves_frees_its_place(models, slow, run_server):
    async def leave(port, text):
        body = json.dumps({"texts": [text]}).encode()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST /api/translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        )
        writer.write(head.encode() + b"\r\n\r\n" + body)
        await writer.drain()
        return writer

    async def meet(port):
        first = await leave(port, "a cat")
        await asyncio.to_thread(slow.begun.wait, 20)
        others = [await leave(port, text) for text in ("dress", "old")]
        await until(lambda: app.state.queue.length == 2)
        others[0].close()
        await until(lambda: app.state.queue.length == 1)
        slow.go.set()
        for writer in (first, others[1]):
            writer.close()

    async def until(true):
        for _ in range(2_000):
            if true():
                return
            await asyncio.sleep(0.005)
        raise AssertionError

    with run_server(models, Limits(waiting=2)) as (app, port):
        asyncio.run(meet(port))
    assert "dress" not in slow.texts


def test_a_server_that_stops_says_so(models):
    app = make_app(models)
    with TestClient(app) as client:
        assert client.get("/ready").json() == {"status": "ready"}
        app.state.leaving = True
        answer = client.get("/ready")
        assert (answer.status_code, answer.headers["connection"]) == (503, "close")
        assert client.get("/health").is_success
