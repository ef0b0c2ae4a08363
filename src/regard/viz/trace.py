"""The attention trace of one translation: source, target, and the attention weights of every step."""

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.folder_files import parse_json
from regard.viz.picture_files import check_suffix, warn, write_output

FORMAT = "regard-trace-1"
PICTURES = (".png", ".svg", ".pdf")
FORMS = (*PICTURES, ".html", ".json")
"""Formats: a picture, a page to step through the words, or the trace itself."""
SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>"})
Choice = int | Literal["all"] | None
"""Which layer or head to show: one, all side by side, or the mean."""


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """The attention weights of one hypothesis. Every picture, page and metric is made from this, never from a model.

    `weights[l, h, t, s]` is the weight on source token s when target token t was generated, in layer l, head h. They
    are those of this hypothesis alone (beams traced back, padding removed). A model without attention has no layers, so
    `weights.shape[0] == 0`. `target` ends with the end token if the model generated one.
    """

    source: tuple[str, ...]
    """The source tokens as the model read them, special tokens (`</s>`) included."""
    target: tuple[str, ...]
    """The target tokens as the model generated them."""
    weights: NDArray[np.float32]
    log_probs: tuple[float, ...]
    """Log-probability of each target token."""
    score: float | None
    """The score by which the search ranked this hypothesis, after penalties; None without a search."""
    candidates: tuple[tuple[tuple[str, float], ...], ...] = ()
    """For each step, the most probable tokens and their probabilities, best first; empty if not requested."""
    source_words: tuple[int, ...] = ()
    """For each source token, the index of its word (separated by white space, from 0); -1 for special tokens."""
    target_words: tuple[int, ...] = ()
    """The same for the target tokens."""
    special: frozenset[str] = SPECIAL
    """Tokens that are not text."""
    posterior: bool = False
    """Whether weights are posterior attention: where each target token came from, given that token."""

    def __post_init__(self) -> None:
        rows, columns = len(self.target), len(self.source)
        if self.weights.ndim != 4 or self.weights.shape[2:] != (rows, columns):
            raise DisplayError(
                f"A trace of {rows} target and {columns} source tokens needs weights of shape "
                f"(layers, heads, {rows}, {columns}), got {self.weights.shape}."
            )
        parts = ("log_probs", rows), ("candidates", rows), ("target_words", rows), ("source_words", columns)
        for name, count in parts:
            if len(getattr(self, name)) not in (0, count):
                raise DisplayError(
                    f"A trace's {name} must have one entry per token ({count}) or none, got {len(getattr(self, name))}."
                )

    @classmethod
    def from_arrays(
        cls,
        weights: Any,
        source: Sequence[str],
        target: Sequence[str],
        *,
        log_probs: Sequence[float] = (),
        special: Collection[str] = SPECIAL,
    ) -> "AttentionTrace":
        """Make a trace of the weights of any model.

        `weights` are an array or tensor of the shape target × source, heads × target × source, or layers × heads ×
        target × source. `special` are the tokens that are not text.
        """
        from regard.viz.array_trace import trace_of_arrays

        return trace_of_arrays(weights, source, target, log_probs=log_probs, special=special)

    def look(self, layer: int | None = None, head: int | None = None) -> NDArray[np.float32]:
        """Return one target × source matrix: a layer and head, or the mean over those not given.

        Both count from 0; negative numbers count from the end.
        """
        if self.weights.shape[0] == 0:
            raise DisplayError("This model has no attention, so there is nothing to show.")
        for what, asked, have in (("layer", layer, self.weights.shape[0]), ("head", head, self.weights.shape[1])):
            if asked is not None and not -have <= asked < have:
                raise DisplayError(f"There is no {what} {asked}: this model has {have}, counted from 0.")
        chosen = self.weights if layer is None else self.weights[[layer]]
        chosen = chosen if head is None else chosen[:, [head]]
        return np.asarray(chosen.mean(axis=(0, 1)), dtype=np.float32)

    def every_head(self, layer: int | None = None) -> list[tuple[int, int]]:
        """Return (layer, head) pairs, of one layer or all."""
        self.look(layer)  # raises if there is no attention
        layers, heads = self.weights.shape[:2]
        chosen = range(layers) if layer is None else [layer % layers]
        return [(depth, head) for depth in chosen for head in range(heads)]

    def caption(self, layer: int | None = None, head: int | None = None) -> str:
        """Describe the result of `look`, and the score if any: `score -1.23 · mean of 8 heads`."""
        layers, heads = self.weights.shape[:2]
        named = (("layer", layer, layers), ("head", head, heads))
        chosen = [f"{what} {index % count}" for what, index, count in named if index is not None]
        averaged = [
            f"{count} {what}"
            for what, index, count in (("layers", layer, layers), ("heads", head, heads))
            if index is None and count > 1
        ]
        mean = [f"mean of {' × '.join(averaged)}"] if averaged else []
        score = [] if self.score is None else [f"score {self.score:.2f}"]
        kind = ["posterior"] if self.posterior else []
        return " · ".join([*score, *kind, *chosen, *mean])

    def words(self) -> NDArray[np.float32]:
        """Merge tokens into words: columns of one source word are added, rows of one target word averaged.

        Special tokens are dropped, so rows need not sum to one.
        """
        targets, sources = (np.asarray(words, dtype=np.intp) for words in (self.target_words, self.source_words))
        written, read = np.flatnonzero(targets >= 0), np.flatnonzero(sources >= 0)
        rows, columns = (1 + int(words.max(initial=-1)) for words in (targets, sources))
        merged = np.zeros((rows, columns), dtype=np.float32)
        np.add.at(merged, (targets[written, None], sources[None, read]), self.look()[np.ix_(written, read)])
        count = np.bincount(targets[written], minlength=rows)[:, None]
        return np.asarray(merged / np.maximum(count, 1), dtype=np.float32)

    def render(self, width: int = 80, color: bool = False, *, layer: int | None = None, head: int | None = None) -> str:
        """Draw it for a terminal of the given width; see `regard.viz.heatmap_terminal`."""
        from regard.viz.heatmap_terminal import heatmap

        return heatmap(self, width=width, color=color, layer=layer, head=head)

    def _repr_html_(self) -> str:
        """Show it in a notebook, to step through its words."""
        from regard.viz.notebook import notebook_html

        return notebook_html(self)

    def __str__(self) -> str:
        return self.render() if self.weights.shape[0] else f"{' '.join(self.target)} (no attention)"

    def __repr__(self) -> str:
        layers, heads, rows, columns = self.weights.shape
        return f"<AttentionTrace of {layers} layers × {heads} heads, {rows} target × {columns} source tokens>"

    def save(
        self,
        path: str | Path,
        *,
        layer: Choice = None,
        head: Choice = None,
        title: str = "",
        quiet: bool = False,
    ) -> list[str]:
        """Write a picture (.png, .svg, .pdf), a page (.html) or the trace itself (.json), atomically.

        `layer` and `head` choose what a picture shows: one, all side by side ("all"), or the mean (not given). A page
        opens with one or the mean, and can switch.
        Returns notes for the user, such as characters that no installed font has; unless `quiet`, they are also issued
        as Python warnings.
        """
        path = Path(path)
        suffix = check_suffix(path, FORMS)
        if suffix == ".json":
            text = json.dumps(self.to_json(), ensure_ascii=False) + "\n"
            write_output(path, text.encode(errors="backslashreplace"))  # lone surrogates are written as \\ud800
            return []
        if suffix == ".html":
            from regard.viz.trace_page import text_page

            chosen = [None if part == "all" else part for part in (layer, head)]
            page = text_page(self, layer=chosen[0], head=chosen[1], title=title)
            write_output(path, page.encode(errors="backslashreplace"))
            return []
        from regard.viz.heatmap_figure import save_picture

        notes = save_picture(self, path, layer=layer, head=head, title=title)
        if not quiet:
            warn(notes)
        return notes

    @classmethod
    def load(cls, path: str | Path) -> "AttentionTrace":
        """Read a .json file that `save` wrote."""
        return read_record(path, cls.from_json)

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings; `from_json` restores the trace (weights to six digits).

        Non-finite numbers are null, and are restored as NaN, a log-probability as -inf, a score as None.
        """
        weights = self.weights.astype(float).round(6).astype(object)
        weights[~np.isfinite(self.weights)] = None
        return {
            "format": FORMAT,
            "source": list(self.source),
            "target": list(self.target),
            "weights": weights.tolist(),
            "shape": list(self.weights.shape),
            "log_probs": [_finite(value) for value in self.log_probs],
            "score": None if self.score is None else _finite(self.score),
            "candidates": [[[token, _finite(p)] for token, p in step] for step in self.candidates],
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
            "special": sorted(self.special),
            "posterior": self.posterior,
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "AttentionTrace":
        """Read the result of `to_json`."""
        if (found := record.get("format")) != FORMAT:
            raise DisplayError(f"Not an attention trace: 'format' is {found!r}, expected {FORMAT!r}.")
        try:
            return cls(
                source=tuple(record["source"]),
                target=tuple(record["target"]),
                weights=np.array(record["weights"], dtype=np.float32).reshape(record["shape"]),
                log_probs=tuple(-math.inf if value is None else value for value in record["log_probs"]),
                score=record["score"],
                candidates=tuple(
                    tuple((token, math.nan if p is None else p) for token, p in step) for step in record["candidates"]
                ),
                source_words=tuple(record["source_words"]),
                target_words=tuple(record["target_words"]),
                special=frozenset(record["special"]),
                posterior=record.get("posterior", False),
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise DisplayError(f"Not a complete attention trace: {type(error).__name__}: {error}.") from error


def _finite(value: float) -> float | None:
    """Return a number that JSON can represent, or None."""
    return value if math.isfinite(value) else None


Read = TypeVar("Read")


def read_record(path: str | Path, from_json: Callable[[dict[str, Any]], Read]) -> Read:
    """Read a JSON record; an error names the file."""
    try:
        record = parse_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DisplayError(f"Cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # neither JSON nor UTF-8
        raise DisplayError(f"Cannot read {path}: not a JSON file ({error}).") from error
    try:
        return from_json(record if isinstance(record, dict) else {})
    except DisplayError as error:
        raise DisplayError(f"Cannot read {path}: {error}") from error
