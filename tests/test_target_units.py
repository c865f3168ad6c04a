"""Stochastic solvers know the units of the targets: balls, steps and biases of regressions."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

from conftest import FORMULAS, chunk_of, make_data
from thresher import LinearClassifier, LinearRegressor, Loss
from thresher.losses import Hinge, LeastSquares
from thresher.penalties import L2
from thresher.registry import LOSSES
from thresher.solvers import ASSET, DropoutPegasos, Pegasos, Problem, driver
from thresher.solvers._targets import SIGNS, origin_of, reach, units_of

PROJECTING = ("pegasos", "weighted_pegasos", "dropout_pegasos", "asset")
REGRESSIONS = [name for name, cls in LOSSES.items() if "regression" in cls.tasks]
UNITS = [1e-4, 1.0, 300.0, 1e6]


@pytest.fixture(scope="module")
def data():
    X, y = make_data(n=400, d=5, seed=2, regression=True)
    return X, y - y.mean()


def r2(solver, X, y, loss="least_squares", **options):
    model = LinearRegressor(loss, solver=solver, random_state=0, **options).fit(X, y)
    return model.score(X, y)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("solver", PROJECTING)
def test_units_and_origin_of_the_targets_do_not_matter(data, solver, unit):
    X, y = data
    best = Ridge(alpha=1.0).fit(X, y).score(X, y)
    assert r2(solver, X, unit * (y + 3.0)) > best - 0.02


@pytest.mark.parametrize(
    ("loss", "solver"),
    [("least_squares", "asgd"), ("huber", "asgd"), ("huber", "pegasos"), ("huber", "asset")],
)
def test_targets_far_from_zero(data, loss, solver):
    X, y = data
    best = Ridge(alpha=1.0).fit(X, y).score(X, y)
    for far in (1e4, 1e10):
        assert r2(solver, X, far + y, loss) > best - 0.02


@dataclass(frozen=True)
class Poisson(Loss):
    """With the logarithm as its link: the mean target is no prediction."""

    tasks = frozenset({"regression"})

    def value(self, y, p):
        return math.exp(min(p, 500.0)) - y * p

    def deriv(self, y, p):
        return math.exp(min(p, 500.0)) - y


def test_a_loss_with_a_link_starts_at_zero(data):
    X, y = data
    chunk = chunk_of(X, np.full(400, 30.0) + y)
    assert origin_of(Problem(Poisson(), L2(0.1), 5), chunk) == 0.0
    assert origin_of(Problem(LeastSquares(), L2(0.1), 5), chunk) == pytest.approx(30.0)
    assert origin_of(Problem(LeastSquares(), L2(0.1), 5, fit_intercept=False), chunk) == 0.0


@pytest.mark.parametrize("solver", [Pegasos(), Pegasos(batch=7), ASSET(theta=0.1)])
def test_predictions_follow_the_targets(data, solver):
    X, y = data
    one, other = (
        LinearRegressor(solver=solver, random_state=0).fit(X, t).predict(X)
        for t in (y, 1e6 * y + 1e7)
    )
    np.testing.assert_allclose(other, 1e6 * one + 1e7, rtol=1e-6, atol=1e-2)


@pytest.mark.parametrize("solver", ["pegasos", "dropout_pegasos", "asset"])
def test_a_stream_has_the_units_of_its_first_rows(data, solver):
    X, y = data
    model = LinearRegressor(solver=solver, alpha=1e-3, random_state=0)
    for _ in range(10):
        for part in np.split(np.arange(400), 4):
            model.partial_fit(X[part], 300.0 * (y[part] + 3.0))
    assert model.score(X, 300.0 * (y + 3.0)) > Ridge().fit(X, y).score(X, y) - 0.02


@pytest.mark.parametrize("unit", [1.0, 30.0])
@pytest.mark.parametrize("name", REGRESSIONS)
def test_the_optimum_lies_in_the_ball(data, name, unit):
    """mean loss of the mean as a prediction / lambda, against a general minimiser's optimum."""
    X, y = data
    y, lam = unit * (y + 1.0), 0.01
    loss = FORMULAS[name]

    def objective(v):
        return np.mean(loss(y, X @ v[:-1] + v[-1])) + lam / 2 * v[:-1] @ v[:-1]

    start = np.append(np.linalg.lstsq(X, y - y.mean(), rcond=None)[0], y.mean())
    w = minimize(objective, start, method="Powell", options={"xtol": 1e-8, "ftol": 1e-12}).x[:-1]
    chunk = chunk_of(X, y)
    units = units_of(Problem(LOSSES[name](), L2(lam), 5), chunk.rows, chunk, lam)
    constant = float(np.mean(loss(y, units.origin)))
    assert units.origin == pytest.approx(y.mean())
    assert np.linalg.norm(w) <= reach(constant, 1.0, units.floor) / math.sqrt(lam)


def test_polyak_steps_at_the_constant_prediction(data):
    """Least squares: half the stable step, 1 / (2 mean |x|^2 + 2), whatever the units."""
    X, y = data
    chunk = chunk_of(X, 50.0 * y + 7.0)
    units = units_of(Problem(LeastSquares(), L2(0.1), 5), chunk.rows, chunk, 0.1)
    first = 0.5 / np.mean((X**2).sum(axis=1) + 1.0)
    assert units.limit == pytest.approx(0.5)
    assert units.delay == pytest.approx(1.0 / (0.1 * first))


def test_signs_are_as_published():
    X, y = make_data()
    chunk = chunk_of(X, y)
    problem = Problem(Hinge(), L2(0.1), 12)
    for solver in (Pegasos(), DropoutPegasos(), ASSET(theta=1.0)):
        ready, _ = solver.prepare(problem, chunk)
        assert ready.units == SIGNS
        assert not getattr(ready, "average", False)
    assert reach(float(y.size), float(y.size), SIGNS.floor) == 1.0


@dataclass(frozen=True)
class Absolute(Loss):
    tasks = frozenset({"regression"})

    def value(self, y, p):
        return abs(p - y)

    def deriv(self, y, p):
        return 1.0 if p > y else -1.0


@dataclass(frozen=True)
class TwiceSquared(Loss):
    """A user's loss that does not say how smooth it is."""

    tasks = frozenset({"regression"})

    def value(self, y, p):
        return 2.0 * (p - y) * (p - y)

    def deriv(self, y, p):
        return 4.0 * (p - y)


@pytest.mark.parametrize("loss", [Absolute(), TwiceSquared()])
@pytest.mark.parametrize("solver", ["pegasos", "asset"])
def test_losses_of_users(data, solver, loss):
    X, y = data
    best = Ridge(alpha=1.0).fit(X, y).score(X, y)
    assert r2(solver, X, 20.0 * (y + 3.0), loss) > best - 0.05


@pytest.mark.parametrize("solver", ["pegasos", "asset"])
def test_a_small_or_large_unit_of_the_features_without_intercept(data, solver):
    X, y = data
    for unit in (1e-3, 1e3):
        model = LinearRegressor(solver=solver, fit_intercept=False, alpha=1e-3, random_state=0)
        best = model.set_params(alpha=1e-3 * unit**2).fit(unit * X, y).score(unit * X, y)
        assert best > Ridge(alpha=0.4, fit_intercept=False).fit(X, y).score(X, y) - 0.02


def test_one_long_row_does_not_throw_the_weights_off(data):
    X, y = data
    ridge = Ridge(alpha=1.0).fit(X, y)
    longer = np.vstack([X, 100.0 * X[:1]])
    model = LinearRegressor(solver="pegasos", random_state=0)
    model.fit(longer, np.append(y, ridge.predict(longer[-1:])))
    assert model.score(X, y) > ridge.score(X, y) - 0.05


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_steps_of_asset_settle_on_raw_rows():
    """Bounds of weights and bias that allow for rows of length 1e6: R2 was -1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = 5.0 * X[:, 0] + X[:, 1] + rng.normal(size=2000) + 80.0
    X[:, 0] = 1e6 * np.exp(0.5 * X[:, 0])
    asset, pegasos = (
        LinearRegressor(solver=name, random_state=0).fit(X, y).score(X, y)
        for name in ("asset", "pegasos")
    )
    assert asset > max(0.0, pegasos - 0.02)


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("solver", ["pegasos", "dropout_pegasos", "asset"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_targets_are_predicted(data, solver, value):
    X, _ = data
    model = LinearRegressor(solver=solver, random_state=0).fit(X, np.full(400, value))
    np.testing.assert_allclose(model.predict(X), value, rtol=1e-3, atol=0.02)


# ---------------------------------------------------------------- the mean residual as a bias


def test_the_residual_bias_counts_weights_as_repetitions():
    """A batch that holds every row: weights 3 and 1 are three rows and one."""
    X, y = make_data(n=60)
    weight = np.where(y > 0.0, 3.0, 1.0)
    often = np.repeat(np.arange(60), weight.astype(int))
    problem = Problem(Hinge(), L2(0.1), 12)
    plan = driver.Plan(5, order="sequential")
    results = [
        driver.learn(Pegasos(size, bias="residual"), problem, chunk, plan)
        for size, chunk in (
            (60, chunk_of(X, y, weight=weight)),
            (often.size, chunk_of(X[often], y[often])),
        )
    ]
    np.testing.assert_allclose(results[0].coef, results[1].coef, rtol=1e-9)
    assert results[0].intercept == pytest.approx(results[1].intercept)


def test_the_residual_of_a_single_row_is_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match=r"bias='residual'.*use batch > 1"):
        LinearClassifier("hinge", solver=Pegasos(bias="residual")).fit(X, y)
    free = LinearClassifier("hinge", solver=Pegasos(bias="residual"), fit_intercept=False)
    assert free.fit(X, y).score(X, y) > 0.8
