"""From data of any size to a model: look, hold out, learn in memory or in a stream, measure."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thresher.artifacts.encoding import encode
from thresher.data import DataSet, Schema, open_data
from thresher.estimators._linear import LinearModel
from thresher.registry import resolve
from thresher.solvers import Solver, Status
from thresher.training.by_partial_fit import PartialFits
from thresher.training.checkpoint import Checkpointer, Every, checkpoint_path
from thresher.training.choosing import Choice, choose
from thresher.training.holdout import HoldOut
from thresher.training.in_memory import fit_in_memory
from thresher.training.intake import Intake, take_in
from thresher.training.judge import Judge
from thresher.training.learners import described, make_estimator, model_size
from thresher.training.model import Model
from thresher.training.stream import StreamJob
from thresher.training.streaming import Streaming, new_job

__all__ = ["Progress", "Training", "run", "train"]

MEMORY = 1 << 30
_HELD_BYTES, _MOST_HELD = 32 << 20, 100_000


class Progress(NamedTuple):
    """What a listener is told while a model is trained."""

    stage: str  # "reading", "fitting" (in memory) or "learning" (in a stream)
    rows: int  # so far, over all passes
    total: int | None  # rows of all passes, if known
    passes: int
    planned: int | None
    metrics: dict[str, Any]  # on held-out rows
    nonzeros: int
    seconds: float


@dataclass
class Training:
    """How to train; every field has a default that works."""

    params: dict[str, Any] = field(default_factory=dict)  # of the estimator
    learner: str = "linear"
    budget: float | None = None  # seconds: race all learners and take the best
    passes: int | None = None
    holdout: float = 0.1
    memory: int = MEMORY
    scan: bool = True
    seed: int = 0
    checkpoint: Every | None = None
    model_path: str | os.PathLike[str] | None = None
    resume: bool = False
    terms: tuple[type, ...] = ()
    listener: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] = lambda: False


def train(
    data: Any,
    y: Any = None,
    *,
    learner: str = "linear",
    budget: float | None = None,
    params: dict[str, Any] | None = None,
    passes: int | None = None,
    holdout: float = 0.1,
    memory: int = MEMORY,
    scan: bool = True,
    seed: int = 0,
    checkpoint: str | None = None,
    model: str | os.PathLike[str] | None = None,
    resume: bool = False,
    listener: Callable[[Progress], None] | None = None,
    **options: Any,
) -> Model:
    """Train on a file, several files, a data frame or a matrix, whatever their size.

    Parameters
    ----------
    data, y, options : as :func:`thresher.open_data` takes them (``target=``, ``weight=``, ...)
    learner : "linear", "kernel" (fixed-size kernel machine), "budgeted" (kernel machine on a budget
        of support vectors) or "hyperplanes" (several linear functions per class)
    budget : seconds to spend in all: linear, sparse linear, kernel, budgeted and multi-hyperplane
        learners race on the rows (on the first ones, where not all fit in memory), and the best is
        trained on all; ``learner`` and ``params`` are then found and not given
    params : parameters of the learner's estimator, ``{"loss": "logistic"}``; features are scaled
        unless it says otherwise or the rows are a sparse matrix
    passes : over the data; None: by its size
    holdout : share of the rows to measure on (at most 100,000 of them)
    memory : rows that take less than half of so many bytes are learned from in memory, by the
        best solver for them; more are streamed
    scan : spend one pass on counting the rows and learning the features' scales before a stream
    checkpoint, model, resume : save the state of a stream every "60s" or so many rows beside
        ``model``, the file that the model is written to, and go on from there
    listener : called with a :class:`Progress` now and then

    Examples
    --------
    >>> import pandas as pd
    >>> from thresher import train
    >>> frame = pd.DataFrame({"size": range(100), "kind": ["a", "b"] * 50})
    >>> frame["large"] = frame["size"] > 49
    >>> model = train(frame, target="large")
    >>> model.predict(pd.DataFrame({"size": [3, 97], "kind": ["a", "c"]})).tolist()
    [0, 1]
    """
    dataset = data if isinstance(data, DataSet) else open_data(data, y, **options)
    every = Every.parse(checkpoint) if checkpoint else None
    how = Training(
        params or {}, learner, budget, passes, holdout, memory, scan, seed, every, model, resume
    )
    how.listener = listener
    trained = run(dataset, how)
    if model is not None:
        trained.save(model)
    return trained


def run(data: DataSet, how: Training) -> Model:
    """Train as ``how`` says."""
    return _Run(data, how).model()


class _Run:
    """One training: the pieces in the order of their use."""

    def __init__(self, data: DataSet, how: Training):
        self.data, self.how, self.schema = data, how, data.schema
        self.started = time.perf_counter()
        self.classes = _classes(self.schema)
        self.estimator = _estimator(self.schema, how)
        row_bytes = max(self.schema.row_bytes, 1)
        most = min(_MOST_HELD, max(1000, _HELD_BYTES // row_bytes))
        self.hold = HoldOut(how.holdout, most, how.seed)
        self.learner = how.learner
        self.choice: Choice | None = None  # of a race
        self.best_loss = np.inf
        self.planned: int | None = None
        self.total: int | None = data.n_rows

    def model(self) -> Model:
        how, estimator = self.how, self.estimator
        intake = take_in(self.data, self.hold, how.memory, how.scan, self._told_reading)
        self.total = None
        if how.budget is not None:
            estimator = self._choose(intake)
        in_memory = intake.kept is not None and not _streams(estimator)
        raced = how.budget is not None and self.classes.size > 0 and how.holdout > 0.0
        calibrating = raced or (getattr(estimator, "calibrate", None) is not None and not in_memory)
        self.judge = Judge(self.hold, self.schema, calibrating)
        self.history: list[dict[str, Any]] = []
        if in_memory:
            status = self._fit(intake)
        else:
            status = self._stream(intake) if self.learner == "linear" else self._feed(intake)
        if raced:
            estimator.calibrate = "sigmoid"
        if calibrating:
            self.judge.calibrate(estimator)
        self.judge.measure(estimator)
        rows = intake.looked - self.hold.size
        return Model(estimator, self.schema, self._story(rows, in_memory, status))

    def _choose(self, intake: Intake) -> Any:
        """Race for the budget; the winner takes the place of the estimator."""
        how = self.how
        assert how.budget is not None
        began = time.monotonic() - (time.perf_counter() - self.started)
        told = self._told_racing
        choice = choose(intake, self.schema, self.classes, how.budget, began, how.seed, told)
        self.learner, self.estimator, self.choice = choice.learner, choice.estimator, choice
        return self.estimator

    # ------------------------------------------------------------ the two ways

    def _fit(self, intake: Intake) -> Status:
        if self.how.passes is not None:
            self.estimator.max_iter = self.how.passes
        self.planned = self.estimator.max_iter
        rows = intake.rows or 0

        def told(event: Any) -> bool:
            nonzeros = int(np.count_nonzero(event.coef))
            self._tell("fitting", rows * event.passes, event.passes, nonzeros)
            return self.how.stop()

        return fit_in_memory(self.estimator, intake, self.classes, told)

    def _stream(self, intake: Intake) -> Status:
        if not getattr(self.estimator, "partial_fit", None):
            raise ValueError(
                f"solver={self.estimator.solver!r} must see all rows at once, and they do not fit "
                f"in {self.how.memory >> 20} MB: allow more memory, or use solver='auto'"
            )
        if self.estimator.steps is not None:
            raise ValueError("steps counts updates in memory; in a stream give passes")
        checkpointer = self._checkpointer()
        job = self._job(intake, checkpointer)
        self.planned, self.history = job.passes, job.history
        self.total = None if intake.rows is None else intake.rows * job.passes
        streaming = Streaming(
            self.estimator, self.schema, job, self.judge, self._told_learning, self.how.stop,
            checkpointer,
        )  # fmt: skip
        return streaming.run(intake, self._targets)

    def _feed(self, intake: Intake) -> Status:
        """A stream for a learner that is not linear."""
        if self.how.checkpoint is not None or self.how.resume:
            raise ValueError("checkpoints are for the linear learner; others are trained in one go")
        if not getattr(self.estimator, "partial_fit", None):
            raise ValueError("this learner must see all rows at once: allow more memory")
        feeding = PartialFits(
            self.estimator, self.schema, self.judge, self._told_learning, self.how.stop,
            self.how.seed,
        )  # fmt: skip
        self.history = feeding.history
        self.planned = feeding.planned(intake, self.how.passes)
        self.total = None if intake.rows is None else intake.rows * self.planned
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status is reported with the model
            return feeding.run(intake, self.planned)

    def _job(self, intake: Intake, checkpointer: Checkpointer | None) -> StreamJob:
        outputs = int(self.classes.size) if self.classes.size > 2 else 1
        if checkpointer is not None and self.how.resume and checkpointer.path.exists():
            job = checkpointer.load(self.schema.n_features, outputs, self.how.terms)
            job.catch_up(intake)
            return job
        return new_job(
            self.estimator, intake, self._targets, outputs, self.how.passes, self.how.seed
        )

    def _targets(self, codes: np.ndarray) -> np.ndarray:
        """-1 / +1 for two classes; class numbers for more, and numbers, are what they are."""
        return np.where(codes == 1.0, 1.0, -1.0) if self.classes.size == 2 else codes

    def _checkpointer(self) -> Checkpointer | None:
        how = self.how
        if how.model_path is None or (how.checkpoint is None and not how.resume):
            return None
        params = {k: v for k, v in self.estimator.get_params(deep=False).items() if v is not None}
        for name in ("callbacks", "random_state", "verbose", "n_jobs"):
            params.pop(name, None)
        task = {
            "schema": self.schema.to_json(),
            "files": [stamp and list(stamp) for stamp in self.data.source.stamps()],
            "parameters": encode(params, {}, "parameters"),
            "passes": how.passes,
            "seed": how.seed,
            "held-out share": how.holdout,
            "scan": how.scan,
        }
        return Checkpointer(checkpoint_path(how.model_path), how.checkpoint or Every(), task)

    # ------------------------------------------------------------ telling

    def _told_reading(self, rows: int) -> None:
        self._tell("reading", rows, 0, 0)

    def _told_racing(self, trial: Any) -> None:
        """The race's losses are on validation rows, not on the held-out ones."""
        if self.how.listener is not None:
            self.best_loss = min(self.best_loss, trial.loss)
            metrics = {"validation": self.best_loss} if np.isfinite(self.best_loss) else {}
            seconds = time.perf_counter() - self.started
            stage = f"racing ({trial.runner})"
            self.how.listener(
                Progress(stage, trial.rows, None, 0, None, metrics, trial.size, seconds)
            )

    def _told_learning(self, rows: int, passes: int, nonzeros: int) -> None:
        self._tell("learning", rows, passes, nonzeros)

    def _tell(self, stage: str, rows: int, passes: int, nonzeros: int) -> None:
        if self.how.listener is not None:
            metrics = {} if stage == "reading" else self.judge.metrics
            seconds = time.perf_counter() - self.started
            told = (stage, rows, self.total, passes, self.planned, metrics, nonzeros, seconds)
            self.how.listener(Progress(*told))

    def _story(self, rows: int, in_memory: bool, status: Status) -> dict[str, Any]:
        """What is saved about the training, for people and for reports."""
        estimator = self.estimator
        nonzeros, size = model_size(estimator)
        return {
            "data": self.data.name,
            "rows": int(rows),
            "held_out_rows": int(self.hold.size),
            "bad_rows": int(self.data.bad.count),
            "features": int(self.schema.n_features),
            "in_memory": in_memory,
            "passes": int(estimator.n_iter_),
            "learner": self.learner,
            "described": described(estimator),
            "size": size,
            "nonzeros": nonzeros,
            "status": status.name,
            "advice": str(status),
            "held_out": self.judge.metrics,
            "history": self.history,
            "reason": self.choice.reason if self.choice else "",
            "trials": self.choice.trials if self.choice else [],
            "seed": self.how.seed,
            "holdout": self.how.holdout,
            "memory": self.how.memory,
            "seconds": round(time.perf_counter() - self.started, 3),
        }


def _classes(schema: Schema) -> np.ndarray:
    target = schema.target
    if target is None:
        raise ValueError("training needs a target: name its column (target=...)")
    if target.task == "classification" and len(target.classes) < 2:
        raise ValueError(
            f"the target {target.name!r} has one class only, {target.classes[0]!r}, in the rows "
            "looked at: are they sorted by it?"
        )
    return np.array(target.classes)


def _estimator(schema: Schema, how: Training) -> Any:
    if how.budget is not None:
        if how.params or how.learner != "linear":
            raise ValueError("a budget finds the learner and its settings: do not give them too")
        if not how.budget > 0.0:
            raise ValueError(f"the budget must be a positive number of seconds, got {how.budget}")
    assert schema.target is not None
    estimator = make_estimator(how.learner, schema.target.task)
    estimator.set_params(**{"random_state": how.seed, **how.params})
    if "scale" not in how.params:
        estimator.scale = schema.is_table or schema.layout == "dense"
    return estimator


def _streams(estimator: Any) -> bool:
    """A linear solver that takes rows one by one is streamed also when they fit in memory."""
    if not isinstance(estimator, LinearModel) or hasattr(estimator, "map"):
        return False
    return estimator.solver != "auto" and resolve(estimator.solver, Solver, "solver").streaming
