"""Settings scored by workers: the rows are written once, and a task names a setting and a fold.

Nothing is shared between fits, so that a score does not depend on which worker has seen what: the
same trials in the same order make the same study with any number of workers.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from thresher._files import atomic_file
from thresher.data.errors import DataError
from thresher.engines import Engine
from thresher.search.criteria import Criterion
from thresher.search.evaluation import Evaluation, Score
from thresher.search.validation import Fold

__all__ = ["Elsewhere"]

_loaded: dict[str, Evaluation] = {}  # on a worker: the last evaluation that it was asked about


class Elsewhere(Evaluation):
    """An evaluation whose fits are an engine's tasks; its rows go to a file in ``folder``."""

    def __init__(
        self, engine: Engine, folder: str, estimator: Any, X: Any, y: np.ndarray,
        folds: Sequence[Fold], criterion: Criterion, weight: np.ndarray | None = None,
        share: float = 1.0, seed: int = 0,
    ):  # fmt: skip
        super().__init__(estimator, X, y, folds, criterion, weight, share, seed, sharing=False)
        self.engine, self.folder = engine, folder
        self._path = os.path.join(folder, f"{uuid.uuid4().hex}.rows-and-folds")
        self._write()

    def score(self, params: dict[str, Any], fold: int, number: int | None = None) -> Score:
        ((_, score),) = self.engine.run(_score, [(params, fold)], self._path)
        return score

    def thinned(self, share: float) -> Evaluation:
        if share == self.share:
            return self
        return Elsewhere(
            self.engine, self.folder, self.estimator, self.X, self.y, self.folds, self.criterion,
            self.weight, share, self.seed,
        )  # fmt: skip

    def _write(self) -> None:
        import cloudpickle  # comes with Dask, which is there where there are workers

        rows = self.estimator, self.X, self.y, self.folds, self.criterion, self.weight
        with atomic_file(self._path) as file:
            cloudpickle.dump((rows, self.seed), file)


def _score(recipe: tuple[dict[str, Any], int], path: str) -> Score:
    return _evaluation(path).score(*recipe)


def _evaluation(path: str) -> Evaluation:
    if path not in _loaded:
        import cloudpickle

        if not Path(path).exists():
            raise DataError(f"a worker cannot see {path}: the machines must share the folder")
        rows, seed = cloudpickle.loads(Path(path).read_bytes())
        _loaded.clear()
        estimator, X, y, folds, criterion, weight = rows
        _loaded[path] = Evaluation(
            estimator, X, y, folds, criterion, weight, seed=seed, sharing=False
        )
    return _loaded[path]
