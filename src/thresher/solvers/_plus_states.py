"""What RDA+ keeps: the sums of dual averaging, the watch on the pattern, and phase two."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher.solvers._block_rda import block_norms
from thresher.solvers._identification import Watch
from thresher.solvers._manifold_sums import ManifoldSums
from thresher.solvers._reservoir import Reservoir
from thresher.solvers._task_rda import TaskDualState
from thresher.solvers.base import Problem
from thresher.solvers.rda import RDA, DualState

__all__ = ["PlusState", "TaskPlusState"]

LOCAL = 1  # phase two


class PlusState(NamedTuple):
    """Dual averaging's sums, the watch on the pattern, and phase two."""

    gradient: np.ndarray
    bias_gradient: float
    step: int
    seen: int
    paid: float
    pattern: np.ndarray
    since: int
    phase: int
    delta: float
    # phase two: see ``ManifoldSums``
    point: np.ndarray
    inside: np.ndarray
    value: float
    sums: np.ndarray
    hessian: np.ndarray
    mass: float
    kept: np.ndarray
    best: float
    direction: np.ndarray
    slope: float
    length: float
    sample: Reservoir | None = None  # of the rows of a stream, where phase two works on it

    @property
    def dual(self) -> DualState:
        return DualState(
            self.gradient, np.zeros(0), self.bias_gradient, 0.0, self.step, self.seen, self.paid
        )

    def dual_of(self, problem: Problem) -> Any:
        """As dual averaging has it for the problem's penalty."""
        if "grouped" not in problem.penalty.traits:
            return self.dual
        fresh = RDA().init(problem)
        return block_norms(problem, fresh._replace(
            gradient=self.gradient[:, None], bias_gradient=np.array([self.bias_gradient]),
            step=self.step, seen=self.seen, paid=self.paid,
        ))  # fmt: skip

    @property
    def watch(self) -> Watch:
        return Watch(self.pattern, self.since)

    @property
    def local(self) -> ManifoldSums:
        return _local(self)

    def averaged(self, dual: Any, watch: Watch) -> PlusState:
        return self._replace(
            gradient=dual.gradient.reshape(-1), bias_gradient=float(np.sum(dual.bias_gradient)),
            step=int(dual.step), seen=int(dual.seen), paid=float(dual.paid), pattern=watch.pattern,
            since=int(watch.since),
        )  # fmt: skip

    def on(self, local: ManifoldSums, delta: float) -> PlusState:
        """In phase two."""
        return self._replace(phase=LOCAL, delta=delta, **local._asdict())


class TaskPlusState(NamedTuple):
    """The same of many tasks: tables (features, tasks)."""

    gradient: np.ndarray
    norms: np.ndarray  # what dual averaging keeps up: see ``TaskDualState.sums``
    bias_gradient: np.ndarray
    step: int
    seen: int
    paid: float
    pattern: np.ndarray
    since: int
    phase: int
    delta: float
    # phase two: see ``ManifoldSums``
    point: np.ndarray
    inside: np.ndarray
    value: float
    sums: np.ndarray
    hessian: np.ndarray
    mass: float
    kept: np.ndarray
    best: float
    direction: np.ndarray
    slope: float
    length: float
    sample: Reservoir | None = None  # of the rows of a stream, where phase two works on it

    @property
    def dual(self) -> TaskDualState:
        sums = (self.gradient, self.norms, self.bias_gradient)
        return TaskDualState(*sums, self.step, self.seen, self.paid)

    def dual_of(self, problem: Problem) -> TaskDualState:
        return self.dual

    def averaged(self, dual: Any, watch: Watch) -> TaskPlusState:
        return self._replace(
            gradient=dual.gradient, norms=dual.sums, bias_gradient=dual.bias_gradient,
            step=int(dual.step), seen=int(dual.seen), paid=float(dual.paid), pattern=watch.pattern,
            since=int(watch.since),
        )  # fmt: skip

    @property
    def watch(self) -> Watch:
        return Watch(self.pattern, self.since)

    @property
    def local(self) -> ManifoldSums:
        return _local(self)

    def on(self, local: ManifoldSums, delta: float) -> TaskPlusState:
        """In phase two."""
        return self._replace(phase=LOCAL, delta=delta, **local._asdict())


def _local(state: Any) -> ManifoldSums:
    return ManifoldSums(*(getattr(state, name) for name in ManifoldSums._fields))
