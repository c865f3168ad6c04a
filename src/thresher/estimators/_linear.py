"""What the linear classifier and regressor share: parameters, solver choice, the fit itself."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.estimators import _input
from thresher.estimators._nested import NestedParameters
from thresher.estimators._progress import Progress
from thresher.estimators._stream import RowStream, stream_chunk
from thresher.losses import Loss
from thresher.penalties import L2, Penalty, strengthened
from thresher.registry import LOSSES, resolve
from thresher.solvers import Chunk, Problem, Result, Solver, Status, driver
from thresher.solvers.auto import (
    choose_solver,
    choose_stream_solver,
    default_tolerance,
    largest_useful_strength,
)

__all__ = ["LinearModel"]

_STREAM_ALPHA = 1e-5


class Setup(NamedTuple):
    """A problem ready to run, with the solver and the plan for it."""

    problem: Problem
    solver: Solver
    plan: driver.Plan


class Path(Protocol):
    """Where fits of the same rows with other strengths of the penalty ended."""

    def start(self, setup: Setup, chunk: Chunk, output: int | None) -> Any:
        """A state to start from, or None."""

    def keep(self, setup: Setup, output: int | None, result: Result) -> None: ...


class LinearModel(NestedParameters):
    """Base of the linear estimators: everything but targets and predictions."""

    _task: str
    _scales: tuple[str, ...] = ()  # words that ``scale`` may be
    _path: Path | None = None  # set by those who fit the same rows for many alphas

    def __init__(
        self, loss: Any, penalty: Any, solver: Any, alpha: float | None, fit_intercept: bool,
        scale: Any, max_iter: int | None, steps: int | None, tol: float | None, order: str,
        early_stopping: bool, validation_fraction: float, patience: int, n_jobs: int | None,
        random_state: Any, trace: bool, verbose: int, callbacks: Any,
    ):  # fmt: skip
        self.loss = loss
        self.penalty = penalty
        self.solver = solver
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.max_iter = max_iter
        self.steps = steps
        self.tol = tol
        self.order = order
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.trace = trace
        self.verbose = verbose
        self.callbacks = callbacks

    def _named(self, name: str) -> Any:
        value = super()._named(name)
        return self._default_penalty() if name == "penalty" and value is None else value

    # ------------------------------------------------------------ from parameters to a problem

    def _setup(
        self, rows: Rows, chunk: Chunk, outputs: int, mass: float | None, streaming: bool = False
    ) -> Setup:
        """Terms, solver and plan; ``mass`` is the total weight of all rows, None if unknown."""
        self._check_options()
        loss = resolve(self.loss, Loss, "loss")
        if self._task not in loss.tasks:
            fitting = [name for name, cls in LOSSES.items() if self._task in cls.tasks]
            raise ValueError(
                f"loss {type(loss).__name__} is not for {self._task}; "
                f"use one of {', '.join(fitting)}"
            )
        seed = seed_from(self.random_state)
        draft = Problem(
            loss, L2(0.0), rows.shape[1], self.fit_intercept, rows.dtype, seed,
            self.tol, outputs,
        )  # fmt: skip
        penalty = self._penalty(draft, chunk, mass)
        if self.solver != "auto":
            solver = resolve(self.solver, Solver, "solver")
        elif streaming:
            solver = choose_stream_solver(penalty)
        else:
            solver = choose_solver(
                loss, penalty, rows.shape, rows.stored, exact=self.tol is not None
            )
        tol = default_tolerance(solver, loss, rows.shape) if self.tol is None else self.tol
        problem = replace(draft, penalty=penalty, tol=tol)
        passes = self.max_iter or solver.planned_passes(rows.shape)
        return Setup(problem, solver, driver.Plan(passes, self.order, self.steps, self.trace))

    def _penalty(self, draft: Problem, chunk: Chunk, mass: float | None) -> Penalty:
        """The penalty object, its strength filled in from ``alpha`` or from the data."""
        penalty = self._default_penalty() if self.penalty is None else self.penalty
        if isinstance(penalty, Penalty):
            return penalty if self.alpha is None else strengthened(penalty, self.alpha)
        alpha = self.alpha
        if alpha is None:
            if penalty != "l2":
                alpha = 0.01 * self._largest_strength(draft, chunk)
            else:
                alpha = _STREAM_ALPHA if mass is None else 1.0 / mass
        return resolve(penalty, Penalty, "penalty", strength=alpha)

    def _default_penalty(self) -> str:
        """What the solver's name stands for."""
        if self.solver == "auto":
            return "l2"
        return resolve(self.solver, Solver, "solver").default_penalty

    def _largest_strength(self, draft: Problem, chunk: Chunk) -> float:
        one = replace(draft, outputs=1)
        return max(
            largest_useful_strength(one, chunk._replace(y=driver.signs(chunk.y, c)))
            if draft.outputs > 1
            else largest_useful_strength(one, chunk)
            for c in range(draft.outputs)
        )

    def _check_options(self) -> None:
        if self.alpha is not None and not (np.isfinite(self.alpha) and self.alpha >= 0.0):
            raise ValueError(f"alpha must be a finite number of at least 0, got {self.alpha}")
        if self.tol is not None and not self.tol > 0.0:
            raise ValueError(f"tol must be positive (or None), got {self.tol}")
        for name in ("max_iter", "steps"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1 (or None), got {value}")
        if self.order not in driver.ORDERS:
            raise ValueError(
                f"order={self.order!r} is unknown: use one of {', '.join(driver.ORDERS)}"
            )
        if not 0.0 < self.validation_fraction < 1.0:
            raise ValueError(
                "validation_fraction must lie strictly between 0 and 1, "
                f"got {self.validation_fraction}"
            )
        if self.patience < 1:
            raise ValueError(f"patience must be at least 1, got {self.patience}")

    # ------------------------------------------------------------ the fit

    def _fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int, held: Any
    ) -> None:
        """Learn ``outputs`` linear functions; targets are class numbers when outputs > 1."""
        units = self._units(rows, weight)
        rows = units.apply(rows) if units else rows
        held = held._replace(rows=units.apply(held.rows)) if units and held else held
        chunk = driver.whole(rows, targets, weight)
        mass = float(rows.shape[0] if weight is None else weight.sum())
        setup = self._setup(rows, chunk, outputs, mass)
        if outputs == 1 or setup.solver.joint:
            results = [self._run(setup, chunk, held, None)]
        else:
            results = self._one_vs_rest(setup, chunk, held, outputs)
        self._store(results, units, setup.problem, setup.solver)

    def _one_vs_rest(self, setup: Setup, chunk: Any, held: Any, outputs: int) -> list[Result]:
        problem = replace(setup.problem, outputs=1)

        def learn(c: int) -> Result:
            part = chunk._replace(y=driver.signs(chunk.y, c))
            held_part = held and held._replace(y=driver.signs(held.y, c))
            return self._run(setup._replace(problem=problem), part, held_part, c)

        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            return list(pool.map(learn, range(outputs)))

    def _run(self, setup: Setup, chunk: Chunk, held: Any, output: int | None) -> Result:
        watched = self.verbose or self.callbacks or held
        progress = Progress(self, setup, held, output) if watched else None
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                start = self._path and self._path.start(setup, chunk, output)
                result = driver.run(
                    setup.solver, setup.problem, chunk, setup.plan, state=start, monitor=progress
                )
        except (ArithmeticError, ValueError):
            _input.refuse_huge(chunk)
            raise
        if result.status in (Status.DIVERGED, Status.ALL_ZERO):
            _input.refuse_huge(chunk)
        if self._path:
            self._path.keep(setup, output, result)
        return progress.best(result) if progress else result

    def _units(self, rows: Rows, weight: np.ndarray | None) -> _input.Units | None:
        if not _input.wants_units(self.scale, self._scales):
            return None
        weight = np.ones(rows.shape[0]) if weight is None else weight
        return _input.learn_units(rows, weight, centre=hasattr(rows, "X") and self.fit_intercept)

    def _store(
        self, results: list[Result], units: _input.Units | None, problem: Problem, solver: Solver
    ) -> None:
        coef = np.concatenate([np.atleast_2d(r.coef) for r in results])
        intercept = np.concatenate([np.atleast_1d(r.intercept) for r in results]).astype(np.float64)
        if units is not None:
            coef, intercept = units.undo(coef, intercept)
        self.coef_ = coef.astype(problem.dtype, copy=False)
        self.intercept_ = intercept
        self.n_iter_ = max(r.passes for r in results)
        self.status_ = max((r.status for r in results), key=_SEVERITY.index)
        self.density_ = float(np.count_nonzero(coef) / max(coef.size, 1))
        self.solver_ = solver
        self.penalty_ = problem.penalty
        if self.trace:
            self.trace_ = [r.trace for r in results]
        if self.status_ in (Status.MAX_ITER, Status.DIVERGED, Status.ALL_ZERO):
            warnings.warn(
                f"{type(self).__name__}: {self.status_}", ConvergenceWarning, stacklevel=4
            )

    # ------------------------------------------------------------ streams

    def _partial_fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int
    ) -> None:
        first = not hasattr(self, "_stream")
        if first:
            self._stream_units = self._units(rows, weight)
        rows = self._stream_units.apply(rows) if self._stream_units else rows
        chunk = stream_chunk(rows, targets, weight)
        if first:
            setup = self._setup(rows, chunk, outputs, mass=None, streaming=True)
            self._stream = RowStream.open(setup.problem, setup.solver, chunk)
        self._stream.update(chunk)
        results = self._stream.results()
        if any(r.status is Status.DIVERGED for r in results):
            if not first:  # the last finite model stays
                warnings.warn(
                    f"{type(self).__name__}: {Status.DIVERGED}", ConvergenceWarning, stacklevel=4
                )
                self.status_ = Status.DIVERGED
                return
            for r in results:
                r.coef, r.intercept = np.zeros_like(r.coef), np.zeros_like(r.intercept)
        if not any(np.any(r.coef) for r in results):
            _input.refuse_huge(chunk)
        self._store(results, self._stream_units, *self._stream.learners[0][:2])

    def _can_stream(self) -> bool:
        if self.solver == "auto" or resolve(self.solver, Solver, "solver").streaming:
            return True
        raise AttributeError(
            f"solver={self.solver!r} must see all rows at once and has no partial_fit; use 'auto', "
            "'asgd', 'pegasos', 'fobos' or one of the RDA solvers"
        )

    # ------------------------------------------------------------ use

    def _scores(self, X: Any) -> np.ndarray:
        X = _input.checked_X(self, X)
        scores = X @ self.coef_.T
        return (scores.toarray() if hasattr(scores, "toarray") else scores) + self.intercept_

    def sparsify(self) -> LinearModel:
        """Store ``coef_`` as a CSR matrix: smaller for models with many zeros."""
        from scipy.sparse import csr_matrix

        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> LinearModel:
        """Store ``coef_`` as an array again."""
        if hasattr(self.coef_, "toarray"):
            self.coef_ = self.coef_.toarray()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


_SEVERITY = [
    Status.COMPLETED,
    Status.CONVERGED,
    Status.EARLY_STOPPED,
    Status.INTERRUPTED,
    Status.MAX_ITER,
    Status.ALL_ZERO,
    Status.DIVERGED,
]
