"""Losses and penalties of one's own: a dataclass with a few methods runs everywhere."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from conftest import make_data
from thresher import LinearClassifier, LinearRegressor, register
from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.penalties import L2, Penalty
from thresher.registry import LOSSES, PENALTIES, SOLVERS
from thresher.solvers import Newton


@dataclass(frozen=True)
class SmoothHinge(Loss):
    """The hinge with its corner rounded over ``width``."""

    width: float = 1.5
    smoothness = 2.0

    def value(self, y, p):
        gap = 1.0 - y * p
        if gap <= 0.0:
            return 0.0
        return gap * gap / (2.0 * self.width) if gap < self.width else gap - self.width / 2.0

    def deriv(self, y, p):
        return -y * min(max((1.0 - y * p) / self.width, 0.0), 1.0)

    def curvature(self, y, p):
        return 1.0 / self.width if 0.0 < 1.0 - y * p < self.width else 0.0


@dataclass(frozen=True)
class Expectile(Loss):
    """Squares, weighed differently above and below."""

    level: float = 0.5
    tasks = frozenset({"regression"})
    smoothness = 2.0

    def value(self, y, p):
        share = self.level if y > p else 1.0 - self.level
        return share * (p - y) * (p - y)

    def deriv(self, y, p):
        share = self.level if y > p else 1.0 - self.level
        return 2.0 * share * (p - y)

    def curvature(self, y, p):
        return 2.0 * (self.level if y > p else 1.0 - self.level)


@dataclass(frozen=True)
class NonNegative(Penalty):
    """strength * sum w, and no weight below zero."""

    strength: float = 1.0
    traits = frozenset({"lazy"})

    def value(self, w, j):
        return self.strength * w if w >= 0.0 else math.inf

    def prox(self, w, step, j):
        return max(w - step * self.strength, 0.0)

    def rest(self, w, step, j):
        return max(w - step * self.strength, 0.0)


@dataclass(frozen=True)
class Bare(Loss):
    """The least that a loss must have."""

    def value(self, y, p):
        return math.exp(-min(y * p, 50.0)) if y * p > -1.0 else -math.e * y * p

    def deriv(self, y, p):
        return -y * math.exp(-min(y * p, 50.0)) if y * p > -1.0 else -math.e * y


@pytest.fixture(scope="module")
def data():
    X, y = make_data(n=120, d=6, seed=3)
    flip = np.random.default_rng(0).uniform(size=y.size) < 0.1
    return X, np.where(flip, -y, y)


@pytest.fixture
def registered():
    """Names given in a test are taken back after it."""
    tables = (LOSSES, PENALTIES, SOLVERS)
    before = [set(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        for name in set(table) - old:
            table.remove(name)


def smooth_hinge(y, p, width):
    gap = np.maximum(1.0 - y * p, 0.0)
    return np.where(gap < width, gap**2 / (2 * width), gap - width / 2)


def optimum(value, size, **options):
    return minimize(value, np.zeros(size), method="L-BFGS-B", tol=1e-14, **options)


# ---------------------------------------------------------------- losses


@pytest.mark.parametrize("width", [0.5, 2.0])
def test_own_loss_reaches_its_optimum(data, width):
    X, y = data

    def value(v):
        return np.mean(smooth_hinge(y, X @ v[:-1] + v[-1], width)) + 0.025 * v[:-1] @ v[:-1]

    model = LinearClassifier(SmoothHinge(width), alpha=0.05).fit(X, y)
    assert model.solver_ == Newton()
    found = value(np.append(model.coef_, model.intercept_))
    assert found <= optimum(value, 7).fun + 1e-7


@pytest.mark.parametrize("level", [0.1, 0.9])
def test_own_regression_loss_reaches_its_optimum(data, level):
    X, y = make_data(n=120, d=6, seed=4, regression=True)

    def value(v):
        r = y - X @ v[:-1] - v[-1]
        return np.mean(np.where(r > 0, level, 1 - level) * r**2) + 0.025 * v[:-1] @ v[:-1]

    model = LinearRegressor(Expectile(level), alpha=0.05).fit(X, y)
    best = optimum(value, 7)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best.x, atol=1e-4)
    below = np.mean(y < model.predict(X))
    assert below < 0.5 if level < 0.5 else below > 0.5


def compatible(solver, loss, penalty):
    return solver.loss_needs <= capabilities(loss) and solver.penalty_needs <= capabilities(penalty)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_takes_an_own_loss_or_says_what_is_missing(data, name):
    X, y = data
    solver = SOLVERS[name]
    loss = SmoothHinge()
    # The reweighted solvers divide the strength by their epsilon.
    alpha = 1e-3 if name.startswith("rw_") else 0.05
    model = LinearClassifier(loss, penalty="l2", solver=name, alpha=alpha, random_state=0)
    if not compatible(solver, loss, L2()):
        missing = sorted(solver.loss_needs - capabilities(loss))
        with pytest.raises(ValueError, match=f"offers {', '.join(missing)}, which SmoothHinge"):
            model.fit(X, y)
        return
    best = LinearClassifier(loss, alpha=0.05).fit(X, y)
    best_area, area = (roc_auc_score(y, m.fit(X, y).decision_function(X)) for m in (best, model))
    assert area >= best_area - 0.03


def test_which_solvers_take_a_loss_without_extras(data):
    X, y = data
    for name in ("dcd", "newton", "proximal_newton"):
        with pytest.raises(ValueError, match=r"which Bare does not; these do: .*logistic"):
            LinearClassifier(Bare(), solver=name, penalty="l2").fit(X, y)
    model = LinearClassifier(Bare(), random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert not hasattr(model, "predict_proba")


# ---------------------------------------------------------------- penalties


@pytest.mark.parametrize("name", ["auto", "fobos", "rda", "adaptive_rda", "truncated_gradient"])
def test_own_penalty_reaches_its_optimum(data, name):
    X, y = data

    def value(v):
        loss = np.mean(np.logaddexp(0.0, -y * (X @ v[:-1] + v[-1])))
        return loss + 0.02 * np.sum(v[:-1])

    best = optimum(value, 7, bounds=[(0.0, None)] * 6 + [(None, None)])
    passes = None if name == "auto" else 100
    model = LinearClassifier(
        "logistic", penalty=NonNegative(0.02), solver=name, max_iter=passes, random_state=0
    ).fit(X, y)
    assert np.all(model.coef_ >= 0.0)
    assert np.any(best.x[:-1] == 0.0)
    found = value(np.append(model.coef_[0], model.intercept_))
    accuracy = 1e-5 if name == "auto" else 0.02
    assert best.fun - 1e-9 <= found <= best.fun * (1 + accuracy)


def test_own_penalty_is_refused_where_it_must_be_quadratic(data):
    for name in ("dcd", "newton", "asgd", "pegasos"):
        with pytest.raises(ValueError, match=r"needs a penalty that offers quadratic.*NonNegative"):
            LinearClassifier("squared_hinge", penalty=NonNegative(), solver=name).fit(*data)


def test_alpha_multiplies_an_own_strength(data):
    options = {"solver": "fobos", "random_state": 0}
    scaled = LinearClassifier(penalty=NonNegative(0.5), alpha=0.04, **options).fit(*data)
    given = LinearClassifier(penalty=NonNegative(0.02), **options).fit(*data)
    assert scaled.penalty_ == given.penalty_
    assert np.array_equal(scaled.coef_, given.coef_)


# ---------------------------------------------------------------- names


@pytest.mark.usefixtures("registered")
def test_registered_names_work_like_built_in_ones(data):
    assert register("smooth_hinge", SmoothHinge) is SmoothHinge
    register("smooth_hinge", SmoothHinge)  # a module may be imported twice
    register("non_negative", NonNegative)
    named = LinearClassifier("smooth_hinge", penalty="l2", alpha=0.05).fit(*data)
    given = LinearClassifier(SmoothHinge(), alpha=0.05).fit(*data)
    assert np.array_equal(named.coef_, given.coef_)
    model = LinearClassifier("smooth_hinge", penalty="non_negative", alpha=0.05, solver="fobos")
    assert model.fit(*data).penalty_ == NonNegative(0.05)
    assert LinearClassifier("smooth_hinge").set_params(loss__width=0.5).loss == SmoothHinge(0.5)
    with pytest.raises(ValueError, match=r"one of .*smooth_hinge"):
        LinearClassifier("no such loss").fit(*data)


@pytest.mark.usefixtures("registered")
def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="'hinge' already names Hinge"):
        register("hinge", SmoothHinge)
    assert LOSSES["hinge"] is not SmoothHinge
    with pytest.raises(TypeError, match="dict is neither a Loss, a Penalty"):
        register("thing", dict)


def test_regression_losses_stay_out_of_classifiers(data):
    with pytest.raises(ValueError, match="loss Expectile is not for classification; use one of"):
        LinearClassifier(Expectile()).fit(*data)
    with pytest.raises(ValueError, match="loss SmoothHinge is not for regression; use one of"):
        LinearRegressor(SmoothHinge()).fit(*data)


def test_a_registered_loss_brings_its_own_space(registered):
    from thresher.dimensions import Float
    from thresher.search import space_for

    @dataclass(frozen=True)
    class Wide(SmoothHinge):
        space = {"width": Float(0.1, 2.0)}

    register("wide", Wide)
    found = space_for(LinearClassifier("wide")).dimensions["loss__width"]
    assert (found.low, found.high, found.when) == (0.1, 2.0, {"loss": ("wide",)})
