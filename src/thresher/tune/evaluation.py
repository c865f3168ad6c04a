"""One setting on one fold: fit on its training rows, judge on its test rows.

The rows of the folds are cut out once and shared by all trials, as long as they fit in memory.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from thresher.tune.criteria import Criterion
from thresher.tune.validation import Fold

__all__ = ["Evaluation", "Score"]

_MEMORY = 2e9  # bytes for copies of the rows


class Score(NamedTuple):
    value: float
    seconds: float


class Part(NamedTuple):
    X: Any
    y: np.ndarray
    weight: np.ndarray | None


class Evaluation:
    """Scores settings of an estimator on fixed folds; safe to use from several threads.

    Parameters
    ----------
    share : float
        Learn from this share of each fold's training rows only (the same rows for all settings).
    """

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: np.ndarray,
        folds: Sequence[Fold],
        criterion: Criterion,
        weight: np.ndarray | None = None,
        share: float = 1.0,
        seed: int = 0,
    ):
        self.estimator, self.X, self.y, self.weight = estimator, X, y, weight
        self.criterion = criterion
        self.share, self.seed = share, seed
        self.folds = [self._thinned(fold, k) for k, fold in enumerate(folds)]
        self._kept: dict[tuple[int, int], Part] = {}
        rows = sum(fold.train.size + fold.test.size for fold in self.folds)
        self._keeps = rows / max(len(y), 1) * _size(X) <= _MEMORY
        self._locks = [threading.Lock() for _ in self.folds]

    def score(self, params: dict[str, Any], fold: int) -> Score:
        """Fit and judge; raises what the estimator raises."""
        start = time.perf_counter()
        model = clone(self.estimator).set_params(**params)
        train, test = self._part(fold, 0), self._part(fold, 1)
        if train.weight is None:
            model.fit(train.X, train.y)
        else:
            model.fit(train.X, train.y, sample_weight=train.weight)
        value = self.criterion(model, test.X, test.y, test.weight)
        if not np.isfinite(value):
            raise FloatingPointError(f"{self.criterion.name} is {value} on fold {fold}")
        return Score(value, time.perf_counter() - start)

    def thinned(self, share: float) -> Evaluation:
        """The same folds with fewer rows to learn from."""
        return Evaluation(
            self.estimator, self.X, self.y, self.folds, self.criterion, self.weight, share,
            self.seed,
        )  # fmt: skip

    @property
    def test_to_train(self) -> float:
        """n_test / n_train, the mean over the folds."""
        return float(np.mean([fold.test.size / fold.train.size for fold in self.folds]))

    def fingerprint(self) -> int:
        """A number that changes with the rows, their labels or the folds."""
        digest = zlib.crc32(repr((getattr(self.X, "shape", None), self.share)).encode())
        labels = np.ascontiguousarray(self.y)
        text = labels.astype(str).tobytes() if labels.dtype.kind == "O" else labels.tobytes()
        digest = zlib.crc32(text, digest)
        for fold in self.folds:
            digest = zlib.crc32(np.ascontiguousarray(fold.test).tobytes(), digest)
        return digest

    def _part(self, fold: int, which: int) -> Part:
        with self._locks[fold]:
            if (fold, which) in self._kept:
                return self._kept[fold, which]
            rows = self.folds[fold][which]
            weight = None if self.weight is None else self.weight[rows]
            part = Part(_safe_indexing(self.X, rows), self.y[rows], weight)
            if self._keeps:
                self._kept[fold, which] = part
            return part

    def _thinned(self, fold: Fold, k: int) -> Fold:
        if self.share >= 1.0:
            return fold
        order = np.random.default_rng((self.seed, k)).permutation(fold.train)
        return Fold(np.sort(order[: max(2, round(self.share * order.size))]), fold.test)


def _size(X: Any) -> float:
    if hasattr(X, "indptr"):
        return float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return float(getattr(X, "nbytes", 0) or 8 * np.prod(getattr(X, "shape", (0,))))
