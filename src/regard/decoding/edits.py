"""Edits of a translation: values that can be stored as JSON, checked against a model, and applied to attention weights.

Steps, layers, heads and source positions count from 0, as in an `AttentionTrace`. A layer or head of None means all of
them, and a step of None all steps. Edits of the same weights are applied in order, each to the result of the last.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch

from regard.errors import ConfigError, did_you_mean
from regard.shapes import Bool, Float, Tensor

OVER = 1e-4
"""How far the sum of weights may be above one: they may have been rounded."""
SIDES = ("source", "own")
SILENCED = ("zero", "uniform")


class Edit(ABC):
    """Base of all edits."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers and strings; `edit_from_json` restores the edit."""
        return {"kind": self.kind, **self._record()}

    @abstractmethod
    def _record(self) -> dict[str, Any]: ...

    @property
    def first_step(self) -> int:
        """The first step that it may change."""
        return 0


@dataclass(frozen=True, kw_only=True)
class WeightEdit(Edit):
    """Base of the edits of attention weights."""

    step: int | None
    """The step whose weights are changed; None for all."""
    layer: int | None = None
    head: int | None = None
    attention: str = "source"
    """`source`: the attention to the source; `own`: a Transformer decoder's self-attention."""

    def __post_init__(self) -> None:
        for name in ("step", "layer", "head"):
            if (value := getattr(self, name)) is not None:
                _check_index(f"an edit's {name}", value)
        if self.attention not in SIDES:
            near = did_you_mean(str(self.attention), SIDES)
            raise ConfigError(f"An edit's attention is {self.attention!r}; it must be source or own.{near}")

    def _record(self) -> dict[str, Any]:
        return {"step": self.step, "layer": self.layer, "head": self.head, "attention": self.attention}

    @property
    def first_step(self) -> int:
        """The step itself, or the first."""
        return self.step or 0

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions that it gives weight."""
        return ()

    @abstractmethod
    def applied(self, rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B #H #T S"]) -> Float[Tensor, "B H T S"]:
        """Return the new weights of the rows it is about; `free` are the positions that may get weight."""


@dataclass(frozen=True, kw_only=True)
class SetWeights(WeightEdit):
    """Set the weights of some positions; the others share the rest of the row's sum, in proportion to what they had.

    The sum stays what it was, which is one (less for the reach local-p, and zero where monotonic attention stops
    nowhere), unless the weights given need more. If the others had no weight, they share equally. Weight may be put
    where the model's own reach does not go, except on padding.
    """

    kind = "weights"
    weights: Mapping[int, float]
    """The weight of each position."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise ConfigError("An edit of weights needs a mapping of positions to weights, such as {2: 0.8}.")
        for position, weight in self.weights.items():
            _check_index("an edit's position", position)
            _check_weight(f"position {position}", weight)
        whole = sum(self.weights.values())
        if whole > 1 + OVER:
            places = ", ".join(map(str, self.weights))
            raise ConfigError(
                f"An edit gives the positions {places} a weight of {whole:.4g} together; all weights sum to one."
            )
        given = {at: weight / max(1.0, whole) for at, weight in sorted(self.weights.items())}
        object.__setattr__(self, "weights", given)

    def _record(self) -> dict[str, Any]:
        return {**super()._record(), "weights": {str(at): weight for at, weight in self.weights.items()}}

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions set."""
        return tuple(self.weights)

    def applied(self, rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B #H #T S"]) -> Float[Tensor, "B H T S"]:
        """Scale the others, then set these."""
        at, given = list(self.weights), list(self.weights.values())
        total = rows.sum(dim=-1, keepdim=True).clamp_min(sum(given))
        left = (total - sum(given)).clamp_min(0.0)
        others, open_to = rows.clone(), free.expand_as(rows).to(rows.dtype)
        others[..., at] = open_to[..., at] = 0.0
        had, room = others.sum(dim=-1, keepdim=True), open_to.sum(dim=-1, keepdim=True)
        if bool(((had == 0) & (room == 0) & (left > OVER)).any()):
            raise ConfigError(
                f"An edit leaves no position for a weight of {float(left.max()):.4g}: give it to another position, or "
                "silence the head with AblateHead."
            )
        tiny = torch.finfo(rows.dtype).tiny
        new = others * (left / had.clamp_min(tiny)) + (had == 0) * open_to * (left / room.clamp_min(1.0))
        new[..., at] = rows.new_tensor(given)
        return new


@dataclass(frozen=True, kw_only=True)
class SetRow(WeightEdit):
    """Use a whole row of weights, as given."""

    kind = "row"
    row: tuple[float, ...]
    """A weight for each position."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for position, weight in enumerate(self.row):
            _check_weight(f"position {position}", weight)
        whole = sum(self.row)
        if not 0 < whole <= 1 + OVER:
            fix = ": give it some, or silence the head with AblateHead" if whole == 0 else "; all weights sum to one"
            raise ConfigError(f"An edit's row has a weight of {whole:.4g} in all{fix}.")
        object.__setattr__(self, "row", tuple(weight / max(1.0, whole) for weight in self.row))

    def _record(self) -> dict[str, Any]:
        return {**super()._record(), "row": list(self.row)}

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions with weight."""
        return tuple(at for at, weight in enumerate(self.row) if weight)

    def applied(self, rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B #H #T S"]) -> Float[Tensor, "B H T S"]:
        """Replace the rows."""
        return rows.new_tensor(self.row).expand_as(rows)


@dataclass(frozen=True, kw_only=True)
class AblateHead(WeightEdit):
    """Silence heads: their weights become zero, and so their contexts; or uniform, which leaves only an average."""

    kind = "ablate"
    step: int | None = None
    to: str = "zero"
    """`zero` or `uniform`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.to not in SILENCED:
            near = did_you_mean(str(self.to), SILENCED)
            raise ConfigError(f"AblateHead.to is {self.to!r}; it must be zero or uniform.{near}")

    def _record(self) -> dict[str, Any]:
        return {**super()._record(), "to": self.to}

    def applied(self, rows: Float[Tensor, "B H T S"], free: Bool[Tensor, "B #H #T S"]) -> Float[Tensor, "B H T S"]:
        """Remove all weight, or spread it."""
        if self.to == "zero":
            return rows.new_zeros(rows.shape)
        open_to = free.expand_as(rows).to(rows.dtype)
        return open_to / open_to.sum(dim=-1, keepdim=True).clamp_min(1.0)


@dataclass(frozen=True)
class DropSource(Edit):
    """Hide a source position from the decoder: at all steps, in all layers and heads, it is masked out.

    The encoder has still read it, and its neighbours' states may tell of it.
    """

    kind = "drop"
    position: int

    def __post_init__(self) -> None:
        _check_index("an edit's position", self.position)

    def _record(self) -> dict[str, Any]:
        return {"position": self.position}


@dataclass(frozen=True)
class ForcePrefix(Edit):
    """Let the translation start with these tokens; the last prefix of several counts."""

    kind = "prefix"
    tokens: tuple[str, ...]
    """Tokens as displayed in a trace, such as `▁the`; the end token may be the last."""

    def __post_init__(self) -> None:
        if isinstance(self.tokens, str) or not all(isinstance(token, str) for token in self.tokens):
            raise ConfigError(f"A prefix is a tuple of tokens, as a trace has them; got {self.tokens!r}.")
        object.__setattr__(self, "tokens", tuple(self.tokens))

    def _record(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens)}


@dataclass(frozen=True)
class KeepPrefix(ForcePrefix):
    """What was there before the first edited step; unlike a forced prefix, the edit of an earlier step frees it."""

    kind = "keep"


Edits = Sequence[Edit]
KINDS: dict[str, type[Edit]] = {
    one.kind: one for one in (SetWeights, SetRow, AblateHead, DropSource, ForcePrefix, KeepPrefix)
}


def edit_from_json(record: Mapping[str, Any]) -> Edit:
    """Read the result of an edit's `to_json`."""
    kind = record.get("kind") if isinstance(record, Mapping) else None
    if kind not in KINDS:
        near = did_you_mean(str(kind), KINDS)
        raise ConfigError(f"An edit's kind is {kind!r}; it must be one of {', '.join(KINDS)}.{near}")
    fields = {name: value for name, value in record.items() if name != "kind"}
    try:
        if "weights" in fields:
            fields["weights"] = {int(at): weight for at, weight in fields["weights"].items()}
        for name in ("row", "tokens"):
            if name in fields:
                fields[name] = tuple(fields[name])
        return cast("type[Any]", KINDS[kind])(**fields)  # type: ignore[no-any-return]
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"Not a complete edit of kind {kind!r}: {error}.") from error


def edits_from_json(records: Any) -> tuple[Edit, ...]:
    """Read a list of edits, as a permalink holds it."""
    if not isinstance(records, Sequence) or isinstance(records, str):
        raise ConfigError(f"Edits are a list of objects, got {type(records).__name__}.")
    return tuple(edit_from_json(record) for record in records)


def _check_index(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name[0].upper()}{name[1:]} is {value!r}; it must be a whole number from 0 on.")


def _check_weight(name: str, value: Any) -> None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not 0 <= value <= 1 + OVER:
        raise ConfigError(f"An edit's weight of {name} is {value!r}; it must be a number from 0 to 1.")
