"""Folds of a race, and models that win together."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from thresher import (
    AutoClassifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
)
from thresher.engines import Serial
from thresher.maps import FeatureMap
from thresher.race.folds import Folds
from thresher.race.race import Race
from thresher.race.runner import Attempt, Runner, Trial
from thresher.race.stacking import best_stack

RNG = np.random.default_rng(0)


# ---------------------------------------------------------------- folds


@settings(max_examples=40, deadline=None)
@given(st.integers(10, 300), st.integers(2, 5), st.integers(0, 2**16))
def test_folds_part_the_rows_and_spread_the_classes(n, classes, seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(2), np.arange(2), rng.integers(classes, size=n - 4)])
    folds = Folds(y, False, rng)
    assert folds.count == 5
    assert np.array_equal(np.sort(folds.judged(5)), np.arange(n))
    for k in range(5):
        assert np.array_equal(
            np.sort(np.concatenate([folds.train(k), folds.judges(k)])), np.arange(n)
        )
        counts = np.bincount(y[folds.judges(k)], minlength=classes)
        assert np.all(np.abs(counts - np.bincount(y, minlength=classes) / 5) <= 1.0)


def test_many_rows_are_judged_on_one_part():
    y = RNG.normal(size=450_000)
    folds = Folds(y, True, np.random.default_rng(0))
    assert folds.count == 1
    assert 18_000 < folds.judges(0).size <= 20_000
    first = folds.train(0)[:1000]  # a sample of all, not the first rows
    assert 200_000 < first.mean() < 250_000


def test_what_no_fold_can_judge_is_refused():
    with pytest.raises(ValueError, match="9 rows are too few"):
        Folds(np.arange(9) % 2, False, RNG)
    with pytest.raises(ValueError, match="one class only"):
        Folds(np.zeros(50), False, RNG)


# ---------------------------------------------------------------- stacks

Y = RNG.integers(2, size=2000)
SIGNS = 2.0 * Y - 1.0
LEFT = np.arange(2000) % 2 == 0
CLASSES = np.array([0, 1])


def runner(name, scores, seconds=1.0):
    misses = ((scores > 0) != (Y == 1)).astype(float)
    trial = Trial(name, {}, 2000, float(misses.mean()), seconds, 1, learning=seconds)
    return Runner(name, None, Attempt(trial, None, misses, scores[:, None]), trials=[trial])


def noise(scale):
    return scale * RNG.normal(size=2000)


KNOWS_LEFT = runner("left", np.where(LEFT, 3.0 * SIGNS, 0.0) + noise(1.0))
KNOWS_RIGHT = runner("right", np.where(LEFT, 0.0, 3.0 * SIGNS) + noise(1.0))
USELESS = runner("useless", noise(1.0))


def test_models_that_complete_each_other_win_together():
    stack = best_stack([KNOWS_LEFT, USELESS, KNOWS_RIGHT], Y, None, CLASSES, lambda m: True)
    assert [r.name for r in stack.members] in (["left", "right"], ["right", "left"])
    assert stack.loss < 0.1 < 0.2 < min(KNOWS_LEFT.loss, KNOWS_RIGHT.loss)
    labels = (stack.scores[:, 0] > 0).astype(int)
    assert np.array_equal(stack.misses, (labels != Y).astype(float))


def test_a_model_that_says_the_same_again_adds_nothing():
    again = runner("again", KNOWS_LEFT.top.scores[:, 0] + noise(1e-3))
    stack = best_stack([KNOWS_LEFT, again], Y, None, CLASSES, lambda m: True)
    assert stack is None or stack.loss == pytest.approx(KNOWS_LEFT.loss, abs=0.01)


def test_members_must_be_affordable_and_have_scores():
    few = best_stack([KNOWS_LEFT, KNOWS_RIGHT], Y, None, CLASSES, lambda m: len(m) < 2)
    assert few is None
    foreign = runner("foreign", noise(1.0))
    foreign.top = foreign.top._replace(scores=None)
    assert best_stack([KNOWS_LEFT, foreign], Y, None, CLASSES, lambda m: True) is None


def test_rows_with_weights_count_as_often():
    """Where only the left rows count, only who knows them does."""
    weight = np.where(LEFT, 1.0, 1e-9)
    stack = best_stack([KNOWS_LEFT, KNOWS_RIGHT], Y, weight, CLASSES, lambda m: True)
    if stack is not None:
        weights = dict(zip([r.name for r in stack.members], stack.pool.weights, strict=True))
        assert weights["left"] > 5 * weights["right"]


@pytest.fixture
def clock(monkeypatch):
    """Every look at the clock takes a fiftieth of a second: no race depends on the machine."""
    ticks = itertools.count()
    fake = SimpleNamespace(monotonic=lambda: 0.02 * next(ticks))
    for module in ("auto", "race", "fitting"):
        monkeypatch.setattr(f"thresher.race.{module}.time", fake)
    monkeypatch.setattr("thresher._threads.cores", lambda: 1)
    return fake


X, Y10 = (part[:900] for part in load_digits(return_X_y=True))


class Half(FeatureMap):
    """The upper or the lower half of a picture."""

    uses_kernel = False

    def __init__(self, start=0):
        self.start = start

    def learn(self, X, y=None):
        self.width_ = X.shape[1] // 2
        return self

    def features(self, X, out=None):
        return np.ascontiguousarray(X[:, self.start : self.start + self.width_])

    @property
    def width(self):
        return self.width_


HALVES = {
    "upper": KernelClassifier("logistic", map=Half(0), scale=False, random_state=0),
    "lower": KernelClassifier("logistic", map=Half(32), scale=False, random_state=0),
}
TOGETHER = ("upper + lower", "lower + upper")


def raced(learners, rows=900, deadline=30.0, **options):
    return Race(learners, X[:rows], Y10[:rows], None, "classification", deadline, 0, **options)


def test_a_race_ends_with_a_stack_whose_model_is_a_model(clock):
    race = raced(HALVES, rows=900)
    outcome = race.run()
    assert outcome.name in TOGETHER
    assert outcome.judged.size == outcome.misses.size == outcome.scores.shape[0]
    assert outcome.misses.mean() < 0.7 * min(runner.loss for runner in race.runners)
    said = [f.scores(X) for f in outcome.model.map_.functions_]
    made = outcome.estimator.map
    expected = made.weights[0] * said[0] + made.weights[1] * said[1] + made.offsets
    np.testing.assert_allclose(outcome.model.function_.scores(X), expected, rtol=1e-9)
    assert outcome.estimator.fit(X, Y10).score(X, Y10) > 0.97


def test_fits_elsewhere_are_the_fits_here(clock, monkeypatch):
    """With the same clock the same settings are tried, with the same losses to the bit."""
    ticks = clock.monotonic
    monkeypatch.setattr("thresher.race.elsewhere.time", SimpleNamespace(monotonic=lambda: 0.0))
    here, told = raced(HALVES, rows=400, deadline=8.0).run(), []
    count = itertools.count()
    clock.monotonic = lambda: 0.02 * next(count)
    there = raced(HALVES, rows=400, deadline=8.0, engine=Serial(), on_trial=told.append).run()
    clock.monotonic = ticks

    def plain(trials):
        return [(t.runner, t.params, t.rows, t.loss, t.folds, t.size) for t in trials]

    assert plain(there.trials) == plain(here.trials)
    assert len(told) >= len(there.trials) > 2
    assert there.name == here.name
    np.testing.assert_array_equal(there.scores, here.scores)
    np.testing.assert_array_equal(there.model.predict(X), here.model.predict(X))


def test_the_best_is_taken_by_itself_where_the_smaller_model_is_preferred(clock):
    assert raced(HALVES, prefer="size").run().name in HALVES
    assert raced(HALVES, stacks=False).run().name in HALVES


def test_automatic_estimators_stack_and_calibrate(clock):
    model = AutoClassifier(60, learners=HALVES, random_state=0).fit(X[:600], Y10[:600])
    assert model.learner_ in TOGETHER
    assert model.best_params_["members"] == model.learner_.split(" + ")
    assert log_loss(Y10[600:], model.predict_proba(X[600:])) < 0.8
    alone = [clone(half).fit(X[:600], Y10[:600]) for half in HALVES.values()]
    best = max(half.score(X[600:], Y10[600:]) for half in alone)
    assert model.score(X[600:], Y10[600:]) > best + 0.03


def test_numbers_are_pooled_by_a_race(clock):
    parts = X[:, :32].sum(axis=1), X[:, 32:].sum(axis=1)
    ink = sum(part / part.std() for part in parts)
    halves = {n: KernelRegressor(map=half.map, scale=False) for n, half in HALVES.items()}
    race = Race(halves, X[:300], ink[:300], None, "regression", 10.0, 0)
    outcome = race.run()
    assert outcome.name in TOGETHER
    assert outcome.misses.mean() < 0.8 * min(runner.loss for runner in race.runners)
    assert outcome.estimator.fit(X[:600], ink[:600]).score(X[600:], ink[600:]) > 0.5


def test_models_of_the_users_own_kind_race_alone(clock):
    class Mine(LinearClassifier):
        pass

    learners = {"mine": Mine(), "upper": HALVES["upper"]}
    assert raced(learners, rows=300).run().name in learners
