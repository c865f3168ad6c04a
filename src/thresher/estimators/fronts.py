"""What rows go through before a solver sees them, and how its function is folded back.

``enter`` is done once for all rows, ``rows`` then gives (parts of) them as the solver takes them,
``fold`` makes a function of raw rows of one of such rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._rows import Rows
from thresher.estimators.input import matrix_of, refuse_far_rows, to_rows
from thresher.functions import Function, Units
from thresher.maps.base import Circumstances, FeatureMap
from thresher.solvers import Solver

__all__ = ["Front", "MapFront", "UnitsFront"]


class UnitsFront(NamedTuple):
    """Rows seen in other units, or as they are; nothing is copied."""

    units: Units | None

    @property
    def is_linear(self) -> bool:
        """Whether the weights of raw rows are those of the solver's, in other units."""
        return True

    @property
    def usual_strength(self) -> float:
        """alpha n where no alpha is given."""
        return 1.0

    def enter(self, rows: Rows) -> Rows:
        return rows if self.units is None else self.units.apply(rows)

    def rows(self, entered: Rows) -> Rows:
        return entered

    def fold(self, function: Any) -> Function:
        return function.unscaled(self.units)

    def solver_weights(self, coef: np.ndarray) -> np.ndarray:
        """Of weights of raw rows those of the solver's."""
        return coef if self.units is None else coef / self.units.scale

    def block_rows(self, memory: float, dtype: Any) -> float:
        """How many rows fit: views take no memory."""
        return np.inf

    def prefers(self, found: Circumstances) -> Solver:
        return found.usual

    def check(self, features: int) -> int:
        """ValueError if this is not for so many features; how many the solver is given."""
        if self.units is not None:
            self.units.check(features)
        return features


class MapFront(NamedTuple):
    """Rows in other units, mapped to features."""

    units: Units | None
    map: FeatureMap
    features: int  # of the raw rows

    @property
    def is_linear(self) -> bool:
        return False

    def enter(self, rows: Rows) -> Any:
        X = matrix_of(rows)
        X = X if self.units is None else self.units.matrix(X)
        if self.map.uses_kernel:
            refuse_far_rows(X)
        return X

    def rows(self, entered: Any) -> Rows:
        """The mapped rows, in the precision of the rows."""
        Z = self.map.features(entered)
        return to_rows(Z.tocsr() if hasattr(Z, "tocsr") else Z)

    def fold(self, function: Any) -> Function:
        return function.mapped(self.map, self.features, self.units)

    def solver_weights(self, coef: np.ndarray) -> np.ndarray:
        return coef

    def block_rows(self, memory: float, dtype: Any) -> float:
        stored = max(self.map.stored_per_row, 1)
        return max(memory // (np.dtype(dtype).itemsize * stored), 256)

    def prefers(self, found: Circumstances) -> Solver:
        return self.map.prefers(found)

    @property
    def usual_strength(self) -> float:
        return self.map.usual_strength

    def check(self, features: int) -> int:
        if self.units is not None:
            self.units.check(features)
        self.map.check(features, self.map.width)
        return self.map.width


Front = UnitsFront | MapFront
