"""LIBLINEAR's text model files, written and read.

LIBLINEAR keeps the labels in the order in which it met them.  With two classes it has one weight
vector, and a positive score speaks for the *first* label; here, as in the rest of Thresher, the
labels are sorted and a positive score speaks for the second.  Its intercept is the weight of a
constant last feature of value ``bias``; a negative bias means that there is none.
"""

from __future__ import annotations

import os
from typing import IO, Any, NamedTuple

import numpy as np

from thresher._files import Path_, atomic_file
from thresher.artifacts.coefficients import checked
from thresher.artifacts.container import BadFile
from thresher.artifacts.model_text import (
    INTEGER,
    LINE,
    integer_labels,
    numbered_lines,
    read_number,
    read_numbers,
    read_whole,
    text_lines,
)

__all__ = ["LiblinearModel", "read_liblinear", "write_liblinear"]

_CLASSIFIERS = (
    "L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L2LOSS_SVC", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS",
    "L1R_L2LOSS_SVC", "L1R_LR", "L2R_LR_DUAL",
)  # fmt: skip
_REGRESSORS = ("L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL")


class LiblinearModel(NamedTuple):
    """A linear model in Thresher's conventions: sorted labels, of two the second is positive."""

    coef: np.ndarray  # (outputs, features)
    intercept: np.ndarray  # (outputs,)
    labels: np.ndarray | None  # integers; None for a regression
    solver_type: str
    regression: bool


# ---------------------------------------------------------------- writing


def write_liblinear(
    path: Path_,
    coef: Any,
    intercept: Any,
    labels: Any = None,
    regression: bool = False,
    solver_type: str | None = None,
) -> None:
    """Write a linear model for LIBLINEAR's ``predict``; ``labels`` are sorted integers.

    ``solver_type`` tells LIBLINEAR how the model was learned: with L2R_LR (the default) it also
    offers probabilities; use L2R_L2LOSS_SVC for scores of another loss.
    """
    known = _REGRESSORS if regression else tuple(s for s in _CLASSIFIERS if s != "MCSVM_CS")
    solver_type = solver_type or known[0]
    if solver_type not in known:
        raise ValueError(f"solver_type={solver_type!r}: use one of {', '.join(known)}")
    if not regression and labels is None:
        raise ValueError("a classifier needs its labels (for a regression, say regression=True)")
    table, offsets, kept = checked(coef, intercept, None if regression else labels)
    lines = [f"solver_type {solver_type}"]
    if kept is None:
        lines.append("nr_class 2")
    else:
        numbers = integer_labels(kept, "LIBLINEAR")
        numbers = numbers[::-1] if len(numbers) == 2 else numbers
        lines += [f"nr_class {len(numbers)}", f"label {' '.join(map(str, numbers))}"]
    lines += [f"nr_feature {table.shape[1]}", "bias 1", "w"]
    with atomic_file(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))
        for column in (*table.T, offsets):
            file.write((" ".join(map(repr, column.tolist())) + " \n").encode("ascii"))


# ---------------------------------------------------------------- reading


def read_liblinear(path: Path_, max_bytes: int = 4 * 2**30) -> LiblinearModel:
    """Read a model that LIBLINEAR saved (not one-class); errors name the line.

    With two classes a score of exactly zero may change sides, because the sign is turned where
    LIBLINEAR met the smaller label first.
    """
    with open(path, "rb") as file:
        try:
            return _read(file, os.fstat(file.fileno()).st_size, max_bytes)
        except BadFile as error:
            raise BadFile(f"{os.fspath(path)}, {error}") from None


def _read(file: IO[bytes], size: int, max_bytes: int) -> LiblinearModel:
    if size > max_bytes:
        raise BadFile(f"line 1: the file has {size} bytes, more than max_bytes={max_bytes}")
    fields, line = _header(file)
    solver_type = fields["solver_type"]
    regression = solver_type in _REGRESSORS
    count = read_whole(fields, "nr_class", 2, 2 if regression else 2**31)
    features, bias = read_whole(fields, "nr_feature", 1, 2**31), read_number(fields["bias"], line)
    columns = count if count > 2 or solver_type == "MCSVM_CS" else 1
    rows = features + (bias >= 0)
    if 2 * rows * columns > size:
        raise BadFile(
            f"line {line}: {rows} lines of {columns} weights do not fit into {size} bytes"
        )
    table = _weights(file, line, rows, columns)
    coef = np.ascontiguousarray(table[:features].T)
    intercept = bias * table[features] if bias >= 0 else np.zeros(columns)
    if regression:
        return LiblinearModel(coef, intercept, None, solver_type, True)
    labels = _labels(fields, count)
    return _sorted(coef, intercept, labels, solver_type)


def _sorted(
    coef: np.ndarray, intercept: np.ndarray, labels: np.ndarray, solver_type: str
) -> LiblinearModel:
    if labels.size == 2:  # of MCSVM_CS's two weight vectors LIBLINEAR's predict asks the first
        sign = 1.0 if labels[0] > labels[1] else -1.0
        coef, intercept = sign * coef[:1], sign * intercept[:1]
    else:
        order = np.argsort(labels)
        coef, intercept = coef[order], intercept[order]
    return LiblinearModel(coef, intercept, np.sort(labels), solver_type, False)


def _header(file: IO[bytes]) -> tuple[dict[str, str], int]:
    """The fields above the weights by name, and the number of their last line."""
    fields: dict[str, str] = {}
    lines = numbered_lines(text_lines(file, LINE * 2**20), 0)
    for number, line in lines:
        key, _, value = line.partition(" ")
        if key == "w" and not value:
            _check_header(fields, number)
            return fields, number
        if key not in ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho"):
            raise BadFile(f"line {number}: {key[:50]!r} is no field of a LIBLINEAR model")
        if key in fields:
            raise BadFile(f"line {number}: {key!r} stands here a second time")
        fields[key] = value.strip()
        if key == "bias":
            read_number(fields[key], number)
    raise BadFile(f"line {len(fields) + 1}: the file ends before the line 'w'")


def _check_header(fields: dict[str, str], line: int) -> None:
    solver_type = fields.get("solver_type", "")
    if solver_type == "ONECLASS_SVM":
        raise BadFile(f"line {line}: one-class models (ONECLASS_SVM) are not supported")
    if solver_type not in _CLASSIFIERS + _REGRESSORS:
        raise BadFile(f"line {line}: unknown solver_type {solver_type[:50]!r}")
    needed = ["nr_class", "nr_feature", "bias"]
    needed += [] if solver_type in _REGRESSORS else ["label"]
    missing = [name for name in needed if name not in fields]
    if missing:
        raise BadFile(f"line {line}: {missing[0]!r} is missing above")


def _labels(fields: dict[str, str], count: int) -> np.ndarray:
    place = list(fields).index("label") + 1
    words = fields["label"].split()
    if len(words) != count or not all(map(INTEGER.fullmatch, words)):
        raise BadFile(f"line {place}: {count} integer labels were expected, got {len(words)} words")
    labels = np.array([int(word) for word in words], dtype=np.int64)
    if np.unique(labels).size != count:
        raise BadFile(f"line {place}: a label is repeated")
    return labels


def _weights(file: IO[bytes], line: int, rows: int, columns: int) -> np.ndarray:
    table = np.empty((rows, columns))
    lines = numbered_lines(text_lines(file, LINE * (columns + 1)), line)
    for row in range(rows):
        number, text = next(lines, (line + row + 1, None))
        if text is None:
            raise BadFile(f"line {number}: the file ends after {row} of {rows} lines of weights")
        words = text.split()
        if len(words) != columns:
            raise BadFile(f"line {number}: {columns} weights were expected, got {len(words)}")
        table[row] = read_numbers(words, number)
    for number, text in lines:
        if text:
            raise BadFile(f"line {number}: text after the last line of weights")
    return table
