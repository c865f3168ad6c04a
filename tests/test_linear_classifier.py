"""The classifier against references, and what happens around a fit: labels, streams, stopping."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_sample_weight

from conftest import FORMULAS, make_data
from thresher import LinearClassifier, Status, SupportVectorClassifier, train
from thresher.solvers import RDA, AveragedSGD, DualDescent, Pegasos

ALPHA = 0.02
READY = AveragedSGD(eta0=0.1, every=8)
IRIS = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def data():
    X, y = make_data(n=120, d=6, seed=3)
    flip = np.random.default_rng(0).uniform(size=y.size) < 0.1
    return X, np.where(flip, -y, y)


@pytest.fixture(scope="module")
def noise():
    """Labels that have nothing to do with the rows: every learner overfits."""
    rng = np.random.default_rng(1)
    return rng.normal(size=(80, 30)), rng.integers(2, size=80)


def objective(model, X, y, loss, alpha, penalised_bias=False):
    w, b = model.coef_[0], model.intercept_[0]
    size = w @ w + (b * b if penalised_bias else 0.0)
    return np.mean(FORMULAS[loss](y, X @ w + b)) + alpha / 2 * size


def same(a, b, **tolerance):
    np.testing.assert_allclose(a.coef_, b.coef_, **tolerance)
    np.testing.assert_allclose(a.intercept_, b.intercept_, **tolerance)


def identical(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.intercept_, b.intercept_)


# ---------------------------------------------------------------- references


def test_logistic_agrees_with_scikit_learn(data):
    X, y = data
    ours = LinearClassifier("logistic", alpha=ALPHA, tol=1e-12).fit(X, y)
    theirs = LogisticRegression(C=1 / (y.size * ALPHA), tol=1e-10, max_iter=1000).fit(X, y)
    same(ours, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert ours.status_ is Status.CONVERGED


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("bias", [True, False])
def test_dual_descent_agrees_with_liblinear(data, loss, bias):
    X, y = data
    options = {"alpha": ALPHA, "fit_intercept": bias, "random_state": 0}
    ours = LinearClassifier(loss, solver="dcd", tol=1e-9, max_iter=20_000, **options).fit(X, y)
    theirs = LinearSVC(
        C=1 / (y.size * ALPHA), loss=loss, fit_intercept=bias, tol=1e-9, max_iter=10**6
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-3)
    wanted = theirs.intercept_ if bias else 0.0
    np.testing.assert_allclose(ours.intercept_, wanted, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "modified_huber"])
def test_newton_finds_the_optimum_with_a_free_intercept(data, loss):
    X, y = data

    def value(v):
        return np.mean(FORMULAS[loss](y, X @ v[:-1] + v[-1])) + ALPHA / 2 * v[:-1] @ v[:-1]

    best = minimize(value, np.zeros(7), method="BFGS", options={"gtol": 1e-7})
    model = LinearClassifier(loss, solver="newton", alpha=ALPHA).fit(X, y)
    assert objective(model, X, y, loss, ALPHA) <= best.fun * (1 + 1e-9)


@pytest.mark.parametrize("solver", ["asgd", "pegasos", "sgd", "fobos"])
def test_stochastic_solvers_approach_the_optimum(data, solver):
    X, y = data
    exact = LinearClassifier("logistic", solver="newton", alpha=0.1).fit(X, y)
    best = objective(exact, X, y, "logistic", 0.1)
    model = LinearClassifier(
        "logistic", penalty="l2", solver=solver, alpha=0.1, tol=1e-12, max_iter=200, random_state=0
    )
    with pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, y)
    assert best <= objective(model, X, y, "logistic", 0.1) < best * 1.01


def test_dense_and_sparse_rows_give_one_model(data):
    X, y = data
    dense = LinearClassifier("logistic", solver="newton").fit(X, y)
    stored = LinearClassifier("logistic", solver="newton").fit(sparse.csr_array(X), y)
    same(dense, stored, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- several classes


def test_one_vs_rest_agrees_with_scikit_learn():
    X, y = IRIS
    ours = LinearClassifier("logistic", solver="newton", alpha=ALPHA).fit(X, y)
    theirs = OneVsRestClassifier(LogisticRegression(C=1 / (y.size * ALPHA), tol=1e-9, max_iter=999))
    theirs.fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize(("loss", "solver"), [("logistic", "newton"), ("hinge", "dcd")])
def test_threads_do_not_change_the_result(loss, solver):
    models = [
        LinearClassifier(loss, solver=solver, alpha=0.1, n_jobs=jobs, random_state=1).fit(*IRIS)
        for jobs in (None, 1, 2, -1)
    ]
    assert all(identical(models[0], other) for other in models[1:])


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
def test_joint_learning_equals_one_class_at_a_time():
    X, y = IRIS
    options = {"solver": READY, "alpha": ALPHA, "random_state": 5}
    joint = LinearClassifier("logistic", **options).partial_fit(X, y, classes=np.unique(y))
    for c in range(3):
        alone = LinearClassifier("logistic", **options)
        alone.partial_fit(X, y == c, classes=[False, True])
        np.testing.assert_allclose(joint.coef_[c], alone.coef_[0], rtol=1e-9, atol=1e-12)
        assert joint.intercept_[c] == pytest.approx(alone.intercept_[0], rel=1e-9)


@pytest.mark.parametrize(
    "labels",
    [["b", "a", "c"], [2.0, -1.0, 5.0], [-3, -1, -2], [30, 10, 20]],
    ids=["strings", "floats", "negative", "integers"],
)
def test_labels_of_any_kind(labels):
    X, y = IRIS
    given = np.array(labels)[y]
    model = LinearClassifier("logistic", solver="newton", alpha=ALPHA).fit(X, given)
    assert list(model.classes_) == sorted(labels)
    plain = LinearClassifier("logistic", solver="newton", alpha=ALPHA).fit(X, y)
    assert np.array_equal(model.predict(X), np.array(labels)[plain.predict(X)])
    assert model.predict(X).dtype == given.dtype


@pytest.mark.parametrize("labels", [[False, True], ["no", "yes"], [0, 1], [-1.0, 1.0]])
def test_second_label_is_the_positive_one(data, labels):
    X, y = data
    model = LinearClassifier("logistic", alpha=ALPHA).fit(X, np.array(labels)[(y > 0).astype(int)])
    assert identical(model, LinearClassifier("logistic", alpha=ALPHA).fit(X, y))
    positive = model.predict(X) == labels[1]
    assert np.array_equal(positive, model.decision_function(X) > 0)


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ({0: -2.0, 1: 1.0}, "class_weight of 0 must be a number of at least 0, got -2"),
        ({1: float("nan")}, "class_weight of 1 must be"),
        ({1: 0.0}, "at least two classes"),
    ],
)
@pytest.mark.parametrize("Model", [LinearClassifier, SupportVectorClassifier])
def test_class_weights_are_weights(Model, weights, told):
    X, y = IRIS[0][:100], IRIS[1][:100]
    with pytest.raises(ValueError, match=told):
        Model(class_weight=weights).fit(X, y)


def test_class_weights_of_a_stream_are_weights(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n" + "".join(f"{i % 7},{'no' if i % 3 else 'yes'}\n" for i in range(60)))
    for weights, told in (({"yes": -1.0}, "class_weight of 'yes'"), ({"yess": 2.0}, "'yess'")):
        with pytest.raises(ValueError, match=told):
            train(path, target="y", params={"solver": "asgd", "class_weight": weights})


@pytest.mark.parametrize("weights", ["balanced", {0: 3.0, 1: 0.5, 2: 1.0}])
def test_class_weight_is_a_sample_weight(weights):
    X, y = IRIS[0][:120], IRIS[1][:120]
    model = LinearClassifier("logistic", solver="newton", class_weight=weights).fit(X, y)
    explicit = LinearClassifier("logistic", solver="newton").fit(
        X, y, compute_sample_weight(weights, y)
    )
    same(model, explicit, rtol=1e-9)


@pytest.mark.parametrize(
    ("solver", "tol", "accuracy"), [("newton", None, 1e-6), ("dcd", 1e-9, 1e-3)]
)
def test_weight_k_is_k_repetitions_and_zero_is_removal(data, solver, tol, accuracy):
    X, y = data
    times = np.random.default_rng(0).integers(0, 4, size=y.size)
    options = {"solver": solver, "tol": tol, "random_state": 0, "max_iter": 20_000}
    weighted = LinearClassifier("squared_hinge", **options).fit(X, y, times)
    repeated = LinearClassifier("squared_hinge", **options)
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    same(weighted, repeated, rtol=accuracy, atol=accuracy)
    assert weighted.penalty_.strength == pytest.approx(repeated.penalty_.strength)


def test_balanced_sees_weights_as_repetitions(data):
    X, y = data
    times = np.where(y > 0, 3, 1)
    options = {"class_weight": "balanced", "alpha": ALPHA, "solver": "newton"}
    weighted = LinearClassifier("logistic", **options).fit(X, y, times)
    repeated = LinearClassifier("logistic", **options)
    same(weighted, repeated.fit(np.repeat(X, times, 0), np.repeat(y, times)), rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- streams

STREAMS = {"asgd": (READY, "l2"), "pegasos": (Pegasos(), "l2"), "rda": (RDA(gamma=2.0), "l1")}


def streamed(X, y, sizes, classes=(-1, 1), model=None, **options):
    model = LinearClassifier("logistic", alpha=0.01, **options) if model is None else model
    for part in np.split(np.arange(len(y)), np.cumsum(sizes)):
        model.partial_fit(X[part], y[part], classes=classes)
    return model


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
@pytest.mark.parametrize("name", STREAMS)
def test_stream_does_not_depend_on_its_chunks(data, name):
    solver, penalty = STREAMS[name]
    options = {"solver": solver, "penalty": penalty}
    assert identical(streamed(*data, [], **options), streamed(*data, [1, 30, 33], **options))


def test_stream_with_a_given_step_size_does_not_depend_on_its_chunks(data):
    solver = AveragedSGD(eta0=0.1)
    assert identical(streamed(*data, [], solver=solver), streamed(*data, [10, 50], solver=solver))


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
@pytest.mark.parametrize("solver", [READY, Pegasos()])
def test_stream_of_several_classes(solver):
    X, y = IRIS
    order = np.random.default_rng(0).permutation(y.size)
    whole = streamed(X[order], y[order], [], [0, 1, 2], solver=solver)
    assert identical(whole, streamed(X[order], y[order], [7, 40], [0, 1, 2], solver=solver))
    for c in range(3):
        alone = streamed(X[order], np.where(y[order] == c, 1, -1), [], solver=solver)
        np.testing.assert_allclose(whole.coef_[c], alone.coef_[0], rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
def test_one_pass_in_order_is_a_stream(data):
    """Of a solver whose steps do not depend on a planned end."""
    solver = Pegasos()
    model = LinearClassifier("logistic", solver=solver, alpha=0.01, order="sequential", max_iter=1)
    assert identical(model.fit(*data), streamed(*data, [60], solver=solver))


def test_planned_passes_end_with_steps_of_zero(data):
    """Two passes planned and one planned take different steps; a stream has no end to plan for."""
    short = LinearClassifier("logistic", solver=READY, alpha=0.01, order="sequential", max_iter=1)
    assert not identical(short.fit(*data), streamed(*data, [60], solver=READY))


def test_classes_of_a_stream(data):
    X, y = data
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        LinearClassifier(solver=READY).partial_fit(X, y)
    with pytest.raises(ValueError, match="at least two classes"):
        LinearClassifier(solver=READY).partial_fit(X, y, classes=[1])
    model = LinearClassifier("logistic", solver=READY).partial_fit(X, y, classes=[1, -1, 7])
    assert list(model.classes_) == [-1, 1, 7]
    with pytest.raises(ValueError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[-1, 1])
    wrong = y.copy()
    wrong[4] = 3
    with pytest.raises(ValueError, match=r"row 4 has label .*3.* not among the classes"):
        model.partial_fit(X, wrong)
    with pytest.raises(ValueError, match="5 features"):
        model.partial_fit(X[:, :5], y)
    with pytest.raises(ValueError, match="balanced"):
        LinearClassifier(solver=READY, class_weight="balanced").partial_fit(X, y, classes=[-1, 1])


@pytest.mark.parametrize("solver", ["dcd", "newton", DualDescent()])
def test_solvers_that_need_all_rows_have_no_stream(solver):
    model = LinearClassifier(solver=solver)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as error:
        model.partial_fit([[0.0]], [0])
    assert "must see all rows at once" in str(error.value.__cause__)


def test_fit_forgets_the_stream(data):
    model = streamed(*data, [60], solver=READY, random_state=0)
    fresh = LinearClassifier("logistic", solver=READY, alpha=0.01, random_state=0).fit(*data)
    assert identical(model.fit(*data), fresh)
    # ... and the stream after a fit starts anew, with the classes of the fit.
    assert identical(streamed(*data, [60], None, model), streamed(*data, [60], solver=READY))


# ---------------------------------------------------------------- stopping and watching


@pytest.mark.parametrize("classes", [2, 3])
def test_early_stopping_returns_the_best_pass(noise, classes):
    X, y = noise[0], np.arange(80) % classes
    events = []
    model = LinearClassifier(
        "logistic", solver=READY, alpha=1e-6, max_iter=300, early_stopping=True, patience=2,
        validation_fraction=0.25, random_state=0, callbacks=[events.append],
    ).fit(X, y)  # fmt: skip
    losses = [event.held_out for event in events]
    best = int(np.argmin(losses))
    assert model.status_ is Status.EARLY_STOPPED
    assert model.n_iter_ == len(losses) == best + 1 + 2
    np.testing.assert_array_equal(model.coef_, np.atleast_2d(events[best].coef))
    np.testing.assert_array_equal(model.intercept_, np.atleast_1d(events[best].intercept))


@pytest.mark.parametrize("solver", ["asgd", "newton", "dcd", "pegasos"])
def test_callbacks_are_told_every_pass(data, solver):
    X, y = data
    events = []
    model = LinearClassifier(
        "squared_hinge", solver=solver, alpha=0.1, tol=1e-2, random_state=0, max_iter=500,
        callbacks=[events.append],
    ).fit(X, y)  # fmt: skip
    assert model.status_ is Status.CONVERGED
    assert [event.passes for event in events] == list(range(1, model.n_iter_ + 1))
    assert all(event.estimator is model and event.output is None for event in events)
    assert all(b.step > a.step for a, b in pairwise(events))
    assert all(b.seconds >= a.seconds >= 0 for a, b in pairwise(events))
    assert events[-1].residual <= 1e-2 < min((e.residual for e in events[:-1]), default=1.0)
    np.testing.assert_array_equal(events[-1].coef, model.coef_[0])
    assert events[-1].nonzeros == np.count_nonzero(model.coef_)


def test_callback_stops_the_fit(data):
    told = []
    callbacks = [lambda event: event.passes == 2, told.append]
    model = LinearClassifier("logistic", solver=READY, max_iter=9, callbacks=callbacks)
    model.fit(*data)
    assert model.status_ is Status.INTERRUPTED
    assert model.n_iter_ == len(told) == 2
    np.testing.assert_array_equal(model.coef_[0], told[-1].coef)


def test_callbacks_name_the_class():
    events = []
    options = {"max_iter": 2, "scale": True, "random_state": 0, "callbacks": [events.append]}
    LinearClassifier("hinge", solver=Pegasos(), **options).fit(*IRIS)
    assert [(event.output, event.passes) for event in events] == [
        (c, passes) for c in range(3) for passes in (1, 2)
    ]


def test_verbose_prints_a_line_for_each_pass(data, capsys):
    LinearClassifier("logistic", solver=READY, max_iter=3, verbose=1).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == [f"[thresher] pass {k}" for k in (1, 2, 3)]
    assert all("6 non-zero weights" in line and "residual" in line for line in lines)
    LinearClassifier("logistic", solver=READY, max_iter=3).fit(*data)
    assert capsys.readouterr().out == ""
