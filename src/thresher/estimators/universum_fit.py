"""Fits of 3C-SVM: concave-convex steps for one function after the other, watched and stopped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._clock import has_end
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.estimators import input
from thresher.estimators._partly_labelled import IRRELEVANT, UNLABELLED
from thresher.estimators.base import SEVERITY
from thresher.estimators.fronts import Front
from thresher.estimators.ledger import Standing
from thresher.estimators.support_fit import Unfinished, Watch
from thresher.functions import LinearFunction, SupportFunction
from thresher.functions.base import require
from thresher.kernels.column_cache import ColumnCache
from thresher.kernels.columns import KernelColumns, fitting_precision
from thresher.kernels.width import resolve_kernel
from thresher.solvers import Solver, Status
from thresher.solvers.driver import Event
from thresher.solvers.dual import DualEvent
from thresher.solvers.machines import KernelDual
from thresher.solvers.smoothing import SmoothedNewton
from thresher.solvers.universum import Descent, Position, ThreeClass, descend
from thresher.solvers.universum_exact import ExactSteps
from thresher.solvers.universum_features import FeatureSteps

__all__ = ["Found", "Given", "by_columns", "by_features"]

_FINER = 0.1  # of tol: the objective of a step on features


class Given(NamedTuple):
    """What a fit is about: the rows of positive weight."""

    loss: ThreeClass
    codes: np.ndarray
    cost: np.ndarray
    weight: np.ndarray
    outputs: int
    start: str
    balance: Any
    max_steps: int
    enough: float

    def targets(self, output: int | None) -> np.ndarray:
        """-1, +1, 0 for irrelevant rows, NaN for unlabelled ones."""
        out = np.where(self.codes == (1 if output is None else output), 1.0, -1.0)
        out[self.codes == IRRELEVANT] = 0.0
        out[self.codes == UNLABELLED] = np.nan
        return out

    @property
    def members(self) -> np.ndarray:
        """The rows of the balance."""
        return np.flatnonzero(self.codes == UNLABELLED)

    def mean(self, targets: np.ndarray) -> float | None:
        """The mean score that these shall have."""
        if self.balance != "labels":
            return None if self.balance is None else float(self.balance)
        known = self.codes >= 0
        return float(np.average(targets[known], weights=self.weight[known]))


class Found(NamedTuple):
    """The function of raw rows, and how it was found."""

    function: Any
    solver: Solver
    status: Status
    steps: int
    objectives: list[list[float]]
    relevant: np.ndarray
    negative: int  # signs met that the kernel is not positive definite


def by_columns(estimator: Any, front: Front, rows: Rows, kept: np.ndarray, given: Given) -> Found:
    """Exactly, with the kernel between all rows."""
    X = input.matrix_of(rows)
    X = X if front.units is None else front.units.matrix(X)
    X = X if kept.size == X.shape[0] else X[kept]
    input.refuse_far_rows(X)
    kernel = resolve_kernel(estimator.kernel, estimator.gamma, X, seed_from(estimator.random_state))
    jobs = threads(estimator.n_jobs)
    solver = KernelDual(estimator.tol, float(estimator.memory), None, jobs)
    precision = fitting_precision(kernel, X, float(given.cost.max()), estimator.tol)
    columns, watch = KernelColumns(kernel, X, precision), _Watch(estimator)

    def steps(targets: np.ndarray, output: int | None) -> ExactSteps:
        monitor = watch.of_dual if watch.wanted else None
        return ExactSteps(solver, columns, given.members, given.mean(targets), monitor, cache)

    with ColumnCache(columns, solver.memory, solver.threads) as cache:
        descents = _descents(given, steps, watch)
    coef = np.stack([found.stage.coef for found in descents])
    used = np.flatnonzero(coef.any(axis=0))
    intercept = np.array([found.stage.intercept for found in descents])
    function = SupportFunction(kernel, X[used], np.ascontiguousarray(coef[:, used]), intercept)
    return _found(function.unscaled(front.units), solver, descents, given)


def by_features(estimator: Any, front: Front, rows: Rows, kept: np.ndarray, given: Given) -> Found:
    """Linear in the features of the rows."""
    entered = front.enter(rows if kept.size == rows.shape[0] else input.to_rows(rows.taken(kept)))
    if front.units is None:
        input.refuse_far_rows(input.matrix_of(rows))
    _check_room(estimator, front, kept.size, rows.dtype)
    features, watch = front.rows(entered), _Watch(estimator)
    tol, seed = _FINER * estimator.tol, seed_from(estimator.random_state)

    def steps(targets: np.ndarray, output: int | None) -> FeatureSteps:
        monitor = watch.of_passes if watch.wanted else None
        return FeatureSteps(features, given.members, given.mean(targets), tol, seed, monitor)

    descents = _descents(given, steps, watch)
    functions = [LinearFunction(d.stage.coef, d.stage.intercept) for d in descents]
    function = functions[0] if len(functions) == 1 else LinearFunction.stacked(functions)
    return _found(front.fold(function), SmoothedNewton(), descents, given)


def _check_room(estimator: Any, front: Front, rows: int, dtype: Any) -> None:
    room = front.block_rows(estimator.memory, dtype)
    if room < rows:
        needed = int(np.ceil(estimator.memory * rows / room))
        raise ValueError(
            f"the features of {rows:,} rows do not fit in {estimator.memory:g} bytes: raise memory "
            f"to {needed:,}, or lower n_components"
        )


def _descents(given: Given, steps: Any, watch: _Watch) -> list[Descent]:
    """One for each function."""
    out = []
    for output in range(given.outputs) if given.outputs > 1 else (None,):
        targets = given.targets(output)
        with steps(targets, output) as step:
            at = watch.begin(output, targets, step.variables)
            found = descend(
                given.loss, targets, given.cost, step, start=given.start,
                max_steps=given.max_steps, tol=given.enough, told=watch.before_step, at=at,
            )  # fmt: skip
        out.append(found)
    return out


def _found(function: Any, solver: Solver, descents: list[Descent], given: Given) -> Found:
    status = max((d.status for d in descents), key=SEVERITY.index)
    steps = max(len(d.path) for d in descents)
    relevant = np.any([d.sides > 0 for d in descents], axis=0)
    if len(descents) == 1:
        relevant = descents[0].sides != 0
    paths = [[float(v) for v in d.path] for d in descents]
    negative = sum(d.stage.negative for d in descents)
    return Found(function, solver, status, steps, paths, relevant, negative)


class _Watch(Watch):
    """Passes are concave-convex steps."""

    def __init__(self, estimator: Any):
        super().__init__(estimator, is_kept=True)
        self.output: int | None = None
        self.position: Any = None

    @property
    def wanted(self) -> bool:
        return super().wanted or has_end()

    def begin(self, output: int | None, targets: np.ndarray, variables: int) -> Position | None:
        """With another function; where its steps were left."""
        self.output = output
        kept = self.left(output, variables)
        return None if kept is None else _position(kept, targets)

    def before_step(self, position: Position) -> Status | None:
        """Of the concave-convex procedure."""
        self.position = position
        return self.stopped if self.is_over() else None

    @property
    def steps(self) -> int:
        """That are finished."""
        return len(self.position.path)

    def of_dual(self, event: DualEvent) -> Status | None:
        """What becomes of a step is told by the dual solver."""
        self._stands_at(event.z, event.steps)
        function = Unfinished.of(event)
        return self.tell(
            self.output, self.steps, event.steps, event.violation, event.support, function
        )

    def of_passes(self, event: Event) -> Status | None:
        """What becomes of a step is told after each pass."""
        function = event.function
        self._stands_at(np.append(function.coef, function.intercept), event.passes)
        answer = self.tell(
            self.output, self.steps, event.step, event.residual, function.size, function
        )
        return self.stopped if self.is_over() else answer

    def _stands_at(self, variables: np.ndarray, steps: int) -> None:
        more = {
            "sides": self.position.sides.astype(np.float32),
            "objectives": np.array(self.position.path, dtype=np.float64),
        }
        self.note(self.output, Standing(variables.astype(np.float64), steps, more))


def _position(kept: Standing, targets: np.ndarray) -> Position:
    """As it was noted, of a file that may hold anything."""
    sides, path = kept.part("sides", targets.size), kept.part("objectives", None)
    told = ~np.isnan(targets)
    sound = np.isin(sides, (-1, 0, 1, 2)).all() and np.array_equal(sides[told], targets[told])
    require(sound and np.all(np.diff(path) <= 0.0), "the sides of a problem are damaged")
    return Position(sides.astype(np.int8), kept.z, path.tolist())
