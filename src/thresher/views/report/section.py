"""A section of a report: paragraphs, tables, code and charts, not yet in any format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thresher.views.charts.shapes import Chart

__all__ = ["Section", "Table", "number"]


@dataclass(frozen=True)
class Table:
    """Cells as text; ``caption`` says what it lists."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass
class Section:
    """Titles and texts are plain: whoever writes a format escapes them."""

    key: str
    title: str
    paragraphs: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    codes: list[tuple[str, str]] = field(default_factory=list)  # (what it is, text)
    charts: list[Chart] = field(default_factory=list)
    tables_first: bool = False  # before the charts

    def lines(self) -> list[str]:
        """As plain text, for a page of a PDF."""
        import textwrap

        out: list[str] = []
        for paragraph in self.paragraphs:
            out += textwrap.wrap(paragraph, 100)
        for what, text in self.codes:
            wrapped = [textwrap.wrap(line, 96) or [""] for line in text.splitlines()]
            out += [what, *(f"    {line}" for lines in wrapped for line in lines)]
        for table in self.tables:
            cut = [" · ".join(filter(None, row)) for row in table.rows[:15]]
            out += [f"    {line[:110]}" for line in cut]
        return [self.title.upper(), *out, ""] if out else []


def number(value: Any) -> str:
    """A number for people."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
