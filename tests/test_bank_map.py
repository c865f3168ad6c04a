"""Many kernels on landmarks: blocks of features, and a penalty that keeps or drops them."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from thresher import (
    RBF,
    GroupL2,
    KernelClassifier,
    KernelRegressor,
    Linear,
    MultipleKernelClassifier,
    Polynomial,
    load_model,
    save_model,
    train,
)
from thresher.kernels.gram import gram
from thresher.maps import BankFeatures
from thresher.solvers import Status

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 4))
Y = X[:, 2] ** 2 + 0.1 * RNG.normal(size=400) > 0.5
KERNELS = [RBF(0.5), Polynomial(2)]


def made(**options):
    return BankFeatures(**{"kernels": KERNELS, "random_state": 0, **options})


def blocks_of(found, rows):
    Z = found.transform(rows)
    return np.split(Z, np.cumsum(found.widths_)[:-1], axis=1)


def test_a_block_for_each_kernel_has_its_inner_products():
    rows = X[:30]
    found = made(n_components=40).fit(rows)  # all rows are landmarks
    assert [width for _, width in found.parts()] == found.widths_.tolist()
    for Z, kernel, columns in zip(
        blocks_of(found, rows), found.kernels_, found.columns_, strict=True
    ):
        own = rows if columns is None else rows[:, list(columns)]
        K = gram(kernel, np.ascontiguousarray(own))
        K = K / np.diag(K).mean()
        np.testing.assert_allclose(Z @ Z.T, K, atol=2e-3 * K.max())


def test_landmarks_of_single_columns_are_quantiles():
    found = made(n_components=5, columns="each").fit(X)
    assert found.landmarks_.shape == (5, 4)
    np.testing.assert_array_equal(
        found.landmarks_[:, 0], np.quantile(X[:, 0], [0.1, 0.3, 0.5, 0.7, 0.9], method="nearest")
    )
    both = made(n_components=5).fit(X)
    assert both.landmarks_.shape == (30, 4)
    assert both.spans_.tolist()[0] == [5, 30]
    assert made(n_components=5, columns="all").fit(X).landmarks_.shape == (25, 4)


def test_a_polynomial_of_one_column_has_three_features():
    found = made(kernels=[Polynomial(2)], columns=[2]).fit(X)
    assert found.widths_.tolist() == [3]


def test_sparse_rows_are_dense_ones():
    rows = sparse.random(60, 6, 0.5, format="csr", random_state=0)
    found = made(n_components=4).fit(rows)
    assert sparse.issparse(found.landmarks_)
    np.testing.assert_allclose(
        found.transform(rows), made(n_components=4).fit(rows).transform(rows.toarray()), atol=1e-9
    )


def test_scores_compute_the_kept_kernels_only():
    found = made(n_components=6).fit(X)
    coef = np.zeros((2, found.width))
    coef[:, : found.widths_[0]] = 1.0  # the first block only
    other = X.copy()
    table = found.fold(coef)
    np.testing.assert_allclose(found.scores(X, table), found.transform(X) @ coef.T, atol=1e-9)
    last = np.zeros((1, found.width))
    last[:, -found.widths_[-1] :] = 1.0  # a kernel on the last column
    other[:, :3] = np.nan
    assert np.all(np.isfinite(found.scores(other, found.fold(last))))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_the_group_penalty_chooses_the_column(loss):
    model = KernelClassifier(loss, map=made(), alpha=0.01, random_state=0).fit(X, Y)
    assert "grouped" in model.penalty_.traits
    assert model.penalty_.n_groups == 10
    chosen = model.chosen_parts()
    assert chosen[0][0].endswith("of column 2")
    assert len(chosen) < 6
    assert model.score(X, Y) > 0.9
    exact = MultipleKernelClassifier(1.0, 1.0, kernels=KERNELS).fit(X, Y)
    assert chosen[0][0].split(" of ")[1] == exact.chosen_parts()[0][0].split(" of ")[1]


def test_optimum_with_all_landmarks_is_that_of_the_kernels():
    """The group lasso over blocks is min over theta of ridge with K(theta): their optima agree."""
    rows, y = X[:60], np.where(Y[:60], 1.0, -1.0)
    weights = np.ones(10)
    alpha = 0.02
    model = KernelRegressor(
        map=made(n_components=60), penalty=GroupL2(weights=weights), alpha=alpha, tol=1e-9,
        random_state=0,
    ).fit(rows, y)  # fmt: skip
    found = model.function_.map
    Z = found.transform((rows - rows.mean(axis=0)) / rows.std(axis=0))
    coef = model.function_.coef[0]
    left = y - Z @ coef - model.function_.intercept[0]
    gradient = Z.T @ left / y.size
    blocks = np.split(gradient, np.cumsum(found.widths_)[:-1])
    own = np.split(coef, np.cumsum(found.widths_)[:-1])
    for g, w in zip(blocks, own, strict=True):
        norm = np.linalg.norm(w)
        if norm > 0.0:
            np.testing.assert_allclose(g, alpha * w / norm, atol=1e-4)
        else:
            assert np.linalg.norm(g) <= alpha * (1.0 + 1e-6)


def test_rows_as_they_come():
    model = KernelClassifier("hinge", map=made(), penalty=GroupL2(strength=0.01), random_state=0)
    for start in [0, 100, 200, 300] * 5:
        model.partial_fit(X[start : start + 100], Y[start : start + 100], classes=[False, True])
    assert model.score(X, Y) > 0.85
    assert model.chosen_parts()[0][0].endswith("of column 2")


def test_features_in_parts_give_the_same_choice():
    kept = KernelClassifier("hinge", map=made(), alpha=0.01, max_iter=2, random_state=0).fit(X, Y)
    little = KernelClassifier(
        "hinge", map=made(), alpha=0.01, max_iter=2, memory=300_000.0, random_state=0
    ).fit(X, Y)
    assert np.mean(little.predict(X) == kept.predict(X)) > 0.9
    assert little.chosen_parts()[0][0] == kept.chosen_parts()[0][0]
    assert 8 * X.shape[0] * kept.function_.map.width > 300_000


def test_several_classes_and_regression():
    codes = np.digitize(X[:, 2], [-0.5, 0.5])
    model = KernelClassifier("logistic", map=made(), random_state=0).fit(X, codes)
    assert model.score(X, codes) > 0.9
    assert len(model.chosen_parts()[0][1]) == 3
    wave = KernelRegressor(map=made(), random_state=0).fit(X, np.sin(2.0 * X[:, 2]))
    assert wave.score(X, np.sin(2.0 * X[:, 2])) > 0.9
    assert wave.chosen_parts()[0][0].endswith("of column 2")


def test_files_and_onnx(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = KernelClassifier("logistic", map=made(), random_state=0).fit(frame, Y)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame))
    assert again.chosen_parts() == model.chosen_parts()
    assert again.chosen_parts()[0][0].endswith("of c")
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    write_onnx(tmp_path / "m.onnx", model.function_, model.classes_, model.link)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    np.testing.assert_allclose(
        found["scores"].ravel(), model.decision_function(frame).ravel(), atol=1e-8
    )


def test_the_command_streams_and_says_what_was_chosen(tmp_path, thresher):
    table = tmp_path / "rows.csv"
    pd.DataFrame(X, columns=list("abcd")).assign(y=Y.astype(int)).to_csv(table, index=False)
    path = tmp_path / "m.thresher"
    words = ["train", str(table), "--target", "y", "--learner", "kernel", "--set", "map=bank",
             "--loss", "logistic", "--model", str(path)]  # fmt: skip
    code, _, told = thresher(*words)
    assert code == 0, told
    code, shown, _ = thresher("inspect", str(path))
    assert code == 0
    assert " of c " in shown


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
        ({"n_components": "sqrt"}, "n_components must be a whole number of at least 1"),
        ({"sample": 0}, "sample must be a whole number of at least 1"),
        ({"kernels": "rbf"}, "or a list of kernels"),
        ({"columns": [9]}, "there is no column 9"),
        ({"columns": ["b"]}, "there is no column named 'b'"),
    ],
)
def test_bad_options(options, told):
    with pytest.raises(ValueError, match=told):
        made(**options).fit(X)


def test_kernels_that_are_zero_have_no_block():
    rows = X.copy()
    rows[:, 1] = 0.0
    found = BankFeatures(kernels=[Linear()], columns="each").fit(rows)
    assert found.columns_ == ((0,), (2,), (3,))
    with pytest.raises(ValueError, match="every kernel is zero"):
        BankFeatures(kernels=[Linear()]).fit(np.zeros((5, 2)))


def test_training_ends_well():
    model = train(X, Y, learner="kernel", params={"map": made(), "loss": "logistic"})
    assert model.estimator.status_ is Status.CONVERGED
    assert model.estimator.chosen_parts()[0][0].endswith("of column 2")


@pytest.mark.parametrize("loss", ["logistic", "least_squares"])
def test_a_search_has_the_groups_of_a_fit(loss):
    """Features that folds share would not know which kernel they come from."""
    how = {"map": made(n_components=4), "loss": loss}
    model = train(X[:150], Y[:150], learner="kernel", params=how, tune=2)
    assert "grouped" in model.estimator.penalty_.traits
    assert model.estimator.penalty_.n_groups == 10
