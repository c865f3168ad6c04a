"""Columns of categories that are one column to the trees of a forest."""

import itertools

import numpy as np
import pytest
from scipy import sparse

from thresher import ForestFeatures, KernelClassifier, KernelRegressor, load_model, save_model
from thresher.maps.bundles import Bundles, _groups, bundled

RNG = np.random.default_rng(3)
N = 600
CITY, SIZE = RNG.integers(0, 6, N), RNG.integers(0, 4, N)
NUMBERS = RNG.normal(size=(N, 2))
X = np.hstack([NUMBERS[:, :1], np.eye(6)[CITY], NUMBERS[:, 1:], np.eye(4)[SIZE]])
Y = (np.isin(CITY, (0, 2, 5)) ^ (NUMBERS[:, 1] > 0.5)).astype(int)
Y3 = (CITY + (NUMBERS[:, 0] > 0)) % 3
TARGET = np.array([3.0, -1.0, 8.0, 0.5, 2.0, -7.0])[CITY] + NUMBERS[:, 0]
PLACES = [0, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3]


@pytest.mark.parametrize("rows", [X, sparse.csr_matrix(X), X.astype(np.float32)])
def test_bundles_are_found(rows):
    found = bundled(rows, Y)
    assert found.place.tolist() == PLACES
    assert found.width == 4
    assert sorted(found.value[1:7]) == list(range(6))
    assert sorted(found.value[8:]) == list(range(4))
    together = found.rows(rows)
    together = together.toarray() if sparse.issparse(together) else together
    np.testing.assert_array_equal(together[:, [0, 2]], rows[:, [0, 7]].toarray() if
                                  sparse.issparse(rows) else rows[:, [0, 7]])  # fmt: skip
    np.testing.assert_array_equal(together[:, 1], found.value[1:7][CITY])


def test_a_category_that_few_rows_have_belongs_to_its_bundle():
    rare = np.zeros(5000, dtype=int)
    rare[:4000], rare[4321] = np.arange(4000) % 3, 3  # no row that is looked at first
    assert bundled(np.eye(4)[rare], rare % 2).place.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "columns",
    [
        NUMBERS,
        np.eye(2)[Y],  # one column says as much
        np.eye(6)[CITY][:, :5],  # some rows have none of these
        2.0 * np.eye(6)[CITY],
        (RNG.random((N, 30)) < 0.1).astype(float),
    ],
)
def test_other_columns_are_left_alone(columns):
    assert bundled(columns, Y) is None


def test_categories_are_in_the_order_of_mean_targets():
    means = [TARGET[k == CITY].mean() for k in range(6)]
    np.testing.assert_array_equal(bundled(X, TARGET).value[1:7], np.argsort(np.argsort(means)))


def test_the_best_cut_of_a_category_in_two_is_between_neighbours():
    """Against all cuts there are (Breiman's theorem); with as many rows in each category, which
    all have the same share of the prior."""
    city = np.arange(600) % 6
    y = (RNG.random(600) < np.array([0.2, 0.9, 0.5, 0.7, 0.1, 0.6])[city]).astype(int)

    def impurity(left):
        parts = [y[np.isin(city, left)], y[~np.isin(city, left)]]
        return sum(part.size * part.mean() * (1.0 - part.mean()) for part in parts)

    order = np.argsort(bundled(np.eye(6)[city], y).value)
    neighbours = min(impurity(order[:k]) for k in range(1, 6))
    every = [c for k in range(1, 6) for c in itertools.combinations(range(6), k)]
    assert neighbours == pytest.approx(min(impurity(left) for left in every))


def test_trees_see_the_categories_as_one_column():
    made = ForestFeatures(20, max_features=1.0, random_state=0).fit(X, Y)
    plain = ForestFeatures(20, max_features=1.0, bundle=False, random_state=0)
    plain.fit(bundled(X, Y).rows(X), Y)
    np.testing.assert_array_equal(made.trees_.threshold, plain.trees_.threshold)
    alike = made.transform(X) != plain.transform(bundled(X, Y).rows(X))
    assert alike.nnz == 0


@pytest.mark.parametrize(("cls", "y"), [(KernelClassifier, Y3), (KernelRegressor, TARGET)])
def test_sparse_rows_files_and_onnx_agree(cls, y, tmp_path):
    model = cls(map="forest", n_components=10, random_state=0).fit(X, y)
    assert model.map_.bundles_ is not None
    expected = model.predict(X)
    np.testing.assert_array_equal(model.predict(sparse.csr_matrix(X)), expected)
    save_model(model, tmp_path / "m.thresher")
    np.testing.assert_array_equal(load_model(tmp_path / "m.thresher").predict(X), expected)

    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    path = tmp_path / "m.onnx"
    write_onnx(path, model.function_, getattr(model, "classes_", None))
    found = runtime.InferenceSession(str(path)).run(None, {"X": X})[0].ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "damaged",
    [
        Bundles(np.array(PLACES[:-1], np.uint32), np.ones(11, np.float32)),
        Bundles(np.array([*PLACES[:-1], 9], np.uint32), np.ones(12, np.float32)),
        Bundles(np.array([0, 1, 0, *PLACES[3:]], np.uint32), np.ones(12, np.float32)),
        Bundles(np.array(PLACES, np.uint32), np.full(12, np.nan, np.float32)),
        Bundles(np.array(PLACES, np.int64), np.ones(12, np.float32)),
        Bundles(None, np.ones(12, np.float32)),
        Bundles(np.array(PLACES[:3] * 4, np.uint32), np.ones(12, np.float32)),
    ],
)
def test_damaged_bundles_are_refused(damaged):
    made = ForestFeatures(3, random_state=0).fit(X, Y)
    made.check(12, made.width)
    made.bundles_ = damaged
    with pytest.raises(ValueError, match="bundles"):
        made.check(12, made.width)


def naive_groups(X):
    """From every start on, until a row has two ones or each has one."""
    start, found = 0, []
    while start < X.shape[1]:
        for stop in range(start + 1, X.shape[1] + 1):
            ones = X[:, start:stop].sum(axis=1)
            if ones.max() > 1 or not np.isin(X[:, start:stop], (0, 1)).all():
                start += 1
                break
            if ones.min() == 1:
                found += [(start, stop)] * (stop - start >= 3)
                start = stop
                break
        else:
            start += 1
    return found


@pytest.mark.parametrize("seed", range(30))
def test_groups_are_those_of_a_search_from_every_column(seed):
    rng = np.random.default_rng(seed)
    kinds = {
        "category": lambda: np.eye(k := int(rng.integers(1, 6)))[rng.integers(0, k, 40)],
        "flags": lambda: (rng.random((40, 3)) < 0.1).astype(float),
        "numbers": lambda: rng.normal(size=(40, 1)),
        "zeros": lambda: np.zeros((40, int(rng.integers(1, 3)))),
    }
    rows = np.hstack([kinds[name]() for name in rng.choice(list(kinds), 8)])
    for layout in (np.asarray, sparse.csr_matrix):
        found = [(one.start, one.stop) for one in _groups(layout(rows))]
        assert found == naive_groups(rows)
