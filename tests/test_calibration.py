"""Probabilities: distributions, ordered like the scores, and honest on unseen rows."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss

from thresher import LinearClassifier

METHODS = ["sigmoid", "isotonic"]


def draw(n, seed):
    """Rows whose labels are coin flips of a known bias."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (rng.uniform(size=n) < expit(X @ [1.5, -1.0, 0.5, 0.0] - 0.5)).astype(int)


@pytest.fixture(scope="module")
def seen():
    return draw(400, 0)


@pytest.fixture(scope="module")
def unseen():
    return draw(1000, 1)


@pytest.fixture(scope="module", params=METHODS)
def binary(request, seen):
    model = LinearClassifier("hinge", alpha=0.01, calibrate=request.param, random_state=0)
    return model.fit(*seen)


@pytest.fixture(scope="module", params=METHODS)
def several(request):
    model = LinearClassifier("squared_hinge", alpha=0.01, calibrate=request.param)
    return model.fit(*load_iris(return_X_y=True))


def test_two_classes_get_a_distribution_ordered_by_the_score(binary, unseen):
    X, _ = unseen
    table = binary.predict_proba(X)
    assert table.shape == (1000, 2)
    assert np.all((table >= 0.0) & (table <= 1.0))
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    by_score = table[np.argsort(binary.decision_function(X)), 1]
    assert np.all(np.diff(by_score) >= 0.0)
    assert by_score[-1] - by_score[0] > 0.5
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(binary.predict_log_proba(X), np.log(table))


def test_calibrated_probabilities_are_honest_on_unseen_rows(binary, unseen):
    X, y = unseen
    scores = binary.decision_function(X)
    truth = expit(X @ [1.5, -1.0, 0.5, 0.0] - 0.5)
    ours = log_loss(y, binary.predict_proba(X))
    assert ours < log_loss(y, expit(10.0 * scores))
    assert ours < log_loss(y, np.full(y.size, y.mean()))
    # Isotonic steps may reach 0 and 1, which the log loss never forgives.
    assert binary.calibrate == "isotonic" or ours < 1.05 * log_loss(y, truth)
    assert np.mean(np.abs(binary.predict_proba(X)[:, 1] - truth)) < 0.08


def test_calibration_does_not_touch_the_model(binary, seen):
    plain = LinearClassifier("hinge", alpha=0.01, random_state=0).fit(*seen)
    assert np.array_equal(plain.coef_, binary.coef_)
    assert np.array_equal(plain.intercept_, binary.intercept_)


def test_several_classes(several):
    X, y = load_iris(return_X_y=True)
    table = several.predict_proba(X)
    assert table.shape == (150, 3)
    assert np.all(table >= 0.0)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert log_loss(y, table) < 0.6 < log_loss(y, np.full((150, 3), 1 / 3))
    if several.calibrate == "sigmoid":
        assert np.array_equal(several.classes_[table.argmax(axis=1)], several.predict(X))


def test_sigmoid_follows_labels_of_any_kind(seen):
    X, y = seen
    names = np.array(["yes", "no"])[y]  # the second label in the order of names is the first here
    options = {"alpha": 0.01, "calibrate": "sigmoid", "random_state": 0}
    model = LinearClassifier("squared_hinge", **options).fit(X, names)
    mirror = LinearClassifier("squared_hinge", **options).fit(X, y)
    assert list(model.classes_) == ["no", "yes"]
    np.testing.assert_allclose(
        model.predict_proba(X), mirror.predict_proba(X)[:, ::-1], rtol=1e-6, atol=1e-9
    )


def test_weights_move_the_probabilities(seen):
    X, y = seen
    options = {"alpha": 0.01, "calibrate": "sigmoid"}
    plain = LinearClassifier("logistic", **options).fit(X, y)
    weighted = LinearClassifier("logistic", **options).fit(X, y, np.where(y == 1, 5.0, 1.0))
    assert np.all(weighted.predict_proba(X)[:, 1] > plain.predict_proba(X)[:, 1])


@pytest.mark.parametrize("loss", ["logistic", "modified_huber"])
def test_link_of_the_loss(seen, loss):
    X, y = seen
    model = LinearClassifier(loss, alpha=0.01).fit(X, y)
    scores = model.decision_function(X)
    wanted = expit(scores) if loss == "logistic" else (np.clip(scores, -1, 1) + 1) / 2
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], wanted, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_link_of_several_classes_is_a_distribution():
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier("modified_huber", alpha=0.01).fit(X, y)
    far = model.predict_proba(np.vstack([X, 1e3 * X, -1e3 * X]))
    assert np.all(np.isfinite(far))
    np.testing.assert_allclose(far.sum(axis=1), 1.0)


def test_no_probabilities_without_link_or_calibration(seen):
    model = LinearClassifier("hinge").fit(*seen)
    for method in ("predict_proba", "predict_log_proba"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError) as error:
            getattr(model, method)(seen[0])
        assert "needs calibrate='sigmoid' or 'isotonic'" in str(error.value.__cause__)


def test_wrong_use():
    X = np.arange(12.0).reshape(6, 2)
    with pytest.raises(ValueError, match="calibrate must be 'sigmoid', 'isotonic' or None"):
        LinearClassifier(calibrate="platt").fit(X, [0, 1] * 3)
    with pytest.raises(ValueError, match="calibrate needs at least two rows of every class"):
        LinearClassifier(calibrate="sigmoid").fit(X, [0, 0, 0, 0, 0, 1])
