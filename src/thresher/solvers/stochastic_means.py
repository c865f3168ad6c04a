r"""l1-regularised stochastic k-means as published: Jumutc (2016), section 4.2, algorithm 12.

Rows are assigned to the nearest centre; then the centre of each cluster is learned anew by steps of
adaptive dual averaging on single rows of it, drawn with replacement, on 1/2 ||w - x||^2 + psi(w):

.. math::
    g = w - x,\quad \hat g \leftarrow \hat g + (g - \hat g)/t,\quad q \leftarrow q + g^2,\quad
    w = \operatorname{prox}_{s\psi}(-s \hat g),\quad s = \frac{\eta t}{\rho + \sqrt q}.

With the l1 penalty the last line is the published sign(-g) s max(0, |g| - lambda).  The minimiser
is known in closed form, soft(mean, lambda), and ``Lloyd`` takes it: the loop ends near it, at a
cost that does not depend on the number of rows of the cluster.

Published: eta = 1, rho = 0.1, T = 10,000 steps, 20 passes, a step of at most 1e-5 ends the loop.
Not specified there: where it starts (here as the other solvers) and empty clusters (here they take
the farthest row, as in ``_means``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher.solvers._means import MeansState, directions, emptied, farthest, refilled
from thresher.solvers._nearest import Seen, nearest, see, table
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.lloyd import Means

__all__ = ["StochasticMeans"]


@dataclass(frozen=True, eq=False)
class StochasticMeans(Means):
    """Centres by stochastic steps on the rows of their clusters.

    Parameters
    ----------
    metric, start, restarts, threads : as for all solvers of k-means
    draws : int, default=10000
        Rows drawn for each centre in a pass (T).
    eta, rho : float, default=1.0 and 0.1
        Of the steps.
    change : float, default=1e-5
        A step that is not longer ends the loop.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L1
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.stochastic_means import StochasticMeans
    >>> X = np.random.default_rng(0).normal(3.0, 0.1, size=(200, 1))
    >>> problem = Problem(LeastSquares(), L1(1.0), 1, outputs=1, targets="none")
    >>> chunk = driver.whole(as_rows(X), np.zeros(200))
    >>> result = driver.learn(StochasticMeans(), problem, chunk, driver.Plan(2))
    >>> bool(abs(result.function.centers[0, 0] - 2.0) < 0.1)
    True
    """

    draws: int = 10_000
    eta: float = 1.0
    rho: float = 0.1
    change: float = 1e-5

    streaming = False
    default_passes = 20

    def check(self, problem: Problem) -> None:
        super().check(problem)
        for name in ("draws", "eta", "rho"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise ValueError(f"StochasticMeans: {name} must be positive, got "
                                 f"{getattr(self, name)}")  # fmt: skip

    def update(self, problem: Problem, state: MeansState, chunk: Chunk) -> MeansState:
        seen = see(chunk, state.shift, self.cosine)
        now = table(seen, state.centres - state.shift)
        labels, square = nearest(seen, now, self.threads)
        filled = np.bincount(labels, minlength=problem.outputs) > 0
        centres = np.array([
            self._learned(problem, seen, np.flatnonzero(labels == c), state.step, c)
            if filled[c] else state.centres[c]
            for c in range(problem.outputs)
        ])  # fmt: skip
        centres = directions(centres, state.centres) if self.cosine else centres
        if not filled.all():
            state = farthest(state, seen, square)
            centres = refilled(problem, state, centres, ~filled, self.cosine)
        return emptied(state, centres)._replace(step=state.step + self.draws)

    def _learned(
        self, problem: Problem, seen: Seen, members: np.ndarray, step: int, cluster: int
    ) -> np.ndarray:
        """The centre of one cluster, from a random start."""
        w = np.empty(problem.n_features)
        _average(
            seen.rows, seen.order[members], seen.factor[members], np.cumsum(seen.weight[members]),
            problem.penalty, self.eta, self.rho, self.change, self.draws, problem.seed, step,
            cluster, w,
        )  # fmt: skip
        return w


@njit(cache=True, nogil=True)
def _average(
    rows, order, factor, cumulated, penalty, eta, rho, change, steps, seed, step, cluster, w
):
    d, total = w.size, cumulated[-1]
    mean, squares, x = np.zeros(d), np.zeros(d), np.zeros(d)
    for j in range(d):
        w[j] = uniform(seed, step, d * cluster + j)
    for t in range(1, steps + 1):
        u = uniform(seed + 1, step + t, cluster)
        r = min(np.searchsorted(cumulated, u * total, side="right"), order.size - 1)
        i = order[r]
        x[:] = 0.0
        for k in range(rows.start(i), rows.stop(i)):
            x[rows.column(i, k)] = rows.element(i, k) * factor[r]
        moved = 0.0
        for j in range(d):
            g = w[j] - x[j]
            mean[j] += (g - mean[j]) / t
            squares[j] += g * g
            s = eta * t / (rho + math.sqrt(squares[j]))
            new = penalty.prox(-s * mean[j], s, j)
            moved += (new - w[j]) ** 2
            w[j] = new
        if moved <= change * change:
            break
