"""One tree of errors, drawn in its docstring, and hints that help."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import errors
from regard.errors import RegardError, did_you_mean

KINDS = [part for part in vars(errors).values() if isinstance(part, type) and issubclass(part, Exception)]


def test_every_error_is_in_the_tree_and_in_its_drawing():
    assert all(issubclass(kind, RegardError) for kind in KINDS)
    assert [kind.__name__ for kind in KINDS if kind.__name__ not in errors.__doc__] == []


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("aditive", " Did you mean 'additive'?"),
        ("dott", " Did you mean 'dot'?"),
        ("xyzzy", ""),
        ("", ""),
    ],
)
def test_hints(name, hint):
    assert did_you_mean(name, ["additive", "dot", "general"]) == hint


@settings(deadline=None)
@given(st.lists(st.text(min_size=3, max_size=9), min_size=1), st.data())
def test_a_name_that_is_there_is_its_own_nearest(names, data):
    name = data.draw(st.sampled_from(names))
    assert did_you_mean(name, names) == f" Did you mean {name!r}?"
