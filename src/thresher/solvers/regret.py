r"""What learning online has cost, beside the best fixed model.

.. math:: R_T = \frac1T \sum_{t\le T} \bigl[\ell_t(w_t) + \psi(w_t)\bigr]
                - \min_w \frac1T \sum_{t\le T} \ell_t(w) + \psi(w),

each row's loss just before the update by it.  It falls as :math:`1/\sqrt T` in general and as
:math:`\log T / T` where the penalty is strongly convex (Xiao, 2010; :func:`regret_bound`).

Of many tasks it is the mean over the tasks.  A step is a row, or, where rows name their task, one
row of each of them on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.solvers import driver
from thresher.solvers.auto import choose_solver
from thresher.solvers.base import Chunk, Problem, Solver

__all__ = ["Regret", "average_regret", "regret_bound"]


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
    tasks = problem.outputs if problem.has_tasks else 1
    rows = tasks if problem.targets == "pairs" else 1  # of a step
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
        paid = (rows * state.paid + penalties) / mark
        out.append(Regret(mark, paid / tasks, best / tasks, function))
    return out


def regret_bound(
    steps: int, gamma: float, reach: float, steepness: float, convexity: float = 0.0
) -> float:
    r"""What the average regret of dual averaging is at most after so many steps.

    .. math:: \frac{1}{\sqrt T}\Bigl(\gamma D^2 + \frac{G^2}{\gamma}\Bigr), \qquad
              \frac{1 + \ln T}{T}\Bigl(\sigma D^2 + \frac{G^2}{2\sigma}\Bigr)

    for :math:`\beta_t = \gamma\sqrt t`, and for :math:`\beta_t = \sigma(1 + \ln t)` with a penalty
    of strong convexity sigma (Xiao, 2010).

    Parameters
    ----------
    steps : int
    gamma : float
        Of the solver; with a ``convexity`` it is not asked for.
    reach : float
        D, with half the squared length of the best weights at most its square.
    steepness : float
        G, the longest gradient of a step's loss.
    convexity : float, default=0.0
        sigma, the ridge of the penalty; 0: none.

    Examples
    --------
    >>> from thresher.solvers.regret import regret_bound
    >>> regret_bound(400, gamma=2.0, reach=1.0, steepness=2.0)
    0.2
    """
    if convexity > 0.0:
        held = convexity * reach**2 + 0.5 * steepness**2 / convexity
        return (1.0 + math.log(steps)) / steps * held
    return (gamma * reach**2 + steepness**2 / gamma) / math.sqrt(steps)


def _best(problem: Problem, chunk: Chunk) -> tuple[float, Any]:
    """The least objective of a fixed model on these rows, and the model."""
    shape = (chunk.order.size, problem.n_features)
    batch = choose_solver(problem.loss, problem.penalty, shape, chunk.rows.stored, exact=True)
    asked = Problem(**{**vars(problem), "tol": 1e-9})
    result = driver.learn(batch, asked, chunk, driver.Plan(batch.default_passes))
    return float(np.float64(driver.objective(asked, chunk, *result.function))), result.function
