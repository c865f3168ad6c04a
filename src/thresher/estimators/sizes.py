r"""How large the rows of a problem are: what a strength of the penalty is measured by.

The penalty  alpha ||w||^2 / 2  of a margin loss means something else in every unit of the features:
with rows k times as large, k^2 times the alpha gives the same model.  The default strength is
therefore a share of the typical squared distance of two rows,

.. math:: \alpha n = 0.3 \min(\mathrm{median}\,\|x - x'\|^2 / 2,\; d\,\mathrm{median}_j\,v_j)

with v the variances of the d columns that vary, so that neither a few large rows nor a few large
columns decide (the second for dense rows only: most columns of sparse ones are nearly always
zero).  The share was chosen by leaving out one set at a time (``docs/performance.md``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thresher._rows import Rows

__all__ = ["Sizes", "sizes"]

_PAIRS = 500
_SHARE = 0.3
_UNEVEN = 100.0  # times the usual deviation, from which on a column alone rules the steps


class Sizes(NamedTuple):
    """``strength``: alpha n where nobody says.  ``uneven``: some columns are much larger than most,
    in which steps along the gradient get nowhere."""

    strength: float
    uneven: bool


def sizes(rows: Rows) -> Sizes:
    """By some of the rows, evenly spaced."""
    n = rows.shape[0]
    some = rows.taken(np.linspace(0, n - 1, min(n, 2 * _PAIRS)).astype(np.int64))
    half = some.shape[0] // 2
    apart = some[:half] - some[half : 2 * half]
    if rows.is_sparse:
        squares, deviation = np.asarray(apart.multiply(apart).sum(axis=1)).ravel(), np.empty(0)
    else:
        squares, deviation = np.einsum("ij,ij->i", apart, apart), some.std(axis=0)
    deviation = deviation[deviation > 0.0]
    size = float(np.median(squares)) / 2.0 if half else 0.0
    usual = float(np.median(deviation)) if deviation.size else 0.0
    if deviation.size:
        size = min(size, deviation.size * usual**2)
    strength = _SHARE * size if 0.0 < size < np.inf else 1.0
    return Sizes(strength, bool(deviation.size and deviation.max() > _UNEVEN * usual))
