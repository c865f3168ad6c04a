"""Fits of exact kernel machines: dual problems one by one, watched, stopped, put together."""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from thresher._clock import is_over, passed_on
from thresher._threads import one_blas_thread
from thresher.estimators import ledger
from thresher.estimators.progress import FitEvent, progress_line
from thresher.functions import Duels, SupportFunction
from thresher.kernels import Kernel
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import KernelColumns, fitting_precision
from thresher.kernels.gram import gram
from thresher.solvers import Status
from thresher.solvers.dual import DualEvent
from thresher.solvers.duels import Duel, SmallDuels
from thresher.solvers.machines import KernelDual

__all__ = [
    "Fitted", "Rows", "Unfinished", "Watch", "advised", "avoids_half_the_errors", "deviation",
    "duels", "explains_half", "support_function", "together",
]  # fmt: skip

_MOMENT = 1.0  # seconds between two lines of progress
_NOTHING = 1e-3  # of a margin
_MANY = 500  # steps after which another learner would have been better


class Rows(NamedTuple):
    """What a machine is learned from: rows in their units, targets, bounds (C times weights).

    ``order`` are the rows of X that it is about, None: all; ``prepared`` their columns, if somebody
    has them already.
    """

    kernel: Kernel
    X: Any
    y: np.ndarray
    weight: np.ndarray
    order: np.ndarray | None = None
    prepared: KernelColumns | None = None

    def gram(self) -> np.ndarray:
        """The whole kernel matrix, in double precision."""
        X = self.X if self.order is None else self.X[self.order]
        return gram(self.kernel, X.astype(np.float64))

    def columns(self, tol: float) -> KernelColumns:
        """Of the kernel, in the precision that so large coefficients ask for."""
        if self.prepared is not None:
            return self.prepared
        bound = float(self.weight.max())
        precision = fitting_precision(self.kernel, self.X, bound, tol)
        return KernelColumns(self.kernel, self.X, precision)


class Fitted(NamedTuple):
    """One function of the rows, and how its problem ended."""

    coef: np.ndarray
    intercept: float
    scores: np.ndarray
    status: Status
    steps: int
    violation: float
    negative: int = 0

    @classmethod
    def of(cls, machine: Any) -> Fitted:
        found = machine.solution
        return cls(
            machine.coef, machine.intercept, machine.scores, found.status, found.steps,
            found.violation, found.negative,
        )  # fmt: skip

    def times(self, unit: float) -> Fitted:
        """The same, learned from targets in this unit."""
        return self._replace(
            coef=unit * self.coef, intercept=unit * self.intercept, scores=unit * self.scores,
            violation=unit * self.violation,
        )  # fmt: skip

    @classmethod
    def nothing(cls, rows: int, value: float, status: Status) -> Fitted:
        """A constant, where nothing was learned or nothing was to be learned."""
        return cls(np.zeros(rows), value, np.full(rows, value), status, 0, 0.0)


def deviation(y: np.ndarray, weight: np.ndarray | None) -> float:
    """Of the targets; 1 where all are the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        away = y - np.average(y, weights=weight)
        largest = float(np.abs(away).max()) or 1.0  # so that small numbers can be squared, too
        found = largest * math.sqrt(np.average((away / largest) ** 2, weights=weight))
    return found if 0.0 < found < math.inf else 1.0


def avoids_half_the_errors(y: np.ndarray, weight: np.ndarray, scores: np.ndarray) -> bool:
    """Whether half of the errors of the most frequent class are not made.

    Scores are in units of the margin: much smaller ones may be rounding, by which equal rows of
    different targets differ.
    """
    positive = y > 0.0
    usual = min(weight[positive].sum(), weight[~positive].sum())
    return bool(weight[scores * y <= _NOTHING].sum() <= 0.5 * usual)


def explains_half(y: np.ndarray, weight: np.ndarray, scores: np.ndarray) -> bool:
    """Whether the squared misses are less than half of the targets' variance."""
    misses = (scores - y) / deviation(y, weight)
    return bool(np.average(misses**2, weights=weight / weight.max()) < 0.5)


class Unfinished(NamedTuple):
    """What a callback can look at while a problem is being solved."""

    coef: np.ndarray
    intercept: float
    text: str

    @classmethod
    def so_far(cls, text: str) -> Unfinished:
        """Nothing but words: weights are not known before the end."""
        return cls(np.empty((0, 0)), 0.0, text)

    @classmethod
    def of(cls, event: DualEvent) -> Unfinished:
        return cls.so_far(f"{event.support:,} support vectors")

    def describe(self) -> str:
        return self.text


class Watch:
    """Progress lines and callbacks of all problems of a fit; who stops one stops all.

    ``is_kept`` says that the fit can go on from a ledger, and notes its problems there.
    """

    def __init__(self, estimator: Any, is_kept: bool = False):
        self.estimator = estimator
        self.began = self.shown = time.perf_counter()
        self.stopped: Status | None = None
        self._lock = threading.Lock()
        self._ledger = ledger.current() if is_kept else None
        self._fit = 0 if self._ledger is None else self._ledger.begin()

    @property
    def wanted(self) -> bool:
        """Whether anybody wants to know of the steps of a problem."""
        told = bool(self.estimator.verbose or self.estimator.callbacks)
        return told or self._ledger is not None

    def note(self, output: int | None, standing: ledger.Standing) -> None:
        """Where the problem of this number stands, for whoever keeps a ledger."""
        if self._ledger is not None:
            self._ledger.note(self._fit, output or 0, standing)

    def left(self, output: int | None, size: int) -> ledger.Standing | None:
        """Where the problem of this number, of so many variables, was left."""
        if self._ledger is None:
            return None
        return self._ledger.standing(self._fit, output or 0, size)

    def monitor(
        self, output: int | None, before: int = 0
    ) -> Callable[[DualEvent], Status | None] | None:
        """For the problem of this number, which has taken some steps before."""
        if not self.wanted:
            return None

        def told(event: DualEvent) -> Status | None:
            steps = event.steps + before
            self.note(output, ledger.Standing(event.z, steps))
            return self.tell(
                output, steps, steps, event.violation, event.support, Unfinished.of(event)
            )

        return told

    def standing(
        self, output: int | None, size: int, solver: KernelDual
    ) -> tuple[np.ndarray | None, KernelDual, int]:
        """Where to start, the solver for what is left, and the steps that were taken before."""
        kept = self.left(output, size)
        if kept is None:
            return None, solver, 0
        if solver.max_steps is not None:
            solver = replace(solver, max_steps=max(solver.max_steps - kept.steps, 0))
        return kept.z, solver, kept.steps

    def once(self, output: int, rows: int, learn: Callable[[], Fitted]) -> Fitted:
        """One of several problems: as it was found before, or as it is found now."""
        if self._ledger is None:
            return learn()
        kept = self._ledger.finished(self._fit, output, rows)
        if kept is not None:
            return Fitted(**(kept._asdict() | {"status": Status[kept.status]}))
        found = learn()
        if found.status is Status.CONVERGED:
            plain = found._asdict() | {"status": found.status.name}
            self._ledger.finish(self._fit, output, ledger.Finished(**plain))
        return found

    def tell_of(self, output: int, found: Duel) -> None:
        """A machine that was found in one call."""
        monitor = self.monitor(output)
        if monitor is not None:
            support = int(np.count_nonzero(found.coef))
            monitor(DualEvent(found.steps, found.violation, found.objective, support, found.coef))

    def is_over(self) -> bool:
        """Whether to begin no other problem."""
        if self.stopped is None and is_over():
            self.stopped = Status.OUT_OF_TIME
        return self.stopped is not None

    def tell(
        self, output: int | None, passes: int, step: int, residual: float, size: int, function: Any
    ) -> Status | None:
        """Print and call back; the Status, if one is asked to stop."""
        with self._lock:
            now = time.perf_counter()
            told = FitEvent(
                self.estimator, output, passes, step, residual, size, None, now - self.began,
                function,
            )  # fmt: skip
            if self.estimator.verbose and now - self.shown >= _MOMENT:
                self.shown = now
                print(progress_line(told), flush=True)
            # Every callback is told, also after one asked to stop.
            answers = [callback(told) for callback in self.estimator.callbacks or ()]
            if any(answers):
                self.stopped = Status.INTERRUPTED
            return self.stopped


def advised(
    monitor: Callable[[DualEvent], Status | None] | None, instead: str
) -> Callable[[DualEvent], Status | None]:
    """The monitor, which says once of a linear kernel what takes fewer steps.

    Where many rows lie within the margin and C is large, pairs of variables creep.
    """

    def told(event: DualEvent) -> Status | None:
        if event.steps == _MANY:
            warnings.warn(
                f"{_MANY} steps and not there yet: with a linear kernel, {instead} finds the same "
                "machine in a time that hardly depends on C; a lower C or scale=True helps too",
                stacklevel=2,
            )
        return None if monitor is None else monitor(event)

    return told


Learn = Callable[[Rows, int | None, KernelDual, ColumnCache | None], Fitted]


def together(
    learn: Learn, rows: Rows, outputs: int, solver: KernelDual, watch: Watch
) -> list[Fitted]:
    """One function, or one for each class against the rest.

    All of them need the same columns, which are computed once.
    """
    if outputs == 1:
        return [learn(rows, None, solver, None)]
    with ColumnCache(rows.columns(solver.tol), solver.memory, solver.threads) as cache:

        def fit(c: int) -> Fitted:
            y = np.where(rows.y == c, 1.0, -1.0)
            return learn(rows._replace(y=y), c, solver, cache)

        return [watch.once(c, rows.y.size, partial(fit, c)) for c in range(outputs)]


def duels(
    learn: Learn, rows: Rows, classes: int, solver: KernelDual, watch: Watch, by_columns: bool,
    at_once: bool,
) -> tuple[Duels, list[Fitted]]:  # fmt: skip
    """A machine for every pair of classes; ``rows.y`` are class numbers.

    ``by_columns`` says that the machines need columns of the kernel, which are prepared once;
    ``at_once`` that they are those of ``SmallDuels``, if they are small enough.
    """
    members = [np.flatnonzero(rows.y == c) for c in range(classes)]
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    jobs = solver.threads  # each takes a pair
    prepared = rows.columns(solver.tol) if by_columns else None
    own = replace(solver, memory=solver.memory / jobs, threads=1)
    small = _small_duels(rows, members, prepared, solver) if at_once and prepared else None

    def fit(number: int) -> Fitted:
        i, j = pairs[number]
        ours, theirs = members[i], members[j]
        count = ours.size + theirs.size
        if watch.is_over():
            return Fitted.nothing(count, 0.0, watch.stopped or Status.INTERRUPTED)
        if not ours.size or not theirs.size:  # a class without rows is never right
            value = 1.0 if theirs.size else -1.0
            return Fitted.nothing(count, value, Status.CONVERGED)
        found = small.between(i, j) if small is not None else None
        if found is not None:
            watch.tell_of(number, found)
            return Fitted(*found[:-1])
        both = np.concatenate([ours, theirs])
        y = np.repeat([-1.0, 1.0], [ours.size, theirs.size])
        part = rows._replace(
            y=y, weight=rows.weight[both], order=both,
            prepared=prepared and prepared.taken(both),
        )  # fmt: skip
        return learn(part, number, own, None)

    def fit_once(number: int) -> Fitted:
        rows = sum(members[c].size for c in pairs[number])
        return watch.once(number, rows, partial(fit, number))

    with ExitStack() as opened:
        run: Callable[..., Any] = map
        if jobs > 1 or small is not None:
            opened.enter_context(one_blas_thread())
        if jobs > 1:
            run = opened.enter_context(ThreadPoolExecutor(jobs)).map
        if small is not None:
            list(run(small.prepare, range(classes)))
        fitted = list(run(passed_on(fit_once), range(len(pairs))))
    return _shared(rows, members, pairs, fitted), fitted


def _small_duels(
    rows: Rows, members: list[np.ndarray], prepared: KernelColumns, solver: KernelDual
) -> SmallDuels | None:
    """The pairs as problems of one call each, where rows are dense and few enough."""
    starts = np.concatenate([[0], np.cumsum([own.size for own in members])])
    order = np.concatenate(members)
    if not SmallDuels.fit_in(starts, solver.memory):
        return None
    dense = prepared.taken(order).dense
    if dense is None:
        return None
    bounds = rows.weight[order]
    return SmallDuels(dense, starts, bounds, solver.tol, solver.memory, solver.max_steps)


def _shared(
    rows: Rows, members: list[np.ndarray], pairs: list[tuple[int, int]], fitted: list[Fitted]
) -> Duels:
    """The duels with every support vector once, sorted by class."""
    k = len(members)
    tables = [np.zeros((k - 1, own.size)) for own in members]
    for (i, j), found in zip(pairs, fitted, strict=True):
        cut = members[i].size
        tables[i][j - 1], tables[j][i] = found.coef[:cut], found.coef[cut:]
    used = [np.flatnonzero(table.any(axis=0)) for table in tables]
    order = np.concatenate([own[u] for own, u in zip(members, used, strict=True)])
    coef = np.concatenate([t[:, u] for t, u in zip(tables, used, strict=True)], axis=1)
    starts = np.concatenate([[0], np.cumsum([u.size for u in used])]).astype(np.int64)
    intercept = np.array([found.intercept for found in fitted])
    return Duels(rows.kernel, rows.X[order], coef, intercept, starts)


def support_function(rows: Rows, fitted: list[Fitted]) -> SupportFunction:
    """Functions that share their support vectors."""
    coef = np.stack([found.coef for found in fitted])
    used = np.flatnonzero(coef.any(axis=0))
    intercept = np.array([found.intercept for found in fitted])
    return SupportFunction(
        rows.kernel, rows.X[used], np.ascontiguousarray(coef[:, used]), intercept
    )
