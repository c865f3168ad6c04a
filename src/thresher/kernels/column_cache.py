"""Columns that were computed, kept as long as memory lasts; the oldest make room.

The table that holds them is lent by one pool for the whole process: touching new memory costs more
than filling it, so that the fits of many pairs of classes, folds or settings use the same.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from thresher.kernels.columns import Columns

__all__ = ["POOL", "ColumnCache", "Pool"]

_KEPT = 1 << 29  # bytes that the pool keeps at most while nobody uses them
_MOST = 6  # buffers of it


class Pool:
    """Buffers of floats that are lent to whoever needs one, and kept for the next."""

    def __init__(self) -> None:
        self._lock, self._kept = threading.Lock(), list[np.ndarray]()

    def lend(self, size: int) -> np.ndarray:
        """A buffer of at least so many floats, whatever they hold: the smallest that will do."""
        with self._lock:
            fitting = [k for k, buffer in enumerate(self._kept) if buffer.size >= size]
            if fitting:
                return self._kept.pop(min(fitting, key=lambda k: self._kept[k].size))
        # Not np.empty: its advice to use huge pages makes the first touch of each far dearer.
        return np.frombuffer(mmap.mmap(-1, max(4 * size, 1 << 16)), dtype=np.float32)

    def give_back(self, buffer: np.ndarray) -> None:
        """Keep it, and of all the largest few, as far as they are not too large together."""
        with self._lock:
            self._kept.append(buffer)
            self._kept.sort(key=lambda kept: kept.size)
            while len(self._kept) > _MOST or sum(kept.nbytes for kept in self._kept) > _KEPT:
                self._kept.pop(0 if len(self._kept) > _MOST else -1)


#: the one of this process
POOL = Pool()


class ColumnCache:
    """The columns of a source, computed when they are first asked for.

    Parameters
    ----------
    source : Columns
    memory : float
        Bytes that the kept columns may take; there must be room for one.
    threads : int, default=1
        Each computes a span of the rows.

    Attributes
    ----------
    capacity : int
        Columns that can be kept, and asked for at once.
    computed, found : int
        Columns that were computed, and those that were there already.
    table : array of shape (capacity, size)
        Of float32; :meth:`places` says which row of it holds a column.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels import RBF
    >>> from thresher.kernels.column_cache import ColumnCache
    >>> from thresher.kernels.columns import KernelColumns
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> with ColumnCache(KernelColumns(RBF(0.5), X), memory=1e6) as cache:
    ...     first = cache.places(np.array([3, 7]))
    ...     again = cache.places(np.array([7]))
    ...     print(cache.computed, cache.found, bool(first[1] == again[0]))
    2 1 True
    """

    def __init__(self, source: Columns, memory: float, threads: int = 1):
        size = max(source.size, 1)
        if not memory >= 4 * size:
            raise ValueError(
                f"memory={memory:g} bytes cannot hold one kernel column of {source.size:,} rows: "
                f"give at least {4 * size:,} (better some hundred times as much)"
            )
        self.source = source
        self.capacity = int(min(memory // (4 * size), size))
        self.computed = self.found = 0
        self._buffer = POOL.lend(self.capacity * size)
        self.table = self._buffer[: self.capacity * size].reshape(self.capacity, size)
        self._place_of = np.full(size, -1, dtype=np.int64)
        self._row_at = np.full(self.capacity, -1, dtype=np.int64)
        self._asked = np.zeros(self.capacity, dtype=np.int64)
        self._clock = self._used = 0
        self._spans = _spans(source.size, threads)
        self._workers = ThreadPoolExecutor(len(self._spans)) if len(self._spans) > 1 else None

    def __enter__(self) -> ColumnCache:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Give the memory back; the table must not be used any more."""
        if self._workers is not None:
            self._workers.shutdown()
        POOL.give_back(self._buffer)
        self._buffer = self.table = np.empty((0, 0), dtype=np.float32)

    def over_spans(self, task: Callable[[int, int], None]) -> None:
        """``task(start, stop)`` for the span of every thread, at the same time."""
        if self._workers is None:
            task(0, self.source.size)
        else:
            list(self._workers.map(lambda span: task(*span), self._spans))

    def over_parts(self, task: Callable[[int, int], Any], size: int) -> list[Any]:
        """``task(start, stop)`` for parts of some other numbers 0 .. size, as many as threads."""
        if self._workers is None:
            return [task(0, size)]
        cuts = np.linspace(0, size, len(self._spans) + 1).astype(int).tolist()
        return list(self._workers.map(task, cuts[:-1], cuts[1:]))

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The rows of the table that hold these columns, at most ``capacity`` distinct ones."""
        self._clock += 1
        places = self._place_of[rows]
        missing = np.flatnonzero(places < 0)
        self._asked[places[places >= 0]] = self._clock
        self.found += rows.size - missing.size
        if missing.size:
            wanted = rows[missing]
            free = self._room(missing.size)
            self._place_of[wanted], self._row_at[free] = free, wanted
            self._asked[free] = self._clock
            places[missing] = free
            self.computed += missing.size
            try:
                self.over_spans(lambda a, b: self.source.fill(wanted, self.table, free, a, b))
            except BaseException:  # half-filled columns must not be found again
                self._place_of[wanted] = -1
                raise
        return places

    def take(self, rows: np.ndarray) -> np.ndarray:
        """(len(rows), size): any number of columns, in memory of their own."""
        out = np.empty((rows.size, self.source.size), dtype=np.float32)
        for start in range(0, rows.size, self.capacity):
            part = slice(start, start + self.capacity)
            out[part] = self.table[self.places(rows[part])]
        return out

    def _room(self, count: int) -> np.ndarray:
        """Unused places, then those of the columns that were not asked for the longest."""
        new = np.arange(self._used, min(self._used + count, self.capacity))
        self._used += new.size
        more = count - new.size
        if not more:
            return new
        self._asked[new] = self._clock
        oldest = np.argpartition(self._asked, more - 1)[:more]
        gone = self._row_at[oldest]
        self._place_of[gone[gone >= 0]] = -1
        return np.concatenate([new, oldest])


def _spans(size: int, threads: int) -> list[tuple[int, int]]:
    """Nearly equal parts of the rows, cut at whole cache lines of floats."""
    count = max(min(threads, size // 1024), 1)
    cuts = [(size * k // count) // 16 * 16 for k in range(count)] + [size]
    return list(pairwise(cuts))
