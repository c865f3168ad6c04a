"""Rows kept aside for early stopping."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from thresher.estimators import input
from thresher.estimators.progress import Held

__all__ = ["held_out"]


def held_out(
    estimator: Any, X: Any, y: np.ndarray, weight: Any, codes: np.ndarray | None
) -> tuple[Any, np.ndarray, Any, Held]:
    """Rows to learn from, their targets and weights, and rows to watch, stratified where possible.

    A row of weight zero counts for neither.
    """
    from sklearn.model_selection import train_test_split  # slow to import, seldom needed

    share = estimator.validation_fraction
    if not 1 <= int(share * y.size) < y.size:
        raise ValueError(
            f"validation_fraction={share} of {y.size} rows leaves nothing to hold out or to learn "
            "from"
        )
    train, held = train_test_split(
        np.arange(y.size),
        test_size=share,
        random_state=check_random_state(estimator.random_state),
        stratify=_strata(codes, share),
    )
    held_weight = None if weight is None else weight[held]
    if held_weight is not None and not np.any(held_weight):
        raise ValueError("all held-out rows have weight zero: raise validation_fraction")
    train_weight = None if weight is None else weight[train]
    kept = Held(input.to_rows(X[held]), y[held], held_weight)
    return input.to_rows(X[train]), y[train], train_weight, kept


def _strata(codes: np.ndarray | None, share: float) -> np.ndarray | None:
    """The classes, if each has a row for both sides."""
    if codes is None:
        return None
    counts = np.bincount(codes)
    roomy = share * codes.size >= counts.size
    return codes if np.min(counts) > 1 and roomy else None
