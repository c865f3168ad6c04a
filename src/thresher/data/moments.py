"""Mean and variance of every feature, learned in one streaming pass; stable and mergeable."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from thresher._rows import Rows

__all__ = ["Moments"]


@njit(cache=True, nogil=True)
def _accumulate(rows, weight, mass, mean, square, total):
    """Welford's recurrence, row by row: how the rows are cut into chunks leaves no trace."""
    for i in range(weight.size):
        total += weight[i]
        for k in range(rows.start(i), rows.stop(i)):
            j, x = rows.column(i, k), rows.element(i, k)
            mass[j] += weight[i]
            if mass[j] > 0.0:
                delta = x - mean[j]
                mean[j] += delta * (weight[i] / mass[j])
                square[j] += weight[i] * delta * (x - mean[j])
    return total


class Moments(NamedTuple):
    """Weighted mean and centred second moment of the stored elements of each column.

    Elements that are not stored are zeros; :meth:`mean_and_deviation` adds them as a second group.

    Parameters
    ----------
    mass : array of shape (n_features,)
        Sum of the weights of the stored elements.
    mean : array of shape (n_features,)
    square : array of shape (n_features,)
        Weighted sum of the squared distances from the mean.
    total : float
        Sum of the weights of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import open_data
    >>> moments = open_data(np.array([[1.0, 0.0], [3.0, 0.0]])).scan().moments
    >>> mean, deviation = moments.mean_and_deviation()
    >>> mean.tolist(), deviation.tolist()
    ([2.0, 0.0], [1.0, 0.0])
    """

    mass: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    total: float

    @classmethod
    def empty(cls, n_features: int) -> Moments:
        """Those of no rows."""
        return cls(np.zeros(n_features), np.zeros(n_features), np.zeros(n_features), 0.0)

    def updated(self, rows: Rows, weight: np.ndarray | None = None) -> Moments:
        """These moments and those of the rows (in place)."""
        if weight is None:
            weight = np.broadcast_to(np.float64(1.0), (rows.shape[0],))
        state = (self.mass, self.mean, self.square)
        return Moments(*state, float(_accumulate(rows, weight, *state, self.total)))

    def merged(self, other: Moments) -> Moments:
        """Moments of both sets of rows.  Chan, Golub and LeVeque (1983)."""
        mass = self.mass + other.mass
        share = np.divide(other.mass, mass, out=np.zeros_like(mass), where=mass > 0.0)
        delta = other.mean - self.mean
        mean = self.mean + delta * share
        square = self.square + other.square + delta**2 * self.mass * share
        return Moments(mass, mean, square, self.total + other.total)

    def mean_and_deviation(self) -> tuple[np.ndarray, np.ndarray]:
        """Over all elements, also the zeros that are not stored."""
        total = max(self.total, 1e-300)
        with np.errstate(over="ignore", invalid="ignore"):
            # In this order nothing overflows in a column without zeros.
            spread = self.mass * ((total - self.mass) / total) * self.mean
            square = self.square + spread * self.mean
        if not np.all(np.isfinite(square)):
            j = int(np.flatnonzero(~np.isfinite(square))[0])
            raise ValueError(f"column {j} holds values too large to standardise: they overflow")
        return self.mean * self.mass / total, np.sqrt(np.maximum(square, 0.0) / total)
