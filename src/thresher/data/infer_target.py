"""Reading the target off a sample: the task, the labels, and which of them are of no class."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thresher._outliers import outlier_label
from thresher.data.arrow_cells import is_text, looks_numeric
from thresher.data.errors import DataError
from thresher.data.schema import Schema, Target
from thresher.data.wishes import Wishes

__all__ = ["given_classes", "infer_target", "partly_labelled", "table_target"]

_MOST_CLASSES = 20
_EXACT = 2.0**53
_ALIKE = 0.7  # how alike a label and its misspelling are


def table_target(name: str, array: pa.Array, wishes: Wishes, file: str) -> Target:
    if array.null_count == len(array):
        if wishes.classes:
            return given_classes(name, wishes.classes, wishes)
        raise DataError(
            f"{file}: the target column {name!r} is empty in the sample (classes=[...] lists "
            "labels that only later rows have)"
        )
    array = array.drop_null()
    numeric = not is_text(array.type) or bool(pc.all(looks_numeric(array)).as_py())
    if wishes.task == "regression" and not numeric:
        wrong = array.filter(pc.invert(looks_numeric(array)))[0].as_py()
        raise DataError(f"{file}: the target {name!r} is {wrong!r} in a row: not a number")
    if wishes.classes:
        return given_classes(name, wishes.classes, wishes)
    if numeric:
        try:
            numbers = array.cast(pa.float64(), safe=False)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(
                f"{file}: the target column {name!r} holds {array.type} values"
            ) from None
        return infer_target(name, numbers.to_numpy(zero_copy_only=False), wishes, file)
    words = sorted(pc.unique(array).to_pylist())
    if len(words) > 1000 and len(words) > 0.5 * len(array):
        raise DataError(f"{file}: the target {name!r} has {len(words)} different words: no labels")
    return _classes(name, words, wishes)


def infer_target(
    name: str, values: np.ndarray, wishes: Wishes, file: str, every: np.ndarray | None = None
) -> Target:
    """Task and labels of numeric targets: a few whole numbers are classes.

    ``every``: the labels of all rows, where they are known; the task goes by the sample alone, so
    that all formats agree.
    """
    if wishes.classes:
        return given_classes(name, wishes.classes, wishes)
    values = values[np.isfinite(values)]
    distinct = np.unique(values)
    task = wishes.task
    if task is None:
        few = distinct.size <= _MOST_CLASSES and (distinct.size <= 2 or values.size > distinct.size)
        whole = bool(np.all(distinct == np.round(distinct)))
        task = "classification" if whole and few else "regression"
    if task == "regression":
        return Target(name, "regression")
    _check_are_labels(name, values, distinct, file)
    if every is not None:
        distinct = np.unique(every[np.isfinite(every)])
    if not 0 < distinct.size <= 10_000:
        raise DataError(f"{file}: the target {name!r} has {distinct.size} different labels")
    largest = float(np.max(np.abs(distinct)))
    if largest > _EXACT and bool(np.all(distinct == np.round(distinct))):
        raise DataError(
            f"{file}: the target {name!r} has the label {largest:.17g}; beyond 2^53 whole numbers "
            "are not told apart: write labels as words, or give task='regression'"
        )
    return _classes(name, _labels(distinct), wishes)


def _check_are_labels(name: str, values: np.ndarray, distinct: np.ndarray, file: str) -> None:
    """Fractions of which hardly two are the same were measured."""
    many = distinct.size > max(_MOST_CLASSES, 0.5 * values.size)
    if many and bool(np.any(distinct != np.round(distinct))):
        raise DataError(
            f"{file}: the target {name!r} has {distinct.size} different values in {values.size} "
            f"rows, {distinct[0]:g} and {distinct[1]:g} among them: these are numbers, not labels; "
            "give task='regression', or classes if they are labels"
        )


def given_classes(name: str, classes: Sequence[Any], wishes: Wishes) -> Target:
    """The labels that the user lists."""
    if wishes.task == "regression":
        raise ValueError("classes are given, but task='regression'")
    if all(isinstance(c, str) for c in classes):
        return _classes(name, sorted(set(classes)), wishes)
    try:
        labels = _labels(np.unique(np.asarray(classes, np.float64)))
    except (TypeError, ValueError):
        raise ValueError(f"classes must be all text or all numbers, got {classes!r}") from None
    return _classes(name, labels, wishes)


def _classes(name: str, labels: Sequence[Any], wishes: Wishes) -> Target:
    """A target of these labels; for novelty detection with that of rows of no class."""
    if wishes.task != "novelty":
        return Target(name, "classification", tuple(labels))
    given = _as_label(wishes.outlier_label, labels)
    _check_spelling("outlier_label", given, labels)
    known = [label for label in labels if label != given]
    if not known:
        raise DataError(f"all rows looked at have the outliers' label {given!r}")
    outlier = outlier_label(known, given)
    return Target(name, "novelty", tuple(sorted([*known, outlier])), outlier)


def partly_labelled(schema: Schema, wishes: Wishes, name: str) -> Schema:
    """The schema of rows that may have no label, or one that says that they are of no class."""
    target = schema.target
    if target is None or not (wishes.partly_labelled or wishes.irrelevant is not None):
        return schema
    marker = wishes.irrelevant
    if not target.classes:
        if marker is None:
            return schema  # no learner of numbers asks for it
        raise DataError(
            f"{name}: irrelevant={marker!r} is about labels, but the target {target.name!r} is a "
            "number: give task='classification' if these are labels"
        )
    marker = _as_label(marker, target.classes)
    if isinstance(marker, str) and not target.by_words:
        raise DataError(f"{name}: irrelevant={marker!r} is a word, but the labels are numbers")
    if marker is not None and not isinstance(marker, str) and target.by_words:
        marker = str(marker)
    _check_spelling("irrelevant", marker, target.classes)
    classes = tuple(label for label in target.classes if label != marker)
    if not classes:
        raise DataError(f"{name}: all labelled rows looked at are irrelevant ({marker!r})")
    return replace(schema, target=replace(target, classes=classes, partly=True, irrelevant=marker))


def _check_spelling(option: str, given: Any, labels: Sequence[Any]) -> None:
    """No row needs to have the label of rows of no class; but it may be another's, misspelled."""
    if not isinstance(given, str) or given in labels:
        return
    plain = {str(label).strip().casefold(): label for label in labels}
    close = difflib.get_close_matches(given.strip().casefold(), plain, 1, _ALIKE)
    if close:
        warnings.warn(
            f"no row looked at has the label {option}={given!r}, but some have {plain[close[0]]!r}",
            stacklevel=2,
        )


def _labels(distinct: np.ndarray) -> tuple[Any, ...]:
    kind: Any = int if np.all(distinct == np.round(distinct)) else float
    return tuple(kind(v) for v in distinct)


def _as_label(given: Any, labels: Sequence[Any]) -> Any:
    """A word that was typed for a number, as the number."""
    if not isinstance(given, str) or isinstance(labels[0], str):
        return given
    try:
        return _labels(np.array([float(given)]))[0]
    except ValueError:
        return given
