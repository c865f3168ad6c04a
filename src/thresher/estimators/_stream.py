"""A linear estimator's learners on a stream of rows: the same ``update``, chunk after chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher.solvers import Chunk, Problem, Result, Solver, Status, driver
from thresher.solvers.base import State, check_compatible, sound

__all__ = ["RowStream", "check_arrays", "stream_chunk"]


@dataclass
class RowStream:
    """One learner for all outputs, or one for each class against the rest.

    ``learners`` are all there is to a stream: problem, solver and state can be written to a
    checkpoint and read back, and the stream goes on as if nothing had happened.
    """

    learners: list[tuple[Problem, Solver, State]]
    outputs: int

    @classmethod
    def open(
        cls, problem: Problem, solver: Solver, sample: Chunk, visits: int | None = None
    ) -> RowStream:
        """Prepare the learners on a sample; ``visits`` is the number of rows to come, if known."""
        outputs = problem.outputs
        joint = outputs == 1 or solver.joint
        problem = problem if joint else replace(problem, outputs=1)
        check_compatible(solver, problem)
        solver = solver.for_stream(problem)
        if visits is not None:
            solver = solver.planned(visits)
        learners = []
        for part in _parts(sample, 1 if joint else outputs):
            ready, posed = solver.prepare(problem, part)
            learners.append((posed, ready, ready.init(posed, part)))
        return cls(learners, outputs)

    def update(self, chunk: Chunk) -> None:
        parts = _parts(chunk, len(self.learners))
        self.learners = [
            (problem, solver, solver.update(problem, state, part))
            for (problem, solver, state), part in zip(self.learners, parts, strict=True)
        ]

    def results(self, passes: int = 1) -> list[Result]:
        """The models as they stand; ``DIVERGED`` where one is no longer finite."""
        results = []
        for problem, solver, state in self.learners:
            coef, intercept = solver.finish(problem, state)
            status = Status.COMPLETED if sound(coef, intercept) else Status.DIVERGED
            results.append(Result(coef, intercept, status, passes, state))
        return results

    def check(self, features: int, outputs: int) -> None:
        """ValueError for learners from a file that are not for so many features and outputs."""
        if self.outputs != outputs or len(self.learners) not in (1, outputs):
            raise ValueError(f"{len(self.learners)} learners for {self.outputs} outputs")
        for problem, solver, state in self.learners:
            if not (isinstance(problem, Problem) and isinstance(solver, Solver)):
                raise ValueError("a learner is not one of ours")
            joint = outputs if len(self.learners) == 1 else 1
            if (problem.n_features, problem.outputs) != (features, joint):
                raise ValueError("it was made for other features or classes")
            _check_state(problem, solver, state)


def _check_state(problem: Problem, solver: Solver, state: State) -> None:
    """Compiled loops trust a state: it must have the shapes and the features of a new one."""
    if not solver.streaming:
        raise ValueError(f"{type(solver).__name__} does not learn from streams")
    check_arrays(state, solver.init(problem))
    for name in solver.index_fields:
        places = getattr(state, name)
        if not np.all((places >= -1) & (places < places.size)):
            raise ValueError(f"the state's {name} points beyond the features")
    if not 0 <= getattr(state, "n_active", 0) <= problem.n_features:
        raise ValueError("the state counts more features than there are")


def check_arrays(state: State, fresh: State) -> None:
    """ValueError unless the state has the type and the arrays that a ``fresh`` one has."""
    if type(state) is not type(fresh):
        raise ValueError(f"the state is not a {type(fresh).__name__}")
    for name, expected, found in zip(fresh._fields, fresh, state, strict=True):
        if not isinstance(expected, np.ndarray):
            continue
        if not isinstance(found, np.ndarray) or found.dtype != expected.dtype:
            raise ValueError(f"the state's {name} is not an array of {expected.dtype}")
        if found.shape != expected.shape:
            raise ValueError(f"the state's {name} has shape {found.shape}, not {expected.shape}")


def stream_chunk(rows: Rows, targets: np.ndarray, weight: np.ndarray | None) -> Chunk:
    """Rows in the given order; a row of weight zero is not visited."""
    n = rows.shape[0]
    order: Any = np.arange(n, dtype=np.uint32)
    if weight is None:
        full = np.broadcast_to(np.float64(1.0), (n,))
    else:
        full, order = weight, np.flatnonzero(weight).astype(np.uint32)
    return Chunk(rows, np.ascontiguousarray(targets, rows.dtype), full, order)


def _parts(chunk: Chunk, learners: int) -> list[Chunk]:
    """The chunk once for a joint learner, or once per class with its one-vs-rest targets."""
    if learners == 1:
        return [chunk]
    return [chunk._replace(y=driver.signs(chunk.y, c)) for c in range(learners)]
