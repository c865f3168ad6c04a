r"""Least squares of many tasks by the sums that all of them share.

With targets for every task in every row, all that is asked of the rows is, around their means,

.. math:: S = \sum_i s_i x_i x_i', \qquad C = \sum_i s_i x_i y_i', \qquad
          \sum_i s_i \tfrac12\|y_i\|^2,

taken by matrix products.  The gradient at W is S W - C, and sweeps over the features
(``_task_descent.py``) see no row.  Of S only the lines of features that have had weights are ever
asked for, and kept: the others of a working set are known among each other, which is enough for
sweeps over them, and costs as many products as they are, not as there are features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from thresher.solvers._task_descent import descend_by_matrix

__all__ = ["Gram", "gram_of"]

_SEEN = 500  # rows
_FAR = 1e3  # squared mean over variance: three of sixteen digits
_SEVERAL = 4  # a larger share of newcomers than one in so many gets lines before their sweeps


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
        gram = self
        if _SEVERAL * int(np.count_nonzero(self._places[chosen] < 0)) > W.shape[0]:
            gram = self.joined(chosen)  # most of these lines will be asked for
        weights, gradient = W[chosen], self.gradient[chosen]
        descend_by_matrix(
            gram.among(chosen), gradient, rows[chosen], entries[chosen], ridge, weights, *ends
        )
        W[chosen] = weights
        gram = gram.joined(chosen[np.any(weights != 0.0, axis=1)])
        return gram._replace(gradient=gram.S.T @ W[gram.members] - self.C)

    @property
    def _places(self) -> np.ndarray:
        """Of each feature among the members; -1: it is none."""
        places = np.full(self.C.shape[0], -1)
        places[self.members] = np.arange(self.members.size)
        return places

    def among(self, chosen: np.ndarray) -> np.ndarray:
        """S of the chosen features alone, whose lines need not be known."""
        places = self._places[chosen]
        known, new = places >= 0, np.flatnonzero(places < 0)
        if not new.size:
            lines = self.S[places]
            return lines if chosen.size == lines.shape[1] else np.take(lines, chosen, axis=1)
        S = np.empty((chosen.size, chosen.size))
        lines = np.take(self.S[places[known]], chosen, axis=1)
        S[known] = lines
        S[:, known] = lines.T
        fresh = chosen[new]
        S[np.ix_(new, new)] = self._lines(fresh, fresh)
        return S

    def joined(self, chosen: np.ndarray) -> Gram:
        """With the lines of these features, too."""
        known = np.zeros(self.C.shape[0], bool)
        known[self.members] = True
        new = chosen[~known[chosen]]
        if not new.size:
            return self
        if 4 * self.members.size > known.size:  # else the copy of the others would cost more
            rest = np.flatnonzero(~known)
            lines = np.empty((new.size, known.size))
            lines[:, self.members] = self.S[:, new].T
            lines[:, rest] = self._lines(new, rest)
        else:
            lines = self._lines(new, None)
        members = np.concatenate([self.members, new])
        return self._replace(members=members, S=np.concatenate([self.S, lines]))

    def _lines(self, new: np.ndarray, rest: np.ndarray | None) -> np.ndarray:
        """Of S: of these features, where they meet those of ``rest``, or all."""
        part = _columns(self.X, new)
        others = self.X if rest is None else part if rest is new else _columns(self.X, rest)
        if issparse(self.X):
            lines = (part.multiply(self.scale[:, None]).T @ others).toarray()
        else:
            lines = (part * self.scale[:, None]).T @ others
        if np.any(self.left):
            left = self.left if rest is None else self.left[rest]
            lines -= float(self.scale.sum()) * np.outer(self.left[new], left)
        return np.asarray(lines)


def _columns(X: Any, features: np.ndarray) -> Any:
    return X[:, features] if issparse(X) else np.take(X, features, axis=1)


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
