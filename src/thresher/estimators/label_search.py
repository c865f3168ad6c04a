"""Fits of machines for few labels: one setting, or the best of several for hidden labels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from thresher._seed import seed_from
from thresher.estimators.label_fit import ExactSpace, Found, LandmarkSpace
from thresher.estimators.label_folds import Labels, best_trial
from thresher.estimators.neighbours import neighbour_laplacian
from thresher.estimators.support_fit import Watch
from thresher.kernels.width import resolve_kernel
from thresher.maps.nystroem import Nystroem
from thresher.solvers.dual import DualEvent
from thresher.solvers.label_machines import LabelMachine

__all__ = ["LabelSearch"]

_WIDTHS = (0.25, 1.0, 4.0, 16.0)  # times the median's, to choose among
_CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_MANY = 20_000  # rows beyond which no neighbours are sought unless asked for


class LabelSearch:
    """The settings that an estimator's parameters stand for, fitted one after the other.

    Parameters
    ----------
    wishes : SemiSupervisedClassifier
        Whose parameters say what is given and what is to be chosen ("cv").
    machine : LabelMachine
        With what is given.
    watch : Watch
        Told of every setting; who stops it keeps the best so far.
    """

    def __init__(self, wishes: Any, machine: LabelMachine, watch: Watch):
        self.wishes, self.machine, self.watch = wishes, machine, watch
        self.seed = seed_from(wishes.random_state)

    def run(self, X: Any, weight: np.ndarray, labels: Labels) -> tuple[Found, list[dict[str, Any]]]:
        """The best setting, and all that were judged; none is where there is nothing to choose."""
        wishes, machine = self.wishes, self.machine
        strengths = machine.strengths if wishes.unlabelled == "cv" else (machine.unlabelled,)
        Cs = _CS if wishes.C == "cv" else (machine.C,)
        choosing = "cv" in (wishes.C, wishes.unlabelled, wishes.gamma)
        folds = labels.folds(wishes.folds, self.seed, wishes.classes_) if choosing else []
        laplacian = self._laplacian(X) if machine.uses_graph else None
        best: Found | None = None
        tried: list[dict[str, Any]] = []
        for gamma in self._gammas(X):
            space = self._space(X, gamma, weight, labels)
            for strength in strengths:
                own = dataclasses.replace(machine, unlabelled=strength)
                bent = own.bend(space.inner, labels.outputs, laplacian)
                trial = best_trial(own, Cs, bent, labels, folds)
                tried += [{"gamma": gamma, **row} for row in trial.told]
                if best is None or trial.rank < best.trial.rank:
                    best = Found(space, bent, trial)
                if self._is_over(len(tried), trial.error, labels):
                    return best, tried
        assert best is not None
        return best, tried

    def _is_over(self, tried: int, error: float | None, labels: Labels) -> bool:
        tell = self.watch.monitor(None)
        told = DualEvent(tried, error or 0.0, 0.0, labels.rows.size, labels.weight)
        return (tell is not None and tell(told) is not None) or self.watch.is_over()

    def _gammas(self, X: Any) -> list[Any]:
        if self.wishes.gamma != "cv":
            return [self.wishes.gamma]
        middle: Any = resolve_kernel(self.wishes.kernel, "median", X, self.seed)
        return [factor * middle.gamma for factor in _WIDTHS]

    def _laplacian(self, X: Any) -> Any:
        near = self.wishes.n_neighbors
        if near == "auto":
            near = 10 if X.shape[0] <= _MANY else None
        return None if near is None else neighbour_laplacian(X, int(near))

    def _space(
        self, X: Any, gamma: Any, weight: np.ndarray, labels: Labels
    ) -> ExactSpace | LandmarkSpace:
        """All rows where two kernel matrices of them fit, or landmarks."""
        wishes, n = self.wishes, X.shape[0]
        size = wishes.n_components
        fits = 16.0 * n * n <= wishes.memory
        if isinstance(size, str) and size == "full" and not fits:
            raise ValueError(
                f"n_components='full' of {n:,} rows needs {16 * n * n:,} bytes for two kernel "
                "matrices: raise memory to that, or ask for landmarks"
            )
        plain = isinstance(size, str) and size in ("auto", "full")
        made: ExactSpace | LandmarkSpace
        if plain and fits and isinstance(wishes.landmarks, str):
            kernel = resolve_kernel(wishes.kernel, gamma, X, self.seed)
            made = ExactSpace.of(kernel, X, weight, labels)
        else:
            features = Nystroem(
                size, kernel=wishes.kernel, gamma=gamma, landmarks=wishes.landmarks,
                random_state=self.seed,
            )  # fmt: skip
            made = LandmarkSpace.of(features.learn(X), X, weight, labels, wishes.memory)
        if self.machine.centres:
            made.inner.centre()
        return made
