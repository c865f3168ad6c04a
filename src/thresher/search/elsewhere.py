"""Settings scored by workers: the rows are written once, and a task names a setting and a fold.

Nothing is shared between fits, so that a score does not depend on which worker has seen what: the
same trials in the same order make the same study with any number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thresher.engines import Engine
from thresher.engines.handed import Handed
from thresher.search.criteria import Criterion
from thresher.search.evaluation import Evaluation, Score
from thresher.search.validation import Fold

__all__ = ["Elsewhere"]


class Elsewhere(Evaluation):
    """An evaluation whose fits are an engine's tasks; its rows go to a file in ``folder``."""

    def __init__(
        self, engine: Engine, folder: str, estimator: Any, X: Any, y: np.ndarray,
        folds: Sequence[Fold], criterion: Criterion, weight: np.ndarray | None = None,
        share: float = 1.0, seed: int = 0,
    ):  # fmt: skip
        super().__init__(estimator, X, y, folds, criterion, weight, share, seed, sharing=False)
        self.engine, self.folder = engine, folder
        rows = self.estimator, self.X, self.y, self.folds, self.criterion, self.weight, self.seed
        self._rows = Handed.over(rows, folder)

    def score(self, params: dict[str, Any], fold: int, number: int | None = None) -> Score:
        ((_, score),) = self.engine.run(_score, [(params, fold)], self._rows)
        return score

    def thinned(self, share: float) -> Evaluation:
        if share == self.share:
            return self
        return Elsewhere(
            self.engine, self.folder, self.estimator, self.X, self.y, self.folds, self.criterion,
            self.weight, share, self.seed,
        )  # fmt: skip


def _score(recipe: tuple[dict[str, Any], int], rows: Handed) -> Score:
    return rows.made(_evaluation).score(*recipe)


def _evaluation(
    estimator: Any, X: Any, y: np.ndarray, folds: Sequence[Fold], criterion: Criterion,
    weight: np.ndarray | None, seed: int,
) -> Evaluation:  # fmt: skip
    return Evaluation(estimator, X, y, folds, criterion, weight, seed=seed, sharing=False)
