"""Which features matter to which tasks, of models that have learned many together."""

from __future__ import annotations

from thresher.registry import LEARNERS
from thresher.views.charts.task_weights import task_weights_chart
from thresher.views.report.evidence import Evidence
from thresher.views.report.section import Section

__all__ = ["weights_by_task"]


def weights_by_task(found: Evidence) -> Section | None:
    """The weights as a heat map; None for other models."""
    model = found.model
    if LEARNERS.name_of(type(model.estimator)) != "multitask":
        return None
    names = model.schema.feature_names()
    if names is not None and model.estimator.task_columns is not None:
        first, stop = model.estimator.task_columns
        names = names[:first] + names[stop:]
    section = Section("tasks", "Tasks")
    section.charts = [task_weights_chart(model.estimator, names, "task_weights")]
    return section
