"""What makes a search cheap gives the same scores: shared maps, least squares, warm starts."""

import threading

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import scale

from thresher import KernelClassifier, KernelRegressor, LinearClassifier
from thresher._rows import as_rows
from thresher.estimators.base import Setup
from thresher.functions import LinearFunction
from thresher.losses import Hinge, Logistic, SquaredHinge
from thresher.maps import FourierFeatures, LocalNystroem, Nystroem
from thresher.penalties import L1, L2
from thresher.search import TunedClassifier, TunedRegressor, make_folds
from thresher.search.cache import Cache
from thresher.search.criteria import resolve_criterion
from thresher.search.evaluation import Evaluation
from thresher.search.paths import Paths, steps_along
from thresher.search.shared import known_rows
from thresher.solvers import (
    DualDescent,
    Newton,
    Pegasos,
    Problem,
    ProximalNewton,
    Result,
    Status,
    driver,
)
from thresher.solvers.base import Near
from thresher.solvers.stream import Stream

X, Y = make_classification(300, 8, n_informative=5, random_state=0)
X3, Y3 = load_iris(return_X_y=True)
XR, YR = load_diabetes(return_X_y=True)
YR = scale(YR)


def evaluation(estimator, X=X, y=Y, cv=4, criterion="error", **options):
    task = "classification" if criterion in ("error", "auc", "log_loss") else "regression"
    folds = make_folds(cv, X, y, task)
    return Evaluation(estimator, X, y, folds, resolve_criterion(criterion), **options)


def scores(evaluation, **params):
    return [evaluation.score(params, k).value for k in range(len(evaluation.folds))]


def on_shared_map(estimator, X, y, folds, criterion, weight=None):
    """The oracle: the map of all rows once, then linear models of its features in each fold."""
    estimator = clone(estimator)
    units = estimator.learn_units(as_rows(X), None, weight)
    rows = X if units is None else units.matrix(X)
    Z = estimator.make_map().learn(rows).features(rows)
    found = []
    for train, test in folds:
        model = clone(estimator).set_params(map=Passed(), scale=False)
        model.fit(Z[train], y[train], None if weight is None else weight[train])
        judged = None if weight is None else weight[test]
        found.append(resolve_criterion(criterion)(model, Z[test], y[test], judged))
    return found


class Passed:
    """A transformer that does nothing, of the kind that users write."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X

    def get_params(self, deep=False):
        return {}

    def __sklearn_clone__(self):
        return self


@pytest.fixture
def counted(monkeypatch):
    """Counts how often Nystroem maps are learned, and rows mapped by them."""
    counts = {"landmarks": 0, "rows": 0}
    learn, features = Nystroem.learn, Nystroem.features

    def counting_learn(self, X, y=None):
        counts["landmarks"] += isinstance(self.landmarks, str)
        return learn(self, X, y)

    def counting_features(self, X, out=None):
        counts["rows"] += X.shape[0]
        return features(self, X, out)

    monkeypatch.setattr(Nystroem, "learn", counting_learn)
    monkeypatch.setattr(Nystroem, "features", counting_features)
    return counts


# ------------------------------------------------------------ shared maps


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "logistic"},
        {"loss": "hinge", "solver": "dcd", "scale": True, "kernel": "polynomial"},
        {"map": "fourier", "n_components": 50},
        {"map": Nystroem(30, gamma=0.1, random_state=1)},
        {"map": FourierFeatures(40, gamma=0.1, random_state=1)},
        {"landmarks": "kmeans"},
        {"landmarks": "entropy"},
        {"landmarks": X[:20]},
        {"loss": "least_squares", "scale": True},
        {"loss": "logistic", "class_weight": "balanced", "fit_intercept": False},
    ],
)
@pytest.mark.parametrize("rows", [X, X.astype(np.float32), sparse.csr_matrix(X)])
def test_folds_share_one_map(options, rows):
    estimator = KernelClassifier(**{"n_components": 40, "random_state": 0, "gamma": 0.05} | options)
    options = {} if "map" in options and not isinstance(options["map"], str) else {"gamma": 0.05}
    judge = evaluation(estimator, rows, criterion="auc")
    expected = on_shared_map(estimator, rows, Y, judge.folds, "auc")
    np.testing.assert_allclose(scores(judge, alpha=0.1 / 225, **options), expected, atol=2e-3)


def test_kernel_values_come_from_inner_products_exactly():
    estimator = KernelClassifier("logistic", n_components=40, random_state=0)
    together = evaluation(estimator, criterion="log_loss")
    settings = [
        ("rbf", 0.3),
        ("rbf", 0.01),
        ("exponential", 0.1),
        ("polynomial", 0.1),
        ("rbf", 0.3),
    ]
    for kernel, gamma in settings:
        params = {"kernel": kernel, "gamma": gamma}
        alone = evaluation(clone(estimator).set_params(**params), criterion="log_loss")
        np.testing.assert_allclose(
            scores(together, **params, alpha=1e-3), scores(alone, alpha=1e-3), rtol=1e-9
        )


def test_maps_are_learned_and_rows_mapped_once(counted):
    judge = evaluation(KernelClassifier(n_components=30, gamma=0.1, random_state=0))
    for alpha in (1e-4, 1e-3, 1e-2):
        scores(judge, alpha=alpha)
    assert counted == {"landmarks": 1, "rows": 300}
    counted.update(landmarks=0, rows=0)
    judge = evaluation(KernelClassifier(n_components=30, landmarks="kmeans", random_state=0))
    for gamma in (0.01, 0.1, 1.0):
        scores(judge, gamma=gamma)
    assert counted == {"landmarks": 1, "rows": 0}  # features are made of the inner products
    counted.update(landmarks=0, rows=0)
    judge = evaluation(KernelClassifier(n_components=30, random_state=0), sharing=False)
    scores(judge, gamma=0.1)
    assert counted == {"landmarks": 4, "rows": 4 * 225}


@pytest.mark.parametrize(
    "options",
    [
        {"landmarks": "margin"},
        {"memory": 300 * 8 * 30 - 1},
        {"map": LocalNystroem(30, random_state=0)},
        {"map": Passed()},
    ],
)
def test_what_cannot_be_shared_is_not(options):
    estimator = KernelClassifier(**{"n_components": 30, "random_state": 0, "loss": "logistic",
                                    "solver": "asgd"} | options)  # fmt: skip
    assert scores(evaluation(estimator)) == scores(evaluation(estimator, sharing=False))


def test_criteria_that_look_at_rows_see_the_rows():
    def looks(model, rows, y):
        assert rows.shape[1] == X.shape[1]
        return model.score(rows, y)

    for criterion in (looks, "sparse_error"):
        judge = evaluation(KernelClassifier(n_components=30, random_state=0), criterion="error")
        judge = Evaluation(judge.estimator, X, Y, judge.folds, resolve_criterion(criterion))
        alone = Evaluation(judge.estimator, X, Y, judge.folds, judge.criterion, sharing=False)
        assert scores(judge) == scores(alone)


def test_folds_that_know_different_rows_learn_maps_of_their_own():
    n = len(Y)
    assert known_rows(make_folds("time", X, Y, "classification"), n) is None
    for cv in (3, "2x2", "loo"):
        assert known_rows(make_folds(cv, X, Y, "classification"), n).size == n
    (split,) = make_folds(0.25, X, Y, "classification")
    np.testing.assert_array_equal(known_rows([split], n), split.train)
    estimator = KernelClassifier("logistic", n_components=30, random_state=0, solver="newton")
    for cv in ("time", 0.25):  # a held-out part takes no part in the map
        alone = scores(evaluation(estimator, cv=cv, sharing=False), alpha=1e-3)
        np.testing.assert_allclose(scores(evaluation(estimator, cv=cv), alpha=1e-3), alone)


def test_weights_count_for_units_and_maps():
    weight = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    estimator = KernelClassifier("least_squares", n_components=30, gamma=0.1, scale=True,
                                 landmarks=X[:25], random_state=0, alpha=1e-3)  # fmt: skip
    judge = evaluation(estimator, criterion="auc", weight=weight)
    expected = on_shared_map(estimator, X, Y, judge.folds, "auc", weight)
    np.testing.assert_allclose(scores(judge), expected, rtol=1e-7)


def test_fewer_rows_learn_smaller_maps():
    sizes = []
    count = [lambda event: sizes.append(event.coef.size) and None]
    judge = evaluation(
        KernelClassifier("logistic", n_components="sqrt", random_state=0, callbacks=count)
    )
    assert judge.thinned(1.0) is judge
    for share, size in ((1.0, 17), (1 / 3, 10)):  # roots of 300 and of 100 rows
        sizes.clear()
        scores(judge.thinned(share))
        assert set(sizes) == {size}


# ------------------------------------------------------------ least squares


@pytest.mark.parametrize("cv", [4, "3x2", 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_from_shared_sums(cv, weighted):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, YR.size) if weighted else None
    estimator = KernelRegressor(n_components=40, gamma=2.0, random_state=0)
    judge = evaluation(estimator, XR, YR, cv, "mse", weight=weight)
    if cv == 0.3:
        expected = scores(evaluation(estimator.set_params(alpha=1e-3), XR, YR, cv, "mse",
                                     weight=weight, sharing=False))  # fmt: skip
    else:
        expected = on_shared_map(
            estimator.set_params(alpha=1e-3), XR, YR, judge.folds, "mse", weight
        )
    np.testing.assert_allclose(scores(judge, alpha=1e-3), expected, rtol=1e-8)


def test_least_squares_with_a_class_that_a_fold_lacks():
    estimator = KernelClassifier("least_squares", n_components=40, gamma=0.5, random_state=0)
    folds = np.where(Y3 == 2, 0, np.arange(150) % 3)
    judge = evaluation(estimator, X3, Y3, folds, "error")
    expected = on_shared_map(estimator, X3, Y3, judge.folds, "error")
    np.testing.assert_allclose(scores(judge), expected)


@pytest.mark.parametrize("alpha", [None, 1e-4, 0.1])
@pytest.mark.parametrize("criterion", ["mse", "mae"])
def test_leave_one_out_of_regression_in_closed_form(alpha, criterion):
    rows, y = XR[:60], YR[:60]
    estimator = KernelRegressor(n_components=20, gamma=2.0, random_state=0, alpha=alpha)
    judge = evaluation(estimator, rows, y, "loo", criterion)
    expected = on_shared_map(estimator, rows, y, judge.folds, criterion)
    np.testing.assert_allclose(scores(judge), expected, rtol=1e-7)


@pytest.mark.parametrize("labels", [Y3, np.array(["a", "b", "a"])[Y3]])
@pytest.mark.parametrize("intercept", [True, False])
def test_leave_one_out_of_classification_in_closed_form(labels, intercept):
    estimator = KernelClassifier("least_squares", n_components=15, gamma=0.1, random_state=0,
                                 fit_intercept=intercept, penalty=L2(1e-3))  # fmt: skip
    rows, labels = X3[::3], labels[::3]
    judge = evaluation(estimator, rows, labels, "loo")
    expected = on_shared_map(estimator, rows, labels, judge.folds, "error")
    assert sum(expected) > 0
    assert scores(judge) == expected


def test_leave_one_out_takes_one_fit(monkeypatch):
    fits = []
    fit = KernelRegressor.fit
    monkeypatch.setattr(KernelRegressor, "fit", lambda self, *a: fits.append(1) or fit(self, *a))
    model = TunedRegressor(KernelRegressor(n_components=20, random_state=0), cv="loo", n_trials=6,
                           baseline=False, random_state=0).fit(XR[:80], YR[:80])  # fmt: skip
    assert len(fits) == 1  # the last one
    assert model.best_score_ < 0.9
    assert len(model.folds_) == len(model.trials_[0]["folds"]) == 80


def test_leave_one_out_folds_are_made_when_asked_for():
    folds = make_folds("loo", X3, Y3, "classification")
    expected = list(LeaveOneOut().split(X3))
    assert len(folds) == len(expected) == sum(1 for _ in folds)
    for found, (train, test) in zip(folds, expected, strict=True):
        np.testing.assert_array_equal(found.train, train)
        np.testing.assert_array_equal(found.test, test)
    assert [fold.test[0] for fold in folds[-2:]] == [148, 149]


@pytest.mark.parametrize("options", [{"loss": "logistic"}, {"class_weight": "balanced"},
                                     {"early_stopping": True}])  # fmt: skip
def test_leave_one_out_without_a_closed_form(options):
    options = {"loss": "least_squares", "n_components": 10, "gamma": 0.1} | options
    estimator = KernelClassifier(random_state=0, **options)
    part = np.arange(0, 150, 5)
    judge = evaluation(estimator, X3[part], Y3[part], "loo")
    assert scores(judge) == on_shared_map(estimator, X3[part], Y3[part], judge.folds, "error")


# ------------------------------------------------------------ warm starts


@pytest.mark.parametrize(
    ("solver", "loss", "penalty", "tol"),
    [
        (Newton(), Logistic(), L2, 1e-14),
        (Newton(direct_features=3), SquaredHinge(), L2, 1e-14),
        (ProximalNewton(), Logistic(), L1, 1e-13),
        (DualDescent(), Hinge(), L2, 1e-9),
        (DualDescent(intercept_scaling=2.0), SquaredHinge(), L2, 1e-9),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_warm_starts_end_where_cold_ones_do(solver, loss, penalty, tol, weighted):
    rows, y = load_breast_cancer(return_X_y=True)
    weight = np.random.default_rng(0).integers(0, 3, y.size).astype(float) if weighted else None
    chunk = driver.whole(as_rows(scale(rows)), np.where(y == 1, 1.0, -1.0), weight)
    at = [Problem(loss, penalty(a), rows.shape[1], tol=tol) for a in (0.0105, 0.01)]
    plan = driver.Plan(5000)
    first, cold = (driver.learn(solver, problem, chunk, plan) for problem in at)
    warm = driver.learn(solver, at[1], chunk, plan, Near.of(at[0], first))
    assert warm.passes < cold.passes
    np.testing.assert_allclose(warm.coef, cold.coef, atol=2e-4)
    value, best = (driver.objective(at[1], chunk, r.coef, r.intercept) for r in (warm, cold))
    assert value == pytest.approx(best, rel=1e-6)


def test_stochastic_solvers_start_afresh():
    chunk = driver.whole(as_rows(X), np.where(Y == 1, 1.0, -1.0))
    problem = Problem(Hinge(), L2(0.01), X.shape[1])
    result = driver.learn(Pegasos(), problem, chunk, driver.Plan(2))
    assert Pegasos().start_from(problem, chunk, Near.of(problem, result)) is None


class Told:
    """A path that tells from which strength of the penalty a fit started; None: from nowhere."""

    def __init__(self, path):
        self.path, self.keep = path, path.keep

    def start(self, setup, output):
        near = self.path.start(setup, output)
        self.strength = None if near is None else near.problem.penalty.strength
        return near


class Follower(LinearClassifier):
    def follow(self, path):
        self.path = Told(path)
        super().follow(self.path)


def test_paths_start_from_the_nearest_settled_neighbour():
    judge = evaluation(Follower("logistic", penalty="l1", random_state=0, scale=True))

    def started(alpha, number, **params):
        model = clone(judge.estimator).set_params(alpha=alpha, **params)
        judge.paths.walk(model, {"alpha": alpha, **params}, 0, number)
        model.fit(X, Y)
        return model.path.strength, model.n_iter_

    assert started(0.1, 0)[0] is None
    assert started(0.001, 1)[0] is None  # nothing is settled yet
    judge.paths.settle({0: 4, 1: 4})
    assert started(0.05, 2)[0] == 0.1
    near, passes = started(0.0011, 3)
    assert near == 0.001
    assert passes < started(0.0011, 4, tol=1e-6)[1]  # another tol: no neighbour
    judge.paths.settle({2: 0, 3: 4, 4: 4})  # no fold of trial 2 counts
    assert started(0.05, 5)[0] == 0.1


def test_old_solutions_are_forgotten():
    """Solutions of 80 MB each, by their number: 250 MB are kept."""
    paths, solver = Paths(), Newton()
    wide = np.broadcast_to(0.0, 10_000_000)

    def walked(alpha, number):
        """Where a fit starts, which ends at ``wide``."""
        model = Follower()
        paths.walk(model, {"alpha": alpha}, 0, number)
        problem = Problem(Logistic(), L2(alpha), wide.size)
        setup = Setup(problem, solver, driver.Plan())
        model.path.start(setup, None)
        stream = Stream(problem, solver, None)
        result = Result(LinearFunction(wide, 0.0), Status.CONVERGED, 1, stream)
        model.path.keep(setup, None, result)
        paths.settle({number: 1})
        return model.path.strength

    for number in range(6):
        assert walked(2.0**number, number) == (2.0 ** (number - 1) if number else None)
    assert walked(1.0, 6) == 8.0  # those of 8, 16 and 32 are left


def test_grids_go_from_strong_to_weak_penalties():
    points = [{"alpha": a, "scale": s} for s in (True, False) for a in (0.01, 1.0, 0.1)]
    steps = steps_along(points)
    assert [{p["alpha"] for p in step} for step in steps] == [{1.0}, {0.1}, {0.01}]
    assert [len(step) for step in steps] == [2, 2, 2]
    assert steps_along([{"gamma": 1.0}]) == [[{"gamma": 1.0}]]


def test_a_path_takes_fewer_passes_and_gives_the_same_scores():
    passes = []
    count = [lambda event: passes.append(1) and None]
    estimator = LinearClassifier("logistic", penalty="l1", random_state=0, callbacks=count)
    found = {}
    for sharing in (True, False):
        passes.clear()
        judge = evaluation(estimator, criterion="log_loss", sharing=sharing)
        values = []
        for number, alpha in enumerate(np.geomspace(0.1, 1e-5, 8)):
            values += [judge.score({"alpha": alpha}, k, number).value for k in range(4)]
            judge.paths.settle({number: 4})
        found[sharing] = sum(passes), values
    assert found[True][0] < 0.7 * found[False][0]
    np.testing.assert_allclose(found[True][1], found[False][1], rtol=1e-3)


# ------------------------------------------------------------ threads


@pytest.mark.parametrize(
    ("estimator", "search"),
    [
        (KernelClassifier(n_components=30), "csa+simplex"),
        (KernelClassifier("least_squares", n_components=30), "grid"),
        (LinearClassifier("logistic", penalty="l1"), "csa"),
        (LinearClassifier(solver="dcd"), "grid"),
    ],
)
def test_results_do_not_depend_on_the_number_of_threads(estimator, search):
    options = {"search": search, "n_trials": 12, "cv": 3, "criterion": "auc", "baseline": False}
    trials = []
    for n_jobs in (1, 3):
        model = TunedClassifier(estimator, n_jobs=n_jobs, random_state=0, **options).fit(X, Y)
        trials.append([(t["params"], t["folds"], t["state"]) for t in model.trials_])
    assert trials[0] == trials[1]


def test_cache_makes_a_value_once_and_forgets_the_least_recently_used():
    made = []
    barrier = threading.Barrier(4)
    cache = Cache(limit=200)

    def make(key):
        made.append(key)
        return (np.zeros(10), key)  # 80 bytes

    def ask():
        barrier.wait()
        cache.get("a", lambda: make("a"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"]
    for key in "bacab":  # room for two: c drives b out
        assert cache.get(key, lambda key=key: make(key))[1] == key
    assert made == ["a", "b", "c", "b"]


def test_cache_tries_again_after_an_error():
    cache = Cache(limit=100)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 7) == 7
