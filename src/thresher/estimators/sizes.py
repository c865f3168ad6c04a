r"""How large the rows of a problem are: what a strength of the penalty is measured by.

The penalty  alpha ||w||^2 / 2  of a margin loss means something else in every unit of the features:
with rows k times as large, k^2 times the alpha gives the same model.  The default strength is
therefore a share of the typical squared distance of a row from the mean of all,

.. math:: \alpha n = 0.3 \min(\mathrm{mean}\,\|x - \bar x\|^2,\; d\,\mathrm{median}_j\,v_j)

with v the variances of the d columns that vary, and the largest tenth of the distances cut down to
the largest of the others, so that neither a few large rows nor a few large columns decide (the
columns of dense rows only: most of those of sparse ones are nearly always zero).  The share was
chosen by leaving out one set at a time (``docs/performance.md``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._rows import Rows

__all__ = ["Sizes", "sizes"]

_ROWS = 2000
_SHARE = 0.3
_UNEVEN = 100.0  # times the usual deviation, from which on a column alone rules the steps
_ROUNDING = 1e-13  # of a column's mean: one that varies by less is constant
_NEITHER = 1e-50, 1e50  # no strength is as small or large: there the units are to be mended


class Sizes(NamedTuple):
    """``strength``: alpha n where nobody says.  ``uneven``: some columns are much larger than most,
    in which steps along the gradient get nowhere."""

    strength: float
    uneven: bool


def sizes(rows: Rows, weight: np.ndarray) -> Sizes:
    """By some of the rows, evenly spaced, where they are many; a weight of k is k rows."""
    some = np.flatnonzero(weight)
    if some.size > _ROWS:
        some = some[np.linspace(0, some.size - 1, _ROWS).astype(np.int64)]
    if not some.size:
        return Sizes(1.0, False)
    X, share = rows.taken(some).astype(np.float64), weight[some] / weight[some].sum()
    with np.errstate(over="ignore", invalid="ignore"):
        squares, deviation = _squares(X, share)
    size = _trimmed_mean(squares, share)
    varying = deviation[deviation > 0.0]
    usual = float(np.median(varying)) if varying.size else 0.0
    if varying.size:
        size = min(size, varying.size * usual**2)
    strength = _SHARE * size if _NEITHER[0] < size < _NEITHER[1] else 1.0
    return Sizes(strength, bool(varying.size and varying.max() > _UNEVEN * usual))


def _squares(X: Any, share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances of the rows from their mean, and deviations of the columns, if dense."""
    mean = share @ X
    if hasattr(X, "indptr"):
        own = np.asarray(X.multiply(X).sum(axis=1)).ravel()
        squares, middle = own - 2.0 * (X @ mean) + mean @ mean, float(mean @ mean)
        return np.where(squares > _ROUNDING * (own + middle), squares, 0.0), np.empty(0)
    apart = (X - mean) ** 2
    apart[:, np.sqrt(share @ apart) <= _ROUNDING * np.abs(mean)] = 0.0
    return apart.sum(axis=1), np.sqrt(share @ apart)


def _trimmed_mean(values: np.ndarray, share: np.ndarray) -> float:
    """With the largest tenth cut down to the largest of the others."""
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(share[order]), 0.9 * (1.0 - 1e-12)))
    return float(share @ np.minimum(values, values[order[min(place, order.size - 1)]]))
