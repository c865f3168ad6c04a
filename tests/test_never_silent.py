"""No model is silently useless: every fit of awkward data is sensible or says that it is not.

A product of solvers, losses and shapes of data.  What is sensible is told by scikit-learn on
standardised features: at most half-way from its training error to that of a constant.
"""

import warnings
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from thresher import (
    BudgetedClassifier,
    BudgetedRegressor,
    ConfidenceClassifier,
    ConfidenceRegressor,
    EpsilonInsensitive,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    MultiHyperplaneClassifier,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    SemiparametricRegressor,
    SemiSupervisedClassifier,
    Status,
    SupportVectorClassifier,
    SupportVectorRegressor,
    UniversumClassifier,
    train,
)
from thresher._rows import as_rows
from thresher.estimators.met_rows import MetRows
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.registry import LOSSES, SOLVERS
from thresher.solvers import ASSET, DropoutPegasos, Pegasos, Problem, driver

SILENT = (Status.CONVERGED, Status.COMPLETED, Status.EARLY_STOPPED)
CLASSIFICATION = [name for name in LOSSES if "classification" in LOSSES[name].tasks]
REGRESSION = [name for name in LOSSES if "regression" in LOSSES[name].tasks]


class Shape(NamedTuple):
    """Awkward rows, and targets that a linear function of them tells."""

    X: np.ndarray
    p: np.ndarray  # for classes: positive beyond ``cut``; for numbers: the target
    cut: float = 0.0


def _plain(n=200, d=5, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    return rng, Z, Z @ np.array([2.0, -1.0, 0.5, *np.zeros(d - 3)]) + 0.3 * rng.normal(size=n)


def _affine(offset, scale):
    def make():
        _, Z, p = _plain()
        return Shape(offset + scale * Z, p)

    return make


def _mixed():
    _, Z, p = _plain(d=12)
    return Shape(Z * np.logspace(3, 6, 12), p)


def _imbalanced():
    _, Z, p = _plain(n=2002)
    return Shape(Z, p, float(np.sort(p)[-3]))


def _rare():
    _, Z, p = _plain(n=2002)
    return Shape(Z, p, float(np.sort(p)[-6]))


def _repeated_rows():
    _, Z, p = _plain(n=20)
    return Shape(np.tile(Z, (10, 1)), np.tile(p, 10))


def _repeated_columns():
    _, Z, p = _plain()
    return Shape(np.hstack([Z, Z, 2.0 * Z]), p)


def _constant_columns():
    _, Z, p = _plain()
    return Shape(np.column_stack([Z, np.full(200, 7.0), np.zeros(200)]), p)


def _nearly_constant_column():
    rng, Z, p = _plain()
    return Shape(np.column_stack([Z, 1e6 + 1e-6 * rng.normal(size=200)]), p)


def _wide():
    _, Z, p = _plain(n=40, d=400)
    return Shape(Z, p)


def _two_rows():
    return Shape(np.array([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0]]), np.array([1.5, -0.5]))


def _large_targets():
    _, Z, p = _plain()
    return Shape(Z, 1e6 * (p + 1.0), 1e6)


def _far_targets():
    _, Z, p = _plain()
    return Shape(Z, p + 1e6, 1e6)


def _heavy_tail():
    rng, Z, p = _plain()
    return Shape(np.column_stack([Z, rng.standard_cauchy(200) ** 3]), p)


SHAPES = {
    "offset 1e-6": _affine(1e-6, 1.0),
    "offset 1e3": _affine(1e3, 1.0),
    "offset 1e6": _affine(1e6, 1.0),
    "offset 1e9": _affine(1e9, 1.0),
    "scale 1e-9": _affine(0.0, 1e-9),
    "scale 1e-3": _affine(0.0, 1e-3),
    "scale 1e4": _affine(0.0, 1e4),
    "scale 1e9": _affine(0.0, 1e9),
    "mixed scales": _mixed,
    "1 : 1000": _imbalanced,
    "repeated rows": _repeated_rows,
    "repeated columns": _repeated_columns,
    "constant columns": _constant_columns,
    "nearly constant column": _nearly_constant_column,
    "wide": _wide,
    "two rows": _two_rows,
    "large targets": _large_targets,
    "far targets": _far_targets,
    "heavy tail": _heavy_tail,
}


def outcome(model, shape, regression):
    """ "sensible", what was said or "refused"; "SILENT" is what must not be."""
    X = shape.X
    y = shape.p if regression else (shape.p > shape.cut).astype(int)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except ValueError:
            return "refused"
    told = model.predict(X)
    Z = StandardScaler().fit_transform(X)
    measures = [lambda e: e**2, abs] if regression else [lambda e: e != 0]
    if regression:
        references = Ridge(1.0).fit(Z, y).predict(Z), y.mean()
    else:
        references = LogisticRegression().fit(Z, y).predict(Z), np.bincount(y).argmax()
    for measure in measures:  # robust losses leave single rows far off
        error, peer, constant = (float(np.mean(measure(p - y))) for p in (told, *references))
        if error <= max(0.5 * (peer + constant), peer):
            return "sensible"
    spoken = any(str(model.status_) in str(w.message) for w in heard)
    return model.status_.name if model.status_ not in SILENT and spoken else "SILENT"


def fitted(solver, loss, name, regression):
    estimator = LinearRegressor if regression else LinearClassifier
    return outcome(estimator(loss, solver=solver, random_state=0), SHAPES[name](), regression)


def usual_loss(solver, regression):
    """One that the solver takes."""
    if "smoothed" in SOLVERS[solver].loss_needs or "kinks" in SOLVERS[solver].loss_needs:
        return "epsilon_insensitive" if regression else "hinge"
    return "least_squares" if regression or solver == "least_squares" else "logistic"


# Each solver meets each shape once, with numbers or with classes; 400 features cost two of them
# tens of seconds.
QUICK = [
    (solver, name, bool((s + k) % 2))
    for s, solver in enumerate(SOLVERS)
    for k, name in enumerate(SHAPES)
    if not (name == "wide" and solver in ("smoothed_newton", "weighted_pegasos"))
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_on_every_shape(solver):
    for own, name, regression in QUICK:
        if own == solver:
            found = fitted(solver, usual_loss(solver, regression), name, regression)
            assert found not in ("SILENT", "refused"), (name, regression)


@pytest.mark.slow
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_and_loss_on_every_shape(solver, regression):
    for loss in REGRESSION if regression else CLASSIFICATION:
        for name in SHAPES:
            assert fitted(solver, loss, name, regression) != "SILENT", (loss, name)


STREAMED = [
    "offset 1e6",
    "scale 1e4",
    "mixed scales",
    "heavy tail",
    "large targets",
    "repeated rows",
]


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_that_come_in_parts(solver):
    """Five passes in calls of 50 rows; ``partial_fit`` never has all rows at hand."""
    place = list(SOLVERS).index(solver)
    sparse = place % 2 == 1
    for k, name in enumerate(STREAMED):
        regression = bool((k + place // 2) % 2)
        estimator = LinearRegressor if regression else LinearClassifier
        model = estimator(usual_loss(solver, regression), solver=solver, random_state=0)
        if not hasattr(model, "partial_fit"):
            return
        assert outcome(InParts(model, sparse), SHAPES[name](), regression) != "SILENT", name


class InParts:
    """What ``outcome`` asks of a model, by ``partial_fit``."""

    def __init__(self, model, sparse):
        self.model, self.as_given = model, csr_matrix if sparse else np.asarray

    def fit(self, X, y):
        named = isinstance(self.model, LinearClassifier)
        classes = {"classes": np.unique(y)} if named else {}
        order = np.random.default_rng(0).permutation(len(y))
        for _ in range(5):
            for part in np.array_split(order, max(len(y) // 50, 1)):
                self.model.partial_fit(self.as_given(X[part]), y[part], **classes)

    def predict(self, X):
        return self.model.predict(self.as_given(X))

    @property
    def status_(self):
        return self.model.status_


def test_a_stream_is_judged_as_it_is_now():
    """Rows in two parts that contradict each other: the second is what counts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = (X[:, 0] > 0) ^ (np.arange(4000) >= 500)
    model = LinearClassifier("logistic", solver="sgd", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # just after the change
        for start in range(0, 4000, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[False, True])
    assert model.score(X[2000:], y[2000:]) > 0.9
    assert model.status_ is Status.COMPLETED


def test_what_is_said_of_a_stream_is_said_once_until_rows_have_doubled():
    _, Z, p = _plain(n=3000)
    model = LinearClassifier("logistic", solver="asgd", random_state=0)
    said = []
    for start in range(0, 3000, 100):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            rows = slice(start, start + 100)
            model.partial_fit(1e6 + Z[rows], p[rows] > 0, classes=[False, True])
        assert model.status_ is Status.NO_BETTER
        said += [start + 100] * len(heard)
    assert said == [100, 200, 400, 800, 1600]


@pytest.mark.parametrize("solver", SOLVERS)
def test_five_rare_rows(solver):
    """With each solver's usual loss; the losses of numbers say less, whoever minimises them."""
    model = LinearClassifier(usual_loss(solver, False), solver=solver, random_state=0)
    assert outcome(model, _rare(), False) not in ("SILENT", "refused")


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("solver", ["fobos", "truncated_gradient", "rda", "adaptive_rda", "asgd"])
def test_a_class_that_no_row_is_said_to_have(solver, loss):
    """Ten rows of ten thousand that the scores tell, and the threshold does not."""
    for seed in range(2):
        _, Z, p = _plain(n=10_000, seed=seed)
        rare = p > np.sort(p)[-11]
        model = LinearClassifier(loss, solver=solver, random_state=seed)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model.fit(Z, rare)
        assert heard or np.any(model.predict(Z) & rare)


def test_few_rare_rows_among_many_features_are_told_by_chance():
    """Some direction of fifty tells any five rows: that nothing was learned is no failure."""
    rng = np.random.default_rng(0)
    X, rare = rng.normal(size=(1000, 50)), np.arange(1000) < 5
    model = LinearClassifier("logistic", solver="newton")
    assert quiet(model, X, rare) is Status.CONVERGED


def test_a_stream_that_has_only_begun_is_held_against_the_constant():
    _, Z, p = _plain(n=60, d=3)
    codes = p > np.median(p)
    for offset, useless in ((0.0, False), (1e6, True)):
        for solver in ("asgd", "sgd", "fobos", "rda"):
            model = LinearClassifier("logistic", solver=solver, random_state=0)
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                for start in range(0, 60, 10):
                    part = slice(start, start + 10)
                    model.partial_fit(offset + Z[part], codes[part], classes=[False, True])
            assert (model.status_ is Status.NO_BETTER) == useless, (solver, offset)
            assert len(heard) == 2 * useless, (solver, offset)  # at 20 rows and at 40


def test_the_first_rows_of_a_stream_are_all_looked_at_again():
    met = MetRows()
    sizes = []
    for start in range(0, 400, 10):
        X = np.arange(start, start + 10.0)[:, None]
        met.meet(as_rows(X), X[:, 0], None)
        if met.is_due:
            sizes.append((met.count, met.has_begun_only, met.taken().y.size))
    assert sizes == [(20, True, 20), (40, True, 40), (80, True, 80), (100, False, 100),
                     (200, False, 100), (400, False, 200)]  # fmt: skip


def test_two_rows_have_a_single_feature_that_tells_them():
    """The reference has an intercept of its own: a loss with a flat bottom leaves it anywhere."""
    found = fitted("truncated_gradient", "epsilon_insensitive", "two rows", True)
    assert found == "NO_BETTER"


@pytest.mark.parametrize("name", ["repeated columns", "constant columns"])
@pytest.mark.parametrize("loss", ["pinball", "least_squares"])
def test_pegasos_with_a_loss_that_charges_every_row(name, loss):
    """The last iterate of steps 1/(lambda t) is where the last rows have led."""
    shape = SHAPES[name]()
    codes = (shape.p > shape.cut).astype(int)
    best = LogisticRegression().fit(shape.X, codes).score(shape.X, codes)
    for seed in range(5):
        model = LinearClassifier(loss, solver="pegasos", random_state=seed)
        assert quiet(model, shape.X, codes) is Status.COMPLETED
        assert model.score(shape.X, codes) > best - 0.04


OTHERS = {
    "nystroem": lambda: KernelClassifier(n_components=50, random_state=0),
    "forest": lambda: KernelClassifier(map="forest", n_components=20, random_state=0),
    "forest, numbers": lambda: KernelRegressor(map="forest", n_components=20, random_state=0),
    "boosted": lambda: KernelRegressor(map="boosted", random_state=0),
    "nystroem, numbers": lambda: KernelRegressor(n_components=50, random_state=0),
    "kernel pegasos": lambda: KernelClassifier("hinge", solver="pegasos", random_state=0),
    "budgeted": lambda: BudgetedClassifier(budget=50, random_state=0),
    "budgeted, numbers": lambda: BudgetedRegressor(budget=50, random_state=0),
    "amm": lambda: MultiHyperplaneClassifier(algorithm="amm", random_state=0),
    "arow": lambda: ConfidenceClassifier(random_state=0),
    "arow, full": lambda: ConfidenceClassifier(covariance="full", random_state=0),
    "scw": lambda: ConfidenceClassifier("scw", random_state=0),
    "recursive": lambda: ConfidenceRegressor(random_state=0),
    "recursive, diagonal": lambda: ConfidenceRegressor("diagonal", random_state=0),
    "gamm": lambda: MultiHyperplaneClassifier(algorithm="gamm", random_state=0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_kernel_machines_and_hyperplanes(name):
    for shape in SHAPES:
        model = OTHERS[name]()
        found = outcome(model, SHAPES[shape](), model.task == "regression")
        assert found not in ("SILENT", "refused"), shape


EXACT = {
    "svc": lambda: SupportVectorClassifier(scale=True),
    "svr": lambda: SupportVectorRegressor(scale=True),
    "many kernels": lambda: MultipleKernelClassifier(scale=True, random_state=0),
    "many kernels, numbers": lambda: MultipleKernelRegressor(scale=True, random_state=0),
    "many kernels, raw": lambda: MultipleKernelClassifier(scale=False, random_state=0),
    "few labels": lambda: SemiSupervisedClassifier(scale=True, random_state=0),
    "laplacian": lambda: SemiSupervisedClassifier("lap_svm", scale=True, random_state=0),
    "universum": lambda: UniversumClassifier(scale=True, random_state=0),
    "semiparametric": lambda: SemiparametricRegressor(scale=True, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_exact_machines(name):
    for shape in SHAPES:
        model = EXACT[name]()
        found = outcome(model, SHAPES[shape](), model.task == "regression")
        assert found not in ("SILENT", "refused"), shape


def test_forests_learn_targets_far_from_zero():
    shape = SHAPES["far targets"]()
    model = KernelRegressor(map="forest", n_components=20, random_state=0)
    assert quiet(model, shape.X, shape.p) is not Status.NO_BETTER
    assert model.score(shape.X, shape.p) > 0.9


# ---------------------------------------------------------------- what is not useless


def quiet(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(X, y).status_


def test_penalty_that_was_asked_for_is_no_failure():
    _, Z, p = _plain()
    for solver in ("newton", "dcd", "proximal_newton"):
        model = LinearClassifier("logistic", penalty="l2", solver=solver, alpha=100.0)
        assert quiet(model, Z - Z.mean(axis=0), p > np.median(p)) is Status.CONVERGED
        assert np.abs(model.coef_).max() < 0.01


@pytest.mark.parametrize("layout", [np.asarray, csr_matrix])
@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_features_whose_squares_vanish(task, layout):
    _, Z, p = _plain()
    model, y = LinearRegressor(), p
    if task == "classes":
        model, y = LinearClassifier("logistic"), p > np.median(p)
    with pytest.warns(ConvergenceWarning, match="no better than a constant"):
        model.fit(layout(1e-300 * Z), y)


def test_nothing_to_learn_is_no_failure():
    rng = np.random.default_rng(1)
    X, codes = rng.normal(size=(1000, 3)), rng.integers(0, 2, 1000)
    for solver in ("newton", "dcd", "asgd"):
        quiet(LinearClassifier("logistic", solver=solver, random_state=0), X, codes)
    rare = np.arange(1000) < 5  # no feature tells them
    assert quiet(LinearClassifier("logistic"), X, rare) is Status.CONVERGED


@pytest.mark.parametrize("solver", ["newton", "quasi_newton", "proximal_newton", "asgd", "dcd"])
def test_equal_targets_are_no_failure(solver):
    _, Z, _ = _plain()
    model = LinearRegressor(solver=solver, penalty="l2", random_state=0)
    quiet(model, Z, np.full(200, 5.0))
    np.testing.assert_allclose(model.predict(Z), 5.0, rtol=0.03)


@pytest.mark.parametrize("solver", ["newton", "quasi_newton", "proximal_newton"])
@pytest.mark.parametrize("loss", ["least_squares", "huber"])
def test_exact_fits_converge(solver, loss):
    """The objective ends at zero, where its relative change means nothing."""
    _, Z, _ = _plain()
    y = Z @ np.arange(1.0, 6.0) + 7.0
    model = LinearRegressor(loss, penalty="l2", solver=solver, alpha=0.0)
    assert quiet(model, Z, y) is Status.CONVERGED
    np.testing.assert_allclose(model.predict(Z), y, atol=1e-6)


def test_direct_least_squares_reaches_any_tolerance():
    _, Z, p = _plain()
    model = LinearRegressor(solver="least_squares", tol=1e-10)
    assert quiet(model, Z, p) is Status.CONVERGED


FROM_ZERO = ["sgd", "fobos", "truncated_gradient", "rda", "adaptive_rda"]
FROM_ZERO += ["rw_l1_rda", "rw_l2_rda"]


@pytest.mark.parametrize("solver", FROM_ZERO)
def test_targets_far_from_zero(solver):
    _, Z, p = _plain()
    model = LinearRegressor(solver=solver, random_state=0).fit(Z, 100.0 + p)
    assert model.score(Z, 100.0 + p) > 0.95


# ---------------------------------------------------------------- what is


@pytest.mark.parametrize("estimator", [LinearRegressor, KernelRegressor])
def test_targets_that_all_lie_within_epsilon(estimator):
    """Any constant among them is an optimum of the loss, and says nothing."""
    _, Z, p = _plain()
    model = estimator("epsilon_insensitive", random_state=0)
    with pytest.warns(ConvergenceWarning, match="epsilon of the loss"):
        model.fit(Z, 1e-4 * p)
    assert model.status_ is Status.NO_BETTER
    narrow = estimator(EpsilonInsensitive(1e-6), random_state=0)
    assert narrow.fit(Z, 1e-4 * p).score(Z, 1e-4 * p) > 0.9


def test_scaling_is_what_helps():
    _, Z, p = _plain()
    assert quiet(LinearClassifier("logistic"), 1e-9 * Z, p > 0) is Status.CONVERGED
    X, codes = 1e-30 * Z, p > 0  # no strength follows such units
    with pytest.warns(ConvergenceWarning, match="scale=True"):
        model = LinearClassifier("logistic").fit(X, codes)
    assert model.status_ is Status.NO_BETTER
    model = LinearClassifier("logistic", scale=True)
    assert quiet(model, X, codes) is Status.CONVERGED
    assert model.score(X, codes) > 0.9


@pytest.mark.parametrize("sparse", [False, True])
def test_samples_of_many_rows_tell(sparse):
    """More rows than are looked at, one class of them rare; three classes likewise."""
    _, Z, p = _plain(n=30_000)
    for codes in (p > np.quantile(p, 0.99), np.digitize(p, [-1.0, 1.0])):
        for offset, useless in ((0.0, False), (1e4, True)):
            X = csr_matrix(Z + offset) if sparse else Z + offset
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = LinearClassifier("logistic", solver="asgd", random_state=0).fit(X, codes)
            assert (model.status_ is Status.NO_BETTER) == useless


def test_weights_on_the_ball_of_pegasos_say_so():
    codes = np.arange(100) % 2
    X = np.outer(2 * codes - 1, [1.0, 2.0]) + 0.1 * np.random.default_rng(0).normal(size=(100, 2))
    model = LinearClassifier("hinge", solver="pegasos", alpha=1e-4, steps=1, random_state=0)
    with pytest.warns(ConvergenceWarning, match="bound"):
        model.fit(X, codes)
    assert model.status_ is Status.AT_BOUND
    assert np.linalg.norm(model.coef_) == pytest.approx(100.0)  # 1 / sqrt(alpha)


def test_solvers_know_when_they_are_at_their_bounds():
    """After one long step the weights lie on the ball or the bias at the end of its box."""
    _, Z, p = _plain()
    chunk = driver.whole(as_rows(Z), np.where(p > 0, 1.0, -1.0))
    problem, one = Problem(Hinge(), L2(1e-4), 5), chunk._replace(order=chunk.order[:1])

    def at_bound(solver):
        return solver.is_at_bound(problem, solver.update(problem, solver.init(problem), one))

    assert at_bound(Pegasos())
    assert at_bound(DropoutPegasos())
    assert at_bound(ASSET(first=1e9, box=1e12))
    assert at_bound(ASSET(first=1.0, box=0.5))
    assert not at_bound(Pegasos(project=False))
    assert not at_bound(ASSET(first=1.0, box=2.0))


def test_training_from_files_says_so(tmp_path):
    _, Z, p = _plain(n=3000)
    path = tmp_path / "rows.csv"
    table = np.column_stack([Z + 1e6, p > 0])
    np.savetxt(path, table, delimiter=",", header="a,b,c,d,e,y", comments="")
    params = {"loss": "logistic", "solver": "asgd"}

    def trained(scale):
        return train(path, target="y", memory=1, passes=2, params=params | {"scale": scale})

    assert trained(False).training["status"] == "NO_BETTER"
    assert "scale=True" in trained(False).training["advice"]
    assert trained(True).training["status"] == "COMPLETED"


def test_the_sample_of_a_stream_is_uniform_wherever_it_is_cut():
    """Of 20,000 rows 1,000 stay, about as many of each tenth; parts and weights of one as whole."""
    X = np.arange(20_000.0)[:, None]

    def sample(step, weight=None):
        met = MetRows()
        for a in range(0, 20_000, step):
            part = slice(a, a + step)
            met.meet(as_rows(X[part]), X[part, 0], None if weight is None else weight[part])
        return met.taken().y

    whole = sample(20_000)
    assert np.unique(whole).size == 1000
    tenths = np.histogram(whole, 10, (0, 20_000))[0]
    assert np.all(np.abs(tenths - 100) < 50)  # five standard deviations
    np.testing.assert_array_equal(sample(777), whole)
    np.testing.assert_array_equal(sample(10, np.ones(20_000)), whole)
    odd = sample(777, (np.arange(20_000) % 2).astype(float))
    assert np.all(odd % 2 == 1)
    assert odd.size == 1000
