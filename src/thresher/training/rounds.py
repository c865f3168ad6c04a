"""Passes over shards: workers learn from theirs, what they have learned is merged, and so on.

A round starts everybody from the same state.  Its end is a function of the shards and of nothing
else: not of the number of workers, nor of who was first, nor of tasks that had to be run twice.
One shard is one stream, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from thresher._clock import is_over
from thresher.data import Batch, DataSet
from thresher.engines import Engine, in_order
from thresher.estimators.feed import Feed
from thresher.solvers.base import Problem, State
from thresher.solvers.stream import Stream, Streams
from thresher.training.intake import Intake
from thresher.training.job import Job, Place

__all__ = ["Rounds", "check_mergeable"]

_PRACTICE = 64  # rows that compile what is to be run


class Lesson(NamedTuple):
    """All that a worker needs besides its rows."""

    estimator: Any
    job: Job
    hold: Any
    window: int


class Learned(NamedTuple):
    """The states of a shard's learners, its rows and their mass, and the number of its first."""

    states: list[State]
    rows: int
    mass: float
    first: int


class _StopAsked(Exception):
    """Somebody wants an end in the middle of a round."""


class _OutOfTime(Exception):
    """The time is up in the middle of a round."""


def check_mergeable(stream: Stream | Streams, shards: int) -> None:
    """Refuse, before any work, a solver whose states of several shards make no one state."""
    solver = stream.solver
    if shards > 1 and solver.no_merger:
        raise ValueError(
            f"{type(solver).__name__} cannot learn from {shards} shards side by side, since "
            f"{solver.no_merger}: use another solver or learner, or shards=1"
        )


class Rounds:
    """The rounds that are left of a job."""

    def __init__(
        self, engine: Engine, estimator: Any, intake: Intake, job: Job,
        on_rows: Callable[[int], None], stop: Callable[[], bool],
    ):  # fmt: skip
        assert intake.shards is not None
        self.engine, self.job, self.shards = engine, job, intake.shards
        self.on_rows, self.stop = on_rows, stop
        self.lesson = Lesson(estimator, job, intake.hold.without_rows(), intake.window)
        check_mergeable(job.feed.stream, len(self.shards))
        practice = intake.sample.taken(np.arange(min(_PRACTICE, intake.sample.size)))
        _practise(practice, self.lesson)  # compiled here, for all workers of this machine
        engine.prepare(_practise, practice, self.lesson)

    def passes(self) -> Iterator[Iterator[int]]:
        """Each the number of a round, unless a checkpoint was taken at its very end."""
        while self.job.place.passes < self.job.feed.passes:
            yield self._round()

    def _round(self) -> Iterator[int]:
        if not self.job.has_begun_pass:
            yield self.job.place.passes
        self.job.place = Place(self.job.place.passes + 1, 0)

    def learn(self, number: int) -> None:
        """Everybody's pass over their shard, and the merger; nothing if a stop was asked for.

        Where the time is up, what has come in by then is merged.
        """
        answers: list[Learned] = []

        def on_answer(learned: Learned) -> None:
            answers.append(learned)
            self.on_rows(sum(a.rows for a in answers))
            if self.stop():
                raise _StopAsked
            if is_over():
                raise _OutOfTime

        try:
            in_order(self.engine, _learn, self.shards, self.lesson, on_answer)
        except _StopAsked:
            return
        except _OutOfTime:
            pass
        answers.sort(key=attrgetter("first"))
        for part, states in zip(
            self.job.feed.stream.parts, zip(*(a.states for a in answers), strict=True), strict=True
        ):
            masses = [a.mass for a in answers]
            part.state = _merged(part, list(states), masses)
        self.job.rows_learned += sum(a.rows for a in answers)
        self.job.place = Place(number, 1)


def _merged(part: Stream, states: list[State], masses: list[float]) -> State:
    if len(states) == 1:
        return states[0]
    return part.solver.merge(part.problem, states, part.state, masses)


def _practise(batch: Batch, lesson: Lesson) -> None:
    """What :func:`_learn` does, on a few rows, for nothing."""
    job = _own(lesson.job)
    for chunk in job.chunks(batch, np.zeros(batch.size, dtype=bool), 0, lesson.estimator):
        job.feed.stream.update(chunk)


def _learn(shard: DataSet, lesson: Lesson) -> Learned:
    """One pass over a shard, from the state of all."""
    job, mass = _own(lesson.job, shard.first), 0.0
    before = job.rows_learned
    start = shard.first // lesson.window  # the numbers of its windows are those of the whole
    for k, batch in enumerate(shard.chunks(lesson.window)):
        held = lesson.hold.mask(batch)
        for chunk in job.chunks(batch, held, start + k, lesson.estimator):
            job.feed.stream.update(chunk)
            mass += float(np.sum(chunk.weight[chunk.order]))
    states = [part.state for part in job.feed.stream.parts]
    return Learned(states, job.rows_learned - before, mass, shard.first)


def _reseeded(problem: Problem, first: int) -> Problem:
    return replace(problem, seed=(problem.seed + first) % 2**63) if first else problem


def _own(job: Job, first: int = 0) -> Job:
    """The job with states of its own, since tasks share what they are given.

    Draws are a function of the seed and of counters that are alike in all shards: a shard has a
    seed of its own, by the number of its first row.
    """
    parts = [
        replace(p, state=p.solver.copy(p.state), problem=_reseeded(p.problem, first))
        for p in job.feed.stream.parts
    ]
    stream = parts[0] if isinstance(job.feed.stream, Stream) else Streams(parts)
    feed: Feed = replace(job.feed, stream=stream)
    return replace(job, feed=feed, history=[])
