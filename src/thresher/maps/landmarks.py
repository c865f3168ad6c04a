"""Which points a Nystroem map is built on.

============  ==================================================================================
``uniform``   rows at random
``entropy``   rows of large quadratic Renyi entropy (``entropy.py``); also from a stream
``kmeans``    centres of k-means, ten Lloyd steps from random rows
``kmedoids``  rows whose squared distances to the rows of their cell are least, by medoid steps
``leverage``  rows at random in proportion to their approximate ridge leverage scores
``margin``    rows at random in proportion to a pilot model's loss on them: needs the targets
============  ==================================================================================

Measured (equal numbers of landmarks): "margin" wins where the classes meet on a thin surface
(ijcnn1: 1.48 % against 1.79 for "uniform" and 1.90 for "kmeans"), "kmeans" on images and on low
dimensions (covtype: 17.6 % against 18.6 for "margin"), and on a9a all are the same.  "entropy"
seeks points far from each other, and so leans to outliers even within its budget of swaps: sqrt(n)
landmarks so found err more than as many at "uniform" on each of eight sets (shuttle 1.4 % against
1.2, letter 51 against 45, cod-rna 16.5 against 8.7).  The cost is that of the kernel between a
sample of the rows and the landmarks at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from thresher._allowed import whole
from thresher._random import generator
from thresher.dimensions import Int
from thresher.kernels import Kernel
from thresher.kernels.gram import blocks, gram, self_values, squares
from thresher.kernels.matrices import stack
from thresher.maps.entropy import entropy
from thresher.maps.pilot import pilot_loss
from thresher.maps.whitening import whitening

__all__ = [
    "COMPONENTS", "LANDMARKS", "check_rule", "landmark_room", "landmark_work", "lloyd", "medoids",
    "nearest", "subset_size",
]  # fmt: skip

_LEAST, _MOST = 50, 4000
_WHITENING = 2000  # landmarks for which whitening costs as much as all else

_FULL = 3000  # landmarks that whitening still takes in a second


#: what a number of landmarks may be
COMPONENTS = whole(1) | "auto" | "sqrt" | "full"


def subset_size(n_components: Any, n: int) -> int:
    """How many landmarks: a number, or by a rule from the number of rows.

    "auto" is 10 sqrt(n) within 100 .. 2000; "sqrt" the rule of Jumutc's thesis, sqrt(n) below
    10,000 rows and sqrt(n) / 5 from there on; "full" is every row, up to 3000.  Never more than
    there are rows.
    """
    if n_components == "auto":
        wanted = min(max(100, round(10.0 * n**0.5)), 2000)
    elif n_components == "sqrt":
        wanted = max(1, round(n**0.5 if n < 10_000 else n**0.5 / 5.0))
    elif n_components == "full":
        wanted = _FULL
    else:
        wanted = int(n_components)
    return min(wanted, n)


def landmark_room(rows: int) -> Int:
    """How many landmarks are worth trying for so many rows."""
    return Int(_LEAST, min(_MOST, max(rows // 2, 100)), log=True)


def landmark_work(size: int, rows: int) -> float:
    """O(size) operations a row for the kernel and the learning, O(size^2) fast ones to whiten."""
    return rows * size * (1.0 + size / _WHITENING)


def _uniform(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    return X[generator(seed, 12).choice(X.shape[0], m, replace=False)]


def _entropy(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    return entropy(kernel, X, m, seed)


def _kmeans(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    return lloyd(X, m, seed)


def _kmedoids(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    return medoids(X, nearest_rows(X, lloyd(X, m, seed)))


def _leverage(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    return X[weighted_draw(leverage_scores(kernel, X, min(m, 300), seed), m, seed)]


def _margin(kernel: Kernel, X: Any, y: Any, m: int, seed: int) -> Any:
    if y is None:
        raise ValueError("landmarks='margin' follows the loss of a pilot model: fit needs y")
    return X[weighted_draw(pilot_loss(kernel, X, y, seed) + 1e-3, m, seed)]


#: name -> (kernel, X, y, m, seed) -> m points
LANDMARKS: dict[str, Callable[[Kernel, Any, Any, int, int], Any]] = {
    "uniform": _uniform,
    "entropy": _entropy,
    "kmeans": _kmeans,
    "kmedoids": _kmedoids,
    "leverage": _leverage,
    "margin": _margin,
}


def check_rule(landmarks: Any) -> None:
    """ValueError where a word is no rule for landmarks."""
    if isinstance(landmarks, str) and landmarks not in LANDMARKS:
        raise ValueError(
            f"landmarks={landmarks!r} is unknown: give points or one of {', '.join(LANDMARKS)}"
        )


def weighted_draw(weight: np.ndarray, m: int, seed: int) -> np.ndarray:
    """m different rows, each draw in proportion to the weights left.

    The rows with the largest log(u) / weight, u uniform: Efraimidis and Spirakis (2006).
    """
    u = generator(seed, 13).uniform(size=weight.size)
    keys = np.log(np.maximum(u, 1e-300)) / np.maximum(weight, 1e-300)
    return np.sort(np.argpartition(-keys, m - 1)[:m])


def lloyd(X: Any, m: int, seed: int, steps: int = 10) -> np.ndarray:
    """Centres of m clusters, O(steps non-zeros(X) m); an empty cluster keeps its old centre."""
    centres = X[generator(seed, 14).choice(X.shape[0], m, replace=False)]
    centres = np.ascontiguousarray(centres.toarray() if hasattr(X, "indptr") else centres)
    for _ in range(steps):
        means, counts = _means(X, nearest(X, centres), m)
        centres[counts > 0] = means[counts > 0]
    return centres


def medoids(X: Any, points: Any, steps: int = 10) -> Any:
    """Rows of X, from ``points`` among them, after alternating steps of k-medoids (Park and Jun).

    Rows go to the nearest point, and a cell takes the row of its own from which the squared
    distances of its rows sum up to least: that is the row nearest to the cell's mean.  The sum of
    all never rises; it ends where nothing changes.  O(steps non-zeros(X) m).
    """
    m = points.shape[0]
    cell = None
    for _ in range(steps):
        dense = points.toarray() if hasattr(points, "indptr") else points
        before, cell = cell, nearest(X, np.ascontiguousarray(dense))
        if before is not None and np.array_equal(cell, before):
            break
        away = _from_own_mean(X, cell, m)
        order = np.lexsort((away, cell))
        filled, first = np.unique(cell[order], return_index=True)
        chosen = order[first]
        if filled.size == m:
            points = X[chosen]
        else:  # an empty cell keeps its point, which is another one's too
            where = np.arange(m)
            where[filled] = m + np.arange(filled.size)
            points = stack(points, X[chosen])[where]
    return points


def _from_own_mean(X: Any, cell: np.ndarray, m: int) -> np.ndarray:
    """Squared distance of each row to the mean of its cell, less what is the same in a cell."""
    means = _means(X, cell, m)[0]
    out = squares(X)
    for part in blocks(X.shape[0], X.shape[1]):
        own = means[cell[part]]
        product = X[part].multiply(own) if hasattr(X, "indptr") else X[part] * own
        out[part] -= 2.0 * np.asarray(product.sum(axis=1)).ravel()
    return out


def _means(X: Any, cell: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """The mean row of each cell (zero where there is none), and how many rows it has."""
    ones = np.ones(X.shape[0], dtype=X.dtype)
    sums = csr_matrix((ones, (cell, np.arange(X.shape[0]))), shape=(m, X.shape[0])) @ X
    sums = sums.toarray() if hasattr(sums, "toarray") else np.asarray(sums)
    counts = np.bincount(cell, minlength=m)
    kept = counts > 0
    sums[kept] /= counts[kept, None]
    return sums, counts


def nearest_rows(X: Any, centres: np.ndarray) -> Any:
    """The row nearest to each centre; a row nearest to several counts once per centre."""
    half = 0.5 * squares(X)
    best, where = np.full(centres.shape[0], np.inf), np.zeros(centres.shape[0], dtype=np.int64)
    for part in blocks(X.shape[0], centres.shape[0]):
        distance = half[part, None] - _inner(X[part], centres)
        rows = distance.argmin(axis=0)
        values = distance[rows, np.arange(centres.shape[0])]
        closer = values < best
        best[closer], where[closer] = values[closer], rows[closer] + part.start
    return X[where]


def nearest(X: Any, centres: np.ndarray) -> np.ndarray:
    """The number of the centre nearest to each row."""
    half = (0.5 * squares(centres)).astype(X.dtype)
    out = np.empty(X.shape[0], dtype=np.int64)
    for part in blocks(X.shape[0], centres.shape[0]):
        out[part] = (half - _inner(X[part], centres)).argmin(axis=1)
    return out


def _inner(X: Any, centres: np.ndarray) -> np.ndarray:
    return np.asarray(X @ centres.T)


def leverage_scores(kernel: Kernel, X: Any, size: int, seed: int) -> np.ndarray:
    r"""Approximate ridge leverage scores, O(n size (d + size)).

    With features phi of a uniform Nystroem map the score of row i is
    :math:`\phi_i' (\Phi'\Phi + I)^{-1} \phi_i + k(x_i,x_i) - \phi_i'\phi_i`: what the row adds to
    the subspace that a ridge of one leaves, and its part outside the pilot's span (Alaoui and
    Mahoney, 2015; Musco and Musco, 2017).
    """
    points = X[generator(seed, 15).choice(X.shape[0], size, replace=False)]
    basis = whitening(gram(kernel, points.astype(np.float64)), 1e-6)
    phi = gram(kernel, X.astype(np.float64), points.astype(np.float64)) @ basis.projection
    inner = phi.T @ phi
    inside = np.einsum("ij,ij->i", phi @ np.linalg.inv(inner + np.eye(inner.shape[0])), phi)
    outside = self_values(kernel, X) - np.einsum("ij,ij->i", phi, phi)
    return np.maximum(inside, 0.0) + np.maximum(outside, 0.0)
