"""Laws of edited translations, swept over the systems: nothing changed changes nothing, the rest is the equation."""

import json
import math
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import Attention, Memory
from regard.attention.weight_hooks import hooked, is_hooked
from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS, EOS
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding import translator as translator_module
from regard.decoding.edit_hooks import edited as new_rows
from regard.decoding.edit_hooks import hooks_of
from regard.decoding.editing import EditedTranslation, force_edited
from regard.decoding.edits import (
    AblateHead,
    DropSource,
    ForcePrefix,
    KeepPrefix,
    SetRow,
    SetWeights,
    edit_from_json,
    edits_from_json,
)
from regard.decoding.ensemble import Ensemble
from regard.decoding.penalties import length_penalty
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError
from regard.models.build import build_model
from regard.presets import preset, presets

from .test_translator import MODEL

WORDS = Words(["the", "red", "dress", "is", "old", "a", "cat", "la", "robe", "rouge", "vieille", "un", "chat"])
TEXT = "the old cat is red"
LENGTH = 6
"""Of the text, with the end token."""
COMPILED = 1e-5
"""How far the compiled search's numbers are from those of the search in Python."""
HEADS = AttentionConfig("scaled-dot", heads=2, project=True)


def narrow(config):
    if config is None:
        return None
    heads = min(config.heads, 2)
    wide = config.project or heads > 1
    return replace(config, width=7, heads=heads, groups=min(config.groups, 2), head_width=5 if wide else 0, longest=30)


def tiny(config):
    """The same system, with narrow layers."""
    double = 2 if config.encoder.bidirectional and config.encoder.kind != "transformer" else 1
    return replace(
        config,
        embedding=10,
        dropout=0.0,
        encoder=replace(config.encoder, width=10 // double, feed_forward=7, layers=min(config.encoder.layers, 2)),
        decoder=replace(
            config.decoder, width=10, feed_forward=7, readout_width=10, layers=min(config.decoder.layers, 2)
        ),
        attention=narrow(config.attention),
        self_attention=narrow(config.self_attention),
    )


def text_systems():
    """Every small text preset with attention to a source, and what no preset has."""
    small = {name: preset(name).model for name in presets if name.endswith("-small")}
    found = {
        name: tiny(model)
        for name, model in small.items()
        if model.attention is not None and model.task == "write" and model.encoder.kind != "none"
    }
    luong = ModelConfig(decoder=DecoderConfig("luong", readout="tanh", input_feeding=True))
    transformer = ModelConfig(
        encoder=EncoderConfig("transformer"), decoder=DecoderConfig("transformer", layers=2), attention=HEADS,
        self_attention=HEADS, positions="shaw",
    )  # fmt: skip
    for focus in ("sparsemax", "entmax", "hard", "monotonic"):
        found[f"luong {focus}"] = tiny(replace(luong, attention=AttentionConfig("general", focus=focus)))
        found[f"transformer {focus}"] = tiny(replace(transformer, attention=replace(HEADS, focus=focus)))
    for reach in ("local-m", "local-p"):
        found[f"luong {reach}"] = tiny(replace(luong, attention=AttentionConfig("dot", reach=reach, window=1)))
    for coverage in ("see2017", "tu2016"):
        attention = AttentionConfig("additive", coverage=coverage, heads=2)
        found[f"luong {coverage} copying"] = tiny(replace(luong, attention=attention, copy=True))
    found["transformer copying"] = tiny(replace(transformer, copy=True))
    return found


SYSTEMS = text_systems()
every_system = pytest.mark.parametrize("name", SYSTEMS)


def build(config, seed=0, scale=2.0):
    torch.manual_seed(seed)
    model = build_model(config, WORDS.size, WORDS.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.is_floating_point():
                parameter.mul_(scale)  # first weights hardly tell one word from another
        if "monotonic" in str(config.attention):
            for module in model.modules():
                if hasattr(module, "r"):
                    module.r.fill_(0.1)  # otherwise it hardly stops anywhere
        model.decoder.output.bias[EOS] = -1.0
    return model


def make(config, **rest):
    options = DecodingConfig(max_length=7, min_length=4)
    return Translator(build(config, **rest), Tokenizers(WORDS, WORDS), options)


def unedited(translator, text=TEXT, beam=1):
    return translator.edit(text, beam=beam).before


def ids(pieces):
    table = {piece: token for token, piece in enumerate(WORDS.pieces(range(WORDS.size)))}
    return [table[piece] for piece in pieces]


def same(one, other, tolerance=1e-6):
    assert (one.text, one.tokens) == (other.text, other.tokens)
    assert one.score == pytest.approx(other.score, rel=1e-5, abs=tolerance)
    np.testing.assert_allclose(one.attention.log_probs, other.attention.log_probs, rtol=1e-5, atol=5 * tolerance)
    np.testing.assert_allclose(one.attention.weights, other.attention.weights, atol=tolerance)


def test_the_sweep_has_every_family():
    kinds = {system.decoder.kind for system in SYSTEMS.values()}
    assert {"bahdanau", "luong", "conditional", "gnmt", "lstmn", "transformer"} <= kinds


# -- nothing changed --------------------------------------------------------------------------------------------------


@every_system
def test_weights_set_to_what_they_were_change_nothing(name):
    """One weight of one head, a whole row of it, all rows of all steps; by the edited path at every step."""
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    same(before, translator.translate([TEXT], beam=1)[0], COMPILED)
    layers, heads, steps, places = before.attention.weights.shape
    looks = before.attention.weights.astype(float)
    for layer, head, step, place in {(0, 0, 1, 2), (layers - 1, heads - 1, steps - 1, places - 1)}:
        weight = float(looks[layer, head, step, place])
        edited = translator.edit(before, step=step, layer=layer, head=head, weights={place: weight})
        same(edited, before)
        assert np.allclose(edited.comparison().log_prob_changes, 0, atol=1e-5)
        assert {change.kind for change in edited.comparison().changes} == {"same"}
    if looks.sum(axis=-1).min() > 0:  # monotonic attention may stop nowhere, and then there is no row to give
        rows = [
            SetRow(step=step, layer=layer, head=head, row=tuple(looks[layer, head, step]))
            for layer in range(layers)
            for head in range(heads)
            for step in range(steps)
        ]
        same(translator.edit(TEXT, rows), before, tolerance=3e-6)


@every_system
def test_an_edit_changes_nothing_before_its_step(name):
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    edited = translator.edit(before, step=2, weights={3: 0.9})
    assert edited.tokens[:2] == before.tokens[:2]
    np.testing.assert_allclose(edited.attention.weights[:, :, :2], before.attention.weights[:, :, :2], atol=1e-6)
    np.testing.assert_allclose(edited.attention.log_probs[:2], before.attention.log_probs[:2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(edited.attention.weights[:, :, 2, 3], 0.9, atol=1e-6)
    others = np.delete(edited.attention.weights[:, :, 2], 3, axis=-1).sum(axis=-1)
    total = before.attention.weights[:, :, 2].sum(axis=-1)
    first = edited.attention.weights[0, :, 2].sum(axis=-1)  # layers above the first have another query
    np.testing.assert_allclose(first, np.maximum(total, 0.9)[0], atol=1e-5)
    assert (others >= 0).all()


# -- the equation -----------------------------------------------------------------------------------------------------


def edited_row(row, edit):
    """The rule of SetWeights, written out for one row."""
    total, set_ = max(row.sum(), sum(edit.weights.values())), edit.weights
    rest = sum(weight for place, weight in enumerate(row) if place not in set_)
    left = total - sum(set_.values())
    free = len(row) - len(set_)
    return np.array(
        [set_.get(at, weight * left / rest if rest else left / free) for at, weight in enumerate(row)], np.float32
    )


def by_hand(module, edits):
    """Replace the result of a module's calls: the edited weights of each head times its values, then joined."""

    def replace_result(module, given, named, attended):
        query, memory, carry = given[0], given[1], given[2]
        first = 0 if carry is None else carry.position
        weights = attended.weights.clone()  # B T H S
        for edit in edits:
            for t in range(query.shape[1]):
                for head in range(weights.shape[2]):
                    if edit.step == first + t and edit.head in (None, head):
                        weights[0, t, head] = torch.from_numpy(edited_row(weights[0, t, head].numpy(), edit))
        heads, groups = weights.shape[2], memory.values.shape[1]
        contexts = [
            sum(
                weights[:, :, head, at, None] * memory.values[:, head * groups // heads, None, at]
                for at in range(LENGTH)
            )
            for head in range(heads)
        ]
        context = contexts[0] if module.heads is None else module.heads.W_o(torch.cat(contexts, dim=-1))
        after = attended.carry
        if after.covered is not None:
            difference = (weights - attended.weights).sum(dim=1)
            after = after._replace(covered=after.covered + difference, last=weights[:, -1])
        return attended._replace(context=context, weights=weights, carry=after)

    def ask(module, given, named):
        return given[:3], {**named, "look": True}

    return [
        module.register_forward_pre_hook(ask, with_kwargs=True),
        module.register_forward_hook(replace_result, with_kwargs=True),
    ]


@every_system
@torch.no_grad()
def test_an_edit_is_the_direct_computation_with_those_weights(name):
    """For one head of each layer, and for all at once; token by token, as the search does."""
    if "monotonic" in name:
        pytest.skip("where it goes on from is not the weights alone: a test of its own")
    translator = make(SYSTEMS[name])
    decoder = translator.model.decoder
    source, target = [*ids(TEXT.split()), EOS], [*ids(["la", "robe", "la", "un"]), EOS]
    modules = decoder.source_attentions
    some = [(layer, module.head_count - 1) for layer, module in enumerate(modules)] + [(None, None)]
    plain = force_edited(translator, source, target, [])
    for layer, head in some:
        edits = [
            SetWeights(step=1, layer=layer, head=head, weights={3: 0.7, 0: 0.1}),
            SetWeights(step=2, layer=layer, head=head, weights={4: 0.9}),
        ]
        found = force_edited(translator, source, target, edits)
        about = modules if layer is None else [modules[layer]]
        handles = [handle for module in about for handle in by_hand(module, edits)]
        state, token, expected = decoder.start(translator.model.encode(*pad_sources([source]))), BOS, []
        for t, written in enumerate(target):
            step = decoder.step(torch.tensor([token]), state)
            expected.append(step.logits.log_softmax(dim=-1)[0, written].item())
            torch.testing.assert_close(found.weights[t], step.weights[0], rtol=1e-4, atol=1e-6)
            state, token = step.state, written
        for handle in handles:
            handle.remove()
        np.testing.assert_allclose(found.log_probs, expected, rtol=1e-4, atol=1e-5)
        assert not np.allclose(found.log_probs[1:3], plain.log_probs[1:3], atol=1e-6)


@given(
    row=st.lists(st.floats(0, 1, width=32), min_size=5, max_size=5).filter(lambda row: sum(row) > 0.1),
    weights=st.dictionaries(st.integers(0, 4), st.floats(0, 0.2), min_size=1, max_size=4),
)
@settings(max_examples=40)
def test_the_others_share_the_rest_in_proportion(row, weights):
    rows = torch.tensor(row, dtype=torch.float64)[None, None, None]
    rows = rows / rows.sum()
    edit = SetWeights(step=0, weights=weights)
    found = new_rows(edit, rows, torch.ones(1, 1, 1, 5, dtype=torch.bool))[0, 0, 0]
    assert found.sum().item() == pytest.approx(1)
    np.testing.assert_allclose(found, edited_row(rows[0, 0, 0].numpy(), edit), rtol=1e-5, atol=1e-6)


# -- dropping and silencing -------------------------------------------------------------------------------------------


def without(state, place):
    """Mask a place of every memory of the source in a state."""
    if isinstance(state, Memory):
        if state.mask.shape[1] != LENGTH:
            return state
        mask = state.mask.clone()
        mask[:, place] = False
        return state._replace(mask=mask)
    if isinstance(state, tuple):
        parts = [without(part, place) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    return state


@every_system
@torch.no_grad()
def test_dropping_a_word_is_masking_it(name):
    translator = make(SYSTEMS[name])
    decoder = translator.model.decoder
    source, target = [*ids(TEXT.split()), EOS], [*ids(["la", "robe", "un"]), EOS]
    found = force_edited(translator, source, target, [DropSource(2)])
    assert (found.weights[..., 2] == 0).all()
    if "local" in name:  # whose windows take the length from the mask
        return
    state, token, expected = without(decoder.start(translator.model.encode(*pad_sources([source]))), 2), BOS, []
    for written in target:
        step = decoder.step(torch.tensor([token]), state)
        expected.append(step.logits.log_softmax(dim=-1)[0, written].item())
        state, token = step.state, written
    np.testing.assert_allclose(found.log_probs, expected, rtol=1e-4, atol=1e-5)


@every_system
@torch.no_grad()
def test_a_silenced_head_is_a_zero_before_the_output_projection(name):
    translator = make(SYSTEMS[name])
    source, target = [*ids(TEXT.split()), EOS], [*ids(["la", "robe", "un"]), EOS]
    modules = translator.model.decoder.source_attentions
    layer, head = len(modules) - 1, modules[-1].head_count - 1
    found = force_edited(translator, source, target, [AblateHead(layer=layer, head=head)])
    assert (found.weights[:, layer, head] == 0).all()
    if "copying" in name or "monotonic" in name:  # which read the weights too
        return
    modules[layer].pruned = (head,)
    expected = force_edited(translator, source, target, [])
    np.testing.assert_allclose(found.log_probs, expected.log_probs, rtol=1e-4, atol=1e-5)


def test_a_uniform_head_attends_everywhere_alike():
    translator = make(SYSTEMS["transformer2017-small"])
    edited = translator.edit(TEXT, [AblateHead(layer=1, head=0, to="uniform"), DropSource(0)])
    np.testing.assert_allclose(edited.attention.weights[1, 0, :, 1:], 1 / (LENGTH - 1), rtol=1e-5)
    assert (edited.attention.weights[..., 0] == 0).all()


# -- what sees the weights --------------------------------------------------------------------------------------------


def test_a_pointer_copies_what_the_edit_points_at():
    translator = make(SYSTEMS["luong see2017 copying"])
    with torch.no_grad():
        translator.model.decoder.p_gen.weight.zero_()
        translator.model.decoder.p_gen.bias.fill_(-20.0)  # copies always
    pointed = [SetWeights(step=step, weights={place: 1.0}) for step, place in enumerate((4, 2, 0, 1))]
    assert translator.edit(TEXT, pointed).tokens[:4] == ("red", "cat", "the", "old")


def test_coverage_counts_the_edited_weights():
    translator = make(SYSTEMS["luong see2017 copying"])
    (module,) = translator.model.decoder.source_attentions
    seen = []
    hook = module.register_forward_hook(lambda module, given, attended: seen.append(attended.carry.covered))
    force_edited(translator, [5, 6, 7, EOS], [8, 9, EOS], [SetWeights(step=0, weights={1: 1.0})])
    hook.remove()
    _, covered = seen[-1].shape, seen[-1]
    weights = force_edited(translator, [5, 6, 7, EOS], [8, 9, EOS], [SetWeights(step=0, weights={1: 1.0})]).weights
    torch.testing.assert_close(covered[0], weights[:, 0].sum(dim=0))
    assert (weights[0, 0, :, 1] == 1).all()


def test_monotonic_attention_goes_on_from_the_edited_position():
    translator = make(SYSTEMS["luong monotonic"])
    with torch.no_grad():
        for module in translator.model.modules():
            if hasattr(module, "r"):
                module.r.fill_(1e4)  # stops at once, wherever it is
    assert translator.edit(TEXT).attention.weights[0, 0, :, 0].min() == 1
    edited = translator.edit(TEXT, [SetWeights(step=1, weights={3: 1.0})])
    assert edited.attention.weights[0, 0, 1:, 3].min() == 1


def test_self_attention_of_a_decoder_can_be_edited():
    translator = make(SYSTEMS["transformer2017-small"])
    target = [*ids(["la", "robe", "un"]), EOS]
    source = [5, 6, EOS]
    plain = force_edited(translator, source, target, [])
    edits = [SetWeights(step=2, layer=0, attention="own", weights={0: 1.0})]
    together = force_edited(translator, source, target, edits)
    assert together.log_probs[:2] == pytest.approx(plain.log_probs[:2], rel=1e-5)
    assert together.log_probs[2] != pytest.approx(plain.log_probs[2], rel=1e-5)
    words = WORDS.pieces(target[:3])
    stepwise = translator.edit("old a", [ForcePrefix(tuple(words)), *edits])
    again = force_edited(translator, [*ids(["old", "a"]), EOS], target, edits)
    assert stepwise.attention.log_probs[:3] == pytest.approx(again.log_probs[:3], rel=1e-4)


def test_an_ensembles_layers_are_those_of_its_members():
    models = [build(SYSTEMS["luong sparsemax"], seed) for seed in (1, 2)]
    translator = Translator(Ensemble(models), Tokenizers(WORDS, WORDS), DecodingConfig(max_length=5))
    edited = translator.edit(TEXT, [SetWeights(step=0, layer=1, weights={4: 1.0})])
    assert edited.attention.weights[1, 0, 0, 4] == 1
    assert edited.attention.weights[0, 0, 0, 4] < 1


# -- prefixes, several edits, undoing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 3])
def test_a_forced_prefix_is_that_of_the_search(beam):
    translator = make(SYSTEMS["transformer2017-small"])
    forced = translator.edit(TEXT, [ForcePrefix(("la", "vieille"))], beam=beam)
    (searched,) = translator.translate([TEXT], prefix=["la vieille"], beam=beam)
    same(forced, searched, COMPILED)


def test_another_token_at_a_step_and_on_from_there():
    translator = make(SYSTEMS["bahdanau2014-small"])
    before = unedited(translator)
    other = translator.edit(before, step=2, token="chat")
    assert other.tokens[:3] == (*before.tokens[:2], "chat")
    (searched,) = translator.translate([TEXT], prefix=[" ".join(other.tokens[:3])], beam=1)
    same(other, searched, COMPILED)
    ended = translator.edit(before, step=2, token="</s>")
    assert ended.tokens == (*before.tokens[:2], "</s>")
    penalty = length_penalty(3, translator.options.length_penalty)
    assert ended.score == pytest.approx(sum(ended.attention.log_probs) / penalty, rel=1e-5)


def test_edits_add_up_and_are_undone_exactly():
    translator = make(SYSTEMS["transformer2017-small"])
    (before,) = translator.translate([TEXT], beam=3)  # what was there need not be greedy
    first = translator.edit(before, step=3, weights={2: 0.9})
    second = translator.edit(first, [DropSource(1)])
    third = translator.edit(second, step=1, layer=0, head=1, weights=[0.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    assert first.tokens[:3] == before.tokens[:3]
    assert third.tokens[:1] == second.tokens[:1]
    assert third.undo() is second
    assert third.undo().undo() is first
    assert first.undo() is before
    same(translator.edit(TEXT, third.edits), third)
    assert [type(edit) for edit in third.edits] == [
        KeepPrefix, SetWeights, KeepPrefix, DropSource, KeepPrefix, SetRow,
    ]  # fmt: skip
    same(translator.edit(TEXT, third.edits[:-2]), second)
    same(translator.edit(TEXT, third.edits[:2]), first)
    same(translator.edit(TEXT, []), unedited(translator))


def test_the_last_prefix_counts():
    translator = make(SYSTEMS["transformer2017-small"])
    assert translator.edit(TEXT, [ForcePrefix(("la", "un")), ForcePrefix(("robe",))]).tokens[0] == "robe"


def test_a_forced_prefix_outlives_the_edit_of_an_earlier_step():
    translator = make(SYSTEMS["transformer2017-small"])
    forced = translator.edit(TEXT, [ForcePrefix(("la", "robe", "un"))])
    assert translator.edit(forced, step=1, weights={2: 0.9}).tokens[:3] == ("la", "robe", "un")
    kept = translator.edit(unedited(translator), step=3, weights={2: 0.9})
    assert translator.edit(kept, [DropSource(0)]).edits[-2:] == (KeepPrefix(()), DropSource(0))


def test_a_trace_is_as_good_as_its_translation(tmp_path):
    translator = make(SYSTEMS["transformer2017-small"])
    before = unedited(translator)
    before.attention.save(tmp_path / "look.json")
    loaded = type(before.attention).load(tmp_path / "look.json")
    one, other = (translator.edit(of, step=1, weights={2: 0.9}) for of in (before, loaded))
    same(one, other)
    assert other.before.text == before.text
    bare = type(loaded)(loaded.source, loaded.target, loaded.weights[:0], (), None)  # as from other programs
    from_bare = translator.edit(bare, step=1, weights={2: 0.9})
    same(from_bare, one)
    assert from_bare.comparison().old_log_probs == pytest.approx(before.attention.log_probs, rel=1e-4, abs=1e-5)
    assert other.source == TEXT


def test_a_beam_is_searched_with_the_edit():
    translator = make(SYSTEMS["bahdanau2014-small"])
    edits = [SetWeights(step=1, weights={0: 1.0})]
    edited = translator.edit(TEXT, edits, beam=4)
    forced = force_edited(translator, [*ids(TEXT.split()), EOS], ids(edited.tokens), edits)
    assert edited.attention.log_probs == pytest.approx(forced.log_probs, rel=1e-4)
    assert edited.attention.weights[0, 0, 1].tolist() == [1, 0, 0, 0, 0, 0]
    assert edited.score >= translator.edit(TEXT, edits, beam=1).score - 1e-6


def test_the_comparison_is_a_diff_with_probabilities():
    translator = make(SYSTEMS["bahdanau2014-small"])
    before = unedited(translator)
    edited = translator.edit(before, step=2, token="chat")
    told = edited.comparison()
    assert "".join(" ".join(change.old) for change in told.changes if change.kind == "added") == ""
    assert [token for change in told.changes for token in change.old] == list(before.tokens)
    assert [token for change in told.changes for token in change.new] == list(edited.tokens)
    written = json.loads(json.dumps(edited.to_json()))
    assert [row["token"] for row in written["comparison"]["old"]] == list(before.tokens)
    assert edits_from_json(written["edits"]) == edited.edits
    weighed = translator.edit(before, step=1, weights={0: 1.0}).comparison()
    assert weighed.log_prob_changes[0] == pytest.approx(0, abs=1e-5)
    assert weighed.log_prob_changes[1] != pytest.approx(0, abs=1e-4)


# -- as JSON ----------------------------------------------------------------------------------------------------------

EDITS = [
    SetWeights(step=1, weights={2: 0.5, 0: 0.25}),
    SetWeights(step=0, layer=1, head=0, attention="own", weights={0: 1.0}),
    SetRow(step=1, layer=0, row=(0.0, 0.5, 0.0, 0.5, 0.0, 0.0)),
    AblateHead(head=1),
    AblateHead(step=2, layer=1, head=0, to="uniform"),
    DropSource(3),
    ForcePrefix(("la",)),
    KeepPrefix(()),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.kind)
def test_edits_are_read_back_from_json(edit):
    assert edit_from_json(json.loads(json.dumps(edit.to_json()))) == edit


# -- where it runs ----------------------------------------------------------------------------------------------------


def test_neither_compiled_nor_recorded_searches_nor_fused_kernels_are_used(monkeypatch):
    translator = make(MODEL)
    plain = translator.translate([TEXT], beam=1)[0]

    def refuse(*given, **named):
        raise AssertionError("a search that knows no edits")

    monkeypatch.setattr(translator_module, "search_natively", refuse)
    monkeypatch.setattr(translator._graphs, "search", refuse)
    for fast in ("_look_fused", "_look_in_step", "_inference_attention", "_look_additively", "_look_in_blocks"):
        monkeypatch.setattr(Attention, fast, refuse)
    edited = translator.edit(plain, step=0, weights={1: 1.0})
    assert edited.attention.weights[0, 0, 0, 1] == 1
    hooks = hooks_of(translator.model.decoder, [SetWeights(step=0, weights={1: 1.0})], LENGTH)
    with hooked(hooks):
        assert translator.translate([TEXT], beam=1)[0].attention.weights[0, 0, 0, 1] == 1


def test_another_thread_sees_nothing_of_an_edit():
    translator = make(SYSTEMS["transformer2017-small"])
    before = unedited(translator)
    hooks = hooks_of(translator.model.decoder, [AblateHead(head=0), AblateHead(head=1)], LENGTH)
    found = []
    with hooked(hooks):
        thread = threading.Thread(target=lambda: found.append((is_hooked(), unedited(translator))))
        thread.start()
        thread.join()
        assert is_hooked()
    assert not is_hooked()
    assert not found[0][0]
    same(found[0][1], before)


def test_hooks_end_with_an_error():
    translator = make(MODEL)
    with pytest.raises(ConfigError, match="leaves no position"):
        translator.edit("cat", [DropSource(0), SetWeights(step=0, weights={1: 0.0})])
    assert not is_hooked()


# -- what cannot be done ----------------------------------------------------------------------------------------------

BAD = [
    (lambda: SetWeights(step=-1, weights={0: 1.0}), "An edit's step is -1; it must be a whole number from 0 on."),
    (lambda: SetWeights(step=0, weights={-2: 1.0}), "An edit's position is -2; it must be a whole number from 0 on."),
    (
        lambda: SetWeights(step=0, weights={1: math.nan}),
        "An edit's weight of position 1 is nan; it must be a number from 0 to 1.",
    ),
    (
        lambda: SetWeights(step=0, weights={1: -0.5}),
        "An edit's weight of position 1 is -0.5; it must be a number from 0 to 1.",
    ),
    (
        lambda: SetWeights(step=0, weights={1: 0.8, 2: 0.6}),
        "An edit gives the positions 1, 2 a weight of 1.4 together; all weights sum to one.",
    ),
    (lambda: SetWeights(step=0, weights={}), "An edit of weights needs a mapping of positions to weights, such as"),
    (
        lambda: SetRow(step=0, row=(0.0, 0.0)),
        "An edit's row has a weight of 0 in all: give it some, or silence the head with AblateHead.",
    ),
    (lambda: SetRow(step=0, row=(1.0, 1.0)), "An edit's row has a weight of 2 in all; all weights sum to one."),
    (
        lambda: AblateHead(head=0, to="unifrom"),
        "AblateHead.to is 'unifrom'; it must be zero or uniform. Did you mean 'uniform'?",
    ),
    (
        lambda: AblateHead(head=0, attention="self"),
        "An edit's attention is 'self'; it must be source or own.",
    ),
    (lambda: ForcePrefix("la"), "A prefix is a tuple of tokens, as a trace has them; got 'la'."),
    (
        lambda: edit_from_json({"kind": "wieghts"}),
        "An edit's kind is 'wieghts'; it must be one of weights, row, ablate, drop, prefix, keep. "
        "Did you mean 'weights'?",
    ),
    (lambda: edit_from_json({"kind": "drop", "place": 3}), "Not a complete edit of kind 'drop': "),
    (lambda: edits_from_json("[]"), "Edits are a list of objects, got str."),
]


@pytest.mark.parametrize(("made", "message"), BAD)
def test_a_bad_edit_is_refused_when_it_is_made(made, message):
    with pytest.raises(ConfigError) as caught:
        made()
    assert str(caught.value).startswith(message)


UNFIT = [
    ({"step": 9, "weights": {0: 1.0}}, "There is no step 9: the translation has 5 tokens, counted from 0."),
    ({"step": 0, "weights": {6: 1.0}}, "There is no source position 6: the source has 6 tokens, counted from 0."),
    ({"step": 0, "weights": {0: 1.0}, "layer": 2}, "There is no layer 2: this model has 2, counted from 0."),
    ({"step": 0, "weights": {0: 1.0}, "head": 5}, "There is no head 5 in layer 0: it has 2, counted from 0."),
    (
        {"step": 0, "weights": [1.0, 0.0]},
        "An edit's row has 2 weights, but the source has 6 tokens (with the end token): give one for each.",
    ),
    (
        {"edits": [DropSource(place) for place in range(6)]},
        "The edits drop all 6 source positions: leave at least one.",
    ),
    ({"edits": [DropSource(7)]}, "There is no source position 7: the source has 6 tokens, counted from 0."),
    (
        {"edits": [DropSource(2), SetWeights(step=0, weights={2: 0.5})]},
        "An edit gives weight to position 2, which another edit drops.",
    ),
    (
        {"step": 0, "weights": dict.fromkeys(range(6), 0.0)},
        "An edit leaves no position for a weight of 1: give it to another position, or silence the head with "
        "AblateHead.",
    ),
    ({"step": 1, "token": "chien"}, "This model's vocabulary has no token 'chien': is the trace of another model?"),
    ({"step": 7, "token": "chat"}, "There is no step 7: the translation has 5 tokens, counted from 0."),
    ({"step": 1}, "An edit with step, layer or head needs weights, or a token for the step."),
    ({"weights": {0: 1.0}}, "An edit needs a step, and either weights or a token."),
    (
        {"edits": [ForcePrefix(("la", "</s>", "un"))]},
        "A prefix goes on after the end token; let it end there.",
    ),
    (
        {"edits": [SetWeights(step=1, attention="own", weights={3: 0.5})]},
        "An edit gives weight to position 3 of the decoder's own past at step 1: name a step, and positions from 0 "
        "(the start token) up to it.",
    ),
    ({"edits": [], "beam": 0}, "decoding.beam is 0; it must be at least 1 (1 is greedy search)."),
]


@pytest.fixture(scope="module")
def transformer():
    translator = make(SYSTEMS["transformer2017-small"])
    translator.options = DecodingConfig(max_length=5, min_length=4)
    return translator, unedited(translator)


@pytest.mark.parametrize(("given", "message"), UNFIT)
def test_an_edit_that_does_not_fit_is_refused(given, message, transformer):
    translator, before = transformer
    assert len(before.tokens) == 5
    with pytest.raises(ConfigError) as caught:
        translator.edit(before, **given)
    assert str(caught.value) == message
    assert not is_hooked()


def test_a_step_that_no_translation_of_a_text_can_reach_is_refused():
    translator = make(MODEL)
    with pytest.raises(ConfigError) as caught:
        translator.edit(TEXT, SetWeights(step=7, weights={0: 1.0}))
    assert str(caught.value) == "There is no step 7: the translation of this text has at most 7 tokens."
    translator.edit(TEXT, SetWeights(step=6, weights={0: 1.0}))


def test_a_model_without_attention_takes_prefixes_alone():
    translator = make(replace(MODEL, attention=None))
    assert translator.edit(TEXT, [ForcePrefix(("un",))]).tokens[0] == "un"
    message = "This model has no attention to the source to edit; only a prefix can be forced."
    for edit in (SetWeights(step=0, weights={0: 1.0}), DropSource(0), AblateHead(head=0)):
        with pytest.raises(ConfigError) as caught:
            translator.edit(TEXT, [edit])
        assert str(caught.value) == message
    with pytest.raises(ConfigError, match="need a Transformer decoder"):
        translator.edit(TEXT, [AblateHead(head=0, attention="own")])


def test_an_empty_text_and_a_language_model_are_refused():
    translator = make(MODEL)
    with pytest.raises(ConfigError, match="The text is empty"):
        translator.edit("  ")
    with pytest.raises(ConfigError, match="The translation is empty"):
        translator.edit(translator.translate([""])[0], [DropSource(0)])
    language = make(tiny(preset("gpt-small").model))
    with pytest.raises(ModelError, match="it is a language model"):
        language.edit("the cat")


def test_an_edited_translation_is_one():
    translator = make(MODEL)
    edited = translator.edit(TEXT, [DropSource(0)])
    assert isinstance(edited, EditedTranslation)
    assert edited.source == TEXT
    assert all(isinstance(module, Attention) for module in translator.model.decoder.source_attentions)
