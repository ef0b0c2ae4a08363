"""Attention mechanisms: every score, reach and focus, and their composition."""

from regard.attention import focus, reach, score
from regard.attention.base import Attended, Attention, Focus, Memory, Reach, Score, focuses, reaches, scores
from regard.config import AttentionConfig

__all__ = [
    "Attended",
    "Attention",
    "Focus",
    "Memory",
    "Reach",
    "Score",
    "build_attention",
    "focus",
    "focuses",
    "reach",
    "reaches",
    "score",
    "scores",
]


def build_attention(config: AttentionConfig, query_width: int, state_width: int) -> Attention:
    """Put together the parts that a configuration names."""
    return Attention(
        scores[config.score](query_width, state_width, config.width),
        reaches[config.reach](),
        focuses[config.focus](),
    )
