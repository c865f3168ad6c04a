"""One visit of a row serves all classes: weights lie feature-major, (features, padded classes).

A non-zero then meets the weights of all classes in one vector operation.  A row's non-zeros are
listed first, without a branch: tests for zeros in the middle of the arithmetic, which no processor
can foresee on images or one-hot codes, cost more than the arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from thresher._lanes import LANES, add_four, add_multiple
from thresher.solvers.hyperplane_lanes import aligned, whole_registers

__all__ = ["add_to_all", "feature_major", "joint_loss", "list_nonzeros", "predict_all", "room"]


def room(n_features: int, n_classes: int, dtype: Any) -> np.ndarray:
    """Zeros for the weights of so many classes, padded to whole vector registers."""
    return aligned((n_features, whole_registers(n_classes)), dtype)


def feature_major(coef: np.ndarray) -> np.ndarray:
    """The weights (classes, features) in that layout."""
    table = room(coef.shape[1], coef.shape[0], coef.dtype)
    table[:, : coef.shape[0]] = coef.T
    return table


@njit(cache=True, nogil=True)
def list_nonzeros(rows, i, columns, values):
    """Number of row i's non-zeros, listed in arrays with room for (features + 4) of them."""
    count = 0
    for k in range(rows.start(i), rows.stop(i)):
        x = rows.element(i, k)
        columns[count] = rows.column(i, k)
        values[count] = x
        count += x != 0.0
    for k in range(count, count + 3):  # work comes in fours
        columns[k] = 0
        values[k] = 0.0
    return count


@njit(cache=True, nogil=True)
def predict_all(columns, values, count, table, margins):
    """margins = x W for a listed row."""
    for at in range(0, margins.size, LANES):
        for c in range(at, at + LANES):
            margins[c] = 0.0
        for k in range(0, count, 4):
            add_four(
                margins, at, table, columns[k], columns[k + 1], columns[k + 2], columns[k + 3],
                values[k], values[k + 1], values[k + 2], values[k + 3],
            )  # fmt: skip


@njit(cache=True, nogil=True)
def add_to_all(columns, values, count, factors, table):
    """W += x factors' for a listed row."""
    for at in range(0, factors.size, LANES):
        for k in range(count):
            add_multiple(table, columns[k], at, values[k], factors)


@njit(cache=True, nogil=True)
def joint_loss(rows, y, weight, order, loss, table, bias):
    """Weighted mean over the rows of the losses of all classes against the rest."""
    columns = np.zeros(table.shape[0] + 4, dtype=np.int64)
    values = np.zeros(columns.size, dtype=table.dtype)
    margins = np.zeros(table.shape[1], dtype=table.dtype)
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        count = list_nonzeros(rows, i, columns, values)
        predict_all(columns, values, count, table, margins)
        for c in range(bias.size):
            total += weight[i] * loss.value(1.0 if y[i] == c else -1.0, margins[c] + bias[c])
        mass += weight[i]
    return total / max(mass, 1e-300)
