"""A problem, its solver and a state: all there is to a learner on its way.

``fit``, ``partial_fit``, training from files and checkpoints hold a stream; pieces of work on other
machines will.  A stream that is written down and read back goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from thresher.functions import Function, LinearFunction
from thresher.functions.base import require
from thresher.solvers.base import Chunk, Near, Problem, Solver, State, Status
from thresher.solvers.compatible import check_compatible

__all__ = ["Facts", "Stream", "Streams", "open_streams", "signs"]


_PRECISIONS = (np.dtype(np.float32), np.dtype(np.float64))


class Facts(NamedTuple):
    """What is known of all rows before the first step; None where it is not."""

    rows: int | None = None
    mass: float | None = None  # total weight
    moments: Any = None  # ``thresher.data.Moments`` of the features
    visits: int | None = None  # rows to be visited, over all passes
    whole: bool = False  # the sample is all rows, and passes are cut at seams only
    learners: int = 1  # who share the rows, and are merged after each pass
    add_up: Any = None  # sums over all rows, which the sample is not: ``AddUp``, or none

    def visited(self, solver: Solver, passes: int) -> Facts:
        """With the visits of so many passes, by the clock of the solver's steps.

        Where merging adds steps up the clock is that of all learners, else that of each.
        """
        assert self.rows is not None
        together = 1 if "step" in solver.sum_fields else self.learners
        return self._replace(visits=max(passes * self.rows // together, 1))


@dataclass
class Stream:
    """One learner: ``update`` replaces its state."""

    problem: Problem
    solver: Solver
    state: State

    @classmethod
    def open(
        cls, problem: Problem, solver: Solver, sample: Chunk, facts: Facts, near: Near | None = None
    ) -> Stream:
        """Prepare on a sample of the rows; ``near`` solves a neighbouring problem on them."""
        check_compatible(solver, problem)
        state = None if near is None else solver.start_from(problem, sample, near)
        if state is None:
            if facts.add_up is not None:
                solver = solver.surveyed(facts.add_up)
            if not facts.whole:
                solver = solver.for_stream(problem)
            if facts.visits is not None:
                solver = solver.planned(facts.visits)
            solver, problem = solver.prepare(problem, sample)
            state = solver.init(problem, sample)
        return cls(problem, solver, state)

    @property
    def parts(self) -> list[Stream]:
        return [self]

    def update(self, chunk: Chunk) -> None:
        self.state = self.solver.update(self.problem, self.state, chunk)

    def between(self, chunk: Chunk | None, done: int, planned: int | None) -> None:
        self.state = self.solver.between(self.problem, self.state, chunk, done, planned)

    def passed(self, done: int, planned: int | None) -> None:
        self.state = self.solver.passed(self.problem, self.state, done, planned)

    def polish(self, chunk: Chunk) -> None:
        self.state = self.solver.polish(self.problem, self.state, chunk)

    def function(self) -> Function:
        """The model as it stands."""
        return self.solver.finish(self.problem, self.state)

    def nothing(self) -> Function:
        """What it knew before its first step."""
        return self.solver.finish(self.problem, self.solver.init(self.problem))

    def residual(self, before: Function, after: Function) -> float:
        return self.solver.residual(self.problem, self.state, before, after)

    def is_sound(self) -> bool:
        return self.solver.is_sound(self.problem, self.state)

    def is_at_bound(self) -> bool:
        return self.solver.is_at_bound(self.problem, self.state)

    def is_done(self, residual: float) -> bool:
        return self.solver.is_done(self.problem, self.state, residual)

    @property
    def step(self) -> int:
        return int(self.state.step)

    @property
    def usual_status(self) -> Status:
        """How passes end that nobody has stopped."""
        aims = self.problem.tol is not None or self.solver.has_goal
        return Status.MAX_ITER if aims else Status.COMPLETED

    def check(self, features: int, outputs: int) -> None:
        """ValueError for a stream from a file that is not for so many features and outputs."""
        ours = isinstance(self.problem, Problem) and isinstance(self.solver, Solver)
        require(ours, "a learner is not one of ours")
        dtype = self.problem.dtype  # compared as types: NumPy would take words for types as well
        known = isinstance(dtype, type | np.dtype) and np.dtype(dtype) in _PRECISIONS
        require(known, "its precision is unknown")
        fits = (self.problem.n_features, self.problem.outputs) == (features, outputs)
        require(fits, "it was made for other features or classes")
        check_compatible(self.solver, self.problem)
        self.solver.check_state(self.problem, self.state)


@dataclass
class Streams:
    """One learner for each class against the rest, fed with the same rows."""

    parts: list[Stream]

    def update(self, chunk: Chunk) -> None:
        for c, part in enumerate(self.parts):
            part.update(chunk._replace(y=signs(chunk.y, c)))

    def between(self, chunk: Chunk | None, done: int, planned: int | None) -> None:
        for c, part in enumerate(self.parts):
            mine = None if chunk is None else chunk._replace(y=signs(chunk.y, c))
            part.between(mine, done, planned)

    def passed(self, done: int, planned: int | None) -> None:
        for part in self.parts:
            part.passed(done, planned)

    def polish(self, chunk: Chunk) -> None:
        for c, part in enumerate(self.parts):
            part.polish(chunk._replace(y=signs(chunk.y, c)))

    def function(self) -> Function:
        functions: list[Any] = [part.function() for part in self.parts]
        return LinearFunction.stacked(functions)

    def nothing(self) -> Function:
        functions: list[Any] = [part.nothing() for part in self.parts]
        return LinearFunction.stacked(functions)

    def residual(self, before: Any, after: Any) -> float:
        each = zip(self.parts, _rows_of(before), _rows_of(after), strict=True)
        return max(part.residual(old, new) for part, old, new in each)

    def is_sound(self) -> bool:
        return all(part.is_sound() for part in self.parts)

    def is_at_bound(self) -> bool:
        return any(part.is_at_bound() for part in self.parts)

    def is_done(self, residual: float) -> bool:
        return all(part.is_done(residual) for part in self.parts)

    @property
    def problem(self) -> Problem:
        return replace(self.parts[0].problem, outputs=len(self.parts))

    @property
    def solver(self) -> Solver:
        return self.parts[0].solver

    @property
    def step(self) -> int:
        return self.parts[0].step

    @property
    def usual_status(self) -> Status:
        return self.parts[0].usual_status

    def check(self, features: int, outputs: int) -> None:
        require(len(self.parts) == outputs, f"{len(self.parts)} learners for {outputs} outputs")
        for part in self.parts:
            part.check(features, 1)


def open_streams(problem: Problem, solver: Solver, sample: Chunk, facts: Facts) -> Stream | Streams:
    """One learner for all outputs, or one for each class against the rest."""
    if solver.learns_jointly(problem):
        return Stream.open(problem, solver, sample, facts)
    one = replace(problem, outputs=1)
    parts = [
        Stream.open(one, solver, sample._replace(y=signs(sample.y, c)), _against_the_rest(facts, c))
        for c in range(problem.outputs)
    ]
    return Streams(parts)


def _against_the_rest(facts: Facts, c: int) -> Facts:
    """Sums for one class are those of its signs."""
    add_up = facts.add_up
    if add_up is None:
        return facts
    return facts._replace(
        add_up=lambda measure: add_up(lambda chunk: measure(chunk._replace(y=signs(chunk.y, c))))
    )


def signs(codes: np.ndarray, c: int) -> np.ndarray:
    """One-vs-rest targets: +1 where the class number is c, else -1."""
    return np.where(codes == c, 1.0, -1.0).astype(codes.dtype)


def _rows_of(function: LinearFunction) -> Sequence[LinearFunction]:
    pairs = zip(function.coef, function.intercept, strict=True)
    return [LinearFunction(coef, intercept) for coef, intercept in pairs]
