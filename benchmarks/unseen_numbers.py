"""Claim: numbers, too, are predicted better by a race than by what a user gets who chooses among
good peers in the same time.

``AutoRegressor`` against extra trees, histogram boosting, RBF SVR, kernel ridge and ridge
regression.  Every peer has the same wall clock and both cores for a random search by 5-fold
cross-validation, its defaults first; what the user gets is the peer with the best
cross-validation.  "abalone" are at most 1,000 training rows of a set, "abalone@10000" at most so
many.  No setting of the race was chosen by one of these sets: what was chosen
(``docs/performance.md``) was compared over classifications, and since the table was made over 25
regressions at once, other draws of these among them.

Root mean squared errors on at most 5,000 other rows, in standard deviations of their targets, in
percent.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import loguniform, rankdata
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from benchmarks import data
from benchmarks.measure import table
from benchmarks.races import Found, against, raced, tuned
from thresher import AutoRegressor

BUDGET, ROWS, TEST_ROWS = 10.0, 1000, 5000
SETS = (
    "abalone", "ailerons", "boston_housing", "cal_housing", "cpusmall", "diabetes", "elevators",
    "kin8nm", "milan_mort", "school_ilea", "ailerons@10000", "cal_housing@10000",
    "cpusmall@10000", "elevators@10000", "kin8nm@10000",
)  # fmt: skip


def run(names: list[str] | None = None, kept: Path | None = None) -> str:
    """``kept``: a file with the results so far, to go on with."""
    there = [name for name in names or SETS if _available(name.partition("@")[0])]
    found = raced(there, lambda name: _errors(load(name)), kept)
    return (__doc__ or "").strip() + "\n\n" + _summary(found)


def _available(folder: str) -> bool:
    return folder == "diabetes" or data.available(folder)


def load(name: str) -> data.Split:
    folder, _, rows = name.partition("@")
    if folder == "diabetes":
        X, y = load_diabetes(return_X_y=True)
    else:
        raw = data.read(folder)
        X, y = raw["X"].astype(np.float64), raw["y"].astype(np.float64)
    order = np.random.default_rng(len(folder)).permutation(y.size)
    cut = min(int(rows or ROWS), int(0.7 * y.size))
    train, test = order[:cut], order[cut : cut + TEST_ROWS]
    return data.Split(X[train], y[train], X[test], y[test])


def _errors(split: data.Split) -> dict[str, float]:
    _compile(split)
    start = time.perf_counter()
    model = AutoRegressor(BUDGET, random_state=0).fit(split.X, split.y)
    found = {"seconds": time.perf_counter() - start, "Thresher": _error(model, split)}
    chosen = {}
    folds, loss = KFold(5, shuffle=True, random_state=0), "neg_mean_squared_error"
    for title, (peer, space) in _peers(split.X.shape[1]).items():
        best, chosen[title] = tuned(peer, space, split, folds, loss, BUDGET)
        found[title] = _error(best, split)
    found["user's choice"] = found[max(chosen, key=lambda title: chosen[title])]
    return found


_RACED: set[bool] = set()


def _compile(split: data.Split) -> None:
    """As for a user whose cache is filled: one race comes before the clock runs."""
    if not _RACED:
        AutoRegressor(40.0, random_state=1).fit(split.X[:500], split.y[:500])
        _RACED.add(True)


def _error(model: Any, split: data.Split) -> float:
    miss = model.predict(split.X_test) - split.y_test
    return 100 * float(np.sqrt(np.mean(miss**2)) / np.std(split.y_test))


def _peers(d: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    widths = loguniform(0.03 / d, 30.0 / d)
    return {
        "extra trees": (
            ExtraTreesRegressor(300, random_state=0),
            {"max_features": ["sqrt", 0.3, 1.0], "min_samples_leaf": [1, 2, 5]},
        ),
        "boosting": (
            HistGradientBoostingRegressor(random_state=0),
            {
                "learning_rate": loguniform(0.02, 0.5),
                "max_leaf_nodes": [7, 15, 31, 63],
                "max_iter": [50, 100, 200, 400],
                "l2_regularization": loguniform(1e-4, 10.0),
            },
        ),
        "RBF SVR": (
            _scaled(make_pipeline(StandardScaler(), SVR(C=10.0))),
            {
                "regressor__svr__C": loguniform(1e-1, 1e3),
                "regressor__svr__gamma": widths,
                "regressor__svr__epsilon": loguniform(1e-2, 0.5),
            },
        ),
        "kernel ridge": (
            _scaled(make_pipeline(StandardScaler(), KernelRidge(alpha=0.1, kernel="rbf"))),
            {
                "regressor__kernelridge__alpha": loguniform(1e-4, 10.0),
                "regressor__kernelridge__gamma": widths,
            },
        ),
        "ridge": (
            make_pipeline(StandardScaler(), Ridge()),
            {"ridge__alpha": loguniform(1e-3, 1e4)},
        ),
    }


def _scaled(model: Any) -> Any:
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def _summary(found: Found) -> str:
    peers = ["extra trees", "boosting", "RBF SVR", "kernel ridge", "ridge"]
    titles = ["Thresher", "user's choice", *peers]
    lines = [
        [name, f"{one['seconds']:.0f}", *(f"{one[t]:.2f}" for t in titles)]
        for name, one in found.items()
    ]
    parts = [table(["set", "s", *titles], lines)]
    for title in titles[1:]:
        parts.append(against(title, list(found.values())))
    ranked = ["Thresher", *peers]
    ranks = np.mean([rankdata([one[t] for t in ranked]) for one in found.values()], axis=0)
    listed = ", ".join(f"{t} {r:.2f}" for t, r in zip(ranked, ranks, strict=True))
    parts.append(f"Mean ranks: {listed}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(run(sys.argv[2:] or None, Path(sys.argv[1]) if len(sys.argv) > 1 else None))
