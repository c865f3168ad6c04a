"""What every regression shares: targets that are numbers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher._interrupts import clean_interrupts
from thresher.estimators import input
from thresher.estimators.base import Learner
from thresher.estimators.holding import held_out
from thresher.functions.base import require

__all__ = ["Regressor"]


class Regressor(RegressorMixin, Learner):
    """Base of the regressions: everything around the coded core."""

    task = "regression"

    @clean_interrupts()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : numbers
        sample_weight : array or None, default=None
            Weight k means the same as the row k times; learners that go over rows one by one take
            steps k times as long instead.
        """
        self.check_options()
        X, y = input.checked_Xy(self, X, y, reset=True, numeric=True)
        return self.fit_numbers(X, y, input.check_weight(sample_weight, X))

    def fit_numbers(self, X: Any, y: np.ndarray, weight: np.ndarray | None = None) -> Self:
        """The same for rows and targets that have been checked."""
        rows, held = input.to_rows(X), None
        if self.early_stopping:
            rows, y, weight, held = held_out(self, X, y, weight, None)
        self.fit_targets(rows, y, weight, 1, held)
        return self

    @available_if(lambda self: self._can_stream())
    @clean_interrupts()
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go once over these rows, in the given order; the first call's set units and widths."""
        self.check_options()
        X, y = input.checked_Xy(self, X, y, reset=not self.has_feed, numeric=True)
        weight = input.check_weight(sample_weight, X)
        self.feed_targets(input.to_rows(X), y, weight, 1)
        return self

    def fit_coded(self, X: Any, y: np.ndarray, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows and targets as readers code them; there are no classes."""
        return self.fit_numbers(X, y, weight)

    def coded(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        """Targets for the solver, and the number of outputs."""
        return y, 1

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """Predictions of scores (rows, 1), twice, and no probabilities."""
        return scores[:, 0], scores[:, 0], None

    def predict(self, X: Any) -> np.ndarray:
        """A number for every row."""
        check_is_fitted(self)
        return self.scores(X)[:, 0]

    def check_targets(self) -> None:
        """ValueError for a function, read from a file, that is none of a regression."""
        outputs = self.function_.outputs
        require(outputs == 1, f"a regression has one output, got {outputs}")
