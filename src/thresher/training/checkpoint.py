"""Saving a running job, and going on from there."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import decode, encode
from thresher.estimators._saved import check_units
from thresher.estimators._saving import unpacked
from thresher.estimators._stream import RowStream
from thresher.solvers import Result, Status
from thresher.training.stream import Job, Place, StreamJob, Weights

__all__ = ["Checkpointer", "Every", "checkpoint_path", "linear_job", "where_it_stood"]

J = TypeVar("J", bound=Job)


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

    def maybe_save(self, job: Job) -> None:
        due = self.every.seconds is not None and (
            time.monotonic() - self._last_time >= self.every.seconds
        )
        full = self.every.rows is not None and job.rows_learned - self._last_rows >= self.every.rows
        if due or full:
            self.save(job)

    def save(self, job: Job) -> None:
        arrays: dict[str, np.ndarray] = {}
        document = {"task": self.task, "job": encode(job.snapshot(), arrays, "checkpoint")}
        container.write(self.path, document, arrays, kind="checkpoint")
        self._last_time, self._last_rows = time.monotonic(), job.rows_learned

    def load(self, restored: Callable[[dict[str, Any]], J], terms: tuple[type, ...] = ()) -> J:
        """The job that ``restored`` makes of the snapshot, which is as hostile as any file."""
        document, arrays = container.read(self.path, kind="checkpoint")
        self._check_same(document.get("task"))
        state = decode(document.get("job"), arrays, terms)
        try:
            _check_place(state)
            job = restored(state)
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


def _check_place(state: dict[str, Any]) -> None:
    """Where a job stands: counts, and the history of its passes."""
    counts = [state["passes"], state["seed"], state["rows_learned"], *state["place"]]
    if not all(type(n) is int and n >= 0 for n in counts) or len(state["place"]) != 2:
        raise ValueError("a count is not a whole number")
    if not isinstance(state["history"], list) or not isinstance(state["shuffle"], bool):
        raise ValueError("the history or the order is missing")
    if not isinstance(state["best_loss"], float) or type(state["best_pass"]) is not int:
        raise ValueError("the best loss or the best pass is not a number")


def where_it_stood(state: dict[str, Any], features: int, outputs: int) -> dict[str, Any]:
    """The fields that every job has; weights are for so many features and outputs."""
    names = ("passes", "shuffle", "seed", "rows_learned", "history", "best_loss", "best_pass")
    best = state["best"] and [
        Result(coef, intercept, Status.EARLY_STOPPED, passes, None)
        for coef, intercept, passes in state["best"]
    ]
    if best and sum(np.size(r.coef) for r in best) != features * outputs:
        raise ValueError("the best model was made for other features or classes")
    known = {name: state[name] for name in names}
    return {"place": Place(*state["place"]), "best": best, **known}


def linear_job(state: dict[str, Any], features: int, outputs: int) -> StreamJob:
    """The job of a snapshot, which must be one for so many features and outputs."""
    stream, units = unpacked(state["stream"]), unpacked(state["units"])
    if not isinstance(stream, RowStream):
        raise ValueError("it has no learners")
    stream.check(features, outputs)
    check_units(units, features)
    factors, scale = state["weights"]
    if factors is not None and factors.shape != (max(outputs, 2),):
        raise ValueError("the class weights do not fit the classes")
    if not isinstance(scale, float):
        raise ValueError("the scale of the weights is not a number")
    return StreamJob(
        stream=stream,
        units=units,
        weights=Weights(factors, scale),
        **where_it_stood(state, features, outputs),
    )
