"""Forests as feature maps: the leaves of scikit-learn's trees, their kernel, the models on them."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

from thresher import (
    ForestFeatures,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    load_model,
    save_model,
    train,
)
from thresher._clock import ending
from thresher._random import generator
from thresher._seed import seed_from
from thresher.maps import BoostedFeatures, forest, leaves
from thresher.maps.levels import Levels
from thresher.solvers import AveragedSGD

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 6)) * (RNG.random((300, 6)) < 0.7)
Y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
Y3 = np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5])
TARGET = np.sin(2.0 * X[:, 0]) + X[:, 1]
UNSEEN = RNG.normal(size=(200, 6)) * (RNG.random((200, 6)) < 0.7)


# ---------------------------------------------------------------- the trees


SEED = seed_from(0)


STRETCHED = Levels(X)


def reference(y, number, rows=None, **options):
    """The tree of that number as scikit-learn grows it on stretched rows."""
    cls = ExtraTreeRegressor if y.dtype.kind == "f" else ExtraTreeClassifier
    state = int(generator(SEED, 24, number).integers(2**31))
    rows = STRETCHED.stretched(X) if rows is None else rows
    return cls(max_features=3, random_state=state, **options).fit(rows, y)


def leaves_of(made, rows):
    """The features' columns, one for each tree."""
    Z = made.transform(rows)
    assert np.all(np.diff(Z.indptr) == made.trees_.roots.size)
    return Z.indices.reshape(rows.shape[0], -1)


def same_groups(a, b):
    """Whether two ways of numbering groups part the rows alike."""
    pairs = len(set(zip(a.tolist(), b.tolist(), strict=True)))
    return pairs == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("y", [Y, Y3, TARGET], ids=["two", "three", "regression"])
@pytest.mark.parametrize(
    "layout",
    [np.float64, np.float32, np.asfortranarray, sparse.csr_matrix, sparse.csr_array],
    ids=["double", "single", "by columns", "csr", "csr array"],
)
def test_leaves_are_those_of_scikit_learns_trees(layout, y):
    made = ForestFeatures(4, min_leaf=2, random_state=0).fit(layout(X), y)
    rows = np.vstack([X, UNSEEN])
    found = leaves_of(made, layout(rows))
    for number, column in enumerate(found.T):
        tree = reference(y, number, min_samples_leaf=2)
        assert same_groups(column, tree.apply(STRETCHED.stretched(rows)))
        assert column.max() < made.trees_.leaves


def test_a_row_on_a_threshold_goes_left():
    made = ForestFeatures(6, random_state=0).fit(X, Y)
    _, feature, threshold, right = made.trees_
    inner = np.flatnonzero(~made.trees_.is_leaf)
    rows = np.zeros((2 * inner.size, 6), dtype=np.float32)
    on, above = threshold[inner], np.nextafter(threshold[inner], np.float32(np.inf))
    rows[np.arange(len(rows)), np.tile(feature[inner], 2)] = np.concatenate([on, above])
    for row, reached in zip(rows, leaves_of(made, rows), strict=True):
        for root, leaf in zip(made.trees_.roots, reached, strict=True):
            node = int(root)
            while feature[node] < 6:
                node = node + 1 if row[feature[node]] <= threshold[node] else int(right[node])
            assert right[node] == leaf


def test_sparse_rows_that_are_too_many_for_dense_ones(monkeypatch):
    """Grown by columns of a sparse matrix, in the units of the rows."""
    monkeypatch.setattr(forest, "_DENSE_BYTES", 0.0)
    found = leaves_of(ForestFeatures(4, random_state=0).fit(sparse.csr_matrix(X), Y), UNSEEN)
    for number, column in enumerate(found.T):
        assert same_groups(column, reference(Y, number, rows=X).apply(UNSEEN))
    some = ForestFeatures(4, sample=100, random_state=0).fit(sparse.csr_matrix(X), Y)
    assert some.trees_.leaves <= 400


@pytest.mark.parametrize("bend", [lambda x: x**9, np.exp, lambda x: 1e6 * x - 3.0])
def test_only_the_order_of_values_counts(bend):
    plain, bent = (ForestFeatures(5, random_state=0).fit(rows, Y3) for rows in (X, bend(X)))
    np.testing.assert_array_equal(leaves_of(plain, X), leaves_of(bent, bend(X)))


@pytest.mark.parametrize("size", [40, 3000])
def test_stretching_is_even_and_goes_back(size):
    values = RNG.standard_cauchy(size)
    rows = np.column_stack([values, np.arange(size) % 3, np.full(size, 7.0)])
    levels = Levels(rows)
    places = levels.stretched(rows)
    assert np.array_equal(np.argsort(rows[:, 0]), np.argsort(places[:, 0]))
    assert len(levels.knots[0]) == min(size, 257)
    counts = np.histogram(places[:, 0], bins=10)[0]
    assert counts.max() <= 1.2 * size / 10 + 1
    assert np.array_equal(places[:, 1:], np.column_stack([np.arange(size) % 3, np.zeros(size)]))
    feature = np.arange(size) % 3
    picked = rows[np.arange(size), feature]
    back = levels.taken_back(places[np.arange(size), feature].astype(float), feature)
    np.testing.assert_allclose(back, picked, rtol=2e-3, atol=1e-4)


def test_repeated_entries_are_added_up():
    thin = sparse.csr_matrix(X)
    twice = sparse.csr_matrix(
        (np.repeat(thin.data / 2, 2), np.repeat(thin.indices, 2), 2 * thin.indptr), thin.shape
    )
    made, other = (ForestFeatures(4, random_state=0).fit(rows, Y) for rows in (thin, twice))
    np.testing.assert_array_equal(leaves_of(made, thin), leaves_of(other, twice))


def test_a_tree_sees_its_own_sample():
    made = ForestFeatures(20, sample=50, random_state=0).fit(X, TARGET)
    sizes = np.diff(np.append(made.trees_.roots, made.trees_.feature.size))
    assert sizes.max() <= 2 * 50 - 1 < 2 * len(np.unique(TARGET)) - 1
    assert sizes.min() > 50  # all targets differ
    rng = generator(SEED, 24, 3)
    state = int(rng.integers(2**31))
    rows = np.sort(rng.choice(300, 50, replace=False))
    tree = ExtraTreeRegressor(max_features=3, random_state=state)
    tree.fit(STRETCHED.stretched(X[rows]), TARGET[rows])
    assert same_groups(leaves_of(made, UNSEEN)[:, 3], tree.apply(STRETCHED.stretched(UNSEEN)))


def test_trees_of_features_as_they_are_are_scikit_learns_own():
    made = ForestFeatures(2, max_features="sqrt", stretch=False, random_state=0).fit(X, Y)
    state = int(generator(SEED, 24, 1).integers(2**31))
    tree = ExtraTreeClassifier(max_features=round(X.shape[1] ** 0.5), random_state=state)
    tree.fit(X.astype(np.float32), Y)
    single = UNSEEN.astype(np.float32)
    assert same_groups(leaves_of(made, UNSEEN)[:, 1], tree.apply(single))


def test_leaves_hold_as_many_rows_as_asked_for():
    made = ForestFeatures(5, min_leaf=20, random_state=0).fit(X, Y)
    assert made.transform(X).getnnz(axis=0).min() >= 20


def test_the_number_of_features_that_a_node_tries():
    """Shares and words grow the trees that the number grows."""
    wide = np.random.default_rng(1).normal(size=(200, 100))

    def looked_at(option, d=100):
        made = ForestFeatures(2, max_features=option, random_state=0)
        return made.fit(wide[:, :d], np.arange(200) % 2).trees_.feature

    for option, tried in (("auto", 30), ("sqrt", 10), (0.25, 25), (1.0, 100), (1000, 100)):
        np.testing.assert_array_equal(looked_at(option), looked_at(tried))
        assert not np.array_equal(looked_at(option), looked_at(tried - 1))
    np.testing.assert_array_equal(looked_at("auto", 6), looked_at(3, 6))
    np.testing.assert_array_equal(looked_at("auto", 1), looked_at(1, 1))


def test_threads_change_nothing():
    one, two = (ForestFeatures(9, n_jobs=n, random_state=3).fit(X, Y3).trees_ for n in (1, 2))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)


# ---------------------------------------------------------------- features and scores


def test_a_forest_that_runs_out_of_time_is_a_smaller_one():
    whole = ForestFeatures(12, random_state=0).learn(X, Y).trees_
    with ending(lambda: True):
        part = ForestFeatures(12, n_jobs=2, random_state=0).learn(X, Y).trees_
    assert part.roots.size == ForestFeatures.least
    np.testing.assert_array_equal(part.threshold, whole.threshold[: part.threshold.size])


def test_the_kernel_is_the_share_of_trees_where_rows_meet():
    made = ForestFeatures(7, random_state=0).fit(X, Y)
    Z = made.transform(UNSEEN)
    meets = np.zeros((200, 200))
    for number in range(7):
        leaf = reference(Y, number).apply(STRETCHED.stretched(UNSEEN))
        meets += leaf[:, None] == leaf
    np.testing.assert_allclose((Z @ Z.T).toarray(), meets / 7, atol=1e-12)
    assert Z.has_sorted_indices
    assert Z.shape[1] == sum(reference(Y, number).get_n_leaves() for number in range(7))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("outputs", [1, 3])
def test_scores_need_no_features(dtype, outputs):
    rows = UNSEEN.astype(dtype)
    made = ForestFeatures(6, random_state=0).fit(X.astype(dtype), Y)
    coef = RNG.normal(size=(outputs, made.trees_.leaves)).astype(dtype)
    found = made.scores(rows, made.fold(coef))
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype is np.float32 else {"rtol": 1e-12}
    np.testing.assert_allclose(found, made.transform(rows) @ coef.T, **close)


@pytest.mark.parametrize("together", [1, 6, 7 * 6, 1 << 17])
def test_rows_that_go_together_do_not_matter(together, monkeypatch):
    made = ForestFeatures(6, random_state=0).fit(X, Y)
    expected = leaves_of(made, X)
    monkeypatch.setattr(leaves, "_TOGETHER", together)
    np.testing.assert_array_equal(leaves_of(made, X), expected)
    np.testing.assert_array_equal(leaves_of(made, sparse.csr_matrix(X)), expected)
    parts = [made.transform(X[start : start + 47]) for start in range(0, 300, 47)]
    np.testing.assert_array_equal(sparse.vstack(parts).toarray(), made.transform(X).toarray())


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("y", [Y, Y3], ids=["two", "three"])
def test_a_classifier_is_the_linear_one_on_the_leaves(y):
    """The dual's optimum, with another solver's on the features."""
    shared = {"alpha": 1e-3, "fit_intercept": False, "random_state": 0}
    exact = {"solver": "dcd", "tol": 1e-10, "max_iter": 10_000}
    model = KernelClassifier(map="forest", n_components=10, **shared, **exact).fit(X, y)
    Z = model.map_.features(X)
    linear = LinearClassifier("squared_hinge", scale=False, solver="newton", tol=1e-10, **shared)
    np.testing.assert_allclose(
        model.decision_function(X), linear.fit(Z, y).decision_function(Z), atol=1e-4
    )
    assert model.score(X, y) > 0.95


def test_regression_by_name():
    rows = RNG.uniform(-1.0, 1.0, size=(2000, 3))
    steps = np.floor(4.0 * rows[:, 0]) + (rows[:, 1] > 0.3)
    model = KernelRegressor(map="forest", n_components=20, random_state=0)
    model.fit(rows[:1000], steps[:1000])
    assert model.map_.trees_.roots.size == 20
    assert model.score(rows[1000:], steps[1000:]) > 0.9


def test_whole_numbers_are_no_classes_to_a_regression():
    counts = np.round(3.0 * TARGET).astype(int)
    model = KernelRegressor(map="forest", n_components=3, random_state=0)
    whole, real = (clone(model).fit(X, y) for y in (counts, counts.astype(float)))
    np.testing.assert_array_equal(whole.map_.trees_.threshold, real.map_.trees_.threshold)
    np.testing.assert_array_equal(whole.predict(X), real.predict(X))


def test_fifty_trees_unless_told():
    assert KernelClassifier(map="forest", random_state=0).fit(X, Y).map_.trees_.roots.size == 50


def test_blocks_equal_the_whole():
    made = KernelClassifier(
        "hinge", map=ForestFeatures(9, random_state=0), solver=AveragedSGD(eta0=0.5, every=16),
        max_iter=3, random_state=0,
    )  # fmt: skip
    whole = clone(made).fit(X, Y)
    parts = clone(made).set_params(memory=1.0).fit(X, Y)  # 256 rows a block
    for a, b in zip(whole.map_.trees_, parts.map_.trees_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-8, atol=1e-9)
    thin = clone(made).fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(thin.decision_function(X), whole.decision_function(X), atol=1e-6)


def test_what_is_told_of_a_forest():
    model = train(X, y=Y, learner="kernel", params={"map": "forest", "n_components": 4})
    assert model.described().endswith(", 4 trees")
    count = model.estimator.map_.trees_.leaves
    assert model.function.describe() == f"{count:,} leaves"
    with pytest.raises(ValueError, match="has no weights of the features"):
        model.coefficients()


def test_rows_without_weight_grow_no_trees():
    weight = (np.arange(300) < 200).astype(float)
    model = KernelClassifier(map="forest", n_components=5, random_state=0)
    some = clone(model).fit(X, Y, sample_weight=weight).map_.trees_
    for a, b in zip(some, clone(model).fit(X[:200], Y[:200]).map_.trees_, strict=True):
        np.testing.assert_array_equal(a, b)


def test_streams_have_the_trees_of_their_first_rows():
    model = KernelClassifier(map="forest", n_components=20, alpha=1e-4, random_state=0)
    for start in (0, 150) * 10:
        part = slice(start, start + 150)
        model.partial_fit(X[part], Y[part], classes=[0, 1])
    first = clone(model).fit(X[:150], Y[:150])
    np.testing.assert_array_equal(model.map_.trees_.threshold, first.map_.trees_.threshold)
    assert model.score(X[:150], Y[:150]) > 0.95
    assert model.score(X[150:], Y[150:]) > 0.75
    assert first.score(X[150:], Y[150:]) < model.score(X[150:], Y[150:])


# ---------------------------------------------------------------- edges


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        (np.ones((30, 2)), np.arange(30) % 2),
        (X, np.zeros(300, dtype=int)),
        (X, np.ones(300) * 0.5),
        (X[:1], np.array([1])),
        (X[:1], np.array([0.5])),
        (sparse.csr_matrix((20, 3)), np.arange(20) % 2),
    ],
    ids=[
        "constant rows",
        "one class",
        "one target",
        "one row",
        "one row, regression",
        "no entries",
    ],
)
def test_nothing_to_split(rows, y):
    made = ForestFeatures(4, random_state=0).fit(rows, y)
    np.testing.assert_allclose(made.transform(rows).toarray(), 0.5)
    assert made.transform(rows).shape == (rows.shape[0], 4)
    made.trees_.check(rows.shape[1])


def test_rows_far_outside():
    """Values beyond single precision are beyond every threshold."""
    made = ForestFeatures(5, random_state=0).fit(X, Y)
    far = np.finfo(np.float32).max
    np.testing.assert_array_equal(leaves_of(made, 1e300 * X), leaves_of(made, far * np.sign(X)))
    with pytest.raises(ValueError, match="too large for single precision"):
        ForestFeatures(5).fit(1e300 * X, Y)
    with pytest.raises(ValueError, match="too large for single precision"):
        ForestFeatures(5).fit(sparse.csr_matrix(1e300 * X), Y)


def test_without_targets():
    with pytest.raises(ValueError, match="requires y to be passed"):
        ForestFeatures().fit(X)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_components": 0}, "n_components must be a whole number of at least 1"),
        ({"n_components": "sqrt"}, "n_components must be a whole number of at least 1"),
        ({"n_components": 2.0}, "n_components must be a whole number"),
        ({"n_components": True}, "n_components must be a whole number"),
        ({"min_leaf": 0}, "min_leaf must be a whole number of at least 1, got 0"),
        ({"min_leaf": 0.1}, "min_leaf must be a whole number"),
        ({"sample": 0}, "sample must be a whole number of at least 1, got 0"),
        ({"sample": "all"}, "sample must be a whole number of at least 1, got 'all'"),
        ({"max_features": 0}, "max_features must be a positive number"),
        ({"max_features": 1.5}, "max_features must be a number of features"),
        ({"max_features": -0.5}, "max_features must be a positive number"),
        ({"max_features": "log2"}, "max_features must be a positive number"),
    ],
)
def test_bad_options(options, match):
    with pytest.raises(ValueError, match=match):
        ForestFeatures(**options).fit(X, Y)


def test_bad_options_of_a_model():
    with pytest.raises(ValueError, match="n_components must be a whole number"):
        KernelClassifier(map="forest", n_components="sqrt").fit(X, Y)


def test_too_many_nodes(monkeypatch):
    monkeypatch.setattr(leaves, "LEAF", np.uint32(100))
    with pytest.raises(ValueError, match="nodes are too many: fewer trees"):
        ForestFeatures(5, random_state=0).fit(X, Y)


# ------------------------------------------------ single precision


@pytest.mark.parametrize("map_", ["forest", "boosted"])
@pytest.mark.parametrize(
    "moved", [lambda A: A + 1e9, lambda A: A * 1e-150, lambda A: A * 1e-60 + 1e-58],
    ids=["offset", "tiny", "both"],
)  # fmt: skip
def test_values_that_singles_cannot_tell_apart_are_standardised(map_, moved, tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 4))
    y = (rows[:, 0] * rows[:, 1] > 0).astype(int)
    near = KernelClassifier(map=map_, n_components=10, random_state=0).fit(rows, y)
    model = KernelClassifier(map=map_, n_components=10, random_state=0).fit(moved(rows), y)
    assert near.score(rows, y) > 0.9
    assert model.score(moved(rows), y) > near.score(rows, y) - 0.05
    save_model(model, tmp_path / "model.thresher")
    again = load_model(tmp_path / "model.thresher")
    assert np.array_equal(again.estimator.predict(moved(rows)), model.predict(moved(rows)))


def test_tiny_values_of_sparse_rows_are_scaled():
    rng = np.random.default_rng(0)
    rows = sparse.random(400, 6, 0.5, random_state=1, data_rvs=rng.standard_normal).tocsr()
    y = (rows[:, [0]].toarray() > 0).ravel().astype(int)
    model = KernelClassifier(map="forest", n_components=10, random_state=0).fit(rows * 1e-60, y)
    assert model.score(rows * 1e-60, y) > 0.95


def test_ordinary_rows_keep_their_units():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 2)) * [1e-20, 1e20] + [0.0, 1e21]
    assert leaves.blurred_column(rows) is None
    model = KernelClassifier(map="forest", n_components=5, random_state=0)
    assert model.fit(rows, (rows[:, 0] > 0).astype(int)).function_.units is None


@pytest.mark.parametrize("cls", [ForestFeatures, BoostedFeatures])
def test_maps_alone_refuse_values_that_singles_cannot_tell_apart(cls):
    rows = np.column_stack([np.arange(60.0), 1e9 + np.arange(60.0) / 60.0])
    with pytest.raises(ValueError, match=r"column 1 are too close .*scale=True"):
        cls(3, random_state=0).fit(rows, np.arange(60) % 2)


def test_a_forest_hardly_shrinks_numbers():
    """Trees down to single rows know the targets of these rows; a penalty of alpha n takes them
    1 / (1 + alpha n) times."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3))
    y = 5.0 + 2.0 * rows[:, 0] * rows[:, 1]
    model = KernelRegressor(map="forest", n_components=20, random_state=0).fit(rows, y)
    slope = np.polyfit(y, model.predict(rows), 1)[0]
    assert 0.98 < slope < 1.0
    assert model.penalty_.strength * 300 == pytest.approx(0.01)
