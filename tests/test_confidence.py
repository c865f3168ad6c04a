"""Confidence-weighted learning against closed forms, plain NumPy and constrained minimisers."""

from __future__ import annotations

import itertools
import json
import math
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from conftest import chunk_of
from thresher import ConfidenceClassifier, ConfidenceRegressor, load_model, train
from thresher.cli import main
from thresher.engines import Serial
from thresher.losses import LeastSquares, SquaredHinge
from thresher.penalties import L2, WeightedL2
from thresher.solvers import Problem, Status, driver
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_low_rank import LowRankConfidence
from thresher.solvers.confidence_rules import AROW, CW, SCW, Recursive, Rule

RNG = np.random.default_rng(0)
N, D = 120, 5
X = RNG.normal(size=(N, D)) * np.array([1.0, 2.0, 0.5, 1.0, 3.0])
X[:, 1] += 0.7 * X[:, 0]
SIGNS = np.where(X @ np.array([1.0, -0.5, 0.3, 0.0, 0.2]) + 0.2 * RNG.normal(size=N) > 0, 1.0, -1.0)
CODES = np.digitize(X[:, 0] + 0.3 * X[:, 4], [-0.8, 0.8]).astype(float)
TARGET = X @ np.array([1.0, 0.0, -2.0, 0.5, 0.1]) + 3.0 + 0.3 * RNG.normal(size=N)
PRIOR = np.array([0.5, 1.0, 2.0, 1.0, 0.25])


def learned(solver, y, loss=None, outputs=1, weight=None, layout="dense"):
    """The state after one pass in the given order."""
    loss = loss or SquaredHinge()
    problem = Problem(loss, WeightedL2(1.0 / PRIOR), D, outputs=outputs)
    chunk = chunk_of(X, y, layout)
    chunk = chunk if weight is None else chunk._replace(weight=weight)
    return problem, solver.update(problem, solver.init(problem), chunk)


# ---------------------------------------------------------------- rules


X1, MEAN = np.array([1.0, -0.5]), np.array([0.2, -0.3])
OLD = np.array([[1.0, 0.4], [0.4, 0.5]])
LOWER = np.tril_indices(2)


def gaussian(z):
    """A mean and a covariance, of five free numbers."""
    factor = np.zeros((2, 2))
    factor[LOWER] = z[2:5]
    factor[np.diag_indices(2)] = np.exp(np.diag(factor))
    return z[:2], factor @ factor.T


def change(z):
    """KL(new, old)."""
    mean, S = gaussian(z)
    P, away = np.linalg.inv(OLD), mean - MEAN
    logs = np.linalg.slogdet(OLD)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * (np.trace(P @ S) + away @ P @ away - 2.0 + logs)


def smallest(cost, *constraints):
    """The Gaussian of the smallest cost; a sixth number is free, for whoever needs one."""
    best = minimize(
        cost, np.array([0.2, -0.3, 0.0, 0.0, 0.0, 5.0]), method="SLSQP",
        constraints=[{"type": "ineq", "fun": c} for c in constraints],
        options={"ftol": 1e-13, "maxiter": 2000},
    )  # fmt: skip
    assert best.success or best.status == 8  # as low as rounding lets it see
    return gaussian(best.x)


def stepped(rule, y, weight=1.0):
    """The same by the rule."""
    move, gain = rule.step(y, MEAN @ X1, X1 @ OLD @ X1, weight)
    return MEAN + move * OLD @ X1, np.linalg.inv(np.linalg.inv(OLD) + gain * np.outer(X1, X1))


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("r", [0.3, 2.0])
def test_arow_is_the_smallest_change(y, weight, r):
    def cost(z):
        mean, S = gaussian(z)
        short = max(0.0, 1.0 - y * mean @ X1)
        return change(z) + weight / (2.0 * r) * (short**2 + X1 @ S @ X1)

    same(stepped(AROW(r), y, weight), smallest(cost))


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_recursive_least_squares_is_the_smallest_change(y, weight):
    def cost(z):
        mean, S = gaussian(z)
        return change(z) + weight / 1.4 * ((y - mean @ X1) ** 2 + X1 @ S @ X1)

    same(stepped(Recursive(0.7), y, weight), smallest(cost))


def room(z, y, phi):
    mean, S = gaussian(z)
    return y * mean @ X1 - phi * math.sqrt(X1 @ S @ X1)


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("confidence", [0.6, 0.9, 0.99])
def test_cw_is_the_smallest_change_that_satisfies_the_row(y, confidence):
    rule = CW(confidence)
    mean, S = stepped(rule, y)
    wanted = max(y * MEAN @ X1, rule.phi * math.sqrt(X1 @ S @ X1))  # it may be satisfied already
    assert y * mean @ X1 == pytest.approx(wanted)
    same((mean, S), smallest(change, lambda z: room(z, y, rule.phi)))


@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("C", [0.05, 0.2, 10.0])
@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_scw_is_the_smallest_change_that_may_pay(y, C, weight):
    """What is paid is the sixth number: the minimiser takes smooth functions only."""
    rule = SCW(0.9, C)
    wanted = smallest(
        lambda z: change(z) + weight * C * z[5],
        lambda z: z[5] + room(z, y, rule.phi),
        lambda z: z[5],
    )
    same(stepped(rule, y, weight), wanted)


@given(
    st.floats(-50, 50), st.floats(1e-6, 1e6), st.floats(0.51, 0.999), st.floats(1e-3, 1e3)
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_steps_are_finite_and_keep_variances_positive(score, variance, confidence, C):
    for rule in (AROW(C), CW(confidence), SCW(confidence, C)):
        move, gain = rule.step(1.0, score, variance, 1.0)
        assert 0.0 <= move < math.inf
        assert 0.0 <= gain < math.inf
        after = score + move * variance
        assert after >= score
        if isinstance(rule, CW):
            kept = variance / (1.0 + gain * variance)
            assert after >= rule.phi * math.sqrt(kept) * (1.0 - 1e-6) - 1e-9


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: AROW(0.0), "r must be positive"),
        (lambda: Recursive(-1.0), "r must be positive"),
        (lambda: CW(0.5), "confidence must lie between"),
        (lambda: SCW(0.9, 0.0), "C must be positive"),
        (lambda: DiagonalConfidence(L2(1.0)), "rule must be a Rule"),
        (lambda: DiagonalConfidence(combine="sum"), "combine must be one of product"),
        (lambda: DiagonalConfidence(intercept_variance=0.0), "intercept_variance must be positive"),
        (lambda: FullConfidence(constant=-1.0), "constant must be at least 0"),
        (lambda: LowRankConfidence(rank=0), "rank must be at least 1"),
        (lambda: LowRankConfidence(combine="product"), "by 'average' only"),
    ],
)
def test_settings_that_cannot_work_are_refused(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make()


# ---------------------------------------------------------------- forms, in plain NumPy


def plain(rule, y, outputs, diagonal, weight=None, constant=1.0):
    """Full or diagonal precision matrices, and inverses wherever they are needed."""
    Z = np.hstack([X, np.full((N, 1), constant)])
    weight = np.ones(N) if weight is None else weight
    P = [np.diag(np.append(1.0 / PRIOR, 1.0)) for _ in range(outputs)]
    mu = np.zeros((outputs, D + 1))
    for x, target, s in zip(Z, y, weight, strict=True):
        S = [np.linalg.inv(p) for p in P]
        if outputs == 1:
            lanes, target = [(0, 1.0)], target
            score = mu[0] @ x
        else:
            own, scores = int(target), mu @ x
            rival = max((c for c in range(outputs) if c != own), key=lambda c: scores[c])
            lanes, target, score = [(own, 1.0), (rival, -1.0)], 1.0, scores[own] - scores[rival]
        variance = sum(x @ S[c] @ x for c, _ in lanes)
        move, gain = rule.step(target, score, variance, s)
        for c, sign in lanes:
            mu[c] += sign * move * S[c] @ x
            P[c] += gain * (np.diag(x * x) if diagonal else np.outer(x, x))
    return mu, np.array([np.linalg.inv(p) for p in P])


CASES = [
    (AROW(0.7), SIGNS, 1), (CW(0.7), SIGNS, 1), (SCW(0.8, 0.5), SIGNS, 1),
    (Recursive(0.7), TARGET, 1), (AROW(0.7), CODES, 3), (SCW(0.8, 0.5), CODES, 3),
]  # fmt: skip
# One rule is enough to compile for the other layout.
LAYOUTS = [
    pytest.param(*case, layout, id=f"{type(case[0]).__name__}-{case[2]}-{layout}")
    for layout in ("dense", "csr")
    for case in CASES
    if layout == "dense" or isinstance(case[0], AROW)
]


@pytest.mark.parametrize(("rule", "y", "outputs", "layout"), LAYOUTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_forms_do_what_plain_matrices_do(rule, y, outputs, layout, weighted):
    weight = np.linspace(0.5, 2.0, N) if weighted else None
    for form, diagonal in (
        (DiagonalConfidence(rule, constant=1.5), True),
        (FullConfidence(rule, constant=1.5), False),
        (LowRankConfidence(rule, constant=1.5, rank=D + 1), False),
    ):
        mu, S = plain(rule, y, outputs, diagonal, weight, constant=1.5)
        problem, state = learned(form, y, None, outputs, weight, layout)
        np.testing.assert_allclose(form.means(state), mu, rtol=1e-6, atol=1e-8)
        found = form.spread(problem, state)
        Z = np.hstack([X, np.full((N, 1), 1.5)])
        wanted = np.stack([np.einsum("ij,jk,ik->i", Z, s, Z) for s in S], axis=1)
        np.testing.assert_allclose(found.of(X), wanted, rtol=1e-6)
        np.testing.assert_allclose(found.of(csr_array(X)), wanted, rtol=1e-6)
        diagonals = np.array([np.diag(s) for s in S])[:, :-1]
        np.testing.assert_allclose(found.diagonal[:, :-1], diagonals, rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_few_directions_keep_the_diagonal_of_the_precision(rank):
    """Of rows that all act, so that the precision depends on nothing else."""
    form = LowRankConfidence(Recursive(0.5), rank=rank)
    _, state = learned(form, TARGET, LeastSquares())
    lines = state.lines[0, : state.used[0]]
    Z = np.hstack([X, np.ones((N, 1))])
    wanted = np.append(1.0 / PRIOR, 1.0) + (Z * Z).sum(axis=0) / 0.5
    np.testing.assert_allclose(state.diagonal[0] + (lines**2).sum(axis=0), wanted, rtol=1e-10)


def test_directions_come_between_a_diagonal_and_all_covariances():
    """How far predictions are from those of the full form falls with the number of directions."""
    d = 20
    mix = np.linalg.qr(RNG.normal(size=(d, d)))[0] * np.where(np.arange(d) < 4, 1.0, 0.05)
    rows = RNG.normal(size=(400, d)) @ mix.T
    y = rows @ RNG.normal(size=d) + 0.01 * RNG.normal(size=400)
    problem, chunk = Problem(LeastSquares(), L2(1.0), d), chunk_of(rows, y)
    rule = Recursive(1e-3)

    def scores(form):
        state = form.update(problem, form.init(problem), chunk)
        return form.finish(problem, state).scores(rows)[:, 0]

    full = scores(FullConfidence(rule))
    forms = [DiagonalConfidence(rule), *(LowRankConfidence(rule, rank=k) for k in (2, 4, 21))]
    away = [np.linalg.norm(scores(form) - full) for form in forms]
    assert away[0] > away[1] > 1.3 * away[2]
    assert away[3] < 1e-6 * np.linalg.norm(full)


@pytest.mark.parametrize("order", [np.arange(N), np.arange(N)[::-1]])
def test_recursive_least_squares_is_ridge_regression(order):
    """Whatever the order, with weights, and the covariance too."""
    weight = RNG.uniform(0.5, 2.0, N)
    form, r = FullConfidence(Recursive(0.8), intercept_variance=2.0), 0.8
    problem = Problem(LeastSquares(), L2(4.0), D)
    chunk = chunk_of(X, TARGET)._replace(weight=weight, order=order.astype(np.uint32))
    state = form.update(problem, form.init(problem), chunk)
    Z = np.hstack([X, np.ones((N, 1))])
    P = Z.T @ (weight[:, None] * Z) / r + np.diag([4.0] * D + [0.5])
    np.testing.assert_allclose(state.covariance[0], np.linalg.inv(P), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(state.mean[:, 0], np.linalg.solve(P, Z.T @ (weight * TARGET) / r))


def test_long_streams_keep_covariances_sound():
    """A hundred thousand rows, columns that nearly repeat each other: as the inverse of the sum."""
    d, n, form = 6, 100_000, FullConfidence(Recursive(0.1), constant=0.0)
    rows = RNG.normal(size=(n, d))
    rows[:, 1] = rows[:, 0] + 1e-3 * rows[:, 1]
    problem = Problem(LeastSquares(), L2(1.0), d)
    state = form.update(problem, form.init(problem), chunk_of(rows, rows[:, 2]))
    S = state.covariance[0][:-1, :-1]
    assert np.array_equal(S, S.T)
    wanted = np.linalg.inv(rows.T @ rows / 0.1 + np.eye(d))
    np.testing.assert_allclose(S, wanted, rtol=1e-5, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_that_contradict_each_other_do_not_break_matrices(classes):
    """CW believes each of them, until nothing is left of the covariance but its rounding."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=3000), [-1.0, 1.0][: classes - 1])
    model = ConfidenceClassifier(method="cw", covariance="full", max_iter=3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # with two classes it is no better than a constant
        assert model.fit(X, y).status_ is not Status.DIVERGED
    assert np.all(np.isfinite(model.intervals(0.95)))
    assert np.abs(model.coef_).max() > 0.0


def test_shards_that_are_certain_and_contradict_each_other_are_averaged(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 8))
    y = np.digitize(X[:, 0] - X[:, 1] + rng.normal(size=4000), [-1.0, 1.0])
    data, names = tmp_path / "noisy.csv", "y,a,b,c,d,e,f,g,h"
    np.savetxt(data, np.column_stack([y, X]), delimiter=",", header=names, comments="")
    params = {"method": "cw", "covariance": "full"}
    model = train(str(data), target="y", learner="confidence", params=params, passes=2,
                  cluster=Serial(), shards=4, types={"y": "category"})  # fmt: skip
    assert model.training["status"] == "COMPLETED"
    assert model.training["held_out"]["error"] < 0.6


def test_matrices_that_are_too_many_are_refused():
    with pytest.raises(ValueError, match="500 matrices of 2000 x 2000"):
        FullConfidence().check(Problem(SquaredHinge(), L2(1.0), 2000, outputs=500))
    with pytest.raises(ValueError, match="6000 x 6000: use covariance='diagonal' or 'low_rank'"):
        FullConfidence().check(Problem(SquaredHinge(), L2(1.0), 6000))


def test_variances_of_the_regressor_are_those_of_least_squares():
    n, rng = 4000, np.random.default_rng(0)  # one interval of twenty misses: not from shared draws
    rows = rng.normal(size=(n, 3))
    y = rows @ np.array([1.0, -1.0, 0.0]) + 2.0 * rng.normal(size=n)
    model = ConfidenceRegressor(r=1e-6, random_state=0).fit(rows, y)
    Z = np.hstack([rows, np.ones((n, 1))])
    known = np.linalg.inv(Z.T @ Z)
    residual = y - Z @ (known @ (Z.T @ y))
    wanted = np.sqrt(residual @ residual / n * np.diag(known))[:3]
    np.testing.assert_allclose(model.weight_deviations[0], wanted, rtol=0.02)
    inside = (model.intervals(0.95)[0, :, 0] <= [1.0, -1.0, 0.0]) & (
        model.intervals(0.95)[0, :, 1] >= [1.0, -1.0, 0.0]
    )
    assert inside.all()
    row = np.array([[1.0, 2.0, -1.0]])
    leverage = np.append(row, 1.0) @ known @ np.append(row, 1.0)
    assert model.variances(row)[0, 0] == pytest.approx(model.noise_ * leverage, rel=0.02)


# ---------------------------------------------------------------- estimators


def test_ridge_of_the_estimator():
    """In the features' own units, far from zero and of very different sizes."""
    rows = X * np.array([1e-3, 1.0, 1e4, 1.0, 1.0]) + np.array([0.0, 1e3, 0.0, -50.0, 2.0])
    model = ConfidenceRegressor("full", random_state=0).fit(rows, TARGET)
    Z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    total = D * (1.0 + 1.0 / D)
    wanted = Ridge(0.3 * total).fit(Z, TARGET)  # r / (prior variance); intercepts meet at the mean
    np.testing.assert_allclose(model.predict(rows), wanted.predict(Z), rtol=1e-6)


@pytest.mark.parametrize("method", ["arow", "cw", "scw"])
@pytest.mark.parametrize("covariance", ["diagonal", "full", "low_rank"])
def test_units_do_not_matter(method, covariance):
    """Of dense columns, since they are standardised; nor where zero is."""
    model = ConfidenceClassifier(method, covariance=covariance, rank=2, random_state=0)
    scores = model.fit(X, CODES).decision_function(X)
    right = model.probability_right(X)
    factor, shift = np.array([1e-4, 10.0, 1.0, 1e3, 2.0]), np.array([0.0, 5.0, -30.0, 1e4, 1.0])
    moved = X * factor + shift
    model.fit(moved, CODES)
    np.testing.assert_allclose(model.decision_function(moved), scores, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.probability_right(moved), right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", [np.asarray, csr_array])
def test_the_size_of_all_rows_does_not_matter(layout):
    """Where nothing is standardised the prior is in the units of the rows."""
    model = ConfidenceClassifier(scale=False, random_state=0)
    small, large = (
        model.fit(layout(size * X), SIGNS).decision_function(layout(size * X))
        for size in (1e-3, 1e3)
    )
    centred = ConfidenceClassifier(scale=False, fit_intercept=False, random_state=0)
    free, again = (
        centred.fit(layout(size * X), SIGNS).decision_function(layout(size * X))
        for size in (1e-3, 1e3)
    )
    np.testing.assert_allclose(free, again, rtol=1e-6, atol=1e-9)
    assert np.mean((small > 0) == (SIGNS > 0)) > 0.9
    assert np.mean((large > 0) == (SIGNS > 0)) > 0.9


def test_the_probability_of_being_right():
    """Equation 6.2, by hand; and draws from the belief agree as often as it says."""
    model = ConfidenceClassifier(covariance="full", random_state=0).fit(X, SIGNS)
    score, variance = model.decision_function(X), model.variances(X)[:, 0]
    wanted = 0.5 * (1.0 + np.array([math.erf(abs(m) / math.sqrt(2.0 * v))
                                    for m, v in zip(score, variance, strict=True)]))  # fmt: skip
    np.testing.assert_allclose(model.probability_right(X), wanted, rtol=1e-12)
    covariance = model.function_.spread.covariance[0]
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(D + 1), covariance, 20_000)
    Z = np.hstack([X - model.function_.centre, np.ones((N, 1))])
    agree = np.mean(np.sign(score + draws @ Z.T) == np.sign(score), axis=0)
    np.testing.assert_allclose(agree, wanted, atol=0.02)


def test_several_classes_are_as_sure_as_their_two_best():
    model = ConfidenceClassifier(random_state=0).fit(X, CODES)
    scores, variances = model.decision_function(X), model.variances(X)
    for i in range(0, N, 17):
        second, first = np.argsort(scores[i])[-2:]
        margin = scores[i, first] - scores[i, second]
        wanted = ndtr(margin / math.sqrt(variances[i, first] + variances[i, second]))
        assert model.probability_right(X[i : i + 1])[0] == pytest.approx(wanted)


def test_more_rows_make_surer_and_more_passes_do_not():
    rows = RNG.normal(size=(4000, 3))
    y = np.sign(rows[:, 0] + RNG.normal(size=4000))
    few = ConfidenceClassifier(random_state=0).fit(rows[:400], y[:400]).weight_deviations
    many = ConfidenceClassifier(random_state=0).fit(rows, y).weight_deviations
    np.testing.assert_allclose(few / many, math.sqrt(10.0), rtol=0.2)
    once = ConfidenceClassifier(max_iter=1, random_state=0).fit(rows, y).weight_deviations
    np.testing.assert_allclose(once, many, rtol=0.2)


def test_probabilities_are_about_as_frequent_as_they_say():
    rows = RNG.normal(size=(6000, 4))
    y = RNG.random(6000) < 1.0 / (1.0 + np.exp(-2.0 * rows[:, 0]))
    model = ConfidenceClassifier(random_state=0).fit(rows[:3000], y[:3000])
    p = model.predict_proba(rows[3000:])[:, 1]
    for low in (0.1, 0.3, 0.5, 0.7):
        chosen = (p >= low) & (p < low + 0.2)
        assert abs(np.mean(y[3000:][chosen]) - p[chosen].mean()) < 0.1
    three = np.digitize(rows[:, 0], [-0.5, 0.5])
    q = model.fit(rows[:3000], three[:3000]).predict_proba(rows[3000:])
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[q.argmax(axis=1)], model.predict(rows[3000:]))


def test_methods_without_noise_have_no_probabilities():
    model = ConfidenceClassifier("scw", random_state=0).fit(X, SIGNS)
    assert not hasattr(model, "predict_proba")
    assert np.all(model.probability_right(X) >= 0.5)
    assert ConfidenceClassifier("scw", calibrate="sigmoid").fit(X, SIGNS).predict_proba(X).size


def test_a_prior_is_where_learning_starts():
    d = 3
    rows, true = RNG.normal(size=(30, d)) + 4.0, np.array([[1.0, -2.0, 0.5]])
    y = rows @ true[0]
    sure = ConfidenceRegressor(prior_mean=true, prior_variance=1e-9, random_state=0).fit(rows, y)
    np.testing.assert_allclose(sure.coef_, true, rtol=1e-6)
    with pytest.warns(ConvergenceWarning, match="no better than a constant"):
        wrong = ConfidenceRegressor(prior_mean=2.0 * true, prior_variance=1e-9).fit(rows, y)
    np.testing.assert_allclose(wrong.coef_, 2.0 * true, rtol=1e-4)
    each = ConfidenceRegressor("full", prior_variance=[1e-12, 1e6, 1e6], random_state=0)
    each.fit(rows, y)
    assert abs(each.coef_[0, 0]) < 1e-4
    kept = Ridge(1e-9).fit(rows[:, 1:], y)
    np.testing.assert_allclose(each.coef_[0, 1:], kept.coef_, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "arrow"}, "method must be one of 'arow'"),
        ({"covariance": "block"}, "covariance must be one of"),
        ({"combine": "sum"}, "combine must be one of"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"r": 0.0}, "r must be a positive number"),
        ({"method": "cw", "confidence": 1.0}, r"confidence must be a number in \(0, 1\)"),
        ({"method": "scw", "C": -1.0}, "C must be a positive number"),
        ({"prior_variance": 0.0}, "prior_variance must be a positive number"),
        ({"prior_variance": [1.0, 2.0]}, "prior_variance has 2 numbers for 5 features"),
        ({"prior_mean": np.zeros(4)}, r"prior_mean has shape \(1, 4\)"),
        ({"prior_mean": np.full(5, np.nan)}, "prior_mean holds NaN"),
        ({"covariance": "low_rank", "rank": 0}, "rank must be a whole number of at least 1"),
        ({"order": "sorted"}, "order must be one of"),
        ({"scale": "unit"}, "scale must be True or False"),
    ],
)
def test_options_are_checked(options, match):
    with pytest.raises(ValueError, match=match):
        ConfidenceClassifier(**options).fit(X, SIGNS)


def test_intervals_ask_for_a_level():
    model = ConfidenceRegressor().fit(X, TARGET)
    assert model.intervals().shape == (1, D, 2)
    with pytest.raises(ValueError, match="level must lie"):
        model.intervals(95)


@pytest.mark.parametrize("covariance", ["diagonal", "full", "low_rank"])
def test_streams_do_not_depend_on_their_cut(covariance):
    """After the first call, which sets units and prior."""
    cuts = ([0, 40, N], [0, 40, 41, 77, N])
    models = []
    for marks in cuts:
        model = ConfidenceClassifier(covariance=covariance, rank=2)
        for a, b in itertools.pairwise(marks):
            model.partial_fit(X[a:b], CODES[a:b], classes=[0.0, 1.0, 2.0])
        models.append(model)
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].weight_deviations, models[1].weight_deviations)


@pytest.mark.parametrize("covariance", ["full", "low_rank"])
def test_equal_weights_are_repeated_rows(covariance):
    """Rows twice are rows of weight two, where every row acts and all is known of it."""
    model = ConfidenceRegressor(covariance, rank=6, max_iter=1, order="sequential")
    twice = model.fit(np.repeat(X, 2, axis=0), np.repeat(TARGET, 2)).coef_
    heavy = model.fit(X, TARGET, sample_weight=np.full(N, 2.0)).coef_
    np.testing.assert_allclose(heavy, twice, rtol=1e-7)


@pytest.mark.parametrize("memory", [1 << 30, 1 << 12])
def test_training_and_inspection(memory, tmp_path, monkeypatch, capsys):
    """In memory and in a stream; ``inspect`` shows what ``intervals`` gives."""
    table = np.column_stack([X, SIGNS])
    path, out = tmp_path / "d.csv", tmp_path / "m.thresher"
    np.savetxt(path, table, delimiter=",", header="a,b,c,d,e,y", comments="")
    model = train(path, target="y", task="classification", learner="confidence", memory=memory)
    assert model.training["in_memory"] == (memory > 1 << 20)
    assert model.training["held_out"]["error"] < 0.2
    model.save(out)
    again = load_model(out).estimator
    assert np.array_equal(again.intervals(), model.estimator.intervals())

    def shown(*words):
        monkeypatch.setattr(sys, "argv", ["thresher", "inspect", str(out), *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        return capsys.readouterr().out

    assert "weight (95 %)" in shown()
    found = json.loads(shown("--json"))
    name, (weight,) = found["largest_weights"][0]
    low, high = again.intervals(0.95)[0, "abcde".index(name)]
    (half,) = found["intervals"]["half_widths"][0]
    assert (weight - half, weight + half) == pytest.approx((low, high), rel=1e-5)


def test_tuning_in_a_training():
    model = train(X, SIGNS, learner="confidence", tune=3)
    tried = [trial["params"] for trial in model.training["trials"]]  # the default first
    assert [set(params) for params in tried] == [set(), *[{"r"}] * 3]


def test_own_rules():
    @dataclass(frozen=True)
    class Passive(Rule):
        """Passive-aggressive: just enough, and no confidence."""

        def step(self, y, score, variance, weight):
            return y * max(0.0, 1.0 - y * score) / max(variance, 1e-12), 0.0

    form = DiagonalConfidence(Passive(), constant=0.0)
    problem = Problem(SquaredHinge(), L2(1.0), D)
    result = driver.learn(form, problem, driver.whole(chunk_of(X, SIGNS).rows, SIGNS),
                          driver.Plan(5))  # fmt: skip
    assert np.mean(np.sign(result.function.scores(X)[:, 0]) == SIGNS) > 0.85
    np.testing.assert_allclose(
        result.function.spread.diagonal[:, :-1], 5.0
    )  # a part of it each pass
