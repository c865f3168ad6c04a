"""Classes and none of them: against a conic solver, the printed system, a plain loop, LIBSVM."""

import pickle

import clarabel
import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import OneClassSVM

from thresher import NoveltyClassifier, TunedClassifier, load_model, save_model
from thresher._outliers import outlier_label
from thresher._rows import as_rows
from thresher.functions import Rejecting
from thresher.kernels import RBF
from thresher.kernels.columns import KernelColumns
from thresher.kernels.gram import gram
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.search import CRITERIA
from thresher.solvers import Problem, driver
from thresher.solvers.machines import KernelDual
from thresher.solvers.novelty import (
    READINGS,
    coupling_inverse,
    exact_novelty,
    least_squares_novelty,
    signs_of,
)
from thresher.solvers.novelty_pegasos import NoveltyPegasos
from thresher.testing import check_solver

RNG = np.random.default_rng(0)
KERNEL = RBF(0.5)


def blobs(rows=40, seed=0, outliers=0, classes=3):
    rng = np.random.default_rng(seed)
    centres = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 2.5]])[:classes]
    X = np.concatenate([rng.normal(c, 0.5, size=(rows, 2)) for c in centres])
    Z = rng.uniform(-7, 7, size=(3 * outliers, 2))
    away = np.linalg.norm(Z[:, None] - centres, axis=2).min(axis=1) > 2.0
    Z = Z[away][:outliers]
    y = np.concatenate([np.repeat(np.arange(classes), rows), np.full(Z.shape[0], -1)])
    return np.concatenate([X, Z]), y


X, CODES = blobs(outliers=8)
K = gram(KERNEL, X)


# ---------------------------------------------------------------- the quadratic program


def conic(K, codes, C, gamma, classes, reading):
    """Coefficients of the functions and rho by an interior point, from the printed dual."""
    n, y = codes.size, signs_of(codes, classes).T.ravel()
    inverse = np.linalg.inv((gamma - 1.0) * np.eye(classes) + 1.0)
    Q = np.kron(inverse, K) * np.outer(y, y)
    sums = np.kron(np.eye(classes), np.ones(n)) * (1.0 if reading == "margin" else y)
    A = sparse.vstack([sparse.csr_matrix(sums), sparse.eye(y.size), -sparse.eye(y.size)], "csc")
    b = np.concatenate([np.ones(classes), np.repeat(C, n), np.zeros(y.size)])
    cones = [clarabel.ZeroConeT(classes), clarabel.NonnegativeConeT(2 * y.size)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    Q = sparse.csc_matrix(np.triu(Q))
    found = clarabel.DefaultSolver(Q, np.zeros(y.size), A, b, cones, settings).solve()
    coef = inverse @ (np.array(found.x) * y).reshape(classes, n)
    return coef, -np.array(found.z[:classes])


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("gamma", "classes"), [(1.3, 3), (4.0, 2), (2.0, 1)])
def test_the_program_is_that_of_an_interior_point(reading, gamma, classes):
    rows = classes > CODES
    codes, kernel = CODES[rows], K[np.ix_(rows, rows)]
    C = np.linspace(0.08, 0.12, classes)  # each class may have its own
    columns = KernelColumns(KERNEL, X[rows], np.float64)
    weight = np.ones(codes.size)
    found = exact_novelty(KernelDual(1e-6), columns, codes, weight, C, gamma, reading)
    coef, rho = conic(kernel, codes, C, gamma, classes, reading)
    scores = kernel @ coef.T - rho
    size = np.abs(scores).max()
    np.testing.assert_allclose(kernel @ found.coef.T - found.rho, scores, atol=2e-4 * size)
    np.testing.assert_allclose(found.scores, scores, atol=2e-4 * size)
    np.testing.assert_allclose(found.rho, rho, atol=2e-4 * size)
    products = coef @ kernel @ coef.T
    np.testing.assert_allclose(found.products, products, atol=1e-3 * np.abs(products).max())


def test_the_inverse_of_the_coupling_and_when_it_is_convex():
    for gamma, classes in ((1.01, 5), (1.7, 3), (50.0, 2), (2.0, 1)):
        M = (gamma - 1.0) * np.eye(classes) + 1.0
        np.testing.assert_allclose(coupling_inverse(gamma, classes) @ M, np.eye(classes), atol=1e-9)
        eta, mu = gamma + classes - 2.0, (gamma + classes - 1.0) * (gamma - 1.0)
        assert coupling_inverse(gamma, classes)[0, 0] == pytest.approx(eta / mu)
        least, most = gamma - 1.0, gamma - 1.0 + classes
        assert np.linalg.eigvalsh(M)[[0, -1]] == pytest.approx([min(least, most) if classes > 1
                                                                else most, most])  # fmt: skip


def test_the_binary_form_with_corrected_labels():
    """Multipliers alpha for y and lambda for -y: w2 = -w1 with the margin's reading."""
    rows = (CODES == 0) | (CODES == 1)
    model = NoveltyClassifier("exact", reading="margin", C=0.1, gamma=0.5, false_alarms=None,
                              tol=1e-6, coupling=1.5).fit(X[rows], CODES[rows])  # fmt: skip
    y = np.where(CODES[rows] == 0, 1.0, -1.0)
    G = K[np.ix_(rows, rows)] * np.outer(y, y)
    # max (mu1 / 2)(a'Ga + l'Gl) - mu2 a'Gl with mu = gamma, 1 over 1 - gamma^2: the second set has
    # -y, which leaves G and turns the sign of the last term.
    n, gamma = y.size, 1.5
    mu1, mu2 = gamma / (1 - gamma**2), 1 / (1 - gamma**2)
    Q = -np.block([[mu1 * G, mu2 * G], [mu2 * G, mu1 * G]])
    sums = np.kron(np.eye(2), np.ones(n))
    A = sparse.vstack([sparse.csr_matrix(sums), sparse.eye(2 * n), -sparse.eye(2 * n)], "csc")
    b = np.concatenate([np.ones(2), np.full(2 * n, 0.1), np.zeros(2 * n)])
    cones = [clarabel.ZeroConeT(2), clarabel.NonnegativeConeT(4 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    Q = sparse.csc_matrix(np.triu(Q))
    z = np.array(clarabel.DefaultSolver(Q, np.zeros(2 * n), A, b, cones, settings).solve().x)
    v1, v2 = z[:n] * y, -z[n:] * y
    w1 = (gamma * v1 - v2) / (gamma**2 - 1)
    expected = K[np.ix_(rows, rows)] @ w1
    scores = model.decision_function(X[rows]) + model.rho_
    np.testing.assert_allclose(scores[:, 0], expected, atol=1e-3 * np.abs(expected).max())
    np.testing.assert_allclose(scores[:, 1], -scores[:, 0], atol=1e-3 * np.abs(expected).max())
    assert model.cosines_[0, 1] == pytest.approx(-1.0, abs=1e-4)


def cosine(reading, coupling):
    rows = (CODES == 0) | (CODES == 1)
    model = NoveltyClassifier("exact", reading=reading, coupling=coupling, false_alarms=None)
    return model.fit(X[rows], CODES[rows]).cosines_[0, 1]


def test_the_coupling_steers_the_angle_in_one_reading_and_not_in_the_other():
    assert cosine("boundary", 1.1) < -0.9 < cosine("boundary", 2.0) < cosine("boundary", 100.0)
    assert cosine("boundary", 100.0) > -0.4
    assert cosine("margin", 1.1) == pytest.approx(-1.0, abs=1e-3)
    assert cosine("margin", 100.0) == pytest.approx(-1.0, abs=1e-3)


def test_norms_and_angles_are_those_of_the_normals():
    model = NoveltyClassifier("exact", gamma=0.5, tol=1e-5).fit(X, CODES)
    function = model.function_.function
    G = function.coef @ gram(KERNEL, function.vectors) @ function.coef.T
    np.testing.assert_allclose(model.norms_, np.sqrt(np.diag(G)), rtol=1e-3)
    expected = G / np.outer(model.norms_, model.norms_)
    np.testing.assert_allclose(model.cosines_, expected, atol=2e-3)


def test_one_class_is_the_one_class_machine():
    T = RNG.uniform(-4, 4, size=(300, 2))
    peer = OneClassSVM(nu=0.2, gamma=0.5, tol=1e-6).fit(X)
    for reading in READINGS:
        ours = NoveltyClassifier("exact", reading=reading, nu=0.2, gamma=0.5, false_alarms=None,
                                 tol=1e-5, coupling=3.0).fit(X)  # fmt: skip
        np.testing.assert_array_equal(ours.predict(T), peer.predict(T))
        # In units of the sum of the multipliers, and of the coupling.
        factor = 1.0 / (3.0 * 0.2 * X.shape[0])
        np.testing.assert_allclose(
            ours.decision_function(T), factor * peer.decision_function(T), atol=1e-5
        )
        np.testing.assert_array_equal(ours.score_samples(T), ours.decision_function(T))


def test_weights_are_repetitions():
    weight = 1.0 + (np.arange(CODES.size) % 3 == 0)
    twice = np.repeat(np.arange(CODES.size), weight.astype(int))
    for algorithm in ("exact", "least_squares"):
        model = NoveltyClassifier(algorithm, gamma=0.5, tol=1e-6, outlier_label=-1,
                                  false_alarms=None)  # fmt: skip
        a = model.fit(X, CODES, sample_weight=weight).decision_function(X)
        b = model.fit(X[twice], CODES[twice]).decision_function(X)
        np.testing.assert_allclose(a, b, atol=1e-3 * np.abs(b).max())


# ---------------------------------------------------------------- least squares


def printed_system(K, Y, ridge, gamma):
    """The linear system of the thesis, block by block; coefficients of the functions and rho."""
    n, c = Y.shape
    eta, mu = gamma + c - 2.0, (gamma + c - 1.0) * (gamma - 1.0)
    A, b = np.zeros((c + n * c, c + n * c)), np.zeros(c + n * c)
    b[:c] = 1.0
    for j in range(c):
        mine = slice(c + j * n, c + (j + 1) * n)
        A[j, mine] = A[mine, j] = 1.0
        for p in range(c):
            G = K * np.outer(Y[:, j], Y[:, p])
            other = slice(c + p * n, c + (p + 1) * n)
            A[mine, other] = -(eta / mu) * G - np.diag(ridge) if j == p else G / mu
    z = np.linalg.solve(A, b)
    V = z[c:].reshape(c, n) * Y.T
    return (eta * V - (V.sum(axis=0) - V)) / mu, z[:c]


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_least_squares_solves_the_printed_system_and_leaves_rows_out(classes):
    rows = np.flatnonzero(classes > CODES)[::2]
    codes, kernel = CODES[rows], K[np.ix_(rows, rows)]
    weight = RNG.uniform(0.5, 2.0, rows.size)
    found = least_squares_novelty(kernel.copy(), codes, weight, 3.0, classes, 1.7)
    Y, ridge = signs_of(codes, classes), 1.0 / (3.0 * weight)
    coef, rho = printed_system(kernel, Y, ridge, 1.7)
    np.testing.assert_allclose(found.coef, coef, atol=1e-10)
    np.testing.assert_allclose(found.rho, rho, atol=1e-10)
    np.testing.assert_allclose(found.scores, kernel @ coef.T - rho, atol=1e-10)
    np.testing.assert_allclose(found.products, coef @ kernel @ coef.T, atol=1e-10)
    for i in (0, 5, rows.size - 1):
        rest = np.delete(np.arange(rows.size), i)
        coef, rho = printed_system(kernel[np.ix_(rest, rest)], Y[rest], ridge[rest], 1.7)
        np.testing.assert_allclose(found.left_out[i], coef @ kernel[rest, i] - rho, atol=1e-10)


# ---------------------------------------------------------------- stochastic steps


def plain_steps(X, y, classes, solver, problem, passes):
    """Algorithm 1 as it is written, with all weights in one table; the last iterate, the mean."""
    Z, n, lam = np.c_[X, np.ones(len(X))], len(X), problem.ridge
    W, mean, total, t = np.zeros((classes, Z.shape[1])), 0.0, 0.0, 0
    modulus, delay = solver.rates(problem)
    for _ in range(passes):
        for first in range(0, n, solver.batch):
            part = slice(first, first + solver.batch)
            t += 1
            eta = 1.0 / (lam * modulus * (t + delay))
            signs = signs_of(y[part], classes)
            active = signs * (Z[part] @ W.T) < 1.0
            pull = (signs * active).T @ Z[part] / len(Z[part])
            W = W - eta * (lam * ((solver.gamma - 1.0) * W + W.sum(axis=0)) - pull)
            W = W * min(1.0, solver.ball(problem) / np.linalg.norm(W))
            mean, total = mean + t * W, total + t
    return W, mean / total


@pytest.mark.parametrize(
    "solver",
    [
        NoveltyPegasos(1.5, batch=4), NoveltyPegasos(2.5, "published", False, False, batch=4),
        NoveltyPegasos(3.0, None, first=0.2, batch=4),
    ],
)  # fmt: skip
def test_steps_are_those_of_a_plain_loop(solver):
    problem = Problem(Hinge(), L2(0.1), 2, outputs=3)
    chunk = driver.whole(as_rows(X), CODES.astype(float))
    state = solver.init(problem)
    for _ in range(3):
        state = solver.update(problem, state, chunk)
    found = solver.finish(problem, state)
    W = plain_steps(X, CODES, 3, solver, problem, 3)[1 if solver.average else 0]
    np.testing.assert_allclose(found.coef, W[:, :-1], atol=1e-7)
    np.testing.assert_allclose(found.intercept, W[:, -1], atol=1e-7)


def test_the_corrected_ball_holds_the_optimum_and_the_published_one_cuts_it_off():
    """One row x = 1 of the first of two classes, lambda = 1, gamma = 1.2: optimum (1, -1)."""
    chunk = driver.whole(as_rows(np.ones((1, 1))), np.zeros(1))
    problem = Problem(Hinge(), L2(1.0), 1, outputs=2)
    plan = driver.Plan(3000, "sequential")
    ends = {}
    for radius in ("corrected", "published"):
        solver = NoveltyPegasos(1.2, radius, constant=0.0)
        ends[radius] = driver.learn(solver, problem, chunk, plan).coef.ravel()
    np.testing.assert_allclose(ends["corrected"], [1.0, -1.0], atol=0.02)
    assert NoveltyPegasos(1.2, "published").ball(problem) == pytest.approx(0.953, abs=1e-3)
    assert np.linalg.norm(ends["published"]) < 0.96


def test_it_reaches_the_optimum():
    """Of the same problem as a conic program."""
    problem = Problem(Hinge(), L2(0.05), 2, outputs=3)
    chunk = driver.whole(as_rows(X), CODES.astype(float))
    found = driver.learn(NoveltyPegasos(1.5), problem, chunk, driver.Plan(300)).function
    n, c, Z, Y = X.shape[0], 3, np.c_[X, np.ones(len(X))], signs_of(CODES, 3)
    M = 0.05 * (0.5 * np.eye(c) + 1.0)

    def cost(W):
        slack = np.maximum(0.0, 1.0 - Y * (Z @ W.T))
        return 0.5 * np.sum(M * (W @ W.T)) + slack.sum() / n

    # The dual: max 1'a - 1/2 v' (M^-1 x I) v, v_j = sum_i a_ij y_ij z_i, 0 <= a <= 1/n.
    y = Y.T.ravel()
    Q = np.kron(np.linalg.inv(M), Z @ Z.T) * np.outer(y, y)
    A = sparse.vstack([sparse.eye(n * c), -sparse.eye(n * c)], "csc")
    b = np.concatenate([np.full(n * c, 1.0 / n), np.zeros(n * c)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solved = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(Q)), -np.ones(n * c), A, b,
        [clarabel.NonnegativeConeT(2 * n * c)], settings,
    ).solve()  # fmt: skip
    best = -solved.obj_val
    reached = cost(np.c_[found.coef, found.intercept])
    assert best - 1e-6 <= reached <= best + 0.01 * abs(c - best)


@pytest.mark.parametrize(
    ("solver", "dtype"),
    [(NoveltyPegasos(), np.float64), (NoveltyPegasos(3.0, batch=3, average=False), np.float32)],
)
def test_it_keeps_the_protocol_of_solvers(solver, dtype):
    check_solver(solver, Hinge(), dtype=dtype)


@pytest.mark.parametrize("reading", ["boundary", "margin"])
def test_the_least_c_holds_in_the_folds_of_the_threshold_too(reading):
    """Folds have fewer rows: what the error asked for was refused again, with another number."""
    labels = np.arange(90) % 3
    rows = np.random.default_rng(0).normal(size=(90, 2)) + 3.0 * np.eye(3)[labels, :2]
    least = 1.0 / (30.0 if reading == "boundary" else 90.0)
    with pytest.raises(ValueError, match=f"{least:.6g} here"):
        NoveltyClassifier("exact", reading=reading, C=0.9 * least).fit(rows, labels)
    by_C = NoveltyClassifier("exact", reading=reading, C=10.0 * least).fit(rows, labels)
    by_nu = NoveltyClassifier("exact", reading=reading, nu=0.1).fit(rows, labels)
    assert by_C.threshold_ == pytest.approx(by_nu.threshold_, abs=1e-6)
    NoveltyClassifier("exact", reading=reading, C=least).fit(rows, labels)


def test_linear_steps_need_no_map():
    model = NoveltyClassifier("pegasos", map=None, outlier_label=-1, random_state=0).fit(X, CODES)
    assert model.cosines_.shape == (3, 3)
    assert set(model.dimensions(X, CODES)) == {"coupling", "alpha"}
    assert model.work({}, 100) == 100.0


@pytest.mark.parametrize("map", [None, "nystroem"])
def test_streams_leave_no_trace_of_their_cuts(map):
    order = np.random.default_rng(1).permutation(CODES.size)
    rows, labels = X[order], CODES[order]
    params = {"map": map, "alpha": 0.01, "random_state": 0, "outlier_label": -1}
    one = NoveltyClassifier("pegasos", **params)
    one.partial_fit(rows[:60], labels[:60], classes=[0, 1, 2]).partial_fit(rows[60:], labels[60:])
    many = NoveltyClassifier("pegasos", **params)
    many.partial_fit(rows[:60], labels[:60], classes=[0, 1, 2, -1])
    for start in range(60, CODES.size, 7):
        many = pickle.loads(pickle.dumps(many))
        many.partial_fit(rows[start : start + 7], labels[start : start + 7])
    rounding = 0.0 if map is None else 1e-9  # of matrix products of other shapes
    np.testing.assert_allclose(
        one.decision_function(X), many.decision_function(X), rtol=0.0, atol=rounding
    )
    assert one.algorithm_ == "pegasos"
    assert one.threshold_ == 0.0


# ---------------------------------------------------------------- the estimator


@pytest.mark.parametrize("algorithm", ["exact", "least_squares", "pegasos"])
def test_classes_are_told_apart_and_strangers_rejected(algorithm):
    train, test = blobs(60), blobs(60, seed=1, outliers=60)
    model = NoveltyClassifier(algorithm, random_state=0).fit(*train)
    known = test[1] >= 0
    found = model.predict(test[0])
    assert np.mean(found[known] != test[1][known]) < 0.2
    assert np.mean(found[~known] == -1) > 0.7
    assert np.mean(model.classify(test[0])[known] != test[1][known]) < 0.02
    assert model.outlier_label_ == -1
    assert model.decision_function(test[0]).shape == (test[0].shape[0], 3)
    np.testing.assert_array_equal(
        model.score_samples(test[0]), model.decision_function(test[0]).max(axis=1)
    )


def test_known_outliers_help():
    """By a label or by a table of their own, which is the same."""
    rng = np.random.default_rng(3)
    ring = rng.normal(size=(60, 2))
    ring *= 1.5 / np.linalg.norm(ring, axis=1, keepdims=True)
    inside = 0.3 * rng.normal(size=(60, 2))
    y = np.repeat(["in", "odd"], 60)
    model = NoveltyClassifier("exact", outlier_label="odd", false_alarms=None)
    model.fit(np.concatenate([inside, ring]), y)
    alone = NoveltyClassifier("exact", outlier_label="odd", false_alarms=None)
    alone.fit(inside, y[:60], outliers=ring)
    T = rng.uniform(-2, 2, size=(200, 2))
    np.testing.assert_array_equal(model.decision_function(T), alone.decision_function(T))
    far = 1.2 * ring
    assert np.mean(model.predict(far) == "odd") == 1.0
    assert model.classes_.tolist() == ["in"]
    assert model.outcomes_.tolist() == ["in", "odd"]


def test_the_threshold_keeps_its_promise():
    """In ten features and with few rows the published rule rejects most new rows."""
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(120, 10)), np.repeat([0, 1], 60)
    rows[60:, 0] += 4.0
    new = rng.normal(size=(2000, 10))
    new[1000:, 0] += 4.0
    for algorithm in ("exact", "least_squares"):
        published = NoveltyClassifier(algorithm, false_alarms=None).fit(rows, labels)
        ours = NoveltyClassifier(algorithm, false_alarms=0.1).fit(rows, labels)
        rejected = [np.mean(m.predict(new) == -1) for m in (published, ours)]
        assert rejected[0] > 0.25
        assert 0.02 < rejected[1] < 0.2 < rejected[0]
        np.testing.assert_array_equal(ours.classify(new), published.classify(new))
        shift = published.decision_function(new) - ours.decision_function(new)
        np.testing.assert_allclose(shift, ours.threshold_, atol=1e-9)


def test_labels_of_rows_of_no_class():
    assert outlier_label(np.array([0, 1])) == -1
    assert outlier_label(np.array([-1, 1])) == -2
    assert outlier_label(np.array([-3.5, 1.0])) == -5
    assert outlier_label(np.array(["a", "b"])) == "outlier"
    with pytest.raises(ValueError, match="like rows of no class"):
        outlier_label(np.array(["a", "outlier"]))
    with pytest.raises(ValueError, match="labels that are numbers"):
        outlier_label(np.array([0, 1]), "odd")
    model = NoveltyClassifier("least_squares").fit(X[:80], np.where(CODES[:80] == 0, -1, 1))
    assert model.outcomes_.tolist() == [-2, -1, 1]
    assert set(model.predict(X)) <= {-2, -1, 1}
    flags = NoveltyClassifier("least_squares").fit(X[:80], CODES[:80] == 0)
    assert set(flags.predict(X).tolist()) <= {-1, 0, 1}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"coupling": 1.0}, "coupling .* larger than 1"),
        ({"coupling": 0.5}, "not convex"),
        ({"nu": 0.0}, r"nu must be a number in \(0, 1\]"),
        ({"nu": None}, r"nu must be a number in \(0, 1\]"),
        ({"false_alarms": 1.0}, "false_alarms"),
        ({"algorithm": "fast"}, "algorithm must be one of"),
        ({"reading": "A"}, "reading must be one of 'margin', 'boundary'"),
        ({"C": 0.01, "reading": "boundary"}, "at least 1 over the rows of class 0, 0.025 here"),
        ({"C": 0.001, "reading": "margin"}, "at least 1 over all rows, 0.0083"),
        ({"radius": "large"}, "radius must be one of"),
        ({"outlier_label": "odd"}, "labels that are numbers"),
        ({"algorithm": "least_squares", "memory": 1000.0}, "raise memory to that"),
    ],
)
def test_what_cannot_work_is_said(params, message):
    with pytest.raises(ValueError, match=message):
        NoveltyClassifier(**{"algorithm": "exact", **params}).fit(X[:120], CODES[:120])


def test_rows_that_cannot_be_learned_from():
    with pytest.raises(ValueError, match="all rows are outliers"):
        NoveltyClassifier(outlier_label=3).fit(X[:10], np.full(10, 3))
    with pytest.raises(ValueError, match="features"):
        NoveltyClassifier().fit(X, CODES, outliers=np.zeros((3, 5)))
    with pytest.raises(AttributeError) as error:
        NoveltyClassifier("exact").partial_fit(X, CODES, classes=[0, 1, 2])
    assert "must see all rows" in str(error.value.__cause__)
    with pytest.raises(ValueError, match="not among the classes"):
        NoveltyClassifier().partial_fit(X, np.full(CODES.size, 7), classes=[0, 1])
    # A class of weight zero is as good as absent, and never right.
    weight = np.where(CODES == 1, 0.0, 1.0)
    for algorithm in ("exact", "least_squares"):
        model = NoveltyClassifier(algorithm).fit(X, CODES, sample_weight=weight)
        assert not np.any(model.classify(X) == 1)


def test_a_fit_that_is_stopped_leaves_a_model():
    events = []

    def stop(event):
        events.append(event)
        return True

    for algorithm in ("exact", "pegasos"):
        model = NoveltyClassifier(algorithm, callbacks=[stop], random_state=0)
        model.fit(X, CODES)
        assert model.status_.name == "INTERRUPTED"
        assert model.threshold_ == 0.0  # no folds after that
        assert set(model.predict(X)) <= {-2, -1, 0, 1, 2}
    assert len(events) == 2


def test_layouts_and_precisions_agree():
    dense = NoveltyClassifier("exact", gamma=0.5, tol=1e-5).fit(X, CODES)
    for rows in (sparse.csr_matrix(X), X.astype(np.float32)):
        other = NoveltyClassifier("exact", gamma=0.5, tol=1e-5).fit(rows, CODES)
        np.testing.assert_allclose(
            other.decision_function(rows), dense.decision_function(X), atol=1e-4
        )


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("algorithm", ["exact", "pegasos"])
def test_files_and_onnx_give_the_same(algorithm, tmp_path):
    import onnxruntime

    from thresher.artifacts.onnx_graph import write_onnx

    model = NoveltyClassifier(algorithm, outlier_label=1, scale=True, random_state=0)
    model.fit(X, CODES)  # the label in the middle: its scores stand between the others'
    save_model(model, tmp_path / "m.thresher")
    loaded = load_model(tmp_path / "m.thresher")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    again = loaded.estimator
    for name in ("norms_", "cosines_", "rho_", "threshold_", "outlier_label_", "algorithm_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert loaded.schema.target.outlier == 1
    write_onnx(tmp_path / "m.onnx", model.function_, model.outcomes_)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    label, scores = session.run(["label", "scores"], {"X": X})
    np.testing.assert_array_equal(label, model.predict(X))
    np.testing.assert_allclose(scores, model.function_.scores(X), atol=1e-6)


def test_a_damaged_function_is_refused():
    model = NoveltyClassifier("least_squares").fit(X, CODES)
    inner = model.function_.function
    for place in (-1, 5, "0"):
        with pytest.raises(ValueError, match="place"):
            Rejecting(inner, place).check()
    with pytest.raises(ValueError, match="no function"):
        Rejecting(("a",), 0).check()
    model.function_ = Rejecting(inner, 2)
    with pytest.raises(ValueError, match="another place"):
        model.check_targets()
    model.function_ = inner
    with pytest.raises(ValueError, match="no output for rows of no class"):
        model.check_targets()


# ---------------------------------------------------------------- tuning


def test_criteria():
    model = NoveltyClassifier("least_squares", outlier_label=-1).fit(X, CODES)
    found, known = model.predict(X), CODES >= 0
    wrong = [np.mean(found[part] != CODES[part]) for part in (known, ~known)]
    assert CRITERIA["novelty"](model, X, CODES) == pytest.approx(np.mean(wrong))
    assert CRITERIA["novelty"](model, X[known], CODES[known]) == pytest.approx(wrong[0])
    classes = np.mean(model.classify(X[known]) != CODES[known])
    assert CRITERIA["class_error"](model, X, CODES) == pytest.approx(classes)
    scores = model.score_samples(X)
    area = np.mean(scores[known][:, None] > scores[~known])
    assert CRITERIA["novelty_auc"](model, X, CODES) == pytest.approx(area, abs=1e-6)
    with pytest.raises(ValueError, match="known rows and outliers"):
        CRITERIA["novelty_auc"](model, X[known], CODES[known])
    with pytest.raises(ValueError, match="is for novelty"):
        TunedClassifier(criterion="novelty").fit(X, CODES)


@pytest.mark.parametrize(
    ("criterion", "outliers"), [("class_error", False), ("novelty", True), (None, False)]
)
def test_tuned_without_and_with_outliers(criterion, outliers):
    """Algorithms 2 and 3."""
    rows = np.arange(CODES.size) if outliers else np.flatnonzero(CODES >= 0)
    base = NoveltyClassifier("least_squares", outlier_label=-1)
    tuned = TunedClassifier(base, criterion=criterion, n_trials=4, cv=3, random_state=0)
    tuned.fit(X[rows], CODES[rows])
    assert {"coupling", "C", "gamma"} <= set(tuned.best_params_)
    assert tuned.best_score_ < 0.3
    assert np.mean(tuned.classify(X[:120]) != CODES[:120]) < 0.05
    assert tuned.score_samples(X).shape == CODES.shape


def test_one_class_is_tuned_too():
    tuned = TunedClassifier(NoveltyClassifier("exact"), n_trials=2, cv=3, random_state=0)
    tuned.fit(X[:40], np.ones(40, int))
    assert set(tuned.predict(X)) <= {-1, 1}
