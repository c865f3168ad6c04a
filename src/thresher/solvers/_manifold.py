r"""Units of a penalty, what a gradient wants of them, and the distance from an optimum.

A *unit* is what becomes zero as a whole: a coordinate, or a group of them.  All that is asked of
the penalty is its proximal map.  With a step s,

.. math:: r = \bigl(w - \operatorname{prox}_{s\psi}(w - s\,g)\bigr) / s

is for units at zero the part of the gradient that the penalty does not hold,
:math:`\operatorname{sgn}(g)\max(|g| - \lambda, 0)` for l1, and as s goes to zero it is for all
units the subgradient of least norm.  The optimality measure is its root mean square over all
coordinates and the intercept, :math:`\delta = \|r\| / \sqrt n` (S. Lee's thesis, eq. 2.45).

Where groups share features, the coordinates are the *copies* of the features, group after group,
and the problem is that of the copies (:func:`of_copies`): no row is copied for it.

Of many tasks weights and gradients are tables (features, tasks); a unit is then a feature with its
weights in all tasks, whatever the penalty, and delta is taken over all entries and intercepts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.penalties import Penalty
from thresher.penalties.blocks import GroupPenalty
from thresher.solvers.base import Problem

__all__ = ["Units", "distance", "of_copies", "proximal_point", "strongest", "tempted"]

_SHORT = 1e-6  # of max |w| / max |g|: between what rounding and what curvature take away;
# at zero nothing is rounded, and a step is as short as one likes


class Units(NamedTuple):
    """Which coordinates become zero together.

    Parameters
    ----------
    order : array of int
        Coordinates, those of a unit side by side.
    pointers : array of int
        Unit u has ``order[pointers[u]:pointers[u + 1]]``.
    grouped : bool, default=False
        The penalty has terms of groups, if only of one coordinate each.
    members : array of int or None, default=None
        Where groups share features: the feature that each coordinate is a copy of.
    """

    order: np.ndarray
    pointers: np.ndarray
    grouped: bool = False
    members: np.ndarray | None = None

    @classmethod
    def of(cls, penalty: Penalty, features: int) -> Units:
        if not isinstance(penalty, GroupPenalty):
            return cls(np.arange(features), np.arange(features + 1))
        members = penalty.order if penalty.overlaps else None
        return cls(penalty.latent.order, penalty.pointers, True, members)

    @property
    def are_single(self) -> bool:
        return self.order.size == self.pointers.size - 1

    def summed(self, w: np.ndarray) -> np.ndarray:
        """Weights of features, for those of coordinates."""
        return w if self.members is None else np.bincount(self.members, w)

    def with_any(self, marked: Any) -> np.ndarray:
        """Units with a marked coordinate, as a mask."""
        if marked.ndim == 2:
            marked = np.any(marked, axis=1)
        if not self.grouped:
            return marked
        if self.are_single and self.order.size:
            return marked[self.order]
        return np.logical_or.reduceat(marked[self.order], self.pointers[:-1])

    def coordinates(self, units: np.ndarray) -> np.ndarray:
        """The coordinates of some units, given by their numbers, unit by unit."""
        if not self.grouped:
            return units
        if self.are_single:
            return self.order[units]
        parts = [self.order[self.pointers[u] : self.pointers[u + 1]] for u in units]
        return np.concatenate(parts) if parts else np.zeros(0, self.order.dtype)

    def starts(self, units: np.ndarray) -> np.ndarray:
        """Where each of some units begins among their :meth:`coordinates`, and where all end."""
        return np.concatenate([[0], np.cumsum(np.diff(self.pointers)[units])])


def of_copies(problem: Problem) -> Problem:
    """The same problem with the copies of features as coordinates, where groups share them."""
    penalty = problem.penalty
    if not (isinstance(penalty, GroupPenalty) and penalty.overlaps):
        return problem
    return replace(problem, penalty=penalty.latent, n_features=penalty.order.size)


@njit(cache=True, nogil=True)
def _map_coordinates(penalty, w, gradient, step, out):
    for j in range(w.size):
        out[j] = penalty.prox(w[j] - step * gradient[j], step, j)


@njit(cache=True, nogil=True)
def _map_groups(penalty, w, gradient, step, out):
    block = np.empty(w.size)
    for group in range(penalty.pointers.size - 1):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        part = block[start:stop]
        for k in range(start, stop):
            j = penalty.order[k]
            part[k - start] = w[j] - step * gradient[j]
        penalty.prox_block(part, step, group, part)
        for k in range(start, stop):
            out[penalty.order[k]] = part[k - start]


def _map_rows(penalty: Penalty, W: np.ndarray, gradient: np.ndarray, step: float) -> np.ndarray:
    """Of many tasks: thresholds of entries, then of rows (features)."""
    levels = penalty.row_levels(W.shape[0])
    assert levels is not None
    moved = W - step * gradient
    left = np.maximum(np.abs(moved) - step * levels.entries[:, None], 0.0)
    norms, pulls = np.sqrt(np.einsum("jq,jq->j", left, left)), step * levels.rows
    factor = np.where(norms > pulls, 1.0 - pulls / np.maximum(norms, 1e-300), 0.0)
    return np.copysign(left, moved) * (factor / (1.0 + step * levels.ridge))[:, None]


def proximal_point(
    penalty: Penalty, w: np.ndarray, gradient: np.ndarray, step: float
) -> np.ndarray:
    """prox of the penalty at w - step gradient, all coordinates."""
    if w.ndim == 2:
        return _map_rows(penalty, w, gradient, step)
    out = np.empty_like(w)
    if "grouped" in penalty.traits:
        _map_groups(penalty, w, gradient, step, out)
    else:
        _map_coordinates(penalty, w, gradient, step, out)
    return out


def tempted(
    penalty: Penalty, units: Units, w: np.ndarray, gradient: np.ndarray, rho: float = 1.0
) -> np.ndarray:
    """Zero units that a gradient stronger by 1 / rho would move: for l1, |g_j| > rho lambda."""
    moved = proximal_point(penalty, np.zeros_like(w), gradient / rho, 1.0) != 0.0
    return units.with_any(moved) & ~units.with_any(w != 0.0)


def strongest(
    penalty: Penalty, units: Units, gradient: np.ndarray, candidates: np.ndarray, room: int
) -> np.ndarray:
    """Of zero units, given by their numbers, those that the gradient would move furthest."""
    if candidates.size <= room:
        return candidates
    if room <= 0:
        return candidates[:0]
    moves = np.abs(proximal_point(penalty, np.zeros_like(gradient), gradient, 1.0))
    if moves.ndim == 2:
        moves = moves.max(axis=1)
    pull = np.maximum.reduceat(moves[units.order], units.pointers[:-1])[candidates]
    return candidates[np.argpartition(pull, -room)[-room:]]


def distance(penalty: Penalty, w: np.ndarray, gradient: np.ndarray, slope: Any) -> float:
    """delta at w, for the gradient of the mean loss and its ``slope`` along the intercepts."""
    reach, force = float(np.max(np.abs(w), initial=0.0)), float(np.max(np.abs(gradient)))
    step = _SHORT * reach / force if reach > 0.0 and force > 0.0 else _SHORT**2
    least = (w - proximal_point(penalty, w, gradient, step)) / step
    squares = float(np.sum(least * least)) + float(np.sum(np.square(slope)))
    return math.sqrt(squares / (w.size + np.size(slope)))
