"""A penalty of all weights at once: its value, and the manifold that they lie on."""

from __future__ import annotations

import numpy as np
from numba import njit

from thresher.penalties.base import Penalty
from thresher.penalties.blocks import GroupPenalty, split

__all__ = ["evaluate", "pattern_of"]


@njit(cache=True, nogil=True)
def _sum_of_coordinates(penalty, w):
    total = 0.0
    for j in range(w.size):
        total += penalty.value(w[j], j)
    return total


@njit(cache=True, nogil=True)
def _sum_of_groups(penalty, copies):
    total = 0.0
    for group in range(penalty.pointers.size - 1):
        part = copies[penalty.pointers[group] : penalty.pointers[group + 1]]
        total += penalty.value_block(part, group)
    return total


@njit(cache=True, nogil=True)
def _sum_of_shared(penalty, w):
    """Blocks of all outputs, one after the other."""
    total, outputs = 0.0, w.shape[0]
    for group in range(penalty.pointers.size - 1):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        block = np.empty(outputs * (stop - start))
        for c in range(outputs):
            for k in range(start, stop):
                block[c * (stop - start) + k - start] = w[c, penalty.order[k]]
        total += penalty.value_block(block, group)
    return total


def evaluate(penalty: Penalty, w: np.ndarray) -> float:
    """psi(w), whether the penalty is one over coordinates or over groups.

    Where groups share features it is the value of a split of w among them that is nearly the best.

    Parameters
    ----------
    penalty : Penalty
    w : array of shape (n_features,), or (n_outputs, n_features) if the penalty joins outputs

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, evaluate
    >>> evaluate(L1(0.5), np.array([3.0, -1.0]))
    2.0
    """
    if "grouped" not in penalty.traits:
        return float(_sum_of_coordinates(penalty, w))
    assert isinstance(penalty, GroupPenalty)
    if w.ndim == 2:
        return float(_sum_of_shared(penalty, np.ascontiguousarray(w, dtype=np.float64)))
    return float(_sum_of_groups(penalty, split(penalty, w)))


@njit(cache=True, nogil=True)
def _pattern_of_coordinates(penalty, w, out):
    for j in range(w.size):
        out[j] = penalty.pattern(w[j], j)


@njit(cache=True, nogil=True)
def _pattern_of_groups(penalty, copies, out):
    for group in range(out.size):
        part = copies[penalty.pointers[group] : penalty.pointers[group + 1]]
        out[group] = penalty.pattern_block(part, group)


def pattern_of(penalty: Penalty, w: np.ndarray) -> np.ndarray:
    """The manifold that w lies on: a small number for each coordinate, or for each group.

    Parameters
    ----------
    penalty : Penalty
    w : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, GroupL2, pattern_of
    >>> w = np.array([0.0, -2.0, 0.0, 0.5])
    >>> pattern_of(L1(), w).tolist(), pattern_of(GroupL2([0, 1, 0, 1]), w).tolist()
    ([0, -1, 0, 1], [0, 1])
    """
    if "grouped" not in penalty.traits:
        out = np.zeros(w.size, np.int8)
        _pattern_of_coordinates(penalty, w, out)
        return out
    assert isinstance(penalty, GroupPenalty)
    out = np.zeros(penalty.n_groups, np.int8)
    _pattern_of_groups(penalty, split(penalty, w), out)
    return out
