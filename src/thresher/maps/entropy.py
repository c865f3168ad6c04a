r"""Subsets of large quadratic Renyi entropy, by swaps that cost one row of kernel values each.

.. math:: H(S) = -\log \frac{1}{m^2} \sum_{i,j \in S} k(x_i, x_j)

Points that lie close to each other make the sum large, so the subset spreads over the data
(Girolami, 2002; De Brabanter et al., 2010; "FindActiveSet" of Jumutc's thesis).  For a candidate c
with kernel row :math:`t_j = k(c, x_j)` the sum changes, when c replaces member r, by

.. math:: -2 s_r + k_{rr} + 2 (\sum_j t_j - t_r) + k_{cc},

:math:`s_r` the kept row sums of the subset.  As published, the search starts at random rows and
swaps a random member for a random outsider where that raises H, a limited number of times: the
entropy of *any* m rows is largest among outliers, which are far from each other and from all that
is to be learned, and a search without a budget ends there.  Candidates come in blocks, whose kernel
values are two matrix products; a swap within the block moves one column between them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from thresher._random import generator
from thresher.kernels import Kernel
from thresher.kernels.gram import gram, self_values
from thresher.kernels.matrices import stack

__all__ = ["CHANCES", "EntropySample", "entropy"]

_BLOCK = 512
#: swaps that are tried for each member: it is then the best of some six rows, not of all of them
CHANCES = 5


class EntropySample:
    """A subset of rows that is kept diverse as rows come by, once or several times.

    A row replaces that member whose going raises the entropy most, O(m) for all members at once; so
    all rows that come by lead among outliers.

    Parameters
    ----------
    kernel : Kernel
        Says which rows are close to each other.
    size : int
        Rows to hold, ``points``.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.maps import EntropySample
    >>> crowd, apart = np.zeros((50, 1)), np.array([[5.0], [-5.0]])
    >>> sample = EntropySample(RBF(), size=3).update(np.vstack([crowd, apart]))
    >>> sorted(sample.points[:, 0].tolist()), sample.swaps
    ([-5.0, 0.0, 5.0], 2)
    """

    def __init__(self, kernel: Kernel, size: int):
        self.kernel, self.size = kernel, size
        self.points: Any = None
        self.swaps = 0
        self._K = np.zeros((0, 0))
        self._sums = np.zeros(0)
        self._total = 0.0

    @property
    def entropy(self) -> float:
        """H of the points held."""
        m = self._sums.size
        return -math.log(max(self._total, 1e-300) / (m * m)) if m else -math.inf

    def update(self, X: Any) -> EntropySample:
        """Offer the rows of X; the first ``size`` rows ever seen are taken unseen."""
        held = 0 if self.points is None else self.points.shape[0]
        taken = min(self.size - held, X.shape[0])
        if taken:
            self._fill(X[:taken])
        for start in range(taken, X.shape[0], _BLOCK):
            block = X[start : start + _BLOCK]
            self._offer(block, np.full(block.shape[0], -1))
        return self

    def try_for(self, X: Any, members: np.ndarray) -> EntropySample:
        """Offer row i of X in place of member ``members[i]`` alone."""
        for start in range(0, X.shape[0], _BLOCK):
            self._offer(X[start : start + _BLOCK], members[start : start + _BLOCK])
        return self

    def _fill(self, X: Any) -> None:
        self.points = X if self.points is None else stack(self.points, X)
        self._K = gram(self.kernel, self.points.astype(np.float64))
        self._sums = self._K.sum(axis=1)
        self._total = float(self._sums.sum())

    def _offer(self, X: Any, places: np.ndarray) -> None:
        """Each row in turn, for the member at its place; -1: for the best one."""
        wide = X.astype(np.float64)
        members = np.arange(self.size)
        self._total, swaps = _swap(
            self._K, self._sums, self._total,
            gram(self.kernel, wide, self.points.astype(np.float64)), gram(self.kernel, wide),
            self_values(self.kernel, wide), places, members,
        )  # fmt: skip
        if swaps:
            self.swaps += swaps
            self.points = stack(self.points, X)[members]


def entropy(kernel: Kernel, X: Any, m: int, seed: int = 0, tries: int | None = None) -> Any:
    """m rows of X: random ones, and ``tries`` random swaps (None: five for each member)."""
    rng = generator(seed, 16)
    order = rng.permutation(X.shape[0])
    sample = EntropySample(kernel, m).update(X[order[:m]])
    outsiders = order[m:]
    if outsiders.size:
        tries = CHANCES * m if tries is None else tries
        # Every outsider once, before any is offered again.
        offered = np.resize(outsiders, tries)
        sample.try_for(X[offered], rng.integers(m, size=tries))
    return sample.points


@njit(cache=True, nogil=True)
def _swap(K, sums, total, cross, among, own, places, members):
    """Offer each candidate in turn; ``members[r]`` becomes m + c where candidate c is taken.

    A candidate may take the place ``places[c]``, or any if that is -1.
    """
    m = sums.size
    swaps = 0
    for c in range(own.size):
        line = cross[c]
        row, nearest = 0.0, math.inf
        for j in range(m):
            row += line[j]
            nearest = min(nearest, own[c] + K[j, j] - 2.0 * line[j])
        if nearest <= 1e-10 * abs(own[c]):  # a member already: twice in, it would add nothing
            continue
        best, change = -1, -1e-12 * total
        first, last = (0, m) if places[c] < 0 else (places[c], places[c] + 1)
        for r in range(first, last):
            new = -2.0 * sums[r] + K[r, r] + 2.0 * (row - line[r]) + own[c]
            if new < change:
                best, change = r, new
        if best < 0:
            continue
        for j in range(m):
            sums[j] += line[j] - K[j, best]
        sums[best] = row - line[best] + own[c]
        for j in range(m):
            K[best, j] = line[j]
            K[j, best] = line[j]
        K[best, best] = own[c]
        for later in range(c + 1, own.size):
            cross[later, best] = among[later, c]
        total += change
        members[best] = m + c
        swaps += 1
    return total, swaps
