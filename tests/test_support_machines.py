"""Exact kernel machines as estimators: LIBSVM's models, options, weights, files, ends."""

import json
import re
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

import thresher
from thresher import (
    RBF,
    Linear,
    OneClassMachine,
    Polynomial,
    Sigmoid,
    SupportVectorClassifier,
    SupportVectorRegressor,
    load_model,
    open_data,
    save_model,
    train,
)
from thresher._clock import ending
from thresher.artifacts.onnx_graph import write_onnx
from thresher.cli import main
from thresher.estimators import support_fit
from thresher.estimators.base import StatusWarning
from thresher.solvers import Status, decomposition
from thresher.training import Training, run

RNG = np.random.default_rng(0)
X, Y = load_digits(return_X_y=True)
X = X / 16.0
TWO = Y % 2
IRIS = load_iris(return_X_y=True)
SICK, DISEASE = load_diabetes(return_X_y=True)
CLOSE = {"gamma": 0.05, "tol": 1e-4}


# ---------------------------------------------------------------- LIBSVM's models


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_two_classes(layout):
    ours = SupportVectorClassifier(5.0, **CLOSE).fit(layout(X[:600]), TWO[:600])
    theirs = SVC(C=5.0, **CLOSE).fit(X[:600], TWO[:600])
    assert ours.status_ is Status.CONVERGED
    assert ours.violation_ <= 1e-4
    expected = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(layout(X)), expected, atol=5e-4)
    assert abs(len(theirs.support_) - ours.support_vectors_.shape[0]) <= 3


def test_classes_and_samples_of_different_weight():
    weight = 1.0 + (np.arange(600) % 3)
    classes = {0: 0.5, 1: 2.0}
    ours = SupportVectorClassifier(1.0, class_weight=classes, **CLOSE)
    theirs = SVC(C=1.0, class_weight=classes, **CLOSE)
    for model in (ours, theirs):
        model.fit(X[:600], TWO[:600], sample_weight=weight)
    expected = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=5e-4)


def test_every_pair_of_classes():
    ours = SupportVectorClassifier(10.0, **CLOSE).fit(X[:900], Y[:900])
    theirs = SVC(C=10.0, break_ties=True, **CLOSE).fit(X[:900], Y[:900])
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    pairs = SVC(C=10.0, decision_function_shape="ovo", **CLOSE).fit(X[:900], Y[:900])
    expected = -pairs.decision_function(X)  # scikit-learn's speak for the first class
    np.testing.assert_allclose(ours.function_.duels(X), expected, atol=1e-3)
    assert ours.dual_coef_.shape == (9, ours.support_vectors_.shape[0])


def test_each_class_against_the_rest():
    ours = SupportVectorClassifier(10.0, multiclass="ovr", **CLOSE).fit(X[:600], Y[:600])
    for c in (0, 8):
        theirs = SVC(C=10.0, **CLOSE).fit(X[:600], Y[:600] == c)
        expected = theirs.decision_function(X)
        np.testing.assert_allclose(ours.decision_function(X)[:, c], expected, atol=1e-3)


@pytest.mark.parametrize("kernel", [("poly", Polynomial(3, 0.1, 1.0)), ("rbf", RBF(0.1))])
def test_nu_in_place_of_c(kernel):
    name, term = kernel
    ours = SupportVectorClassifier(nu=0.3, kernel=term, tol=1e-4).fit(X[:600], TWO[:600])
    theirs = NuSVC(nu=0.3, kernel=name, gamma=0.1, degree=3, coef0=1.0, tol=1e-5)
    theirs.fit(X[:600], TWO[:600])
    expected = theirs.decision_function(X)
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=5e-3)
    share = ours.support_vectors_.shape[0] / 600
    assert share >= 0.3


@pytest.mark.parametrize("nu", [None, 0.4])
def test_regression(nu):
    weight = 1.0 + (np.arange(442) % 2)
    ours = SupportVectorRegressor(50.0, 8.0, nu=nu, gamma=10.0, tol=1e-3)
    theirs = SVR(C=50.0, epsilon=8.0, gamma=10.0, tol=1e-3)
    if nu is not None:
        theirs = NuSVR(C=50.0, nu=nu, gamma=10.0, tol=1e-3)
    for model in (ours, theirs):
        model.fit(SICK, DISEASE, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(SICK), theirs.predict(SICK), atol=0.05)
    assert ours.status_ is Status.CONVERGED
    if nu is not None:
        outside = np.abs(ours.predict(SICK) - DISEASE) > ours.epsilon_ * 1.001
        assert np.average(outside, weights=weight) <= nu + 0.01


@pytest.mark.parametrize("weight", [None, 1.0 + np.arange(600) % 2])
def test_one_class(weight):
    ours = OneClassMachine(nu=0.2, gamma=0.05, tol=1e-4).fit(X[:600], sample_weight=weight)
    theirs = OneClassSVM(nu=0.2, gamma=0.05, tol=1e-4).fit(X[:600], sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(ours.offset_, theirs.offset_[0], rtol=1e-4)
    new = X[600:]  # support vectors lie on the boundary itself
    assert np.mean(ours.predict(new) == theirs.predict(new)) > 0.995
    np.testing.assert_allclose(ours.score_samples(X), ours.decision_function(X) + ours.offset_)
    with pytest.raises(ValueError, match=r"nu must be a number in \(0, 1\]"):
        OneClassMachine(nu=0.0).fit(X)


@pytest.mark.parametrize("rows", [1, 2, 200])
def test_one_class_of_fewer_rows_than_one_over_nu(rows):
    """The tolerance shrinks with the scores: any start was the solution before."""
    model = OneClassMachine(nu=1e-6, gamma=0.05).fit(X[:rows])
    assert model.status_ is Status.CONVERGED
    assert np.mean(model.predict(X[:rows]) == -1) <= 0.1  # rows on the boundary, to the tolerance
    scale = 1e6 / rows
    assert scale * model.decision_function(X[:rows]).min() >= -2e-3
    finer = OneClassMachine(nu=0.9 / rows, gamma=0.05, tol=1e-8).fit(X[:rows])
    np.testing.assert_allclose(
        scale * model.decision_function(X), finer.decision_function(X) / 0.9, atol=3e-3
    )


def test_rows_with_both_labels_are_no_better_than_a_constant():
    with pytest.warns(UserWarning, match="no better than a constant"):
        SupportVectorClassifier().fit(np.repeat(X[:20], 30, axis=0), np.tile([0, 1], 300))


def test_targets_that_overflow_are_refused():
    with pytest.raises(ValueError, match=r"y holds values up to .* too large to square"):
        SupportVectorRegressor().fit(SICK, 1e300 * DISEASE)


# ---------------------------------------------------------------- least squares


def test_least_squares_are_a_linear_system_with_left_out_rows_in_closed_form():
    x, y = SICK[:80], DISEASE[:80]
    model = SupportVectorRegressor(2.0, kernel=RBF(20.0), loss="least_squares").fit(x, y)
    middle = float(model.intercept_[0])
    ridge = KernelRidge(alpha=0.5, kernel="rbf", gamma=20.0).fit(x, y - middle)
    np.testing.assert_allclose(model.predict(SICK), ridge.predict(SICK) + middle, rtol=1e-6)
    assert abs(model.dual_coef_.sum()) < 1e-6 * np.abs(model.dual_coef_).sum()
    missed = []
    for i in range(80):
        rest = np.arange(80) != i
        fold = SupportVectorRegressor(2.0, kernel=RBF(20.0), loss="least_squares")
        missed.append(float(fold.fit(x[rest], y[rest]).predict(x[i : i + 1])[0] - y[i]))
    np.testing.assert_allclose(model.loo_error_, np.mean(np.square(missed)), rtol=1e-6)


def test_least_squares_of_classes():
    x, y = IRIS
    one = SupportVectorClassifier(loss="least_squares", multiclass="ovr", scale=True).fit(x, y)
    other = SupportVectorClassifier(loss="least_squares", scale=True).fit(x, y)
    assert one.score(x, y) > 0.95
    assert other.score(x, y) > 0.95
    assert 0.0 < one.loo_error_ < 0.1


# ---------------------------------------------------------------- defaults and options


def test_defaults_do_not_know_the_units_of_targets():
    scores = [
        SupportVectorRegressor(scale=True).fit(SICK, unit * DISEASE).score(SICK, unit * DISEASE)
        for unit in (1e-6, 1.0, 1e6)
    ]
    np.testing.assert_allclose(scores, scores[0], atol=1e-3)
    assert scores[0] > 0.6


def test_a_kernel_of_ones_own():
    from dataclasses import dataclass

    from thresher import Kernel

    @dataclass(frozen=True)
    class Cauchy(Kernel):
        gamma: float = 1.0
        traits = frozenset({"radial", "positive"})

        def of(self, inner, sq_x, sq_z):
            return 1.0 / (1.0 + self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))

    def cauchy(A, B):
        squares = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        return 1.0 / (1.0 + 0.5 * squares)

    x, y = IRIS
    y = y == 1
    ours = SupportVectorClassifier(2.0, kernel=Cauchy(0.5), tol=1e-4).fit(x, y)
    theirs = SVC(C=2.0, kernel=cauchy, tol=1e-4).fit(x, y)
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-3)


def test_probabilities_are_calibrated():
    model = SupportVectorClassifier(calibrate="sigmoid", **CLOSE).fit(X[:300], Y[:300])
    probabilities = model.predict_proba(X[300:600])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.mean(probabilities.argmax(axis=1) == Y[300:600]) > 0.8


def test_threads_do_not_matter_for_pairs():
    one, two = (SupportVectorClassifier(n_jobs=jobs, **CLOSE).fit(*IRIS) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_a_class_without_rows_is_never_right():
    x, codes = IRIS
    for multiclass in ("ovo", "ovr"):
        model = SupportVectorClassifier(multiclass=multiclass, scale=True)
        model.check_options()
        model.n_features_in_ = 4
        model.fit_codes(x, np.where(codes == 2, 3, codes), np.array([0, 1, 2, 3]))
        assert set(model.predict(x)) == {0, 1, 3}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"C": 0.0}, "C must be a positive number"),
        ({"nu": 1.5}, r"nu must be a number in \(0, 1\]"),
        ({"nu": 0.8}, r"nu=0.8 is too large .* at most 0\.5"),
        ({"memory": 100.0}, "memory=100 bytes cannot hold one kernel column of 40 rows"),
        ({"multiclass": "all"}, "multiclass must be one of 'ovo', 'ovr'"),
        ({"loss": "logistic"}, "loss must be one of 'hinge', 'least_squares'"),
        ({"nu": 0.1, "loss": "least_squares"}, "not for 'least_squares'"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_number_to_change(options, words):
    y = np.array([0] * 30 + [1] * 10)
    with pytest.raises(ValueError, match=words):
        SupportVectorClassifier(**options).fit(X[:40], y)


def test_nu_that_leaves_no_margin_is_refused():
    rows = np.repeat(X[:20], 2, axis=0)  # every row with both labels
    with pytest.raises(
        ValueError, match=r"nu=0.2 leaves no margin .* larger nu \(at most 1 here\)"
    ):
        SupportVectorClassifier(nu=0.2).fit(rows, np.tile([0, 1], 20))


def test_nu_below_any_margin_is_refused_and_not_refined_for_ever():
    """Here rounding of the kernel is more than the margin; a step further there was no end."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(240, 5)) * (rng.random((240, 5)) < 0.8)
    y = rows[:, 0] + rows[:, 1] ** 2 > 0.6
    steps = []
    model = SupportVectorClassifier(
        nu=0.3, kernel=Linear(), max_iter=300, callbacks=[lambda event: steps.append(event)]
    )
    with pytest.raises(ValueError, match="leaves no margin between the classes: give a larger nu"):
        model.fit(rows, y)
    assert len(steps) < 100


def test_least_squares_of_too_many_rows_say_what_to_do():
    many = np.zeros((20_000, 1))
    model = SupportVectorClassifier(loss="least_squares", kernel=RBF(1.0))
    with pytest.raises(ValueError, match=r"needs 3,200,000,000 bytes .* learner='kernel'"):
        model.fit(many, np.arange(20_000) % 2)


def test_an_indefinite_kernel_is_told():
    rows = RNG.normal(size=(200, 3))
    model = SupportVectorClassifier(kernel=Sigmoid(2.0, -1.0))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(rows, rows[:, 0] + rows[:, 1] ** 2 > 0.5)
    assert any("not positive definite" in str(warning.message) for warning in told)
    assert np.all(np.isfinite(model.decision_function(rows)))


def test_rows_without_information_say_so():
    with pytest.warns(ConvergenceWarning, match="no better than a constant"):
        SupportVectorClassifier(C=1e-6).fit(RNG.normal(size=(256, 3)), np.arange(256) % 4 == 0)


# ---------------------------------------------------------------- ends that somebody asks for


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
def test_a_callback_stops_a_fit_and_the_model_is_usable(multiclass):
    events = []

    def stop(event):
        events.append(event)
        return len(events) == 3

    model = SupportVectorClassifier(100.0, multiclass=multiclass, callbacks=[stop], **CLOSE)
    model.fit(X, Y)
    assert model.status_ is Status.INTERRUPTED
    assert len(events) == 3
    assert events[0].residual > 0.0
    assert np.all(np.isfinite(model.decision_function(X[:10])))


def test_the_clock_ends_a_fit():
    with ending(lambda: True):
        model = SupportVectorClassifier(**CLOSE).fit(X[:300], Y[:300])
    assert model.status_ is Status.OUT_OF_TIME
    assert model.predict(X[:5]).shape == (5,)


def test_rounding_that_hides_what_is_left_is_told_as_such(monkeypatch):
    """Single precision knows no such tolerance: stalled, not too few steps."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    monkeypatch.setattr(decomposition, "_STALLED", 5)
    monkeypatch.setattr(decomposition, "_ROUNDING", 1e-2)
    with pytest.warns(ConvergenceWarning, match="rounding.*scale=True.*loosen tol"):
        model = SupportVectorClassifier(C=1e6, tol=1e-12).fit(X, y)
    assert model.status_ is Status.STALLED
    assert model.violation_ > 1e-12


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_a_linear_kernel_that_creeps_names_the_linear_machine(task, monkeypatch):
    """Labels by chance and a large C; the machine that is named has no worse an objective."""
    monkeypatch.setattr(support_fit, "_MANY", 20)
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(60, 3)), rng.normal(size=60)
    y = (noise > 0).astype(int) if task == "classes" else noise
    machine = SupportVectorClassifier if task == "classes" else SupportVectorRegressor
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model = machine(C=1e4, kernel="linear", max_iter=60).fit(X, y)
    words = [str(w.message) for w in heard if "linear kernel" in str(w.message)]
    assert len(words) == 1
    made = re.search(r"Linear\w+\(.*?alpha=[^)]*\)", words[0]).group()
    linear = eval(made, {name: getattr(thresher, name) for name in thresher.__all__}).fit(X, y)

    def objective(scores, coef):
        if task == "classes":
            misses = np.maximum(0.0, 1.0 - (2 * y - 1) * scores)
        else:
            misses = np.maximum(0.0, np.abs(y - scores) - model.epsilon_)
        return 0.5 * float(np.sum(coef**2)) + 1e4 * float(misses.sum())

    if task == "classes":
        ours, theirs = model.decision_function(X), linear.decision_function(X)
    else:
        ours, theirs = model.predict(X), linear.predict(X)
    weights = model.dual_coef_ @ model.support_vectors_
    assert objective(theirs, linear.coef_) <= 1.001 * objective(ours, weights)


def test_too_few_steps_are_told(capsys):
    model = SupportVectorClassifier(1e4, max_iter=1, tol=1e-6, verbose=1)
    rows = RNG.normal(size=(1500, 5))
    with pytest.warns(ConvergenceWarning, match="reached max_iter"):
        model.fit(rows, rows[:, 0] + 0.5 * RNG.normal(size=1500) > 0)
    assert model.status_ is Status.MAX_ITER


# ---------------------------------------------------------------- files, training


@pytest.mark.parametrize(
    ("model", "rows", "y"),
    [
        (SupportVectorClassifier(calibrate="sigmoid", scale=True), X[:300], Y[:300]),
        (SupportVectorClassifier(multiclass="ovr"), sparse.csr_matrix(X[:300]), Y[:300]),
        (SupportVectorRegressor(scale=True), SICK, DISEASE),
    ],
)
def test_files(model, rows, y, tmp_path):
    model.fit(rows, y)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    assert again.status_ is model.status_


@pytest.mark.parametrize(
    "model",
    [
        SupportVectorClassifier(calibrate="sigmoid", scale=True),
        SupportVectorClassifier(multiclass="ovr"),
    ],
)
def test_onnx(model, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    x, y = IRIS
    model.fit(x, y)
    write_onnx(tmp_path / "m.onnx", model.function_, model.classes_, model.link)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": x}), strict=True))
    np.testing.assert_allclose(found["scores"], model.decision_function(x), atol=1e-9)
    assert np.array_equal(found["label"], model.predict(x))
    if model.calibrate:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(x), atol=1e-9)


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.3)])
def test_one_class_in_onnx(kernel, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = OneClassMachine(0.2, kernel=kernel, scale=True).fit(X[:200])
    write_onnx(tmp_path / "m.onnx", model.function_, [-1, 1])
    label, scores = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"X": X[200:300]})
    np.testing.assert_array_equal(label, model.predict(X[200:300]))
    np.testing.assert_allclose(scores, model.decision_function(X[200:300]), atol=1e-10)
    with pytest.raises(ValueError, match="two labels at least"):
        write_onnx(tmp_path / "m.onnx", model.function_, [1])


def test_one_class_from_files(tmp_path, monkeypatch, capsys):
    def thresher(*words):
        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    table, path = tmp_path / "rows.csv", tmp_path / "m.thresher"
    lines = [f"{a},{b}" for a, b in RNG.normal(size=(300, 2))]
    table.write_text("\n".join(["a,b", *lines, "9,9"]))
    how = ["train", table, "--learner", "one_class", "--set", "nu=0.1", "-m", path]
    assert thresher(*how)[0] == 0
    found = json.loads(thresher("evaluate", path, table, "--json")[1])
    assert found["rows"] == 301
    assert 0.05 < found["outliers"] < 0.15
    assert load_model(path).predict(table)[-1] == -1
    assert "leave out tune" in thresher(*how, "--tune", "3")[2]
    page = tmp_path / "page.html"
    assert thresher("report", path, "--data", table, "--html", page)[0] == 0
    assert "unlike the others" in page.read_text()
    assert "clusters" not in page.read_text()
    with pytest.raises(ValueError, match="a one-class machine must see all rows"):
        train(table, learner="one_class", memory=1 << 10)


def test_training_by_name():
    model = train(X, Y, learner="svm", params={"gamma": 0.05})
    assert model.training["held_out"]["error"] < 0.05
    assert "support vectors" in model.training["size"]
    wave = np.sin(3 * SICK[:, 3]) + SICK[:, 4]
    assert train(SICK, wave, learner="svm").training["held_out"]["r2"] > 0.9


def test_a_training_that_is_stopped_leaves_a_model():
    how = Training(learner="svm", stop=lambda: True)
    model = run(open_data(X[:300], TWO[:300]), how)
    assert model.training["status"] == "INTERRUPTED"
    assert model.predict(X[:5]).shape == (5,)


def test_rows_that_do_not_fit_are_refused_with_what_to_use():
    with pytest.raises(ValueError, match=r"all rows at once.*learner='kernel'"):
        train(X, Y, learner="svm", memory=1 << 14)


def test_tuning_has_a_space():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(X[:300], TWO[:300], learner="svm", tune=3)
    assert model.training["tuning"]["done"] == 3
    assert {"C", "gamma"} <= set(model.training["trials"][1]["params"])


@pytest.mark.parametrize("options", [{}, {"nu": 0.3}, {"loss": "least_squares"}])
@pytest.mark.parametrize("unit", [2.0**450, 2.0**130, 2.0**-130, 2.0**-450])
def test_units_of_targets_beyond_single_precision(options, unit):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    t = X[:, 0] ** 2 + 0.1 * rng.normal(size=100)
    usual = SupportVectorRegressor(**options).fit(X, t)
    far = SupportVectorRegressor(**options).fit(X, t * unit)
    assert far.status_ is usual.status_ is Status.CONVERGED
    np.testing.assert_allclose(far.predict(X) / unit, usual.predict(X), rtol=1e-6)


@pytest.mark.parametrize("nu", [1e-9, 1e-3])
def test_a_tube_around_all_targets_is_told(nu):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 2))
    t = X[:, 0] ** 2 + 0.1 * rng.normal(size=100)
    with pytest.warns(StatusWarning, match="no better than a constant"):
        model = SupportVectorRegressor(nu=nu).fit(X, t)
    assert model.score(X, t) < 0.0
    assert SupportVectorRegressor(nu=0.1).fit(X, t).status_ is Status.CONVERGED
