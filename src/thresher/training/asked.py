"""What a training is asked for, and what it tells while it goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thresher._allowed import whole
from thresher.training.checkpoint import Every
from thresher.training.tuning import Tuning

__all__ = ["Progress", "Training"]

_MEMORY = 1 << 30
_SHARDS = whole(1, 10_000)


class Progress(NamedTuple):
    """What ``on_progress`` is called with while a model is trained."""

    stage: str  # "reading", "tuning", "fitting" (in memory) or "learning" (in a stream)
    rows: int  # so far, over all passes
    total: int | None  # rows of all passes, if known
    passes: int  # or trials, while tuning
    planned: int | None
    metrics: dict[str, Any]  # on held-out rows; while tuning, the criterion's name and the best
    nonzeros: int
    seconds: float


@dataclass
class Training:
    """How to train: the options of ``train`` and of ``thresher train``, all with defaults.

    Parameters
    ----------
    params, learner, budget, prefer, passes, holdout, memory, scan, seed, checkpoint, model, resume,
    tune, criterion, search, cv, study, cluster, shards, task_column, on_progress : as in ``train``
    on_workers : told once who the workers are and where their dashboard is
    terms : classes of the user's own that a checkpoint may name
    stop : asked now and then; True ends the training at the next good place
    begun : by ``time.perf_counter``, if the clock began before the data was open
    """

    params: dict[str, Any] = field(default_factory=dict)
    learner: str = "linear"
    budget: float | None = None
    prefer: str = "accuracy"
    passes: int | None = None
    holdout: float = 0.1
    memory: int = _MEMORY
    scan: bool = True
    seed: int = 0
    checkpoint: str | None = None
    model: str | os.PathLike[str] | None = None
    resume: bool = False
    tune: int | None = None
    criterion: Any = None
    search: Any = None
    cv: Any = None
    study: str | os.PathLike[str] | None = None
    cluster: Any = None
    shards: int | None = None
    task_column: str | None = None
    on_progress: Callable[[Progress], None] | None = None
    on_workers: Callable[[str], None] | None = None
    terms: tuple[type, ...] = ()
    stop: Callable[[], bool] = lambda: False
    begun: float | None = None

    def __post_init__(self) -> None:
        self.params = self.params or {}
        self.every = Every.parse(self.checkpoint) if self.checkpoint else None
        self.tuning = Tuning.asked(
            self.tune, criterion=self.criterion, search=self.search, cv=self.cv, study=self.study
        )
        if self.shards is not None and not _SHARDS.admits(self.shards):
            raise ValueError(
                f"shards must be {_SHARDS}, since each is a task of its own in every pass; got "
                f"{self.shards!r}"
            )
        if self.cluster is None and self.shards is not None:
            raise ValueError(
                "shards are for workers: give a cluster with them (--workers, --scheduler)"
            )
        if self.cluster is not None and not self.scan:
            raise ValueError("workers look at all rows before they learn: leave scan as it is")
        if abs(self.seed) >= 2**63:
            raise ValueError(f"seed must be below 2^63, got {self.seed}")
        if self.model is None and (self.every or self.resume):
            raise ValueError("a checkpoint is kept beside the model: name it, model='FILE'")
