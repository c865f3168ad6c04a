"""Steps of 3C-SVM on kernel columns, exactly: each is a dual problem, started from the last."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import Columns
from thresher.kernels.mean_columns import MeanColumns
from thresher.solvers.dual import DualEvent, DualProblem
from thresher.solvers.machines import KernelDual, Monitor
from thresher.solvers.universum import Convex, Stage

__all__ = ["ExactSteps"]


class ExactSteps:
    r"""Solves a ``Convex`` step over the columns of a kernel; columns are kept between steps.

    With a ``balance`` the mean score of the rows ``members`` is that number.  Its multiplier t adds
    :math:`t\,\frac1m\sum_u \varphi(x_u)` to the function: one more variable of the same equality,
    free, whose kernel row is that mean.

    Parameters
    ----------
    solver : KernelDual
    columns : Columns
    members : int array, default=()
        The rows of the balance.
    balance : float or None, default=None
    monitor : callable or None, default=None
        As ``solve_dual`` takes it; the variables that it is told are a start.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels.columns import GramColumns
    >>> from thresher.solvers.machines import KernelDual
    >>> from thresher.solvers.universum import ThreeClass, descend
    >>> from thresher.solvers.universum_exact import ExactSteps
    >>> x, y = np.array([-2.0, 2.0, -1.9, 2.1, 0.1]), np.array([-1.0, 1.0, np.nan, np.nan, np.nan])
    >>> with ExactSteps(KernelDual(), GramColumns(np.outer(x, x))) as steps:
    ...     found = descend(ThreeClass(), y, np.ones(5), steps, start="labelled")
    >>> found.sides.tolist()
    [-1, 1, -1, 1, 0]
    """

    def __init__(
        self, solver: KernelDual, columns: Columns, members: Any = (),
        balance: float | None = None, monitor: Monitor = None, cache: ColumnCache | None = None,
    ):  # fmt: skip
        self._solver, self._balance, self._monitor = solver, balance, monitor
        self._opened = ExitStack()
        self._rows, self._members = columns.size, np.asarray(members, dtype=np.int64)
        if balance is not None:
            columns, cache = MeanColumns(columns, self._members), None
        if cache is None:
            cache = self._opened.enter_context(ColumnCache(columns, solver.memory, solver.threads))
        self._cache, self._columns = cache, columns

    def __enter__(self) -> ExactSteps:
        return self

    def __exit__(self, *_: Any) -> None:
        self._opened.close()

    @property
    def variables(self) -> int:
        """Of a start: two for each row, and that of the balance."""
        return 2 * self._rows + 1

    def __call__(self, step: Convex, start: np.ndarray | None) -> Stage:
        """The solution, from where the step before ended."""
        n, hinges = self._rows, step.hinges()
        there = np.flatnonzero((hinges.lower < hinges.upper).ravel())
        rows = there % n
        p, lower, upper = (part.ravel()[there] for part in hinges)
        if self._balance is not None:
            room = 2.0 * float((upper - lower).sum()) + 1.0  # never reached: the variable is free
            p, rows = np.append(p, -self._balance), np.append(rows, n)
            lower, upper = np.append(lower, -room), np.append(upper, room)
            there = np.append(there, 2 * n)
        problem = DualProblem(self._columns, p, lower, upper, rows=rows)
        found = self._solver.solve(
            problem, None if start is None else start[there], self._told(there), self._cache
        )
        intercept = -float(found.multipliers[0])
        z = self._whole(found.z, there)
        products = found.gradient - problem.p  # Q z, one for each variable
        coef = z[:n] + z[n : 2 * n]
        if self._balance is not None:
            coef[self._members] += z[-1] / self._members.size
        scores = np.full(n + 1, np.nan)
        scores[rows] = products
        scores = scores[:n]
        missing = np.flatnonzero(np.isnan(scores))
        if missing.size:
            scores[missing] = self._scores(missing, coef)
        return Stage(
            scores + intercept, coef, intercept, float(found.z @ products), z,
            found.status, found.steps, found.violation, found.negative,
        )  # fmt: skip

    def _whole(self, z: np.ndarray, there: np.ndarray) -> np.ndarray:
        out = np.zeros(self.variables)
        out[there] = z
        return out

    def _told(self, there: np.ndarray) -> Monitor:
        monitor = self._monitor
        if monitor is None:
            return None

        def told(event: DualEvent) -> Any:
            return monitor(event._replace(z=self._whole(event.z, there)))

        return told

    def _scores(self, rows: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Of rows that have no hinge, without the intercept."""
        used = np.flatnonzero(coef)
        out = np.zeros(rows.size)
        for start in range(0, used.size, self._cache.capacity):
            part = used[start : start + self._cache.capacity]
            places = self._cache.places(part)
            out += coef[part] @ self._cache.table[np.ix_(places, rows)].astype(np.float64)
        return out
