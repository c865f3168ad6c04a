r"""Least squares of many tasks by the sums that all of them share.

With targets for every task in every row, and no more features than twice the rows, all that is
asked of the rows is, around their means,

.. math:: S = \sum_i s_i x_i x_i', \qquad C = \sum_i s_i x_i y_i', \qquad
          \sum_i s_i \tfrac12\|y_i\|^2,

taken once, by matrix products.  The gradient at W is S W - C, and sweeps over the features
(``_task_descent.py``) never see a row again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from thresher.solvers._task_descent import descend_by_matrix

__all__ = ["Gram", "gram_of"]


class Gram(NamedTuple):
    """The sums, and the gradient at some weights.

    Parameters
    ----------
    S : array of shape (features, features)
    C : array of shape (features, tasks)
    half : float
        Half the sum of the squared targets.
    gradient : array of shape (features, tasks)
    features, targets : arrays
        The means; zero without an intercept.
    """

    S: np.ndarray
    C: np.ndarray
    half: float
    gradient: np.ndarray
    features: np.ndarray
    targets: np.ndarray

    def loss(self, W: np.ndarray) -> float:
        """Where ``gradient`` is that at W."""
        return self.half + 0.5 * float(np.sum(W * (self.gradient - self.C)))

    def bias(self, W: np.ndarray) -> np.ndarray:
        return self.targets - self.features @ W

    def descended(self, W: np.ndarray, bound: Any, ends: Any) -> Gram:
        """With the gradient after sweeps over the rows of W, which move."""
        gradient = self.gradient.copy()
        rest = (*bound, W, *ends)
        descend_by_matrix(self.S, gradient, *rest)
        return self._replace(gradient=gradient)


def gram_of(X: Any, Y: np.ndarray, scale: np.ndarray, centre: bool) -> Gram:
    """Of an array or a CSC matrix, with weights of the rows."""
    total = float(scale.sum())
    features, targets = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if centre:
        features, targets = np.asarray(scale @ X) / total, scale @ Y / total
    root = np.sqrt(scale)[:, None]
    Y = (Y - targets) * root
    if issparse(X):
        weighted = X.multiply(root).tocsc()
        S = (weighted.T @ weighted).toarray() - total * np.outer(features, features)
        C = np.asarray(weighted.T @ Y)  # of centred targets: the means of features drop out
    else:
        Z = X - features
        Z *= root
        S, C = Z.T @ Z, Z.T @ Y
    C = np.ascontiguousarray(C)
    half = 0.5 * float(np.sum(Y * Y))
    return Gram(np.ascontiguousarray(S), C, half, -C, features, targets)
