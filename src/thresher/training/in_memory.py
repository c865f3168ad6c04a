"""Learning from rows that fit in memory: the estimator's own ``fit``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from thresher.data import Batch
from thresher.data.dataset import gathered
from thresher.solvers import Status
from thresher.training.holdout import block_of
from thresher.training.intake import Intake
from thresher.training.model import matrix_of

__all__ = ["fit_in_memory"]


def fit_in_memory(
    estimator: Any, intake: Intake, classes: np.ndarray, callback: Callable[[Any], bool]
) -> Status:
    """Fit on all rows that are not held out; ``callback`` hears of every pass and may stop it."""
    assert intake.kept is not None
    hold = intake.hold
    blocks = (block_of(b).taken(~hold.mask(b)) for b in _emptied(intake.kept))
    block = next(gathered(blocks, max(intake.rows or 0, 1)))
    assert block.y is not None
    y = classes[block.y.astype(np.int64)] if classes.size else block.y
    estimator.callbacks = [callback]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status is reported with the model
            X = matrix_of(block.rows(intake.data.schema.n_features))
            estimator.fit(X, y, sample_weight=block.weight)
    finally:
        estimator.callbacks = None
    return Status(estimator.status_)


def _emptied(batches: list[Batch]) -> Iterator[Batch]:
    """The windows are given back as they are copied side by side."""
    while batches:
        yield batches.pop(0)
