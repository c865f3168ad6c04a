r"""What all k-means solvers share: sums and masses of clusters, and the centres they stand for.

The centre of a cluster S minimises

.. math:: \frac{1}{2|S|} \sum_{x \in S} \|w - x\|^2 + \psi(w),

so that it is the proximal map of the penalty at the mean of the rows; soft(mean, lambda) for the
l1 penalty.  With cosine distances rows have length one, and so does the centre after that; a
penalty that would leave nothing of it leaves the largest coordinate, its limit for weaker ones.

An empty cluster takes the row that lies farthest from its own centre, if it would lie nearer to a
centre made of it alone; otherwise it stays where it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher.solvers._nearest import Seen, dense_rows, nearest, sums_of, table
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "MeansState",
    "absorbed",
    "directions",
    "emptied",
    "empty",
    "farthest",
    "frame",
    "new_centres",
    "refilled",
    "settled",
    "spread_of",
]

_NOTHING = 1e-12  # of the mass: what is left of a cluster when its rows have gone
_LITTLE = 1e-10  # of the variance
_SAMPLE = 1 << 14  # rows that tell where the data lie


class MeansState(NamedTuple):
    """Centres, and what the rows since they were made add up to."""

    centres: np.ndarray  # (clusters, features), in the units of the rows
    sums: np.ndarray  # of the rows of each cluster, about ``shift``
    counts: np.ndarray  # masses of the clusters
    far: np.ndarray  # the rows farthest from their centres, about ``shift``
    far_square: np.ndarray  # their squared distances, in descending order; 0 where there is none
    shift: np.ndarray  # a point amid the rows
    spread: float  # mean variance of the features
    step: int
    bounds: Any = None  # of rows in memory


def frame(chunk: Chunk, cosine: bool) -> np.ndarray:
    """A point amid the rows to see them from; sparse rows and directions are seen from zero."""
    d = chunk.rows.shape[1]
    if cosine or chunk.rows.is_sparse:
        return np.zeros(d)
    some = chunk.order[_spaced(chunk.order.size)]
    weight = chunk.weight[some]
    shift = (weight / weight.sum()) @ chunk.rows.taken(some)
    # In the precision of the rows, so that seen rows are the same in sums and in products.
    return shift.astype(chunk.rows.dtype).astype(np.float64)


def _spaced(n: int) -> slice:
    """Some of n visits, evenly spaced: rows may be sorted."""
    return slice(0, None, max(1, n // _SAMPLE))


def empty(problem: Problem, shift: np.ndarray | None = None, spread: float = 1.0) -> MeansState:
    """No rows yet, all centres at zero."""
    shape = (problem.outputs, problem.n_features)
    shift = np.zeros(shape[1]) if shift is None else shift
    return MeansState(
        np.zeros(shape), np.zeros(shape), np.zeros(shape[0]), np.zeros(shape), np.zeros(shape[0]),
        shift, spread, 0,
    )  # fmt: skip


def spread_of(seen: Seen) -> float:
    """Mean variance of the features."""
    some = seen.part(_spaced(seen.size))
    sums, counts = sums_of(some, np.zeros(some.size, np.int32), 1)
    total = float(counts[0])
    inside = float(some.weight @ some.square) / total - float(np.sum((sums[0] / total) ** 2))
    return max(inside, 0.0) / seen.rows.shape[1]


@njit(cache=True, nogil=True)
def _prox(penalty, means):
    for c in range(means.shape[0]):
        for j in range(means.shape[1]):
            means[c, j] = penalty.prox(means[c, j], 1.0, j)


def directions(centres: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Centres of length one; the largest coordinate of the mean where nothing else is left."""
    out, nothing = centres.copy(), np.flatnonzero(~centres.any(axis=1))
    largest = np.abs(means[nothing]).argmax(axis=1)
    out[nothing, largest] = means[nothing, largest]
    length = np.sqrt(np.sum(out**2, axis=1, keepdims=True))
    return out / np.where(length > 0.0, length, 1.0)


def settled(problem: Problem, means: np.ndarray, cosine: bool) -> np.ndarray:
    """The centres of clusters with these means."""
    centres = np.array(means, dtype=np.float64)
    _prox(problem.penalty, centres)
    return directions(centres, means) if cosine else centres


def new_centres(problem: Problem, state: MeansState, cosine: bool) -> np.ndarray:
    """The step: centres of the clusters as they are filled."""
    total = float(state.counts.sum())
    if total == 0.0:
        return state.centres
    filled = state.counts > _NOTHING * total
    mass = np.where(filled, state.counts, 1.0)[:, None]
    means = np.where(filled[:, None], state.shift + state.sums / mass, 0.0)
    centres = np.where(filled[:, None], settled(problem, means, cosine), state.centres)
    return centres if filled.all() else refilled(problem, state, centres, ~filled, cosine)


def refilled(
    problem: Problem, state: MeansState, centres: np.ndarray, wanting: np.ndarray, cosine: bool
) -> np.ndarray:
    """Empty clusters take the farthest rows, as long as these gain by it."""
    rows = state.shift + state.far
    places = settled(problem, rows, cosine)
    rounding = _LITTLE * state.spread * rows.shape[1]  # a row at its centre has nothing to gain
    gains = np.sum((rows - places) ** 2, axis=1) + rounding < state.far_square
    for c, source in zip(np.flatnonzero(wanting), np.flatnonzero(gains), strict=False):
        centres[c] = places[source]
    return centres


def farthest(state: MeansState, seen: Seen, square: np.ndarray) -> MeansState:
    """Keep the rows that lie farthest, among these and those kept before."""
    k = state.far_square.size
    most = np.argsort(-square, kind="stable")[:k] if k >= square.size else _top(square, k)
    far = np.concatenate([state.far, dense_rows(seen, most)])
    squares = np.concatenate([state.far_square, square[most]])
    kept = np.argsort(-squares, kind="stable")[:k]
    return state._replace(far=far[kept], far_square=squares[kept])


def _top(square: np.ndarray, k: int) -> np.ndarray:
    some = np.argpartition(-square, k - 1)[:k]
    return some[np.argsort(-square[some], kind="stable")]


def absorbed(state: MeansState, seen: Seen, threads: int = 1) -> MeansState:
    """Add rows to the sums of their nearest clusters."""
    centres = table(seen, state.centres - state.shift)
    labels, square = nearest(seen, centres, threads)
    sums, counts = sums_of(seen, labels, state.counts.size, threads)
    state = farthest(state, seen, square)
    return state._replace(
        sums=state.sums + sums,
        counts=state.counts + counts,
        step=state.step + seen.size,
    )


def emptied(state: MeansState, centres: np.ndarray) -> MeansState:
    """New centres, and no rows yet."""
    return state._replace(
        centres=centres,
        sums=np.zeros_like(state.sums),
        counts=np.zeros_like(state.counts),
        far=np.zeros_like(state.far),
        far_square=np.zeros_like(state.far_square),
    )
