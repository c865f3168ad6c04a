"""Claim: sparse models with no more non-zeros than skglm's or scikit-learn's l1 path, as fast.

A path of l1-penalised logistic models at the same strengths for all (fractions of the smallest
strength with an empty model).  Times are of the whole path, CPU seconds, second call; skglm gets
its preferred column-wise float64 matrix, converted outside the timing.  scikit-learn's liblinear
also penalises the intercept, so its problem differs slightly.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import data
from benchmarks.measure import seconds, table, timed
from thresher import LinearClassifier

SETS = ("a9a", "ijcnn1", "20news_binary")
FRACTIONS = (0.3, 0.1, 0.03, 0.01, 0.003)


def run(names: list[str] | None = None) -> str:
    lines: list[list[Any]] = []
    for name in names or SETS:
        if not data.available(name):
            lines.append([name, "not at hand"] + [""] * 4)
            continue
        split = data.load(name)
        y = np.where(split.y == np.max(split.y), 1, -1)
        largest = float(np.max(np.abs(split.X.T @ (y / 2.0 - np.mean(y) / 2.0)))) / y.size
        strengths = [fraction * largest for fraction in FRACTIONS]
        for title, fit in _fits(split, y, strengths).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                time = timed(fit, repeats=1)
            lines.append(_line(name, title, split, time))
            print("  ".join(str(cell) for cell in lines[-1]), flush=True)
    header = ["set", "solver", "non-zeros along the path", "test error % along the path",
              "path CPU", "first call"]  # fmt: skip
    return (__doc__ or "").strip() + "\n\n" + table(header, lines)


def _fits(split: data.Split, y: np.ndarray, strengths: list[float]) -> dict[str, Any]:
    from skglm import SparseLogisticRegression
    from sklearn.linear_model import LogisticRegression

    wide = split.X.astype(np.float64)
    columns = sp.csc_matrix(wide) if sp.issparse(wide) else np.asfortranarray(wide)
    n = y.size

    def path(make: Any, X: Any) -> Any:
        return lambda: [make(strength).fit(X, y) for strength in strengths]

    return {
        "Thresher": path(
            lambda a: LinearClassifier("logistic", penalty="l1", alpha=a, random_state=0), split.X
        ),
        "skglm": path(lambda a: SparseLogisticRegression(alpha=a, tol=1e-4), columns),
        "scikit-learn liblinear": path(
            lambda a: LogisticRegression(l1_ratio=1.0, solver="liblinear", C=1 / (n * a)), wide
        ),
    }


def _line(name: str, title: str, split: data.Split, time: Any) -> list[Any]:
    signs = np.where(split.y_test == np.max(split.y_test), 1, -1)
    counts, errors = [], []
    for model in time.result:
        w, b = np.ravel(model.coef_).astype(float), float(np.ravel(model.intercept_)[0])
        counts.append(str(np.count_nonzero(w)))
        errors.append(f"{100 * np.mean(np.where(split.X_test @ w + b > 0, 1, -1) != signs):.2f}")
    return [name, title, " ".join(counts), " ".join(errors), seconds(time.warm),
            seconds(time.first)]  # fmt: skip


if __name__ == "__main__":
    import sys

    print(run(sys.argv[1:]))
