"""Where a novelty detector draws the line: by rows that its model has not seen."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from thresher._seed import seed_from

__all__ = ["out_of_fold", "quantile"]

_FOLDS = 5


def out_of_fold(
    model: Any, X: Any, codes: np.ndarray, weight: np.ndarray | None, known: np.ndarray
) -> np.ndarray:
    """The highest score of every known row by a model that has not seen it.

    NaN where there are too few rows for folds.  ``codes`` are numbers of the model's outcomes,
    ``known`` the rows that are no outliers; outliers are learned from in every fold.
    """
    from sklearn.model_selection import StratifiedKFold  # slow to import

    out, labels = np.full(codes.size, np.nan), model.outcomes_
    folds = min(_FOLDS, int(np.bincount(codes[known]).max()))
    if folds < 2:
        return out[known]
    splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
    settings: dict[str, Any] = {
        "false_alarms": None, "verbose": 0, "callbacks": None, "algorithm": model.algorithm_,
        "random_state": seed_from(model.random_state), "outlier_label": model.outlier_label_,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself has warned
        for _, test in splitter.split(np.zeros((known.size, 1)), codes[known]):
            left = known[test]
            train = np.delete(np.arange(codes.size), left)
            if model.C is not None and model.algorithm_ == "exact":
                settings["C"] = model.C * _fewer(codes, weight, train)
            fold: Any = clone(model).set_params(**settings)
            fold.n_features_in_ = X.shape[1]
            mine = None if weight is None else weight[train]
            fold.fit_codes(X[train], codes[train], labels, mine)
            out[left] = fold.function_.function.scores(X[left]).max(axis=1)
    return out[known]


def _fewer(codes: np.ndarray, weight: np.ndarray | None, train: np.ndarray) -> float:
    """How many times as much a row of a fold must cost: C times the rows is what counts (1/nu)."""
    weight = np.ones(codes.size) if weight is None else weight
    whole = np.bincount(codes, weight)
    part = np.bincount(codes[train], weight[train], minlength=whole.size)
    kept = part > 0.0
    return float(np.max(whole[kept] / part[kept]))


def quantile(values: np.ndarray, masses: np.ndarray, share: float) -> float:
    """Below which at most this share of the mass lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(masses[order]) / masses.sum()
    first = min(int(np.searchsorted(below, share, side="right")), values.size - 1)
    low = float(values[order[first]])
    before = float(values[order[first - 1]]) if first else low - 1e-9 * max(abs(low), 1.0)
    return 0.5 * (before + low)
