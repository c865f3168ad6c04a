"""scikit-learn's own checks, on the defaults and on every solver that could behave differently."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from thresher import LinearClassifier, LinearRegressor

STOCHASTIC = (
    "a stochastic solver visits repeated rows one by one, so weight k equals k repetitions in the "
    "objective it minimises, not to the last digit of one finite run"
)
WEIGHTS = (
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
)


FOLDS = "repeated rows fall into different folds of the internal cross-validation than one row does"


def expected_failures(estimator):
    if getattr(estimator, "calibrate", None):
        return dict.fromkeys(WEIGHTS, FOLDS)
    if estimator.solver not in ("auto", "newton"):
        return dict.fromkeys(WEIGHTS, STOCHASTIC)
    return {}


@parametrize_with_checks(
    [
        LinearClassifier(),
        LinearClassifier(loss="logistic", calibrate="sigmoid"),
        LinearClassifier(loss="hinge", solver="asgd", max_iter=50),
        LinearRegressor(),
        LinearRegressor(loss="huber", solver="newton"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_contract(estimator, check):
    check(estimator)
