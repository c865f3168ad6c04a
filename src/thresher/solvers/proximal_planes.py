r"""Proximal plane clustering: each cluster is a plane w . x + b = 0, close to its rows.

Rows go to the nearest plane; the plane of cluster i then solves

.. math::
    \min_{\|w\| = 1} \frac{1}{N_i} \sum_{x \in S_i} (w \cdot x + b)^2
    - \frac{c}{N - N_i} \sum_{x \notin S_i} (w \cdot x + b)^2,
    \qquad b = -w \cdot \bar x_i,

so that w is the eigenvector of the smallest eigenvalue of C_i - c D_i: second moments of the
cluster's own rows and of all others about the mean of its own.  c = 0 is k-plane clustering
(Bradley and Mangasarian, 2000), c > 0 proximal plane clustering (Shao et al., 2013).  There b is
free and rows are summed; with c above N_i / (N - N_i) that is unbounded below, as a plane moves
away from everything.  A plane through the mean of its rows, and means of squares, keep every c
meaningful, whatever the sizes of the clusters.

Second moments of the clusters add up over rows, so that streams and merging are exact as in
``lloyd``.  O(rows d (clusters + d) + clusters d^3) a pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher.functions import FlatPlanes
from thresher.solvers._means import frame, spread_of
from thresher.solvers._nearest import BLOCK, Seen, dense_rows, nearest, see, table
from thresher.solvers._states import combined, present
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.starts import STARTS

__all__ = ["ProximalPlanes"]


class PlanesState(NamedTuple):
    """Planes, and second moments of the rows nearest to them since they were made."""

    normals: np.ndarray  # (clusters, features)
    distances: np.ndarray  # of the planes from ``shift``: w . (x - shift) + distance = 0
    moments: np.ndarray  # (clusters, features, features), about the shift
    sums: np.ndarray
    counts: np.ndarray
    shift: np.ndarray
    spread: float
    cost: float
    step: int


@dataclass(frozen=True, eq=False)
class ProximalPlanes(Solver):
    """Alternating assignments and eigenvectors.

    Parameters
    ----------
    repulsion : float, default=0.0
        The c above: how much a plane avoids the rows of other clusters.
    start : {"k-means++", "random"}, default="k-means++"
        First clusters: around rows that k-means++ chooses, or around rows at random.
    restarts : int, default=1
        Runs on a sample; the best goes on.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L1
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.proximal_planes import ProximalPlanes
    >>> t = np.linspace(-1.0, 1.0, 20)
    >>> X = np.concatenate([np.c_[t, 0 * t], np.c_[0 * t + 5.0, t]])  # two lines
    >>> problem = Problem(LeastSquares(), L1(0.0), 2, outputs=2, tol=1e-9, targets="none")
    >>> chunk = driver.whole(as_rows(X), np.zeros(40))
    >>> result = driver.learn(ProximalPlanes(), problem, chunk, driver.Plan())
    >>> float(result.function.distances(X).min(axis=1).max().round(9))
    0.0
    """

    repulsion: float = 0.0
    start: str = "k-means++"
    restarts: int = 1

    target_kinds = frozenset({"none"})
    linear = False
    joint = True
    default_passes = 10
    merges_exactly = True
    by_blocks = True
    sum_fields = frozenset({"moments", "sums", "counts", "cost", "step"})

    @property
    def by_rows(self) -> bool:
        return False

    def check(self, problem: Problem) -> None:
        if not (math.isfinite(self.repulsion) and self.repulsion >= 0.0):
            raise ValueError(f"ProximalPlanes: repulsion must be at least 0, got {self.repulsion}")
        if self.start not in STARTS:
            raise ValueError(f"ProximalPlanes: start must be one of {', '.join(STARTS)}, got "
                             f"{self.start!r}")  # fmt: skip

    def init(self, problem: Problem, chunk: Chunk | None = None) -> PlanesState:
        k, d = problem.outputs, problem.n_features
        blank = PlanesState(
            np.zeros((k, d)), np.zeros(k), np.zeros((k, d, d)), np.zeros((k, d)), np.zeros(k),
            np.zeros(d), 1.0, 0.0, 0,
        )  # fmt: skip
        if chunk is None:
            return blank
        if chunk.order.size < k:
            raise ValueError(
                f"n_samples={chunk.order.size} rows should be at least n_clusters={k}: there is "
                "nothing to start from"
            )
        shift = frame(chunk, False)
        seen = see(chunk, shift, False)
        blank = blank._replace(shift=shift, spread=spread_of(seen))
        found = [self._started(problem, blank, seen, number) for number in range(self.restarts)]
        best = min(found, key=lambda state: state.cost)
        return _emptied(best, best.normals, best.distances)

    def _started(
        self, problem: Problem, state: PlanesState, seen: Seen, number: int
    ) -> PlanesState:
        """Planes of the first clusters, and the cost of one assignment to them."""
        points = STARTS[self.start](seen, problem.outputs, problem.seed, number)
        labels, _ = nearest(seen, table(seen, points))
        state = _added(state, seen, labels, np.zeros(seen.size))
        planes = _emptied(state, *self._planes(state))
        return _absorbed(planes, seen)

    def update(self, problem: Problem, state: PlanesState, chunk: Chunk) -> PlanesState:
        return _absorbed(state, see(chunk, state.shift, False))

    def between(
        self, problem: Problem, state: PlanesState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> PlanesState:  # fmt: skip
        return _emptied(state, *self._planes(state)) if done else state

    def finish(self, problem: Problem, state: PlanesState) -> FlatPlanes:
        normals, distances = self._planes(state)
        return FlatPlanes(normals.astype(problem.dtype), distances - normals @ state.shift)

    def _planes(self, state: PlanesState) -> tuple[np.ndarray, np.ndarray]:
        """The best plane of each cluster; an empty one keeps its own."""
        normals, distances = state.normals.copy(), state.distances.copy()
        total = float(state.counts.sum())
        for c in np.flatnonzero(state.counts > 1e-12 * total):
            own, mass = state.sums[c], float(state.counts[c])
            mean = own / mass
            matrix = state.moments[c] / mass - np.outer(mean, mean)
            if self.repulsion and total > mass:
                others = (state.sums.sum(axis=0) - own) / (total - mass)
                second = (state.moments.sum(axis=0) - state.moments[c]) / (total - mass)
                cross = np.outer(others, mean)
                matrix -= self.repulsion * (second - cross - cross.T + np.outer(mean, mean))
            normal = np.linalg.eigh(matrix)[1][:, 0]
            normals[c] = normal * (1.0 if normal[np.abs(normal).argmax()] > 0.0 else -1.0)
            distances[c] = -float(normals[c] @ mean)
        return normals, distances

    def residual(self, problem: Problem, state: PlanesState, before: Any, after: Any) -> float:
        """Squared changes of the normals, and of the distances over the mean variance."""
        normals, distances = self._planes(state)
        turned = float(np.sum((normals - state.normals) ** 2))
        moved = float(np.sum((distances - state.distances) ** 2))
        return turned + (moved / state.spread if state.spread > 0.0 else moved)

    def labelled(
        self, problem: Problem, state: PlanesState, chunk: Chunk
    ) -> tuple[np.ndarray, np.ndarray]:
        """The cluster of every visit, and its squared distance to the plane."""
        planes = self._planes(state)
        return _nearest_planes(see(chunk, state.shift, False), *planes)

    def merge(
        self, problem: Problem, states: Sequence[PlanesState], base: PlanesState,
        weights: Sequence[float],
    ) -> PlanesState:  # fmt: skip
        """Moments over the rows of all shards, added in their order."""
        parts, shares = present(states, weights)
        if not parts:
            return self.copy(base)
        return combined(parts, base, shares, self.sum_fields)


def _nearest_planes(
    seen: Seen, normals: np.ndarray, distances: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    labels, square = np.empty(seen.size, np.int32), np.empty(seen.size)
    for a in range(0, seen.size, BLOCK):
        block = slice(a, min(a + BLOCK, seen.size))
        rows = dense_rows(seen, np.arange(block.start, block.stop))
        away = (rows @ normals.T + distances) ** 2
        labels[block] = away.argmin(axis=1)
        square[block] = away.min(axis=1)
    return labels, square


def _absorbed(state: PlanesState, seen: Seen) -> PlanesState:
    """Add rows to the moments of their nearest planes."""
    return _added(state, seen, *_nearest_planes(seen, state.normals, state.distances))


def _added(state: PlanesState, seen: Seen, labels: np.ndarray, square: np.ndarray) -> PlanesState:
    moments, sums, counts = state.moments.copy(), state.sums.copy(), state.counts.copy()
    for a in range(0, seen.size, BLOCK):
        visits = np.arange(a, min(a + BLOCK, seen.size))
        rows, weight, mine = dense_rows(seen, visits), seen.weight[visits], labels[visits]
        for c in np.unique(mine):
            own = mine == c
            heavy = rows[own] * weight[own, None]
            moments[c] += rows[own].T @ heavy
            sums[c] += heavy.sum(axis=0)
            counts[c] += weight[own].sum()
    cost = state.cost + float(seen.weight @ square)
    return state._replace(
        moments=moments, sums=sums, counts=counts, cost=cost, step=state.step + seen.size
    )


def _emptied(state: PlanesState, normals: np.ndarray, distances: np.ndarray) -> PlanesState:
    """New planes, and no rows yet."""
    return state._replace(
        normals=normals, distances=distances, moments=np.zeros_like(state.moments),
        sums=np.zeros_like(state.sums), counts=np.zeros_like(state.counts), cost=0.0,
    )  # fmt: skip
