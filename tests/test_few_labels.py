"""Few labels: every machine against the system it solves, written down whole."""

import warnings

import clarabel
import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import LinAlgWarning, cholesky
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning

from thresher import RBF, SemiSupervisedClassifier, SupportVectorClassifier
from thresher._seed import seed_from
from thresher.estimators.neighbours import neighbour_laplacian
from thresher.kernels.gram import gram
from thresher.solvers.deformed import FeatureSpace, GramSpace
from thresher.solvers.few_labels import Coupling, coupled_ridge, squared_hinge
from thresher.solvers.label_machines import METHODS

MOONS, HALVES = make_moons(300, noise=0.06, random_state=0)
BLOBS, GROUPS = make_blobs(90, centers=3, cluster_std=1.5, random_state=1)
RHO, GAMMA = 3.0, 0.3


def blanked(y, labels):
    """The first of every class keep their labels."""
    out = np.full(len(y), np.nan)
    for c in np.unique(y):
        first = np.flatnonzero(y == c)[:labels]
        out[first] = y[first]
    return out


def small(classes=2):
    """Rows, a kernel matrix, labels with blanks."""
    X, y = (MOONS[:60], HALVES[:60]) if classes == 2 else (BLOBS, GROUPS)
    return X, gram(RBF(1.0), X), blanked(y, 5)


def model(method="semi_ksc", **params):
    return SemiSupervisedClassifier(method, **{"gamma": 1.0, "C": RHO, "random_state": 0} | params)


def padded(few):
    """y* and G: signs, zero where there is no label; which rows have one."""
    known = ~np.isnan(few)
    return np.where(known, np.where(few == 1, 1.0, -1.0), 0.0), known.astype(float)


# ---------------------------------------------------------------- SemiKSC


@pytest.mark.parametrize("gamma", [0.0, 0.7, 1.7])  # the last beyond the convex ones
def test_semi_ksc_without_bias_is_its_published_system(gamma):
    X, K, few = small()
    y, G = padded(few)
    R = np.diag(gamma / K.sum(axis=1) - RHO * G)
    wanted = K @ np.linalg.solve(np.eye(60) - R @ K, RHO * y)
    found = model(unlabelled=gamma, bias="none").fit(X, few)
    np.testing.assert_allclose(found.decision_function(X), wanted, rtol=1e-6, atol=1e-7)


def test_semi_ksc_with_the_published_bias():
    X, K, few = small()
    y, G = padded(few)
    found = model(unlabelled=GAMMA, bias="published").fit(X, few)
    space = GramSpace(K.copy(), np.flatnonzero(G), np.ones(60))
    space.centre()
    gamma = GAMMA * space.limit()
    R = gamma / K.sum(axis=1) - RHO * G
    c = R.sum()
    M = np.eye(60) - np.outer(np.ones(60), R) / c
    alpha = np.linalg.solve(np.eye(60) - np.diag(R) @ M @ K, RHO * M.T @ y)
    b = -(R @ K @ alpha + RHO * y.sum()) / c
    np.testing.assert_allclose(found.decision_function(X), K @ alpha + b, rtol=1e-6, atol=1e-7)


def features(K):
    return cholesky(K + 1e-10 * np.eye(K.shape[0]), lower=True)


def test_a_free_bias_leaves_the_optimum_of_the_spread():
    """The gradient of half |w|^2 + rho/2 sum (e - y)^2 - gamma/2 sum (e - mean e)^2 / d is zero."""
    X, K, few = small()
    y, G = padded(few)
    d = K.sum(axis=1)
    space = GramSpace(K.copy(), np.flatnonzero(G), np.ones(60))
    space.centre()
    gamma = 0.9 * space.limit()
    Phi = np.column_stack([features(K), np.ones(60)])
    middle = np.eye(60) - np.outer(np.ones(60), 1.0 / d) / np.sum(1.0 / d)
    H = np.diag(np.append(np.ones(60), 0.0)) + RHO * Phi.T @ (G[:, None] * Phi)
    H -= gamma * (middle @ Phi).T @ ((middle @ Phi) / d[:, None])
    assert np.linalg.eigvalsh(H)[0] > 0.0  # a minimum
    wanted = Phi @ np.linalg.solve(H, RHO * Phi.T @ y)
    found = model(unlabelled=0.9).fit(X, few)
    np.testing.assert_allclose(found.decision_function(X), wanted, rtol=1e-4, atol=1e-4)


def test_the_limit_is_where_it_ceases_to_be_convex():
    _, K, few = small()
    space = GramSpace(K.copy(), np.flatnonzero(~np.isnan(few)), np.ones(60))
    assert space.limit() == pytest.approx(1.0)  # a function that is the same everywhere
    values = np.linalg.eigvals(K / K.sum(axis=1)[:, None])
    space.centre()
    second = np.sort(np.real(values))[-2]
    assert 1.0 < space.limit() <= (1.0 + 1e-9) / second  # eigenvalues interlace
    root = np.sqrt(space.shares)
    least = [
        np.linalg.eigvalsh(np.eye(60) - t * space.limit() * root * space.K * root[:, None])[0]
        for t in (0.999, 1.001)
    ]
    assert least[0] > 0.0 > least[1]


# ---------------------------------------------------------------- Bi-SemiKSC


@pytest.mark.parametrize("unlabelled", [0.5, 1.6])
def test_bi_semi_ksc_is_the_corrected_system(unlabelled):
    X, K, few = small()
    y, G = padded(few)
    found = model("bi_semi_ksc", unlabelled=unlabelled, bias="none", repulsion=1.5, tilt=0.4)
    found.fit(X, few)
    g1, (g4, g3) = 1.5, found.solver_.gammas(2, 1.0)
    g2, d = RHO * (g1 - 1.0), K.sum(axis=1)
    assert g4 == pytest.approx(0.4 * g3)
    R3, R4 = (np.diag(g / d - g2 * G) @ K for g in (g3, g4))
    g, eye = 1.0 / (1.0 - g1**2), np.eye(60)
    system = np.block([[eye + g1 * g * R3, -g * R3], [-g * R4, eye + g1 * g * R4]])
    alpha, lam = np.split(np.linalg.solve(system, g2 * np.concatenate([y, -y])), 2)
    f1, f2 = g * K @ (lam - g1 * alpha), g * K @ (alpha - g1 * lam)
    np.testing.assert_allclose(found.scores(X), np.column_stack([f2, f1]), rtol=1e-5, atol=1e-6)
    # ... and the gradient of the published objective is zero there.
    left = g1 * f1 + f2 + K @ (g2 * G * (f1 - y) - g3 * f1 / d)
    assert np.max(np.abs(left)) < 1e-8


def test_three_coupled_classes_solve_their_normal_equations():
    X, K, few = small(3)
    n, known = 90, ~np.isnan(few)
    found = model("bi_semi_ksc", unlabelled=0.8, bias="none", tilt=0.3).fit(X, few)
    g = found.solver_.gammas(3, 1.0)
    Phi, d = features(K), K.sum(axis=1)
    labelled, bound = Phi[known], RHO * (found.solver_.repulsion - 1.0)
    signs = np.where(few[known, None] == np.arange(3), 1.0, -1.0)
    A = Phi.T @ (Phi / d[:, None])
    own = [np.eye(n) * found.solver_.repulsion + bound * labelled.T @ labelled - s * A for s in g]
    H = np.block([[own[c] if c == e else np.eye(n) for e in range(3)] for c in range(3)])
    right = (bound * labelled.T @ signs).T.ravel()
    wanted = Phi @ np.linalg.solve(H, right).reshape(3, n).T
    np.testing.assert_allclose(found.scores(X), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", ["free", "none"])
def test_without_tilt_the_functions_are_those_of_semi_ksc(bias):
    X, _, few = small()
    one = model(bias=bias, unlabelled=0.8).fit(X, few).decision_function(X)
    two = model("bi_semi_ksc", bias=bias, unlabelled=0.8, tilt=1.0, repulsion=3.0).fit(X, few)
    np.testing.assert_allclose(two.scores(X), np.column_stack([-one, one]), rtol=1e-6, atol=1e-8)


def test_coupling_is_a_sum_of_kernels():
    """B (x) I - G (x) A is inverted by the sum over the gammas, for any A."""
    A = np.diag([0.1, 0.5, 0.9])
    coupling = Coupling.of(1.5, [0.2, 0.4])
    B, G = 0.5 * np.eye(2) + 1.0, np.diag([0.2, 0.4])
    direct = np.linalg.inv(np.kron(B, np.eye(3)) - np.kron(G, A))
    parts = zip(coupling.vectors.T, coupling.gammas, strict=True)
    summed = sum(np.kron(np.outer(u, u), np.linalg.inv(np.eye(3) - t * A)) for u, t in parts)
    np.testing.assert_allclose(summed, direct, atol=1e-12)
    y = np.array([[1.0, -1.0], [-1.0, 1.0]])
    kernels = [np.eye(2), 2.0 * np.eye(2)]
    fit = coupled_ridge(coupling, kernels, y, np.ones(2), None)
    assert fit.coef.shape == (2, 2, 2)


def test_rows_that_no_class_claims_are_rejected():
    X, y = make_moons(200, noise=0.06, random_state=0)
    far = np.array([[8.0, 8.0], [-9.0, 0.0]])
    few = np.where(np.isnan(blanked(y, 6)), "", np.where(y == 1, "up", "down"))
    params = {"gamma": 2.0, "bias": "none", "unlabelled": 0.5, "tilt": 0.5}
    found = model("bi_semi_ksc", reject="none", **params).fit(X, few)
    scores = found.scores(X)
    none = scores.max(axis=1) <= 0.0
    np.testing.assert_array_equal(found.predict(X) == "none", none)
    np.testing.assert_array_equal(found.transduction_, found.predict(X))
    assert found.predict(far).tolist() == ["none", "none"]  # out of reach of any label
    plain = model("bi_semi_ksc", **params).fit(X, few)
    assert set(plain.predict(far)) <= {"up", "down"}
    np.testing.assert_allclose(plain.decision_function(X), scores[:, 1] - scores[:, 0])


# ---------------------------------------------------------------- Laplacian machines


def lap_primal(K, L, strength, y, known, power):
    """Clarabel's optimum of the machine's objective over the coefficients of all rows."""
    n, m = K.shape[0], int(known.sum())
    Q = K + strength * K @ L @ K + 1e-9 * np.eye(n)
    slack = np.eye(m) * (RHO if power == 2 else 0.0)
    P = sparse.block_diag([Q, np.zeros((1, 1)), slack], format="csc")
    q = np.concatenate([np.zeros(n + 1), np.full(m, RHO if power == 1 else 0.0)])
    margin = np.column_stack([y[known, None] * K[known], y[known]])
    A = np.block([[-margin, -np.eye(m)], [np.zeros((m, n + 1)), -np.eye(m)]])
    b = np.concatenate([-np.ones(m), np.zeros(m)])
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.NonnegativeConeT(2 * m)]
    found = clarabel.DefaultSolver(
        sparse.triu(P, format="csc"), q, sparse.csc_array(A), b, cones, options
    ).solve()
    x = np.array(found.x)
    return K @ x[:n] + x[n], found.obj_val


@pytest.mark.parametrize(("method", "power"), [("lap_svm", 1), ("lap_svm_primal", 2)])
@pytest.mark.parametrize("near", [5, None])
def test_lap_svm_is_the_conic_optimum(method, power, near):
    X, K, few = small()
    y, known = padded(few)[0], ~np.isnan(few)
    d = K.sum(axis=1)
    L = (np.diag(d) - K) / d.sum() if near is None else neighbour_laplacian(X, near).toarray()
    wanted, value = lap_primal(K, L, 50.0, y, known, power)
    found = model(method, unlabelled=50.0, n_neighbors=near).fit(X, few)
    f = found.decision_function(X)
    np.testing.assert_allclose(f, wanted, atol=5e-3 if power == 1 else 1e-5)
    alpha = np.linalg.lstsq(K, f - found.function_.intercept[0], rcond=1e-12)[0]
    short = np.maximum(1.0 - y[known] * f[known], 0.0) ** power / power
    own = 0.5 * alpha @ K @ alpha + 0.5 * 50.0 * f @ L @ f + RHO * short.sum()
    assert own == pytest.approx(value, rel=1e-4)


def test_the_primal_meets_its_dual():
    """max sum a - half (ya)'(K + 1/C)(ya), a >= 0, y'a = 0."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 4))
    K, y = Z @ Z.T, np.where(rng.random(30) < 0.5, 1.0, -1.0)
    fit = squared_hinge(K, y[:, None], np.full(30, RHO))
    c, scores = fit.coef[0, :, 0], K @ fit.coef[0, :, 0]
    short = np.maximum(1.0 - y * (scores + fit.intercept[0]), 0.0)
    primal = 0.5 * c @ scores + 0.5 * RHO * np.sum(short**2)
    dual = np.sum(y * c) - 0.5 * c @ scores - 0.5 * np.sum(c**2) / RHO
    assert np.all(y * c >= -1e-12)
    assert c.sum() == pytest.approx(0.0, abs=1e-8)
    assert primal == pytest.approx(dual, rel=1e-9)
    best = minimize(
        lambda x: 0.5 * x[:4] @ x[:4]
        + 0.5 * RHO * np.sum(np.maximum(1.0 - y * (Z @ x[:4] + x[4]), 0.0) ** 2),
        np.zeros(5), tol=1e-12,
    )  # fmt: skip
    assert primal == pytest.approx(best.fun, rel=1e-6)


# ---------------------------------------------------------------- what does not change a model


def test_all_rows_labelled_is_the_supervised_machine():
    X, y = MOONS[:80], HALVES[:80]
    least = SupportVectorClassifier(RHO, gamma=1.0, loss="least_squares").fit(X, y)
    found = model(unlabelled=0.0).fit(X, y)
    np.testing.assert_allclose(found.decision_function(X), least.decision_function(X), atol=1e-8)
    svm = SupportVectorClassifier(RHO, gamma=1.0, tol=1e-5).fit(X, y)
    lap = model("lap_svm", unlabelled=0.0).fit(X, y)
    np.testing.assert_allclose(lap.decision_function(X), svm.decision_function(X), atol=1e-3)
    several = model(unlabelled=0.0).fit(BLOBS, GROUPS)
    one_each = SupportVectorClassifier(RHO, gamma=1.0, loss="least_squares", multiclass="ovr")
    wanted = one_each.fit(BLOBS, GROUPS).decision_function(BLOBS)
    np.testing.assert_allclose(several.decision_function(BLOBS), wanted, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("near", [5, None])
def test_all_rows_as_landmarks_are_exact(method, near):
    X, _, few = small(3)
    how = {"unlabelled": 0.6, "n_neighbors": near}
    exact = model(method, **how).fit(X, few)
    same = model(method, landmarks=X, **how).fit(X, few)
    np.testing.assert_allclose(same.scores(X), exact.scores(X), atol=2e-3)
    blocks = model(method, landmarks=X, memory=1.0, **how).fit(X, few)
    np.testing.assert_allclose(blocks.scores(X), same.scores(X), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_order_layout_and_names_do_not_matter(method):
    X, _, few = small(3)
    plain = model(method).fit(X, few)
    scores = plain.scores(X)
    order = np.random.default_rng(0).permutation(90)
    mixed = model(method).fit(X[order], few[order])
    np.testing.assert_allclose(mixed.scores(X), scores, atol=1e-3)
    thin = model(method).fit(sparse.csr_array(X), few)
    np.testing.assert_allclose(thin.scores(sparse.csr_array(X)), scores, atol=1e-3)
    words = np.array([None if np.isnan(v) else "abc"[int(v)] for v in few], dtype=object)
    named = model(method).fit(X, words)
    np.testing.assert_allclose(named.scores(X), scores, atol=1e-6)
    assert named.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(named.predict(X), named.classes_[plain.predict(X).astype(int)])


@pytest.mark.parametrize("method", ["semi_ksc", "bi_semi_ksc"])
@pytest.mark.parametrize("landmarks", [None, BLOBS[::3]])
def test_weights_are_repetitions(method, landmarks):
    X, _, few = small(3)
    times = np.random.default_rng(0).integers(0, 3, size=90)
    times[~np.isnan(few)] += 1
    how = {} if landmarks is None else {"landmarks": landmarks}
    weighted = model(method, **how).fit(X, few, sample_weight=times)
    repeated = model(method, **how).fit(np.repeat(X, times, axis=0), np.repeat(few, times))
    np.testing.assert_allclose(weighted.scores(X), repeated.scores(X), rtol=1e-5, atol=1e-6)


def test_rows_without_labels_help():
    few = blanked(HALVES[:250], 3)
    known = ~np.isnan(few)
    alone = SupportVectorClassifier(gamma=15.0).fit(MOONS[:250][known], few[known])
    for method in METHODS:
        found = model(method, gamma=15.0, unlabelled=None).fit(MOONS[:250], few)
        gain = found.score(MOONS[250:], HALVES[250:]) - alone.score(MOONS[250:], HALVES[250:])
        assert gain > 0.02, method
        np.testing.assert_array_equal(found.transduction_, found.predict(MOONS[:250]))


# ---------------------------------------------------------------- choosing by hidden labels


@pytest.mark.parametrize("method", METHODS)
def test_hidden_labels_are_those_of_rows_that_stay(method):
    """One factorisation for all folds gives what a fit for every fold does."""
    X, _, few = small(3)
    found = model(method, C="cv", unlabelled="cv", folds=3).fit(X, few)
    known = np.flatnonzero(~np.isnan(few))
    from sklearn.model_selection import StratifiedKFold

    folds = StratifiedKFold(3, shuffle=True, random_state=seed_from(0)).split(known, few[known])
    folds = list(folds)
    rows = found.cv_results_
    assert len(rows) == 5 * len(METHODS[method].strengths) == found.n_iter_
    for row in rows[7:13:3]:
        own, wrong = model(method, C=row["C"], unlabelled=row["unlabelled"]), 0
        for _, hidden in folds:
            shown = few.copy()
            shown[known[hidden]] = np.nan
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                told = clone(own).fit(X, shown).predict(X[known[hidden]])
            wrong += int(np.sum(told != few[known[hidden]]))
        assert row["error"] == pytest.approx(wrong / known.size)
    assert found.cv_error_ == min(row["error"] for row in rows)
    assert found.solver_.C in {row["C"] for row in rows}


def test_the_width_is_chosen_too_and_callbacks_stop():
    few, seen = blanked(HALVES, 6), []

    def stop(event):
        seen.append(event.passes)
        return len(seen) == 3

    found = model(gamma="cv", unlabelled="cv").fit(MOONS[:120], few[:120])
    assert len({row["gamma"] for row in found.cv_results_}) == 4
    assert (
        found.kernel_.gamma
        == min(found.cv_results_, key=lambda r: (r["error"], r["loss"]))["gamma"]
    )
    stopped = model(gamma="cv", unlabelled="cv", callbacks=[stop]).fit(MOONS[:120], few[:120])
    assert stopped.status_.name == "INTERRUPTED"
    assert seen == [1, 2, 3]
    assert stopped.score(MOONS, HALVES) > 0.6


@pytest.mark.parametrize("method", ["semi_ksc", "bi_semi_ksc"])
def test_probabilities_are_calibrated_on_hidden_labels(method):
    found = model(method, gamma=5.0, calibrate="sigmoid").fit(MOONS, blanked(HALVES, 20))
    p = found.predict_proba(MOONS)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(p.argmax(axis=1) == HALVES) > 0.9
    assert found.decoded(found.scores(MOONS))[2] is not None
    with pytest.raises(AttributeError, match="has no attribute"):
        model().predict_proba  # noqa: B018
    several = model(method, calibrate="isotonic").fit(BLOBS, blanked(GROUPS, 20))
    assert several.predict_proba(BLOBS).shape == (90, 3)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "magic"}, "method must be one of 'semi_ksc'"),
        ({"C": 0.0}, "C must be a positive number"),
        ({"C": "much"}, "C must be a positive number"),
        ({"C": None}, "C must be a positive number"),
        ({"unlabelled": -1.0}, "unlabelled must be a number of at least 0"),
        ({"gamma": "wide"}, "gamma must be a positive number"),
        ({"bias": "some"}, "bias must be one of 'free', 'published', 'none', None, got 'some'"),
        ({"method": "bi_semi_ksc", "repulsion": 1.0}, "repulsion must be a number above 1"),
        ({"method": "bi_semi_ksc", "tilt": 0.0}, "tilt must be a positive number"),
        ({"n_neighbors": 0}, "n_neighbors must be a whole number of at least 1"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"tol": 0.0, "method": "lap_svm"}, "tol must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"memory": 0}, "memory must be a positive number"),
        ({"n_components": "full", "memory": 1e3}, "needs 1,440,000 bytes for two kernel matrices"),
        ({"reject": "none"}, "reject='none' does not go with labels that are numbers"),
        ({"reject": 1}, "reject=1 is the label of a class"),
        ({"landmarks": "best"}, "landmarks='best' is unknown"),
        ({"kernel": "linear", "gamma": None}, "row .* has the degree -.*without negative values"),
    ],
)  # fmt: skip
def test_options_that_cannot_work(params, message):
    with pytest.raises(ValueError, match=message):
        model(**params).fit(MOONS - MOONS.mean(axis=0), blanked(HALVES, 5))


def test_none_is_a_word_for_no_bias():
    """A command line reads it as None."""
    named, meant = (model(bias=bias).fit(MOONS, blanked(HALVES, 5)) for bias in ("none", None))
    np.testing.assert_array_equal(named.scores(MOONS), meant.scores(MOONS))


@pytest.mark.parametrize("method", ["semi_ksc", "bi_semi_ksc", "lap_svm_primal"])
def test_tiny_losses_are_no_singular_system(method):
    """What is learned is C times the labels, and no warning of LAPACK's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", LinAlgWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = [
            model(method, C=C, bias="none", gamma=2.0).fit(MOONS, blanked(HALVES, 5)).scores(MOONS)
            for C in (1e-14, 1e-12)
        ]
    if method != "lap_svm_primal":  # which has a bias that costs nothing
        np.testing.assert_allclose(found[1], 100.0 * found[0], rtol=1e-4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.full(300, np.nan), "all rows are unlabelled"),
        ([None] * 300, "all rows are unlabelled"),
        ([""] * 300, "all rows are unlabelled"),
        (["a"] * 5 + [""] * 295, "at least two classes, but .* hold one class: 'a'"),
        (["a"] * 5 + ["b"] * 4, "inconsistent numbers of samples"),
        (np.linspace(0.1, 1.2, 300), "Unknown label type"),
    ],
)
def test_labels_that_cannot_be_learned_from(y, message):
    with pytest.raises(ValueError, match=message):
        model().fit(MOONS, y)


def test_too_few_labels_to_hide():
    y = np.full(300, "", dtype=object)
    y[:3] = ["a", "a", "b"]
    with pytest.raises(ValueError, match="two of every class, but class 'b' has one: give C"):
        model(C="cv").fit(MOONS, y)
    assert model().fit(MOONS, y).score(MOONS, np.where(HALVES[2] == HALVES, "b", "a")) > 0.5


@pytest.mark.parametrize("method", ["semi_ksc", "bi_semi_ksc"])
def test_no_answer_from_a_singular_system(method):
    with pytest.raises(ValueError, match="unlabelled lies where the problem ceases to be convex"):
        model(method=method, unlabelled=1.0).fit(MOONS, blanked(HALVES, 5))


@pytest.mark.parametrize("n_components", ["auto", 50])
def test_rows_that_are_like_no_other(n_components):
    few = blanked(HALVES, 5)
    with pytest.warns(ConvergenceWarning, match="rows are like no other .* wider kernel"):
        model(gamma=1e4, n_components=n_components).fit(MOONS, few)
    with pytest.raises(ValueError, match="every row is like no other"):
        model(gamma=1e12, n_components=n_components).fit(MOONS, few)
    lonely = np.concatenate([MOONS, [[1e3, 1e3]]])  # one is no news
    found = model(gamma=15.0, n_components=n_components).fit(lonely, np.append(few, np.nan))
    assert found.score(MOONS, HALVES) > 0.9


def test_every_row_like_no_other_on_landmarks():
    Z = np.eye(6)
    with pytest.raises(ValueError, match="every row is like no other"):
        FeatureSpace(lambda: [(slice(0, 6), Z)], Z[:2], np.ones(6))


def test_minus_one_where_every_row_has_a_label_is_doubted():
    X, y = make_blobs(40, centers=2, random_state=0)
    marked = np.where(np.arange(40) < 10, y, -1)
    with pytest.warns(UserWarning, match="-1 is a class like others"):
        SemiSupervisedClassifier(random_state=0).fit(X, marked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SemiSupervisedClassifier(random_state=0).fit(X, np.where(marked < 0, np.nan, y))
        SemiSupervisedClassifier(random_state=0).fit(X, 2 * y - 1)
        SemiSupervisedClassifier(random_state=0).fit(X, np.where(marked == 1, np.nan, marked))
    assert np.mean(model.predict(X) == y) > 0.9
