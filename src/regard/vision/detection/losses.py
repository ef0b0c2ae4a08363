"""The training losses of a detector, over sets of objects in any order."""

from typing import NamedTuple

import torch
from torch.nn import functional

from regard.config import DetectionConfig
from regard.errors import DataError
from regard.masks import from_lengths
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.detection.batch import ObjectBatch
from regard.vision.detection.boxes import generalised_overlap, to_corners
from regard.vision.detection.detector import Detector
from regard.vision.detection.matching import match, matching_costs
from regard.vision.pixels import from_pixels


class Losses(NamedTuple):
    """Sums over the objects of a batch. All but `total` are of the last layer, detached and unweighted."""

    total: Float[Tensor, ""]
    """The loss to minimise, over all layers."""
    beside: dict[str, Tensor]
    """Its parts, by their names in metrics.jsonl."""


def detection_loss(model: Detector, batch: ObjectBatch) -> Losses:
    """Run a detector over a batch and sum its losses; divide by `batch.count` for the mean per object."""
    images = from_pixels(batch.source)
    found = model(images)
    losses, chosen = set_loss(found.logits, found.boxes, batch, model.config)
    if model.segmenter is None:
        return losses
    if batch.masks is None:
        raise DataError(
            "The detector learns masks, but these objects have none: add masks, or set model.detection.mask_channels=0."
        )
    rows, slots, real = _objects(batch.counts, batch.classes.shape[1])
    logits = model.segment(images, found, rows, chosen[:, -1][rows, slots]).float()
    dice, focal = mask_losses(logits, batch.masks[rows, slots], model.config.gamma)
    dice, focal = (dice * real).sum(), (focal * real).sum()
    total = losses.total + model.config.dice * dice + model.config.focal * focal
    return Losses(total, {**losses.beside, "dice_loss": dice.detach(), "focal_loss": focal.detach()})


def set_loss(
    logits: Float[Tensor, "B L N W"], boxes: Float[Tensor, "B L N 4"], batch: ObjectBatch, config: DetectionConfig
) -> tuple[Losses, Int[Tensor, "B L M"]]:
    r"""Return the loss of classes and boxes, and which query is matched to which object in each layer.

    As in Carion et al. 2020 (equation 2, section 3.1 and appendix A.2), for each layer separately:

    .. math:: \sum_i -w_{c_i} \log \hat p_{\hat\sigma(i)}(c_i)
        + \lambda_{L1} \|b_i - \hat b_{\hat\sigma(i)}\|_1
        + \lambda_{iou} (1 - \mathrm{GIoU}(b_i, \hat b_{\hat\sigma(i)}))

    where w is 1 for objects and `config.nothing` for nothing. Differs from the authors' code: the weighted sum of the
    first part is divided by the number of objects, as the others are, not by the sum of weights.
    """
    layers, queries = logits.shape[1:3]
    logits, boxes = logits.float(), boxes.float()
    chosen = match(matching_costs(logits, boxes, batch.classes, batch.boxes, config), batch.counts)
    real = from_lengths(batch.counts, batch.classes.shape[1])  # B M
    classes = _classes(chosen, real, batch.classes, queries, nothing=logits.shape[3] - 1)
    entropy = functional.cross_entropy(logits.flatten(0, 2), classes.flatten(), reduction="none").view_as(classes)
    entropy = entropy * torch.where(classes == logits.shape[3] - 1, config.nothing, 1.0)
    answers = boxes.gather(2, chosen[..., None].expand(-1, -1, -1, 4))  # B L M 4
    wanted = batch.boxes[:, None].float().expand_as(answers)
    counts = real[:, None].to(answers.dtype)
    apart = ((answers - wanted).abs().sum(dim=-1) * counts).sum(dim=(0, 2))
    unlike = ((1 - generalised_overlap(to_corners(answers), to_corners(wanted))) * counts).sum(dim=(0, 2))
    of_classes = entropy.sum(dim=(0, 2))
    total = (of_classes + config.l1 * apart + config.giou * unlike).sum()
    names = {"class_loss": of_classes, "l1_loss": apart, "giou_loss": unlike}
    return Losses(total, {name: part[layers - 1].detach() for name, part in names.items()}), chosen


def _classes(
    chosen: Int[Tensor, "B L M"], real: Bool[Tensor, "B M"], classes: Int[Tensor, "B M"], queries: int, nothing: int
) -> Int[Tensor, "B L N"]:
    """Return the target class of each query."""
    # Padding is written to an extra column after the queries.
    at = chosen.masked_fill(~real[:, None], queries)
    wanted = torch.full((*chosen.shape[:2], queries + 1), nothing, device=chosen.device)
    return wanted.scatter(2, at, classes[:, None].expand_as(at))[..., :queries]


def _objects(counts: Int[Tensor, " B"], most: int) -> tuple[Int[Tensor, " P"], Int[Tensor, " P"], Float[Tensor, " P"]]:
    """Return row, slot and weight of each object; on a GPU of padding too, with weight zero, to avoid a host sync."""
    real = from_lengths(counts, most)
    if counts.device.type == "cpu":
        rows, slots = real.nonzero(as_tuple=True)
        return rows, slots, torch.ones(len(rows))
    rows = torch.arange(len(counts), device=counts.device).repeat_interleave(most)
    return rows, torch.arange(most, device=counts.device).repeat(len(counts)), real.flatten().float()


def mask_losses(
    logits: Float[Tensor, "P h w"], masks: Bool[Tensor, "P h w"], gamma: float
) -> tuple[Float[Tensor, " P"], Float[Tensor, " P"]]:
    r"""Return dice and focal loss of masks (Milletari et al. 2016; Lin et al. 2017, equation 4).

    .. math:: 1 - \frac{2 \sum_s p_s m_s + 1}{\sum_s p_s + \sum_s m_s + 1}
        \qquad \frac{1}{hw} \sum_s -(1 - p^t_s)^\gamma \log p^t_s

    where p^t is the probability of the right value: the two losses of Carion et al. 2020, section 4.4. Differs from the
    authors' code: the focal loss has no class weights.
    """
    wanted = masks.to(logits.dtype)
    chances = logits.sigmoid()
    both = (chances * wanted).sum(dim=(1, 2))
    dice = 1 - (2 * both + 1) / (chances.sum(dim=(1, 2)) + wanted.sum(dim=(1, 2)) + 1)
    entropy = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    wrong = (chances - wanted).abs()
    return dice, (wrong**gamma * entropy).mean(dim=(1, 2))
