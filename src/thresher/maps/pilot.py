r"""A small model fitted in no time, whose loss tells where landmarks are needed.

Features of ``_SIZE`` random landmarks on ``_ROWS`` random rows; ridge regression on -1/+1 targets
for every class against the rest, then one Newton step of the squared hinge loss from there (the
ridge regression repeated on the rows with margin below one).  Cost O(_ROWS _SIZE^2) per class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve

from thresher._random import generator
from thresher.kernels import Kernel
from thresher.kernels.gram import Points, gram
from thresher.maps.whitening import whitening

__all__ = ["pilot_features", "pilot_loss", "targets_of"]

_SIZE, _ROWS = 300, 6000


def pilot_loss(kernel: Kernel, X: Any, y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Loss of the pilot on every row of X, divided by its mean.

    Targets of an integer type are classes, with the hinge loss summed over one-vs-rest problems;
    float targets are to be predicted, with the absolute residual as the loss.
    """
    n = X.shape[0]
    rows = generator(seed, 17).permutation(n)[:_ROWS]
    against = Points(kernel, X[rows[: min(_SIZE, n)]], X.dtype)
    phi, projection = pilot_features(against, X[rows])
    targets, classes = targets_of(y)
    weights = _ridge(phi, targets[rows])
    if classes:
        for c in range(weights.shape[1]):
            near = targets[rows, c] * (phi @ weights[:, c]) < 1.0
            if np.count_nonzero(near) > 1:
                weights[:, c : c + 1] = _ridge(phi[near], targets[rows[near], c : c + 1])
    folded = projection @ weights[:-1]
    scores = against(X) @ folded.astype(X.dtype) + weights[-1]
    if classes:
        loss = np.maximum(0.0, 1.0 - targets * scores).sum(axis=1)
    else:
        loss = np.abs(targets - scores)[:, 0]
    return loss / max(float(loss.mean()), 1e-300)


def pilot_features(points: Points, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Whitened kernel values of the rows and a constant feature; and the projection that folds
    weights of the former into coefficients of the points."""
    basis = whitening(gram(points.kernel, points.Z.astype(np.float64)), 1e-6)
    phi = basis.astype(points.dtype).apply(points(X))
    return np.column_stack([phi, np.ones(X.shape[0], dtype=phi.dtype)]), basis.projection


def targets_of(y: np.ndarray) -> tuple[np.ndarray, bool]:
    """Columns of -1 / +1, one for two classes; or the standardised numbers themselves."""
    if y.dtype.kind == "f":
        return ((y - y.mean()) / max(float(y.std()), 1e-300))[:, None], False
    labels = np.unique(y)
    columns = labels[-1:] if labels.size == 2 else labels
    return np.where(y[:, None] == columns, 1.0, -1.0), True


def _ridge(phi: np.ndarray, targets: np.ndarray) -> np.ndarray:
    G = (phi.T @ phi).astype(np.float64)
    G[np.diag_indices_from(G)] += 1.0
    return solve(G, phi.T @ targets.astype(phi.dtype), assume_a="pos")
