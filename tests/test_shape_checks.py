"""The checks of shapes that all tests run under do find what is wrong, also in what was found right before."""

import jaxtyping
import pytest
import torch
from beartype import beartype

from regard.masks import masked_softmax
from regard.shapes import Float, Tensor
from shape_checks import jaxtyped


def checked(function):
    return jaxtyped(function, typechecker=beartype)


@checked
def added(one: Float[Tensor, "B D"], other: Float[Tensor, "B D"], grow: bool = False) -> Float[Tensor, "B D"]:
    return torch.cat([one, other]) if grow else one + other


def refused(call):
    with pytest.raises(jaxtyping.TypeCheckError):
        call()


@pytest.mark.parametrize("times", [0, 2])
def test_what_is_wrong_is_found_at_the_first_call_and_at_later_ones(times):
    one, other = torch.ones(3, 5), torch.ones(1, 5)
    for _ in range(times):
        assert added(one, one).shape == (3, 5)
    refused(lambda: added(one, other))
    refused(lambda: added(one, one.long()))
    refused(lambda: added(one, other=other[0]))
    assert added(other, other).shape == (1, 5)


def test_what_comes_out_is_looked_at_though_what_goes_in_is_known():
    outputs = [torch.ones(3), torch.ones(3), torch.ones(3, 1)]

    @checked
    def next_one(like: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        return outputs.pop(0)

    given = torch.zeros(3)
    assert next_one(given) is not None
    assert next_one(given) is not None
    refused(lambda: next_one(given))
    outputs += [torch.ones(3), torch.ones(4)]
    assert next_one(given).shape == (3,)
    refused(lambda: next_one(given))


def test_the_package_is_under_them():
    allowed = torch.ones(3, 5, dtype=torch.bool)
    for _ in range(2):
        masked_softmax(torch.ones(3, 5), allowed)
        refused(lambda: masked_softmax(torch.ones(3, 5), allowed[:, :4]))
