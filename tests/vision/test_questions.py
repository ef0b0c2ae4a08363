"""Laws of what answers questions about images, and the equations held against loops that read like the paper."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from regard.attention.base import Sizes, coverages, focuses, reaches
from regard.config import AttentionConfig, EncoderConfig, ImageConfig, ModelConfig, QuestionsConfig
from regard.data.batching import draw_each
from regard.errors import ConfigError, DataError, ModelError
from regard.models.protocol import Encoded
from regard.vision.build import build_answerer
from regard.vision.questions.base import Answerer, QuestionTokens, answerers
from regard.vision.questions.batch import Question, QuestionSet
from regard.vision.questions.gated_tanh import GatedTanhScore
from regard.vision.questions.question_words import ASK, PAD, UNKNOWN, QuestionWords
from regard.vision.questions.scoring import (
    QuestionScores,
    astray,
    blind_guess,
    hits,
    looked_at,
    predict,
    question_loss,
    score_questions,
)

B, N, T, S, C, D, E, Q, A, F, WORDS, ANSWERS = 2, 5, 4, 6, 3, 8, 10, 12, 7, 9, 17, 11
HEADS = AttentionConfig("scaled-dot", heads=2, project=True)
REGIONS = ImageConfig("regions", channels=C, size=0, width=D)
PIXELS = ImageConfig("resnet", size=8, width=D, stages=2, units=1, positions="sinusoidal")
TOP_DOWN = ModelConfig(
    embedding=E,
    dropout=0.1,
    encoder=EncoderConfig("recurrent", "gru", width=Q, bidirectional=False),
    attention=AttentionConfig("gated-tanh", width=A),
    self_attention=HEADS,
    image=REGIONS,
)
CROSS = ModelConfig(
    embedding=Q,
    dropout=0.1,
    encoder=EncoderConfig("transformer", layers=3, width=Q, feed_forward=13),
    attention=HEADS,
    self_attention=HEADS,
    positions="sinusoidal",
    image=REGIONS,
)
PAIRS = {
    "top-down": (TOP_DOWN, QuestionsConfig("top-down", fusion=F)),
    "top-down, lstm": (
        replace(TOP_DOWN, encoder=replace(TOP_DOWN.encoder, cell="lstm")),
        QuestionsConfig("top-down", fusion=F),
    ),
    "top-down, heads": (
        replace(TOP_DOWN, attention=AttentionConfig("gated-tanh", width=A, heads=3)),
        QuestionsConfig("top-down", fusion=F),
    ),
    "top-down, grouped": (
        replace(TOP_DOWN, attention=AttentionConfig("gated-tanh", width=A, heads=4, groups=2, learn_temperature=True)),
        QuestionsConfig("top-down", fusion=F),
    ),
    "top-down, values": (
        replace(TOP_DOWN, attention=AttentionConfig("gated-tanh", width=A, values=True)),
        QuestionsConfig("top-down", fusion=F),
    ),
    "top-down, additive": (
        replace(TOP_DOWN, attention=AttentionConfig("additive", width=A)),
        QuestionsConfig("top-down", fusion=F),
    ),
    "cross": (CROSS, QuestionsConfig("cross")),
    "cross, shared": (replace(CROSS, positions="rotary"), QuestionsConfig("cross", shared=True)),
    "cross, summed": (CROSS, QuestionsConfig("cross", summed=True)),
    "cross, mean": (
        replace(CROSS, encoder=replace(CROSS.encoder, norm="post")),
        QuestionsConfig("cross", pooling="mean"),
    ),
}
SYSTEMS = {name: replace(model, questions=config) for name, (model, config) in PAIRS.items()}
BLIND = {f"{name} without": replace(model, attention=None) for name, model in SYSTEMS.items()}
EVERY = SYSTEMS | BLIND
BY_SYSTEM = pytest.mark.parametrize("name", SYSTEMS)
BY_EVERY = pytest.mark.parametrize("name", EVERY)


def made(name: str, image: ImageConfig = REGIONS) -> Answerer:
    torch.manual_seed(1)
    built = build_answerer(replace(EVERY[name], image=image), WORDS, ANSWERS)
    for parameter in built.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, -0.5, 1.2)  # what starts from zero would hide what it does
    return built.double().eval()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def asking() -> QuestionTokens:
    """Five questions of different lengths about two images, three about the second."""
    lengths = torch.tensor([4, 2, 3, 4, 1])
    tokens = torch.randint(3, WORDS, (N, T), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(T) < lengths[:, None]
    return QuestionTokens(tokens.masked_fill(~mask, PAD), mask, torch.tensor([1, 0, 1, 0, 1]))


def refusal(kind, call) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# -- laws of every answerer ------------------------------------------------------------------------------------------


@BY_EVERY
def test_weights_are_those_of_the_question(name):
    model, asked = made(name), asking()
    seen = model.see(drawn(B, S, C), asked)
    assert seen.logits.shape == (N, ANSWERS)
    config = EVERY[name]
    layers = 0 if config.attention is None else 1 if "top-down" in name else 3
    steps = 1 if "top-down" in name else T
    heads = 1 if config.attention is None else config.attention.heads
    assert seen.weights.shape == (N, steps, layers, heads, S)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones_like(seen.weights[..., 0]))
    assert (seen.weights >= 0).all()
    torch.testing.assert_close(model(drawn(B, S, C), asked), seen.logits)
    assert model.see(drawn(B, S, C), asked, look=False).weights is None
    if layers:
        total = looked_at(seen.weights, asked.mask)
        torch.testing.assert_close(total.sum(-1), torch.ones(N, dtype=torch.float64))


@BY_EVERY
def test_padding_of_questions_and_regions_changes_nothing(name):
    model, asked, regions = made(name), asking(), drawn(B, S, C)
    wanted = model.see(regions, asked, torch.ones(B, S, dtype=torch.bool))
    more = QuestionTokens(
        nn.functional.pad(asked.tokens, (0, 2), value=5), nn.functional.pad(asked.mask, (0, 2)), asked.about
    )
    padded = torch.cat([regions, torch.full((B, 3, C), math.nan, dtype=torch.float64)], dim=1)
    real = torch.arange(S + 3).expand(B, -1) < S
    got = model.see(padded, more, real)
    torch.testing.assert_close(got.logits, wanted.logits)
    torch.testing.assert_close(got.weights[:, : wanted.weights.shape[1], ..., :S], wanted.weights)
    assert not got.weights[..., S:].any()


@BY_EVERY
def test_regions_may_come_in_any_order(name):
    model, asked, regions = made(name), asking(), drawn(B, S, C)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    wanted, got = model.see(regions, asked), model.see(regions[:, order], asked)
    torch.testing.assert_close(got.logits, wanted.logits)
    torch.testing.assert_close(got.weights, wanted.weights[..., order])


@BY_EVERY
def test_a_question_sees_its_own_image_and_no_other_question(name):
    model, asked, regions = made(name), asking(), drawn(B, S, C)
    together = model(regions, asked)
    for n in range(N):
        length = int(asked.mask[n].sum())
        alone = QuestionTokens(asked.tokens[n : n + 1, :length], asked.mask[n : n + 1, :length], torch.tensor([0]))
        one = model(regions[asked.about[n]][None], alone)
        torch.testing.assert_close(together[n : n + 1], one)


@BY_EVERY
def test_as_many_questions_about_each_image_need_no_picking(name):
    model, asked, regions = made(name), asking(), drawn(B, S, C)
    tokens, mask = asked.tokens[[0, 1, 2, 3, 4, 0]], asked.mask[[0, 1, 2, 3, 4, 0]]
    wanted = model.see(regions, QuestionTokens(tokens, mask, torch.tensor([0, 0, 0, 1, 1, 1])))
    got = model.see(regions, QuestionTokens(tokens, mask))
    torch.testing.assert_close(got.logits, wanted.logits)
    torch.testing.assert_close(got.weights, wanted.weights)
    torch.testing.assert_close(model(regions, QuestionTokens(tokens, mask)), wanted.logits)


@BY_EVERY
@pytest.mark.parametrize("image", [REGIONS, PIXELS], ids=["regions", "pixels"])
def test_every_weight_learns(name, image):
    model = made(name, image)
    source = drawn(B, S, C) if image is REGIONS else drawn(B, 3, 8, 8)
    nn.functional.cross_entropy(model(source, asking()), torch.arange(N)).backward()
    missing = [part for part, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-12]
    # A softmax cannot tell what is added to all scores of a query.
    assert [part for part in missing if not part.endswith("W_k.bias")] == []


@BY_SYSTEM
def test_gradients_are_those_of_small_differences(name):
    model, asked = made(name), asking()
    regions = drawn(B, S, C).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: model(x, asked).tanh().sum(0), (regions,), atol=1e-5)


# -- the equations, one by one -----------------------------------------------------------------------------------------


def gated(layer, x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(layer.W.weight @ x + layer.W.bias) * torch.sigmoid(layer.W_gate.weight @ x + layer.W_gate.bias)


def test_top_down_attention_is_the_papers():
    model, asked, regions = made("top-down"), asking(), drawn(B, S, C)
    seen = model.see(regions, asked)
    score = model.attention.score
    W, W_gate = torch.cat([score.V.weight, score.Q.weight], dim=1).chunk(2)  # over [v_i; q]
    b, b_gate = score.b.chunk(2)
    gru = model.reader.network
    for n in range(N):
        q = torch.zeros(Q, dtype=torch.float64)
        for token in asked.tokens[n][asked.mask[n]]:
            x = gru.weight_ih_l0 @ model.embedding.weight[token] + gru.bias_ih_l0
            h = gru.weight_hh_l0 @ q + gru.bias_hh_l0
            r, z = torch.sigmoid(x[:Q] + h[:Q]), torch.sigmoid(x[Q : 2 * Q] + h[Q : 2 * Q])
            q = z * q + (1 - z) * torch.tanh(x[2 * Q :] + r * h[2 * Q :])
        v = [model.encoder.stem.W(region) for region in regions[asked.about[n]]]
        a = []
        for v_i in v:
            x = torch.cat([v_i, q])
            a.append(score.w_a.weight[0] @ (torch.tanh(W @ x + b) * torch.sigmoid(W_gate @ x + b_gate)))
        alpha = torch.softmax(torch.stack(a), dim=0)
        v_hat = sum(weight * v_i for weight, v_i in zip(alpha, v, strict=True))
        h = gated(model.f_q, q) * gated(model.f_v, v_hat)
        logits = model.output.weight @ gated(model.f_o, h) + model.output.bias
        torch.testing.assert_close(seen.weights[n, 0, 0, 0], alpha)
        torch.testing.assert_close(seen.logits[n], logits)


def test_the_gated_score_has_weights_of_its_own_for_each_head():
    sizes = Sizes(query=3, key=5, heads=2, groups=2, hidden=7)
    score = GatedTanhScore(sizes).double()
    nn.init.uniform_(score.b)
    query, states = drawn(B, 2, T, 3), drawn(B, 2, S, 5)
    got = score(query, score.keys(states))
    for head in range(2):
        V, Q_, b = (part.chunk(2)[head] for part in (score.V.weight, score.Q.weight, score.b))
        unit, gate = (states[:, head, None] @ V.T + (query[:, head] @ Q_.T)[:, :, None] + b).chunk(2, dim=-1)
        wanted = (torch.tanh(unit) * torch.sigmoid(gate)) @ score.w_a.weight[head]
        torch.testing.assert_close(got[:, head], wanted)


def test_the_gated_look_hears_what_every_look_hears():
    grouped, valued = made("top-down, grouped").attention, made("top-down, values").attention
    assert grouped.score.V.weight.shape[0] == 2 * 2 * A  # two groups of keys, and gates for each unit
    assert grouped.heads.W_v.out_features == 2 * Q // 4
    assert grouped.log_temperature is not None
    assert valued.values is not None
    config = AttentionConfig("gated-tanh", width=A, heads=3, pruned=("0.1",))
    pruned = replace(SYSTEMS["top-down"], attention=config)
    assert build_answerer(pruned, WORDS, ANSWERS).attention.pruned == (1,)


def test_a_summed_look_is_the_logarithm_of_what_fits():
    look = made("cross, summed").layers[0].summed
    words, states, asked = drawn(B, T, Q), drawn(B, S, D), QuestionTokens(*asking()[:2])
    mask = torch.arange(S) < torch.tensor([[4], [S]])
    got = look(
        words, Encoded(states, mask, states[:, :1]), asked._replace(tokens=asked.tokens[:B], mask=asked.mask[:B])
    )
    queries, keys, values = look.heads.queries(words), look.heads.keys(states), look.heads.values(states)
    found = torch.zeros_like(queries)  # B H T d
    for image, real in enumerate(mask.sum(dim=1).tolist()):
        for head in range(2):
            for cell in range(real):
                score = queries[image, head] @ keys[image, head, cell] / math.sqrt(Q // 2)
                gate = torch.sigmoid(score + look.bias[head] - math.log(real))
                found[image, head] += gate[:, None] * values[image, head, cell]
    torch.testing.assert_close(got, look.heads.join((found + (found**2 + 1).sqrt()).log()))


def test_a_summed_look_tells_how_many_fit_and_drowns_nothing():
    look = made("cross, summed").layers[0].summed
    look.heads.W_v.weight.data.mul_(1000)
    fits = drawn(1, 1, D).expand(1, 256, D)
    words, one = drawn(1, 1, Q), QuestionTokens(torch.ones(1, 1).long(), torch.ones(1, 1).bool())
    look.bias.data.fill_(50)  # all gates are open
    sizes = []
    for count in (1, 2, 256):
        states = torch.cat([fits[:, :count], torch.zeros(1, 256 - count, D)], dim=1)
        seen = look(words, Encoded(states, torch.ones(1, 256).bool(), states[:, :1]), one)
        sizes.append((seen - look.heads.join(torch.zeros(1, 2, 1, Q // 2).double())).norm().item())
    assert 1.05 * sizes[0] < sizes[1] < sizes[2] < 3 * sizes[0]


def test_without_attention_all_regions_count_the_same():
    model, asked, regions = made("top-down without"), asking(), drawn(B, S, C)
    mean = regions.mean(dim=1, keepdim=True).expand(-1, S, -1)
    torch.testing.assert_close(model(regions, asked), model(mean, asked))


@pytest.mark.parametrize("heads", [1, 3])
def test_parameters_of_top_down(heads):
    model = made("top-down" if heads == 1 else "top-down, heads")
    per = Q // heads
    key = query = per if heads > 1 else 0
    key, query = (D, Q) if heads == 1 else (key, query)
    projections = 0 if heads == 1 else Q * Q + Q + 2 * (D * Q + Q) + Q * Q + Q
    score = heads * (2 * A * (key + query) + 2 * A + A)
    reader = WORDS * E + 3 * Q * (E + Q) + 6 * Q
    seen = D if heads == 1 else Q
    fusion = 2 * F * (Q + 1) + 2 * F * (seen + 1) + 2 * F * (F + 1) + ANSWERS * (F + 1)
    wanted = (C + 1) * D + reader + projections + score + fusion
    assert sum(p.numel() for p in model.parameters()) == wanted


def test_parameters_of_cross():
    look = lambda keys: 2 * (Q * Q + Q) + 2 * (keys * Q + Q)  # noqa: E731
    layer = look(Q) + look(D) + 2 * 13 * Q + 13 + Q + 3 * 2 * Q
    wanted = (C + 1) * D + WORDS * Q + 3 * layer + 2 * Q + ANSWERS * (Q + 1)
    assert sum(p.numel() for p in made("cross").parameters()) == wanted


# -- words, batches, scores --------------------------------------------------------------------------------------------


def test_words_have_no_capitals_and_no_question_marks():
    words = QuestionWords.of(["Is there a red circle?", "is there a ring ?"])
    assert words.words == ("<pad>", "<unk>", "?", "a", "circle", "is", "red", "ring", "there")
    assert words.encode("IS THERE a red star?") == [ASK, 5, 8, 3, 6, UNKNOWN]
    assert words.labels("Is there a ring?") == ("?", "is", "there", "a", "ring")
    assert words.unknown("is there a Star?") == ("star",)
    assert refusal(DataError, lambda: words.encode(" ? ")) == "The question ' ? ' has no words."


KINDS = ("a", "b")


def material(gold=True) -> QuestionSet:
    words = QuestionWords(["is", "red", "what"])
    images = np.arange(3 * 8 * 8 * 3, dtype=np.uint8).reshape(3, 8, 8, 3)
    cells = np.arange(16) == 5
    one = Question("what is red?", "no", "a", gold=cells if gold else None)
    two = Question("red?", "yes", "b", True, np.zeros(16, bool) if gold else None)
    return QuestionSet.of(images, [[one, two], [], [two]], words, ("yes", "no"), KINDS)


def test_a_batch_holds_pictures_with_all_their_questions():
    batch = material().batch([2, 0])
    assert batch.count == 3
    assert batch.tokens.tolist() == [[ASK, 4, PAD, PAD], [ASK, 5, 3, 4], [ASK, 4, PAD, PAD]]
    assert batch.about.tolist() == [0, 1, 1]
    assert batch.answers.tolist() == [0, 1, 0]
    assert batch.kinds.tolist() == [1, 0, 1]
    assert batch.held_out.tolist() == [True, False, True]
    assert batch.gold.sum(dim=1).tolist() == [0, 1, 0]
    assert batch.rows.tolist() == [2, 0, 1]
    assert batch.source.dtype == torch.uint8
    assert batch.features.shape == (2, 3, 8, 8)
    assert batch.to("cpu").tokens_mask.equal(batch.tokens != PAD)


def test_batches_lose_nothing():
    some = material()
    assert [batch.rows.tolist() for batch in some.batches(2)] == [[0, 1], [2]]
    assert [batch.count for batch in some.batches(1)] == [2, 1]  # nothing is asked about the second


def test_chosen_batches_have_one_shape():
    some = material()
    raw = np.array([7, 3, 5])
    rows = draw_each(some.asked.starts, np.array([2, 0]), 3, raw)
    assert rows.tolist() == [2, 2, 2, 1, 0, 1]  # by the random numbers within a picture, and round again
    batch = some.chosen(rows, 3)
    assert batch.about is None
    assert batch.tokens.shape == (6, 4)
    assert batch.shape == (2, 8, 8, 3, 6, 4)
    assert (batch.source.numpy() == some.sources[[2, 0]]).all()
    model = build_answerer(replace(SYSTEMS["cross"], image=PIXELS), 6, 2).eval()
    assert len(predict(model, batch, ("yes", "no"))) == batch.count == 6


def test_regions_of_any_number_are_padded():
    regions = [np.ones((2, C), np.float32), np.ones((4, C), np.float32)]
    one = Question("red", "yes")
    batch = QuestionSet.of(regions, [[one], [one]], QuestionWords(["red"]), ("yes",)).batch([0, 1])
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert batch.features is batch.source
    assert batch.gold is None


def test_what_does_not_fit_is_refused():
    words, image, one = QuestionWords(["red"]), np.zeros((8, 8, 3), np.uint8), Question("red", "yes")
    case = lambda call: refusal((DataError, ModelError, ConfigError), call)  # noqa: E731
    assert (
        case(lambda: QuestionSet.of([image], [[one], [one]], words, ("yes",)))
        == "There are 1 pictures and questions about 2."
    )
    assert case(lambda: QuestionSet.of([image], [[one]], words, ("yess",))) == (
        "No answer is 'yes'. Did you mean 'yess'? There are yess."
    )
    assert (
        case(lambda: QuestionSet.of([image], [[]], words, ("yes",)))
        == "No question is asked about any of the pictures."
    )
    small = np.zeros((4, 4, 3), np.uint8)
    two = QuestionSet.of([image, small], [[one], [one]], words, ("yes",))
    assert "Images of 2 sizes" in case(lambda: two.batch([0, 1]))
    asked = asking()
    assert case(lambda: made("cross")(drawn(1, S, C), asked)) == (
        "There are 1 images, counted from 0, and questions about number 0 to 1."
    )
    assert case(lambda: made("cross")(drawn(B, S, C), asked._replace(about=None))) == (
        "5 questions cannot be as many of each of 2 images: say which each is about."
    )
    bad = asked._replace(mask=asked.mask[:, :2])
    assert case(lambda: made("cross")(drawn(B, S, C), bad)).endswith("got 5×4, 5×2, 5.")


@pytest.mark.parametrize(
    ("changes", "config", "said"),
    [
        ({}, QuestionsConfig("topdown"), "No answerer named 'topdown'. Did you mean 'top-down'?"),
        ({"encoder": EncoderConfig("recurrent")}, QuestionsConfig(), "model.encoder.bidirectional=false"),
        ({}, QuestionsConfig(fusion=0), "model.questions.fusion must be at least 1, got 0."),
        ({}, QuestionsConfig("cross"), "model.encoder.kind is recurrent: set it to transformer."),
        (
            {"encoder": CROSS.encoder, "embedding": Q},
            QuestionsConfig("cross", pooling="last"),
            "first, mean, got 'last'",
        ),
        ({"attention": AttentionConfig("gated-tanh", focus="hard")}, QuestionsConfig(), "a question looks once"),
        ({"attention": AttentionConfig("gated-tanh", reach="local-p")}, QuestionsConfig(), "at all regions"),
        ({"attention": AttentionConfig("gated-tanh", heads=0)}, QuestionsConfig(), "model.attention.heads must be"),
        ({"attention": AttentionConfig("gated-tanh", heads=5)}, QuestionsConfig(), "does not divide the width"),
        ({"attention": AttentionConfig("gated-tanh", heads=4, groups=3)}, QuestionsConfig(), "model.attention.groups"),
        ({"attention": AttentionConfig("gated-tanh", pruned=("1.0",))}, QuestionsConfig(), "the last layer is 0"),
        ({"dropout": 1.0}, QuestionsConfig(), "model.dropout must be at least 0 and below 1"),
        ({"image": None}, QuestionsConfig(), "model.image is none"),
    ],
)
def test_settings_that_make_no_answerer(changes, config, said):
    assert said in refusal(
        ConfigError, lambda: build_answerer(replace(TOP_DOWN, questions=config, **changes), WORDS, ANSWERS)
    )


@pytest.mark.parametrize("name", ["cross", "top-down", "top-down, additive"])
@pytest.mark.parametrize(
    ("setting", "value", "instead"), [*(("coverage", one, "none") for one in coverages), ("reach", "local-m", "global")]
)
def test_looks_that_go_by_those_before_are_refused(name, setting, value, instead):
    attention = replace(SYSTEMS[name].attention, **{setting: value})
    assert refusal(
        ConfigError, lambda: build_answerer(replace(SYSTEMS[name], attention=attention), WORDS, ANSWERS)
    ) == (
        f"model.attention.{setting}={value} goes by the looks before, and so questions about one image would change "
        f"each other's answers: set model.attention.{setting}={instead}."
    )


@pytest.mark.parametrize("name", ["cross", "top-down, additive"])
@pytest.mark.parametrize("reach", reaches)
@pytest.mark.parametrize("focus", focuses)
def test_questions_about_one_image_never_change_each_other_s_answers(name, reach, focus):
    """Whatever can be built answers alike whether the questions of an image are laid out as one or apart."""
    torch.manual_seed(1)
    try:
        attention = replace(SYSTEMS[name].attention, reach=reach, focus=focus, window=1)
        model = build_answerer(replace(SYSTEMS[name], attention=attention), WORDS, ANSWERS).double().eval()
    except ConfigError:
        return
    source, tokens = torch.randn(B, S, C).double(), torch.randint(1, WORDS, (3 * B, T))
    mask = torch.ones_like(tokens, dtype=torch.bool)
    together = model(source, QuestionTokens(tokens, mask))
    apart = model(source, QuestionTokens(tokens, mask, torch.arange(B).repeat_interleave(3)))
    torch.testing.assert_close(together, apart)


def test_a_model_needs_words_and_answers():
    text = refusal(ConfigError, lambda: build_answerer(SYSTEMS["cross"], WORDS, 0))
    assert text == "An answerer needs at least 1 answer, got 0."
    assert sorted(answerers) == ["cross", "top-down"]


@BY_EVERY
def test_loss_and_prediction_agree(name):
    some = material()
    model = build_answerer(replace(EVERY[name], image=PIXELS), 6, 2).eval()
    batch = some.batch([0, 2])
    total, given, _ = question_loss(model, batch)
    said = predict(model, batch, ("yes", "no"))
    right = ["yes" if answer == 0 else "no" for answer in batch.answers]
    chances = [
        dict([(one.answer, one.probability), *one.others])[wanted] for one, wanted in zip(said, right, strict=True)
    ]
    assert total.item() == pytest.approx(-sum(map(math.log, chances)), rel=1e-5)
    assert given == sum(one.answer == wanted for one, wanted in zip(said, right, strict=True))
    assert [one.weights.shape[0] for one in said] == ([1] * 3 if "top-down" in name else [4, 2, 2])
    assert all(one.weights.shape[-1] == math.prod(one.grid) == 16 for one in said)
    scores = score_questions(model, some.batches(1), KINDS)
    assert scores.summary()["valid_loss"] == pytest.approx(total.item() / 3, rel=1e-5)


def test_scores_by_kind_and_by_what_is_new():
    batch = material().batch([0, 2])
    model = build_answerer(replace(SYSTEMS["top-down"], image=PIXELS), 6, 2).eval()
    seen = model.see(batch.features, batch.asking)
    weights = torch.zeros(3, 1, 1, 1, 16)
    weights[..., 5] = 1.0  # the gold cell of the first; the others have none
    seen = seen._replace(logits=torch.tensor([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), weights=weights)
    assert [part.tolist() for part in hits(seen, batch)] == [[True, False, False], [True, False, False]]
    scores = QuestionScores(("a", "b"))
    scores.add(seen, batch)
    assert scores.accuracy() == (2, 3)
    assert scores.accuracy("b") == scores.accuracy("b", held_out=True) == (1, 2)
    assert scores.accuracy("b", held_out=False).whole == 0
    assert scores.hit() == scores.hit("a", held_out=False) == (1, 1)
    summary = scores.summary()
    assert summary["accuracy"] == pytest.approx(2 / 3)
    assert summary["accuracy_b_held_out"] == 0.5
    assert summary["hit"] == 1.0
    assert "hit_held_out" not in summary
    assert "accuracy_b_familiar" not in summary
    assert scores.table().splitlines()[-1].split() == ["all", "66.67", "100.00", "50.00", "100.00", "3"]


def test_how_far_looks_go_astray():
    weights = torch.zeros(3, 2, 2, 2, 4)
    weights[0, 0, 1] = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
    weights[1, 0, 1] = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    weights[1, 1, 1] = torch.tensor([[0.2, 0.0, 0.8, 0.0], [0.4, 0.0, 0.6, 0.0]])
    places = torch.zeros(3, 2, 4, dtype=torch.bool)
    places[0, 0, [0, 2]] = places[1, 0, 2] = places[1, 1, 0] = True  # the other words name nothing
    assert astray(weights, places, 1, 0).item() == pytest.approx(-math.log(0.5 * 0.2))
    assert astray(weights, places, -1, -1).item() == pytest.approx(-math.log((0.5 + 0.4) / 2 * 0.3))
    as_one = torch.tensor([0.1, 0.2, 0.3, 0.4]).expand(3, 1, 1, 1, 4)
    assert astray(as_one, places, 0, 0).item() == pytest.approx(-2 * math.log(0.1 + 0.3))  # all that is named


def test_who_does_not_look_gives_the_commonest_answer():
    answers = torch.tensor([0, 1, 1, 1, 2])
    guessed = blind_guess(answers, ["x", "x", "x", "y", "z"], ["x", "z", "new"], 3)
    assert guessed.tolist() == [1, 2, 1]


@pytest.mark.gpu
@BY_EVERY
def test_a_gpu_answers_the_same_and_learns_in_bfloat16(name):
    some = material()
    model = build_answerer(replace(EVERY[name], image=PIXELS), 6, 2).eval()
    batch = some.chosen(np.array([0, 1, 0, 2, 2, 2]), 3)
    wanted = model.see(batch.features, batch.asking)
    model, there = model.cuda(), batch.pinned().to("cuda")
    got = model.see(there.features, there.asking)
    torch.testing.assert_close(got.logits.cpu(), wanted.logits, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(got.weights.cpu(), wanted.weights, rtol=1e-3, atol=1e-3)
    assert score_questions(model, some.batches(2), KINDS, "cuda").count == 3
    with torch.autocast("cuda", torch.bfloat16):
        total, _, _ = question_loss(model.train(), there)
    total.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
