"""UniversumClassifier: labels, rows of no class and blanks become a model; words for bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from thresher import Sigmoid, SupportVectorClassifier, UniversumClassifier
from thresher._blanks import IRRELEVANT_TARGET
from thresher._clock import ending
from thresher.artifacts.container import VERSION, BadFile
from thresher.estimators._partly_labelled import IRRELEVANT, UNLABELLED, from_targets, partly_coded
from thresher.estimators.saving import from_document, to_document
from thresher.search import TunedClassifier
from thresher.solvers import Status

RNG = np.random.default_rng(3)
N = 150
X = RNG.normal(size=(N, 3)) + np.repeat([[1.6], [-1.6], [0.0]], N // 3, axis=0)
TRUTH = np.repeat(["up", "down", "none"], N // 3).astype(object)
Y = TRUTH.copy()
Y[RNG.random(N) > 0.3] = None
KNOWN = np.array([label in ("up", "down") for label in Y])
MEMBERS = TRUTH != "none"


def model(unlabelled="mixed", **options):
    return UniversumClassifier(
        unlabelled, **({"irrelevant": "none", "gamma": 0.3, "random_state": 0} | options)
    )


# ---------------------------------------------------------------- what is learned


def test_without_other_rows_it_is_the_support_vector_machine():
    labels = np.where(TRUTH[:100] == "up", 1, -1)
    ours = model(irrelevant=None, C=2.0, tol=1e-5).fit(X[:100], labels)
    theirs = SVC(C=2.0, gamma=0.3, tol=1e-6).fit(X[:100], labels)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert ours.classes_.tolist() == [-1, 1]
    assert len(ours.objectives_) == len(ours.objectives_[0]) == ours.n_iter_ == 1
    same = SupportVectorClassifier(2.0, gamma=0.3, tol=1e-5).fit(X[:100], labels)
    assert np.allclose(ours.decision_function(X), same.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("unlabelled", ["mixed", "relevant", "irrelevant"])
def test_the_three_machines_learn_the_classes(unlabelled):
    fitted = model(unlabelled).fit(X, Y)
    assert fitted.status_ is Status.CONVERGED
    assert fitted.classes_.tolist() == ["down", "up"]
    assert np.mean(fitted.predict(X[:100]) == TRUTH[:100]) > 0.9
    (path,) = fitted.objectives_
    assert fitted.n_iter_ == len(path)
    assert np.all(np.diff(path) <= 0.0)
    assert fitted.relevant_[KNOWN].all()
    assert not fitted.relevant_[Y == "none"].any()
    free = np.array([label is None for label in Y])
    share = fitted.relevant_[free].mean()
    assert {"mixed": 0.0 < share < 1.0, "relevant": share == 1, "irrelevant": share == 0}[
        unlabelled
    ]


def test_irrelevant_rows_are_near_the_boundary():
    far = model(irrelevant=None).fit(X, np.where(Y == "none", None, Y))
    near = model(C_irrelevant=100.0).fit(X, Y)
    rows = Y == "none"
    assert np.abs(near.decision_function(X[rows])).max() < 0.12
    assert np.abs(far.decision_function(X[rows])).max() > 0.3


@pytest.mark.parametrize("algorithm", ["exact", "linear", "mapped"])
def test_the_balance_is_kept(algorithm):
    free = np.array([label is None for label in Y])
    for balance, expected in ((0.25, 0.25), ("labels", np.mean(np.where(Y[KNOWN] == "up", 1, -1)))):
        fitted = model(balance=balance, algorithm=algorithm, n_components=40, tol=1e-5).fit(X, Y)
        assert fitted.decision_function(X[free]).mean() == pytest.approx(expected, abs=1e-3)


def test_linear_and_exact_with_the_linear_kernel_agree_where_it_is_convex():
    options = {"C": 0.5, "C_unlabelled": 0.1, "C_irrelevant": 0.1, "tol": 1e-5}
    exact = model("irrelevant", kernel="linear", algorithm="exact", gamma=None, **options)
    linear = model("irrelevant", algorithm="linear", **options)
    scores = [m.fit(X, Y).decision_function(X) for m in (exact, linear)]
    assert np.allclose(*scores, atol=5e-3)
    assert exact.objectives_[0][0] == pytest.approx(linear.objectives_[0][0], rel=1e-4)


def test_all_rows_as_landmarks_are_the_exact_machine():
    exact = model(algorithm="exact", tol=1e-5).fit(X, Y)
    mapped = model(algorithm="mapped", n_components=N, tol=1e-5).fit(X, Y)
    assert mapped.objectives_[0][0] == pytest.approx(exact.objectives_[0][0], rel=2e-3)
    assert np.mean(mapped.predict(X) == exact.predict(X)) > 0.95


def test_many_rows_go_to_landmarks():
    many = UniversumClassifier(random_state=0, n_components=30, max_iter=2)
    rows = np.tile(X, (40, 1)) + 0.1 * RNG.normal(size=(40 * N, 3))
    labels = np.full(rows.shape[0], np.nan)
    labels[:40], labels[50:90] = 1.0, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        many.fit(rows, labels)
    assert many.algorithm_ == "mapped"
    assert np.mean(many.predict(rows[MEMBERS.repeat(1).tolist() * 40]) == np.tile(
        np.where(TRUTH[MEMBERS] == "up", 1.0, 0.0), 40)) > 0.9  # fmt: skip


def test_order_weights_and_signs_do_not_matter():
    options = {"tol": 1e-6, "algorithm": "exact"}
    fitted = model(**options).fit(X, Y)
    scores = fitted.decision_function(X)
    order = RNG.permutation(N)
    shuffled = model(**options).fit(X[order], Y[order])
    assert np.allclose(shuffled.decision_function(X), scores, atol=0.02)
    weight = np.ones(N)
    weight[:5] = 2.0
    twice = model(C=1.0, C_unlabelled=0.2, C_irrelevant=0.2, **options)
    repeated = clone(twice).fit(np.vstack([X, X[:5]]), np.concatenate([Y, Y[:5]]))
    weighted = twice.fit(X, Y, sample_weight=weight)
    assert np.allclose(weighted.decision_function(X), repeated.decision_function(X), atol=0.02)
    swapped = np.array([{"up": "down", "down": "up"}.get(v, v) for v in Y], dtype=object)
    mirrored = model(**options).fit(X, swapped)
    assert np.allclose(mirrored.decision_function(X), -scores, atol=0.02)
    gone = np.where(np.arange(N) % 7 == 0, 0.0, 1.0)
    without = clone(twice).fit(X[gone > 0], Y[gone > 0])
    assert np.allclose(
        clone(twice).fit(X, Y, sample_weight=gone).decision_function(X),
        without.decision_function(X), atol=1e-6,
    )  # fmt: skip


def test_sparse_rows_are_like_dense_ones():
    dense = model(tol=1e-6).fit(X, Y)
    sparse = model(tol=1e-6).fit(csr_matrix(X), Y)
    assert np.allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)
    with pytest.raises(ValueError, match="zeros of sparse rows"):
        model(algorithm="linear", balance=0.0).fit(csr_matrix(X), Y)


def test_several_classes_are_one_against_the_rest():
    centres = np.repeat([[0, 2], [2, -1], [-2, -1], [0, 0]], 40, axis=0)
    rows = centres + 0.4 * RNG.normal(size=(160, 2))
    labels = np.repeat(["a", "b", "c", "none"], 40).astype(object)
    some = labels.copy()
    some[np.arange(160) % 4 > 0] = None
    fitted = UniversumClassifier(irrelevant="none", random_state=0).fit(rows, some)
    assert fitted.decision_function(rows).shape == (160, 3)
    assert len(fitted.objectives_) == 3
    assert np.mean(fitted.predict(rows[:120]) == labels[:120]) > 0.95
    relevant = fitted.is_relevant(rows)
    assert relevant[:120].mean() > 0.7 > 0.4 > relevant[120:].mean()


def test_a_row_is_relevant_where_that_costs_less():
    fitted = model(epsilon=0.2).fit(X, Y)
    sure = np.abs(fitted.decision_function(X)) >= 0.6
    assert np.array_equal(fitted.is_relevant(X), sure)


def test_probabilities_are_calibrated_on_labelled_rows():
    fitted = model(calibrate="sigmoid").fit(X, Y)
    p = fitted.predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert p[:50, 1].mean() > 0.7 > 0.3 > p[50:100, 1].mean()
    assert np.all(np.diff(p[np.argsort(fitted.decision_function(X)), 1]) >= 0.0)


def test_class_weights_are_for_labelled_rows():
    plain, heavy = (model(class_weight=w).fit(X, Y) for w in (None, {"up": 50.0}))
    assert heavy.decision_function(X).mean() > plain.decision_function(X).mean()
    with pytest.raises(ValueError, match="class_weight"):
        model(class_weight="equal").fit(X, Y)


# ---------------------------------------------------------------- labels with blanks


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        (["b", None, "a", ""], ["a", "b"], [1, -1, 0, -1]),
        ([1.0, np.nan, -1.0, 1.0], [-1.0, 1.0], [1, -1, 0, 1]),
        (pd.Series(["b", None, "a", "b"]), ["a", "b"], [1, -1, 0, 1]),
        (pd.Series([1, None, 2, 1], dtype="Int64"), [1, 2], [0, -1, 1, 0]),
        (pd.Series(["b", pd.NA, "a", "b"], dtype="string"), ["a", "b"], [1, -1, 0, 1]),
        (pd.Categorical(["b", None, "a", "b"]), ["a", "b"], [1, -1, 0, 1]),
        ([True, None, False, True], [False, True], [1, -1, 0, 1]),
        (np.array([3, 3, 4, 4]), [3, 4], [0, 0, 1, 1]),
        (np.array(["b", "", "a", "b"]), ["a", "b"], [1, -1, 0, 1]),
    ],
)
def test_blanks_of_every_kind(y, classes, codes):
    found, numbers = partly_coded(y)
    assert found.tolist() == classes
    assert numbers.tolist() == codes


def test_the_marker_is_no_class():
    classes, codes = partly_coded([5, 7, None, 9, 5], irrelevant=9)
    assert classes.tolist() == [5, 7]
    assert codes.tolist() == [0, 1, UNLABELLED, IRRELEVANT, 0]
    read = from_targets(np.array([1.0, np.nan, IRRELEVANT_TARGET, 0.0]))
    assert read.tolist() == [1, UNLABELLED, IRRELEVANT, 0]


@pytest.mark.parametrize(
    ("y", "options", "words"),
    [
        ([None] * N, {}, "all rows are unlabelled"),
        (np.full(N, np.nan), {"irrelevant": None}, "contains NaN"),
        (["none"] * N, {}, "no class has a row"),
        (["up"] * 20 + [None] * (N - 20), {"irrelevant": None}, "one class: 'up'"),
        (["up", 3] * (N // 2), {}, "words and numbers mixed"),
        (np.where(KNOWN, 1.0, np.nan), {}, "irrelevant='none' does not go with labels"),
        (np.where(KNOWN, np.inf, 1.0), {"irrelevant": None}, "infinity, in row"),
        (Y[:-1], {}, "inconsistent numbers of samples"),
        (RNG.normal(size=N), {"irrelevant": None}, "Unknown label type"),
        (Y, {"unlabelled": "some"}, "unlabelled must be one of 'mixed'"),
        (Y, {"start": "U-SVM"}, "start must be one of"),
        (Y, {"algorithm": "fast"}, "algorithm must be one of"),
        (Y, {"tuning": True}, "tuning must be one of"),
        (Y, {"C": 0.0}, "C must be a positive number"),
        (Y, {"C_unlabelled": -1.0}, "C_unlabelled must be a positive number"),
        (Y, {"epsilon": 1.0}, r"epsilon must be a number in \[0, 1\)"),
        (Y, {"kappa": 0.1}, r"kappa must be a number in \(-1, 0\]"),
        (Y, {"balance": "equal"}, "balance must be a number"),
        (np.where(KNOWN, Y, "none"), {"balance": 0.1}, "mean score of unlabelled rows"),
        (Y, {"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        (Y, {"kernel": "gauss"}, "kernel"),
        (Y, {"map": "nystrom", "algorithm": "mapped"}, "map='nystrom' is unknown"),
        (Y, {"memory": 100.0, "algorithm": "mapped", "n_components": 300}, "raise memory to"),
    ],
)  # fmt: skip
def test_bad_input_is_told(y, options, words):
    rows = np.vstack([X, X, X]) if "memory" in options else X
    labels = np.concatenate([y, y, y]) if "memory" in options else y
    wrong = model(**({"unlabelled": "mixed"} | options))
    with pytest.raises(ValueError, match=words):
        wrong.fit(rows, labels)


def test_a_class_without_labelled_rows_is_named():
    classes, codes = partly_coded(Y, "none")
    three = np.append(classes, "west")
    with pytest.raises(ValueError, match="class 'west' has no labelled row"):
        model().fit_codes(X, codes, three)
    weight = np.where(Y == "up", 0.0, 1.0)
    with pytest.raises(ValueError, match="one class: 'down'"):
        model().fit(X, Y, sample_weight=weight)


def test_there_is_no_stream():
    with pytest.raises(AttributeError) as told:
        model().partial_fit(X, Y)
    assert "sample of the unlabelled rows" in str(told.value.__cause__)


# ---------------------------------------------------------------- tuning


def test_forward_tuning_is_told_and_repeatable():
    options = {"tuning": "forward", "irrelevant": None}
    labels = np.where(Y == "none", None, Y)
    fitted = model(**options).fit(X, labels)
    assert set(fitted.tuned_) == {"C", "C_unlabelled", "epsilon", "kappa"}
    assert fitted.get_params()["C"] == 10.0  # what was given stays
    again = clone(fitted).fit(X, labels)
    assert again.tuned_ == fitted.tuned_
    same = model(irrelevant=None, **fitted.tuned_).fit(X, labels)
    assert np.array_equal(same.decision_function(X), fitted.decision_function(X))
    assert "tuned_" not in vars(fitted.set_params(tuning=None).fit(X, labels))


def test_tuning_asks_for_what_there_is():
    few = np.flatnonzero(KNOWN)
    with pytest.warns(UserWarning, match="no row has the label irrelevant='none'"):
        assert set(model(tuning="forward").fit(X[few], Y[few]).tuned_) == {"C"}
    direct = model("relevant", tuning="direct", irrelevant=None)
    direct.fit(X, np.where(Y == "none", None, Y))
    assert set(direct.tuned_) == {"C", "C_unlabelled", "kappa"}
    one = Y.copy()
    one[np.flatnonzero(Y == "up")[1:]] = None
    with pytest.raises(ValueError, match=r"of every class, and .* has one: label another"):
        model(tuning="forward").fit(X, one)


def test_a_search_judges_labelled_rows_and_learns_from_all():
    search = TunedClassifier(model(), n_trials=3, cv=3, search="random", random_state=0).fit(X, Y)
    tested = np.sort(np.concatenate([fold.test for fold in search.folds_]))
    assert np.array_equal(tested, np.flatnonzero(KNOWN))
    assert all(fold.train.size + fold.test.size == N for fold in search.folds_)
    assert np.mean(search.predict(X[:100]) == TRUTH[:100]) > 0.85


# ---------------------------------------------------------------- how fits end


def test_a_callback_stops_and_leaves_a_model():
    seen = []

    def stop(event):
        seen.append(event.passes)
        return event.passes >= 1

    for algorithm in ("exact", "linear"):
        seen.clear()
        fitted = model(algorithm=algorithm, callbacks=[stop], C_unlabelled=3.0).fit(X, Y)
        assert fitted.status_ is Status.INTERRUPTED
        assert max(seen) == 1
        assert np.all(np.isfinite(fitted.decision_function(X)))


def test_time_runs_out_and_steps_run_out():
    with ending(lambda: True):
        assert model().fit(X, Y).status_ is Status.OUT_OF_TIME
    with pytest.warns(ConvergenceWarning):
        fitted = model(max_iter=1, C_unlabelled=5.0).fit(X, Y)
    assert fitted.status_ is Status.MAX_ITER


def test_progress_is_printed(capsys, monkeypatch):
    monkeypatch.setattr("thresher.estimators.support_fit._MOMENT", 0.0)
    model(verbose=1).fit(X, Y)
    assert "[thresher] pass" in capsys.readouterr().out


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("algorithm", ["exact", "linear", "mapped"])
def test_models_are_saved_and_checked(algorithm):
    fitted = model(algorithm=algorithm, n_components=20, tuning="forward").fit(X[::2], Y[::2])
    document, arrays = to_document(fitted)
    loaded = from_document(document, arrays, VERSION)
    assert np.array_equal(loaded.decision_function(X), fitted.decision_function(X))
    assert loaded.objectives_ == fitted.objectives_
    assert loaded.tuned_ == fitted.tuned_
    assert loaded.irrelevant == "none"
    assert np.array_equal(loaded.is_relevant(X), fitted.is_relevant(X))
    for name, value in (("algorithm_", "none"), ("objectives_", [["a"]]), ("tuned_", {"C": "x"})):
        wrong = {**document, "record": {**document["record"], name: value}}
        with pytest.raises(BadFile, match=name):
            from_document(wrong, arrays, VERSION)


@pytest.mark.parametrize("algorithm", ["exact", "linear"])
def test_onnx_gives_the_same_labels(algorithm, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    fitted = model(algorithm=algorithm, scale=True).fit(X, Y)
    path = tmp_path / "m.onnx"
    write_onnx(path, fitted.function_, fitted.classes_)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    assert np.array_equal(found["label"], fitted.predict(X))


def test_a_supervised_map_learns_from_labels_only():
    fitted = model(algorithm="mapped", map="forest", n_components=5).fit(X, Y)
    assert np.mean(fitted.predict(X[:100]) == TRUTH[:100]) > 0.7


def test_an_indefinite_kernel_is_told():
    rows = np.random.default_rng(0).normal(size=(120, 3))
    names = np.where(np.arange(120) % 4 == 0, np.where(rows[:, 0] > 0.0, "a", "b"), "")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        UniversumClassifier(kernel=Sigmoid(2.0, -3.0), algorithm="exact").fit(rows, names)
    assert any("not positive definite" in str(warning.message) for warning in told)


def test_rows_that_overflow_are_refused():
    for algorithm in ("exact", "linear", "mapped"):
        with pytest.raises(ValueError, match=r"X holds values up to .* too large to square"):
            model(algorithm=algorithm).fit(1e200 * X, Y)


@pytest.mark.parametrize("algorithm", ["exact", "linear", "mapped"])
def test_rows_that_are_all_the_same_are_told(algorithm):
    with pytest.warns(ConvergenceWarning, match="no better than a constant|all-zero model"):
        UniversumClassifier(algorithm=algorithm).fit(np.ones((100, 3)), Y[:100])
