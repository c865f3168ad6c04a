"""The regressor against references; parameters, scaling, traces and orders of both estimators."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import Lasso, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVR

from conftest import FORMULAS, make_data
from thresher import Huber, LinearClassifier, LinearRegressor, Pinball, Status
from thresher.penalties import L1, L2, Box, ElasticNet
from thresher.solvers import FOBOS, RDA, AveragedSGD, DualDescent, Newton
from thresher.solvers.asgd import WINDOW

ALPHA = 0.05
READY = AveragedSGD(eta0=0.05, every=8)


@pytest.fixture(scope="module")
def data():
    return make_data(n=120, d=6, seed=4, regression=True)


@pytest.fixture(scope="module")
def labels():
    X, y = make_data(n=120, d=6, seed=3)
    flip = np.random.default_rng(0).uniform(size=y.size) < 0.1
    return X, np.where(flip, -y, y)


def same(a, b, **tolerance):
    np.testing.assert_allclose(a.coef_, b.coef_, **tolerance)
    np.testing.assert_allclose(a.intercept_, b.intercept_, **tolerance)


def identical(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


# ---------------------------------------------------------------- references


@pytest.mark.parametrize("bias", [True, False])
def test_least_squares_is_ridge(data, bias):
    X, y = data
    ours = LinearRegressor(alpha=ALPHA, fit_intercept=bias).fit(X, y)
    theirs = Ridge(alpha=y.size * ALPHA, fit_intercept=bias).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, rtol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6, atol=1e-9)


def test_dual_descent_agrees_with_ridge(data):
    X, y = data
    ours = LinearRegressor(
        solver="dcd", alpha=ALPHA, fit_intercept=False, tol=1e-12, max_iter=10**4
    )
    ours.fit(X, y)
    theirs = Ridge(alpha=y.size * ALPHA, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, rtol=1e-4, atol=1e-5)


def test_dual_descent_pulls_the_intercept_to_the_mean_target(data):
    """A constant feature beside targets less their mean; how far away they are changes nothing."""
    X, y = data
    mean, ones = y.mean(), np.ones((y.size, 1))
    theirs = Ridge(alpha=y.size * ALPHA, fit_intercept=False).fit(np.hstack([X, ones]), y - mean)
    for far in (0.0, 1e6):
        ours = LinearRegressor(solver="dcd", alpha=ALPHA, tol=1e-12, max_iter=10**4)
        ours.fit(X, y + far)
        found = np.append(ours.coef_[0], ours.intercept_ - mean - far)
        np.testing.assert_allclose(found, theirs.coef_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_support_vector_regression_agrees_with_liblinear(data, loss):
    X, y = data
    solver = DualDescent(origin=0.0)
    ours = LinearRegressor(loss, solver=solver, alpha=ALPHA, tol=1e-9, max_iter=20_000).fit(X, y)
    theirs = LinearSVR(
        C=1 / (y.size * ALPHA), loss=loss, epsilon=0.1, tol=1e-9, max_iter=10**6, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("delta", "far"), [(0.2, 0.0), (1.35, 0.0), (1.35, 20.0)])
def test_huber_optimum(data, delta, far):
    X, y = data[0], data[1] + far  # far: no target within delta of the first prediction

    def value(v):
        p = X @ v[:-1] + v[-1]
        return np.mean(FORMULAS["huber"](y, p, delta)) + ALPHA / 2 * v[:-1] @ v[:-1]

    start = np.append(np.zeros(6), far)
    best = minimize(value, start, method="BFGS", options={"gtol": 1e-8})
    model = LinearRegressor(Huber(delta), alpha=ALPHA).fit(X, y)
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best.x, atol=1e-5)


def test_l1_agrees_with_the_lasso(data):
    X, y = data
    theirs = Lasso(alpha=0.1, tol=1e-10, max_iter=10**5).fit(X, y)
    ours = LinearRegressor(
        penalty="l1", alpha=0.1, solver="fobos", max_iter=500, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=0.02)
    assert ours.density_ == np.count_nonzero(ours.coef_) / 6 < 1.0


def test_weights_are_repetitions_and_streams_are_chunks(data):
    X, y = data
    times = np.arange(y.size) % 3
    weighted = LinearRegressor("huber").fit(X, y, times)
    repeated = LinearRegressor("huber").fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    same(weighted, repeated, rtol=1e-6, atol=1e-8)
    whole = LinearRegressor(solver=READY).partial_fit(X, y)
    parts = LinearRegressor(solver=READY)
    for part in np.split(np.arange(y.size), [13, 77]):
        parts.partial_fit(X[part], y[part])
    assert identical(whole, parts)
    assert whole.penalty_ == L2(1e-5)
    assert not hasattr(LinearRegressor(solver="newton"), "partial_fit")


def test_early_stopping(data):
    X = np.random.default_rng(0).normal(size=(80, 40))
    events = []
    model = LinearRegressor(
        solver=READY, alpha=1e-6, max_iter=300, early_stopping=True, validation_fraction=0.3,
        random_state=0, callbacks=[events.append],
    ).fit(X, data[1][:80])  # fmt: skip
    losses = [event.held_out for event in events]
    assert model.status_ is Status.EARLY_STOPPED
    assert model.n_iter_ == int(np.argmin(losses)) + 1 + 3
    np.testing.assert_array_equal(model.coef_[0], events[int(np.argmin(losses))].coef)


# ---------------------------------------------------------------- attributes, orders and traces


def test_what_was_used_is_told(data):
    X, y = data
    model = LinearRegressor().fit(X, y)
    assert (model.status_, model.solver_) == (Status.CONVERGED, Newton())
    assert model.penalty_ == L2(1 / y.size)
    assert model.coef_.shape == (1, 6)
    assert model.intercept_.shape == (1,)
    assert model.density_ == 1.0
    completed = LinearRegressor(solver=READY, max_iter=3).fit(X, y)
    assert (completed.status_, completed.n_iter_) == (Status.COMPLETED, 3)


def test_seed_decides_everything_random(data):
    def fit(seed, order="shuffle"):
        return LinearRegressor(solver="asgd", random_state=seed, order=order).fit(*data)

    assert identical(fit(1), fit(1))
    assert identical(fit(1), fit(np.random.RandomState(1)))
    assert not identical(fit(1), fit(2))
    assert not identical(fit(1), fit(1, "sampled"))
    sequential = LinearRegressor(solver=READY, order="sequential")
    assert identical(clone(sequential).set_params(random_state=1).fit(*data), sequential.fit(*data))


@pytest.mark.parametrize("solver", ["asgd", "fobos", "rda"])
def test_steps_end_the_run(data, solver):
    events = []
    model = LinearRegressor(solver=solver, steps=150, max_iter=1, callbacks=[events.append])
    model.set_params(penalty="l2", random_state=0).fit(*data)
    assert [event.step for event in events] == [120, 150]
    assert model.n_iter_ == 2


@pytest.mark.parametrize(("solver", "alpha"), [("newton", 0.01), ("dcd", 0.01)])
def test_steps_of_batch_solvers_are_whole_passes(labels, solver, alpha):
    models = [
        LinearClassifier("logistic", solver=solver, alpha=alpha, tol=1e-15, random_state=0, **plan)
        for plan in ({"steps": 3}, {"max_iter": 3})
    ]
    for model in models:
        with pytest.warns(UserWarning, match="max_iter"):
            model.fit(*labels)
    same(*models, rtol=1e-12)


@pytest.mark.parametrize("solver", ["newton", "dcd", READY, FOBOS(batch=3), RDA(gamma=2.0)])
def test_a_trace_changes_nothing(labels, solver):
    options = {"penalty": "l2", "solver": solver, "alpha": 0.1, "random_state": 0}
    plain = LinearClassifier("logistic", **options).fit(*labels)
    traced = LinearClassifier("logistic", trace=True, **options).fit(*labels)
    assert not hasattr(plain, "trace_")
    same(plain, traced, rtol=1e-9, atol=1e-12)
    assert traced.n_iter_ == plain.n_iter_


def test_trace_of_newton_decreases(labels):
    X, y = labels
    model = LinearClassifier("logistic", solver="newton", alpha=0.01, trace=True).fit(X, y)
    records = model.trace_[0]
    values = [record.objective for record in records]
    assert all(b <= a + 1e-12 for a, b in pairwise(values))
    assert [record.passes for record in records] == sorted(record.passes for record in records)
    loss = np.mean(FORMULAS["logistic"](y, model.decision_function(X)))
    assert records[-1].mean_loss == pytest.approx(loss)
    assert values[-1] == pytest.approx(loss + 0.005 * np.sum(model.coef_**2))


@pytest.mark.parametrize("solver", ["fobos", "rda", "asgd"])
def test_trace_of_a_stochastic_run(labels, solver):
    X, y = labels
    penalty = "l2" if solver == "asgd" else "l1"
    model = LinearClassifier(
        "logistic", penalty=penalty, solver=solver, alpha=0.03, trace=True, random_state=0
    ).fit(X, y)
    records = model.trace_[0]
    pieces = -(-y.size // WINDOW) if solver == "asgd" else 20  # of each pass
    assert len(records) == pieces * model.n_iter_
    assert records[-1].nonzeros == np.count_nonzero(model.coef_)
    assert records[-1].step == y.size * model.n_iter_
    assert all(0.0 <= record.stability <= 1.0 for record in records)
    assert all(record.objective >= record.mean_loss > 0.0 for record in records)
    assert records[-1].objective < records[0].objective
    if solver != "asgd":  # which does not keep the loss it pays
        assert all(np.isfinite(record.regret) for record in records)


# ---------------------------------------------------------------- scale


@pytest.fixture(scope="module")
def units():
    """Columns of very different units, one constant and one all zero."""
    X, y = make_data(n=100, d=6, seed=5, regression=True)
    X = X * np.array([1e-3, 1.0, 50.0, 1.0, 1e3, 1.0])
    X[:, 1], X[:, 3] = 7.0, 0.0
    return X, y


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("bias", [True, False])
def test_scale_is_a_standard_scaler(units, storage, bias):
    X, y = units
    centred = storage == "dense" and bias
    pipeline = make_pipeline(
        StandardScaler(with_mean=centred), Ridge(alpha=y.size * ALPHA, fit_intercept=bias)
    ).fit(X, y)
    given = X.copy() if storage == "dense" else sparse.csr_array(X)
    model = LinearRegressor(scale=True, alpha=ALPHA, fit_intercept=bias).fit(given, y)
    np.testing.assert_allclose(model.predict(given), pipeline.predict(X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.coef_[0] * pipeline[0].scale_, pipeline[-1].coef_, rtol=1e-5, atol=1e-8
    )


def test_scale_counts_weights(units):
    X, y = units
    times = np.arange(y.size) % 3
    weighted = LinearRegressor(scale=True).fit(X, y, times)
    repeated = LinearRegressor(scale=True).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", ["newton", "dcd", "asgd"])
def test_input_is_never_modified(units, solver):
    X, y = units
    for given in (X.copy(), sparse.csr_array(X)):
        values = given if isinstance(given, np.ndarray) else given.data
        values.flags.writeable = False
        target = y.copy()
        model = LinearRegressor("huber", solver=solver, scale=True, random_state=0, tol=0.1)
        model.set_params(max_iter=500).fit(given, target)
        model.predict(given)
        assert np.array_equal(given if given is values else given.toarray(), X)
        assert np.array_equal(target, y)


# ---------------------------------------------------------------- parameters


def test_nested_parameters():
    model = LinearClassifier(Pinball(0.3), penalty=ElasticNet(0.1, 0.7), solver=RDA(gamma=2.0))
    params = model.get_params()
    assert (params["loss__tau"], params["penalty__l1_ratio"]) == (0.3, 0.7)
    assert params["solver__gamma"] == 2.0
    assert not any("__" in name for name in model.get_params(deep=False))
    first = model.loss
    model.set_params(loss__tau=0.9, penalty__strength=2.0, penalty__l1_ratio=0.0)
    assert (model.loss, model.penalty) == (Pinball(0.9), ElasticNet(2.0, 0.0))
    assert first == Pinball(0.3)
    assert model.set_params(loss="pinball", loss__tau=0.1).loss == Pinball(0.1)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"loss__sigma": 1},
            r"Invalid parameter 'sigma' for loss Pinball; valid ones are \['tau'\]",
        ),
        ({"colour": 1}, "Invalid parameter 'colour'"),
        ({"alpha__x": 1}, "only loss, penalty, solver have parameters of their own"),
        ({"solver__gamma": 1.0}, "name the solver whose gamma is to be set"),
        ({"loss__tau": 2.0}, r"tau must lie in \[0, 1\]"),
    ],
)
def test_wrong_nested_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(Pinball(0.3)).set_params(**params)


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
def test_grid_search_over_nested_parameters(labels):
    search = GridSearchCV(
        LinearClassifier(Pinball(), penalty=L1(0.01), solver=RDA(gamma=2.0), random_state=0),
        {"loss__tau": [0.0, 0.5], "penalty__strength": [0.01, 10.0], "solver__gamma": [1.0, 5.0]},
        cv=2,
    )
    with pytest.warns(UserWarning, match="all-zero"):
        search.fit(*labels)
    assert len(search.cv_results_["params"]) == 8
    assert search.best_params_["penalty__strength"] == 0.01
    best = search.best_estimator_
    assert best.loss == Pinball(search.best_params_["loss__tau"])
    assert best.solver.gamma == search.best_params_["solver__gamma"]


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ({"loss": "huber"}, {"loss": Huber()}),
        ({"penalty": "l2", "alpha": 0.3}, {"penalty": L2(0.3)}),
        ({"penalty": L2(0.1), "alpha": 3.0}, {"penalty": L2(0.30000000000000004)}),
        ({"solver": "dcd"}, {"solver": DualDescent()}),
    ],
)
def test_names_stand_for_objects(data, named, given):
    models = [LinearRegressor(random_state=0, **options).fit(*data) for options in (named, given)]
    assert identical(*models)


def test_alpha_multiplies_strength_only_where_there_is_one(data):
    model = LinearRegressor(penalty=Box(-0.1, 0.1), random_state=0).fit(*data)
    assert np.max(np.abs(model.coef_)) <= 0.1
    with pytest.raises(ValueError, match=r"alpha=0.5 scales a penalty's field 'strength'.*Box"):
        LinearRegressor(penalty=Box(), alpha=0.5).fit(*data)


def test_sparsify_keeps_predictions(data):
    X, y = data
    model = LinearRegressor(alpha=ALPHA).fit(X, y)
    wanted, coef = model.predict(X), model.coef_
    model.sparsify()
    assert sparse.issparse(model.coef_)
    np.testing.assert_allclose(model.predict(X), wanted)
    np.testing.assert_allclose(model.predict(sparse.csr_array(X)), wanted)
    assert np.array_equal(model.densify().coef_, coef)
