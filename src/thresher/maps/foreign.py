"""Any transformer of scikit-learn's contract as a feature map."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.maps.base import FeatureMap

__all__ = ["Foreign"]


class Foreign(FeatureMap):
    """A transformer that is not ours; it cannot be saved or exported.

    Parameters
    ----------
    transformer : with ``fit`` and ``transform``

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> from thresher.maps.foreign import Foreign
    >>> Foreign(PolynomialFeatures(2)).learn(np.eye(3)).width
    10
    """

    uses_kernel = False

    def __init__(self, transformer: Any):
        self.transformer = transformer

    @property
    def shown(self) -> Any:
        return self.transformer

    def learn(self, X: Any, y: np.ndarray | None = None) -> Foreign:
        self.transformer.fit(X, y)
        self.width_ = int(self.transformer.transform(X[:1]).shape[1])
        return self

    def features(self, X: Any, out: np.ndarray | None = None) -> Any:
        return self.transformer.transform(X)

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        scores = self.transformer.transform(X) @ table.T
        return scores.toarray() if hasattr(scores, "toarray") else scores

    @property
    def width(self) -> int:
        return self.width_

    def check(self, features: int, width: int) -> None:
        name = type(self.transformer).__name__
        raise ValueError(f"a model with the map {name} cannot be kept in a file")

    def describe(self) -> str:
        return str(self.transformer)
