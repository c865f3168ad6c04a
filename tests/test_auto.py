"""What is chosen when the user does not choose."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from conftest import FORMULAS, make_data
from thresher import LinearClassifier, LinearRegressor
from thresher._rows import as_rows
from thresher.losses import EpsilonInsensitive, Hinge, LeastSquares, Logistic, Loss, SquaredHinge
from thresher.penalties import L1, L2, Box, ElasticNet, WeightedL2
from thresher.registry import LOSSES
from thresher.solvers import (
    FOBOS,
    RDA,
    AveragedSGD,
    DualDescent,
    Newton,
    Pegasos,
    Problem,
    ProximalNewton,
    SmoothedNewton,
    driver,
)
from thresher.solvers.auto import choose_solver, default_tolerance, largest_useful_strength


@dataclass(frozen=True)
class Kinked(Loss):
    """A hinge that offers nothing beyond the minimum."""

    def value(self, y, p):
        return max(0.0, 1.0 - y * p)

    def deriv(self, y, p):
        return -y if y * p < 1.0 else 0.0


@dataclass(frozen=True)
class Smooth(Loss):
    """Curvature, but no dual."""

    def value(self, y, p):
        return 0.5 * (p - y) ** 2

    def deriv(self, y, p):
        return p - y

    def curvature(self, y, p):
        return 1.0


SMALL, TALL, TALL_MANY, WIDE = (1_000, 20), (10**6, 50), (10**6, 5_000), (10**4, 10**5)
WEIGHTED = WeightedL2(np.ones(20))


@pytest.mark.parametrize(
    ("loss", "penalty", "shape", "exact", "solver"),
    [
        # not quadratic
        (Logistic(), L1(0.1), SMALL, False, ProximalNewton),
        (LeastSquares(), Box(), WIDE, False, ProximalNewton),
        (Hinge(), ElasticNet(0.1), TALL, True, RDA),
        # a weight for each feature
        (Logistic(), WEIGHTED, SMALL, False, Newton),
        (Hinge(), WEIGHTED, SMALL, False, SmoothedNewton),
        (Kinked(), WEIGHTED, SMALL, False, Pegasos),
        # no strength
        (Logistic(), L2(0.0), TALL, False, Newton),
        (Hinge(), L2(0.0), SMALL, False, SmoothedNewton),
        (Kinked(), L2(0.0), SMALL, False, AveragedSGD),
        # small data: the optimum
        (Logistic(), L2(0.1), SMALL, False, Newton),
        (Hinge(), L2(0.1), SMALL, False, SmoothedNewton),
        (Hinge(), L2(0.1), (20, 1_000), False, DualDescent),
        (Logistic(), L2(0.1), (20, 1_000), False, DualDescent),
        (Smooth(), L2(0.1), (20, 1_000), False, Newton),
        (Kinked(), L2(0.1), SMALL, False, AveragedSGD),
        # many rows: two passes, unless the optimum is asked for
        (Logistic(), L2(0.1), TALL, False, AveragedSGD),
        (Hinge(), L2(0.1), TALL, False, AveragedSGD),
        (Logistic(), L2(0.1), TALL, True, Newton),
        (Hinge(), L2(0.1), TALL, True, SmoothedNewton),
        (SquaredHinge(), L2(0.1), TALL_MANY, True, DualDescent),
        (Smooth(), L2(0.1), TALL_MANY, True, Newton),
        # regression is solved, not approximated
        (LeastSquares(), L2(0.1), TALL, False, Newton),
        (EpsilonInsensitive(), L2(0.1), TALL, False, SmoothedNewton),
        (EpsilonInsensitive(), L2(0.1), TALL_MANY, False, DualDescent),
        # features comparable to rows
        (Logistic(), L2(0.1), WIDE, False, DualDescent),
        (Hinge(), L2(0.1), WIDE, False, DualDescent),
        (Kinked(), L2(0.1), WIDE, True, AveragedSGD),
    ],
)
def test_choice(loss, penalty, shape, exact, solver):
    stored = min(shape[0] * shape[1], 5 * 10**7)
    assert type(choose_solver(loss, penalty, shape, stored, exact)) is solver


def test_estimators_follow_the_choice():
    X, y = make_data(n=120, d=6, seed=3)
    assert LinearClassifier("hinge").fit(X, y).solver_ == SmoothedNewton()
    assert LinearClassifier("logistic").fit(X, y).solver_ == Newton()
    sparse_model = LinearClassifier("logistic", penalty="l1", random_state=0).fit(X, y)
    assert sparse_model.solver_ == ProximalNewton()
    stream = LinearClassifier("hinge").partial_fit(X, y, classes=[-1, 1])
    assert isinstance(stream.solver_, AveragedSGD)


def test_default_tolerance_is_for_solvers_with_an_optimum():
    for solver in (Newton(), SmoothedNewton(), ProximalNewton(), DualDescent()):
        tight = default_tolerance(solver, Logistic(), SMALL)
        assert 0.0 < tight <= default_tolerance(solver, Logistic(), TALL) < 0.1
    for solver in (AveragedSGD(), Pegasos(), FOBOS(), RDA()):
        assert default_tolerance(solver, Logistic(), SMALL) is None


def test_default_alpha_of_l2_is_by_the_rows_their_size_and_number():
    X, y = make_data(n=120, d=6, seed=3)
    apart = (X - X.mean(axis=0)) ** 2
    squares = np.sort(apart.sum(axis=1))
    squares[108:] = squares[107]
    size = min(squares.mean(), 6 * np.median(apart.mean(axis=0)))

    def alpha(**options):
        return LinearClassifier("logistic", **options).fit(X, y).penalty_.strength

    assert alpha() == alpha(penalty="l2") == pytest.approx(0.3 * size / 120)
    twice = LinearClassifier("logistic").fit(X, y, np.full(120, 2.0)).penalty_.strength
    assert twice == pytest.approx(0.3 * size / 240)
    assert LinearRegressor().fit(X, y).penalty_ == L2(1 / 120)
    assert LinearRegressor(alpha=0.0).fit(X, y).penalty_ == L2(0.0)
    object_ = LinearClassifier("logistic", penalty=L2(0.25)).fit(X, y)
    assert object_.penalty_ == L2(0.25)
    stream = LinearClassifier("logistic").partial_fit(X, y, classes=[-1, 1])
    assert stream.penalty_ == L2(1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_default_alpha_of_l1_is_a_hundredth_of_the_largest_useful_one(classes):
    X, _ = make_data(n=120, d=6, seed=3)
    y = np.arange(120) % classes
    # At the best intercept without weights the logistic slopes are the classes' shares.
    residuals = [(y == c) - np.mean(y == c) for c in range(classes)]
    largest = max(np.max(np.abs(X.T @ r)) / 120 for r in residuals)
    model = LinearClassifier("logistic", penalty="l1", random_state=0).fit(X, y)
    assert model.penalty_.strength == pytest.approx(largest / 100, rel=1e-9)


def _unequal(shift):
    """Rows of unequal classes: the best intercept without weights is not zero."""
    X, y = make_data(n=60, d=4, seed=3)
    y[:25] = 1.0
    return X + shift, y


def _largest(loss, X, y):
    return largest_useful_strength(Problem(loss, L1(0.0), 4), driver.whole(as_rows(X), y))


@pytest.mark.parametrize("shift", [0.0, 5.0, 1e3])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "least_squares", "huber"])
def test_the_largest_useful_strength_with_a_free_intercept(loss, shift):
    """Against the slope of the published loss along each feature from its best intercept."""
    X, y = _unequal(shift)
    y = y if loss in ("logistic", "squared_hinge") else 5.0 * y + X[:, 0] - shift + 30.0

    def mean(p):
        return np.mean(FORMULAS[loss](y, p))

    best = minimize_scalar(mean, bounds=(-50.0, 50.0), options={"xatol": 1e-12}).x
    # Features about their mean: what they share is the intercept's, which has no slope.
    around, h = X - X.mean(axis=0), 1e-5
    slopes = [(mean(best + h * x) - mean(best - h * x)) / (2 * h) for x in around.T]
    assert _largest(LOSSES[loss](), X, y) == pytest.approx(np.max(np.abs(slopes)), rel=1e-4)


def test_the_largest_useful_strength_of_the_hinge_balances_the_classes():
    """At its best intercept the larger class sits on the kink: slopes that sum to zero."""
    X, y = _unequal(1e3)
    few = min(np.sum(y > 0), np.sum(y < 0))
    balanced = [y_i * few / np.sum(y == y_i) for y_i in y]
    expected = np.max(np.abs(X.T @ balanced)) / y.size
    assert _largest(Hinge(), X, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("factor", "empty"), [(1.01, True), (0.95, False)])
def test_with_a_free_intercept_too_the_model_empties_there(factor, empty):
    X, y = _unequal(5.0)
    model = LinearClassifier("logistic", penalty="l1", alpha=factor * _largest(Logistic(), X, y))
    if empty:
        with pytest.warns(UserWarning, match="all-zero model"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    assert (model.density_ == 0.0) is empty


def test_a_single_class_has_no_useful_strength():
    X, y = _unequal(5.0)
    assert 0.0 <= _largest(Logistic(), X, np.ones_like(y)) < 1e-6


def test_shifted_data_get_a_sparse_model_by_default():
    X, y = make_data(n=120, d=6, seed=3)
    near = LinearClassifier("logistic", penalty="l1").fit(X, y)
    model = LinearClassifier("logistic", penalty="l1").fit(X + 1e4, y)
    assert model.penalty_.strength == pytest.approx(near.penalty_.strength, rel=1e-6)
    assert np.count_nonzero(model.coef_) == np.count_nonzero(near.coef_) > 0
    np.testing.assert_allclose(model.coef_, near.coef_, atol=1e-3)


@pytest.mark.parametrize(("factor", "empty"), [(1.02, True), (0.7, False)])
def test_the_largest_useful_strength_is_where_the_model_empties(factor, empty):
    X, y = make_data(n=120, d=6, seed=3)
    y[: np.count_nonzero(y > 0) - np.count_nonzero(y < 0)] = -1.0
    largest = np.max(np.abs(X.T @ y)) / (2 * 120)
    model = LinearClassifier(
        "logistic", penalty=L1(factor * largest), fit_intercept=False, max_iter=300, random_state=0
    )
    if empty:
        with pytest.warns(UserWarning, match="all-zero model"):
            model.fit(X, y)
    else:
        model.fit(X, y)
    assert (model.density_ == 0.0) is empty
