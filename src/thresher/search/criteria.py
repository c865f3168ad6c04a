r"""What is minimised or maximised.

Criteria judge a fitted estimator on rows that it has not seen.  Names: ``error`` (share of wrong
labels), ``auc``, ``log_loss``, ``mse``, ``mae``, ``r2``, ``silhouette`` and ``balanced_line_fit``
(of clusters; see ``thresher.partitions``), ``novelty``, ``class_error`` and ``novelty_auc`` (of
novelty detection) and ``sparse_error``,

.. math:: (1 - \kappa)\, \text{error} + \kappa\, \text{nnz}(w) / d,

with kappa 0.05 for dense and 0.20 for sparse rows (Jumutc's thesis, section 4.1.4).  Any of
scikit-learn's scorers, by name or as a callable ``scorer(estimator, X, y)``, serves too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.partitions import silhouette

__all__ = ["CRITERIA", "Criterion", "auc", "resolve_criterion", "sparse_error"]


@dataclass(frozen=True)
class Criterion:
    """What a search minimises or maximises.

    Parameters
    ----------
    name : str
    judge : callable
        ``judge(estimator, X, y, weight) -> float`` of a fitted estimator on held-out rows.
    maximise : bool, default=False
    task : {"classification", "regression", "novelty", "clustering"} or None, default=None
        None: for all.
    needs : tuple of str, default=("predict",)
        The estimator has one of these methods.
    blind : bool, default=False
        It looks at the rows through the estimator only: mapped rows serve as well.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> from thresher.search import Criterion
    >>> worst = Criterion("worst", lambda model, X, y, weight: abs(model.predict(X) - y).max())
    >>> X, y = [[0.0], [1.0]], [1.0, 3.0]
    >>> worst(DummyRegressor().fit(X, y), X, y)
    1.0
    """

    name: str
    judge: Callable[[Any, Any, np.ndarray, np.ndarray | None], float]
    maximise: bool = False
    task: str | None = None  # None for all
    needs: tuple[str, ...] = ("predict",)  # the estimator has one of these methods
    blind: bool = False  # looks at the rows through the estimator only: mapped rows serve as well

    @property
    def sign(self) -> float:
        """+1 where lower is better, -1 where higher is."""
        return -1.0 if self.maximise else 1.0

    def __call__(self, estimator: Any, X: Any, y: np.ndarray, weight: Any = None) -> float:
        return float(self.judge(estimator, X, y, weight))

    def check(self, estimator: Any, task: str) -> None:
        """Refuse what cannot be judged, before any work."""
        if self.task is not None and self.task != task:
            fitting = [c.name for c in CRITERIA.values() if c.task == task]
            raise ValueError(
                f"criterion {self.name!r} is for {self.task}; use one of {', '.join(fitting)}"
            )
        if not any(hasattr(estimator, method) for method in self.needs):
            raise ValueError(
                f"criterion {self.name!r} needs {' or '.join(self.needs)}, which "
                f"{type(estimator).__name__} does not have with these settings"
                + ("; loss='logistic' or calibrate='sigmoid' give probabilities"
                   if "predict_proba" in self.needs else "")
            )  # fmt: skip


def _error(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    return float(np.average(estimator.predict(X) != y, weights=weight))


def _mse(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    return float(np.average((np.ravel(estimator.predict(X)) - y) ** 2, weights=weight))


def _mae(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    return float(np.average(np.abs(np.ravel(estimator.predict(X)) - y), weights=weight))


def _r2(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    centre = np.average(y, weights=weight)
    total = float(np.average((y - centre) ** 2, weights=weight))
    if total == 0.0:
        raise ValueError("r2 is undefined: the held-out targets of a fold are all equal")
    return 1.0 - _mse(estimator, X, y, weight) / total


def _log_loss(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    table = np.asarray(estimator.predict_proba(X), dtype=float)
    position = np.searchsorted(estimator.classes_, y)
    position = np.minimum(position, table.shape[1] - 1)
    chance = table[np.arange(y.size), position]
    chance = np.where(np.asarray(estimator.classes_)[position] == y, chance, 0.0)
    return float(np.average(-np.log(np.maximum(chance, 1e-15)), weights=weight))


def _auc(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    """Area under the ROC curve; for several classes the mean of one-vs-rest areas."""
    classes = np.asarray(estimator.classes_)
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X), dtype=float)
    else:
        scores = np.asarray(estimator.predict_proba(X), dtype=float)
        scores = scores[:, 1] if classes.size == 2 else scores
    if scores.ndim == 1 or scores.shape[1] == 1:
        return _area(scores.ravel(), y == classes[-1], weight)
    present = [c for c in range(classes.size) if 0 < np.sum(y == classes[c]) < y.size]
    if not present:
        raise ValueError("auc is undefined: a fold holds one class only; use stratified folds")
    return float(np.mean([_area(scores[:, c], y == classes[c], weight) for c in present]))


def _area(scores: np.ndarray, positive: np.ndarray, weight: Any) -> float:
    area = auc(positive, scores, np.ones(scores.size) if weight is None else np.asarray(weight))
    if area is None:
        raise ValueError("auc is undefined: a fold holds one class only; use stratified folds")
    return area


def auc(positive: np.ndarray, scores: np.ndarray, weight: np.ndarray) -> float | None:
    """P(score of a positive > score of a negative), ties counting half; None with one class."""
    order = np.argsort(scores, kind="stable")
    up = np.where(positive, weight, 0.0)[order].astype(np.float64)
    down = np.where(positive, 0.0, weight)[order].astype(np.float64)
    if not (up.sum() > 0.0 and down.sum() > 0.0):
        return None
    starts = np.flatnonzero(np.concatenate([[True], np.diff(scores[order]) != 0]))
    up, down = np.add.reduceat(up, starts), np.add.reduceat(down, starts)
    below = np.cumsum(down) - down
    return float(up @ (below + 0.5 * down) / (up.sum() * down.sum()))


def _silhouette(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    """Of the clusters of unseen rows, a sample of them; -1 where all fall into one."""
    rows = estimator.comparable(X) if hasattr(estimator, "comparable") else X
    found = silhouette(rows, estimator.predict(X))
    return -1.0 if found is None else found


def _balanced_line_fit(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    return float(estimator.balanced_line_fit(X))


def _novelty(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    """The mean of the error on known rows and of the share of outliers that are missed.

    Where a fold has one kind of rows only, the share of them that is wrong.
    """
    wrong, outlying = estimator.predict(X) != y, y == estimator.outlier
    parts = [_average(wrong, weight, kind) for kind in (~outlying, outlying) if kind.any()]
    return float(np.mean(parts))


def _class_error(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    """The share of known rows of a wrong class, where no row is rejected."""
    known = y != estimator.outlier
    if not known.any():
        raise ValueError("class_error is undefined: a fold holds outliers only")
    return _average(estimator.classify(X) != y, weight, known)


def _average(values: np.ndarray, weight: Any, chosen: np.ndarray) -> float:
    weights = None if weight is None else np.asarray(weight)[chosen]
    return float(np.average(values[chosen], weights=weights))


def _novelty_auc(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
    outlying = y == estimator.outlier
    if outlying.all() or not outlying.any():
        raise ValueError("novelty_auc is undefined: a fold needs known rows and outliers")
    return _area(np.asarray(estimator.score_samples(X)), ~outlying, weight)


def sparse_error(kappa: float | None = None) -> Criterion:
    r"""The criterion :math:`(1 - \kappa)\, \text{error} + \kappa\, \text{nnz}(w) / d`.

    Parameters
    ----------
    kappa : float or None, default=None
        Weight of the sparsity, in [0, 1]; None: 0.05 for dense and 0.20 for sparse rows.

    Examples
    --------
    >>> from thresher.search import sparse_error
    >>> sparse_error(0.1).name
    'sparse_error(0.1)'
    """
    if kappa is not None and not 0.0 <= kappa <= 1.0:
        raise ValueError(f"kappa must lie between 0 and 1, got {kappa}")

    def judge(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
        share = (0.20 if hasattr(X, "indptr") else 0.05) if kappa is None else kappa
        return (1.0 - share) * _error(estimator, X, y, weight) + share * _density(estimator)

    name = "sparse_error" if kappa is None else f"sparse_error({kappa:g})"
    return Criterion(name, judge, task="classification")


def _density(estimator: Any) -> float:
    steps = getattr(estimator, "steps", None)  # of a pipeline; of our estimators, a number or None
    last = steps[-1][1] if isinstance(steps, list) else estimator
    if not hasattr(last, "coef_"):
        raise ValueError(f"sparse_error needs coef_, which {type(last).__name__} does not have")
    coef = last.coef_
    stored = coef.data if hasattr(coef, "indptr") else coef
    return float(np.count_nonzero(stored) / max(int(np.prod(coef.shape)), 1))


CRITERIA: dict[str, Criterion] = {
    c.name: c
    for c in (
        Criterion("error", _error, task="classification", blind=True),
        Criterion("auc", _auc, maximise=True, task="classification",
                  needs=("decision_function", "predict_proba"), blind=True),
        Criterion("log_loss", _log_loss, task="classification", needs=("predict_proba",),
                  blind=True),
        Criterion("mse", _mse, task="regression", blind=True),
        Criterion("mae", _mae, task="regression", blind=True),
        Criterion("r2", _r2, maximise=True, task="regression", blind=True),
        Criterion("novelty", _novelty, task="novelty"),
        Criterion("class_error", _class_error, task="novelty", needs=("classify",)),
        Criterion("novelty_auc", _novelty_auc, maximise=True, task="novelty",
                  needs=("score_samples",)),
        Criterion("silhouette", _silhouette, maximise=True, task="clustering"),
        Criterion("balanced_line_fit", _balanced_line_fit, maximise=True, task="clustering",
                  needs=("balanced_line_fit",)),
        sparse_error(),
    )
}  # fmt: skip


def resolve_criterion(criterion: Any) -> Criterion:
    """A criterion from a name of ours, a scorer's name of scikit-learn, or a callable."""
    if isinstance(criterion, Criterion):
        return criterion
    if isinstance(criterion, str) and criterion in CRITERIA:
        return CRITERIA[criterion]
    if isinstance(criterion, str):
        from sklearn.metrics import get_scorer, get_scorer_names

        if criterion not in get_scorer_names():
            raise ValueError(
                f"criterion={criterion!r} is unknown: use one of {', '.join(CRITERIA)}, a scorer "
                "of scikit-learn or a callable(estimator, X, y)"
            )
        return _from_scorer(criterion, get_scorer(criterion), blind=True)
    if callable(criterion):
        return _from_scorer(getattr(criterion, "__name__", repr(criterion)), criterion)
    raise TypeError(f"criterion must be a name, a Criterion or a callable, got {criterion!r}")


def _from_scorer(name: str, scorer: Callable[..., float], blind: bool = False) -> Criterion:
    def judge(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> float:
        return float(scorer(estimator, X, y))

    return Criterion(name, judge, maximise=True, blind=blind)
