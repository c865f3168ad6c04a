"""Streams for learners that are not linear: their own ``partial_fit``, window by window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher.data import Batch, Schema
from thresher.estimators._resuming import resume_stream, stream_state
from thresher.solvers import Result, Status
from thresher.training.checkpoint import where_it_stood
from thresher.training.intake import Intake
from thresher.training.model import matrix_of
from thresher.training.running import Running
from thresher.training.stream import Job

__all__ = ["FedJob", "PartialFits", "fed_job", "new_fed_job", "settle"]

_PASSES = 5


@dataclass(kw_only=True)
class FedJob(Job):
    """An estimator that is fed by ``partial_fit``; what it has learned is part of the job."""

    estimator: Any

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "estimator": stream_state(self.estimator)}


class PartialFits(Running[FedJob]):
    """Runs such a job: an estimator that learns is always up to date."""

    def _learn(self, batch: Batch, held: np.ndarray) -> None:
        assert batch.y is not None
        assert self.schema.target is not None
        weight = batch.weight
        order = self.job.order(~held if weight is None else ~held & (weight > 0.0))
        if not order.size:
            return
        y, named = batch.y[order], {}
        if self.schema.target.classes:
            classes = np.array(self.schema.target.classes)
            y, named = classes[y.astype(np.int64)], {"classes": classes}
        chosen = None if weight is None else weight[order]
        X = matrix_of(batch.rows)[order]
        self.estimator.partial_fit(X, y, sample_weight=chosen, **named)
        self.job.rows_learned += order.size

    def _results(self) -> list[Result]:
        return self.estimator._stream.results(self.job.place.passes)

    def _ended(self, status: Status) -> Status:
        """Divergence, which only the estimator knows of, goes before all else."""
        estimator = self.estimator
        if self.job.best and estimator.status_ is not Status.DIVERGED:
            estimator._store(self.job.best, None, *estimator._stream.learners[0][:2])
        estimator.n_iter_ = max(self.job.place.passes, 1)
        if estimator.status_ is not Status.DIVERGED:
            estimator.status_ = status
        return estimator.status_


def settle(estimator: Any, intake: Intake, schema: Schema) -> None:
    """What a stream cannot find out by itself but the first look has: rows and classes."""
    own_rule = hasattr(estimator, "algorithm")  # hyperplanes
    if intake.rows is not None and estimator.alpha is None and not own_rule:
        estimator.alpha = getattr(estimator, "_usual_strength", 1.0) / max(intake.mass, 1.0)
    if getattr(estimator, "class_weight", None) == "balanced":
        assert schema.target is not None
        classes = np.array(schema.target.classes).tolist()
        factors = intake.balanced_factors().tolist()
        estimator.class_weight = dict(zip(classes, factors, strict=True))


def new_fed_job(estimator: Any, intake: Intake, passes: int | None, seed: int) -> FedJob:
    planned = (passes or estimator.max_iter or _PASSES) if intake.repeatable else 1
    shuffle = estimator.order != "sequential"
    return FedJob(estimator=estimator, passes=planned, shuffle=shuffle, seed=seed)


def fed_job(state: dict[str, Any], estimator: Any) -> FedJob:
    """The job of a snapshot; ``estimator`` takes up what it has learned."""
    resume_stream(estimator, state["estimator"])
    outputs, features = np.shape(getattr(estimator, "coef_", np.empty((0, 0))))
    return FedJob(estimator=estimator, **where_it_stood(state, features, outputs))
