r"""Kernel expansions :math:`f_c(x) = \sum_j \alpha_{cj} k(z_j, x) + b_c`, evaluated on packed rows.

The vectors z lie feature-major, so one non-zero of a row serves all of them by one vector
operation: O(non-zeros x vectors) for the kernel values of a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._lanes import LANES
from thresher._rows import Rows
from thresher._terms import contract
from thresher.kernels.functions import RBF, Kernel

__all__ = [
    "FastRBF", "Packed", "combine", "in_precision", "inner_products", "kernel_values",
    "onnx_values", "packed", "scores",
]  # fmt: skip

_BLOCK = 1 << 17  # non-zeros packed at a time
_LOG2_E = math.log2(math.e)


@dataclass(frozen=True)
class FastRBF(Kernel):
    """The Gaussian in single precision: 2^(rate d^2) by a polynomial and the exponent's bits.

    Relative error 2e-7.  Free of branches and calls, so that a loop over it is vector code:
    0.5 ns an element where ``math.exp`` takes 5.
    """

    rate: Any  # np.float32
    traits = RBF.traits

    @classmethod
    def like(cls, kernel: RBF) -> FastRBF:
        return cls(np.float32(-kernel.gamma * _LOG2_E))

    @contract
    def of(self, inner, sq_x, sq_z):
        distance = max(sq_x + sq_z - (inner + inner), np.float32(0.0))
        power = max(self.rate * distance, np.float32(-126.0))
        whole = np.int32(power - np.float32(0.5))
        f = power - np.float32(whole)
        p = np.float32(1.5461445e-4) * f + np.float32(1.3400428e-3)
        p = p * f + np.float32(9.6180567e-3)
        p = p * f + np.float32(5.5503272e-2)
        p = p * f + np.float32(2.4022651e-1)
        p = p * f + np.float32(6.9314721e-1)
        p = p * f + np.float32(1.0)
        return p * np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)


def in_precision(kernel: Kernel, dtype: Any) -> Kernel:
    """The kernel in the arithmetic of ``dtype``."""
    return FastRBF.like(kernel) if isinstance(kernel, RBF) and dtype == np.float32 else kernel


class Packed(NamedTuple):
    """The non-zeros of some rows, in visiting order and in the model's precision.

    Whatever the layout and precision of the rows, the solver sees this: sparse and dense rows give
    the same model to the bit, and the long loops are compiled once.
    """

    columns: np.ndarray
    values: np.ndarray
    starts: np.ndarray  # row r has the positions starts[r] .. starts[r + 1]
    squares: np.ndarray


@njit(cache=True, nogil=True)
def _pack(rows, order, columns, values, starts, squares):
    """Fill the arrays with as many rows as fit; returns how many."""
    at = 0
    for r in range(order.size):
        i = order[r]
        if at + (rows.stop(i) - rows.start(i)) > columns.size or r == squares.size:
            return r
        square = 0.0
        for k in range(rows.start(i), rows.stop(i)):
            x = values.dtype.type(rows.element(i, k))
            if x != 0.0:
                columns[at] = rows.column(i, k)
                values[at] = x
                square += float(x) * float(x)
                at += 1
        starts[r + 1] = at
        squares[r] = square
    return order.size


def packed(rows: Rows, order: np.ndarray, dtype: Any) -> Iterator[tuple[Packed, np.ndarray]]:
    """Blocks of some 10^5 non-zeros and the rows they hold: a few cache-sized buffers, reused."""
    longest = max(rows.shape[1], 1)
    room = max(_BLOCK, longest)
    height = min(_BLOCK // 8, order.size)
    block = Packed(
        np.empty(room, np.uint32), np.empty(room, dtype), np.zeros(height + 1, np.int64),
        np.empty(height, dtype),
    )  # fmt: skip
    while order.size:
        count = _pack(rows, order, *block)
        yield block, order[:count]
        order = order[count:]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def inner_products(columns, values, start, stop, vectors, width, out):
    """Inner products with all vectors; four features at a time, as in ``Rows.dots``."""
    for j in range(width):
        out[j] = 0.0
    whole = stop - (stop - start) % 4
    for k in range(start, whole, 4):
        x0, x1, x2, x3 = values[k], values[k + 1], values[k + 2], values[k + 3]
        j0, j1, j2, j3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
        for j in range(width):
            out[j] += (
                x0 * vectors[j0, j] + x1 * vectors[j1, j] + x2 * vectors[j2, j]
                + x3 * vectors[j3, j]
            )  # fmt: skip
    for k in range(whole, stop):
        x, j0 = values[k], columns[k]
        for j in range(width):
            out[j] += x * vectors[j0, j]


@njit(cache=True, nogil=True, fastmath={"contract"}, forceinline=True)
def kernel_values(kernel, inner, norms, square, width, out):
    """k(x, z_j) of a row with all vectors, from inner products and squared norms."""
    for j in range(width):
        out[j] = kernel.of(inner[j], square, norms[j])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"}, forceinline=True)
def combine(coef, kernels, width, out):
    """Every output's sum of the kernel values."""
    for c in range(coef.shape[0]):
        total = coef.dtype.type(0.0)
        for j in range(width):
            total += coef[c, j] * kernels[j]
        out[c] = total


@njit(cache=True, nogil=True)
def _scores(block, count, kernel, vectors, norms, coef, intercept, out):
    """Kernel values, weighed and added up, row by row."""
    columns, values, starts, squares = block
    inner, kernels = np.zeros_like(norms), np.zeros_like(norms)
    sums = np.zeros(coef.shape[0])
    for r in range(count):
        inner_products(columns, values, starts[r], starts[r + 1], vectors, norms.size, inner)
        kernel_values(kernel, inner, norms, squares[r], norms.size, kernels)
        combine(coef, kernels, norms.size, sums)
        for c in range(sums.size):
            out[r, c] = sums[c] + intercept[c]


def scores(
    rows: Rows, kernel: Kernel, vectors: np.ndarray, coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """f(x) of every row, (rows, outputs); ``vectors`` are (support vectors, features).

    Row by row, so that a row's score does not depend on its company and memory is bounded.
    """
    dtype = vectors.dtype
    pad = -vectors.shape[0] % LANES
    flipped = np.ascontiguousarray(np.pad(vectors, ((0, pad), (0, 0))).T)
    norms = np.sum(flipped.astype(np.float64) ** 2, axis=0).astype(dtype)
    wide = np.pad(coef.astype(dtype), ((0, 0), (0, pad)))
    out = np.empty((rows.shape[0], coef.shape[0]))
    order = np.arange(rows.shape[0], dtype=np.uint32)
    kernel = in_precision(kernel, dtype)
    for block, part in packed(rows, order, dtype):
        here = out[part[0] : part[-1] + 1]
        _scores(block, part.size, kernel, flipped, norms, wide, intercept, here)
    return out


def onnx_values(graph: Any, kernel: Kernel, rows: str, points: Any) -> str:
    """k(x, z_j) of the rows x of an ONNX graph and all points z, in double precision."""
    if kernel.to_onnx is None:
        raise ValueError(f"the kernel {type(kernel).__name__} is not known to ONNX")
    points = points.toarray() if hasattr(points, "toarray") else points
    points = np.asarray(points, dtype=np.float64)
    inner = graph.add("MatMul", rows, graph.constant(points.T))
    squares = graph.add("Mul", rows, rows)
    norms = graph.add("ReduceSum", squares, graph.constant(np.array([1])), keepdims=1)
    return kernel.to_onnx(graph, inner, norms, graph.constant((points**2).sum(axis=1)))
