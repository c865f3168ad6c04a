"""How good an order is.

``figure_of_merit`` asks for labels that the order has not seen; the others are about the rows
alone.  Distances are Euclidean.  ``banded_anti_robinson`` and ``anti_robinson_events`` are defined
as in R's package seriation (Hahsler, Hornik and Buchta, J. Statistical Software 25, 2008), and so
is ``neumann_stress``: every pair of neighbouring cells counts twice, once from each side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from thresher._random import generator
from thresher._rows import check_compressed
from thresher.orderings.points import EUCLIDEAN, as_points

__all__ = [
    "anti_robinson_events", "banded_anti_robinson", "figure_of_merit", "neumann_stress",
    "path_length", "random_figure_of_merit",
]  # fmt: skip


def figure_of_merit(labels: Any, order: Any) -> float:
    """The share of neighbours in the order that have different labels (FOM): less is better.

    Parameters
    ----------
    labels : array of shape (n_rows,)
    order : array of shape (n_rows,)

    Examples
    --------
    >>> from thresher.orderings import figure_of_merit
    >>> figure_of_merit(["a", "b", "a"], [0, 2, 1])
    0.5
    """
    y = np.asarray(labels)[np.asarray(order)]
    return float(np.mean(y[1:] != y[:-1])) if y.size > 1 else 0.0


def random_figure_of_merit(labels: Any) -> float:
    """What a random order has on average, to hold :func:`figure_of_merit` against.

    Parameters
    ----------
    labels : array of shape (n_rows,)

    Examples
    --------
    >>> from thresher.orderings import random_figure_of_merit
    >>> random_figure_of_merit([0, 0, 1, 1])
    0.6666666666666667
    """
    counts = np.unique(np.asarray(labels), return_counts=True)[1].astype(np.float64)
    n = counts.sum()
    return float(1.0 - np.sum(counts * (counts - 1.0)) / (n * (n - 1.0))) if n > 1 else 0.0


def path_length(X: Any, order: Any) -> float:
    """The sum of the distances between neighbours in the order.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import path_length
    >>> path_length(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]), [0, 1, 2])
    6.0
    """
    order = np.asarray(order)
    total = 0.0
    rows = max(2, (1 << 20) // max(X.shape[1], 1))
    for start in range(0, order.size - 1, rows):
        part = X[order[start : start + rows + 1]].astype(np.float64)
        steps = part[1:] - part[:-1]
        squares = steps.multiply(steps) if hasattr(steps, "indptr") else steps * steps
        total += float(np.sqrt(np.asarray(squares.sum(axis=1)).ravel()).sum())
    return total


def banded_anti_robinson(X: Any, order: Any, band: int = 10) -> float:
    """Distances up to ``band`` places apart, weighed: ``band`` for neighbours, 1 at the border.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    band : int, default=10
        1 is :func:`path_length`.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import banded_anti_robinson
    >>> banded_anti_robinson(np.array([[0.0], [1.0], [3.0]]), [0, 1, 2], band=2)
    9.0
    """
    check_compressed(X)
    order = np.asarray(order, dtype=np.int64)
    if order.size and not 0 <= order.min() <= order.max() < X.shape[0]:
        raise ValueError(f"order names rows beyond the {X.shape[0]} of X")
    return float(_banded(as_points(X, EUCLIDEAN), order, band))


@njit(cache=True, nogil=True)
def _banded(points, order, band):
    total = 0.0
    for i in range(order.size):
        for j in range(i + 1, min(i + band + 1, order.size)):
            total += (band + 1 - (j - i)) * points.distance(order[i], order[j])
    return total


def neumann_stress(X: Any, order: Any, columns: Any = None) -> float:
    """Squared differences between each cell of the ordered table and its up to four neighbours.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    columns : array of shape (n_columns,) or None, default=None
        The order of the columns; None: as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import neumann_stress
    >>> neumann_stress(np.array([[0.0, 1.0], [0.0, 3.0]]), [0, 1])
    28.0
    """
    table = np.asarray(X, dtype=np.float64)[np.asarray(order)]
    if columns is not None:
        table = table[:, np.asarray(columns)]
    return 2.0 * float(np.sum(np.diff(table, axis=0) ** 2) + np.sum(np.diff(table, axis=1) ** 2))


def anti_robinson_events(X: Any, order: Any, sample: int = 2000, random_state: int = 0) -> float:
    """How often distances fall along the order: the share of triples i < k < j that show it.

    A triple counts half if k is farther from i than j is, and half if it is farther from j than i
    is.  O(sample^3) comparisons: of more rows, some are drawn.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    sample : int, default=2000
        Rows looked at, at most.
    random_state : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import anti_robinson_events
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> anti_robinson_events(X, [0, 1, 2]), anti_robinson_events(X, [1, 0, 2])
    (0.0, 0.5)
    """
    order = np.asarray(order, dtype=np.int64)
    if order.size > sample:
        order = order[np.sort(generator(random_state, 23).choice(order.size, sample, False))]
    if order.size < 3:
        return 0.0
    events = _events(as_points(X[order], EUCLIDEAN), order.size)
    triples = order.size * (order.size - 1) * (order.size - 2) // 6
    return float(events / (2.0 * triples))


@njit(cache=True, nogil=True)
def _events(points, n):
    D = np.zeros((n, n), np.float32)
    for i in range(n):
        for j in range(i):
            D[i, j] = D[j, i] = points.distance(i, j)
    events = 0
    for i in range(n):
        for k in range(i + 1, n):
            for j in range(k + 1, n):
                events += (D[i, k] > D[i, j]) + (D[j, k] > D[j, i])
    return events
