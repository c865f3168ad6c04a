"""The last round of a race: luck on the validation rows does not last."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from thresher.race.finals import Finals
from thresher.race.fitting import Fitting
from thresher.race.runner import Runner

SIZE = 400
TRAIN, VALIDATION = np.arange(5 * SIZE), np.arange(5 * SIZE, 6 * SIZE)
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 2, 6 * SIZE)


def wrong(share, on_validation=None):
    """Rows on which a model errs."""
    errs = RNG.random(6 * SIZE) < share
    if on_validation is not None:
        errs[VALIDATION] = RNG.random(SIZE) < on_validation
    return errs


ERRORS = np.column_stack([wrong(0.1), wrong(0.3, on_validation=0.07), wrong(0.5), wrong(0.11)])
STEADY, LUCKY, BAD, CLOSE = range(4)


class Reader(BaseEstimator):
    """Knows the truth but on the rows that one column marks; breaks on the rows of ``failing``."""

    def __init__(self, column=STEADY, failing=False, callbacks=None):
        self.column, self.failing, self.callbacks = column, failing, callbacks

    def fit(self, X, y, sample_weight=None):
        if self.failing and not np.isin(TRAIN, X[:, -1]).all():
            raise ValueError("no luck")
        return self

    def predict(self, X):
        return X[:, 0].astype(int) ^ X[:, 1 + self.column].astype(int)


X = np.column_stack([TRUTH, ERRORS, np.arange(6 * SIZE)])


@pytest.fixture
def fits():
    with Fitting(X, TRUTH, None, regression=False, jobs=2, on_trial=None) as fits:
        yield fits


def runner(fits, name, *columns, seconds=None, **options):
    """One that has tried these columns, in so many seconds each if given."""
    made = Runner(name, Reader(**options))
    for column in columns:
        attempt = fits.attempt(made, {"column": column}, TRAIN, VALIDATION, np.inf)
        trial = attempt.trial if seconds is None else attempt.trial._replace(seconds=seconds)
        made.keep(attempt._replace(trial=trial))
    return made


def final(fits, *runners, seconds=60.0):
    Finals(fits, TRAIN, VALIDATION).run(list(runners), time.monotonic() + seconds)


def test_luck_does_not_last(fits):
    one = runner(fits, "one", STEADY, LUCKY)
    assert one.best.params == {"column": LUCKY}
    final(fits, one)
    assert one.best.params == {"column": STEADY}
    assert one.judged.size == SIZE  # one part was enough to tell
    assert one.model.column == STEADY


def test_runners_meet_on_the_same_rows_and_the_far_ones_are_not_there(fits):
    runners = [runner(fits, str(column), column) for column in (STEADY, BAD, CLOSE)]
    final(fits, *runners)
    assert [r.final is not None for r in runners] == [True, False, True]
    assert np.array_equal(runners[2].judged, ERRORS[: 4 * SIZE, CLOSE])
    assert runners[0].loss == pytest.approx(ERRORS[: 4 * SIZE, STEADY].mean())


def test_who_falls_behind_is_out(fits):
    lucky, steady, close = (runner(fits, str(c), c) for c in (LUCKY, STEADY, CLOSE))
    final(fits, lucky, steady, close)
    assert lucky.final is None
    assert steady.final is not None


def test_who_fails_is_out(fits):
    good, close = runner(fits, "good", STEADY), runner(fits, "close", CLOSE)
    failing = runner(fits, "failing", STEADY, failing=True)
    assert failing.best is not None
    final(fits, good, close, failing)
    assert [r.final is not None for r in (good, close, failing)] == [True, True, False]


def test_without_time_all_stays_as_it_was(fits):
    one = runner(fits, "one", STEADY, LUCKY)
    final(fits, one, seconds=-1.0)
    assert one.best.params == {"column": LUCKY}
    assert one.final is None
    assert Finals(fits, TRAIN, VALIDATION).seconds([one], left=-1.0) == 0.0


def test_time_is_kept_where_there_is_some_for_many_settings(fits):
    runners = [runner(fits, name, c, seconds=1.0) for name, c in (("one", STEADY), ("two", CLOSE))]
    finals = Finals(fits, TRAIN, VALIDATION)
    enough = 4 * 6 / 2  # on four parts, three settings of each, two at a time
    assert enough <= finals.seconds(runners, left=1e6) <= 2.0 * enough
    assert finals.seconds(runners[:1], left=1e6) < finals.seconds(runners, left=1e6)
    for left in (25.0, 30.0, 40.0):  # not more than half of it, and something to spare
        assert 0.0 < finals.seconds(runners, left=left) <= 0.75 * left
    assert finals.seconds(runners, left=0.9 * 40 / 2) == 0.0  # not even forty settings of the best


def test_few_rows_have_no_final(fits):
    finals = Finals(fits, TRAIN[:SIZE], VALIDATION)
    one = runner(fits, "one", STEADY, CLOSE)
    finals.run([one], time.monotonic() + 60.0)
    assert one.final is None


def test_the_best_is_never_missing_while_another_is_kept(fits):
    """Other threads look at it meanwhile: here whoever is compared does."""
    watched, seen = Runner("watched", Reader()), []

    class Looking:
        def __init__(self, attempt):
            self.attempt = attempt

        def __getattr__(self, name):
            seen.append(len(watched.top))
            return getattr(self.attempt, name)

    losses = []
    for rows in (TRAIN[:SIZE], TRAIN):
        for column in (CLOSE, STEADY, LUCKY):
            attempt = fits.attempt(watched, {"column": column}, rows, VALIDATION, np.inf)
            seen.clear()
            watched.keep(Looking(attempt))
            assert seen
            assert not losses or min(seen) > 0
            losses.append(watched.best.loss)
    assert watched.best.rows == TRAIN.size
    assert watched.best.params == {"column": LUCKY}
