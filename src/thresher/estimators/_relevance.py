"""What ``scale="relevance"`` does to a learner's units."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher.estimators._input import Units, matrix_of
from thresher.maps.relevance import relevance

__all__ = ["weighed"]


def weighed(units: Units, rows: Rows, y: Any, weight: np.ndarray | None, seed: int) -> Units:
    """The units with features weighed by their relevance for y, of the rows that have a weight."""
    kept = None if weight is None else np.flatnonzero(weight)
    weights = relevance(matrix_of(rows), y, seed, rows=kept, convert=units.matrix)
    return units._replace(scale=units.scale * weights)
