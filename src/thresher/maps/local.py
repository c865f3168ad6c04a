r"""Local Nystroem maps: the rows are divided into cells, and each cell has landmarks of its own.

A row in cell c has the features :math:`[\phi_c(x), 1]` in the block of columns of its cell, and
zeros elsewhere: a linear model on them is one fixed-size kernel machine per cell, all learned
together under one penalty.  With p cells of m landmarks a row costs as much as with m landmarks,
but the model resolves as much as with p m of them: on data with fine structure everywhere (covtype)
that is the difference between an approximation and the kernel machine itself.  What is lost is
continuity across the borders of the cells.

Cells are those of k-means.  Local learning: Bottou and Vapnik (1992); cells for kernel machines:
Hsieh, Si and Dhillon (2014), whose early prediction is this model without the shared learning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from thresher._allowed import whole
from thresher._random import generator
from thresher.dimensions import Int
from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.kernels.expansion import onnx_values
from thresher.kernels.matrices import stack
from thresher.kernels.width import GAMMA, resolve_kernel
from thresher.maps.base import Circumstances, FeatureMap, best_of_stochastic
from thresher.maps.landmarks import (
    COMPONENTS,
    LANDMARKS,
    landmark_room,
    landmark_work,
    lloyd,
    nearest,
    subset_size,
)
from thresher.maps.nystroem import Nystroem, check_landmarks
from thresher.registry import Contestant
from thresher.solvers import AveragedSGD, DualDescent, Solver

__all__ = ["LocalNystroem"]

_ROWS_PER_CELL, _MOST_CELLS = 1000, 1024
_FEW = 5000  # rows for which the optimum is worth its time
_SAMPLE_PER_CELL = 256  # rows beyond which centres hardly move


class LocalNystroem(FeatureMap):
    """Features for a kernel machine in each cell of a partition of the rows; a CSR matrix.

    Parameters
    ----------
    n_components : int, "auto" or "sqrt", default="auto"
        Landmarks of each cell, by the rules of :class:`Nystroem` for the rows of the cell.
    cells : int or "auto", default="auto"
        Cells of the partition; "auto": one for 1000 rows, at most 1024.
    kernel, gamma, landmarks : as in :class:`Nystroem`
        "median" is the width of the rows of the largest cell.
    sample : int, default=20000
        Rows that the cells are found with, at most; 256 for each cell are enough.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    centres_ : array of shape (cells, n_features)
        A row belongs to the nearest.
    maps_ : list of Nystroem
        One for each cell.
    kernel_ : Kernel

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.maps import LocalNystroem
    >>> X, y = load_digits(return_X_y=True)
    >>> Z = LocalNystroem(50, cells=4, random_state=0).fit_transform(X)
    >>> Z.shape, Z.nnz // Z.shape[0]
    ((1797, 204), 51)
    """

    allowed = {
        "n_components": COMPONENTS, "cells": whole(1) | "auto", "gamma": GAMMA, "sample": whole(1),
    }  # fmt: skip
    closer = 5.0  # ijcnn1 3, covtype 7
    contestants = (Contestant("local kernel", {"map": "local"}),)
    state_names = ("centres_", "landmarks_", "projections_", "sizes_", "kernel_")

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        cells: Any = "auto",
        kernel: Any = "rbf",
        gamma: Any = None,
        landmarks: str = "uniform",
        sample: int = 20_000,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.cells = cells
        self.kernel = kernel
        self.gamma = gamma
        self.landmarks = landmarks
        self.sample = sample
        self.random_state = random_state

    # ------------------------------------------------------------ learning

    def learn(self, X: Any, y: np.ndarray | None = None) -> LocalNystroem:
        self.check_options()
        seed, n = self._seed(), X.shape[0]
        size = min(self._wanted_cells(n), n)
        few = min(self.sample, _SAMPLE_PER_CELL * size)
        some = X if n <= few else X[generator(seed, 16).choice(n, few, False)]
        centres = lloyd(some, min(size, some.shape[0]), seed)
        cell = nearest(X, centres)
        members = dict(_members(cell, centres.shape[0]))
        largest = max(members.values(), key=len)
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, X[largest], seed)
        self.centres_ = np.ascontiguousarray(centres[list(members)])
        parts = members.values()
        self.maps_ = [self._one(X[rows], None if y is None else y[rows], seed) for rows in parts]
        return self

    def _one(self, X: Any, y: np.ndarray | None, seed: int) -> Nystroem:
        size = subset_size(self.n_components, X.shape[0])
        single = y is not None and np.all(y == y[0])
        choice = "uniform" if single else self.landmarks  # one class alone has no margin
        one = Nystroem(size, kernel=self.kernel_, landmarks=choice, random_state=seed)
        return one.learn(X, y)

    def _wanted_cells(self, n: int) -> int:
        return _usual_cells(n) if self.cells == "auto" else int(self.cells)

    def check_options(self) -> None:
        super().check_options()
        if self.landmarks not in LANDMARKS:
            raise ValueError(
                f"landmarks={self.landmarks!r} is unknown: give one of {', '.join(LANDMARKS)}"
            )

    # ------------------------------------------------------------ features and scores

    def features(self, X: Any, out: np.ndarray | None = None) -> csr_matrix:
        starts, cell = self._starts(), nearest(X, self.centres_)
        widths = np.diff(starts)[cell]
        indptr = np.zeros(X.shape[0] + 1, dtype=np.int64)
        np.cumsum(widths, out=indptr[1:])
        data = np.empty(indptr[-1], dtype=X.dtype)
        small = max(indptr[-1], starts[-1]) <= np.iinfo(np.int32).max
        indices = np.empty(indptr[-1], dtype=np.int32 if small else np.int64)
        for c, rows in _members(cell, len(self.maps_)):
            _place(self.maps_[c].features(X[rows]), rows, indptr, starts[c], data, indices)
        parts = (data, indices, indptr.astype(indices.dtype))
        features = csr_matrix(parts, shape=(X.shape[0], int(starts[-1])))
        features.has_canonical_format = True
        return features

    def fold(self, coef: np.ndarray) -> np.ndarray:
        """For every output the coefficients of ``landmarks_``, then the constants of the cells."""
        starts = self._starts()
        blocks = [
            one.fold(coef[:, start : end - 1])
            for one, start, end in zip(self.maps_, starts[:-1], starts[1:], strict=True)
        ]
        return np.hstack([*blocks, coef[:, starts[1:] - 1]])

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        ends = self.landmark_ends()
        constants = table[:, ends[-1] :]
        out = np.empty((X.shape[0], table.shape[0]), dtype=np.float64)
        for c, rows in _members(nearest(X, self.centres_), len(self.maps_)):
            own = table[:, ends[c - 1] if c else 0 : ends[c]]
            out[rows] = self.maps_[c].scores(X[rows], own) + constants[:, c]
        return out

    def landmark_ends(self) -> np.ndarray:
        """Where the landmarks of each cell end among those of all."""
        return np.cumsum([one.landmarks_.shape[0] for one in self.maps_])

    @property
    def landmarks_(self) -> Any:
        """The landmarks of all cells, one cell after the other."""
        points = self.maps_[0].landmarks_
        for one in self.maps_[1:]:
            points = stack(points, one.landmarks_)
        return points

    def _starts(self) -> np.ndarray:
        """First column of each cell's block, and the number of columns."""
        return np.cumsum([0, *(one.width + 1 for one in self.maps_)])

    @property
    def width(self) -> int:
        return int(self._starts()[-1])

    @property
    def stored_per_row(self) -> int:
        """A value and a column number for each feature of the row's cell."""
        return 2 * int(np.diff(self._starts()).max())

    @property
    def table_width(self) -> int:
        return int(self.landmark_ends()[-1]) + len(self.maps_)

    @property
    def size(self) -> int:
        return count_nonzero(self.landmarks_) + count_nonzero(self.centres_)

    def prefers(self, found: Circumstances) -> Solver:
        """Many features, but a row has those of its cell only: stochastic passes suffice."""
        many = found.shape[0] > _FEW
        stochastic = isinstance(found.usual, AveragedSGD)
        if isinstance(found.usual, DualDescent) and found.task == "classification":
            stochastic = many or found.problem.outputs > 1
        return best_of_stochastic(found, enough=many) if stochastic else found.usual

    def components(self, wanted: Any, rows: int) -> int:
        return subset_size(wanted, _rows_per_cell(rows))

    def room(self, rows: int) -> Int:
        return landmark_room(_rows_per_cell(rows))

    def work(self, size: int, rows: int) -> float:
        return landmark_work(size, rows)

    # ------------------------------------------------------------ files and other tools

    @property
    def projections_(self) -> np.ndarray:
        """Those of all cells, as one array, whatever their number."""
        return np.concatenate([one.projection_.ravel() for one in self.maps_])

    @property
    def sizes_(self) -> np.ndarray:
        """Landmarks and features of each cell."""
        return np.array([one.projection_.shape for one in self.maps_])

    def restore(self, state: dict[str, Any]) -> None:
        points, sizes, flat = state["landmarks_"], state["sizes_"], state["projections_"]
        self.centres_, self.kernel_ = state["centres_"], state["kernel_"]
        whole = isinstance(sizes, np.ndarray) and sizes.dtype.kind == "i" and sizes.ndim == 2
        whole = whole and sizes.shape[1:] == (2,) and sizes.size > 0
        whole = whole and not (np.any(sizes < 1) or np.any(sizes > 2**31))
        require(whole, "cells: their sizes are wrong")
        plain = isinstance(self.centres_, np.ndarray) and getattr(points, "ndim", 0) == 2
        require(plain, "cells: centres and landmarks must be matrices")
        fits = points.shape[0] == sizes[:, 0].sum()
        fits = fits and self.centres_.shape == (len(sizes), points.shape[1])
        fits = fits and isinstance(flat, np.ndarray) and flat.ndim == 1
        fits = fits and flat.size == np.prod(sizes, axis=1).sum()
        require(fits, "cells: their landmarks, projections and centres do not fit together")
        ends, last = np.cumsum(sizes[:, 0]), np.cumsum(np.prod(sizes, axis=1))
        self.maps_ = []
        for (m, k), end, stop in zip(sizes.tolist(), ends, last, strict=True):
            one = Nystroem(kernel=self.kernel_)
            projection = flat[stop - m * k : stop].reshape(m, k)
            one.restore({
                "landmarks_": points[end - m : end], "projection_": projection,
                "kernel_": self.kernel_,
            })  # fmt: skip
            self.maps_.append(one)

    def check(self, features: int, width: int) -> None:
        check_landmarks(self, features)
        check_numbers("centres_", self.centres_, (len(self.maps_), features))
        for one in self.maps_:
            check_numbers("projection_", one.projection_, one.projection_.shape)
        require(self.width == width, "coef_ does not fit the features of the map")

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        """A graph has no branches worth having: all kernel values are computed, and those of other
        cells counted as zero."""
        centres = self.centres_.astype(np.float64)
        inner = graph.add("MatMul", rows, graph.constant(centres.T))
        away = graph.add("Sub", graph.constant(0.5 * (centres**2).sum(axis=1)), inner)
        cell = graph.add("ArgMin", away, axis=1, keepdims=0)
        ends = self.landmark_ends()
        owner = np.searchsorted(ends, np.arange(ends[-1]), side="right")
        membership = (owner == np.arange(ends.size)[:, None]).astype(np.float64)
        own = graph.add("Gather", graph.constant(membership), cell, axis=0)
        values = onnx_values(graph, self.kernel_, rows, self.landmarks_)
        values = graph.add("Mul", values, own)
        folded, constants = np.split(table.astype(np.float64), [ends[-1]], axis=1)
        products = graph.add("MatMul", values, graph.constant(folded.T))
        mine = graph.add("Gather", graph.constant(constants.T), cell, axis=0)
        return graph.add("Add", products, mine)


def _rows_per_cell(n: int) -> int:
    """How many rows a cell has on average if nobody says."""
    return -(-n // _usual_cells(n))


def _usual_cells(n: int) -> int:
    return min(max(n // _ROWS_PER_CELL, 1), _MOST_CELLS)


def _members(cell: np.ndarray, cells: int) -> Iterator[tuple[int, np.ndarray]]:
    """Each cell that has rows, with its rows."""
    order = np.argsort(cell, kind="stable")
    ends = np.cumsum(np.bincount(cell, minlength=cells))
    for c, rows in enumerate(np.split(order, ends[:-1])):
        if rows.size:
            yield c, rows


@njit(cache=True, nogil=True)
def _place(Z, rows, indptr, start, data, indices):
    """The features of a cell's rows, and the constant, to their places in the CSR arrays."""
    for r in range(rows.size):
        at = indptr[rows[r]]
        for j in range(Z.shape[1]):
            data[at + j] = Z[r, j]
            indices[at + j] = start + j
        data[at + Z.shape[1]] = 1.0
        indices[at + Z.shape[1]] = start + Z.shape[1]
