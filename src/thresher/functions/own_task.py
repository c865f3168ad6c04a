"""One function of many, chosen by what a row says of its task."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from thresher._rows import Rows, as_rows
from thresher.functions.base import check_numbers, dense, require
from thresher.functions.linear import LinearFunction

__all__ = ["OwnTask", "are_dense", "taken_apart"]

_FEW, _SPARSE_BELOW = 32, 0.25  # features, and the share of non-zeros, as schemas have them


class OwnTask(NamedTuple):
    """The score of a row's own task, which some of its features name: a one among zeros.

    Parameters
    ----------
    coef : array of shape (tasks, features that name no task)
    intercept : array of shape (tasks,)
    first : int
        Place of the first feature that names a task; the others follow it.
    places : array of int
        Of each of them: the number of the task, or -1 for one without a function, which gets the
        mean over the tasks, as rows do that name none.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.functions import OwnTask
    >>> f = OwnTask(np.array([[1.0], [3.0]]), np.zeros(2), 1, np.array([0, 1, -1]))
    >>> f.scores(np.array([[2.0, 1, 0, 0], [2.0, 0, 1, 0], [2.0, 0, 0, 1]])).tolist()
    [[2.0], [6.0], [4.0]]
    """

    coef: Any
    intercept: Any
    first: int
    places: np.ndarray

    def parts(self, X: Any) -> tuple[Any, np.ndarray]:
        """The other features of the rows, and the numbers of their tasks."""
        rows, kept = as_rows(X), int(self.coef.shape[1])
        dense = not rows.is_sparse or are_dense(kept, rows.stored / max(X.shape[0], 1) - 1.0)
        others, places = taken_apart(rows, self.first, self.first + self.places.size, dense)
        return others, np.where(places >= 0, self.places[places], -1)

    @property
    def features(self) -> int:
        return int(self.coef.shape[1]) + int(self.places.size)

    @property
    def outputs(self) -> int:
        return 1

    @property
    def size(self) -> int:
        return int(np.count_nonzero(self.coef))

    @property
    def basis(self) -> str:
        return ""

    def columns(self, X: Any) -> Any:
        return None

    def scores(self, X: Any) -> np.ndarray:
        kept, codes = self.parts(X)
        return LinearFunction(self.coef, self.intercept).own_scores(kept, codes)[:, None]

    def describe(self) -> str:
        used = int(np.count_nonzero(np.any(self.coef != 0.0, axis=0)))
        tasks, features = self.coef.shape
        return f"{self.size:,} non-zero weights, {tasks:,} tasks, {used:,} of {features:,} features"

    def is_finite(self) -> bool:
        return LinearFunction(self.coef, self.intercept).is_finite()

    def check(self) -> None:
        require(np.ndim(self.coef) == 2, "coef_ must have two dimensions")
        tasks, features = self.coef.shape
        check_numbers("coef_", self.coef, (tasks, features))
        check_numbers("intercept_", self.intercept, (tasks,))
        inside = type(self.first) is int and 0 <= self.first <= features
        require(inside, "the features that name tasks do not lie among the others")
        places = self.places
        plain = isinstance(places, np.ndarray) and places.ndim == 1 and places.dtype == np.int64
        require(plain and places.size > 0, "places of tasks must be whole numbers")
        require(np.all((places >= -1) & (places < tasks)), "a feature names a task beyond the last")

    def to_onnx(self, graph: Any, rows: str) -> str:
        """Scores of all tasks and of their mean, of which each row keeps one."""
        tasks, kept = self.coef.shape
        features, end = kept + self.places.size, self.first + self.places.size
        others = np.r_[0 : self.first, end:features]
        weights, names = np.zeros((features, tasks + 1)), np.zeros((features, tasks + 1))
        coef = dense(self.coef)
        weights[others, :tasks], weights[others, tasks] = coef.T, coef.mean(axis=0)
        names[self.first + np.arange(self.places.size), self.places % (tasks + 1)] = 1.0
        bias, ones = dense(self.intercept), np.ones((tasks + 1, 1))
        last = np.zeros((1, tasks + 1))
        last[0, tasks] = 1.0
        bias = np.append(bias, bias.mean())
        scores = graph.add("Add", graph.add("MatMul", rows, graph.constant(weights)),
                           graph.constant(bias))  # fmt: skip
        own = graph.add("MatMul", rows, graph.constant(names))
        named = graph.add("MatMul", own, graph.constant(ones))
        rest = graph.add("Sub", graph.constant(np.ones((1, 1))), named)
        own = graph.add("Add", own, graph.add("MatMul", rest, graph.constant(last)))
        return graph.add("MatMul", graph.add("Mul", scores, own), graph.constant(ones))


def are_dense(features: int, per_row: float) -> bool:
    """Whether rows of so many features, of which so many are not zero, are best held as arrays."""
    return features < _FEW or per_row >= _SPARSE_BELOW * features


def taken_apart(rows: Rows, first: int, stop: int, dense: bool) -> tuple[Any, np.ndarray]:
    """The features of rows but those from ``first`` to before ``stop``, as an array or a CSR array,
    and which of these is not zero, counted from ``first``; -1 where none is."""
    n, d = rows.shape[0], rows.shape[1] - (stop - first)
    places = np.full(n, -1)
    if dense:
        out = np.zeros((n, d), rows.dtype)
        _others_dense(rows, first, stop, out, places)
        return out, places
    data, indices = np.empty(rows.stored, rows.dtype), np.empty(rows.stored, np.int32)
    indptr = np.zeros(n + 1, np.int32)
    size = _others_sparse(rows, first, stop, data, indices, indptr, places)
    X = csr_array((data[:size], indices[:size], indptr), shape=(n, d))
    X.has_canonical_format = True  # as the rows are
    return X, places


@njit(cache=True, nogil=True)
def _others_dense(rows, first, stop, out, places):
    for i in range(out.shape[0]):
        for k in range(rows.start(i), rows.stop(i)):
            j, x = np.int64(rows.column(i, k)), rows.element(i, k)
            if j < first:
                out[i, j] += x
            elif j >= stop:
                out[i, j - (stop - first)] += x
            elif x != 0.0:
                places[i] = j - first


@njit(cache=True, nogil=True)
def _others_sparse(rows, first, stop, data, indices, indptr, places):
    size = 0
    for i in range(places.size):
        for k in range(rows.start(i), rows.stop(i)):
            j, x = np.int64(rows.column(i, k)), rows.element(i, k)
            if x == 0.0:
                continue
            if first <= j < stop:
                places[i] = j - first
                continue
            data[size], indices[size] = x, j if j < first else j - (stop - first)
            size += 1
        indptr[i + 1] = size
    return size
