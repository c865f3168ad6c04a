"""What people look at: tables, reports of trained models, pictures of boundaries and of matches.

Names are imported when first used; Bokeh and Matplotlib only when something is drawn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thresher.views.charts.boundary import plot_boundary
    from thresher.views.charts.matching import plot_matching
    from thresher.views.charts.normals import plot_normals
    from thresher.views.explorer.explore import explore
    from thresher.views.report.build import write_report

_HOME = {
    "explore": "explorer.explore",
    "plot_boundary": "charts.boundary",
    "plot_matching": "charts.matching",
    "plot_normals": "charts.normals",
    "write_report": "report.build",
}

__all__ = ["explore", "plot_boundary", "plot_matching", "plot_normals", "write_report"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"thresher.views.{_HOME[name]}"), name)
    raise AttributeError(f"module 'thresher.views' has no attribute {name!r}")
