"""Model folders are replaced while requests are answered: none is lost, and none gets a mixture of two models."""

import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient
from safetensors.torch import load_file, save_file

import regard
from regard.serve.app import make_app
from regard.serve.served_models import open_models

SENTENCES = ["the red dress", "a cat is old", "the old red cat", "red"]


@pytest.fixture
def served(tmp_path, folders):
    return shutil.copytree(folders["translate"], tmp_path / "served")


def change(folder):
    """Give a model other weights."""
    weights = load_file(folder / "model.safetensors")
    save_file({name: -tensor for name, tensor in weights.items()}, folder / "model.safetensors")


def written(folder):
    return [each.text for each in regard.load(folder).translate(SENTENCES)]


def test_requests_during_reloads_are_answered_by_one_model_each(served, tmp_path):
    old, other = written(served), shutil.copytree(served, tmp_path / "other")
    change(other)
    new = written(other)
    assert all(a != b for a, b in zip(old, new, strict=True))
    models, stop, found = open_models([served]), threading.Event(), []

    def ask(client):
        while not stop.is_set():
            answer = client.post("/api/translate", json={"texts": SENTENCES})
            found.append([each["text"] for each in answer.json()["translations"]])

    with TestClient(make_app(models, wait=0.002)) as client, ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask, client) for _ in range(4)]
        for folder in (other, served, other):
            shutil.copy(folder / "model.safetensors", tmp_path / "next")
            (tmp_path / "next").replace(served / "model.safetensors")
            if folder is served:
                continue
            assert models.reload()
        stop.set()
        for each in asking:
            each.result()
        found.append(
            [each["text"] for each in client.post("/api/translate", json={"texts": SENTENCES}).json()["translations"]]
        )
    assert all(each in (old, new) for each in found)
    assert found[-1] == new


def test_a_request_that_waits_gets_the_model_that_it_came_for(served):
    models = open_models([served])
    app = make_app(models)
    with TestClient(app) as client:
        client.get("/health")
        go, begun = threading.Event(), threading.Event()
        app.state.queue.ask("other", [0], lambda things: begun.set() or (go.wait(20) and things))
        assert begun.wait(20)
        old = written(served)
        with ThreadPoolExecutor(2) as pool:
            answers = []
            for place in range(2):
                answers.append(pool.submit(client.post, "/api/translate", json={"texts": SENTENCES}))
                while app.state.queue.length < (place + 1) * len(SENTENCES):
                    pass
                if place == 0:
                    change(served)
                    assert models.reload()
            go.set()
            first, second = ([each["text"] for each in one.result().json()["translations"]] for one in answers)
    assert first == old
    assert second == written(served) != old


def test_a_folder_that_cannot_be_loaded_keeps_its_model_and_says_why(served, folders, caplog):
    models = open_models([served, folders["continue"]])
    before = tuple(models)
    (served / "model.safetensors").write_bytes(b"nothing")
    with caplog.at_level(logging.ERROR):
        assert not models.reload()
    assert models[0] is before[0]
    assert models[1] is not before[1]
    assert models[1].name == before[1].name
    assert "served is not reloaded, the old model stays: " in caplog.text


def test_a_link_is_named_as_it_is_called(served, tmp_path):
    (tmp_path / "current").symlink_to(served)
    assert [model.name for model in open_models([tmp_path / "current"])] == ["current"]
