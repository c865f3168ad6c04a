"""What RDA+ keeps: the sums of dual averaging, the watch on the pattern, and phase two."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from thresher.solvers._block_rda import block_norms
from thresher.solvers._identification import Watch
from thresher.solvers._manifold import Units
from thresher.solvers._manifold_sums import ManifoldSums
from thresher.solvers._reservoir import Reservoir
from thresher.solvers._states import check_arrays
from thresher.solvers._task_rda import TaskDualState
from thresher.solvers.base import Problem
from thresher.solvers.rda import RDA, DualState

__all__ = ["LOCAL", "ONLINE", "PlusState", "TaskPlusState", "check_plus_state"]

ONLINE, LOCAL = 0, 1  # phases


class _Plus:
    """What the states of one output and of many tasks share: they are NamedTuples below it."""

    __slots__ = ()
    pattern: np.ndarray
    since: int
    _replace: Any

    @property
    def watch(self) -> Watch:
        return Watch(self.pattern, self.since)

    @property
    def local(self) -> ManifoldSums:
        return ManifoldSums(*(getattr(self, name) for name in ManifoldSums._fields))

    def on(self, local: ManifoldSums, delta: float) -> Self:
        """In phase two; tables row by row, as a checkpoint has to have them."""
        arrays = {
            name: np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value
            for name, value in local._asdict().items()
        }
        found: Self = self._replace(phase=LOCAL, delta=delta, **arrays)
        return found

    def _averaged(self, dual: Any, watch: Watch, **sums: Any) -> Self:
        found: Self = self._replace(
            step=int(dual.step), seen=int(dual.seen), paid=float(dual.paid), pattern=watch.pattern,
            since=int(watch.since), **sums,
        )  # fmt: skip
        return found


class _One(NamedTuple):
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


class PlusState(_Plus, _One):
    """Dual averaging's sums, the watch on the pattern, and phase two."""

    __slots__ = ()

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

    def averaged(self, dual: Any, watch: Watch) -> PlusState:
        bias = float(np.sum(dual.bias_gradient))
        return self._averaged(dual, watch, gradient=dual.gradient.reshape(-1), bias_gradient=bias)


class _Many(NamedTuple):
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


class TaskPlusState(_Plus, _Many):
    """The same of many tasks: tables (features, tasks)."""

    __slots__ = ()

    @property
    def dual(self) -> TaskDualState:
        sums = (self.gradient, self.norms, self.bias_gradient)
        return TaskDualState(*sums, self.step, self.seen, self.paid)

    def dual_of(self, problem: Problem) -> TaskDualState:
        return self.dual

    def averaged(self, dual: Any, watch: Watch) -> TaskPlusState:
        sums = {"gradient": dual.gradient, "norms": dual.sums, "bias_gradient": dual.bias_gradient}
        return self._averaged(dual, watch, **sums)


def check_plus_state(problem: Problem, state: Any, fresh: Any, reservoir: int) -> None:
    """ValueError for a state that cannot be, beside one before the first step."""
    inside = state.inside if type(state) is type(fresh) else None
    if isinstance(inside, np.ndarray) and inside.shape == fresh.inside.shape:
        units = Units.of(problem.penalty, problem.n_features)
        size = state.local.features(units).size + 1
        if state.phase == LOCAL and fresh.sample is None:
            whole = np.zeros((*fresh.hessian.shape[:-2], size, size))
            fresh = fresh._replace(hessian=whole)
        fresh = fresh._replace(pattern=_pattern_before(problem, fresh.pattern, state.pattern))
    check_arrays(state, fresh)
    if (state.sample is None) != (fresh.sample is None):
        raise ValueError("the state has a sample of the rows, or none, against its solver")
    if state.sample is not None:
        state.sample.check(problem, reservoir)
    if state.phase not in (ONLINE, LOCAL):
        raise ValueError(f"the state's phase is {state.phase}")
    if not np.all((state.inside == 0) | (state.inside == 1)):
        raise ValueError("the state's inside is not a mask")
    if not 0.0 < state.length <= 1.0 or state.mass < 0.0:
        raise ValueError("the state's length or mass is impossible")


def _pattern_before(problem: Problem, fresh: np.ndarray, found: Any) -> np.ndarray:
    """Files from before groups had patterns within them have one for each group: it is no longer
    met, and watching begins anew."""
    groups = getattr(problem.penalty, "n_groups", None)
    if groups is None or np.shape(found) != (groups,):
        return fresh
    return np.zeros(groups, fresh.dtype)
