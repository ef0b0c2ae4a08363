"""What is served of pictures is what the models say of them; pictures that are none are refused."""

import io
import json

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from regard.data.image_files import decode_image
from regard.data.scenes import scene
from regard.serve.app import make_app
from regard.serve.request_limits import Limits
from regard.viz.png import png
from regard.viz.trace import AttentionTrace

WIDE = np.random.default_rng(5).integers(0, 256, (48, 80, 3), np.uint8)
PNG = png(WIDE)
PATHS = {"caption": {}, "classify": {}, "answer": {"question": "is there a cat"}, "detect": {"least": 0}}
ROUTES = {"caption": "caption", "classify": "classify", "answer": "ask", "detect": "detect"}


def seen(client, task, content=PNG, status=200, **options):
    query = {**PATHS[task], **options}
    answer = client.post(f"/api/{ROUTES[task]}", params=query, content=content, headers={"Content-Type": "image/png"})
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.json()["error"]


def reader(models, task):
    (own,) = [model.reader for model in models if model.task.served_as == task]
    return own, decode_image(PNG, pixels=own.config.model.image.size)[None]


def test_captions_are_the_captioner_s(client, models):
    predictor, picture = reader(models, "caption")
    (expected,) = predictor.caption(picture, beam=2, n_best=2)
    found = seen(client, "caption", beam=2, n_best=2, attention=True)
    assert (found["text"], found["tokens"]) == (expected.text, list(expected.best.tokens))
    assert [other["text"] for other in found["n_best"]] == [other.text for other in expected.best.n_best]
    trace = AttentionTrace.from_json(found["attention"])
    assert len(trace.source) == found["grid"][0] * found["grid"][1]
    np.testing.assert_allclose(trace.weights, expected.best.attention.weights, atol=1e-5)
    np.testing.assert_allclose(trace.weights.sum(axis=-1), 1, atol=1e-4)


def test_classes_are_the_classifier_s_with_what_speaks_for_them(client, models):
    predictor, picture = reader(models, "classify")
    found = seen(client, "classify", top=3, attention=True)
    expected = predictor.classify(picture, 3)[0]
    assert [each["label"] for each in found["classes"]] == [guess.label for guess in expected]
    np.testing.assert_allclose(sum(each["probability"] for each in found["classes"]), 1, atol=1e-5)
    assert {each["method"] for each in found["reasons"]} == {"Grad-CAM"}
    assert np.min([each["cells"] for each in found["reasons"]]) >= 0


def test_answers_are_the_model_s_and_unknown_words_are_told(client, models):
    predictor, picture = reader(models, "answer")
    ((expected,),) = predictor.answer(picture, [["is there a cat"]], top=2)
    found = seen(client, "answer", top=2, attention=True)
    assert [each["text"] for each in found["answers"]] == [text for text, _ in expected.best]
    np.testing.assert_allclose(AttentionTrace.from_json(found["attention"]).weights.sum(axis=-1), 1, atol=1e-4)
    assert "does not know: 'dog'" in seen(client, "answer", status=400, question="is there a dog")


def test_boxes_lie_in_the_middle_square_of_the_picture_as_it_was_sent(client, models):
    predictor, picture = reader(models, "detect")
    (expected,) = predictor.detect(picture, 0.0)
    found = seen(client, "detect", attention=True)["things"]
    assert [each["label"] for each in found] == [thing.name for thing in expected]
    times = 48 / picture.shape[1]
    boxes = np.array([thing.box for thing in expected]) * times + [16, 0, 16, 0]
    np.testing.assert_allclose([each["box"] for each in found], boxes, atol=1e-2)
    assert seen(client, "detect", least=1)["things"] == []


@pytest.mark.parametrize("task", PATHS)
def test_a_scene_is_seen_as_the_same_picture_sent(client, models, task):
    size = reader(models, task)[0].config.model.image.size
    sent = seen(client, task, png(scene("test", 3, pixels=size).painting.image))
    painted = seen(client, task, b"", scene=3)
    for one in (sent, painted):
        one.pop("things", None)  # whose boxes are in pixels of either
    assert json.dumps(painted) == json.dumps(sent)


@pytest.mark.parametrize("task", PATHS)
def test_what_the_page_shows_is_escaped_and_holds_the_picture(client, task):
    view = seen(client, task, view=True)["view"]
    assert view.startswith('<section class="stepper overlay">')
    assert "<b>bag" not in view
    assert view.count("data:image/png;base64,") == 1


def saved(image, kind="PNG"):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def test_pictures_that_are_none_are_refused_with_the_right_status(client, models):
    said = "is not an image that can be read"
    assert said in seen(client, "caption", b"%PDF-1.4 nothing of the kind", status=415)
    assert "is truncated or damaged" in seen(client, "caption", saved(Image.fromarray(WIDE), "JPEG")[:500], status=400)
    assert "There is no picture" in seen(client, "caption", b"", status=400)
    assert "split: Input should be 'train', 'valid' or 'test'" in seen(
        client, "caption", scene=1, split="tset", status=422
    )
    assert "scene: Input should be greater" in seen(client, "caption", b"", scene=-1, status=422)
    form = client.post("/api/caption", files={"image": PNG})
    assert (form.status_code, form.json()["error"]) == (
        415,
        "The body is multipart/form-data. Send the bytes of an image file themselves, as image/png.",
    )
    with TestClient(make_app(models, Limits(megapixels=0.003))) as strict:
        assert "0.003 are read, so that no file can fill" in seen(strict, "caption", status=413)
    bomb = saved(Image.new("L", (9_000, 9_000)))
    assert "megapixels, and at most 25 are read" in seen(client, "classify", bomb, status=413)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_any_common_picture_is_seen(client, mode):
    image = Image.new(mode, (3, 1))
    assert seen(client, "classify", saved(image, "TIFF" if mode == "CMYK" else "PNG"))["classes"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(PNG) - 1), st.integers(0, 255))
def test_a_damaged_picture_is_seen_or_refused(client, place, byte):
    content = PNG[:place] + bytes([byte]) + PNG[place + 1 :]
    answer = client.post("/api/classify", content=content)
    assert answer.status_code in (200, 400, 413, 415), answer.text
    assert answer.status_code == 200 or answer.json()["error"]
