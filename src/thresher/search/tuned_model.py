"""What estimators share that find their own settings: the search, its judge, the last fit."""

from __future__ import annotations

import math
import time
import warnings
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from optuna.pruners import BasePruner, NopPruner
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from thresher._allowed import FLAG, INTEGER, SECONDS, check_allowed, whole
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.engines import engine_for
from thresher.estimators import input
from thresher.estimators._partly_labelled import checked_partly, label_array
from thresher.registry import TASKS
from thresher.search.criteria import resolve_criterion
from thresher.search.driver import Search
from thresher.search.elsewhere import Elsewhere
from thresher.search.evaluation import Evaluation
from thresher.search.pruning import HopelessPruner
from thresher.search.records import Record
from thresher.search.significance import Comparison, compare
from thresher.search.space import Space
from thresher.search.spaces import context_of, space_for
from thresher.search.storage import open_study, quiet
from thresher.search.strategy import Strategy, make_strategy
from thresher.search.validation import make_folds, with_unjudged

__all__ = ["TunedModel"]

_RUNG = 3  # rows grow, and settings fall, by this factor from rung to rung


class TunedModel(MetaEstimatorMixin, BaseEstimator):
    """Base: everything but the task."""

    allowed = {
        "n_trials": whole(1), "budget": SECONDS | None, "halving": FLAG, "baseline": FLAG,
        "refit": FLAG, "n_jobs": INTEGER | None,
    }  # fmt: skip
    _task: str

    def __init__(
        self,
        estimator: Any = None,
        *,
        space: Any = None,
        search: Any = "csa+simplex",
        n_trials: int = 40,
        criterion: Any = None,
        cv: Any = 5,
        budget: float | None = None,
        halving: bool = False,
        pruner: Any = "hopeless",
        baseline: bool = True,
        refit: bool = True,
        storage: Any = None,
        study_name: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        cluster: Any = None,
    ):
        self.estimator = estimator
        self.space = space
        self.search = search
        self.n_trials = n_trials
        self.criterion = criterion
        self.cv = cv
        self.budget = budget
        self.halving = halving
        self.pruner = pruner
        self.baseline = baseline
        self.refit = refit
        self.storage = storage
        self.study_name = study_name
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.cluster = cluster

    def _make_estimator(self) -> Any:
        raise NotImplementedError

    # ------------------------------------------------------------ fit

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> TunedModel:
        """Search, then fit the best settings on all rows."""
        start = time.perf_counter()
        self._check_options()
        seed = seed_from(self.random_state)
        estimator = self._seeded(seed)
        rows, targets = self._checked(estimator, X, y)
        weight = input.check_weight(sample_weight, rows)
        usual = TASKS[self._task].criteria[0]
        criterion = resolve_criterion(usual if self.criterion is None else self.criterion)
        criterion.check(estimator, self._task)
        self.folds_ = self._folds(estimator, rows, targets, seed, groups)
        given = (estimator, rows, targets, self.folds_, criterion, weight)
        space = self._space(estimator, rows, targets)
        evaluation = Evaluation(*given, seed=seed)
        with ExitStack() as open_here:
            scored, jobs = evaluation, threads(self.n_jobs)
            if self.cluster is not None:
                engine = open_here.enter_context(engine_for(self.cluster))
                folder = open_here.enter_context(TemporaryDirectory(prefix="thresher-"))
                scored, jobs = Elsewhere(engine, folder, *given, seed=seed), engine.width
            strategy = make_strategy(self.search, seed, 1 if self.cluster else jobs)
            search = self._climb(scored, space, strategy, start, jobs)
        best = search.require()
        self.best_params_, self.best_score_ = dict(best.params), best.value
        self.study_, self.ended_ = search.study, search.ended
        self.trials_ = [r.as_dict() for r in sorted(search.records, key=lambda r: r.number)]
        if self.ended_ and "budget" not in self.ended_ and "callback" not in self.ended_:
            warnings.warn(
                f"{type(self).__name__}: search ended after {len(self.trials_)} of "
                f"{self.n_trials} trials ({self.ended_}); the best so far is kept",
                UserWarning,
                stacklevel=2,
            )
        self._judge(evaluation, search, best, start)
        if not self.refit:
            return self
        self.best_estimator_ = clone(estimator).set_params(**self.best_params_)
        if sample_weight is None:
            self.best_estimator_.fit(X, y)
        else:
            self.best_estimator_.fit(X, y, sample_weight=sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.best_estimator_, name):
                setattr(self, name, getattr(self.best_estimator_, name))
        return self

    def _climb(
        self, evaluation: Evaluation, space: Space, strategy: Strategy, start: float, jobs: int
    ) -> Search:
        """The search; with halving, on few rows first, then the best settings on more."""
        shares = [_RUNG**-2.0, 1.0 / _RUNG, 1.0] if self.halving else [1.0]
        part = evaluation.thinned(shares[0])
        search = self._search(part, space, strategy, start, shares[0], jobs)
        try:
            strategy.run(search, self.n_trials)
        finally:
            search.close()
        for rung, share in enumerate(shares[1:], start=1):
            keep = max(1, round(self.n_trials / _RUNG**rung))
            good = [r for r in search.records if r.state == "complete"]
            good = sorted(good, key=lambda r: (search.sign * r.value, r.number))
            settings = {tuple(r.stored.items()): r.stored for r in good}
            if search.ended or not settings:
                return search
            above = self._search(evaluation.thinned(share), space, strategy, start, share, jobs)
            above.planned = min(keep, len(settings))
            try:
                above.given(list(settings.values())[:keep], "promoted")
            finally:
                above.close()
            if above.best is None:
                search.ended = above.ended or "no promoted setting succeeded"
                return search
            search = above
        return search

    def _search(
        self, evaluation: Evaluation, space: Space, strategy: Strategy, start: float, share: float,
        jobs: int,
    ) -> Search:  # fmt: skip
        criterion = evaluation.criterion
        name = self.study_name or f"{type(evaluation.estimator).__name__}-{criterion.name}"
        name = name if share >= 1.0 else f"{name}-{share:.3g}-of-rows"
        with quiet():
            study = open_study(
                self.storage,
                name,
                maximise=criterion.maximise,
                sampler=strategy.sampler,
                pruner=self._pruner(),
                signature={
                    "estimator": type(evaluation.estimator).__name__,
                    "criterion": criterion.name,
                    "data and folds": evaluation.fingerprint(),
                    "random_state": evaluation.seed,
                    "parameters": sorted(space),
                },
            )
            spent = time.perf_counter() - start
            return Search(
                evaluation,
                space,
                study,
                context=context_of(evaluation.estimator),
                batch=strategy.batch,
                n_jobs=jobs,
                budget=None if self.budget is None else self.budget - spent,
                reserve=1.0 + (len(evaluation.folds) if self.baseline else 0.0),
                verbose=self.verbose,
                callbacks=self.callbacks,
            )

    def _judge(self, evaluation: Evaluation, search: Search, best: Record, start: float) -> None:
        """The winner against the untuned estimator and against the runner-up."""
        sign, share = search.sign, evaluation.test_to_train
        self.significance_: dict[str, Comparison] = {}
        self.baseline_score_: float | None = None
        winner = sign * np.array(best.folds)
        enough = len(best.folds) == len(evaluation.folds) > 1
        second = self._runner_up(search, best)
        if enough and second is not None:
            self.significance_["runner_up"] = compare(winner, sign * np.array(second.folds), share)
        left = math.inf if self.budget is None else self.budget - (time.perf_counter() - start)
        if not self.baseline or (search.ended and "interrupt" in search.ended):
            return
        refit = best.seconds / max(len(best.folds), 1) + evaluation.shared_seconds
        if left < best.seconds + refit:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = [evaluation.score({}, k).value for k in range(len(evaluation.folds))]
        except Exception:
            return  # the estimator does not work as it is given: tuning was needed
        self.baseline_score_ = float(np.mean(scores))
        if enough:
            self.significance_["default"] = compare(winner, sign * np.array(scores), share)

    def _runner_up(self, search: Search, best: Record) -> Record | None:
        others = [r for r in search.records
                  if r.state == "complete" and r.stored != best.stored]  # fmt: skip
        return min(others, key=lambda r: (search.sign * r.value, r.number), default=None)

    # ------------------------------------------------------------ parts of the fit

    def _seeded(self, seed: int) -> Any:
        """A copy of the estimator, seeded so that trials differ by their settings only."""
        estimator = clone(self._make_estimator())
        params = estimator.get_params(deep=True)
        loose = {
            name: seed
            for name, value in params.items()
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        return estimator.set_params(**loose)

    def _checked(self, estimator: Any, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Rows that can be indexed; for our own estimators checked and converted once for all."""
        if not TASKS[self._task].has_target:
            X = input.checked_X(self, X, reset=True)
            return X, np.zeros(X.shape[0])
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None"
            )
        if _takes_blanks(estimator):
            X, _, _ = checked_partly(self, X, y, estimator.get_params(deep=False).get("irrelevant"))
            return X, label_array(y)
        if type(estimator).__module__.startswith("thresher."):
            X, y = input.checked_Xy(
                self, X, y, reset=True, numeric=not TASKS[self._task].has_classes
            )
        else:
            X, y = indexable(X, y)
            y = column_or_1d(y, warn=True)
            X = X if hasattr(X, "shape") else np.asarray(X)
        if TASKS[self._task].has_classes:
            check_classification_targets(y)
            if np.unique(y).size < 2 and self._task != "novelty":
                raise ValueError(
                    f"classification needs at least two classes, but there is one class: {y[0]!r}"
                )
        return X, y

    def _folds(self, estimator: Any, X: Any, y: np.ndarray, seed: int, groups: Any) -> Any:
        """Rows without a label are learned from in every fold, and judged in none."""
        if not _takes_blanks(estimator):
            return make_folds(self.cv, X, y, self._task, seed=seed, groups=groups)
        known = estimator.labelled_rows(y)
        own = None if groups is None else np.asarray(groups)[known]
        labels = np.array(y[known].tolist())
        folds = make_folds(self.cv, X[known], labels, self._task, seed=seed, groups=own)
        return with_unjudged(folds, known)

    def _space(self, estimator: Any, X: Any, y: np.ndarray) -> Space:
        space = self.space
        if not isinstance(space, Space):
            space = space_for(estimator, X, y).narrowed(space or {})
        known = {name.partition("__")[0] for name in estimator.get_params(deep=True)}
        wrong = [
            name
            for name in (*space.dimensions, *space.constants)
            if name.partition("__")[0] not in known
        ]
        if wrong:
            raise ValueError(
                f"{type(estimator).__name__} has no parameter {wrong[0]!r}; it has "
                f"{', '.join(sorted(known))}"
            )
        return space

    def _pruner(self) -> BasePruner:
        if self.pruner is None:
            return NopPruner()
        return HopelessPruner() if self.pruner == "hopeless" else self.pruner

    def _check_options(self) -> None:
        check_allowed(self)
        if isinstance(self.pruner, str) and self.pruner != "hopeless":
            raise ValueError(f"pruner must be 'hopeless', None or a pruner, got {self.pruner!r}")
        if self.space is not None and not isinstance(self.space, (Space, dict)):
            raise TypeError(f"space must be a Space, a dict or None, got {self.space!r}")

    # ------------------------------------------------------------ use

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self._make_estimator())
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        tags.non_deterministic = inner.non_deterministic
        if inner.classifier_tags is not None and tags.classifier_tags is not None:
            tags.classifier_tags = inner.classifier_tags
        return tags


def _takes_blanks(estimator: Any) -> bool:
    """Whether some rows may have no label."""
    return bool(getattr(estimator, "partly_labelled", False))
