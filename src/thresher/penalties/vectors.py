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
    w : array of shape (n_features,), or (n_outputs, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, evaluate
    >>> evaluate(L1(0.5), np.array([3.0, -1.0]))
    2.0
    """
    if "grouped" not in penalty.traits:
        return float(sum(_sum_of_coordinates(penalty, own) for own in np.atleast_2d(w)))
    assert isinstance(penalty, GroupPenalty)
    if w.ndim == 2:
        return float(_sum_of_shared(penalty, np.ascontiguousarray(w, dtype=np.float64)))
    return float(_sum_of_groups(penalty, split(penalty, w)))


@njit(cache=True, nogil=True)
def _pattern_of_coordinates(penalty, w, out):
    for j in range(w.size):
        out[j] = penalty.pattern(w[j], j)


@njit(cache=True, nogil=True)
def _pattern_of_groups(penalty, blocks, outputs, out):
    for group in range(out.size):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        out[group] = penalty.pattern_block(blocks[outputs * start : outputs * stop], group)


@njit(cache=True, nogil=True)
def _pattern_within_groups(penalty, blocks, outputs, out):
    for group in range(penalty.pointers.size - 1):
        start, stop = outputs * penalty.pointers[group], outputs * penalty.pointers[group + 1]
        alive = penalty.pattern_block(blocks[start:stop], group) != 0.0
        for k in range(start, stop):
            out[k] = penalty.pattern_within(blocks[k], group) if alive else 0.0


def _blocks(penalty: GroupPenalty, w: np.ndarray) -> np.ndarray:
    """The weights group after group; of several outputs the first one's, then the next one's."""
    if w.ndim == 1:
        return split(penalty, w)
    table = np.asarray(w, dtype=np.float64)[:, penalty.order]
    if penalty.n_groups == penalty.order.size:
        return np.ascontiguousarray(table.T).reshape(-1)
    parts = np.split(table, penalty.pointers[1:-1], axis=1)
    return np.concatenate([part.reshape(-1) for part in parts])


def pattern_of(penalty: Penalty, w: np.ndarray) -> np.ndarray:
    """The manifold that w lies on: a small number for each coordinate, or for each group.

    Of a penalty over groups that has corners within them, too, it is one for each weight of the
    groups.

    Parameters
    ----------
    penalty : Penalty
    w : array of shape (n_features,), or (n_outputs, n_features) of many tasks

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, GroupL2, SparseGroupL2, pattern_of
    >>> w = np.array([0.0, -2.0, 0.0, 0.5])
    >>> pattern_of(L1(), w).tolist(), pattern_of(GroupL2([0, 1, 0, 1]), w).tolist()
    ([0, -1, 0, 1], [0, 1])
    >>> pattern_of(SparseGroupL2([0, 0, 1, 1]), w).tolist()
    [0, -1, 0, 1]
    """
    if "grouped" not in penalty.traits:
        table = np.atleast_2d(w)
        out = np.zeros(table.shape, np.int8)
        for own, found in zip(table, out, strict=True):
            _pattern_of_coordinates(penalty, own, found)
        return out.reshape(-1)
    assert isinstance(penalty, GroupPenalty)
    blocks, outputs = _blocks(penalty, w), 1 if w.ndim == 1 else w.shape[0]
    within = penalty.pattern_within is not None
    found = np.zeros(blocks.size if within else penalty.n_groups, np.int8)
    (_pattern_within_groups if within else _pattern_of_groups)(penalty, blocks, outputs, found)
    return found
