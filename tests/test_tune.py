"""Spaces, criteria, validation, significance, the driver and the tuned estimators."""

import sqlite3
import time
import warnings

import numpy as np
import optuna
import pytest
from scipy import sparse, stats
from sklearn import metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from thresher import LinearClassifier, LinearRegressor, Pinball
from thresher.search import (
    Choice,
    Float,
    HopelessPruner,
    Int,
    SearchFailed,
    Space,
    StudyError,
    TunedClassifier,
    TunedRegressor,
    compare,
    declare,
    make_folds,
    paired_t_test,
    sign_test,
    space_for,
    sparse_error,
)
from thresher.search import storage as tune_storage
from thresher.search.criteria import CRITERIA, resolve_criterion
from thresher.search.spaces import context_of

RNG = np.random.default_rng(0)


class Table(ClassifierMixin, BaseEstimator):
    """A classifier whose error is a known function of its parameters, for testing the driver."""

    def __init__(self, x=0.5, kind="good", seconds=0.0, fail=None):
        self.x = x
        self.kind = kind
        self.seconds = seconds
        self.fail = fail

    def fit(self, X, y):
        if self.fail is not None:
            raise self.fail
        time.sleep(self.seconds)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        share = min(abs(self.x - 0.3) + (0.2 if self.kind == "bad" else 0.0), 1.0)
        wrong = np.arange(len(X)) < share * len(X)
        return np.where(wrong, 1 - X[:, 0], X[:, 0]).astype(int)


X_TABLE = np.repeat([[0.0], [1.0]], 100, axis=0)
Y_TABLE = X_TABLE[:, 0].astype(int)
TABLE_SPACE = Space(x=Float(0.0, 1.0), kind=Choice("good", "bad"))


def tuned_table(**options):
    estimator = options.pop("estimator", Table())
    options = {"space": TABLE_SPACE, "n_trials": 10, "random_state": 0, "baseline": False} | options
    return TunedClassifier(estimator, **options)


# ------------------------------------------------------------ spaces


def suggested(space, seed=0, context=None):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed))
    return space.suggest(study.ask(), context)


def test_space_draws_in_range_and_by_condition():
    space = Space(
        loss=Choice("hinge", "pinball"),
        loss__tau=Float(0, 1, when={"loss": "pinball"}),
        alpha=Float(1e-6, 1, log=True),
        size=Int(1, 100, log=True, when=lambda p: p["alpha"] < 1e-3),
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        p = space.sample(rng)
        assert ("loss__tau" in p) == (p["loss"] == "pinball")
        assert ("size" in p) == (p["alpha"] < 1e-3)
        assert 1e-6 <= p["alpha"] <= 1
    assert set(suggested(space)) >= {"loss", "alpha"}


def test_conditions_see_fixed_parameters():
    space = Space(loss__tau=Float(0, 1, when={"loss": ("pinball", "other")}))
    assert suggested(space, context={"loss": "hinge"}) == {}
    assert "loss__tau" in suggested(space, context={"loss": "pinball"})
    assert suggested(space) == {}


def test_narrowing():
    space = Space(a=Float(1e-3, 1, log=True), b=Choice("x", "y"), c=Int(1, 9))
    narrow = space.narrowed(a=(0.01, 0.1), b="x", c=[3, 5], loss=Choice("hinge", "pinball"))
    assert narrow.dimensions["a"] == Float(0.01, 0.1, log=True)
    assert narrow.constants == {"b": "x"}
    assert narrow.dimensions["c"] == Choice(3, 5)
    assert "loss" in narrow.dimensions
    assert len(space) == 3
    with pytest.raises(ValueError, match="no number of that name"):
        space.narrowed(d=(0, 1))


def test_objects_can_be_choices():
    space = Space(loss=Choice("hinge", Pinball(tau=0.2)))
    values = {repr(suggested(space, seed)["loss"]) for seed in range(10)}
    assert values == {"'hinge'", repr(Pinball(tau=0.2))}


def test_grid_is_full_and_respects_conditions():
    space = Space(k=Choice("a", "b"), x=Float(0, 1), t=Float(0, 1, when={"k": "b"}))
    grid = space.grid(14)
    assert len(grid) == 3 + 9
    assert all(("t" in p) == (p["k"] == "b") for p in grid)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float(1, 0), "no point"),
        (lambda: Float(0, 1, log=True), "above zero"),
        (lambda: Float(0, float("inf")), "finite"),
        (lambda: Int(0.5, 3), "whole"),
        (lambda: Choice(), "no point"),
        (lambda: Choice("a", "a"), "twice"),
    ],
)
def test_empty_spaces_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def our_estimators():
    from importlib import import_module

    found = [LinearClassifier(), LinearClassifier("pinball"), LinearClassifier(solver="rda"),
             LinearRegressor("huber"), LinearClassifier("logistic", penalty="elastic_net"),
             LinearClassifier("hinge", solver="rw_l1_rda")]  # fmt: skip
    for module, names in {
        "kernel": ("KernelClassifier", "KernelRegressor"),
        "budgeted": ("BudgetedClassifier", "BudgetedRegressor"),
        "hyperplanes": ("MultiHyperplaneClassifier",),
        "confidence": ("ConfidenceClassifier", "ConfidenceRegressor"),
    }.items():
        try:
            home = import_module(f"thresher.estimators.{module}")
        except ImportError:
            continue
        found += [getattr(home, name)() for name in names if hasattr(home, name)]
    return found


@pytest.mark.parametrize("estimator", our_estimators(), ids=lambda e: repr(e)[:60])
def test_every_learner_declares_a_space_that_it_accepts(estimator):
    X = RNG.normal(size=(60, 4))
    space = space_for(estimator, X, X[:, 0])
    context = context_of(estimator)
    for seed in range(5):
        params = space.sample(np.random.default_rng(seed), context)
        assert params
        clone(estimator).set_params(**params)
    assert len(space_for(estimator)) >= 1  # without rows too


def test_declared_conditions_follow_the_loss():
    X = RNG.normal(size=(60, 4))
    rng = np.random.default_rng(0)

    def names(estimator):
        return set(space_for(estimator, X).sample(rng, context_of(estimator)))

    assert names(LinearClassifier(scale=True)) == {"alpha"}
    assert names(LinearClassifier(Pinball(0.3), scale=True)) == {"alpha", "loss__tau"}
    assert names(LinearClassifier(solver="rw_l1_rda", scale=True)) == {
        "alpha", "solver__gamma", "solver__hold",
    }  # fmt: skip
    assert "scale" not in space_for(LinearClassifier(), sparse.csr_array(X)).dimensions


def test_pipelines_and_other_peoples_estimators():
    pipe = make_pipeline(StandardScaler(), LinearClassifier("pinball"))
    space = space_for(pipe)
    assert "linearclassifier__alpha" in space.dimensions
    params = space.sample(np.random.default_rng(0), context_of(pipe))
    assert "linearclassifier__loss__tau" in params

    class Declared(Table):
        pass

    with pytest.raises(ValueError, match="declares no search space"):
        space_for(Declared())
    declare(Declared, lambda estimator, X, y: TABLE_SPACE)
    assert space_for(Declared()) is TABLE_SPACE
    with pytest.raises(ValueError, match="declares no search space"):
        space_for(Table())


# ------------------------------------------------------------ criteria, validation, significance


def test_criteria_agree_with_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    w = RNG.uniform(0.5, 2, size=y.size)
    m = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    p, scores = m.predict(X), m.decision_function(X)
    for weight in (None, w):
        wanted = {
            "error": 1 - metrics.accuracy_score(y, p, sample_weight=weight),
            "auc": metrics.roc_auc_score(y, scores, sample_weight=weight),
            "log_loss": metrics.log_loss(y, m.predict_proba(X), sample_weight=weight),
        }
        for name, value in wanted.items():
            assert CRITERIA[name](m, X, y, weight) == pytest.approx(value, rel=1e-9)
    r = LinearRegressor().fit(X, y)
    for weight in (None, w):
        p = r.predict(X)
        wanted = {
            "mse": metrics.mean_squared_error(y, p, sample_weight=weight),
            "mae": metrics.mean_absolute_error(y, p, sample_weight=weight),
            "r2": metrics.r2_score(y, p, sample_weight=weight),
        }
        for name, value in wanted.items():
            assert CRITERIA[name](r, X, y, weight) == pytest.approx(value, rel=1e-9)


def test_auc_with_ties_and_several_classes():
    X, y = load_iris(return_X_y=True)
    m = LogisticRegression(max_iter=1000).fit(X, y)
    scores = m.decision_function(X)
    wanted = np.mean([metrics.roc_auc_score(y == c, scores[:, c]) for c in range(3)])
    assert CRITERIA["auc"](m, X, y) == pytest.approx(wanted)

    class Tied:
        classes_ = np.array([0, 1])

        def decision_function(self, X):
            return np.round(X[:, 0])

    labels = (y > 0).astype(int)
    wanted = metrics.roc_auc_score(labels, np.round(X[:, 0]))
    assert CRITERIA["auc"](Tied(), X, labels) == pytest.approx(wanted)


def test_error_plus_sparsity():
    class Model:
        coef_ = np.array([[1.0, 0.0, 0.0, 2.0]])

        def predict(self, X):
            return np.zeros(X.shape[0], dtype=int)

    X, y = np.zeros((10, 4)), np.arange(10) < 3
    assert sparse_error(0.4)(Model(), X, y) == pytest.approx(0.6 * 0.3 + 0.4 * 0.5)
    assert CRITERIA["sparse_error"](Model(), X, y) == pytest.approx(0.95 * 0.3 + 0.05 * 0.5)
    dotted = sparse.csr_array(X)
    assert CRITERIA["sparse_error"](Model(), dotted, y) == pytest.approx(0.8 * 0.3 + 0.2 * 0.5)
    with pytest.raises(ValueError, match="kappa"):
        sparse_error(1.5)


def test_criteria_by_name_and_scorer():
    assert resolve_criterion("balanced_accuracy").maximise
    assert resolve_criterion(lambda e, X, y: 1.0)(None, None, None) == 1.0
    with pytest.raises(ValueError, match="unknown"):
        resolve_criterion("nonsense")
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="needs predict_proba"):
        TunedClassifier(criterion="log_loss").fit(X, y)
    with pytest.raises(ValueError, match="is for regression"):
        TunedClassifier(criterion="mse").fit(X, y)


def same(folds, pairs):
    folds, pairs = list(folds), list(pairs)
    assert len(folds) == len(pairs)
    for f, (train, test) in zip(folds, pairs, strict=True):
        np.testing.assert_array_equal(np.sort(f.train), np.sort(train))
        np.testing.assert_array_equal(np.sort(f.test), np.sort(test))


def test_folds_agree_with_scikit_learn():
    X, y = load_iris(return_X_y=True)
    n = len(y)
    c, r = "classification", "regression"
    same(
        make_folds(5, X, y, c, seed=3), StratifiedKFold(5, shuffle=True, random_state=3).split(X, y)
    )
    same(make_folds(4, X, y, r, seed=3), KFold(4, shuffle=True, random_state=3).split(X))
    same(make_folds("time4", X, y, r), TimeSeriesSplit(4).split(X))
    assert len(make_folds("loo", X, y, c)) == n
    assert len(make_folds("5x3", X, y, c)) == 15
    number = RNG.integers(-1, 3, size=n)
    same(make_folds(number, X, y, c), PredefinedSplit(number).split())
    groups = np.arange(n) % 7
    same(make_folds(GroupKFold(3), X, y, c, groups=groups), GroupKFold(3).split(X, y, groups))
    (held,) = make_folds(0.2, X, y, c)
    assert held.test.size == 30
    np.testing.assert_array_equal(np.bincount(y[held.test]), [10, 10, 10])
    same(make_folds([(np.arange(5), np.arange(5, 9))], X, y, c), [(np.arange(5), np.arange(5, 9))])


def test_bad_folds():
    X, y = load_iris(return_X_y=True)
    c = "classification"
    for cv, message in [
        (200, "cannot be split into 200"),
        (1, "at least two folds"),
        (60, "largest class"),
        (1.5, "share of rows"),
        ("nonsense", "unknown"),
        ([], "no folds"),
        ([([0, 1], [1, 2])], "learned from"),
        ([([0, 1], [999])], "row 999"),
    ]:
        with pytest.raises(ValueError, match=message):
            make_folds(cv, X, y, c)
    lonely = np.array([0] * 20 + [1] * 20 + [2])
    with pytest.warns(UserWarning, match="one member"):
        folds = make_folds(4, np.zeros((41, 1)), lonely, c)
    assert all(40 in f.train for f in folds)
    with pytest.raises(ValueError, match="two members of at least two classes"):
        make_folds(3, np.zeros((21, 1)), np.array([0] * 20 + [1]), c)


def test_significance_agrees_with_scipy():
    a, b = RNG.normal(size=12), RNG.normal(size=12) + 0.5
    t, p = paired_t_test(a, b)
    wanted = stats.ttest_rel(a, b)
    assert (t, p) == pytest.approx((wanted.statistic, wanted.pvalue))
    lower, higher, p_sign = sign_test(a, b)
    assert p_sign == pytest.approx(stats.binomtest(lower, lower + higher).pvalue)
    assert lower == np.sum(a < b)
    corrected = paired_t_test(a, b, 0.25)
    d = a - b
    by_hand = d.mean() / np.sqrt((1 / 12 + 0.25) * d.var(ddof=1))
    assert corrected[0] == pytest.approx(by_hand)
    assert corrected[1] == pytest.approx(2 * stats.t.sf(abs(by_hand), 11))
    both = compare(a, b, 0.25)
    assert both.p_corrected > both.p_plain
    assert "12 folds" in str(both)
    assert paired_t_test([1, 1], [1, 1]) == (0.0, 1.0)
    assert sign_test([1, 2], [1, 2]) == (0, 0, 1.0)
    with pytest.raises(ValueError, match="equal length"):
        compare([1], [1, 2])


# ------------------------------------------------------------ the driver


@pytest.mark.parametrize(
    "search", ["csa", "csa+simplex", "random", "grid", "directional", optuna.samplers.TPESampler]
)
def test_every_search_finds_the_known_best(search):
    search = search if isinstance(search, str) else search(seed=0)
    m = tuned_table(search=search, n_trials=25).fit(X_TABLE, Y_TABLE)
    assert m.best_score_ < 0.1
    assert m.best_params_["kind"] == "good"
    assert abs(m.best_params_["x"] - 0.3) < 0.1
    assert len(m.trials_) <= 25


def test_threads_do_not_change_the_result():
    X, y = load_iris(return_X_y=True)
    fits = [
        TunedClassifier(n_trials=16, cv=3, n_jobs=jobs, random_state=0).fit(X, y) for jobs in (1, 2)
    ]
    one, two = ([(t["params"], t["state"], t["value"]) for t in m.trials_] for m in fits)
    assert repr(one) == repr(two)
    np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))


def test_hopeless_trials_are_pruned_and_the_best_is_not():
    X, y = load_breast_cancer(return_X_y=True)
    options = {"n_trials": 20, "search": "random", "random_state": 0, "baseline": False}
    pruned = TunedClassifier(**options).fit(X, y)
    full = TunedClassifier(pruner=None, **options).fit(X, y)
    assert any(t["state"] == "pruned" for t in pruned.trials_)
    assert not any(t["state"] == "pruned" for t in full.trials_)
    assert pruned.best_params_ == full.best_params_
    assert pruned.best_score_ == full.best_score_


def test_pruner_alone():
    def run(trial):
        x = trial.suggest_float("x", 0, 1)
        for k, noise in enumerate((0.1, -0.1, 0.05, -0.05), start=1):
            trial.report(x + noise / k, k)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    study = optuna.create_study(pruner=HopelessPruner(1.0))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for x in (0.1, 0.9, 0.05):
        study.enqueue_trial({"x": x})
    study.optimize(run, n_trials=3)
    assert [t.state.name for t in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    with pytest.raises(ValueError, match="margin"):
        HopelessPruner(0.0)


def test_same_setting_is_not_fitted_twice():
    m = tuned_table(space=Space(kind=Choice("good", "bad")), n_trials=12).fit(X_TABLE, Y_TABLE)
    assert sum("same setting" in t["reason"] for t in m.trials_) >= 8
    assert m.best_params_ == {"kind": "good"}


class Clocked(Table):
    """Takes the time it says, by a clock of our own."""

    now = 0.0

    def fit(self, X, y):
        type(self).now += self.seconds
        return super().fit(X, y)


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("search", ["csa", "csa+simplex"])
def test_budget_is_kept(search, baseline, monkeypatch):
    monkeypatch.setattr(Clocked, "now", 0.0)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(time, "perf_counter", lambda: Clocked.now)
    m = tuned_table(
        estimator=Clocked(seconds=0.02), n_trials=90, budget=1.5, search=search, baseline=baseline
    )
    m.fit(X_TABLE, Y_TABLE)
    assert 1.2 < Clocked.now <= 1.5 + 1e-9
    assert "budget" in m.ended_
    assert (m.baseline_score_ is not None) == baseline


def test_tiny_budget_still_gives_a_model():
    m = tuned_table(estimator=Table(seconds=0.05), n_trials=50, budget=0.01).fit(X_TABLE, Y_TABLE)
    assert m.best_params_
    assert m.predict(X_TABLE).shape == Y_TABLE.shape


def test_halving_ends_on_all_rows():
    X, y = load_breast_cancer(return_X_y=True)
    m = TunedClassifier(n_trials=18, halving=True, cv=3, random_state=0).fit(X, y)
    assert [t["phase"] for t in m.trials_] == ["promoted"] * 2
    assert m.best_score_ < 0.06


def test_callbacks_and_progress_line(capsys):
    seen = []

    def watch(event):
        seen.append(event.trial.number)
        return len(seen) == 3

    m = tuned_table(callbacks=[watch], verbose=1).fit(X_TABLE, Y_TABLE)
    assert "callback" in m.ended_
    assert len(m.trials_) < 10
    assert "trial 1/10  error" in capsys.readouterr().out


# ------------------------------------------------------------ trouble


def test_every_trial_fails():
    broken = Table(fail=RuntimeError("no license for this"))
    with pytest.raises(SearchFailed, match=r"10 x RuntimeError: no license"):
        tuned_table(estimator=broken, n_trials=40).fit(X_TABLE, Y_TABLE)


class Picky(Table):
    def fit(self, X, y):
        if self.kind == "bad":
            raise ValueError("kind cannot be bad")
        return super().fit(X, y)


def test_some_trials_fail():
    m = tuned_table(estimator=Picky()).fit(X_TABLE, Y_TABLE)
    failed = [t for t in m.trials_ if t["state"] == "failed"]
    assert failed
    assert all(t["reason"] == "ValueError: kind cannot be bad" for t in failed)
    assert m.best_params_["kind"] == "good"


def test_no_feasible_point():
    space = Space(x=Float(0, 1), feasible=lambda p: False)
    with pytest.raises(SearchFailed, match="no feasible point"):
        tuned_table(space=space, n_trials=3).fit(X_TABLE, Y_TABLE)
    half = Space(x=Float(0, 1), feasible=lambda p: p["x"] > 0.5)
    m = tuned_table(space=half, search="csa").fit(X_TABLE, Y_TABLE)
    assert m.best_params_["x"] > 0.5
    assert sum(t["state"] != "infeasible" for t in m.trials_) >= 10


class Interrupting(Table):
    count = 0

    def fit(self, X, y):
        type(self).count += 1
        if type(self).count == 30:
            raise KeyboardInterrupt
        return super().fit(X, y)


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupt_keeps_the_best_and_can_be_resumed(jobs):
    whole = tuned_table(n_trials=15, pruner=None).fit(X_TABLE, Y_TABLE)
    Interrupting.count = 0
    m = tuned_table(
        estimator=Interrupting(), n_trials=15, n_jobs=jobs,
        storage=optuna.storages.InMemoryStorage(), study_name="s", pruner=None,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="interrupted"):
        m.fit(X_TABLE, Y_TABLE)
    done = [t for t in m.trials_ if t["state"] == "complete"]
    assert 4 <= len(done) < 15
    assert m.best_score_ == min(t["value"] for t in done)
    m.fit(X_TABLE, Y_TABLE)
    assert [t["params"] for t in m.trials_] == [t["params"] for t in whole.trials_]
    assert m.best_params_ == whole.best_params_


def test_study_of_another_problem_is_refused(tmp_path):
    options = {"storage": tmp_path / "s.db", "study_name": "s", "n_trials": 5}
    tuned_table(**options).fit(X_TABLE, Y_TABLE)
    again = tuned_table(**options).fit(X_TABLE, Y_TABLE)
    assert len(again.trials_) == 5
    assert again.best_score_ == min(t["value"] for t in again.trials_)
    with pytest.raises(StudyError, match="data and folds"):
        tuned_table(cv=3, **options).fit(X_TABLE, Y_TABLE)
    with pytest.raises(StudyError, match="criterion"):
        tuned_table(criterion="accuracy", **options).fit(X_TABLE, Y_TABLE)


def test_damaged_locked_and_unreachable_databases(tmp_path, monkeypatch):
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"this is no database" * 100)
    with pytest.raises(StudyError, match="not a readable study database"):
        tuned_table(storage=damaged).fit(X_TABLE, Y_TABLE)
    with pytest.raises(StudyError, match="cannot be opened"):
        tuned_table(storage=tmp_path / "no" / "folder.db").fit(X_TABLE, Y_TABLE)
    monkeypatch.setattr(tune_storage, "_PATIENCE", 0.1)
    locked = tmp_path / "locked.db"
    tuned_table(storage=locked, n_trials=2).fit(X_TABLE, Y_TABLE)
    with sqlite3.connect(locked) as db:
        db.execute("begin exclusive")
        with pytest.raises(StudyError, match="stayed locked"):
            tuned_table(storage=locked).fit(X_TABLE, Y_TABLE)
        db.rollback()
    db.close()


def test_storage_that_fails_midway_keeps_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(tune_storage, "_PATIENCE", 0.1)
    path = tmp_path / "s.db"
    holder = []

    def lock(event):
        if event.trial.number == 4:
            holder.append(sqlite3.connect(path))
            holder[0].execute("begin exclusive")

    m = tuned_table(storage=path, callbacks=[lock], n_trials=20)
    with pytest.warns(UserWarning, match="storage failed"):
        m.fit(X_TABLE, Y_TABLE)
    holder[0].close()
    assert m.best_score_ == min(t["value"] for t in m.trials_ if t["state"] == "complete")


def test_bad_options():
    for wrong, message in [
        ({"n_trials": 0}, "n_trials"),
        ({"budget": -1.0}, "budget"),
        ({"search": "magic"}, "search='magic' is unknown"),
        ({"pruner": "magic"}, "pruner"),
        ({"space": Space(nonsense=Float(0, 1))}, "no parameter 'nonsense'"),
        ({"cv": 500}, "500 folds"),
    ]:
        with pytest.raises(ValueError, match=message):
            tuned_table(**wrong).fit(X_TABLE, Y_TABLE)
    with pytest.raises(TypeError, match="space"):
        tuned_table(space=3).fit(X_TABLE, Y_TABLE)


# ------------------------------------------------------------ the estimators


def test_tuning_our_own_without_any_input():
    X, y = load_breast_cancer(return_X_y=True)
    m = TunedClassifier(n_trials=15, random_state=0).fit(X, y)
    assert m.best_params_["scale"] is True
    assert m.best_score_ < 0.03 < m.baseline_score_
    assert m.significance_["default"].difference == pytest.approx(m.best_score_ - m.baseline_score_)
    assert m.score(X, y) > 0.97
    assert m.decision_function(X).shape == y.shape
    assert not hasattr(m, "predict_proba")
    assert TunedClassifier(LinearClassifier("logistic")).predict_proba is not None


def test_narrowing_by_a_dict_and_conditional_losses():
    X, y = load_breast_cancer(return_X_y=True)
    m = TunedClassifier(
        LinearClassifier(scale=True),
        space={"alpha": (1e-4, 1e-1), "loss": ["squared_hinge", "pinball"]},
        n_trials=12, search="csa", cv=3, random_state=0,
    ).fit(X, y)  # fmt: skip
    for t in m.trials_:
        assert ("loss__tau" in t["params"]) == (t["params"]["loss"] == "pinball")
        assert 1e-4 <= t["params"]["alpha"] <= 1e-1


def test_sparse_rows_weights_and_auc():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    w = np.where(y == 1, 2.0, 1.0)
    m = TunedClassifier(criterion="auc", n_trials=6, cv=3, random_state=0)
    m.fit(sparse.csr_array(X), y, sample_weight=w)
    assert m.best_score_ > 0.98
    assert m.study_.direction == optuna.study.StudyDirection.MAXIMIZE


def test_regression_and_other_peoples_estimators():
    X, y = load_diabetes(return_X_y=True)
    m = TunedRegressor(criterion="r2", n_trials=8, cv=3, random_state=0).fit(X, y)
    assert m.best_score_ > 0.4
    X, y = load_iris(return_X_y=True)
    pipe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    space = Space(logisticregression__C=Float(1e-3, 1e3, log=True))
    m = TunedClassifier(pipe, space=space, criterion="log_loss", n_trials=6, cv=3, random_state=0)
    m.fit(X, y)
    assert m.predict_proba(X).shape == (150, 3)
    assert m.best_params_.keys() == {"logisticregression__C"}


def test_parameters_are_nested_and_cloned():
    m = TunedClassifier(LinearClassifier("logistic"), n_trials=3)
    assert m.get_params()["estimator__loss"] == "logistic"
    copy = clone(m).set_params(estimator__alpha=0.5)
    assert copy.estimator.alpha == 0.5
    assert m.estimator.alpha is None


def test_optuna_keeps_quiet(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned_table(n_trials=5).fit(X_TABLE, Y_TABLE)
    out, err = capsys.readouterr()
    assert out == err == ""
