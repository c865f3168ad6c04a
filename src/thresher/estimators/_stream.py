"""A linear estimator's learners on a stream of rows: the same ``update``, chunk after chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher.solvers import Chunk, Problem, Result, Solver, Status, driver
from thresher.solvers.base import State, check_compatible, sound

__all__ = ["RowStream", "stream_chunk"]


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
