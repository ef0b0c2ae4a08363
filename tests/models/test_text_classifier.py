"""Laws of text classifiers, over encoders and the parts of attention. Axes are distinct primes."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from pairwise import pairwise
from regard.attention import focuses, scores
from regard.config import AttentionConfig, EncoderConfig, ModelConfig
from regard.errors import ConfigError
from regard.layers.rnn_cells import cells
from regard.models.registries import encoders
from regard.models.text_classifier import UNFIT_FOCUSES, AttentivePooling, Documents
from regard.task import build

WORDS, CLASSES = 29, 5
PADDING, POISON = 0, WORDS - 1
TEXTS = [[[4, 5, 6, 7, 8, 9, 10], [11, 12]], [[13, 14, 15]], [[16], [17, 18, 19, 20], [21, 22]]]
"""Sentences of three texts; the last entry of the vocabulary is in none."""
SYSTEMS = pairwise(
    {
        "encoder": [kind for kind in encoders if kind != "none"],
        "cell": list(cells),
        "layers": [1, 2],
        "score": [None, *(score for score in scores if score != "location")],
        "focus": [focus for focus in focuses if focus not in UNFIT_FOCUSES],
        "heads": [1, 2],
        "hierarchical": [False, True],
    },
    lambda one: one["encoder"] != "lstmn" or one["cell"] == "lstm",
)


def made(system, **changes):
    """Build a model in evaluation mode."""
    transformer = system["encoder"] == "transformer"
    attention = None
    if system["score"] is not None:
        project = {"project": True, "head_width": 6} if system["heads"] > 1 else {}
        attention = AttentionConfig(system["score"], focus=system["focus"], heads=system["heads"], width=7, **project)
    config = ModelConfig(
        task="classify",
        hierarchical=system["hierarchical"],
        embedding=22 if transformer else 11,
        dropout=0.0,
        encoder=EncoderConfig(
            system["encoder"],
            cell=system["cell"],
            width=22 if transformer else 13,
            layers=max(2, system["layers"]) if system["encoder"] == "gnmt" else system["layers"],
            feed_forward=17,
        ),
        attention=attention,
        self_attention=AttentionConfig("scaled-dot", heads=2, project=True),
    )
    torch.manual_seed(2)
    return build(replace(config, **changes), WORDS, CLASSES).double().eval()


def documents(texts, hierarchical, more=0, filler=PADDING):
    """Pad texts by so many words more than needed, and by so many sentences."""
    texts = texts if hierarchical else [[[word for sentence in text for word in sentence]] for text in texts]
    rows = [sentence for text in texts for sentence in text]
    width, most = more + max(map(len, rows)), more + max(map(len, texts))
    tokens = torch.full((len(rows), width), filler)
    for place, row in enumerate(rows):
        tokens[place, : len(row)] = torch.tensor(row)
    lengths, counts = (torch.tensor([len(one) for one in each]) for each in (rows, texts))
    # Padding of sentences stands for the first of all, or for the last.
    sentences = torch.full((len(texts), most if hierarchical else 1), len(rows) - 1 if filler else 0)
    first = 0
    for place, text in enumerate(texts):
        sentences[place, : len(text)] = torch.arange(first, first + len(text))
        first += len(text)
    mask = torch.arange(width) < lengths[:, None]
    return Documents(tokens, mask, sentences, torch.arange(sentences.shape[1]) < counts[:, None], lengths, counts)


def name_of(system):
    return " ".join(str(value) for value in system.values())


systems = pytest.mark.parametrize("system", SYSTEMS, ids=name_of)


def test_every_part_that_has_a_meaning_is_in_the_sweep():
    assert {system["encoder"] for system in SYSTEMS} == {*encoders} - {"none"}
    assert {system["score"] for system in SYSTEMS} - {None} == {*scores} - {"location"}
    assert {system["focus"] for system in SYSTEMS} == {*focuses} - {*UNFIT_FOCUSES}


@systems
def test_weights_are_a_distribution_over_words_and_over_sentences(system):
    given = documents(TEXTS, system["hierarchical"], more=2)
    seen = made(system).see(given)
    if system["score"] is None:
        assert seen.words is None
        assert seen.sentences is None
        return
    assert (seen.sentences is not None) == system["hierarchical"]
    for weights, mask in ((seen.words, given.mask), (seen.sentences, given.sentence_mask)):
        if weights is not None:
            assert weights.shape[:2] == (len(mask), system["heads"])
            assert (weights >= 0).all()
            assert (weights.masked_select(~mask[:, None]) == 0).all()
            torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:2]).double())


@systems
def test_what_stands_in_the_padding_changes_no_bit(system):
    model = made(system)
    clean, poisoned = (model(documents(TEXTS, system["hierarchical"], 2, filler)) for filler in (PADDING, POISON))
    assert torch.equal(clean, poisoned)


@systems
def test_batch_mates_and_more_padding_change_nothing(system):
    model = made(system)
    together = model(documents(TEXTS, system["hierarchical"], more=3))
    alone = torch.cat([model(documents([text], system["hierarchical"])) for text in TEXTS])
    torch.testing.assert_close(together, alone)


@systems
def test_no_gradient_reaches_padding_and_every_parameter_gets_one(system):
    model = made(system).train()  # there is no dropout, and Gumbel noise has a gradient only here
    logits = model(documents(TEXTS, system["hierarchical"], 2, POISON))
    functional.cross_entropy(logits, torch.tensor([0, 3, 1])).backward()
    table = model.embedding.get_parameter(next(name for name, _ in model.embedding.named_parameters()))
    assert (table.grad[POISON] == 0).all()
    for word in (4, 13, 22):
        assert (table.grad[word] != 0).any()
    assert [name for name, one in model.named_parameters() if one.grad is None or not one.grad.any()] == []


@systems
def test_the_order_of_texts_has_no_say(system):
    model = made(system)
    turned = model(documents(TEXTS[::-1], system["hierarchical"]))
    torch.testing.assert_close(turned.flip(0), model(documents(TEXTS, system["hierarchical"])))


def test_pooling_is_the_equations_of_yang2016():
    """Section 2.2, equations 5 to 7, in plain Python: `b_w` is the projected query."""
    system = dict(SYSTEMS[0], encoder="recurrent", cell="gru", layers=1, score="additive", focus="softmax", heads=1)
    model = made(dict(system, hierarchical=False)).words
    states = torch.randn(1, 3, 11, dtype=torch.double)
    mask, lengths = torch.ones(1, 3, dtype=torch.bool), torch.tensor([3])
    vector, weights = model(states, mask, lengths)
    h = model.encoder(states, mask, lengths).states[0].tolist()
    parts = dict(model.attention.named_parameters())
    W, v = (next(one for name, one in parts.items() if name.endswith(end)) for end in ("U_a.weight", "v_a.weight"))
    W_q = next(one for name, one in parts.items() if name.endswith("W_a.weight"))
    b = (W_q @ model.query).tolist()
    W, v = W.tolist(), v.flatten().tolist()
    u = [
        [math.tanh(sum(w * x for w, x in zip(row, h_t, strict=True)) + b_i) for row, b_i in zip(W, b, strict=True)]
        for h_t in h
    ]
    e = [math.exp(sum(a * c for a, c in zip(v, u_t, strict=True))) for u_t in u]
    alpha = [each / sum(e) for each in e]
    s = [sum(a * h_t[i] for a, h_t in zip(alpha, h, strict=True)) for i in range(len(h[0]))]
    assert weights[0, 0].tolist() == pytest.approx(alpha)
    assert vector[0].tolist() == pytest.approx(s)


@pytest.mark.parametrize("hierarchical", [False, True])
def test_a_transformer_knows_the_order_of_sentences(hierarchical):
    system = dict(SYSTEMS[0], encoder="transformer", layers=1, score="additive", focus="softmax", heads=1)
    model = made(dict(system, hierarchical=hierarchical), positions="sinusoidal")
    one, other = ([[*text] for text in order] for order in ([TEXTS[0]], [TEXTS[0][::-1]]))
    assert not torch.allclose(model(documents(one, hierarchical)), model(documents(other, hierarchical)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"copy": True, "attention": AttentionConfig("dot")},
            "model.copy is true, which is for models that write, and model.task=classify writes nothing: set it to "
            "false.",
        ),
        (
            {"reverse_source": True},
            "model.reverse_source is true, which is for models that write, and model.task=classify writes nothing: set "
            "it to false.",
        ),
        (
            {"tie": "output"},
            "model.tie is output, which is for models that write, and model.task=classify writes nothing: set it to "
            "none.",
        ),
        (
            {"attention": AttentionConfig("additive", focus="hard")},
            "model.attention.focus=hard is for decoders, which attend step by step: take softmax, sparsemax, entmax or "
            "gumbel.",
        ),
        (
            {"attention": AttentionConfig("dot", reach="local-m")},
            "model.attention.reach=local-m is for decoders, which attend step by step, and a text is classified by "
            "attending to it once: set it to global.",
        ),
        (
            {"attention": AttentionConfig("additive", coverage="tu2016")},
            "model.attention.coverage=tu2016 is for decoders, which attend step by step, and a text is classified by "
            "attending to it once: set it to none.",
        ),
        (
            {"attention": AttentionConfig("location")},
            "model.attention.score=location goes by the place of a word alone, whatever stands there: take another "
            "score to classify texts.",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(changes, message):
    system = dict(SYSTEMS[0], encoder="recurrent", score=None, hierarchical=False)
    with pytest.raises(ConfigError) as caught:
        made(system, **changes)
    assert str(caught.value) == message


def test_every_part_of_a_model_is_drawn():
    pools = list(made(dict(SYSTEMS[0], score="dot", hierarchical=True, encoder="recurrent")).modules())
    queries = [one.query for one in pools if isinstance(one, AttentivePooling)]
    assert len(queries) == 2
    assert all(0 < query.norm() < 3 for query in queries)
