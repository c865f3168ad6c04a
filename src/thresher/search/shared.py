"""What the fits of a kernel estimator on the folds of one search have in common.

Mapped rows (``shared_maps.py``), sums over them for least squares, and the closed form of
leave-one-out (``least_squares.py``), all in one cache of as many bytes as the estimator's
``memory``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from thresher.estimators.kernel import KernelModel
from thresher.registry import TASKS
from thresher.search.cache import Cache
from thresher.search.criteria import Criterion
from thresher.search.least_squares import DirectFits
from thresher.search.settings import settings_key
from thresher.search.shared_maps import MappedRows, on_features
from thresher.search.validation import Fold

__all__ = ["SharedFits", "known_rows"]


class Ready(NamedTuple):
    """A model to fit on features, and the features of all rows."""

    model: KernelModel
    Z: np.ndarray


class SharedFits:
    """Makes fits of ``estimator`` cheaper by what other fits have computed.

    Parameters
    ----------
    X, y, weight : all rows, checked
    known : positions of the rows to learn maps from
    folds : with the rows that are trained on
    """

    def __init__(
        self, estimator: KernelModel, X: Any, y: np.ndarray, weight: np.ndarray | None,
        folds: Sequence[Fold], known: np.ndarray,
    ):  # fmt: skip
        self._estimator, self._cache = estimator, Cache(estimator.memory)
        self._rows = MappedRows(X, weight, known, self._cache)
        self._direct = DirectFits(y, weight, folds, TASKS[estimator.task].has_classes, self._cache)

    @property
    def seconds(self) -> float:
        """The longest time that one map took, for all folds together."""
        return self._rows.seconds

    def ready(self, model: KernelModel, params: dict[str, Any], fold: int) -> Ready | None:
        """``model``, set to ``params``, for features of the rows; None if it must map them."""
        Z = self._rows.features(model, params)
        if Z is None:
            return None
        if self._direct.can_prepare(model, Z.shape[1], fold):
            model.set_params(solver=self._direct.solver(self._rows.key(params), Z, fold))
        return Ready(on_features(model), Z)

    def left_out(self, params: dict[str, Any], criterion: Criterion) -> np.ndarray | None:
        """The criterion for every row that a fold leaves out, where that is a closed form."""
        if not self._direct.leaves_one_out:
            return None

        def scores() -> np.ndarray | None:
            model = clone(self._estimator).set_params(**params)
            Z = self._rows.features(model, params)
            if Z is None:
                return None
            return self._direct.left_out(self._rows.key(params), Z, model, criterion)

        return self._cache.get(("left out", settings_key(params, lambda name: True)), scores)


def known_rows(folds: Sequence[Fold], n: int) -> np.ndarray | None:
    """Rows that some fold trains on; None if a fold neither trains on one of them nor tests it."""
    known = np.zeros(n, dtype=bool)
    for fold in folds:
        known[fold.train] = True
    for fold in folds:
        missing = known.copy()
        missing[fold.train] = missing[fold.test] = False
        if np.any(missing):
            return None
    return np.flatnonzero(known)
