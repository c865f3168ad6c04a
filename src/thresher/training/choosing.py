"""Which learner, with which settings, when the user gives a budget instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thresher.data import Schema
from thresher.data.dataset import gathered
from thresher.training.holdout import block_of
from thresher.training.intake import Intake
from thresher.training.model import matrix_of
from thresher.tune.auto import contestants
from thresher.tune.race import Race, Trial

__all__ = ["Choice", "choose"]

_IN_MEMORY, _STREAMED = 0.85, 0.5  # share of the budget for the race; the rest is the final fit's
_FAMILIES = {"sparse linear": "linear"}


class Choice(NamedTuple):
    """The winner of a race, and its story."""

    learner: str
    estimator: Any
    reason: str
    trials: list[dict[str, Any]]


def choose(
    intake: Intake, schema: Schema, classes: np.ndarray, budget: float, started: float, seed: int,
    told: Callable[[Trial], None],
) -> Choice:  # fmt: skip
    """Race on the rows in memory; on the first rows where there are more than fit."""
    if intake.kept is not None:
        blocks = (block_of(b).taken(~intake.hold.mask(b)) for b in intake.kept)
        block = next(gathered(blocks, max(intake.rows or 0, 1)))
    else:
        block = intake.sample
    assert block.y is not None
    y = classes[block.y.astype(np.int64)] if classes.size else block.y
    sparse = schema.layout == "sparse" and not schema.is_table
    runners = contestants(classes.size == 0, sparse, seed)
    share = _IN_MEMORY if intake.kept is not None else _STREAMED
    X = matrix_of(block.rows(schema.n_features))
    deadline = started + share * budget
    race = Race(runners, X, y, block.weight, classes.size == 0, deadline, seed, told)
    outcome = race.run()
    params = dict(outcome.params)
    if params.get("alpha") is not None and intake.rows:
        params["alpha"] *= block.size / intake.rows  # alpha n is what carries over
    estimator = runners[outcome.name].set_params(**params)
    learner = _FAMILIES.get(outcome.name, outcome.name)
    reason = outcome.reason
    if intake.kept is None:
        reason += f"; chosen on the first {block.size:,} rows, learned from all"
    return Choice(learner, estimator, reason, [t.as_dict() for t in outcome.trials])
