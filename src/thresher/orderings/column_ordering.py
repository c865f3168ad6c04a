"""Columns in an order in which neighbours are alike."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from thresher._rows import check_compressed
from thresher.orderings.em import Columns
from thresher.orderings.row_ordering import CHECKS, RowOrdering

__all__ = ["ColumnOrdering"]


class ColumnOrdering(TransformerMixin, BaseEstimator):
    """The same columns in another order: the rows of the transpose, ordered.

    Columns are brought to mean zero and equal spread first (sparse ones to equal spread), so that
    their units do not matter; then each is a row to be ordered.

    Parameters
    ----------
    ordering : RowOrdering or None, default=None
        How the columns are ordered; None: with its default settings.

    Attributes
    ----------
    order_ : array of shape (n_features_in_,)
        Numbers of the columns, in order.
    ordering_ : RowOrdering
        Fitted to the transpose; its weights are those of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.orderings import ColumnOrdering, RowOrdering
    >>> t = np.linspace(0, 3, 30)[:, None]
    >>> X = np.sin(t + np.array([0.0, 1.0, 0.5, 1.5]))
    >>> columns = ColumnOrdering(RowOrdering(random_state=0)).fit(X).order_.tolist()
    >>> columns in ([0, 2, 1, 3], [3, 1, 2, 0])
    True
    """

    def __init__(self, ordering: RowOrdering | None = None):
        self.ordering = ordering

    def fit(self, X: Any, y: Any = None) -> Self:
        """Order the columns of an array, a frame or a sparse matrix; ``y`` is not used."""
        X = self._checked(X, reset=True)
        columns = Columns.of(X)
        spread = np.where(columns.spread > 0.0, columns.spread, 1.0)
        turned = X.multiply(1.0 / spread) if hasattr(X, "indptr") else (X - columns.centre) / spread
        turned = turned.T.tocsr() if hasattr(X, "indptr") else np.ascontiguousarray(turned.T)
        ordering = RowOrdering() if self.ordering is None else clone(self.ordering)
        self.ordering_ = ordering.fit(turned)
        self.order_ = self.ordering_.order_
        return self

    def transform(self, X: Any) -> Any:
        """The columns in their order."""
        check_is_fitted(self)
        return self._checked(X, reset=False)[:, self.order_]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns in their order."""
        check_is_fitted(self)
        return np.asarray(_check_feature_names_in(self, input_features))[self.order_]

    def _checked(self, X: Any, reset: bool) -> Any:
        check_compressed(X)
        return validate_data(self, X, reset=reset, **CHECKS)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
