"""Groups that data of a kind bring with them: powers of a number, dummies of a category, graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["dummies", "edge_groups", "powers"]


def powers(X: Any, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Each column as a group of its powers 1 .. degree.

    Parameters
    ----------
    X : array of shape (rows, columns)
    degree : int
        The largest power.

    Returns
    -------
    features, groups
        An array of shape (rows, columns * degree), and the number of the column for each feature.

    Examples
    --------
    >>> from thresher.penalties import powers
    >>> features, groups = powers([[2.0, 3.0]], 3)
    >>> features.tolist(), groups.tolist()
    ([[2.0, 4.0, 8.0, 3.0, 9.0, 27.0]], [0, 0, 0, 1, 1, 1])
    """
    if degree < 1:
        raise ValueError(f"degree must be at least 1, got {degree}")
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}")
    features = X[:, :, None] ** np.arange(1, degree + 1)
    return features.reshape(X.shape[0], -1), np.repeat(np.arange(X.shape[1]), degree)


def dummies(*columns: Any) -> tuple[np.ndarray, np.ndarray]:
    """Each column of categories as a group of 0/1 features, one for each category.

    Tables need none of this: ``train`` and the command line make these features, and those of
    missing values, themselves, and ``groups="columns"`` knows them.

    Parameters
    ----------
    *columns : sequences of equal length

    Returns
    -------
    features, groups
        An array of shape (rows, all categories), and the number of the column for each feature.

    Examples
    --------
    >>> from thresher.penalties import dummies
    >>> features, groups = dummies(["a", "b", "a"], [7, 7, 9])
    >>> features.tolist(), groups.tolist()
    ([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 0.0, 1.0]], [0, 0, 1, 1])
    """
    if not columns:
        raise ValueError("dummies needs a column at least")
    parts = []
    for place, column in enumerate(columns):
        values, given = np.asarray(column), np.asarray(column, dtype=object)
        if values.ndim != 1 or len(values) != len(columns[0]):
            raise ValueError(
                f"column {place} of dummies has shape {values.shape}, not ({len(columns[0])},)"
            )
        lost = [row for row, v in enumerate(given.tolist()) if v is None or v != v]
        if lost:
            raise ValueError(f"column {place} of dummies has no category in row {lost[0]}")
        if values.dtype.kind == "O":
            values = values.astype(str)
        parts.append((values[:, None] == np.unique(values)).astype(np.float64))
    groups = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
    return np.hstack(parts), groups


def edge_groups(edges: Sequence[tuple[int, int]], n_features: int) -> list[list[int]]:
    """The groups of the graph lasso: the two ends of each edge; who has no edge is alone.

    For larger pieces of a graph give their features as lists.

    Parameters
    ----------
    edges : sequence of pairs of features
    n_features : int

    Examples
    --------
    >>> from thresher.penalties import GroupL2, edge_groups
    >>> edge_groups([(0, 1), (1, 2)], 4)
    [[0, 1], [1, 2], [3]]
    >>> GroupL2(edge_groups([(0, 1), (1, 2)], 4)).order.tolist()
    [0, 1, 1, 2, 3]
    """
    pairs = [sorted((int(a), int(b))) for a, b in edges]
    for a, b in pairs:
        if a == b or a < 0 or b >= n_features:
            raise ValueError(f"edge ({a}, {b}) does not join two of {n_features} features")
    joined = {j for pair in pairs for j in pair}
    return pairs + [[j] for j in range(n_features) if j not in joined]
