"""What a model has chosen of many kernels, as bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher.views.charts.shapes import Bars, Chart

__all__ = ["chosen_chart", "plot_kernels"]


def plot_kernels(model: Any, ax: Any = None, *, most: int = 20, title: str | None = None) -> Any:
    """Draw the weights of the kernels that a machine of many kernels has chosen.

    Parameters
    ----------
    model : fitted MultipleKernelClassifier or MultipleKernelRegressor
    ax : Matplotlib axes or None, default=None
        None: new ones.
    most : int, default=20
        Bars to show; the largest weights come first.
    title : str or None, default=None

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> import numpy as np
    >>> from thresher import MultipleKernelClassifier
    >>> from thresher.views import plot_kernels
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> ax = plot_kernels(MultipleKernelClassifier().fit(X, X[:, 1] ** 2 > 0.5), most=3)
    >>> len(ax.patches)
    3
    """
    from thresher.views.charts.static import plotted

    check_is_fitted(model)
    parts = model.chosen_parts()
    if not parts:
        raise ValueError(f"{type(model).__name__} has chosen no kernels: there is nothing to draw")
    chart = chosen_chart(parts, getattr(model, "classes_", None), most)
    return plotted(chart, ax, title, layout="constrained")


def chosen_chart(parts: list[tuple[str, list[float]]], classes: Any, most: int = 20) -> Chart:
    """Bars of the largest weights; of each class if they have their own."""
    outputs = len(parts[0][1])
    told = [
        (name if outputs == 1 else f"{name} → {classes[c]}", weight)
        for name, weights in parts
        for c, weight in enumerate(weights)
        if weight > 0.0
    ]
    told = sorted(told, key=lambda part: -part[1])
    names, values = [name for name, _ in told[:most]], np.array([w for _, w in told[:most]])
    return Chart(
        "chosen", "Chosen kernels",
        f"Weights of the chosen kernels, largest first; {len(told):,} are not zero.",
        f"bars of the {len(names)} largest weights; the first are {', '.join(names[:3])}",
        [Bars(names, values, right="weight in the sum of kernels")],
        "weight", wide=True, legend="bottom_right",
    )  # fmt: skip
