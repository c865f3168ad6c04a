"""Feature maps: inner products against the kernel, landmarks, the transformer contract."""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from thresher._random import generator
from thresher.kernels import RBF, Exponential, Linear, Polynomial, Sigmoid
from thresher.maps import EntropySample, FourierFeatures, Nystroem, gram
from thresher.maps.entropy import entropy
from thresher.maps.landmarks import (
    LANDMARKS,
    leverage_scores,
    lloyd,
    medoids,
    nearest_rows,
    subset_size,
    weighted_draw,
)
from thresher.maps.nystroem import Reservoir
from thresher.maps.pilot import pilot_loss

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5))
Y = (X[:, 0] * X[:, 1] > 0.0).astype(int)
K = gram(RBF(0.2), X)


def relative(A, B):
    return np.linalg.norm(A - B) / np.linalg.norm(B)


# ---------------------------------------------------------------- Nystroem


@pytest.mark.parametrize("tol", [None, 1e-12])
@pytest.mark.parametrize("kernel", [RBF(0.2), Polynomial(2, 0.5), Linear(), Exponential(0.5)])
def test_all_rows_as_landmarks_reproduce_the_kernel(kernel, tol):
    phi = Nystroem(200, kernel=kernel, tol=tol).fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, gram(kernel, X), atol=1e-5)


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_landmarks_approximate_the_kernel_and_do_not_mind_the_layout(landmarks):
    maps = [
        Nystroem(60, gamma=0.2, landmarks=landmarks, random_state=0).fit(A, Y)
        for A in (X, sparse.csr_array(X))
    ]
    phi, phi_sparse = maps[0].transform(X), maps[1].transform(sparse.csr_array(X))
    assert phi.shape == (200, 60)
    assert relative(phi @ phi.T, K) < (0.25 if landmarks == "entropy" else 0.08)
    if landmarks != "kmedoids":  # two rows of one cluster are equally near to its centre
        np.testing.assert_allclose(phi, phi_sparse, atol=1e-6)
    again = clone(maps[0]).fit(X, Y).transform(X)
    np.testing.assert_array_equal(again, phi)


def test_cholesky_and_eigenvalues_differ_by_a_rotation():
    a = Nystroem(40, gamma=0.2, random_state=0).fit_transform(X)
    b = Nystroem(40, gamma=0.2, random_state=0, tol=1e-12).fit_transform(X)
    np.testing.assert_allclose(a @ a.T, b @ b.T, atol=1e-6)


def test_truncation_keeps_the_large_eigenvalues():
    short = Nystroem(100, gamma=0.02, tol=1e-3, random_state=0).fit(X)
    assert short.transform(X).shape[1] < 60
    assert short.get_feature_names_out()[0] == "nystroem0"
    phi = short.transform(X)
    assert relative(phi @ phi.T, gram(RBF(0.02), X)) < 0.01


def test_given_landmarks_and_given_function():
    given = Nystroem(landmarks=X[:30], gamma=0.2).fit(X)
    np.testing.assert_array_equal(given.landmarks_, X[:30])
    same = Nystroem(30, landmarks=lambda A, m, seed: A[:m], gamma=0.2).fit(X)
    np.testing.assert_array_equal(same.transform(X), given.transform(X))
    with pytest.raises(ValueError, match="landmarks have 4 features, but the rows 5"):
        Nystroem(landmarks=X[:30, :4]).fit(X)


def test_scores_without_the_features():
    for made in (Nystroem(40, gamma=0.2, tol=1e-9), Nystroem(40, gamma=0.2), FourierFeatures(40)):
        fitted = made.fit(X)
        coef = RNG.normal(size=(3, fitted.transform(X).shape[1]))
        np.testing.assert_allclose(
            fitted.scores(X, fitted.fold(coef)), fitted.transform(X) @ coef.T, atol=1e-5
        )


def test_single_precision():
    phi = Nystroem(60, gamma=0.2, random_state=0).fit_transform(X.astype(np.float32))
    assert phi.dtype == np.float32
    double = Nystroem(60, gamma=0.2, random_state=0).fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, double @ double.T, atol=2e-3)


def test_indefinite_kernel_is_truncated_not_refused():
    phi = Nystroem(60, kernel=Sigmoid(2.0, -1.0), random_state=0).fit_transform(X)
    assert np.all(np.isfinite(phi))


def test_more_landmarks_than_rows():
    with pytest.warns(UserWarning, match="n_components=300 .* 200 rows"):
        assert Nystroem(300, gamma=0.2).fit(X).landmarks_.shape[0] == 200


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_duplicate_rows_and_constant_features(make):
    repeated = make(np.repeat(X[:10], 5, axis=0))
    fitted = Nystroem(50, gamma=0.2).fit(repeated)
    assert fitted.landmarks_.shape[0] == 10
    phi = Nystroem(30, gamma=0.2, random_state=0).fit(repeated).transform(repeated)
    np.testing.assert_allclose(phi @ phi.T, gram(RBF(0.2), repeated), atol=1e-5)
    constant = Nystroem(20).fit(make(np.ones((30, 3)))).transform(make(np.ones((30, 3))))
    np.testing.assert_allclose(constant @ constant.T, 1.0, atol=1e-5)


def test_bad_options():
    for wrong, message in (
        ({"landmarks": "best"}, "landmarks='best' is unknown"),
        ({"kernel": "gauss"}, "kernel='gauss' is unknown"),
        ({"n_components": 0}, "at least 1"),
        ({"n_components": "many"}, "n_components must be a whole number of at least 1"),
        ({"tol": 2.0}, r"tol must be a number in \[0, 1\)"),
        ({"sample": 0}, "sample must be"),
        ({"n_components": 20, "landmarks": "margin"}, "fit needs y"),
    ):
        with pytest.raises(ValueError, match=message):
            Nystroem(**wrong).fit(X)
    with pytest.raises(ValueError, match="200 rows, but y 7"):
        Nystroem(20).fit(X, np.zeros(7))


def test_subset_sizes():
    assert [subset_size("sqrt", n) for n in (100, 9_999, 10_000, 90_000)] == [10, 100, 20, 60]
    assert [subset_size("auto", n) for n in (50, 400, 10_000, 10**7)] == [50, 200, 1000, 2000]
    assert subset_size(7, 5) == 5


# ---------------------------------------------------------------- choices of landmarks


def test_entropy_swaps_keep_the_sums_of_the_full_formula():
    sample = EntropySample(RBF(0.2), 20)
    last = -math.inf
    for start in range(0, 200, 25):
        sample.update(X[start : start + 25])
        m = sample.points.shape[0]
        full = -math.log(gram(RBF(0.2), sample.points).sum() / m**2)
        assert sample.entropy == pytest.approx(full, rel=1e-10)
        if m == 20 and start > 25:
            assert sample.entropy >= last
        last = sample.entropy
    assert sample.swaps > 0
    assert np.unique(sample.points, axis=0).shape[0] == 20


def test_entropy_beats_chance_and_ignores_how_the_stream_is_cut():
    sample = EntropySample(RBF(0.2), 20).update(X)
    random = -math.log(gram(RBF(0.2), X[100:120]).mean())
    assert sample.entropy > random
    pieces = EntropySample(RBF(0.2), 20)
    for start in range(0, 200, 37):
        pieces.update(X[start : start + 37])
    np.testing.assert_array_equal(pieces.points, sample.points)


@pytest.mark.parametrize("landmarks", ["uniform", "entropy"])
def test_landmarks_from_a_stream(landmarks):
    def fitted(cuts, rows=X):
        model = Nystroem(20, gamma=0.2, landmarks=landmarks, random_state=0)
        for part in np.array_split(np.arange(200), cuts):
            model.partial_fit(rows[part])
        return model

    np.testing.assert_array_equal(fitted(1).landmarks_, fitted(7).landmarks_)
    np.testing.assert_allclose(
        fitted(3, sparse.csr_array(X)).landmarks_.toarray(), fitted(1).landmarks_
    )
    assert not hasattr(Nystroem(20, landmarks="kmeans"), "partial_fit")


def test_reservoir_is_uniform():
    counts = np.zeros(30)
    for seed in range(400):
        reservoir = Reservoir(6, seed)
        for part in np.array_split(np.arange(30.0)[:, None], 4):
            reservoir.update(part)
        counts[reservoir.points[:, 0].astype(int)] += 1
    assert np.all(np.abs(counts - 80) < 5 * math.sqrt(80 * 0.8))


def test_entropy_search_has_a_budget_and_stays_among_the_crowd():
    """A tenth of the rows far out: the search without a budget takes hardly anything else."""
    rng = np.random.default_rng(0)
    far = rng.standard_normal((200, 3)) * 50.0
    rows = rng.permutation(np.vstack([rng.standard_normal((1800, 3)), far]))
    kernel = RBF(0.2)
    start = entropy(kernel, rows, 40, seed=1, tries=0)
    found = entropy(kernel, rows, 40, seed=1)
    greedy = EntropySample(kernel, 40).update(rows).update(rows).points

    def out(points):
        return np.mean(np.linalg.norm(points, axis=1) > 10.0)

    assert out(greedy) > 0.9
    assert out(found) < 0.6
    assert np.unique(found, axis=0).shape[0] == 40
    assert gram(kernel, found).sum() < gram(kernel, start).sum()


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_random_swaps_are_those_that_raise_the_entropy(layout):
    """The published search, one swap at a time from the full formula."""
    rows, kernel, m = layout(X), RBF(0.2), 8
    order = generator(3, 16).permutation(200)
    rng = generator(3, 16)
    rng.permutation(200)
    places = rng.integers(m, size=30)
    held = list(order[:m])
    for candidate, r in zip(order[m : m + 30], places, strict=True):
        swapped = [*held[:r], candidate, *held[r + 1 :]]
        if gram(kernel, X[swapped]).sum() < gram(kernel, X[held]).sum():
            held = swapped
    found = entropy(kernel, rows, m, seed=3, tries=30)
    found = found.toarray() if hasattr(found, "toarray") else found
    np.testing.assert_array_equal(np.sort(found, axis=0), np.sort(X[held], axis=0))


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_medoids_cannot_be_bettered_within_their_cells(layout):
    rows = layout(X)
    start = nearest_rows(rows, lloyd(rows, 12, seed=0))
    found = medoids(rows, X[:12] if layout is np.asarray else rows[:12], steps=50)
    better = medoids(rows, start, steps=50)
    if layout is not np.asarray:
        found, better, start = found.toarray(), better.toarray(), start.toarray()
    apart = ((X[:, None] - X[None]) ** 2).sum(axis=2)

    def cost(points):
        return ((X[:, None] - points[None]) ** 2).sum(axis=2).min(axis=1).sum()

    for points in (found, better):
        cell = ((X[:, None] - points[None]) ** 2).sum(axis=2).argmin(axis=1)
        for c, point in enumerate(points):
            mine = np.flatnonzero(cell == c)
            own = apart[np.ix_(mine, mine)].sum(axis=0)
            here = ((X[mine] - point) ** 2).sum()
            assert here <= own.min() * (1.0 + 1e-9)
    assert cost(found) < cost(X[:12])
    assert cost(better) <= cost(start)


def test_a_cell_without_rows_keeps_its_medoid():
    twice = X[[0, 0, 5]]
    found = medoids(X, twice)
    assert found.shape == (3, X.shape[1])
    assert np.all(np.isfinite(found))


def test_kmeans_lowers_the_quantisation_error():
    def error(points):
        return ((X[:, None] - points[None]) ** 2).sum(axis=2).min(axis=1).sum()

    centres = lloyd(X, 12, seed=0)
    assert error(centres) < error(X[:12])
    rows = nearest_rows(X, centres)
    distances = ((X[:, None] - centres[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(rows, X[distances.argmin(axis=0)])


def test_leverage_scores_against_the_definition():
    exact = np.diag(K @ np.linalg.inv(K + np.eye(200)))
    np.testing.assert_allclose(leverage_scores(RBF(0.2), X, 200, seed=0), exact, atol=1e-3)


def test_weighted_draws():
    weight = np.array([0.0, 1.0, 1.0, 6.0])
    first = np.array([weighted_draw(weight, 1, seed)[0] for seed in range(800)])
    share = np.bincount(first, minlength=4) / 800
    np.testing.assert_allclose(share, weight / 8, atol=0.06)
    assert np.array_equal(weighted_draw(np.ones(5), 5, 0), np.arange(5))


def test_pilot_finds_the_boundary():
    n = 2000
    points = np.random.default_rng(1).uniform(-1, 1, (n, 2))
    classes = (points[:, 0] > 0).astype(int)
    loss = pilot_loss(RBF(4.0), points, classes)
    near = np.abs(points[:, 0]) < 0.1
    assert loss[near].mean() > 3 * loss[~near].mean()
    three = pilot_loss(RBF(4.0), points, np.digitize(points[:, 1], [-0.3, 0.3]))
    assert three.shape == (n,)
    target = np.where(near, 5.0 * np.sin(60 * points[:, 1]), 0.0)
    assert pilot_loss(RBF(4.0), points, target)[near].mean() > 2.0


# ---------------------------------------------------------------- Fourier features


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("kernel", [RBF(0.2), Exponential(0.4)])
def test_fourier_features_converge_to_the_kernel(kernel, orthogonal):
    def error(m):
        made = FourierFeatures(m, kernel=kernel, orthogonal=orthogonal, random_state=0)
        phi = made.fit_transform(X)
        return np.sqrt(np.mean((phi @ phi.T - gram(kernel, X)) ** 2))

    assert error(400) < 0.06
    assert error(6400) < 0.02


def test_fourier_features_of_sparse_rows():
    made = FourierFeatures(50, random_state=0).fit(X)
    np.testing.assert_allclose(made.transform(sparse.csr_array(X)), made.transform(X), atol=1e-12)
    assert made.transform(X.astype(np.float32)).dtype == np.float32


def test_fourier_transform_unknown():
    with pytest.raises(ValueError, match="map='nystroem', which takes any kernel"):
        FourierFeatures(50, kernel="polynomial").fit(X)
    with pytest.raises(ValueError, match="at least 1"):
        FourierFeatures(0).fit(X)
