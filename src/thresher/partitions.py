r"""How well two partitions of the same rows agree, and how well one fits its rows.

With :math:`n_{ij}` the mass of the rows in class i and cluster j, and its sums
:math:`a_i`, :math:`b_j`, :math:`n`:

variation of information (Meila, 2007), in nats, 0 for equal partitions
    :math:`H(a) + H(b) - 2 I(a, b)`
Rand index (1971), the share of pairs that both put together or both keep apart
    of all pairs of rows
adjusted Rand index (Hubert and Arabie, 1985)
    the same less its mean over random partitions of these sizes, 1 for equal partitions
silhouette (Rousseeuw, 1987), between -1 and 1
    the mean of (b - a) / max(a, b): a is the mean distance to the other rows of the own cluster,
    b the least mean distance to those of another one
balanced line fit (Alzate and Suykens, 2010), between 0 and 1
    how close the projections of each cluster come to a line through zero, and how equal the
    clusters are in size
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._random import generator

__all__ = ["agreement", "balanced_line_fit", "contingency", "silhouette"]

_BLOCK = 1 << 22  # distances held at a time


def contingency(classes: np.ndarray, clusters: np.ndarray, weight: Any = None) -> np.ndarray:
    """(classes, clusters): masses of the rows in both.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.partitions import contingency
    >>> contingency(np.array(["a", "a", "b"]), np.array([1, 0, 1])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    rows, columns = (np.unique(labels, return_inverse=True) for labels in (classes, clusters))
    table = np.zeros((rows[0].size, columns[0].size))
    np.add.at(table, (rows[1], columns[1]), 1.0 if weight is None else weight)
    return table


def agreement(table: np.ndarray) -> dict[str, float]:
    """Variation of information ("vi"), Rand index ("rand") and adjusted Rand index ("ari").

    Parameters
    ----------
    table : array of shape (classes, clusters)
        Numbers of rows, or their masses, in both; see :func:`contingency`.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.partitions import agreement
    >>> agreement(np.array([[3.0, 0.0], [0.0, 2.0]]))
    {'vi': 0.0, 'rand': 1.0, 'ari': 1.0}
    """
    total = float(table.sum())
    classes, clusters = table.sum(axis=1), table.sum(axis=0)
    joint = _entropy(table, total)
    vi = 2.0 * joint - _entropy(classes, total) - _entropy(clusters, total)
    pairs, both = _pairs(np.array([total])), _pairs(table)
    of_classes, of_clusters = _pairs(classes), _pairs(clusters)
    apart = pairs - of_classes - of_clusters + 2.0 * both
    rand = apart / pairs if pairs > 0.0 else 1.0
    expected = of_classes * of_clusters / pairs if pairs > 0.0 else 0.0
    room = 0.5 * (of_classes + of_clusters) - expected
    ari = (both - expected) / room if room > 0.0 else 1.0
    return {"vi": max(vi, 0.0), "rand": rand, "ari": ari}


def _entropy(masses: np.ndarray, total: float) -> float:
    shares = masses[masses > 0.0] / total
    return -float(np.sum(shares * np.log(shares)))


def _pairs(masses: np.ndarray) -> float:
    return float(np.sum(masses * (masses - 1.0))) / 2.0


def balanced_line_fit(projections: np.ndarray, clusters: np.ndarray, share: float = 0.75) -> float:
    r"""How well clusters of projections fit lines through zero, as those of kernel spectral
    clustering do where they are clear.

    .. math:: s\, \operatorname{mean}_c \frac{D}{D-1} \Bigl(\frac{\zeta_{c1}}{\sum_l \zeta_{cl}}
              - \frac1D\Bigr) + (1 - s) \frac{\min_c N_c}{\max_c N_c}

    with :math:`\zeta_c` the eigenvalues of the second moments of the cluster's rows, in decreasing
    order.

    Parameters
    ----------
    projections : array of shape (rows, D), D of at least 2
    clusters : array of int
    share : float, default=0.75
        Weight of the fit; the rest is that of the balance.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.partitions import balanced_line_fit
    >>> e = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> balanced_line_fit(e, np.array([0, 0, 1, 1]))
    1.0
    >>> round(balanced_line_fit(e, np.array([0, 1, 0, 1])), 2)
    0.39
    """
    D, fits, sizes = projections.shape[1], [], []
    different = np.unique(clusters)
    if different.size < 2:
        return 0.0
    if D < 2:
        raise ValueError(f"lines need projections of at least 2 columns, got {D}")
    for c in different:
        rows = projections[clusters == c]
        values = np.linalg.eigvalsh(rows.T @ rows)
        ratio = values[-1] / max(float(values.sum()), 1e-300)
        fits.append(D / (D - 1) * (ratio - 1.0 / D))
        sizes.append(rows.shape[0])
    return share * float(np.mean(fits)) + (1.0 - share) * min(sizes) / max(sizes)


def silhouette(X: Any, clusters: np.ndarray, most: int = 2000, seed: int = 0) -> float | None:
    """Mean silhouette of at most ``most`` rows, drawn at random; None with one cluster among them.

    Parameters
    ----------
    X : array or sparse matrix of shape (rows, features)
    clusters : array of int
    most : int, default=2000
        Time and memory grow with its square.
    seed : int, default=0

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.partitions import silhouette
    >>> silhouette(np.array([[0.0], [0.0], [2.0], [2.0]]), np.array([0, 0, 1, 1]))
    1.0
    """
    if X.shape[0] > most:
        chosen = np.sort(generator(seed, 41).choice(X.shape[0], most, replace=False))
        X, clusters = X[chosen], clusters[chosen]
    labels = np.unique(clusters, return_inverse=True)[1]
    n, k = labels.size, int(labels.max()) + 1
    if k < 2:
        return None
    members = np.zeros((n, k))
    members[np.arange(n), labels] = 1.0
    rows = X.astype(np.float64)
    rows = rows if hasattr(X, "indptr") else rows - rows.mean(axis=0)
    sizes, total, block = members.sum(axis=0), 0.0, max(1, _BLOCK // n)
    for a in range(0, n, block):
        part = slice(a, min(a + block, n))
        away = _distances(rows, part) @ members
        total += float(_widths(away, labels[part], sizes).sum())
    return total / n


def _widths(away: np.ndarray, labels: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Of rows whose distances to the members of each cluster add up to ``away``."""
    mine = np.arange(labels.size)
    own = away[mine, labels] / np.maximum(sizes[labels] - 1.0, 1.0)
    others = away / sizes
    others[mine, labels] = np.inf
    nearest = others.min(axis=1)
    width = (nearest - own) / np.maximum(np.maximum(nearest, own), 1e-300)
    return np.where(sizes[labels] > 1.0, width, 0.0)


def _distances(rows: Any, part: slice) -> np.ndarray:
    """From some rows to all; a row's to itself is zero, whatever rounding makes of it."""
    sparse = hasattr(rows, "indptr")
    inner = rows[part] @ rows.T
    inner = inner.toarray() if sparse else inner
    squares = np.asarray((rows.multiply(rows) if sparse else rows * rows).sum(axis=1)).ravel()
    out = np.sqrt(np.maximum(squares[part, None] + squares - 2.0 * inner, 0.0))
    out[np.arange(out.shape[0]), np.arange(part.start, part.stop)] = 0.0
    return out
