"""Racing learners under a clock: the right kind wins, the clock is kept, held-out rows stay out."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from thresher import (
    AutoClassifier,
    AutoRegressor,
    BudgetedClassifier,
    KernelClassifier,
    LinearClassifier,
)
from thresher._clock import is_over
from thresher.engines import Serial
from thresher.maps import ForestFeatures
from thresher.race.capacity import capacity, larger, rescaled, smaller, work
from thresher.race.contestants import contestants
from thresher.race.outcome import of_runner
from thresher.race.proposals import Proposals
from thresher.race.race import Race
from thresher.race.runner import WIDE_ROWS, Attempt, Runner, Trial, seconds_of
from thresher.search import Float, Int, Space
from thresher.solvers import Status


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Every look at the clock takes a fifth of a second: races are short, and always the same."""
    ticks = itertools.count()
    fake = SimpleNamespace(monotonic=lambda: 0.2 * next(ticks))
    for module in ("auto", "race", "fitting", "elsewhere"):
        monkeypatch.setattr(f"thresher.race.{module}.time", fake)
    monkeypatch.setattr("thresher._threads.cores", lambda: 1)
    return fake


RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 2))
BOARD = np.where((X[:, 0] > 0) ^ (X[:, 1] > 0), "in", "out")


def test_a_nonlinear_learner_wins_where_no_line_separates():
    model = AutoClassifier(budget=30, learners=["linear", "hyperplanes"], random_state=0)
    model.fit(X, BOARD)
    assert "hyperplanes" in model.learner_
    assert model.held_out_score_ > 0.9
    assert set(model.predict(X[:20])) <= {"in", "out"}
    assert {t["params"]["learner"] for t in model.trials_} == {"linear", "hyperplanes"}
    proba = model.predict_proba(X[:50])
    assert proba.sum(axis=1) == pytest.approx(1.0)
    confident = proba.max(axis=1) > 0.9
    assert np.array_equal(
        model.classes_[proba.argmax(axis=1)][confident], model.predict(X[:50])[confident]
    )


def test_the_smaller_model_is_taken_when_it_is_as_good_and_size_counts():
    y = (X @ [1.0, 2.0] > 0.1).astype(int)
    learners = ["linear", "hyperplanes"]
    model = AutoClassifier(20, learners=learners, prefer="size", random_state=0).fit(X, y)
    assert model.learner_ == "linear"
    with pytest.raises(ValueError, match="prefer must be one of 'accuracy', 'size', got 'speed'"):
        AutoClassifier(20, prefer="speed").fit(X, y)


def test_workers_may_fit():
    """An engine in place of threads: settings and losses are those of fits here."""
    given = {"learners": ["linear", "hyperplanes"], "random_state": 0}
    there = AutoClassifier(30, cluster=Serial(), **given).fit(X, BOARD)
    assert "hyperplanes" in there.learner_
    assert there.held_out_score_ > 0.9
    with pytest.raises(TypeError, match="cluster must be a number of workers"):
        AutoClassifier(30, cluster=1.5, **given).fit(X, BOARD)


def test_an_exact_machine_races_with_weaker_penalties_as_rows_grow():
    """The strength is C there, and no alpha."""
    entrant = contestants("classification", False, 2)["exact kernel"]
    runner = Runner("exact kernel", entrant)
    proposals = Proposals(X, BOARD, np.arange(2000), np.random.default_rng(0))
    assert {"scale": False} in proposals.first(runner, 500)
    trial = Trial("exact kernel", {"C": 2.0, "gamma": 1.0}, 500, 0.1, 0.1, 1)
    runner.trials.append(trial)
    runner.keep(Attempt(trial, None, np.zeros(3), None))
    carried, narrower, weaker = proposals.first(runner, 2000)
    assert (carried["C"], carried["gamma"]) == (2.0, 1.0)
    assert (narrower["C"], narrower["gamma"]) == pytest.approx((6.0, 3.0))
    assert (weaker["C"], weaker["gamma"]) == pytest.approx((18.0, 1.0))


def test_terms_win_where_lengths_differ_and_rare_words_tell():
    """Texts of all lengths: common words fill them, one rare word says what they are about."""
    rng = np.random.default_rng(1)
    n, d = 600, 400
    labels = rng.integers(0, 2, n)
    common = rng.poisson(2.0, size=(n, 20)) * rng.choice([1, 5, 25], size=(n, 1))
    rare = np.zeros((n, d))
    rare[np.arange(n), 2 * rng.integers(0, d // 2, n) + labels] = 1.0
    X = csr_matrix(np.hstack([common, rare]))
    model = AutoClassifier(30.0, learners=["linear", "weighted terms"], random_state=0)
    model.fit(X, labels)
    assert "weighted terms" in model.learner_
    assert model.held_out_score_ > 0.7


@pytest.mark.parametrize("budget", [15, 40, 100])
def test_the_clock_is_kept(budget):
    learners = ["linear", "hyperplanes"]
    model = AutoClassifier(budget=budget, learners=learners, random_state=0).fit(X, BOARD)
    assert model.seconds_ <= 1.1 * budget
    assert len(model.trials_) >= 2
    again = AutoClassifier(budget=budget, learners=learners, random_state=0).fit(X, BOARD)
    assert again.best_params_ == model.best_params_


def test_held_out_rows_are_not_seen():
    """They are met once, by the winner, and in the end all rows are learned from."""
    fitted, judged = [], []

    class Watch(LinearClassifier):
        def fit(self, X, y, sample_weight=None):
            fitted.append(X[:, 1])
            return super().fit(X, y, sample_weight)

        def predict(self, X):
            found = super().predict(X)
            judged.append((X[:, 1].astype(int), found))
            return found

    rows, y = np.column_stack([X[:500, 0], np.arange(500)]), X[:500, 0] > 0
    auto = AutoClassifier(budget=100, learners={"watch": Watch()}, random_state=0).fit(rows, y)
    ((held, found),) = [(where, found) for where, found in judged if where.size == 50]
    assert np.unique(held).size == 50  # a tenth
    assert auto.held_out_score_ == np.mean(found == y[held])
    others = [where for where, _ in judged if where is not held]
    assert len(others) > 10
    assert not np.isin(np.concatenate([*fitted[:-1], *others]), held).any()
    assert fitted[-1].size == auto.rows_ == 500


class ByHeart(SVC):
    """Not ours; knows its own rows by heart, and little of others."""

    def search_space(self, X, y):
        return {"C": Float(10.0, 1000.0, log=True)}


class Near(KNeighborsClassifier):
    """Not ours; has probabilities and no decision function."""

    def search_space(self, X, y):
        return {"n_neighbors": Int(5, 50)}

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, y)


def _log_loss(model, X, y):
    chances = model.predict_proba(X)[:, 1]
    return -np.mean(np.log(np.where(y == model.classes_[1], chances, 1.0 - chances)))


@pytest.mark.parametrize("learner", [ByHeart(gamma=3.0), Near()])
def test_learners_of_others_are_calibrated_on_rows_that_they_have_not_seen(learner):
    flips = np.random.default_rng(1).random(X.shape[0]) < 0.3
    y = (X[:, 0] > 0) ^ flips
    auto = AutoClassifier(budget=60, learners={"other": learner}, random_state=0)
    auto.fit(np.hstack([X, X**2])[:600], y[:600])
    assert _log_loss(auto, np.hstack([X, X**2])[600:], y[600:]) < np.log(2.0)


def test_regression():
    y = X[:, 0] * 3 + np.sin(3 * X[:, 1])
    model = AutoRegressor(budget=25, learners=["linear", "kernel"], random_state=0).fit(X, y)
    assert "kernel" in model.learner_
    assert model.held_out_score_ > 0.98


def test_failures_are_told_and_the_rest_goes_on():
    broken = LinearClassifier(loss="nonsense")
    learners = {"broken": broken, "linear": LinearClassifier()}
    y = (X[:, 0] > 0).astype(int)
    model = AutoClassifier(budget=8, learners=learners, random_state=0).fit(X, y)
    assert model.learner_ == "linear"
    assert any("nonsense" in t["problem"] for t in model.trials_)
    with pytest.raises(ValueError, match=r"no learner could be fitted.*nonsense"):
        AutoClassifier(budget=5, learners={"broken": broken}).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"budget": 0}, "positive number"), ({"budget": np.nan}, "positive number"),
     ({"learners": ["trees"]}, "'trees' is unknown"), ({"learners": []}, "learners is empty")],
)  # fmt: skip
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        AutoClassifier(**options).fit(X, BOARD)


def test_too_few_rows_and_one_class():
    with pytest.raises(ValueError, match="too few"):
        AutoClassifier(budget=5).fit(X[:12], np.arange(12) % 2)
    with pytest.raises(ValueError, match="two classes"):
        AutoClassifier(budget=5).fit(X, np.zeros(3000))
    with pytest.raises(ValueError, match=r"y holds values up to .* too large to square"):
        AutoRegressor(budget=5).fit(X, 1e200 * X[:, 0])


def test_settings_carry_over_to_more_rows():
    assert rescaled({"alpha": 1e-3, "scale": True}, 2000, 8000)["alpha"] == 2.5e-4
    assert rescaled({"scale": True}, 2000, 8000) == {"scale": True}


def test_larger_models_are_more_work():
    kernel, local = KernelClassifier(), KernelClassifier(map="local")
    few, many = (work(kernel, {"n_components": m}, 1000) for m in (100, 400))
    assert 4 * few < many < 16 * few
    assert work(kernel, {}, 40_000) > work(local, {}, 40_000)  # its cells have fewer landmarks
    assert work(BudgetedClassifier(), {"budget": 50}, 1000) == 50_000
    assert capacity(LinearClassifier(), 1000) == {}
    assert smaller(kernel, {"n_components": 300}, 1000) == {"n_components": 150}
    assert smaller(kernel, {"n_components": 60}, 1000) is None
    assert smaller(LinearClassifier(), {}, 1000) is None
    assert larger(kernel, {"n_components": 300, "gamma": 1.0}, 1000)["n_components"] == 500
    assert larger(BudgetedClassifier(), {}, 10_000) == {"budget": 400}
    assert capacity(kernel, 10**6)["n_components"].high == 4000
    assert capacity(local, 10**6)["n_components"].high < 2500


def test_more_trees_are_more_work():
    named, given = KernelClassifier(map="forest"), KernelClassifier(map=ForestFeatures(sample=500))
    assert work(given, {"map__n_components": 60}, 500) == 3 * work(
        given, {"map__n_components": 20}, 500
    )
    assert work(given, {}, 2000) < 2 * work(given, {}, 500)  # trees see 500 rows only
    assert work(named, {}, 2000) == 4 * work(named, {}, 500)
    assert larger(named, {}, 1000) == {"n_components": 100}
    assert larger(given, {"map__n_components": 250}, 1000) == {"map__n_components": 400}
    assert smaller(given, {"map__n_components": 60}, 1000) == {"map__n_components": 30}
    assert smaller(given, {"map__n_components": 12}, 1000) is None


def test_trees_race_unless_there_are_too_many_features():
    for task in ("classification", "regression"):
        assert "forest kernel" in contestants(task, sparse=False, features=100)
        assert "forest kernel" not in contestants(task, sparse=True, features=50_000)


def test_trees_win_where_thresholds_count_and_units_say_nothing():
    fields = np.floor(2.0 * X).sum(axis=1) % 2
    learners = ["linear", "kernel", "stretched forest"]
    model = AutoClassifier(budget=40, learners=learners, random_state=0).fit(X**9, fields)
    assert "stretched forest" in model.learner_
    assert model.held_out_score_ > 0.95


def race(learners, X, y, deadline=20.0, **options):
    return Race(learners, X, y, None, "classification", deadline, 0, **options).run()


def runner_with(estimator, params, trials=1):
    """Its best settings, on 100 rows, were these."""
    best = Trial("it", params, 100, 0.1, 1.0, 1, learning=1.0)
    return Runner("it", estimator, Attempt(best, None, np.zeros(10), None), trials=[best] * trials)


def proposed(estimator, params, rows=400):
    """What a runner with such settings tries first with more rows."""
    y = (X[:, 0] > 0).astype(int)
    runner = runner_with(estimator, params)
    return Proposals(X, y, np.arange(3000), np.random.default_rng(0)).first(runner, rows)


def test_with_more_rows_models_are_held_back_less():
    carried, narrower, weaker = proposed(KernelClassifier(), {"gamma": 0.2, "alpha": 0.04})
    assert carried == {"gamma": 0.2, "alpha": 0.01}
    assert narrower == pytest.approx({"gamma": 0.6, "alpha": 0.01 / 3})
    assert weaker == pytest.approx({"gamma": 0.2, "alpha": 0.01 / 9})
    forest = KernelClassifier(map=ForestFeatures())
    carried, finer = proposed(forest, {"map__min_leaf": 12, "alpha": 0.04})
    few = {"map__n_components": 100}  # all the time is for the rows
    assert carried == {"map__min_leaf": 12, "alpha": 0.01} | few
    assert finer == pytest.approx({"map__min_leaf": 4, "alpha": 0.01 / 3} | few)
    assert proposed(forest, {"alpha": 0.04, "map__n_components": 90}) == [{"alpha": 0.01} | few]
    assert proposed(LinearClassifier(), {"alpha": 0.04}) == [{"alpha": 0.01}]


def test_trees_become_more_on_all_rows_only():
    runner = runner_with(KernelClassifier(map=ForestFeatures(24)), {})
    settings = Proposals(X, (X[:, 0] > 0).astype(int), np.arange(3000), np.random.default_rng(0))
    assert not any("map__n_components" in settings.next(runner, 400) for _ in range(8))
    trees = [settings.next(runner, 3000)["map__n_components"] for _ in range(8)]
    assert min(trees) >= 24
    assert max(trees) > 30


def test_a_forest_meets_the_others_with_all_the_trees_there_is_time_for(clock, monkeypatch):
    # A look at the clock for every tree would make time of trees alone.
    monkeypatch.setattr("thresher.maps.forest.is_over", lambda: False)
    y = (X[:, 0] > 0).astype(int)
    forest = KernelClassifier(map=ForestFeatures(24, random_state=0), random_state=0)
    found = race({"forest": forest}, X[:1000], y[:1000], deadline=60.0)
    trees = [t.params.get("map__n_components", 24) for t in found.trials]
    assert max(trees[:4]) > 100
    hurried = race({"forest": forest}, X[:1000], y[:1000], deadline=clock.monotonic() + 8.0)
    assert max(t.params.get("map__n_components", 24) for t in hurried.trials) < 100


@pytest.mark.parametrize(
    ("status", "wrong", "worse"),
    [
        (Status.CONVERGED, 2, False),  # too few to be sure
        (Status.CONVERGED, 10, True),
        (Status.OUT_OF_TIME, 2, True),
        (Status.OUT_OF_TIME, 0, False),
    ],
)
def test_a_last_fit_that_was_cut_short_must_err_less_on_rows_it_has_seen(status, wrong, worse):
    y = (X[:, 0] > 0).astype(int)
    held = Race({"it": LinearClassifier()}, X, y, None, "classification", 0.0, 0)
    outcome = SimpleNamespace(judged=np.arange(20), misses=np.zeros(20))
    told = np.where(np.arange(20) < wrong, 1 - y[:20], y[:20])
    assert (
        held.winners.is_worse(SimpleNamespace(predict=lambda Z: told, status_=status), outcome)
        is worse
    )


def test_members_of_a_stack_are_fitted_side_by_side():
    member = runner_with(LinearClassifier(), {})  # which took one second for 100 rows
    assert seconds_of([member], 100, jobs=4) == 1.0
    assert seconds_of([member] * 3, 100, jobs=1) == 3.0
    assert seconds_of([member] * 3, 100, jobs=2) == 2.0
    wide = runner_with(KernelClassifier(map=ForestFeatures(24, n_jobs=2)), {})
    # Of few rows, fits side by side; of many, one with threads after the other.
    assert seconds_of([wide, member], 100, jobs=2) == 1.0
    slow = runner_with(LinearClassifier(), {})
    slow.keep(slow.top._replace(trial=slow.best._replace(loss=0.0, learning=3.0)))
    # One thread is busy with the slow one, the other has time for three besides.
    assert seconds_of([slow, member, member, member], 100, jobs=2) == 3.0
    alone = wide.again(WIDE_ROWS) + member.again(WIDE_ROWS)
    assert seconds_of([wide, member], WIDE_ROWS, jobs=2) == pytest.approx(alone)


def test_a_forest_grows_into_the_time_that_is_left():
    forest = KernelClassifier(map=ForestFeatures(24))
    winner = runner_with(forest, {"map__n_components": 30})  # which took one second for 100 rows
    outcome = of_runner(winner, 200, np.arange(10), "", [])
    assert outcome.grown(200, seconds=2.0).map.n_components == 30
    assert outcome.grown(200, seconds=5.0).map.n_components == 60
    assert outcome.params == {"map__n_components": 60}
    linear = LinearClassifier()
    other = of_runner(runner_with(linear, {}), 200, np.arange(10), "", [])
    assert other.grown(200, 9.0).get_params() == linear.get_params()


def test_a_last_fit_has_the_rows_that_there_is_time_for():
    outcome = of_runner(runner_with(LinearClassifier(), {}), 1000, np.arange(10), "", [])
    assert outcome.affordable(1000, seconds=10.0) == 1000  # one second for 100
    assert 400 < outcome.affordable(1000, seconds=5.0) <= 500
    assert outcome.affordable(105, seconds=10.0) == 105
    assert outcome.affordable(1000, seconds=-1.0) == 100


def test_settings_are_tried_once_and_few_of_them_on_few_rows():
    many = np.random.default_rng(2).uniform(-1, 1, size=(20_000, 2))
    y = (many[:, 0] * many[:, 1] > 0).astype(int)
    found = race({"linear": LinearClassifier(random_state=0)}, many, y, deadline=200.0)
    tried = [(t.rows, sorted(t.params.items())) for t in found.trials]
    assert all(tried.count(one) == 1 for one in tried)
    rows = [t.rows for t in found.trials]
    assert rows.count(min(rows)) <= 3 + 10
    assert rows.count(max(rows)) > 3 + 10


def test_both_kinds_of_losses_are_tried():
    y = (X[:, 0] > 0).astype(int)
    found = race({"linear": LinearClassifier(random_state=0)}, X, y, deadline=900.0)
    assert {t.params.get("loss") for t in found.trials} == {None, "squared_hinge", "logistic"}


def test_steps_are_taken_from_numbers_that_the_estimator_has():
    forest = KernelClassifier(map=ForestFeatures(min_leaf=40))
    runner = runner_with(forest, {}, trials=10_000)  # so many that steps are tiny
    proposals = Proposals(X, (X[:, 0] > 0).astype(int), np.arange(3000), np.random.default_rng(0))
    assert 35 <= proposals.next(runner, 400)["map__min_leaf"] <= 45


def test_units_are_settled_first():
    """Noise of large numbers drowns the signal unless the features are scaled."""
    rows = np.column_stack([X[:, 0], 1e4 * RNG.normal(size=3000)])
    found = race({"kernel": KernelClassifier(random_state=0)}, rows, (X[:, 0] > 0).astype(int))
    assert found.params["scale"]
    assert found.estimator.scale
    first = [t.params.get("scale") for t in found.trials[:3]]
    assert first == [None, True, "relevance"]
    assert all("scale" not in t.params for t in found.trials[3:])


def test_fits_side_by_side_find_the_same_kind():
    y = (BOARD == "in").astype(int)
    learners = {"linear": LinearClassifier(), "kernel": KernelClassifier(random_state=0)}
    assert "kernel" in race(learners, X, y, deadline=60.0, jobs=3).name


def test_a_failure_beyond_bad_settings_is_not_hidden():
    class Broken(LinearClassifier):
        def fit(self, X, y, sample_weight=None):
            raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        race({"broken": Broken()}, X, (X[:, 0] > 0).astype(int), jobs=2)


def test_nearly_all_rows_need_no_other_fit():
    """Where the race sees nine tenths of the rows, its model is the result."""
    rng = np.random.default_rng(1)
    many = rng.normal(size=(450_000, 2))
    y = (many[:, 0] + rng.normal(size=450_000) > 0).astype(int)
    auto = AutoClassifier(budget=60, learners=["linear"], random_state=0).fit(many, y)
    judges = 430_000 / 22  # 20,000 rows are held out, and at most as many judge
    assert auto.rows_ == pytest.approx(430_000 - judges, abs=1)


class Slow(LinearClassifier):
    """Takes 0.1 s for every row, by the false clock."""

    def fit(self, X, y, sample_weight=None):
        for _ in range(X.shape[0] // 2):
            is_over()
        return super().fit(X, y, sample_weight)


def test_the_last_fit_has_as_many_rows_as_there_is_time_for():
    """A fit on the 720 rows of the race takes 72 s, one on all 1000 takes 100."""
    y = (X[:1000, 0] > 0).astype(int)

    def rows(budget):
        auto = AutoClassifier(budget=budget, learners={"slow": Slow()}, random_state=0)
        return auto.fit(X[:1000], y).rows_

    assert rows(80.0) == 720
    assert 800 < rows(165.0) < 1000
    assert rows(300.0) == 1000


def test_a_last_fit_that_went_wrong_is_not_kept():
    class Worse(LinearClassifier):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, y if len(y) < 1000 else np.roll(y, 1), sample_weight)

    y = (X[:1000, 0] > 0).astype(int)
    auto = AutoClassifier(budget=60, learners={"worse": Worse()}, random_state=0).fit(X[:1000], y)
    assert auto.rows_ == 720
    assert np.mean(auto.predict(X[:1000]) == y) > 0.95


def test_a_fit_of_unknown_pace_is_stopped_early():
    looks = []

    class Endless(LinearClassifier):
        def fit(self, X, y, sample_weight=None):
            looks.append(0)
            while not is_over():
                looks[-1] += 1
            return super().fit(X, y, sample_weight)

    race({"endless": Endless()}, X, (X[:, 0] > 0).astype(int), deadline=100.0)
    assert 30 < looks[0] <= 0.08 * 100.0 / 0.2


@pytest.mark.parametrize("n", [30, 2600, 3000, 29_000, 530_000])
def test_a_race_grows_by_steps_of_about_four(n):
    class Cheap(LinearClassifier):
        def fit(self, X, y, sample_weight=None):
            return self

        def predict(self, X):
            return np.zeros(X.shape[0])

        def search_space(self, X, y):
            return Space({})

    run = Race(
        {"cheap": Cheap()}, np.zeros((n, 1)), np.arange(n) % 2, None, "classification", 1e4, 0
    )
    sizes = sorted({trial.rows for trial in run.run().trials})
    assert sizes[-1] == run.train.size
    growth = np.divide(sizes[1:], sizes[:-1])
    assert np.all((growth > 1.9) & (growth < 8.1))
    assert sizes[0] <= max(2 * 2000, n / 32)
