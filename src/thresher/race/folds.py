"""Rows of a race: those to learn from, in random order, and those to be judged on.

Few rows are judged on in five folds, since one fifth of them says little; of many rows, one part of
at most 20,000 is enough.  The rows of a class are spread over the folds.
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["Folds"]

_FOLDS, _MOST_JUDGES = 5, 20_000
_FEW = 10_000  # rows up to which one fold is not enough to tell learners apart


class Folds:
    """``count`` folds of the rows 0 .. n - 1; ``y`` are labels, or numbers of a regression.

    ``used``: those that settings are judged in, so far; ``learned``: rows to learn from in the
    first of them.
    """

    def __init__(self, y: np.ndarray, regression: bool, rng: np.random.Generator):
        if y.size < 2 * _FOLDS:
            raise ValueError(f"{y.size} rows are too few to choose a learner")
        self.order = rng.permutation(y.size)
        by_class = self.order if regression else self.order[np.argsort(y[self.order])]
        parts = max(_FOLDS, math.ceil(y.size / _MOST_JUDGES))
        self.part = np.empty(y.size, dtype=np.int64)
        self.part[by_class] = np.arange(y.size) % parts
        self.count, self.used = parts if y.size <= _FEW else 1, 1
        self.learned = int(np.count_nonzero(self.part))
        if not regression and np.unique(y[self.train(0)]).size < 2:
            raise ValueError("the rows hold one class only, or one member of the other")

    def train(self, fold: int) -> np.ndarray:
        """Rows to learn from, in random order: the first of them are a sample."""
        return self.order[self.part[self.order] != fold]

    def judges(self, fold: int) -> np.ndarray:
        return self.order[self.part[self.order] == fold]

    def judged(self, folds: int) -> np.ndarray:
        """The rows of the first so many folds, in the order in which models are judged on them."""
        return np.concatenate([self.judges(k) for k in range(folds)])
