"""Laws of image encoders: stems, positions, layers and what they make of an image; and of the classifier over them."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from regard.config import AttentionConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.errors import ConfigError, ModelError
from regard.layers.dropout import Dropout
from regard.models.protocol import Encoder
from regard.vision.blocks import blocks
from regard.vision.build import build_classifier, draw
from regard.vision.encoder import ImageEncoder
from regard.vision.grid_positions import LearnedGrid, SinusoidalGrid, grids
from regard.vision.pixels import from_pixels
from regard.vision.stem import stems

B, D = 2, 24
HEADS = AttentionConfig("scaled-dot", heads=3, project=True)
RESNET = ImageConfig("resnet", channels=3, size=12, width=D, units=1, reduction=2)
PATCHES = ImageConfig("patches", channels=3, size=12, width=D, patch=3)
REGIONS = ImageConfig("regions", channels=7, size=0, width=D)
VIT = replace(PATCHES, layers=2, feed_forward=29, positions="learned", pooling="class")

IMAGES = {
    "resnet": RESNET,
    "resnet, positions": replace(RESNET, positions="sinusoidal", stages=2, units=2, standardised=True),
    "resnet, contents": replace(RESNET, positions="sinusoidal", contents=0.25),
    "resnet, layers": replace(RESNET, positions="sinusoidal", layers=2),
    "resnet, batch": replace(RESNET, normalise="batch", block="soft-mask"),
    "patches": PATCHES,
    "vit": VIT,
    "vit, mean": replace(VIT, pooling="mean", positions="sinusoidal", norm="post", activation="relu"),
    **{f"resnet, {name}": replace(RESNET, block=name, where=("2,3",)) for name in blocks},
    "resnet, gates within": replace(RESNET, block="squeeze-excitation", within=True, units=2),
}
REGIONED = {
    "objects": REGIONS,
    "objects, layers": replace(REGIONS, layers=2),
    "objects, class": replace(REGIONS, layers=2, pooling="class"),
    "grid": replace(REGIONS, size=3, positions="learned", layers=1),
}


def model(image: ImageConfig | None, **changes) -> ModelConfig:
    return ModelConfig(encoder=EncoderConfig("none"), image=image, self_attention=HEADS, dropout=0.1, **changes)


def made(image: ImageConfig, **changes) -> ImageEncoder:
    torch.manual_seed(1)
    encoder = ImageEncoder(model(image, **changes), Dropout(0.1))
    draw(encoder)
    for parameter in encoder.parameters():
        if parameter.dim() == 1:
            nn.init.uniform_(parameter, 0.3, 1.2)  # scales that start from zero would hide what they scale
    return encoder.double().eval()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def refusal(kind, call) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# -- what every encoder yields ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("size", [(12, 12), (9, 15)])
def test_an_image_becomes_cells_row_by_row(name, size):
    encoder, image = made(IMAGES[name]), drawn(B, 3, *size)
    encoded, grid, looks = encoder.see(image)
    cells = grid[0] * grid[1]
    assert isinstance(encoder, Encoder)
    assert encoded.states.shape == (B, cells, D)
    assert encoded.mask.shape == (B, cells)
    assert encoded.mask.all()
    assert encoded.summary.shape == (B, 1, D) == (B, encoder.summary.layers, encoder.summary.width)
    halvings = 2 ** (IMAGES[name].stages - 1)
    wanted = [n // 3 if IMAGES[name].kind == "patches" else -(-n // halvings) for n in size]
    assert grid == tuple(wanted)
    torch.testing.assert_close(encoded[:3], encoder(image)[:3])
    assert encoder.see(image, look=False).looks == {}
    if IMAGES[name].pooling == "mean":
        torch.testing.assert_close(encoded.summary[:, 0], encoded.states.mean(dim=1))
    for layer in range(IMAGES[name].layers):
        weights, all_cells = looks[f"layers.{layer}"], cells + (IMAGES[name].pooling == "class")
        assert weights.shape == (B, all_cells, 3, all_cells)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_does_not_see_its_batch(name):
    encoder, image = made(IMAGES[name]), drawn(B, 3, 12, 12)
    torch.testing.assert_close(encoder(image).states[1:], encoder(image[1:]).states)


@pytest.mark.parametrize("name", IMAGES)
def test_every_weight_of_an_image_encoder_learns(name):
    encoder = made(IMAGES[name])
    encoded = encoder(drawn(B, 3, 12, 12))
    (encoded.states.square().sum() + (encoded.summary * drawn(1, 1, D)).sum()).backward()
    learned = [(part, p) for part, p in encoder.named_parameters() if p.requires_grad]
    missing = [part for part, p in learned if p.grad is None or p.grad.abs().max() < 1e-9]
    # What a softmax cannot tell: it adds the same to all scores of a query.
    assert [part for part in missing if not part.endswith(("W_k.bias", "phi.bias"))] == []


def test_states_lie_where_the_image_was():
    """A pixel changes the cells around it, and in a network of patches its own alone."""
    image, other = drawn(1, 3, 12, 12), drawn(1, 3, 12, 12)
    other[0, :, 7, 4] += 1
    changed = (made(PATCHES)(image).states != made(PATCHES)(other).states).any(dim=-1)
    assert changed[0].nonzero().flatten().tolist() == [7 // 3 * 4 + 4 // 3]


@pytest.mark.parametrize("name", IMAGES)
def test_half_precision_will_do(name):
    encoder, image = made(IMAGES[name]).float(), drawn(B, 3, 12, 12).float()
    with torch.autocast("cpu", torch.bfloat16):
        half = encoder(image)
    whole = encoder(image)
    torch.testing.assert_close(half.states.float(), whole.states, atol=0.15, rtol=0.1)
    half.states.float().square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)


def test_the_smallest_image_is_one_pixel_or_one_patch():
    for name, block in {"none": RESNET, **{n: IMAGES[f"resnet, {n}"] for n in blocks}}.items():
        found = made(block).train()(drawn(1, 3, 1, 1))
        assert found.states.shape == (1, 1, D), name
        assert torch.isfinite(found.states).all(), name
    assert made(VIT)(drawn(1, 3, 3, 3)).states.shape == (1, 1, D)


# -- regions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REGIONED)
def test_padding_of_regions_is_never_seen(name):
    encoder = made(REGIONED[name])
    regions = drawn(B, 9, 7)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    plain = encoder(regions, mask)
    poisoned = encoder(regions.masked_fill(~mask[..., None], math.nan), mask)
    for one, other in zip(plain[:3], poisoned[:3], strict=True):
        assert torch.equal(one, other)
    assert (plain.states[~mask] == 0).all()
    poisoned.states.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in encoder.parameters() if p.grad is not None)
    if REGIONED[name].size == 0:
        alone = encoder(regions[1:, :4])
        torch.testing.assert_close(plain.states[1:, :4], alone.states)
        torch.testing.assert_close(plain.summary[1:], alone.summary)
        assert encoder.see(regions, mask).grid == (1, 9)
    else:
        assert encoder.see(regions, mask).grid == (3, 3)
    nothing = encoder(regions, torch.zeros_like(mask))
    assert torch.isfinite(nothing.summary).all()


@pytest.mark.parametrize("name", ["objects", "objects, layers"])
def test_objects_have_no_order(name):
    encoder, regions = made(REGIONED[name]), drawn(B, 9, 7)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(encoder(regions[:, order]).states, encoder(regions).states[:, order])


# -- positions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", grids)
def test_positions_are_of_any_grid_and_all_differ(name):
    position = grids[name]((4, 5), D).double()
    for grid in ((4, 5), (3, 7), (9, 2), (1, 1)):
        found = position(grid)
        assert found.shape == (grid[0] * grid[1], D)
        apart = torch.pdist(found.detach())
        assert (apart > 1e-6).all()


def test_learned_positions_are_themselves_on_their_own_grid_and_smooth_on_others():
    position = LearnedGrid((4, 4), D).double()
    with torch.no_grad():
        rows = torch.arange(4, dtype=torch.float64)
        position.E_pos.copy_((rows[:, None] + 10 * rows)[..., None].expand(-1, -1, D))
    assert torch.equal(position((4, 4)).view(4, 4, D), position.E_pos)
    # Twice as fine: a plane stays a plane, but for the margin, at the places of an image of the same extent.
    fine = position((8, 8)).view(8, 8, D)[2:6, 2:6, 0]
    places = (torch.arange(2, 6, dtype=torch.float64) + 0.5) / 2 - 0.5
    torch.testing.assert_close(fine, places[:, None] + 10 * places, atol=1, rtol=0)
    torch.testing.assert_close(fine, -(fine.flip(0, 1)) + 33)


def test_sinusoidal_positions_are_the_paper_s_along_rows_and_columns():
    found = SinusoidalGrid((1, 1), D).double()((3, 5)).view(3, 5, D)
    half = D // 2
    for i in range(3):
        for j in range(5):
            for k in range(half):
                for place, start in ((i, 0), (j, half)):
                    angle = place / 10000 ** ((k - k % 2) / half)
                    wave = math.cos(angle) if k % 2 else math.sin(angle)
                    assert math.isclose(found[i, j, start + k], wave, abs_tol=1e-9)


# -- the Vision Transformer ------------------------------------------------------------------------------------------


def test_a_vision_transformer_is_the_paper_s_with_torch_s_attention():
    encoder, image = made(VIT), drawn(B, 3, 9, 15)
    patches = [
        encoder.stem.E.weight.flatten(1) @ image[:, :, i : i + 3, j : j + 3].flatten(1).T
        for i in range(0, 9, 3)
        for j in range(0, 15, 3)
    ]
    z = torch.stack(patches).permute(2, 0, 1) + encoder.stem.E.bias + encoder.position((3, 5))
    z = torch.cat([encoder.class_token.expand(B, 1, D), z], dim=1)  # equation 1
    _, grid, looks = encoder.see(image)
    assert grid == (3, 5)
    for number, layer in enumerate(encoder.layers):
        heads = layer.self_attention.heads
        theirs = nn.MultiheadAttention(D, 3, batch_first=True).double()
        with torch.no_grad():
            theirs.in_proj_weight.copy_(torch.cat([heads.W_q.weight, heads.W_k.weight, heads.W_v.weight]))
            theirs.in_proj_bias.copy_(torch.cat([heads.W_q.bias, heads.W_k.bias, heads.W_v.bias]))
            theirs.out_proj.weight.copy_(heads.W_o.weight)
            theirs.out_proj.bias.copy_(heads.W_o.bias)
        entering = layer.around_look.norm(z)
        seen, weights = theirs(entering, entering, entering, average_attn_weights=False)
        torch.testing.assert_close(looks[f"layers.{number}"], weights.transpose(1, 2))
        z = seen + z  # 2
        network = layer.feed_forward
        z = network.W_2(nn.functional.gelu(network.W_1(layer.around_network.norm(z)))) + z  # 3
    y = encoder.norm(z)  # 4
    encoded = encoder(image)
    torch.testing.assert_close(encoded.summary[:, 0], y[:, 0])
    torch.testing.assert_close(encoded.states, y[:, 1:])


def test_contents_are_as_strong_as_they_are_told_to_be_and_places_are_added_whole():
    image = replace(RESNET, positions="sinusoidal", contents=0.25)
    encoder = made(image)
    held = encoder(drawn(B, 3, 12, 12)).states - encoder.position(encoder.stem.grid)
    torch.testing.assert_close(held.mean(dim=-1), torch.zeros_like(held[..., 0]), atol=1e-6, rtol=0)
    torch.testing.assert_close(held.std(dim=-1, correction=0), torch.full_like(held[..., 0], 0.25), atol=1e-3, rtol=0)


def test_gradients_reach_the_image():
    small = replace(VIT, width=4, size=6, layers=1, feed_forward=5, channels=1)
    encoder = ImageEncoder(replace(model(small), self_attention=replace(HEADS, heads=2)), Dropout(0.0)).double().eval()
    image = drawn(1, 1, 6, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: encoder(x).summary, (image,))


# -- sizes -----------------------------------------------------------------------------------------------------------


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def linear(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def test_encoders_have_as_many_weights_as_their_sizes_give():
    norms = 2 * 2 * D
    layer = 4 * linear(D, D) + linear(D, 29) + linear(29, D) + norms
    assert count(made(VIT)) == linear(3 * 9, D) + 16 * D + D + 2 * layer + 2 * D
    assert count(made(REGIONS)) == linear(7, D)

    def unit(inputs: int, outputs: int) -> int:
        side = 0 if inputs == outputs else inputs * outputs
        return 9 * inputs * outputs + 9 * outputs * outputs + 2 * inputs + 2 * outputs + side

    widths = [D // 4, D // 2, D]
    network = 9 * 3 * widths[0] + unit(6, 6) + unit(6, 12) + unit(12, 24) + 2 * D
    assert count(made(RESNET)) == network
    gates = sum(2 * width * width // 2 for width in widths)
    assert count(made(replace(RESNET, block="squeeze-excitation"))) == network + gates
    assert count(made(replace(RESNET, block="squeeze-excitation", where=("3",)))) == network + D * D
    deeper = network + unit(6, 6) + unit(12, 12) + unit(24, 24)
    within = replace(RESNET, block="squeeze-excitation", within=True, units=2)
    assert count(made(within)) == deeper + 2 * gates


def test_vit_base_has_the_paper_s_size():
    """Table 1: 86M weights; 12 layers of 768 units and 12 heads, 3072 between, patches of 16 in images of 224."""
    base = ImageConfig("patches", 3, 224, 768, patch=16, positions="learned", layers=12, feed_forward=3072,
                       pooling="class")  # fmt: skip
    with torch.device("meta"):
        config = replace(model(base), self_attention=replace(HEADS, heads=12))
        assert round(count(ImageEncoder(config, Dropout(0.0))) / 1e6) == 86


# -- classifiers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["resnet", "vit", "resnet, nonlocal-embedded", "resnet, squeeze-excitation"])
def test_a_classifier_learns_to_tell_images_apart(name):
    torch.manual_seed(1)
    network = build_classifier(model(IMAGES[name]), 4)
    images, labels = drawn(8, 3, 12, 12).float(), torch.arange(8) % 4
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for _ in range(30):
        loss = nn.functional.cross_entropy(network(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.eval()
    assert (network(images).argmax(dim=1) == labels).all()
    seen = network.see(images)
    torch.testing.assert_close(seen.logits, network(images))
    assert len(seen.looks) == {"resnet": 0, "vit": 2}.get(name, 2)


def test_a_classifier_over_regions_reads_a_mask():
    network = build_classifier(model(REGIONED["objects, class"]), 5).double().eval()
    regions, mask = drawn(B, 9, 7), torch.arange(9) < torch.tensor([[9], [4]])
    torch.testing.assert_close(network(regions, mask)[1:], network(regions[1:, :4]))


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (None, "model.image is none, so this model cannot read images: set model.image.kind."),
        (replace(RESNET, kind="renset"), "No stem named 'renset'. Did you mean 'resnet'? (regard list stems shows "
         "all)"),
        (replace(RESNET, width=22), (
            "model.image.width is 22, but each of 3 stages (model.image.stages) has half the channels of the next: "
            "use a multiple of 4, at least 8."
        )),
        (replace(RESNET, width=4), (
            "model.image.width is 4, but each of 3 stages (model.image.stages) has half the channels of the next: "
            "use a multiple of 4, at least 8."
        )),
        (replace(RESNET, units=0), "model.image.units must be at least 1, got 0."),
        (replace(RESNET, channels=0), "model.image.channels must be at least 1, got 0."),
        (replace(RESNET, size=0), "model.image.size must be at least 1, got 0."),
        (replace(RESNET, layers=-1), "model.image.layers must be at least 0, got -1."),
        (replace(RESNET, block="se"), "No block of attention named 'se'. (regard list blocks shows all)"),
        (replace(RESNET, where=("2",)), (
            "model.image.where says where a block goes, but model.image.block is none: name one (regard list blocks "
            "shows all), or leave it out."
        )),
        (
            replace(RESNET, block="soft-mask", where=("4",)),
            "model.image.where contains '4': the stages are 1 to 3 (model.image.stages).",
        ),
        (replace(RESNET, positions="rotary"), "No grid position named 'rotary'. (regard list grids shows all)"),
        (replace(RESNET, pooling="max"), "model.image.pooling must be one of mean, class, got 'max'."),
        (replace(RESNET, norm="batch"), "model.image.norm must be one of pre, post, got 'batch'."),
        (replace(RESNET, pooling="class"), (
            "model.image.pooling=class has a token attend to the cells in every layer, but model.image.layers is 0: "
            "give it layers, or set model.image.pooling=mean."
        )),
        (replace(PATCHES, patch=5), "model.image.patch is 5, which does not divide model.image.size, 12: change one of "
         "them."),
        (replace(PATCHES, patch=0), "model.image.patch must be at least 1, got 0."),
        (replace(PATCHES, width=22, positions="sinusoidal"), (
            "Sinusoidal grid positions need a width that is a multiple of 4, got 22: change model.image.width, or "
            "set model.image.positions=learned."
        )),
        (replace(REGIONS, positions="learned"), (
            "Regions anywhere in the image (model.image.size=0) have no rows and columns: set model.image.size to "
            "the number of rows, or model.image.positions=none."
        )),
        (replace(VIT, width=25), "model.self_attention.heads is 3, which does not divide the width of a query, 25: "
         "change one of them, or set model.self_attention.head_width."),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused(image, message):
    assert refusal(ConfigError, lambda: ImageEncoder(model(image), Dropout(0.0))) == message


def test_hard_looks_of_cells_at_each_other_are_refused():
    hard = replace(model(VIT), self_attention=replace(HEADS, focus="hard"))
    assert refusal(ConfigError, lambda: ImageEncoder(hard, Dropout(0.0))).startswith("model.self_attention.focus=hard")


@pytest.mark.parametrize(
    ("image", "shape", "message"),
    [
        (PATCHES, (1, 3, 10, 12), "An image of 10×12 pixels cannot be cut into patches of 3×3 (model.image.patch): "
         "resize it to multiples of 3."),
        (PATCHES, (1, 1, 12, 12), (
            "This model reads images with 3 channels, as batch × 3 × rows × columns without a mask, got 1×1×12×12: "
            "change the images, or train with model.image.channels and model.image.kind to match them."
        )),
        (RESNET, (1, 3, 12), (
            "This model reads images with 3 channels, as batch × 3 × rows × columns without a mask, got 1×3×12: "
            "change the images, or train with model.image.channels and model.image.kind to match them."
        )),
        (REGIONS, (1, 4, 8), "This model reads regions, as batch × regions × 7 features (model.image.channels), got "
         "1×4×8."),
        (replace(REGIONS, size=3), (1, 4, 7), (
            "There are 4 regions, but model.image.size=3 means 3 rows of 3: change it, or set it to 0 if they are "
            "objects anywhere in the image."
        )),
    ],
)  # fmt: skip
def test_an_image_that_does_not_fit_is_refused(image, shape, message):
    assert refusal(ModelError, lambda: made(image)(drawn(*shape))) == message


def test_all_stems_are_swept():
    assert {image.kind for image in (*IMAGES.values(), *REGIONED.values())} == {*stems}


# -- pixels ----------------------------------------------------------------------------------------------------------


def test_pixels_become_numbers_from_minus_one_to_one():
    images = torch.randint(0, 256, (2, 5, 7, 3), dtype=torch.uint8)
    images[0, 0, 0], images[1, 4, 6] = 0, 255
    found = from_pixels(images)
    assert (found[0, :, 0, 0] == -1).all()
    assert (found[1, :, 4, 6] == 1).all()
    for row, column, colour in ((1, 2, 0), (4, 6, 2), (3, 0, 1)):
        torch.testing.assert_close(found[0, colour, row, column], images[0, row, column, colour].float() / 127.5 - 1)
    wrong = "Pixels must be uint8, batch × rows × columns × channels, got 2×5×7×3 of float32."
    assert refusal(ModelError, lambda: from_pixels(images.float())) == wrong
