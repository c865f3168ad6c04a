"""Checks for terms and solvers of your own: call them in a test, they raise AssertionError.

>>> from thresher.losses import Logistic
>>> from thresher.testing import check_loss
>>> check_loss(Logistic())

Each check compares an object with the definition it claims to implement (a derivative with
differences of the value, a proximal map with a numerical minimisation, sparse rows with dense
ones, ...), so a wrong formula fails even if models trained with it look reasonable.
"""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse
from scipy.optimize import minimize_scalar

from thresher import registry
from thresher._rows import as_rows
from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.penalties import Penalty
from thresher.schedules import Schedule
from thresher.solvers import Chunk, Problem, Solver, driver
from thresher.solvers.base import check_compatible

__all__ = ["check_loss", "check_penalty", "check_schedule", "check_solver"]

_EXTREME = (1e3, 1e5, 1e8)


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_close(got: Any, wanted: Any, tol: float, message: str) -> None:
    scale = 1.0 + np.abs(np.asarray(wanted, dtype=np.float64))
    close = np.all(np.abs(np.asarray(got, dtype=np.float64) - wanted) <= tol * scale)
    _require(close, f"{message}: got {got}, expected {wanted}")


def _require_dataclass(thing: Any, base: type) -> None:
    name = type(thing).__name__
    _require(isinstance(thing, base), f"{name} is not a {base.__name__}")
    parameters = getattr(thing, "__dataclass_params__", None)
    _require(
        parameters is not None and parameters.frozen, f"{name} must be a @dataclass(frozen=True)"
    )


# ---------------------------------------------------------------- losses


def check_loss(loss: Loss, targets: Sequence[float] | None = None, seed: int = 0) -> None:
    """Check ``value``, ``deriv`` and every optional method of a loss against each other.

    ``targets`` are the values of y to try; by default -1 and 1, and others for regression.
    """
    _require_dataclass(loss, Loss)
    name, caps = type(loss).__name__, capabilities(loss)
    if targets is None:
        targets = (-1.0, 1.0, 0.3, -2.7) if "regression" in loss.tasks else (-1.0, 1.0)
    rng = np.random.default_rng(seed)
    for y in targets:
        try:
            points = _points(loss, y, rng)
            _check_values(loss, name, y, points)
            if "curvature" in caps:
                _check_curvature(loss, name, y, points)
            if "conjugate" in caps:
                _check_conjugate(loss, name, y, points)
            if "dual_step" in caps:
                _require("conjugate" in caps, f"{name}: dual_step needs its conjugate to be given")
                _check_dual_step(loss, name, y, rng)
        except (OverflowError, ZeroDivisionError) as error:
            raise AssertionError(f"{name}: raises {error!r} at y={y}") from error
    if "link" in caps:
        _check_link(loss, name)
    _check_compiled_loss(loss, name, targets, rng, caps)


def _points(loss: Any, y: float, rng: np.random.Generator) -> np.ndarray:
    """Predictions to try, with the place where the derivative jumps most among them."""
    p = np.unique(np.concatenate([np.linspace(-6.0, 6.0, 49), rng.normal(0.0, 3.0, 30), [y]]))
    slopes = np.array([loss.deriv(y, float(v)) for v in p])
    k = int(np.argmax(np.abs(np.diff(slopes)) / np.diff(p)))
    low, high = float(p[k]), float(p[k + 1])
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = abs(loss.deriv(y, middle) - loss.deriv(y, low))
        right = abs(loss.deriv(y, high) - loss.deriv(y, middle))
        low, high = (low, middle) if left >= right else (middle, high)
    return np.unique(np.concatenate([p, [low, high]]))


def _check_values(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    far = [s * e for e in _EXTREME for s in (-1.0, 1.0)]
    p = np.concatenate([points, far])
    value = np.array([loss.value(y, float(v)) for v in p], dtype=np.float64)
    slope = np.array([loss.deriv(y, float(v)) for v in p], dtype=np.float64)
    for v, a, b in zip(p, value, slope, strict=True):
        _require(math.isfinite(a), f"{name}: value({y}, {v}) = {a} is not finite")
        _require(math.isfinite(b), f"{name}: deriv({y}, {v}) = {b} is not finite")
    _check_differences(loss.value, slope, name, "deriv", "value", y, points, 1e-4)
    for i, j in itertools.combinations(range(points.size), 2):
        middle = loss.value(y, 0.5 * float(p[i] + p[j]))
        chord = 0.5 * (value[i] + value[j])
        _require(
            middle <= chord + 1e-10 * (1.0 + abs(chord)),
            f"{name}: not convex between p={p[i]} and p={p[j]} at y={y}",
        )
    for i, j in itertools.permutations(range(p.size), 2):
        tangent = value[i] + slope[i] * (p[j] - p[i])
        slack = 1e-10 * (1.0 + abs(value[i]) + abs(value[j]) + abs(slope[i] * (p[j] - p[i])))
        _require(
            value[j] >= tangent - slack,
            f"{name}: deriv({y}, {p[i]}) = {slope[i]} is no subgradient: the value at {p[j]} is "
            f"{value[j]}, below its tangent {tangent}",
        )
        gap = abs(p[j] - p[i])
        _require(
            abs(slope[j] - slope[i]) <= loss.smoothness * gap * (1.0 + 1e-9) + 1e-9 * (1.0 + gap),
            f"{name}: deriv changes by {abs(slope[j] - slope[i])} between {p[i]} and {p[j]}, more "
            f"than smoothness={loss.smoothness} allows",
        )


def _check_differences(
    function: Callable[[float, float], float], claimed: np.ndarray, name: str, what: str,
    of: str, y: float, points: np.ndarray, tol: float,
) -> None:  # fmt: skip
    """``claimed`` against differences of ``function`` at the points where it has no kink."""
    h = 1e-5
    for p, c in zip(points, claimed, strict=False):
        left = (function(y, p) - function(y, p - h)) / h
        right = (function(y, p + h) - function(y, p)) / h
        if abs(right - left) <= 1e-3:
            _require_close(
                c, 0.5 * (left + right), tol, f"{name}: {what}({y}, {p}) against {of} differences"
            )


def _check_curvature(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    claimed = np.array([loss.curvature(y, float(p)) for p in points])
    _require(np.all(claimed >= 0.0), f"{name}: curvature is negative at y={y}")
    _check_differences(loss.deriv, claimed, name, "curvature", "deriv", y, points, 1e-4)
    for far in (-1e3, 1e3, -1e8, 1e8):
        _require(math.isfinite(loss.curvature(y, far)), f"{name}: curvature({y}, {far})")


def _check_conjugate(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    value = np.array([loss.value(y, float(p)) for p in points])
    slope = np.array([loss.deriv(y, float(p)) for p in points])
    for a, p, v in zip(slope, points, value, strict=True):
        got = loss.conjugate(y, float(a))
        _require_close(got, a * p - v, 1e-7, f"{name}: Fenchel-Young equality at y={y}, p={p}")
        worst = np.max(a * points - value)
        _require(got >= worst - 1e-7 * (1.0 + abs(worst)), f"{name}: conjugate({y}, {a}) too low")
    for k in range(points.size - 1):  # slopes that only a kink has
        a, bounds = 0.5 * float(slope[k] + slope[k + 1]), (float(points[k]), float(points[k + 1]))
        # the best of the interval lies inside: its ends have slopes on either side of a
        best = minimize_scalar(
            lambda p, a=a: loss.value(y, p) - a * p, bounds=bounds, method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        ends = [loss.value(y, p) - a * p for p in bounds]
        _require_close(
            loss.conjugate(y, a), -min(best.fun, *ends), 1e-6, f"{name}: conjugate({y}, {a})"
        )
    for side in (-1.0, 1.0):
        near, end = loss.deriv(y, side * 1e6), loss.deriv(y, side * 1e8)
        if near == end:  # slopes are bounded: beyond the bound the supremum is infinite
            outside = end + side * 1e-2 * (1.0 + abs(end))
            _require(
                loss.conjugate(y, outside) == math.inf,
                f"{name}: conjugate({y}, {outside}) must be infinite, no prediction has that slope",
            )


def _check_dual_step(loss: Any, name: str, y: float, rng: np.random.Generator) -> None:
    for _ in range(40):
        c, q = (float(v) for v in 10.0 ** rng.uniform(-2.0, 1.0, 2))
        p, start = (float(v) for v in rng.normal(0.0, 3.0, 2))
        b = -c * loss.deriv(y, start)

        def dual(new: float, b: float = b, c: float = c, q: float = q, p: float = p) -> float:
            return 0.5 * q * (new - b) ** 2 + p * (new - b) + c * loss.conjugate(y, -new / c)

        new = loss.dual_step(y, p, b, q, c)
        where = f"{name}: dual_step(y={y}, p={p}, b={b}, q={q}, c={c}) = {new}"
        _require(math.isfinite(dual(new)), f"{where} lies outside the conjugate's domain")
        ends = sorted(-c * loss.deriv(y, s * 1e3) for s in (-1.0, 1.0))
        brute = minimize_scalar(dual, bounds=ends, method="bounded", options={"xatol": 1e-10})
        nearby = [new + s * r * (1.0 + abs(new)) for r in (1e-1, 1e-2, 1e-3) for s in (-1, 1)]
        best = min(brute.fun, dual(ends[0]), dual(ends[1]), *map(dual, nearby))
        _require(
            dual(new) <= best + 1e-8 * (1.0 + abs(best)),
            f"{where} is not the minimiser: {dual(new)} > {best}",
        )


def _check_link(loss: Any, name: str) -> None:
    points = [-1e8, -1e3, *np.linspace(-8.0, 8.0, 65), 1e3, 1e8]
    try:
        link = np.array([loss.link(float(p)) for p in points])
    except OverflowError as error:
        raise AssertionError(f"{name}: link raises {error!r}") from error
    _require(np.all((link >= 0.0) & (link <= 1.0)), f"{name}: link leaves [0, 1]")
    _require(np.all(np.diff(link) >= 0.0), f"{name}: link decreases")
    _require(link[-1] > link[0], f"{name}: link is constant")


@njit(cache=True)
def _loss_table(loss, y, p, out):
    for i in range(p.size):
        out[0, i] = loss.value(y[i], p[i])
        out[1, i] = loss.deriv(y[i], p[i])


@njit(cache=True)
def _curvatures(loss, y, p, out):
    for i in range(p.size):
        out[i] = loss.curvature(y[i], p[i])


@njit(cache=True)
def _duals(loss, y, p, out):
    for i in range(p.size):
        b = -loss.deriv(y[i], -p[i])
        out[0, i] = loss.conjugate(y[i], -b)
        out[1, i] = loss.dual_step(y[i], p[i], b, 0.7, 1.0)


@njit(cache=True)
def _links(loss, y, p, out):
    for i in range(p.size):
        out[i] = loss.link(p[i])


def _check_compiled_loss(
    loss: Loss, name: str, targets: Iterable[float], rng: np.random.Generator, caps: frozenset[str]
) -> None:
    y = np.repeat(np.asarray(list(targets), dtype=np.float64), 40)
    p = rng.normal(0.0, 3.0, y.size)
    kernels: list[tuple[Any, tuple[int, ...]]] = [(_loss_table, (2, y.size))]
    if "curvature" in caps:
        kernels.append((_curvatures, y.shape))
    if {"conjugate", "dual_step"} <= caps:
        kernels.append((_duals, (2, y.size)))
    if "link" in caps:
        kernels.append((_links, y.shape))
    for kernel, shape in kernels:
        _same_compiled(kernel, shape, name, loss, y, p)


def _same_compiled(kernel: Any, shape: tuple[int, ...], name: str, *arguments: Any) -> None:
    compiled, interpreted = np.zeros(shape), np.zeros(shape)
    kernel(*arguments, compiled)
    getattr(kernel, "py_func", kernel)(*arguments, interpreted)
    _require(
        np.allclose(compiled, interpreted, rtol=1e-9, atol=1e-9, equal_nan=True),
        f"{name}: compiled code disagrees with the Python methods ({kernel.__name__})",
    )


# ---------------------------------------------------------------- penalties


def check_penalty(penalty: Penalty, n_features: int = 4, seed: int = 0) -> None:
    """Check a penalty's proximal map, its subgradient and what its traits promise."""
    _require_dataclass(penalty, Penalty)
    _check_penalty(penalty, n_features, np.random.default_rng(seed))


def _check_penalty(penalty: Any, n_features: int, rng: np.random.Generator) -> None:
    name, caps = type(penalty).__name__, capabilities(penalty)
    for j in range(n_features):
        points = np.concatenate([rng.normal(0.0, 2.0, 25), [0.0, 1.0, -1.0]])
        value = np.array([penalty.value(float(w), j) for w in points])
        at_zero = penalty.value(0.0, j)
        _require(math.isfinite(at_zero), f"{name}: value(0, {j}) is not finite")
        _require(np.all(value >= at_zero), f"{name}: not smallest at zero, coordinate {j}")
        for (w, a), (u, b) in itertools.combinations(zip(points, value, strict=True), 2):
            middle = penalty.value(0.5 * float(w + u), j)
            _require(middle <= 0.5 * (a + b) * (1.0 + 1e-12) + 1e-12, f"{name}: not convex")
        for w in points:
            step = float(10.0 ** rng.uniform(-2.0, 1.0))
            _check_prox(penalty, name, float(w), step, j)
            if "lazy" in penalty.traits:
                _check_lazy(penalty, name, caps, float(w), step, float(rng.uniform(0.1, 2.0)), j)
            if "subgrad" in caps:
                slope = penalty.subgrad(float(w), j)
                below = penalty.value(float(w), j) + slope * (points - w)
                _require(
                    np.all(value >= below - 1e-10 * (1.0 + np.abs(below))),
                    f"{name}: subgrad({w}, {j}) = {slope} is no subgradient",
                )
            if "quadratic" in penalty.traits:
                _require("precision" in caps, f"{name}: quadratic, but has no precision(j)")
                _require_close(
                    penalty.value(float(w), j), 0.5 * penalty.precision(j) * w * w, 1e-10,
                    f"{name}: a quadratic penalty is precision(j) / 2 w^2",
                )  # fmt: skip
        if "uniform" in penalty.traits:
            _require_close(
                penalty.ridge, penalty.precision(j), 1e-12,
                f"{name}: a uniform quadratic penalty has precision(j) = ridge",
            )  # fmt: skip
    _same_compiled(
        _penalty_table, (2, 20), name, penalty, rng.normal(0.0, 2.0, 20),
        rng.integers(n_features, size=20),
    )  # fmt: skip


def _check_prox(penalty: Any, name: str, w: float, step: float, j: int) -> None:
    def problem(u: float) -> float:
        return penalty.value(u, j) + (u - w) ** 2 / (2.0 * step)

    u = penalty.prox(w, step, j)
    where = f"{name}: prox({w}, {step}, {j}) = {u}"
    _require(math.isfinite(problem(u)), f"{where} has no finite penalty")
    _require(penalty.prox(0.0, step, j) == 0.0, f"{name}: prox moves zero")
    # smallest at zero and convex: the minimiser lies between zero and w
    brute = minimize_scalar(
        lambda v: min(problem(v), 1e30), bounds=sorted((0.0, w + 1e-12)), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    nearby = [u + s * r for r in (1e-1, 1e-2, 1e-3, 1e-4) for s in (-1.0, 1.0)]
    best = min(brute.fun, *map(problem, (0.0, w, *nearby)))
    _require(
        problem(u) <= best + 1e-10 * (1.0 + abs(best)),
        f"{where} is not the minimiser: {problem(u)} > {best}",
    )


def _check_lazy(
    penalty: Any, name: str, caps: frozenset[str], w: float, step: float, more: float, j: int
) -> None:
    _require("rest" in caps, f"{name}: lazy, but has no rest(w, step, j)")
    rest = penalty.rest(w, step, j)
    _require_close(
        penalty.rest(rest, more, j), penalty.rest(w, step + more, j), 1e-12,
        f"{name}: the steps of rest must add up at w={w}",
    )  # fmt: skip
    _require_close(
        penalty.prox(w, step, j), rest / (1.0 + step * penalty.ridge), 1e-12,
        f"{name}: prox must be rest, then division by 1 + step * ridge, at w={w}",
    )  # fmt: skip
    if penalty.ridge > 0.0:
        _require_close(
            penalty.rest(more * w, more * step, j), more * rest, 1e-12,
            f"{name}: with a ridge, rest must be homogeneous, at w={w}",
        )  # fmt: skip


@njit(cache=True)
def _penalty_table(penalty, w, j, out):
    for i in range(w.size):
        out[0, i] = penalty.value(w[i], j[i])
        out[1, i] = penalty.prox(w[i], 0.3, j[i])


def check_schedule(schedule: Schedule) -> None:
    """Check that every step size is a positive, finite number, compiled and interpreted."""
    _require_dataclass(schedule, Schedule)
    name = type(schedule).__name__
    times = np.array([1, 2, 3, 7, 10, 100, 10_000, 10**6, 10**9])
    for t in times:
        try:
            step = schedule.at(int(t))
        except (ArithmeticError, ValueError) as error:
            raise AssertionError(f"{name}: at({t}) raises {error!r}") from error
        _require(0.0 < step < math.inf, f"{name}: at({t}) = {step} is no positive, finite step")
    _same_compiled(_steps, times.shape, name, schedule, times)


@njit(cache=True)
def _steps(schedule, times, out):
    for i in range(times.size):
        out[i] = schedule.at(times[i])


# ---------------------------------------------------------------- solvers


def check_solver(
    solver: Solver,
    loss: Loss | None = None,
    penalty: Penalty | None = None,
    dtype: Any = np.float64,
    seed: int = 0,
) -> None:
    """Check that a solver is a state and an update, on a small problem.

    Sparse rows give what dense ones give; the result depends neither on how the rows are cut into
    chunks nor on an interruption; ``finish`` changes nothing; merging one state changes nothing;
    rows of weight zero might as well not be there; and training beats the model that is zero.
    ``loss`` and ``penalty`` default to built-in ones that offer what the solver needs.
    """
    _require_dataclass(solver, Solver)
    name, dtype = type(solver).__name__, np.dtype(dtype)
    loss = loss or _first_compatible(registry.LOSSES, ("logistic",), solver.loss_needs)
    preferred = (solver.default_penalty, "l2", "l1")
    penalty = penalty or _first_compatible(
        registry.PENALTIES, preferred, solver.penalty_needs, strength=0.01
    )
    X, y = _toy(loss, dtype, seed)
    problem = Problem(loss, penalty, X.shape[1], dtype=dtype, seed=seed)
    check_compatible(solver, problem)
    dense = driver.whole(as_rows(X), y, np.ones(y.size))
    thin = driver.whole(as_rows(sparse.csr_array(X)), y, np.ones(y.size))
    solver, problem = solver.prepare(problem, dense)
    tol = 1e-7 if dtype == np.float64 else 2e-3

    orders = _visits(solver, dense, seed)
    state, model = _feed(solver, problem, dense, orders)
    _require(
        model[0].shape == (X.shape[1],) and np.all(np.isfinite(model[0])), f"{name}: coef {model}"
    )
    _require(model[0].dtype == dtype, f"{name}: coef is {model[0].dtype}, not {dtype}")
    frozen = pickle.dumps(state)
    again = solver.finish(problem, state)
    _require(pickle.dumps(state) == frozen, f"{name}: finish changed the state")
    _same_model(name, "finish, called twice,", model, again, 0.0)
    _same_model(name, "a second run", _feed(solver, problem, dense, orders)[1], model, 0.0)
    _same_model(name, "CSR rows", _feed(solver, problem, thin, orders)[1], model, tol)
    pieces = _cut(orders, solver.batch) if solver.streaming else orders
    _same_model(name, "another cut", _feed(solver, problem, dense, pieces)[1], model, 0.0)
    resumed = _feed(solver, problem, dense, pieces, interrupt=len(pieces) // 2)[1]
    _same_model(name, "a resumed run", resumed, model, 0.0)
    if type(solver).merge is not Solver.merge:
        merged = solver.finish(problem, solver.merge([pickle.loads(frozen)], [1.0]))
        _same_model(name, "merge of one", merged, model, tol)
    _check_zero_weights(solver, problem, X, y, name)
    zero = driver.objective(problem, dense, np.zeros_like(model[0]), 0.0)
    after = driver.objective(problem, dense, *model)
    _require(after < zero, f"{name}: objective {after} after training, {zero} for the zero model")


def _first_compatible(
    table: dict[str, Any], preferred: Iterable[str], needs: frozenset[str], **fields: Any
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


def _same_model(name: str, what: str, got: Any, wanted: Any, tol: float) -> None:
    """Equal to ``tol`` relative to the largest coefficient; to the bit where it is zero."""
    scale = max(1.0, float(np.max(np.abs(wanted[0]))), abs(wanted[1]))
    error = max(float(np.max(np.abs(got[0] - wanted[0]))), abs(got[1] - wanted[1])) / scale
    _require(error <= tol, f"{name}: {what} differs by {error:.3g} (allowed {tol:.3g})")


def _check_zero_weights(
    solver: Solver, problem: Problem, X: np.ndarray, y: np.ndarray, name: str
) -> None:
    weight = np.ones(y.size)
    weight[::3] = 0.0
    models = []
    for rows in (slice(None), weight > 0.0):
        chunk = driver.whole(as_rows(X[rows]), y[rows], weight[rows])
        models.append(_feed(solver, problem, chunk, _visits(solver, chunk, 0))[1])
    _same_model(name, "training with rows of weight zero", models[0], models[1], 0.0)
