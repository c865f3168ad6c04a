"""What rows of no class are called."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["outlier_label"]

WORD = "outlier"


def outlier_label(labels: Any, given: Any = None) -> Any:
    """The label of rows of no class, beside these; ``given`` is the user's.

    None: "outlier" among words, -1 among numbers, or the whole number below the smallest.
    ValueError if it is of another kind than the labels, or taken.
    """
    labels = np.asarray(labels)
    words = labels.dtype.kind in "USO" and all(isinstance(v, str) for v in labels.tolist())
    if given is None:
        if not words:
            return min(-1, math.floor(labels.min()) - 1) if labels.size else -1
        if WORD in labels.tolist():
            raise ValueError(
                f"a class is called {WORD!r}, like rows of no class: say outlier_label={WORD!r} if "
                "its rows are known outliers, or give rows of no class another name"
            )
        return WORD
    plain = given.item() if isinstance(given, np.generic) else given
    number = isinstance(plain, int | float) and not isinstance(plain, bool)
    if isinstance(plain, str) != words or not (words or number):
        kind = "words" if words else "numbers"
        raise ValueError(f"outlier_label={given!r} does not go with labels that are {kind}")
    return plain
