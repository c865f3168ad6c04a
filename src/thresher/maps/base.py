"""What the feature maps share: scikit-learn's transformer contract, and work in blocks of rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher._seed import seed_from
from thresher.kernels.gram import blocks

__all__ = ["FeatureMap"]

_CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "order": "C",
}


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows to features in which a linear model is a kernel machine.

    A map is made from a sample of the rows (``fit``), and then takes rows block by block: memory
    never holds more features than are asked for.  ``learn`` and ``features`` are ``fit`` and
    ``transform`` for float rows that have been validated already.

    A linear model on the features, coef of shape (outputs, features), is a function of x itself:
    ``fold`` turns coef into a table once, and ``scores`` evaluates it without the features.
    Features are an array, or a CSR matrix where most of them are zero.
    """

    #: features are a CSR matrix, whose products need the weights of all outputs side by side
    by_entries: ClassVar[bool] = False
    random_state: Any

    def learn(self, X: Any, y: np.ndarray | None = None) -> FeatureMap:
        raise NotImplementedError

    def features(self, X: Any, out: np.ndarray | None = None) -> Any:
        raise NotImplementedError

    def fold(self, coef: np.ndarray) -> np.ndarray:
        return np.asfortranarray(coef) if self.by_entries else coef

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        """Features times coef', in blocks; ``table`` is what ``fold`` made of coef."""
        out = np.empty((X.shape[0], table.shape[0]), dtype=np.float64)
        for part in blocks(X.shape[0], self._n_features_out):
            out[part] = self.features(X[part]) @ table.T.astype(X.dtype, copy=False)
        return out

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    @property
    def stored_per_row(self) -> int:
        """Numbers that the features of one row take in memory."""
        return self._n_features_out

    def fit(self, X: Any, y: Any = None) -> FeatureMap:
        """Learn the map from the rows of X; y is used by landmarks that follow the targets."""
        X = validate_data(self, X, **_CHECKS)
        if y is not None:
            y = check_array(y, ensure_2d=False, dtype=None).ravel()
            if y.size != X.shape[0]:
                raise ValueError(f"X has {X.shape[0]} rows, but y {y.size} targets")
            if not type_of_target(y).startswith("continuous"):
                y = np.unique(y, return_inverse=True)[1]
        return self.learn(X, y)

    def transform(self, X: Any) -> Any:
        """The features of the rows of X, in the precision of X."""
        check_is_fitted(self)
        return self.features(validate_data(self, X, reset=False, **_CHECKS))

    def _seed(self) -> int:
        return seed_from(self.random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
