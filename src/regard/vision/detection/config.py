"""What a detector is made of beside its image encoder and its layers, and what its losses weigh."""

from dataclasses import dataclass

from regard.errors import ConfigError


@dataclass(frozen=True)
class DetectionConfig:
    """Object queries: what they are, how they are matched, and what is made small."""

    queries: int = 8
    """Object queries: the most objects that can be found in an image."""
    kind: str = "anchors"
    """What a query is: learned (Carion et al. 2020), or anchors, which look around a box that each layer moves."""
    mask_channels: int = 16
    """Channels of the mask head where it is as fine as the image; 0 for no masks."""
    mask_maps: int = 8
    """Maps of attention over cells that a mask begins with."""
    nothing: float = 0.1
    """What a query that answers for no object weighs in the loss of classes."""
    class_cost: float = 1.0
    """What the probability of the right class weighs in matching."""
    l1: float = 5.0
    """What the distance of boxes weighs, in matching and in the loss."""
    giou: float = 2.0
    """What the generalised IoU of boxes weighs, in matching and in the loss."""
    dice: float = 1.0
    """What the dice loss of masks weighs."""
    focal: float = 5.0
    """What the focal loss of masks weighs."""
    gamma: float = 2.0
    """How much less focal loss minds pixels that are right already; 0 for cross-entropy."""


def check_detection(config: DetectionConfig) -> None:
    """Refuse what no detector can be made of."""
    for name, least in (("queries", 1), ("mask_channels", 0), ("mask_maps", 1)):
        if getattr(config, name) < least:
            raise ConfigError(f"model.detection.{name} must be at least {least}, got {getattr(config, name)}.")
    for name in ("nothing", "class_cost", "l1", "giou", "dice", "focal", "gamma"):
        if not getattr(config, name) >= 0:
            raise ConfigError(f"model.detection.{name} must be at least 0, got {getattr(config, name)}.")
