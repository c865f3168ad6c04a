"""The features of a file's rows that name their tasks, and rows without them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from thresher._rows import Rows
from thresher.data.moments import Moments
from thresher.estimators.input import to_rows
from thresher.functions import LinearFunction, OwnTask
from thresher.functions.own_task import are_dense, taken_apart

__all__ = ["TaskColumns"]


class TaskColumns(NamedTuple):
    """One feature for each task, a one among zeros, as readers make them of a category.

    Parameters
    ----------
    first, stop : int
        The features from the first to before the second.
    numbers : array of int
        Of each: the number of its task among those that are learned, or -1.
    dense : bool
        Whether the other features are best held as arrays.
    """

    first: int
    stop: int
    numbers: np.ndarray
    dense: bool

    @classmethod
    def found(cls, columns: tuple[int, int], moments: Moments, used: np.ndarray) -> TaskColumns:
        """By what is known of the rows; ``used``: the tasks that are learned."""
        first, stop = columns
        numbers = np.where(used, np.cumsum(used) - 1, -1)
        others = np.delete(moments.mass, slice(first, stop))
        per_row = float(others.sum()) / max(moments.total, 1e-300)
        return cls(int(first), int(stop), numbers, are_dense(others.size, per_row))

    @property
    def tasks(self) -> int:
        """How many are learned."""
        return int(np.count_nonzero(self.numbers >= 0))

    @property
    def width(self) -> int:
        """Features that name tasks."""
        return self.stop - self.first

    def apart(self, rows: Rows) -> tuple[Rows, np.ndarray]:
        """The rows without these features, and the numbers of their tasks."""
        others, places = taken_apart(rows, self.first, self.stop, self.dense)
        return to_rows(others), np.where(places >= 0, self.numbers[places], -1)

    def others(self, moments: Moments) -> Moments:
        """Of the other features."""
        mass, mean, square = (np.delete(part, slice(self.first, self.stop)) for part in moments[:3])
        return Moments(mass, mean, square, moments.total)

    def joined(self, function: LinearFunction) -> Any:
        """Of whole rows, if this is a function for each task of rows without these features."""
        return OwnTask(function.coef, function.intercept, self.first, self.numbers)
