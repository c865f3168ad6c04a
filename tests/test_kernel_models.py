"""Kernel models: the exact machine with all landmarks, peers on the same features, streams."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from thresher.estimators.budgeted import BudgetedClassifier
from thresher.estimators.kernel import KernelClassifier, KernelRegressor
from thresher.kernels import RBF, Kernel, Polynomial
from thresher.losses import Pinball
from thresher.maps import FourierFeatures, Nystroem, gram
from thresher.solvers import AveragedSGD, DualDescent, QuasiNewton, Status
from thresher.solvers.asset import ASSET

X, Y = make_moons(400, noise=0.2, random_state=0)
X3 = np.random.default_rng(0).uniform(-1, 1, (450, 2))
Y3 = np.array(["in", "mid", "out"])[np.digitize(np.linalg.norm(X3, axis=1), [0.45, 0.8])]
READY = AveragedSGD(eta0=0.5, every=16)


def test_parameters_of_a_map_that_is_a_name():
    named = KernelClassifier(map="forest", n_components=6, random_state=0)
    named.set_params(map__min_leaf=9)
    assert (named.map.n_components, named.map.min_leaf) == (6, 9)
    plain = KernelClassifier(map="forest", n_components=6, random_state=0)
    same = clone(plain).set_params(map__min_leaf=1).fit(X, Y)
    np.testing.assert_array_equal(same.coef_, plain.fit(X, Y).coef_)
    with pytest.raises(ValueError, match="map='magic' is unknown"):
        KernelClassifier(map="magic").set_params(map__power=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'power'"):
        KernelClassifier(map="forest").set_params(map__power=1.0)


# ---------------------------------------------------------------- against exact machines


def test_all_landmarks_are_the_exact_support_vector_machine():
    ours = KernelClassifier(
        "hinge", gamma=2.0, n_components=400, solver="smoothed_newton", tol=1e-7, alpha=1 / 400
    ).fit(X, Y)
    exact = SVC(C=1.0, gamma=2.0, tol=1e-6).fit(X, Y)
    difference = ours.decision_function(X) - exact.decision_function(X)
    assert np.abs(difference).max() < 0.01
    assert ours.score(X, Y) == pytest.approx(exact.score(X, Y), abs=0.003)


def test_least_squares_with_all_landmarks_is_the_dense_ls_svm():
    n, signs = len(Y), np.where(Y == 1, 1.0, -1.0)
    M = np.ones((n + 1, n + 1))
    M[0, 0] = 0.0
    M[1:, 1:] = gram(RBF(2.0), X) + np.eye(n)  # alpha = 1/n, so the ridge of the sum is one
    b, alpha = np.split(np.linalg.solve(M, np.append(0.0, signs)), [1])
    model = KernelClassifier("least_squares", gamma=2.0, n_components=n, alpha=1 / n).fit(X, Y)
    wanted = gram(RBF(2.0), X) @ alpha + b
    np.testing.assert_allclose(model.decision_function(X), wanted, atol=1e-4)
    # leave one out by the dual formula, alpha_i / (M^-1)_ii
    inverse = np.linalg.inv(M)
    left_out = signs - alpha / np.diag(inverse)[1:]
    assert model.loo_error_ == pytest.approx(np.mean(left_out * signs <= 0.0), abs=1e-12)


def test_regression_is_kernel_ridge_regression():
    x = np.linspace(-3, 3, 150)[:, None]
    y = np.sinc(x[:, 0])
    ours = KernelRegressor(gamma=2.0, n_components=150, alpha=0.01 / 150, fit_intercept=False)
    ours.fit(x, y)
    peer = KernelRidge(alpha=0.01, kernel="rbf", gamma=2.0).fit(x, y)
    np.testing.assert_allclose(ours.predict(x), peer.predict(x), atol=1e-5)
    assert 0.0 < ours.loo_error_ < 0.01
    robust = KernelRegressor("epsilon_insensitive", gamma=2.0, alpha=1e-5).fit(x, y)
    assert np.abs(robust.predict(x) - y).max() < 0.15


def test_llsvm_is_linear_svc_on_the_mapped_rows():
    features = Nystroem(40, gamma=2.0, random_state=7)
    ours = KernelClassifier(
        "hinge", map=features, solver="dcd", tol=1e-4, alpha=1 / (10 * 400), max_iter=50_000
    ).fit(X, Y)
    phi = clone(features).fit(X).transform(X)
    peer = LinearSVC(C=10.0, loss="hinge", tol=1e-6, max_iter=10**6, random_state=0).fit(phi, Y)
    np.testing.assert_allclose(
        ours.decision_function(X), peer.decision_function(phi), rtol=0.02, atol=0.02
    )
    digits, labels = load_digits(return_X_y=True)
    several = KernelClassifier("hinge", solver="dcd", n_components=150, random_state=0)
    assert several.fit(digits[::2], labels[::2]).score(digits[1::2], labels[1::2]) > 0.96


def test_asset_comes_close_to_the_optimum():
    common = {"loss": "hinge", "gamma": 2.0, "n_components": 40, "random_state": 0, "alpha": 1e-2}
    best = KernelClassifier(solver="smoothed_newton", tol=1e-6, **common).fit(X, Y)

    def objective(model):
        signs = np.where(Y == 1, 1.0, -1.0)
        loss = np.maximum(0.0, 1.0 - signs * model.decision_function(X)).mean()
        return loss + 0.5e-2 * float(np.sum(model.coef_**2))

    asset = KernelClassifier(solver="asset", max_iter=200, **common).fit(X, Y)
    assert objective(asset) < 1.01 * objective(best)
    star = KernelClassifier(
        solver=ASSET(star=True), fit_intercept=False, max_iter=200, **common
    ).fit(X, Y)
    assert objective(star) < 1.05 * objective(best)


@pytest.mark.parametrize("loss", ["hinge", Pinball(0.3)])
def test_fixed_size_pegasos(loss):
    model = KernelClassifier(
        loss, gamma=2.0, n_components="sqrt", landmarks="entropy", solver="pegasos", alpha=1e-2,
        random_state=0,
    )  # fmt: skip
    assert model.fit(X, Y).score(X, Y) > 0.93
    assert model.map_.landmarks_.shape[0] == 20


# ---------------------------------------------------------------- streams, blocks, layouts


@pytest.mark.parametrize("y", [Y, Y3], ids=["two", "three"])
def test_blocks_give_the_model_of_all_features_in_memory(y):
    data = X if y is Y else X3
    made = {
        "loss": "hinge",
        "gamma": 2.0,
        "n_components": 40,
        "solver": READY,
        "max_iter": 3,
        "random_state": 0,
    }
    whole = KernelClassifier(**made).fit(data, y)
    parts = KernelClassifier(**made, memory=1.0).fit(data, y)  # the least: 256 rows a block
    assert whole.n_iter_ == parts.n_iter_ == 3
    # the one who streams ends a pass with the steps of the same horizon
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-8, atol=1e-9)


def test_least_squares_in_blocks():
    made = {"loss": "least_squares", "gamma": 2.0, "n_components": 40, "random_state": 0}
    whole = KernelClassifier(**made).fit(X, Y)
    parts = KernelClassifier(**made, memory=1.0).fit(X, Y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, atol=1e-8)
    with pytest.raises(ValueError, match="features of all rows in memory, 400 x 40"):
        KernelClassifier(gamma=2.0, n_components=40, solver="dcd", memory=1.0).fit(X, Y)


def test_blocks_report_and_stop():
    seen = []
    model = KernelClassifier(
        n_components=40, solver=READY, max_iter=5, memory=1.0, random_state=0,
        callbacks=[lambda event: seen.append(event.passes) or event.passes == 2],
    ).fit(X, Y)  # fmt: skip
    assert seen == [1, 2]
    assert model.status_ is Status.INTERRUPTED
    with pytest.raises(ValueError, match="trace needs"):
        KernelClassifier(n_components=40, solver=READY, memory=1.0, trace=True).fit(X, Y)


@pytest.mark.parametrize("solver", [READY, "least_squares"])
def test_partial_fit_does_not_depend_on_the_cut_after_the_first_chunk(solver):
    loss = "hinge" if solver is READY else "least_squares"
    made = KernelClassifier(
        loss, landmarks=X[:30], gamma=2.0, solver=solver, alpha=1e-3, random_state=0
    )
    models = []
    for cuts in ([100], [100, 164, 300], [100, 292]):
        model = clone(made)
        for part in np.split(np.arange(400), cuts):
            model.partial_fit(X[part], Y[part], classes=[0, 1])
        models.append(model.decision_function(X))
    np.testing.assert_allclose(models[1], models[0], atol=1e-8)
    np.testing.assert_allclose(models[2], models[0], atol=1e-8)
    assert np.mean((models[0] > 0) == Y) > 0.85


@pytest.mark.parametrize("scale", [False, True])
def test_dense_equals_sparse(scale):
    made = KernelClassifier(n_components=50, random_state=0, scale=scale, fit_intercept=True)
    A = np.abs(np.hstack([X, X**2])) * 3.0
    if scale:  # sparse rows are scaled, not centred: a Gaussian does not see the difference
        made.set_params(gamma=0.3)
    dense, thin = clone(made).fit(A, Y), clone(made).fit(sparse.csr_array(A), Y)
    np.testing.assert_allclose(
        dense.decision_function(A), thin.decision_function(sparse.csr_array(A)), atol=1e-4
    )


def test_scaling_comes_before_the_map():
    A = X * np.array([1e-3, 50.0])
    ours = KernelClassifier(gamma=1.0, n_components=60, scale=True, random_state=0).fit(A, Y)
    units = StandardScaler().fit(A)
    peer = KernelClassifier(gamma=1.0, n_components=60, random_state=0).fit(units.transform(A), Y)
    np.testing.assert_allclose(
        ours.decision_function(A), peer.decision_function(units.transform(A)), atol=1e-6
    )


def test_scores_are_the_folded_expansion():
    model = KernelClassifier(gamma=2.0, n_components=40, random_state=0).fit(X3, Y3)
    assert model.dual_coef_.shape == (3, 40)
    K = gram(model.map_.kernel_, X3, model.map_.landmarks_)
    np.testing.assert_allclose(
        model.decision_function(X3), K @ model.dual_coef_.T + model.intercept_, atol=1e-8
    )
    np.testing.assert_allclose(
        model.map_.transform(X3) @ model.coef_.T + model.intercept_, model.decision_function(X3),
        atol=1e-5,
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X3), model.decision_function(X3))


# ---------------------------------------------------------------- composition


@dataclass(frozen=True)
class Cauchy(Kernel):
    gamma: float = 1.0

    def of(self, inner, sq_x, sq_z):
        return 1.0 / (1.0 + self.gamma * (sq_x + sq_z - 2.0 * inner))


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": Cauchy(2.0)},
        {"kernel": Polynomial(4)},
        {"kernel": "exponential"},
        {"map": FourierFeatures(200, gamma=2.0, random_state=0)},
        {"map": "fourier", "gamma": 2.0},
        {"landmarks": "margin"},
        {"landmarks": "kmeans", "loss": "logistic"},
        {"loss": "squared_hinge", "class_weight": "balanced"},
        {"early_stopping": True, "solver": "asgd", "max_iter": 50},
        {"calibrate": "sigmoid"},
    ],
    ids=lambda s: "-".join(s),
)
def test_untuned_combinations_learn(settings):
    settings = {"n_components": 60, "random_state": 0, "alpha": 1e-3, **settings}
    model = KernelClassifier(**settings).fit(X, Y)
    assert model.score(X, Y) > 0.9
    if hasattr(model, "predict_proba"):
        assert np.mean(model.predict_proba(X).argmax(axis=1) == Y) > 0.9


def test_a_foreign_transformer_as_map():
    from sklearn.kernel_approximation import RBFSampler

    model = KernelClassifier(map=RBFSampler(gamma=2.0, n_components=200, random_state=0))
    assert model.fit(X, Y).score(X, Y) > 0.93


def test_nested_parameters_and_search():
    model = KernelClassifier(map=Nystroem(20), kernel=Polynomial(2))
    model.set_params(map__n_components=30, kernel__degree=3, loss="logistic")
    assert model.get_params()["map__n_components"] == 30
    assert model.get_params()["kernel__degree"] == 3
    search = GridSearchCV(
        KernelClassifier(kernel=RBF(1.0), n_components=30, random_state=0),
        {"kernel__gamma": [1e-6, 2.0]}, cv=2,
    ).fit(X, Y)  # fmt: skip
    assert search.best_params_["kernel__gamma"] == 2.0


def test_bad_options():
    for wrong, error, message in (
        ({"map": "taylor"}, ValueError, "map='taylor' is unknown"),
        ({"map": 3}, TypeError, "or a transformer"),
        ({"memory": 0.0}, ValueError, "memory must be"),
        ({"kernel": "gauss"}, ValueError, "kernel='gauss' is unknown"),
        ({"solver": "least_squares"}, ValueError, "these do: least_squares"),
        ({"map": "fourier", "kernel": "cosine"}, ValueError, "takes any kernel"),
    ):
        with pytest.raises(error, match=message):
            KernelClassifier(**wrong).fit(X, Y)


def test_constant_and_repeated_rows():
    model = KernelClassifier(random_state=0).fit(np.ones((40, 3)), np.arange(40) % 4 == 0)
    assert not np.any(model.predict(np.ones((2, 3))))
    repeated = KernelClassifier(n_components=60, random_state=0)
    repeated.fit(np.repeat(X[:20], 10, axis=0), np.repeat(Y[:20], 10))
    assert repeated.score(X[:20], Y[:20]) > 0.9


def test_several_classes_are_learned_to_the_optimum():
    rows, halves = make_moons(6000, noise=0.2, random_state=0)
    labels = halves + 2 * (rows[:, 0] > 1.0)
    model = KernelClassifier(n_components=200, random_state=0)
    assert isinstance(clone(model).fit(rows, halves).solver_, AveragedSGD)  # two classes
    assert isinstance(clone(model).fit(rows, labels).solver_, QuasiNewton)
    hinge = KernelClassifier("hinge", n_components=200, random_state=0)
    assert isinstance(clone(hinge).fit(rows, labels).solver_, DualDescent)  # 30 rows a feature
    few = clone(hinge).set_params(n_components=150)
    assert isinstance(few.fit(rows, labels).solver_, AveragedSGD)
    # A number of passes is a plan for averaged SGD, and blocks of rows have no matrix.
    assert isinstance(clone(model).set_params(max_iter=3).fit(rows, labels).solver_, AveragedSGD)
    assert isinstance(clone(model).set_params(memory=1e5).fit(rows, labels).solver_, AveragedSGD)


@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier(n_components=20, scale=True, random_state=0),
        KernelClassifier(map="forest", n_components=5, scale=True, random_state=0),
        BudgetedClassifier(budget=20, scale=True, random_state=0),
    ],
)
def test_sparse_rows_of_a_model_that_centres_dense_ones(model):
    """Zeros that are not stored are shifted like all others."""
    rng = np.random.default_rng(0)
    rows = 3.0 + rng.normal(size=(200, 4)) * (rng.random((200, 4)) < 0.7)
    rows[rng.random((200, 4)) < 0.2] = 0.0
    model.fit(rows, rows[:, 0] > 2.5)
    dense, thin = model.decision_function(rows), model.decision_function(sparse.csr_matrix(rows))
    np.testing.assert_allclose(thin, dense, rtol=1e-6, atol=1e-6)
