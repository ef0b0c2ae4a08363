"""A search's kernels do what torch does. On a CPU the laws run in Triton's interpreter."""

import os

import pytest
import torch

from regard.decoding import static_search
from regard.decoding.state_reordering import reorder_rows_
from regard.decoding.static_search import SearchBuffers, SearchRecord, SearchSettings, SearchState
from regard.decoding.top_k import TopLogits, top_k_logits

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"


def test_the_laws_hold_in_the_interpreter(interpret):
    interpret(__file__)


def by_torch(logits, forbidden, count):
    possible = logits.float().masked_fill(forbidden, float("-inf"))
    return TopLogits(*possible.topk(count, dim=1), logits.float().logsumexp(dim=1))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width", "count"), [(3, 5, 5), (7, 1000, 1), (11, 8001, 5), (2, 32768, 12)])
def test_it_is_torchs(rows, width, count, kind):
    torch.manual_seed(rows)
    # All different, so that there is one answer.
    logits = torch.stack([torch.randperm(width) for _ in range(rows)]).sub(width // 2).div(width / 16)
    logits = logits.to(kind).to(DEVICE)
    forbidden = torch.zeros(width, dtype=torch.bool, device=DEVICE)
    forbidden[:: 3 if width > count + 10 else width] = True
    found, expected = top_k_logits(logits, forbidden, count), by_torch(logits, forbidden, count)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.log_sum_exp, expected.log_sum_exp)
    if kind == torch.float32:
        there = expected.logits > float("-inf")
        assert torch.equal(found.words[there], expected.words[there])
    assert not forbidden[found.words[found.logits > float("-inf")]].any()


@pytest.mark.gpu
def test_what_is_no_number_is_seen():
    logits = torch.zeros(2, 9, device=DEVICE)
    logits[0, 4] = float("nan")
    log_sum_exp = top_k_logits(logits, torch.zeros(9, dtype=torch.bool, device=DEVICE), 2).log_sum_exp
    assert log_sum_exp.isnan().tolist() == [True, False]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 5, 4, 7, 11), (130, 1, 1), (2, 8, 3000), (1, 13, 1025)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_hypotheses_move_in_place(shape, kind):
    torch.manual_seed(0)
    count, beam, *rest = shape
    state = torch.randn(count * beam, *rest, device=DEVICE).mul(100).to(kind)
    state = state.transpose(1, 2).clone() if len(rest) > 1 else state  # laid out as caches are
    parents = torch.randint(beam, (count, beam), device=DEVICE)
    expected = torch.stack([own[slots] for own, slots in zip(state.unflatten(0, (count, beam)), parents, strict=True)])
    reorder_rows_(state, parents)
    assert torch.equal(state, expected.flatten(0, 1))


def some_beams(count, beam, kept, seed):
    """The beams in the middle of a search: some sentences done, some hypotheses impossible, some at their last step."""
    draw = torch.Generator().manual_seed(seed)
    going = torch.rand(count, generator=draw) < 0.8
    totals = torch.randn(count, beam, generator=draw).mul(3).sub(9)
    totals[torch.rand(count, beam, generator=draw) < 0.2] = float("-inf")
    totals[~going] = float("-inf")
    scores = torch.randn(count, kept, generator=draw).sub(4).sort(dim=1, descending=True).values
    scores[torch.rand(count, generator=draw) < 0.5] = float("-inf")
    numbers = [torch.randint(5, (count, kept), generator=draw) for _ in range(2)]
    limits = torch.randint(6, 9, (count,), generator=draw)
    finished = torch.randint(4, (count,), generator=draw)
    cut = torch.full((count, beam), float("-inf"))
    parts = (limits, limits / 4 + 1, going, totals, scores, *numbers, finished, cut, torch.zeros_like(cut).long())
    return SearchState(*(part.to(DEVICE) for part in parts))


@pytest.mark.gpu
@pytest.mark.parametrize("patience", [0.0, 0.8])
@pytest.mark.parametrize(("count", "beam", "kept"), [(40, 5, 5), (30, 5, 1), (33, 1, 1), (20, 4, 2), (7, 12, 12)])
def test_choosing_is_what_torch_s_operations_do(monkeypatch, count, beam, kept, patience):
    for seed in range(1 if INTERPRETED else 4):
        draw = torch.Generator().manual_seed(seed)
        near = torch.randn(count * beam, beam, generator=draw).sort(dim=1, descending=True).values.to(DEVICE)
        words = torch.randint(3, 9, (count * beam, beam), generator=draw).to(DEVICE)
        log_sum_exp = torch.randn(count * beam, generator=draw).abs().add(3).to(DEVICE)
        found = []
        for by_kernel in (False, True):
            buffers = object.__new__(SearchBuffers)
            buffers.asked = SearchSettings(beam, kept, 2, 3, frozenset(), 0, 1.0, patience)
            buffers.beams = some_beams(count, beam, kept, seed)
            buffers.penalties = torch.linspace(1, 3, 12, device=DEVICE)
            buffers.length = torch.tensor([7], device=DEVICE)
            buffers.broken = torch.zeros(1, dtype=torch.long, device=DEVICE)
            tables = torch.zeros(9, count, beam, dtype=torch.long, device=DEVICE)
            buffers.record = SearchRecord(tables, tables.clone(), tables.float())
            monkeypatch.setattr(static_search, "runs_kernels", lambda device, chosen=by_kernel: chosen)
            parents, rows = buffers._choose(TopLogits(near, words, log_sum_exp))
            found.append((buffers, parents, rows))
        (plain, _, _), (fused, parents, rows) = found
        assert torch.equal(rows.view(count, beam), torch.arange(count, device=DEVICE)[:, None] * beam + parents)
        assert torch.equal(plain.beams.going, fused.beams.going)
        assert torch.equal(plain.beams.finished, fused.beams.finished)
        for name in ("totals", "scores", "cut"):
            torch.testing.assert_close(getattr(fused.beams, name), getattr(plain.beams, name))
        # Where nothing is possible, it is all the same which is taken; and an entry that is not there has no place.
        there = plain.record.log_probs[6].isfinite() & (found[0][0].beams.totals > float("-inf"))
        for ours, theirs in zip((*fused.record, parents[None]), (*plain.record, found[0][1][None]), strict=True):
            torch.testing.assert_close(
                ours[-1 if len(ours) == 1 else 6][there], theirs[-1 if len(theirs) == 1 else 6][there]
            )
        real = plain.beams.scores > float("-inf")
        assert torch.equal(plain.beams.lengths[real], fused.beams.lengths[real])
        assert torch.equal(plain.beams.slots[real], fused.beams.slots[real])
        assert int(fused.broken) == 0


@pytest.mark.gpu
def test_choosing_tells_of_what_is_no_number():
    buffers = object.__new__(SearchBuffers)
    buffers.asked = SearchSettings(2, 1, 2, 3, frozenset(), 0, 1.0, 0.0)
    buffers.beams = some_beams(3, 2, 1, 0)
    buffers.beams.going.fill_(True)
    buffers.beams.totals.fill_(-1.0)
    buffers.penalties = torch.ones(12, device=DEVICE)
    buffers.length, buffers.broken = torch.tensor([4], device=DEVICE), torch.zeros(1, dtype=torch.long, device=DEVICE)
    tables = torch.zeros(9, 3, 2, dtype=torch.long, device=DEVICE)
    buffers.record = SearchRecord(tables, tables.clone(), tables.float())
    near = torch.zeros(6, 2, device=DEVICE)
    near[3, 1] = float("nan")
    buffers._choose(TopLogits(near, torch.full((6, 2), 5, device=DEVICE), torch.ones(6, device=DEVICE)))
    assert int(buffers.broken) == 4
