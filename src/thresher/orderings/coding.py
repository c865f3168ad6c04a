r"""Differential predictive coding (DPC): a table as its first row and the steps from row to row.

The better the order of the rows, the smaller the steps and the fewer bits they take.  With steps
:math:`\varepsilon_{ij} = x_{\pi(i)j} - x_{\pi(i-1)j}`, i = 2 .. n, independent over columns, their
mean negative logarithm of the likelihood is

.. math::

    H_{\text{Gauss}} = \frac{m}{2} \log 2\pi + \sum_j \left( \log \sigma_j
    + \frac{\overline{\varepsilon_j^2}}{2 \sigma_j^2} \right), \qquad
    H_{\text{Laplace}} = \sum_j \left( \log 2 b_j + \frac{\overline{|\varepsilon_j|}}{b_j} \right),

a bar being the mean over the steps; the scales that minimise them are
:math:`\sigma_j^2 = \overline{\varepsilon_j^2}` and :math:`b_j = \overline{|\varepsilon_j|}`.  (The
printed Gaussian form, (2.5) of the thesis, has other constants and then another minimum than its
own E-step.)

``encode`` is exact for all numbers: floats are taken as the integers that sort as they do, and
differences of integers of so many bits wrap around.

Reference: Djuric, PhD thesis, Temple University (2014), sections 2.3.1 to 2.3.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "GAUSSIAN", "LAPLACIAN", "RESIDUALS", "Encoded", "coded_bits", "column_entropies", "decode",
    "encode", "step_scales",
]  # fmt: skip

GAUSSIAN, LAPLACIAN = "gaussian", "laplacian"
RESIDUALS = (GAUSSIAN, LAPLACIAN)
_BLOCK = 1 << 20  # elements whose steps are computed at a time


class Encoded(NamedTuple):
    """A table in another order: its first row, and steps between rows as integers that wrap.

    Parameters
    ----------
    first : array of shape (n_columns,)
    steps : array of integers of shape (n_rows - 1, n_columns)
    order : array of shape (n_rows,)
        Numbers of the rows in the order of the code.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import encode
    >>> code = encode(np.array([[7, 1], [5, 1], [6, 2]]), [1, 2, 0])
    >>> code.first.tolist(), code.steps.tolist()
    ([5, 1], [[1, 1], [1, -1]])
    """

    first: np.ndarray
    steps: np.ndarray
    order: np.ndarray


def encode(X: Any, order: Any) -> Encoded:
    """The rows in an order, as differences; :func:`decode` gives them back to the bit.

    Parameters
    ----------
    X : array of numbers of shape (n_rows, n_columns)
    order : array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import decode, encode
    >>> X = np.array([[0.1, np.nan], [-0.0, 1e300]])
    >>> decode(encode(X, [1, 0])).tobytes() == X.tobytes()
    True
    """
    X, order = np.asarray(X), np.asarray(order)
    if X.ndim != 2 or X.shape[0] == 0 or X.dtype.kind not in "iuf":
        raise ValueError(f"X must be a table of numbers with a row, got {X.dtype} of {X.shape}")
    if not np.array_equal(np.sort(order), np.arange(X.shape[0])):
        raise ValueError("order must hold the number of every row once")
    whole = _as_integers(X[order])
    return Encoded(X[order[0]].copy(), whole[1:] - whole[:-1], order)


def decode(code: Encoded) -> np.ndarray:
    """The table, its rows where they were before :func:`encode`.

    Parameters
    ----------
    code : Encoded

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import decode, encode
    >>> decode(encode(np.array([[3], [1], [2]]), [1, 2, 0])).ravel().tolist()
    [3, 1, 2]
    """
    first = _as_integers(code.first[None, :])
    whole = np.cumsum(np.concatenate([first, code.steps]), axis=0, dtype=first.dtype)
    out = np.empty((whole.shape[0], whole.shape[1]), dtype=code.first.dtype)
    out[code.order] = _from_integers(whole, code.first.dtype)
    return out


def _as_integers(X: np.ndarray) -> np.ndarray:
    """Floats as signed integers in the same order, without a change of bits that is lost."""
    if X.dtype.kind != "f":
        return X
    whole = np.ascontiguousarray(X).view(f"i{X.itemsize}")
    return np.where(whole < 0, whole ^ np.iinfo(whole.dtype).max, whole)


def _from_integers(whole: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind != "f":
        return whole
    return np.where(whole < 0, whole ^ np.iinfo(whole.dtype).max, whole).view(dtype)


def step_scales(X: Any, order: np.ndarray, residual: str = GAUSSIAN) -> np.ndarray:
    """The likeliest scale of each column's steps: root mean square, or mean magnitude (Laplace).

    A step from or to a missing value (NaN) does not count; a column without steps has scale 0.
    """
    n, d = X.shape
    sums, counts = np.zeros(d), np.zeros(d)
    rows = max(2, _BLOCK // max(d, 1))
    for start in range(0, n - 1, rows):
        part = X[order[start : start + rows + 1]]
        if hasattr(part, "indptr"):
            steps = part[1:] - part[:-1]
            size = abs(steps) if residual == LAPLACIAN else steps.multiply(steps)
            sums += np.asarray(size.sum(axis=0, dtype=np.float64)).ravel()
            counts += steps.shape[0]
            continue
        steps = np.diff(part.astype(np.float64, copy=False), axis=0)
        size = np.abs(steps) if residual == LAPLACIAN else steps * steps
        present = ~np.isnan(steps)
        sums += np.where(present, size, 0.0).sum(axis=0)
        counts += present.sum(axis=0)
    mean = sums / np.maximum(counts, 1.0)
    return mean if residual == LAPLACIAN else np.sqrt(mean)


def column_entropies(scales: np.ndarray, residual: str = GAUSSIAN) -> np.ndarray:
    """Entropy in nats of a residual of each column with these likeliest scales; 0 has -inf."""
    with np.errstate(divide="ignore"):
        if residual == LAPLACIAN:
            return np.log(2.0 * np.e * scales)
        return 0.5 * np.log(2.0 * np.pi * np.e) + np.log(scales)


def coded_bits(X: Any, order: Any, levels: int = 256) -> float:
    """Bits a cell that an ideal code of the steps takes, columns in so many equal levels.

    The mean over the columns of the entropy of their steps, counted modulo ``levels``.  A missing
    value is a level of its own.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    levels : int, default=256
        From the least to the largest value of a column.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import coded_bits
    >>> X = np.random.default_rng(0).uniform(size=(1000, 1))
    >>> better, worse = coded_bits(X, np.argsort(X[:, 0])), coded_bits(X, np.arange(1000))
    >>> bool(better < 2.0 < 7.0 < worse)
    True
    """
    X, order = np.asarray(X, dtype=np.float64), np.asarray(order)
    if X.shape[0] < 2 or X.shape[1] == 0:
        return 0.0
    total = 0.0
    for column in X.T:
        value = column[order]
        low, high = np.nanmin(value, initial=np.inf), np.nanmax(value, initial=-np.inf)
        width = high - low if high > low else 1.0
        level = np.where(np.isnan(value), levels, (value - low) / width * (levels - 1)).round()
        steps = np.mod(np.diff(level.astype(np.int64)), levels + 1)
        share = np.bincount(steps) / steps.size
        total -= float(np.sum(share[share > 0] * np.log2(share[share > 0])))
    return total / X.shape[1]
