"""Orders of rows: short paths, against brute force over all of them, and weights of columns."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist, pdist

from thresher import ColumnOrdering, RowOrdering, open_data
from thresher.orderings import figure_of_merit, path_length
from thresher.orderings.arranged import Arranged, RowBlocks
from thresher.orderings.coding import column_entropies, step_scales
from thresher.orderings.em import Columns, em_iterates, policy_keeps
from thresher.orderings.improve import improve, neighbour_distances
from thresher.orderings.neighbours import banded_neighbours, tree_neighbours
from thresher.orderings.path import PathSearch, short_path
from thresher.orderings.points import EUCLIDEAN, MANHATTAN, SQUARED, as_points

SCIPY = {EUCLIDEAN: "euclidean", SQUARED: "sqeuclidean", MANHATTAN: "cityblock"}


def waveform(n, rng, noise=0):
    """Breiman's waves: 21 columns, of which the first and the last are noise."""
    i = np.arange(1, 22)
    waves = [np.maximum(6 - abs(i - centre), 0) for centre in (11, 15, 7)]
    pairs = np.array([(0, 1), (0, 2), (1, 2)])
    y, u = rng.integers(3, size=n), rng.random((n, 1))
    first, second = np.array(waves)[pairs[y].T]
    X = u * first + (1 - u) * second + rng.standard_normal((n, 21))
    return np.hstack([X, rng.standard_normal((n, noise))]), y


def lengths(X, paths, metric):
    """The length of each of several paths."""
    D = cdist(X, X, SCIPY[metric])
    return D[paths[:, :-1], paths[:, 1:]].sum(axis=1)


# ---------------------------------------------------------------- short paths


@pytest.mark.parametrize("metric", SCIPY)
@pytest.mark.parametrize("n", [3, 4, 5, 7, 8])
def test_short_paths_of_few_rows_are_the_shortest(n, metric):
    rng = np.random.default_rng(n)
    paths = np.array(list(itertools.permutations(range(n))))
    over = []
    for seed in range(10):
        X = rng.standard_normal((n, 3))
        order = short_path(X, PathSearch(metric, effort=10.0, seed=seed))
        over.append(lengths(X, order[None], metric)[0] / lengths(X, paths, metric).min() - 1.0)
    assert np.sum(np.array(over) > 1e-6) <= (0 if n <= 5 else 1)
    assert max(over) < (0.5 if metric == SQUARED else 0.05)


def piece(X, metric, size, seed):
    """Rows in a random order, of which a piece is to be improved, and neighbours."""
    rng = np.random.default_rng(seed)
    n = X.shape[0]
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    near = np.argsort(D, axis=1)[:, : min(6, n - 1)].astype(np.int32)
    tour = rng.permutation(n).astype(np.int32)
    return near, tour, np.argsort(tour).astype(np.int32)


@given(
    st.integers(0, 10_000), st.integers(3, 60), st.sampled_from(list(SCIPY)), st.booleans(),
    st.booleans(), st.booleans(), st.integers(0, 50),
)  # fmt: skip
def test_what_a_piece_gains_is_what_it_claims(seed, size, metric, is_sparse, left, right, kicks):
    rng = np.random.default_rng(seed)
    n, first = size + 7, 3
    X = rng.standard_normal((n, 4)) * (rng.random((n, 4)) < 0.7)
    X = X.round(1)  # with duplicates
    near, tour, pos = piece(X, metric, size, seed)
    points = as_points(sparse.csr_matrix(X) if is_sparse else X, metric)
    far = np.empty(near.shape, np.float32)
    neighbour_distances(points, near, far, 0, n)
    order = np.argsort(far, axis=1, kind="stable")
    near, far = (np.take_along_axis(part, order, 1) for part in (near, far))
    before, waiting = tour.copy(), np.zeros(n, np.uint8)
    last = first + size
    gained = improve(
        points, near, far, tour, pos, waiting, first, last, left, right, kicks, 1 + seed
    )
    assert not waiting.any()
    np.testing.assert_array_equal(np.sort(tour), np.arange(n))
    np.testing.assert_array_equal(pos[tour], np.arange(n))
    np.testing.assert_array_equal(tour[:first], before[:first])
    np.testing.assert_array_equal(tour[last:], before[last:])
    assert not left or tour[first] == before[first]
    assert not right or tour[last - 1] == before[last - 1]
    old, new = lengths(X, np.array([before[first:last], tour[first:last]]), metric)
    assert gained >= 0.0
    assert old - new == pytest.approx(gained, abs=1e-4 * max(old, 1.0))


@pytest.mark.parametrize("layout", ["flat", "dense", "sparse"])
def test_the_number_of_threads_changes_nothing(layout):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((32_000, 2)) if layout == "flat" else waveform(17_000, rng)[0]
    if layout == "sparse":
        X = sparse.csr_matrix(np.maximum(X[:1500] - 3.0, 0.0))
    paths = [
        short_path(X, PathSearch(EUCLIDEAN, effort=0.1, seed=5, threads=threads))
        for threads in (1, 2, 3)
    ]
    np.testing.assert_array_equal(paths[0], paths[1])
    np.testing.assert_array_equal(paths[0], paths[2])


def test_uniform_points_come_near_the_known_constant():
    X = np.random.default_rng(1).random((30_000, 2))
    stages = list(PathSearch(EUCLIDEAN, effort=0.5).stages(X))
    found = [path_length(X, order) for order in stages]
    assert all(np.array_equal(np.sort(order), np.arange(30_000)) for order in stages)
    assert all(after < before for before, after in itertools.pairwise(found))
    assert found[-1] < 1.05 * 0.7124 * np.sqrt(30_000)
    # TSP-means alone, and its coarse order of cells
    assert found[-3] < 1.2 * 0.7124 * np.sqrt(30_000)


def test_rows_in_another_order_get_a_path_as_short():
    X, _ = waveform(1200, np.random.default_rng(2))
    shuffled = X[np.random.default_rng(3).permutation(1200)]
    one, two = (path_length(Z, short_path(Z, PathSearch(EUCLIDEAN, 2.0))) for Z in (X, shuffled))
    assert one == pytest.approx(two, rel=0.01)


def test_paths_are_shorter_than_optimal_leaf_orders():
    X, _ = waveform(400, np.random.default_rng(4))
    distances = pdist(X)
    leaves = leaves_list(optimal_leaf_ordering(linkage(distances, "average"), distances))
    ours = RowOrdering(max_iter=1, scale=False, random_state=0).fit(X)
    theirs = RowOrdering("optimal_leaf", max_iter=1, scale=False).fit(X)
    assert path_length(X, theirs.order_) == pytest.approx(path_length(X, leaves), rel=1e-6)
    assert path_length(X, ours.order_) < 0.97 * path_length(X, leaves)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 130, 700])
def test_duplicates_are_no_trouble(n):
    for X in (np.zeros((n, 2)), np.repeat(np.eye(3)[: min(n, 3)], n, axis=0)[:n]):
        order = short_path(X, PathSearch(EUCLIDEAN, 1.0))
        np.testing.assert_array_equal(np.sort(order), np.arange(n))
    three = np.repeat(np.eye(3), 50, axis=0)[np.random.default_rng(0).permutation(150)]
    order = short_path(three, PathSearch(EUCLIDEAN, 1.0))
    assert path_length(three, order) == pytest.approx(2 * np.sqrt(2))


@given(st.permutations(range(12)), st.permutations(range(12)))
def test_rows_are_put_in_order_in_place(first, second):
    X = np.arange(24, dtype=np.float32).reshape(12, 2)
    rows = Arranged(X.copy())
    rows.arrange(np.array(first))
    np.testing.assert_array_equal(rows.numbers, first)
    np.testing.assert_array_equal(rows.X, X[first])
    rows.by_number(np.array(second))
    np.testing.assert_array_equal(rows.numbers, second)
    np.testing.assert_array_equal(rows.X, X[second])


@pytest.mark.parametrize("layout", ["few columns", "very many", "sparse"])
@pytest.mark.parametrize("last", [0, 1, None])
def test_rows_are_kept_along_the_path_wherever_a_fit_ends(layout, last):
    X = np.random.default_rng(4).standard_normal((300, 600 if layout == "very many" else 4))
    X = sparse.csr_matrix(np.where(X > 0.5, X, 0.0)) if layout == "sparse" else X
    ordering = RowOrdering(max_iter=1, random_state=0, callbacks=[lambda e: e.stage == last])
    ordering.fit(X)
    np.testing.assert_array_equal(np.sort(ordering.order_), np.arange(300))
    scaled = ordering.columns_.scaled(X, ordering.weights_)[ordering.order_]
    assert abs(ordering.rows_ - scaled).max() == 0.0


class _Blocks(RowBlocks):
    def __init__(self, X):
        self.shape, self._X = X.shape, X

    def __getitem__(self, key):
        return self._X[key].copy()


def test_rows_that_come_block_by_block_have_the_order_of_the_whole():
    X = waveform(3000, np.random.default_rng(5), noise=400)[0].astype(np.float32)
    X[::7, 3] = np.nan
    settings = {"random_state": 0, "effort": 0.0, "sample": 500, "max_iter": 2}
    whole = RowOrdering(**settings).fit(X)
    ordering = RowOrdering(**settings).fit(_Blocks(X))
    np.testing.assert_array_equal(ordering.order_, whole.order_)
    np.testing.assert_array_equal(ordering.weights_, whole.weights_)
    assert ordering.entropy_ == whole.entropy_
    assert ordering.n_features_in_ == X.shape[1]


@pytest.mark.parametrize("metric", [EUCLIDEAN, MANHATTAN])
def test_neighbours_are_the_nearest(metric):
    from concurrent.futures import ThreadPoolExecutor

    X = np.random.default_rng(5).standard_normal((500, 4)).astype(np.float32)
    D = cdist(X, X, SCIPY[metric])
    np.fill_diagonal(D, np.inf)
    least = np.sort(D, axis=1)[:, :6]
    with ThreadPoolExecutor(2) as pool:
        banded = banded_neighbours(X, metric, 6, pool)
    for near in (banded, tree_neighbours(X, metric, 6, 1)):
        np.testing.assert_allclose(np.take_along_axis(D, near, 1), least, rtol=1e-5)


def test_sparse_rows_get_paths_as_short_as_dense_ones():
    rng = np.random.default_rng(6)
    topics = rng.dirichlet(np.full(600, 0.05), 8)
    X = np.vstack([rng.multinomial(60, topics[t], 60) for t in range(8)]).astype(float)
    X /= np.linalg.norm(X, axis=1)[:, None]
    X = X[rng.permutation(480)]
    search = PathSearch(EUCLIDEAN, 5.0)
    dense, wide = path_length(X, short_path(X[:, X.any(axis=0)], search)), sparse.csr_matrix(X)
    assert path_length(wide, short_path(wide, search)) < 1.01 * dense


# ---------------------------------------------------------------- weights of columns


@pytest.mark.parametrize("residual", ["gaussian", "laplacian"])
def test_scales_and_entropies_are_those_of_the_greatest_likelihood(residual):
    rng = np.random.default_rng(7)
    X, order = rng.standard_normal((40, 3)) * [1.0, 5.0, 0.1], rng.permutation(40)
    steps = np.diff(X[order], axis=0)

    def mean_cost(log_scale, j):
        s = np.exp(log_scale)
        if residual == "gaussian":
            costs = 0.5 * np.log(2 * np.pi * s**2) + steps[:, j] ** 2 / (2 * s**2)
        else:
            costs = np.log(2 * s) + abs(steps[:, j]) / s
        return costs.mean()

    best = [minimize_scalar(mean_cost, (-3, 3), args=(j,), tol=1e-12) for j in range(3)]
    scales = step_scales(X, order, residual)
    np.testing.assert_allclose(scales, [np.exp(b.x) for b in best], rtol=1e-6)
    np.testing.assert_allclose(column_entropies(scales, residual), [b.fun for b in best])
    np.testing.assert_allclose(step_scales(sparse.csr_matrix(X), order, residual), scales)


def test_policies_draw_the_line_where_they_say():
    # unit variance: entropy 1.419 nats; a tenth more is a mean squared step of 1.33
    ratios = np.sqrt([0.99, 1.01, 1.32, 1.34, 2.0])
    keeps = {policy: policy_keeps(ratios, policy, 1.1) for policy in ("soft", "hard", "tolerance")}
    assert keeps["soft"].tolist() == [True] * 5
    assert keeps["hard"].tolist() == [True] + [False] * 4
    assert keeps["tolerance"].tolist() == [True] * 3 + [False] * 2
    limit = np.exp(0.1 * np.log(2 * np.e))  # of Laplacian scales
    keeps = policy_keeps(np.array([limit - 0.01, limit + 0.01]), "tolerance", 1.1, "laplacian")
    assert keeps.tolist() == [True, False]


def test_iterates_with_the_same_path_end_at_its_scales():
    rng = np.random.default_rng(8)
    X, order = rng.standard_normal((30, 2)), rng.permutation(30)
    found = em_iterates(X, Columns.of(X), lambda rows, t: order, np.ones(2), policy="soft")
    assert len(found) == 2  # the second time nothing changes
    expected = X.std(axis=0) / step_scales(X, order)
    np.testing.assert_allclose(found[-1].weights, expected)
    assert found[-1].entropy == pytest.approx(column_entropies(step_scales(X, order)).sum())


@pytest.mark.parametrize("residual", ["gaussian", "laplacian"])
@pytest.mark.parametrize("metric", ["euclidean", "squared"])
def test_noise_is_dropped_and_the_picture_is_better(residual, metric):
    X, y = waveform(1500, np.random.default_rng(9), noise=21)
    plain = RowOrdering(max_iter=1, random_state=0).fit(X)
    ordering = RowOrdering(residual=residual, metric=metric, random_state=0).fit(X)
    assert np.sum(ordering.weights_[21:] == 0.0) >= (19 if residual == "gaussian" else 10)
    assert np.all(ordering.weights_[2:19] > 0.0)
    merit = figure_of_merit(y, ordering.order_)
    assert merit < figure_of_merit(y, plain.order_) - 0.04
    np.testing.assert_array_equal(plain.weights_, np.ones(42))
    if residual == "gaussian":
        kept = ordering.weights_ > 0.0
        coded = np.where(kept, step_scales(X, ordering.order_), X.std(axis=0))
        assert ordering.entropy_ == pytest.approx(column_entropies(coded).sum())


def test_weights_of_a_sample_serve_all_rows():
    X, _ = waveform(1500, np.random.default_rng(10), noise=5)
    ordering = RowOrdering(sample=600, random_state=0).fit(X)
    assert np.sum(ordering.weights_[21:] == 0.0) >= 3
    np.testing.assert_array_equal(np.sort(ordering.order_), np.arange(1500))


def test_missing_values_neither_break_the_order_nor_count_as_steps():
    rng = np.random.default_rng(11)
    t = rng.permutation(np.linspace(0.0, 1.0, 300))
    X = np.column_stack([np.cos(k * t) for k in (0.5, 1.0, 1.5, 2.0, 2.5)])
    holes = rng.random(X.shape) < 0.05
    whole = RowOrdering(random_state=0).fit(X)
    X[holes] = np.nan
    ordering = RowOrdering(random_state=0).fit(X)
    inversions = [min(np.mean(np.diff(t[o.order_]) < 0), np.mean(np.diff(t[o.order_]) > 0))
                  for o in (whole, ordering)]  # fmt: skip
    assert inversions[0] == 0.0
    assert inversions[1] < 0.25
    steps = np.diff(X[ordering.order_], axis=0)
    np.testing.assert_allclose(
        step_scales(X, ordering.order_), np.sqrt(np.nanmean(steps**2, axis=0))
    )
    assert np.isfinite(ordering.entropy_)


def test_categories_come_as_features_of_a_schema():
    frame = pd.DataFrame({"colour": ["red", "blue"] * 30, "size": np.arange(60.0)})
    ordering = RowOrdering(random_state=0).fit(open_data(frame))
    colours = frame["colour"].to_numpy()[ordering.order_]
    assert np.sum(colours[1:] != colours[:-1]) <= 3
    assert ordering.weights_.size == open_data(frame).schema.n_features


def test_columns_as_they_are_give_the_path_of_the_rows_themselves():
    X = np.random.default_rng(17).standard_normal((200, 3)) * [1.0, 10.0, 100.0]
    ordering = RowOrdering(max_iter=1, scale=False, random_state=0).fit(X)
    np.testing.assert_allclose(ordering.weights_, X.std(axis=0))
    steps = np.abs(np.diff(X[ordering.order_], axis=0)).mean(axis=0) / X.std(axis=0)
    assert steps[2] < 0.3 * steps[0]  # the largest column decides
    rows = ordering.rows_.astype(float)
    np.testing.assert_allclose(
        rows - rows[0], (X - X[ordering.order_[0]])[ordering.order_], atol=1e-3
    )


def test_sparse_rows_are_ordered_as_they_are():
    rng = np.random.default_rng(18)
    y = rng.integers(4, size=300)
    topics = rng.dirichlet(np.full(2000, 0.02), 4)
    X = np.array([rng.multinomial(40, 0.7 * topics[t] + 0.3 / 2000) for t in y]).astype(float)
    X = sparse.csr_matrix(X / np.linalg.norm(X, axis=1)[:, None])
    ordering = RowOrdering(random_state=0).fit(X)
    assert ordering.n_iter_ == 1
    assert figure_of_merit(y, ordering.order_) < 0.15


# ---------------------------------------------------------------- the estimators


def test_new_rows_go_beside_their_neighbours():
    t = np.random.default_rng(12).permutation(np.arange(100.0))
    X = np.column_stack([t, t**2 / 100])
    ordering = RowOrdering(random_state=0)
    places = ordering.fit_transform(X)
    np.testing.assert_array_equal(ordering.transform(X), places)
    up = np.sign(places[t == 99] - places[t == 0]).item()
    new = np.array([[41.3, 41.3**2 / 100], [200.0, 400.0]])
    inside, beyond = ordering.transform(new).ravel()
    assert inside - places[t == 41].item() == pytest.approx(0.3 * up, abs=0.01)
    assert beyond == (99.5 if up > 0 else -0.5)
    as_sparse = RowOrdering(random_state=0, max_iter=3).fit(sparse.csr_matrix(X))
    places = as_sparse.transform(sparse.csr_matrix(X)).ravel()
    np.testing.assert_array_equal(places[as_sparse.order_], np.arange(100))


def test_coarse_orders_come_first_and_may_be_enough():
    X = np.random.default_rng(13).random((4000, 2))
    events = []
    whole = RowOrdering(random_state=0, callbacks=[events.append]).fit(X)
    found = [path_length(X, event.order) for event in events]
    assert len(found) > 2
    assert found == sorted(found, reverse=True)
    assert [event.stage for event in events] == list(range(len(found)))
    np.testing.assert_array_equal(events[-1].order, whole.order_)
    callbacks = [lambda event: event.stage == 0, events.append]
    coarse = RowOrdering(random_state=0, callbacks=callbacks).fit(X)
    np.testing.assert_array_equal(coarse.order_, events[0].order)
    assert events[-1].stage == 0  # the other one is told, too


@pytest.mark.parametrize("method", ["pca", "spectral", "lle", "hierarchical", "nearest"])
def test_other_orders_find_a_line(method):
    t = np.random.default_rng(14).permutation(np.linspace(0, 1, 60))
    X = np.column_stack([t, 2 * t, -t])
    for rows in (X, sparse.csr_matrix(X)):
        order = RowOrdering(method, max_iter=1, random_state=0).fit(rows).order_
        turns = np.sum(np.diff(np.sign(np.diff(t[order]))) != 0)
        np.testing.assert_array_equal(np.sort(order), np.arange(60))
        assert turns <= (40 if method in ("hierarchical", "lle") else 1)


def test_columns_are_ordered_by_likeness_whatever_their_units():
    rng = np.random.default_rng(15)
    t, phases = np.linspace(0, 6, 200)[:, None], rng.permutation(np.linspace(0, 2.5, 12))
    X = 10.0 ** rng.uniform(-3, 3, 12) * (np.sin(t + phases) + rng.uniform(-9, 9, 12))
    frame = pd.DataFrame(X, columns=[f"c{k}" for k in range(12)])
    ordering = ColumnOrdering(RowOrdering(random_state=0)).fit(frame)
    steps = np.diff(phases[ordering.order_])
    assert np.all(steps > 0) or np.all(steps < 0)
    np.testing.assert_array_equal(ordering.transform(frame), X[:, ordering.order_])
    names = [f"c{k}" for k in ordering.order_]
    assert ordering.get_feature_names_out().tolist() == names
    csr = ColumnOrdering(RowOrdering(random_state=0)).fit(sparse.csr_matrix(X))
    np.testing.assert_array_equal(np.sort(csr.order_), np.arange(12))


def test_awkward_tables_have_clear_answers():
    assert RowOrdering().fit([[1.0, 2.0]]).order_.tolist() == [0]
    equal = RowOrdering().fit(np.ones((5, 3)))
    assert equal.order_.tolist() == [0, 1, 2, 3, 4]
    assert equal.weights_.tolist() == [0.0, 0.0, 0.0]
    assert equal.entropy_ == 0.0
    X = np.column_stack([np.full(6, 7.0), [3.0, 1.0, 2.0, 6.0, 5.0, 4.0]])
    ordering = RowOrdering(random_state=0).fit(X)
    assert np.all(np.abs(np.diff(X[ordering.order_, 1])) == 1.0)
    assert ordering.weights_[0] == 0.0
    all_missing = RowOrdering(random_state=0).fit(np.column_stack([np.full(6, np.nan), X[:, 1]]))
    assert all_missing.weights_[0] == 0.0
    wide = np.random.default_rng(16).standard_normal((20, 100_000)).astype(np.float32)
    wide[10:] += 1.0
    halves = RowOrdering(max_iter=2, random_state=0).fit(wide).order_ >= 10
    assert np.sum(halves[1:] != halves[:-1]) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "magic"}, "method must be one of 'tsp', 'pca'"),
        ({"residual": "cauchy"}, "residual must be"),
        ({"policy": "harsh"}, "policy must be"),
        ({"metric": "cosine"}, "metric must be"),
        ({"alpha": 0.5}, "alpha must be a number of at least 1"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1"),
        ({"effort": "much"}, "effort must be a number"),
        ({"effort": -1.0}, "effort must be a number"),
        ({"levels": 40}, "levels must be"),
        ({"sample": 1}, "sample must be"),
    ],
)
def test_wrong_options_are_named(options, says):
    with pytest.raises(ValueError, match=says):
        RowOrdering(**options).fit(np.eye(4))


def test_wrong_rows_are_refused():
    with pytest.raises(ValueError, match="infinity"):
        RowOrdering().fit([[1.0], [np.inf]])
    with pytest.raises(ValueError, match="sparse and contains NaN"):
        RowOrdering().fit(sparse.csr_matrix([[1.0, np.nan], [0.0, 1.0]]))
    with pytest.raises(ValueError, match="20001 rows are more than 20000"):
        RowOrdering("hierarchical", max_iter=1).fit(np.arange(20_001.0)[:, None])
