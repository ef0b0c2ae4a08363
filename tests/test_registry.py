"""Names for parts: taken once, found by name, and a hint for what is not there."""

import pytest

from regard.errors import ConfigError
from regard.registry import Registry


@pytest.fixture
def colours():
    made = Registry("colour", "colours")
    made.register("red")(1)
    made.register("green")(2)
    return made


def test_it_is_a_mapping_in_the_order_of_entry(colours):
    assert dict(colours) == {"red": 1, "green": 2}
    assert [*colours] == ["red", "green"]
    assert len(colours) == 2
    assert "red" in colours
    assert "blue" not in colours


def test_a_decorated_part_stays_itself(colours):
    @colours.register("blue")
    class Blue:
        pass

    assert colours["blue"] is Blue


def test_a_name_can_be_taken_once(colours):
    with pytest.raises(ValueError, match="colour 'red' is registered twice"):
        colours.register("red")
    assert colours["red"] == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("grene", "No colour named 'grene'. Did you mean 'green'? (regard list colours shows all)"),
        ("xyzzy", "No colour named 'xyzzy'. (regard list colours shows all)"),
        ("", "No colour named ''. (regard list colours shows all)"),
    ],
)
def test_a_name_that_is_not_there(colours, name, message):
    with pytest.raises(ConfigError) as caught:
        colours[name]
    assert str(caught.value) == message
