"""From scores to classes."""

from __future__ import annotations

import numpy as np

__all__ = ["best_class"]


def best_class(scores: np.ndarray) -> np.ndarray:
    """Numbers of the classes with the highest scores (rows, classes).

    Of two classes there may be one score only, (rows, 1) or (rows,), positive for the second.
    """
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) > 0.0).astype(np.int64)
    return scores.argmax(axis=1)
