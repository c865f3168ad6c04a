"""Boosted leaves: scikit-learn's boosting to the last digits, everywhere that a map goes."""

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning

from thresher import (
    BoostedFeatures,
    KernelClassifier,
    KernelRegressor,
    TunedClassifier,
    load_model,
    save_model,
    train,
)
from thresher._clock import ending
from thresher.race.contestants import contestants
from thresher.search import space_for

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5)).astype(np.float32).astype(np.float64)
TWO = (X[:, 0] * X[:, 1] > 0).astype(int)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + (X[:, 1] > 0), [0.0, 1.0])]
TARGET = np.sin(2 * X[:, 0]) + (X[:, 1] > 0.3)
WEIGHT = RNG.integers(0, 4, 400).astype(float)


def peer(y):
    cls = HistGradientBoostingRegressor if y is TARGET else HistGradientBoostingClassifier
    return cls(
        max_iter=12, early_stopping=False, max_bins=63, l2_regularization=0.1, random_state=0
    )


def ours(y, **params):
    cls = KernelRegressor if y is TARGET else KernelClassifier
    return cls(map="boosted", n_components=12, random_state=0, **params)


def scores(model, rows):
    has = hasattr(model, "decision_function")
    return model.decision_function(rows) if has else model.predict(rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("y", [TWO, THREE, TARGET], ids=["two", "three", "numbers"])
def test_it_is_boosting_itself(y, weighted):
    weight = WEIGHT if weighted else None
    kept = WEIGHT > 0 if weighted else slice(None)
    model = ours(y).fit(X, y, weight)
    other = peer(y).fit(X[kept], y[kept], WEIGHT[kept] if weighted else None)
    unseen = np.random.default_rng(1).normal(size=(200, 5)).astype(np.float32).astype(float)
    for rows in (X, unseen, sparse.csr_matrix(unseen)):
        dense = rows.toarray() if sparse.issparse(rows) else rows
        np.testing.assert_allclose(scores(model, rows), scores(other, dense), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [300, 10_500])  # the second holds rows out to end early
def test_parts_give_the_same_trees(rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=rows)
    whole = BoostedFeatures(random_state=0).learn(X, y)
    with ending(lambda: False):
        parts = BoostedFeatures(random_state=0).learn(X, y)
    for one, other in zip(whole.trees_, parts.trees_, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_rare_class_does_not_spoil_the_others():
    """Leaves of few rows without a penalty take ever longer steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    by_third = np.argsort(X[:, 2])
    y[by_third[:15]], y[by_third[-15:]] = 4, 5

    def error(ridge):
        model = KernelClassifier(map=BoostedFeatures(ridge=ridge, random_state=0))
        return 1.0 - model.fit(X[:3000], y[:3000]).score(X[3000:], y[3000:])

    assert error(0.1) < 0.02
    with pytest.warns(ConvergenceWarning, match="no better than a constant"):
        assert error(0.0) > 0.1


def test_categories_are_one_column_to_the_trees():
    city = RNG.integers(0, 7, 400)
    rows = np.hstack([X, np.eye(7)[city]])
    y = np.isin(city, (1, 2, 5)) ^ (X[:, 0] > 0)
    made = BoostedFeatures(12, random_state=0).learn(rows, y.astype(np.int64))
    assert made.bundles_.width == 6
    plain = BoostedFeatures(12, bundle=False, random_state=0).learn(rows, y.astype(np.int64))
    assert plain.bundles_ is None
    together = BoostedFeatures(12, bundle=False, random_state=0)
    together.learn(made.bundles_.rows(rows), y.astype(np.int64))
    np.testing.assert_array_equal(made.trees_.threshold, together.trees_.threshold)


def test_what_was_grown_in_time_is_a_model():
    X = np.random.default_rng(0).normal(size=(300, 3))
    with ending(lambda: True):
        model = KernelClassifier(map="boosted", random_state=0).fit(X, X[:, 0] > 0)
    assert model.map_.describe() == "10 trees"
    assert model.score(X, X[:, 0] > 0) > 0.9


def test_rows_on_a_threshold_go_where_they_went():
    rows = np.round(X, 1)
    model, other = ours(TWO).fit(rows, TWO), peer(TWO).fit(rows.astype(np.float32), TWO)
    got = model.decision_function(rows)
    np.testing.assert_allclose(got, other.decision_function(rows.astype(np.float32)), atol=1e-9)


def test_the_weights_can_be_learned_again():
    own = KernelClassifier(map=BoostedFeatures(12, random_state=0)).fit(X, TWO)
    again = KernelClassifier(map=BoostedFeatures(12, relearn=True, random_state=0)).fit(X, TWO)
    for a, b in zip(own.map_.trees_, again.map_.trees_, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.allclose(own.coef_, again.coef_)
    assert again.score(X, TWO) > 0.95
    assert "alpha" not in space_for(own, X, TWO).dimensions
    assert {"alpha", "map__learning_rate"} <= set(space_for(again, X, TWO).dimensions)


def test_a_class_without_rows_is_never_right():
    codes = (X[:, 0] > 0).astype(np.int64)
    for present in ([0, 2], [1, 2], [0, 1]):
        model = ours(TWO)
        model.fit_codes(X, np.array(present)[codes], np.array(["a", "b", "c"]))
        assert set(model.predict(X)) == set(np.array(["a", "b", "c"])[present])


def test_a_stream_has_the_trees_of_its_first_rows():
    model = ours(THREE)
    for part in (slice(0, 200), slice(200, 400)):
        model.partial_fit(X[part], THREE[part], classes=["a", "b", "c"])
    first = ours(THREE).fit(X[:200], THREE[:200])
    np.testing.assert_array_equal(model.decision_function(X), first.decision_function(X))
    streamed = train(X, TWO, learner="kernel", params={"map": "boosted"}, memory=1)
    assert streamed.training["in_memory"] is False
    assert streamed.training["held_out"]["error"] < 0.25


@pytest.mark.parametrize("y", [TWO, THREE, TARGET], ids=["two", "three", "numbers"])
def test_files_and_onnx(y, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    model = ours(y).fit(X, y)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher").estimator
    np.testing.assert_array_equal(scores(again, X), scores(model, X))
    save_model(again, tmp_path / "n.thresher")
    assert (tmp_path / "n.thresher").read_bytes() == (tmp_path / "m.thresher").read_bytes()
    write_onnx(tmp_path / "m.onnx", model.function_, getattr(model, "classes_", None))
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    name = "prediction" if y is TARGET else "scores"
    np.testing.assert_allclose(session.run([name], {"X": X})[0], scores(model, X), rtol=1e-10)


def test_the_commands_know_it(thresher, tmp_path):
    path, data = tmp_path / "m.thresher", tmp_path / "d.csv"
    lines = [
        ",".join(f"{v:.3f}" for v in row) + f",{label}" for row, label in zip(X, THREE, strict=True)
    ]
    data.write_text("a,b,c,d,e,y\n" + "\n".join(lines))

    def run(*words):
        code, out, err = thresher(*words)
        assert not code, err
        return out

    run("train", data, "-t", "y", "--learner", "kernel", "--set", "map=boosted", "--set",
        "map.n_components=15", "-m", path, "-q")  # fmt: skip
    told = json.loads(run("inspect", path, "--json"))
    assert told["training"]["described"].endswith("45 trees")
    assert "leaves" in told["training"]["size"]
    run("report", path, "--html", tmp_path / "r.html", "--quick", "-q")
    page = (tmp_path / "r.html").read_text()
    assert "map=boosted" in page
    assert "map.n_components=15" in page


def test_it_races_and_is_tuned():
    for task in ("classification", "regression"):
        assert "boosted trees" in contestants(task, sparse=False, features=20)
        assert "boosted trees" not in contestants(task, sparse=True, features=20_000)
    made = KernelClassifier(map=BoostedFeatures(10), random_state=0)
    tuned = TunedClassifier(made, n_trials=4, cv=3, random_state=0, search="random").fit(X, TWO)
    assert set(tuned.best_params_) <= set(space_for(made, X, TWO).dimensions)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"n_components": "many"}, "or 'auto'"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive number"),
        ({"max_leaves": 1}, "max_leaves must be a whole number of at least 2"),
        ({"min_leaf": 2.5}, "min_leaf must be a whole number"),
    ],
)
def test_bad_options_are_named(params, match):
    with pytest.raises(ValueError, match=match):
        BoostedFeatures(**params).fit(X, TWO)


def test_rows_that_cannot_be_grown_on():
    with pytest.raises(ValueError, match="requires y to be passed"):
        BoostedFeatures().fit(X)
    with pytest.raises(ValueError, match="too large for single precision"):
        BoostedFeatures().fit(X * 1e300, TWO)
    wide = sparse.csr_matrix((10_000, 200_000))
    with pytest.raises(ValueError, match="needs dense rows"):
        BoostedFeatures().fit(wide, np.arange(10_000) % 2)
