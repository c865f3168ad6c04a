"""What the rows of a table are ordered by: numbers between 0 and 1, from the bytes of its columns.

They are computed from the codes for some rows at a time, since all of them at once would take four
times the codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thresher.orderings.arranged import RowBlocks
from thresher.views.explorer.codes import MISSING, CodedColumn

__all__ = ["Feature", "Ranks", "features_of"]


class Feature(NamedTuple):
    """What a column is to an order: its ranks, or whether it has this code."""

    column: int
    code: int | None


def features_of(columns: Sequence[CodedColumn], most_values: int = 8) -> list[Feature]:
    """What rows are ordered by: numbers, and the frequent values of categories.

    A value that occurs once says nothing about neighbours, so a column of names has no part in it.
    """
    found: list[Feature] = []
    for j, column in enumerate(columns):
        if not column.is_category:
            found.append(Feature(j, None))
            continue
        counts = np.bincount(column.codes, minlength=256)
        codes = [c for c in range(min(len(column.values), most_values)) if counts[c] > 1]
        found += [Feature(j, c) for c in codes]
    return found


class Ranks(RowBlocks):
    """The features of rows, from the codes of each column.

    Numbers are ranks from 0 to 1, NaN if missing; frequent categories are 0 and 1.  Without any
    feature there is one that is always 0.

    Parameters
    ----------
    codes : sequence of arrays of uint8, one for each column of the table
    features : sequence of Feature
    factors : array or None, default=None
        By which features are multiplied.
    """

    def __init__(
        self,
        codes: Sequence[np.ndarray],
        features: Sequence[Feature],
        factors: np.ndarray | None = None,
    ):
        self.codes, self.features = codes, features
        self.shape = (codes[0].size, max(len(features), 1))
        self.factors = np.ones(self.shape[1]) if factors is None else factors

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, chosen = key if isinstance(key, tuple) else (key, slice(None))
        numbers = np.arange(self.shape[1])[chosen]
        out = np.zeros((self.codes[0][rows].size, numbers.size), np.float32)
        for place, number in enumerate(numbers[: len(self.features)]):
            column, code = self.features[number]
            values = _RANKS if code is None else _is(code)
            out[:, place] = (values * self.factors[number]).astype(np.float32)[
                self.codes[column][rows]
            ]
        return out


def _is(code: int) -> np.ndarray:
    """1 for a code, 0 for the others."""
    return (np.arange(256) == code).astype(np.float32)


_RANKS = np.arange(256, dtype=np.float32) / np.float32(MISSING - 1)
_RANKS[MISSING] = np.nan
