"""Columns of a kernel matrix with one more row: the mean of some others, in feature space."""

from __future__ import annotations

import numpy as np

from thresher.kernels.columns import Columns

__all__ = ["MeanColumns"]

_TALL = 64  # columns added up at a time


class MeanColumns:
    r"""Rows of a kernel and, as the last one, the mean :math:`\frac1m\sum_u \varphi(x_u)` of some.

    An equality on the mean of a function over these rows is one more variable of its dual, whose
    column this is.

    Parameters
    ----------
    source : columns of the rows
    members : int array
        The rows of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.kernels.columns import GramColumns, take
    >>> from thresher.kernels.mean_columns import MeanColumns
    >>> both = MeanColumns(GramColumns(np.diag([2.0, 4.0])), np.array([0, 1]))
    >>> take(both, np.array([0, 2])).tolist()
    [[2.0, 0.0, 1.0], [1.0, 2.0, 1.5]]
    """

    def __init__(self, source: Columns, members: np.ndarray):
        self._source, n = source, source.size
        total = np.zeros(n)
        table = np.empty((_TALL, n), dtype=np.float32)
        for start in range(0, members.size, _TALL):
            part = members[start : start + _TALL]
            source.fill(part, table, np.arange(part.size), 0, n)
            total += table[: part.size].sum(axis=0, dtype=np.float64)
        mean = total / members.size
        own = float(mean[members].mean())
        self.size = n + 1
        self.diagonal = np.append(source.diagonal, own)
        self._line = np.append(mean, own).astype(np.float32)

    def fill(
        self, rows: np.ndarray, table: np.ndarray, places: np.ndarray, start: int, stop: int
    ) -> None:
        """Whole columns, or a span of them, into rows of a table."""
        n = self.size - 1
        plain = rows < n
        if plain.any() and start < n:
            self._source.fill(rows[plain], table, places[plain], start, min(stop, n))
        if stop > n:
            table[places[plain], n] = self._line[rows[plain]]
        table[places[~plain], start:stop] = self._line[start:stop]

    def block(self, rows: np.ndarray, others: np.ndarray, out: np.ndarray) -> None:
        """A small block of pairs."""
        n = self.size - 1
        self._source.block(np.minimum(rows, n - 1), np.minimum(others, n - 1), out)
        for k in np.flatnonzero(rows == n):
            out[k, : others.size] = self._line[others]
        for k in np.flatnonzero(others == n):
            out[: rows.size, k] = self._line[rows]
