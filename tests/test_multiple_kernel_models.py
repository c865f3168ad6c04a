"""Machines that choose their kernels: what they choose, how they predict, files, commands."""

import json
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC, SVR

from thresher import (
    RBF,
    Kernel,
    Linear,
    LinearClassifier,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    Polynomial,
    load_model,
    save_model,
    train,
)
from thresher._clock import ending
from thresher.artifacts.onnx_graph import write_onnx
from thresher.estimators import support_fit
from thresher.functions import KernelSum
from thresher.kernels.gram import gram
from thresher.kernels.members import column_groups, members_of, standard_kernels
from thresher.solvers import Status
from thresher.solvers.kernel_balls import ElasticNetBall

RNG = np.random.default_rng(5)
X = RNG.normal(size=(240, 5))
Y = np.where(X[:, 1] ** 2 + 0.2 * RNG.normal(size=240) > 0.5, "far", "near")
WAVE = np.sin(2.0 * X[:, 3]) + 0.05 * RNG.normal(size=240)
IRIS = load_iris(return_X_y=True)
FEW = {"kernels": [RBF(0.5), Linear()], "columns": "both"}


@pytest.fixture(scope="module")
def fitted():
    return MultipleKernelClassifier().fit(X, Y)


def grams_of(model, rows, others):
    """Kernels of a fitted model, normalised, by the plain formula."""
    rows, others = ((part - model.shift_) * model.scale_ for part in (rows, others))
    out = []
    for kernel, columns in model.kernels_:
        own = slice(None) if columns is None else list(columns)
        mean = np.mean([gram(kernel, row[None, own], row[None, own])[0, 0] for row in others])
        out.append(gram(kernel, rows[:, own], others[:, own]) / mean)
    return out


# ---------------------------------------------------------------- what is chosen


def test_the_columns_that_matter_are_chosen(fitted):
    assert len(fitted.kernels_) == fitted.kernel_weights_.size == 13 * 6
    single = [sum(fitted.kernel_weights_[q] for q in fitted.selected_
                  if fitted.kernels_[q][1] == (j,)) for j in range(5)]  # fmt: skip
    assert np.argmax(single) == 1
    assert single[1] > 0.7 * sum(single)
    assert 0 < fitted.selected_.size < 40
    assert np.all(np.diff(fitted.kernel_weights_[fitted.selected_]) <= 0.0)
    assert ElasticNetBall(0.5).value(fitted.kernel_weights_) == pytest.approx(1.0, abs=1e-3)
    assert fitted.bounds_[0] <= fitted.bounds_[1]
    assert fitted.gap_ <= 1e-3
    assert fitted.score(X, Y) > 0.95


def test_fewer_kernels_the_larger_v():
    counts = [MultipleKernelClassifier(v=v).fit(X, Y).selected_.size for v in (0.0, 0.5, 1.0)]
    assert counts[0] > counts[1] > counts[2]
    uniform = MultipleKernelClassifier(v="uniform", **FEW).fit(X, Y)
    np.testing.assert_allclose(uniform.kernel_weights_, 1 / 12)


def test_regression_finds_its_column():
    model = MultipleKernelRegressor().fit(X, WAVE)
    assert model.kernels_[model.selected_[0]][1] == (3,)
    assert model.score(X, WAVE) > 0.98
    smaller = MultipleKernelRegressor().fit(X, 1e-6 * WAVE)  # defaults do not know the units
    np.testing.assert_allclose(1e6 * smaller.predict(X), model.predict(X), atol=2e-2)


def test_identical_kernels_share():
    model = MultipleKernelClassifier(kernels=[RBF(0.5), RBF(0.5), Linear()], columns="all")
    weights = model.fit(X, Y).kernel_weights_
    assert weights[0] > 0.0
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)


def test_the_machine_is_scikit_learn_s_on_the_sum_of_kernels(fitted):
    K = sum(w * k for w, k in zip(fitted.kernel_weights_, grams_of(fitted, X, X), strict=True))
    theirs = SVC(C=10.0, kernel="precomputed", tol=1e-4).fit(K, Y)
    np.testing.assert_allclose(
        fitted.decision_function(X), theirs.decision_function(K), atol=2e-2
    )  # fmt: skip
    model = MultipleKernelRegressor(2.0, epsilon=0.1, tol=1e-5, **FEW).fit(X, WAVE)
    K = sum(w * k for w, k in zip(model.kernel_weights_, grams_of(model, X, X), strict=True))
    theirs = SVR(C=2.0, epsilon=0.1, kernel="precomputed", tol=1e-6).fit(K, WAVE)
    np.testing.assert_allclose(model.predict(X), theirs.predict(K), atol=1e-3)


def test_prediction_computes_chosen_kernels_only(fitted):
    function = fitted.function_
    assert isinstance(function, KernelSum)
    assert len(function.kernels) == fitted.selected_.size
    kernels = [Polynomial(2)]
    model = MultipleKernelClassifier(0.1, 1.0, kernels=kernels, columns="each").fit(X, Y)
    used = {j for columns in model.function_.columns_of for j in columns}
    other = X.copy()
    other[:, [j for j in range(5) if j not in used]] = 1e3  # not looked at
    assert len(used) < 5
    np.testing.assert_allclose(model.decision_function(other), model.decision_function(X))


# ---------------------------------------------------------------- classes, weights, kernels


@pytest.mark.parametrize("multiclass", ["shared", "own"])
def test_more_than_two_classes(multiclass):
    rows, y = IRIS
    model = MultipleKernelClassifier(multiclass=multiclass).fit(rows, y)
    assert model.score(rows, y) > 0.95
    assert model.decision_function(rows).shape == (150, 3)
    shape = (65,) if multiclass == "shared" else (3, 65)
    assert model.kernel_weights_.shape == shape
    if multiclass == "own":
        first = MultipleKernelClassifier().fit(rows, y == 0)
        np.testing.assert_allclose(model.kernel_weights_[0], first.kernel_weights_, atol=1e-6)


def test_weights_are_repetitions():
    weight = np.where(np.arange(240) % 3 == 0, 2.0, np.where(np.arange(240) % 3 == 1, 1.0, 0.0))
    often = np.repeat(np.arange(240), weight.astype(int))
    close = {"gap": 1e-5, "tol": 1e-5, "scale": False, **FEW}
    ours = MultipleKernelClassifier(**close).fit(X, Y, sample_weight=weight)
    theirs = MultipleKernelClassifier(**close).fit(X[often], Y[often])
    np.testing.assert_allclose(ours.kernel_weights_, theirs.kernel_weights_, atol=2e-2)
    np.testing.assert_allclose(ours.bounds_[1], theirs.bounds_[1], rtol=1e-4)


def test_sparse_rows():
    rows = sparse.random(150, 30, 0.3, format="csr", random_state=0)
    y = np.asarray(rows[:, :3].sum(axis=1)).ravel() > 0.4
    ours = MultipleKernelClassifier(scale=False, **FEW).fit(rows, y)
    theirs = MultipleKernelClassifier(scale=False, **FEW).fit(rows.toarray(), y)
    np.testing.assert_allclose(ours.kernel_weights_, theirs.kernel_weights_, atol=1e-3)
    np.testing.assert_allclose(
        ours.decision_function(rows), theirs.decision_function(rows), atol=1e-2
    )


def test_precomputed_kernels_are_the_same_machine():
    by_rows = MultipleKernelClassifier(gap=1e-5, tol=1e-5, **FEW).fit(X[:200], Y[:200])
    sides = np.hstack(grams_of(by_rows, X[:200], X[:200]))
    given = MultipleKernelClassifier(kernels="precomputed", gap=1e-5, tol=1e-5)
    given.fit(sides, Y[:200])
    np.testing.assert_allclose(given.kernel_weights_, by_rows.kernel_weights_, atol=5e-3)
    new = np.hstack(grams_of(by_rows, X[200:], X[:200]))
    np.testing.assert_allclose(
        given.decision_function(new), by_rows.decision_function(X[200:]), atol=1e-2
    )
    assert given.chosen_parts()[0][0].startswith("kernel ")
    some = np.arange(200) % 4 > 0
    given.fit(sides, Y[:200], sample_weight=some.astype(float))
    left = MultipleKernelClassifier(kernels="precomputed", gap=1e-5, tol=1e-5)
    left.fit(np.hstack([K[np.ix_(some, some)] for K in np.hsplit(sides, 12)]), Y[:200][some])
    np.testing.assert_allclose(given.kernel_weights_, left.kernel_weights_, atol=1e-6)


@dataclass(frozen=True)
class Cauchy(Kernel):
    gamma: float = 1.0
    traits = frozenset({"radial", "positive"})

    def of(self, inner, sq_x, sq_z):
        return 1.0 / (1.0 + self.gamma * max(sq_x + sq_z - 2.0 * inner, 0.0))


def test_a_kernel_of_ones_own_and_columns_by_name():
    frame = pd.DataFrame(X, columns=list("abcde"))
    kernels = [(Cauchy(2.0), ["b", "c"]), ("rbf", "b"), (Linear(), "each"), (Polynomial(2), None)]
    model = MultipleKernelClassifier(kernels=kernels).fit(frame, Y)
    assert [columns for _, columns in model.kernels_] == [
        (1, 2), (1,), (1,), (0,), (2,), (3,), (4,), None,
    ]  # fmt: skip
    assert model.score(frame, Y) > 0.9
    assert any("of b" in name for name, _ in model.chosen_parts())


def test_a_kernel_that_is_no_dataclass_is_named():
    class Flat(Kernel):
        def of(self, inner, sq_x, sq_z):
            return 1.0

    with pytest.raises(TypeError, match="kernel: Flat is not a dataclass: put @dataclass"):
        MultipleKernelClassifier(kernels=[Flat(), "rbf"]).fit(X, Y)


def test_names_of_kernels_get_a_width_from_their_columns():
    wide = X * np.array([1.0, 10.0, 1.0, 1.0, 1.0])
    members = members_of(["rbf"], "each", wide)
    assert members[0].kernel.gamma > 30.0 * members[1].kernel.gamma


def test_banks():
    assert len(standard_kernels()) == 13
    assert len(members_of("bank", "auto", X)) == 13 * 6
    assert len(members_of("bank", "auto", np.zeros((2, 101)))) == 13
    assert column_groups(["b", [0, 1], None], 3, ["a", "b", "c"]) == [(1,), (0, 1), None]


def test_little_memory_gives_the_same_model(fitted):
    little = MultipleKernelClassifier(memory=50 * 240 * 4).fit(X, Y)
    np.testing.assert_allclose(little.kernel_weights_, fitted.kernel_weights_, atol=2e-2)
    assert little.bounds_[1] == pytest.approx(fitted.bounds_[1], rel=2e-3)


# ---------------------------------------------------------------- what cannot be


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"v": -0.1}, r"v must be a number in \[0, 1\]"),
        ({"v": 1.5}, r"v must be a number in \[0, 1\]"),
        ({"v": "equal"}, r"v must be a number in \[0, 1\]"),
        ({"v": None}, r"v must be a number in \[0, 1\]"),
        ({"p": 0.5}, "p must be a number of at least 1"),
        ({"method": "simplex"}, "method must be one of 'level', 'block', got 'simplex'"),
        ({"tau": 1.0}, r"tau must be a number in \(0, 1\)"),
        ({"gap": 0.0}, "gap must be a positive number"),
        ({"C": -1.0}, "C must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"multiclass": "ovo"}, "multiclass must be one of 'shared', 'own', got 'ovo'"),
        ({"kernels": "rbf"}, "kernels must be 'bank', 'precomputed' or a list of kernels"),
        ({"kernels": []}, "kernels is empty"),
        ({"kernels": ["gauss"]}, "kernel='gauss' is unknown"),
        ({"kernels": [(RBF(1.0),)]}, r"is a pair \(kernel, columns\)"),
        ({"kernels": [(RBF(1.0), "b")]}, "there is no column named 'b'"),
        ({"columns": "some"}, "columns must be one of 'auto', 'both', 'each', 'all' or a list"),
        ({"columns": [7]}, "there is no column 7: they have the numbers 0 to 4"),
        ({"columns": [[1, 1]]}, "names a column twice"),
        ({"columns": []}, "columns is empty"),
        ({"columns": [[]]}, "a group of columns is empty"),
        ({"kernels": "precomputed"}, "needs one column for every row and kernel, side by side"),
        ({"kernels": "precomputed", "calibrate": "sigmoid"}, "calibrate the scores outside"),
    ],
)
def test_bad_options(options, told):
    with pytest.raises(ValueError, match=told):
        MultipleKernelClassifier(**options).fit(X, Y)


def test_kernels_that_are_zero():
    rows = X.copy()
    rows[:, 2] = 0.0
    with pytest.warns(UserWarning, match=r"Linear\(\) of column 2 is zero, not finite, or"):
        model = MultipleKernelClassifier(**FEW).fit(rows, Y)
    assert not any(
        model.kernel_weights_[q] for q, k in enumerate(model.kernels_) if k == (Linear(), (2,))
    )
    given = np.hstack([gram(RBF(1.0), X), np.zeros((len(X), len(X)))])
    with pytest.warns(UserWarning, match="kernel 1 is zero"):
        model = MultipleKernelClassifier(kernels="precomputed").fit(given, Y)
    assert model.kernel_weights_[1] == 0.0
    assert list(model.selected_) == [0]
    given = np.hstack([gram(RBF(1.0), X), -gram(RBF(1.0), X)])
    with pytest.warns(UserWarning, match="kernel 1 is .* whose diagonal must be positive"):
        MultipleKernelClassifier(kernels="precomputed").fit(given, Y)
    with pytest.raises(ValueError, match="every kernel is zero, or not finite, on these rows"):
        MultipleKernelClassifier(kernels=[Linear()]).fit(np.zeros((20, 2)), np.arange(20) % 2)


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_constant_columns_with_equal_classes_have_taught_nothing(value):
    """All scores are equal but for rounding, which knows the targets."""
    X, y = np.full((40, 3), value), np.arange(40) % 2
    with pytest.warns(ConvergenceWarning, match="no better than a constant"):
        model = MultipleKernelClassifier(random_state=0).fit(X, y)
    assert model.status_ is Status.NO_BETTER


def test_kernels_beyond_single_precision():
    """Fourth powers of large numbers: another does the work."""
    model = MultipleKernelClassifier(kernels=[RBF(5e-19), Polynomial(4)], scale=False)
    with pytest.warns(UserWarning, match="beyond single precision"):
        model.fit(1e9 * X, Y)
    assert model.score(1e9 * X, Y) > 0.8


def test_precomputed_kernels_must_be_symmetric():
    K = np.eye(20)
    K[0, 1] = 0.5
    with pytest.raises(ValueError, match="kernel 1 is not symmetric"):
        MultipleKernelClassifier(kernels="precomputed").fit(
            np.hstack([np.eye(20), K]), np.arange(20) % 2
        )


def test_an_indefinite_kernel_is_told():
    signs = np.where(np.arange(40) % 2, 1.0, -1.0)
    K = np.outer(signs, signs) - 0.99 * np.eye(40)
    y = np.where(np.arange(40) < 20, 1.0, -1.0)
    good = np.outer(y, y) + np.eye(40)
    with pytest.warns(ConvergenceWarning, match="not positive definite"):
        MultipleKernelClassifier(kernels="precomputed").fit(np.hstack([K, good]), y)


def test_no_stream():
    assert not hasattr(MultipleKernelClassifier(), "partial_fit")
    with pytest.raises(ValueError, match=r"all rows at once.*learner='kernel'"):
        train(X, Y, learner="mkl", memory=1 << 12)


# ---------------------------------------------------------------- progress and ends


def test_a_callback_sees_and_stops_a_search(capsys, monkeypatch):
    """One of its machines is as good a place to stop at as the search."""
    seen, gaps = [], []

    def watch(event):
        seen.append(event)
        gaps.append(event.residual)
        return "objective" in event.function.text and event.passes == 3

    model = MultipleKernelClassifier(v=1.0, gap=1e-9, callbacks=[watch]).fit(X, Y)
    assert model.status_ is Status.INTERRUPTED
    assert model.n_iter_ == 3
    assert seen[-1].nonzeros > 0
    assert any("support vectors" in event.function.text for event in seen)
    gaps = np.array(gaps)[~np.isnan(gaps)]
    assert np.all(np.diff(gaps) <= 0.0)
    assert gaps[0] > gaps[-1]
    assert model.predict(X[:5]).shape == (5,)
    monkeypatch.setattr(support_fit, "_MOMENT", 0.0)
    MultipleKernelClassifier(verbose=1, **FEW).fit(X, Y)
    assert "kernels, objective" in capsys.readouterr().out


def test_the_clock_ends_a_search_and_too_few_steps_are_told():
    with ending(lambda: True):
        model = MultipleKernelClassifier(**FEW).fit(X, Y)
    assert model.status_ is Status.OUT_OF_TIME
    with pytest.warns(ConvergenceWarning, match="reached max_iter"):
        model = MultipleKernelClassifier(max_iter=1, **FEW).fit(X, Y)
    assert model.n_iter_ == 1


def test_bounds_that_rounding_keeps_apart_are_told():
    with pytest.warns(ConvergenceWarning, match="rounding lets them come no closer"):
        MultipleKernelRegressor(C=1e7, epsilon=1e-3, **FEW).fit(X, WAVE)


# ---------------------------------------------------------------- files, commands, pictures


@pytest.mark.parametrize(
    ("model", "rows", "y"),
    [
        (MultipleKernelClassifier(calibrate="sigmoid", **FEW), X, Y),
        (MultipleKernelClassifier(multiclass="own", **FEW), *IRIS),
        (MultipleKernelClassifier(**FEW), sparse.csr_matrix(X), Y),
        (MultipleKernelRegressor(**FEW), X, WAVE),
        (MultipleKernelClassifier(kernels="precomputed"), np.hstack([X @ X.T, np.eye(240)]), Y),
    ],
)
def test_files(model, rows, y, tmp_path):
    model.fit(rows, y)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_array_equal(again.kernel_weights_, model.kernel_weights_)
    assert again.kernels_ == model.kernels_
    assert again.chosen_parts() == model.chosen_parts()
    assert again.bounds_ == model.bounds_


@pytest.mark.parametrize(
    "damage",
    [
        lambda m: setattr(m, "kernels_", m.kernels_[:-1]),
        lambda m: setattr(m, "kernel_weights_", np.array([np.nan] * m.kernel_weights_.size)),
        lambda m: setattr(m, "kernel_weights_", m.kernel_weights_[None, None]),
        lambda m: setattr(m, "kernels_", tuple(("rbf", None) for _ in m.kernels_)),
        lambda m: setattr(m, "kernels_", tuple((RBF(1.0), (9,)) for _ in m.kernels_)),
        lambda m: setattr(m, "kernel_weights_", -m.kernel_weights_),
        lambda m: setattr(m, "bounds_", (1.0,)),
        lambda m: delattr(m, "kernels_"),
        lambda m: setattr(m, "function_", m.function_._replace(columns_of=(None,))),
    ],
)
def test_damaged_files_are_refused(damage, tmp_path):
    model = MultipleKernelClassifier(**FEW).fit(X, Y)
    damage(model)
    with pytest.raises(ValueError, match=r"damaged|must|NaN"):  # by the check that reads files, too
        save_model(model, tmp_path / "m.thresher")


@pytest.mark.parametrize("multiclass", ["shared", "own"])
def test_onnx(multiclass, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rows, y = IRIS
    model = MultipleKernelClassifier(multiclass=multiclass, **FEW).fit(rows, y)
    write_onnx(tmp_path / "m.onnx", model.function_, model.classes_, model.link)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": rows}), strict=True))
    np.testing.assert_allclose(found["scores"], model.decision_function(rows), atol=1e-8)
    assert np.array_equal(found["label"], model.predict(rows))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("mkl") / "rows.csv"
    pd.DataFrame(X, columns=list("abcde")).assign(y=Y).to_csv(path, index=False)
    return path


def test_the_command_says_what_was_chosen(table, tmp_path, thresher):
    path = tmp_path / "m.thresher"
    words = ["train", str(table), "--target", "y", "--learner", "mkl", "--model", str(path)]
    words += ["--set", "kernels=[RBF(0.5), Linear()]", "--set", "columns=['b', ['a', 'c']]"]
    code, _, told = thresher(*words)
    assert code == 0, told
    code, shown, _ = thresher("inspect", str(path))
    assert code == 0
    assert "RBF(gamma=0.5) of b" in shown
    assert "RBF(gamma=0.5) of a, c" in shown
    code, shown, _ = thresher("inspect", str(path), "--json")
    assert json.loads(shown)["chosen"][0][0] == "RBF(gamma=0.5) of b"


def test_reports_and_charts_show_what_was_chosen(table, tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from thresher.views import plot_kernels, write_report

    model = train(table, target="y", learner="mkl", params={**FEW, "columns": "each"})
    sections = write_report(model, png=tmp_path / "r.png", quick=True)
    chosen = next(section for section in sections if section.key == "chosen")
    assert "of b" in chosen.tables[0].rows[0][0]
    assert next(iter(chosen.charts[0].layers[0].names)) == chosen.tables[0].rows[0][0]
    own = MultipleKernelClassifier(multiclass="own", **FEW).fit(*IRIS)
    ax = plot_kernels(own, Figure().add_subplot(), most=4, title="iris")
    assert len(ax.patches) == 4
    assert ax.get_title() == "iris"
    assert all("→" in label.get_text() for label in ax.get_yticklabels())
    with pytest.raises(NotFittedError):
        plot_kernels(MultipleKernelClassifier())
    with pytest.raises(ValueError, match="LinearClassifier has chosen no kernels"):
        plot_kernels(LinearClassifier().fit(*IRIS))


def test_tuning_has_a_space():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = train(X[:150], Y[:150], learner="mkl", params=FEW, tune=2)
    assert {"C", "v"} <= set(model.training["trials"][1]["params"])
    assert {"C", "v", "epsilon"} == set(MultipleKernelRegressor().dimensions(X, WAVE))
    assert "v" not in MultipleKernelClassifier(p=2.0).dimensions()


def test_settings_of_a_search_are_kept(fitted):
    assert fitted.solver_ == replace(fitted.solver_)
    assert fitted.solver_.ball == ElasticNetBall(0.5)
