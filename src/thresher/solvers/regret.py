r"""What learning online has cost, beside the best fixed model.

.. math:: R_T = \frac1T \sum_{t\le T} \bigl[\ell_t(w_t) + \psi(w_t)\bigr]
                - \min_w \frac1T \sum_{t\le T} \ell_t(w) + \psi(w),

each row's loss just before the update by it.  It falls as :math:`1/\sqrt T` in general and as
:math:`\log T / T` where the penalty is strongly convex (Xiao, 2010).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.solvers import driver
from thresher.solvers.auto import choose_solver
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["Regret", "average_regret"]


class Regret(NamedTuple):
    """After ``rows`` rows: the mean of what was paid, the least that a fixed model would have paid,
    and that model (the batch optimum)."""

    rows: int
    paid: float
    best: float
    function: Any

    @property
    def average(self) -> float:
        """What was paid too much for each row."""
        return self.paid - self.best


def average_regret(
    solver: Solver, problem: Problem, chunk: Chunk, marks: Sequence[int], every: int = 1
) -> list[Regret]:
    """The average regret of a streaming solver after so many rows each, in the chunk's order.

    Parameters
    ----------
    solver : Solver
        One that accounts for its losses: RDA, FOBOS and their like.
    problem : Problem
    chunk : Chunk
    marks : sequence of int
        Rows after which it is told, in rising order.
    every : int, default=1
        Rows between which the penalty of the iterate counts as unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._rows import as_rows
    >>> from thresher.losses import Logistic
    >>> from thresher.penalties import L1
    >>> from thresher.solvers import RDA, Problem, driver
    >>> from thresher.solvers.regret import average_regret
    >>> X = np.random.default_rng(0).normal(size=(400, 5))
    >>> chunk = driver.whole(as_rows(X), np.sign(X[:, 0]))
    >>> problem = Problem(Logistic(), L1(0.05), 5)
    >>> early, late = average_regret(RDA(gamma=0.5), problem, chunk, [50, 400])
    >>> early.average > late.average > 0.0
    True
    """
    solver, problem = solver.prepare(problem, chunk)
    state, penalties, out, done = solver.init(problem, chunk), 0.0, [], 0
    if "paid" not in getattr(type(state), "_fields", ()):
        raise ValueError(
            f"{type(solver).__name__} keeps no account of its losses: use RDA or FOBOS"
        )
    for mark in marks:
        while done < mark:
            part = chunk.order[done : min(done + every, mark)]
            coef = solver.finish(problem, state).coef
            penalties += part.size * driver.penalty_value(problem, coef)
            state = solver.update(problem, state, chunk._replace(order=part))
            done += part.size
        seen = chunk._replace(order=chunk.order[:mark])
        best, function = _best(problem, seen)
        out.append(Regret(mark, (state.paid + penalties) / mark, best, function))
    return out


def _best(problem: Problem, chunk: Chunk) -> tuple[float, Any]:
    """The least objective of a fixed model on these rows, and the model."""
    shape = (chunk.order.size, problem.n_features)
    batch = choose_solver(problem.loss, problem.penalty, shape, chunk.rows.stored, exact=True)
    asked = Problem(**{**vars(problem), "tol": 1e-9})
    result = driver.learn(batch, asked, chunk, driver.Plan(batch.default_passes))
    return float(np.float64(driver.objective(asked, chunk, *result.function))), result.function
