"""Laws of a decoder that copies, beside those of every system (`test_laws.py`), over the registry of decoders."""

from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.data.batching import Batch
from regard.decoding.ensemble import Ensemble
from regard.decoding.search import search
from regard.decoding.teacher_forcing import force
from regard.errors import ConfigError
from regard.masks import from_lengths
from regard.models.build import build_empty, build_model
from regard.models.model_folder import learned, load_weights, weights_of
from regard.models.pointer_generator import NONE, Pointer, mixture
from regard.models.protocol import Copied
from regard.models.registries import decoders
from regard.task import check_task
from regard.training.plain_loss import batch_loss, encode_batch

B, S, T, W = 3, 7, 5, 29
PAD, UNK, BOS, EOS = range(4)
LENGTHS = torch.tensor([7, 4, 2])
HEADS = AttentionConfig("scaled-dot", heads=2, head_width=5, project=True)


def settings(kind, **changes):
    transformer = kind == "transformer"
    return ModelConfig(
        copy=True,
        embedding=12,
        dropout=0.0,
        encoder=EncoderConfig("transformer" if transformer else "recurrent", width=12 if transformer else 6),
        decoder=DecoderConfig(kind, layers=2, width=12, readout="tanh", readout_width=11),
        attention=HEADS,
        self_attention=HEADS,
        **changes,
    )


@pytest.fixture(scope="module", params=decoders)
def model(request):
    torch.manual_seed(1)
    return build_model(settings(request.param), W, W).double().eval()


def drawn(seed=2):
    generator = torch.Generator().manual_seed(seed)
    mask = from_lengths(LENGTHS)
    source = torch.randint(4, 11, (B, S), generator=generator)  # few words: some stand there twice
    source[0, 2] = UNK
    source[torch.arange(B), LENGTHS - 1] = EOS
    return source.masked_fill(~mask, PAD), mask, torch.randint(1, W, (B, T), generator=generator)


def taught(model, given=None):
    source, mask, tokens = given or drawn()
    return model.decoder.teach(tokens, model.encode(source, mask))


@torch.no_grad()
def test_it_is_the_mixture_of_the_paper(model):
    """Equations 8 and 9, word by word; what is looked at at the end mark is the vocabulary's."""
    (source, _, _), found = drawn(), taught(model)
    logits, decoder = model.decoder.logits(found), model.decoder
    p_gen = torch.sigmoid(found.features @ decoder.p_gen.weight[0] + decoder.p_gen.bias)
    p_vocab = decoder.output(found.features).softmax(dim=-1)
    looks = found.weights[:, :, -1].mean(dim=2)
    for b in range(B):
        for t in range(T):
            right = p_gen[b, t] * p_vocab[b, t]
            for i in range(LENGTHS[b]):
                copied = functional.one_hot(source[b, i], W) if source[b, i] != EOS else p_vocab[b, t]
                right = right + (1 - p_gen[b, t]) * looks[b, t, i] * copied
            torch.testing.assert_close(logits[b, t].exp(), right)


@torch.no_grad()
def test_probabilities_sum_to_one(model):
    found = taught(model)
    assert found.copied.generated.min() > 0
    sums = model.decoder.logits(found).exp().sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@torch.no_grad()
def test_where_nothing_is_generated_a_token_has_what_is_looked_at(model):
    (source, mask, tokens), kept = drawn(), model.decoder.p_gen.bias.clone()
    model.decoder.p_gen.bias.fill_(-1e4)
    step = model.decoder.step(tokens[:, 0], model.decoder.start(model.encode(source, mask)))
    model.decoder.p_gen.bias.copy_(kept)
    looks, at_marks = step.weights[:, -1].mean(dim=1), torch.zeros(B)
    at_marks = looks.gather(1, LENGTHS[:, None] - 1)
    rest = step.logits.exp() - at_marks * model.decoder.output(step.features).softmax(dim=-1)
    right = torch.zeros(B, W, dtype=torch.double).scatter_add(1, source, looks * (source != EOS))
    torch.testing.assert_close(rest, right)
    assert right[:, :4].abs().sum() == right[0, UNK] > 0


def test_what_is_unknown_is_copied_and_marks_are_not(model):
    assert model.decoder.target_of[:5].tolist() == [NONE, UNK, NONE, NONE, 4]
    assert model.decoder.copied_as([9, UNK, EOS]) == [9, UNK]
    assert not model.decoder.target_of.requires_grad
    assert learned(model) == sum(p.numel() for p in model.parameters()) - W


def test_a_source_with_nothing_real_is_safe_forward_and_backward(model):
    source, mask, tokens = drawn()
    mask = mask.clone()
    mask[1] = False
    model.zero_grad()
    # Of the states alone: what an encoder makes of nothing is not the decoder's concern.
    encoded = model.encode(*drawn()[:2])._replace(mask=mask, tokens=source)
    found = model.decoder.teach(tokens, encoded)
    logits = model.decoder.logits(found)
    torch.testing.assert_close(logits[1], model.decoder.project(found.features[1]).log_softmax(dim=-1))
    logits.gather(2, tokens[..., None]).sum().backward()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(grad.isfinite().all() for grad in grads)
    model.zero_grad()


@torch.no_grad()
def test_all_that_is_looked_at_may_be_a_mark(model):
    source, mask = torch.full((1, 1), EOS), torch.ones(1, 1, dtype=torch.bool)
    found = taught(model, (source, mask, drawn()[2][:1]))
    expected = model.decoder.project(found.features).log_softmax(dim=-1)
    torch.testing.assert_close(model.decoder.logits(found), expected)


def given(seed=2):
    source, mask, tokens = drawn(seed)
    real = torch.arange(T) < torch.tensor([5, 3, 4])[:, None]
    read = torch.cat([torch.full_like(tokens[:, :1], BOS), tokens[:, :-1]], dim=1)
    return Batch(source, mask, read, tokens * real, real, torch.arange(B).numpy())


def objective_of(model, **training):
    from regard.config import TrainingConfig
    from regard.training.objective import SequenceObjective

    return SequenceObjective(model, TrainingConfig(**training))


def naive_loss(model, batch, smoothing):
    """The definition, by autograd and in float64; labels are smoothed over what the output layer says."""
    found = model.decoder.teach(batch.tokens_in, encode_batch(model, batch))
    real = batch.target_mask
    mixed = model.decoder.logits(found)[real].gather(1, batch.tokens_out[real][:, None]).sum()
    uniform = model.decoder.project(found.features)[real].log_softmax(dim=-1).mean(dim=-1).sum()
    return -(1 - smoothing) * mixed - smoothing * uniform


@pytest.mark.parametrize("filled", [False, True], ids=["", "filled"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_the_mixture(model, smoothing, filled):
    batch, learns = given(), [p for p in model.parameters() if p.requires_grad]
    right = naive_loss(model, batch, smoothing)
    shape = batch.shape._replace(rows=5, source=9, target=8)
    made = objective_of(model, label_smoothing=smoothing)(batch.filled(shape) if filled else batch)
    torch.testing.assert_close(made.total.double(), right, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(made.loss.double(), right.detach(), rtol=1e-5, atol=1e-5)
    ours, theirs = (torch.autograd.grad(loss, learns, allow_unused=True) for loss in (made.total, right))
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_validation_scores_the_mixture(model):
    found = batch_loss(model, given()).nll.double()
    torch.testing.assert_close(found, naive_loss(model, given(), 0.0), rtol=1e-5, atol=1e-5)


def test_the_gate_and_the_attention_learn_from_a_token_that_is_copied(model):
    batch = given()
    batch = batch._replace(tokens_out=batch.source[:, :1].expand(-1, T) * batch.target_mask)
    model.zero_grad()
    objective_of(model)(batch).total.backward()
    look = [p for name, p in model.decoder.named_parameters() if ".attention." in name and "W_q.weight" in name]
    for parameter in (*model.decoder.p_gen.parameters(), *look):
        assert parameter.grad.abs().max() > 0
    model.zero_grad()


def test_hostile_numbers_stay_finite():
    from regard.training.fused_loss import mixed_rows

    logits = torch.tensor([[900.0, 0.0, -900.0]] * 3)
    copied = torch.tensor([[1e-30, 0.0], [1e-30, 1e-38], [1.0, 0.0]])
    rows, slopes = mixed_rows(logits, torch.tensor([2, 2, -1]), copied, 0.1)
    for part in (rows.smoothed, rows.nll, rows.grad_logits, slopes):
        assert part.isfinite().all()
    assert (rows.nll[2], slopes[2].abs().sum(), rows.grad_logits[2].abs().sum()) == (0, 0, 0)


def test_a_word_that_neither_writes_costs_what_it_costs():
    copied = Copied(torch.tensor([0.5]), torch.tensor([[0.5, 0.0]]), torch.tensor([[0, 1]]))
    found = mixture(torch.tensor([[0.0, -200.0, -300.0]]), copied)
    expected = torch.tensor([[0.0, -200.0, -300.0]]) - torch.tensor([[0.0, 2.0, 2.0]]).log1p().new_tensor(0.6931)
    torch.testing.assert_close(found[:, 1:], expected[:, 1:], rtol=1e-5, atol=1e-4)
    assert found[0, 0] == 0


def test_under_autocast_probabilities_sum_to_one(model):
    single = build_model(settings("bahdanau"), W, W)
    source, mask, tokens = drawn()
    with torch.autocast("cpu", torch.bfloat16):
        logits = single.decoder.logits(single.decoder.teach(tokens, single.encode(source, mask)))
    assert logits.dtype == torch.float32
    sums = logits.exp().sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_two_vocabularies_share_what_has_the_same_text():
    torch.manual_seed(1)
    model = build_model(settings("luong"), W, W + 2).eval()
    assert model.decoder.copied_as(range(W)) == []  # nobody has told yet
    model.decoder.match([NONE, UNK, NONE, NONE, W + 1, *[NONE] * (W - 5)])
    model.decoder.p_gen.bias.fill_(-1e4)
    source, mask = torch.tensor([[4, 9, 4, EOS]]), torch.ones(1, 4, dtype=torch.bool)
    step = model.decoder.step(torch.tensor([BOS]), model.decoder.start(model.encode(source, mask)))
    looks = step.weights[0, -1].mean(dim=0)
    p_vocab = model.decoder.output(step.features).softmax(dim=-1)[0, W + 1]
    torch.testing.assert_close(step.logits[0, W + 1].exp(), looks[[0, 2]].sum() + looks[[1, 3]].sum() * p_vocab)


def test_a_folder_keeps_what_is_the_same(tmp_path):
    model = build_model(settings("transformer"), W, W)
    model.decoder.match([NONE, UNK, NONE, NONE, *reversed(range(4, W))])
    save_file({name: tensor.contiguous() for name, tensor in weights_of(model).items()}, tmp_path / "weights")
    again = build_empty(settings("transformer"), W, W)
    load_weights(tmp_path / "weights", again)
    assert torch.equal(again.decoder.target_of, model.decoder.target_of)
    assert torch.equal(*(one.eval().decoder.logits(taught(one)) for one in (model, again)))


def found_by(model, **options):
    source, mask, _ = drawn()
    return search(model.decoder, model.encode(source, mask), DecodingConfig(**options), bos=BOS, eos=EOS, banned=(PAD,))


@torch.no_grad()
def test_greedy_search_takes_the_best_and_scores_are_those_of_teaching(model):
    source, mask, _ = drawn()
    for beam in (1, 4):
        written = [best[0] for best in found_by(model, beam=beam, max_length=6, length_penalty=0.0)]
        forced = force(model.decoder, model.encode(source, mask), [one.tokens for one in written], look=True)
        for one, (log_probs, looks) in zip(written, forced, strict=True):
            torch.testing.assert_close(torch.tensor(one.log_probs), torch.tensor(log_probs), rtol=1e-4, atol=1e-5)
            looks = looks[..., : one.weights.shape[-1]]
            torch.testing.assert_close(one.weights.double(), looks.double(), rtol=1e-4, atol=1e-5)
    state, token = model.decoder.start(model.encode(source, mask)), torch.full((B,), BOS)
    for step in range(2):
        taken = model.decoder.step(token, state)
        token, state = taken.logits.index_fill(1, torch.tensor([PAD]), -torch.inf).argmax(dim=1), taken.state
        greedy = [best[0].tokens for best in found_by(model, beam=1, max_length=6)]
        assert all(own[step] == int(token[b]) for b, own in enumerate(greedy) if step < len(own))


@pytest.mark.parametrize("method", ["beam", "diverse", "sample", "mbr"])
def test_every_search_knows_it(model, method):
    assert all(found_by(model, method=method, beam=2, samples=3, max_length=4))


@torch.no_grad()
def test_an_ensemble_of_one_kind_and_another_averages_probabilities():
    torch.manual_seed(3)
    copying = build_model(settings("bahdanau"), W, W).eval()
    plain = build_model(replace(settings("bahdanau"), copy=False), W, W).eval()
    both, (source, mask, tokens) = Ensemble([copying, plain]).eval(), drawn()
    decoder = both.decoder
    assert decoder.copies
    assert decoder.copied_as([9, EOS]) == [9]
    logits = decoder.logits(decoder.teach(tokens, both.encode(source, mask)))
    own = [one.decoder.logits(taught(one)).softmax(dim=-1) for one in (copying, plain)]
    torch.testing.assert_close(logits.exp(), sum(own) / 2)


REFUSED = {
    "no attention": (
        {"attention": None},
        "model.copy copies the tokens that the decoder attends to, but model.attention is none: give it attention, or "
        "set model.copy=false.",
    ),
    "language model": (
        {"attention": None, "encoder": EncoderConfig("none")},
        "model.copy copies tokens of a source, but a language model (model.encoder.kind=none) has none: leave it out.",
    ),
    "images": (
        {"image": ImageConfig()},
        "model.copy copies tokens of a source text, but this model reads images (model.image): leave it out.",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_where_there_is_nothing_to_copy_it_is_refused(changes, message):
    config = replace(settings("luong"), **changes)
    with pytest.raises(ConfigError) as error:
        check_task(config)
    assert str(error.value) == message


# -- what it is for ---------------------------------------------------------------------------------------------------


def unseen(seed, words, count=32, size=5):
    """Words that are to be written in reverse."""
    drawn = torch.Generator().manual_seed(seed)
    source = torch.tensor(words)[torch.randint(len(words), (count, size), generator=drawn)]
    source = torch.cat([source, torch.full((count, 1), EOS)], dim=1)
    written = torch.cat([source[:, :-1].flip(1), source[:, -1:]], dim=1)
    read, real = torch.cat([torch.full((count, 1), BOS), written[:, :-1]], dim=1), torch.ones_like(source).bool()
    return Batch(source, real, read, written, real, torch.arange(count).numpy())


def after_steps(copy, steps=60):
    torch.manual_seed(4)
    config = replace(settings("luong"), copy=copy, embedding=24, attention=AttentionConfig("general"))
    sides = {"encoder": EncoderConfig(width=24), "decoder": DecoderConfig("luong", width=48, readout="tanh")}
    model = build_model(replace(config, **sides), 40, 40)
    optimizer, objective = torch.optim.Adam(model.parameters(), 0.005), objective_of(model)
    for step in range(steps):
        optimizer.zero_grad()
        batch = unseen(step, range(4, 30))
        (objective(batch).total / batch.tokens_out.numel()).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        seen, new = (batch_loss(model, unseen(999, words)).nll / 192 for words in (range(4, 30), range(30, 40)))
    return float(seen), float(new)


def test_what_copies_learns_to_reverse_sooner_and_writes_words_it_never_saw():
    (seen, new), (plain_seen, plain_new) = after_steps(copy=True), after_steps(copy=False)
    assert seen < 0.5 * plain_seen
    assert new < 0.5 * plain_new
    assert isinstance(build_model(settings("luong"), W, W).decoder, Pointer)
