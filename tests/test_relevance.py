"""Penalties that follow the data: reweighted dual averaging, relevance determination."""

import math
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from conftest import batches, chunk_of, feed, logistic_slope, make_data, soft
from thresher import LinearClassifier, schedules
from thresher.losses import Hinge, LeastSquares, Logistic
from thresher.penalties import L1, L2, WeightedL2
from thresher.solvers import (
    RDA,
    Pegasos,
    Problem,
    ReweightedL1,
    ReweightedL2,
    Status,
    WeightedPegasos,
    driver,
    relevance,
)

# ------------------------------------------------ reweighted dual averaging, Algs 9 and 10


def reweighted(X, y, order, batch, weight, theta, newest_only=False, bias_scale=1.0, start=1.0):
    """weight(mean gradient, Theta, t) and theta(w), all coordinates at every step."""
    d = X.shape[1]
    w, b, g, b_sum, Theta, mean = np.zeros(d), 0.0, np.zeros(d), 0.0, np.full(d, start), np.zeros(d)
    for t, A in batches(order, batch):
        s = logistic_slope(y[A], X[A] @ w + b) / A.size
        g, mean = g + (X[A].T @ s - g) / t, mean + (Theta - mean) / t
        b_sum += s.sum()
        w, b = weight(g, Theta if newest_only else mean, t), -b_sum / (bias_scale * math.sqrt(t))
        Theta = theta(w)
    return w, b


@pytest.mark.parametrize("epsilon", [0.1, 5.0])
@pytest.mark.parametrize("newest_only", [False, True], ids=["mean Theta", "newest Theta"])
@pytest.mark.parametrize("batch", [1, 3])
def test_reweighted_l1_is_algorithm_9(sparse_problem, batch, newest_only, epsilon):
    """Only active coordinates are visited; the result must be that of visiting all."""
    X, y, chunk, order = sparse_problem
    lam, gamma, rho = 0.012 * epsilon, 0.8, 0.01

    def weight(g, Theta, t):
        return -math.sqrt(t) / gamma * soft(g, lam * Theta + gamma * rho / math.sqrt(t))

    solver = ReweightedL1(gamma, rho, epsilon, not newest_only, batch)
    got = feed(solver, Problem(Logistic(), L1(lam), 150), chunk, order)
    want = reweighted(
        X, y, order, batch, weight, lambda w: 1 / (np.abs(w) + epsilon), newest_only, gamma,
        start=1 / epsilon if newest_only else 1.0,
    )  # fmt: skip
    np.testing.assert_allclose(got[0], want[0], atol=1e-10)
    np.testing.assert_array_equal(got[0] == 0.0, want[0] == 0.0)
    assert got[1] == pytest.approx(want[1])
    assert 0 < np.count_nonzero(got[0]) < 150


@pytest.mark.parametrize("newest_only", [False, True], ids=["mean Theta", "newest Theta"])
@pytest.mark.parametrize(
    ("variant", "gamma", "denominator"),
    [
        ("thesis", 0.0, lambda lam, gamma, Theta, t: lam + Theta),
        ("literal", 0.5, lambda lam, gamma, Theta, t: lam * Theta + gamma / math.sqrt(t)),
        ("ridge", 0.5, lambda lam, gamma, Theta, t: lam * (1 + Theta) + gamma / math.sqrt(t)),
    ],
)
def test_reweighted_l2_variants(sparse_problem, variant, gamma, denominator, newest_only):
    X, y, chunk, order = sparse_problem
    lam, epsilon, truncate = 0.05, 0.1, 1e-3
    solver = ReweightedL2(epsilon, truncate, variant, gamma, not newest_only, batch=2)
    got = feed(solver, Problem(Logistic(), L1(lam), 150), chunk, order)
    w, b = reweighted(
        X, y, order, 2, lambda g, Theta, t: -g / denominator(lam, gamma, Theta, t),
        lambda w: 1 / (w**2 + epsilon), newest_only,
    )  # fmt: skip
    np.testing.assert_allclose(got[0], np.where(np.abs(w) <= truncate, 0.0, w), atol=1e-10)
    assert got[1] == pytest.approx(b)


def test_reweighting_of_tiny_weights_is_plain_rda(sparse_problem):
    """With epsilon = 1 and a large gamma, Theta = 1/(|w| + 1) stays within 1e-4 of one."""
    _, _, chunk, order = sparse_problem
    problem = Problem(Logistic(), L1(0.01), 150, fit_intercept=False)
    got, _ = feed(ReweightedL1(1e4, epsilon=1.0), problem, chunk, order)
    want, _ = feed(RDA(1e4), problem, chunk, order)
    np.testing.assert_allclose(got, want, rtol=1e-3)
    assert 0 < np.count_nonzero(got) < 150


def test_a_converged_model_gives_no_warning():
    """At any optimum the mean gradients end below the threshold: that alone is no reason to warn.

    What the warning is about, a threshold that no gradient ever exceeded, is not the case here.
    """
    X, y = make_data()
    strength, epsilon = 0.01, 0.1
    start = np.abs(X.T @ logistic_slope(y, np.zeros(200))) / 200
    assert start.max() > 1.5 * strength / epsilon
    problem = Problem(Logistic(), L1(strength), 12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = driver.learn(
            ReweightedL1(2.0, epsilon=epsilon), problem, chunk_of(X, y), driver.Plan(100)
        )
    assert 0 < np.count_nonzero(result.coef) < 12


def test_a_threshold_above_every_gradient_warns_and_says_all_zero(sparse_problem):
    _, _, chunk, _ = sparse_problem
    problem = Problem(Logistic(), L1(0.9), 150)
    with pytest.warns(UserWarning, match="strength / epsilon"):
        result = driver.learn(ReweightedL1(0.8, epsilon=0.5), problem, chunk, driver.Plan(2))
    assert result.status is Status.ALL_ZERO
    assert not np.any(result.coef)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 0.1])
def test_what_holds_a_zero_does_not_depend_on_the_strength(strength):
    X, y = make_data()
    problem = Problem(Logistic(), L1(strength), 12)
    best = np.full(200, np.log(np.sum(y > 0) / np.sum(y < 0)))  # without weights
    largest = np.abs(X.T @ logistic_slope(y, best)).max() / 200
    solver, _ = ReweightedL1(gamma=1.0, hold=0.3).prepare(problem, chunk_of(X, y))
    assert strength / solver.epsilon == pytest.approx(0.3 * largest)
    with pytest.raises(ValueError, match="hold must be positive, got 0"):
        ReweightedL1(hold=0.0).check(problem)


def test_reweighted_l2_finds_an_epsilon_in_the_units_of_the_rows():
    """On small weights it is a ridge of strength 1/epsilon: 0.1 drowned the loss."""
    X, y = load_breast_cancer(return_X_y=True)
    for loss in ("hinge", "logistic"):
        model = LinearClassifier(loss, solver="rw_l2_rda", scale=True, random_state=0).fit(X, y)
        assert model.score(X, y) > 0.95
        assert model.solver_.epsilon == pytest.approx(min(1000 * 30, 10 * 569) / 30)
    Z, labels = make_data()
    found = {
        (unit, variant): ReweightedL2(variant=variant, gamma=0.0).prepare(
            Problem(Logistic(), L1(0.01), 12), chunk_of(unit * Z, labels)
        )[0].epsilon
        for unit in (1.0, 100.0)
        for variant in ("thesis", "literal")
    }  # fmt: skip
    assert found[100.0, "thesis"] == pytest.approx(1e-4 * found[1.0, "thesis"])
    assert found[1.0, "literal"] == pytest.approx(0.01 * found[1.0, "thesis"])
    problem = Problem(Logistic(), L1(0.01), 12)
    given, _ = ReweightedL2(0.5).prepare(problem, chunk_of(Z, labels))
    assert (given.epsilon, given.rule(problem).gamma) == (0.5, 0.0)


@pytest.mark.parametrize("loss", ["squared_hinge", "least_squares", "modified_huber"])
def test_reweighted_l2_keeps_its_first_steps_short(loss):
    """With a ridge too weak for that, slopes that grow with the predictions threw them off."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LinearClassifier(loss, solver="rw_l2_rda", scale=True, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.solver_.gamma > 0.0


# ------------------------------------------------ penalty weights, Alg. 8 and ARD


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("project", [False, True])
def test_pegasos_with_weights_is_algorithm_8(layout, project):
    """Steps Lambda^-1 / t; the projection is onto the ellipsoid w' Lambda w <= 1."""
    X, y = make_data(n=150)
    Lambda = 0.2 * np.geomspace(0.3, 4.0, 12)
    order = np.arange(150, dtype=np.uint32)
    w, b = np.zeros(12), 0.0
    for t, A in batches(order, 3):
        s = logistic_slope(y[A], X[A] @ w + b) / 3
        w = (1 - 1 / t) * w - X[A].T @ s / (Lambda * t)
        size = math.sqrt(Lambda @ w**2)
        w = w / size if project and size > 1 else w
        b -= min(1 / t, 1 / math.sqrt(t)) * s.sum()
    problem = Problem(Logistic(), WeightedL2(Lambda / 0.2, 0.2), 12)
    got = feed(Pegasos(3, project), problem, chunk_of(X, y, layout), order)
    np.testing.assert_allclose(got[0], w, atol=1e-10)
    assert got[1] == pytest.approx(b)


def test_given_precisions_are_normalised_and_used():
    X, y = make_data()
    values = np.geomspace(0.5, 8.0, 12)
    problem = Problem(Logistic(), L2(0.1), 12)
    solver, weighted = WeightedPegasos(values).prepare(problem, chunk_of(X, y))
    assert isinstance(solver, Pegasos)
    np.testing.assert_allclose(weighted.penalty.weights, values / np.exp(np.mean(np.log(values))))
    assert weighted.penalty.strength == 0.1


@pytest.mark.parametrize("bad", [np.ones(3), -np.ones(12), np.zeros(12)])
def test_impossible_precisions_are_refused(bad):
    X, y = make_data()
    with pytest.raises(ValueError, match="12 positive numbers"):
        WeightedPegasos(bad).prepare(Problem(Logistic(), L2(0.1), 12), chunk_of(X, y))


def evidence(X, y, variances, noise):
    """The cost that relevance determination minimises, from its definition."""
    S = noise * np.eye(len(y)) + (X * variances) @ X.T
    return np.linalg.slogdet(S)[1] + y @ np.linalg.solve(S, y)


def test_ard_finds_the_relevant_features_and_lowers_its_cost():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = X[:, 1] - 2.0 * X[:, 4] + 0.1 * rng.normal(size=60)
    variances = relevance.ard_variances(X.T @ X, X.T @ y)
    assert set(np.flatnonzero(variances > 1e-3 * variances.max())) == {1, 4}
    noise = 1e-3 * np.trace(X.T @ X) / 8
    cost = evidence(X, y, variances, noise)
    assert cost < evidence(X, y, np.ones(8), noise)
    for factor in (0.5, 2.0):  # a minimum, at least along its scale
        assert cost <= evidence(X, y, factor * variances, noise) + 1e-3 * abs(cost)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_ard_precisions_penalise_the_irrelevant_features(layout):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 8))
    y = np.where(X[:, 2] + X[:, 5] + 0.1 * rng.normal(size=200) > 0, 1.0, -1.0)
    problem = Problem(Logistic(), L2(0.1), 8)
    values = relevance.precisions("ard", Pegasos(), problem, chunk_of(X, y, layout))
    assert set(np.argsort(values)[:2]) == {2, 5}
    assert values.max() / values.min() > 100


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_units_do_not_matter_to_relevance(fit_intercept):
    """Precisions are in the units of the features, and rows keep their mean squared length."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 7)) + 0.5
    X[:, 5] = 2.0  # a column that only shifts scores
    X[:, 6] = 0.0
    y = X[:, 0] - 0.3 * X[:, 1] + 0.1 * rng.normal(size=300)
    units = np.geomspace(1e-4, 1e4, 7)
    problem = Problem(LeastSquares(), L2(0.1), 7, fit_intercept=fit_intercept)
    one, other = (
        relevance.precisions("ard", Pegasos(), problem, chunk_of(Z, t))
        for Z, t in ((X, y), (X * units, 1e-4 * y))
    )
    for Z, values in ((X, one), (X * units, other)):
        squares = np.mean(Z**2, axis=0)
        assert np.sum(squares / values) == pytest.approx(np.sum(squares))
    ratio = (other / units**2 / one)[:6]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


@pytest.mark.parametrize("precisions", ["ard", "cv"])
def test_weighted_pegasos_is_better_than_guessing(precisions):
    X, y = load_breast_cancer(return_X_y=True)
    X = X if precisions == "ard" else X[:, :6]
    solver = WeightedPegasos(precisions)
    model = LinearClassifier("hinge", solver=solver, scale=True, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.penalty_.weights.shape == (X.shape[1],)
    assert np.ptp(model.penalty_.weights) > 0.0


@pytest.mark.parametrize("relevant", [1, 3])
def test_few_relevant_features_keep_a_usable_penalty(relevant):
    """The cap of the precisions is relative to relevant features, however few they are."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 30))
    y = np.where(X[:, :relevant].sum(axis=1) + 0.1 * rng.normal(size=400) > 0, 1.0, -1.0)
    problem = Problem(Hinge(), L2(1 / 400), 30)
    values = relevance.precisions("ard", Pegasos(), problem, chunk_of(X, y))
    assert values[:relevant].max() < values[relevant:].min()
    assert values.max() <= 1500.0 * values.min()  # a thousand, of standardised features
    assert values.min() > 0.5 * relevant / 30  # variances have mean one: at most d / relevant
    model = LinearClassifier("hinge", solver="weighted_pegasos", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


def test_relevance_of_too_many_features_is_refused():
    problem = Problem(Logistic(), L2(0.1), 5000)
    with pytest.raises(ValueError, match=r"5000 x 5000 numbers, 0\.2 GiB each"):
        WeightedPegasos().check(problem)
    WeightedPegasos(np.ones(5000)).check(problem)


def test_weighted_pegasos_with_ard_beats_the_zero_model():
    """Relevant features must keep a usable penalty: steps are 1 / (lambda_j t)."""
    X, y = make_data()
    problem = Problem(Logistic(), L2(0.1), 12)
    chunk = chunk_of(X, y)
    result = driver.learn(WeightedPegasos(), problem, chunk, driver.Plan(10))
    loss = driver.mean_loss(problem, chunk, result.coef, result.intercept)
    assert loss < math.log(2.0)


def test_cross_validated_precisions_lower_the_cross_validated_loss():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3)) * [1.0, 1.0, 5.0]  # a loud feature without information
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    problem = Problem(Logistic(), L2(0.1), 3)
    values = relevance.precisions("cv", Pegasos(), problem, chunk_of(X, y))
    assert values[2] == values.max() > values[0]
    assert np.exp(np.mean(np.log(values))) == pytest.approx(1.0)


def test_schedules_other_than_pegasos_own_are_followed():
    X, y = make_data(n=50)
    w, b = np.zeros(12), 0.0
    for t, i in enumerate(range(50), start=1):
        s = logistic_slope(y[i], X[i] @ w + b)
        w, b = (1 - 0.1 * 0.2) * w - 0.1 * s * X[i], b - min(0.1, 1 / math.sqrt(t)) * s
    solver = Pegasos(project=False, schedule=schedules.Constant(0.1))
    got = feed(
        solver, Problem(Logistic(), L2(0.2), 12), chunk_of(X, y), np.arange(50, dtype=np.uint32)
    )
    np.testing.assert_allclose(got[0], w, atol=1e-12)
    assert got[1] == pytest.approx(b)
