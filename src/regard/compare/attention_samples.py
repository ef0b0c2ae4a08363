"""The report's section on attention: every variant on the same sentences or pictures."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from regard.compare.report_document import Document, Overlaid, ReportSentence, Shown, Strip
from regard.compare.results import Findings
from regard.compare.run_statistics import Row
from regard.viz.picture_files import write_output
from regard.viz.shaded_text import shaded_svg
from regard.viz.side_by_side import Panel, save_beside
from regard.viz.trace import AttentionTrace

Draw = Callable[[str, Callable[[Path], list[str]], Sequence[str]], bool]
"""Draws a plot under a name, in all file formats given; returns whether it could be drawn."""


def show_looks(document: Document, findings: Findings, draw: Draw) -> None:
    """Add the outputs of all variants for the same sentences or pictures, with their attention."""
    rows = [row for row in findings.rows if row.finished and _looks(row)]
    if not rows or not findings.sentences:
        return
    document.heading("Attention")
    seed = f" (seed {findings.seeds[0]})" if len(findings.seeds) > 1 else ""
    if findings.pictured:
        if findings.unit == "texts":
            how = "its words; darker means more attention."
        else:
            how = (
                "the picture, then a heat map for each word, object or class; warmer means more attention, or more "
                "evidence for the class."
            )
        document.say(
            f"Each variant's output for the same {findings.unit}{seed}: {how} With several layers or heads, their mean "
            "is shown.",
            note=True,
        )
        _one_below_the_other(document, rows, findings, draw)
        return
    document.say(
        f"Each variant's own translation of the same sentences{seed}. Rows are target tokens, columns source tokens; "
        "stronger shading means more attention. With several layers or heads, their mean is shown.",
        note=True,
    )
    for number, source in enumerate(findings.sentences):
        shown = []
        for row in rows:
            look = _looks(row)[number]
            shown.append(Shown(row.variant, look.text, look.trace, look.about))
        name = f"attention-{number + 1}"
        panels = [Panel(one.variant, one.trace, one.text) for one in shown]

        drawn = draw(name, partial(save_beside, panels, title=source), (".png",))
        document.add(ReportSentence(name, source, tuple(shown), drawn, findings.references.get(source, "")))


def _one_below_the_other(document: Document, rows: Sequence[Row], findings: Findings, draw: Draw) -> None:
    """Add for each picture or text the output of every variant, one strip below the other."""
    form = ".svg" if findings.unit == "texts" else ".png"
    for number in range(len(_looks(rows[0]))):
        source = _looks(rows[0])[number].source
        strips = []
        for row in rows:
            look = _looks(row)[number]
            name = f"attention-{number + 1}-{row.variant}"
            save = partial(_save, look.trace, findings.unit == "texts")
            there = look.trace is not None and draw(name, save, (form,))
            strips.append(Strip(row.variant, look.text, f"{name}{form}" if there else "", look.about))
        document.add(Overlaid(source, tuple(strips), findings.references.get(source, "")))


def _save(trace: Any, is_text: bool, path: Path) -> list[str]:
    if not is_text:
        notes: list[str] = trace.save(path, quiet=True)
        return notes
    assert isinstance(trace, AttentionTrace)
    write_output(path, shaded_svg(trace).encode())
    return []


def _looks(row: Row) -> Sequence[Any]:
    evaluation = row.finished[0].evaluation
    return () if evaluation is None else evaluation.looks
