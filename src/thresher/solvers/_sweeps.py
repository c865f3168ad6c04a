"""Sweeps of coordinate descent: how many at the most, whom the next one visits, when they end.

A sweep visits coordinates, or groups of them, one after the other.  It has *settled* when its
largest move is a small share of the way that was come since the start, both squared and weighed by
curvatures.  The first sweep visits everyone; then those at zero rest until the others have settled,
and the end is when a sweep over everyone settles.
"""

from __future__ import annotations

from numba import njit

__all__ = ["SWEEPS", "after_sweep", "sweeps_of"]

SWEEPS, _FEW = 200, 10


def sweeps_of(rough: bool) -> int:
    """A few are enough (``rough``) while the working set still grows."""
    return _FEW if rough else SWEEPS


@njit(cache=True, nogil=True)
def after_sweep(settled, everyone):
    """Of a sweep over ``everyone``, or of those awake: was it the last, does the next visit all."""
    return settled and everyone, settled
