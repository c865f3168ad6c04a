"""A class all of whose rows are held out, or that has one row, is neither lost nor in the way."""

import numpy as np
import pytest

from thresher import LinearClassifier, load_model, save_model, train
from thresher._random import uniform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
# The rows whose position draws a small number are held out, whatever they hold.
HELD = np.array([uniform(0, i, 1) < 0.1 for i in range(300)])
LEARNERS = {"linear": {}, "kernel": {"n_components": 20}, "budgeted": {"budget": 20},
            "hyperplanes": {}}  # fmt: skip


def labels(rows):
    """Two classes by a threshold, and a third on these rows only."""
    y = np.where(X[:, 0] > 0.0, "b", "a").astype(object)
    y[rows] = "c"
    return y.astype(str)


@pytest.mark.parametrize("memory", [1 << 30, 1])
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("rows", [np.flatnonzero(HELD)[:3], np.flatnonzero(~HELD)[:1]])
def test_a_rare_class_stays(learner, memory, rows, tmp_path):
    y = labels(rows)
    model = train(X, y, learner=learner, params=LEARNERS[learner], memory=memory)
    assert model.classes.tolist() == ["a", "b", "c"]
    held = model.training["held_out"]
    assert held["classes"] == ["a", "b", "c"]
    assert np.sum(held["confusion"]) == HELD.sum()
    assert np.sum(held["confusion"], axis=1)[2] == np.count_nonzero(HELD & (y == "c"))
    assert held["error"] < 0.4
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.evaluate(X, y=y)["rows"] == 300


@pytest.mark.parametrize("calibrate", ["sigmoid", "isotonic"])
def test_probabilities_of_a_class_without_rows(calibrate):
    codes = (X[:, 0] > 0.0).astype(np.int64)
    model = LinearClassifier(solver="newton", calibrate=calibrate)
    model.fit_codes(X, codes, np.array(["a", "b", "c"]))
    model.n_features_in_ = 4
    table = model.predict_proba(X)
    assert table.shape == (300, 3)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert set(model.predict(X)) == {"a", "b"}


def test_one_class_to_learn_from_is_too_few():
    y = np.where(HELD, "b", "a")
    with pytest.raises(ValueError, match="hold one class: 'a'"):
        train(X, y)


def test_boolean_labels_come_back(tmp_path):
    model = LinearClassifier().fit(X, X[:, 0] > 0.0)
    save_model(model, tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert again.predict(X).dtype == bool
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.evaluate(X, y=X[:, 0] > 0.0)["error"] < 0.05
