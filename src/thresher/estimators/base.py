"""The coded core of every estimator: from checked rows and coded targets to a function.

Subclasses say which front rows go through (units, a map) and which problem and solver their
parameters stand for; the fit, ``partial_fit`` and training from files are the same for all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._allowed import BYTES, FLAG, INTEGER, Allowed, check_allowed, whole
from thresher._clock import has_end, passed_on
from thresher._interrupts import clean_interrupts
from thresher._random import generator, shuffled
from thresher._rows import Dense, Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.dimensions import Int
from thresher.estimators import input
from thresher.estimators.feed import Feed, folded, stream_chunk
from thresher.estimators.fronts import Front, MapFront, UnitsFront
from thresher.estimators.met_rows import MetRows
from thresher.estimators.nested import NestedParameters
from thresher.estimators.progress import Held, Progress
from thresher.functions import LinearFunction, Units
from thresher.kernels.functions import Kernel
from thresher.kernels.hidden_columns import ENOUGH, hidden_columns
from thresher.maps.base import FeatureMap
from thresher.maps.relevance import relevance
from thresher.registry import TASKS
from thresher.solvers import Chunk, Problem, Result, Solver, Status, driver
from thresher.solvers.base import Near
from thresher.solvers.stream import Facts, Stream, Streams, open_streams
from thresher.solvers.verdict import is_no_better

__all__ = ["SEVERITY", "Learner", "Path", "Setup", "StatusWarning", "UnitsWarning"]

#: how fits may end, the worst last
SEVERITY = [
    Status.COMPLETED,
    Status.CONVERGED,
    Status.EARLY_STOPPED,
    Status.INTERRUPTED,
    Status.OUT_OF_TIME,
    Status.MAX_ITER,
    Status.STALLED,
    Status.AT_BOUND,
    Status.NO_BETTER,
    Status.ALL_ZERO,
    Status.DIVERGED,
]
_WARNED = SEVERITY[SEVERITY.index(Status.MAX_ITER) :]
# Nothing more is to be said.
_FINAL = (
    Status.INTERRUPTED, Status.OUT_OF_TIME, Status.ALL_ZERO, Status.DIVERGED, Status.MAX_ITER,
)  # fmt: skip

_UNKNOWN = Facts()


class UnitsWarning(UserWarning):
    """A kernel does not see all columns in the units that they have."""


class StatusWarning(ConvergenceWarning):
    """What ``status_`` says, to those who do not ask for it."""


class Setup(NamedTuple):
    """A problem ready to run, with the solver and the plan for it."""

    problem: Problem
    solver: Solver
    plan: driver.Plan


class Path(Protocol):
    """Where fits of the same rows with other strengths of the penalty ended."""

    def start(self, setup: Setup, output: int | None) -> Near | None:
        """A neighbour to start from, or None."""

    def keep(self, setup: Setup, output: int | None, result: Result) -> None: ...


class Learner(NestedParameters):
    """Base of the estimators: everything but targets, predictions and parameters."""

    task: str
    #: alpha times the number of rows is what carries over to other numbers of rows
    alpha_per_row: bool = True
    #: whether a classifier is worth having is told by its errors, though its solver is linear
    judged_by_errors: ClassVar[bool] = False
    #: what options may be, besides what subclasses add
    allowed: ClassVar[dict[str, Allowed]] = {
        "scale": FLAG, "memory": BYTES, "trace": FLAG, "early_stopping": FLAG,
        "patience": whole(1), "max_iter": whole(1) | None, "n_jobs": INTEGER | None,
    }  # fmt: skip
    #: attributes that tell of the fit, kept in files beside the function
    record: tuple[str, ...] = ("n_features_in_", "n_iter_", "status_", "solver_", "penalty_")
    optional_record: tuple[str, ...] = ("feature_names_in_", "group_norms_", "trace_")
    memory: float = np.inf
    trace: bool = False
    early_stopping: bool = False
    patience: int = 1
    max_iter: Any = None
    n_jobs: int | None = None
    scale: Any
    random_state: Any
    verbose: int
    callbacks: Any
    _path: Path | None = None

    # ------------------------------------------------------------ for subclasses

    def check_options(self) -> None:
        """Refuse parameters that cannot work, before any row is looked at."""
        check_allowed(self)

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Terms, solver and plan for rows as the front gives them; ``chunk`` holds some.

        They are all there is where ``facts.whole``; else the solver must take them as they come.
        """
        raise NotImplementedError

    def learn_front(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Front:
        """Learn what rows go through; ``moments`` are those of all rows, if these are some."""
        return UnitsFront(self.learn_units(rows, targets, weight, moments))

    def learn_map(
        self, made: FeatureMap, rows: Rows, targets: np.ndarray, weight: np.ndarray | None,
        moments: Any,
    ) -> MapFront:  # fmt: skip
        """Units and map, from the rows that count."""
        units = self.learn_units(rows, targets, weight, moments)
        X, labels = input.matrix_of(rows), self._labels(targets)
        if units is None and made.needs_units(X):
            units = self._standard_units(rows, weight, moments)
        if weight is not None and not np.all(weight > 0.0):
            kept = np.flatnonzero(weight)
            X, labels, weight = X[kept], labels[kept], weight[kept]
        X = X if units is None else units.matrix(X)
        if made.uses_kernel:
            input.refuse_far_rows(X)
        made.learn_weighted(X, labels, weight)
        return MapFront(units, made, rows.shape[1])

    def _can_stream(self) -> bool:
        """Whether there is a ``partial_fit``; AttributeError says why not."""
        return True

    def streams_files(self) -> bool:
        """Whether rows of a file that does not fit in memory can be learned from."""
        return hasattr(self, "partial_fit")

    def solves_problems(self) -> bool:
        """Whether a fit notes its dual problems in a ledger, and can go on from there."""
        return False

    def without_stream(self) -> tuple[str, str]:
        """Who must see all rows at once, and what to use where they do not fit in memory."""
        params = self.get_params(deep=False)
        name = "solver" if "solver" in params else "algorithm"
        exact = f", or {self._exact_in_streams()!r} for the optimum" if name == "solver" else ""
        return f"{name}={params[name]!r}", f"{name}='auto'{exact}"

    def _exact_in_streams(self) -> str:
        """The solver that comes to the optimum of rows that do not fit in memory."""
        return "summed_newton"

    def name_features(self, names: list[str] | None) -> None:
        """Be told the names of the columns, where rows come as plain arrays; most do not ask."""

    def _centres(self) -> bool:
        """Whether the model has an intercept, which a shift of the features can go into."""
        return True

    def _offset(self, targets: np.ndarray, weight: np.ndarray | None) -> float:
        """What is taken from the targets, and given back by the function."""
        return 0.0

    def _asks_strength(self) -> bool:
        """Whether the user gave the strength of the penalty."""
        return getattr(self, "alpha", None) is not None

    def _learned(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        """After a fit on rows in memory; for what else can be read off it."""

    # ------------------------------------------------------------ what more time can buy

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        """What a search may try, for these rows if given; see ``thresher.search``."""
        raise NotImplementedError

    def capacity(self, rows: int) -> dict[str, Int]:
        """The parameter that sets the size of the model, in the range that so many rows can fill.

        Kernel machines come closer to the exact one the more landmarks or support vectors they
        have, and a forest becomes smoother with every tree: no cross-validation finds a best
        number, so that this is no part of a search space; a race tries how far it gets.
        """
        return {}

    def components(self, params: dict[str, Any], rows: int) -> int:
        """The size of the model with these parameters."""
        return 1

    def work(self, params: dict[str, Any], rows: int) -> float:
        """What a fit costs, up to a factor of the learner's own."""
        return float(rows * self.components(params, rows))

    # ------------------------------------------------------------ units

    def learn_units(
        self, rows: Rows, targets: np.ndarray | None, weight: np.ndarray | None, moments: Any = None
    ) -> Units | None:
        """Those that ``scale`` asks for; "relevance" weighs them for the targets."""
        if not self.scale:
            return None
        units = self._standard_units(rows, weight, moments)
        if self.scale != "relevance":
            return units
        assert targets is not None
        kept = None if weight is None else np.flatnonzero(weight)
        y, seed = self._labels(targets), seed_from(self.random_state)
        X = input.matrix_of(rows)
        weights = relevance(X, y, seed, rows=kept, convert=units.matrix)
        return units._replace(scale=units.scale * weights)

    def _standard_units(self, rows: Rows, weight: np.ndarray | None, moments: Any) -> Units:
        centre = not rows.is_sparse and self._centres()
        if moments is not None:
            return input.units_from(moments, centre)
        full = np.ones(rows.shape[0]) if weight is None else weight
        return input.learn_units(rows, full, centre)

    def _labels(self, targets: np.ndarray) -> np.ndarray:
        """As maps take them: whole numbers are classes."""
        if TASKS[self.task].has_classes:
            return np.round(targets).astype(np.int64)
        return targets.astype(np.float64)

    # ------------------------------------------------------------ the fit

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
        """Learn from coded targets: -1 and +1, class numbers if ``outputs`` > 1, or numbers."""
        self._forget()
        judges = driver.whole(rows, targets, weight)
        offset = self._offset(targets, weight)
        targets = targets - offset if offset else targets
        front = self.learn_front(rows, targets, weight)
        entered = front.enter(rows)
        if held is not None:
            held = held._replace(rows=front.rows(front.enter(held.rows)))
        mass = float(rows.shape[0] if weight is None else weight.sum())
        facts = Facts(rows.shape[0], mass, whole=True)
        if front.block_rows(self.memory, rows.dtype) < rows.shape[0]:
            results = [self._fit_blocks(front, entered, targets, weight, outputs, held, facts)]
        else:
            results = self._fit_whole(front, entered, targets, weight, outputs, held, facts)
        self._keep(results, judges, front, offset)

    def _fit_whole(
        self, front: Front, entered: Any, targets: np.ndarray, weight: np.ndarray | None,
        outputs: int, held: Held | None, facts: Facts,
    ) -> list[Result]:  # fmt: skip
        features = front.rows(entered)
        chunk = driver.whole(features, targets, weight)
        setup = self.set_up(front, features, chunk, outputs, facts)
        if setup.solver.learns_jointly(setup.problem):
            return [self._run(setup, chunk, held, None)]
        one = setup._replace(problem=replace(setup.problem, outputs=1))

        def learn(c: int) -> Result:
            part = chunk._replace(y=driver.signs(chunk.y, c))
            held_part = held and held._replace(y=driver.signs(held.y, c))
            return self._run(one, part, held_part, c)

        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            return list(pool.map(passed_on(learn), range(outputs)))

    def _run(self, setup: Setup, chunk: Chunk, held: Any, output: int | None) -> Result:
        watched = self.verbose or self.callbacks or held or has_end()
        progress = Progress(self, setup.problem, held, output) if watched else None
        near = self._path.start(setup, output) if self._path else None
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                result = self._learn_by_passes(setup, chunk, near, progress)
        except (ArithmeticError, ValueError):
            input.refuse_huge(chunk)
            raise
        if result.status in (Status.DIVERGED, Status.ALL_ZERO):
            input.refuse_huge(chunk)
        elif result.status is Status.MAX_ITER:
            input.refuse_overflow(chunk)
        if self._path:
            self._path.keep(setup, output, result)
        self._learned(setup, result, chunk)
        return progress.best(result) if progress else result

    def _learn_by_passes(
        self, setup: Setup, chunk: Chunk, near: Any, monitor: driver.Monitor | None
    ) -> Result:
        return driver.learn(setup.solver, setup.problem, chunk, setup.plan, near, monitor=monitor)

    def _fit_blocks(
        self, front: Front, entered: Any, targets: np.ndarray, weight: np.ndarray | None,
        outputs: int, held: Held | None, facts: Facts,
    ) -> Result:  # fmt: skip
        """Passes over rows whose features do not fit: the same orders, mapped as they are met."""
        if self.trace:
            raise ValueError("trace needs all features at hand: raise memory")
        n, dtype = entered.shape[0], entered.dtype
        whole = driver.whole(Dense(np.empty((n, 0), dtype)), targets, weight)
        block = int(front.block_rows(self.memory, dtype))
        blocks = Blocks(front, entered, whole, block)
        sample = blocks.chunk(shuffled(whole.order, 0, 3)[: min(block, 20_000)])
        setup = self.set_up(front, sample.rows, sample, outputs, facts._replace(whole=False))
        if not setup.solver.streaming:
            raise ValueError(
                f"solver {type(setup.solver).__name__} needs the features of all rows in memory, "
                f"{n} x {sample.rows.shape[1]}: raise memory, or use 'asgd' or another "
                "streaming solver"
            )
        shape = (whole.order.size, setup.problem.n_features)
        passes = setup.plan.passes if self.max_iter else setup.solver.planned_passes(shape)
        plan = setup.plan._replace(passes=passes)
        facts = facts._replace(visits=passes * whole.order.size, whole=False)
        stream = open_streams(setup.problem, setup.solver, sample, facts)
        watched = self.verbose or self.callbacks or held or has_end()
        progress = Progress(self, stream.problem, held, None) if watched else None
        result = driver.run(
            stream, blocks.passes(plan, setup.solver.seam, setup.problem.seed), passes,
            monitor=progress,
        )  # fmt: skip
        return progress.best(result) if progress else result

    def mind_rows(self, X: Any, first: int) -> None:
        """ValueError for rows of a file that it gives no predictions for; ``first``: their number.

        Most give one for every row.
        """

    # ------------------------------------------------------------ rows that come in parts

    def coded_rows(self, rows: Rows, targets: np.ndarray) -> tuple[Rows, np.ndarray, int]:
        """A file's rows and coded targets as a feed takes them, and the number of outputs."""
        return rows, *self.coded(targets)

    def coded(self, targets: np.ndarray) -> tuple[np.ndarray, int]:
        """A file's coded targets as :meth:`fit_targets` takes them, and the number of outputs."""
        raise NotImplementedError

    def feed_shape(self, features: int) -> tuple[int, int]:
        """Of so many features of a file's rows those that a feed is given; its outputs."""
        return features, self.coded(np.empty(0))[1]

    def look_over(self, moments: Any, counted: bool, weighted: bool) -> None:
        """Be told what the first look at a file found, before it is streamed; most do not ask.

        ``counted``: the moments are those of all rows, not of the first; ``weighted``: rows have
        weights.
        """

    def open_feed(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        facts: Facts = _UNKNOWN, passes: int | None = None,
    ) -> Feed:  # fmt: skip
        """Prepare on the first rows for those to come."""
        offset = self._offset(targets, weight)
        targets = targets - offset if offset else targets
        front = self.learn_front(rows, targets, weight, facts.moments)
        features = front.rows(front.enter(rows))
        chunk = stream_chunk(features, targets, weight)
        setup = self.set_up(front, features, chunk, outputs, facts)
        if facts.rows is not None:
            given = passes or (setup.plan.passes if self.max_iter else None)
            shape = (facts.rows, features.shape[1])
            passes = given or setup.solver.planned_passes(shape)
            facts = facts.visited(setup.solver, passes)
        feed = Feed(front, Streams([]), passes or 1, self.memory, offset)
        if facts.add_up is not None:
            facts = facts._replace(add_up=partial(facts.add_up, feed.chunks))
        feed.stream = open_streams(setup.problem, setup.solver, chunk, facts)
        return feed

    def feed_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int
    ) -> None:
        """Go once over these rows; the first call opens the feed."""
        first = not self.has_feed
        if first:
            self._feed, self._met = self.open_feed(rows, targets, weight, outputs), MetRows()
        for chunk in self._feed.chunks(rows, targets, weight):
            self._feed.stream.update(chunk)
        if targets.ndim == 1 and TASKS[self.task].has_target:
            self._met.meet(rows, targets, weight)
        function, stream = self._feed.stream.function(), self._feed.stream
        status = Status.COMPLETED
        if not (function.is_finite() and stream.is_sound()):
            if not first:  # the last finite model stays
                self._warn(Status.DIVERGED)
                self.status_ = Status.DIVERGED
                return
            input.refuse_huge(chunk)
            function, status = stream.nothing(), Status.DIVERGED
        elif not function.size:
            input.refuse_huge(chunk)
        self._keep_met(Result(function, status, 1, stream))

    def _keep_met(self, result: Result) -> None:
        """What ``partial_fit`` has learned so far, judged now and then by rows that it has met."""
        met, feed = self._met, self._feed
        due = met.is_due and result.status not in _FINAL
        if due:
            function = feed.folded(result.function)
            own = None if feed.offset else result.function
            begun, judges = met.has_begun_only, met.taken()
            met.status = self.judged(
                result.status, feed.stream, judges, function, feed.front, own, begun
            )
            result = replace(result, status=met.status)
        self._keep([result], None, feed.front, feed.offset)
        if not due and result.status not in _FINAL:
            self.status_ = met.status  # said already

    @property
    def has_feed(self) -> bool:
        """Whether ``partial_fit`` has begun."""
        return "_feed" in vars(self)

    # ------------------------------------------------------------ what is kept

    def _forget(self) -> None:
        for name in ("_feed", "_met", "calibrator_", "group_norms_", "trace_", "loo_error_"):
            self.__dict__.pop(name, None)

    def _keep(
        self, results: list[Result], judges: Chunk | None, front: Front, offset: float
    ) -> None:
        """The results become the estimator's; ``judges`` are raw rows that they are judged by."""
        functions = [r.function for r in results]
        several = len(functions) > 1  # one for each class against the rest
        learned = LinearFunction.stacked(functions) if several else functions[0]
        function = folded(front, learned, offset)
        stream = Streams([r.stream for r in results]) if several else results[0].stream
        status = max((r.status for r in results), key=SEVERITY.index)
        if judges is not None:
            own = None if offset else learned
            status = self.judged(status, stream, judges, function, front, own)
            kernel = getattr(getattr(front, "map", None), "kernel_", None)
            self.mind_units(kernel or getattr(stream.solver, "kernel", None), judges, front)
        self.keep(function, status, max(r.passes for r in results), results[0].stream, front)
        if self.trace:
            self.trace_ = [r.trace for r in results]
        if status in _WARNED:
            self._warn(status)

    def judged(
        self, status: Status, stream: Stream | Streams, judges: Chunk, function: Any, front: Front,
        learned: Any = None, begun: bool = False,
    ) -> Status:  # fmt: skip
        """The status, or what must be said of the function instead: no model is silently useless.

        ``judges`` are raw rows, few of them if a stream has only ``begun``.  Where the model is
        linear in them and ``learned`` is its function in the solver's units, the penalty can be
        told too.
        """
        if status in _FINAL:
            return status
        weights, by_loss = None, stream.solver.linear and not self.judged_by_errors
        if learned is not None and front.is_linear and by_loss:
            rows = front.rows(front.enter(judges.rows))
            judges, function, weights = judges._replace(rows=rows), learned, learned.coef
        useless = is_no_better(
            stream.problem, judges, function, weights=weights, by_errors=not by_loss,
            excused=self._asks_strength(), begun=begun,
        )  # fmt: skip
        if useless:
            return Status.NO_BETTER
        return Status.AT_BOUND if stream.is_at_bound() else status

    def mind_units(self, kernel: Any, judges: Chunk, front: Front) -> None:
        """Say so if columns of large spread hide the others from a kernel of the raw rows."""
        plain = isinstance(front, UnitsFront | MapFront) and front.units is None
        if not (plain and isinstance(kernel, Kernel)) or judges.rows.is_sparse:
            return
        if not np.ptp(judges.y) > 0.0:  # nothing to judge by
            return
        some = judges.order
        if some.size > ENOUGH:
            some = np.sort(generator(0, 37).choice(some, ENOUGH, replace=False))
        hidden = hidden_columns(kernel, judges.rows.taken(some), self._labels(judges.y[some]))
        if hidden is not None:
            what = "errors" if TASKS[self.task].has_classes else "squared misses"
            warnings.warn(
                "columns of large spread hide the others from the kernel: of left-out rows, "
                f"{what} of {hidden.now:.3g} in these units and {hidden.standard:.3g} in standard "
                "ones: give scale=True",
                UnitsWarning, stacklevel=5,
            )  # fmt: skip

    def keep(
        self, function: Any, status: Status, passes: int, stream: Any, front: Front | None = None
    ) -> None:
        """Take a function, how it was reached, and the stream and front that it came from."""
        self.function_ = function
        self.n_features_in_ = function.features
        self.n_iter_, self.status_ = passes, status
        self.solver_, self.penalty_ = stream.solver, stream.problem.penalty

    def _warn(self, status: Status) -> None:
        warnings.warn(f"{type(self).__name__}: {status}", StatusWarning, stacklevel=5)

    def follow(self, path: Path | None) -> None:
        """Start fits from neighbours on a path of strengths, and leave their ends there."""
        self._path = path

    # ------------------------------------------------------------ use

    @property
    def weight_deviations(self) -> np.ndarray | None:
        """How well weights are known, (outputs, features), from learners that can tell."""
        return None

    def chosen_parts(self, names: Any = None) -> list[tuple[str, list[float]]]:
        """What was chosen of many, in words, with a weight for each output or for all of them.

        The largest weight first; from learners that choose.  ``names`` are those of the features.
        """
        return []

    @clean_interrupts()
    def scores(self, X: Any) -> np.ndarray:
        """(rows, outputs) of rows that have not been checked."""
        return self.function_.scores(input.checked_X(self, X))

    def __sklearn_is_fitted__(self) -> bool:
        return "function_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@dataclass
class Blocks:
    """Chunks of features that are computed as they are met, from all rows in memory."""

    front: Front
    entered: Any
    whole: Chunk
    size: int

    def passes(self, plan: driver.Plan, seam: int, seed: int) -> Iterator[Iterator[Chunk]]:
        block = max(self.size // seam, 1) * seam
        for number in range(plan.passes):
            order = driver.pass_order(self.whole.order, plan.order, seed, number)
            starts = range(0, order.size, block)
            yield (self.chunk(order[start : start + block]) for start in starts)

    def chunk(self, part: np.ndarray) -> Chunk:
        """Some of the rows as a chunk of their own."""
        order = np.arange(part.size, dtype=np.uint32)
        weight = np.ascontiguousarray(self.whole.weight[part])
        return Chunk(self.front.rows(self.entered[part]), self.whole.y[part], weight, order)
