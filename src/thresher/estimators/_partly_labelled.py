"""Labels of which some are missing: blanks are rows that nobody has labelled.

None, NaN, NaT, pandas' NA and the empty word are blanks, as in files an empty cell is.  There is no
number for it: -1 is a label like others.  Where a marker for irrelevant rows is given, rows that
have it are known to belong to no class.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from thresher._blanks import IRRELEVANT_TARGET, blanks
from thresher.estimators import input
from thresher.estimators.classifier import check_labels, codes_of

__all__ = [
    "IRRELEVANT", "UNLABELLED", "checked_partly", "from_targets", "label_array", "partly_coded",
]  # fmt: skip

#: in place of a class number
UNLABELLED = -1
IRRELEVANT = -2


def checked_partly(
    estimator: Any, X: Any, y: Any, irrelevant: Any = None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows as they are learned from, their codes and the classes; see ``partly_coded``."""
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    X = input.checked_X(estimator, X, reset=True)
    classes, codes = partly_coded(y, irrelevant)
    if codes.size != X.shape[0]:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"{[int(X.shape[0]), codes.size]} rows of X and y"
        )
    return X, codes, classes


def partly_coded(y: Any, irrelevant: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The sorted classes, and the number of each row's among them.

    Parameters
    ----------
    y : labels, with blanks
    irrelevant : label or None, default=None
        Of rows that are known to belong to no class.

    Returns
    -------
    classes : array
        Of the kind of the labels.
    codes : int array of shape (n,)
        ``UNLABELLED`` for blanks, ``IRRELEVANT`` for rows of no class.

    Examples
    --------
    >>> from thresher.estimators._partly_labelled import partly_coded
    >>> classes, codes = partly_coded(["dog", None, "cat", "car", ""], irrelevant="car")
    >>> classes.tolist(), codes.tolist()
    (['cat', 'dog'], [1, -1, 0, -2, -1])
    >>> partly_coded([1.0, float("nan"), -1.0])[1].tolist()
    [1, -1, 0]
    """
    y = label_array(y)
    codes = np.full(y.size, UNLABELLED)
    known = ~blanks(y)
    labels = _one_kind(y[known])
    if irrelevant is not None:
        _check_kind(irrelevant, labels)
        none = labels == irrelevant
        codes[np.flatnonzero(known)[none]] = IRRELEVANT
        known[known] = ~none
        labels = labels[~none]
    if not labels.size:
        raise ValueError(
            "Input y contains NaN, None or empty words only (or rows of no class): all rows are "
            "unlabelled, and no class has a row"
        )
    if labels.dtype.kind == "f" and np.isinf(labels).any():
        row = int(np.flatnonzero(known)[np.isinf(labels)][0])
        raise ValueError(f"Input y contains infinity, in row {row}: that is no label")
    check_labels(labels)
    classes = np.unique(labels)
    codes[known] = codes_of(labels, classes)
    return classes, codes


def from_targets(y: np.ndarray) -> np.ndarray:
    """Class numbers as they were read from files, as codes."""
    codes = np.full(y.size, UNLABELLED)
    known = np.isfinite(y)
    codes[known] = y[known].astype(np.int64)
    codes[y == IRRELEVANT_TARGET] = IRRELEVANT
    return codes


def label_array(y: Any) -> np.ndarray:
    """Of one dimension; words and blanks together stay objects."""
    given = y if hasattr(y, "dtype") else np.asarray(y, dtype=object)
    plain = column_or_1d(np.asarray(given), warn=True)
    return _narrowed(plain) if plain.dtype.kind == "O" else plain


def _narrowed(y: np.ndarray) -> np.ndarray:
    """Plain numbers that came as objects."""
    kinds = {type(v) for v in y.tolist()}
    if kinds <= {int, float} and len(kinds) and float not in kinds:
        return y.astype(np.int64)
    return y


def _one_kind(labels: np.ndarray) -> np.ndarray:
    """Labels without blanks: all words, or all numbers."""
    if labels.dtype.kind != "O":
        return labels
    words = [isinstance(v, str) for v in labels]
    if any(words) and not all(words):
        first = labels[int(np.argmin(words))]
        raise ValueError(f"labels are words and numbers mixed: {first!r} is none of the words")
    return np.array(labels.tolist()) if labels.size else labels


def _check_kind(irrelevant: Any, labels: np.ndarray) -> None:
    if labels.size and isinstance(irrelevant, str) != (labels.dtype.kind in "US"):
        kind = "words" if labels.dtype.kind in "US" else "numbers"
        raise ValueError(f"irrelevant={irrelevant!r} does not go with labels that are {kind}")
