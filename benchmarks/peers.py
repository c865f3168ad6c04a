"""LIBLINEAR by its own Python interface, conversion of the data not counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Timed, timed

#: LIBLINEAR's solvers for a loss: dual first, then primal where it has one
SOLVERS = {"hinge": (3,), "squared_hinge": (1, 2), "logistic": (7, 0)}


class Linear(NamedTuple):
    coef: np.ndarray  # (outputs, features)
    intercept: np.ndarray
    classes: np.ndarray

    def predict(self, X: Any) -> np.ndarray:
        scores = X @ self.coef.T + self.intercept
        if scores.shape[1] == 1:
            return self.classes[(scores[:, 0] > 0).astype(int)]
        return self.classes[scores.argmax(axis=1)]


def liblinear(
    X: Any,
    y: np.ndarray,
    solver: int,
    C: float = 1.0,
    eps: float | None = None,
    repeats: int = 3,
    bias: int = 1,
) -> tuple[Linear, Timed]:
    time = timed(trainer(X, y, solver, C, eps, bias), repeats)
    return time.result, time


def trainer(
    X: Any, y: np.ndarray, solver: int, C: float = 1.0, eps: float | None = None, bias: int = 1
) -> Callable[[], Linear]:
    """A call that trains; the data are converted here, before it is timed."""
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train

    data = problem(y.astype(float), sp.csr_matrix(X, dtype=np.float64), bias=bias)
    options = f"-s {solver} -c {C} -B {bias} -q" + (f" -e {eps}" if eps else "")
    return lambda: _model(train(data, parameter(options)), X.shape[1], bias > 0)


def _model(model: Any, d: int, bias: bool) -> Linear:
    labels = np.array(model.get_labels())
    outputs = 1 if labels.size == 2 else labels.size
    length = d + bias
    flat = np.ctypeslib.as_array(model.w, shape=(length * outputs,)).reshape(length, outputs)
    coef = flat[:d].T.copy()
    intercept = flat[d].copy() if bias else np.zeros(outputs)
    if outputs == 1 and labels[0] < labels[1]:  # LIBLINEAR scores its first label
        return Linear(-coef, -intercept, labels)
    if outputs == 1:
        return Linear(coef, intercept, labels[::-1])
    return Linear(coef, intercept, labels)


def best_liblinear(X: Any, y: np.ndarray, loss: str, **options: Any) -> tuple[Linear, Timed, int]:
    """The faster of LIBLINEAR's solvers for this loss."""
    runs = [(*liblinear(X, y, solver, **options), solver) for solver in SOLVERS[loss]]
    return min(runs, key=lambda run: run[1].warm)
