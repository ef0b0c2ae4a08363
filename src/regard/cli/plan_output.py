"""The output of `regard train --plan`."""

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.training.cost_estimate import Estimate
    from regard.training.plan_rules import Plan


def show_plan(plan: "Plan | None", as_json: bool) -> None:
    """Print a plan as a table or as JSON, with its estimated cost on this machine."""
    if plan is None:
        raise ConfigError("--plan is for new training runs on texts: leave it out with --config, --resume or pictures.")
    from regard.training.cost_estimate import estimate, planned_steps
    from regard.training.setting_checks import check

    check(plan.config)
    takes = estimate(plan)
    if as_json:
        typer.echo(json.dumps(_as_dict(plan, takes, planned_steps(plan)), ensure_ascii=False, indent=2))
        return
    _print(plan, takes, planned_steps(plan))


def _as_dict(plan: "Plan", takes: "Estimate", steps: int) -> dict[str, Any]:
    from dataclasses import asdict

    from regard.config_io import to_dict

    return {
        "corpus": asdict(plan.survey),
        "choices": [choice._asdict() for choice in plan.choices],
        "estimate": {**takes.as_dict(), "steps": steps},
        "config": to_dict(plan.config),
    }


def _print(plan: "Plan", takes: "Estimate", steps: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from regard.training.planning import describe_survey, format_value
    from regard.training.progress import duration

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("setting", "value", "because"):
        table.add_column(title, overflow="fold")
    before = None
    for choice in plan.choices:
        table.add_row(choice.name, format_value(choice.value), "″" if choice.reason == before else choice.reason)
        before = choice.reason
    width = None if sys.stdout.isatty() else 120
    console = Console(file=sys.stdout, width=width, emoji=False, markup=False, highlight=False)
    console.print(f"{describe_survey(plan.survey)}.", soft_wrap=True)
    console.print(table)
    minutes = plan.config.training.minutes
    time = f"{minutes:g} min, as asked" if minutes else f"about {duration(1.1 * takes.seconds)} for {steps:,} steps"
    console.print(
        f"{takes.parameters:,} parameters with a vocabulary of {takes.vocabulary:,}; about {_size(takes.memory)} of "
        f"{_size(takes.available)} of memory; {time} on {'the CPU' if takes.device == 'cpu' else takes.device}.",
        soft_wrap=True,
    )


def _size(number: float) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
