"""Which labels are missing: None, NaN, NaT, pandas' NA and the empty word."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["IRRELEVANT_TARGET", "UNLABELLED_TARGET", "blanks"]

#: in place of class numbers, where rows are read: targets of every other kind are finite
UNLABELLED_TARGET = np.nan
IRRELEVANT_TARGET = -np.inf


def blanks(y: np.ndarray) -> np.ndarray:
    """Where a label is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher._blanks import blanks
    >>> blanks(np.array(["a", None, "", float("nan")], dtype=object)).tolist()
    [False, True, True, True]
    """
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype.kind in "US":
        return y == np.asarray("", dtype=y.dtype)
    if y.dtype.kind != "O":
        return np.zeros(y.size, dtype=bool)
    return np.array([v is None or not _is_itself(v) or v == "" for v in y], dtype=bool)


def _is_itself(value: Any) -> bool:
    """NaN and NaT differ from themselves, and pandas' NA does not say."""
    try:
        return bool(value == value)
    except TypeError:
        return False
