"""A linear function as a table, for the formats that people and other tools read."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher._files import Path_, atomic_file

__all__ = ["checked", "column_names", "write_coefficients"]


def checked(
    coef: Any, intercept: Any, classes: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Dense float64 (outputs, features) weights, (outputs,) intercepts and classes that agree.

    Two classes have one output, which is positive for the second; None stands for regression.
    """
    table = coef.toarray() if hasattr(coef, "toarray") else coef
    table = np.atleast_2d(np.asarray(table, dtype=np.float64))
    offsets = np.atleast_1d(np.asarray(intercept, dtype=np.float64))
    if table.ndim != 2 or offsets.shape != (table.shape[0],):
        raise ValueError(
            f"coef of shape {table.shape} needs {table.shape[0]} intercepts, got {offsets.shape}"
        )
    if not (np.all(np.isfinite(table)) and np.all(np.isfinite(offsets))):
        raise ValueError("a weight is NaN or infinite: such a model cannot be exported")
    if classes is None:
        if table.shape[0] != 1:
            raise ValueError(f"a regression has one output, got {table.shape[0]}")
        return table, offsets, None
    labels = np.asarray(classes)
    outputs = 1 if labels.size == 2 else labels.size
    if labels.ndim != 1 or labels.size < 2 or table.shape[0] != outputs:
        raise ValueError(f"{labels.size} classes need {outputs} outputs, got {table.shape[0]}")
    return table, offsets, labels


def column_names(names: Sequence[str] | np.ndarray | None, count: int) -> list[str]:
    """The names of ``count`` features; x0, x1, ... where there are none."""
    if names is None:
        return [f"x{j}" for j in range(count)]
    if len(names) != count:
        raise ValueError(f"{len(names)} feature names for {count} features")
    return [str(name) for name in names]


def write_coefficients(
    path: Path_,
    coef: Any,
    intercept: Any,
    feature_names: Sequence[str] | np.ndarray | None = None,
    classes: Any = None,
) -> None:
    """A CSV file with a line for the intercept and one for each feature.

    There is one column per output, headed by its class (of two classes the second, which positive
    scores speak for) or by "coefficient" for a regression.  Numbers are written so that reading
    them gives the same float64.
    """
    table, offsets, labels = checked(coef, intercept, classes)
    names = column_names(feature_names, table.shape[1])
    if labels is None:
        heads = ["coefficient"]
    else:
        heads = [str(label) for label in (labels[1:] if labels.size == 2 else labels).tolist()]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["feature", *heads])
    writer.writerow(["(intercept)", *offsets.tolist()])
    writer.writerows([name, *row] for name, row in zip(names, table.T.tolist(), strict=True))
    with atomic_file(path) as file:
        file.write(text.getvalue().encode("utf-8"))
