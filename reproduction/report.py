"""Markdown tables, and the comparison of a measured cell with a printed one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from reproduction import data


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


class Cell(NamedTuple):
    """Ours (one value per run) beside a published mean, all in percent."""

    ours: np.ndarray
    published: float
    deviation: float | None = None  # published, where it is
    fixed: bool = False  # by the method itself, whatever is learned: no agreement to be counted
    name: str = ""  # row and column, for the list of those that were missed

    @property
    def difference(self) -> float:
        return float(np.mean(self.ours)) - self.published

    @property
    def deviations(self) -> float:
        """The difference in standard deviations: the published one, or else ours."""
        unit = self.deviation if self.deviation is not None else float(np.std(self.ours))
        return self.difference / unit if unit > 0 else float(np.copysign(np.inf, self.difference))

    def __str__(self) -> str:
        printed = f"{self.published:.1f}"
        if self.deviation is not None:
            printed += f" ({self.deviation:.1f})"
        return f"{spread(self.ours)} vs {printed}: {self.difference:+.1f}, {_sigmas(self)}"


def _sigmas(cell: Cell) -> str:
    if abs(cell.difference) < 0.05:
        return "0σ"
    if abs(cell.deviations) > 10.0:
        return "> +10σ" if cell.difference > 0 else "< -10σ"
    return f"{cell.deviations:+.1f}σ"


def spread(values: np.ndarray) -> str:
    return f"**{np.mean(values):.1f}** ({np.std(values):.1f})"


def reading(cells: Sequence[Cell], what: str = "error") -> str:
    """One sentence about the cells of a table that could differ, favourable or not."""
    free = [cell for cell in cells if not cell.fixed]
    left_out = len(cells) - len(free)
    if not free:
        return f"{what}: none of the {left_out} cells can differ"
    differences = np.array([cell.difference for cell in free])
    near = sum(abs(cell.deviations) <= 1.0 or abs(cell.difference) < 0.05 for cell in free)
    text = (
        f"{what}: {near} of {len(free)} cells within one standard deviation of the published "
        f"mean; lower than published in {int(np.sum(differences < -0.05))}, higher in "
        f"{int(np.sum(differences > 0.05))}; median difference {np.median(differences):+.1f} "
        f"points (range {differences.min():+.1f} to {differences.max():+.1f})"
    )
    if left_out:
        text += f"; {left_out} cells that cannot differ are left out"
    return text


def missed(cells: Sequence[Cell]) -> str:
    """Which published errors were not reached, within a standard deviation, and by how much."""
    above = [c for c in cells if c.difference >= 0.05 and c.deviations > 1.0 and not c.fixed]
    shown = "; ".join(f"{c.name} {c.difference:+.1f}" for c in above)
    return f"Missed by more than one standard deviation: {shown or 'none'}."


def missing(name: str) -> str:
    return f"*{name}: data set not found (see THRESHER_DATA), skipped.*"


class Absent(NamedTuple):
    """A published row or column that a section does not show."""

    row: str
    printed: str  # where
    reason: str = "not among the data"
    folder: str | None = None  # where the data would be


def absences(rows: Sequence[Absent]) -> str:
    """The published rows that a section lacks, and why; nothing is missing where there are none."""
    if not rows:
        return "None: every published row is above."

    def why(one: Absent) -> str:
        at_hand = one.folder is not None and data.available(one.folder)
        return "the data are at hand, but the section does not use them" if at_hand else one.reason

    return table(["row", "printed in", "why"], [[one.row, one.printed, why(one)] for one in rows])
