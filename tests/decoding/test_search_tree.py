"""The tree of a beam search: its finished hypotheses are the search's, and whatever was pruned was no better."""

import json
from collections import defaultdict

import numpy as np
import pytest

from regard.config import DecodingConfig
from regard.data.special_tokens import EOS
from regard.decoding.editing import force_edited
from regard.errors import ConfigError

from .test_editing import COMPILED, SYSTEMS, TEXT, ids, make

NAMES = ["bahdanau2014-small", "transformer2017-small", "luong see2017 copying", "sutskever2014-small"]


def translator_of(name):
    from regard.presets import preset

    from .test_editing import tiny

    translator = make(SYSTEMS[name] if name in SYSTEMS else tiny(preset(name).model))
    translator.options = DecodingConfig(max_length=6, min_length=2, length_penalty=0.7)
    translator.model.decoder.output.bias.data[EOS] = 2.0
    return translator


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_finished_is_what_the_search_returns(name, beam):
    translator = translator_of(name)
    tree = translator.search_tree(TEXT, beam=beam)
    (best,) = translator.translate([TEXT], beam=beam, n_best=beam)
    every = [best, *best.n_best]
    assert [tree.tokens(number) for number in tree.finished] == [one.tokens for one in every]
    for number, one in zip(tree.finished, every, strict=True):
        assert tree.nodes[number].score == pytest.approx(one.score, rel=COMPILED)
        assert tree.nodes[number].log_prob == pytest.approx(sum(one.attention.log_probs), rel=COMPILED)
        assert tree.nodes[number].status == "finished"
    assert [node.status for node in tree.nodes].count("finished") == len(tree.finished)


@pytest.mark.parametrize("name", NAMES)
def test_the_beam_keeps_the_best(name):
    tree = translator_of(name).search_tree(TEXT, beam=3)
    kept, pruned = defaultdict(list), defaultdict(list)
    parents = {node.parent for node in tree.nodes}
    for node in tree.nodes[1:]:
        parent = tree.nodes[node.parent]
        assert parent.number < node.number
        assert parent.step == node.step - 1
        assert parent.status == "kept"
        assert node.log_prob == pytest.approx(parent.log_prob + node.token_log_prob, rel=1e-5, abs=1e-6)
        assert node.score == pytest.approx(node.log_prob / ((5 + node.step + 1) / 6) ** 0.7, rel=1e-5, abs=1e-6)
        if node.status != "kept":
            assert node.number not in parents
        (pruned if node.status == "pruned" and node.token != "</s>" else kept)[node.step].append(node.log_prob)
    for step, values in pruned.items():
        assert max(values) <= min(sorted(kept[step], reverse=True)[:3]) + 1e-6
    assert all(len(values) <= 3 for values in kept.values()) or any(n.token == "</s>" for n in tree.nodes)
    assert pruned


def test_probabilities_are_those_of_the_tokens_forced():
    translator = translator_of("transformer2017-small")
    tree = translator.search_tree(TEXT, beam=3)
    source = [*ids(TEXT.split()), EOS]
    for node in tree.nodes[1::5]:
        forced = force_edited(translator, source, ids(tree.tokens(node.number)), [])
        np.testing.assert_allclose(forced.log_probs[-1], node.token_log_prob, rtol=1e-3, atol=1e-4)


def test_a_pruned_branch_goes_on_as_a_prefix():
    translator = translator_of("transformer2017-small")
    tree = translator.search_tree(TEXT, beam=2)
    pruned = [node for node in tree.nodes if node.status == "pruned"]
    for node in pruned[:3]:
        path = tree.tokens(node.number)
        edited = translator.edit(tree.text, tree.prefix(node.number))
        assert edited.tokens[: len(path)] == path


def test_a_tree_as_text_and_json():
    tree = translator_of("bahdanau2014-small").search_tree(TEXT, beam=2)
    record = json.loads(json.dumps(tree.to_json(), allow_nan=False))
    assert len(record["nodes"]) == len(tree.nodes)
    assert record["nodes"][0]["parent"] == -1
    assert str(tree).startswith(f"beam 2 of {TEXT!r}: ")
    with pytest.raises(ConfigError, match=r"There is no node 999: the tree has \d+, counted from 0\."):
        tree.tokens(999)


@pytest.mark.parametrize(("text", "beam", "message"), [("", 2, "The text is empty"), (TEXT, 0, "decoding.beam is 0")])
def test_what_cannot_be_searched_is_refused(text, beam, message):
    with pytest.raises(ConfigError, match=message):
        translator_of("bahdanau2014-small").search_tree(text, beam=beam)
