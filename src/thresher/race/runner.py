"""Who takes part in a race: a family of learners, what it has tried, and how long that took."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thresher.race.capacity import work
from thresher.search.records import plain

__all__ = ["KEPT", "Attempt", "Runner", "Trial"]

KEPT = 3  # settings that a runner may send to the final
_SAME = 0.05  # share of the losses by which settings must differ to be others


class Trial(NamedTuple):
    """One fit: who, with which settings, on how many rows, how well and how fast."""

    runner: str
    params: dict[str, Any]
    rows: int
    loss: float
    seconds: float
    size: int
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        params = {"learner": self.runner, **{k: plain(v) for k, v in self.params.items()}}
        known = {"rows": self.rows, "seconds": self.seconds, "size": self.size}
        score = self.loss if math.isfinite(self.loss) else None
        return {"params": params, "score": score, **known, "problem": self.problem}


class Attempt(NamedTuple):
    """A trial with its model, and its loss on every row that it was judged on."""

    trial: Trial
    model: Any
    misses: np.ndarray


@dataclass
class Runner:
    """A family of learners; ``top`` are its few best attempts, the very best first."""

    name: str
    estimator: Any
    top: list[Attempt] = field(default_factory=list)
    units: dict[str, Any] = field(default_factory=dict)  # {"scale": ...} once that is settled
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0  # for settings, whether or not there was time to try them
    final: np.ndarray | None = None  # losses of its best settings on the rows of the final

    def keep(self, attempt: Attempt) -> None:
        """If it is among the best; one that has seen more rows need only be within their error.

        Of two that err on nearly the same rows, the worse is of no use beside the other.
        """
        rivals = self.top
        if self.best is not None and attempt.trial.rows > self.best.rows:
            if attempt.trial.loss > self.best.loss + self.error:
                return
            rivals = []
        top: list[Attempt] = []
        for one in sorted([*rivals, attempt], key=lambda a: a.trial.loss):
            if len(top) < KEPT and not any(_alike(one, better) for better in top):
                top.append(one)
        self.top = top  # at once: other threads look at the best meanwhile

    def settle_units(self) -> None:
        """Whether to scale the features is settled by the first fits: widths depend on it."""
        if self.best is not None and "scale" in self.best.params:
            rest = dict(self.best.params)
            self.units = {"scale": rest.pop("scale")}
            self.estimator.set_params(**self.units)
            self.top = [self.top[0]._replace(trial=self.best._replace(params=rest))]

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
        """Seconds for the best settings on so many rows, at the pace of the fit that was best."""
        assert self.best is not None
        more = work(self.estimator, self.best.params, rows)
        return self.best.seconds * more / work(self.estimator, self.best.params, self.best.rows)

    @property
    def best(self) -> Trial | None:
        return self.top[0].trial if self.top else None

    @property
    def model(self) -> Any:
        return self.top[0].model

    @property
    def judged(self) -> np.ndarray:
        """Its losses row by row, on the rows of the final if it was there."""
        return self.top[0].misses if self.final is None else self.final

    @property
    def is_wide(self) -> bool:
        """Whether a fit keeps several threads busy."""
        return (self.estimator.get_params().get("map__n_jobs") or 1) > 1

    @property
    def most_rows(self) -> int:
        return max(trial.rows for trial in self.trials)

    @property
    def loss(self) -> float:
        return float(np.mean(self.judged)) if self.top else math.inf

    @property
    def size(self) -> int:
        """Numbers that its best model keeps."""
        return self.best.size if self.best is not None else 0

    @property
    def error(self) -> float:
        """Standard error of its loss."""
        return float(np.std(self.judged) / math.sqrt(max(self.judged.size, 1)))


def _alike(one: Attempt, other: Attempt) -> bool:
    return bool(np.abs(one.misses - other.misses).sum() <= _SAME * other.misses.sum())
