"""Names and spreads of features, for people."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.training import Model

__all__ = ["mean_and_spread", "names_of"]


def names_of(model: Model, places: np.ndarray) -> list[str]:
    """Of the features at these places."""
    names = model.schema.feature_names()
    if names is None:
        return [f"feature {j + model.schema.first_index}" for j in places]
    return [names[j] for j in places]


def mean_and_spread(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every feature, dense or sparse."""
    mean = np.asarray(X.mean(axis=0)).ravel()
    square = X.multiply(X) if hasattr(X, "multiply") else X * X
    return mean, np.sqrt(np.maximum(np.asarray(square.mean(axis=0)).ravel() - mean**2, 0.0))
