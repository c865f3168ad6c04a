"""Graphs of nearest neighbours, and what functions on them cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.neighbors import kneighbors_graph

__all__ = ["neighbour_laplacian"]


def neighbour_laplacian(X: Any, count: int) -> csr_array:
    r"""L with :math:`f'Lf` the mean of :math:`(f_i - f_j)^2` over neighbours i and j, halved.

    Rows are neighbours if one is among the ``count`` nearest of the other.

    Parameters
    ----------
    X : float array or SciPy CSR container of shape (n, n_features)
    count : int
        Neighbours of a row; n - 1 at most.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.estimators.neighbours import neighbour_laplacian
    >>> L = neighbour_laplacian(np.array([[0.0], [1.0], [5.0]]), 1)
    >>> (4 * L.toarray()).tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    """
    graph = csr_array(kneighbors_graph(X, min(count, X.shape[0] - 1), mode="connectivity"))
    graph = graph.maximum(graph.T).astype(np.float64)
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    return csr_array((diags_array(degrees) - graph) / degrees.sum())
