"""Markdown tables, and the comparison of a measured cell with a printed one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


class Cell(NamedTuple):
    """Ours (one value per run) beside a published mean, all in percent."""

    ours: np.ndarray
    published: float
    deviation: float | None = None  # published, where it is

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
    """One sentence about all cells of a table, favourable or not."""
    differences = np.array([cell.difference for cell in cells])
    near = sum(abs(cell.deviations) <= 1.0 or abs(cell.difference) < 0.05 for cell in cells)
    return (
        f"{what}: {near} of {len(cells)} cells within one standard deviation of the published "
        f"mean; lower than published in {int(np.sum(differences < -0.05))}, higher in "
        f"{int(np.sum(differences > 0.05))}; median difference {np.median(differences):+.1f} "
        f"points (range {differences.min():+.1f} to {differences.max():+.1f})"
    )


def missing(name: str) -> str:
    return f"*{name}: data set not found (see THRESHER_DATA), skipped.*"
