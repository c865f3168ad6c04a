"""Rows through some of their columns: gradients, predictions, and copies of the columns alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from thresher._rows import AHEAD, as_rows
from thresher.solvers.base import Chunk, Problem
from thresher.solvers.newton import predict, predicted_move

__all__ = ["View", "copied_columns", "gradient_at", "predicted"]


class View(NamedTuple):
    """Rows of which only some columns are there, and which features these are.

    ``members`` names the feature that each coordinate is a copy of; None: coordinates are features.
    """

    chunk: Chunk
    columns: np.ndarray
    members: np.ndarray | None = None

    @classmethod
    def whole(cls, chunk: Chunk, members: np.ndarray | None = None) -> View:
        return cls(chunk, np.arange(chunk.rows.shape[1]), members)

    def places(self, coordinates: np.ndarray) -> np.ndarray:
        """Columns that hold some coordinates."""
        features = coordinates if self.members is None else self.members[coordinates]
        if self.columns.size and self.columns[-1] == self.columns.size - 1:
            return features
        return np.searchsorted(self.columns, features)


@njit(cache=True, nogil=True)
def _gradient(rows, y, weight, order, loss, p, gradient):
    """Sums of slope x, and of slopes."""
    total = 0.0
    for r in range(order.size):
        i = order[r]
        slope = weight[i] * loss.deriv(y[i], p[i])
        if slope != 0.0:
            total += slope
            rows.add(i, slope, gradient)
    return total


@njit(cache=True, nogil=True)
def _gradient_of_some(rows, y, weight, order, loss, p, columns, gradient):
    """The same for some columns of rows that hold every element."""
    total = 0.0
    for r in range(order.size):
        i = order[r]
        slope = weight[i] * loss.deriv(y[i], p[i])
        total += slope
        rows.fetch_some(order[min(r + AHEAD, order.size - 1)], columns)
        for a in range(columns.size):
            gradient[a] += slope * rows.element(i, columns[a])
    return total


@njit(cache=True, nogil=True)
def _copy_dense(rows, columns, out):
    for i in range(out.shape[0]):
        rows.fetch_some(min(i + AHEAD, out.shape[0] - 1), columns)
        for a in range(columns.size):
            out[i, a] = rows.element(i, columns[a])


@njit(cache=True, nogil=True)
def _count_kept(rows, place, pointers):
    for i in range(pointers.size - 1):
        count = 0
        for k in range(rows.start(i), rows.stop(i)):
            if place[rows.column(i, k)] >= 0:
                count += 1
        pointers[i + 1] = pointers[i] + count


@njit(cache=True, nogil=True)
def _copy_kept(rows, place, pointers, indices, data):
    for i in range(pointers.size - 1):
        at = pointers[i]
        for k in range(rows.start(i), rows.stop(i)):
            spot = place[rows.column(i, k)]
            if spot >= 0:
                indices[at] = spot
                data[at] = rows.element(i, k)
                at += 1


def predicted(view: View, w: np.ndarray, bias: float) -> np.ndarray:
    """w.x + b of all rows."""
    if not np.any(w):
        return np.full(view.chunk.size, bias)
    w = w if view.members is None else np.bincount(view.members, w)
    w = w if view.columns.size == w.size else w[view.columns]
    if view.chunk.rows.is_sparse:
        out = np.zeros(view.chunk.size)
        predict(view.chunk.rows, view.chunk.order, w, bias, out)
        return out
    return predicted_move(view.chunk, np.arange(w.size), w, bias)


def copied_columns(whole: View, coordinates: np.ndarray) -> View:
    """The rows with the columns of these coordinates (in ascending order) only, in memory of their
    own."""
    chunk, rows = whole.chunk, whole.chunk.rows
    columns = coordinates if whole.members is None else np.unique(whole.members[coordinates])
    if not rows.is_sparse:
        out = np.empty((rows.shape[0], columns.size), rows.dtype)
        _copy_dense(rows, columns, out)
        return View(chunk._replace(rows=as_rows(out)), columns, whole.members)
    place = np.full(rows.shape[1], -1, np.int64)
    place[columns] = np.arange(columns.size)
    pointers = np.zeros(rows.shape[0] + 1, np.int64)
    _count_kept(rows, place, pointers)
    small = np.int32 if pointers[-1] < 2**31 else np.int64
    indices, data = np.empty(pointers[-1], small), np.empty(pointers[-1], rows.dtype)
    _copy_kept(rows, place, pointers, indices, data)
    shape = (rows.shape[0], columns.size)
    thin = csr_matrix((data, indices, pointers.astype(small)), shape=shape)
    return View(chunk._replace(rows=as_rows(thin)), columns, whole.members)


def _gradient_of_view(problem: Problem, view: View, p: np.ndarray, gradient: np.ndarray) -> float:
    """The sums of slope x, written to ``gradient``; those of slopes are returned."""
    if view.members is None and view.columns.size == gradient.size:
        return float(_gradient(*view.chunk, problem.loss, p, gradient))
    held = np.zeros(view.columns.size)
    total = float(_gradient(*view.chunk, problem.loss, p, held))
    if view.members is None:
        gradient[view.columns] = held
    else:
        features = np.zeros(int(view.members.max()) + 1)
        features[view.columns] = held
        gradient[:] = features[view.members]
    return total


def gradient_at(
    problem: Problem, view: View, p: np.ndarray, looked: np.ndarray | None = None
) -> np.ndarray:
    """Of the mean loss at predictions p, all coordinates and then the intercept.

    Zero for those that the view lacks, and for all but the ``looked`` ones where they are given.
    """
    chunk = view.chunk
    gradient = np.zeros(problem.n_features + 1)
    if looked is None or chunk.rows.is_sparse:
        total = _gradient_of_view(problem, view, p, gradient[:-1])
        if looked is not None:
            held = gradient[looked]
            gradient[:] = 0.0
            gradient[looked] = held
    else:
        held = np.zeros(looked.size)
        total = _gradient_of_some(*chunk, problem.loss, p, view.places(looked), held)
        gradient[looked] = held
    gradient[-1] = total if problem.fit_intercept else 0.0
    return gradient / float(np.sum(chunk.weight[chunk.order]))
