r"""Exact copies: the same kernel with its objects in another order, found without a search.

Where KP = PL for a doubly stochastic P, the sums of similarities k = K1 and l = L1 are
:math:`k = Pl` and :math:`l = P'k`, averages of each other: so P has entries only where
:math:`k_i = l_j`.  If no two sums are equal, one permutation is left.  Both sets are put in the
order of their sums, and every entry is compared; where all agree up to rounding the objective of
the convex problem is zero there and nowhere else, whatever the penalty.  Where one differs nothing
is said, and the solver has its turn.  O(m^2).
"""

from __future__ import annotations

import numpy as np

__all__ = ["matched_copies"]

_ROUNDINGS = 1000.0  # how far apart equal numbers may be, in units of the precision


def matched_copies(K: np.ndarray, L: np.ndarray) -> np.ndarray | None:
    """For each row of K its row of L if the kernels are copies without symmetries, else None."""
    if K.shape != L.shape:
        return None
    sums = [A.sum(axis=1, dtype=np.float64) for A in (K, L)]
    rows, partners = (np.argsort(s, kind="stable") for s in sums)
    rounding = _ROUNDINGS * float(np.finfo(K.dtype).eps)
    apart = np.diff(sums[0][rows])
    if np.any(apart <= rounding * float(np.abs(K).sum(axis=1).max(initial=0.0))):
        return None
    most = rounding * float(np.abs(K).max(initial=0.0))
    for some in (1, len(K)):  # most kernels differ in the first row already
        ours, theirs = K[np.ix_(rows[:some], rows)], L[np.ix_(partners[:some], partners)]
        if not np.allclose(ours, theirs, rtol=0.0, atol=most):
            return None
    match = np.empty(len(K), dtype=np.intp)
    match[rows] = partners
    return match
