"""Decision boundaries of classifiers in the plane, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher.views.charts.style import MARKERS, OKABE_ITO, axes, lightened, needed

__all__ = ["plot_boundary"]

_MARK = {
    "circle": "o", "square": "s", "triangle": "^", "diamond": "D", "inverted_triangle": "v",
    "x": "X", "plus": "P", "star": "*",
}  # fmt: skip
_BLOCK = 1 << 16  # grid points predicted at a time


def plot_boundary(
    model: Any,
    X: Any,
    y: Any,
    ax: Any = None,
    *,
    resolution: int = 200,
    pad: float = 0.06,
    points: int | None = 2000,
    margins: bool = True,
    names: Sequence[str] = ("", ""),
    title: str | None = None,
    legend: bool = True,
) -> Any:
    """Draw where a classifier predicts what: regions, boundary, margins and the points.

    Classes differ in colour (Okabe and Ito's) and in marker; wrong points have a black edge.

    Parameters
    ----------
    model : fitted classifier
        Of two features; any of scikit-learn's will do.
    X, y : arrays of shape (n, 2) and (n,)
        Points to show, and their labels.
    ax : Matplotlib axes or None, default=None
        None: new ones.
    resolution : int, default=200
        Grid points along each axis.
    pad : float, default=0.06
        Room around the points, as a share of their range.
    points : int or None, default=2000
        Show at most so many, evenly picked; None: all.
    margins : bool, default=True
        Where ``decision_function`` gives one score, also draw where it is -1 and +1.
    names : pair of str, default=("", "")
        Of the two features.
    title : str or None, default=None
    legend : bool, default=True
        Name the classes.

    Returns
    -------
    ax : Matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import make_moons
    >>> from thresher import KernelClassifier
    >>> from thresher.views import plot_boundary
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> ax = plot_boundary(KernelClassifier(random_state=0).fit(X, y), X, y, resolution=50)
    >>> ax.get_legend_handles_labels()[1]
    ['0', '1']
    """
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"a plane has two features, X has shape {X.shape}")
    if y.shape != X.shape[:1]:
        raise ValueError(f"{X.shape[0]} points and {y.shape} labels")
    if resolution < 2:
        raise ValueError(f"resolution must be at least 2, got {resolution}")
    ax = axes(ax)
    xs, ys = (_axis(X[:, k], pad, resolution) for k in (0, 1))
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    classes = np.asarray(getattr(model, "classes_", np.unique(y)))
    codes = np.searchsorted(classes, _blockwise(model.predict, grid)).reshape(ys.size, xs.size)
    _regions(ax, xs, ys, codes, classes.size)
    scores = _scores(model, grid, classes.size)
    if scores is None:
        _edges(ax, xs, ys, codes)
    else:
        _lines(ax, xs, ys, scores.reshape(codes.shape), margins)
    _points(ax, X, y, model, classes, points)
    ax.set_xlim(xs[0], xs[-1])
    ax.set_ylim(ys[0], ys[-1])
    ax.set_xlabel(names[0])
    ax.set_ylabel(names[1])
    if title is not None:
        ax.set_title(title)
    if legend and classes.size <= len(OKABE_ITO):
        ax.legend(loc="upper right", framealpha=0.9, fontsize="small")
    return ax


def _axis(values: np.ndarray, pad: float, resolution: int) -> np.ndarray:
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = (high - low or 1.0) * pad
    return np.linspace(low - room, high + room, resolution)


def _blockwise(of: Any, grid: np.ndarray) -> np.ndarray:
    parts = [np.asarray(of(grid[k : k + _BLOCK])) for k in range(0, len(grid), _BLOCK)]
    return np.concatenate(parts)


def _scores(model: Any, grid: np.ndarray, classes: int) -> np.ndarray | None:
    """One score per point, zero on the boundary, where there is such a thing."""
    if classes != 2 or not hasattr(model, "decision_function"):
        return None
    scores = _blockwise(model.decision_function, grid)
    return scores if scores.ndim == 1 else None


def _regions(ax: Any, xs: np.ndarray, ys: np.ndarray, codes: np.ndarray, classes: int) -> None:
    colours = needed("matplotlib.colors")
    tints = [lightened(OKABE_ITO[k % len(OKABE_ITO)], 0.68) for k in range(max(classes, 1))]
    ramp = colours.ListedColormap(tints)
    ax.pcolormesh(xs, ys, codes, cmap=ramp, vmin=-0.5, vmax=classes - 0.5, shading="nearest",
                  rasterized=True, zorder=0)  # fmt: skip


def _lines(ax: Any, xs: np.ndarray, ys: np.ndarray, scores: np.ndarray, margins: bool) -> None:
    """The boundary (full) and the margins (dashed) that lie within the picture."""
    wanted = ((0.0, "-", 1.8), (-1.0, "--", 1.0), (1.0, "--", 1.0))
    for level, dash, width in wanted if margins else wanted[:1]:
        if scores.min() < level < scores.max():
            ax.contour(xs, ys, scores, levels=[level], colors="black", linestyles=dash,
                       linewidths=width, zorder=2)  # fmt: skip


def _edges(ax: Any, xs: np.ndarray, ys: np.ndarray, codes: np.ndarray) -> None:
    """Between the regions of several classes."""
    for code in np.unique(codes)[:-1]:
        ax.contour(xs, ys, (codes <= code).astype(float), levels=[0.5], colors="black",
                   linewidths=1.4, zorder=2)  # fmt: skip


def _points(
    ax: Any, X: np.ndarray, y: np.ndarray, model: Any, classes: np.ndarray, most: int | None
) -> None:
    if most is not None and len(X) > most:
        picked = np.linspace(0, len(X) - 1, most).astype(int)
        X, y = X[picked], y[picked]
    wrong = np.asarray(model.predict(X)) != y if len(X) else np.zeros(0, bool)
    for place, label in enumerate(classes.tolist()):
        own = y == label
        edge = np.where(wrong[own], "black", "white")
        ax.scatter(X[own, 0], X[own, 1], s=22, color=OKABE_ITO[place % len(OKABE_ITO)],
                   marker=_MARK[MARKERS[place % len(MARKERS)]], edgecolors=edge.tolist() or None,
                   linewidths=0.7, label=str(label), zorder=3)  # fmt: skip
