"""The loop around an update: passes, stopping, traces. The same for every solver and every source.

Rows come in chunks, pass after pass, from whoever has them: one chunk a pass from rows in memory
(:class:`InMemory`), features that are computed block by block, windows of a file.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator, shuffled
from thresher._rows import Rows
from thresher.penalties import evaluate
from thresher.solvers._joint import feature_major, joint_loss
from thresher.solvers.base import Chunk, Near, Problem, Record, Result, Solver, Status
from thresher.solvers.manifold_tracker import ManifoldTracker
from thresher.solvers.stream import Facts, Stream, Streams, signs
from thresher.solvers.tasks import are_equal, task_loss, task_penalty

__all__ = [
    "Event",
    "InMemory",
    "Patience",
    "Plan",
    "learn",
    "mean_loss",
    "objective",
    "pass_order",
    "penalty_value",
    "run",
    "signs",
    "whole",
]

ORDERS = ("shuffle", "sequential", "sampled")
_MOMENT = 0.3  # seconds


class Event(NamedTuple):
    """What a monitor is told after each pass."""

    passes: int
    step: int
    residual: float
    function: Any
    state: Any = None  # of a single stream


class Plan(NamedTuple):
    """How to go over the data.

    Parameters
    ----------
    passes : int, default=10
        At most.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        A new permutation each pass, as given, or drawn with replacement.
    steps : int or None, default=None
        End after so many updates instead, however many passes that takes.
    trace : bool, default=False
        Record objective, regret, non-zeros and stability along the way.
    """

    passes: int = 10
    order: str = "shuffle"
    steps: int | None = None
    trace: bool = False


Monitor = Callable[[Event], Status | None]


@dataclass
class Patience:
    """The one rule of early stopping: how long to go on without a better loss, and the best model.

    Whoever has held-out rows gives their loss after each pass.
    """

    passes: int
    loss: float = math.inf
    best: Any = None  # the function of the best pass
    best_pass: int = 0

    def has_run_out(self, loss: float, passes: int, function: Any) -> bool:
        """Whether it is time to stop after so many passes; the best function is kept."""
        lost = math.isnan(self.loss) and not math.isnan(loss)  # nothing is less than NaN
        if self.best is None or lost or loss < self.loss:
            self.loss, self.best, self.best_pass = loss, function, passes
        return passes - self.best_pass >= self.passes


def whole(rows: Rows, y: np.ndarray, weight: np.ndarray | None = None) -> Chunk:
    """All rows as one chunk, weights normalised to mean one so that steps keep their meaning."""
    n = rows.shape[0]
    with np.errstate(over="ignore"):
        y = np.ascontiguousarray(y, dtype=rows.dtype)
    sound = np.isfinite(y) if y.ndim == 1 else ~np.isinf(y)  # of a matrix NaN is a hole
    if not np.all(sound):
        raise ValueError(f"targets too large for {rows.dtype} rows: scale them or use float64 rows")
    if weight is None:
        return Chunk(rows, y, np.broadcast_to(np.float64(1.0), (n,)), np.arange(n, dtype=np.uint32))
    weight = np.asarray(weight, dtype=np.float64)
    kept = np.flatnonzero(weight).astype(np.uint32)
    weight = weight * (kept.size / weight.sum())
    return Chunk(rows, y, np.ascontiguousarray(weight), kept)


# ---------------------------------------------------------------- the loop


def run(
    learner: Stream | Streams,
    passes: Iterable[Iterable[Chunk]],
    planned: int | None,
    *,
    chunk: Chunk | None = None,
    monitor: Monitor | None = None,
    after_chunk: Callable[[int], Status | None] | None = None,
    first: int = 0,
    begun: bool = False,
    update: Callable[[Any], None] | None = None,
) -> Result:
    """Learn from ``passes`` of chunks until they end, the learner is done or somebody says stop.

    After divergence the last sound function that was looked at stays.  ``chunk`` is all rows, where
    somebody has them; ``first`` counts the passes before, of a run that goes on, maybe in one that
    has ``begun``.  ``update`` replaces the learner's own, where others learn from the chunks.
    """
    function, status, residual, done = learner.function(), learner.usual_status, math.inf, first
    looks = monitor is not None or learner.solver.asks_function
    update = update or learner.update
    if not begun:
        learner.between(chunk, done, planned)
    for chunks in passes:
        for part in chunks:
            update(part)
            stopped = None if after_chunk is None else after_chunk(done + 1)
            if stopped is not None:
                found = learner.function()
                sound = found.is_finite()
                status = stopped if sound else Status.DIVERGED
                return Result(found if sound else function, status, done, learner, residual)
        done += 1
        learner.passed(done, planned)
        before, found = function, learner.function() if looks else function
        if not (found.is_finite() and learner.is_sound()):
            return Result(function, Status.DIVERGED, done, learner, residual)
        function, residual = found, learner.residual(before, found)
        # From a zero start a thresholding solver may stand still for a while before any weight
        # passes its threshold: "no change" is convergence only once a second pass confirms it.
        ended = learner.is_done(residual) and (done > 1 or not looks or function.size > 0)
        verdict = None
        if monitor is not None:
            state = getattr(learner, "state", None)
            verdict = monitor(Event(done, learner.step, residual, function, state))
        if ended or verdict is not None:
            status = verdict or Status.CONVERGED
            break
        if planned is None or done < planned:
            learner.between(chunk, done, planned)
    return Result(function if looks else learner.function(), status, done, learner, residual)


def learn(
    solver: Solver,
    problem: Problem,
    chunk: Chunk,
    plan: Plan,
    near: Near | None = None,
    monitor: Monitor | None = None,
    tracker: ManifoldTracker | None = None,
) -> Result:
    """Solve ``problem`` on the rows of ``chunk``, all of them in memory.

    Parameters
    ----------
    solver : Solver
    problem : Problem
    chunk : Chunk
        All rows, as :func:`whole` gives them.
    plan : Plan
        How to go over them.
    near : Near or None, default=None
        The solution of a neighbouring problem on the same rows, to start from.
    monitor : callable or None, default=None
        Called with an :class:`Event` after each pass; a Status that it returns ends the run.
    tracker : ManifoldTracker or None, default=None
        Looks at the weights every few updates, and compares their pattern with the optimum's.
    """
    visits = plan.passes * chunk.order.size
    visits = visits if plan.steps is None else plan.steps * solver.batch
    facts = Facts(chunk.order.size, visits=visits, whole=True)
    stream = Stream.open(problem, solver, chunk, facts, near)
    tracer = Tracer(stream, chunk) if plan.trace else None
    source = InMemory(stream, chunk, plan, looks=None if tracker is None else tracker.every)

    def after_chunk(passes: int) -> None:
        if tracer is not None:
            tracer(passes)
        if tracker is not None:
            found: Any = stream.function()
            tracker.look(stream.step, found.coef)

    result = run(
        stream, source, plan.passes if plan.steps is None else None, chunk=chunk, monitor=monitor,
        after_chunk=after_chunk if plan.trace or tracker is not None else None,
    )  # fmt: skip
    if result.status is not Status.DIVERGED:
        before = stream.state
        stream.polish(chunk)
        if stream.state is not before:
            result.function = stream.function()
        if not result.function.size and _should_have_weights(problem, chunk, result.status):
            result.status = Status.ALL_ZERO
    result.trace = tracer.records if tracer is not None else []
    return result


def _should_have_weights(problem: Problem, chunk: Chunk, status: Status) -> bool:
    """Whether a model without weights has ended where there was something to learn.

    Its intercept may still be on its way; and it is all there is to say of equal targets, such as
    those of a class without rows against the rest.
    """
    if not chunk.order.size or status in (Status.INTERRUPTED, Status.OUT_OF_TIME, Status.MAX_ITER):
        return False
    if problem.has_tasks:
        return not problem.fit_intercept or not are_equal(problem, chunk)
    return not problem.fit_intercept or bool(np.ptp(chunk.y[chunk.order]) > 0.0)


@dataclass
class InMemory:
    """Passes over rows in memory: a chunk each where the solver needs all rows, else in pieces."""

    stream: Stream
    chunk: Chunk
    plan: Plan
    #: rows of a piece, grown to what a moment suffices for
    piece: int = 1024
    #: updates between looks of a tracker, where there is one
    looks: int | None = None

    def __iter__(self) -> Iterator[Iterator[Chunk]]:
        solver, plan = self.stream.solver, self.plan
        for order in _orders(solver, self.stream.problem.seed, self.chunk.order, plan):
            if self.looks is not None and solver.streaming:
                parts = _pieces(order, self.looks * solver.seam)
            elif plan.trace and solver.streaming:
                parts = _twenty(order, solver.seam)
            elif solver.by_rows and not solver.by_blocks:
                parts = self._short(order)
            else:
                parts = iter([order])
            yield (self.chunk._replace(order=part) for part in parts)

    def _short(self, order: np.ndarray) -> Iterator[np.ndarray]:
        """Pieces of some tenths of a second: Ctrl-C waits for compiled code to return.

        They are cut at seams, so that the clock does not change a model.
        """
        seam, start = self.stream.solver.seam, 0
        while start < order.size:
            stop, began = start + math.ceil(self.piece / seam) * seam, time.perf_counter()
            yield order[start:stop]
            if self.piece < order.size and time.perf_counter() - began < 0.5 * _MOMENT:
                self.piece = 2 * self.piece
            start = stop


def _orders(solver: Solver, seed: int, rows: np.ndarray, plan: Plan) -> Iterator[np.ndarray]:
    """The visits of each pass; ``plan.steps`` updates in all if given."""
    if plan.order not in ORDERS:
        raise ValueError(f"order={plan.order!r} is unknown: choose one of {', '.join(ORDERS)}")
    if not solver.by_rows:
        for _ in range(plan.steps or plan.passes):
            yield rows
        return
    left = math.inf if plan.steps is None else plan.steps
    passes = 0
    while left > 0 and (plan.steps is not None or passes < plan.passes):
        order = pass_order(rows, plan.order, seed, passes)
        order = order[: int(min(left * solver.batch, order.size))]
        yield order
        left -= math.ceil(order.size / solver.batch)
        passes += 1


def pass_order(rows: np.ndarray, order: str, seed: int, number: int) -> np.ndarray:
    """The visits of pass ``number`` (from 0) to these rows."""
    if order == "sequential":
        return rows
    if order == "shuffle":
        return shuffled(rows, seed, 1, number)
    return rows[generator(seed, 2, number).integers(rows.size, size=rows.size)]


def _twenty(order: np.ndarray, seam: int) -> Iterator[np.ndarray]:
    """Up to twenty pieces of a pass, for a trace."""
    return _pieces(order, max(1, math.ceil(order.size / (20 * seam))) * seam)


def _pieces(order: np.ndarray, size: int) -> Iterator[np.ndarray]:
    for start in range(0, order.size, size):
        yield order[start : start + size]


# ---------------------------------------------------------------- traces and objectives


@dataclass
class Tracer:
    """Objective, regret, non-zeros and stability of the sparsity pattern along a run."""

    stream: Stream
    chunk: Chunk
    records: list[Record] = field(default_factory=list)
    _pattern: np.ndarray | None = None

    def __call__(self, passes: int) -> None:
        """After each piece of a pass."""
        found: Any = self.stream.function()
        coef, intercept = found
        problem, state = self.stream.problem, self.stream.state
        pattern = np.sign(coef)
        before = np.zeros_like(pattern) if self._pattern is None else self._pattern
        both = np.count_nonzero((pattern != 0) & (before == pattern))
        either = np.count_nonzero((pattern != 0) | (before != 0))
        loss = mean_loss(problem, self.chunk, coef, intercept)
        seen = int(getattr(state, "seen", 0))
        paid = float(getattr(state, "paid", math.nan))
        self.records.append(
            Record(
                passes=passes,
                step=int(state.step),
                objective=loss + penalty_value(problem, coef),
                mean_loss=loss,
                regret=paid - seen * loss,
                nonzeros=int(np.count_nonzero(coef)),
                stability=both / either if either else 1.0,
            )
        )
        self._pattern = pattern


@njit(cache=True, nogil=True)
def _mean_loss(rows, y, weight, order, loss, w, bias):
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        total += weight[i] * loss.value(y[i], rows.dot(i, w) + bias)
        mass += weight[i]
    return total / max(mass, 1e-300)


def mean_loss(problem: Problem, chunk: Chunk, coef: np.ndarray, intercept: Any) -> float:
    """Weighted mean of the loss over the rows that ``chunk.order`` names (summed over outputs).

    Of tasks as ``tasks.py`` has it.
    """
    rows, y, weight, order = chunk
    if problem.has_tasks:
        return task_loss(problem, chunk, coef, intercept)
    if problem.outputs > 1:
        bias = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
        table = feature_major(np.atleast_2d(coef))
        return float(joint_loss(rows, y, weight, order, problem.loss, table, bias))
    return float(_mean_loss(rows, y, weight, order, problem.loss, coef, float(intercept)))


def penalty_value(problem: Problem, coef: np.ndarray) -> float:
    """The penalty of the weights, summed over outputs unless it joins them."""
    if problem.has_tasks and problem.penalty.row_levels(problem.n_features) is not None:
        return task_penalty(problem, np.atleast_2d(coef))
    if problem.penalty.shared and coef.ndim == 2 and coef.shape[0] > 1:
        return evaluate(problem.penalty, coef)
    return sum(evaluate(problem.penalty, w) for w in np.atleast_2d(coef))


def objective(problem: Problem, chunk: Chunk, coef: np.ndarray, intercept: float) -> float:
    """Mean loss plus penalty: what every solver minimises."""
    return mean_loss(problem, chunk, coef, intercept) + penalty_value(problem, coef)


# ---------------------------------------------------------------- hyper-parameters by trial


def best_on_sample(
    candidates: list[Solver], problem: Problem, chunk: Chunk, share: float = 0.04, rarer: int = 0
) -> Solver:
    """The boldest candidate with nearly the lowest objective on unseen rows after a sample.

    ``candidates`` are ordered from long steps to short ones.

    Sample and unseen rows are ``share`` of the data each (at least 500 rows, at most half), and
    hold about ``rarer`` rows at least of the rarer of two classes.
    """
    rows = shuffled(chunk.order, problem.seed, 3)
    positive = int(np.count_nonzero(chunk.y[rows] > 0.0)) if rarer else 0
    fewer = min(positive, rows.size - positive)
    few = rarer * rows.size // fewer if fewer else 0
    size = min(max(int(share * rows.size), 500, few), rows.size // 2)
    sample = chunk._replace(order=rows[:size])
    unseen = chunk._replace(order=rows[size : 2 * size] if size else rows)

    def score(candidate: Solver) -> float:
        candidate = candidate.planned(size)
        state = candidate.update(problem, candidate.init(problem, sample), sample)
        value = objective(problem, unseen, *candidate.finish(problem, state))
        return value if math.isfinite(value) else math.inf

    scores = [score(candidate) for candidate in candidates]
    # A sample flatters caution: noise punishes long steps that pay over the whole data.
    enough = min(scores) * 1.015
    return next(c for c, value in zip(candidates, scores, strict=True) if value <= enough)


def variants(solver: Any, field: str, values: list[Any]) -> list[Solver]:
    return [replace(solver, **{field: value}) for value in values]
