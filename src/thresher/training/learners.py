"""The families of learners by name, and what is worth telling about a fitted one."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher import estimators
from thresher.losses import Loss
from thresher.maps.forest import is_forest
from thresher.maps.terms import is_terms
from thresher.registry import resolve

__all__ = ["LEARNERS", "described", "make_estimator", "model_size"]

LEARNERS: dict[str, tuple[str, str | None]] = {
    "linear": ("LinearClassifier", "LinearRegressor"),
    "kernel": ("KernelClassifier", "KernelRegressor"),
    "budgeted": ("BudgetedClassifier", "BudgetedRegressor"),
    "hyperplanes": ("MultiHyperplaneClassifier", None),
}


def make_estimator(learner: str, task: str) -> Any:
    """A new estimator of this family for classification or regression."""
    if learner not in LEARNERS:
        raise ValueError(f"learner={learner!r} is unknown: choose one of {', '.join(LEARNERS)}")
    name = LEARNERS[learner][task == "regression"]
    if name is None:
        raise ValueError(f"learner={learner!r} classifies; for regression use linear or kernel")
    return getattr(estimators, name)()


def described(estimator: Any) -> str:
    """The learner in a line."""
    parts = [type(estimator).__name__]
    if hasattr(estimator, "loss"):
        parts.append(type(resolve(estimator.loss, Loss, "loss")).__name__)
    for name in ("algorithm", "penalty_", "kernel_", "solver_"):
        if hasattr(estimator, name):
            value = getattr(estimator, name)
            parts.append(type(value).__name__ if name == "solver_" else str(value))
    made: Any = getattr(estimator, "map_", None)
    if is_forest(made):
        parts.append(f"{made.trees_.roots.size} trees")
    elif made is not None:
        parts.append(str(getattr(made, "kernel_", made)))
    return ", ".join(parts)


def model_size(estimator: Any) -> tuple[int, str]:
    """(numbers that are not zero, what they are)."""
    if hasattr(estimator, "support_vectors_"):
        vectors = estimator.support_vectors_
        return int(np.count_nonzero(vectors)), f"{vectors.shape[0]:,} support vectors"
    if hasattr(estimator, "map_"):
        size = estimator.coef_.shape[1]
        what = "leaves" if is_forest(estimator.map_) else "features of the kernel"
        what = "weighted terms" if is_terms(estimator.map_) else what
        return int(np.count_nonzero(estimator.coef_)), f"{size:,} {what}"
    coef = estimator.coef_
    count = int(coef.nnz if hasattr(coef, "nnz") else np.count_nonzero(coef))
    if hasattr(estimator, "weight_classes_"):
        return count, f"{coef.shape[0]:,} hyperplanes, {count:,} non-zero weights"
    return count, f"{count:,} non-zero weights"
