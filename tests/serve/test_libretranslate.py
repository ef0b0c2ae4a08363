"""LibreTranslate's API: what its clients send is answered as they expect, in their forms and with their statuses."""

import json
import shutil

import numpy as np
import pytest
import torch
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.config import Config, DataConfig, DecodingConfig
from regard.decoding.translation import Translation
from regard.errors import ModelError
from regard.serve import translated_files
from regard.serve.app import make_app
from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import add_problems
from regard.serve.libretranslate import libretranslate_routes
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served, open_models
from regard.serve.server import model_lines
from regard.serve.translated_files import TranslatedFiles
from regard.task import open_task
from regard.task_table import BY_NAME
from regard.viz.trace import AttentionTrace


class Tokens:
    """Tokenizers of a model with tags, as far as they are looked at."""

    def __init__(self, tags):
        self.tags = tags


class Echo:
    """A translator that gives back what it reads, or with a tag what it reads after the tag; its attention is right."""

    def __init__(self, *tags):
        self.tokenizers, self.batches, self.beams = Tokens(tags), [], []
        self.model = torch.nn.Linear(1, 1)

    def translate(self, texts, *, n_best, beam, to, look):
        self.batches.append(list(texts))
        self.beams.append((beam, n_best))
        return [self._translated(text, n_best, to, look) for text in texts]

    def _translated(self, text, n_best, to, look):
        words = tuple(text.split())
        own = tuple(range(len(words)))
        weights = np.eye(len(words), dtype=np.float32)[None, None]
        trace = AttentionTrace(words, words, weights, (0.0,) * len(words), 0.0, (), own, own)
        written = text if to is None else f"{to}:{text}"
        rest = [Translation(f"{written}{rank // 2}", 0.0, words, trace) for rank in range(n_best - 1)]
        return Translation(written, 0.0, words, trace, rest)


def served(name, reader, source, target=""):
    data = DataConfig(from_language=tuple(source.split()), to_language=target)
    return Served(name, open_task(BY_NAME["translation"]), reader, Config(data=data, decoding=DecodingConfig(beam=2)))


@pytest.fixture
def echo():
    return Echo()


@pytest.fixture
def client(echo):
    models = [
        served("unsaid", Echo(), ""),
        served("one", echo, "en", "fr"),
        served("many", Echo("de", "fr", "formal"), "en pt-BR"),
    ]
    with TestClient(make_app(models, Limits(characters=50, texts=4)), raise_server_exceptions=False) as client:
        yield client


def test_it_is_told_which_model_translates_between_which_languages(client, echo):
    told = {model["name"]: model for model in client.get("/api/models").json()}
    assert {name: (model["from_languages"], model["to_languages"]) for name, model in told.items()} == {
        "unsaid": ([], []),
        "one": (["en"], ["fr"]),
        "many": (["en", "pt-BR"], ["de", "fr"]),
    }
    models = [served("unsaid", Echo(), ""), served("one", echo, "en", "fr"), served("many", Echo("de", "fr"), "en de")]
    assert model_lines(models) == [
        "unsaid  translates texts (/api/translate)",
        "one     translates texts from en to fr (/api/translate)",
        "many    translates texts from en, de to de, fr (/api/translate)",
    ]


def asked(client, status=200, path="/translate", **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


def test_json_forms_and_the_query_string_are_the_same(client):
    fields = {"q": "A cat. It sleeps.", "source": "en", "target": "fr", "api_key": "x", "more": "y"}
    expected = {"translatedText": "A cat. It sleeps."}
    assert asked(client, **fields) == expected
    assert client.post("/translate", data=fields).json() == expected
    assert client.post("/translate", files={"none": b""}, data=fields).json() == expected
    assert client.post("/translate", params=fields).json() == expected
    assert client.post("/translate", params={**fields, "q": "b"}, data={"q": "a"}).json() == {"translatedText": "a"}
    assert client.post("/translate", params=fields, data={"q": ["a", "b"]}).json() == {"translatedText": ["a", "b"]}


def test_a_list_is_answered_by_lists(client):
    assert asked(client, q=["a b", "", " "], source="en", target="fr") == {"translatedText": ["a b", "", " "]}
    found = asked(client, q=["the cat is on the table"] * 2, source="auto", target="de", alternatives=1)
    assert found["translatedText"] == ["de:the cat is on the table"] * 2
    assert [each["language"] for each in found["detectedLanguage"]] == ["en", "en"]
    assert found["alternatives"] == [["de:the cat is on the table0"]] * 2


def test_models_are_found_by_their_languages(client):
    assert asked(client, q="a", source="en", target="fr") == {"translatedText": "a"}
    assert asked(client, q="a", source="EN-us", target="de") == {"translatedText": "de:a"}
    assert asked(client, q="a", source="pb", target="fr") == {"translatedText": "fr:a"}
    assert asked(client, q="a", source="fr", target="fr") == {"translatedText": "a"}
    pairs = "Served pairs: en → fr, en → de, pt-BR → de, pt-BR → fr."
    assert asked(client, 400, q="a", source="it", target="fr") == f"it is not supported. {pairs}"
    assert asked(client, 400, q="a", source="en", target="<x>") == f"<x> is not supported. {pairs}"
    assert asked(client, 400, q="a", source="fr", target="en") == f"No served model translates from fr to en. {pairs}"


def test_languages_are_listed_with_their_targets(client):
    assert client.get("/languages").json() == [
        {"code": "en", "name": "English", "targets": ["fr", "de"]},
        {"code": "pt-BR", "name": "Portuguese (Brazil)", "targets": ["de", "fr"]},
        {"code": "fr", "name": "French", "targets": []},
        {"code": "de", "name": "German", "targets": []},
    ]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 200
    assert settings["language"]["target"] == {"code": "fr", "name": "French"}
    assert settings["supportedFilesFormat"] == [".txt", ".srt", ".html", ".htm", ".docx"]


def test_models_that_were_replaced_are_asked(client, echo):
    models = [served("one", echo, "en", "fr")]
    with TestClient(make_app(models)) as client:
        assert asked(client, q="a", source="en", target="fr")
        models[0] = served("one", Echo(), "en", "it")
        assert "Served pairs: en → it." in asked(client, 400, q="a", source="en", target="fr")
        assert [each["code"] for each in client.get("/languages").json()] == ["en", "it"]


def test_without_languages_nothing_is_described_and_the_error_says_what_to_do():
    with TestClient(make_app([served("unsaid", Echo(), "")])) as client:
        assert client.get("/languages").json() == []
        assert "set from_language and to_language under [data]" in asked(client, 400, q="a", source="en", target="fr")
        assert "/translate" not in client.get("/openapi.json").json()["paths"]
        assert [each["language"] for each in asked(client, path="/detect", q="Hello there")] == ["en"]


def test_the_language_is_detected_among_those_that_are_served(client):
    found = asked(client, path="/detect", q="Der Hund schläft auf dem alten Sofa.")
    assert found[0]["language"] == "de"
    assert {each["language"] for each in found} == {"en", "pt-BR", "fr", "de"}
    assert sum(each["confidence"] for each in found) <= 100.5
    assert client.post("/detect", data={"q": "où est la gare ?"}).json()[0]["language"] == "fr"
    assert asked(client, path="/detect", q="12:30") == [{"confidence": 0.0, "language": "en"}]
    found = asked(client, q="Où est la gare ? Elle est là.", source="auto", target="fr")
    assert found["translatedText"] == "Où est la gare ? Elle est là."
    assert found["detectedLanguage"]["language"] == "fr"


def test_alternatives_differ_from_the_best_and_from_each_other(client, echo):
    found = asked(client, q="A cat. It sleeps.", source="en", target="fr", alternatives=3)
    assert found == {
        "translatedText": "A cat. It sleeps.",
        "alternatives": ["A cat.0 It sleeps.0", "A cat.1 It sleeps.1"],
    }
    assert echo.beams == [(4, 4)]
    found = asked(client, q="<b>A cat</b>", source="en", target="fr", format="html", alternatives="2")
    assert found == {"translatedText": "<b>A cat</b>", "alternatives": []}


def test_sentences_are_batches_of_the_queue(echo):
    with TestClient(make_app([served("one", echo, "en", "fr")], batch=3)) as client:
        asked(client, q=["A cat. It sleeps.", "Why? A cat. Who?"], source="en", target="fr")
    assert echo.batches == [["A cat.", "It sleeps.", "Why?"], ["Who?"]]


def test_each_mistake_has_one_message(client):
    good = {"q": "a", "source": "en", "target": "fr"}
    for name in good:
        rest = {other: value for other, value in good.items() if other != name}
        assert asked(client, 400, **rest) == f"Invalid request: missing {name} parameter."
        assert asked(client, 400, **{**good, name: ""}) == f"Invalid request: missing {name} parameter."
    for changed, why in (
        ({"q": 3}, "q must be a text or a list of texts"),
        ({"q": ["a", 3]}, "q must be a text or a list of texts"),
        ({"q": ["a"] * 5}, "q has 5 texts, and at most 4 are allowed"),
        ({"q": "a" * 201}, "q has a text of 201 characters, and at most 200 are allowed"),
        ({"q": ["a" * 51]}, "q has a text of 51 characters, and at most 50 are allowed"),
        ({"source": 3}, "source must be a text"),
        ({"format": "xml"}, "format must be one of text, html"),
        ({"alternatives": 10}, "alternatives must be a number from 0 to 9"),
        ({"alternatives": "x"}, "alternatives must be a number from 0 to 9"),
        ({"alternatives": True}, "alternatives must be a number from 0 to 9"),
        ({"api_key": 3}, "api_key must be a text"),
    ):
        assert asked(client, 400, **{**good, **changed}) == f"Invalid request: {why}."
    for body, why in ((b"{", "the body is not valid JSON"), (b"[]", "the body must be a JSON object")):
        answer = client.post("/translate", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (400, {"error": f"Invalid request: {why}."})
    half = json.dumps({**good, "q": "\ud800"}).encode()
    answer = client.post("/translate", content=half, headers={"Content-Type": "application/json"})
    assert answer.json()["error"] == "Invalid request: q is not valid Unicode: it has an unpaired surrogate."
    assert client.post("/translate", content=b"x").json() == {"error": "Invalid request: missing q parameter."}


@pytest.fixture(scope="module")
def identity():
    with TestClient(make_app([served("one", Echo(), "en", "fr")])) as client:
        yield client


parts = st.sampled_from(
    ["A cat. ", "It", "\n", "\r\n", "  ", "- ", "1) ", "<b>", "</b>", "<p>", "&nbsp;", "&amp;", "é"]
)


@settings(max_examples=100)
@given(st.lists(parts, max_size=12).map("".join) | st.text(max_size=50), st.sampled_from(["text", "html"]))
def test_what_an_identity_translates_comes_back_byte_for_byte(identity, text, kind):
    answer = identity.post("/translate", json={"q": [text], "source": "en", "target": "fr", "format": kind})
    assert answer.json() == {"translatedText": [text]}


def test_the_key_is_taken_from_wherever_it_was_sent(echo):
    seen = []

    def admit(request, key):
        seen.append(key)
        if key != "right":
            raise HTTPException(403, "No.")

    app, queue = FastAPI(), BatchingQueue()
    add_problems(app)
    models, files = [served("one", echo, "en", "fr")], TranslatedFiles()
    app.include_router(libretranslate_routes(models, queue, Limits(), files, admit, needs_key=True))
    fields, client = {"q": "a", "source": "en", "target": "fr"}, TestClient(app)
    for key, status in (("right", 200), ("wrong", 403)):
        own = {**fields, "api_key": key}
        assert client.post("/translate", json=own).status_code == status
        assert client.post("/translate", params=own).status_code == status
        assert client.post("/detect", data=own).status_code == status
        assert client.post("/translate_file", data=own, files={"file": ("a.txt", b"a")}).status_code == status
    assert client.post("/translate", data=fields).json() == {"error": "No."}
    assert client.get("/frontend/settings").json()["keyRequired"] is True
    assert (len(seen), seen[-1]) == (9, None)
    assert echo.batches == [["a"]] * 3
    queue.close()
    files.close()


# -- files ------------------------------------------------------------------------------------------------------------


def sent(client, name, content, status=200, **fields):
    body = {"source": "en", "target": "de", **fields}
    answer = client.post("/translate_file", data=body, files={"file": (name, content)})
    assert answer.status_code == status, answer.text
    return answer.json()["translatedFileUrl" if status == 200 else "error"]


def test_a_file_is_translated_and_can_be_fetched(client):
    url = sent(client, "my notes.TXT", b"\xef\xbb\xbf1. A cat.\r\n")
    answer = client.get(url)
    assert answer.content == b"\xef\xbb\xbf1. de:A cat.\r\n"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''my_notes_de.txt"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get(sent(client, "a.html", b"<p>A <b>cat</b></p>")).text == "<p>de:A <b>cat</b></p>"
    assert client.get(sent(client, "a.txt", "Où est la gare ?".encode(), source="auto", target="fr")).text[:2] == "Où"


def test_files_that_cannot_be_translated_are_refused(client):
    assert sent(client, "a.pdf", b"x", 400).startswith("The file format '.pdf' is not supported")
    assert sent(client, "a.docx", b"x", 400).startswith("The file is not a Word document")
    assert sent(client, "a.txt", b"a" * 201, 400).endswith("has 201 characters, and at most 200 are allowed.")
    answer = client.post("/translate_file", data={"source": "en", "target": "fr", "file": "x"})
    assert (answer.status_code, answer.json()["error"]) == (400, "Invalid request: missing file parameter.")
    for name in ("nothing", "..%2Fx", "0" * 32 + ".a.txt"):
        assert client.get(f"/download_file/{name}").status_code == 404


def test_files_are_kept_for_a_while_and_in_bounds(monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(translated_files.time, "time", lambda: now[0])
    files = TranslatedFiles(kept_for=60, most=10)
    times = iter((1_000, 1_030, 1_040))

    def add(content):
        name = files.add("../a b.txt", content)
        translated_files.os.utime(files._folder / name, (at := next(times), at))
        return name

    first, second = add(b"12345"), add(b"67890")
    assert (files.get(first), files.get(second)) == (b"12345", b"67890")
    third = add(b"x")
    assert (files.get(first), files.get(second), files.get(third)) == (None, b"67890", b"x")
    now[0] = 1_091
    assert (files.get(second), files.get(third)) == (None, b"x")
    assert (files._folder.stat().st_mode & 0o777, third.partition(".")[2]) == (0o700, "a_b.txt")
    files.close()
    assert not files._folder.exists()


def test_processes_may_share_a_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(translated_files.SHARED, str(tmp_path))
    one, other = TranslatedFiles(), TranslatedFiles()
    name = one.add("a.txt", b"x")
    one.close()
    assert other.get(name) == b"x"


# -- models -----------------------------------------------------------------------------------------------------------


def told(folder, to, target):
    """Copy a model folder, and write into its settings which languages it translates, as its owner would."""
    shutil.copytree(folder, to)
    text = (to / "config.toml").read_text(encoding="utf-8")
    for old, new in (
        ("from_language = []", 'from_language = ["en"]'),
        ('to_language = ""', f'to_language = "{target}"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (to / "config.toml").write_text(text, encoding="utf-8")
    return to


def test_a_folder_translates_as_it_does_and_tells_its_languages(folders, tmp_path):
    folder = told(folders["translate"], tmp_path / "own", "fr")
    sentences = ["the red dress", "the old cat is red"]
    expected = [each.text for each in regard.load(folders["translate"]).translate(sentences)]
    with TestClient(make_app(open_models([folder]))) as client:
        found = asked(client, q="the red dress\nthe old cat is red", source="en", target="fr")
        assert found == {"translatedText": "\n".join(expected)}
        html = asked(client, q="the <b>red</b> dress", source="en", target="fr", format="html")["translatedText"]
        assert html.replace("<b>", "").replace("</b>", "").split() == expected[0].split()
        assert html.count("<b>") == html.count("</b>") == 1


def test_a_wrong_language_in_a_folder_is_one_clear_error(folders, tmp_path):
    folder = told(folders["translate"], tmp_path / "own", "french")
    with pytest.raises(ModelError, match=r"own/config.toml: data.to_language: 'french' is not a language code"):
        open_models([folder])
