"""``thresher warmup``: compile the common learners ahead."""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy.sparse import csr_array

from thresher.cli import show
from thresher.estimators import LinearClassifier, LinearRegressor

__all__ = ["warmup"]


def warmup(as_json: bool) -> None:
    """Fit every common combination once, on a handful of rows; Numba keeps the machine code."""
    started = time.perf_counter()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 40))
    y, target = (X[:, 0] > 0).astype(int), X[:, 0]
    fits = 0
    with warnings.catch_warnings(), show.Live(as_json) as live:
        warnings.simplefilter("ignore")
        for rows in (X, csr_array(np.where(np.abs(X) > 1.5, X, 0.0))):
            for name, model, labels in _fits(rows, y, target):
                model.fit(rows, labels)
                fits += 1
                live.say(f"compiling {name} ({fits})")
    seconds = time.perf_counter() - started
    if as_json:
        show.print_json({"fits": fits, "seconds": round(seconds, 2)})
    else:
        show.console.print(f"{fits} learners are compiled ({seconds:.1f} s); later runs reuse them")


def _fits(X, y, target):
    three = np.where(target > 1.0, 2, y)
    for scale in (False, True):
        for loss in ("squared_hinge", "hinge", "logistic"):
            for solver in ("auto", "asgd", "dcd"):
                yield f"{loss}, {solver}", LinearClassifier(loss, solver=solver, scale=scale), y
        yield "several classes", LinearClassifier(solver="asgd", scale=scale), three
        yield "least squares", LinearRegressor(scale=scale), target
        yield "l1", LinearClassifier("logistic", penalty="l1", scale=scale), y
