"""Penalties that are a sum over groups of coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from thresher.penalties.base import GroupPenalty, check_strength

__all__ = ["GroupL2"]


@dataclass(frozen=True, eq=False)
class GroupL2(GroupPenalty):
    """The group lasso: strength sum_g sqrt(size of g) ||w_g||_2; whole groups become zero.

    Its proximal map shortens the weights of a group together, v (1 - step weight_g / ||v||)_+.

    Parameters
    ----------
    groups : array of shape (n_features,)
        A label for each feature: those with the same label are one group.
    strength : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import GroupL2, evaluate
    >>> penalty = GroupL2(["age", "town", "town", "town"], 0.5)
    >>> penalty.pointers.tolist()
    [0, 1, 4]
    >>> w = np.array([3.0, 2.0, -2.0, 1.0])
    >>> bool(abs(evaluate(penalty, w) - 0.5 * (3.0 + 3.0 * np.sqrt(3.0))) < 1e-12)
    True
    """

    groups: np.ndarray
    strength: float = 1.0

    def __post_init__(self):
        check_strength(self)
        self._lay_out()

    def weight(self, group):
        # By the number of features: a block may hold several outputs of each.
        return self.strength * math.sqrt(self.pointers[group + 1] - self.pointers[group])

    def value_block(self, w, group):
        return self.weight(group) * _norm(w)

    def prox_block(self, v, step, group, out):
        norm, pull = _norm(v), step * self.weight(group)
        factor = 1.0 - pull / norm if norm > pull else 0.0
        for k in range(v.size):
            out[k] = factor * v[k]


@njit(cache=True, nogil=True)
def _norm(w):
    total = 0.0
    for k in range(w.size):
        total += w[k] * w[k]
    return math.sqrt(total)
