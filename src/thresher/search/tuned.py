"""Estimators that find their own settings: ``TunedClassifier``, ``TunedRegressor`` and
``TunedClusterer``."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, ClusterMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher.estimators import LinearClassifier, LinearRegressor, StochasticKMeans
from thresher.search.tuned_model import TunedModel

__all__ = ["TUNED", "TunedClassifier", "TunedClusterer", "TunedRegressor"]


def _delegates(method: str) -> Any:
    def check(self: TunedModel) -> bool:
        inner = getattr(self, "best_estimator_", None)
        getattr(self._make_estimator() if inner is None else inner, method)  # its own words
        return True

    return available_if(check)


class TunedClassifier(ClassifierMixin, TunedModel):
    """A classifier that finds its own settings.

    Parameters
    ----------
    estimator : classifier or None, default=None
        One of ours or of anyone's with scikit-learn's API; None: ``LinearClassifier()``.
    space : Space, dict or None, default=None
        What to search. None: what the estimator declares (``space_for``). A dict narrows that, as
        ``Space.narrowed`` does: ``{"alpha": (1e-5, 1e-2), "loss": ["hinge", "pinball"]}``.
    search : str or Optuna sampler, default="csa+simplex"
        "csa" (coupled simulated annealing) or "random", alone or with a local search from the best,
        "+simplex" or "+directional"; "directional" from a few spread points; or "grid".
    n_trials : int, default=40
        Settings to try in all; a resumed study goes on to this number.
    criterion : str, Criterion, callable or None, default=None
        "error", "auc", "log_loss", "sparse_error", a scorer of scikit-learn or a
        callable(estimator, X, y), higher being better for these. None: the first.
    cv : int, float, str, array, iterable or splitter, default=5
        Folds, or how to make them; see ``thresher.search.validation``.  Of a kernel estimator, the
        folds share one map, learned from all their rows without the targets where these have no
        part in it (``thresher.search.shared_maps``); "loo" with the least-squares loss is a closed
        form.
    budget : float or None, default=None
        Seconds for search and refit together.
    halving : bool, default=False
        For large data: search with a ninth of the training rows, try the best third again with a
        third of them, and the best ninth with all.
    pruner : {"hopeless", None} or Optuna pruner, default="hopeless"
        When to give up a trial before its last fold.
    baseline : bool, default=True
        Also judge the estimator as it is given, to say whether tuning has helped.
    refit : bool, default=True
        Fit the best settings on all rows; without, there is no ``best_estimator_`` to predict with.
    storage : path, database URL, Optuna storage or None, default=None
        Where the study is kept. A killed search, started again with the same storage, goes on where
        it was.
    study_name : str or None, default=None
        Name of the study in the storage; None: made of the estimator and the criterion.
    n_jobs : int or None, default=None
        Threads for trials and folds; -1 uses all cores. The result does not depend on it (unless a
        budget ends the search).
    random_state : int, RandomState or None, default=None
        Of the samples, the folds and, where it has none of its own, the estimator.
    verbose : int, default=0
        Print a line after each trial.
    callbacks : list of callables or None, default=None
        Each is called with a ``TrialEvent`` after every trial; returning True ends the search.
    cluster : int, str, engine or None, default=None
        Who fits, as :func:`thresher.train` takes it: so many processes, or a scheduler's
        workers.  The trials depend on their order alone, not on the number of workers; they do
        not start from each other's solutions.

    Attributes
    ----------
    best_estimator_ : the estimator with the best settings, fitted on all rows
    best_params_ : dict
    best_score_ : float
        Mean of the criterion over the folds.
    study_ : optuna.Study
    trials_ : list of dict
        Number, params, value, folds, state, seconds, reason and phase of each trial.
    significance_ : dict of Comparison
        The winner against the untuned estimator ("default") and the second best ("runner_up") on
        the same folds.
    baseline_score_ : float or None
    ended_ : str or None
        Why the search ended early, if it did.
    folds_ : sequence of (train, test)
    n_features_in_, feature_names_in_ : as in scikit-learn
    classes_ : array
        The labels.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher.search import TunedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = TunedClassifier(n_trials=10, random_state=0).fit(X, y)
    >>> print(model.best_params_["scale"], model.best_score_ < 0.04)
    True True
    """

    @property
    def _task(self) -> str:  # type: ignore[override]
        """Novelty detectors are classifiers with criteria of their own."""
        task = getattr(self._make_estimator(), "task", "classification")
        return task if task == "novelty" else "classification"

    def _make_estimator(self) -> Any:
        return LinearClassifier() if self.estimator is None else self.estimator

    @property
    def classes_(self) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.classes_

    @_delegates("decision_function")
    def decision_function(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    @_delegates("classify")
    def classify(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.classify(X)

    @_delegates("score_samples")
    def score_samples(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.score_samples(X)

    @_delegates("predict_proba")
    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @_delegates("predict_log_proba")
    def predict_log_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.predict_log_proba(X)


class TunedRegressor(RegressorMixin, TunedModel):
    """A regression model that finds its own settings.

    Parameters
    ----------
    estimator : regressor or None, default=None
        One of ours or of anyone's with scikit-learn's API; None: ``LinearRegressor()``.
    space : Space, dict or None, default=None
        What to search. None: what the estimator declares (``space_for``). A dict narrows that, as
        ``Space.narrowed`` does: ``{"alpha": (1e-5, 1e-2), "loss": ["huber", "least_squares"]}``.
    search : str or Optuna sampler, default="csa+simplex"
        "csa" (coupled simulated annealing) or "random", alone or with a local search from the best,
        "+simplex" or "+directional"; "directional" from a few spread points; or "grid".
    n_trials : int, default=40
        Settings to try in all; a resumed study goes on to this number.
    criterion : str, Criterion, callable or None, default=None
        "mse", "mae", "r2", a scorer of scikit-learn or a callable(estimator, X, y), higher being
        better for these. None: the first.
    cv : int, float, str, array, iterable or splitter, default=5
        Folds, or how to make them; see ``thresher.search.validation``.  Of a kernel estimator, the
        folds share one map, learned from all their rows without the targets where these have no
        part in it (``thresher.search.shared_maps``); "loo" with the least-squares loss is a closed
        form.
    budget : float or None, default=None
        Seconds for search and refit together.
    halving : bool, default=False
        For large data: search with a ninth of the training rows, try the best third again with a
        third of them, and the best ninth with all.
    pruner : {"hopeless", None} or Optuna pruner, default="hopeless"
        When to give up a trial before its last fold.
    baseline : bool, default=True
        Also judge the estimator as it is given, to say whether tuning has helped.
    refit : bool, default=True
        Fit the best settings on all rows; without, there is no ``best_estimator_`` to predict with.
    storage : path, database URL, Optuna storage or None, default=None
        Where the study is kept. A killed search, started again with the same storage, goes on where
        it was.
    study_name : str or None, default=None
        Name of the study in the storage; None: made of the estimator and the criterion.
    n_jobs : int or None, default=None
        Threads for trials and folds; -1 uses all cores. The result does not depend on it (unless a
        budget ends the search).
    random_state : int, RandomState or None, default=None
        Of the samples, the folds and, where it has none of its own, the estimator.
    verbose : int, default=0
        Print a line after each trial.
    callbacks : list of callables or None, default=None
        Each is called with a ``TrialEvent`` after every trial; returning True ends the search.
    cluster : int, str, engine or None, default=None
        Who fits, as :func:`thresher.train` takes it: so many processes, or a scheduler's
        workers.  The trials depend on their order alone, not on the number of workers; they do
        not start from each other's solutions.

    Attributes
    ----------
    best_estimator_ : the estimator with the best settings, fitted on all rows
    best_params_ : dict
    best_score_ : float
        Mean of the criterion over the folds.
    study_ : optuna.Study
    trials_ : list of dict
        Number, params, value, folds, state, seconds, reason and phase of each trial.
    significance_ : dict of Comparison
        The winner against the untuned estimator ("default") and the second best ("runner_up") on
        the same folds.
    baseline_score_ : float or None
    ended_ : str or None
        Why the search ended early, if it did.
    folds_ : sequence of (train, test)
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher.search import TunedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = TunedRegressor(n_trials=10, criterion="r2", random_state=0).fit(X, y)
    >>> print(model.best_score_ > 0.45)
    True
    """

    _task = "regression"

    def _make_estimator(self) -> Any:
        return LinearRegressor() if self.estimator is None else self.estimator


class TunedClusterer(ClusterMixin, TunedModel):
    """A clustering that finds its own settings, first of all the number of clusters.

    Settings are judged by the silhouette of unseen rows (of a sample of them).

    Parameters
    ----------
    estimator : clusterer or None, default=None
        One of ours, or of anyone's that can predict; None: ``StochasticKMeans()``.
    space : Space, dict or None, default=None
        What to search. None: what the estimator declares (``space_for``), 2 to 20 clusters. A dict
        narrows that: ``{"n_clusters": (2, 10)}``.
    search : str or Optuna sampler, default="grid"
        As in :class:`TunedClassifier`; the grid of a number of clusters is all of them.
    n_trials : int, default=19
        Settings to try in all.
    criterion : str, Criterion, callable or None, default=None
        None: "silhouette".
    cv, budget, halving, pruner, baseline, refit : as in :class:`TunedClassifier`
        Two folds and no baseline by default.
    storage, study_name, n_jobs, random_state, verbose, callbacks, cluster : as in
        :class:`TunedClassifier`

    Attributes
    ----------
    best_estimator_ : the estimator with the best settings, fitted on all rows
    best_params_ : dict
    best_score_ : float
        Mean of the criterion over the folds.
    labels_ : array
        The cluster of every row.
    study_, trials_, significance_, baseline_score_, ended_, folds_ : as in :class:`TunedClassifier`
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import TunedClusterer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)) + 20.0 * rng.integers(0, 2, size=(400, 2))
    >>> TunedClusterer(space={"n_clusters": (2, 7)}, random_state=0).fit(X).best_params_
    {'n_clusters': 4}
    """

    _task = "clustering"

    def __init__(
        self,
        estimator: Any = None,
        *,
        space: Any = None,
        search: Any = "grid",
        n_trials: int = 19,
        criterion: Any = None,
        cv: Any = 2,
        budget: float | None = None,
        halving: bool = False,
        pruner: Any = "hopeless",
        baseline: bool = False,
        refit: bool = True,
        storage: Any = None,
        study_name: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
        cluster: Any = None,
    ):
        super().__init__(
            estimator, space=space, search=search, n_trials=n_trials, criterion=criterion, cv=cv,
            budget=budget, halving=halving, pruner=pruner, baseline=baseline, refit=refit,
            storage=storage, study_name=study_name, n_jobs=n_jobs, random_state=random_state,
            verbose=verbose, callbacks=callbacks, cluster=cluster,
        )  # fmt: skip

    def _make_estimator(self) -> Any:
        return StochasticKMeans() if self.estimator is None else self.estimator

    @property
    def labels_(self) -> np.ndarray:
        check_is_fitted(self)
        return self.best_estimator_.labels_


#: by task
TUNED: dict[str, Any] = {
    "classification": TunedClassifier,
    "novelty": TunedClassifier,
    "regression": TunedRegressor,
    "clustering": TunedClusterer,
}
