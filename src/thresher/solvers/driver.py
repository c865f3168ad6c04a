"""The loop around an update: orders, passes, stopping, traces. The same for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator, shuffled
from thresher._rows import Rows
from thresher.solvers._joint import feature_major, joint_loss
from thresher.solvers.base import (
    Chunk,
    Problem,
    Record,
    Result,
    Solver,
    State,
    Status,
    check_compatible,
    sound,
)

__all__ = [
    "Event",
    "Plan",
    "mean_loss",
    "objective",
    "pass_order",
    "penalty_value",
    "run",
    "whole",
]

ORDERS = ("shuffle", "sequential", "sampled")


class Event(NamedTuple):
    """What a monitor is told after each pass."""

    passes: int
    step: int
    residual: float
    coef: np.ndarray
    intercept: Any


class Plan(NamedTuple):
    """How to go over the data.

    ``order`` is "shuffle" (a new permutation each pass), "sequential" (as given) or "sampled"
    (with replacement).  ``steps`` ends the run after so many updates, however many passes that is.
    """

    passes: int = 10
    order: str = "shuffle"
    steps: int | None = None
    trace: bool = False


Monitor = Callable[[Event], Status | None]


def whole(rows: Rows, y: np.ndarray, weight: np.ndarray | None = None) -> Chunk:
    """All rows as one chunk, weights normalised to mean one so that steps keep their meaning."""
    n = rows.shape[0]
    with np.errstate(over="ignore"):
        y = np.ascontiguousarray(y, dtype=rows.dtype)
    if not np.all(np.isfinite(y)):
        raise ValueError(f"targets too large for {rows.dtype} rows: scale them or use float64 rows")
    if weight is None:
        return Chunk(rows, y, np.broadcast_to(np.float64(1.0), (n,)), np.arange(n, dtype=np.uint32))
    weight = np.asarray(weight, dtype=np.float64)
    kept = np.flatnonzero(weight).astype(np.uint32)
    weight = weight * (kept.size / weight.sum())
    return Chunk(rows, y, np.ascontiguousarray(weight), kept)


def run(
    solver: Solver,
    problem: Problem,
    chunk: Chunk,
    plan: Plan,
    state: State | None = None,
    monitor: Monitor | None = None,
) -> Result:
    """Prepare, pass over ``chunk`` until the plan, the tolerance or the monitor says stop."""
    check_compatible(solver, problem)
    if state is None:
        visits = plan.passes * chunk.order.size
        solver = solver.planned(visits if plan.steps is None else plan.steps * solver.batch)
        solver, problem = solver.prepare(problem, chunk)
        state = solver.init(problem, chunk)
    coef, intercept = solver.finish(problem, state)
    status, residual = (Status.COMPLETED if problem.tol is None else Status.MAX_ITER), math.inf
    tracer = Tracer(problem, chunk) if plan.trace else None
    passes = 0
    for passes, order in enumerate(_orders(solver, problem.seed, chunk.order, plan), start=1):
        for part in _parts(order, solver.seam, plan.trace and solver.streaming):
            state = solver.update(problem, state, chunk._replace(order=part))
            if tracer is not None:
                tracer.add(passes, state, *solver.finish(problem, state))
        before = coef
        new_coef, new_intercept = solver.finish(problem, state)
        if not sound(new_coef, new_intercept):
            status = Status.DIVERGED
            break
        coef, intercept = new_coef, new_intercept
        residual = solver.residual(problem, state, before, coef)
        # From a zero start a thresholding solver may stand still for a while before any weight
        # passes its threshold: "no change" is convergence only once a second pass confirms it.
        converged = problem.tol is not None and residual <= problem.tol
        converged = converged and (passes > 1 or bool(np.any(coef)))
        verdict = None
        if monitor is not None:
            verdict = monitor(Event(passes, int(state.step), residual, coef, intercept))
        if converged or verdict is not None:
            status = verdict or Status.CONVERGED
            break
    if status is not Status.DIVERGED:
        state = solver.polish(problem, state, chunk)
        coef, intercept = solver.finish(problem, state)
        if not np.any(coef) and chunk.size and status is not Status.INTERRUPTED:
            status = Status.ALL_ZERO
    trace = tracer.records if tracer is not None else []
    return Result(coef, intercept, status, passes, state, residual, trace)


def _orders(solver: Solver, seed: int, rows: np.ndarray, plan: Plan) -> Iterator[np.ndarray]:
    """The visits of each pass; ``plan.steps`` updates in all if given."""
    if plan.order not in ORDERS:
        raise ValueError(f"order={plan.order!r} is unknown: choose one of {', '.join(ORDERS)}")
    if not solver.streaming:  # an update is a whole pass
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


def _parts(order: np.ndarray, seam: int, fine: bool) -> Iterator[np.ndarray]:
    """Whole passes, or up to twenty pieces of each (cut at seams) for a trace."""
    if not fine:
        yield order
        return
    size = max(1, math.ceil(order.size / (20 * seam))) * seam
    for start in range(0, order.size, size):
        yield order[start : start + size]


class Tracer:
    """Objective, regret, non-zeros and stability of the sparsity pattern along a run."""

    def __init__(self, problem: Problem, chunk: Chunk):
        self.problem, self.chunk = problem, chunk
        self.records: list[Record] = []
        self._pattern: np.ndarray | None = None

    def add(self, passes: int, state: State, coef: np.ndarray, intercept: Any) -> None:
        pattern = np.sign(coef)
        before = np.zeros_like(pattern) if self._pattern is None else self._pattern
        both = np.count_nonzero((pattern != 0) & (before == pattern))
        either = np.count_nonzero((pattern != 0) | (before != 0))
        loss = mean_loss(self.problem, self.chunk, coef, intercept)
        seen = int(getattr(state, "seen", 0))
        paid = float(getattr(state, "paid", math.nan))
        self.records.append(
            Record(
                passes=passes,
                step=int(state.step),
                objective=loss + penalty_value(self.problem, coef),
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


@njit(cache=True, nogil=True)
def _penalty_value(penalty, w):
    total = 0.0
    for j in range(w.size):
        total += penalty.value(w[j], j)
    return total


def mean_loss(problem: Problem, chunk: Chunk, coef: np.ndarray, intercept: Any) -> float:
    """Weighted mean of the loss over the rows that ``chunk.order`` names (summed over outputs)."""
    rows, y, weight, order = chunk
    if problem.outputs > 1:
        bias = np.asarray(intercept, dtype=np.float64)
        return float(joint_loss(rows, y, weight, order, problem.loss, feature_major(coef), bias))
    return float(_mean_loss(rows, y, weight, order, problem.loss, coef, float(intercept)))


def signs(codes: np.ndarray, c: int) -> np.ndarray:
    """One-vs-rest targets: +1 where the class number is c, else -1."""
    return np.where(codes == c, 1.0, -1.0).astype(codes.dtype)


def penalty_value(problem: Problem, coef: np.ndarray) -> float:
    return sum(float(_penalty_value(problem.penalty, w)) for w in np.atleast_2d(coef))


def objective(problem: Problem, chunk: Chunk, coef: np.ndarray, intercept: float) -> float:
    """Mean loss plus penalty: what every solver minimises."""
    return mean_loss(problem, chunk, coef, intercept) + penalty_value(problem, coef)


def best_on_sample(
    candidates: list[Solver], problem: Problem, chunk: Chunk, share: float = 0.04
) -> Solver:
    """The boldest candidate with nearly the lowest objective on unseen rows after a sample.

    ``candidates`` are ordered from long steps to short ones.

    Sample and unseen rows are ``share`` of the data each (at least 500 rows, at most half).
    """
    rows = shuffled(chunk.order, problem.seed, 3)
    size = min(max(int(share * rows.size), 500), rows.size // 2)
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
