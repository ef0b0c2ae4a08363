"""Format the results of corpus checks for a terminal and as JSON."""

from dataclasses import asdict
from typing import Any, Final

from regard.data.check_rules import RULES, Action
from regard.data.corpus_checks import Checked, CheckedSide, Example, Finding
from regard.data.corpus_cleaning import Cleaned
from regard.data.region_features import counted

_SHOWN: Final = 50
"""Characters of a text in an example."""


def summary(checked: Checked) -> list[str]:
    """Return lines on the size of a corpus."""
    gold = f", {checked.aligned:,} with a gold alignment" if checked.paired else ""
    lines = [f"{checked.name}: {counted(checked.pairs, 'pair' if checked.paired else 'text')}{gold}"]
    for side, found in {"source": checked.source, "target": checked.target}.items():
        if checked.paired or side == "target":
            mean = found.words / max(1, checked.pairs)
            told = f"{counted(found.words, 'word')}, {mean:.1f} a line, at most {found.longest:,}"
            lines.append(f"  {side if checked.paired else 'text'}: {told}")
    return lines


def report(checked: Checked) -> str:
    """Return the report of `--check`: size and problems of a corpus, rule by rule, with examples."""
    wrong = [finding for finding in checked.findings if finding.taken]
    count = len(checked.taken)
    lines = summary(checked)
    if wrong:
        verb = "looks" if count == 1 else "look"
        lines.append(f"{counted(count, 'line')} {verb} wrong ({_share(count, checked.lines)}); --clean OUT leaves out:")
    else:
        lines.append("Nothing looks wrong.")
    for finding in wrong:
        lines += _told(finding)
    if kept := _kept(checked):
        lines.append("Kept, unless asked for with --drop:")
        for finding in kept:
            lines += _told(finding)
    if known := [finding for finding in checked.findings if finding.broken.rule.action is Action.NEVER]:
        lines.append("Worth knowing:")
        for finding in known:
            lines += _told(finding)
    return "\n".join(lines)


def account(cleaned: Cleaned) -> str:
    """Return the report of `--clean`: what was dropped, why, and the files written."""
    count = sum(cleaned.taken)
    lines = [
        f"{cleaned.out}: {cleaned.kept:,} of {cleaned.checked.lines:,} lines",
        f"{cleaned.dropped}: {counted(count, 'line')} left out, each with its rule and its number",
    ]
    for finding, took in zip(cleaned.checked.findings, cleaned.taken, strict=True):
        if took:
            lines.append(f"  {finding.name}: {took:,} ({_share(took, cleaned.checked.lines)}), {finding.broken.told}")
    if kept := _kept(cleaned.checked):
        lines.append("Kept, unless asked for with --drop:")
        lines += [f"  {_headline(finding)}" for finding in kept]
    return "\n".join(lines)


def to_json(checked: Checked) -> dict[str, Any]:
    """Return the check's results for JSON."""
    sides = {"source": checked.source, "target": checked.target} if checked.paired else {"text": checked.target}
    return {
        "corpus": checked.name,
        "lines": checked.lines,
        "pairs" if checked.paired else "texts": checked.pairs,
        "aligned": checked.aligned,
        **{side: _side(found, checked.pairs) for side, found in sides.items()},
        "wrong": len(checked.taken),
        "rules": [_rule(finding) for finding in checked.findings],
    }


def cleaned_to_json(cleaned: Cleaned) -> dict[str, Any]:
    """Return the results of check and cleaning for JSON."""
    found = to_json(cleaned.checked)
    for rule, took in zip(found["rules"], cleaned.taken, strict=True):
        rule["left_out"] = took
    return {**found, "out": str(cleaned.out), "dropped": str(cleaned.dropped), "kept": cleaned.kept}


def _side(side: CheckedSide, pairs: int) -> dict[str, float]:
    return {"words": side.words, "mean": side.words / max(1, pairs), "longest": side.longest}


def _rule(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.name,
        "told": finding.broken.told,
        "lines": finding.count,
        "share": finding.share,
        "wrong": finding.taken,
        "kept": finding.kept,
        "examples": [
            {key: value for key, value in asdict(example).items() if value not in ("", None) or key in _ALWAYS}
            for example in finding.examples
        ],
    }


_ALWAYS: Final = ("source", "target")


def _kept(checked: Checked) -> list[Finding]:
    return [
        finding for finding in checked.findings if not finding.taken and RULES[finding.name].action is not Action.NEVER
    ]


def _told(finding: Finding) -> list[str]:
    return [f"  {_headline(finding)}", *(f"    {_example(example)}" for example in finding.examples)]


def _headline(finding: Finding) -> str:
    why = f"; {finding.kept}" if finding.kept and finding.broken.rule.action is not Action.NEVER else ""
    return f"{finding.name}: {finding.count:,} ({_percent(finding.share)}), {finding.broken.told}{why}"


def _example(example: Example) -> str:
    like = "" if example.like is None else f" (as line {example.like:,})"
    if example.why:
        return f"{example.why}"
    source = f"{_shown(example.source)} → " if example.source else ""
    return f"line {example.line:,}: {source}{_shown(example.target)}{like}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")


def _share(count: int, lines: int) -> str:
    return _percent(count / max(1, lines))


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.1f} %" if percent >= 0.1 or not percent else "under 0.1 %"
