"""Linear learning from rows that do not fit in memory: making the job, and running it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from thresher.data import Batch
from thresher.estimators._input import units_from, wants_units
from thresher.estimators._stream import RowStream
from thresher.solvers import Chunk, Result, Solver, Status
from thresher.training.intake import Intake
from thresher.training.running import Running
from thresher.training.stream import StreamJob, Weights

__all__ = ["Streaming", "new_job"]


class Streaming(Running[StreamJob]):
    """Runs a linear job and keeps the estimator up to date with it."""

    def __init__(self, *parts: Any, targets: Callable[[np.ndarray], np.ndarray]):
        super().__init__(*parts)
        self.targets = targets

    def _learn(self, batch: Batch, held: np.ndarray) -> None:
        self.job.learn(batch, held, self.targets)

    def _results(self) -> list[Result]:
        return self.job.results()

    def _follow(self) -> None:
        self._store(self.job.results(), Status.COMPLETED)

    def _ended(self, status: Status) -> Status:
        return self._store(self.job.best or self.job.results(), status)

    def _store(self, results: list[Result], status: Status) -> Status:
        """The model as it stands becomes the estimator's; one that diverged does not."""
        estimator = self.estimator
        problem, solver, _ = self.job.stream.learners[0]
        if any(r.status is Status.DIVERGED for r in results):
            if hasattr(estimator, "coef_"):
                estimator.status_ = Status.DIVERGED
                return Status.DIVERGED
            status = Status.DIVERGED
            for r in results:
                r.coef, r.intercept = np.zeros_like(r.coef), np.zeros_like(r.intercept)
        for r in results:
            r.status = status
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status is reported with the model
            estimator._store(results, self.job.units, problem, solver)
        estimator.n_features_in_ = self.schema.n_features
        if self.schema.target is not None and self.schema.target.classes:
            estimator.classes_ = np.array(self.schema.target.classes)
        return status


# ---------------------------------------------------------------- a new job


def new_job(
    estimator: Any, intake: Intake, targets: Callable[[np.ndarray], np.ndarray], outputs: int,
    passes: int | None, seed: int,
) -> StreamJob:  # fmt: skip
    """Units, weights, terms and step sizes, all from the first look at the data."""
    schema, sample = intake.data.schema, intake.sample
    units = None
    if wants_units(estimator.scale):
        units = units_from(intake.moments, estimator.fit_intercept and schema.layout == "dense")
    weights = _weights(estimator, intake)
    rows = sample.rows(schema.n_features)
    rows = units.apply(rows) if units else rows
    assert sample.y is not None
    weight = weights.of(sample.y, sample.weight)
    order = np.flatnonzero(weight > 0.0).astype(np.uint32)
    y = np.ascontiguousarray(targets(sample.y), dtype=rows.dtype)
    chunk = Chunk(rows, y, weight, order)
    mass = intake.mass if intake.rows is not None else None
    setup = estimator._setup(rows, chunk, outputs, mass, streaming=True)
    passes = _passes(intake, setup.solver, passes or estimator.max_iter)
    visits = None if intake.rows is None else passes * intake.rows
    stream = RowStream.open(setup.problem, setup.solver, chunk, visits)
    return StreamJob(
        stream=stream, units=units, weights=weights, passes=passes,
        shuffle=estimator.order != "sequential", seed=seed,
    )  # fmt: skip


def _passes(intake: Intake, solver: Solver, wanted: int | None) -> int:
    if not intake.repeatable:
        if wanted is not None and wanted > 1:
            raise ValueError(
                f"{intake.data.name} can be read only once and does not fit in memory: "
                "ask for one pass"
            )
        return 1
    if wanted is not None:
        return wanted
    if intake.rows is None:
        return 1
    return solver.planned_passes((intake.rows, intake.data.schema.n_features))


def _weights(estimator: Any, intake: Intake) -> Weights:
    """Class weights from the counts, and weights scaled so that their mean is one."""
    scale = 1.0
    if intake.data.schema.weight is not None and intake.mass > 0.0:
        scale = (intake.looked - intake.hold.size) / intake.mass
    given = getattr(estimator, "class_weight", None)
    if given is None:
        return Weights(None, scale)
    if isinstance(given, str):
        return Weights(intake.balanced_factors(), scale)
    target = intake.data.schema.target
    assert target is not None
    return Weights(np.array([float(given.get(c, 1.0)) for c in target.classes]), scale)
