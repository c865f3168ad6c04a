"""What a race begins with: units that suit come first, and nobody slow uses up the time of all."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from thresher import KernelClassifier, LinearClassifier, SupportVectorClassifier
from thresher.maps import ForestFeatures
from thresher.race.contestants import contestants
from thresher.race.fitting import Fitting
from thresher.race.proposals import Proposals
from thresher.race.race import Race
from thresher.race.runner import Attempt, Runner, Trial
from thresher.race.starts import Starts
from thresher.search import Int, Space

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(20_000, 2))
BOARD = (X[:, 0] * X[:, 1] > 0).astype(int)


@pytest.fixture
def starts():
    known = {
        "kernel": KernelClassifier(scale=True), "exact": SupportVectorClassifier(scale=True),
        "linear": LinearClassifier(scale=True),
    }  # fmt: skip
    runners = [Runner(name, estimator) for name, estimator in known.items()]
    proposals = Proposals(X, BOARD, np.arange(1000), np.random.default_rng(0))
    return Starts(runners, proposals, 500)


def tell(runner, params, loss):
    trial = Trial(runner.name, params, 500, loss, 1.0, 1, learning=1.0)
    runner.trials.append(trial)
    runner.keep(Attempt(trial, None, np.zeros(3), None))


def test_the_first_tries_all_units_and_the_others_begin_in_the_best(starts):
    kernel, exact, linear = starts.runners
    assert starts.first() == [kernel, kernel, kernel, exact, linear]
    given = [starts.take(kernel) for _ in range(3)]
    assert given == [{}, {"scale": False}, {"scale": "relevance"}]
    assert starts.take(kernel) is None
    for params, loss in zip(given, (0.3, 0.1, 0.2), strict=True):
        tell(kernel, params, loss)
    assert starts.take(exact) == {"scale": False}
    tell(exact, {"scale": False}, 0.05)
    assert starts.others([linear, exact]) == [exact, exact]  # the other has not begun
    assert [starts.take(exact) for _ in range(3)] == [{}, {"scale": "relevance"}, None]


def test_what_is_carried_to_more_rows_comes_first(starts):
    runner = starts.runners[1]
    tell(runner, {"C": 2.0, "gamma": 1.0}, 0.1)
    proposals = Proposals(X, BOARD, np.arange(4000), np.random.default_rng(0))
    later = Starts([runner], proposals, 2000)
    assert later.first() == [runner]
    assert later.take(runner) == {"C": 2.0, "gamma": 1.0}
    assert later.others([runner]) == [runner, runner]


def after_its_first_fit(estimator, y, rows=400):
    """A runner with a fitted model, after so many trials that steps are tiny, and what it tries."""
    runner = Runner("it", estimator)
    model = clone(estimator).fit(X[:rows], y[:rows])
    best = Trial("it", {}, rows, 0.1, 1.0, 1, learning=1.0)
    runner.keep(Attempt(best, model, np.zeros(10), None))
    runner.trials += [best] * 10_000
    proposals = Proposals(X, y, np.arange(2000), np.random.default_rng(0))
    return model, runner, [proposals.next(runner, rows) for _ in range(2)]


@pytest.mark.parametrize("numbers", [False, True])
def test_steps_are_taken_from_the_numbers_that_the_model_has_found(numbers):
    """Left-out rows choose the width and the strength: a search goes on from there, with landmarks
    on all rows still."""
    task, y = ("regression", X[:, 0] * X[:, 1]) if numbers else ("classification", BOARD)
    entrant = contestants(task, False, 2)["least-squares kernel"]
    model, _, steps = after_its_first_fit(entrant, y)
    for step in steps:
        assert step["gamma"] == pytest.approx(model.map_.kernel_.gamma, rel=0.25)
        assert step["alpha"] == pytest.approx(model.penalty_.strength, rel=0.5)
        assert step["n_components"] == "full"


def test_more_rows_are_followed_more_closely_from_what_the_model_has_found():
    entrant = contestants("regression", False, 2)["least-squares kernel"]
    y = X[:, 0] * X[:, 1]
    model, runner, _ = after_its_first_fit(entrant, y)
    proposals = Proposals(X, y, np.arange(2000), np.random.default_rng(0))
    _, narrower, weaker = proposals.first(runner, 1600)
    alpha = model.penalty_.strength / 4.0
    expected = {"gamma": 3.0 * model.map_.kernel_.gamma, "alpha": alpha / 3.0}
    assert narrower == pytest.approx(expected)
    assert weaker == pytest.approx({"alpha": alpha / 9.0})


def test_boosting_has_more_rounds_for_more_rows():
    entrant = contestants("classification", False, 2)["boosted trees"]
    runner = Runner("boosted trees", entrant)
    proposals = Proposals(X, BOARD, np.arange(20_000), np.random.default_rng(0))
    few = {"map__n_components": 200, "map__learning_rate": 0.05}
    assert proposals.first(runner, 500) == [{}, few]
    assert proposals.first(runner, 5000) == [{}, {"map__n_components": 200}]
    tell(runner, {"map__n_components": 200}, 0.1)
    carried, more = proposals.first(runner, 8000)
    assert (carried["map__n_components"], more["map__n_components"]) == (200, 400)


def test_no_errors_on_few_rows_may_be_luck():
    """Of 90 rows one learner errs in none, another in one, a third in ten: the second goes on."""
    names = ("none", "one", "ten")
    race = Race(dict.fromkeys(names, LinearClassifier()), X, BOARD, None, "classification", 9.0, 0)
    rows = race.train.size
    for runner, wrong in zip(race.runners, (0, 1, 10), strict=True):
        trial = Trial(runner.name, {}, rows, wrong / 90, 1.0, 1, learning=1.0)
        runner.trials.append(trial)
        runner.keep(Attempt(trial, None, (np.arange(90) < wrong).astype(float), None))
    assert [r.name for r in race._in_sight(race.runners, rows, 1.0)] == ["none", "one"]


def test_one_of_many_settings_takes_little_of_the_time_that_is_left():
    """Fits of ten seconds with twenty left: fewer landmarks, but no fewer trees."""
    machine = KernelClassifier(n_components="full")
    learners = {"machine": machine, "trees": KernelClassifier(map=ForestFeatures(100))}
    deadline = time.monotonic() + 20.0
    race = Race(learners, X[:2000], BOARD[:2000], None, "classification", deadline, 0)
    for runner in race.runners:
        runner.trials += [Trial(runner.name, {}, 1600, 0.1, 10.0, 1, learning=10.0)] * 2
    machine, trees = race.runners
    assert 50 <= race._modest(machine, {}, 1600)["n_components"] <= 400
    assert race._modest(trees, {}, 1600) == {}


def test_a_first_fit_that_compiles_is_no_judgement():
    """It could not end in time, and so learned nothing of three neighbours: it is tried again."""
    slow = itertools.chain([0.5], itertools.repeat(0.0))

    class Compiling(KNeighborsClassifier):
        def fit(self, X, y, sample_weight=None):
            seconds = next(slow)
            time.sleep(seconds)
            return super().fit(X[: 3 if seconds else None], y[: 3 if seconds else None])

    deadline = time.monotonic() + 3.0
    race = Race({"it": Compiling(1)}, X[:500], BOARD[:500], None, "classification", deadline, 0)
    (runner,) = race.runners
    race._try_in_time(runner, {}, race.train)
    first, second = runner.trials
    assert second.loss < 0.1 < first.loss
    assert runner.best == second
    race._try_in_time(runner, {}, race.train)
    assert len(runner.trials) == 3


def test_losses_come_from_the_scores_of_the_judged_rows():
    fitting = Fitting(X, BOARD, None, regression=False, jobs=1, on_trial=None)
    rows = np.arange(500)
    fit = fitting.fit(SupportVectorClassifier(), {}, rows, rows + 500, np.inf)
    wrong = fit.model.predict(X[500:1000]) != BOARD[500:1000]
    np.testing.assert_array_equal(fit.misses, wrong)
    np.testing.assert_array_equal(fitting.misses(fit.model, rows + 500), wrong)
    assert fit.seconds > 0.0


def test_who_leads_may_win_without_having_seen_all_rows(monkeypatch):
    """Neighbours cannot be found for all rows in time; those of some are better than any line."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.2 * next(ticks))
    for module in ("race", "fitting"):
        monkeypatch.setattr(f"thresher.race.{module}.time", clock)

    class Slow(KNeighborsClassifier):
        def fit(self, X, y, sample_weight=None):
            for _ in range(X.shape[0] // 20):
                clock.monotonic()
            return super().fit(X, y)

        def search_space(self, X, y):
            return Space({"n_neighbors": Int(1, 3)})

    learners = {"line": LinearClassifier(random_state=0), "slow": Slow(1)}
    found = Race(learners, X, BOARD, None, "classification", 200.0, 0).run()
    assert found.name == "slow"
    assert 1000 < found.rows < 10_000
    assert np.mean(found.misses) < 0.1
