"""A part held out: no source on both sides, nothing lost, the same whatever the order of the lines."""

from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import DataConfig
from regard.data.configured_corpora import check_corpora, open_data, open_split
from regard.data.corpus import Corpus, for_model
from regard.data.pair import Alignment, Links, Pair
from regard.data.validation_split import FEWEST, MOST, PART, WORTH, Part, Selection, Stored, sources_to_hold_out, store
from regard.errors import ConfigError, DataError


class Given(Corpus):
    """A corpus in memory."""

    name = "given"

    def __init__(self, pairs):
        self._pairs = list(pairs)

    def __iter__(self):
        return iter(self._pairs)

    def identity(self):
        return repr(self._pairs)


def split(pairs, count, seed=1, by_target=False):
    corpus = Given(pairs)
    selection = Selection([corpus], count, seed, by_target)
    return [list(Part(corpus, selection, held_out)) for held_out in (False, True)]


def same(text):
    return " ".join(text.split())


# Few letters, so that sources repeat, some but for the white space around them.
texts = st.text("ab ", min_size=1, max_size=4)
corpora = st.lists(st.builds(Pair, texts, texts), max_size=80)
counts, seeds = st.integers(1, 30), st.integers(-5, 2**70)


class TestLaws:
    @given(corpora, counts, seeds, st.booleans())
    def test_no_source_is_on_both_sides_and_nothing_is_lost(self, pairs, count, seed, by_target):
        kept, held_out = split(pairs, count, seed, by_target)
        key = (lambda pair: same(pair.target)) if by_target else (lambda pair: same(pair.source))
        assert not {key(pair) for pair in kept} & {key(pair) for pair in held_out}
        assert sorted(kept + held_out, key=repr) == sorted(pairs, key=repr)
        # Each side is in the order of the corpus.
        assert [pair for pair in pairs if pair in kept] == kept

    @given(corpora, counts, seeds, st.randoms(use_true_random=False))
    def test_the_order_of_lines_has_no_say(self, pairs, count, seed, random):
        shuffled = random.sample(pairs, len(pairs))
        for one, other in zip(split(pairs, count, seed), split(shuffled, count, seed), strict=True):
            assert sorted(one, key=repr) == sorted(other, key=repr)

    @given(corpora, counts, seeds)
    def test_never_more_than_a_fifth(self, pairs, count, seed):
        _, held_out = split(pairs, count, seed)
        sources = {same(pair.source) for pair in pairs}
        assert len({same(pair.source) for pair in held_out}) <= min(count, len(sources) // PART)
        assert len(held_out) <= len(pairs) // PART

    @given(st.integers(5, 400), counts, seeds)
    def test_as_many_as_asked_for_where_there_are_enough(self, different, count, seed):
        _, held_out = split([Pair(f"s{n}", "t") for n in range(different)], count, seed)
        assert len(held_out) == min(count, different // PART)

    def test_only_a_few_sources_are_in_memory(self):
        pairs = [Pair(f"s{n % 500}", "t") for n in range(1_000)]
        total, counts = Selection([], 2, 1)._candidates(pairs, 10)
        assert (total, len(counts), set(counts.values())) == (1_000, 10, {2})

    def test_seeds_hold_different_parts_out(self):
        pairs = [Pair(f"s{n}", "t") for n in range(100)]
        assert len({tuple(split(pairs, 5, seed)[1]) for seed in range(20)}) == 20

    def test_every_source_has_the_same_chance(self):
        pairs = [Pair(f"s{n}", "t") for n in range(10)]
        drawn = [split(pairs, 2, seed)[1] for seed in range(1_000)]
        assert all(150 < sum(pair in held_out for held_out in drawn) < 250 for pair in pairs)

    def test_a_source_that_is_everywhere_stays_in_training(self):
        pairs = [Pair("yes", f"t{n}") for n in range(60)] + [Pair(f"s{n}", "t") for n in range(200)]
        for seed in range(30):
            kept, held_out = split(pairs, 20, seed)
            assert len(held_out) == 20
            assert sum(pair.source == "yes" for pair in kept) == 60

    @pytest.mark.parametrize(
        "pairs", [[], [Pair("a", "b")], [Pair("a", "b")] * 99, [Pair(str(n), "b") for n in range(4)]]
    )
    def test_too_few_sources_are_all_kept(self, pairs):
        assert split(pairs, 50) == [pairs, []]

    def test_alignments_stay_with_their_pairs(self):
        links = Links({(0, 0)})
        pairs = [Pair(f"s{n}", "t", Alignment(links, links)) for n in range(9)]
        assert all(pair.alignment is not None for pair in chain(*split(pairs, 1)))

    def test_identity(self):
        corpus, other = Given([Pair("a", "b")]), Given([Pair("a", "c")])
        selections = [Selection([corpus], 5, 1), Selection([corpus], 6, 1), Selection([corpus], 5, 2)]
        selections += [Selection([corpus], 5, 1, by_target=True), Selection([corpus, other], 5, 1)]
        parts = [Part(corpus, selection, side) for selection in selections for side in (True, False)]
        known = {part.identity() for part in [*parts, Part(other, selections[0], True)]}
        assert len(known | {corpus.identity()}) == 12
        assert Part(corpus, Selection([corpus], 5, 1), True).identity() == parts[0].identity()


class TestHowMany:
    @pytest.mark.parametrize(
        ("pairs", "sources", "count"),
        [
            (5, 5, 0),
            (49, 49, 0),
            (50, 50, 10),
            (200, 200, 40),
            (250, 250, 50),
            (1_000, 1_000, 50),
            (2_000, 2_000, 100),
            (40_000, 40_000, 2_000),
            (10_000_000, 10_000_000, 2_000),
            (0, 0, 0),
            (30_000, 1, 0),
            (30_000, 6_000, 300),
            (100_000, 77, 0),
        ],
    )
    def test_told(self, pairs, sources, count):
        assert sources_to_hold_out(pairs, sources) == count

    @given(st.integers(0, 10**7), st.integers(0, 10**6))
    def test_bounds(self, more, sources):
        count = sources_to_hold_out(sources + more, sources)
        assert count == 0 or WORTH <= count <= min(MOST, sources // PART)
        if sources >= FEWEST * PART and not more:
            assert count >= FEWEST


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(f"a{n % 40} b", f"c{n}") for n in range(80)]
    Path("a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    Path("b.en").write_text("".join(f"a{n} b\n" for n in range(20)))
    Path("b.de").write_text("".join(f"d{n}\n" for n in range(20)))
    Path("b.align").write_text("0-0\n" * 20)
    Path("a.txt").write_text("".join(f"t{n % 30}\n" for n in range(60)))


def texts_of(corpus):
    return {same(pair.source.partition("> ")[2] or pair.source) for pair in corpus}


@pytest.mark.usefixtures("here")
class TestSettings:
    @pytest.mark.parametrize(
        "data",
        [
            DataConfig(train=("a.tsv",), held_out=7),
            DataConfig(train=("b.en", "b.de", "b.align"), held_out=3),
            DataConfig(mixed=("a.tsv*2", "b.en,b.de*0.5"), held_out=7),
            DataConfig(tagged=("x=a.tsv", "y=b.en,b.de"), held_out=7),
            DataConfig(train=("reverse:50",), held_out=4),
        ],
    )
    def test_any_form(self, data):
        train, valid = (open_data(data, split, 1) for split in ("train", "valid"))
        assert len(texts_of(valid)) == data.held_out
        # Also where two corpora share a source, or tags make two of it.
        assert not texts_of(train) & texts_of(valid)
        whole = open_data(DataConfig(data.train, mixed=data.mixed, tagged=data.tagged), "train", 1)
        assert sorted([*train, *valid], key=repr) == sorted(whole, key=repr)
        assert train.name == whole.name
        assert train.tags == whole.tags == valid.tags
        identities = [corpus.identity() for corpus in (train, valid, whole)]
        assert len(set(identities)) == 3
        assert [corpus.identity() for corpus in open_split(data, 1)] == identities[:2]
        assert open_split(data, 2).train.identity() != identities[0]

    def test_what_is_written_has_no_source(self):
        data = DataConfig(train=("a.txt",), held_out=5)
        train, valid = (for_model(corpus, reads=False) for corpus in open_split(data, 1, reads=False))
        written, tested = ({pair.target for pair in corpus} for corpus in (train, valid))
        assert len(tested) == 5
        assert not written & tested
        assert written | tested == {f"t{n}" for n in range(30)}

    def test_no_more_than_there_is(self):
        assert open_split(DataConfig(train=("a.tsv",), held_out=10**9), 1).valid is not None
        Path("few.tsv").write_text("a\tb\n" * 50)
        data = DataConfig(train=("few.tsv",), held_out=50)
        train, valid = open_split(data, 1)
        assert (len(list(train)), valid) == (50, None)
        assert open_data(data, "valid", 1) is None

    def test_stored_and_read(self):
        _, valid = open_split(DataConfig(train=("b.en", "b.de", "b.align"), held_out=3), 1)
        pairs = [*valid, Pair("", "no\ttab\u2028or \x85 break\r"), Pair("ä", "\n")]
        stored = store(Path("cache/held_out.jsonl"), pairs)
        assert list(stored) == list(Stored(Path("cache/held_out.jsonl"))) == pairs
        assert '"alignment": "0-0"' in Path("cache/held_out.jsonl").read_text()
        assert list(store(Path("cache/none.jsonl"), [])) == []
        for line in ("{", "[]", '{"source": "a"}', '{"source": "a", "target": 1'):
            Path("broken.jsonl").write_text(f"{line}\n")
            with pytest.raises(DataError, match=r"^broken\.jsonl, line 1: damaged\.$"):
                list(Stored(Path("broken.jsonl")))

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (DataConfig(train=("a.tsv",), held_out=-1), "data.held_out is -1; it must be at least 0."),
            (
                DataConfig(train=("a.tsv",), valid=("b.tsv",), held_out=5),
                "data.valid is a validation corpus, and data.held_out=5 takes another from the training corpus: leave "
                "one of them out.",
            ),
            (
                DataConfig(tagged=("x=a.tsv",), valid_tagged=("x=b.tsv",), held_out=5),
                "data.valid_tagged is a validation corpus, and data.held_out=5 takes another from the training corpus: "
                "leave one of them out.",
            ),
        ],
    )
    def test_refused(self, data, message):
        with pytest.raises(ConfigError) as caught:
            check_corpora(data)
        assert str(caught.value) == message
