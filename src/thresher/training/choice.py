"""Which learner, with which settings, when the user gives a budget instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from thresher._threads import cores
from thresher.data import Schema
from thresher.engines import Engine
from thresher.race.capacity import rescaled, smaller, work
from thresher.training.intake import Intake
from thresher.training.sample import Sample, first_rows, rows_in_memory

if TYPE_CHECKING:
    from thresher.race.outcome import Outcome, Unseen
    from thresher.race.runner import Trial

__all__ = ["Choice", "choose", "for_all_rows"]

_IN_MEMORY, _STREAMED = 0.85, 0.5  # share of the budget for the race; the rest is the final fit's


class Choice(NamedTuple):
    """The winner of a race or of a search, and its story; ``tuning`` tells of the search.

    ``fitted``: the race was stopped, and the estimator is the model that was judged in it.
    ``unseen``: what the winner says of rows that it had not seen, to calibrate probabilities on.
    ``rows``: that there is time to learn from; None: all.
    """

    estimator: Any
    reason: str
    trials: list[dict[str, Any]]
    tuning: dict[str, Any] | None = None
    fitted: bool = False
    unseen: Unseen | None = None
    rows: int | None = None


def choose(
    intake: Intake, schema: Schema, classes: np.ndarray, budget: float, started: float, seed: int,
    on_trial: Callable[[Trial], None], stop: Callable[[], bool], prefer: str = "accuracy",
    engine: Engine | None = None,
) -> Choice:  # fmt: skip
    """Race on the rows in memory; on the first rows where there are more than fit.

    With an ``engine`` its workers fit, each on one core.
    """
    from thresher.race.contestants import contestants  # slow to import, and most train without
    from thresher.race.race import Race

    in_memory = intake.kept is not None
    rows = (rows_in_memory if in_memory else first_rows)(intake)
    sparse = schema.layout == "sparse" and not schema.is_table
    assert schema.target is not None
    size, width = rows.X.shape
    jobs = cores() if engine is None else 1
    runners = contestants(schema.target.task, sparse, width, seed, jobs, size)
    deadline = started + (_IN_MEMORY if in_memory else _STREAMED) * budget
    race = Race(
        runners, rows.X, rows.labelled(classes), rows.weight, schema.target.task, deadline, seed,
        on_trial, jobs, stacks=in_memory, prefer=prefer, stop=stop, engine=engine,
    )  # fmt: skip
    outcome = race.run()
    trials = [t.as_dict() for t in outcome.trials]
    # A stream goes on to learn from many more rows: its scores will be others.
    unseen = race.winners.unseen(outcome, classes.size) if in_memory else None
    if outcome.stopped:
        reason = f"{outcome.reason}; the race was stopped: as it was fitted on {outcome.rows} rows"
        return Choice(outcome.model, reason, trials, None, True, unseen)
    estimator = outcome.estimator
    if "map__n_jobs" in estimator.get_params():
        estimator.set_params(map__n_jobs=cores())
    left, reason, some = started + budget - time.monotonic(), outcome.reason, None
    if in_memory:
        some = outcome.affordable(rows.size, left, jobs)
        outcome.grown(some, left)
        if some < rows.size:
            reason += f"; learned from {some:,} of {rows.size:,} rows: there is no time for more"
    else:
        params = _in_time(outcome, intake.rows, left)
        estimator.set_params(**for_all_rows(params, rows, intake))
    if rows.described:
        reason += f"; chosen on {rows.described}, learned from all"
    return Choice(estimator, reason, trials, unseen=unseen, rows=some)


def _in_time(outcome: Outcome, rows: int | None, seconds: float) -> dict[str, Any]:
    """The winner's settings, with a smaller model where all rows would take too long."""
    (winner,), params = outcome.members, dict(outcome.params)
    assert winner.best is not None
    pace = winner.best.learning / work(winner.estimator, winner.best.params, winner.best.rows)
    while rows is not None and pace * work(winner.estimator, params, rows) > seconds:
        fewer = smaller(winner.estimator, params, rows)
        if fewer is None:
            break
        params = fewer
    return params


def for_all_rows(params: dict[str, Any], rows: Sample, intake: Intake) -> dict[str, Any]:
    """Settings that were found on some rows, for all."""
    return rescaled(params, rows.size, intake.rows) if intake.rows else params
