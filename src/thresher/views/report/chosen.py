"""What a model has chosen of many kernels, and of which features they are."""

from __future__ import annotations

from thresher.views.charts.chosen import chosen_chart
from thresher.views.report.evidence import Evidence
from thresher.views.report.section import Section, Table

__all__ = ["chosen"]

_SHOWN = 40


def chosen(found: Evidence) -> Section | None:
    """The chosen kernels with their weights; None from models that do not choose."""
    parts = found.model.chosen_parts()
    if not parts:
        return None
    classes, outputs = found.model.classes, len(parts[0][1])
    section = Section("chosen", "What was chosen")
    section.paragraphs = [
        f"{len(parts):,} kernels have a weight; a prediction computes no others. Features that "
        "stand in none of them are not looked at. Of kernels that say the same, any may be chosen."
    ]
    section.charts = [chosen_chart(parts, classes)]
    heads = ["weight"] if outputs == 1 or classes is None else [str(c) for c in classes]
    rows = [[name, *(f"{w:.4g}" for w in weights)] for name, weights in parts[:_SHOWN]]
    section.tables = [Table(["kernel", *heads], rows, "chosen kernels, the largest weight first")]
    return section
