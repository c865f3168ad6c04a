r"""Which features a kernel should look at: weights from the slopes of a pilot machine.

A kernel of distances takes all features for equally important, and suffers from those that say
nothing.  How much the scores f_c of a machine change along a feature tells how much it matters:
with the features in the units u = w x,

.. math:: w_j \leftarrow w_j \sqrt{s_j}, \qquad
          s_j^2 = \sum_i \sum_c \Bigl(\frac{\partial f_c}{\partial u_j}(u_i)\Bigr)^2.

The machine, ridge regression on the Nystroem features of a few landmarks, is fitted anew in the new
units, and so on for as long as its error falls on rows kept away from it; so the weights stay at
one where they are of no use.  Without the root this is the diagonal recursive feature machine of
Radhakrishnan, Beaglehole, Pandit and Belkin (2024); with it the last steps are finer.  Cost of a
round: O(rows points (points + d outputs)), all in BLAS and in float32.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from thresher._random import generator
from thresher.kernels import RBF
from thresher.kernels.gram import Points
from thresher.maps.pilot import pilot_features, targets_of

__all__ = ["MOST_FEATURES", "relevance", "slopes"]

_ROWS, _CELLS = 20_000, 40_000_000  # of the sample, at most: 160 MB
_POINTS, _ROUNDS = 400, 8
_ROWS_PER_POINT = 16
_FEWEST = 40  # rows, below which slopes are noise
_SLOPE_ROWS = 4000
_RIDGE = 1e-6  # for each row; the few points are penalty enough
_LEAST = 1e-3  # weight: a feature may come back
MOST_FEATURES = 10_000


def relevance(
    X: Any, y: np.ndarray, seed: int = 0, *, rows: np.ndarray | None = None,
    convert: Callable[[Any], Any] | None = None,
) -> np.ndarray:  # fmt: skip
    """A weight for every feature, with mean square one.

    Targets of an integer type are classes, others are to be predicted.  ``rows``: those that count,
    None for all.  Features should be of the same scale: ``convert`` sees to that, for the rows of a
    sample only.
    """
    d = X.shape[1]
    rows = np.arange(X.shape[0]) if rows is None else rows
    if d > MOST_FEATURES:
        raise ValueError(f"relevance is for at most {MOST_FEATURES} features, but there are {d}")
    weights = np.ones(d)
    if rows.size < _FEWEST:
        return weights
    rows = rows[generator(seed, 23).permutation(rows.size)[: min(_ROWS, _CELLS // d)]]
    U = _dense(X[rows] if convert is None else convert(X[rows]))
    return _FOUND.get(U, targets_of(y[rows])[0].astype(np.float32))


def _learned(U: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The weights, from a sample."""
    weights = np.ones(U.shape[1])
    spread = float(U.var(axis=0, dtype=np.float64).sum())
    if spread == 0.0 or np.ptp(targets) == 0.0:
        return weights
    gamma, best, found = 0.5 / spread, np.inf, weights
    for _ in range(_ROUNDS):
        V = U * weights.astype(np.float32)
        pilot = min((_fitted(V, targets, gamma * k) for k in (1, 2, 4)), key=lambda p: p.error)
        if not pilot.error < best:
            break
        best, found, gamma = pilot.error, weights, pilot.kernel.gamma / 2
        weights = weights * np.sqrt(slopes(V[:_SLOPE_ROWS], *pilot[1:]))
        weights = np.maximum(weights / np.sqrt(np.mean(weights**2)), _LEAST)
    return found / np.sqrt(np.mean(found**2))


class _Found:
    """Weights by the digest of their sample: a search fits the same rows with many settings."""

    def __init__(self, most: int):
        self._most, self._lock = most, threading.Lock()
        self._known: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def get(self, U: np.ndarray, targets: np.ndarray) -> np.ndarray:
        digest = hashlib.blake2b(repr((U.shape, targets.shape)).encode())
        digest.update(U.data)
        digest.update(np.ascontiguousarray(targets).data)
        key = digest.digest()
        with self._lock:
            if key in self._known:
                return self._known[key].copy()
        weights = _learned(U, targets)
        with self._lock:
            self._known[key] = weights.copy()
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return weights


_FOUND = _Found(most=32)


def _dense(X: Any) -> np.ndarray:
    return np.ascontiguousarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float32)


class _Pilot(NamedTuple):
    """f_c(u) = sum_j beta_jc k(u, z_j), but for a constant; the error is that of unseen rows."""

    error: float
    kernel: RBF
    points: np.ndarray
    beta: np.ndarray


def _fitted(V: np.ndarray, targets: np.ndarray, gamma: float) -> _Pilot:
    """On the first three quarters of the rows, judged on the last."""
    n = V.shape[0]
    kernel, points, seen = RBF(gamma), V[: min(_POINTS, n // _ROWS_PER_POINT)], n - n // 4
    phi, projection = pilot_features(Points(kernel, points, V.dtype), V)
    G = (phi[:seen].T @ phi[:seen]).astype(np.float64)
    G[np.diag_indices_from(G)] += _RIDGE * seen
    weights = _solved(G, (phi[:seen].T @ targets[:seen]).astype(np.float64))
    error = float(np.mean((phi[seen:] @ weights.astype(V.dtype) - targets[seen:]) ** 2))
    error = error if np.isfinite(error) else np.inf
    return _Pilot(error, kernel, points, projection @ weights[:-1])


def _solved(G: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution of G w = b; NaN where rounding has left G indefinite."""
    try:
        return cho_solve(cho_factor(G, check_finite=False), b, check_finite=False)
    except LinAlgError:
        return np.full_like(b, np.nan)


def slopes(V: np.ndarray, kernel: RBF, points: np.ndarray, beta: np.ndarray) -> np.ndarray:
    r"""Root mean square of the derivative along every feature, summed over the outputs.

    .. math:: \nabla f(u) = -2\gamma \sum_j \beta_j k(u, z_j) (u - z_j)
    """
    K = Points(kernel, points, V.dtype)(V)
    total = np.zeros(V.shape[1])
    for column in beta.T.astype(V.dtype):
        part = K * column
        gradient = V * part.sum(axis=1)[:, None] - part @ points
        total += np.einsum("ij,ij->j", gradient, gradient, dtype=np.float64)
    return 2.0 * kernel.gamma * np.sqrt(total / V.shape[0])
