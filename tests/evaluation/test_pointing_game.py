"""Whether looks fall on what is named: the step that writes a word counts, of every caption of every scene."""

import numpy as np
import pytest
import torch

from regard.config import (
    AttentionConfig,
    Config,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ImageConfig,
    ModelConfig,
    TokenizerConfig,
)
from regard.data.picture_cache import Captions
from regard.data.pictures import ScenePictures
from regard.data.scenes import on_grid
from regard.data.tokenizers import train_tokenizers
from regard.evaluation.alignment_error_rate import Reading
from regard.models.protocol import Decoder, Encoded, Step, TeacherForced
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.vision.build import build_captioner
from regard.vision.captioner import Captioner
from regard.vision.encoder import EncodedImage

EOS, SIDE = 3, 4
SCENES = ScenePictures("test", 11, pixels=32)
IMAGES = SCENES.images(range(len(SCENES)))
KINDS = {"words": TokenizerConfig("words", vocabulary=200), "characters": TokenizerConfig("characters")}


class Pointer(Decoder[None]):
    """Looks at a thing that a word speaks of at each step that writes a piece of it; wherever no word is, at cell 0."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer, self.parameter = tokenizer, torch.nn.Parameter(torch.zeros(1))

    def script(self, number, text):
        scene = SCENES.scene(number)
        gold = next(caption for caption in scene.captions if caption.text == text)
        covered = on_grid(scene.painting.masks, SIDE)
        return [int(covered[things[0]].argmax()) if things else 0 for things in gold.things]

    def teach(self, tokens, encoded, look=True):
        weights = torch.zeros(*tokens.shape, 1, 1, SIDE**2)
        for row, (read, number) in enumerate(zip(tokens.tolist(), encoded.summary[:, 0, 0].tolist(), strict=True)):
            ids = [*(token for token in read[1:] if token), EOS]
            cells = self.script(int(number), self.tokenizer.decode(ids))
            for step, word in enumerate(self.tokenizer.words(ids)):
                weights[row, step, 0, 0, cells[word] if word >= 0 else 0] = 1.0
        return TeacherForced(torch.zeros(*tokens.shape, 1), weights)

    def project(self, features):
        return features.expand(*features.shape[:-1], self.tokenizer.size)

    def start(self, encoded):
        return None

    def step(self, token, state, look=True):
        logits = torch.zeros(len(token), self.tokenizer.size)
        logits[:, EOS] = 9.0
        return Step(logits, None, torch.full((len(token), 1, 1, SIDE**2), SIDE**-2.0))

    def reorder(self, state, rows):
        return None


class Known(Captioner):
    """Tells which scene an image is of, and nothing else."""

    def __init__(self, decoder):
        torch.nn.Module.__init__(self)
        self.decoder = decoder

    def see(self, source, mask=None, look=True):
        numbers = [[bool((image == one).all()) for one in IMAGES].index(True) for image in source.numpy()]
        cells = torch.zeros(len(source), SIDE**2, 1)
        summary = torch.tensor(numbers, dtype=torch.float32)[:, None, None]
        return EncodedImage(Encoded(cells, torch.ones(cells.shape[:2], dtype=torch.bool), summary), (SIDE, SIDE), {})


@pytest.mark.parametrize("kind", KINDS)
def test_the_step_that_writes_a_word_counts(kind):
    tokenizers = train_tokenizers(KINDS[kind], Captions(SCENES), seed=1)
    predictor = CaptionPredictor(Known(Pointer(tokenizers.target)), tokenizers, Config(decoding=DecodingConfig(beam=1)))
    report = evaluate_captions(predictor, SCENES, batch_size=3)
    assert report["pointing"].value == report["pointing-words"].value == 100.0
    assert report["pointing held-out"].count + report["pointing familiar"].count == report["pointing"].count
    captions = [gold for number in range(len(SCENES)) for gold in SCENES.scene(number).captions]
    assert report["pointing-words"].count == sum(bool(things) for gold in captions for things in gold.things)
    assert "pointing-own" not in report  # nothing that it writes is a caption
    if kind == "words":  # of letters, the step after writes the same word
        late = evaluate_captions(predictor, SCENES, reading=Reading(shift=True))
        assert late["pointing"].value < 75.0
        assert late["pointing-words"].value < 75.0


@pytest.mark.parametrize("focus", ["softmax", "hard"])
def test_made_to_write_what_it_wrote_a_model_looks_as_it_did(focus):
    tokenizers = train_tokenizers(KINDS["words"], Captions(SCENES), seed=1)
    model = ModelConfig(
        embedding=7,
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig("xu", "lstm", width=13, readout="sum", readout_width=7, start="mean"),
        attention=AttentionConfig("additive", width=5, focus=focus),
        image=ImageConfig("patches", size=32, width=11, patch=8),
    )
    torch.manual_seed(1)
    captioner = build_captioner(model, tokenizers.target.size)
    for parameter in captioner.parameters():
        torch.nn.init.normal_(parameter, std=1.4)
    predictor = CaptionPredictor(
        captioner, tokenizers, Config(model=model, decoding=DecodingConfig(beam=3, max_length=9))
    )
    own = predictor.caption(IMAGES)
    others = [SCENES.captions(number) for number in range(len(SCENES))]
    given = predictor.align(IMAGES, [(*more, one.text) for more, one in zip(others, own, strict=True)], batch_size=4)
    steps = 0
    for one, written, more in zip(own, given, others, strict=True):
        assert [each.text for each in written] == [*more, one.text]
        looks = one.best.attention.look()
        again = written[-1].best.attention.look()[: len(looks)]
        np.testing.assert_allclose(again, looks, atol=1e-5)
        steps += int((looks[1:].argmax(axis=1) != looks[:-1].argmax(axis=1)).sum())
    assert steps > len(SCENES)  # looks move: those of another step are others
