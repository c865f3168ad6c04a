"""``AutoClassifier`` and ``AutoRegressor``: the best model that can be had in a given time."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import INTEGER, SECONDS, OneOf, check_allowed
from thresher._clock import ending
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.engines import engine_for
from thresher.estimators import input
from thresher.estimators.calibration import calibrate
from thresher.race.contestants import contestants
from thresher.race.outcome import Outcome
from thresher.race.race import Race
from thresher.race.runner import Trial
from thresher.race.winners import PREFERENCES

__all__ = ["AutoClassifier", "AutoRegressor"]

_SETTING_OUT = 0.9  # share of the budget for the race: the rest is the final fit's and the judge's
_MORE = 1.1  # times the rows of the winner, from which on another fit is worth its time
_HELD_OUT, _MOST_HELD_OUT = 0.1, 20_000


class _Auto(BaseEstimator):
    """What the two share: hold out, race, judge the winner, fit it on all rows.

    The estimate is that of the model that won: the last one has seen the held-out rows too.
    """

    allowed = {"budget": SECONDS, "prefer": OneOf(*PREFERENCES), "n_jobs": INTEGER | None}
    _task: str

    def __init__(
        self, budget: float = 60.0, *, learners: Any = None, prefer: str = "accuracy",
        n_jobs: int | None = -1, random_state: Any = None, verbose: int = 0, cluster: Any = None,
    ):  # fmt: skip
        self.budget = budget
        self.learners = learners
        self.prefer = prefer
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.cluster = cluster

    def _race(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> tuple[Race, Outcome]:
        """Fit and judge ``best_estimator_``."""
        check_allowed(self)
        started = time.monotonic()
        seed = seed_from(self.random_state)
        held, rest = self._hold_out(y, seed)
        given = None if weight is None else weight[rest]
        deadline = started + _SETTING_OUT * self.budget
        with nullcontext() if self.cluster is None else engine_for(self.cluster) as engine:
            jobs = threads(self.n_jobs) if engine is None else 1  # each worker has one core
            race = Race(
                self._runners(X, seed, jobs), X[rest], y[rest], given, self._task, deadline, seed,
                self._on_trial, jobs, rows=y.size, prefer=self.prefer, engine=engine,
            )  # fmt: skip
            outcome = race.run()
        self.held_out_score_ = self._score(outcome.model, X[held], y[held])
        self.best_estimator_ = self._final(X, y, weight, outcome, race, started)
        self.learner_, self.best_params_ = outcome.name, outcome.params
        self.reason_, self.trials_ = outcome.reason, [t.as_dict() for t in outcome.trials]
        self.seconds_ = time.monotonic() - started
        return race, outcome

    def _runners(self, X: Any, seed: int, jobs: int) -> dict[str, Any]:
        known = contestants(self._task, hasattr(X, "indptr"), X.shape[1], seed, jobs, X.shape[0])
        if self.learners is None:
            return known
        if not self.learners:
            raise ValueError(f"learners is empty: choose from {', '.join(known)}")
        if isinstance(self.learners, dict):
            return dict(self.learners)
        unknown = [name for name in self.learners if name not in known]
        if unknown:
            raise ValueError(f"learner {unknown[0]!r} is unknown: choose from {', '.join(known)}")
        return {name: known[name] for name in self.learners}

    def _hold_out(self, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        if y.size < 20:
            raise ValueError(f"{y.size} rows are too few to choose a learner and to judge it")
        rows = np.random.default_rng([seed, 1]).permutation(y.size)
        size = min(max(int(_HELD_OUT * y.size), 1), _MOST_HELD_OUT)
        return np.sort(rows[:size]), np.sort(rows[size:])

    def _final(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None, outcome: Outcome, race: Race,
        started: float,
    ) -> Any:  # fmt: skip
        """The winner on all rows, or as many as there is time for; else as it was judged.

        The last fit has seen the rows that the winner was judged on: one that does clearly worse on
        them nevertheless has gone wrong.
        """
        self.rows_ = outcome.rows
        left = started + self.budget - time.monotonic()
        rows = outcome.affordable(int(y.size), left, race.fits.jobs)
        seen = outcome.rows == race.train.size and not race.refit
        if seen or rows < _MORE * outcome.rows:
            return outcome.model
        part = np.random.default_rng([seed_from(self.random_state), 2]).permutation(y.size)[:rows]
        some = slice(None) if rows == y.size else np.sort(part)
        given = None if weight is None else weight[some]
        model = self._fitted(outcome.grown(rows, left), X[some], y[some], given, started)
        if race.winners.is_worse(model, outcome):
            return outcome.model
        self.rows_ = rows
        return model

    def _fitted(
        self, model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None, started: float
    ) -> Any:
        jobs = {"n_jobs", "map__n_jobs"} & model.get_params().keys()
        model.set_params(**dict.fromkeys(jobs, self.n_jobs))
        until = started + 1.05 * self.budget
        with ending(lambda: time.monotonic() > until):
            return model.fit(X, y, sample_weight=weight)

    def _score(self, model: Any, X: Any, y: np.ndarray) -> float:
        raise NotImplementedError

    def _on_trial(self, trial: Trial) -> None:
        if self.verbose:
            loss = f"loss {trial.loss:.4g}" if not trial.problem else f"failed: {trial.problem}"
            line = f"{trial.runner}  {trial.rows} rows  {loss}  {trial.seconds:.2f} s"
            print(f"[thresher] {line}", flush=True)

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.predict(input.checked_X(self, X))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True  # the clock decides how much is tried
        return tags


class AutoClassifier(ClassifierMixin, _Auto):
    """The best classifier in ``budget`` seconds, with calibrated probabilities.

    Linear, sparse linear, multi-hyperplane, fixed-size kernel (also in cells), exact kernel,
    forest, boosted and budgeted learners race, on sparse rows also linear ones on weighted terms
    (see ``thresher.race``).  Several of them win together (``StackFeatures``), unless the best is
    clearly better alone on rows that none of them has seen.

    Parameters
    ----------
    budget : float, default=60
        Seconds, all in all; a single fit that is longer than foreseen is stopped.
    learners : list of names, dict of estimators, or None, default=None
        Who races; None: all that fit the task and the rows, maps of your own that were registered
        as contestants too.
    prefer : {"accuracy", "size"}, default="accuracy"
        "size": one learner wins, and where the best is not clearly better than a model of at most
        half its size, that one.
    n_jobs : int or None, default=-1
        Settings that are tried at a time, each in a thread; -1: as many as there are cores.
    random_state : int, RandomState or None, default=None
        Seed of everything random; the clock, which decides how much is tried, has none.
    verbose : int, default=0
        Print a line for every fit.
    cluster : int, str, dask.distributed.Client, engine or None, default=None
        Whose workers fit, as :func:`thresher.train` takes it: so many processes, or those of a
        scheduler.  The last fit, on all rows, is done here.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on all rows, or as many as there was time for.
    learner_, best_params_, reason_ : str, dict, str
        Who won, with which settings, and why.
    held_out_score_ : float
        Share of right predictions on a tenth of the rows that the race has not seen, by the model
        that won it; the last fit, on more rows, should be better.
    trials_ : list of dict
        Everything that was tried.
    rows_ : int
        Rows that the winner was fitted on; fewer than all where the time ran out.
    seconds_ : float
        Spent in all.
    classes_ : array
        The labels, in the order of the probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher import AutoClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = AutoClassifier(budget=3, learners=["linear"], random_state=0).fit(X, y)
    >>> bool(model.held_out_score_ > 0.9)
    True
    """

    _task = "classification"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AutoClassifier:
        X, y = input.checked_Xy(self, X, y, reset=True, numeric=False)
        self.classes_ = np.unique(y)
        if self.classes_.size < 2:
            raise ValueError(f"classification needs at least two classes, got {self.classes_}")
        weight = input.check_weight(sample_weight, X)
        self._calibrate(*self._race(X, y, weight))
        return self

    def _score(self, model: Any, X: Any, y: np.ndarray) -> float:
        return float(np.mean(model.predict(X) == y))

    def _calibrate(self, race: Race, outcome: Outcome) -> None:
        """On the scores that the winner gave to rows it had not seen."""
        unseen = race.winners.unseen(outcome, self.classes_.size)
        self.calibrator_ = None if unseen is None else calibrate(*unseen, "sigmoid")

    def decision_function(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.decision_function(input.checked_X(self, X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Calibrated on rows of the race that the winner had not seen.

        A winner that is not ours and has no ``decision_function`` gives its own.
        """
        check_is_fitted(self)
        best = self.best_estimator_
        if self.calibrator_ is not None:
            scores = self.decision_function(X)
            return self.calibrator_(scores[:, None] if scores.ndim == 1 else scores)
        if not hasattr(best, "decision_function") and hasattr(best, "predict_proba"):
            return best.predict_proba(input.checked_X(self, X))
        raise ValueError("too few rows of some class to calibrate probabilities on")


class AutoRegressor(RegressorMixin, _Auto):
    """The best regression in ``budget`` seconds.

    Linear, sparse linear, fixed-size kernel (also in cells), exact kernel, forest, boosted and
    budgeted learners race, on sparse rows also a linear one on weighted terms (see
    ``thresher.race``).  Several of them win together (``StackFeatures``), unless the best is
    clearly better alone on rows that none of them has seen.

    Parameters
    ----------
    budget : float, default=60
        Seconds, all in all; a single fit that is longer than foreseen is stopped.
    learners : list of names, dict of estimators, or None, default=None
        Who races; None: all that fit the task and the rows, maps of your own that were registered
        as contestants too.
    prefer : {"accuracy", "size"}, default="accuracy"
        "size": one learner wins, and where the best is not clearly better than a model of at most
        half its size, that one.
    n_jobs : int or None, default=-1
        Settings that are tried at a time, each in a thread; -1: as many as there are cores.
    random_state : int, RandomState or None, default=None
        Seed of everything random; the clock, which decides how much is tried, has none.
    verbose : int, default=0
        Print a line for every fit.
    cluster : int, str, dask.distributed.Client, engine or None, default=None
        Whose workers fit, as :func:`thresher.train` takes it: so many processes, or those of a
        scheduler.  The last fit, on all rows, is done here.

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, fitted on all rows, or as many as there was time for.
    learner_, best_params_, reason_ : str, dict, str
        Who won, with which settings, and why.
    held_out_score_ : float
        R2 on a tenth of the rows that the race has not seen, by the model that won it;
        the last fit, on more rows, should be better.
    trials_ : list of dict
        Everything that was tried.
    rows_ : int
        Rows that the winner was fitted on; fewer than all where the time ran out.
    seconds_ : float
        Spent in all.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher import AutoRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AutoRegressor(budget=3, learners=["linear"], random_state=0).fit(X, y)
    >>> model.learner_, bool(model.score(X, y) > 0.4)
    ('linear', True)
    """

    _task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AutoRegressor:
        X, y = input.checked_Xy(self, X, y, reset=True, numeric=True)
        y = np.asarray(y, dtype=np.float64)
        input.refuse_far_targets(y)
        self._race(X, y, input.check_weight(sample_weight, X))
        return self

    def _score(self, model: Any, X: Any, y: np.ndarray) -> float:
        miss = model.predict(X) - y
        spread = float(np.sum((y - y.mean()) ** 2))
        return 1.0 - float(np.sum(miss**2)) / max(spread, 1e-300)
