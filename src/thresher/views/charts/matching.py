"""Soft matches of two sets as a picture, drawn by Matplotlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from thresher.views.charts.style import axes

__all__ = ["plot_matching"]


def plot_matching(matching: Any, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw the soft matches, partners on the diagonal, the surest pairs first.

    It shows whether the kernels fit: a clear diagonal if so; a smear if the kernel is too wide;
    specks all over if it is too narrow.

    Parameters
    ----------
    matching : fitted ObjectMatching
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
    >>> from thresher import ObjectMatching
    >>> from thresher.views import plot_matching
    >>> X = np.random.default_rng(0).normal(size=(20, 2))
    >>> ax = plot_matching(ObjectMatching().fit(X, X[::-1]))
    >>> ax.images[0].get_array().shape
    (20, 20)
    """
    check_is_fitted(matching)
    ax = axes(ax)
    rows, columns = _orders(matching.match_, matching.probabilities_)
    ax.imshow(matching.probabilities_[np.ix_(rows, columns)], cmap="Greys", vmin=0.0)
    ax.set_xlabel("rows of Y, by their partners")
    ax.set_ylabel("rows of X, the surest first")
    if title is not None:
        ax.set_title(title)
    return ax


def _orders(match: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs by falling probability, then what is left over on either side."""
    paired = np.flatnonzero(match >= 0)
    paired = paired[np.argsort(-P[paired, match[paired]], kind="stable")]
    alone_x = np.flatnonzero(match < 0)
    alone_y = np.setdiff1d(np.arange(P.shape[1]), match)
    return np.concatenate([paired, alone_x]), np.concatenate([match[paired], alone_y])
