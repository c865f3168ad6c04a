"""Norms and angles of the class normals of a novelty detector."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from thresher.views.charts.shapes import Chart, Heatmap

__all__ = ["normals_chart", "plot_normals"]


def normals_chart(model: Any) -> Chart:
    """Cosines between the normals of the classes, their norms on the diagonal."""
    norms, cosines = model.norms_, model.cosines_
    names = [str(label) for label in model.classes_.tolist()]
    texts = [[f"{value:+.2f}" for value in row] for row in cosines.tolist()]
    for j, norm in enumerate(norms.tolist()):
        texts[j][j] = f"|w| = {norm:.3g}"
    shown = Heatmap(names, 0.5 * (1.0 - cosines), texts, ("class", "class"))
    return Chart(
        "normals", "Normals of the classes",
        "Cosines of the angles between the normals of the classes: -1 is opposite, 0 apart, +1 the "
        "same direction. Their norms stand on the diagonal.",
        f"cosines between the normals of {len(names)} classes", [shown],
    )  # fmt: skip


def plot_normals(model: Any, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw norms of the class normals and cosines between them.

    Parameters
    ----------
    model : fitted NoveltyClassifier
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
    >>> from thresher import NoveltyClassifier
    >>> from thresher.views import plot_normals
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 0.3, size=(50, 2)) for c in (-1, 0, 1)])
    >>> ax = plot_normals(NoveltyClassifier().fit(X, np.repeat([0, 1, 2], 50)))
    >>> ax.images[0].get_array().shape
    (3, 3)
    """
    from thresher.views.charts.static import plotted

    check_is_fitted(model)
    return plotted(normals_chart(model), ax, title)
