"""One penalty for each feature, found by annealing and simplex over tenfold cross-validation."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import LinearSVC

from thresher import LinearClassifier, LinearRegressor, train
from thresher.search import TunedClassifier, space_for
from thresher.solvers import Pegasos, WeightedPegasos

RELEVANT, FEATURES = 2, 12


def drawn(n, seed):
    """Few rows; the features that say nothing vary most."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    y = (X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)
    X[:, RELEVANT:] *= 3.0
    return X, y


X, Y = drawn(50, 0)
UNSEEN, WANTED = drawn(5000, 1)


@pytest.fixture(scope="module")
def tuned():
    """As published: coupled annealing, then the simplex, tenfold."""
    solver: Any = WeightedPegasos("tuned", batch=6)
    search = TunedClassifier(
        LinearClassifier("hinge", solver=solver, max_iter=20, random_state=0),
        space={"scale": False}, search="csa+simplex", n_trials=120, cv=10, random_state=0,
    )  # fmt: skip
    return search.fit(X, Y)


def precisions(model):
    return np.array([model.best_params_[f"solver__precisions__{j}"] for j in range(FEATURES)])


def test_penalties_of_features_that_say_nothing_help(tuned):
    """Against the best common strength, of scikit-learn too, which is judged on unseen rows."""
    common = [
        LinearSVC(loss="hinge", C=c, max_iter=10**5, random_state=0).fit(X, Y)
        for c in np.logspace(-4, 2, 13)
    ]
    plain = TunedClassifier(
        LinearClassifier("hinge", solver=Pegasos(batch=6), max_iter=20, random_state=0),
        space={"scale": False}, search="csa+simplex", n_trials=30, cv=10, random_state=0,
    ).fit(X, Y)  # fmt: skip
    found = tuned.score(UNSEEN, WANTED)
    assert found > max(model.score(UNSEEN, WANTED) for model in common) + 0.01
    assert found > plain.score(UNSEEN, WANTED) + 0.01
    learned = np.log(precisions(tuned))
    assert learned[:RELEVANT].mean() < learned[RELEVANT:].mean()


def test_what_was_found_is_a_penalty_for_each_feature(tuned):
    """LIBLINEAR on features over the roots of their precisions has the same penalty."""
    weights = precisions(tuned) / np.exp(np.log(precisions(tuned)).mean())
    np.testing.assert_allclose(tuned.best_estimator_.penalty_.weights, weights)
    longer = clone(tuned.best_estimator_).set_params(max_iter=3000).fit(X, Y)
    theirs = LinearSVC(
        loss="hinge", C=1 / (len(Y) * tuned.best_params_["alpha"]), max_iter=10**6, random_state=0,
        intercept_scaling=30.0,
    )  # fmt: skip
    told = theirs.fit(X / np.sqrt(weights), Y).predict(UNSEEN / np.sqrt(weights))
    assert np.mean(told == longer.predict(UNSEEN)) > 0.97


def test_without_a_search_all_are_equal():
    options = {"loss": "hinge", "alpha": 0.05, "random_state": 0}
    equal = LinearClassifier(solver=WeightedPegasos("tuned"), **options).fit(X, Y)
    given = LinearClassifier(solver=WeightedPegasos(np.ones(FEATURES)), **options).fit(X, Y)
    np.testing.assert_array_equal(equal.coef_, given.coef_)


def test_only_those_who_ask_are_searched_feature_by_feature():
    asked = space_for(LinearRegressor(solver=WeightedPegasos("tuned")), X, X[:, 0])
    assert [f"solver__precisions__{j}" in asked.dimensions for j in range(FEATURES + 1)] == [
        *[True] * FEATURES, False,
    ]  # fmt: skip
    for solver in ("weighted_pegasos", "pegasos", "auto", WeightedPegasos(np.ones(FEATURES))):
        space = space_for(LinearClassifier("hinge", solver=solver), X, Y)
        assert not any("precisions" in name for name in space.dimensions)


def test_single_numbers_of_a_parameter_can_be_set():
    model = LinearClassifier("hinge", solver=WeightedPegasos("tuned"))
    model.set_params(solver__precisions__2=0.5, solver__precisions__0=3.0)
    np.testing.assert_array_equal(model.solver.precisions, [3.0, 1.0, 0.5])
    model.set_params(solver__precisions__1=2.0, solver__batch=4)
    np.testing.assert_array_equal(model.solver.precisions, [3.0, 2.0, 0.5])
    assert model.solver.batch == 4
    with pytest.raises(ValueError, match="precisions has 3 numbers: there is no precisions__7"):
        model.set_params(solver__precisions__7=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'weights' for solver"):
        model.set_params(solver__weights__1=2.0)


def test_training_with_a_search(tmp_path):
    path = tmp_path / "model"
    params = {"loss": "hinge", "solver": "weighted_pegasos", "solver__precisions": "tuned"}
    model = train(X, Y, tune=12, cv=10, params=params, holdout=0, model=path)
    assert any("solver__precisions__11" in t["params"] for t in model.training["trials"])
    assert json.dumps(model.training)
