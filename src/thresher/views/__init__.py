"""What people look at: tables, reports of trained models, pictures of boundaries and of matches.

Names are imported when first used; Bokeh and Matplotlib only when something is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.views.charts.boundary import plot_boundary
    from thresher.views.charts.chosen import plot_kernels
    from thresher.views.charts.descent import plot_descent
    from thresher.views.charts.layout import plot_layout
    from thresher.views.charts.matching import plot_matching
    from thresher.views.charts.normals import plot_normals
    from thresher.views.charts.task_weights import plot_task_weights
    from thresher.views.explorer.explore import explore, plot_ordering
    from thresher.views.explorer.widget import explorer_widget
    from thresher.views.report.build import write_report

_HOME = {
    "explore": "explorer.explore",
    "explorer_widget": "explorer.widget",
    "plot_boundary": "charts.boundary",
    "plot_descent": "charts.descent",
    "plot_kernels": "charts.chosen",
    "plot_layout": "charts.layout",
    "plot_matching": "charts.matching",
    "plot_normals": "charts.normals",
    "plot_ordering": "explorer.explore",
    "plot_task_weights": "charts.task_weights",
    "write_report": "report.build",
}

__all__ = ["explore", "explorer_widget", "plot_boundary", "plot_descent", "plot_kernels",
           "plot_layout", "plot_matching", "plot_normals", "plot_ordering", "plot_task_weights",
           "write_report"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"thresher.views.{_HOME[name]}"), name)
    raise AttributeError(f"module 'thresher.views' has no attribute {name!r}")
