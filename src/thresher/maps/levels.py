"""Features in the order of their values, not in their units.

Random thresholds between the smallest and the largest value of a feature are of no use where a few
values are far from all others.  Here each feature is stretched, by straight lines between at most
257 of its quantiles (or all its values, where there are fewer), so that every piece is as long as
any other; thresholds that are found then are taken back.  The order of values stays as it is.
"""

from __future__ import annotations

import numpy as np

from thresher._random import generator

__all__ = ["Levels"]

_PIECES = 256
_ROWS = 50_000  # that quantiles are taken from, at most; the ends are those of all rows


class Levels:
    """The stretching of every column of a dense matrix."""

    def __init__(self, X: np.ndarray, seed: int = 0):
        n = X.shape[0]
        some = X if n <= _ROWS else X[np.sort(generator(seed, 25).choice(n, _ROWS, False))]
        ends = zip(X.min(axis=0), X.max(axis=0), strict=True)
        self.knots = [
            np.union1d(_levels(column), end) for column, end in zip(some.T, ends, strict=True)
        ]

    def stretched(self, X: np.ndarray) -> np.ndarray:
        """The rows of X as singles, by columns."""
        out = np.empty(X.shape, dtype=np.float32, order="F")
        for j, knots in enumerate(self.knots):
            out[:, j] = np.interp(X[:, j], knots, np.arange(knots.size))
        return out

    def taken_back(self, places: np.ndarray, feature: np.ndarray) -> np.ndarray:
        """Values of features, one for each stretched place."""
        out = np.empty(places.size)
        order = np.argsort(feature, kind="stable")
        ends = np.searchsorted(feature[order], np.arange(len(self.knots) + 1))
        for knots, start, stop in zip(self.knots, ends[:-1], ends[1:], strict=True):
            mine = order[start:stop]
            out[mine] = np.interp(places[mine], np.arange(knots.size), knots)
        return out


def _levels(values: np.ndarray) -> np.ndarray:
    levels = np.unique(values)
    if levels.size <= _PIECES:
        return levels
    return np.unique(np.quantile(values, np.linspace(0.0, 1.0, _PIECES + 1)))
