"""``thresher warmup``: compile the common learners, and all that race under a budget, ahead."""

from __future__ import annotations

import itertools
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from thresher.cli import show
from thresher.estimators import LinearClassifier, LinearRegressor
from thresher.race.contestants import contestants
from thresher.race.proposals import first_changes
from thresher.training import train

__all__ = ["warmup"]


def warmup(as_json: bool) -> None:
    """Fit every common combination once, on a handful of rows; Numba keeps the machine code."""
    started = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 40))
    fits = 0
    with warnings.catch_warnings(), show.Live(as_json) as live:
        warnings.simplefilter("ignore")
        for rows in (X, csr_array(np.where(np.abs(X) > 1.5, X, 0.0))):
            for name, model, labels in itertools.chain(_linear(X[:, 0]), _racing(rows, X[:, 0])):
                live.say(f"compiling {name} ({fits})")
                model.fit(rows, labels)
                fits += 1
        live.say("compiling the readers of text")
        _read(X[:, :3])
    seconds = time.perf_counter() - started
    if as_json:
        show.print_json({"fits": fits, "seconds": round(seconds, 2)})
    else:
        show.console.print(f"{fits} learners are compiled ({seconds:.1f} s); later runs reuse them")


def _linear(target: np.ndarray) -> Iterator[tuple[str, Any, np.ndarray]]:
    two = (target > 0.0).astype(int)
    for scale in (False, True):
        for loss in ("squared_hinge", "hinge", "logistic"):
            for solver in ("auto", "asgd", "dcd"):
                yield f"{loss}, {solver}", LinearClassifier(loss, solver=solver, scale=scale), two
        yield "several classes", LinearClassifier(solver="asgd", scale=scale), _three(target)
        yield "least squares", LinearRegressor(scale=scale), target
        yield "l1", LinearClassifier("logistic", penalty="l1", scale=scale), two


def _racing(X: Any, target: np.ndarray) -> Iterator[tuple[str, Any, np.ndarray]]:
    """All that ``--budget`` may try first."""
    two = (target > 0.0).astype(int)
    for labels in (two, _three(target), target):
        task = "regression" if labels is target else "classification"
        runners = contestants(task, hasattr(X, "indptr"), X.shape[1])
        for name, model in runners.items():
            for change in first_changes(model, X):
                yield name, clone(model).set_params(**change), labels


def _read(X: np.ndarray) -> None:
    """Train and predict from a CSV and from an svmlight file, as the commands do."""
    with tempfile.TemporaryDirectory() as folder:
        table, sparse = f"{folder}/rows.csv", f"{folder}/rows.svm"
        lines = [f"{a:.3f},{b:.3f},{c:.3f},{'yes' if a > 0 else 'no'}" for a, b, c in X]
        Path(table).write_text("\n".join(["a,b,c,y", *lines]))
        Path(sparse).write_text("\n".join(f"{int(a > 0)} 1:{a:.3f} 3:{c:.3f}" for a, _, c in X))
        for path, target in ((table, "y"), (sparse, None)):
            train(path, target=target).predict(path)


def _three(target: np.ndarray) -> np.ndarray:
    return np.digitize(target, [0.0, 1.0])
