"""From data of any size to a model: look, hold out, learn in memory or in a stream, measure."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, TypeVar

import numpy as np

from thresher.artifacts.encoding import encode
from thresher.data import DataSet, Schema, open_data
from thresher.estimators._linear import LinearModel
from thresher.estimators._saving import kept_parameters
from thresher.registry import resolve
from thresher.solvers import Solver, Status
from thresher.training.by_partial_fit import PartialFits, fed_job, new_fed_job, settle
from thresher.training.checkpoint import Checkpointer, Every, checkpoint_path, linear_job
from thresher.training.choosing import Choice, choose
from thresher.training.heldout import Judge
from thresher.training.holdout import HoldOut
from thresher.training.in_memory import fit_in_memory
from thresher.training.intake import Intake, take_in
from thresher.training.learners import described, make_estimator, model_size
from thresher.training.model import Model
from thresher.training.stream import Job
from thresher.training.streaming import Streaming, new_job
from thresher.training.tuning import Tuner, Tuning

__all__ = ["Progress", "Training", "run", "train"]

MEMORY = 1 << 30
_HELD_BYTES, _MOST_HELD = 32 << 20, 100_000
J = TypeVar("J", bound=Job)


class Progress(NamedTuple):
    """What a listener is told while a model is trained."""

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
    tune: Tuning | None = None  # find the learner's settings first
    terms: tuple[type, ...] = ()
    listener: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] = lambda: False
    begun: float | None = None  # by time.perf_counter, if the clock began before the data was open


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
    tune: int | None = None,
    criterion: Any = None,
    search: Any = None,
    cv: Any = None,
    study: str | os.PathLike[str] | None = None,
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
    tune : settings of the learner to try before it is trained, for example 40; what ``params`` say
        stays as it is.  Where the rows do not fit in memory a stratified sample of them is tried
        on; the model learns from all rows, and none of those held out are seen by the search
    criterion, search, cv, study : of the tuning: what makes settings better ("error", "auc",
        "log_loss", "sparse_error"; "mse", "mae", "r2"), how to search, on which folds, and a file
        that keeps the trials, so that a search that was killed goes on
        (see :class:`thresher.search.TunedClassifier`)
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
    begun = time.perf_counter()
    dataset = data if isinstance(data, DataSet) else open_data(data, y, **options)
    every = Every.parse(checkpoint) if checkpoint else None
    tuning = Tuning.asked(tune, criterion=criterion, search=search, cv=cv, study=study)
    how = Training(
        params or {}, learner, budget, passes, holdout, memory, scan, seed, every, model, resume,
        tuning,
    )  # fmt: skip
    how.listener, how.begun = listener, begun
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
        self.started = time.perf_counter() if how.begun is None else how.begun
        self.classes = _classes(self.schema)
        self.estimator = _estimator(self.schema, how)
        row_bytes = max(self.schema.row_bytes, 1)
        most = min(_MOST_HELD, max(1000, _HELD_BYTES // row_bytes))
        self.hold = HoldOut(how.holdout, most, how.seed)
        self.learner = how.learner
        self.choice: Choice | None = None  # of a race or a search
        self.best_loss = np.inf
        self.planned: int | None = None
        self.total: int | None = data.n_rows

    def model(self) -> Model:
        how, estimator = self.how, self.estimator
        intake = take_in(self.data, self.hold, how.memory, how.scan, self._told_reading)
        self.total = None
        if how.budget is not None:
            estimator = self._choose(intake)
        elif how.tune is not None:
            self.choice = self._tune(intake, how.tune)
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

    def _tune(self, intake: Intake, tuning: Tuning) -> Choice:
        """Find settings; the estimator takes them."""
        how = self.how
        if intake.kept is None:
            self._check_streamable()  # rather than after the search
        tuner = Tuner(
            tuning, how.learner, how.params, self.classes, how.memory, how.passes, how.seed,
            how.stop, self._told_tuning, self._told_reading,
        )  # fmt: skip
        return tuner.run(self.estimator, intake)

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

    def _check_streamable(self) -> None:
        """Rows that do not fit in memory need a learner that takes them as they come."""
        if not getattr(self.estimator, "partial_fit", None):
            raise ValueError(
                f"solver={self.estimator.solver!r} must see all rows at once, and they do not fit "
                f"in {self.how.memory >> 20} MB: allow more memory, or use solver='auto'"
            )
        if self.learner == "linear" and self.estimator.steps is not None:
            raise ValueError("steps counts updates in memory; in a stream give passes")

    def _stream(self, intake: Intake) -> Status:
        self._check_streamable()
        checkpointer = self._checkpointer()
        outputs = int(self.classes.size) if self.classes.size > 2 else 1
        how, d = self.how, self.schema.n_features
        job = self._resumed(checkpointer, intake, lambda state: linear_job(state, d, outputs))
        if job is None:
            job = new_job(self.estimator, intake, self._targets, outputs, how.passes, how.seed)
        streaming = Streaming(*self._running(intake, job, checkpointer), targets=self._targets)
        return streaming.run(intake)

    def _feed(self, intake: Intake) -> Status:
        """A stream for a learner that is not linear."""
        self._check_streamable()
        checkpointer = self._checkpointer()  # of the parameters as they were given
        settle(self.estimator, intake, self.schema)
        job = self._resumed(checkpointer, intake, lambda state: fed_job(state, self.estimator))
        if job is None:
            job = new_fed_job(self.estimator, intake, self.how.passes, self.how.seed)
        feeding = PartialFits(*self._running(intake, job, checkpointer))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the status is reported with the model
            return feeding.run(intake)

    def _resumed(
        self, checkpointer: Checkpointer | None, intake: Intake,
        restored: Callable[[dict[str, Any]], J],
    ) -> J | None:  # fmt: skip
        """The job of the checkpoint, if there is one to go on from."""
        if checkpointer is None or not self.how.resume or not checkpointer.path.exists():
            return None
        job = checkpointer.load(restored, self.how.terms)
        job.catch_up(intake)
        return job

    def _running(
        self, intake: Intake, job: Job, checkpointer: Checkpointer | None
    ) -> tuple[Any, ...]:
        """What it takes to run a job."""
        self.planned, self.history = job.passes, job.history
        self.total = None if intake.rows is None else intake.rows * job.passes
        told, stop = self._told_learning, self.how.stop
        return self.estimator, self.schema, job, self.judge, told, stop, checkpointer

    def _targets(self, codes: np.ndarray) -> np.ndarray:
        """-1 / +1 for two classes; class numbers for more, and numbers, are what they are."""
        return np.where(codes == 1.0, 1.0, -1.0) if self.classes.size == 2 else codes

    def _checkpointer(self) -> Checkpointer | None:
        how = self.how
        if how.model_path is None or (how.checkpoint is None and not how.resume):
            return None
        params = {k: v for k, v in kept_parameters(self.estimator).items() if v is not None}
        for name in ("random_state", "verbose", "n_jobs"):
            params.pop(name, None)
        arrays: dict[str, np.ndarray] = {}
        task = {
            "learner": self.learner,
            "schema": self.schema.to_json(),
            "files": [stamp and list(stamp) for stamp in self.data.source.stamps()],
            "parameters": encode(params, arrays, "parameters"),
            "arrays": [sha256(array.tobytes()).hexdigest() for array in arrays.values()],
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
        self.best_loss = min(self.best_loss, trial.loss)
        metrics = {"validation": self.best_loss} if np.isfinite(self.best_loss) else {}
        self._send(f"racing ({trial.runner})", trial.rows, None, 0, None, metrics, trial.size)

    def _told_tuning(self, stage: str, trials: int, metrics: dict[str, Any]) -> None:
        """The scores are means over folds of rows that are not held out."""
        planned = self.how.tune.trials if self.how.tune else None
        self._send(stage, 0, None, trials, planned, metrics, 0)

    def _told_learning(self, rows: int, passes: int, nonzeros: int) -> None:
        self._tell("learning", rows, passes, nonzeros)

    def _tell(self, stage: str, rows: int, passes: int, nonzeros: int) -> None:
        metrics = {} if stage == "reading" else self.judge.metrics
        self._send(stage, rows, self.total, passes, self.planned, metrics, nonzeros)

    def _send(self, *told: Any) -> None:
        if self.how.listener is not None:
            self.how.listener(Progress._make((*told, time.perf_counter() - self.started)))

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
            "tuning": self.choice.tuning if self.choice else None,
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
        if how.tune is not None:
            raise ValueError("a budget races all learners, tune searches the settings of one: give "
                             "one of the two")  # fmt: skip
        if how.params or how.learner != "linear":
            raise ValueError("a budget finds the learner and its settings: do not give them too")
        if not how.budget > 0.0:
            raise ValueError(f"the budget must be a positive number of seconds, got {how.budget}")
    assert schema.target is not None
    estimator = make_estimator(how.learner, schema.target.task)
    estimator.set_params(**{"random_state": how.seed, **how.params})
    if "scale" not in how.params:
        estimator.scale = schema.is_table or schema.layout == "dense"
    if how.tune is not None:
        how.tune.check(estimator, schema.target.task, how.checkpoint is not None or how.resume)
    return estimator


def _streams(estimator: Any) -> bool:
    """A linear solver that takes rows one by one is streamed also when they fit in memory."""
    if not isinstance(estimator, LinearModel) or hasattr(estimator, "map"):
        return False
    return estimator.solver != "auto" and resolve(estimator.solver, Solver, "solver").streaming
