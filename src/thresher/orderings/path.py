"""A short path through all rows: TSP-means, then exchanges of edges in pieces of the path.

======================  ============================================================================
``tour.cell_orders``    a path by small tours down a tree of cells, about 15 % too long
``neighbours``          lists of near rows
``improve``             exchanges of two and three edges, and kicks, in windows of the path
======================  ============================================================================

A *window* is a piece of the path with fixed ends, small enough for the caches, and a thread's work;
the windows of the second round begin in the middle of those of the first.  What a window becomes
depends on nothing outside of it, so that the path is the same for any number of threads.

Sparse rows, and dense ones with very many columns, are divided into cells by a *sketch*, products
with random signs, which keep distances to some ten percent (Johnson and Lindenstrauss, 1984); the
exchanges go by the distances themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher._random import generator
from thresher.orderings.arranged import Arranged
from thresher.orderings.improve import improve
from thresher.orderings.neighbours import banded_neighbours, nearest_first, tree_neighbours
from thresher.orderings.points import Points, as_points
from thresher.orderings.tour import cell_orders, default_levels

__all__ = ["PathSearch", "coordinates_of", "default_effort", "neighbour_lists", "path_in_place",
           "short_path"]  # fmt: skip

_NEIGHBOURS, _CANDIDATES = 8, 16
_FEW_COLUMNS = 6  # for which a k-d tree finds exact neighbours quickly
_WIDE, _SKETCH = 512, 64  # columns that are too many, and what takes their place
_WINDOW = 10_000  # rows whose lists and distances stay in the caches
_KICKS = 3000  # some tenths of a second
_FEWEST_KICKS = 500  # a millisecond: a handful of rows gets the shortest path of all
_ROUND = 5.0  # kicks for each row and round


@dataclass(frozen=True)
class PathSearch:
    """How a path is sought.

    ``effort`` is the number of kicks for each row, ``levels`` the binary levels of the tree that
    become one (None: a rule), ``small_effort`` the kicks of the small tours.  With ``effort`` None
    the path of TSP-means is not improved.
    """

    metric: int
    effort: float | None = 0.5
    levels: int | None = None
    small_effort: int = 0
    seed: int = 0
    threads: int = 1

    def stages(self, X: Any) -> Iterator[np.ndarray]:
        """Orders of the rows of an array or a CSR matrix, each better than the one before."""
        return self.stages_in_place(Arranged(_own(X)))

    def stages_in_place(self, rows: Arranged) -> Iterator[np.ndarray]:
        """The same; rows are moved on the way."""
        with ThreadPoolExecutor(self.threads) as pool:
            yield from self._stages(rows, pool)

    def _stages(self, rows: Arranged, pool: Executor) -> Iterator[np.ndarray]:
        n = rows.numbers.size
        drawn = Arranged(_sketch(rows.X, self.seed)) if _is_wide(rows.X) else rows
        levels, order = self.levels or default_levels(n), rows.numbers
        for order in cell_orders(
            drawn.X, drawn.numbers, self.metric, levels, self.small_effort, self.seed, pool
        ):
            yield drawn.numbers[order]
        if self.effort is None or n < 3:
            return
        drawn.arrange(order)
        if drawn is not rows:
            rows.arrange(drawn.numbers)
        points, near, far = neighbour_lists(rows.X, drawn.X, self.metric, self.threads, pool)
        tour = np.arange(n, dtype=np.int32)
        for _ in self._rounds(points, near, far, tour, pool):
            yield rows.numbers[tour]

    def _rounds(
        self, points: Any, near: np.ndarray, far: np.ndarray, tour: np.ndarray, pool: Executor
    ) -> Iterator[None]:
        """Improve the tour in place, window by window; a pause after each round."""
        assert self.effort is not None
        n = tour.size
        pos, waiting = tour.copy(), np.zeros(n, np.uint8)
        one_window = n <= _WINDOW + _WINDOW // 2
        rounds = max(1 if one_window else 2, round(self.effort / _ROUND))
        for turn in range(rounds):
            edges = _edges(n, turn % 2 == 1)
            seeds = generator(self.seed, 21, turn).integers(1, 2**31 - 1, len(edges) - 1)
            jobs = [
                pool.submit(
                    improve, points, near, far, tour, pos, waiting, first, last, first > 0,
                    last < n, self._kicks(last - first, rounds), int(x),
                )
                for first, last, x in zip(edges[:-1], edges[1:], seeds, strict=True)
            ]  # fmt: skip
            for job in jobs:
                job.result()
            yield

    def _kicks(self, size: int, rounds: int) -> int:
        assert self.effort is not None
        return max(round(self.effort * size / rounds), _FEWEST_KICKS if self.effort > 0.0 else 0)


def neighbour_lists(
    X: Any, coordinates: np.ndarray, metric: int, threads: int, pool: Executor
) -> tuple[Points, np.ndarray, np.ndarray]:
    """Rows that are in an order as points, their neighbours by place in it, and how far these are.

    ``coordinates`` are those of the rows, or of their sketch.
    """
    points = as_points(X, metric)
    k = _CANDIDATES if _is_wide(X) else _NEIGHBOURS
    if coordinates.shape[1] <= _FEW_COLUMNS:
        near = tree_neighbours(coordinates, metric, k, threads)
    else:
        near = banded_neighbours(coordinates, metric, k, pool)
    return points, *nearest_first(points, near, _NEIGHBOURS, pool)


def _edges(n: int, shifted: bool) -> list[int]:
    """Where windows begin and end; a short rest belongs to its neighbour."""
    inner = range(_WINDOW // 2 if shifted else _WINDOW, n - _WINDOW // 2 + 1, _WINDOW)
    return [0, *inner, n]


def _is_wide(X: Any) -> bool:
    """Whether rows are divided into cells by their sketch."""
    return hasattr(X, "indptr") or X.shape[1] > _WIDE


def coordinates_of(X: Any, seed: int) -> np.ndarray:
    """A copy of the rows in single precision, or their sketch."""
    return _sketch(X, seed) if _is_wide(X) else _own(X)


def _sketch(X: Any, seed: int) -> np.ndarray:
    """Products of the rows with random signs, which keep distances roughly."""
    n, d = X.shape
    out = np.zeros((n, _SKETCH), np.float32)
    for start in range(0, d, 1 << 14):  # the signs of some columns at a time
        part = X[:, start : start + (1 << 14)]
        shape = (part.shape[1], _SKETCH)
        signs = generator(seed, 22, start).integers(0, 2, shape, np.int8) * np.float32(2) - 1
        out += np.asarray(part @ signs, dtype=np.float32)
    out /= np.float32(np.sqrt(_SKETCH))
    return out


def _own(X: Any) -> Any:
    """A copy in single precision that may be put in order in place; CSR matrices never are."""
    return X if hasattr(X, "indptr") else np.array(X, dtype=np.float32, order="C")


def default_effort(n: int, d: int) -> float:
    """Kicks for each row: five for few rows, which take no time, and few for many rows.

    In many dimensions a kick costs more and gains less: a million waves (21 columns) are on a path
    0.3 % shorter with 0.25 than with 0.1.
    """
    return float(np.clip(_KICKS / max(n, 1), 0.25 if d <= _FEW_COLUMNS else 0.1, 5.0))


def short_path(
    X: Any, search: PathSearch, on_stage: Callable[[np.ndarray], bool | None] | None = None
) -> np.ndarray:
    """The order of the rows along a short path; ``on_stage`` sees the coarser ones before it.

    If it returns True the order that it has just seen is the answer.
    """
    return _last_stage(Arranged(_own(X)), search, on_stage)


def path_in_place(
    X: Any, search: PathSearch, on_stage: Callable[[np.ndarray], bool | None] | None = None
) -> tuple[np.ndarray, Any]:
    """The same, and the rows along the path; an array in float32 and C order is put in it."""
    rows = Arranged(X)
    order = _last_stage(rows, search, on_stage)
    rows.by_number(order)
    return order, rows.X


def _last_stage(
    rows: Arranged, search: PathSearch, on_stage: Callable[[np.ndarray], bool | None] | None
) -> np.ndarray:
    order = rows.numbers
    for order in search.stages_in_place(rows):
        if on_stage is not None and on_stage(order):
            break
    return order
