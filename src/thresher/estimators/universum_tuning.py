"""Numbers of 3C-SVM found one after the other, each where it matters most.

C is that of the plain machine of the labelled rows; with it C_unlabelled and epsilon are found, and
with these kappa.  "forward" judges C_unlabelled and epsilon by the U-SVM and kappa by the S3VM, as
published; "direct" judges both by the machine that is asked for.  Settings are compared by errors
on labelled rows that were left out in folds, equal ones by the hinge loss; unlabelled and
irrelevant rows are in all folds.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from thresher._clock import is_over
from thresher._scores import best_class
from thresher._seed import seed_from
from thresher.estimators._partly_labelled import IRRELEVANT, UNLABELLED

__all__ = ["TUNINGS", "tuned"]

TUNINGS = (None, "forward", "direct")
_FOLDS = 5
_C = (0.1, 1.0, 10.0, 100.0)
# Of the weight that makes unlabelled rows count as much as all labelled ones.
_SHARES = (0.01, 0.1, 1.0, 10.0)
_EPSILONS = (0.01, 0.1, 0.5)
_KAPPAS = (0.0, -0.3, -0.6, -0.9)


class _Trials(NamedTuple):
    """Rows, and the folds that settings are compared on."""

    estimator: Any
    X: Any
    codes: np.ndarray
    classes: np.ndarray
    weight: np.ndarray | None
    folds: list[np.ndarray]  # labelled rows that are left out

    def best(
        self, settings: Iterable[dict[str, float]], fixed: dict[str, Any], used: np.ndarray
    ) -> dict[str, float]:
        """The setting with the fewest errors, of machines of the rows ``used``."""
        settings = list(settings)
        if len(settings) == 1:
            return settings[0]
        losses: list[tuple[float, float]] = []
        for setting in settings:
            if losses and is_over():
                break
            losses.append(self._loss({**fixed, **setting}, used))
        return settings[min(range(len(losses)), key=losses.__getitem__)]

    def _loss(self, params: dict[str, Any], used: np.ndarray) -> tuple[float, float]:
        """Errors and hinge losses, added up."""
        wrong = hinge = 0.0
        for left_out in self.folds:
            train = np.setdiff1d(used, left_out, assume_unique=True)
            model = clone(self.estimator).set_params(
                **params, tuning=None, calibrate=None, verbose=0, callbacks=None
            )
            model.n_features_in_ = self.X.shape[1]
            mine = None if self.weight is None else self.weight[train]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit_codes(self.X[train], self.codes[train], self.classes, mine)
            scores = model.function_.scores(self.X[left_out])
            truth = self.codes[left_out]
            mass = np.ones(truth.size) if self.weight is None else self.weight[left_out]
            wrong += float(mass @ (best_class(scores) != truth))
            hinge += float(mass @ _hinges(scores, truth))
        return wrong, hinge


def _hinges(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    places = np.arange(scores.shape[1]) if scores.shape[1] > 1 else np.ones(1)
    signs = np.where(codes[:, None] == places, 1.0, -1.0)
    return np.maximum(1.0 - signs * scores, 0.0).sum(axis=1)


def tuned(
    estimator: Any, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None
) -> dict[str, float]:
    """C, and as far as rows ask for them C_unlabelled, C_irrelevant, epsilon and kappa."""
    from sklearn.model_selection import StratifiedKFold  # slow to import

    known = np.flatnonzero(codes >= 0)
    labels, counts = np.unique(codes[known], return_counts=True)
    smallest = int(np.min(counts))
    if smallest < 2:
        rarest = classes[int(labels[np.argmin(counts)])]
        raise ValueError(
            f"tuning needs at least two labelled rows of every class, and {rarest} has one: label "
            "another, or leave out tuning"
        )
    seed = seed_from(estimator.random_state)
    folds = StratifiedKFold(min(_FOLDS, smallest), shuffle=True, random_state=seed % 2**32)
    parts = [known[test] for _, test in folds.split(np.zeros((known.size, 1)), codes[known])]
    trials = _Trials(estimator, X, codes, classes, weight, parts)
    plain: dict[str, Any] = {"balance": None}
    if estimator.algorithm != "linear":
        plain["algorithm"] = "auto"  # few rows need no landmarks
    found: dict[str, float] = trials.best(({"C": c} for c in _C), plain, known)
    free, none = codes == UNLABELLED, codes == IRRELEVANT
    if not (free.any() or none.any()):
        return found
    own, direct = estimator.unlabelled, estimator.tuning == "direct"
    reading = own if direct else "irrelevant"
    everything = np.arange(codes.size)
    settings = _second(found["C"], known.size, int(free.sum()), int(none.sum()))
    if reading == "relevant" and not none.any():  # epsilon has no say
        settings = [s for s in settings if s["epsilon"] == _EPSILONS[0]]
        settings = [{k: v for k, v in s.items() if k != "epsilon"} for s in settings]
    found |= trials.best(settings, {**found, "unlabelled": reading}, everything)
    if free.any() and own != "irrelevant":
        reading = own if direct else "relevant"
        kappas = ({"kappa": kappa} for kappa in _KAPPAS)
        found |= trials.best(kappas, {**found, "unlabelled": reading}, everything)
    return found


def _second(C: float, known: int, free: int, none: int) -> list[dict[str, float]]:
    """What the machine with unlabelled and irrelevant rows may be given."""
    counts = {"C_unlabelled": free, "C_irrelevant": none}
    return [
        {n: share * C * min(1.0, known / count) for n, count in counts.items() if count}
        | {"epsilon": epsilon}
        for share, epsilon in product(_SHARES, _EPSILONS)
    ]
