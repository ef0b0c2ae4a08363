"""Build an attention module from its configuration; refuse combinations that make no sense, and say why."""

import math

from torch import nn

from regard.attention.attention import Attention, Parts
from regard.attention.base import Reach, Score, Sizes, coverages, focuses, reaches, scores
from regard.attention.multi_head import Heads
from regard.attention.positions import Position, PositionSizes, positions
from regard.config import AttentionConfig
from regard.errors import ConfigError

NONE = "none"


def build_attention(
    config: AttentionConfig,
    query_width: int,
    state_width: int,
    *,
    itself: bool = False,
    causal: bool = False,
    position: str = NONE,
    layer: int = 0,
    score: type[Score] | None = None,
) -> Attention:
    """Build the attention that a configuration describes.

    `itself` selects self-attention (with `causal`, over the past only); otherwise the decoder attends to another
    sequence. `position` is used in self-attention only. `score` is a class that is not in the registry.
    """
    score = score or scores[config.score]
    name = "model.self_attention" if itself else "model.attention"
    groups = config.groups or config.heads
    _check_numbers(config, name, groups)
    heads, width = None, query_width
    projected = config.project or config.heads > 1
    if projected:
        width = config.head_width or query_width // config.heads
        if not config.head_width and query_width % config.heads:
            raise ConfigError(
                f"{name}.heads is {config.heads}, which does not divide the width of a query, {query_width}: "
                f"change one of them, or set {name}.head_width."
            )
        heads = Heads(query_width, state_width, config.heads, groups, width, query_width, score.reads_states)
    sizes = Sizes(
        query=width,
        key=width if projected else state_width,
        heads=config.heads,
        groups=groups,
        hidden=config.width,
        window=config.window,
        stride=config.stride,
        longest=config.longest,
        raw_query=query_width,
        raw_state=state_width,
        soft_chance=config.soft_chance,
        soft_first=config.soft_first,
        causal=causal,
    )
    _check_meaning(config, name, itself, score)
    scored = score(sizes)
    parts = Parts(
        scored,
        reaches[config.reach](sizes),
        focuses[config.focus](sizes),
        query_width if projected else state_width,
        heads,
        nn.Linear(state_width, state_width, bias=False) if config.values and not projected else None,
        _position(position, name, config, sizes) if itself else None,
        None if config.coverage == NONE else coverages[config.coverage](sizes, scored.key_width),
        config.temperature,
        config.heads if config.learn_temperature else 0,
        _pruned(config, name, layer),
    )
    return Attention(parts)


def _check_numbers(config: AttentionConfig, name: str, groups: int) -> None:
    numbers = ("heads", "window", "stride", "longest", "width")
    for number in numbers:
        if getattr(config, number) < 1:
            raise ConfigError(f"{name}.{number} must be at least 1, got {getattr(config, number)}.")
    if groups < 1 or config.heads % groups:
        raise ConfigError(
            f"{name}.groups is {config.groups}, which does not divide the {config.heads} heads: every group must "
            "serve the same number of heads."
        )
    if config.head_width < 0:
        raise ConfigError(
            f"{name}.head_width must be at least 1, or 0 for the query width divided by the number of heads, got "
            f"{config.head_width}."
        )
    if not 0 < config.temperature < math.inf:
        raise ConfigError(f"{name}.temperature must be above 0 and finite, got {config.temperature}.")
    if not 0 <= config.soft_chance <= 1:
        raise ConfigError(f"{name}.soft_chance must be between 0 and 1, got {config.soft_chance}.")
    if config.soft_first < 0:
        raise ConfigError(f"{name}.soft_first must not be negative, got {config.soft_first}.")


def _check_meaning(config: AttentionConfig, name: str, itself: bool, score: type[Score]) -> None:
    """Refuse combinations of parts that make no sense."""
    reach, focus = reaches[config.reach], focuses[config.focus]
    if itself and not reach.of_itself:
        raise ConfigError(
            f"{name}.reach={config.reach} centres a window in another sequence, so self-attention cannot use it: "
            "use window, dilated, strided or chunked."
        )
    if not itself and not reach.of_another:
        raise ConfigError(
            f"{name}.reach={config.reach} goes by the distance between two positions of one sequence, but the decoder "
            "attends to another one, the source: use global, local-m or local-p."
        )
    if itself and not score.of_itself:
        raise ConfigError(
            f"{name}.score={config.score} learns a weight for each source position, whatever token is there, so "
            "self-attention cannot use it: use another score."
        )
    if focus.goes_on and itself:
        raise ConfigError(
            f"{name}.focus={config.focus} moves through a source of fixed length, so self-attention, whose sequence "
            "grows, cannot use it: use softmax, sparsemax, entmax or gumbel."
        )
    if (focus.goes_on and reach.blocks is not Reach.blocks) or (focus.goes_on and config.reach.startswith("local")):
        raise ConfigError(
            f"{name}.focus={config.focus} and {name}.reach={config.reach} both decide where to attend: use "
            "model.attention.reach=global."
        )
    if config.coverage != NONE and itself:
        raise ConfigError(
            f"{name}.coverage counts how often each source position was attended to, so self-attention, which gets new "
            "positions at every step, cannot use it: set it to none."
        )


def _position(position: str, name: str, config: AttentionConfig, sizes: Sizes) -> Position | None:
    if position == NONE or positions[position].absolute:
        return None
    if positions[position].dotted and not scores[config.score].dotted:
        dotted = ", ".join(score for score in scores if scores[score].dotted)
        raise ConfigError(
            f"model.positions={position} changes the inner product of query and key, but {name}.score={config.score} "
            f"is not one: use one of {dotted}, or model.positions=alibi."
        )
    return positions[position](PositionSizes(sizes.query, sizes.heads, sizes.longest, sizes.key))


def _pruned(config: AttentionConfig, name: str, layer: int) -> tuple[int, ...]:
    """Parse `LAYER.HEAD`, both counted from 0, and return the heads of this layer."""
    found = []
    for text in _asked(config):
        at, dot, head = text.partition(".")
        if not (dot and at.isdigit() and head.isdigit()):
            raise ConfigError(f"{name}.pruned contains {text!r}: write LAYER.HEAD, both counted from 0, such as 2.5.")
        if int(head) >= config.heads:
            raise ConfigError(f"{name}.pruned contains {text!r}, but there are {config.heads} heads, counted from 0.")
        if int(at) == layer:
            found.append(int(head))
    return tuple(sorted(set(found)))


def _asked(config: AttentionConfig) -> list[str]:
    return [part.strip() for text in config.pruned for part in text.split(",")]


def check_pruned(config: AttentionConfig, name: str, layers: int) -> None:
    """Refuse layers that do not exist in `pruned`; head numbers are checked where attention is built."""
    for text in _asked(config):
        layer = text.partition(".")[0]
        if layer.isdigit() and int(layer) >= layers:
            raise ConfigError(f"{name}.pruned contains {text!r}, but the last layer is {layers - 1}, counted from 0.")
