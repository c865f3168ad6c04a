r"""A uniform sample of the rows of a stream, whatever its length, that solvers keep in their state.

Each row draws a number in [0, 1), and the n smallest stay (*bottom-k sampling*; Cohen and Kaplan,
2007).  So the sample does not depend on how the stream is cut, and of two samples of other rows the
n smallest numbers are a sample of all: they are merged as often and in whatever order one likes.

The number of a row follows from the seed, from the rows before it and from its own first elements:
without these the k-th rows of two shards, which start from one state, would stay or go together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher._rows import as_rows
from thresher.kernels.matrices import stack
from thresher.solvers.base import Chunk, Problem

__all__ = ["Reservoir", "joined"]

_TELLING = 6  # non-zero elements that tell a row from others
_WORD = 4294967296.0  # 2^32


class Reservoir(NamedTuple):
    """Rows as the solver sees them, in the order of their numbers.

    No array is ever written to: states may share them.
    """

    numbers: np.ndarray
    X: Any  # an array or a CSR matrix
    y: np.ndarray
    weight: np.ndarray
    is_open: bool  # further rows are taken

    @classmethod
    def empty(cls, problem: Problem, is_open: bool = True) -> Reservoir:
        """Without rows; closed: nor for any."""
        wide = {"classes": (), "pairs": (2,)}.get(problem.targets, (problem.outputs,))
        X, y = np.zeros((0, problem.n_features), problem.dtype), np.zeros((0, *wide), problem.dtype)
        return cls(np.zeros(0), X, y, np.zeros(0), is_open)

    @property
    def size(self) -> int:
        return self.numbers.size

    def with_rows(self, chunk: Chunk, seed: int, before: int, most: int) -> Reservoir:
        """The sample when these rows have followed on ``before`` others; ``most`` rows stay."""
        numbers = np.empty(chunk.order.size)
        _draw(chunk.rows, chunk.order, before, seed, numbers)
        limit = self.numbers[-1] if self.size == most else 1.0
        low = np.flatnonzero(numbers < limit)
        low = low[np.argsort(numbers[low], kind="stable")[:most]]
        if not low.size:
            return self
        order = chunk.order[low]
        X = chunk.rows.taken(order).astype(chunk.rows.dtype)
        mine = Reservoir(numbers[low], X, chunk.y[order], chunk.weight[order], True)
        return joined([self, mine], most)

    def chunk(self) -> Chunk:
        return Chunk(as_rows(self.X), self.y, self.weight, np.arange(self.size, dtype=np.uint32))

    def check(self, problem: Problem, most: int) -> None:
        """ValueError for what a file must not bring."""
        fresh, size, y = Reservoir.empty(problem), self.numbers.size, self.y
        values = self.X.data if hasattr(self.X, "indptr") else self.X
        kinds = zip(
            (self.numbers, values, y, self.weight), (fresh.numbers, fresh.X, fresh.y, fresh.weight),
            strict=True,
        )  # fmt: skip
        sound = all(isinstance(a, np.ndarray) and a.dtype == kind.dtype for a, kind in kinds)
        sound = sound and self.X.shape == (size, problem.n_features) and size <= most
        sound = sound and (y.shape, self.weight.shape) == ((size, *fresh.y.shape[1:]), (size,))
        finite = (self.numbers, values, self.weight, *(() if problem.targets == "matrix" else (y,)))
        sound = sound and all(bool(np.all(np.isfinite(a))) for a in finite)
        if sound and problem.targets == "pairs":
            task = y[:, 0]
            sound = bool(np.all((task >= 0) & (task < problem.outputs) & (task == np.rint(task))))
        if not sound:
            raise ValueError("the state's sample of the rows does not fit the problem")


def joined(samples: Sequence[Reservoir], most: int) -> Reservoir:
    """One sample of what several are samples of; a row that is in more than one counts once."""
    filled = [s for s in samples if s.size]
    if len(filled) < 2:
        return filled[0] if filled else samples[0]
    numbers = np.concatenate([s.numbers for s in filled])
    _, chosen = np.unique(numbers, return_index=True)
    chosen = chosen[:most]
    X = filled[0].X
    for other in filled[1:]:
        X = stack(X, other.X)
    y, weight = (np.concatenate([getattr(s, name) for s in filled]) for name in ("y", "weight"))
    return Reservoir(numbers[chosen], X[chosen], y[chosen], weight[chosen], samples[0].is_open)


@njit(cache=True, nogil=True)
def _draw(rows, order, before, seed, out):
    """The numbers of some rows, 53 bits each."""
    for r in range(order.size):
        i, told, total = order[r], 0, 0.0
        for k in range(rows.start(i), rows.stop(i)):
            x = rows.element(i, k)
            if x != 0.0:
                mantissa, exponent = math.frexp(float(x))
                column = np.int64(rows.column(i, k))
                total += uniform(column, np.int64(mantissa * 9007199254740992.0), exponent)
                told += 1
                if told == _TELLING:
                    break
        mark = np.int64(total * _WORD)  # whole: a sum of multiples of 2^-32
        high = uniform(seed, before + r, mark)
        out[r] = high + uniform(seed + 1, before + r, mark) / _WORD
