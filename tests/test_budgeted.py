"""Kernel Pegasos on a budget: against NumPy, and what may not change a model."""

import math
import pickle
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits, make_circles

from conftest import chunk_of, visits
from thresher import RBF, Hinge, Kernel, Linear, Sigmoid
from thresher.estimators.base import StatusWarning
from thresher.estimators.budgeted import BudgetedClassifier, BudgetedRegressor
from thresher.kernels.expansion import FastRBF
from thresher.losses import LeastSquares
from thresher.penalties import L2
from thresher.solvers import Problem
from thresher.solvers.budgeted import MAINTENANCE, Budgeted

HINGE = Hinge()
GAUSS = RBF(0.5)


def blobs(n=120, d=3, classes=2, seed=0, sparsity=0.3):
    """Overlapping classes, three centres each, some elements zero."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3 * classes, d)) * 2
    pick = rng.integers(3 * classes, size=n)
    X = (centres[pick] + 0.7 * rng.normal(size=(n, d))) * (rng.uniform(size=(n, d)) > sparsity)
    codes = pick % classes
    return X, (np.where(codes == 1, 1.0, -1.0) if classes == 2 else codes.astype(float))


class Machine(NamedTuple):
    """A solver and its problem."""

    solver: Budgeted
    problem: Problem

    @property
    def budget(self):
        return self.solver.budget

    def finish(self, state):
        return self.solver.finish(self.problem, state)


def learner(loss=HINGE, kernel=GAUSS, d=3, lam=0.01, dtype=np.float64, outputs=1, **options):
    problem = Problem(loss, L2(lam), d, dtype=dtype, seed=3, outputs=outputs)
    return Machine(Budgeted(kernel, **{"budget": 10, "eta0": 1.0, **options}), problem)


def run(machine, chunk, *orders, state=None):
    solver, problem = machine
    state = solver.init(problem) if state is None else state
    for order in orders:
        state = solver.update(problem, state, chunk._replace(order=order))
    return state


def pegasos(X, y, weight, order, K, lam, eta0, bias, outputs, memory):
    """Kernel Pegasos without a budget, step by step; the averaged dual coefficients."""
    alpha, b = np.zeros((outputs, len(X))), np.zeros(outputs)
    mean, mean_b, total = np.zeros_like(alpha), np.zeros_like(b), 0.0
    for t, i in enumerate(order, start=1):
        f = alpha @ K[:, i] + bias**2 * b
        eta = 1.0 / (lam * t + 1.0 / eta0)
        alpha, b = alpha * (1 - eta * lam), b * (1 - eta * lam)
        step = np.zeros(outputs)
        if outputs == 1:
            step[0] = y[i] * (y[i] * f[0] < 1)
        else:
            own = int(y[i])
            rival = max((c for c in range(outputs) if c != own), key=lambda c: f[c])
            if f[own] - f[rival] < 1:
                step[own], step[rival] = 1.0, -1.0
        alpha[:, i] += eta * weight[i] * step
        b = b + eta * weight[i] * step
        share = 1.0 if memory is None else t**memory
        keep = 0.0 if memory is None else total / (total + share)
        mean, mean_b = keep * mean + (1 - keep) * alpha, keep * mean_b + (1 - keep) * b
        total += share
    return mean, bias**2 * mean_b


def gram(X, gamma):
    return np.exp(-gamma * ((X[:, None] - X[None]) ** 2).sum(-1))


# ---------------------------------------------------------------- the exact case


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize(("memory", "eta0", "bias"), [(None, math.inf, 0.0), (4.0, 1.0, 0.7)])
def test_a_budget_that_is_never_reached_gives_kernel_pegasos(outputs, memory, eta0, bias):
    X, y = blobs(classes=max(outputs, 2))
    weight = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    chunk, order = chunk_of(X, y, weight=weight), visits(y.size)
    solver = learner(
        outputs=outputs,
        dtype=np.float64 if outputs == 1 else np.float32,
        budget=y.size,
        memory=memory,
        eta0=eta0,
        constant=bias,
        lam=0.02,
    )
    function = solver.finish(run(solver, chunk, order))
    wanted, b = pegasos(X, y, chunk.weight, order, gram(X, 0.5), 0.02, eta0, bias, outputs, memory)
    got = function.scores(X)
    np.testing.assert_allclose(
        got, (wanted @ gram(X, 0.5)).T + b, atol=1e-8 if outputs == 1 else 1e-4
    )


def test_least_squares_approaches_kernel_ridge_regression():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 1))
    y = np.sin(2 * X[:, 0])
    lam = 0.01
    solver = learner(LeastSquares(), RBF(1.0), 1, lam=lam, budget=60, dtype=np.float32)
    state = run(solver, chunk_of(X, y), visits(60, passes=400))
    exact = gram(X, 1.0) @ np.linalg.solve(gram(X, 1.0) + 60 * lam * np.eye(60), y)
    got = solver.finish(state).scores(X)[:, 0]
    np.testing.assert_allclose(got, exact, atol=0.02)


@given(
    distance=st.floats(0.0, 200.0, width=32), gamma=st.floats(2**-10, 2**6, width=32)
)  # fmt: skip
def test_the_fast_gaussian_is_the_gaussian(distance, gamma):
    got = FastRBF.like(RBF(gamma)).of(np.float32(0), np.float32(distance), np.float32(0))
    wanted = math.exp(-gamma * distance)
    assert got == pytest.approx(wanted, rel=3e-7 * (5 + gamma * distance), abs=1e-37)


# ---------------------------------------------------------------- what changes nothing


@pytest.mark.parametrize("maintenance", MAINTENANCE)
@pytest.mark.parametrize("outputs", [1, 3])
def test_cuts_interruptions_and_layouts_leave_no_trace(maintenance, outputs):
    X, y = blobs(classes=max(outputs, 2))
    solver = learner(maintenance=maintenance, outputs=outputs, dtype=np.float32)
    dense, thin, order = chunk_of(X, y), chunk_of(X, y, "csr"), visits(y.size)
    whole = run(solver, dense, order)
    assert whole.size == solver.budget
    assert np.count_nonzero(np.any(whole.coef != 0, axis=0)) <= solver.budget
    for other in (run(solver, dense, *np.array_split(order, 7)), run(solver, thin, order)):
        for a, b in zip(whole, other, strict=True):
            np.testing.assert_array_equal(a, b)
    half = pickle.loads(pickle.dumps(run(solver, dense, order[:100])))
    resumed = run(solver, dense, order[100:], state=half)
    for a, b in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(a, b)


@given(
    budget=st.integers(1, 40),
    maintenance=st.sampled_from(MAINTENANCE),
    n=st.integers(1, 60),
    copies=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_the_budget_holds_and_the_model_is_finite(budget, maintenance, n, copies, seed):
    X, y = blobs(n=n, seed=seed)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)
    solver = learner(maintenance=maintenance, budget=budget, dtype=np.float32)
    state = run(solver, chunk_of(X, y), visits(y.size, seed=seed))
    _, vectors, coef, *_ = solver.finish(state)
    assert len(vectors) <= min(budget, len(np.unique(X, axis=0)))
    assert np.all(np.isfinite(vectors))
    assert np.all(np.isfinite(coef))
    np.testing.assert_allclose(state.norms, (state.vectors.astype(float) ** 2).sum(0), rtol=1e-5)


def test_a_row_seen_again_is_the_same_support_vector():
    X, y = blobs(n=5)
    solver = learner(budget=50)
    state = run(solver, chunk_of(np.vstack([X, X]), np.concatenate([y, y])), visits(10))
    assert state.size <= 5


# ---------------------------------------------------------------- giving up a vector


def test_removal_drops_the_lightest():
    X, y = blobs()
    for t in range(20, 60):
        full = learner(maintenance="remove", budget=10)
        before = run(full, chunk_of(X, y), visits(y.size)[:t])
        after = run(full, chunk_of(X, y), visits(y.size)[t : t + 1], state=_copy(before))
        changed = np.flatnonzero(np.any(before.vectors != after.vectors, axis=0))
        if after.empty != before.empty:
            mass = np.sum(before.coef[:, : full.budget + 1] ** 2, axis=0)
            mass[before.empty] = np.sum(after.coef[:, before.empty] ** 2)
            assert after.empty == np.argmin(mass)
            np.testing.assert_array_equal(changed, [before.empty])


def test_projection_solves_the_least_squares_problem():
    X, y = blobs(d=2)
    solver = learner(maintenance="project", d=2)
    chunk, order = chunk_of(X, y), visits(y.size)
    checked = 0
    for t in range(20, 60):
        before = run(solver, chunk, order[:t])
        after = run(solver, chunk, order[t : t + 1], state=_copy(before))
        if after.empty == before.empty:
            continue
        used = slice(0, solver.budget + 1)
        Z = after.vectors[:, used].T
        K = gram(Z, 0.5) + 1e-5 * np.eye(len(Z))
        coef = before.coef[0, used].copy()
        coef[before.empty] = y[order[t]]
        lost = []
        for j in range(len(Z)):
            rest = np.arange(len(Z)) != j
            onto = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, j])
            lost.append(coef[j] ** 2 * (K[j, j] - K[j, rest] @ onto))
        gone = int(np.argmin(lost))
        rest = np.arange(len(Z)) != gone
        wanted = coef[rest] + coef[gone] * np.linalg.solve(K[np.ix_(rest, rest)], K[rest, gone])
        assert after.empty == gone
        np.testing.assert_allclose(after.coef[0, used][rest], wanted, rtol=1e-5, atol=1e-6)
        checked += 1
    assert checked > 5


def _copy(state):
    return pickle.loads(pickle.dumps(state))


# ---------------------------------------------------------------- estimators


@dataclass(frozen=True)
class Cauchy(Kernel):
    """A kernel of the user's own."""

    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    def of(self, inner, sq_x, sq_z):
        return 1.0 / (1.0 + self.gamma * (sq_x + sq_z - 2.0 * inner))


@pytest.fixture(scope="module")
def circles():
    return make_circles(400, factor=0.5, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def test_learns_what_is_not_linear(circles):
    model = BudgetedClassifier(budget=20, random_state=0).fit(*circles)
    assert model.score(*circles) > 0.97
    assert len(model.support_vectors_) == 20
    assert model.dual_coef_.shape == (1, 20)


def test_learns_many_classes(digits):
    X, y = digits
    model = BudgetedClassifier(budget=150, random_state=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.93
    assert model.decision_function(X[:5]).shape == (5, 10)
    thin = BudgetedClassifier(budget=150, random_state=0).fit(sparse.csr_array(X[:1200]), y[:1200])
    np.testing.assert_allclose(
        thin.decision_function(sparse.csr_array(X)), model.decision_function(X), atol=1e-6
    )


@pytest.mark.parametrize(("maintenance", "budget"), [("remove", 60), ("project", 15)])
def test_a_kernel_of_the_users_own(maintenance, budget, circles):
    model = BudgetedClassifier(Cauchy(2.0), maintenance=maintenance, budget=budget, random_state=0)
    assert model.fit(*circles).score(*circles) > 0.9
    assert len(model.support_vectors_) <= budget


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": Linear()}, "needs the RBF kernel"),
        ({"kernel": "polynomial"}, "needs the RBF kernel"),
        ({"kernel": Sigmoid(), "maintenance": "project"}, "positive definite"),
        ({"kernel": RBF(1.0), "gamma": 2.0}, "given by name"),
        ({"kernel": "gauss"}, "unknown"),
        ({"maintenance": "shrink"}, "unknown"),
        ({"order": "sampled"}, "order must be one of 'shuffle', 'sequential'"),
        ({"budget": 0}, "at least 1"),
        ({"alpha": 0.0}, "positive"),
        ({"gamma": -1.0}, "positive"),
        ({"eta0": 0.0}, "positive"),
        ({"max_iter": 0}, "at least 1"),
        ({"calibrate": "platt"}, "calibrate"),
    ],
)
def test_nonsense_is_refused_before_any_work(options, message):
    with pytest.raises(ValueError, match=message):
        BudgetedClassifier(**options).fit(None, None)


def test_calls_of_partial_fit_may_be_cut_anywhere_after_the_first(digits):
    X, y = digits[0][:600], digits[1][:600]
    models = []
    for cuts in ([200, 600], [200, 201, 350, 600]):
        model = BudgetedClassifier(budget=40, random_state=0)
        for start, stop in zip([0, *cuts], cuts, strict=False):
            model.partial_fit(X[start:stop], y[start:stop], classes=np.arange(10))
        models.append(model)
    np.testing.assert_array_equal(models[0].dual_coef_, models[1].dual_coef_)
    assert models[0].score(X, y) > 0.85


def test_partial_fit_asks_for_the_classes(digits):
    X, y = digits
    with pytest.raises(ValueError, match="classes must be passed"):
        BudgetedClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="needs all rows at once"):
        BudgetedClassifier(class_weight="balanced").partial_fit(X, y, classes=np.arange(10))
    model = BudgetedClassifier(budget=20).partial_fit(X[:99], y[:99], classes=np.arange(10))
    with pytest.raises(ValueError, match="differ"):
        model.partial_fit(X, y, classes=np.arange(3))


def test_scale_equals_standardised_data(circles):
    X, y = circles
    far = X * [1.0, 1e3] + [0.0, 1e5]
    model = BudgetedClassifier(budget=20, scale=True, random_state=0).fit(far, y)
    assert model.score(far, y) > 0.97
    standard = (far - far.mean(0)) / far.std(0)
    other = BudgetedClassifier(budget=20, random_state=0).fit(standard, y)
    np.testing.assert_allclose(
        model.decision_function(far), other.decision_function(standard), atol=1e-3
    )


def test_data_far_from_the_origin_get_double_precision(circles):
    X, y = circles
    model = BudgetedClassifier(budget=20, random_state=0).fit(X + 1e4, y)
    assert model.support_vectors_.dtype == np.float64
    assert model.score(X + 1e4, y) > 0.97


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_constant_features_and_equal_rows(shift):
    X, y = np.full((30, 4), shift), np.arange(30) % 2
    with pytest.warns(StatusWarning, match="no better than a constant"):
        model = BudgetedClassifier(random_state=0).fit(X, y)
    assert model.kernel_.gamma == 1.0
    assert len(model.support_vectors_) == 1
    assert np.all(np.isfinite(model.decision_function(X)))


def test_weights_zero_and_classes_weighted(circles):
    X, y = circles
    weight = (np.arange(400) < 300).astype(float)
    some = BudgetedClassifier(budget=20, gamma=1.0, random_state=0).fit(X, y, weight)
    kept = BudgetedClassifier(budget=20, gamma=1.0, random_state=0).fit(X[:300], y[:300])
    np.testing.assert_array_equal(some.dual_coef_, kept.dual_coef_)
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15]])
    plain, fair = (
        BudgetedClassifier(alpha=0.05, class_weight=c, random_state=0) for c in (None, "balanced")
    )
    with pytest.warns(StatusWarning, match="no better than a constant"):
        plain.fit(X[rare], y[rare])
    fair.fit(X[rare], y[rare])
    assert np.mean(fair.predict(X)[y == 1]) > np.mean(plain.predict(X)[y == 1])


def test_probabilities(digits):
    X, y = digits[0][:500], digits[1][:500]
    for rows, method in ((y < 2, "isotonic"), (y >= 0, "sigmoid")):
        model = BudgetedClassifier(budget=30, calibrate=method, random_state=0)
        table = model.fit(X[rows], y[rows]).predict_proba(X[rows])
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        assert np.mean(model.classes_[table.argmax(axis=1)] == y[rows]) > 0.9
    assert not hasattr(BudgetedClassifier(), "predict_proba")


def test_callbacks_are_told_and_may_stop(circles, capsys):
    told = []
    model = BudgetedClassifier(
        verbose=1, callbacks=[lambda event: told.append(event) or event.passes == 2]
    ).fit(*circles)
    assert [event.passes for event in told] == [1, 2]
    assert (model.status_.name, model.n_iter_) == ("INTERRUPTED", 2)
    assert "support vectors" in capsys.readouterr().out


def test_nested_parameters():
    model = BudgetedClassifier(RBF(2.0)).set_params(kernel__gamma=3.0, budget=7)
    assert (model.kernel.gamma, model.budget) == (3.0, 7)
    assert model.get_params()["kernel__gamma"] == 3.0
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(kernel__width=1.0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(loss__delta=1.0)


@pytest.mark.parametrize("loss", ["least_squares", "epsilon_insensitive"])
def test_regression(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(600, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + 100.0
    model = BudgetedRegressor(loss, budget=100, max_iter=20, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    stream = BudgetedRegressor(loss, budget=100, random_state=0)
    for _ in range(5):
        stream.partial_fit(X, y)
    assert stream.score(X, y) > 0.7


def test_regression_refuses_a_classification_loss():
    with pytest.raises(ValueError, match="not for regression"):
        BudgetedRegressor("hinge").fit([[1.0]], [1.0])


def test_classical_pegasos_is_an_option(circles):
    model = BudgetedClassifier(eta0=math.inf, average=False, order="sequential", budget=500)
    assert model.fit(*circles).score(*circles) > 0.9
    other = replace(learner().solver, eta0=math.inf)
    assert 1.0 / other.eta0 == 0.0
