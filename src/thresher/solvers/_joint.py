"""One visit of a row serves all classes: weights lie feature-major, (features, padded classes).

A non-zero then meets the weights of all classes in one vector operation.  A row's non-zeros are
listed first, without a branch: tests for zeros in the middle of the arithmetic, which no processor
can foresee on images or one-hot codes, cost more than the arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from thresher._lanes import (
    LANES,
    aligned,
    filled,
    in_row,
    multiply_add,
    plus,
    read,
    whole_registers,
    write,
)

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
    """Number of row i's non-zeros, listed in arrays with room for (features + 1) of them."""
    count = 0
    for k in range(rows.start(i), rows.stop(i)):
        x = rows.element(i, k)
        columns[count] = rows.column(i, k)
        values[count] = x
        count += x != 0.0
    columns[count], values[count] = 0, 0.0  # they are taken in pairs
    return count


@njit(cache=True, nogil=True)
def predict_all(columns, values, count, table, margins):
    """margins = x W for a listed row."""
    for at in range(0, margins.size, LANES):
        a, b = filled(margins, 0.0), filled(margins, 0.0)  # two sums, not to wait for each other
        for k in range(0, count, 2):
            a = multiply_add(a, values[k], read(table, in_row(table, columns[k], at)))
            b = multiply_add(b, values[k + 1], read(table, in_row(table, columns[k + 1], at)))
        write(plus(a, b), margins, at)


@njit(cache=True, nogil=True)
def add_to_all(columns, values, count, factors, table):
    """W += x factors' for a listed row."""
    for at in range(0, factors.size, LANES):
        moves = read(factors, at)
        for k in range(count):
            place = in_row(table, columns[k], at)
            write(multiply_add(read(table, place), values[k], moves), table, place)


@njit(cache=True, nogil=True)
def joint_loss(rows, y, weight, order, loss, table, bias):
    """Weighted mean over the rows of the losses of all outputs.

    ``y`` holds class numbers, each class against the rest, or one column of targets per output.
    """
    columns = np.zeros(table.shape[0] + 1, dtype=np.int64)
    values = np.zeros(columns.size, dtype=table.dtype)
    margins = np.zeros(table.shape[1], dtype=table.dtype)
    total, mass = 0.0, 0.0
    for r in range(order.size):
        i = order[r]
        count = list_nonzeros(rows, i, columns, values)
        predict_all(columns, values, count, table, margins)
        for c in range(bias.size):
            if y.ndim == 2:  # known when compiled
                target = y[i, c]
            else:
                target = 1.0 if y[i] == c else -1.0
            total += weight[i] * loss.value(target, margins[c] + bias[c])
        mass += weight[i]
    return total / max(mass, 1e-300)
