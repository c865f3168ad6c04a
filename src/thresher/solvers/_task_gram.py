r"""Least squares of many tasks by the sums that all of them share.

With targets for every task in every row, all that is asked of the rows is, around their means,

.. math:: S = \sum_i s_i x_i x_i', \qquad C = \sum_i s_i x_i y_i', \qquad
          \sum_i s_i \tfrac12\|y_i\|^2,

taken by matrix products.  The gradient at W is S W - C, and sweeps over the features
(``_task_descent.py``) see no row.  Of S only the lines of features that may have weights are ever
asked for: they are taken when a feature joins the working set, and kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from thresher.solvers._task_descent import descend_by_matrix

__all__ = ["Gram", "gram_of"]

_SEEN = 500  # rows
_FAR = 1e3  # squared mean over variance: three of sixteen digits


class Gram(NamedTuple):
    """The sums, and the gradient at some weights.

    Parameters
    ----------
    X : array, or CSC matrix
        The rows; an array whose features lie far from zero is around their means.
    scale : array of shape (rows,)
        Their weights.
    members : array of int
        The features whose lines of S are known, in the order of these.
    S : array of shape (members, features)
    C : array of shape (features, tasks)
    half : float
        Half the sum of the squared targets.
    gradient : array of shape (features, tasks)
    features, targets : arrays
        The means; zero without an intercept.
    left : array
        Of the features' means: what X still holds of them.
    """

    X: Any
    scale: np.ndarray
    members: np.ndarray
    S: np.ndarray
    C: np.ndarray
    half: float
    gradient: np.ndarray
    features: np.ndarray
    targets: np.ndarray
    left: np.ndarray

    def loss(self, W: np.ndarray) -> float:
        """Where ``gradient`` is that at W."""
        used = self.members
        return self.half + 0.5 * float(np.sum(W[used] * (self.gradient[used] - self.C[used])))

    def bias(self, W: np.ndarray) -> np.ndarray:
        return self.targets - self.features[self.members] @ W[self.members]

    def descended(self, W: np.ndarray, chosen: np.ndarray, bound: Any, ends: Any) -> Gram:
        """With the gradient after sweeps over the ``chosen`` rows of W, which move."""
        rows, entries, ridge = bound
        gram = self._joined(chosen)
        places = np.empty(W.shape[0], np.int64)
        places[gram.members] = np.arange(gram.members.size)
        S = gram.S if chosen.size == W.shape[0] else gram.S[:, chosen]
        weights, gradient = W[chosen], self.gradient[chosen]
        descend_by_matrix(
            np.ascontiguousarray(S[places[chosen]]), gradient, rows[chosen], entries[chosen], ridge,
            weights, *ends,
        )  # fmt: skip
        W[chosen] = weights
        return gram._replace(gradient=gram.S.T @ W[gram.members] - self.C)

    def _joined(self, chosen: np.ndarray) -> Gram:
        """With the lines of these features, too."""
        new = np.setdiff1d(chosen, self.members)
        if not new.size:
            return self
        lines = np.empty((new.size, self.X.shape[1]))
        rest: Any = slice(None)
        if 4 * self.members.size > self.X.shape[1]:  # else the copy of the others would cost more
            lines[:, self.members] = self.S[:, new].T
            rest = np.setdiff1d(np.arange(self.X.shape[1]), self.members)
        lines[:, rest] = self._lines(new, rest)
        members = np.concatenate([self.members, new])
        return self._replace(members=members, S=np.concatenate([self.S, lines]))

    def _lines(self, new: np.ndarray, rest: Any) -> np.ndarray:
        """Of S: of these features, where they meet those of ``rest``."""
        whole = isinstance(rest, slice)
        part, others = self.X[:, new], self.X if whole else self.X[:, rest]
        if issparse(self.X):
            lines = (part.multiply(self.scale[:, None]).T @ others).toarray()
        else:
            lines = (part * self.scale[:, None]).T @ others
        if np.any(self.left):
            lines -= float(self.scale.sum()) * np.outer(self.left[new], self.left[rest])
        return lines


def gram_of(X: Any, Y: np.ndarray, scale: np.ndarray, centre: bool) -> Gram:
    """Of an array or a CSC matrix, with weights of the rows; no feature is a member yet."""
    total, d = float(scale.sum()), X.shape[1]
    targets = scale @ Y / total if centre else np.zeros(Y.shape[1])
    Y = Y - targets
    weighted = Y * scale[:, None]
    # One look at the rows for their mean and C, from which it drops out: Y is around its own.
    sums = np.asarray(np.column_stack([scale, weighted]).T @ X)
    features = sums[0] / total if centre else np.zeros(d)
    left, C = features, np.ascontiguousarray(sums[1:].T)
    if centre and not issparse(X) and _is_far(X, features):
        X, left = X - features, np.zeros(d)
        C = np.ascontiguousarray((weighted.T @ X).T)
    half = 0.5 * float(np.sum(Y * weighted))
    none = np.empty(0, np.int64)
    return Gram(X, scale, none, np.empty((0, d)), C, half, -C, features, targets, left)


def _is_far(X: np.ndarray, means: np.ndarray) -> bool:
    """Whether a feature lies so far from zero that rounding would drown what is around its mean.

    By some of the rows: a copy of all takes longer than all that follows where rows abound.
    """
    some = X[:: max(1, X.shape[0] // _SEEN)]
    spread = np.mean((some - means) ** 2, axis=0)
    return bool(np.any(means**2 > _FAR * spread))
