"""Newton by sums: the optimum of Newton in memory, however the rows come."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from thresher import LinearClassifier, LinearRegressor, train
from thresher.solvers import Status

X, Y = make_classification(600, 8, n_informative=5, random_state=0)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_the_optimum(loss, offset):
    given = {"loss": loss, "alpha": 0.01, "tol": 1e-10}
    sums = LinearClassifier(solver="summed_newton", **given).fit(X + offset, Y)
    whole = LinearClassifier(solver="newton", **given).fit(X + offset, Y)
    assert sums.status_ is Status.CONVERGED
    assert sums.n_iter_ < 20
    np.testing.assert_allclose(sums.coef_, whole.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("penalty", ["l1", "elastic_net"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_sparse_optima(penalty, offset):
    given = {"loss": "logistic", "penalty": penalty, "alpha": 0.03, "tol": 1e-9}
    sums = LinearClassifier(solver="summed_newton", **given).fit(X + offset, Y)
    whole = LinearClassifier(solver="proximal_newton", **given).fit(X + offset, Y)
    assert sums.status_ is Status.CONVERGED
    assert 0 < np.count_nonzero(sums.coef_) < 8
    np.testing.assert_array_equal(sums.coef_ == 0.0, whole.coef_ == 0.0)
    np.testing.assert_allclose(sums.coef_, whole.coef_, rtol=2e-3, atol=1e-6)


def test_bounds_are_kept():
    from thresher.penalties import Box

    model = LinearClassifier("logistic", penalty=Box(0.0, 0.2), solver="summed_newton").fit(X, Y)
    assert model.coef_.min() >= 0.0
    assert model.coef_.max() <= 0.2


def test_a_step_that_leads_astray_is_halved():
    """Far out, the logistic loss is so flat that Newton's full steps diverge."""
    rng = np.random.default_rng(1)
    rows = rng.standard_t(1.2, size=(200, 3))
    labels = (rows[:, 0] > 0.0).astype(int)
    labels[:20] = 1 - labels[:20]
    given = {"loss": "logistic", "alpha": 1e-7, "tol": 1e-10}
    sums = LinearClassifier(solver="summed_newton", **given).fit(rows, labels)
    whole = LinearClassifier(solver="newton", max_iter=500, **given).fit(rows, labels)
    np.testing.assert_allclose(sums.decision_function(rows), whole.decision_function(rows),
                               rtol=1e-3, atol=1e-4)  # fmt: skip


def test_least_squares_takes_one_step():
    y = X @ np.arange(8.0) + 3.0
    sums = LinearRegressor("least_squares", solver="summed_newton", alpha=1e-3).fit(X, y)
    whole = LinearRegressor("least_squares", solver="least_squares", alpha=1e-3).fit(X, y)
    np.testing.assert_allclose(sums.coef_, whole.coef_, rtol=1e-8)
    assert sums.n_iter_ <= 2


def test_a_stream_from_windows_is_a_fit():
    stream = train(X, Y, memory=1, holdout=0.0, params={"solver": "summed_newton", "alpha": 0.01,
                                                        "loss": "logistic"})  # fmt: skip
    fit = LinearClassifier("logistic", solver="newton", alpha=0.01, tol=1e-10, scale=True)
    np.testing.assert_allclose(stream.estimator.coef_, fit.fit(X, Y).coef_, rtol=1e-4)
    assert stream.training["status"] == "CONVERGED"


def test_too_many_features_are_refused():
    from thresher.solvers import SummedNewton

    with pytest.raises(ValueError, match="matrix of 8 x 8"):
        LinearClassifier("logistic", solver=SummedNewton(max_features=4)).fit(X, Y)
