"""Targets of many tasks as users have them: a matrix with holes, or rows that name their task."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_consistent_length

__all__ = ["Given", "check_counts", "checked_labels", "given_targets", "named", "numbers_of",
           "task_numbers"]  # fmt: skip

_SHOWN = 5


class Given(NamedTuple):
    """Targets, and whose they are.

    Parameters
    ----------
    kind : "single" (a vector, one task), "matrix" (rows, tasks) or "pairs" (a task for each row)
    values : array of shape (rows, tasks), or (rows,) of pairs
        As given; numbers or labels.
    labels : array or None
        Of pairs: the task of each row.  Of a frame: the names of its columns.
    """

    kind: str
    values: np.ndarray
    labels: np.ndarray | None

    def missing(self) -> np.ndarray:
        """Where there is no target."""
        values = self.values
        if values.dtype.kind == "f":
            return np.isnan(values)
        if values.dtype.kind == "O":
            return np.array([v is None or v != v for v in values.ravel()]).reshape(values.shape)
        return np.zeros(values.shape, dtype=bool)


def given_targets(X: Any, y: Any, task: Any) -> Given:
    """What ``fit(X, y, task)`` means; ValueError for what cannot be."""
    if y is None:
        raise ValueError("this estimator requires y to be passed, but the target y is None")
    names = getattr(y, "columns", None)
    values = y.toarray() if hasattr(y, "toarray") else np.asarray(y)
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: targets must be real")
    if values.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got shape {values.shape}")
    check_consistent_length(X, values)
    if task is None:
        kind = "single" if values.ndim == 1 else "matrix"
        columns = None if names is None else np.asarray([str(name) for name in names])
        values = values[:, None] if values.ndim == 1 else values
        if values.shape[1] == 0:
            raise ValueError("y has no columns: there is no task")
        return Given(kind, values, columns)
    if values.ndim == 2:
        if values.shape[1] != 1:
            raise ValueError(
                f"with task= every row has one target, but y has {values.shape[1]} columns"
            )
        values = values[:, 0]
    return Given("pairs", values, checked_labels(task, values.shape[0]))


def checked_labels(task: Any, rows: int) -> np.ndarray:
    """Names or numbers of tasks, one for each of so many rows."""
    labels = np.asarray(task)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.size != rows:
        raise ValueError(
            f"task must name the task of each of the {rows} rows, got shape {labels.shape}"
        )
    if labels.dtype.kind == "f":
        lost = np.flatnonzero(~np.isfinite(labels))
    elif labels.dtype.kind == "O":
        lost = np.array([k for k, v in enumerate(labels) if v is None or v != v], dtype=int)
        if not lost.size:
            labels = labels.astype(str)
    else:
        lost = np.zeros(0, dtype=int)
    if lost.size:
        raise ValueError(
            f"row {int(lost[0])} names no task: task holds {_plain(labels[lost[0]])!r}"
        )
    if labels.dtype.kind not in "biufUS":
        raise ValueError(f"task must hold numbers or words, got {labels.dtype}")
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def task_numbers(labels: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """The place of each label among the tasks, in whatever order they are; -1 where it is none."""
    words = (labels.dtype.kind == "U", tasks.dtype.kind == "U")
    if words[0] != words[1]:
        wanted, got = ("words", "numbers") if words[1] else ("numbers", "words")
        raise ValueError(
            f"tasks are {wanted} such as {_plain(tasks[0])!r}, but task= holds {got} such as "
            f"{_plain(labels[0])!r}"
        )
    order = np.argsort(tasks, kind="stable")
    places = np.minimum(np.searchsorted(tasks[order], labels), tasks.size - 1)
    found = order[places]
    return np.where(tasks[found] == labels, found, -1)


def numbers_of(given: Given) -> Given:
    """With targets that are numbers; ValueError names the row or task of one that is not."""
    values = given.values
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"targets must be numbers: {error}") from None
    wrong = np.argwhere(np.isinf(values))
    if wrong.size:
        row = int(wrong[0][0])
        place = row if given.kind == "pairs" else int(wrong[0][-1])
        task = place if given.labels is None else _plain(given.labels[place])
        raise ValueError(f"y holds infinity, in row {row} (task {task!r})")
    return given._replace(values=values)


def _plain(label: Any) -> Any:
    """As Python shows it."""
    return label.item() if isinstance(label, np.generic) else label


def check_counts(tasks: np.ndarray, counts: np.ndarray, least: int) -> None:
    """ValueError for tasks with too few targets, by their names."""
    none = np.flatnonzero(counts == 0)
    if none.size:
        raise ValueError(
            f"{named(tasks, none)} without a single target: leave out what nothing is known of"
        )
    few = np.flatnonzero(counts < least)
    if few.size:
        count = int(counts[few[0]])
        samples = "one sample only" if count == 1 else f"{count} samples only"
        raise ValueError(
            f"{named(tasks, few)} with {samples}, fewer than least_rows={least}: leave out such "
            "tasks, or set least_rows=1 to learn them from what others know"
        )


def named(tasks: np.ndarray, places: np.ndarray) -> str:
    """Some tasks for people."""
    shown = ", ".join(repr(tasks[k].item()) for k in places[:_SHOWN])
    more = f" and {places.size - _SHOWN} more" if places.size > _SHOWN else ""
    return f"task{'s' * (places.size > 1)} {shown}{more}"
