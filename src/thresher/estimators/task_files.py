"""Many tasks from files, whose rows name their task in a column: in memory, or as a stream."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from thresher._rows import Rows
from thresher.estimators import input
from thresher.estimators.feed import Feed
from thresher.estimators.linear import LinearModel
from thresher.estimators.task_columns import TaskColumns
from thresher.estimators.task_targets import Given, check_counts
from thresher.functions.own_task import are_dense
from thresher.solvers.stream import Facts

__all__ = ["TaskFiles"]

_UNKNOWN = Facts()
_OTHER = "=(other)"


class TaskFiles(LinearModel):
    """What estimators of many tasks do with coded rows of files.

    Readers make a category of the column: a feature for each of its values, one for all others, and
    one where it is missing, which are the ``task_columns``.  Solvers get the other features, and
    the number of the task beside the target.
    """

    task_columns: Any
    least_rows: int
    tasks_: np.ndarray
    targets_: str
    _names: list[str] | None = None
    _columns: TaskColumns

    # ------------------------------------------------------------ for subclasses

    def _from_codes(self, y: np.ndarray) -> np.ndarray:
        """Targets as readers code them, as a solver takes them."""
        return y.astype(np.float64)

    def take_labels(self, labels: np.ndarray) -> None:
        """Those that the codes of a file are numbers of, if any."""

    def _check_tasks(self, given: Given, codes: np.ndarray | None) -> None:
        """ValueError for tasks that nothing can be learned of, by their targets."""

    # ------------------------------------------------------------ in memory

    def name_features(self, names: list[str] | None) -> None:
        self._names = names

    def fit_coded(self, X: Any, y: np.ndarray, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from rows that name their tasks in some of their features, and coded targets."""
        self._asked_columns()
        if classes.size:
            self.take_labels(classes)
        self._fit_named(X, self._from_codes(y), weight)
        return self

    def _fit_named(self, X: Any, values: np.ndarray, weight: np.ndarray | None) -> None:
        """The same with targets as a solver takes them."""
        first, stop = self._asked_columns()
        labels, _ = self._task_names()
        rows, width = input.to_rows(X), stop - first
        per_row = rows.stored / max(X.shape[0], 1) - 1.0
        dense = not rows.is_sparse or are_dense(X.shape[1] - width, per_row)
        kept, places = TaskColumns(first, stop, np.arange(width), dense).apart(rows)
        lost = np.flatnonzero(places < 0)
        if lost.size:
            raise ValueError(f"row {int(lost[0])} names no task")
        used, codes = np.unique(places, return_inverse=True)
        numbers = np.full(width, -1)
        numbers[used] = np.arange(used.size)
        self._columns = TaskColumns(first, stop, numbers, dense)
        self.tasks_, self.targets_ = labels[used], "pairs"
        given = Given("pairs", values, labels[places])
        counted = np.ones(values.size) if weight is None else (weight > 0.0) * 1.0
        check_counts(self.tasks_, np.bincount(codes, counted, used.size), self.least_rows)
        self._check_tasks(given, codes)
        self.fit_targets(kept, np.column_stack([codes, values]), weight, used.size)

    def _asked_columns(self) -> tuple[int, int]:
        if self.task_columns is None:
            raise ValueError(
                "the learner for many tasks asks for the column that names the task of each row: "
                "task_column='...' (--task-column)"
            )
        first, stop = self.task_columns
        return int(first), int(stop)

    def _task_names(self) -> tuple[np.ndarray, np.ndarray]:
        """A name for each of the task columns, and which of them are values of the category."""
        first, stop = self._asked_columns()
        if self._names is None:
            return np.array([str(k) for k in range(stop - first)]), np.ones(stop - first, bool)
        names = self._names[first:stop]
        other = len(names) - (1 if names[-1].endswith(_OTHER) else 2)
        start = len(names[other]) - len(_OTHER) + 1
        named = np.arange(len(names)) < other
        return np.array([n[start:] if k <= other else n for k, n in enumerate(names)]), named

    # ------------------------------------------------------------ as a stream

    def streams_files(self) -> bool:
        try:
            return super()._can_stream()
        except AttributeError:
            return False

    def without_stream(self) -> tuple[str, str]:
        return f"solver={self.solver!r}", "solver='auto', 'rda' or 'rda_plus'"

    def look_over(self, moments: Any, counted: bool, weighted: bool) -> None:
        """Tasks are those with rows to learn from where all rows were counted, else all that have a
        name or are among the first rows.

        Rows of others, and of none, are passed over; predictions for them are the mean over tasks.
        """
        first, stop = self._asked_columns()
        labels, named = self._task_names()
        ones = slice(first, stop)
        mass = moments.mass[ones] * moments.mean[ones]  # of dense rows zeros are stored, too
        used = mass > 0.0 if counted else named | (mass > 0.0)
        self._columns = TaskColumns.found((first, stop), moments, used)
        self.tasks_, self.targets_ = labels[used], "pairs"
        if counted and not weighted:
            check_counts(self.tasks_, np.round(mass[used]), self.least_rows)

    def coded(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        """Targets, and the number of scores that a row of a file has."""
        return y, 1

    def coded_rows(self, rows: Rows, targets: np.ndarray) -> tuple[Rows, np.ndarray, int]:
        others, numbers = self._columns.apart(rows)
        known = numbers >= 0
        values = np.where(known, self._from_codes(targets), np.nan)
        return others, np.column_stack([np.where(known, numbers, 0), values]), self._columns.tasks

    def feed_shape(self, features: int) -> tuple[int, int]:
        return features - self._columns.width, self._columns.tasks

    def open_feed(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        facts: Facts = _UNKNOWN, passes: int | None = None,
    ) -> Feed:  # fmt: skip
        if self.task_columns is not None and facts.moments is not None:
            facts = facts._replace(moments=self._columns.others(facts.moments))
        return super().open_feed(rows, targets, weight, outputs, facts, passes)
