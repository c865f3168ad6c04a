"""k-means against plain NumPy, scikit-learn, brute force, and its own promises."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from thresher import Status, StochasticKMeans
from thresher._rows import as_rows
from thresher.estimators.base import StatusWarning
from thresher.losses import LeastSquares
from thresher.penalties import L1, ElasticNet, GroupL2
from thresher.solvers import Problem, driver
from thresher.solvers.lloyd import Lloyd
from thresher.solvers.online_means import OnlineMeans
from thresher.solvers.stochastic_means import StochasticMeans

RNG = np.random.default_rng(0)


def blobs(n=600, d=5, k=4, seed=0, apart=4.0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(k, d)) * apart
    labels = rng.integers(0, k, n)
    return centres[labels] + rng.normal(size=(n, d)), labels


def problem_of(X, k, strength=0.0, tol=0.0, seed=0):
    return Problem(
        LeastSquares(), L1(strength), X.shape[1], dtype=X.dtype, seed=seed, tol=tol, outputs=k,
        targets="none",
    )  # fmt: skip


def chunk_of(X, weight=None, order=None):
    chunk = driver.whole(as_rows(X), np.zeros(X.shape[0]), weight)
    return chunk if order is None else chunk._replace(order=order.astype(np.uint32))


def plain_step(X, centres, strength=0.0, weight=None):
    """One pass of Lloyd's, written out."""
    weight = np.ones(len(X)) if weight is None else weight
    labels = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    out = centres.copy()
    for c in np.unique(labels):
        mean = np.average(X[labels == c], axis=0, weights=weight[labels == c])
        out[c] = np.sign(mean) * np.maximum(np.abs(mean) - strength, 0.0)
    return out, labels


# ---------------------------------------------------------------- exact passes


@pytest.mark.parametrize("strength", [0.0, 0.4])
@pytest.mark.parametrize("bounded", [True, False])
def test_passes_are_those_of_plain_numpy(bounded, strength):
    X, _ = blobs()
    weight = RNG.uniform(0.5, 2.0, len(X))
    expected = X[:7].copy()
    problem, chunk = problem_of(X, 7, strength), chunk_of(X, weight)
    solver = Lloyd(start=X[:7], bounded=bounded)
    state = solver.init(problem, chunk)
    for done in range(8):
        state = solver.between(problem, state, chunk, done, None)
        state = solver.update(problem, state, chunk)
        expected, _ = plain_step(X, expected, strength, weight)
        assert np.allclose(solver.finish(problem, state).centers, expected, atol=1e-12)


@pytest.mark.parametrize("k", [3, 12, 40])  # a group for each centre, several, many
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_the_run_is_that_of_scikit_learn(k, dtype, far):
    X = (blobs(2000, 6, 9, seed=k, apart=1.5)[0] + far).astype(dtype)
    ours = StochasticKMeans(k, init=X[:k], tol=0.0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = KMeans(k, init=X[:k], n_init=1, tol=0.0, max_iter=300).fit(X)
    assert ours.status_ is Status.CONVERGED
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-4)
    if dtype == np.float64:
        assert ours.n_iter_ == theirs.n_iter_
        assert np.array_equal(ours.labels_, theirs.labels_)
        assert np.allclose(ours.cluster_centers_, theirs.cluster_centers_)
    assert np.array_equal(ours.predict(X), ours.labels_)
    assert ours.score(X) == pytest.approx(-ours.inertia_, rel=1e-5)
    assert np.allclose(ours.transform(X).min(axis=1) ** 2 @ np.ones(len(X)), ours.inertia_, 1e-4)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(8, 60), st.booleans())
def test_bounds_change_nothing(seed, k, n, repeated):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X = X[rng.integers(0, n, n)] if repeated else X
    ends = []
    for bounded in (True, False):
        result = driver.learn(
            Lloyd(start=X[:k], bounded=bounded), problem_of(X, k), chunk_of(X),
            driver.Plan(50),
        )  # fmt: skip
        ends.append(result.function.centers)
    assert np.allclose(*ends, atol=1e-9)


def test_the_best_of_few_rows_is_found():
    """Brute force over all partitions of nine rows into two clusters."""
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(9, 2))
        costs = []
        for bits in itertools.product([0, 1], repeat=8):
            labels = np.array([0, *bits])
            parts = [X[labels == c] for c in (0, 1) if np.any(labels == c)]
            costs.append(sum(((part - part.mean(axis=0)) ** 2).sum() for part in parts))
        model = StochasticKMeans(2, n_init=30, random_state=0, tol=0.0).fit(X)
        assert model.inertia_ == pytest.approx(min(costs))


def test_a_centre_minimises_its_own_term():
    X, _ = blobs(200, 3, 1)
    for penalty in (L1(0.7), ElasticNet(1.0, 0.4)):
        found = StochasticKMeans(1, penalty=penalty).fit(X).cluster_centers_[0]

        def cost(w, penalty=penalty):
            square = 0.5 * np.mean(((X - w) ** 2).sum(axis=1))
            return square + sum(penalty.value(v, j) for j, v in enumerate(w))

        best = minimize(cost, found + 0.1, method="Nelder-Mead", options={"xatol": 1e-7}).x
        assert np.allclose(found, best, atol=1e-4)


def test_sparse_centres_keep_the_features_that_tell_clusters_apart():
    X = RNG.normal(size=(400, 30))
    X[:200, :2] += 6.0
    model = StochasticKMeans(2, alpha=0.5, scale=True, random_state=0).fit(X)
    assert set(np.flatnonzero(np.any(model.function_.centers, axis=0))) == {0, 1}
    assert len(set(model.labels_[:200])) == len(set(model.labels_[200:])) == 1


def test_a_penalty_that_leaves_nothing_says_so():
    X, _ = blobs()
    with pytest.warns(ConvergenceWarning, match="penalty outweighs"):
        model = StochasticKMeans(3, alpha=1e3, random_state=0).fit(X)
    assert model.status_ is Status.ALL_ZERO


# ---------------------------------------------------------------- layouts, weights, threads


def test_sparse_rows_give_the_model_of_dense_ones():
    X, _ = blobs(500, 8)
    X[np.random.default_rng(1).random(X.shape) < 0.6] = 0.0
    for metric in ("euclidean", "cosine"):
        for algorithm in ("lloyd", "online", "stochastic"):
            ends = [
                StochasticKMeans(
                    4, algorithm=algorithm, metric=metric, alpha=0.05, init=X[:4], draws=300,
                    random_state=0,
                ).fit(rows)
                for rows in (X, sparse.csr_array(X))
            ]  # fmt: skip
            assert np.allclose(ends[0].cluster_centers_, ends[1].cluster_centers_, atol=1e-9)
            assert np.array_equal(ends[0].labels_, ends[1].labels_)
            assert np.array_equal(ends[1].predict(sparse.csr_array(X)), ends[1].labels_)


def test_weights_are_repetitions_from_the_same_starts():
    X, _ = blobs(300)
    weight = RNG.integers(0, 4, 300)
    weight[:5] = 1
    model = StochasticKMeans(5, init=X[:5], alpha=0.1, tol=0.0).fit(X, sample_weight=weight)
    again = StochasticKMeans(5, init=X[:5], alpha=0.1, tol=0.0).fit(np.repeat(X, weight, axis=0))
    assert np.allclose(model.cluster_centers_, again.cluster_centers_)
    assert model.inertia_ == pytest.approx(again.inertia_)
    assert np.array_equal(np.repeat(model.labels_, weight), again.labels_)
    assert np.array_equal(model.labels_, model.predict(X))  # rows of weight zero too
    assert model.score(X, sample_weight=weight) == pytest.approx(-model.inertia_)


def test_the_order_of_rows_and_of_starts_does_not_matter():
    X, _ = blobs(400)
    order = np.random.default_rng(3).permutation(400)
    first = StochasticKMeans(4, init=X[:4], tol=0.0).fit(X)
    second = StochasticKMeans(4, init=X[:4][::-1], tol=0.0).fit(X[order])
    assert np.allclose(first.cluster_centers_, second.cluster_centers_[::-1])
    assert np.array_equal(first.labels_[order], 3 - second.labels_)


def test_threads_change_nothing():
    X = blobs(40_000, 6, 15)[0].astype(np.float32)
    first, second = (StochasticKMeans(15, n_jobs=n, random_state=0).fit(X) for n in (1, 3))
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert np.array_equal(first.labels_, second.labels_)


def test_scaling_is_a_change_of_units():
    X, _ = blobs(500)
    X = X * np.array([1.0, 100.0, 0.01, 5.0, 3.0]) + 7.0
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    start = X[:4]
    model = StochasticKMeans(4, init=start, scale=True, alpha=0.2, tol=0.0).fit(X)
    again = StochasticKMeans(4, init=(start - X.mean(axis=0)) / X.std(axis=0), alpha=0.2, tol=0.0)
    again.fit(Z)
    assert np.array_equal(model.labels_, again.labels_)
    assert np.allclose(model.function_.centers, again.cluster_centers_)
    back = again.cluster_centers_ * X.std(axis=0) + X.mean(axis=0)
    assert np.allclose(model.cluster_centers_, back)


# ---------------------------------------------------------------- starts and empty clusters


def test_refined_starts_are_as_good_as_many_whole_runs():
    X, _ = blobs(30_000, 4, 12, apart=3.0)
    X[:40] += 60.0  # a small cluster far away, which a uniform sample might miss
    theirs = min(
        KMeans(13, n_init=1, random_state=seed).fit(X).inertia_ for seed in range(3)
    )  # fmt: skip
    ours = [StochasticKMeans(13, random_state=seed).fit(X) for seed in range(3)]
    assert min(model.inertia_ for model in ours) < 1.02 * theirs
    assert all(len(set(model.labels_[:40])) == 1 for model in ours)
    assert all(np.sum(model.labels_ == model.labels_[0]) == 40 for model in ours)


def test_empty_clusters_take_the_farthest_rows():
    X, _ = blobs(300, 2, 3, apart=10.0)
    start = np.array([X[0], X[1] + 1e6, X[2] - 1e6])  # nobody is near the last two
    for rows in (X, sparse.csr_array(X)):
        model = StochasticKMeans(3, init=start).fit(rows)
        assert np.all(np.bincount(model.labels_, minlength=3) > 0)


def test_fewer_different_rows_than_clusters():
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(StatusWarning, match="rows fill only 3 of 5 clusters"):
        model = StochasticKMeans(5, random_state=0).fit(X)
    assert model.inertia_ == pytest.approx(0.0, abs=1e-12)
    assert np.all(np.isfinite(model.cluster_centers_))
    with pytest.raises(ValueError, match="n_samples=2 rows should be at least n_clusters=3"):
        StochasticKMeans(3).fit(X[:2])


@pytest.mark.parametrize("init", ["refined", "k-means++", "random"])
def test_the_seed_decides(init):
    X, _ = blobs(500, apart=1.0)
    first, second = (StochasticKMeans(8, init=init, random_state=3).fit(X) for _ in range(2))
    other = StochasticKMeans(8, init=init, random_state=4).fit(X)
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert not np.array_equal(first.cluster_centers_, other.cluster_centers_)


# ---------------------------------------------------------------- cosine


def test_spherical_k_means():
    """Each pass: to the centre of the largest cosine; its direction is that of the sum."""
    X, _ = blobs(400, 6)
    X[7] = 0.0  # no direction
    Z = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    centres = Z[:4].copy()
    for _ in range(60):
        labels = (Z @ centres.T).argmax(axis=1)
        sums = np.array([Z[labels == c].sum(axis=0) for c in range(4)])
        centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    model = StochasticKMeans(4, metric="cosine", init=X[:4], tol=0.0).fit(X)
    assert np.allclose(model.cluster_centers_, centres)
    scaled = model.predict(X * RNG.uniform(0.1, 9.0, (400, 1)))
    assert np.array_equal(scaled, model.predict(X))
    assert np.allclose(model.transform(X), 1.0 - Z @ centres.T)
    assert model.score(X[np.arange(400) != 7]) == pytest.approx(
        -2.0 * np.sum(1.0 - (Z @ centres.T).max(axis=1)[np.arange(400) != 7])
    )


def test_sparse_directions_have_length_one():
    X = np.abs(blobs(400, 20)[0])
    for alpha in (0.1, 10.0):
        model = StochasticKMeans(4, metric="cosine", alpha=alpha, random_state=0).fit(X)
        assert np.allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0)
    assert np.count_nonzero(model.cluster_centers_) == 4  # the limit: one feature each
    with pytest.raises(ValueError, match="every row is zero"):
        StochasticKMeans(1, metric="cosine").fit(np.zeros((3, 2)))


# ---------------------------------------------------------------- the published loop


def test_the_published_loop_in_plain_numpy():
    X, lam, eta, rho = RNG.normal(2.0, 1.0, size=(50, 3)), 0.3, 1.0, 0.1
    problem = problem_of(X, 1, lam)
    solver = StochasticMeans(draws=200, start=X[:1])
    state = solver.update(problem, solver.init(problem, chunk_of(X)), chunk_of(X))
    from thresher._random import uniform

    w = np.array([uniform(0, 0, j) for j in range(3)])
    mean, q = np.zeros(3), np.zeros(3)
    for t in range(1, 201):
        x = X[int(np.searchsorted(np.arange(1, 51), uniform(1, t, 0) * 50, side="right"))]
        g = w - x
        mean += (g - mean) / t
        q += g**2
        w = np.sign(-mean) * (eta * t / (rho + np.sqrt(q))) * np.maximum(np.abs(mean) - lam, 0.0)
    assert np.allclose(state.centres[0], w)


def test_the_published_loop_ends_near_the_closed_form():
    X, _ = blobs(2000, 6, 3, apart=3.0)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    exact = StochasticKMeans(3, alpha=0.1, init=Z[:3], tol=0.0).fit(Z)
    loop = StochasticKMeans(3, algorithm="stochastic", alpha=0.1, init=Z[:3], random_state=0).fit(Z)
    assert np.abs(exact.cluster_centers_ - loop.cluster_centers_).max() < 0.1
    assert np.mean(exact.labels_ == loop.labels_) > 0.97
    assert loop.n_iter_ == 20


# ---------------------------------------------------------------- streams and merging


def test_running_means_do_not_depend_on_the_cuts():
    X, _ = blobs(4096, 4)
    problem = problem_of(X, 4, tol=None)
    solver = OnlineMeans(start=X[:4], batch=64)
    ends = []
    for size in (64, 640, 4096):
        state = solver.init(problem, chunk_of(X[:64]))
        for a in range(0, 4096, size):
            state = solver.update(problem, state, chunk_of(X[a : a + size]))
        ends.append(state.centres)
    assert np.allclose(ends[0], ends[1])
    assert np.allclose(ends[0], ends[2])


def test_partial_fit_comes_close_to_the_fit():
    X, _labels = blobs(20_000, 4)
    stream = StochasticKMeans(4, random_state=0)
    for a in range(0, len(X), 2000):
        stream.partial_fit(X[a : a + 2000])
    assert stream.labels_.size == 2000
    exact = StochasticKMeans(4, random_state=0).fit(X)
    assert stream.score(X) > 1.01 * exact.score(X)
    with pytest.raises(AttributeError, match="partial_fit"):
        StochasticKMeans(4, algorithm="lloyd").partial_fit(X)
    with pytest.raises(ValueError, match="n_samples=3 rows should be at least"):
        StochasticKMeans(4).partial_fit(X[:3])


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_map_and_reduce_is_the_pass_over_all_rows(shards):
    """Shards add up rows from copies of one state; the merged state takes the step."""
    X, _ = blobs(900, 4)
    weight = RNG.uniform(0.5, 2.0, 900)
    problem, whole = problem_of(X, 5, 0.2), chunk_of(X, weight)
    solver = Lloyd(start=np.array([*X[:4], X[0] + 1e5]), bounded=False)  # one cluster is empty
    single = base = solver.init(problem, whole)
    for done in range(6):
        single = solver.update(problem, solver.between(problem, single, None, done, None), whole)
        base = solver.between(problem, base, None, done, None)
        parts = np.array_split(np.arange(900), shards)
        before = base.sums.copy()
        states = [
            solver.update(problem, solver.copy(base), whole._replace(order=part.astype(np.uint32)))
            for part in parts
        ]
        empty = solver.copy(base)  # a shard without rows counts for nothing
        masses = [whole.weight[part].sum() for part in parts]
        base = solver.merge(problem, [*states, empty], base, [*masses, 0.0])
        assert np.array_equal(before, np.zeros_like(before))
        assert np.allclose(base.sums, single.sums)
        assert np.allclose(base.far_square, single.far_square)
        assert base.step == single.step
    ends = [solver.finish(problem, state).centers for state in (single, base)]
    assert np.allclose(*ends)


def test_merged_running_means_are_those_of_all_rows():
    X, _ = blobs(2000, 4, apart=10.0)  # no row is ever in doubt
    problem, solver = problem_of(X, 4, tol=None), OnlineMeans(batch=100)
    base = solver.update(problem, solver.init(problem, chunk_of(X)), chunk_of(X[:500]))
    parts = [X[500:1200], X[1200:]]
    states = [solver.update(problem, solver.copy(base), chunk_of(part)) for part in parts]
    merged = solver.merge(problem, states, base, [700.0, 800.0])
    single = solver.update(problem, solver.copy(base), chunk_of(X[500:]))
    assert np.allclose(merged.centres, single.centres)
    solver.check_state(problem, merged)


# ---------------------------------------------------------------- the estimator


def test_options_are_checked_by_name():
    X, _ = blobs(50)
    wrong = {
        "n_clusters": 0, "algorithm": "elkan", "metric": "l1", "alpha": -1.0, "init": "kmeans++",
        "n_init": 0, "max_iter": 0, "tol": np.nan, "batch_size": 0, "draws": 0,
    }  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            StochasticKMeans(**{name: value}).fit(X)
    with pytest.raises(ValueError, match=r"starts of shape \(2, 2\)"):
        StochasticKMeans(2, init=np.eye(2)).fit(X)
    with pytest.raises(ValueError, match="needs a penalty that offers prox"):
        StochasticKMeans(2, penalty=GroupL2(np.arange(5))).fit(X)
    with pytest.raises(ValueError, match="too large to square"):
        StochasticKMeans(2).fit(X * 1e200)
    with pytest.raises(ValueError, match="too large to square"):
        StochasticKMeans(2).partial_fit(X * 1e200)
    with pytest.raises(NotFittedError):
        StochasticKMeans().predict(X)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = StochasticKMeans().cluster_centers_


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_units_of_any_size(size):
    X, _ = blobs(400)
    first, second = (StochasticKMeans(4, random_state=0).fit(X * s) for s in (1.0, size))
    assert np.array_equal(first.labels_, second.labels_)
    assert np.allclose(first.cluster_centers_, second.cluster_centers_ / size)


def test_progress_stopping_and_pickles(capsys):
    X, _ = blobs(300, apart=0.5)
    model = StochasticKMeans(6, verbose=1, init="random", random_state=0)
    model.set_params(callbacks=[lambda event: event.passes >= 2]).fit(X)
    assert (model.n_iter_, model.status_) == (2, Status.INTERRUPTED)
    assert "pass 2" in capsys.readouterr().out
    again = pickle.loads(pickle.dumps(model.set_params(callbacks=None)))
    assert np.array_equal(again.predict(X), model.predict(X))
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        StochasticKMeans(6, init="random", max_iter=1, random_state=0).fit(X)


def test_no_step_makes_it_worse():
    X, _ = blobs(2000, apart=0.7)
    costs = []

    def heard(event):
        squares = -event.function.scores(X).max(axis=1)
        costs.append(squares.sum())

    StochasticKMeans(9, init="random", random_state=0, tol=0.0, callbacks=[heard]).fit(X)
    assert np.all(np.diff(costs) <= 1e-9)
    assert len(costs) > 5


def test_growing_samples_know_the_penalty_and_the_first_does_not():
    """What does not tell clusters apart is zero before the first pass over all rows."""
    X, _ = blobs(70_000, d=2, k=3, apart=6.0)
    X = np.hstack([X - X.mean(axis=0), np.random.default_rng(1).normal(size=(70_000, 2))])
    start = Lloyd().init(problem_of(X, 3, 0.3), chunk_of(X)).centres
    assert np.all(start[:, 2:] == 0.0)
    assert np.all(np.abs(start[:, :2]).max(axis=1) > 0.0)
    small = X[:5000]  # no sample but all of it
    assert np.all(Lloyd().init(problem_of(small, 3, 0.3), chunk_of(small)).centres != 0.0)


def test_fewer_clusters_than_asked_for_are_told():
    X = np.repeat(blobs(3)[0], 20, axis=0)
    with pytest.warns(StatusWarning, match="rows fill only 3 of 5 clusters"):
        StochasticKMeans(5, random_state=0).fit(X)
    tiny = blobs(200)[0] * 1e-200
    with pytest.warns(StatusWarning, match="multiply the features"):
        StochasticKMeans(3, random_state=0).fit(tiny)
    model = StochasticKMeans(3, random_state=0).fit(1e200 * tiny)
    assert np.unique(model.labels_).size == 3


def test_starts_that_are_given_are_numbers():
    X, _ = blobs(50, d=2)
    with pytest.raises(ValueError, match="init holds NaN"):
        StochasticKMeans(2, init=np.full((2, 2), np.nan)).fit(X)
    with pytest.raises(ValueError, match="init must be a name or an array of numbers"):
        StochasticKMeans(2, init=[["a", "b"], ["c", "d"]]).fit(X)
    dense = StochasticKMeans(2, init=X[:2]).fit(X)
    given = StochasticKMeans(2, init=sparse.csr_matrix(X[:2])).fit(X)
    assert np.array_equal(given.labels_, dense.labels_)
