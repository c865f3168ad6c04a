"""The one container of rows from a reader to a solver.

Readers make batches of what they have parsed; a data set numbers them; whoever learns or predicts
takes their rows, or the matrix behind them, without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from thresher._rows import CSR, Dense, Rows
from thresher.data.errors import DataError

__all__ = ["Batch", "Sparse", "gathered"]


class Sparse(NamedTuple):
    """Compressed sparse rows; indices and pointers are int32, as SciPy's mostly are."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray


class Batch(NamedTuple):
    """Some consecutive rows: features, class numbers or real targets, and weights.

    Parameters
    ----------
    matrix : array of shape (rows, features), or Sparse
    y : array or None
        Class numbers or real targets.
    weight : array or None
    first : int, default=0
        The number of the first row, counted from 0.
    n_features : int, default=0
        Of sparse rows; while they are read their number may not be known yet.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.data import open_data
    >>> (batch,) = open_data(np.eye(3), np.array([0, 1, 1])).chunks()
    >>> batch.size, batch.rows.shape, batch.y.tolist(), batch.first
    (3, (3, 3), [0.0, 1.0, 1.0], 0)
    """

    matrix: np.ndarray | Sparse
    y: np.ndarray | None
    weight: np.ndarray | None
    first: int = 0
    n_features: int = 0

    @property
    def size(self) -> int:
        if isinstance(self.matrix, Sparse):
            return self.matrix.indptr.size - 1
        return int(self.matrix.shape[0])

    @property
    def rows(self) -> Rows:
        """As solvers take them."""
        if isinstance(self.matrix, Sparse):
            data, indices, indptr = self.matrix
            return CSR(data, indices.view(np.uint32), indptr.view(np.uint32), self.n_features)
        return Dense(self.matrix)

    @property
    def X(self) -> Any:
        """As scikit-learn's contract takes them: an array or a CSR array, sharing memory."""
        if not isinstance(self.matrix, Sparse):
            return self.matrix
        from scipy.sparse import csr_array

        X = csr_array(tuple(self.matrix), shape=(self.size, self.n_features))
        X.has_canonical_format = True  # sorted and without repetitions: the readers see to it
        return X

    @property
    def targets(self) -> np.ndarray:
        """Class numbers or real targets; zeros where there are none."""
        return np.zeros(self.size) if self.y is None else self.y

    @property
    def labelled(self) -> np.ndarray:
        """Which rows have a target: not those without a label, or of no class."""
        return np.ones(self.size, dtype=bool) if self.y is None else np.isfinite(self.y)

    @property
    def codes(self) -> np.ndarray:
        """Class numbers of the rows that have one."""
        return self.codes_but(np.zeros(self.size, dtype=bool))

    def codes_but(self, left_out: np.ndarray) -> np.ndarray:
        """The same without those of some rows."""
        return self.targets[self.labelled & ~left_out].astype(np.int64)

    def taken(self, keep: np.ndarray) -> Batch:
        """The rows at these positions (or where a mask is true)."""
        if keep.dtype == bool:
            keep = np.flatnonzero(keep)
        y = None if self.y is None else self.y[keep]
        weight = None if self.weight is None else self.weight[keep]
        if isinstance(self.matrix, Sparse):
            return Batch(_take_sparse(self.matrix, keep), y, weight, 0, self.n_features)
        return Batch(self.matrix[keep], y, weight, 0, self.n_features)


def gathered(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The same rows in batches of exactly ``rows`` (but for the last)."""
    parts: list[Batch] = []
    size = 0
    for batch in batches:
        start = 0
        while batch.size - start:
            take = min(rows - size, batch.size - start)
            parts.append(_part(batch, start, start + take))
            size, start = size + take, start + take
            if size == rows:
                yield _joined(parts)
                parts, size = [], 0
    if parts:
        yield _joined(parts)


def _part(batch: Batch, start: int, stop: int) -> Batch:
    if start == 0 and stop == batch.size:
        return batch
    y = None if batch.y is None else batch.y[start:stop]
    weight = None if batch.weight is None else batch.weight[start:stop]
    if not isinstance(batch.matrix, Sparse):
        return Batch(batch.matrix[start:stop], y, weight, 0, batch.n_features)
    data, indices, indptr = batch.matrix
    low, high = indptr[start], indptr[stop]
    matrix = Sparse(data[low:high], indices[low:high], indptr[start : stop + 1] - low)
    return Batch(matrix, y, weight, 0, batch.n_features)


def _joined(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    y = None if parts[0].y is None else np.concatenate([p.y for p in parts if p.y is not None])
    weight = None
    if parts[0].weight is not None:
        weight = np.concatenate([p.weight for p in parts if p.weight is not None])
    return Batch(_stacked([p.matrix for p in parts]), y, weight, 0, parts[0].n_features)


def _stacked(matrices: list[Any]) -> np.ndarray | Sparse:
    if not isinstance(matrices[0], Sparse):
        return np.concatenate(matrices)
    starts = np.cumsum([0, *(m.data.size for m in matrices)])
    if starts[-1] >= 2**31:
        raise DataError("over two billion non-zeros in one chunk: ask for smaller chunks")
    pointers = [m.indptr[1:] + np.int32(s) for m, s in zip(matrices, starts, strict=False)]
    return Sparse(
        np.concatenate([m.data for m in matrices]),
        np.concatenate([m.indices for m in matrices]),
        np.concatenate([np.zeros(1, np.int32), *pointers]),
    )


def _take_sparse(matrix: Sparse, keep: np.ndarray) -> Sparse:
    data, indices, indptr = matrix
    sizes = (indptr[1:] - indptr[:-1])[keep]
    new = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    where = np.arange(new[-1]) + np.repeat(indptr[keep] - new[:-1], sizes)
    return Sparse(data[where], indices[where], new)
