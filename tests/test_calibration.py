"""Probabilities: distributions, ordered like the scores, and honest on unseen rows."""

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from thresher import LinearClassifier, load_model, save_model
from thresher.estimators.calibration import calibrate
from thresher.functions import Sigmoids, Softmax, VectorSoftmax

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


# ------------------------------------------------ several classes


def scored(seed, classes=5, n=400):
    """One-vs-rest scores of classes of unequal frequency, with offsets and slopes of their own."""
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(classes, 0.7)) + 0.02
    codes = rng.choice(classes, n, p=chances / chances.sum())
    codes[: 2 * classes] = np.arange(2 * classes) % classes
    scores = rng.standard_normal((n, classes)) + 1.5 * np.eye(classes)[codes]
    return scores * rng.uniform(0.3, 3.0, classes) + rng.normal(0.0, 2.0, classes), codes


def by_temperature(scores, codes):
    unit = np.std(scores)
    chosen = np.arange(codes.size), codes

    def loss(t):
        return -np.mean(log_softmax(np.exp(t) / unit * scores, axis=1)[chosen])

    return minimize_scalar(loss, bounds=(-8, 8), method="bounded").fun


def one_by_one(scores, codes):
    """A logistic regression on each score, with Platt's targets, normalised."""
    columns = []
    for c, s in enumerate(scores.T):
        up, ups = codes == c, np.sum(codes == c)
        target = np.where(up, (ups + 1) / (ups + 2), 1 / (codes.size - ups + 2))

        def cost(v, s=s, target=target):
            odds = v[0] * s + v[1]
            return np.sum(np.logaddexp(0.0, odds) - target * odds)

        slope, offset = minimize(cost, [1.0, 0.0]).x
        columns.append(expit(slope * s + offset))
    table = np.column_stack(columns)
    return log_loss(codes, table / table.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("seed", range(12))
def test_never_worse_than_one_temperature_or_one_sigmoid_per_class(seed):
    scores, codes = scored(seed, classes=3 + seed % 4)
    found = log_loss(codes, calibrate(scores, codes, None, "sigmoid")(scores))
    assert found <= by_temperature(scores, codes) + 1e-7
    assert found <= one_by_one(scores, codes) + 1e-7


def test_vector_scaling_is_the_minimum_of_its_cost():
    scores, codes = scored(3, classes=3)
    found = calibrate(scores, codes, None, "sigmoid")
    assert isinstance(found, VectorSoftmax)
    unit = np.std(scores)
    chosen = np.arange(codes.size), codes
    plain = minimize_scalar(
        lambda t: -np.sum(log_softmax(np.exp(t) / unit * scores, axis=1)[chosen]),
        bounds=(-7, 7), method="bounded", options={"xatol": 1e-9},
    )  # fmt: skip
    tau = np.exp(plain.x) / unit

    def cost(a, b):
        fit = -np.sum(log_softmax(tau * a * scores + b, axis=1)[chosen])
        return fit + 0.5 * np.sum((a - 1.0) ** 2) + 0.5 * np.sum(b**2)

    least = minimize(lambda v: cost(v[:3], v[3:]), np.r_[np.ones(3), np.zeros(3)])
    assert cost(found.slopes / tau, found.offsets) == pytest.approx(least.fun, rel=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_only_ratios_of_weights_matter_for_several_classes(size):
    scores, codes = scored(4)
    weight = 1.0 + (np.arange(codes.size) % 3)
    plain = calibrate(scores, codes, weight, "sigmoid")(scores)
    found = calibrate(scores, codes, weight * size, "sigmoid")(scores)
    np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_unequal_classes_are_calibrated_as_well_as_by_scikit_learn():
    """Ten classes, some rare: one temperature cannot know how frequent they are."""
    rng = np.random.default_rng(5)
    chances = 0.7 ** np.arange(10.0)
    y = rng.choice(10, 3000, p=chances / chances.sum())
    X = rng.standard_normal((3000, 6)) + 0.8 * rng.standard_normal((10, 6))[y]
    options = {"alpha": 1e-3, "calibrate": "sigmoid", "random_state": 0}
    model = LinearClassifier("squared_hinge", **options).fit(X[:1500], y[:1500])
    peer = CalibratedClassifierCV(LinearSVC(C=1 / 1.5), method="sigmoid").fit(X[:1500], y[:1500])
    ours = log_loss(y[1500:], model.predict_proba(X[1500:]))
    assert ours < log_loss(y[1500:], peer.predict_proba(X[1500:])) + 0.01
    scores = model.decision_function(X[1500:])
    assert ours < by_temperature(scores, y[1500:]) - 0.02  # the best of them for these very rows


@pytest.mark.parametrize("kind", [VectorSoftmax, Sigmoids])
def test_calibrators_of_several_classes_in_files(kind, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = LinearClassifier("squared_hinge", alpha=0.01, calibrate="sigmoid").fit(X, y)
    model.calibrator_ = kind(np.array([1.0, 2.0, 0.5]), np.array([0.1, 0.0, -2.0]))
    save_model(model, tmp_path / "model.thresher")
    again = load_model(tmp_path / "model.thresher")
    assert isinstance(again.estimator.calibrator_, kind)
    assert np.array_equal(again.estimator.predict_proba(X), model.predict_proba(X))


def test_a_temperature_still_gives_probabilities():
    """What files of former versions hold."""
    scores = np.array([[0.0, 1.0, -1.0]])
    assert np.array_equal(Softmax(2.0)(scores), softmax(2.0 * scores, axis=1))


@pytest.mark.parametrize("kind", [VectorSoftmax, Sigmoids])
@pytest.mark.parametrize(
    ("slopes", "offsets", "outputs", "message"),
    [
        (np.ones(3), np.zeros(2), 3, "offsets must be 3 finite numbers"),
        (np.array([1.0, np.nan, 1.0]), np.zeros(3), 3, "slopes must be 3 finite numbers"),
        ([1.0, 1.0, 1.0], np.zeros(3), 3, "slopes must be 3"),
        (np.ones(1), np.zeros(1), 1, "several outputs"),
    ],
)
def test_damaged_calibrators_of_several_classes(kind, slopes, offsets, outputs, message):
    with pytest.raises(ValueError, match=message):
        kind(slopes, offsets).check(outputs)
