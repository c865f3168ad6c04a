"""Orders that others use, to compare with: by a line through the rows, a tree, or a greedy path.

================  =========================================================  ============
``pca``           along the first principal component                        n d
``spectral``      by the second eigenvector of a normalised Gaussian         n^2
                  similarity (Shi and Malik, 2000), median width
``lle``           a locally linear embedding in one dimension, 15            n^2
                  neighbours (Roweis and Saul, 2000)
``hierarchical``  the leaves of average linkage, left to right               n^2
``optimal_leaf``  the same with subtrees turned for the shortest path        n^3
                  (Bar-Joseph, Gifford and Jaakkola, 2001)
``nearest``       from the row farthest from the mean, always the nearest    n^2
                  row that is left
================  =========================================================  ============
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh, svds
from scipy.spatial.distance import pdist

from thresher._random import generator

__all__ = ["BASELINES", "baseline"]

_MOST = 20_000  # rows whose distances to each other are kept
_LLE_NEIGHBOURS = 15


def _pca(X: Any, seed: int) -> np.ndarray:
    n, d = X.shape
    mean = np.asarray(X.mean(axis=0)).ravel()
    if min(n, d) <= 2:
        dense = _dense(X) - mean
        direction = np.linalg.svd(dense, full_matrices=False)[2][0]
    elif d <= 1000 and not hasattr(X, "indptr"):
        centred = X - mean
        direction = eigh(centred.T @ centred, subset_by_index=[d - 1, d - 1])[1][:, 0]
    else:
        centred = LinearOperator(
            X.shape,
            matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
            rmatvec=lambda u: X.T @ u.ravel() - mean * u.sum(),
            dtype=np.float64,
        )
        start = generator(seed, 24).standard_normal(min(n, d))
        direction = svds(centred, 1, v0=start)[2][0]
    return np.argsort(np.asarray(X @ direction).ravel(), kind="stable")


def _spectral(X: Any, seed: int) -> np.ndarray:
    n = X.shape[0]
    D = _squared_distances(X)
    width = float(np.median(D[np.triu_indices(n, 1)]))
    W = np.exp(-D / width) if width > 0.0 else np.ones_like(D)
    root = 1.0 / np.sqrt(W.sum(axis=1))
    W *= root[:, None] * root
    if n < 10:
        vectors = np.linalg.eigh(W)[1]
    else:
        vectors = eigsh(W, 2, which="LA", v0=generator(seed, 25).standard_normal(n))[1]
    return np.argsort(vectors[:, -2] * root, kind="stable")


def _lle(X: Any, seed: int) -> np.ndarray:
    from sklearn.manifold import LocallyLinearEmbedding

    n = X.shape[0]
    map_ = LocallyLinearEmbedding(
        n_neighbors=min(_LLE_NEIGHBOURS, n - 1), n_components=1, random_state=seed,
        eigen_solver="dense" if n <= 2000 else "auto",
    )  # fmt: skip
    return np.argsort(map_.fit_transform(_dense(X)).ravel(), kind="stable")


def _hierarchical(X: Any, seed: int) -> np.ndarray:
    return leaves_list(linkage(pdist(_dense(X)), "average")).astype(np.int64)


def _optimal_leaf(X: Any, seed: int) -> np.ndarray:
    distances = pdist(_dense(X))
    tree = optimal_leaf_ordering(linkage(distances, "average"), distances)
    return leaves_list(tree).astype(np.int64)


def _nearest(X: Any, seed: int) -> np.ndarray:
    X = _dense(X)
    away = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    return _greedy(np.ascontiguousarray(X), int(away.argmax()))


@njit(cache=True, nogil=True)
def _greedy(X, start):
    n = X.shape[0]
    order = np.arange(n)
    order[0], order[start] = start, 0
    for k in range(1, n):
        here, best, least = order[k - 1], k, np.inf
        for q in range(k, n):
            away = 0.0
            for j in range(X.shape[1]):
                step = X[here, j] - X[order[q], j]
                away += step * step
            if away < least:
                best, least = q, away
        order[k], order[best] = order[best], order[k]
    return order


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "indptr") else X, dtype=np.float64)


def _squared_distances(X: Any) -> np.ndarray:
    squares = np.asarray((X.multiply(X) if hasattr(X, "indptr") else X * X).sum(axis=1)).ravel()
    inner = X @ X.T
    inner = inner.toarray() if hasattr(inner, "indptr") else inner
    return np.maximum(squares[:, None] + squares - 2.0 * inner, 0.0)


#: name -> (rows, seed) -> order
BASELINES: dict[str, Callable[[Any, int], np.ndarray]] = {
    "pca": _pca,
    "spectral": _spectral,
    "lle": _lle,
    "hierarchical": _hierarchical,
    "optimal_leaf": _optimal_leaf,
    "nearest": _nearest,
}


def baseline(name: str, X: Any, seed: int) -> np.ndarray:
    """The order of the rows of an array or a CSR matrix by one of :data:`BASELINES`."""
    n = X.shape[0]
    if name != "pca" and n > _MOST:
        raise ValueError(
            f"method={name!r} compares all rows with each other: {n} rows are more than {_MOST}; "
            "take method='tsp' or 'pca'"
        )
    if n < 3:
        return np.arange(n)
    return BASELINES[name](X.astype(np.float64), seed)
