"""`/api/classify-text`: what is served is what the model says; the page gets shaded words."""

import numpy as np
import pytest

from regard.tasks.text_classification.predictor import TextLabeller
from regard.viz.trace import AttentionTrace

TEXTS = ["the red dress is old", "", "a cat. a <b>cat</b>!"]
KINDS = pytest.mark.parametrize("kind", ["classify-text", "classify-documents"])


def asked(client, status=200, **body):
    answer = client.post("/api/classify-text", json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


@KINDS
def test_what_is_served_is_what_the_folder_says(client, folders, kind):
    expected = TextLabeller.load(folders[kind]).classify(TEXTS, top=2)
    found = asked(client, texts=TEXTS, model=kind, top=2, attention=True)
    assert found["model"] == kind
    for each, right in zip(found["texts"], expected, strict=True):
        assert [one["label"] for one in each["classes"]] == [guess.label for guess in right.guesses]
        np.testing.assert_allclose(
            [one["probability"] for one in each["classes"]], [guess.probability for guess in right.guesses], rtol=1e-4
        )
        np.testing.assert_allclose(
            AttentionTrace.from_json(each["attention"]).look(), right.attention.look(), atol=1e-5
        )
        assert ("sentences" in each) == (kind == "classify-documents")
    if kind == "classify-documents":
        assert [len(each["sentences"]) for each in found["texts"]] == [1, 1, 2]
        assert sum(found["texts"][2]["sentences"]) == pytest.approx(1, abs=1e-4)


@KINDS
def test_the_view_has_every_word_and_no_markup_of_the_text(client, kind):
    (each,) = asked(client, texts=TEXTS[2:], model=kind, view=True)["texts"]
    assert "attention" not in each
    assert each["view"].startswith('<section class="shaded">')
    assert "&lt;unk&gt;" in each["view"]
    assert "<b>cat" not in each["view"]


def test_models_say_what_they_can_be_asked(client):
    models = {model["name"]: model for model in client.get("/api/models").json()}
    assert models["classify-text"]["path"] == "/api/classify-text"
    assert models["classify-text"]["reads"] == "text"
    told = client.post("/api/translate", json={"texts": ["a"], "model": "classify-text"}).json()
    assert told == {"error": "classify-text classifies texts: POST to /api/classify-text instead."}


def test_what_is_wrong_is_said(client):
    assert "texts" in asked(client, 422, texts=[])["error"]
    assert asked(client, 404, texts=["a"], model="none")["error"].startswith("There is no model 'none'.")
