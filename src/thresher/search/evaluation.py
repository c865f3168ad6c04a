"""One setting on one fold: fit on its training rows, judge on its test rows.

What trials and folds have in common is computed once: the rows of the folds are cut out once, as
long as they fit in memory; kernel estimators share all that comes before the linear fit
(``shared.py``); and fits along a regularisation path start where their neighbours ended
(``paths.py``).
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

from thresher.estimators.kernel import KernelModel
from thresher.estimators.linear_model import LinearModel
from thresher.search.criteria import Criterion
from thresher.search.paths import Paths, steps_along
from thresher.search.shared import SharedFits, known_rows
from thresher.search.validation import Fold

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
    sharing : bool
        False: every fit on its own, as if it were the only one.
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
        sharing: bool = True,
    ):
        self.estimator, self.X, self.y, self.weight = estimator, X, y, weight
        self.criterion = criterion
        self.share, self.seed, self.sharing = share, seed, sharing
        self.folds = folds if share >= 1.0 else [self._thinned(*item) for item in enumerate(folds)]
        self.paths = Paths()
        self._shared = self._open_shared(folds) if sharing else None
        self._kept: dict[tuple[int, int], Part] = {}
        rows = sum(fold.train.size + fold.test.size for fold in self.folds)
        self._keeps = rows / max(len(y), 1) * _size(X) <= _MEMORY
        self._locks = [threading.Lock() for _ in self.folds]

    def score(self, params: dict[str, Any], fold: int, number: int | None = None) -> Score:
        """Fit and judge; raises what the estimator raises.

        With the ``number`` of a trial, the fit may start where earlier trials ended.
        """
        start = time.perf_counter()
        value = self._closed_form(params, fold)
        if value is None:
            value = self._by_fit(params, fold, number)
        if not np.isfinite(value):
            raise FloatingPointError(f"{self.criterion.name} is {value} on fold {fold}")
        return Score(value, time.perf_counter() - start)

    def _closed_form(self, params: dict[str, Any], fold: int) -> float | None:
        if self._shared is None:
            return None
        scores = self._shared.left_out(params, self.criterion)
        return None if scores is None else float(scores[self.folds[fold].test[0]])

    def _by_fit(self, params: dict[str, Any], fold: int, number: int | None) -> float:
        model = clone(self.estimator).set_params(**params)
        ready = None if self._shared is None else self._shared.ready(model, params, fold)
        if ready is not None:
            model = ready.model
            train, test = (self._cut(ready.Z, rows) for rows in self.folds[fold])
        else:
            train, test = self._part(fold, 0), self._part(fold, 1)
        if self.sharing and number is not None:
            self.paths.walk(model, params, fold, number)
        if train.weight is None:
            model.fit(train.X, train.y)
        else:
            model.fit(train.X, train.y, sample_weight=train.weight)
        return self.criterion(model, test.X, test.y, test.weight)

    def thinned(self, share: float) -> Evaluation:
        """The same folds with fewer rows to learn from."""
        if share == self.share:
            return self
        return Evaluation(
            self.estimator, self.X, self.y, self.folds, self.criterion, self.weight, share,
            self.seed, self.sharing,
        )  # fmt: skip

    def steps(self, points: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        """Settings in the order in which to try them: those that later ones start from first."""
        walks = self.sharing and isinstance(self.estimator, LinearModel)
        return steps_along(points) if walks else [points]

    @property
    def shared_seconds(self) -> float:
        """Time for what the folds of a trial share, at most so far."""
        return 0.0 if self._shared is None else self._shared.seconds

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
            part = self._cut(self.X, self.folds[fold][which])
            if self._keeps:
                self._kept[fold, which] = part
            return part

    def _cut(self, X: Any, rows: np.ndarray) -> Part:
        weight = None if self.weight is None else self.weight[rows]
        return Part(_safe_indexing(X, rows), self.y[rows], weight)

    def _open_shared(self, folds: Sequence[Fold]) -> SharedFits | None:
        """For kernel estimators judged by predictions; ``folds`` are those with all rows."""
        estimator = self.estimator
        if not (isinstance(estimator, KernelModel) and estimator.memory > 0.0):
            return None
        known = known_rows(folds, len(self.y)) if self.criterion.blind else None
        if known is None:
            return None
        if self.share < 1.0:  # as many rows as the folds together learn from, and no more
            rng = np.random.default_rng((self.seed, len(folds)))
            known = np.sort(rng.permutation(known)[: max(2, round(self.share * known.size))])
        return SharedFits(estimator, self.X, self.y, self.weight, self.folds, known)

    def _thinned(self, k: int, fold: Fold) -> Fold:
        order = np.random.default_rng((self.seed, k)).permutation(fold.train)
        return Fold(np.sort(order[: max(2, round(self.share * order.size))]), fold.test)


def _size(X: Any) -> float:
    if hasattr(X, "indptr"):
        return float(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)
    return float(getattr(X, "nbytes", 0) or 8 * np.prod(getattr(X, "shape", (0,))))
