"""Laws of every block, swept over the registry, and each beside a reference written from its paper's equations."""

import math

import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.models.attention_hooks import watched
from regard.vision.blocks import BlockSizes, blocks, watched_blocks
from regard.vision.blocks.base import Block
from regard.vision.build import draw
from regard.vision.convolution import BatchNorm, Convolutions, StandardisedConvolution
from regard.vision.residual import ResidualUnit

B, C, h, w = 2, 12, 5, 7
SIZES = BlockSizes(C, reduction=3, depth=2)
NON_LOCAL = [name for name in blocks if name.startswith("nonlocal")]
MASKS = [name for name in blocks if name.startswith("soft-mask")]
BY_SOFTMAX = ["nonlocal-gaussian", "nonlocal-embedded"]


def made(name: str, sizes: BlockSizes = SIZES) -> Block:
    torch.manual_seed(1)
    block = blocks[name](sizes)
    draw(block)
    for parameter in block.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, 0.3, 1.2)  # else what ends a non-local block would hide it
    return block.double().eval()


def features(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(*(shape or (B, C, h, w)), generator=generator, dtype=torch.float64)


def shuffled(maps: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    return maps.flatten(2)[..., order].view_as(maps)


# -- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", blocks)
def test_a_block_keeps_the_shape_and_looking_changes_nothing(name):
    block, x = made(name), features()
    plain = block(x)
    seen = block.see(x)
    assert plain.shape == x.shape
    assert torch.equal(plain, seen.features)
    assert seen.looks is not None
    assert not seen.looks.requires_grad
    assert block.see(x, look=False).looks is None


@pytest.mark.parametrize("name", blocks)
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (2, 3), (9, 4)])
def test_any_size_of_grid_will_do_and_images_do_not_see_each_other(name, size):
    block = made(name, SIZES._replace(subsample=True))
    x = features(B, C, *size)
    both = block(x)
    assert torch.isfinite(both).all()
    torch.testing.assert_close(both, torch.cat([block(x[:1]), block(x[1:])]))


@pytest.mark.parametrize("name", blocks)
def test_every_parameter_and_every_feature_gets_a_gradient(name):
    block, x = made(name).train(), features().requires_grad_()
    (block(x) * features(1, C, h, w)).sum().backward()
    assert x.grad.ne(0).all()
    for part, parameter in block.named_parameters():
        if part == "phi.bias" and name == "nonlocal-embedded":
            continue  # it adds the same to all scores of a query
        assert parameter.grad is not None, part
        assert parameter.grad.abs().max() > 1e-9, part


@pytest.mark.parametrize("name", blocks)
def test_gradients_are_those_of_finite_differences(name):
    sizes = BlockSizes(4, reduction=2, depth=1)
    block, x = made(name, sizes), features(1, 4, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(block, (x,))


@pytest.mark.parametrize("name", blocks)
def test_a_block_stands_in_any_network_and_is_watched_there(name):
    network = nn.Sequential(nn.Conv2d(3, C, 3), nn.Sequential(made(name)), nn.Flatten()).double()
    image = features(B, 3, h, w)
    with watched_blocks(network) as looks:
        network(image)
    assert list(looks) == ["1.0"]
    assert torch.equal(looks["1.0"], made(name).see(network[0](image)).looks)
    with watched_blocks(network) as later:
        pass
    network(image)
    assert later == {}, "what comes after is not watched"


@pytest.mark.parametrize("name", NON_LOCAL)
def test_non_local_blocks_know_no_places(name):
    block, x = made(name), features()
    order = torch.randperm(h * w, generator=torch.Generator().manual_seed(3))
    plain, moved = block.see(x), block.see(shuffled(x, order))
    torch.testing.assert_close(moved.features, shuffled(plain.features, order))
    torch.testing.assert_close(moved.looks, plain.looks[:, order][..., order])


def test_squeeze_excitation_minds_no_places():
    block, x = made("squeeze-excitation"), features()
    order = torch.randperm(h * w, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(block.see(shuffled(x, order)).looks, block.see(x).looks)
    torch.testing.assert_close(block(shuffled(x, order)), shuffled(block(x), order))


@pytest.mark.parametrize("name", MASKS)
def test_masks_do_mind_places(name):
    block, x = made(name), features()
    order = torch.arange(h * w).flip(0)
    assert not torch.allclose(block(shuffled(x, order)), shuffled(block(x), order))


@pytest.mark.parametrize("name", ["squeeze-excitation", *MASKS])
def test_gates_and_masks_lie_between_zero_and_one(name):
    looks = made(name).see(10 * features()).looks
    assert looks.shape == ((B, C) if name == "squeeze-excitation" else (B, C, h, w))
    assert ((looks > 0) & (looks < 1)).all()
    assert looks.std() > 0.01


@pytest.mark.parametrize("name", NON_LOCAL)
@pytest.mark.parametrize("subsample", [False, True])
def test_non_local_weights_are_attention_s_and_softmax_ones_a_distribution(name, subsample):
    block, x = made(name, SIZES._replace(subsample=subsample)), features()
    weights = block.see(x).looks
    cells = 3 * 4 if subsample else h * w
    assert weights.shape == (B, h * w, 1, cells)
    with watched(block) as looks:
        block(x)
    assert torch.equal(looks["attention"][0], weights)
    if name in BY_SOFTMAX:
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    elif name == "nonlocal-concat":
        assert (weights >= 0).all()
    else:
        assert (weights < 0).any()


@pytest.mark.parametrize("name", NON_LOCAL)
def test_a_new_non_local_block_changes_nothing(name):
    block = blocks[name](SIZES)
    draw(block)
    x = features().float()
    assert torch.equal(block(x), x)


# -- references ------------------------------------------------------------------------------------------------------


def normed(x, norm):
    """A group norm by its definition (Wu & He 2018, equations 1 to 3)."""
    out, each = torch.empty_like(x), x.shape[1] // norm.num_groups
    for b in range(x.shape[0]):
        for group in range(norm.num_groups):
            part = x[b, group * each : (group + 1) * each]
            out[b, group * each : (group + 1) * each] = (part - part.mean()) / (part.var(unbiased=False) + 1e-5).sqrt()
    return out * norm.weight[:, None, None] + norm.bias[:, None, None]


def test_squeeze_excitation_is_the_paper_s():
    block, x = made("squeeze-excitation"), features()
    W_1, W_2 = block.excitation.W_1.weight, block.excitation.W_2.weight
    assert W_1.shape == (C // 3, C)
    for b in range(B):
        z = torch.stack([sum(x[b, c, i, j] for i in range(h) for j in range(w)) / (h * w) for c in range(C)])  # 2
        s = 1 / (1 + torch.exp(-W_2 @ torch.clamp(W_1 @ z, min=0)))  # 3
        for c in range(C):
            torch.testing.assert_close(block(x)[b, c], s[c] * x[b, c])  # 4


@pytest.mark.parametrize("name", NON_LOCAL)
def test_non_local_blocks_are_the_paper_s(name):
    block, x = made(name), features()
    result, weights = block.see(x)
    y = torch.empty(B, C // 2, h, w, dtype=torch.float64)
    for b in range(B):
        cells = [x[b, :, i, j] for i in range(h) for j in range(w)]
        for i, x_i in enumerate(cells):
            theta = block.theta(x_i)
            f = []
            for x_j in cells:
                phi = block.phi(x_j)
                if name in BY_SOFTMAX:
                    f.append(torch.exp(theta @ phi))  # equations 2 and 3
                elif name == "nonlocal-dot":
                    f.append(theta @ phi)  # 4
                else:
                    w_f = torch.cat([block.attention.score.w_query.weight[0], block.attention.score.w_key.weight[0]])
                    f.append(torch.clamp(w_f @ torch.cat([theta, phi]), min=0))  # 5
            normal = sum(f) if name in BY_SOFTMAX else len(cells)
            torch.testing.assert_close(weights[b, i, 0], torch.stack(f) / normal)
            y[b, :, i // w, i % w] = sum(f_ij * block.g(x_j) for f_ij, x_j in zip(f, cells, strict=True)) / normal  # 1
    z = torch.einsum("ci,bihw->bchw", block.W_z.weight, y) + block.W_z.bias[:, None, None]
    torch.testing.assert_close(result, normed(z, block.norm) + x)  # 6


def test_embedded_gaussian_is_torch_s_attention_without_the_scale():
    block, x = made("nonlocal-embedded"), features()
    cells = x.flatten(2).transpose(1, 2)
    query, keys, values = block.theta(cells), block.phi(cells), block.g(cells)
    seen = nn.functional.scaled_dot_product_attention(query, keys, values, scale=1.0)
    z = block.W_z(seen).transpose(1, 2).view_as(x)
    torch.testing.assert_close(block(x), block.norm(z) + x)


def test_sub_sampling_looks_at_the_largest_of_two_by_two_cells():
    block, x = made("nonlocal-embedded", SIZES._replace(subsample=True)), features()
    phi, g = (part(x.permute(0, 2, 3, 1)) for part in (block.phi, block.g))
    pool = [
        [p[:, i : i + 2, j : j + 2].amax(dim=(1, 2)) for i in range(0, h, 2) for j in range(0, w, 2)] for p in (phi, g)
    ]
    keys, values = (torch.stack(part, dim=1) for part in pool)
    weights = torch.softmax(block.theta(x.flatten(2).transpose(1, 2)) @ keys.transpose(1, 2), dim=-1)
    torch.testing.assert_close(block.see(x).looks[:, :, 0], weights)
    z = block.W_z(weights @ values).transpose(1, 2).view_as(x)
    torch.testing.assert_close(block(x), block.norm(z) + x)


def unit(x, part):
    """A residual unit by its figure, with torch's functions."""
    bent = normed(x, part.norm_1).clamp(min=0)
    first = nn.functional.conv2d(bent, part.W_1.weight, padding=1)
    return x + nn.functional.conv2d(normed(first, part.norm_2).clamp(min=0), part.W_2.weight, padding=1)


def pooled(x):
    """The largest of three by three, at every second place."""
    padded = nn.functional.pad(x, (1, 1, 1, 1), value=-math.inf)
    rows = [
        [padded[..., i : i + 3, j : j + 3].amax(dim=(2, 3)) for j in range(0, x.shape[3], 2)]
        for i in range(0, x.shape[2], 2)
    ]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


@pytest.mark.parametrize("name", MASKS)
def test_soft_masks_are_the_paper_s(name):
    block, x = made(name, SIZES._replace(trunk=2)), features()

    def up(maps, size):
        return nn.functional.interpolate(maps, size, mode="bilinear", align_corners=False)

    outer = block.mask.hourglass
    inner = outer.within
    once = unit(pooled(x), outer.down)
    twice = unit(unit(pooled(once), inner.down), inner.up)
    found = up(unit(up(twice, once.shape[2:]) + unit(once, outer.side), outer.up), (h, w))
    mask = block.mask
    found = nn.functional.conv2d(normed(found, mask.norm_1).clamp(min=0), mask.W_1.weight)
    found = nn.functional.conv2d(normed(found, mask.norm_2).clamp(min=0), mask.W_2.weight, mask.W_2.bias)
    if name == "soft-mask-spatial":
        maps = [(one - one.mean()) / (one.var(unbiased=False) + 1e-5).sqrt() for one in found.flatten(0, 1)]
        found = torch.stack(maps).view_as(found)  # equation 6
    M = 1 / (1 + torch.exp(-found))
    T = unit(unit(x, block.trunk[0]), block.trunk[1])
    torch.testing.assert_close(block.see(x).looks, M)
    torch.testing.assert_close(block(x), (1 + M) * T)  # equation 3


def test_a_residual_unit_that_changes_the_shape_maps_its_input():
    torch.manual_seed(1)
    part, x = ResidualUnit(C, 2 * C, stride=2).double(), features()
    bent = normed(x, part.norm_1).clamp(min=0)
    first = nn.functional.conv2d(bent, part.W_1.weight, padding=1, stride=2)
    added = nn.functional.conv2d(normed(first, part.norm_2).clamp(min=0), part.W_2.weight, padding=1)
    kept = torch.einsum("dc,bchw->bdhw", part.W_s.weight[:, :, 0, 0], bent[..., ::2, ::2])
    torch.testing.assert_close(part(x), kept + added)


def test_standardised_filters_have_mean_zero_and_variance_one():
    torch.manual_seed(1)
    layer, x = StandardisedConvolution(C, 4, 3, padding=1, bias=False).double(), features()
    filters = torch.stack([(f - f.mean()) / (f.var(unbiased=False) + 1e-5).sqrt() for f in layer.weight])
    torch.testing.assert_close(layer(x), nn.functional.conv2d(x, filters / math.sqrt(9 * C), padding=1))


def test_a_norm_over_the_batch_is_torchs_and_its_running_means_are_weights():
    ours, theirs = BatchNorm(C).double(), nn.BatchNorm2d(C).double()
    for step in range(3):
        x = features() + step
        torch.testing.assert_close(ours(x), theirs(x))
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
    held = dict(ours.named_parameters())
    torch.testing.assert_close(held["mean"].detach(), theirs.running_mean)
    torch.testing.assert_close(held["variance"].detach(), theirs.running_var)


# -- sizes and refusals ----------------------------------------------------------------------------------------------


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_blocks_have_as_many_weights_as_their_equations():
    half = C // 2
    assert count(made("squeeze-excitation")) == 2 * C * C // 3  # Hu et al. 2017, equation 5
    around = (half * C + C) + 2 * C  # W_z, norm
    assert count(made("nonlocal-gaussian")) == (C * half + half) + around
    for name in ("nonlocal-embedded", "nonlocal-dot"):
        assert count(made(name)) == 3 * (C * half + half) + around
    assert count(made("nonlocal-concat")) == 3 * (C * half + half) + 2 * half + around
    residual = 2 * 9 * C * C + 2 * 2 * C
    for depth, trunk in ((1, 0), (3, 2)):
        ends = 2 * C * C + 2 * 2 * C
        sizes = SIZES._replace(depth=depth, trunk=trunk)
        units = 2 * depth + (depth - 1) + trunk
        assert count(made("soft-mask", sizes)) == units * residual + ends + C
        assert count(made("soft-mask-spatial", sizes)) == units * residual + ends


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("squeeze-excitation", {"reduction": 5}, (
            "model.image.reduction is 5, which does not divide the 12 channels to be gated: change it, or "
            "model.image.width."
        )),
        ("squeeze-excitation", {"reduction": 0}, (
            "model.image.reduction is 0, which does not divide the 12 channels to be gated: change it, or "
            "model.image.width."
        )),
        ("soft-mask", {"depth": 0}, "model.image.depth must be at least 1, got 0."),
        ("soft-mask", {"trunk": -1}, "model.image.trunk must be at least 0, got -1."),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused(name, sizes, message):
    with pytest.raises(ConfigError) as caught:
        blocks[name](SIZES._replace(**sizes))
    assert str(caught.value) == message


def test_an_unknown_norm():
    with pytest.raises(ConfigError) as caught:
        Convolutions(normalise="layer").norm(C)
    assert str(caught.value) == "model.image.normalise must be one of groups, batch, got 'layer'."


def test_an_unknown_block():
    with pytest.raises(ConfigError) as caught:
        blocks["squeeze-exitation"]
    assert str(caught.value) == (
        "No block of attention named 'squeeze-exitation'. Did you mean 'squeeze-excitation'? "
        "(regard list blocks shows all)"
    )
