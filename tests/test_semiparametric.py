"""SemiparametricRegressor: bases, readable coefficients, parts, files, and words for bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.preprocessing import SplineTransformer
from sklearn.svm import SVR

from thresher import (
    EpsilonInsensitive,
    KernelRegressor,
    SemiparametricRegressor,
    Sigmoid,
    Status,
    load_model,
    register,
    save_model,
    train,
)
from thresher.functions.basis import BSplines
from thresher.registry import BASIS


def line_and_bump(n=200, seed=0, noise=0.05):
    g = np.random.default_rng(seed)
    X = g.uniform(0.0, 10.0, (n, 2))
    bump = np.exp(-2.0 * (X[:, 0] - 5.0) ** 2)
    return X, 1.0 + 2.0 * X[:, 0] - 0.5 * X[:, 1] ** 2 + bump + g.normal(0.0, noise, n)


X, Y = line_and_bump()
BASE = "1, x0, x1^2"


def model(basis=BASE, **options):
    return SemiparametricRegressor(basis, **({"gamma": 0.5, "random_state": 0} | options))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(X, Y)


def wave(rows):
    return np.sin(3.0 * rows[:, 0])


@pytest.fixture
def registered():
    register("wave", wave)
    yield "wave"
    BASIS.remove("wave")


# ---------------------------------------------------------------- what is learned


def test_coefficients_are_read_off(fitted):
    assert fitted.status_ is Status.CONVERGED
    assert fitted.basis_names_ == ["1", "x0", "x1^2"]
    np.testing.assert_allclose(fitted.beta_[1:], [2.0, -0.5], atol=0.05)
    assert fitted.score(X, Y) > 0.999
    assert 0.0 <= fitted.gap_ < 1e-2


def test_parts_add_up_to_predictions(fitted):
    parts = fitted.predict_parts(X)
    np.testing.assert_allclose(parts.kernel + parts.functions.sum(axis=1), fitted.predict(X))
    np.testing.assert_allclose(parts.functions[:, 1], fitted.beta_[1] * X[:, 0])


def test_with_a_constant_alone_it_is_support_vector_regression():
    own = model("1", loss=EpsilonInsensitive(0.1), alpha=1.0 / 200, tol=1e-5).fit(X, Y)
    other = SVR(C=1.0, epsilon=0.1, gamma=0.5, tol=1e-5).fit(X, Y)
    np.testing.assert_allclose(own.predict(X), other.predict(X), atol=1e-3)
    assert own.beta_[0] == pytest.approx(other.intercept_[0], abs=1e-3)


@pytest.mark.parametrize("algorithm", ["pdsg", "multipliers"])
def test_algorithms_agree(fitted, algorithm):
    other = model(algorithm=algorithm, decompose=False).fit(X, Y)
    np.testing.assert_allclose(other.beta_, fitted.beta_, atol=0.02)
    assert other.solver_.inner == algorithm


def test_landmarks_for_all_rows_are_the_exact_kernel():
    exact = model(loss="least_squares", alpha=1e-3).fit(X, Y)
    landmarks = model(loss="least_squares", alpha=1e-3, map="nystroem", n_components=200).fit(X, Y)
    np.testing.assert_allclose(landmarks.predict(X), exact.predict(X), atol=1e-3)
    np.testing.assert_allclose(landmarks.beta_, exact.beta_, atol=2e-3)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "huber"])
def test_landmarks_take_other_losses(loss):
    found = model(loss=loss, map="nystroem", n_components=50).fit(X, Y)
    assert found.score(X, Y) > 0.99
    np.testing.assert_allclose(found.beta_[1:], [2.0, -0.5], atol=0.05)


def test_the_model_is_the_same_in_all_units(fitted):
    other = model("1, x0, x1^2", gamma=0.5 / 1e4).fit(100.0 * X, 1e3 * Y)
    np.testing.assert_allclose(other.predict(100.0 * X), 1e3 * fitted.predict(X), rtol=1e-2)
    np.testing.assert_allclose(other.beta_ / fitted.beta_, [1e3, 10.0, 0.1], rtol=1e-2)


@pytest.mark.parametrize(
    "options", [{}, {"map": "nystroem"}, {"loss": "least_squares"}, {"parts": "parametric"}]
)
def test_targets_far_from_zero(options):
    """The functions say where they lie; nothing of the rest is lost."""
    here = model(bootstrap=3, **options).fit(X, Y)
    far = model(bootstrap=3, **options).fit(X, Y + 1e9)
    np.testing.assert_allclose(far.predict(X) - 1e9, here.predict(X), atol=1e-3)
    shift = np.array([1e9, 0.0, 0.0])
    np.testing.assert_allclose(far.beta_ - shift, here.beta_, atol=1e-3)
    np.testing.assert_allclose(
        far.beta_intervals_ - shift[:, None], here.beta_intervals_, atol=1e-3
    )


def test_targets_that_overflow_are_refused():
    for options in ({}, {"map": "nystroem"}):
        with pytest.raises(ValueError, match=r"y holds values up to .* too large to square"):
            model(**options).fit(X, 1e300 * Y)


def test_sparse_rows_and_weights(fitted):
    sparse = model().fit(csr_matrix(X), Y)
    np.testing.assert_allclose(sparse.predict(csr_matrix(X)), fitted.predict(X), atol=1e-2)
    weight = np.ones(200)
    weight[::3] = 0.0
    kept = weight > 0.0
    np.testing.assert_allclose(
        model().fit(X, Y, weight).beta_, model().fit(X[kept], Y[kept]).beta_, atol=1e-3
    )


def test_each_part_alone():
    parametric = model(parts="parametric").fit(X, Y)
    assert parametric.beta_.shape == (3,)
    assert np.all(parametric.predict_parts(X).kernel == 0.0)
    kernel = model(parts="kernel").fit(X, Y)
    assert kernel.basis_names_ == ["1"]
    table = model().compare(X, Y)
    assert set(table) == {"parametric", "kernel", "both"}
    assert table["both"] < min(table["parametric"], table["kernel"])


def test_bootstrap_is_reproducible_in_any_number_of_threads():
    one = model(bootstrap=12).fit(X[:80], Y[:80])
    two = model(bootstrap=12, n_jobs=2).fit(X[:80], Y[:80])
    np.testing.assert_array_equal(one.beta_samples_, two.beta_samples_)
    assert one.beta_intervals_.shape == (3, 2)
    assert np.all(one.beta_intervals_[:, 0] < one.beta_intervals_[:, 1])
    cold = model().fit(X[:80], Y[:80])
    np.testing.assert_array_equal(cold.beta_, one.beta_)
    assert "beta_samples_" not in vars(one.set_params(bootstrap=0).fit(X[:80], Y[:80]))


def test_a_variable_that_lags_behind_is_waited_for():
    """It came no nearer to its bound, and the same working set was solved again and again."""
    rows, y = line_and_bump(120, 8, noise=0.5)
    found = model().fit(rows, y)
    assert found.status_ is Status.CONVERGED
    assert found.n_iter_ < 5


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(40):
        rows, y = line_and_bump(120, seed, noise=0.5)
        low, high = model(bootstrap=100, level=0.9).fit(rows, y).beta_intervals_[1]
        held += low <= 2.0 <= high
    assert 30 <= held <= 40


# ---------------------------------------------------------------- bases


def test_splines_are_scikit_learns():
    x = np.random.default_rng(0).normal(size=(100, 1))
    knots = np.quantile(x, np.linspace(0.0, 1.0, 6))
    far = np.concatenate([x, [[-9.0], [9.0]]])
    theirs = SplineTransformer(knots=knots[:, None], extrapolation="constant", include_bias=False)
    np.testing.assert_allclose(BSplines(0, knots).of(far), theirs.fit(x).transform(far), atol=1e-12)


@pytest.mark.parametrize(
    ("basis", "names"),
    [
        ("linear", ["1", "a", "mean.temp"]),
        (["1", "mean.temp", "a*mean.temp^2"], ["1", "mean.temp", "a*mean.temp^2"]),
        ("sin(2*a), cos(a),1", ["sin(2*a)", "cos(a)", "1"]),
        ("1, spline(a, 3, 1)", ["1", "spline(a)[0]", "spline(a)[1]"]),
        ([1, wave], ["1", "wave"]),
        ([wave, lambda rows: rows[:, :2] ** 2], ["wave", "<lambda>[0]", "<lambda>[1]"]),
        (None, []),
    ],
)
def test_bases(basis, names):
    frame = pd.DataFrame(X[:60], columns=["a", "mean.temp"])
    found = model(basis).fit(frame, Y[:60])
    assert found.basis_names_ == names
    assert found.beta_.shape == (len(names),)
    assert clone(found).basis is basis or clone(found).basis == basis
    kernel, functions = found.predict_parts(frame)
    np.testing.assert_allclose(found.predict(frame), kernel + functions.sum(axis=1))


@pytest.mark.parametrize(
    ("basis", "told"),
    [
        ("1, x0, 3*x0", "no column or function '3'"),
        (["1", "x0", lambda rows: 1.0 + 2.0 * rows[:, 0]], "'<lambda>' depends on '1', 'x0'"),
        ("1, linear", "'1' depends on '1'"),
        ("1, spline(x0), x0", "'x0' depends on '1', 'spline"),
        ("1, x7", "no column or function 'x7'; columns are 'x0', 'x1'"),
        ("x0^y", "an exponent is a whole number"),
        ("spline(x0, many)", "write spline.column., spline.column, knots."),
        ([lambda rows: 0.0 * rows[:, 0]], "'<lambda>' is zero on every row"),
        ([lambda rows: rows.T], r"gave an array of shape \(2, 1\) for 1 rows"),
        ([lambda rows: np.log(rows[:, 0] - 5.0)], "'<lambda>' is nan in row"),
        (["1", *[f"x0^{k}" for k in range(1, 60)]], "(depends on|too large to square)"),
    ],
)
def test_useless_bases_are_named(basis, told):
    with pytest.raises(ValueError, match=told):
        model(basis).fit(X, Y)


def test_more_functions_than_rows():
    with pytest.raises(ValueError, match="3 basis functions on 2 rows: leave 1 of them out"):
        model().fit(X[:2], Y[:2])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"algorithm": "simplex"}, "algorithm must be one of 'auto', 'interior'"),
        ({"parts": "none"}, "parts must be one of"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"bootstrap": -1}, "bootstrap must be a whole number of at least 0"),
        ({"level": 1.0}, r"level must be a number in \(0, 1\)"),
        ({"loss": "huber"}, "use one of least_squares, epsilon_insensitive; with map='nystroem'"),
        ({"loss": "hinge", "map": "nystroem"}, "use one of least_squares, huber"),
        ({"map": "landmarks"}, "map='landmarks' is unknown"),
        ({"kernel": Sigmoid(), "gamma": None}, "not positive definite"),
        ({"memory": 1000.0}, "two kernel columns of 200 rows take 1,600 bytes: raise memory"),
        ({"memory": 1e5, "decompose": False}, "raise memory=1e.05 to that or use decompose=True"),
        ({"memory": 1e5, "loss": "least_squares"}, "or use landmarks"),
    ],
)
def test_bad_options(options, told):
    with pytest.raises(ValueError, match=told):
        model(**options).fit(X, Y)


def test_no_stream():
    assert not hasattr(model(), "partial_fit")
    with pytest.raises(TypeError, match=r"is none of a word such as 'temp.2'"):
        model([3]).fit(X, Y)


def test_a_fit_can_be_watched_and_stopped():
    seen = []
    rows, y = line_and_bump(300)

    def watch(event):
        seen.append(event.residual)
        return len(seen) == 2

    found = model(callbacks=[watch], gamma=20.0, alpha=1e-5, tol=1e-9).fit(rows, y)
    assert found.status_ is Status.INTERRUPTED
    assert len(seen) == 2
    assert np.all(np.isfinite(found.predict(rows)))


# ---------------------------------------------------------------- files and commands


@pytest.mark.parametrize("options", [
    {}, {"map": "nystroem", "n_components": 20}, {"parts": "parametric"}, {"scale": True},
    {"loss": "least_squares"}, {"bootstrap": 3},
])  # fmt: skip
def test_files_keep_all(tmp_path, options):
    found = model("1, x0*x1, x1^2, spline(x0, 4, 2), sin(x1)", **options).fit(X[:90], Y[:90])
    path = tmp_path / "model.thresher"
    save_model(found, path)
    back = load_model(path).estimator
    np.testing.assert_array_equal(back.predict(X), found.predict(X))
    assert back.basis_names_ == found.basis_names_
    for name in ("beta_", "beta_intervals_"):
        np.testing.assert_array_equal(getattr(back, name, 0), getattr(found, name, 0))


def test_functions_of_python_need_a_name_to_be_saved(tmp_path, registered):
    path = tmp_path / "model.thresher"
    with pytest.raises(ValueError, match=r"'wave' is Python code.*thresher.register\('wave'"):
        save_model(model(["1", wave]).fit(X, Y), path)
    found = model(["1", registered]).fit(X, Y)
    save_model(found, path)
    np.testing.assert_array_equal(load_model(path).predict(X), found.predict(X))
    BASIS.remove(registered)
    with pytest.raises(ValueError, match=r"'wave' is not registered here: call thresher.register"):
        load_model(path)
    register(registered, wave)


def test_onnx_gives_the_predictions(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    found = model("1, x0*x1, spline(x0, 5), log1p(x1), cos(2*x0)").fit(X, Y)
    rows = np.concatenate([X, [[-3.0, 1.0], [40.0, 2.0], [X[:, 0].max(), 1.0]]])
    write_onnx(tmp_path / "m.onnx", found.function_, None, None)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    np.testing.assert_allclose(session.run(None, {"X": rows})[0], found.predict(rows), atol=1e-9)


def test_the_command_learns_with_names_of_columns(tmp_path, thresher):
    table = tmp_path / "rows.csv"
    pd.DataFrame({"temp": X[:, 0], "mean.humid": X[:, 1], "y": Y}).to_csv(table, index=False)
    basis = "1, mean.humid^2, spline(temp, 4)"
    words = ["train", str(table), "--target", "y", "--learner", "semiparametric", "--set",
             f"basis={basis}", "--model", str(tmp_path / "m.thresher")]  # fmt: skip
    code, _, told = thresher(*words)
    assert code == 0, told
    found = load_model(tmp_path / "m.thresher")
    assert found.estimator.basis_names_[:3] == ["1", "mean.humid^2", "spline(temp)[0]"]


def test_train_takes_it():
    found = train(X, Y, learner="semiparametric", params={"basis": "linear"})
    assert found.estimator.basis_names_[0] == "1"
    assert found.estimator.status_ is Status.CONVERGED


def test_a_kernel_machine_alone_is_no_better(fitted):
    both = np.mean((fitted.predict(X) - Y) ** 2)
    alone = KernelRegressor(gamma=0.5, random_state=0).fit(X, Y)
    assert both < np.mean((alone.predict(X) - Y) ** 2) * 5.0


def test_targets_that_functions_explain_without_a_remainder():
    X = np.linspace(0.0, 1.0, 30)[:, None]
    model = SemiparametricRegressor("1, x0").fit(X, 3.0 - 2.0 * X[:, 0])
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.beta_, [3.0, -2.0], atol=1e-6)


def test_a_power_that_overflows_is_told_once():
    rows = np.random.default_rng(0).normal(size=(50, 2)) * 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"basis function 'x0\^2' is inf in row 0"):
            SemiparametricRegressor("1, x0^2").fit(rows, np.arange(50.0))
