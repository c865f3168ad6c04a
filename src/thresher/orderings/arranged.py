"""Rows that a search puts in order in place, and rows that are computed when they are asked for.

A search for a path moves rows about: those of a cell, then those of a window, are neighbours in
memory.  It works on one copy in single precision, which is in the order that was found in the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numba import njit

__all__ = ["Arranged", "RowBlocks"]


class RowBlocks(ABC):
    """A table whose rows are computed block by block: it need not be in memory as numbers.

    It has a ``shape``, and gives arrays for ``X[rows]`` and ``X[rows, columns]``, where either is a
    slice or an array of numbers.  NaN is a missing value.
    """

    shape: tuple[int, int]

    @abstractmethod
    def __getitem__(self, key: Any) -> np.ndarray: ...


class Arranged:
    """Rows in some order, and the number of each.

    Parameters
    ----------
    X : array in float32 and C order, or CSR matrix
        An array is put in order in place.
    """

    def __init__(self, X: Any):
        self.X, self.numbers = X, np.arange(X.shape[0])

    def arrange(self, places: np.ndarray) -> None:
        """The row in ``places[i]`` comes to place i."""
        self.numbers = self.numbers[places]
        if hasattr(self.X, "indptr"):
            self.X = self.X[places]
        else:
            _arrange(self.X, places)

    def by_number(self, order: np.ndarray) -> None:
        """Rows in an order that is given by their numbers."""
        place = np.empty_like(self.numbers)
        place[self.numbers] = np.arange(place.size)
        self.arrange(place[order])


@njit(cache=True, nogil=True)
def _arrange(X, places):
    """Along the cycles of the permutation, with one row held aside."""
    moved = np.zeros(places.size, np.bool_)
    aside = np.empty(X.shape[1], X.dtype)
    for first in range(places.size):
        if moved[first] or places[first] == first:
            continue
        aside[:] = X[first]
        here = first
        while places[here] != first:
            X[here] = X[places[here]]
            moved[here] = True
            here = places[here]
        X[here] = aside
        moved[here] = True
