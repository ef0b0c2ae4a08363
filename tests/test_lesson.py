"""The lesson's pages have the numbers on record, and its cuts of attention are what they are said to be."""

import importlib
import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from known import transformer
from regard.attention.weight_hooks import Look
from regard.data.pair import Pair
from regard.data.tokenizers import Tokenizers
from regard.data.tokenizers.characters_and_words import Words
from regard.decoding.translator import Translator
from regard.models.build import build_model

ROOT = Path(__file__).parents[1]
ORDER = ("index", "1-bottleneck", "2-alignment", "3-scores", "4-self-attention", "5-uniform-attention")


@pytest.fixture(scope="module")
def benches():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return [importlib.import_module(name) for name in ("lesson", "lesson_pages", "lesson_agreement")]
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_the_pages_have_the_numbers_on_record(benches):
    _, pages, _ = benches
    filled = pages.filled()
    assert {path.stem for path in filled} == {*ORDER, "alignment"}
    for path, text in filled.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python bench/lesson.py --fill"
    record = json.loads((pages.DOCS / "measured.json").read_text(encoding="utf-8"))
    names = [match[1] for text in filled.values() for match in pages.MARKED.finditer(text)]
    assert sorted(names) == sorted(pages.blocks(record))


def test_a_number_that_is_not_on_record_is_noticed(benches):
    _, pages, _ = benches
    (path, text) = next(item for item in pages.filled().items() if item[0].stem == "2-alignment")
    wrong = path.read_text(encoding="utf-8").replace("0.396", "0.397")
    record = json.loads((pages.DOCS / "measured.json").read_text(encoding="utf-8"))
    assert wrong != text == pages.fill(wrong, pages.blocks(record))


def test_each_page_leads_to_the_next_and_back(benches):
    _, pages, _ = benches
    texts = [(pages.DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ORDER]
    for place, text in enumerate(texts[:-1]):
        assert text.count(f"]({ORDER[place + 1]}.md)") >= 2
        assert f"]({ORDER[place]}.md)" in texts[place + 1]


@pytest.mark.parametrize("kind", ["participle", "adjective"])
def test_right_and_wrong_differ_in_the_words_that_agree_alone(benches, kind):
    *_, agreement = benches
    for sentence in agreement.KINDS[kind](agreement.MEASURING | agreement.CHOOSING):
        source, right, wrong = (text.split() for text in (sentence.source, sentence.right, sentence.wrong))
        assert tuple(i for i, words in enumerate(zip(right, wrong, strict=True)) if len({*words}) > 1) == sentence.due
        article, noun = (agreement.MEASURING | agreement.CHOOSING)[source[sentence.noun]]
        assert f"{article} {noun}" in sentence.right or right[sentence.due[0]] == article
        assert right[sentence.due[-1]].endswith("e") == sentence.feminine == (article == "la")
        assert {source[place] for place in sentence.agreeing} <= {"it", "the", "small", "big"}
        assert [right[place] for place in sentence.told] == ([article, noun] if kind == "participle" else [])
    assert not agreement.MEASURING.keys() & agreement.CHOOSING


def test_forbidden_weight_goes_to_the_other_keys_and_other_rows_stay(benches):
    *_, agreement = benches
    torch.manual_seed(1)
    weights = torch.rand(2, 3, 5, 7).softmax(dim=-1)
    allowed = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    look = Look(4, weights.log(), allowed, weights, torch.randn(2, 3, 7, 3))
    cut = agreement.Forbid((2, 5, 8), (1, 6), head=1)(look)  # positions 4 to 8 are here: rows 1 and 4
    assert (cut[:, 1, [1, 4]][..., [1, 6]] == 0).all()
    assert torch.allclose(cut.sum(dim=-1), torch.ones(2, 3, 5))
    kept = [0, 2, 3, 4, 5]
    share = cut[:, 1, [1, 4]][..., kept] / weights[:, 1, [1, 4]][..., kept]
    assert torch.allclose(share, share[..., :1].expand_as(share))
    cut[:, 1, [1, 4]] = weights[:, 1, [1, 4]]
    assert torch.equal(cut, weights)


@pytest.fixture(scope="module")
def translator(benches):
    *_, agreement = benches
    sentences = [one for make in agreement.KINDS.values() for one in make(agreement.MEASURING)]
    sides = [[one.source for one in sentences], [text for one in sentences for text in (one.right, one.wrong)]]
    both = Tokenizers(*(Words.train(texts, 99) for texts in sides))
    torch.manual_seed(2)
    model = build_model(transformer(), both.source.size, both.target.size).eval()
    for weight in model.parameters():
        weight.data.mul_(2)
    return Translator(model, both)


def test_each_route_is_cut_where_the_words_are(benches, translator):
    *_, agreement = benches
    model, sentence = translator.model, next(agreement.participles(agreement.MEASURING))
    assert sentence.source == "the king bought the shirt and sold it"
    assert sentence.right == "le roi a acheté la chemise et l'a vendue"

    def cut(route):
        hooks = agreement._hooks(translator, sentence, sentence.right, route, (1, 0))
        return {module: (list(hook.queries), hook.keys, hook.head) for module, hook in hooks.items()}

    encoder, cross, own = (
        model.encoder.own_attentions,
        model.decoder.source_attentions,
        model.decoder.own_attentions,
    )
    assert cut("nothing") == {}
    assert cut("the chosen head") == {encoder[1]: ([7], [4], 0)}
    assert cut("encoder") == dict.fromkeys(encoder, ([7], [4], None))
    assert cut("cross-attention") == dict.fromkeys(cross, ([8], [4], None))
    assert cut("decoder's own") == dict.fromkeys(own, ([7, 8, 9], [5, 6], None))  # after the start token
    assert cut("all three").keys() == {*encoder, *cross, *own}


@pytest.mark.parametrize("kind", ["participle", "adjective"])
def test_the_odds_are_those_of_scores_and_every_cut_changes_them(benches, translator, kind):
    *_, agreement = benches
    sentence = next(agreement.KINDS[kind](agreement.MEASURING))
    right, wrong = translator.score([(sentence.source, sentence.right), (sentence.source, sentence.wrong)])
    odds = {route: agreement.odds(translator, sentence, route, (0, 1)) for route in agreement.ROUTES}
    assert odds["nothing"] == pytest.approx(sum(right) - sum(wrong), abs=1e-4)
    changed = {route for route, value in odds.items() if abs(value - odds["nothing"]) > 1e-6}
    expected = {*agreement.ROUTES} - {"nothing"} - (set() if sentence.told else {"decoder's own"})
    assert changed == expected


def test_what_is_counted_has_nothing_to_do_with_the_source_and_what_is_reversed_has(benches):
    lesson, *_ = benches
    draw = random.Random(1)
    for _ in range(50):
        words = lesson._counted(draw).target.split()
        places = [lesson.WORDS.index(word) for word in words]
        assert all((after - before) % len(lesson.WORDS) == 1 for before, after in pairwise(places))
        pair = lesson._reversed(draw)
        assert pair.target.split() == pair.source.split()[::-1]


def test_the_diagonal_is_the_identity_for_equal_lengths_and_ends_at_the_ends(benches):
    lesson, *_ = benches
    assert lesson._diagonal(Pair("a b c", "x y z")) == {(0, 0), (1, 1), (2, 2)}
    found = lesson._diagonal(Pair("a b c d e", "x y"))
    assert found == {(0, 0), (4, 1)}


def test_relative_entropy_is_one_for_uniform_weights_and_zero_for_one_word(benches):
    lesson, *_ = benches
    assert lesson._relative_entropy(torch.full((3, 7), 1 / 7).double().numpy()) == pytest.approx(1)
    assert lesson._relative_entropy(torch.eye(5).double().numpy()) == pytest.approx(0)
