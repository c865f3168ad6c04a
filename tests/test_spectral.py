"""Kernel spectral clustering against its dual eigenproblem and against spectral clustering."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eig
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from thresher import KernelSpectralClustering, TunedClusterer, load_model, save_model, train
from thresher._rows import as_rows
from thresher.functions.codebook import ASSIGNMENTS
from thresher.kernels import RBF
from thresher.kernels.gram import gram
from thresher.losses import LeastSquares
from thresher.partitions import balanced_line_fit
from thresher.penalties import L1
from thresher.solvers import Problem, driver
from thresher.solvers.weighted_pca import WeightedPCA

MOONS, HALVES = make_moons(400, noise=0.06, random_state=0)
BLOBS, GROUPS = make_blobs(300, centers=4, cluster_std=0.7, random_state=3)


def exact(k=2, gamma=15.0, **params):
    return KernelSpectralClustering(k, gamma=gamma, n_components="full", random_state=0, **params)


@pytest.mark.parametrize("smoothing", [0.0, 1.5])
def test_projections_solve_the_dual_eigenproblem(smoothing):
    """D^-1 M_D Omega alpha = lambda alpha, e = Omega alpha + b; e = lambda D alpha."""
    K = gram(RBF(0.5), BLOBS)
    d = K.sum(axis=1)
    d += smoothing * d.mean()
    centring = np.eye(300) - np.outer(np.ones(300), 1.0 / d) / np.sum(1.0 / d)
    values, vectors = eig((centring @ K) / d[:, None])
    alpha = np.real(vectors[:, np.argsort(-np.real(values))[:3]])
    model = exact(4, 0.5, smoothing=smoothing).fit(BLOBS)
    e = model.function_.projections(BLOBS)
    for l in range(3):
        wanted = d * alpha[:, l]
        assert abs(np.corrcoef(e[:, l], wanted)[0, 1]) > 1.0 - 1e-6
        assert np.sum(e[:, l] / d) == pytest.approx(0.0, abs=1e-5 * np.sum(np.abs(e[:, l]) / d))
    np.testing.assert_allclose(e[:, -1], d / 300, rtol=1e-6)


@pytest.mark.parametrize("assign", ASSIGNMENTS)
def test_moons_rings_and_blobs(assign):
    rings, inside = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    for X, y, k, gamma in (
        (MOONS, HALVES, 2, 15.0),
        (rings, inside, 2, 15.0),
        (BLOBS, GROUPS, 4, 0.5),
    ):
        model = exact(k, gamma, assign=assign).fit(X[::2])
        assert adjusted_rand_score(y[::2], model.labels_) > 0.95
        assert adjusted_rand_score(y[1::2], model.predict(X[1::2])) > 0.95
        np.testing.assert_array_equal(model.labels_, model.predict(X[::2]))


def test_all_rows_as_landmarks_are_spectral_clustering():
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=5)
    peer = SpectralClustering(4, gamma=0.1, random_state=0, assign_labels="kmeans").fit(X)
    ours = exact(4, 0.1, assign="kmeans", smoothing=0.0).fit(X)
    assert adjusted_rand_score(peer.labels_, ours.labels_) > 0.97


def test_smoothed_degrees_are_spectral_clustering_with_all_rows_a_little_alike():
    X, _ = make_blobs(300, centers=4, cluster_std=2.0, random_state=5)
    K = gram(RBF(0.1), X)
    peer = SpectralClustering(4, affinity="precomputed", random_state=0).fit(K + K.mean())
    ours = exact(4, 0.1, assign="kmeans", smoothing=1.0).fit(X)
    assert adjusted_rand_score(peer.labels_, ours.labels_) > 0.97


def test_a_few_far_rows_make_no_cluster_of_their_own():
    """As published they do, wherever the kernel reaches them just enough."""
    far = np.array([[6.0, 6.0], [6.2, 6.1], [6.1, 6.2]])
    X, found = np.vstack([MOONS, far]), {}
    for smoothing in (0.0, 1.0):
        model = KernelSpectralClustering(
            2, gamma=0.5, n_components="full", smoothing=smoothing, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found[smoothing] = np.bincount(model.fit(X).labels_, minlength=2).min()
    assert found[0.0] <= 3
    assert found[1.0] > 100


def test_landmarks_and_blocks_change_little():
    few = KernelSpectralClustering(2, gamma=15.0, n_components=100, random_state=0)
    assert adjusted_rand_score(exact().fit(MOONS).labels_, few.fit(MOONS).labels_) > 0.95
    before = few.labels_
    few.set_params(memory=1.0).fit(MOONS)  # 256 rows at a time: degrees beside a sample of them
    assert adjusted_rand_score(before, few.labels_) > 0.95


def test_weights_are_repetitions_and_layouts_change_nothing():
    times = np.random.default_rng(0).integers(1, 3, size=400)
    landmarks = MOONS[::4]
    given = {"gamma": 2.0, "landmarks": landmarks, "random_state": 0}
    weighted = KernelSpectralClustering(2, **given).fit(MOONS, sample_weight=times)
    repeated = KernelSpectralClustering(2, **given).fit(np.repeat(MOONS, times, axis=0))
    a, b = (m.function_.projections(MOONS) for m in (weighted, repeated))
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    thin = KernelSpectralClustering(2, **given).fit(sparse.csr_array(MOONS), sample_weight=times)
    np.testing.assert_array_equal(thin.labels_, weighted.labels_)


def test_shards_add_up_to_one_machine():
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(200, 12)))
    chunk = driver.whole(as_rows(features), np.zeros(200))
    problem = Problem(LeastSquares(), L1(0.0), 12, outputs=3, targets="none")
    solver = WeightedPCA()
    base = solver.init(problem, chunk)
    one = solver.update(problem, solver.copy(base), chunk)
    parts = np.array_split(chunk.order, 3)
    states = [solver.update(problem, solver.copy(base), chunk._replace(order=p)) for p in parts]
    merged = solver.merge(problem, states, base, [p.size for p in parts])
    solver.check_state(problem, merged)
    a, b = (solver.finish(problem, s).scores(features) for s in (one, merged))
    np.testing.assert_allclose(a, b, atol=1e-8)


def test_a_stream_learns_as_rows_come():
    """Degrees are taken beside the first rows: there must be enough of them."""
    X, y = make_moons(4000, noise=0.06, random_state=0)
    model = KernelSpectralClustering(2, gamma=15.0, n_components=100, random_state=0)
    for part in np.array_split(np.arange(4000), 2):
        model.partial_fit(X[part])
    assert adjusted_rand_score(y, model.predict(X)) > 0.9


def test_files_training_and_evaluation(tmp_path):
    path = tmp_path / "model.thresher"
    params = {"n_clusters": 2, "gamma": 15.0}
    model = train(MOONS, None, learner="spectral", params=params, seed=0)
    save_model(model, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict(MOONS), model.predict(MOONS))
    assert model.estimator.function_.describe() == "2 clusters of 1 projections"
    assert "silhouette" in model.evaluate(MOONS)
    parts = train(MOONS, None, learner="spectral", params=params, seed=0, memory=1, holdout=0.0)
    assert parts.training["in_memory"] is False
    assert adjusted_rand_score(HALVES, parts.predict(MOONS)) > 0.9


def test_the_tuner_finds_width_and_number_by_line_fit_and_silhouette():
    tuned = TunedClusterer(
        KernelSpectralClustering(random_state=0), criterion="balanced_line_fit", budget=12,
        space={"n_clusters": (2, 5), "gamma": (0.1, 2.0)}, random_state=0,
    )  # fmt: skip
    tuned.fit(BLOBS)
    assert tuned.best_params_["n_clusters"] == 4
    assert adjusted_rand_score(GROUPS, tuned.predict(BLOBS)) > 0.95
    with pytest.raises(ValueError, match="needs balanced_line_fit"):
        TunedClusterer(criterion="balanced_line_fit").fit(BLOBS)


def test_line_fit_is_one_for_lines_and_low_for_clouds():
    rng = np.random.default_rng(0)
    lines = np.concatenate([np.outer(rng.uniform(1, 2, 50), v) for v in np.eye(3)])
    clusters = np.repeat([0, 1, 2], 50)
    assert balanced_line_fit(lines, clusters) == pytest.approx(1.0)
    assert balanced_line_fit(rng.normal(size=(150, 3)), clusters) < 0.5
    assert balanced_line_fit(lines, np.zeros(150)) == 0.0


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({"n_clusters": 0}, BLOBS, "whole number of at least 1"),
        ({"n_clusters": 5}, BLOBS[:4], "n_samples=4 rows should be at least n_clusters=5"),
        ({"assign": "nearest"}, BLOBS, "assign must be one of"),
        ({"memory": 0}, BLOBS, "memory must be"),
        ({"kernel": "linear", "n_clusters": 2}, np.zeros((20, 2)), "every row is like no other"),
        ({"gamma": 1e9}, BLOBS, "every row is like no other"),
        ({"kernel": "linear"}, BLOBS - BLOBS.mean(axis=0), "none is as like all others together"),
    ],
)
def test_what_cannot_be_clustered_is_refused(params, X, message):
    with pytest.raises(ValueError, match=message):
        KernelSpectralClustering(**{"n_clusters": 3, "random_state": 0} | params).fit(X)


def test_fewer_rows_that_differ_than_clusters():
    with pytest.warns(ConvergenceWarning, match="tell 2 apart at most"):
        model = KernelSpectralClustering(4, random_state=0).fit(np.tile(BLOBS[:2], (10, 1)))
    assert len(set(model.labels_)) == 2


@pytest.mark.parametrize("assign", ASSIGNMENTS)
@pytest.mark.parametrize("components", ["full", 3])
def test_rows_that_are_all_the_same_are_one_cluster(assign, components):
    """Whatever the rounding of their landmarks tells apart."""
    model = KernelSpectralClustering(2, n_components=components, assign=assign, random_state=0)
    with pytest.warns(ConvergenceWarning, match="tell 1 apart at most"):
        model.fit(np.full((60, 3), 0.1))
    assert set(model.labels_) == {0}


def test_one_cluster_takes_all_rows():
    model = KernelSpectralClustering(1, random_state=0).fit(BLOBS)
    assert not np.any(model.labels_)
    assert model.balanced_line_fit(BLOBS) == 0.0


def test_rows_far_from_all_others_have_no_say():
    far = np.array([[1e3, 1e3], [-1e3, 1e3], [1e3, -1e3]])
    X = np.concatenate([MOONS, far])
    model = exact()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # few of them are no news
        model.fit(X)
    assert adjusted_rand_score(HALVES, model.labels_[:400]) > 0.95
    crowd = 1e3 * np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(ConvergenceWarning, match="100 of 500 rows are like no other"):
        exact().fit(np.concatenate([MOONS, crowd]))


@pytest.mark.parametrize("assign", ASSIGNMENTS)
def test_onnx(assign, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    model = KernelSpectralClustering(4, gamma=0.5, assign=assign, scale=True, random_state=0)
    model.fit(BLOBS)
    path = tmp_path / "m.onnx"
    write_onnx(path, model.function_, np.arange(4))
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": BLOBS}), strict=True))
    np.testing.assert_allclose(found["scores"], model.function_.scores(BLOBS), rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(found["label"], model.labels_)
