"""How the concave-convex steps of a ``UniversumClassifier`` lowered its objective."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher.views.charts.shapes import Chart, Line

__all__ = ["descent_chart", "plot_descent"]

_MOST = 8  # functions that are told apart


def descent_chart(model: Any) -> Chart:
    """The objective after each step, a line for each function."""
    paths = model.objectives_[:_MOST]
    names = [str(label) for label in model.classes_.tolist()] if len(paths) > 1 else [""]
    lines = [
        Line(np.arange(1, len(path) + 1), np.array(path), name, number, markers=True)
        for number, (path, name) in enumerate(zip(paths, names, strict=False))
    ]
    return Chart(
        "descent", "Steps", "The objective after each concave-convex step: it never rises.",
        f"the objective falls in {max(map(len, paths))} steps", lines, x="step", y="objective",
    )  # fmt: skip


def plot_descent(model: Any, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw the objective after each concave-convex step.

    Parameters
    ----------
    model : fitted UniversumClassifier
    ax : Matplotlib axes or None, default=None
        None: new ones.
    title : str or None, default=None

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from thresher import UniversumClassifier
    >>> from thresher.views import plot_descent
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> y = np.where(np.arange(60) < 20, np.sign(X[:, 0]), np.nan)
    >>> model = UniversumClassifier().fit(X, y)
    >>> ax = plot_descent(model)
    >>> ax.lines[0].get_ydata().tolist() == model.objectives_[0]
    True
    """
    from thresher.views.charts.static import plotted

    check_is_fitted(model)
    return plotted(descent_chart(model), ax, title)
