"""How every experiment is run: random splits, normalisation, tuning by cross-validation, a fit.

The published results were tuned by coupled simulated annealing from five starts, in some chapters
followed by a simplex, and tenfold cross-validation; so are these (``reproduction.tuning``).  Search
ranges and the number of evaluations were not printed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from reproduction.data import Binary
from reproduction.tuning import Params, Ranges, tuned
from thresher._rows import Dense
from thresher.losses import Hinge
from thresher.solvers import driver
from thresher.solvers.base import Problem

LONG_PASS = 20_000
Maker = Callable[[Params], tuple[Any, Any]]  # hyper-parameters -> solver, penalty


class Settings(NamedTuple):
    """What the command line decides."""

    runs: int = 10
    budget: int = 40
    folds: int = 10
    seed: int = 0
    tuning_rows: int = 10_000


class Method(NamedTuple):
    """A learner and the ranges its hyper-parameters are looked for in."""

    name: str
    ranges: Ranges
    make: Maker


class Split(NamedTuple):
    """One random division, normalised by the training rows."""

    train: Binary
    test: Binary
    seed: int


class Model(NamedTuple):
    coef: np.ndarray
    intercept: float

    def error(self, data: Binary) -> float:
        return float(np.mean((data.X @ self.coef + self.intercept > 0) != (data.y > 0)))

    @property
    def nonzero(self) -> float:
        return float(np.mean(self.coef != 0))


class Trainer(NamedTuple):
    """What is the same for all fits of an experiment."""

    loss: Any = Hinge()
    steps: int = 1000
    bias: bool = False  # a free intercept, where the solver offers one
    kappa: float = 0.0  # weight of the share of non-zero weights in the tuning criterion
    late_bias: bool = False  # no intercept while learning, the mean residual of all rows at the end


def splits(
    data: Binary, share: float, settings: Settings, constant: bool, runs: int | None = None
) -> Iterator[Split]:
    """Random divisions with ``share`` of the rows to learn from, z-scored by those."""
    for run in range(runs or settings.runs):
        rng = np.random.default_rng((settings.seed, run))
        order = rng.permutation(data.y.size)
        cut = round(share * order.size)
        train, test = order[:cut], order[cut:]
        mean, deviation = data.X[train].mean(axis=0), data.X[train].std(axis=0)
        deviation[deviation == 0] = 1.0
        parts = []
        for rows in (train, test):
            X = (data.X[rows] - mean) / deviation
            if constant:
                X = np.hstack([X, np.ones((rows.size, 1), dtype=X.dtype)])
            parts.append(Binary(np.ascontiguousarray(X), data.y[rows]))
        yield Split(*parts, seed=1000 * settings.seed + run)


def fit(
    solver: Any,
    penalty: Any,
    data: Binary,
    trainer: Trainer,
    seed: int,
    rows: np.ndarray | None = None,
) -> Model:
    """``trainer.steps`` updates on rows drawn with replacement; the last iterate.

    The published stopping test (change of the weights at most 1e-5 in one step) is left out: with
    single rows and steps of 1/t or 1/sqrt(t) it is all but never met within the steps planned.
    """
    problem = Problem(
        trainer.loss, penalty, data.X.shape[1], trainer.bias, data.X.dtype.type, seed=seed
    )
    chunk = driver.whole(Dense(data.X), data.y)
    rows = chunk.order if rows is None else rows.astype(np.uint32)
    # Draws from repeated rows are the same draws, in fewer and longer passes.
    chunk = chunk._replace(order=np.tile(rows, max(1, LONG_PASS // rows.size)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # candidates that hold every weight at zero are expected
        result = driver.learn(
            solver, problem, chunk, driver.Plan(order="sampled", steps=trainer.steps)
        )
    coef, intercept = result.coef, float(result.intercept)
    if trainer.late_bias:
        intercept = float(np.mean(data.y[rows] - data.X[rows] @ coef))
    return Model(coef, intercept)


class CrossValidation:
    """The criterion: mean over folds of (1 - kappa) * error + kappa * share of non-zeros."""

    def __init__(self, data: Binary, trainer: Trainer, settings: Settings, seed: int):
        rng = np.random.default_rng((seed, 1))
        rows = rng.permutation(data.y.size)[: settings.tuning_rows]
        parts = np.array_split(rows, settings.folds)
        self.trainer, self.seed, self.data = trainer, seed, data
        self.folds = [
            (np.concatenate(parts[:k] + parts[k + 1 :]), Binary(data.X[part], data.y[part]))
            for k, part in enumerate(parts)
        ]

    def __call__(self, solver: Any, penalty: Any) -> float:
        kappa, total = self.trainer.kappa, 0.0
        for rows, held in self.folds:
            model = fit(solver, penalty, self.data, self.trainer, self.seed, rows)
            total += (1.0 - kappa) * model.error(held) + kappa * model.nonzero
        return total / len(self.folds)


def search(
    method: Method, score: Callable[..., float], budget: int, seed: int, simplex: bool = True
) -> Params:
    """The best of ``budget`` points, by coupled annealing and, where asked for, a simplex."""
    return tuned(
        lambda params: score(*method.make(params)), method.ranges, budget, seed, simplex
    ).params


def tuned_fit(
    method: Method,
    split: Split,
    trainer: Trainer,
    settings: Settings,
    final: Maker | None = None,
    simplex: bool = True,
) -> Model:
    """Tune ``method``, then fit it (or ``final``, with larger batches) to all training rows."""
    score = CrossValidation(split.train, trainer, settings, split.seed)
    params = search(method, score, settings.budget, split.seed, simplex)
    return fit(*(final or method.make)(params), split.train, trainer, split.seed)
