"""Laws of detection by object queries: boxes, matching, losses, the model, and how well it finds things."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, DetectionConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.data.scenes import generate
from regard.data.scenes.objects import SHAPES
from regard.errors import ConfigError, DataError, ModelError
from regard.vision.build import build_detector
from regard.vision.detection.average_precision import average_precision, mask_overlap, precision_area
from regard.vision.detection.batch import Gold, ObjectBatch, Objects, ObjectSet, pack
from regard.vision.detection.boxes import area, from_corners, generalised_overlap, overlap, to_corners
from regard.vision.detection.detector import Detector
from regard.vision.detection.losses import detection_loss, mask_losses, set_loss
from regard.vision.detection.matching import assign, assign_all, matching_costs
from regard.vision.detection.predict import Thing, detect
from regard.vision.detection.queries import centers, queries
from regard.vision.detection.validation import validate
from regard.vision.pixels import from_pixels

B, N, D, CLASSES = 2, 5, 24, 3
HEADS = AttentionConfig("scaled-dot", heads=3, project=True)
KINDS = pytest.mark.parametrize("kind", queries)
STEPS = 110
MODEL = ModelConfig(
    encoder=EncoderConfig("none"),
    dropout=0.0,
    attention=HEADS,
    self_attention=HEADS,
    decoder=DecoderConfig("transformer", layers=2, width=D, feed_forward=29),
    image=ImageConfig("resnet", size=12, width=D, units=1, positions="sinusoidal", layers=1, feed_forward=31),
)
DETECTION = DetectionConfig(queries=N, mask_channels=4, mask_maps=3)


def made(queried: str, **image) -> Detector:
    torch.manual_seed(1)
    config = replace(MODEL, image=replace(MODEL.image, **image))
    model = build_detector(replace(config, detection=replace(DETECTION, kind=queried)), CLASSES)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "W_b" in name or "light" in name:  # what starts from zero would hide what it scales
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.double().eval()


def drawn(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_corners(count: int, seed: int = 3) -> torch.Tensor:
    low, size = torch.rand(2, count, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cat([low, low + size], dim=-1)


def batch(seed: int = 4, pixels: int = 12, most: int = 3) -> ObjectBatch:
    random = np.random.default_rng(seed)
    golds = []
    for count in (most, 1):
        low = random.integers(0, pixels // 2, (count, 2))
        boxes = np.concatenate([low, low + random.integers(2, pixels // 2, (count, 2))], axis=1)
        masks = random.random((count, pixels, pixels)) < 0.3
        image = random.integers(0, 256, (pixels, pixels, 3), dtype=np.uint8)
        golds.append(Gold(image, random.integers(0, CLASSES, count), boxes, masks))
    return pack(golds, N)


def refusal(kind, call) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# -- boxes -------------------------------------------------------------------------------------------------------------


def test_corners_and_centres_are_the_same_boxes():
    corners = random_corners(17)
    torch.testing.assert_close(to_corners(from_corners(corners)), corners)
    torch.testing.assert_close(area(corners), from_corners(corners)[:, 2:].prod(dim=1))


def test_overlap_counts_shared_pixels():
    a, b = torch.tensor([2, 1, 7, 5]), torch.tensor([4, 3, 9, 8])
    grid = np.zeros((2, 10, 10), bool)
    for place, (left, top, right, bottom) in enumerate((a.tolist(), b.tolist())):
        grid[place, top:bottom, left:right] = True
    wanted = (grid[0] & grid[1]).sum() / (grid[0] | grid[1]).sum()
    assert overlap(a.double(), b.double()).item() == pytest.approx(wanted)
    hull = (9 - 2) * (8 - 1)
    gap = (hull - (grid[0] | grid[1]).sum()) / hull
    assert generalised_overlap(a.double(), b.double()).item() == pytest.approx(wanted - gap)


def test_generalised_overlap_is_at_most_overlap_and_falls_to_minus_one():
    a, b = random_corners(300, 5), random_corners(300, 6)
    general, plain = generalised_overlap(a, b), overlap(a, b)
    assert (general <= plain + 1e-12).all()
    assert (general >= -1).all()
    torch.testing.assert_close(generalised_overlap(b, a), general)
    torch.testing.assert_close(generalised_overlap(a, a), torch.ones(300, dtype=torch.float64))
    far = torch.tensor([[1e4, 1e4, 1e4 + 1, 1e4 + 1]], dtype=torch.float64)
    assert generalised_overlap(torch.tensor([[0.0, 0, 1, 1]]).double(), far).item() == pytest.approx(-1, abs=1e-6)


def test_generalised_overlap_is_overlap_where_the_hull_is_the_union():
    a, b = torch.tensor([1.0, 2, 4, 6]), torch.tensor([3.0, 2, 9, 6])  # one strip
    assert generalised_overlap(a, b) == overlap(a, b)


def test_overlaps_of_boxes_without_area_are_finite():
    nothing = torch.zeros(1, 4, dtype=torch.float64, requires_grad=True)
    found = generalised_overlap(nothing, nothing) + overlap(nothing, nothing)
    found.sum().backward()
    assert found.isfinite().all()
    assert nothing.grad.isfinite().all()


def test_the_gradient_of_generalised_overlap():
    a, b = random_corners(11, 7).requires_grad_(), random_corners(11, 8)
    assert torch.autograd.gradcheck(lambda boxes: generalised_overlap(boxes, b), a)


# -- matching ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (3, 7), (5, 5), (4, 6)])
@pytest.mark.parametrize("costs", ["any", "whole", "products"])  # whole numbers have ties, products long ways round
def test_matching_costs_least(rows, columns, costs):
    given = {
        "any": drawn(13, rows, columns),
        "whole": (3 * drawn(13, rows, columns)).round(),
        "products": drawn(13, rows, 1).abs() * drawn(13, 1, columns, seed=5).abs(),
    }
    costs = given[costs]
    counts = torch.arange(13) % (rows + 1)
    together = assign_all(costs, counts)
    for problem, count, chosen in zip(costs, counts.tolist(), together.tolist(), strict=True):
        orders = permutations(range(columns), count)
        best = min(sum(problem[i, j].item() for i, j in enumerate(order)) for order in orders)
        for found in (chosen[:count], assign(problem[:count].tolist())):
            assert len(set(found)) == count
            assert sum(problem[i, j].item() for i, j in enumerate(found)) == pytest.approx(best)


def test_a_hundred_are_matched_as_one_by_one_and_as_scipy_does():
    costs = drawn(1, 83, 101)
    found = assign_all(costs, torch.tensor([83]))[0]
    assert found.tolist() == assign(costs[0].tolist())
    optimize = pytest.importorskip("scipy.optimize")
    assert optimize.linear_sum_assignment(costs[0].numpy())[1].tolist() == found.tolist()


def test_more_objects_than_queries_are_refused():
    wanted = (
        "There are 3 objects in an image, but 2 object queries can find 2 at most: train with "
        "model.detection.queries=3 or more, or leave objects out."
    )
    gold = Gold(np.zeros((4, 4, 3), np.uint8), np.zeros(3, np.int64), np.zeros((3, 4), np.int64))
    assert refusal(ModelError, lambda: assign(drawn(3, 2).tolist())) == wanted
    assert refusal(ModelError, lambda: assign_all(drawn(1, 3, 2), torch.tensor([3]))) == wanted
    assert refusal(ModelError, lambda: pack([gold], 2)) == wanted


def test_what_a_match_costs():
    """Beside the equation, one query and one object at a time."""
    gold, logits, boxes = batch(), drawn(B, 2, N, CLASSES + 1), drawn(B, 2, N, 4).sigmoid()
    costs = matching_costs(logits, boxes, gold.classes, gold.boxes, DETECTION)
    for b, layer, m, n in np.ndindex(*costs.shape):
        chance = logits[b, layer, n].softmax(dim=0)[gold.classes[b, m]]
        wanted, got = gold.boxes[b, m].double(), boxes[b, layer, n]
        alike = generalised_overlap(to_corners(wanted), to_corners(got))
        assert costs[b, layer, m, n].item() == pytest.approx(
            (-chance + 5 * (wanted - got).abs().sum() - 2 * alike).item(), abs=1e-5
        )


# -- losses ------------------------------------------------------------------------------------------------------------


def perfect(gold: ObjectBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Answer rightly, by queries in a strange order."""
    order = [3, 0, 4]
    logits, boxes = torch.zeros(B, 1, N, CLASSES + 1), torch.rand(B, 1, N, 4)
    logits[..., CLASSES] = 50
    for b, count in enumerate(gold.counts.tolist()):
        for m in range(count):
            logits[b, 0, order[m]] = 0
            logits[b, 0, order[m], gold.classes[b, m]] = 50
            boxes[b, 0, order[m]] = gold.boxes[b, m]
    return logits, boxes


def test_perfect_answers_cost_nothing():
    gold = batch()
    (total, beside), chosen = set_loss(*perfect(gold), gold, DETECTION)
    assert total.item() == pytest.approx(0, abs=1e-4)
    assert all(part.item() == pytest.approx(0, abs=1e-4) for part in beside.values())
    assert chosen[0, 0].tolist() == [3, 0, 4]


def test_the_loss_beside_its_equation():
    gold, logits, boxes = batch(), drawn(B, 2, N, CLASSES + 1).float(), drawn(B, 2, N, 4).sigmoid().float()
    (total, _), chosen = set_loss(logits, boxes, gold, DETECTION)
    costs = matching_costs(logits, boxes, gold.classes, gold.boxes, DETECTION)
    wanted = 0.0
    for b, layer in np.ndindex(B, 2):
        count = int(gold.counts[b])
        answers = assign(costs[b, layer, :count].tolist())
        assert answers == chosen[b, layer, :count].tolist()
        for n in range(N):
            chances = logits[b, layer, n].log_softmax(dim=0)
            if n not in answers:
                wanted -= 0.1 * chances[CLASSES].item()
                continue
            m = answers.index(n)
            alike = generalised_overlap(to_corners(gold.boxes[b, m]), to_corners(boxes[b, layer, n])).item()
            apart = (gold.boxes[b, m] - boxes[b, layer, n]).abs().sum().item()
            wanted += -chances[gold.classes[b, m]].item() + 5 * apart + 2 * (1 - alike)
    assert total.item() == pytest.approx(wanted, rel=1e-5)


@KINDS
def test_the_order_of_objects_makes_no_difference(kind):
    model, gold = made(kind).float(), batch()
    order = torch.tensor([2, 0, 1])
    other = gold._replace(
        classes=torch.stack([gold.classes[0, order], gold.classes[1]]),
        boxes=torch.stack([gold.boxes[0, order], gold.boxes[1]]),
        masks=torch.stack([gold.masks[0, order], gold.masks[1]]),
    )
    (total, beside), (again, beside_again) = detection_loss(model, gold), detection_loss(model, other)
    torch.testing.assert_close(again, total)
    torch.testing.assert_close(beside_again, beside)


@KINDS
def test_padding_and_batch_mates_make_no_difference(kind):
    model, gold = made(kind).float(), batch()
    alone = [gold._map(lambda tensor, row=row: tensor[row : row + 1]) for row in range(B)]
    poisoned = gold._replace(classes=gold.classes.clone(), boxes=gold.boxes.clone(), masks=gold.masks.clone())
    poisoned.classes[1, 1:], poisoned.boxes[1, 1:], poisoned.masks[1, 1:] = 1, 0.7, True
    totals = [detection_loss(model, part).total for part in (gold, poisoned)]
    assert totals[0] == totals[1]
    torch.testing.assert_close(sum(detection_loss(model, part).total for part in alone), totals[0])


def test_an_image_without_objects_teaches_that_nothing_is_there():
    gold = batch()._replace(counts=torch.tensor([0, 0]), count=1)
    model = made("anchors").float()
    losses = detection_loss(model, gold)
    losses.total.backward()
    assert losses.beside["l1_loss"] == losses.beside["dice_loss"] == 0 < losses.beside["class_loss"]
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_mask_losses_beside_their_equations():
    logits, masks = 3 * drawn(4, 5, 7), drawn(4, 5, 7, seed=9) > 0
    dice, focal = mask_losses(logits, masks, 2.0)
    for place, (own, mask) in enumerate(zip(logits.sigmoid().flatten(1), masks.flatten(1), strict=True)):
        chances, wanted = own.tolist(), mask.tolist()
        both = sum(p for p, m in zip(chances, wanted, strict=True) if m)
        assert dice[place].item() == pytest.approx(1 - (2 * both + 1) / (sum(chances) + sum(wanted) + 1))
        right = [p if m else 1 - p for p, m in zip(chances, wanted, strict=True)]
        assert focal[place].item() == pytest.approx(sum(-((1 - p) ** 2) * math.log(p) for p in right) / len(right))
    sure = torch.where(masks, 40.0, -40.0).double()
    assert max(part.abs().max() for part in mask_losses(sure, masks, 2.0)) < 1e-6
    leaf = drawn(2, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: mask_losses(values, masks[:2, :3, :5], 2.0), leaf)


# -- the model ---------------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("image", [{}, {"kind": "patches", "patch": 3}, {"stages": 2, "layers": 0}, {"stages": 1}])
def test_what_a_detector_yields(kind, image):
    model, pictures = made(kind, **image), drawn(B, 3, 12, 12)
    found = model(pictures, look=True)
    cells = found.grid[0] * found.grid[1]
    assert found.logits.shape == (B, 2, N, CLASSES + 1)
    assert found.boxes.shape == (B, 2, N, 4)
    assert ((found.boxes > 0) & (found.boxes < 1)).all()
    assert found.weights.shape == (B, N, 2, 3, cells)
    torch.testing.assert_close(found.weights.sum(dim=-1), torch.ones(B, N, 2, 3, dtype=torch.float64))
    assert model(pictures).weights is None
    torch.testing.assert_close(model(pictures).boxes, found.boxes)
    rows, which = torch.tensor([1, 0, 1]), torch.tensor([4, 2, 2])
    masks = model.segment(pictures, found, rows, which)
    assert masks.shape == (3, 12, 12)
    torch.testing.assert_close(model.segment(pictures[1:], model(pictures[1:]), rows[:1] - 1, which[:1]), masks[:1])


@KINDS
def test_images_of_another_size_are_read(kind):
    model, pictures = made(kind), drawn(B, 3, 9, 15)
    found = model(pictures)
    assert model.segment(pictures, found, torch.tensor([0]), torch.tensor([1])).shape == (1, 9, 15)


@KINDS
def test_queries_have_no_order(kind):
    model, pictures, order = made(kind), drawn(B, 3, 12, 12), torch.tensor([3, 0, 4, 1, 2])
    before = model(pictures, look=True)
    own = {name: p for name, p in model.queries.named_parameters() if p.shape[0] == N and p.dim() == 2 and name != "W"}
    with torch.no_grad():
        for parameter in own.values():
            parameter.copy_(parameter[order])
    after = model(pictures, look=True)
    torch.testing.assert_close(after.logits, before.logits[:, :, order])
    torch.testing.assert_close(after.boxes, before.boxes[:, :, order])
    torch.testing.assert_close(after.weights, before.weights[:, order])


@KINDS
def test_every_weight_of_a_detector_learns(kind):
    model = made(kind).float()
    detection_loss(model, batch()).total.backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-9]
    # What a softmax cannot tell: it adds the same to all scores of a query.
    missing = [name for name in missing if not name.endswith("W_k.bias")]
    # Learned queries hold nothing at first, whose norm is nothing, however scaled.
    assert missing == (["stack.0.around_queries.norm.weight"] if kind == "learned" else [])


@KINDS
def test_looks_beside_a_reference(kind):
    """One head at a time, from the weights themselves."""
    model, states, query = made(kind), drawn(B, 16, D), drawn(B, N, D, seed=11)
    layer, boxes, cells = model.layers[0].look, drawn(B, N, 4).sigmoid(), centers((4, 4), torch.device("cpu")).double()
    mask = torch.ones(B, 16, dtype=torch.bool)
    got = layer(query, layer.remember(states, mask), boxes, cells, look=True)
    heads = layer.heads if kind == "anchors" else layer.attention.heads
    shifts = layer.light.W(query).view(B, N, 3, 4) if kind == "anchors" else None
    wide = D // 3
    for b, n, h in np.ndindex(B, N, 3):
        part = slice(h * wide, (h + 1) * wide)
        scores = heads.W_k(states[b])[:, part] @ heads.W_q(query[b, n])[part] / math.sqrt(wide)
        if shifts is not None:
            (dx, dy, sx, sy), (cx, cy, w, h_) = shifts[b, n, h].tolist(), boxes[b, n].tolist()
            for s in range(16):
                x, y = (s % 4 + 0.5) / 4 - cx - dx * w, (s // 4 + 0.5) / 4 - cy - dy * h_
                scores[s] -= x**2 / (2 * (math.exp(sx) * w) ** 2) + y**2 / (2 * (math.exp(sy) * h_) ** 2)
        torch.testing.assert_close(got.weights[b, n, h], scores.softmax(dim=0))


def test_a_light_falls_on_its_box():
    model = build_detector(replace(MODEL, detection=replace(DETECTION, kind="anchors")), CLASSES)
    light = model.layers[0].look.light
    boxes = torch.tensor([[[0.2, 0.7, 0.3, 0.3]]])
    dark = light(torch.randn(1, 1, D), boxes, centers((10, 10), torch.device("cpu")))
    assert dark[0, 0, 0].argmax().item() in (61, 62, 71, 72)  # of the first head, around x = 0.2 and y = 0.7
    assert dark[0, 1, 0].argmax().item() % 10 == 0  # the second looks at the left edge


def test_weights_are_as_many_as_they_should_be():
    """Of the queries: everything but the image encoder and the masks, counted from the sizes."""
    wide, inner, heads = D, 29, 3
    look = 4 * (wide * wide + wide)
    layer = 2 * look + 3 * 2 * wide + wide * inner + inner + inner * wide + wide
    ends = 2 * wide + wide * (CLASSES + 1) + CLASSES + 1 + 2 * (wide * wide + wide) + 4 * wide + 4
    places = 2 * (wide // 4) * wide + wide
    light = wide * 4 * heads + 4 * heads
    boxes = N * 4 + N * wide + 4 * (wide // 4) * wide + wide
    wanted = {"learned": 2 * layer + ends + places + N * wide, "anchors": 2 * (layer + light) + ends + places + boxes}
    for kind in queries:
        model = build_detector(replace(MODEL, detection=replace(DETECTION, kind=kind, mask_channels=0)), CLASSES)
        own = sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in model.encoder.parameters())
        assert own == wanted[kind], kind


def test_what_cannot_be_built_says_why():
    def build(detection=DETECTION, classes=CLASSES, **changes):
        return lambda: build_detector(replace(MODEL, detection=detection, **changes), classes)

    assert refusal(ConfigError, build(classes=0)) == "A detector needs at least 1 class, got 0."
    assert refusal(ConfigError, build(replace(DETECTION, queries=0))) == (
        "model.detection.queries must be at least 1, got 0."
    )
    assert refusal(ConfigError, build(replace(DETECTION, giou=-1.0))) == (
        "model.detection.giou must be at least 0, got -1.0."
    )
    assert refusal(ConfigError, build(replace(DETECTION, kind="anchor"))).startswith(
        "No kind of object queries named 'anchor'. Did you mean 'anchors'?"
    )
    assert "set both to the same" in refusal(ConfigError, build(decoder=replace(MODEL.decoder, width=16)))
    assert "give it attention" in refusal(ConfigError, build(attention=None))
    assert "reads images" in refusal(ConfigError, build(image=ImageConfig("regions", width=D)))
    assert "takes any" in refusal(ConfigError, build(attention=replace(HEADS, focus="sparsemax")))
    assert refusal(ConfigError, build(attention=replace(HEADS, temperature=0.5, groups=1))) == (
        "model.detection.kind=anchors does not use model.attention.temperature, model.attention.groups: leave that at "
        "its default, or set model.detection.kind=learned, which uses all but coverage and values."
    )
    unread = {"learn_temperature": True, "head_width": 4, "values": True, "coverage": "see2017", "pruned": ("0.0",)}
    for name, value in unread.items():
        assert f"does not use model.attention.{name}: " in refusal(
            ConfigError, build(attention=replace(HEADS, **{name: value}))
        )
    learned = replace(DETECTION, kind="learned")
    assert "attend all at once" in refusal(ConfigError, build(learned, attention=replace(HEADS, coverage="see2017")))
    build(learned, attention=replace(HEADS, focus="sparsemax"))()
    unmasked = build(replace(DETECTION, mask_channels=0))()
    pictures, none = drawn(1, 3, 12, 12).float(), torch.zeros(1, dtype=torch.long)
    assert "no masks" in refusal(ModelError, lambda: unmasked.segment(pictures, unmasked(pictures), none, none))
    bare = batch()._replace(masks=None)
    assert "these objects have none" in refusal(DataError, lambda: detection_loss(build()(), bare))
    small = Gold(np.zeros((4, 4, 3), np.uint8), np.zeros(1, np.int64), np.zeros((1, 4), np.int64))
    larger = small._replace(image=np.zeros((5, 4, 3), np.uint8))
    assert "of one size, got 4×4×3 and 5×4×3" in refusal(DataError, lambda: pack([small, larger], N))


# -- how well things are found -----------------------------------------------------------------------------------------


def thing(label: int, score: float, *box: float, mask=None) -> Thing:
    return Thing("", label, score, box, mask, 0)


def gold(*objects: tuple[int, ...], side: int = 20) -> Gold:
    boxes = np.array([box for _, *box in objects], np.int64).reshape(-1, 4)
    masks = np.zeros((len(objects), side, side), bool)
    for mask, (left, top, right, bottom) in zip(masks, boxes, strict=True):
        mask[top:bottom, left:right] = True
    return Gold(np.zeros((side, side, 3), np.uint8), np.array([label for label, *_ in objects], np.int64), boxes, masks)


def test_average_precision_by_hand():
    # Right, wrong, right, of three objects: precision 1 up to a third, 2/3 up to two thirds, then nothing.
    assert precision_area(np.array([1.0, 0, 1]), 3) == pytest.approx(1 / 3 + 2 / 3 / 3)
    # A better precision further on counts here too: wrong, right, right → 2/3 at either recall.
    assert precision_area(np.array([0.0, 1, 1]), 2) == pytest.approx(2 / 3)
    golds = [gold((0, 0, 0, 10, 10), (1, 10, 10, 20, 20)), gold((0, 5, 5, 15, 15))]
    found = [
        [thing(0, 0.9, 0, 0, 10, 10), thing(0, 0.8, 0, 0, 10, 9), thing(1, 0.2, 10, 10, 20, 16)],
        [thing(0, 0.3, 5, 5, 15, 10.5), thing(1, 0.9, 5, 5, 15, 15)],
    ]
    # Class 0: right, a second answer for the same object, right. Class 1: one where there is none, then right.
    mean, each = average_precision(found, golds)
    assert each == {0: pytest.approx(1 / 2 + 1 / 2 * 2 / 3), 1: pytest.approx(1 / 2)}
    assert mean == pytest.approx((5 / 6 + 1 / 2) / 2)
    assert average_precision(found, golds, overlap=0.7)[1] == {0: pytest.approx(0.5), 1: 0.0}
    assert average_precision([[], []], golds)[0] == 0.0
    perfect = [[thing(int(c), 1.0, *map(float, box)) for c, box in zip(g.classes, g.boxes, strict=True)] for g in golds]
    assert average_precision(perfect, golds)[0] == 1.0
    # Answers of classes that are nowhere, and images without objects, are no division by zero.
    assert average_precision([[thing(2, 0.5, 0, 0, 1, 1)]], [gold()]) == (0.0, {})


def test_mask_overlap_by_hand():
    golds = [gold((0, 0, 0, 10, 10), (1, 10, 10, 20, 20)), gold((0, 5, 5, 15, 15))]
    half = golds[0].masks[0].copy()
    half[5:] = False
    found = [[thing(1, 0.9, 0, 0, 10, 9, mask=half), thing(0, 0.9, 0, 0, 5, 5, mask=golds[0].masks[1])], []]
    assert mask_overlap(found, golds) == pytest.approx(0.5 / 3)
    assert mask_overlap([[thing(0, 1.0, 5, 5, 15, 15, mask=golds[1].masks[0])]], golds[1:]) == 1.0


def test_a_batch_keeps_what_it_is_made_of():
    scenes = list(generate("valid", 6, pixels=32))
    golds = [gold_of(scene) for scene in scenes]
    packed = pack(golds, 8, room=5)
    assert packed.count == sum(len(scene.things) for scene in scenes)
    assert packed.classes.shape == (6, 5)
    for row, one in enumerate(golds):
        count = int(packed.counts[row])
        corners = to_corners(packed.boxes[row, :count]) * 32
        np.testing.assert_allclose(corners.numpy(), one.boxes, atol=1e-4)
        assert (packed.masks[row, :count].numpy() == one.masks).all()
        assert not packed.masks[row, count:].any()
    assert packed.to("cpu").count == packed.count
    assert pack([one._replace(masks=None) for one in golds], 8).masks is None
    joined = ObjectSet(
        np.stack([one.image for one in golds]), Objects.joined([Objects.of(golds[:1]), Objects.of(golds[1:])])
    )
    again = joined.batch(np.arange(6))
    for part, other in zip(again.tensors(), pack(golds, 8).tensors(), strict=True):
        assert torch.equal(part, other)
    for one, other in zip(joined.golds(np.array([4, 1])), (golds[4], golds[1]), strict=True):
        assert all(np.array_equal(part, wanted) for part, wanted in zip(one, other, strict=True))


@KINDS
def test_what_is_detected_is_what_the_model_says(kind):
    model, given = made(kind).float(), batch()
    names = ("a", "b", "c")
    found = model(from_pixels(given.source))
    things = detect(model, given.source, names, least=0.0)
    assert [len(own) for own in things] == [N, N]
    for row, own in enumerate(things):
        assert sorted(one.query for one in own) == list(range(N))
        assert [one.score for one in own] == sorted((one.score for one in own), reverse=True)
        for one in own:
            chances = found.logits[row, -1, one.query].softmax(dim=0)[:CLASSES]
            assert (one.label, one.name) == (int(chances.argmax()), names[int(chances.argmax())])
            assert one.score == pytest.approx(chances.max().item(), abs=1e-5)
            corners = to_corners(found.boxes[row, -1, one.query]).clamp(0, 1) * 12
            assert one.box == pytest.approx(corners.tolist(), abs=1e-4)
            assert one.mask.shape == (12, 12)
    middle = things[0][2].score
    assert len(detect(model, given.source, names, least=middle - 1e-4)[0]) == 3


# -- learning ----------------------------------------------------------------------------------------------------------


def gold_of(scene) -> Gold:
    classes = np.array([SHAPES.index(thing.shape) for thing in scene.things])
    return Gold(scene.painting.image, classes, scene.painting.boxes, scene.painting.masks)


def test_things_are_found_within_seconds():
    """One class, boxes and masks: no time for more on a core."""

    def thing_of(scene) -> Gold:
        return gold_of(scene)._replace(classes=np.zeros(len(scene.things), np.int64))

    torch.manual_seed(1)
    looks = AttentionConfig("scaled-dot", heads=4, project=True)
    config = replace(
        MODEL,
        attention=looks,
        self_attention=looks,
        decoder=replace(MODEL.decoder, layers=2, width=32, feed_forward=64),
        image=replace(MODEL.image, size=32, width=32, layers=0),
    )
    model = build_detector(replace(config, detection=DetectionConfig(mask_channels=4, mask_maps=4)), 1)
    train = [thing_of(scene) for scene in generate("train", 640, pixels=32)]
    few = [*generate("valid", 40, pixels=32)]
    valid = ObjectSet.of([thing_of(scene) for scene in few], held_out=[scene.held_out for scene in few])
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    before = validate(model, valid, ["thing"])
    for step in range(STEPS):
        optimizer.param_groups[0]["lr"] = 4e-3 * min(1, (step + 1) / 20) * (1 - step / STEPS)
        packed = pack([train[i % 640] for i in range(16 * step, 16 * step + 16)], 8)
        (detection_loss(model, packed).total / packed.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    after = validate(model, valid, ["thing"])
    assert before["ap"] < 0.1 < 0.4 < after["ap"]
    assert before["iou"] < 0.2 < 0.4 < after["iou"]
    assert after["valid_loss"] < before["valid_loss"] / 2
    assert {"ap_held_out", "ap_familiar", "iou_held_out", "iou_familiar"} < after.keys()
    assert model.training


@pytest.mark.gpu
@KINDS
def test_a_gpu_computes_the_same_and_is_never_waited_for(kind):
    model, given = made(kind).float(), batch()
    wanted = detection_loss(model, given)
    wanted.total.backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.cuda()
    moved = given.pinned().to("cuda")
    detection_loss(model, moved).total.backward()  # whatever is done once is done
    model.zero_grad()
    torch.cuda.set_sync_debug_mode("error")
    try:
        got = detection_loss(model, moved)
        got.total.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(got.total.cpu(), wanted.total, rtol=1e-5, atol=1e-5)
    for own, parameter in zip(gradients, model.parameters(), strict=True):
        if own is not None and parameter.grad is not None:
            torch.testing.assert_close(parameter.grad.cpu(), own, rtol=1e-3, atol=1e-4)
