"""Who takes part in a race: a family of learners, what it has tried, and how long that took."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thresher.tune.capacity import work
from thresher.tune.records import plain

__all__ = ["Runner", "Trial"]


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


@dataclass
class Runner:
    """A family of learners; ``misses`` are the row-by-row losses of its best model."""

    name: str
    estimator: Any
    best: Trial | None = None
    misses: np.ndarray | None = None
    model: Any = None
    units: dict[str, Any] = field(default_factory=dict)  # {"scale": ...} once that is settled
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0  # for settings, whether or not there was time to try them

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
    def is_wide(self) -> bool:
        """Whether a fit keeps several threads busy."""
        return (self.estimator.get_params().get("map__n_jobs") or 1) > 1

    @property
    def most_rows(self) -> int:
        return max(trial.rows for trial in self.trials)

    @property
    def loss(self) -> float:
        return self.best.loss if self.best is not None else math.inf

    @property
    def size(self) -> int:
        """Numbers that its best model keeps."""
        return self.best.size if self.best is not None else 0

    @property
    def error(self) -> float:
        """Standard error of its loss."""
        assert self.misses is not None
        return float(np.std(self.misses) / math.sqrt(max(self.misses.size, 1)))
