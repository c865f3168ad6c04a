"""How a race ended: the winner, a learner or a stack of them, with all that its last fit needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from thresher.maps.stack import StackFeatures
from thresher.race.capacity import capacity, grows, larger, rescaled
from thresher.race.runner import Runner, Trial, seconds_of
from thresher.race.stacking import Stack
from thresher.registry import LEARNERS

__all__ = ["Outcome", "Unseen", "of_runner", "of_stack"]

_SAFE = 0.8  # of the time that is left, for the trees of the last fit
CLEARLY_MORE = 1.2  # times the trees


@dataclass
class Outcome:
    """The winner with its settings for all rows, why it was taken, and everything tried.

    ``model`` is the one that was judged, learned from ``rows`` rows; ``scores`` and ``misses`` are
    of the rows ``judged``, none of which the model that gave them had seen.
    """

    name: str
    estimator: Any  # not fitted
    params: dict[str, Any]
    model: Any
    rows: int
    reason: str
    members: list[Runner]
    judged: np.ndarray
    scores: np.ndarray | None
    misses: np.ndarray
    trials: list[Trial]
    stopped: bool = False  # somebody asked for an end

    def again(self, rows: int, jobs: int = 1) -> float:
        """Seconds of a fit on so many rows, by so many threads."""
        return seconds_of(self.members, rows, jobs)

    def affordable(self, rows: int, seconds: float, jobs: int = 1) -> int:
        """As many of so many rows as there is time to learn from; those of the judged model at
        least."""
        while rows > self.rows and self.again(rows, jobs) > seconds:
            rows = int(0.9 * rows)
        return max(rows, self.rows)

    def grown(self, rows: int, seconds: float) -> Any:
        """The estimator for a fit on so many rows; a forest gets the trees there is time for."""
        factor = _SAFE * seconds / self.again(rows)
        if len(self.members) == 1 and grows(self.estimator) and factor > CLEARLY_MORE:
            winner = self.members[0]
            assert winner.best is not None
            more = larger(winner.estimator, winner.best.params, rows, factor)
            trees = {name: more[name] for name in capacity(self.estimator, rows)}
            self.params.update(trees)
            self.estimator.set_params(**trees)
        return self.estimator


class Unseen(NamedTuple):
    """Scores of rows that the model had not learned from, with their class numbers."""

    scores: np.ndarray
    codes: np.ndarray
    weight: np.ndarray | None


def settled(runner: Runner, rows: int) -> tuple[dict[str, Any], Any]:
    """The best settings for so many rows, and the estimator with them, not fitted."""
    assert runner.best is not None
    params = runner.units | rescaled(runner.best.params, runner.best.rows, rows)
    return params, clone(runner.estimator).set_params(**params)


def of_runner(
    runner: Runner, rows: int, judged: np.ndarray, reason: str, trials: list[Trial]
) -> Outcome:
    """A single learner has won."""
    assert runner.top is not None
    assert runner.best is not None
    params, estimator = settled(runner, rows)
    return Outcome(
        runner.name, estimator, params, runner.top.model, runner.best.rows, reason, [runner],
        judged, runner.top.scores, runner.top.misses, trials,
    )  # fmt: skip


def _assembled(estimator: Any, models: list[Any], stack: Stack) -> Any:
    """The stack of models as they are; the best of them where one has not seen all classes."""
    functions, outputs = [model.function_ for model in models], int(stack.pool.offsets.size)
    if any(function.outputs != outputs for function in functions):
        return models[0]
    made = clone(estimator.map).taking(functions, stack.pool)
    return clone(estimator).assembled(made, made.pooled(outputs), models[0])


def of_stack(
    stack: Stack, task: str, rows: int, judged: np.ndarray, reason: str, trials: list[Trial]
) -> Outcome:
    """Several learners have won together."""
    estimators = [settled(runner, rows)[1] for runner in stack.members]
    weights, offsets = stack.pool
    made = StackFeatures(estimators, weights=weights.tolist(), offsets=offsets.tolist())
    estimator = LEARNERS.estimator("kernel", task)(
        map=made, random_state=estimators[0].random_state
    )
    tops = [runner.top for runner in stack.members if runner.top is not None]
    model = _assembled(estimator, [top.model for top in tops], stack)
    params = {"members": [runner.name for runner in stack.members]}
    name = " + ".join(runner.name for runner in stack.members)
    return Outcome(
        name, estimator, params, model, min(top.trial.rows for top in tops), reason,
        stack.members, judged, stack.scores, stack.misses, trials,
    )  # fmt: skip
