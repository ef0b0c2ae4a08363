"""Grad-CAM and attention rollout beside references written from their equations."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.config import AttentionConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.errors import ModelError
from regard.vision.build import build_classifier
from regard.vision.explain import grad_cam, rolled_out, rollout

HEADS = AttentionConfig("scaled-dot", heads=3, project=True)
RESNET = ImageConfig("resnet", size=12, width=24, units=1)
VIT = ImageConfig("patches", size=12, width=24, patch=3, layers=3, feed_forward=29, positions="learned")
LABELS = torch.tensor([3, 0])


def classifier(image: ImageConfig):
    torch.manual_seed(1)
    model = ModelConfig(encoder=EncoderConfig("none"), image=image, self_attention=HEADS)
    return build_classifier(model, 5).double().eval()


def images(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("stage", [0, 1, 2])
def test_grad_cam_is_the_paper_s(stage):
    """Slopes by finite differences: what a logit gains if one unit of the stage's features is raised a little."""
    model, image = classifier(RESNET), images(2, 3, 8, 12)
    network = model.encoder.stem
    found = grad_cam(model, network.stages[stage], image, LABELS)

    features = network.enter(image)
    for number in range(stage + 1):
        features = network.stages[number](features)

    def logits(maps):
        for later in range(stage + 1, 3):
            maps = network.stages[later](maps)
        cells = nn.functional.relu(network.norm(maps)).mean(dim=(2, 3))
        return model.output(cells)

    step = 1e-6
    for b, label in enumerate(LABELS.tolist()):
        A = features[b].detach()
        total = torch.zeros_like(A[0])
        for k in range(len(A)):
            raised, lowered = A.clone(), A.clone()
            raised[k] += step  # all places of a map at once: the sum of their slopes
            lowered[k] -= step
            both = logits(torch.stack([raised, lowered])).detach()
            alpha = (both[0, label] - both[1, label]) / (2 * step) / A[k].numel()  # equation 1
            total += alpha * A[k]
        torch.testing.assert_close(found[b], total.clamp(min=0), rtol=1e-4, atol=1e-7)  # equation 2


def test_grad_cam_leaves_the_model_as_it_was_and_needs_no_gradients():
    model, image = classifier(RESNET), images(2, 3, 12, 12)
    plain = model(image)
    first = grad_cam(model, model.encoder.stem.stages[-1], image, LABELS)
    assert torch.equal(model(image), plain)
    assert all(parameter.grad is None for parameter in model.parameters())
    model.requires_grad_(False)
    with torch.no_grad():
        again = grad_cam(model, model.encoder.stem.stages[-1], image, LABELS)
    assert torch.equal(first, again)
    assert (first >= 0).all()
    assert not first.requires_grad
    alone = grad_cam(model, model.encoder.stem.stages[-1], image[1:], LABELS[1:])
    torch.testing.assert_close(first[1:], alone)


def test_grad_cam_wants_features():
    model, image = classifier(VIT), images(2, 3, 12, 12)
    with pytest.raises(ModelError, match=r"^Grad-CAM needs a layer that runs once and returns features B×C×h×w"):
        grad_cam(model, model.encoder.layers[0], image, LABELS)
    with pytest.raises(ModelError, match=r"^Grad-CAM needs a layer that runs once"):
        grad_cam(model, nn.Identity(), image, LABELS)


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_rollout_is_the_paper_s(pooling):
    model, image = classifier(replace(VIT, pooling=pooling)), images(2, 3, 9, 15)
    looks = [model.see(image).looks[f"layers.{number}"] for number in range(3)]
    steps = looks[0].shape[1]
    found = rollout(looks)
    for b in range(2):
        joint = None
        for weights in looks:
            A = torch.zeros(steps, steps, dtype=torch.float64)
            for i in range(steps):
                for j in range(steps):
                    A[i, j] = 0.5 * sum(weights[b, i, head, j] for head in range(3)) / 3 + 0.5 * (i == j)
            joint = A if joint is None else A @ joint
        torch.testing.assert_close(found[b], joint)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(2, steps, dtype=torch.float64))
    cells = rolled_out(model, image)
    assert cells.shape == (2, 3, 5)
    wanted = found[:, 0, 1:] if pooling == "class" else found.mean(dim=1)
    torch.testing.assert_close(cells.flatten(1), wanted)


def test_rollout_wants_layers():
    with pytest.raises(ModelError) as caught:
        rolled_out(classifier(RESNET), images(2, 3, 12, 12))
    message = "Attention rollout needs a model with self-attention over cells, but model.image.layers is 0."
    assert str(caught.value) == message
