"""`/api/translate/edit` and its neighbours: what is served is what the translator says, and nothing breaks it."""

import json

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.presets import preset
from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.serve.served_models import open_models
from regard.tasks.translation import http_microscope
from regard.viz.trace import AttentionTrace

TEXT = "the red dress is old"
EDITS = [
    {"kind": "keep", "tokens": []},
    {"kind": "weights", "step": 0, "weights": {"2": 0.75, "0": 0.125}},
    {"kind": "weights", "step": 0, "layer": 0, "head": 0, "weights": {"1": 1}},
    {"kind": "row", "step": 0, "row": [0.5, 0, 0, 0, 0, 0.5]},
    {"kind": "ablate", "to": "uniform"},
    {"kind": "ablate", "step": 0},
    {"kind": "drop", "position": 2},
    {"kind": "prefix", "tokens": ["robe", "noir"]},
]
WHAT = ("edit", "step", "tree", "self-attention", "attribution")


def asked(client, what, status=200, **body):
    content = json.dumps({"text": TEXT, **body})  # in ASCII: half a character, too, can be sent
    answer = client.post(f"/api/translate/{what}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit["kind"])
def test_an_edit_is_the_translators_own(client, folders, edit):
    translator = regard.load(folders["translate"])
    expected = translator.edit(TEXT, regard.edits_from_json([edit]), beam=2)
    found = asked(client, "edit", edits=[edit], beam=2)
    assert (found["text"], found["tokens"]) == (expected.text, list(expected.tokens))
    assert found["edits"] == [one.to_json() for one in expected.edits]
    trace = AttentionTrace.from_json(found["attention"])
    np.testing.assert_allclose(trace.weights, expected.attention.weights, atol=1e-5)
    told = expected.comparison().to_json()
    assert found["comparison"]["changes"] == told["changes"]
    for side in ("old", "new"):
        own, theirs = ([one["log_prob"] for one in each[side]] for each in (found["comparison"], told))
        np.testing.assert_allclose(own, theirs, atol=1e-4)
    assert (
        asked(client, "edit", edits=found["edits"], beam=2)["tokens"] == found["tokens"]
    )  # what is answered is a link


def test_without_edits_it_is_the_translation(client):
    found = asked(client, "edit")
    plain = client.post("/api/translate", json={"texts": [TEXT]}).json()["translations"][0]
    assert (found["text"], found["before"]) == (plain["text"], plain["text"])
    assert all(change["kind"] == "same" for change in found["comparison"]["changes"])


def test_steps_trees_and_attributions_are_the_translators_own(client, folders):
    translator = regard.load(folders["translate"])
    edits = regard.edits_from_json([EDITS[1]])
    edited = translator.edit(TEXT, edits, beam=2)
    step = asked(client, "step", edits=[EDITS[1]], beam=2, step=1)
    own = translator.explain_step(edited, 1).to_json()
    assert step["token"] == own["token"]
    for name in ("scores", "weights", "contributions"):
        np.testing.assert_allclose(step["layers"][0][name], own["layers"][0][name], atol=1e-4)
    assert len(step["labels"]["target"]) == len(step["candidates"])
    tree = asked(client, "tree", beam=3)
    expected = translator.search_tree(TEXT, 3).to_json()
    assert [node["token"] for node in tree["nodes"]] == [node["token"] for node in expected["nodes"]]
    assert tree["finished"] == expected["finished"]
    assert len(tree["labels"]) == len(tree["nodes"])
    measures = asked(client, "attribution", beam=2)
    told = translator.attribution(translator.edit(TEXT, (), beam=2))
    assert measures["findings"] == list(told.findings)
    assert all(row[-1] is None for row in measures["occlusion"])  # the end mark


def test_the_self_attention_of_a_transformer(make_folder, tmp_path):
    small = override(preset("transformer2017-small"), [f"model.{side}width=8" for side in ("encoder.", "decoder.")])
    small = override(small, ["model.embedding=8", "model.attention.heads=2", "model.tie=output"])
    words = Tokenizers(Words(TEXT.split()), Words(["la", "robe"]))
    folder = make_folder(tmp_path / "transformer", small, words)
    with TestClient(make_app(open_models([folder]))) as client:
        found = asked(client, "self-attention", beam=1)
        assert AttentionTrace.from_json(found["encoder"]).weights.shape[-2:] == (6, 6)
        count = len(found["labels"]["target"])
        assert AttentionTrace.from_json(found["decoder"]).weights.shape[-2:] == (count, count)


def test_a_recurrent_model_has_none(client):
    assert asked(client, "self-attention") | {"model": "", "labels": ""} == {
        "model": "", "labels": "", "encoder": None, "decoder": None,
    }  # fmt: skip


@pytest.mark.parametrize("what", WHAT)
def test_each_mistake_has_one_message(client, what):
    def refused(status, **body):
        told = asked(client, what, status, **body)
        assert list(told) == ["error"]
        return told["error"]

    assert refused(404, model="nothing").startswith("There is no model 'nothing'.")
    assert refused(404, model="continue").startswith("There is no model 'continue'.")  # a language model has no source
    assert refused(422, text=" \n").startswith("text: String should match")
    assert refused(422, beam=0).startswith("beam: ")
    assert refused(422, nothing=1) == "nothing: Extra inputs are not permitted."
    assert refused(413, text="a" * 2_001).startswith("Text 1 has 2,001 characters")
    if what != "tree":
        assert refused(400, edits=[{"kind": "drop", "position": 6}]) == (
            "There is no source position 6: the source has 6 tokens, counted from 0."
        )
        assert refused(422, edits=[{"kind": "drop", "position": -1}]).startswith("edits.0.drop.position: ")
        assert refused(422, edits=[{"kind": "drop", "position": 1}] * 65).startswith(
            "edits: List should have at most 64"
        )
        assert refused(400, edits=[{"kind": "weights", "step": 0, "weights": {"0": 0.7, "1": 0.7}}]).startswith(
            "An edit gives the positions 0, 1 a weight of 1.4 together"
        )
        assert refused(400, edits=[{"kind": "prefix", "tokens": ["nowhere"]}]).startswith(
            "This model's vocabulary has no"
        )
        assert refused(422, edits=[{"kind": "prefix", "tokens": ["\ud800"]}]).startswith("edits.0.prefix.tokens.0: ")


def test_what_is_too_much_is_refused(models, monkeypatch):
    for name in ("MOST_NODES", "MOST_OWN", "MOST_PAIRS"):
        monkeypatch.setattr(http_microscope, name, 3)
    with TestClient(make_app(models, Limits(weights=5))) as client:
        assert "weights; at most 5 are sent" in asked(client, "edit", 413)["error"]
        assert asked(client, "tree", 413)["error"].endswith(
            "at most 3 are sent: send a shorter text or a smaller beam."
        )
        assert "at most 3 are possible for self-attention" in asked(client, "self-attention", 413)["error"]
        assert "at most 3 are possible for attribution" in asked(client, "attribution", 413)["error"]
        assert asked(client, "step")["source"]  # and the queue goes on


some = st.sampled_from([*EDITS, {"kind": "weights"}, {"kind": "x"}, {}, 3, None]) | st.fixed_dictionaries(
    {"kind": st.sampled_from(["weights", "row", "ablate", "drop", "prefix", "keep"])},
    optional={
        "step": st.none() | st.integers(-1, 9),
        "layer": st.none() | st.integers(0, 2),
        "weights": st.dictionaries(st.sampled_from("012349x"), st.floats(-0.1, 1.1), max_size=3),
        "row": st.lists(st.floats(0, 1), max_size=7),
        "position": st.integers(-1, 9),
        "tokens": st.lists(st.sampled_from(["la", "robe", "</s>", "<s>", "x", ""]), max_size=3),
        "attention": st.sampled_from(["source", "own", "x"]),
    },
)


@settings(max_examples=60, deadline=None)
@given(edits=st.lists(some, max_size=3), step=st.integers(0, 5), what=st.sampled_from(["edit", "step"]))
def test_any_edits_are_answered(client, edits, step, what):
    body = {"text": TEXT, "edits": edits, "beam": 1, **({"step": step} if what == "step" else {})}
    answer = client.post(f"/api/translate/{what}", json=body)
    assert answer.status_code in (200, 400, 422), answer.text
    json.loads(answer.text, parse_constant=lambda name: pytest.fail(name))
