"""Given features of regions of any scale."""

import torch

from regard.config import ImageConfig
from regard.vision.regions import Regions


def test_the_scale_of_given_features_does_not_matter_where_they_are_normalised():
    torch.manual_seed(3)
    regions, mask = torch.randn(2, 5, 7), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    stem = Regions(ImageConfig("regions", channels=7, size=0, width=11, normalised=True))
    torch.nn.init.zeros_(stem.W.bias)
    cells = stem(regions, mask).cells
    torch.testing.assert_close(stem(500 * regions, mask).cells, cells, rtol=1e-3, atol=1e-4)
    assert not cells[~mask].any()
    plain = Regions(ImageConfig("regions", channels=7, size=0, width=11))
    torch.testing.assert_close(plain(regions, None).cells, plain.W(regions))
