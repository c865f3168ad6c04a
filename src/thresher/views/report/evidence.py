"""One pass over the data with the model: metrics, a sample of scores, a sample of rows."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thresher.data import DataError, DataSet
from thresher.data.batch import Batch
from thresher.registry import metrics_of
from thresher.training import Model
from thresher.training.holdout import HoldOut
from thresher.training.model import Predicted
from thresher.training.sampled import Sampled

__all__ = ["Evidence", "gathered", "has_name"]

_SAMPLE_ROWS, _SAMPLE_BYTES = 20_000, 64 << 20
_MOST_ROWS = 200_000  # whose scores are kept for the curves
_ALMOST_ALL = 1.0 - 1e-12
_NO_NAME = re.compile(r"\d+ files|the (data frame|matrix)")


@dataclass
class Evidence:
    """What the report is made of; without data only what the training has kept."""

    model: Model
    name: str | None = None
    rows: int = 0
    bad_rows: int = 0
    labelled: bool = False  # the metrics are of these rows
    metrics: dict[str, Any] = field(default_factory=dict)
    predicted: np.ndarray | None = None  # rows for each predicted class, or of each cluster
    away: np.ndarray | None = None  # sum of the squared distances of each cluster's rows
    kept: Sampled = field(default_factory=lambda: Sampled(_MOST_ROWS))  # y, score, weight, ...
    sample: Batch | None = None  # rows to learn from again
    seconds: float = 0.0

    @property
    def measured_on(self) -> str:
        if self.labelled:
            return f"{self.metrics.get('rows', 0):,} rows of {self.name}"
        return f"{self.metrics.get('rows', 0):,} rows held out of the training"

    @property
    def on_training_rows(self) -> bool:
        learned = str(self.model.training.get("data"))
        if not self.labelled or self.name is None:
            return False
        if os.path.isfile(self.name) and os.path.isfile(learned):
            return os.path.samefile(self.name, learned)
        return self.name == learned and has_name(learned)

    @property
    def has_clusters(self) -> bool:
        return bool(self.model.estimator.task == "clustering")

    @property
    def caution(self) -> str:
        """Most of these rows were learned from."""
        held = self.model.training.get("held_out") or {}
        if not self.model.is_supervised:
            what = "the clusters were made of" if self.has_clusters else "it has learned from"
            return f"{self.name} is what {what}."
        key, label = ("error", "error") if "error" in held else ("rmse", "RMSE")
        told = ""
        if isinstance(held.get(key), float):
            value = f"{held[key]:.2%}" if key == "error" else f"{held[key]:.4g}"
            told = f" On the rows held out of the training its {label} was {value}."
        return (
            f"{self.name} is what the model was trained on: measured there it may look better than "
            f"it is.{told}"
        )

    def matrix(self) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """The sample as (X, labels or numbers, weights)."""
        assert self.sample is not None
        assert self.sample.y is not None
        X = self.sample.X
        classes, y = self.model.classes, self.sample.y
        return X, y if classes is None else classes[y.astype(np.int64)], self.sample.weight


def has_name(data: str) -> bool:
    """Whether this is a file's or an address, and not a description."""
    return _NO_NAME.fullmatch(data) is None


def gathered(
    model: Model, data: Any, on_line: Callable[[str], None], sampling: bool = True, **reading: Any
) -> Evidence:
    """Predict every row once; nothing grows with the number of rows."""
    if data is None:
        return Evidence(model, metrics=dict(model.training.get("held_out") or {}))
    source = _opened(model, data, reading)
    row_bytes = max(model.schema.row_bytes, 1)
    most = min(_SAMPLE_ROWS, max(200, _SAMPLE_BYTES // row_bytes))
    hold = HoldOut(_ALMOST_ALL, most, int(model.training.get("seed", 0)))
    found = Evidence(model, source.name)
    metrics = metrics_of(model.estimator.task, model.classes, model.outlier)
    if model.classes is not None:
        found.predicted = np.zeros(model.classes.size, dtype=np.int64)
    elif found.has_clusters:
        found.predicted = np.zeros(model.function.outputs, dtype=np.int64)
        found.away = np.zeros(model.function.outputs)
    started = time.perf_counter()
    for part in model.predictions(source):
        _count(found, part)
        part = part.labelled()  # rows without a label are predicted, and not judged
        _keep(found, part)
        if part.batch.y is not None or not model.is_supervised:
            found.labelled = True
            X = None if model.is_supervised else model.estimator.comparable(part.batch.X)
            given = part.batch.y, part.scores, part.probabilities, part.batch.weight
            metrics.add(*given, *(() if X is None else (X,)))
            if sampling:
                hold.collect(part.batch)
        on_line(f"predicting  {found.rows:,} rows")
    found.seconds = time.perf_counter() - started
    found.bad_rows = source.bad.count
    found.metrics = (
        metrics.summary() if found.labelled else dict(model.training.get("held_out", {}))
    )
    found.sample = hold.batch()
    return found


def _opened(model: Model, data: Any, reading: dict[str, Any]) -> DataSet:
    """With targets if the data has them."""
    if isinstance(data, DataSet):
        return data
    source = model.open(data, labelled=True, **reading)
    target = model.schema.target
    if target is None or not source.source.rereadable:
        return source
    try:
        source.head(1)
    except DataError as error:
        if f"no column {target.name!r}" not in str(error):
            raise
        return model.open(data, **reading)
    return source


def _count(found: Evidence, part: Predicted) -> None:
    """Rows, and what they were told to be."""
    found.rows += part.batch.size
    classes = found.model.classes
    if classes is not None and found.predicted is not None:
        codes = np.searchsorted(classes, part.values)
        found.predicted += np.bincount(codes, minlength=classes.size)
    if found.away is not None and found.predicted is not None:
        own, k = part.scores.argmax(axis=1), found.away.size
        found.predicted += np.bincount(own, minlength=k)
        found.away += np.bincount(own, -part.scores.max(axis=1), k)


def _keep(found: Evidence, part: Predicted) -> None:
    """Of the curves."""
    found.kept.add(
        y=part.batch.y, score=part.scores, probability=part.probabilities, weight=part.batch.weight
    )
