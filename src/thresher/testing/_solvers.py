"""Checks of a solver: the same model whatever the layout, the chunks and the interruptions."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from thresher import registry
from thresher._rows import as_rows
from thresher._terms import capabilities
from thresher.functions import LinearFunction
from thresher.losses import Loss
from thresher.penalties import Penalty
from thresher.solvers import Chunk, Problem, Solver, driver
from thresher.solvers.compatible import check_compatible
from thresher.testing._merging import Case, check_copy, check_merging, shares_memory
from thresher.testing._require import require, require_dataclass


def check_solver(
    solver: Solver,
    loss: Loss | None = None,
    penalty: Penalty | None = None,
    dtype: Any = np.float64,
    seed: int = 0,
) -> None:
    """Check that a solver is a state and an update, on a small problem.

    Sparse rows give what dense ones give; the result depends neither on how the rows are cut into
    chunks nor on an interruption; ``finish`` gives a function of its own, and changes nothing; rows
    of weight zero might as well not be there; and training beats the model that is zero.  Where
    states can be merged: merging one, or equal ones, does what the solver's ``sum_fields`` say;
    masses count, and the order of the shards does not; what the shards started from is counted
    once; and two or three shards, merged
    after each of eight rounds, come as low as one stream, but for a quarter of what it gains over
    the zero model (to rounding if the solver ``merges_exactly``).
    ``loss`` and ``penalty`` default to built-in ones that offer what the solver needs.

    Parameters
    ----------
    solver : Solver
    loss : Loss or None, default=None
    penalty : Penalty or None, default=None
    dtype : dtype, default=float64
        Precision of the rows.
    seed : int, default=0
        Of the rows and of the solver.

    Examples
    --------
    >>> from thresher.solvers import Pegasos
    >>> from thresher.testing import check_solver
    >>> check_solver(Pegasos(batch=4))
    """
    require_dataclass(solver, Solver)
    name, dtype = type(solver).__name__, np.dtype(dtype)
    loss = loss or _first_compatible(registry.LOSSES, ("logistic",), solver.loss_needs)
    preferred = (solver.default_penalty, "l2", "l1")
    penalty = penalty or _first_compatible(
        registry.PENALTIES, preferred, solver.penalty_needs, strength=0.01
    )
    X, y = _toy(loss, dtype, seed)
    classes = 2 if solver.by_codes else 1
    problem = Problem(loss, penalty, X.shape[1], dtype=dtype, seed=seed, outputs=classes)
    check_compatible(solver, problem)
    targets = (y > 0.0).astype(float) if solver.by_codes else y
    dense = driver.whole(as_rows(X), targets, np.ones(y.size))
    thin = driver.whole(as_rows(sparse.csr_array(X)), targets, np.ones(y.size))
    solver, problem = solver.prepare(problem, dense)
    tol = 1e-7 if dtype == np.float64 else 2e-3

    orders = _visits(solver, dense, seed)
    state, model = _feed(solver, problem, dense, orders)
    _check_function(name, model, state, X, dtype)
    frozen = pickle.dumps(state)
    again = solver.finish(problem, state)
    require(pickle.dumps(state) == frozen, f"{name}: finish changed the state")
    _same_model(X, name, "finish, called twice,", model, again, 0.0)
    _same_model(X, name, "a second run", _feed(solver, problem, dense, orders)[1], model, 0.0)
    _same_model(X, name, "CSR rows", _feed(solver, problem, thin, orders)[1], model, tol)
    pieces = _cut(orders, solver.batch) if solver.streaming else orders
    exact = tol if solver.by_blocks else 0.0
    _same_model(X, name, "another cut", _feed(solver, problem, dense, pieces)[1], model, exact)
    resumed = _feed(solver, problem, dense, pieces, interrupt=len(pieces) // 2)[1]
    _same_model(X, name, "a resumed run", resumed, model, exact)
    case = Case(solver, problem, dense, 1e-9 if dtype == np.float64 else 1e-4, X)
    check_copy(case, state)
    if not solver.no_merger:
        check_merging(case, seed)
    _check_zero_weights(solver, problem, X, targets, name)
    zero, after = _costs(problem, dense, model, X, y)
    require(after < zero, f"{name}: objective {after} after training, {zero} for the zero model")


def _check_function(name: str, model: Any, state: Any, X: np.ndarray, dtype: Any) -> None:
    """What ``finish`` gives is a function of the rows, in memory of its own."""
    require(model.features == X.shape[1], f"{name}: a function of {model.features} features")
    require(model.is_finite(), f"{name}: the function is not finite: {model}")
    scores = model.scores(X)
    require(scores.shape == (X.shape[0], model.outputs), f"{name}: scores {scores.shape}")
    require(not shares_memory(model, state), f"{name}: the function shares memory with the state")
    if isinstance(model, LinearFunction):
        require(model.coef.dtype == dtype, f"{name}: coef is {model.coef.dtype}, not {dtype}")


def _costs(
    problem: Problem, chunk: Chunk, model: Any, X: np.ndarray, y: np.ndarray
) -> tuple[float, float]:
    """The objective of the zero model, and of the model; of others than linear the mean loss."""
    if isinstance(model, LinearFunction):
        zero = driver.objective(problem, chunk, np.zeros_like(model.coef), 0.0)
        return zero, driver.objective(problem, chunk, *model)
    value = np.vectorize(problem.loss.value)
    return float(np.mean(value(y, 0.0 * y))), float(np.mean(value(y, model.scores(X)[:, 0])))


def _first_compatible(
    table: registry.Names, preferred: Iterable[str], needs: frozenset[str], **fields: Any
) -> Any:
    for name in (*preferred, *table):
        cls = table[name]
        if needs <= capabilities(cls.__new__(cls)):
            return registry.resolve(name, cls.__mro__[1], name, **fields)
    raise AssertionError(f"no built-in term offers {', '.join(sorted(needs))}: pass one")


def _toy(loss: Loss, dtype: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """80 rows of 12 features, half of them zero, one row empty."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 12)) * (rng.uniform(size=(80, 12)) < 0.5)
    X[7] = 0.0
    p = X @ (rng.normal(size=12) * (np.arange(12) < 6)) + 0.3 + 0.3 * rng.normal(size=80)
    y = np.where(p > 0.0, 1.0, -1.0) if "classification" in loss.tasks else p
    return X.astype(dtype), y


def _visits(solver: Solver, chunk: Chunk, seed: int) -> list[np.ndarray]:
    """Visiting orders, one for each update."""
    if not solver.streaming:
        return [chunk.order] * 12
    rng = np.random.default_rng(seed)
    return [np.concatenate([rng.permutation(chunk.order) for _ in range(4)])]


def _cut(orders: list[np.ndarray], batch: int) -> list[np.ndarray]:
    order = np.concatenate(orders)
    marks = batch * np.array([1, 2, 9, 30, 31, 100])
    return np.split(order, marks[marks < order.size])


def _feed(
    solver: Solver, problem: Problem, chunk: Chunk, orders: list[np.ndarray],
    interrupt: int | None = None,
) -> Any:  # fmt: skip
    state = solver.init(problem, chunk)
    for k, order in enumerate(orders):
        if k == interrupt:
            state = pickle.loads(pickle.dumps(state))
        state = solver.update(problem, state, chunk._replace(order=order))
    return state, solver.finish(problem, state)


def _same_model(X: np.ndarray, name: str, what: str, got: Any, wanted: Any, tol: float) -> None:
    """Equal to ``tol`` relative to the largest number; to the bit where it is zero."""
    a, b = (_numbers(model, X) for model in (got, wanted))
    error = float(np.max(np.abs(a - b))) / max(1.0, float(np.max(np.abs(b))))
    require(error <= tol, f"{name}: {what} differs by {error:.3g} (allowed {tol:.3g})")


def _numbers(model: Any, X: np.ndarray) -> np.ndarray:
    """Coefficients and intercept, or, of functions that are not linear, scores."""
    if isinstance(model, LinearFunction):
        return np.append(np.asarray(model.coef, dtype=np.float64), model.intercept)
    return model.scores(X)


def _check_zero_weights(
    solver: Solver, problem: Problem, X: np.ndarray, y: np.ndarray, name: str
) -> None:
    weight = np.ones(y.size)
    weight[::3] = 0.0
    models = []
    for rows in (slice(None), weight > 0.0):
        chunk = driver.whole(as_rows(X[rows]), y[rows], weight[rows])
        models.append(_feed(solver, problem, chunk, _visits(solver, chunk, 0))[1])
    _same_model(X, name, "training with rows of weight zero", models[0], models[1], 0.0)
