"""`regard.diagnosis`: silent on a model that is well, and right about one that was broken on purpose."""

import copy
import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch

import known
from regard.api import train
from regard.attention.focus.softmax import Softmax
from regard.config_io import override
from regard.data.pair import Pair
from regard.data.special_tokens import EOS
from regard.decoding.ensemble import Ensemble
from regard.decoding.translator import Translator
from regard.diagnosis.attention_checks import off_by_one
from regard.diagnosis.diagnosis import CHECKS, diagnose
from regard.diagnosis.output_checks import least_reached, repeats
from regard.diagnosis.source_gradients import Gradients, gradients
from regard.errors import DataError, ModelError
from regard.models.build import build_model
from regard.presets import presets

SMALL = (
    *("tokenizer.kind=words", "model.embedding=24", "model.encoder.width=24", "model.decoder.width=40"),
    *("model.decoder.readout_width=24", "model.attention.width=24", "model.attention.heads=2", "model.dropout=0"),
    *("training.steps=250", "training.batch_tokens=600", "training.learning_rate=0.01"),
    *("training.schedule=constant", "training.precision=float32", "training.validate_every=250"),
    *("training.average=none", "data.held_out=0", "training.patience=0"),
)
"""A model with two heads that learns to reverse in seconds."""
WORDS = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx"]


def reversals(count, seed, shortest=5, longest=9):
    draw = random.Random(seed)
    texts = [[draw.choice(WORDS) for _ in range(draw.randint(shortest, longest))] for _ in range(count)]
    return [Pair(" ".join(text), " ".join(reversed(text))) for text in texts]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reversing")
    corpora = [[(pair.source, pair.target) for pair in reversals(*size)] for size in ((1500, 1), (20, 2))]
    settings = [*SMALL, "training.device=cpu"]
    train(
        corpora[0], valid=corpora[1], out=folder / "model", preset="bahdanau2014-small", settings=settings, quiet=True
    )
    return Translator.load(folder / "model")


PAIRS = reversals(80, seed=3)


@pytest.fixture
def translator(trained):
    """A copy, to be broken."""
    return Translator(
        copy.deepcopy(trained.model), trained.tokenizers, replace(trained.options, beam=1, precision="float32")
    )


def look(translator):
    return translator.model.decoder.source_attentions[0]


def found(translator, check, pairs=PAIRS):
    outcome = diagnose(translator, pairs)[check]
    assert outcome.finding is not None, outcome
    return outcome.finding


def test_it_is_silent_on_a_model_that_is_well(translator):
    diagnosis = diagnose(translator, PAIRS, data="reversals")
    assert not diagnosis.findings, diagnosis
    assert all(outcome.judged for outcome in diagnosis.outcomes), diagnosis
    assert str(diagnosis).endswith("Nothing is wrong, as far as these checks can tell.")


def test_attention_that_is_the_same_everywhere(translator):
    look(translator).score.v_a.weight.data.zero_()
    assert found(translator, "uniform attention").problem.startswith("The attention is almost uniform")


class Drawn(Softmax):
    """Drawn to one place."""

    def __init__(self, place):
        torch.nn.Module.__init__(self)
        self.place = place

    def forward(self, scores, allowed, last=None):
        at = allowed.sum(-1, keepdim=True) - 1 if self.place < 0 else 0 * allowed[..., :1].long() + self.place
        return super().forward(scores.scatter(-1, at.expand(*scores.shape[:-1], 1), 30.0), allowed, last)


@pytest.mark.parametrize(("place", "name"), [(-1, "the end token"), (0, "the first token")])
def test_attention_that_is_stuck(translator, place, name):
    look(translator).focus = Drawn(place)
    assert found(translator, "stuck attention").problem == f"The attention is stuck on {name}."


def test_a_softmax_that_is_saturated(translator):
    look(translator).temperature = 1e-3
    assert found(translator, "saturated attention").problem.startswith("The attention's softmax is saturated")


def test_a_focus_that_means_to_give_all_weight_to_one_place_is_not_saturated(translator):
    look(translator).focus = Drawn(0)
    assert not diagnose(translator, PAIRS)["saturated attention"].judged


@pytest.mark.parametrize(("way", "where"), [(1, "to the left"), (-1, "to the right")])
def test_attention_beside_what_matters(translator, monkeypatch, way, where):
    """Every state stands one place away from the token it tells of."""
    encode = translator.model.encode

    def beside(source, mask, lengths=None):
        encoded = encode(source, mask, lengths)
        last = mask.sum(1, keepdim=True) - 2
        places = torch.arange(mask.shape[1]).expand(mask.shape)
        moved = torch.where(places <= last, (places + way).clamp(min=0).minimum(last), places)
        return encoded._replace(states=encoded.states.gather(1, moved[..., None].expand_as(encoded.states)))

    monkeypatch.setattr(translator.model, "encode", beside)
    assert where in found(translator, "off-by-one alignment").problem


def aligned(rows, columns, down=0, right=0):
    """Return attention for a row-by-row alignment, and attribution that lies beside it."""
    look = np.full((1, 1, rows, columns), 0.1 / columns, np.float32)
    told = np.full((rows, columns), 0.1, np.float32)
    for row in range(rows):
        look[0, 0, row, (3 * row) % columns] += 0.9
        to, at = row - down, (3 * row) % columns - right
        if 0 <= to < rows and 0 <= at < columns:
            told[to, at] += 1
    return look, told


@pytest.mark.parametrize(
    ("move", "said"),
    [
        ((0, 0), None),
        ((-1, 0), "one step before"),
        ((1, 0), "one step after"),
        ((0, -1), "to the left"),
        ((0, 1), "to the right"),
    ],
)
def test_every_direction_of_being_off_by_one(translator, move, said):
    measured = diagnose(translator, PAIRS[:1]).measurements
    look, told = aligned(11, 13, *move)
    pair = replace(measured.forced[0], source=(5,) * 13, target=(5,) * 11, weights=look)
    measured = replace(measured, forced=(pair,), gradients=(Gradients(told, told, told),))
    finding = off_by_one(measured).finding
    assert finding is None if said is None else said in finding.problem


def test_a_head_that_nothing_depends_on(translator):
    out = look(translator).heads.W_o.weight.data
    out[:, out.shape[1] // 2 :] = 0
    finding = found(translator, "dead heads")
    assert finding.problem == "1 head is dead: nothing depends on it."
    assert finding.remedies[0].settings == ("model.attention.pruned=0.1",)


def test_two_heads_that_attend_to_the_same(translator):
    module = look(translator)
    for part in (module.score.W_a, module.score.U_a, module.score.v_a):
        half = part.weight.shape[0] // 2
        part.weight.data[half:] = part.weight.data[:half]
    for part in (module.heads.W_q, module.heads.W_k):
        half = part.weight.shape[0] // 2
        part.weight.data[half:], part.bias.data[half:] = part.weight.data[:half], part.bias.data[:half]
    finding = found(translator, "duplicate heads")
    assert "layer 0 head 0 and 1" in finding.evidence
    assert finding.remedies[0].settings == ("model.attention.pruned=0.1",)


def bend(translator, monkeypatch, change):
    """Change all logits, in the search and with teacher forcing."""
    decoder = translator.model.decoder
    project = decoder.project
    monkeypatch.setattr(decoder, "project", lambda features: change(project(features)))


def bend_steps(translator, monkeypatch, change):
    """Change the logits of the search alone."""
    decoder = translator.model.decoder
    step = decoder.step

    def bent(tokens, state, *rest, **named):
        taken = step(tokens, state, *rest, **named)
        return taken._replace(logits=change(tokens, taken.logits))

    monkeypatch.setattr(decoder, "step", bent)


def sooner(logits):
    return logits.index_add(-1, torch.tensor([EOS]), torch.full((*logits.shape[:-1], 1), 9.0))


def later(logits):
    return logits.index_add(-1, torch.tensor([EOS]), torch.full((*logits.shape[:-1], 1), -30.0))


def test_words_that_are_left_out(translator, monkeypatch):
    bend(translator, monkeypatch, sooner)
    assert found(translator, "over- and under-translation").problem == "The model leaves source words out."
    assert found(translator, "length bias").problem == "Outputs are too short."


def test_words_that_are_translated_again(translator, monkeypatch):
    bend(translator, monkeypatch, later)
    assert found(translator, "over- and under-translation").problem == "The model translates source words again."
    assert found(translator, "length bias").problem == "Outputs are too long."


def test_outputs_that_go_round_in_circles(translator, monkeypatch):
    def same(tokens, logits):
        return logits.scatter_add(1, tokens[:, None], torch.full((len(tokens), 1), 9.0))

    bend_steps(translator, monkeypatch, same)
    finding = found(translator, "repetition")
    assert finding.problem == "Outputs repeat themselves."


def test_a_model_that_is_lost_after_its_own_words(translator, monkeypatch):
    draw = torch.Generator().manual_seed(1)
    bend_steps(translator, monkeypatch, lambda tokens, logits: logits + 9 * torch.randn(logits.shape, generator=draw))
    assert found(translator, "exposure bias").problem.startswith("The model is much worse after its own words")


def test_a_vocabulary_that_is_not_used(translator, monkeypatch):
    others = torch.tensor(translator.tokenizers.target.encode(" ".join(WORDS[2:])))
    bend(translator, monkeypatch, lambda logits: logits.index_fill(-1, others, -30.0))
    draw = random.Random(7)
    texts = [[draw.choice(WORDS[:2]) for _ in range(draw.randint(5, 9))] for _ in range(80)]
    pairs = [Pair(" ".join(text), " ".join(reversed(text))) for text in texts]
    finding = found(translator, "unused vocabulary", pairs)
    size = translator.tokenizers.target.size
    assert "10 of 16" in finding.evidence
    assert finding.remedies[0].settings == (f"tokenizer.vocabulary={max(64, size - 10)}",)


def test_gradients_that_vanish(translator):
    """One vector for the whole source, and a recurrence that forgets."""
    config = override(presets["sutskever2014-small"](), SMALL[1:4])
    torch.manual_seed(1)
    model = build_model(config.model, translator.tokenizers.source.size, translator.tokenizers.target.size).eval()
    for name, weight in model.encoder.named_parameters():
        if "bias_ih" in name:
            weight.data.view(4, -1)[1] = -9  # the forget gate is shut
    forgetful = Translator(model, translator.tokenizers, replace(translator.options, max_length=4))
    finding = found(forgetful, "gradients through time", reversals(20, seed=4, shortest=14, longest=18))
    assert finding.problem.startswith("Gradients vanish")


@pytest.mark.parametrize(("scale", "targets", "what"), [(0.1, False, "unsure"), (1.0, True, "sure")])
def test_probabilities_that_mean_something_else(translator, monkeypatch, scale, targets, what):
    bend(translator, monkeypatch, lambda logits: logits * scale)
    others = [Pair(pair.source, other.target) for pair, other in zip(PAIRS, PAIRS[1:] + PAIRS[:1], strict=True)]
    assert (
        found(translator, "calibration", others if targets else PAIRS).problem == f"The model is too {what} of itself."
    )


def test_gradients_are_those_of_finite_differences(translator):
    """Attribution is the gradient times the embedding: its sum is how fast log p changes as the embedding grows."""
    model = translator.model.double()
    source, target = [5, 9, 7, 6, EOS], [6, 7, 9, 5, EOS]
    (whole,) = gradients(translator, [(source, target)])
    embedding, step = model.source_embedding, 1e-5

    def log_probs(place, factor):
        hook = embedding.register_forward_hook(
            lambda module, given, out: (
                out
                * torch.where(torch.arange(out.shape[1]) == place, factor, torch.tensor(1.0).double())[None, :, None]
            )
        )
        try:
            with torch.no_grad():
                encoded = model.encode(torch.tensor([source]), torch.ones(1, 5, dtype=torch.bool))
                taught = model.decoder.teach(torch.tensor([[2, *target[:-1]]]), encoded, False)
                return model.decoder.logits(taught).log_softmax(-1)[0, range(5), target]
        finally:
            hook.remove()

    for place in range(5):
        slope = (log_probs(place, 1 + step) - log_probs(place, 1 - step)) / (2 * step)
        np.testing.assert_allclose(whole.attribution[:, place], slope.numpy(), atol=2e-4)


def test_gradients_leave_the_model_as_it_was(translator):
    before = [parameter.requires_grad for parameter in translator.model.parameters()]
    translator.model.train()
    gradients(translator, [([5, EOS], [6, EOS])])
    assert translator.model.training
    assert [parameter.requires_grad for parameter in translator.model.parameters()] == before
    assert all(parameter.grad is None for parameter in translator.model.parameters())


def test_without_the_contexts_nothing_reaches_a_transformers_source():
    torch.manual_seed(1)
    model = known.make(known.KNOWN["transformer"])

    class Own:
        pass

    owner = Own()
    owner.model = model
    (found,) = gradients(owner, [([5, 6, EOS], [7, EOS])])
    assert found.norms.all()
    assert not found.norms_without_attention.any()


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("a b c", False),
        ("a a b b", False),
        ("a a a", True),
        ("a b a b a b", True),
        ("x a b c d e a b c d e", True),
        ("a b c d a b c d", False),
    ],
)
def test_what_counts_as_a_repetition(text, does):
    assert repeats(text.split()) == does


def test_the_least_reached_token_is_relative_and_the_end_token_does_not_count():
    assert math.isclose(least_reached([np.array([[4.0, 1.0, 2.0, 0.0]])]), 0.25)


def test_all_suggested_settings_exist(translator, monkeypatch):
    """Break it in many ways at once, and try whatever is said."""
    look(translator).score.v_a.weight.data.zero_()
    bend(translator, monkeypatch, later)
    remedies = [remedy for finding in diagnose(translator, PAIRS).findings for remedy in finding.remedies]
    assert len(remedies) > 5
    for remedy in remedies:
        override(presets["bahdanau2014-small"](), remedy.settings)


def test_too_little_to_judge_by_is_said(translator):
    diagnosis = diagnose(translator, PAIRS[:1])
    assert diagnosis["calibration"].verdict == "not judged"
    assert diagnosis["calibration"].figure == f"{len(PAIRS[0].target.split()) + 1} target tokens; 200 are needed"
    assert not diagnosis.findings


def test_json_has_what_the_report_has(translator):
    look(translator).score.v_a.weight.data.zero_()
    diagnosis = diagnose(translator, PAIRS, data="reversals")
    record = json.loads(json.dumps(diagnosis.to_json()))
    assert [one["check"] for one in record["checks"]] == [outcome.check for outcome in diagnosis.outcomes]
    assert len(record["checks"]) == len(CHECKS)
    for finding in diagnosis.findings:
        assert finding.problem in str(diagnosis)
    assert record["checks"][0]["remedies"][1]["set"] == ["model.attention.learn_temperature=true"]


def test_the_picture_is_written(translator, tmp_path):
    diagnose(translator, PAIRS, data="reversals").save(tmp_path / "doctor.svg")
    text = (tmp_path / "doctor.svg").read_text()
    assert "off-by-one alignment" in text
    assert "Calibration" in text


def test_what_cannot_be_examined(translator):
    with pytest.raises(
        DataError, match=r"^reversals has no sentence pairs, so there is nothing to examine the model on\.$"
    ):
        diagnose(translator, [], data="reversals")
    pair = Translator(Ensemble([translator.model, copy.deepcopy(translator.model)]), translator.tokenizers)
    with pytest.raises(ModelError, match=r"^An ensemble cannot be examined: examine its members one by one\.$"):
        diagnose(pair, PAIRS)
