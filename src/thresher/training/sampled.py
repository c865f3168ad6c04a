"""Numbers of many rows in bounded memory."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Sampled"]


class Sampled:
    """Columns of numbers, row by row: every row at first, every second (fourth, ...) beyond.

    Which rows are kept depends on their numbers alone, not on how they come in chunks.
    """

    def __init__(self, most: int):
        self.most, self.seen, self.every = most, 0, 1
        self._parts: dict[str, list[np.ndarray]] = {}

    @property
    def kept(self) -> int:
        return -(-self.seen // self.every)

    def add(self, **columns: Any) -> None:
        given = {name: np.asarray(c) for name, c in columns.items() if c is not None}
        size = len(next(iter(given.values())))
        first = -self.seen % self.every
        for name, column in given.items():
            self._parts.setdefault(name, []).append(column[first :: self.every].copy())
        self.seen += size
        while self.kept > self.most:
            self._parts = {n: [np.concatenate(p)[::2]] for n, p in self._parts.items()}
            self.every *= 2

    def __getitem__(self, name: str) -> np.ndarray:
        return np.concatenate(self._parts[name])

    def __contains__(self, name: str) -> bool:
        return name in self._parts
