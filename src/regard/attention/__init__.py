"""Attention mechanisms: every score, reach, focus, position encoding and coverage, and their composition."""

from regard.attention import coverage, focus, positions, reach, score
from regard.attention.attention import Attention, add_extras, join_extras
from regard.attention.base import (
    Attended,
    Carry,
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

__all__ = [
    "Attended",
    "Attention",
    "Carry",
    "Extras",
    "Focus",
    "Memory",
    "Reach",
    "Score",
    "Sizes",
    "add_extras",
    "build_attention",
    "coverage",
    "coverages",
    "focus",
    "focuses",
    "join_extras",
    "positions",
    "reach",
    "reaches",
    "score",
    "scores",
]
