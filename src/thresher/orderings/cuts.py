"""Clusters of neighbours in an order.

``cut_variance``  so many pieces, such that rows are as near as can be to the mean of their piece
``cut_longest``   between the rows that are farthest apart
``cut_dummy``     by *dummy cities* at distance zero from every row: a path that visits them too
                  takes them for its longest steps, and may go another way between (Climer and
                  Zhang, Rearrangement clustering, JMLR 7, 2006)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from thresher.orderings.improve import improve
from thresher.orderings.path import coordinates_of, neighbour_lists
from thresher.orderings.points import EUCLIDEAN, Points, as_points

__all__ = ["cut_dummy", "cut_longest", "cut_variance"]

_PARTS = 2000  # of the order, between which a cut may be
_EFFORT = 2  # kicks for each row
_FAR = 1e30  # between dummy cities: two side by side would be an empty cluster


def cut_longest(X: Any, order: Any, n_clusters: int) -> np.ndarray:
    """The number of the cluster of each row, cut at the longest steps of the order.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    n_clusters : int

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import cut_longest
    >>> cut_longest(np.array([[0.0], [9.0], [1.0], [8.0]]), [0, 2, 3, 1], 2).tolist()
    [0, 1, 0, 1]
    """
    order = _checked(X, order, n_clusters)
    cuts = _longest(as_points(X, EUCLIDEAN), order, n_clusters - 1)
    return _labels(order, cuts)


def cut_variance(X: Any, order: Any, n_clusters: int) -> np.ndarray:
    """The number of the cluster of each row: pieces of least squared distance from their means.

    Exact, by dynamic programming, for up to 2000 rows; of more, cuts lie at multiples of n / 2000.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
    n_clusters : int

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import cut_variance
    >>> cut_variance(np.array([[0.0], [9.0], [1.0], [8.0]]), [0, 2, 3, 1], 2).tolist()
    [0, 1, 0, 1]
    """
    order = _checked(X, order, n_clusters)
    n = order.size
    edges = np.unique(np.linspace(0, n, max(min(n, _PARTS), n_clusters) + 1).astype(np.int64))
    mean = np.asarray(X.mean(axis=0)).ravel()
    sums, squares = np.zeros((edges.size, X.shape[1])), np.zeros(edges.size)
    for k in range(edges.size - 1):
        part = X[order[edges[k] : edges[k + 1]]]
        part = (part.toarray() if hasattr(part, "indptr") else part) - mean
        sums[k + 1] = part.sum(axis=0)
        squares[k + 1] = (part * part).sum()
    cuts = _best_cuts(_piece_costs(sums.cumsum(axis=0), squares.cumsum(), edges), n_clusters)
    return _labels(order, edges[cuts])


def cut_dummy(
    X: Any, order: Any, n_clusters: int, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Another order, and the number of the cluster of each row, by dummy cities.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_columns)
    order : array of shape (n_rows,)
        Where the search begins.
    n_clusters : int
    random_state : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import cut_dummy
    >>> order, labels = cut_dummy(np.array([[0.0], [9.0], [1.0], [8.0]]), [0, 2, 3, 1], 2)
    >>> labels.tolist()
    [0, 1, 0, 1]
    """
    order = _checked(X, order, n_clusters)
    n, dummies = order.size, n_clusters - 1
    if n < 3 or dummies == 0:
        return order, _labels(order, np.arange(1, n_clusters))
    with ThreadPoolExecutor(1) as pool:
        rows = X[order]
        coordinates = coordinates_of(rows, random_state)
        points, near, far = neighbour_lists(rows, coordinates, EUCLIDEAN, 1, pool)
    places = np.arange(n, dtype=np.int64)
    near = np.concatenate([near, np.zeros((dummies, near.shape[1]), np.int32)])
    far = np.concatenate([far, np.full((dummies, near.shape[1]), np.inf, np.float32)])
    cuts = _longest(points, places, dummies)
    tour = np.insert(places, cuts, np.arange(n, n + dummies)).astype(np.int32)
    pos = np.argsort(tour).astype(np.int32)
    size = n + dummies
    improve(
        _WithDummies(points, n), near, far, tour, pos, np.zeros(size, np.uint8), 0, size, False,
        False, _EFFORT * n, 1 + random_state % (2**31 - 2),
    )  # fmt: skip
    number = np.cumsum(tour >= n)
    rows = tour < n
    found = order[tour[rows]]
    labels = np.empty(n, np.int64)
    labels[found] = np.unique(number[rows], return_inverse=True)[1]
    return found, labels


@dataclass(frozen=True, eq=False)
class _WithDummies(Points):
    """Points, and behind the last of them cities that are at distance zero from all of them."""

    points: Any
    n: int

    def distance(self, i, j):
        if i < self.n and j < self.n:
            return self.points.distance(i, j)
        return _FAR if i >= self.n and j >= self.n else 0.0


def _checked(X: Any, order: Any, n_clusters: int) -> np.ndarray:
    order = np.asarray(order, dtype=np.int64)
    if not 1 <= n_clusters <= order.size:
        raise ValueError(f"n_clusters must be 1 to {order.size}, the rows; got {n_clusters}")
    if order.size != X.shape[0]:
        raise ValueError(f"order has {order.size} numbers for {X.shape[0]} rows")
    return order


def _labels(order: np.ndarray, cuts: np.ndarray) -> np.ndarray:
    labels = np.empty(order.size, np.int64)
    labels[order] = np.searchsorted(np.sort(cuts), np.arange(order.size), side="right")
    return labels


def _longest(points: Any, order: np.ndarray, count: int) -> np.ndarray:
    """The places in the order before which the longest steps lead there."""
    return np.sort(np.argsort(-_steps(points, order), kind="stable")[:count] + 1)


@njit(cache=True, nogil=True)
def _steps(points, order):
    out = np.empty(order.size - 1)
    for k in range(out.size):
        out[k] = points.distance(order[k], order[k + 1])
    return out


@njit(cache=True, nogil=True)
def _piece_costs(sums, squares, edges):
    """Squared distances from the mean of the parts i .. j - 1, for all i < j."""
    parts = edges.size - 1
    costs = np.full((parts + 1, parts + 1), np.inf)
    for i in range(parts):
        for j in range(i + 1, parts + 1):
            total = 0.0
            for c in range(sums.shape[1]):
                step = sums[j, c] - sums[i, c]
                total += step * step
            costs[i, j] = squares[j] - squares[i] - total / (edges[j] - edges[i])
    return costs


@njit(cache=True, nogil=True)
def _best_cuts(costs, pieces):
    """Where the inner pieces begin, of the division with the least sum of costs."""
    parts = costs.shape[0] - 1
    best, came = costs[0].copy(), np.zeros((pieces, parts + 1), np.int64)
    for piece in range(1, pieces):
        further = np.full(parts + 1, np.inf)
        for j in range(piece + 1, parts + 1):
            for i in range(piece, j):
                if best[i] + costs[i, j] < further[j]:
                    further[j] = best[i] + costs[i, j]
                    came[piece, j] = i
        best = further
    cuts, at = np.empty(pieces - 1, np.int64), parts
    for piece in range(pieces - 1, 0, -1):
        at = came[piece, at]
        cuts[piece - 1] = at
    return cuts
