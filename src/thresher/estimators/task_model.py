"""What estimators of many tasks share: from targets with holes, or rows that name their task, to a
linear function for each task, and what can be read off it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import OneOf, whole
from thresher._interrupts import clean_interrupts
from thresher._rows import Rows
from thresher._terms import capabilities
from thresher.estimators import input
from thresher.estimators.base import Learner, Setup
from thresher.estimators.fronts import Front
from thresher.estimators.spaces import sparse_strength
from thresher.estimators.task_files import TaskFiles
from thresher.estimators.task_targets import (
    Given,
    check_counts,
    checked_labels,
    given_targets,
    task_numbers,
)
from thresher.functions.base import dense, require
from thresher.penalties import Penalty, strengthened
from thresher.registry import resolve
from thresher.solvers import Chunk, Problem, Solver, Status, driver
from thresher.solvers.auto import default_tolerance
from thresher.solvers.proximal_newton import ProximalNewton
from thresher.solvers.rda import RDA
from thresher.solvers.stream import Facts
from thresher.solvers.tasks import (
    best_constants,
    even_weights,
    task_gradient_at_zero,
    task_loss,
)

__all__ = ["MultiTaskModel", "Selection"]

_KINDS = ("single", "matrix", "pairs")
_SHARE = 0.01  # of the strength that leaves nothing
_TOL = 1e-9


class Selection(NamedTuple):
    """Which weights are not zero.

    Parameters
    ----------
    weights : int
        How many, of features x tasks.
    features : int
        Features with a weight in some task: the rows of the table of weights in use.
    per_task, per_feature : arrays of int
        Features that a task uses, and tasks that use a feature.
    """

    weights: int
    features: int
    per_task: np.ndarray
    per_feature: np.ndarray


class MultiTaskModel(TaskFiles):
    """Base of the estimators of many tasks."""

    allowed = {
        "balance": OneOf("tasks", "rows"), "new_tasks": OneOf("mean", "error"),
        "least_rows": whole(1),
    }  # fmt: skip
    record = (*TaskFiles.record, "tasks_", "targets_")
    alpha_per_row = False
    steps = None
    validation_fraction = 0.1
    patience = 3
    balance: str
    new_tasks: str

    def __init__(
        self, loss: Any, penalty: Any, solver: Any, alpha: float | None, fit_intercept: bool,
        scale: Any, balance: str, new_tasks: str, least_rows: int, task_columns: Any,
        max_iter: int | None, tol: float | None, order: str, random_state: Any, verbose: int,
        callbacks: Any,
    ):  # fmt: skip
        self.loss = loss
        self.penalty = penalty
        self.solver = solver
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.balance = balance
        self.new_tasks = new_tasks
        self.least_rows = least_rows
        self.task_columns = task_columns
        self.max_iter = max_iter
        self.tol = tol
        self.order = order
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _values(self, given: Given, first: bool) -> Given:
        """Targets as a solver takes them, NaN where there are none; ``first``: labels are new."""
        raise NotImplementedError

    # ------------------------------------------------------------ learning

    @clean_interrupts()
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : array or frame of shape (rows, tasks), or (rows,)
            With a column for each task: NaN (None) where a task has no target for a row.  Without:
            the targets of the tasks that ``task`` names; without these, of one task.
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        task : array of shape (rows,) or None, default=None
            The task of each row, a number or a word, in any order.
        """
        self.check_options()
        if self.task_columns is not None and task is not None:
            raise ValueError("rows name their tasks in task_columns: do not give task= too")
        X = input.checked_X(self, X, reset=True)
        given = self._values(given_targets(X, y, task), True)
        weight = input.check_weight(sample_weight, X)
        if self.task_columns is not None:
            self._fit_named(X, given.values[:, 0], weight)
            return self
        self.targets_ = given.kind
        self.tasks_, codes = _tasks_of(given)
        missing = given.missing()
        if codes is not None and np.any(missing):
            row = int(np.flatnonzero(missing)[0])
            raise ValueError(
                f"row {row}, of task {self.tasks_[codes[row]].item()!r}, has no target: leave it "
                "out"
            )
        self._check_rows(missing, codes, weight)
        self._check_tasks(given, codes)
        self.fit_targets(input.to_rows(X), _coded(given, codes), weight, self.tasks_.size)
        return self

    @available_if(lambda self: self._can_stream())
    @clean_interrupts()
    def partial_fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None, tasks: Any = None
    ) -> Self:
        """Go once over these rows, in the given order, by dual averaging.

        The first call names all ``tasks`` if rows name theirs, or has a column of ``y`` for each;
        it opens a new stream, on whose rows step sizes, units and strengths are found.  Every row
        counts the same, whatever ``balance`` is.
        """
        self.check_options()
        first = not self.has_feed
        X = input.checked_X(self, X, reset=first)
        given = self._values(given_targets(X, y, task), first)
        weight = input.check_weight(sample_weight, X)
        codes = self._open_tasks(given, tasks) if first else self._stream_codes(given)
        self.feed_targets(input.to_rows(X), _coded(given, codes), weight, self.tasks_.size)
        return self

    def _open_tasks(self, given: Given, tasks: Any) -> np.ndarray | None:
        if given.kind == "pairs" and tasks is None and "tasks_" not in vars(self):
            raise ValueError("tasks must be passed on the first call to partial_fit with task=")
        if given.kind == "pairs":
            known = self.tasks_ if tasks is None else checked_labels(tasks, len(tasks))
            self.tasks_ = np.unique(known)
        else:
            self.tasks_, _ = _tasks_of(given)
        self.targets_ = given.kind
        return self._stream_codes(given)

    def _stream_codes(self, given: Given) -> np.ndarray | None:
        if given.kind != self.targets_:
            raise ValueError(
                f"targets are given as {given.kind}, but were {self.targets_} in the first call"
            )
        if given.labels is None or given.kind != "pairs":
            if given.values.shape[1] != self.tasks_.size:
                raise ValueError(
                    f"y has {given.values.shape[1]} columns, but there are {self.tasks_.size} tasks"
                )
            return None
        codes = task_numbers(given.labels, self.tasks_)
        new = np.flatnonzero(codes < 0)
        if new.size:
            row = int(new[0])
            raise ValueError(
                f"row {row} is of task {given.labels[row].item()!r}, which is not among those of "
                "the first call"
            )
        return codes

    def _check_rows(
        self, missing: np.ndarray, codes: np.ndarray | None, weight: np.ndarray | None
    ) -> None:
        """ValueError for tasks with too few targets, by their names."""
        counted = np.ones(missing.shape[0]) if weight is None else (weight > 0.0) * 1.0
        if codes is None:
            counts = counted @ ~missing
        else:
            counts = np.bincount(codes, counted, self.tasks_.size)
        check_counts(self.tasks_, counts, self.least_rows)

    # ------------------------------------------------------------ from parameters to a problem

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        self.check_options()
        kind = "pairs" if self.targets_ == "pairs" else "matrix"
        problem = replace(self.problem(rows.shape[1], rows.dtype, outputs), targets=kind)
        if facts.whole and self.balance == "tasks":
            problem = replace(problem, task_weight=even_weights(problem, chunk.y, chunk.weight))
        problem = replace(problem, penalty=self._task_penalty(problem, chunk))
        solver = self._task_solver(problem, not facts.whole)
        shape = (chunk.order.size, rows.shape[1])
        tol = self.tol
        if tol is None and default_tolerance(solver, problem.loss, shape) is not None:
            tol = _TOL
        passes = self.max_iter or solver.planned_passes(shape)
        return Setup(replace(problem, tol=tol), solver, driver.Plan(passes, self.order))

    def _task_solver(self, problem: Problem, streaming: bool) -> Solver:
        if self.solver != "auto":
            return resolve(self.solver, Solver, "solver")
        return ProximalNewton() if _bends(problem) and not streaming else RDA()

    def _task_penalty(self, draft: Problem, chunk: Chunk) -> Penalty:
        """With its strength: given, or a hundredth of what would leave nothing."""
        term = resolve(self.penalty, Penalty, "penalty")
        strength = None if isinstance(self.penalty, str) else getattr(term, "strength", 1.0)
        has_field, alpha = "strength" in term.get_params(), self.alpha
        if strength is not None:
            term = term if alpha is None else strengthened(term, alpha)
        elif alpha is not None and has_field:
            term = replace(term, strength=alpha)
        if "grouped" in term.traits:  # last, since it lays the groups out
            term = replace(term, shared=True).bound(self._features(draft.n_features))
        if strength is None and alpha is None and has_field:
            found = replace(draft, penalty=term)
            alpha = _SHARE * term.emptying(task_gradient_at_zero(found, chunk))
            term = replace(term, strength=alpha)
        return term

    def _default_penalty(self) -> str:
        return "group"

    def _can_stream(self) -> bool:
        if self.task_columns is not None:
            raise AttributeError("task_columns are for trainings on files: give task= instead")
        if self.streams_files():
            return True
        raise AttributeError(
            f"solver={self.solver!r} must see all rows at once and has no partial_fit; use 'auto', "
            "'rda' or 'rda_plus'"
        )

    def check_options(self) -> None:
        super().check_options()

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        targets = None if y is None else np.asarray(y)
        if targets is not None and targets.dtype.kind == "f":
            targets = targets[~np.isnan(targets)]
        return {"alpha": sparse_strength(self, X, targets)}

    def follow(self, path: Any) -> None:
        """Every fit starts from nothing: the solvers of tasks take no neighbour."""

    def judged(
        self, status: Status, stream: Any, judges: Chunk, function: Any, front: Front,
        learned: Any = None, begun: bool = False,
    ) -> Status:  # fmt: skip
        """Or NO_BETTER, if the best constants of the tasks cost less on their own rows."""
        status = super().judged(status, stream, judges, function, front, learned)
        problem = stream.problem
        excused = self._asks_strength() or not problem.fit_intercept
        if status is not Status.COMPLETED or excused:  # an optimum is no worse
            return status
        bias = best_constants(problem, judges)
        constant = task_loss(problem, judges, np.zeros_like(dense(function.coef)), bias)
        own = task_loss(problem, judges, dense(function.coef), function.intercept)
        return Status.NO_BETTER if own > constant else status

    def keep(
        self, function: Any, status: Status, passes: int, stream: Any, front: Front | None = None
    ) -> None:
        by_file = self.task_columns is not None
        whole = self._columns.joined(function) if by_file else function
        Learner.keep(self, whole, status, passes, stream, front)
        self.__dict__.pop("group_norms_", None)
        if "grouped" in self.penalty_.traits and front is not None and not by_file:
            coef = front.solver_weights(dense(function.coef))
            self.group_norms_ = np.sqrt(np.einsum("qj,qj->j", coef, coef))

    # ------------------------------------------------------------ use

    def _codes(self, X: Any, task: Any) -> np.ndarray:
        """The number of each row's task; -1: one that was not there when learning."""
        labels = checked_labels(task, X.shape[0])
        codes = task_numbers(labels, self.tasks_)
        new = np.flatnonzero(codes < 0)
        if new.size and self.new_tasks == "error":
            row = int(new[0])
            raise _no_function(row, f"of task {labels[row].item()!r}, which")
        return codes

    def mind_rows(self, X: Any, first: int) -> None:
        """With ``new_tasks="error"`` rows that name no task with a function are refused."""
        if self.new_tasks != "error" or self.task_columns is None:
            return
        _, codes = self.function_.parts(X)
        new = np.flatnonzero(codes < 0)
        if new.size:
            raise _no_function(first + int(new[0]), "of a task that")

    @clean_interrupts()
    def _task_scores(self, X: Any, task: Any) -> np.ndarray:
        """(rows,) of the rows' own tasks, or (rows, tasks) where none are named."""
        check_is_fitted(self)
        X = input.checked_X(self, X)
        if self.task_columns is not None:
            if task is not None:
                raise ValueError("rows name their tasks in task_columns: do not give task= too")
            self.mind_rows(X, 0)
            return self.function_.scores(X)[:, 0]
        if task is not None:
            return self.function_.own_scores(X, self._codes(X, task))
        scores = self.function_.scores(X)
        return scores[:, 0] if self.targets_ == "single" else scores

    @property
    def selection_(self) -> Selection:
        """How many weights, features and tasks are in use."""
        used = dense(self.coef_) != 0.0
        return Selection(
            int(used.sum()), int(used.any(axis=0).sum()), used.sum(axis=1), used.sum(axis=0)
        )

    def features_of(self, task: Any) -> list[tuple[Any, float]]:
        """The features that a task uses, with their weights, the largest first.

        Features are named where the rows of ``fit`` had names, else numbered.
        """
        check_is_fitted(self)
        place = int(task_numbers(np.asarray([task]), self.tasks_)[0])
        if place < 0:
            raise ValueError(f"task {task!r} was not there when learning")
        weights = dense(self.coef_[[place]])[0]
        order = np.argsort(-np.abs(weights), kind="stable")
        names = getattr(self, "feature_names_in_", np.arange(weights.size))
        return [(names[j].item() if names.dtype.kind != "O" else names[j], float(weights[j]))
                for j in order if weights[j] != 0.0]  # fmt: skip

    # ------------------------------------------------------------ files

    def check_targets(self) -> None:
        """ValueError for tasks, read from a file, that do not fit the function."""
        tasks, outputs = self.tasks_, int(np.shape(self.coef_)[0])
        by_rows = "places" in self.function_._fields
        require(by_rows == (self.task_columns is not None), "task_columns do not fit the function")
        require(self.function_.basis == "", "the functions of tasks are linear")
        known = isinstance(tasks, np.ndarray) and tasks.ndim == 1 and tasks.dtype.kind in "biufU"
        require(known, "tasks_ must be numbers or words")
        require(tasks.size == outputs, f"{tasks.size} tasks for a function of {outputs} outputs")
        require(np.unique(tasks).size == tasks.size, "tasks_ must be distinct")
        require(self.targets_ in _KINDS, f"targets_ must be one of {', '.join(_KINDS)}")
        require(self.targets_ != "single" or outputs == 1, "targets_ of a single task: one output")


def _bends(problem: Problem) -> bool:
    return "curvature" in capabilities(problem.loss)


def _tasks_of(given: Given) -> tuple[np.ndarray, np.ndarray | None]:
    """The tasks, and of pairs their numbers."""
    if given.kind == "pairs":
        assert given.labels is not None
        return np.unique(given.labels, return_inverse=True)
    if given.labels is not None:
        if np.unique(given.labels).size < given.labels.size:
            raise ValueError("y has columns of the same name: every task needs its own")
        return given.labels, None
    return np.arange(given.values.shape[1]), None


def _coded(given: Given, codes: np.ndarray | None) -> np.ndarray:
    if codes is None:
        return given.values
    return np.column_stack([codes, given.values])


def _no_function(row: int, whose: str) -> ValueError:
    return ValueError(
        f"row {row} is {whose} was not there when learning (new_tasks='mean' would take the mean "
        "over the tasks)"
    )
