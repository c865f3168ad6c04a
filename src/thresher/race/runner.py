"""Who takes part in a race: a family of learners, what it has tried, and how long that took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from typing import Any, NamedTuple

import numpy as np

from thresher._scores import best_class
from thresher.race.capacity import work
from thresher.search.plain import plain

__all__ = ["WIDE_ROWS", "Attempt", "Runner", "Trial", "misses_of", "seconds_of"]

WIDE_ROWS = 20_000  # of fewer, fits side by side keep the cores busier than threads in each fit


class Trial(NamedTuple):
    """One setting: who, on how many rows, how well, how fast a fit, and in how many folds.

    ``seconds`` of learning and judging; ``learning`` is the first of these.
    """

    runner: str
    params: dict[str, Any]
    rows: int
    loss: float
    seconds: float
    size: int
    problem: str = ""
    folds: int = 1
    learning: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        params = {"learner": self.runner, **{k: plain(v) for k, v in self.params.items()}}
        known = {"rows": self.rows, "seconds": self.seconds, "size": self.size}
        score = self.loss if math.isfinite(self.loss) else None
        return {"params": params, "score": score, **known, "problem": self.problem}


class Attempt(NamedTuple):
    """A trial, the model of its first fold, and losses and scores of the rows that judged it.

    ``scores`` is None for models that are not ours, which no stack can hold.
    """

    trial: Trial
    model: Any
    misses: np.ndarray
    scores: np.ndarray | None

    def joined(self, others: list[Attempt]) -> Attempt:
        """With what the same settings did in other folds."""
        every = [self, *others]
        misses = np.concatenate([one.misses for one in every])
        scores = [one.scores for one in every if one.scores is not None]
        problem = next((one.trial.problem for one in every if one.trial.problem), "")
        trial = self.trial._replace(
            loss=math.inf if problem else float(np.mean(misses)), folds=len(every), problem=problem
        )
        whole = np.concatenate(scores) if len(scores) == len(every) else None
        return Attempt(trial, self.model, misses, whole)


@dataclass
class Runner:
    """A family of learners, and the best that it has shown so far."""

    name: str
    estimator: Any
    top: Attempt | None = None
    units: dict[str, Any] = field(default_factory=dict)  # {"scale": ...} once that is settled
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0  # for settings, whether or not there was time to try them

    def keep(self, attempt: Attempt) -> None:
        """If it is the best; one that has seen more rows need only be within the best's error."""
        if attempt.trial.problem:
            return
        if self.top is None or self.best is None:
            self.top = attempt
            return
        one, best = attempt.trial, self.best
        slack = self.error if one.rows > best.rows else 0.0
        more_folds = one.rows == best.rows and one.folds > best.folds
        if (one.folds >= best.folds and one.loss < best.loss + slack) or more_folds:
            self.top = attempt

    def units_of(self, params: dict[str, Any]) -> Any:
        """How its features are scaled with these settings."""
        return params.get("scale", self.estimator.get_params(deep=False).get("scale"))

    def settle_units(self) -> None:
        """Whether to scale the features is settled by the first fits: widths depend on it."""
        if self.top is not None and "scale" in self.top.trial.params:
            rest = dict(self.top.trial.params)
            self.units = {"scale": rest.pop("scale")}
            self.estimator.set_params(**self.units)
            self.top = self.top._replace(trial=self.top.trial._replace(params=rest))

    def may_be_best(self, attempt: Attempt) -> bool:
        """Whether it is not behind the best on the rows of the first fold, but for chance."""
        if self.top is None or attempt.trial.problem:
            return not attempt.trial.problem
        apart = attempt.misses - self.top.misses[: attempt.misses.size]
        return bool(apart.mean() <= apart.std() / math.sqrt(apart.size))

    def foreseen(self, params: dict[str, Any], rows: int) -> float:
        """Seconds that a fit will probably take.

        By the mean pace on the most rows so far, since on few rows what does not grow with them is
        most of the time; without the very first fit, which compiles.
        """
        most = self.most_rows
        known = [
            t for k, t in enumerate(self.trials) if t.rows == most and (k or len(self.trials) == 1)
        ]
        paces = [t.seconds / work(self.estimator, t.params, t.rows) for t in known]
        return 1.2 * sum(paces) / len(paces) * work(self.estimator, params, rows)

    def again(self, rows: int) -> float:
        """Seconds to learn the best settings on so many rows, at the pace of the best fit."""
        assert self.best is not None
        more = work(self.estimator, self.best.params, rows)
        return self.best.learning * more / work(self.estimator, self.best.params, self.best.rows)

    @property
    def known(self) -> dict[str, Any]:
        """Its parameters with the best settings, and with the numbers that the best model has found
        for those that leave them to it ("auto", "loo", None)."""
        params = self.estimator.get_params() | (self.best.params if self.best else {})
        found = _found(self.top.model) if self.top else {}
        return params | {k: v for k, v in found.items() if k in params and _is_open(params[k])}

    @property
    def best(self) -> Trial | None:
        return None if self.top is None else self.top.trial

    def is_wide(self, rows: int) -> bool:
        """Whether a fit on so many rows keeps several threads busy."""
        return rows >= WIDE_ROWS and (self.estimator.get_params().get("map__n_jobs") or 1) > 1

    @property
    def most_rows(self) -> int:
        return max(trial.rows for trial in self.trials)

    @property
    def pace(self) -> float:
        """Seconds of its last fit."""
        return self.trials[-1].seconds if self.trials else math.inf

    @property
    def loss(self) -> float:
        return math.inf if self.best is None else self.best.loss

    @property
    def size(self) -> int:
        """Numbers that its best model keeps."""
        return self.best.size if self.best is not None else 0

    @property
    def error(self) -> float:
        """Standard error of its loss; as of one wrong row where none is: the next may be."""
        if self.top is None:
            return math.inf
        rows = max(self.top.misses.size, 1)
        return float(np.std(self.top.misses) / math.sqrt(rows)) or 1.0 / rows


def _found(model: Any) -> dict[str, float]:
    """The strength of its penalty and the width of its kernel, where a model has such."""
    kernel = getattr(getattr(model, "map_", model), "kernel_", None)
    strength = getattr(getattr(model, "penalty_", None), "strength", None)
    found = {"alpha": strength, "gamma": getattr(kernel, "gamma", None)}
    return {name: float(v) for name, v in found.items() if isinstance(v, (float, np.floating))}


def _is_open(value: Any) -> bool:
    """Whether a parameter leaves it to the model."""
    return value is None or isinstance(value, str)


def seconds_of(members: Sequence[Runner], rows: int, jobs: int) -> float:
    """For the best settings of all these on so many rows, where ``jobs`` threads take one member
    after the other, as a stack learns them; wide ones have all cores to themselves."""
    wide = sum(runner.again(rows) for runner in members if runner.is_wide(rows))
    ends = [0.0] * max(jobs, 1)
    for runner in members:
        if not runner.is_wide(rows):
            heapreplace(ends, ends[0] + runner.again(rows))
    return wide + max(ends)


def misses_of(scores: np.ndarray, y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """1 for every row in the wrong class (``y``: their numbers); without classes, squares."""
    if not classes.size:
        return (scores[:, 0] - y) ** 2
    return (best_class(scores) != y).astype(np.float64)
