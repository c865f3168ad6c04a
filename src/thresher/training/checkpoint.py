"""Saving a running job, and going on from there."""

from __future__ import annotations

import glob
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from thresher._durations import seconds_of
from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.artifacts.encoding import decode, encode
from thresher.estimators.feed import Feed
from thresher.estimators.fronts import Front, MapFront, UnitsFront
from thresher.estimators.ledger import Ledger
from thresher.functions import Units
from thresher.functions.base import check_numbers, require
from thresher.maps.base import FeatureMap
from thresher.solvers.driver import Patience
from thresher.solvers.stream import Stream, Streams
from thresher.training.job import Job, Place, Weights

__all__ = [
    "CheckpointWarning", "Checkpointer", "Every", "ProblemsCheckpointer", "checkpoint_path",
]  # fmt: skip

_MOST_PASSES = 2**31
_PLAIN = ("rows_learned", "history", "shuffle", "seed")


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the training goes on."""


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
                return cls(seconds_of(word), None)
            if float(word) >= 1:
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
    what = "job"
    _last_time: float = field(default_factory=time.monotonic)
    _last_rows: int = 0

    def maybe_save(self, job: Job | Ledger) -> None:
        due = self.every.seconds is not None and (
            time.monotonic() - self._last_time >= self.every.seconds
        )
        full = self.every.rows is not None and job.rows_learned - self._last_rows >= self.every.rows
        if due or full:
            self.try_to_save(job)

    def try_to_save(self, job: Job | Ledger) -> None:
        """A full disk is no reason to end a training: warn, and try again when it is due again."""
        try:
            self.save(job)
        except OSError as error:
            self._last_time, self._last_rows = time.monotonic(), job.rows_learned
            with warnings.catch_warnings():
                warnings.simplefilter("always", CheckpointWarning)
                warnings.warn(f"no checkpoint: {error}", CheckpointWarning, stacklevel=2)

    def save(self, job: Job | Ledger) -> None:
        arrays: dict[str, np.ndarray] = {}
        document = {"task": self.task, self.what: encode(self.snapshot(job), arrays, "checkpoint")}
        container.write(self.path, document, arrays, kind="checkpoint")
        self._last_time, self._last_rows = time.monotonic(), job.rows_learned

    def load(
        self, estimator: Any, features: int, outputs: int, terms: tuple[type, ...] = ()
    ) -> Job:
        """The job of the file, which is as hostile as any other."""
        job = self._read(lambda state: _restored(state, estimator, features, outputs), terms)
        self._last_rows = job.rows_learned
        return job

    def _read(self, restored: Callable[[Any], Any], terms: tuple[type, ...] = ()) -> Any:
        """What the file holds, as ``restored`` makes it of plain values."""
        document, arrays = container.read(self.path, kind="checkpoint")
        if document["version"] != container.VERSION:
            raise BadFile(f"{self.path} was written by another version: start anew")
        self._check_same(document.get("task"))
        state = decode(document.get(self.what), arrays, terms)
        try:
            return restored(state)
        except MemoryError:
            raise
        except Exception as error:  # checks meet damage with a dozen kinds of error
            raise BadFile(f"{self.path} is not a usable checkpoint: {error}") from None

    def remove(self) -> None:
        """The checkpoint, and what a kill in the middle of writing one has left."""
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f".{glob.escape(self.path.name)}.*.tmp"):
            left.unlink(missing_ok=True)

    def snapshot(self, job: Any) -> dict[str, Any]:
        """A job as plain values."""
        return _snapshot(job)

    def _check_same(self, task: Any) -> None:
        if not isinstance(task, dict):
            raise BadFile(f"{self.path} does not say what job it belongs to")
        for name, value in self.task.items():
            if task.get(name) != value:
                raise ValueError(
                    f"{self.path} belongs to another training (other {name}): "
                    "give the same data and options, or start anew without --resume"
                )


class ProblemsCheckpointer(Checkpointer):
    """The same for a fit in memory that solves dual problems: a ledger is all of its job."""

    what = "problems"

    def snapshot(self, job: Any) -> dict[str, Any]:
        return job.snapshot()

    def ledger(self, resume: bool) -> Ledger:
        """To write what fits note; with what the file holds, if there is one to go on from."""
        resume = resume and self.path.exists()
        ledger = self._read(Ledger.restored) if resume else Ledger()
        self._last_rows, ledger.on_change = ledger.rows_learned, self.maybe_save
        return ledger


# ---------------------------------------------------------------- a job as plain values


def _snapshot(job: Job) -> dict[str, Any]:
    """All that it takes to go on: what was found on the first rows, states, the place."""
    feed, patience = job.feed, job.patience
    front, streams = feed.front, feed.stream.parts
    return {
        "place": list(job.place),
        "units": front.units,
        "map": front.map if isinstance(front, MapFront) else None,
        "learners": [(s.problem, s.solver, s.state) for s in streams],
        "offset": feed.offset,
        "passes": feed.passes,
        "weights": list(job.weights),
        "patience": [patience.passes, patience.loss, patience.best_pass, patience.best],
        **{name: getattr(job, name) for name in _PLAIN},
    }


def _restored(state: dict[str, Any], estimator: Any, features: int, outputs: int) -> Job:
    """The job of a snapshot, which must be one for so many features and outputs."""
    _check_counts(state)
    units, made = state["units"], state["map"]
    require(isinstance(units, Units | None), "the units of the rows are damaged")
    front: Front = UnitsFront(units)
    if made is not None:
        require(isinstance(made, FeatureMap), "the map is damaged")
        front = MapFront(units, made, features)
    parts = [Stream(*learner) for learner in state["learners"]]
    stream: Stream | Streams = parts[0] if len(parts) == 1 else Streams(parts)
    feed = Feed(front, stream, state["passes"], estimator.memory, state["offset"])
    feed.check(features, outputs)
    factors, scale = state["weights"]
    if factors is not None:
        check_numbers("the class weights", factors, (max(outputs, 2),))
    require(isinstance(scale, float), "the scale of the weights is not a number")
    known = {name: state[name] for name in _PLAIN}
    patience = _patience(state["patience"], feed)
    return Job(feed, Weights(factors, scale), patience, place=Place(*state["place"]), **known)


def _patience(state: Any, feed: Feed) -> Patience:
    passes, loss, best_pass, best = state
    counts = all(type(n) is int and 0 <= n < _MOST_PASSES for n in (passes, best_pass))
    require(counts and isinstance(loss, float), "the best loss or the best pass is not a number")
    if best is not None:
        now = feed.function()
        require(type(best) is type(now), "the best model is of another kind")
        best.check()
        fits = (best.features, best.outputs) == (now.features, now.outputs)
        require(fits, "the best model was made for other features or classes")
    return Patience(passes, loss, best, best_pass)


def _check_counts(state: dict[str, Any]) -> None:
    """Where a job stands: counts, and the history of its passes."""
    counts = [state["passes"], state["seed"], state["rows_learned"], *state["place"]]
    whole = all(type(n) is int and 0 <= n < 2**63 for n in counts) and len(state["place"]) == 2
    require(whole, "a count is not a whole number")
    require(state["passes"] < _MOST_PASSES, f"{state['passes']} passes are too many")
    known = isinstance(state["history"], list) and isinstance(state["shuffle"], bool)
    require(known, "the history or the order is missing")
    for line in state["history"]:
        numbers = isinstance(line, dict) and all(type(v) in (int, float) for v in line.values())
        require(numbers, "the history is not made of numbers")
    require(isinstance(state["offset"], float), "the mean target is not a number")
    triples = (
        isinstance(state["learners"], list)
        and state["learners"]
        and all(isinstance(t, tuple) and len(t) == 3 for t in state["learners"])
    )
    require(triples, "it has no learners")
