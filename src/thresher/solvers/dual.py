r"""Duals of kernel machines, for whoever can write one down.

.. math:: \min_z \tfrac12 z'Qz + p'z, \quad l \le z \le u, \quad \sum_{v \in g} z_v = r_g
          \text{ for every group } g

:math:`Q_{uv} = s_u s_v B_{c_u c_v} K_{r_u r_v}` over the rows of one kernel matrix K, whose columns
come from a source (``thresher.kernels.columns``): a variable v has a kernel row r (several may have
the same), a sign s, and a block c of a small coupling matrix B.  What is left out is 1.

=====================================  ======================================================
machine                                variables
=====================================  ======================================================
support vector classification          z = y alpha over the rows, p = -y, one group of sum 0
nu-classification                      the same with p = 0 and a group for each class
support vector regression              alpha >= 0 and -alpha* <= 0 over the same rows twice, one
                                       group; nu: two groups
one class                              alpha over the rows, p = 0, one group of sum nu n
universum                              z = y alpha, and two more for each row of no class
one model a class, coupled             blocks c with B = M^-1, one group a class
multiple kernels                       a weighted sum of kernels as the source
=====================================  ======================================================

The multiplier of a group is the gradient of its free variables, so that minus it is the intercept
of a classification or a regression.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from thresher._clock import is_over
from thresher._threads import one_blas_thread
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import Columns
from thresher.solvers.base import Status
from thresher.solvers.decomposition import NOT_FINITE, Decomposition

__all__ = ["DualEvent", "DualProblem", "DualSolution", "feasible", "solve_dual"]


@dataclass(frozen=True, eq=False)
class DualProblem:
    """A quadratic problem with bounds and disjoint equalities, its matrix made of kernel columns.

    Parameters
    ----------
    columns : Columns
        Of the kernel matrix.
    p : array of shape (n,)
        Linear part.
    lower, upper : arrays of shape (n,)
        Bounds of the variables.
    totals : array of shape (groups,), default=(0.0,)
        The sum of the variables of every group.
    group : int array of shape (n,) or None, default=None
        The equality of each variable, numbers from 0; None: one for all.
    rows : int array of shape (n,) or None, default=None
        The kernel row of each variable; None: the first has the first, and so on.
    signs : array of shape (n,) or None, default=None
        Factors +1 or -1 of the variables in Q.
    block : int array of shape (n,) or None, default=None
        The row of ``coupling`` of each variable.
    coupling : array of shape (blocks, blocks), default=((1.0,),)
        The matrix B, symmetric and positive definite.

    Examples
    --------
    Two points of two classes, z = y alpha and C = 10:

    >>> import numpy as np
    >>> from thresher.kernels.columns import GramColumns
    >>> from thresher.solvers.dual import DualProblem, solve_dual
    >>> x, y = np.array([0.0, 2.0]), np.array([-1.0, 1.0])
    >>> K = GramColumns(np.outer(x, x))
    >>> found = solve_dual(DualProblem(K, -y, np.minimum(0, 10 * y), np.maximum(0, 10 * y)))
    >>> found.z.tolist(), (-found.multipliers).tolist()
    ([-0.5, 0.5], [-1.0])
    """

    columns: Columns
    p: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    totals: Any = (0.0,)
    group: np.ndarray | None = None
    rows: np.ndarray | None = None
    signs: np.ndarray | None = None
    block: np.ndarray | None = None
    coupling: Any = ((1.0,),)


class DualEvent(NamedTuple):
    """What a monitor is told after each step; a Status that it returns ends the solve."""

    steps: int
    violation: float
    objective: float
    support: int  # variables that are not zero
    z: np.ndarray  # where it stands: a start from here goes on


class DualSolution(NamedTuple):
    """Where a solve ended.

    ``violation`` is that of the KKT conditions in units of the gradient, ``gap`` the difference of
    primal and dual objective (a bound on what is missing, if the matrix is positive definite).
    ``negative`` counts the pairs of variables along which it was not.
    """

    z: np.ndarray
    multipliers: np.ndarray
    gradient: np.ndarray
    objective: float
    violation: float
    gap: float
    steps: int
    pairs: int
    columns: int  # that were computed
    negative: int
    status: Status


def solve_dual(
    problem: DualProblem, start: np.ndarray | None = None, *, tol: float = 1e-3,
    memory: float = 2e8, working: int | None = None, max_steps: int | None = None,
    threads: int = 1, monitor: Callable[[DualEvent], Status | None] | None = None,
    cache: ColumnCache | None = None,
) -> DualSolution:  # fmt: skip
    """Solve a dual problem until its KKT conditions are violated by at most ``tol``.

    Parameters
    ----------
    problem : DualProblem
    start : array of shape (n,) or None, default=None
        Where to start, as of a neighbouring problem; it is made feasible first.  None: zeros.
    tol : float, default=1e-3
        In units of the gradient, as LIBSVM's.
    memory : float, default=2e8
        Bytes of kernel columns that are kept.
    working : int or None, default=None
        Variables worked on at a time; None: a power of two near a sixth of the rows, 128 to 1024.
    max_steps : int or None, default=None
        Steps (renewals of the working set) at most; None: as many as it takes.
    threads : int, default=1
        For columns and gradient.
    monitor : callable or None, default=None
        Called with a :class:`DualEvent` after each step.
    cache : ColumnCache or None, default=None
        Of the same columns, from problems before; it then has the memory and the threads.
    """
    ready = _Ready(problem)
    z = feasible(ready, start)
    with ExitStack() as opened:
        if threads > 1:
            opened.enter_context(one_blas_thread())
        if cache is None:
            cache = opened.enter_context(ColumnCache(problem.columns, memory, threads))
        before = cache.computed
        size = _working_set(ready.p.size, problem.columns.size) if working is None else working
        solver = opened.enter_context(closing(Decomposition(ready, z, cache, tol, size)))
        status = _run(solver, max_steps, monitor)
        return _solution(ready, solver, cache.computed - before, status)


def _run(
    solver: Decomposition, max_steps: int | None, monitor: Callable[[DualEvent], Any] | None
) -> Status:
    refreshed = False
    while True:
        violation = solver.violation
        if not math.isfinite(violation):
            raise ArithmeticError(NOT_FINITE)
        if violation <= solver.tol:
            return Status.CONVERGED
        if is_over():
            return Status.OUT_OF_TIME
        if solver.steps >= (max_steps if max_steps is not None else math.inf):
            return Status.MAX_ITER
        if solver.has_stalled:
            if refreshed:
                return Status.STALLED
            solver.refresh()
            solver.has_stalled, refreshed = False, True
        solver.step()
        if monitor is not None:
            support = int(np.count_nonzero(solver.z))
            now = solver.problem.restored(solver.z.copy())
            event = DualEvent(solver.steps, solver.violation, solver.objective, support, now)
            answer = monitor(event)
            if answer is not None:
                return answer


def _solution(ready: _Ready, solver: Decomposition, computed: int, status: Status) -> DualSolution:
    multipliers = solver.multipliers()
    reduced = solver.G - multipliers[ready.group]
    with np.errstate(invalid="ignore"):
        slack = solver.z - np.where(reduced > 0.0, ready.lower, ready.upper)
        gap = float(np.sum(np.where(reduced == 0.0, 0.0, reduced * slack)))
    return DualSolution(
        ready.restored(solver.z), multipliers, ready.restored(solver.G), solver.objective,
        solver.violation, gap, solver.steps, solver.pairs, computed, solver.negative, status,
    )  # fmt: skip


def _working_set(variables: int, rows: int) -> int:
    """A power of two near a sixth of the rows, 128 to 1024."""
    wanted = min(max(rows / 6, 128), 1024)
    return min(2 ** round(math.log2(wanted)), max(variables, 2))


class _Ready:
    """A problem with everything filled in and its variables sorted by group."""

    def __init__(self, problem: DualProblem):
        p = np.asarray(problem.p, dtype=np.float64)
        n = p.size
        self.totals = np.atleast_1d(np.asarray(problem.totals, dtype=np.float64))
        group = _filled(problem.group, n, 0, np.int64, "group")
        self.order = None if problem.group is None else np.argsort(group, kind="stable")
        _check_numbers("group", group, self.totals.size)
        self.group = self.sorted(group)
        self.p = self.sorted(p)
        self.lower = self.sorted(_filled(problem.lower, n, 0, np.float64, "lower"))
        self.upper = self.sorted(_filled(problem.upper, n, 0, np.float64, "upper"))
        rows = np.arange(n) if problem.rows is None else problem.rows
        self.rows = self.sorted(_filled(rows, n, 0, np.int64, "rows"))
        _check_numbers("rows", self.rows, problem.columns.size)
        self.signs = self.sorted(_filled(problem.signs, n, 1.0, np.float64, "signs"))
        self.coupling = np.ascontiguousarray(np.atleast_2d(problem.coupling), dtype=np.float64)
        self.block = self.sorted(_filled(problem.block, n, 0, np.int64, "block"))
        _check_numbers("block", self.block, self.coupling.shape[0])
        self.starts = np.searchsorted(self.group, np.arange(self.totals.size + 1))
        own = self.coupling[self.block, self.block]
        self.diagonal = own * problem.columns.diagonal[self.rows] * self.signs**2
        #: every variable has a kernel row of its own
        unsigned = problem.signs is None and np.array_equal(self.coupling, [[1.0]])
        self.is_plain = problem.rows is None and unsigned
        wrong = np.flatnonzero(~(self.lower <= self.upper))
        if wrong.size:
            v = int(wrong[0])
            raise ValueError(f"variable {v}: no number lies in {self.lower[v]} .. {self.upper[v]}")

    def sorted(self, values: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(values if self.order is None else values[self.order])

    def restored(self, values: np.ndarray) -> np.ndarray:
        """In the order of the problem."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[self.order] = values
        return out


def _filled(values: Any, n: int, default: Any, dtype: Any, name: str) -> np.ndarray:
    out = np.full(n, default, dtype) if values is None else np.asarray(values, dtype=dtype)
    if out.shape != (n,):
        raise ValueError(f"{name} has the shape {out.shape}, but there are {n} variables")
    return out


def _check_numbers(name: str, values: np.ndarray, count: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < count):
        raise ValueError(f"{name} must hold numbers from 0 to {count - 1}")


def feasible(problem: Any, start: np.ndarray | None = None) -> np.ndarray:
    """A point within the bounds and with the totals of the groups, near ``start``.

    ``problem`` is sorted by group.  ValueError names a group whose total cannot be reached.
    """
    n = problem.p.size
    given = np.zeros(n) if start is None else np.asarray(start, dtype=np.float64)
    if given.shape != (n,):
        raise ValueError(f"the start has the shape {given.shape}, but there are {n} variables")
    z = np.clip(problem.sorted(given), problem.lower, problem.upper)
    for g, total in enumerate(problem.totals):
        part = slice(problem.starts[g], problem.starts[g + 1])
        lower, upper = problem.lower[part], problem.upper[part]
        least, most = lower.sum(), upper.sum()
        room = 1e-9 * max(abs(least), abs(most), abs(total), 1e-300)
        if not least - room <= total <= most + room:
            raise ValueError(
                f"the variables of group {g} must add up to {total:g}, but their bounds allow "
                f"{least:g} to {most:g} only"
            )
        _mend(z[part], lower, upper, float(total))
    return z


def _mend(z: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: float) -> None:
    """Move variables until they add up, those first that are on their way already.

    Few are moved: every variable off its bound costs a kernel column.
    """
    missing = total - float(z.sum())
    if abs(missing) <= 1e-14 * max(abs(total), float(np.abs(z).sum())):
        return
    room = upper - z if missing > 0.0 else z - lower
    order = np.argsort(z == 0.0, kind="stable")
    spent = np.cumsum(room[order])
    whole = int(np.searchsorted(spent, abs(missing)))
    bound = upper if missing > 0.0 else lower
    full = order[:whole]
    z[full] = bound[full]
    if whole < order.size:
        left = abs(missing) - (float(spent[whole - 1]) if whole else 0.0)
        v = order[whole]
        z[v] = np.clip(z[v] + math.copysign(left, missing), lower[v], upper[v])
