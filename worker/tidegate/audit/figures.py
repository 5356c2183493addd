"""Rows of figures as every report of this repository writes them: measured value, bar, and whether it holds."""

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Sense = Literal["<=", ">=", "=="]

HOLDS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value against its bar. ``samples`` is how many observations stand behind it."""

    name: str
    value: float
    unit: str
    bar: float
    sense: Sense
    samples: int
    note: str = ""

    @property
    def holds(self) -> bool:
        """Tell whether the value meets the bar."""
        return bool(HOLDS[self.sense](self.value, self.bar))

    def row(self) -> dict[str, object]:
        """Return the row of the report."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "bar": self.bar,
            "sense": self.sense,
            "holds": self.holds,
            "samples": self.samples,
            "note": self.note,
        }


def write_figures(path: Path, figures: Sequence[Figure], details: Mapping[str, object] | None = None) -> None:
    """Write the rows as a JSON list, whole or not at all; ``details`` ride on a last row that always holds."""
    rows = [figure.row() for figure in figures]
    if details is not None:
        described = Figure("details", len(details), "entries", 0, ">=", len(details), "what stands behind the rows")
        rows.append({**described.row(), "details": dict(details)})
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_text(json.dumps(rows, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    draft.replace(path)
