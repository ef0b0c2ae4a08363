"""Merging two directions: against the published procedure, written out loop by loop, and by laws."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.evaluation.alignment_error_rate import merged
from regard.evaluation.symmetrisation import symmetrisations

SOURCES, TARGETS = 5, 7
some = st.frozensets(st.tuples(st.integers(0, SOURCES - 1), st.integers(0, TARGETS - 1)), max_size=14)
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def naive(forward, backward, final):
    """GROW-DIAG-FINAL of Koehn et al. 2005 on a grid: rows are target words (e), columns source words (f)."""
    in_forward = [[(f, e) in forward for f in range(SOURCES)] for e in range(TARGETS)]
    in_backward = [[(f, e) in backward for f in range(SOURCES)] for e in range(TARGETS)]
    aligned = [[in_forward[e][f] and in_backward[e][f] for f in range(SOURCES)] for e in range(TARGETS)]

    def target_free(e):
        return not any(aligned[e])

    def source_free(f):
        return not any(row[f] for row in aligned)

    added = True
    while added:
        added = False
        for e in range(TARGETS):
            for f in range(SOURCES):
                if not aligned[e][f]:
                    continue
                for de, df in NEIGHBOURS:
                    e_new, f_new = e + de, f + df
                    if not (0 <= e_new < TARGETS and 0 <= f_new < SOURCES) or aligned[e_new][f_new]:
                        continue
                    either = in_forward[e_new][f_new] or in_backward[e_new][f_new]
                    if (target_free(e_new) or source_free(f_new)) and either:
                        aligned[e_new][f_new] = added = True
    for grid in (in_forward, in_backward) if final else ():
        for e in range(TARGETS):
            for f in range(SOURCES):
                free = (target_free(e), source_free(f))
                if grid[e][f] and (all(free) if final == "and" else any(free)):
                    aligned[e][f] = True
    return {(f, e) for e in range(TARGETS) for f in range(SOURCES) if aligned[e][f]}


@pytest.mark.parametrize(
    ("name", "final"), [("grow-diag", ""), ("grow-diag-final", "or"), ("grow-diag-final-and", "and")]
)
@given(some, some)
@settings(deadline=None)
def test_the_published_procedure(name, final, forward, backward):
    assert symmetrisations[name](forward, backward) == naive(forward, backward, final)


@given(some, some)
@settings(deadline=None)
def test_laws(forward, backward):
    made = {name: merge(forward, backward) for name, merge in symmetrisations.items()}
    both, either = forward & backward, forward | backward
    assert (made["intersection"], made["union"]) == (both, either)
    assert both <= made["grow-diag"] <= made["grow-diag-final-and"] <= either
    assert made["grow-diag"] <= made["grow-diag-final"] <= either
    # With `or`, every word that either direction linked has a link in the end.
    for side in (0, 1):
        assert {link[side] for link in made["grow-diag-final"]} == {link[side] for link in either}


@pytest.mark.parametrize("name", symmetrisations)
@given(some)
@settings(deadline=None)
def test_two_that_agree_are_left_as_they_are(name, links):
    assert symmetrisations[name](links, links) == links


def test_by_hand():
    forward = frozenset({(0, 0), (1, 1), (4, 5)})
    backward = frozenset({(0, 0), (1, 1), (2, 1), (2, 6)})
    assert merged(forward, frozenset((j, i) for i, j in backward), "grow-diag") == {(0, 0), (1, 1), (2, 1)}
    # (2, 6): its source word has a link by now, its target word has none.
    turned = frozenset((j, i) for i, j in backward)
    assert merged(forward, turned) == {(0, 0), (1, 1), (2, 1), (4, 5)}
    assert merged(forward, turned, "grow-diag-final") == {(0, 0), (1, 1), (2, 1), (4, 5), (2, 6)}


def test_a_way_that_is_not_there():
    with pytest.raises(ConfigError) as error:
        merged(frozenset(), frozenset(), "grow-dia")
    assert str(error.value) == (
        "No way to merge alignments named 'grow-dia'. Did you mean 'grow-diag'? (regard list symmetrisations shows all)"
    )
