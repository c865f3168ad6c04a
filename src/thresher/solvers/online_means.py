r"""k-means in one look at each row: mini-batches move centres as they come.

A mini-batch is assigned to the centres before it and added to the sums of its clusters; the centres
become those of all rows so far (MacQueen, 1967, with mini-batches as Sculley's, 2010):

.. math:: w_c = \operatorname{prox}_\psi\Bigl(\frac{1}{N_c} \sum_{x \in S_c} x\Bigr).

Rows of early batches were assigned by centres that have moved on since.  Before another pass
what they add up to is weakened, so that the new pass has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from thresher.solvers._means import MeansState, absorbed, new_centres
from thresher.solvers._nearest import see
from thresher.solvers.base import Chunk, Problem, check_batch
from thresher.solvers.lloyd import Means

__all__ = ["OnlineMeans"]

_REMEMBERED = 0.05  # share of the last pass's mass that counts in the next


@dataclass(frozen=True, eq=False)
class OnlineMeans(Means):
    """Running means of mini-batches: for streams.

    Parameters
    ----------
    metric, start, restarts, threads : as for all solvers of k-means
    batch : int, default=1024
        Rows of a mini-batch; it lies within one chunk.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import LeastSquares
    >>> from thresher.penalties import L1
    >>> from thresher.solvers import Problem, driver
    >>> from thresher.solvers.online_means import OnlineMeans
    >>> X = np.array([[0.0], [1.0], [10.0], [12.0]])
    >>> problem = Problem(LeastSquares(), L1(0.0), 1, outputs=2, targets="none")
    >>> solver, chunk = OnlineMeans(), driver.whole(as_rows(X), np.zeros(4))
    >>> state = solver.update(problem, solver.init(problem, chunk), chunk)
    >>> sorted(solver.finish(problem, state).centers[:, 0].tolist())
    [0.5, 11.0]
    """

    batch: int = 1024

    default_passes = 3

    def check(self, problem: Problem) -> None:
        super().check(problem)
        check_batch(self)

    def update(self, problem: Problem, state: MeansState, chunk: Chunk) -> MeansState:
        for start in range(0, chunk.order.size, self.batch):
            part = chunk._replace(order=chunk.order[start : start + self.batch])
            state = absorbed(state, see(part, state.shift, self.cosine), self.threads)
            centres = new_centres(problem, state, self.cosine)
            state = state._replace(centres=centres, far_square=np.zeros_like(state.far_square))
        return state

    def between(
        self, problem: Problem, state: MeansState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> MeansState:  # fmt: skip
        if not done:
            return state
        sums, counts = _REMEMBERED * state.sums, _REMEMBERED * state.counts
        return state._replace(sums=sums, counts=counts)

    def merge(
        self, problem: Problem, states: Sequence[MeansState], base: MeansState,
        weights: Sequence[float],
    ) -> MeansState:  # fmt: skip
        """Centres are those of the rows of all shards together."""
        merged = super().merge(problem, states, base, weights)
        return merged._replace(centres=new_centres(problem, merged, self.cosine))
