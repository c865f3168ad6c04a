"""What a target means: how it is coded, measured and criticised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thresher.registry._places import imported

__all__ = ["TASKS", "Task", "metrics_of"]


@dataclass(frozen=True)
class Task:
    """What a target means.

    Parameters
    ----------
    noun : what its estimators are, "classifier"; also in model files
    target : what a target is, for people
    coding : "classes", whose labels become numbers from 0, "numbers", which stay as they are, or
        "none": there is no target to learn from; labels, where given, are only compared with
    columns : what can be said of a row: its prediction, scores, probabilities
    criteria : what can make one model better than another, the usual one first; empty: nothing is
        known that could
    metrics : where the class lives that measures predictions chunk by chunk
    measure : the one of its numbers that early stopping and pictures follow, the lower the better
    by_values : whether the values of a target can tell that it is this task

    Examples
    --------
    >>> from thresher.registry import TASKS
    >>> TASKS["regression"].criteria
    ('mse', 'mae', 'r2')
    """

    noun: str
    target: str
    coding: str
    columns: tuple[str, ...]
    criteria: tuple[str, ...]
    metrics: str
    measure: str
    by_values: bool = True

    @property
    def has_classes(self) -> bool:
        return self.coding == "classes"

    @property
    def has_target(self) -> bool:
        return self.coding != "none"


TASKS: dict[str, Task] = {
    "classification": Task(
        "classifier", "The target says which class a row belongs to.",
        "classes", ("prediction", "score", "probability"),
        ("error", "auc", "log_loss", "sparse_error"),
        "thresher.training.metrics.ClassificationMetrics", "error",
    ),
    "regression": Task(
        "regressor", "The target is a quantity.", "numbers", ("prediction",),
        ("mse", "mae", "r2"),
        "thresher.training.metrics.RegressionMetrics", "rmse",
    ),
    "novelty": Task(
        "detector", "The target says which class a row belongs to; new rows may belong to none.",
        "classes", ("prediction", "score"), ("novelty", "class_error", "novelty_auc"),
        "thresher.training.novelty.NoveltyMetrics", "error", by_values=False,
    ),
    "clustering": Task(
        "clusterer", "There is none: rows are grouped by themselves.", "none",
        ("prediction", "score"), ("silhouette", "balanced_line_fit"),
        "thresher.training.clustering.ClusteringMetrics", "distance", by_values=False,
    ),
    "one_class": Task(
        "machine", "There is none: rows are told that are unlike the others.", "none",
        ("prediction", "score"), (),
        "thresher.training.one_class.OneClassMetrics", "outliers", by_values=False,
    ),
}  # fmt: skip


def metrics_of(task: str, classes: Any, outlier: Any = None) -> Any:
    """What measures predictions of a task, chunk by chunk.

    Parameters
    ----------
    task : name of the task
    classes : array or None
        Its labels, if it has some.
    outlier : label or None, default=None
        The one of them that rows of no class have.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.registry import metrics_of
    >>> metrics = metrics_of("regression", None)
    >>> metrics.add(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    >>> metrics.summary()["mae"]
    1.0
    """
    metrics = imported(TASKS[task].metrics)
    return metrics(classes) if outlier is None else metrics(classes, outlier)
