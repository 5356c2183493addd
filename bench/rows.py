"""Figures as rows: judged against their bars, written as JSON, shown as a table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

Sense = Literal["<=", ">="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure.

    Attributes:
        name: what was measured.
        value: the figure, in ``unit``.
        unit: ``ratio``, ``ms``, ``jobs/s``, ``statements``, ``rows``.
        bar: what it has to keep; None where it is only reported.
        sense: on which side of the bar it has to stay.
        samples: how many measurements it comes from.
        note: both sides in absolute figures, and the spread.
        timed: it depends on how busy the machine is. Counts do not.
    """

    name: str
    value: float
    unit: str
    bar: float | None = None
    sense: Sense = "<="
    samples: int
    note: str = ""
    timed: bool = True

    @property
    def holds(self) -> bool | None:
        """Whether the figure keeps its bar; None without one."""
        if self.bar is None:
            return None
        return self.value <= self.bar if self.sense == "<=" else self.value >= self.bar

    def as_json(self) -> dict[str, object]:
        """Return the row as it is written to ``build/bench``."""
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "bar": self.bar,
            "sense": None if self.bar is None else self.sense,
            "holds": self.holds,
            "samples": self.samples,
            "note": self.note,
        }


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a JSON list, making the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n", encoding="utf-8")


def show_rows(console: Console, title: str, rows: Sequence[Row]) -> None:
    """Draw rows as a table."""
    table = Table(title=title, title_justify="left", show_lines=False)
    table.add_column("what", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("bar", justify="right", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    table.add_column("note", overflow="fold")
    verdicts = {None: "", True: "yes", False: "[bold red]NO[/]"}
    for row in rows:
        bar = "" if row.bar is None else f"{row.sense} {row.bar:g}"
        table.add_row(row.name, f"{row.value:.4g} {row.unit}", bar, verdicts[row.holds], row.note)
    console.print(table)
