"""The estimators of many tasks: targets in both shapes, what is refused, files, routing."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.linear_model import MultiTaskLasso
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thresher import (
    FourierFeatures,
    GroupL2,
    MultiTaskClassifier,
    MultiTaskRegressor,
    load_model,
    save_model,
)
from thresher.artifacts.container import BadFile
from thresher.estimators.saving import from_document, to_document

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6))
SCHOOLS = np.array(["north", "south", "west"])
SCHOOL = SCHOOLS[RNG.integers(3, size=120)]
SLOPE = {"north": 1.0, "south": 2.0, "west": -1.0}
LEVEL = {"north": 0.0, "south": 5.0, "west": 10.0}
Y_LONG = (
    X[:, 0] * [SLOPE[s] for s in SCHOOL]
    + np.array([LEVEL[s] for s in SCHOOL])
    + 0.05 * RNG.normal(size=120)
)
Y = X[:, :1] * [1.0, 2.0, -1.0] + [0.0, 5.0, 10.0] + 0.05 * RNG.normal(size=(120, 3))


def labels(numbers):
    return np.where(numbers > np.median(numbers), "yes", "no")


# ---------------------------------------------------------------- learning and predicting


def test_matrix_is_the_multi_task_lasso():
    peer = MultiTaskLasso(alpha=0.1, tol=1e-10).fit(X, Y)
    model = MultiTaskRegressor(alpha=0.1).fit(X, Y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict(X), peer.predict(X), atol=1e-4)
    assert model.score(X, Y) == pytest.approx(peer.score(X, Y), abs=1e-5)
    assert model.selection_ == (3, 1, pytest.approx([1, 1, 1]), pytest.approx([3, 0, 0, 0, 0, 0]))


def test_rows_that_name_their_tasks_give_the_model_of_the_matrix():
    holes = np.where(RNG.uniform(size=Y.shape) < 0.5, np.nan, Y)
    row, task = np.nonzero(~np.isnan(holes))
    order = RNG.permutation(row.size)
    row, task = row[order], task[order]
    matrix = MultiTaskRegressor(alpha=0.05).fit(X, holes)
    long = MultiTaskRegressor(alpha=0.05).fit(X[row], Y[row, task], task=SCHOOLS[task])
    assert long.tasks_.tolist() == SCHOOLS.tolist()
    np.testing.assert_allclose(long.coef_, matrix.coef_, atol=1e-6)
    np.testing.assert_allclose(
        long.predict(X[row], task=SCHOOLS[task]), matrix.predict(X)[row, task], atol=1e-5
    )
    assert matrix.score(X, holes) > 0.9
    assert long.score(X[row], Y[row, task], task=SCHOOLS[task]) > 0.95
    thin = MultiTaskRegressor(alpha=0.05).fit(
        sparse.csr_matrix(X[row]), Y[row, task], task=SCHOOLS[task]
    )
    np.testing.assert_allclose(
        thin.predict(sparse.csr_matrix(X[row]), task=SCHOOLS[task]),
        long.predict(X[row], task=SCHOOLS[task]), atol=1e-6,
    )  # fmt: skip


def test_every_task_counts_the_same_or_every_row():
    """A task given three times is three times as many rows."""
    X3, y3 = np.concatenate([X, X, X]), np.concatenate([Y_LONG] * 3)
    often = SCHOOL == "west"
    kept = np.concatenate(
        [np.arange(120), 120 + np.flatnonzero(often), 240 + np.flatnonzero(often)]
    )
    task = np.concatenate([SCHOOL] * 3)[kept]
    once = MultiTaskRegressor(alpha=0.1).fit(X, Y_LONG, task=SCHOOL)
    even = MultiTaskRegressor(alpha=0.1).fit(X3[kept], y3[kept], task=task)
    np.testing.assert_allclose(even.coef_, once.coef_, atol=1e-6)
    rows = MultiTaskRegressor(alpha=0.1, balance="rows").fit(X3[kept], y3[kept], task=task)
    west = SCHOOLS.tolist().index("west")
    assert abs(rows.coef_[west, 0]) > abs(even.coef_[west, 0]) + 1e-3


def test_a_new_task_is_the_mean_of_all():
    model = MultiTaskRegressor(alpha=0.1).fit(X, Y_LONG, task=SCHOOL)
    new = model.predict(X[:5], task=["east"] * 5)
    each = np.stack([model.predict(X[:5], task=[s] * 5) for s in SCHOOLS])
    np.testing.assert_allclose(new, each.mean(axis=0))
    np.testing.assert_allclose(model.predict(X[:5]), each.T)
    model.set_params(new_tasks="error")
    with pytest.raises(ValueError, match="row 1 is of task 'east', which was not there"):
        model.predict(X[:2], task=["west", "east"])


@pytest.mark.parametrize("penalty", ["group", "sparse_group", "l1", GroupL2(elastic=0.2)])
def test_classifier_in_both_shapes(penalty):
    model = MultiTaskClassifier(penalty=penalty, alpha=0.02)
    Z = np.where(np.median(Y, axis=0) < Y, 1.0, 0.0)
    Z[RNG.uniform(size=Z.shape) < 0.3] = np.nan
    assert model.fit(X, Z).score(X, Z) > 0.9
    assert model.predict(X).shape == model.predict_proba(X).shape == (120, 3)
    y = np.concatenate([labels(Y_LONG[s == SCHOOL]) for s in SCHOOLS])
    order = np.concatenate([np.flatnonzero(s == SCHOOL) for s in SCHOOLS])
    model.fit(X[order], y, task=SCHOOL[order])
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X[order], y, task=SCHOOL[order]) > 0.9
    chances = model.predict_proba(X[order], task=SCHOOL[order])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.array_equal(chances[:, 1] > 0.5, model.predict(X[order], task=SCHOOL[order]) == "yes")


def test_streams_by_tasks_in_any_order():
    rng = np.random.default_rng(1)
    many = rng.normal(size=(4000, 6))
    task = rng.integers(50, size=4000)
    slopes = rng.normal(2.0, 0.3, size=50)
    y = slopes[task] * many[:, 0] + 3.0 + 0.1 * rng.normal(size=4000)
    model = MultiTaskRegressor(random_state=0)
    with pytest.raises(ValueError, match="tasks must be passed"):
        model.partial_fit(many, y, task=task)
    for start in range(0, 4000, 1000):
        part = slice(start, start + 1000)
        model.partial_fit(many[part], y[part], task=task[part], tasks=np.arange(50))
    assert model.score(many, y, task=task) > 0.99  # 80 rows of each, once
    with pytest.raises(ValueError, match="row 0 is of task 99, which is not among those"):
        model.partial_fit(many[:1], y[:1], task=[99])
    with pytest.raises(ValueError, match="given as matrix, but were pairs"):
        model.partial_fit(many[:1], np.ones((1, 50)))
    clf = MultiTaskClassifier(random_state=0)
    signs = y > 3.0
    with pytest.raises(ValueError, match="classes must be passed"):
        clf.partial_fit(many, signs, task=task, tasks=np.arange(50))
    clf.partial_fit(many, signs, task=task, tasks=np.arange(50), classes=[False, True])
    assert clf.score(many, signs, task=task) > 0.9


def test_dual_averaging_comes_close_to_the_optimum():
    best = MultiTaskRegressor(alpha=0.1).fit(X, Y)
    online = MultiTaskRegressor(solver="rda", alpha=0.1, max_iter=50, random_state=0).fit(X, Y)
    assert online.status_.name == "COMPLETED"
    assert online.score(X, Y) > 0.97 * best.score(X, Y)


def test_units_names_and_maps():
    import pandas as pd

    frame = pd.DataFrame(X * [1.0, 100.0, 1.0, 1.0, 1.0, 1.0], columns=list("abcdef"))
    targets = pd.DataFrame(Y, columns=["maths", "art", "music"])
    model = MultiTaskRegressor(scale=True, alpha=0.1).fit(frame, targets)
    assert model.tasks_.tolist() == ["maths", "art", "music"]
    ((name, weight),) = model.features_of("art")
    assert name == "a"
    assert weight == pytest.approx(1.9, abs=0.15)
    plain = MultiTaskRegressor(alpha=0.1).fit(StandardScaler().fit_transform(frame), Y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(
        StandardScaler().fit_transform(frame)), atol=1e-5)  # fmt: skip
    bent = np.sin(2.0 * X[:, :1]) * [1.0, 2.0, -1.0]
    curved = make_pipeline(FourierFeatures(100, random_state=0), MultiTaskRegressor())
    assert curved.fit(X[:, :1], bent).score(X[:, :1], bent) > 0.95
    assert MultiTaskRegressor().fit(X[:, :1], bent).score(X[:, :1], bent) < 0.7


def test_metadata_is_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = MultiTaskRegressor(alpha=0.05)
        model.set_fit_request(task=True).set_predict_request(task=True)
        model.set_score_request(task=True)
        pipe = make_pipeline(StandardScaler(), model)
        scores = cross_val_score(pipe, X, Y_LONG, params={"task": SCHOOL}, cv=3)
        assert np.all(scores > 0.95)
        assert pipe.fit(X, Y_LONG, task=SCHOOL).predict(X[:4], task=SCHOOL[:4]).shape == (4,)


# ---------------------------------------------------------------- what cannot be


def refused(match, *args, model=None, **more):
    with pytest.raises(ValueError, match=match):
        (model or MultiTaskRegressor()).fit(*args, **more)


def test_bad_targets_are_named():
    hollow = Y.copy()
    hollow[:, 1] = np.nan
    refused("task 1 without a single target", X, hollow)
    hollow[5, 1] = 2.0
    refused("task 1 with one sample only, fewer than least_rows=2", X, hollow)
    assert MultiTaskRegressor(least_rows=1, alpha=0.1).fit(X, hollow).status_.name == "CONVERGED"
    lonely = SCHOOL.copy()
    lonely[3] = "hut"
    refused("task 'hut' with one sample only", X, Y_LONG, task=lonely)
    weight = np.where(SCHOOL == "west", 0.0, 1.0)
    refused("task 'west' without a single target", X, Y_LONG, weight, task=SCHOOL)
    refused("each of the 120 rows, got shape \\(7,\\)", X, Y_LONG, task=SCHOOL[:7])
    refused("inconsistent numbers of samples", X, Y[:7])
    refused("y has 3 columns", X, Y, task=SCHOOL)
    gap = Y_LONG.copy()
    gap[4] = np.nan
    refused(f"row 4, of task '{SCHOOL[4]}', has no target", X, gap, task=SCHOOL)
    far = Y.copy()
    far[7, 2] = np.inf
    refused("infinity, in row 7 \\(task 2\\)", X, far)
    refused("row 2 names no task: task holds nan", X, Y_LONG, task=[1.0, 1.0, np.nan] * 40)
    endless = np.where(np.arange(120) == 7, np.inf, Y_LONG)
    refused(f"infinity, in row 7 \\(task '{SCHOOL[7]}'\\)", X, endless, task=SCHOOL)
    refused("requires y", X, None)
    refused("no columns", X, Y[:, :0])
    model = MultiTaskRegressor(alpha=0.1).fit(X, Y_LONG, task=SCHOOL)
    with pytest.raises(ValueError, match=r"tasks are words such as .*north"):
        model.predict(X, task=np.arange(120))
    with pytest.raises(ValueError, match="'hut' was not there"):
        model.features_of("hut")


def test_bad_classes_are_named():
    clf = MultiTaskClassifier()
    z = np.where(X[:, 0] > 0.0, "yes", "no")
    z[SCHOOL == "west"] = "yes"
    refused("task 'west' with targets of one class only", X, z, task=SCHOOL, model=clf)
    refused("two classes apart, but the targets hold 3", X, np.arange(120) % 3, model=clf)
    refused("one class", X, np.ones(120), model=clf)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"balance": "schools"}, "balance must be"),
        ({"new_tasks": "guess"}, "new_tasks must be"),
        ({"least_rows": 0}, "least_rows must be"),
        (
            {"solver": "asgd", "penalty": "l2"},
            "AveragedSGD does not learn a matrix of targets, .*; these do: proximal_newton, rda",
        ),
        ({"penalty": "box"}, "Box is not for many tasks"),
        ({"penalty": GroupL2([0, 0, 1, 1, 2, 2])}, "groups of several features"),
        ({"loss": "hinge"}, "Hinge is not for regression"),
    ],
)
def test_bad_settings_are_named(params, match):
    refused(match, X, Y, model=MultiTaskRegressor(**params))


@pytest.mark.parametrize("solver", ["fobos", "adaptive_rda"])
def test_solvers_that_learn_no_tasks_name_those_that_do(solver):
    model = MultiTaskRegressor(solver=solver)
    match = "does not learn rows that name their task; these do: proximal_newton, rda"
    refused(match, X, Y_LONG, task=SCHOOL, model=model)
    with pytest.raises(ValueError, match=match):
        model.partial_fit(X, Y_LONG, task=SCHOOL, tasks=SCHOOLS)
    with pytest.raises(AttributeError) as caught:
        MultiTaskRegressor(solver="proximal_newton").partial_fit(X, Y)
    assert "use 'auto', 'rda' or 'rda_plus'" in str(caught.value.__cause__)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("task", [None, SCHOOL, np.arange(120) % 4])
def test_files_keep_everything(task, tmp_path):
    y = Y if task is None else Y_LONG
    models = [MultiTaskRegressor(alpha=0.05, random_state=0).fit(X, y, task=task)]
    other = MultiTaskRegressor(penalty="l1")
    if task is None:
        y, other = np.where(y[:, 0] > 0.0, "b", "a"), MultiTaskClassifier(penalty="sparse_group")
    models.append(other.fit(X, y, task=task))
    for model in models:
        save_model(model, tmp_path / "m.thresher")
        again = load_model(tmp_path / "m.thresher").estimator
        assert np.array_equal(again.predict(X, task), model.predict(X, task))
        assert np.array_equal(again.tasks_, model.tasks_)
        assert again.targets_ == model.targets_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tasks_", np.array(["a", "a", "b"])),
        ("tasks_", np.array(["a", "b"])),
        ("tasks_", 3),
        ("tasks_", np.zeros((3, 1))),
        ("targets_", "heap"),
        ("targets_", "single"),
    ],
)
def test_hostile_records_are_refused(name, value):
    model = MultiTaskRegressor(alpha=0.05).fit(X, Y_LONG, task=SCHOOL)
    setattr(model, name, value)
    with pytest.raises(ValueError, match=name.rstrip("_")):
        to_document(model)
    fine = MultiTaskRegressor(alpha=0.05).fit(X, Y_LONG, task=SCHOOL)
    document, arrays = to_document(fine)
    document["record"].pop("tasks_")
    with pytest.raises(BadFile, match="tasks_"):
        from_document(document, arrays, 2)


@pytest.mark.parametrize("offset", [1e6, 1e9])
def test_features_far_from_zero(offset):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    Y = X[:, :2] @ np.array([[1.0, -2.0, 0.5], [0.5, 1.0, -1.0]]) + 0.1 * rng.normal(size=(300, 3))
    near = MultiTaskRegressor(random_state=0).fit(X, Y)
    far = MultiTaskRegressor(random_state=0).fit(X + offset, Y)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-6)
