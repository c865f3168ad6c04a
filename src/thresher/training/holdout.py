"""Rows kept out of learning, by a random number that belongs to each row's position."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from thresher._random import uniform
from thresher.data.batch import Batch, gathered

__all__ = ["HoldOut", "draws"]


_HOLDING_OUT = 1  # the counter of these draws


@njit(cache=True, nogil=True)
def _draw(seed, first, counter, out):
    for i in range(out.size):
        out[i] = uniform(seed, first + i, counter)


@njit(cache=True, nogil=True)
def _below(seed, rows, counter, threshold):
    """How many of the first rows draw less."""
    found = 0
    for i in range(rows):
        found += uniform(seed, i, counter) < threshold
    return found


def draws(seed: int, first: int, rows: int, counter: int) -> np.ndarray:
    """A random number for each of these rows, which belongs to its position."""
    out = np.empty(rows)
    _draw(seed, first, counter, out)
    return out


@dataclass
class HoldOut:
    """A share of the rows, at most ``most`` of them, the same in every pass and in every format.

    While rows flow by for the first time the threshold is halved whenever more than ``most`` rows
    are below it, so that what is held out in the end is spread over the whole data.  A class that
    then has no other rows gets its first one back (:meth:`release`).  Where rows are learned from
    as they flow by, the first row of a class is never held out (:meth:`begin_stream`).
    """

    share: float
    most: int
    seed: int
    rows: list[Batch] = field(default_factory=list)
    _draws: list[np.ndarray] = field(default_factory=list)
    _places: list[np.ndarray] = field(default_factory=list)  # numbers of the rows
    _released: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    _learned: np.ndarray | None = None  # of a stream: which classes have a row to learn from
    _back: list[Batch] = field(default_factory=list)  # rows that are held out no longer

    def __post_init__(self) -> None:
        if not 0.0 <= self.share < 1.0:
            raise ValueError(f"the held-out share must lie in 0 .. 1, got {self.share}")
        self.threshold = self.share

    def mask(self, batch: Batch) -> np.ndarray:
        """Which rows of the batch are held out."""
        held = self._drawn(batch) < self.threshold
        if self._released.size:
            mine = self._released - batch.first
            held[mine[(mine >= 0) & (mine < batch.size)]] = False
        return held

    def collect(self, batch: Batch) -> np.ndarray:
        """The same, and the rows are kept."""
        drawn = self._drawn(batch)
        held = drawn < self.threshold
        if self._learned is not None and not self._learned.all():
            self._spare(self._learned, batch, held)
        if held.any():
            self.rows.append(batch.taken(held))
            self._draws.append(drawn[held])
            self._places.append(batch.first + np.flatnonzero(held))
            while self.size > self.most:
                self._thin()
        return held

    def release(self, learned: np.ndarray) -> list[Batch]:
        """Give the first row back of every class of which no row is left: these rows.

        ``learned`` counts the rows of each class that are not held out.  To be called once, when
        all rows have flown by.
        """
        wanting, back = set(np.flatnonzero(learned == 0).tolist()), []
        for k, batch in enumerate(self.rows):
            assert batch.y is not None
            found = []
            for i, code in enumerate(batch.y.tolist() if wanting else ()):
                if code in wanting:
                    wanting.remove(code)
                    found.append(i)
            if found:
                back.append(batch.taken(np.array(found)))
                self._released = np.append(self._released, self._places[k][found])
                self._keep(k, np.delete(np.arange(batch.size), found))
        return back

    def take_back(self) -> list[Batch]:
        """Rows that are held out no longer, since there are more than enough; each is told once."""
        back, self._back = self._back, []
        return back

    def absorb(self, later: HoldOut) -> None:
        """Rows that somebody else has held out of the rows that come next."""
        self.rows += later.rows
        self._draws += later._draws
        self._places += later._places
        self.threshold = min(self.threshold, later.threshold)
        self._sift()
        while self.size > self.most:
            self._thin()

    def lower(self, rows: int) -> None:
        """The threshold of whoever knows that so many rows will come: what more rows would thin
        out is not collected in the first place."""
        while self.threshold * rows > 2 * self.most:  # far beyond chance
            self.threshold /= 2.0
        while self._drawn_of(rows) > self.most:
            self.threshold /= 2.0

    def _drawn_of(self, rows: int) -> int:
        return _below(self.seed, rows, _HOLDING_OUT, self.threshold) if self.share > 0.0 else 0

    def without_rows(self) -> HoldOut:
        """Who holds out the same rows, and has none of them."""
        twin = HoldOut(self.share, self.most, self.seed, _released=self._released)
        twin.threshold = self.threshold
        return twin

    def begin_stream(self, learned: np.ndarray) -> None:
        """From now on nobody knows whether another row of a class will come.

        ``learned`` counts the rows so far of each class that are not held out.
        """
        known = learned > 0
        for batch in self.release(learned):
            assert batch.y is not None
            known[batch.codes] = True
        self._learned = known

    def _spare(self, learned: np.ndarray, batch: Batch, held: np.ndarray) -> None:
        """Hold out no first row of a class."""
        assert batch.y is not None
        present, first = np.unique(batch.codes, return_index=True)
        first = np.flatnonzero(batch.labelled)[first]
        spared = first[held[first] & ~learned[present]]
        held[spared] = False
        self._released = np.append(self._released, batch.first + spared)
        learned[present] = True

    @property
    def size(self) -> int:
        return sum(batch.size for batch in self.rows)

    def batch(self) -> Batch | None:
        """All held-out rows."""
        return next(gathered(self.rows, max(self.size, 1)), None)

    def _thin(self) -> None:
        self.threshold /= 2.0
        self._sift()

    def _sift(self) -> None:
        """Rows whose draws are not below the threshold go back."""
        for k, drawn in enumerate(self._draws):
            spare = drawn >= self.threshold
            if spare.any():
                self._back.append(self.rows[k].taken(spare))
                self._keep(k, np.flatnonzero(~spare))

    def _keep(self, k: int, kept: np.ndarray) -> None:
        """Only these of the k-th batch's rows."""
        self.rows[k] = self.rows[k].taken(kept)
        self._draws[k], self._places[k] = self._draws[k][kept], self._places[k][kept]

    def _drawn(self, batch: Batch) -> np.ndarray:
        if self.share == 0.0:
            return np.broadcast_to(np.float64(1.0), (batch.size,))
        drawn = draws(self.seed, batch.first, batch.size, _HOLDING_OUT)
        drawn[~batch.labelled] = 1.0  # nothing could be measured on them
        return drawn
