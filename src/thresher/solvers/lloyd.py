r"""Lloyd's k-means with a penalty on the centres, exactly.

.. math:: \sum_c \Bigl[ \frac{1}{2N_c} \sum_{x \in S_c} \|w_c - x\|^2 + \psi(w_c) \Bigr]

Rows go to the nearest centre, and a centre becomes the minimiser of its own term (``_means``):
soft(mean, lambda) with the l1 penalty (Jumutc 2016, section 4.2, where a stochastic loop does this
approximately; see ``stochastic_means``).  With cosine distances this is spherical k-means (Dhillon
and Modha, 2001).

This is no solver of losses: there are no targets, and rows play both parts.  It is a solver all the
same, a state and an update, so that streams, files, checkpoints and merging are those of the
others.  A problem of it has the least-squares loss (of a row and its centre), a penalty with a
proximal map, ``outputs`` clusters and ``targets="none"``.

An update adds rows up (map), ``between`` passes the centres move (reduce).  States that saw
different rows of a pass are merged by adding their sums in the order given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thresher.functions import Centres
from thresher.functions.centres import METRICS
from thresher.solvers._bounds import fresh_bounds, move_rows
from thresher.solvers._means import (
    MeansState,
    absorbed,
    directions,
    emptied,
    empty,
    farthest,
    frame,
    new_centres,
    spread_of,
)
from thresher.solvers._nearest import Seen, nearest, own_squares, see, table
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.starts import STARTS, refined

__all__ = ["Lloyd", "Means"]


@dataclass(frozen=True, eq=False)
class Means(Solver):
    """What the solvers of k-means share.

    Parameters
    ----------
    metric : {"euclidean", "cosine"}, default="euclidean"
    start : {"refined", "k-means++", "random"} or array of shape (clusters, features)
        See ``thresher.solvers.starts``.
    restarts : int, default=1
        Starts that compete on a sample ("refined").
    threads : int, default=1
        They do not change a result.
    """

    metric: str = "euclidean"
    start: Any = "refined"
    restarts: int = 1
    threads: int = 1

    penalty_needs = frozenset({"prox"})
    target_kinds = frozenset({"none"})
    linear = False
    joint = True
    merges_exactly = False
    sum_fields = frozenset({"sums", "counts", "step"})

    @property
    def cosine(self) -> bool:
        return self.metric == "cosine"

    def check(self, problem: Problem) -> None:
        name = type(self).__name__
        if self.metric not in METRICS:
            raise ValueError(f"{name}: metric must be one of {', '.join(METRICS)}, got "
                             f"{self.metric!r}")  # fmt: skip
        if isinstance(self.start, str):
            if self.start not in ("refined", *STARTS):
                known = ", ".join(("refined", *STARTS))
                raise ValueError(f"{name}: start must be one of {known} or an array, got "
                                 f"{self.start!r}")  # fmt: skip
        elif np.shape(self.start) != (problem.outputs, problem.n_features):
            raise ValueError(
                f"{name}: starts of shape {np.shape(self.start)} are not for {problem.outputs} "
                f"clusters of {problem.n_features} features"
            )

    def init(self, problem: Problem, chunk: Chunk | None = None) -> MeansState:
        return empty(problem) if chunk is None else self.begun(problem, chunk)[0]

    def begun(self, problem: Problem, chunk: Chunk) -> tuple[MeansState, Seen]:
        """The state to start from, and the rows as it sees them."""
        given = not isinstance(self.start, str)
        if not given and chunk.order.size < problem.outputs:
            raise ValueError(
                f"n_samples={chunk.order.size} rows should be at least n_clusters="
                f"{problem.outputs}: there is nothing to start from"
            )
        shift = frame(chunk, self.cosine)
        seen = see(chunk, shift, self.cosine)
        if not seen.mass > 0.0:
            raise ValueError("metric='cosine': every row is zero, and has no direction")
        state = empty(problem, shift, spread_of(seen))
        k, seed = problem.outputs, problem.seed
        if given:
            centres = np.array(self.start, dtype=np.float64)
        elif self.start == "refined":
            centres = shift + refined(
                problem, seen, state, self.cosine, self.restarts, self.threads
            )
        else:
            centres = shift + STARTS[self.start](seen, k, seed)
        centres = directions(centres, centres) if self.cosine else centres
        return state._replace(centres=centres), seen

    def finish(self, problem: Problem, state: MeansState) -> Centres:
        centres = new_centres(problem, state, self.cosine)
        return Centres(np.array(centres, dtype=problem.dtype, order="C"), self.metric)

    def labelled(
        self, problem: Problem, state: MeansState, chunk: Chunk
    ) -> tuple[np.ndarray, np.ndarray]:
        """The cluster of every visit, and its squared distance to the centre."""
        seen = see(chunk, state.shift, self.cosine)
        centres = new_centres(problem, state, self.cosine)
        labels, squares = nearest(seen, table(seen, centres - state.shift), self.threads)
        return _with_directions(seen, labels), squares

    def residual(self, problem: Problem, state: MeansState, before: Any, after: Any) -> float:
        """Squared moves of the centres over the mean variance of a feature."""
        change = float(np.sum((new_centres(problem, state, self.cosine) - state.centres) ** 2))
        if change == 0.0:
            return 0.0
        return change / state.spread if state.spread > 0.0 else math.inf

    def check_state(self, problem: Problem, state: MeansState) -> None:
        super().check_state(problem, state)
        if state.bounds is not None:
            raise ValueError("bounds belong to rows in memory, not to a file")
        if np.any(state.counts < 0.0) or state.spread < 0.0:
            raise ValueError("the state's masses or its spread are negative")

    def merge(
        self, problem: Problem, states: Sequence[MeansState], base: MeansState,
        weights: Sequence[float],
    ) -> MeansState:  # fmt: skip
        """Sums over the rows of all shards, added in their order."""
        parts, _ = present(states, weights)
        sums, counts, step = base.sums.copy(), base.counts.copy(), base.step
        for part in parts:
            sums += part.sums - base.sums
            counts += part.counts - base.counts
            step += part.step - base.step
        kept = parts or [base]
        squares = np.concatenate([part.far_square for part in kept])
        most = np.argsort(-squares, kind="stable")[: base.far_square.size]
        far = np.concatenate([part.far for part in kept])[most]
        return base._replace(
            centres=base.centres.copy(), sums=sums, counts=counts, far=far,
            far_square=squares[most], shift=base.shift.copy(), step=step, bounds=None,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Lloyd(Means):
    """Exact passes: every row to the nearest centre, every centre to the best place for its rows.

    Parameters
    ----------
    metric, start, restarts, threads : as for all solvers of k-means
    bounded : bool, default=True
        Rows in memory keep bounds on their distances (``_bounds``), so that a pass looks only at
        rows in doubt; in a stream every pass looks at all.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L1
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.lloyd import Lloyd
    >>> X = np.array([[0.0], [1.0], [10.0], [12.0]])
    >>> problem = Problem(LeastSquares(), L1(0.5), 1, outputs=2, tol=0.0, targets="none")
    >>> chunk = driver.whole(as_rows(X), np.zeros(4))
    >>> start = np.array([[0.0], [12.0]])
    >>> driver.learn(Lloyd(start=start), problem, chunk, driver.Plan()).function.centers.tolist()
    [[0.0], [10.5]]
    """

    bounded: bool = True

    default_passes = 10  # over a file; rows in memory are looked at again and again
    merges_exactly = True

    @property
    def by_rows(self) -> bool:
        return False

    def for_stream(self, problem: Problem) -> Lloyd:
        return replace(self, bounded=False)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> MeansState:
        if chunk is None or not self.bounded:
            return super().init(problem, chunk)
        state, seen = self.begun(problem, chunk)
        return state._replace(bounds=fresh_bounds(seen, state.centres - state.shift))

    def update(self, problem: Problem, state: MeansState, chunk: Chunk) -> MeansState:
        if state.bounds is None:
            return absorbed(state, see(chunk, state.shift, self.cosine), self.threads)
        seen = state.bounds.seen
        centres = table(seen, state.centres - state.shift)
        bounds = move_rows(state.bounds, centres, state.sums, state.counts, self.threads)
        state = state._replace(bounds=bounds, step=state.step + seen.size)
        if np.all(state.counts > 0.0):
            return state
        return farthest(state, seen, own_squares(seen, bounds.labels, centres))

    def between(
        self, problem: Problem, state: MeansState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> MeansState:  # fmt: skip
        """The step.  With bounds the sums are kept: a pass adds what has changed."""
        if not done:
            return state
        centres = new_centres(problem, state, self.cosine)
        if state.bounds is None:
            return emptied(state, centres)
        blank = np.zeros_like(state.far_square)
        return state._replace(centres=centres, far_square=blank)

    def polish(self, problem: Problem, state: MeansState, chunk: Chunk) -> MeansState:
        """The last step, and the labels that belong to it."""
        if state.bounds is None:
            return state
        centres = new_centres(problem, state, self.cosine)
        seen = state.bounds.seen
        last = table(seen, centres - state.shift)
        bounds = move_rows(state.bounds, last, state.sums, state.counts, self.threads)
        return emptied(state, centres)._replace(bounds=bounds)

    def labelled(
        self, problem: Problem, state: MeansState, chunk: Chunk
    ) -> tuple[np.ndarray, np.ndarray]:
        if state.bounds is None:
            return super().labelled(problem, state, chunk)
        labels, seen = state.bounds.labels, state.bounds.seen
        centres = table(seen, state.centres - state.shift)
        return _with_directions(seen, labels), own_squares(seen, labels, centres)


def _with_directions(seen: Seen, labels: np.ndarray) -> np.ndarray:
    """A row of zeros is as near to all directions: it belongs to the first, as in predictions."""
    return np.where(seen.weight > 0.0, labels, 0).astype(labels.dtype)
