"""Bad input: one error type that names the place, and the account of rows that were skipped."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["BadCell", "BadRows", "DataError", "nearest"]

_SHOWN = 5


class DataError(ValueError):
    """Data that cannot be read as asked; the message names file, line, column and value.

    Examples
    --------
    >>> from thresher import Schema
    >>> Schema().column("age")
    Traceback (most recent call last):
        ...
    thresher.data.errors.DataError: no column 'age': there are none
    """


class BadCell(NamedTuple):
    """One reason why a row cannot be used."""

    file: str
    line: int | None
    column: str | None
    problem: str
    unit: str = "line"

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}, {self.unit} {self.line}"
        column = "" if self.column is None else f", column {self.column!r}"
        return f"{place}{column}: {self.problem}"


class BadRows:
    """What to do with rows that contradict the schema: stop at the first, or skip and count."""

    def __init__(self, policy: str = "error"):
        if policy not in ("error", "skip"):
            raise ValueError(f"on_bad_rows must be 'error' or 'skip', got {policy!r}")
        self.policy = policy
        self.count = 0
        self.first: list[BadCell] = []

    def add(self, cell: BadCell) -> None:
        if self.policy == "error":
            raise DataError(f"{cell} (on_bad_rows='skip' leaves such rows out and counts them)")
        self.count += 1
        if len(self.first) < _SHOWN:
            self.first.append(cell)

    def merge(self, other: BadRows) -> None:
        """Add the account of rows that come after these."""
        self.count += other.count
        self.first = (self.first + other.first)[:_SHOWN]

    def __str__(self) -> str:
        if not self.count:
            return "no bad rows"
        rest = self.count - len(self.first)
        lines = [f"{self.count} bad rows were left out:", *(f"  {cell}" for cell in self.first)]
        return "\n".join(lines + ([f"  ... and {rest} more"] if rest else []))


def nearest(name: str, known: Sequence[str]) -> str:
    """'did you mean ...?' with the closest known name, or the names there are."""
    folded = {k.strip().casefold(): k for k in known}
    close = difflib.get_close_matches(name.strip().casefold(), folded, n=1, cutoff=0.5)
    if close:
        return f"did you mean {folded[close[0]]!r}?"
    listed = ", ".join(map(repr, known[:12])) + (", ..." if len(known) > 12 else "")
    return f"there are {listed}" if listed else "there are none"
