"""Where a model attended to while it generated an output: the record that `regard.AttentionTrace` reads, too."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.runtime.token_limits import Floats

FORMAT = "regard-trace-1"
SPECIAL = frozenset({"<s>", "</s>", "<pad>", "<unk>"})


@dataclass(frozen=True, eq=False)
class Trace:
    """The attention of one output; `weights[l, h, t, s]` is the weight on source token s for target token t.

    `save("look.json")` and `to_json` write it as `regard.AttentionTrace.load` and `from_json` read it, with which it
    becomes pictures and pages on a machine that has regard.
    """

    source: tuple[str, ...]
    """The source tokens as the model read them, the end token included."""
    target: tuple[str, ...]
    """The target tokens as the model generated them."""
    weights: Floats
    """Layers × heads × target tokens × source tokens; no layers without attention."""
    log_probs: tuple[float, ...]
    """Log-probability of each target token."""
    score: float | None
    """The score by which the search ranked it, after penalties; None without a search."""
    candidates: tuple[tuple[tuple[str, float], ...], ...] = ()
    """For each target token, the most probable ones and their probabilities; empty if there are none."""
    source_words: tuple[int, ...] = ()
    """For each source token, the index of its word (separated by white space, from 0); -1 for special tokens."""
    target_words: tuple[int, ...] = ()
    """The same for the target tokens."""
    special: frozenset[str] = SPECIAL
    """Tokens that are not text."""

    def look(self, layer: int | None = None, head: int | None = None) -> Floats:
        """Return one target × source matrix: a layer and head, or the mean over those not given."""
        chosen = self.weights if layer is None else self.weights[[layer]]
        chosen = chosen if head is None else chosen[:, [head]]
        return np.asarray(chosen.mean(axis=(0, 1)), np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings, weights to six digits."""
        rounded = self.weights.astype(float).round(6).astype(object)
        rounded[~np.isfinite(self.weights)] = None
        return {
            "format": FORMAT,
            "source": list(self.source),
            "target": list(self.target),
            "weights": rounded.tolist(),
            "shape": list(self.weights.shape),
            "log_probs": [value if math.isfinite(value) else None for value in self.log_probs],
            "score": self.score,
            "candidates": [[[token, chance] for token, chance in step] for step in self.candidates],
            "source_words": list(self.source_words),
            "target_words": list(self.target_words),
            "special": sorted(self.special),
            "posterior": False,
        }

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        text = json.dumps(self.to_json(), ensure_ascii=False) + "\n"
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")
