"""What speaks for classes, as maps that can be drawn: Grad-CAM, rollout, or both."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import AttentionConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.errors import ModelError
from regard.vision.build import build_classifier
from regard.vision.class_heatmaps import heat_maps
from regard.vision.explain import grad_cam, rolled_out
from regard.vision.pixels import from_pixels
from regard.viz.overlay_picture import save_maps

IMAGE = np.random.default_rng(0).integers(0, 256, (12, 12, 3)).astype(np.uint8)
RESNET = ImageConfig("resnet", size=12, width=24, units=1)
VIT = ImageConfig("patches", size=12, width=24, patch=3, layers=2, feed_forward=29, positions="learned")


def classifier(image: ImageConfig):
    torch.manual_seed(1)
    look = AttentionConfig("scaled-dot", heads=3, project=True)
    return build_classifier(ModelConfig(encoder=EncoderConfig("none"), image=image, self_attention=look), 5).eval()


@pytest.mark.parametrize(
    ("image", "methods"),
    [
        (RESNET, ["Grad-CAM", "Grad-CAM"]),
        (VIT, ["attention rollout"]),
        (replace(RESNET, layers=1, feed_forward=29), ["Grad-CAM", "Grad-CAM", "attention rollout"]),
    ],
)
def test_a_classifier_is_explained_by_what_it_is_made_of(image, methods, tmp_path):
    model = classifier(image)
    found = heat_maps(model, IMAGE, tuple("abcde"))
    assert [each.note for each in found] == methods
    pixels = from_pixels(torch.from_numpy(IMAGE)[None])
    chances = model(pixels)[0].softmax(dim=0)
    best = int(chances.argmax())
    if image.kind == "resnet":
        assert found[0].name == f"{'abcde'[best]} {chances[best]:.0%}"
        wanted = grad_cam(model, model.encoder.stem.stages[-1], pixels, torch.tensor([best]))
        np.testing.assert_array_equal(found[0].cells, wanted[0])
    if image.layers:
        np.testing.assert_array_equal(found[-1].cells, rolled_out(model, pixels)[0])
    assert save_maps(IMAGE, found, tmp_path / "look.svg") == []


def test_what_neither_method_can_explain_is_refused():
    with pytest.raises(ModelError, match="This classifier has nothing to explain it by"):
        heat_maps(classifier(replace(VIT, layers=0)), IMAGE)
