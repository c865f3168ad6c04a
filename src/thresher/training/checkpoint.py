"""Saving a running job, and going on from there."""

from __future__ import annotations

import glob
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import decode, encode
from thresher.estimators._input import Units
from thresher.estimators._stream import RowStream
from thresher.solvers import Problem, Result, Solver, Status
from thresher.training.stream import Place, StreamJob, Weights

__all__ = ["Checkpointer", "Every", "checkpoint_path"]

_FIELDS = ("passes", "shuffle", "seed", "rows_learned", "history", "best_loss", "best_pass")


@dataclass(frozen=True)
class Every:
    """How often: after so many seconds, or so many rows, whichever is given."""

    seconds: float | None = 60.0
    rows: int | None = None

    @classmethod
    def parse(cls, text: str) -> Every:
        """'30s', '5m' (minutes), or a number of rows such as '1000000' or '1e6'."""
        word = text.strip().lower().removesuffix("rows").strip()
        try:
            if word[-1:] in ("s", "m", "h"):
                seconds = float(word[:-1]) * {"s": 1, "m": 60, "h": 3600}[word[-1]]
                if seconds > 0.0:
                    return cls(seconds, None)
            elif float(word) >= 1:
                return cls(None, int(float(word)))
        except ValueError:
            pass
        raise ValueError(
            f"{text!r} is not an interval: give seconds ('30s', '5m') or rows ('1000000')"
        )


def checkpoint_path(model: str | os.PathLike[str]) -> Path:
    path = Path(model)
    return path.with_name(path.name + ".checkpoint")


@dataclass
class Checkpointer:
    """Writes a job now and then, and reads it back if it is the same job."""

    path: Path
    every: Every
    task: dict[str, Any]  # data, schema and options: what makes it the same job
    _last_time: float = field(default_factory=time.monotonic)
    _last_rows: int = 0

    def maybe_save(self, job: StreamJob) -> None:
        due = self.every.seconds is not None and (
            time.monotonic() - self._last_time >= self.every.seconds
        )
        full = self.every.rows is not None and job.rows_learned - self._last_rows >= self.every.rows
        if due or full:
            self.save(job)

    def save(self, job: StreamJob) -> None:
        arrays: dict[str, np.ndarray] = {}
        state: dict[str, Any] = {name: getattr(job, name) for name in _FIELDS}
        state["learners"] = job.stream.learners
        state["outputs"] = job.stream.outputs
        state["place"] = list(job.place)
        state["units"] = None if job.units is None else list(job.units)
        state["weights"] = [job.weights.factors, job.weights.scale]
        state["best"] = job.best and [[r.coef, r.intercept, r.passes] for r in job.best]
        document = {"task": self.task, "job": encode(state, arrays, "checkpoint")}
        container.write(self.path, document, arrays, kind="checkpoint")
        self._last_time, self._last_rows = time.monotonic(), job.rows_learned

    def load(self, features: int, outputs: int, terms: tuple[type, ...] = ()) -> StreamJob:
        """The job as it was saved; it must be one for so many features and outputs."""
        document, arrays = container.read(self.path, kind="checkpoint")
        self._check_same(document.get("task"))
        state = decode(document.get("job"), arrays, terms)
        try:
            job = _job(state)
            problem = job.stream.learners[0][0]
            if (problem.n_features, job.stream.outputs) != (features, outputs):
                raise ValueError("it was made for other features or classes")
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise BadFile(f"{self.path} is not a usable checkpoint: {error}") from None
        self._last_rows = job.rows_learned
        return job

    def remove(self) -> None:
        """The checkpoint, and what a kill in the middle of writing one has left."""
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            left.unlink(missing_ok=True)

    def _check_same(self, task: Any) -> None:
        if not isinstance(task, dict):
            raise BadFile(f"{self.path} does not say what job it belongs to")
        for name, value in self.task.items():
            if task.get(name) != value:
                raise ValueError(
                    f"{self.path} belongs to another training (other {name}): "
                    "give the same data and options, or start anew without --resume"
                )


def _check_state(problem: Problem, solver: Solver, state: Any) -> None:
    """Compiled loops trust a state: it must have the shapes and the features of a new one."""
    if not (isinstance(problem, Problem) and isinstance(solver, Solver) and solver.streaming):
        raise ValueError("a learner is not one of ours")
    fresh = solver.init(problem)
    if type(state) is not type(fresh):
        raise ValueError(f"a state of {type(solver).__name__} is a {type(fresh).__name__}")
    for name, expected, found in zip(fresh._fields, fresh, state, strict=True):
        if not isinstance(expected, np.ndarray):
            continue
        if not isinstance(found, np.ndarray) or found.dtype != expected.dtype:
            raise ValueError(f"the state's {name} is not an array of {expected.dtype}")
        if found.shape != expected.shape:
            raise ValueError(f"the state's {name} has shape {found.shape}, not {expected.shape}")
        if name in solver.index_fields and not np.all((found >= -1) & (found < found.size)):
            raise ValueError(f"the state's {name} points beyond the features")
    if not 0 <= getattr(state, "n_active", 0) <= problem.n_features:
        raise ValueError("the state counts more features than there are")


def _check_parts(state: dict[str, Any], learners: int, features: int) -> None:
    """The rest of a job: numbers in range, arrays as long as there are features."""
    outputs = state["outputs"]
    if learners not in (1, outputs) or not 1 <= outputs <= 10**6:
        raise ValueError(f"{learners} learners for {outputs} outputs")
    if state["units"] is not None:
        shift, scale = state["units"]
        for array in (scale, scale if shift is None else shift):
            if array.shape != (features,) or not np.all(np.isfinite(array)):
                raise ValueError("the scales do not fit the features")
    factors, scale = state["weights"]
    if factors is not None and factors.shape != (max(outputs, 2),):
        raise ValueError("the class weights do not fit the classes")
    if not isinstance(scale, float):
        raise ValueError("the scale of the weights is not a number")
    whole = [state["passes"], state["seed"], state["rows_learned"], state["best_pass"]]
    if not all(type(n) is int and n >= 0 for n in [*whole, *state["place"]]):
        raise ValueError("a count is not a whole number")
    if not isinstance(state["history"], list) or not isinstance(state["shuffle"], bool):
        raise ValueError("the history or the order is missing")
    if not isinstance(state["best_loss"], float):
        raise ValueError("the best loss is not a number")


def _job(state: dict[str, Any]) -> StreamJob:
    learners = [(problem, solver, held) for problem, solver, held in state["learners"]]
    for problem, solver, held in learners:
        _check_state(problem, solver, held)
    _check_parts(state, len(learners), learners[0][0].n_features if learners else 0)
    best = state["best"]
    return StreamJob(
        stream=RowStream(learners, int(state["outputs"])),
        units=None if state["units"] is None else Units(*state["units"]),
        weights=Weights(*state["weights"]),
        place=Place(*map(int, state["place"])),
        best=best and [Result(c, b, Status.EARLY_STOPPED, p, None) for c, b, p in best],
        **{name: state[name] for name in _FIELDS},
    )
