"""Attention mechanisms: every score, reach, focus, position encoding and coverage, and their composition."""

from regard.attention import coverage, focus, positions, reach, score  # noqa: F401 (importing them registers parts)
from regard.attention.attention import Attention
from regard.attention.base import (
    Attended,
    Carry,
    Coverage,
    Extras,
    Focus,
    Memory,
    Reach,
    Score,
    Sizes,
    coverages,
    focuses,
    reaches,
    scores,
)
from regard.attention.build import build_attention
from regard.config import AttentionConfig

__all__ = [
    "Attended",
    "Attention",
    "AttentionConfig",
    "Carry",
    "Coverage",
    "Extras",
    "Focus",
    "Memory",
    "Reach",
    "Score",
    "Sizes",
    "build_attention",
    "coverages",
    "focuses",
    "reaches",
    "scores",
]
