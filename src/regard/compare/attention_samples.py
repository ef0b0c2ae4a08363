"""Where variants look: what each made of the same sentences, or of the same pictures."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from regard.compare.report_document import Document, Overlaid, Sentence, Shown, Strip
from regard.compare.results import Findings
from regard.compare.run_statistics import Row
from regard.viz.picture_files import write_output
from regard.viz.shaded_text import shaded_svg
from regard.viz.side_by_side import Panel, save_beside
from regard.viz.trace import AttentionTrace

Draw = Callable[[str, Callable[[Path], list[str]], Sequence[str]], bool]
"""Draws a picture by its name in all forms that are given, and says whether it is there."""


def show_looks(document: Document, findings: Findings, draw: Draw) -> None:
    """Show what every variant made of the same sentences, or pictures, and where it looked."""
    rows = [row for row in findings.rows if row.finished and _looks(row)]
    if not rows or not findings.sentences:
        return
    document.heading("Where they look")
    seed = f" (seed {findings.seeds[0]})" if len(findings.seeds) > 1 else ""
    if findings.pictured:
        if findings.unit == "texts":
            how = "its words, the darker the more attention they have."
        else:
            how = (
                "the picture as it is, then once for each word or class, warmer where it was looked at more, or where "
                "what speaks for it lies."
            )
        document.say(
            f"What each variant made of the same {findings.unit}{seed}: {how} Of several layers or heads it is the "
            "mean.",
            note=True,
        )
        _one_below_the_other(document, rows, findings, draw)
        return
    document.say(
        f"Each variant's own translation of the same sentences{seed}: a row for each token written, a column for each "
        "token read, stronger where it was looked at more. Where there are several layers or heads, it is their mean.",
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
        document.add(Sentence(name, source, tuple(shown), drawn, findings.references.get(source, "")))


def _one_below_the_other(document: Document, rows: Sequence[Row], findings: Findings, draw: Draw) -> None:
    """Show for each picture or text what every variant made of it, one strip below the other."""
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
