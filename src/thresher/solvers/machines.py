r"""LIBSVM's machines as dual problems: what goes in, and what is read off the solution.

Each function takes a solver, the columns of a kernel over the rows, targets, and one bound for
every row (C times its weight), and gives a :class:`Machine`: coefficients of the rows, an
intercept, and the scores of the rows themselves, which the solver knows anyway.  A ``start`` are
variables of the dual problem, as a ``DualEvent`` has them, from which an interrupted solve goes on;
in place of those of a regression its coefficients will do.

References: Cortes and Vapnik, Support-vector networks (1995); Schölkopf et al., New support vector
algorithms (2000); Schölkopf et al., Estimating the support of a high-dimensional distribution
(2001); Chang and Lin, LIBSVM (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from thresher._random import generator
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import Columns
from thresher.solvers.base import Solver, Status
from thresher.solvers.dual import DualEvent, DualProblem, DualSolution, solve_dual

__all__ = [
    "KernelDual", "Machine", "classification", "nu_classification", "nu_regression", "one_class",
    "regression",
]  # fmt: skip

Monitor = Callable[[DualEvent], Any] | None
_FINEST = 1e-6  # tolerance that nu-classification may come down to, where margins are small
_COMPANY = 200  # rows that tell how lonely a row is


@dataclass(frozen=True)
class KernelDual(Solver):
    """The dual of a kernel machine by decomposition; see ``thresher.solvers.dual``.

    Parameters
    ----------
    tol : float, default=1e-3
        How much the KKT conditions may be violated by, in units of the gradient.
    memory : float, default=2e8
        Bytes of kernel columns that are kept.
    max_steps : int or None, default=None
        Renewals of the working set, at most.
    threads : int, default=1

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.columns import KernelColumns
    >>> from thresher.solvers.machines import KernelDual, classification
    >>> X = np.array([[0.0], [1.0], [4.0], [5.0]])
    >>> y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> machine = classification(KernelDual(), KernelColumns(RBF(1.0), X), y, np.full(4, 10.0))
    >>> np.sign(machine.scores).tolist()
    [-1.0, -1.0, 1.0, 1.0]
    """

    tol: float = 1e-3
    memory: float = 2e8
    max_steps: int | None = None
    threads: int = 1
    streaming = False
    linear = False

    def solve(
        self, problem: DualProblem, start: np.ndarray | None = None, monitor: Monitor = None,
        cache: ColumnCache | None = None,
    ) -> DualSolution:  # fmt: skip
        """With these hyper-parameters."""
        return solve_dual(
            problem, start, tol=self.tol, memory=self.memory, max_steps=self.max_steps,
            threads=self.threads, monitor=monitor, cache=cache,
        )  # fmt: skip


class Machine(NamedTuple):
    """sum_i coef_i k(x_i, x) + intercept, and how it was found."""

    coef: np.ndarray
    intercept: float
    scores: np.ndarray  # of the rows that it was learned from
    solution: DualSolution


def classification(
    solver: KernelDual, columns: Columns, y: np.ndarray, bounds: np.ndarray, *,
    start: np.ndarray | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
) -> Machine:  # fmt: skip
    """Targets -1 and +1, the hinge loss times ``bounds``."""
    problem = DualProblem(columns, -y, np.minimum(0.0, bounds * y), np.maximum(0.0, bounds * y))
    found = solver.solve(problem, start, monitor, cache)
    intercept = -float(found.multipliers[0])
    return Machine(found.z, intercept, found.gradient + y + intercept, found)


def largest_nu(y: np.ndarray, weight: np.ndarray) -> float:
    """Beyond which the rows of the rarer class are too few."""
    positive = float(weight[y > 0.0].sum())
    total = float(weight.sum())
    return 2.0 * min(positive, total - positive) / total


def nu_classification(
    solver: KernelDual, columns: Columns, y: np.ndarray, weight: np.ndarray, nu: float, *,
    start: np.ndarray | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
) -> Machine:  # fmt: skip
    """At most the share ``nu`` of the rows lies within the margin, at least that are support
    vectors; the scores are in units of the margin."""
    most = largest_nu(y, weight)
    if nu > most * (1.0 + 1e-12):
        raise ValueError(
            f"nu={nu:g} is too large for classes of such different sizes: at most {most:.6g} here "
            "(twice the share of the rarer class)"
        )
    half = 0.5 * min(nu, most) * float(weight.sum())
    group = (y < 0.0).astype(np.int64)
    problem = DualProblem(
        columns, np.zeros(y.size), np.minimum(0.0, weight * y), np.maximum(0.0, weight * y),
        totals=[half, -half], group=group,
    )  # fmt: skip
    found = solver.solve(problem, start, monitor, cache)
    tol, margin, middle = solver.tol, *_margin(found)
    finest = max(_FINEST, 2.0 * _rounding(columns, found.z))
    # Scores will be divided by the margin, and so will be what the conditions are violated by.
    while found.status is Status.CONVERGED and tol > max(solver.tol * margin, finest):
        tol = max(0.5 * solver.tol * margin, 0.01 * tol, finest)
        found = replace(solver, tol=tol).solve(problem, found.z, monitor, cache)
        margin, middle = _margin(found)
    if not margin > 10.0 * finest:
        raise ValueError(
            f"nu={nu:g} leaves no margin between the classes: give a larger nu (at most "
            f"{most:.6g} here), or C instead"
        )
    scores = (found.gradient - middle) / margin
    return Machine(found.z / margin, -float(middle / margin), scores, found)


def _rounding(columns: Columns, z: np.ndarray) -> float:
    """What single precision leaves uncertain in a gradient."""
    return float(np.finfo(np.float32).eps * np.max(columns.diagonal) * np.linalg.norm(z))


def _margin(found: DualSolution) -> tuple[float, float]:
    """Half the distance of the two multipliers, and what lies between them."""
    above, below = map(float, found.multipliers)
    return 0.5 * (above - below), 0.5 * (above + below)


def regression(
    solver: KernelDual, columns: Columns, y: np.ndarray, bounds: np.ndarray, epsilon: float, *,
    start: np.ndarray | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
) -> Machine:  # fmt: skip
    """The epsilon-insensitive loss times ``bounds``."""
    n, nothing = y.size, np.zeros(y.size)
    if start is not None and start.size == n:
        start = np.concatenate([np.maximum(start, 0.0), np.minimum(start, 0.0)])
    problem = DualProblem(
        columns, np.concatenate([epsilon - y, -epsilon - y]), np.concatenate([nothing, -bounds]),
        np.concatenate([bounds, nothing]), rows=np.tile(np.arange(n), 2),
    )  # fmt: skip
    found = solver.solve(problem, start, monitor, cache)
    intercept = -float(found.multipliers[0])
    scores = found.gradient[:n] - problem.p[:n] + intercept
    return Machine(found.z[:n] + found.z[n:], intercept, scores, found)


def nu_regression(
    solver: KernelDual, columns: Columns, y: np.ndarray, bounds: np.ndarray, nu: float, *,
    start: np.ndarray | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
) -> tuple[Machine, float]:  # fmt: skip
    """At most the share ``nu`` of the rows lies outside the tube; also the tube's half width."""
    n, nothing = y.size, np.zeros(y.size)
    half = 0.5 * nu * float(bounds.sum())
    problem = DualProblem(
        columns, np.concatenate([-y, -y]), np.concatenate([nothing, -bounds]),
        np.concatenate([bounds, nothing]), totals=[half, -half],
        group=np.repeat([0, 1], n), rows=np.tile(np.arange(n), 2),
    )  # fmt: skip
    found = solver.solve(problem, start, monitor, cache)
    first, second = found.multipliers
    intercept = -0.5 * float(first + second)
    scores = found.gradient[:n] + y + intercept
    machine = Machine(found.z[:n] + found.z[n:], intercept, scores, found)
    return machine, max(0.5 * float(second - first), 0.0)


def one_class(
    solver: KernelDual, columns: Columns, weight: np.ndarray, nu: float, *,
    start: np.ndarray | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
) -> Machine:  # fmt: skip
    """At most the share ``nu`` of the rows has a negative score, to the tolerance.

    Starts from the rows that are farthest from some others: those will be the support vectors.
    Scores are of the size of the total that is handed out; where that is less than one row's, the
    tolerance shrinks with it, for any start would do otherwise.
    """
    total = nu * float(weight.sum())
    problem = DualProblem(columns, np.zeros(weight.size), np.zeros(weight.size), weight, [total])
    start = _outermost(columns, weight, total) if start is None else start
    fine = replace(solver, tol=solver.tol * min(total, 1.0))
    found = fine.solve(problem, start, monitor, cache)
    # Rows on the boundary, of which one row alone is one, are not rejected by rounding.
    intercept = _rounding(columns, found.z) - float(found.multipliers[0])
    return Machine(found.z, intercept, found.gradient + intercept, found)


def _outermost(columns: Columns, weight: np.ndarray, total: float) -> np.ndarray:
    """The weights of the loneliest rows, as many as make the total; zeros for the others."""
    order = np.argsort(_company(columns), kind="stable")
    spent = np.cumsum(weight[order])
    inside = order[: int(np.searchsorted(spent, total, side="right"))]
    start = np.zeros(weight.size)
    start[inside] = weight[inside]
    return start


def _company(columns: Columns) -> np.ndarray:
    """The mean kernel of every row with some others."""
    n = columns.size
    some = np.sort(generator(0, 31).choice(n, min(n, _COMPANY), replace=False))
    out = np.zeros(n)
    table = np.empty((1, n), dtype=np.float32)
    for row in some:  # one by one: a table of all would take more memory than the cache may
        columns.fill(np.array([row]), table, np.zeros(1, dtype=np.int64), 0, n)
        out += table[0]
    return out / max(some.size, 1)
