"""The columns of a table as bytes: what a pixel needs to know of a cell.

A number becomes its rank among 255 quantiles, 0 to 254, so that heavy tails and units do not decide
about colours; of equal values the middle rank.  A category becomes its place by frequency, 0 for
the most frequent; from the 255th on all share one place.  255 is a missing value.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from thresher._random import generator
from thresher.data.errors import DataError

__all__ = [
    "MISSING",
    "OTHER",
    "TOGETHER",
    "CodedColumn",
    "code_column",
    "code_numbers",
    "code_table",
]

MISSING = 255
OTHER = 254  # of a category: any but the most frequent
_SAMPLE = 50_000  # values from which quantiles are taken
TOGETHER = 64  # columns that are one job of a thread
_STEPS = (128, 64, 32, 16, 8, 4, 2, 1)


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as bytes, and what they mean.

    Parameters
    ----------
    name : str
    codes : array of uint8, one for each row
    cuts : array of shape (254,)
        Of numbers: the quantiles between ranks.  Empty for categories.
    values : tuple of str
        Of categories: the values in the order of their codes.  Empty for numbers.
    unusual : array of uint8 or None, default=None
        Where a code stands for several rows: the farthest from the middle, or the rarest, of
        theirs.  None: a code is that of one row.
    """

    name: str
    codes: np.ndarray
    cuts: np.ndarray
    values: tuple[str, ...] = ()
    unusual: np.ndarray | None = None

    @property
    def is_category(self) -> bool:
        return bool(self.values)

    @property
    def extremes(self) -> np.ndarray:
        """What a cell shows at its most unusual."""
        return self.codes if self.unusual is None else self.unusual

    def same_codes(self, cells: pa.ChunkedArray) -> np.ndarray:
        """Other cells of this column by the same cuts or values; new values are among the rest."""
        if not self.is_category:
            values = _as_numbers(cells)
            if values is None or not self.cuts.size:
                return np.full(len(cells), MISSING, np.uint8)
            return _ranks(np.ascontiguousarray(values, np.float64), self.cuts)
        words, places = _distinct(_as_words(self.name, cells))
        known = {word: code for code, word in enumerate(self.values)}
        code_of = np.array([known.get(str(word), OTHER) for word in words] + [MISSING], np.uint8)
        return code_of[places]

    def meaning(self, code: int) -> str:
        """A code as text: the category, or about which number."""
        if code == MISSING:
            return "missing"
        if self.is_category:
            return self.values[code] if code < min(len(self.values), OTHER) else "(other)"
        return f"{self.cuts[min(code, self.cuts.size - 1)]:.4g}" if self.cuts.size else ""


def code_table(table: pa.Table, threads: int = 1) -> list[CodedColumn]:
    """All columns of a table as bytes."""
    names = table.column_names

    def coded(start: int) -> list[CodedColumn]:
        return [code_column(name, table[name]) for name in names[start : start + TOGETHER]]

    with ThreadPoolExecutor(threads) as pool:
        return list(chain.from_iterable(pool.map(coded, range(0, len(names), TOGETHER))))


def code_column(name: str, cells: pa.ChunkedArray) -> CodedColumn:
    """A column as bytes: text and booleans are categories, everything else is a number."""
    values = _as_numbers(cells)
    if values is None:
        return _code_words(name, _as_words(name, cells))
    return code_numbers(name, values)


def _as_numbers(cells: pa.ChunkedArray) -> np.ndarray | None:
    """Numbers and times as float64, NaN for missing ones; None for everything else."""
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), np.nan)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        cells = pc.cast(pc.cast(cells, width), pa.float64())
    elif pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        cells = pc.cast(cells, pa.float64(), safe=False)
    else:
        return None
    return np.asarray(pc.fill_null(cells, float("nan")))


def code_numbers(name: str, values: np.ndarray) -> CodedColumn:
    """Numbers as ranks among quantiles; NaN is missing."""
    known = values[~np.isnan(values)]
    if not known.size:
        return CodedColumn(name, np.full(values.size, MISSING, np.uint8), np.empty(0))
    if known.size > _SAMPLE:
        known = known[generator(0, 27).integers(0, known.size, _SAMPLE)]
    # Quantiles are values that occur: between infinite ones there is nothing to interpolate.
    places = -(-np.arange(1, 255) * known.size // 255) - 1
    cuts = np.sort(known)[places].astype(np.float64)
    return CodedColumn(name, _ranks(np.ascontiguousarray(values, np.float64), cuts), cuts)


def _as_words(name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return pc.cast(cells, pa.large_string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise DataError(
            f"column {name!r} holds {cells.type}, which has no picture: ignore it"
        ) from None


def _code_words(name: str, cells: pa.ChunkedArray) -> CodedColumn:
    """Categories by frequency; of equally frequent ones the first in the alphabet comes first."""
    words, places = _distinct(cells)
    counts = np.bincount(places[places >= 0], minlength=words.size)
    by_frequency = sorted(range(words.size), key=lambda k: (-counts[k], words[k]))
    code_of = np.full(words.size + 1, MISSING, np.uint8)  # the last is that of -1
    code_of[by_frequency] = np.minimum(np.arange(words.size), OTHER)
    values = tuple(str(words[k]) for k in by_frequency[:OTHER])
    if not values:
        return CodedColumn(name, np.full(places.size, MISSING, np.uint8), np.empty(0))
    return CodedColumn(name, code_of[places], np.empty(0), values)


def _distinct(cells: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct words, and for each cell the place of its own; -1: missing."""
    encoded = pc.dictionary_encode(cells).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no or several chunks, by the version of Arrow
        encoded = pa.concat_arrays(encoded.chunks)
    words = np.array(encoded.dictionary.to_pylist(), dtype=object)
    return words, np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)


@njit(cache=True, nogil=True)
def _ranks(values, cuts):
    """The middle of the cuts that lie below a value and of those that do not lie above it."""
    not_above = _ends_of_equal(cuts)
    out = np.empty(values.size, np.uint8)
    for i in range(values.size):
        v = values[i]
        if np.isnan(v):
            out[i] = MISSING
            continue
        below = 0  # a binary search in which nothing is guessed wrong: no branches
        for step in _STEPS:
            below += step * (below + step <= cuts.size and cuts[below + step - 1] < v)
        equal = below < cuts.size and cuts[below] == v
        out[i] = (below + not_above[below]) // 2 if equal else below
    return out


@njit(cache=True, nogil=True)
def _ends_of_equal(cuts):
    """For each cut the number of those that are not above it."""
    out = np.empty(cuts.size, np.int64)
    for k in range(cuts.size - 1, -1, -1):
        last = k == cuts.size - 1 or cuts[k + 1] != cuts[k]
        out[k] = k + 1 if last else out[k + 1]
    return out
