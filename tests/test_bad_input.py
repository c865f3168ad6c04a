"""Wrong or awkward input ends in a message that names it, or in the documented behaviour."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from conftest import make_data
from thresher import KernelClassifier, LinearClassifier, LinearRegressor, Status
from thresher.losses import EpsilonInsensitive, Hinge, Huber, Pinball, SquaredEpsilonInsensitive
from thresher.penalties import L1, L2, Box, ElasticNet, WeightedL1, WeightedL2
from thresher.registry import LEARNERS, TASKS
from thresher.schedules import InverseRoot
from thresher.solvers import (
    FOBOS,
    RDA,
    SGD,
    AdaptiveRDA,
    AveragedSGD,
    DropoutPegasos,
    DualDescent,
    Pegasos,
    ReweightedL1,
    ReweightedL2,
    TruncatedGradient,
    WeightedPegasos,
)

X, Y = make_data(n=120, d=6, seed=3)
SOLVERS = ["newton", "dcd", "asgd", "pegasos", "sgd", "fobos", "rda"]


def spoiled(value):
    bad = X.copy()
    bad[7, 2] = value
    return bad


# ---------------------------------------------------------------- data


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        (spoiled(np.nan), Y, "Input X contains NaN"),
        (spoiled(np.inf), Y, "Input X contains infinity"),
        (sparse.csr_array(spoiled(np.nan)), Y, "Input X contains NaN"),
        (X[:0], Y[:0], r"Found array with 0 sample\(s\)"),
        (X[:, :0], Y, r"0 feature\(s\)"),
        (X[0], Y, "Expected 2D array, got 1D"),
        (X, Y[:50], r"inconsistent numbers of samples: \[120, 50\]"),
        (X, np.ones(120), r"at least two classes.*one class: .*1\.0"),
        (X, Y + 0.25 * np.arange(120), "Unknown label type: continuous"),
        (X, np.where(np.arange(120) == 3, np.nan, Y), "Input y contains NaN"),
        (X, np.column_stack([Y, Y]), "y should be a 1d array"),
        (X.astype(complex), Y, "Complex data not supported"),
        (np.full((4, 2), "a"), [0, 1, 0, 1], "could not convert string to float"),
    ],
)
def test_data_are_refused(rows, y, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier("logistic").fit(rows, y)


def test_regression_targets_are_checked():
    for value, message in ((np.nan, "Input y contains NaN"), (np.inf, "Input y contains infinity")):
        with pytest.raises(ValueError, match=message):
            LinearRegressor().fit(X, np.where(np.arange(120) == 3, value, Y))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(np.arange(120) == 4, -1.0, 1.0), "Negative values .*sample_weight"),
        (np.zeros(120), "must contain at least one non-zero number"),
        (np.full(120, np.nan), "sample_weight contains NaN"),
        (np.ones(50), r"sample_weight.shape == \(50,\)"),
        (np.where(Y > 0, 1.0, 0.0), "rows of positive weight hold one class"),
    ],
)
def test_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier("logistic").fit(X, Y, weight)


def test_models_are_fitted_before_use():
    with pytest.raises(NotFittedError):
        LinearClassifier().predict(X)
    with pytest.raises(NotFittedError):
        LinearRegressor().predict(X)
    with pytest.raises(ValueError, match="X has 5 features, but LinearClassifier is expecting 6"):
        LinearClassifier("logistic").fit(X, Y).predict(X[:, :5])


# ---------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, r"alpha must be a number of at least 0 \(or None\), got -1.0"),
        ({"alpha": np.nan}, "alpha must be a number of at least 0"),
        ({"alpha": np.inf}, "alpha must be a number of at least 0"),
        ({"tol": 0.0}, r"tol must be a positive number \(or None\), got 0.0"),
        ({"tol": -1e-3}, "tol must be a positive number"),
        ({"tol": np.nan}, "tol must be a positive number"),
        ({"max_iter": 0}, r"max_iter must be a whole number of at least 1 \(or None\), got 0"),
        ({"steps": 0}, "steps must be a whole number of at least 1"),
        ({"order": "random"}, "order must be one of 'shuffle', 'sequential', 'sampled', got"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"validation_fraction": 0.0}, r"validation_fraction must be a number in \(0, 1\)"),
        ({"validation_fraction": 1.5, "early_stopping": True}, "validation_fraction must be"),
        ({"loss": "log"}, "loss='log' is unknown: give a Loss object or one of hinge, squared"),
        ({"penalty": "l3"}, "penalty='l3' is unknown: give a Penalty object or one of l2, l1"),
        ({"solver": "lbfgs"}, "solver='lbfgs' is unknown: give a Solver object or one of asgd"),
        ({"loss": None}, "loss=None is unknown"),
        ({"penalty": "weighted_l1"}, r"needs its weights: pass WeightedL1\(weights=...\)"),
        ({"class_weight": "even"}, "class_weight"),
        ({"loss": "epsilon_insensitive"}, "loss EpsilonInsensitive is not for classification"),
        ({"loss": "hinge", "solver": "newton"}, "Newton needs a loss that offers curvature.*Hinge"),
        ({"penalty": "l1", "solver": "dcd"}, "DualDescent needs a penalty that offers quadratic"),
        ({"penalty": Box(), "solver": "sgd"}, "SGD needs a penalty that offers subgrad.*Box"),
        ({"penalty": WeightedL2(np.ones(4))}, "WeightedL2 has 4 weights, but the data has 6"),
        ({"penalty": WeightedL1(np.ones(7))}, "WeightedL1 has 7 weights, but the data has 6"),
        ({"solver": "dcd", "alpha": 0.0}, "DualDescent needs a positive alpha"),
        ({"solver": "pegasos", "alpha": 0.0}, "Pegasos steps are 1/.*positive"),
        ({"solver": AveragedSGD(eta0=200.0), "alpha": 0.01}, "eta0 must be .* below 1/alpha"),
        ({"solver": AveragedSGD(eta0=0.0)}, "eta0 must be positive"),
        ({"solver": AveragedSGD(every=0)}, "every must be at least 1"),
        ({"solver": Pegasos(batch=0)}, "Pegasos: batch must be at least 1, got 0"),
        ({"solver": Pegasos(bias="mean")}, "bias must be 'gradient' or 'residual', got 'mean'"),
        ({"solver": SGD(batch=-1)}, "SGD: batch must be at least 1"),
        ({"solver": FOBOS(batch=0)}, "FOBOS: batch must be at least 1"),
        ({"solver": DropoutPegasos(batch=0)}, "DropoutPegasos: batch must be at least 1"),
        ({"solver": TruncatedGradient(every=0)}, "every >= 1 and ceiling > 0"),
        ({"solver": RDA(gamma=0.0)}, "RDA: gamma must be positive, got 0.0"),
        ({"solver": RDA(growth="cube")}, "growth must be 'root' or 'log', got 'cube'"),
        ({"solver": AdaptiveRDA(rho=0.0)}, "rho must be positive"),
        ({"solver": ReweightedL1(epsilon=0.0)}, "ReweightedL1: epsilon must be positive"),
        ({"solver": ReweightedL2(variant="x")}, "variant must be 'thesis', 'literal' or 'ridge'"),
        ({"solver": DualDescent(threads=0)}, "threads must be at least 1"),
        ({"solver": DualDescent(intercept_scaling=0.0)}, "intercept_scaling must be positive"),
        ({"solver": WeightedPegasos("guess")}, "precisions must be numbers or one of ard, cv"),
        ({"solver": WeightedPegasos(np.ones(3))}, "precisions must be 6 positive numbers"),
    ],
)
def test_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**({"loss": "logistic"} | options)).fit(X, Y)


@pytest.mark.parametrize(
    "options",
    [{"loss": Hinge}, {"penalty": L1}, {"solver": AveragedSGD}],
    ids=lambda o: next(iter(o)),
)
def test_classes_are_not_instances(options):
    ((name, cls),) = options.items()
    message = re.escape(f"{name}={cls.__name__} is a class; pass an instance: {cls.__name__}()")
    with pytest.raises(TypeError, match=message):
        LinearClassifier(**{name: cls}).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pinball(2.0), r"Pinball: tau must lie in \[0, 1\], got 2.0"),
        (lambda: Pinball(np.nan), "tau must lie"),
        (lambda: Huber(0.0), "Huber: delta must be positive, got 0.0"),
        (lambda: EpsilonInsensitive(-0.1), "EpsilonInsensitive: epsilon must be at least 0"),
        (lambda: SquaredEpsilonInsensitive(-1), "epsilon must be at least 0, got -1"),
        (lambda: L2(-1.0), "L2: strength must be finite and at least 0, got -1.0"),
        (lambda: L1(np.inf), "L1: strength must be finite"),
        (lambda: ElasticNet(1.0, 1.5), r"l1_ratio must lie in \[0, 1\], got 1.5"),
        (lambda: WeightedL2([1.0, -1.0]), "weights must be one finite number of at least 0"),
        (lambda: WeightedL1([[1.0]]), "weights must be one finite number"),
        (lambda: Box(0.5, 1.0), "Box: needs low <= 0 <= high"),
        (lambda: InverseRoot(0.0), "InverseRoot: theta must be positive and finite"),
    ],
)
def test_parameters_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_too_few_rows_to_hold_out():
    with pytest.raises(ValueError, match="validation_fraction"):
        LinearClassifier("logistic", early_stopping=True).fit(X[:6], [0, 1] * 3)


# ---------------------------------------------------------------- awkward but legal


def usable(model, rows):
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.intercept_))
    assert np.all(np.isfinite(model.decision_function(rows)))


WIDE = np.random.default_rng(0).normal(size=(10, 40))
AWKWARD = {  # rows, targets, and how many of them the optimum gets right at least
    "one feature": (X[:, [5]], Y, 0.81),
    "more features than rows": (WIDE, np.arange(10) % 2, 1.0),
    "two rows": (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1]), 1.0),
    "empty rows": (np.where(np.arange(120)[:, None] % 5 == 0, 0.0, X), Y, 0.89),
    "constant features": (
        np.column_stack([X[:, :4], np.full(120, 3.0), np.zeros(120)]),
        Y,
        0.78,
    ),
}


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("solver", SOLVERS)
def test_awkward_shapes(solver, case):
    rows, y, optimum = AWKWARD[case]
    model = LinearClassifier("squared_hinge", penalty="l2", solver=solver, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LinearClassifier: no better than a constant")
        usable(model.fit(rows, y), rows)
    exact = solver in ("newton", "dcd")
    honest = (Status.COMPLETED, Status.NO_BETTER)  # where there is nothing but the constant
    assert model.status_ in ((Status.CONVERGED,) if exact else honest)
    assert model.score(rows, y) >= optimum - (0.01 if exact else 0.1)


@pytest.mark.parametrize("solver", ["newton", "dcd", "asgd", "fobos"])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_all_zero_data_give_the_constant_model(solver, storage):
    rows = storage(np.zeros((30, 3)))
    y = np.repeat([0, 1], [10, 20])
    model = LinearClassifier("logistic", penalty="l2", solver=solver, random_state=0, max_iter=200)
    with pytest.warns(ConvergenceWarning, match="all-zero model"):
        model.fit(rows, y)
    assert model.status_ is Status.ALL_ZERO
    assert model.density_ == 0.0
    usable(model, rows)
    assert np.all(model.predict(rows) == 1)
    if solver == "newton":
        assert model.intercept_[0] == pytest.approx(np.log(2), rel=1e-3)


def test_constant_columns_do_not_matter_to_a_scaled_model():
    wider = np.column_stack([X, np.full(120, 1e6)])
    narrow = LinearClassifier("logistic", scale=True).fit(X, Y)
    model = LinearClassifier("logistic", scale=True).fit(wider, Y)
    np.testing.assert_allclose(
        model.decision_function(wider), narrow.decision_function(X), rtol=1e-6, atol=1e-6
    )
    assert model.coef_[0, -1] == pytest.approx(0.0, abs=1e-12)


def test_separable_data_without_penalty_end():
    rows = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    model = LinearClassifier("logistic", alpha=0.0, max_iter=50)
    with pytest.warns(ConvergenceWarning, match="reached max_iter before the tolerance"):
        usable(model.fit(rows, [0, 0, 1, 1]), rows)
    assert model.status_ is Status.MAX_ITER
    assert model.n_iter_ == 50
    assert model.score(rows, [0, 0, 1, 1]) == 1.0


# ---------------------------------------------------------------- overflow

# How a fit may end.  Whatever was expected, another end is an error: a warning that nobody
# expects is one by pytest's settings.
LEARNED, OUT_OF_PASSES, DIVERGED, REFUSED = "learned", "out of passes", "diverged", "refused"
FAR = "far from what it could be"
WARNED = {
    OUT_OF_PASSES: Status.MAX_ITER,
    DIVERGED: Status.DIVERGED,
    FAR: Status.NO_BETTER,
}
REFUSAL = r"{} holds values up to .*, too large to square without overflow: scale them"


def ended(expected, fit, of="X"):
    """The model, finite and usable, if the fit ends as expected; None if it is refused."""
    if expected == REFUSED:
        with pytest.raises(ValueError, match=REFUSAL.format(of)):
            fit()
        return None
    if expected in WARNED:
        with pytest.warns(ConvergenceWarning, match=re.escape(str(WARNED[expected]))):
            model = fit()
        assert model.status_ is WARNED[expected]
    else:
        model = fit()
        assert model.status_ in (Status.CONVERGED, Status.COMPLETED)
    assert np.all(np.isfinite(model.coef_))
    assert np.all(np.isfinite(model.intercept_))
    return model


def beside_huge_features(solver, size):
    """Some solvers fit their steps to the rows, until sums of squares overflow; the others diverge,
    and are told why where squares of the rows are the reason."""
    if size > 1e150:
        return REFUSED
    if solver in ("newton", "asgd"):
        return LEARNED
    if solver == "dcd":
        return OUT_OF_PASSES
    return REFUSED if size > 1e75 else DIVERGED


@pytest.mark.parametrize("size", [1e60, 1e100, 1e160, 1e300])
@pytest.mark.parametrize("solver", SOLVERS)
def test_huge_features(solver, size):
    expected, rows = beside_huge_features(solver, size), X * size
    model = LinearClassifier("squared_hinge", penalty="l2", solver=solver, random_state=0)
    if ended(expected, lambda: model.fit(rows, Y)) is None:
        return
    assert np.all(np.isfinite(model.decision_function(rows)))
    if expected == DIVERGED:  # in the first pass: nothing was known before it
        assert not np.any(model.coef_)
        return
    # Beside such features no step reaches the intercept.
    plain = LinearClassifier("squared_hinge", fit_intercept=False).fit(X, Y).score(X, Y)
    constant = max(np.mean(Y > 0), np.mean(Y < 0))
    assert constant + 0.1 < plain
    assert model.score(rows, Y) >= (plain - 0.02 if expected == LEARNED else constant + 0.03)


@pytest.mark.parametrize(
    ("size", "expected"), [(1e20, LEARNED), (1e60, DIVERGED), (1e160, REFUSED), (1e300, REFUSED)]
)
@pytest.mark.parametrize("solver", ["newton", "dcd", "asgd", "fobos"])
def test_huge_targets(solver, size, expected):
    y = (X[:, 1] - X[:, 3]) * size
    options = {"penalty": "l2", "solver": solver, "alpha": 1e-3, "random_state": 0}
    model = ended(expected, lambda: LinearRegressor(**options).fit(X, y), of="y")
    if expected == DIVERGED:  # weights as large as the targets count as overflow
        np.testing.assert_array_equal(model.predict(X), np.full(120, model.intercept_[0]))
    elif expected != REFUSED:
        assert np.abs(model.predict(X) - y).sum() < 0.01 * np.abs(y).sum()


def test_targets_beyond_single_precision():
    rows = X.astype(np.float32)
    plain = LinearRegressor().fit(X, Y)
    model = ended(LEARNED, lambda: LinearRegressor().fit(rows, 1e10 * Y))
    np.testing.assert_allclose(model.coef_, 1e10 * plain.coef_, rtol=1e-4, atol=1e5)
    ended(REFUSED, lambda: LinearRegressor().fit(rows, 1e37 * Y), of="y")
    with pytest.raises(ValueError, match="targets too large for float32 rows: scale them"):
        LinearRegressor().fit(rows, 1e60 * Y)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_huge_features_are_fine_when_scaled(storage):
    model = LinearClassifier("squared_hinge", scale=True)
    plain = model.fit(storage(X), Y).decision_function(X)
    ended(LEARNED, lambda: model.fit(storage(X * 1e150), Y))
    np.testing.assert_allclose(model.decision_function(X * 1e150), plain, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="column 0 holds values too large to standardise"):
        model.fit(storage(X * 1e200), Y)


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
@pytest.mark.parametrize(
    ("solver", "first", "later"),
    [
        (AveragedSGD(eta0=0.1), {1e60: FAR, 1e100: FAR, 1e160: REFUSED}, LEARNED),
        (Pegasos(), {1e60: DIVERGED, 1e100: REFUSED, 1e160: REFUSED}, DIVERGED),
        (RDA(gamma=1.0), {1e60: DIVERGED, 1e100: REFUSED, 1e160: REFUSED}, DIVERGED),
    ],
    ids=["asgd", "pegasos", "rda"],
)
def test_streams_never_hold_nan(solver, first, later):
    def new():
        return LinearClassifier("squared_hinge", penalty="l2", solver=solver)

    for size, expected in first.items():
        rows = X * size
        model = ended(expected, lambda rows=rows: new().partial_fit(rows, Y, classes=[-1, 1]))
        if expected == LEARNED:
            assert model.score(rows, Y) > 0.8
        elif expected == DIVERGED:
            assert not np.any(model.coef_)
    model = new().partial_fit(X, Y, classes=[-1, 1])
    known, score = model.decision_function(X), model.score(X, Y)
    for rows in (X * 1e160, X):  # what has diverged says so each time
        ended(later, lambda rows=rows: model.partial_fit(rows, Y))
        if later == DIVERGED:  # the last finite model stays, to the bit
            np.testing.assert_array_equal(model.decision_function(X), known)
        else:
            assert model.score(X, Y) > score - 0.05


EVERY_LEARNER = [
    pytest.param(learner, task, way, id=f"{learner}-{task}-{way}")
    for learner, entry in LEARNERS.items()
    for task in entry.estimators
    if TASKS[task].has_target  # clusterings: test_kmeans
    for way in ("fit", "partial_fit")
    if way == "fit" or hasattr(LEARNERS.estimator(learner, task)(), way)
]


def learned_by(learner, task, way, rows):
    labels = TASKS[task].has_classes
    y = Y if labels else X[:, 1] - X[:, 3]
    model = LEARNERS.estimator(learner, task)(random_state=0)
    classes = {"classes": [-1, 1]} if labels and way == "partial_fit" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        getattr(model, way)(rows, y, **classes)
    return model, model.score(rows, y)


@pytest.mark.parametrize(("learner", "task", "way"), EVERY_LEARNER)
def test_every_learner_takes_large_features(learner, task, way):
    model, score = learned_by(learner, task, way, X * 1e100)
    assert model.status_ is not Status.DIVERGED
    assert score > 0.75  # the constant: 0.69 of the classes, none of the variance


@pytest.mark.parametrize(("learner", "task", "way"), EVERY_LEARNER)
@pytest.mark.parametrize("size", [1e160, 1e300])
def test_every_learner_refuses_features_that_overflow(learner, task, way, size):
    with pytest.raises(ValueError, match=r"too large to (square|standardise)"):
        learned_by(learner, task, way, X * size)


@pytest.mark.parametrize("rows", [X, sparse.csr_array(X)], ids=["dense", "csr"])
def test_a_kernel_machine_refuses_rows_that_overflow_later(rows):
    model = KernelClassifier(random_state=0).partial_fit(rows, Y, classes=[-1, 1])
    known = model.decision_function(rows)
    with pytest.raises(ValueError, match="too large to square"):
        model.partial_fit(rows * 1e200, Y)
    np.testing.assert_array_equal(model.decision_function(rows), known)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_only_ratios_of_weights_matter(size):
    times = 1.0 + np.arange(120) % 3
    plain = LinearClassifier("logistic", alpha=0.01).fit(X, Y, times)
    model = LinearClassifier("logistic", alpha=0.01).fit(X, Y, times * size)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6)
