"""Rows kept out of learning, by a random number that belongs to each row's position."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher.data.batch import Batch, gathered

__all__ = ["HoldOut"]


@njit(cache=True, nogil=True)
def _draw(seed, first, out):
    for i in range(out.size):
        out[i] = uniform(seed, first + i, 1)


@dataclass
class HoldOut:
    """A share of the rows, at most ``most`` of them, the same in every pass and in every format.

    While rows flow by for the first time the threshold is halved whenever more than ``most`` rows
    are below it, so that what is held out in the end is spread over the whole data.
    """

    share: float
    most: int
    seed: int
    rows: list[Batch] = field(default_factory=list)
    _draws: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"the held-out share must lie in 0 .. 1, got {self.share}")
        self.threshold = self.share

    def mask(self, batch: Batch) -> np.ndarray:
        """Which rows of the batch are held out."""
        return self._drawn(batch) < self.threshold

    def collect(self, batch: Batch) -> np.ndarray:
        """The same, and the rows are kept."""
        draws = self._drawn(batch)
        held = draws < self.threshold
        if held.any():
            self.rows.append(batch.taken(held))
            self._draws.append(draws[held])
            while self.size > self.most:
                self._thin()
        return held

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.rows)

    def batch(self) -> Batch | None:
        """All held-out rows."""
        return next(gathered(self.rows, max(self.size, 1)), None)

    def _thin(self) -> None:
        self.threshold /= 2.0
        kept = [draws < self.threshold for draws in self._draws]
        self.rows = [batch.taken(k) for batch, k in zip(self.rows, kept, strict=True)]
        self._draws = [draws[k] for draws, k in zip(self._draws, kept, strict=True)]

    def _drawn(self, batch: Batch) -> np.ndarray:
        if self.share == 0.0:
            return np.broadcast_to(np.float64(1.0), (batch.size,))
        out = np.empty(batch.size)
        _draw(self.seed, batch.first, out)
        return out
