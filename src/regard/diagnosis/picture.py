"""A diagnosis as a picture: four panels, of heads, gradients, lengths and calibration."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regard.diagnosis.attention_checks import relative_entropies
from regard.diagnosis.findings import Outcome
from regard.diagnosis.measurements import Measurements
from regard.diagnosis.output_checks import calibration_curve
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.metric_curves import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.diagnosis.diagnosis import Diagnosis

GOOD, BAD = COLOURS[2], COLOURS[1]


def save_diagnosis(diagnosis: "Diagnosis", path: Path) -> list[str]:
    """Draw a diagnosis; return notes for the user."""
    measured = diagnosis.measurements

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(11.0, 9.2)
        grid = figure.add_gridspec(3, 2, height_ratios=(1.35, 1.0, 1.0), hspace=0.42, wspace=0.24)
        _table(figure.add_subplot(grid[0, :]), diagnosis)
        _heads(figure.add_subplot(grid[1, 0]), measured)
        _gradients(figure.add_subplot(grid[1, 1]), measured)
        _lengths(figure.add_subplot(grid[2, 0]), measured)
        _calibration(figure.add_subplot(grid[2, 1]), measured)

    return save_figure(path, [diagnosis.data], draw)


def _table(axes: "Axes", diagnosis: "Diagnosis") -> None:
    """List the checks with their verdicts."""
    axes.axis("off")
    axes.set_title(
        f"{diagnosis.data}: {diagnosis.pairs:,} pairs, {diagnosis.tokens:,} target tokens",
        loc="left",
        fontsize=12,
        color=INK,
        parse_math=False,
    )
    for number, outcome in enumerate(diagnosis.outcomes):
        height = 1 - (number + 0.5) / len(diagnosis.outcomes)
        axes.text(0.0, height, outcome.check, fontsize=9, va="center", transform=axes.transAxes)
        axes.text(
            0.23,
            height,
            outcome.verdict,
            fontsize=9,
            va="center",
            color=_colour(outcome),
            fontweight="bold" if outcome.finding else "normal",
            transform=axes.transAxes,
        )
        axes.text(0.33, height, outcome.figure, fontsize=8.5, va="center", color=FAINT, transform=axes.transAxes)


def _colour(outcome: Outcome) -> str:
    if not outcome.judged:
        return FAINT
    return GOOD if outcome.finding is None else BAD


def _heads(axes: "Axes", measured: Measurements) -> None:
    """Draw the entropy of each head."""
    axes.set_title("Entropy of each head, relative to uniform attention", loc="left", fontsize=10)
    if not measured.attends:
        _empty(axes, "no attention to the source")
        return
    entropies = relative_entropies(measured.forced)
    picture = axes.imshow(entropies, vmin=0, vmax=1, cmap="magma_r", aspect="auto")
    axes.set_xlabel("head")
    axes.set_ylabel("layer")
    axes.set_xticks(range(entropies.shape[1]))
    axes.set_yticks(range(entropies.shape[0]))
    axes.tick_params(length=0)
    if entropies.size <= 64:
        for layer, head in measured.heads():
            value = entropies[layer, head]
            axes.text(
                head, layer, f"{value:.2f}", ha="center", va="center", fontsize=8, color="w" if value > 0.5 else INK
            )
    assert axes.figure is not None
    axes.figure.colorbar(picture, ax=axes, fraction=0.05, pad=0.02)


def _gradients(axes: "Axes", measured: Measurements) -> None:
    """Draw how much of the gradient reaches each part of the source."""
    axes.set_title("Gradient at each part of the source, relative to the largest", loc="left", fontsize=10)
    found = [one for one in measured.gradients if one.norms.shape[1] > 2]
    if not found:
        _empty(axes, "no gradients to a source")
        return
    places = np.linspace(0, 1, 11)
    for name, colour, norms in (
        ("with attention" if measured.attends else "no attention", COLOURS[0], [one.norms for one in found]),
        ("without its contexts", COLOURS[1], [one.norms_without_attention for one in found]),
    ):
        if colour == COLOURS[1] and not (measured.attends and any(one.any() for one in norms)):
            continue
        curves = []
        for rows in norms:
            reached = rows.sum(axis=0)[:-1]
            curves.append(
                np.interp(places, np.linspace(0, 1, len(reached)), reached / max(float(reached.max()), 1e-30))
            )
        axes.plot(places, np.maximum(np.median(curves, axis=0), 1e-8), color=colour, label=name)
    axes.set_yscale("log")
    axes.set_xlabel("place in the source, from the first token (0) to the last (1)")
    _dress(axes)
    axes.legend(frameon=False, fontsize=8)


def _lengths(axes: "Axes", measured: Measurements) -> None:
    """Draw the length of each output against that of its reference."""
    axes.set_title("Length of outputs in tokens", loc="left", fontsize=10)
    if not measured.outputs:
        _empty(axes, "nothing is translated")
        return
    due, written = zip(*[(len(one.reference), len(one.tokens)) for one in measured.outputs], strict=True)
    longest = max(*due, *written, 1)
    axes.plot([0, longest], [0, longest], color=LINES, linewidth=1)
    axes.scatter(due, written, s=10, alpha=0.4, color=COLOURS[0], edgecolors="none")
    axes.set_xlabel("reference")
    axes.set_ylabel("output")
    _dress(axes)


def _calibration(axes: "Axes", measured: Measurements) -> None:
    """Draw the reliability diagram."""
    axes.set_title("Calibration: how often the best token is right", loc="left", fontsize=10)
    curve = calibration_curve(measured)
    total = sum(count for _, _, count in curve)
    axes.plot([0, 1], [0, 1], color=LINES, linewidth=1)
    axes.plot([one[0] for one in curve], [one[1] for one in curve], color=COLOURS[0], linewidth=1.2)
    axes.scatter(
        [one[0] for one in curve],
        [one[1] for one in curve],
        s=[20 + 180 * count / total for _, _, count in curve],
        color=COLOURS[0],
        alpha=0.7,
        edgecolors="none",
    )
    axes.set_xlabel("probability of the best token")
    axes.set_ylabel("share that is right")
    axes.set_xlim(0, 1.02)
    axes.set_ylim(0, 1.04)
    _dress(axes)


def _empty(axes: "Axes", why: str) -> None:
    axes.axis("off")
    axes.text(0.5, 0.5, why, ha="center", va="center", color=FAINT, transform=axes.transAxes)


def _dress(axes: "Axes") -> None:
    axes.grid(axis="y", color=LINES, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
