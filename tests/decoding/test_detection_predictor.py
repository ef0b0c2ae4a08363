"""Finding things: what is found does not depend on the mode that the model is in."""

import numpy as np
import torch

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    DetectionConfig,
    EncoderConfig,
    ImageConfig,
    ModelConfig,
)
from regard.data.class_labels import Labels
from regard.tasks.detection.predictor import DetectionPredictor
from regard.vision.build import build_detector

HEADS = AttentionConfig("scaled-dot", heads=3, project=True)
MODEL = ModelConfig(
    encoder=EncoderConfig("none"),
    dropout=0.5,
    attention=HEADS,
    self_attention=HEADS,
    decoder=DecoderConfig("transformer", layers=2, width=24, feed_forward=29),
    image=ImageConfig("resnet", size=12, width=24, units=1, positions="sinusoidal", layers=1, feed_forward=31),
    detection=DetectionConfig(queries=5),
)


def test_a_detector_in_training_stays_so_and_is_used_without_dropout():
    torch.manual_seed(1)
    model = build_detector(MODEL, 3).train()
    predictor = DetectionPredictor(model, Labels(("x", "y", "z")), Config(model=MODEL))
    picture = np.random.default_rng(2).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    (things,) = predictor.detect(picture[None], least=0.0, masks=False)
    first, second = (predictor.look(picture, things).trace.weights for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model(torch.rand(2, 3, 12, 12)).logits.sum().backward()  # it can be trained on
