"""Features weighed by the slopes of a pilot machine: what matters gets the weight."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from thresher import (
    AutoClassifier,
    BudgetedClassifier,
    BudgetedRegressor,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    MultiHyperplaneClassifier,
    load_model,
    save_model,
)
from thresher.kernels import RBF
from thresher.kernels.gram import gram
from thresher.maps.relevance import relevance, slopes
from thresher.race.proposals import first_changes


def board(n=2000, d=12, seed=0):
    """A board of two by two fields in the first two of d features."""
    X = np.random.default_rng(seed).uniform(-2, 2, size=(n, d))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def test_slopes_against_finite_differences():
    rng = np.random.default_rng(0)
    V, points = rng.normal(size=(7, 4)), rng.normal(size=(5, 4))
    beta, kernel, step = rng.normal(size=(5, 3)), RBF(0.3), 1e-5
    expected = np.zeros(4)
    for j in range(4):
        move = step * np.eye(4)[j]
        ahead, behind = (gram(kernel, V + side * move, points) @ beta for side in (1, -1))
        expected[j] = np.sqrt(np.sum(((ahead - behind) / (2 * step)) ** 2) / 7)
    np.testing.assert_allclose(slopes(V, kernel, points, beta), expected, rtol=1e-6)


@pytest.mark.parametrize("task", ["two classes", "three classes", "numbers"])
def test_what_matters_gets_the_weight(task):
    X, y = board()
    if task == "three classes":
        y = y + (X[:, 0] > 1)
    elif task == "numbers":
        y = X[:, 0] * X[:, 1]
    weights = relevance(X, y)
    assert np.mean(weights**2) == pytest.approx(1.0)
    assert weights[:2].min() > 5 * weights[2:].max()


def test_they_stay_at_one_where_nothing_is_to_be_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    np.testing.assert_array_equal(relevance(X, rng.integers(0, 2, 30)), np.ones(3))  # too few rows
    X = np.ones((200, 3))
    np.testing.assert_array_equal(relevance(X, rng.integers(0, 2, 200)), np.ones(3))
    X = rng.normal(size=(200, 3))
    np.testing.assert_array_equal(relevance(X, np.zeros(200)), np.ones(3))


@pytest.mark.parametrize("size", [1e19, 1e30])  # sums that are indefinite; kernel values of NaN
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_they_stay_at_one_where_no_pilot_can_be_solved(size):
    X, y = board(200, 3)
    assert np.ptp(relevance(X, y)) > 0.1
    np.testing.assert_array_equal(relevance(X * size, y), np.ones(3))


def test_a_constant_feature_loses_its_weight():
    X, y = board(d=6)
    X[:, 4] = 0.0
    assert relevance(X, y)[4] < 0.01


def test_it_is_the_same_for_sparse_rows_and_every_time():
    X, y = board(600)
    np.testing.assert_array_equal(relevance(X, y, 3), relevance(csr_matrix(X), y, 3))


def test_what_is_known_of_a_sample_is_not_learned_again(monkeypatch):
    """Every round of learning asks for slopes."""
    (X, y), rounds = board(60, 4, seed=5), []

    def counting(*pilot):
        rounds.append(1)
        return slopes(*pilot)

    monkeypatch.setattr("thresher.maps.relevance.slopes", counting)

    def learned(*sample):
        before = len(rounds)
        return relevance(*sample), len(rounds) > before

    first, anew = learned(X, y, 3)
    assert anew
    again, anew = learned(X.copy(), y, 3)
    assert not anew
    np.testing.assert_array_equal(again, first)
    again[:] = 0.0  # a copy
    np.testing.assert_array_equal(relevance(X, y, 3), first)
    for other in ((X, 1 - y, 3), (2.0 * X, y, 3), (X, y, 4), (X[:-1], y[:-1], 3)):
        assert learned(*other)[1]
    for scale in range(2, 52):  # memory is bounded: what was asked for long ago is forgotten
        relevance(scale * X, 1 - y, 3)
    known, anew = learned(X, y, 3)
    assert anew
    np.testing.assert_array_equal(known, first)


@pytest.mark.parametrize(("rows", "features", "most"), [(30_000, 5, 20_000), (9000, 10_000, 4000)])
def test_the_sample_is_bounded(rows, features, most):
    """By rows, and where they are wide by the memory that they take as floats: 160 MB."""

    class Enough(Exception):
        pass

    def convert(sample):
        assert sample.shape == (most, features)
        raise Enough

    X = csr_matrix((rows, features))
    with pytest.raises(Enough):
        relevance(X, np.arange(rows) % 2, convert=convert)


def test_too_many_features_are_refused():
    X, y = csr_matrix((100, 20_000)), np.arange(100) % 2
    with pytest.raises(ValueError, match="at most 10000 features, but there are 20000"):
        KernelClassifier(scale="relevance").fit(X, y)


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: KernelClassifier(n_components=200, scale=scale, random_state=0),
        lambda scale: KernelClassifier(map="local", scale=scale, random_state=0),
        lambda scale: BudgetedClassifier(budget=200, scale=scale, random_state=0),
    ],
    ids=["nystroem", "local", "budgeted"],
)
def test_a_classifier_errs_less(make):
    X, y = board(3000)
    X *= 10.0 ** np.arange(-5, 7)  # units do not matter
    test, truth = X[2000:], y[2000:]
    errors = [np.mean(make(s).fit(X[:2000], y[:2000]).predict(test) != truth)
              for s in (True, "relevance")]  # fmt: skip
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("estimator", [KernelRegressor, BudgetedRegressor])
def test_a_regressor_errs_less(estimator):
    X, _ = board(2000)
    y = X[:, 0] * X[:, 1]
    scores = [estimator(scale=s, random_state=0).fit(X[:1500], y[:1500]).score(X[1500:], y[1500:])
              for s in (True, "relevance")]  # fmt: skip
    assert 1 - scores[1] < 0.7 * (1 - scores[0])


@pytest.mark.parametrize("estimator", [KernelClassifier, BudgetedClassifier])
def test_rows_of_weight_zero_do_not_count(estimator):
    X, y = board(600)
    wrong = np.r_[y, 1 - y]
    weight = np.r_[np.ones(600), np.zeros(600)]
    model = estimator(scale="relevance", random_state=0)
    alone = model.fit(X, y).decision_function(X[:50])
    both = model.fit(np.r_[X, X], wrong, sample_weight=weight).decision_function(X[:50])
    if estimator is KernelClassifier:  # a budgeted one draws another order of more rows
        np.testing.assert_allclose(both, alone, rtol=1e-4, atol=1e-6)
    assert np.mean((both > 0) == y[:50]) > 0.8


@pytest.mark.parametrize("estimator", [KernelClassifier, BudgetedClassifier])
def test_streams_files_and_memory(estimator, tmp_path):
    X, y = board(1500)
    model = estimator(scale="relevance", random_state=0).partial_fit(X[:800], y[:800], [0, 1])
    model.partial_fit(X[800:], y[800:])
    path = tmp_path / "m.thresher"
    save_model(model, path)
    np.testing.assert_array_equal(load_model(path).estimator.predict(X), model.predict(X))


@pytest.mark.parametrize("estimator", [LinearClassifier, MultiHyperplaneClassifier])
def test_a_linear_model_has_no_use_for_it(estimator):
    X, y = board(100)
    with pytest.raises(ValueError, match="scale must be True or False, got 'relevance'"):
        estimator(scale="relevance").fit(X, y)
    with pytest.raises(ValueError, match=r"True or False \(or 'relevance'\), got 'relevant'"):
        KernelClassifier(scale="relevant").fit(X, y)


def test_a_race_finds_that_it_pays():
    X, y = board(4000)
    model = AutoClassifier(4.0, learners=["kernel"], random_state=0).fit(X, y)
    assert model.best_params_["scale"] == "relevance"


def test_scales_that_a_race_tries():
    X, _ = board(200)

    def scales(estimator, X):
        return [change["scale"] for change in first_changes(estimator, X) if "scale" in change]

    assert scales(KernelClassifier(scale=True), X) == [False, "relevance"]
    assert scales(LinearClassifier(), X) == [True]
    assert scales(KernelClassifier(scale="relevance"), X) == []
    assert scales(KernelClassifier(), csr_matrix(X)) == ["relevance"]
    assert scales(LinearClassifier(), csr_matrix(X)) == []
