"""What linear estimators share, also those behind a map: terms, solvers, strengths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thresher._allowed import FLAG, NOT_NEGATIVE, OPEN_SHARE, POSITIVE, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.dimensions import Choice
from thresher.estimators.base import Learner, Setup
from thresher.estimators.fronts import Front
from thresher.estimators.sizes import sizes
from thresher.estimators.spaces import (
    context_of,
    feature_dimensions,
    sparse_strength,
    strength,
    term_dimensions,
)
from thresher.estimators.views import view
from thresher.functions.base import dense
from thresher.losses import Loss
from thresher.maps.base import Circumstances
from thresher.penalties import L2, Features, Penalty, strengthened
from thresher.penalties.blocks import GroupPenalty, block_norms
from thresher.registry import LOSSES, TASKS, resolve
from thresher.solvers import Chunk, Problem, Solver, Status, driver
from thresher.solvers.auto import (
    choose_solver,
    choose_stream_solver,
    default_tolerance,
    gradient_at_zero,
    largest_useful_strength,
)
from thresher.solvers.stream import Facts

__all__ = ["LinearModel"]

_STREAM_ALPHA = 1e-5


class LinearModel(Learner):
    """What linear estimators share, also those behind a map: terms, solver choice, parameters."""

    allowed = {
        "alpha": NOT_NEGATIVE | None, "fit_intercept": FLAG, "steps": whole(1) | None,
        "tol": POSITIVE | None, "order": OneOf(*driver.ORDERS), "validation_fraction": OPEN_SHARE,
    }  # fmt: skip
    loss: Any
    coef_ = view("coef", "Weights, (outputs, features).")
    intercept_ = view("intercept", "One per output.")

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

    def named(self, name: str) -> Any:
        value = super().named(name)
        return self._default_penalty() if name == "penalty" and value is None else value

    # ------------------------------------------------------------ from parameters to a problem

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        self.check_options()
        problem = self.problem(rows.shape[1], rows.dtype, outputs)
        usual, uneven = front.usual_strength, False
        asks = self.alpha is None or self.solver == "auto"
        if asks and front.is_linear and TASKS[self.task].has_classes:
            usual, uneven = sizes(rows, chunk.weight)
        penalty = self.penalty_for(problem, chunk, facts.mass, usual, front.parts)
        problem = replace(problem, penalty=penalty)
        counted = chunk.order.size  # rows of weight zero are nothing to a solver
        shape, stored = (counted, rows.shape[1]), rows.stored * counted // max(rows.shape[0], 1)
        solver = self._solver(front, problem, shape, stored, not facts.whole, uneven)
        tol = default_tolerance(solver, problem.loss, shape) if self.tol is None else self.tol
        passes = self.max_iter or solver.planned_passes(shape)
        plan = driver.Plan(passes, self.order, self.steps, self.trace)
        return Setup(replace(problem, tol=tol), solver, plan)

    def problem(self, features: int, dtype: Any, outputs: int) -> Problem:
        """The problem without its penalty."""
        loss = resolve(self.loss, Loss, "loss")
        if self.task not in loss.tasks:
            fitting = [name for name, cls in LOSSES.items() if self.task in cls.tasks]
            raise ValueError(
                f"loss {type(loss).__name__} is not for {self.task}; use one of "
                f"{', '.join(fitting)}"
            )
        seed = seed_from(self.random_state)
        return Problem(loss, L2(0.0), features, self.fit_intercept, dtype, seed, self.tol, outputs)

    def _solver(
        self, front: Front, problem: Problem, shape: tuple[int, int], stored: int, streaming: bool,
        uneven: bool,
    ) -> Solver:  # fmt: skip
        """The one asked for; or what the rows and the front call for."""
        if self.solver != "auto":
            return resolve(self.solver, Solver, "solver")
        if streaming:
            usual = choose_stream_solver(problem.penalty)
        else:
            exact = self.tol is not None
            usual = choose_solver(
                problem.loss, problem.penalty, shape, stored, exact,
                problem.outputs if uneven else 0,
            )  # fmt: skip
        limits = (self.max_iter, self.steps)
        return front.prefers(Circumstances(problem, shape, self.task, usual, streaming, *limits))

    def penalty_for(
        self, draft: Problem, chunk: Chunk, mass: float | None, usual_strength: float = 1.0,
        parts: Any = None,
    ) -> Penalty:  # fmt: skip
        """The penalty object, its strength filled in from ``alpha`` or from the data.

        ``parts`` are what features come from, where a map knows it.
        """
        penalty = self._default_penalty() if self.penalty is None else self.penalty
        named = not isinstance(penalty, Penalty)
        term = resolve(penalty, Penalty, "penalty").bound(self._features(draft.n_features, parts))
        if not named and getattr(term, "strength", 1.0) is not None:
            return term if self.alpha is None else strengthened(term, self.alpha)
        alpha = self.alpha
        if alpha is None:
            if penalty != "l2":
                alpha = 0.01 * _largest_strength(replace(draft, penalty=term), chunk)
            else:
                alpha = _STREAM_ALPHA if mass is None else usual_strength / mass
        known = term.get_params()
        return replace(term, strength=alpha) if "strength" in known else term  # type: ignore[type-var]

    def _features(self, count: int, parts: Any = None) -> Features:
        """What is known of so many features, those of the rows or those of a map."""
        if parts is not None:
            return Features(count, None, parts)
        names = getattr(self, "feature_names_in_", None)
        fits = names is not None and len(names) == count
        return Features(count, names if fits else None)

    def _asks_strength(self) -> bool:
        given = isinstance(self.penalty, Penalty)
        return self.alpha is not None or (
            given and getattr(self.penalty, "strength", 1.0) is not None
        )

    def _default_penalty(self) -> str:
        """What the solver's name stands for."""
        if self.solver == "auto":
            return "l2"
        return resolve(self.solver, Solver, "solver").default_penalty

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        context = context_of(self)
        parts: dict[str, Any] = {}
        penalty, solver = context["penalty"], context["solver"]
        if penalty is None and solver != "auto":
            penalty = resolve(self.solver, Solver, "solver").default_penalty
        if penalty != "box":
            sparse = penalty in ("l1", "elastic_net", "group", "sparse_group")
            parts["alpha"] = sparse_strength(self, X, y) if sparse else strength(X)
        if not hasattr(X, "indptr") and not self.scale:
            parts["scale"] = Choice(False, True)
        return parts | term_dimensions(self) | feature_dimensions(self, X)

    def _centres(self) -> bool:
        return self.fit_intercept

    def streams_files(self) -> bool:
        """Also with solvers that learn between passes: a file has these."""
        return super().streams_files() or (
            self.solver != "auto" and resolve(self.solver, Solver, "solver").by_passes
        )

    def _can_stream(self) -> bool:
        if self.solver == "auto":
            return True
        solver = resolve(self.solver, Solver, "solver")
        if solver.streaming and not solver.by_passes:
            return True
        wants, more = "must see all rows at once", ""
        if solver.streaming:
            wants, more = "learns at the end of each pass", ", or fit, or train from a file"
        raise AttributeError(
            f"solver={self.solver!r} {wants} and has no partial_fit; use 'auto', 'asgd', "
            f"'pegasos', 'fobos' or one of the RDA solvers{more}"
        )

    def _exact_in_streams(self) -> str:
        by_groups = isinstance(self.penalty, GroupPenalty)
        by_groups = by_groups or self.penalty in ("group", "sparse_group")
        return "rda_plus" if by_groups else super()._exact_in_streams()

    # ------------------------------------------------------------ use

    def keep(
        self, function: Any, status: Status, passes: int, stream: Any, front: Front | None = None
    ) -> None:
        super().keep(function, status, passes, stream, front)
        self.__dict__.pop("group_norms_", None)
        penalty = self.penalty_
        if "grouped" in penalty.traits and front is not None and front.is_linear:
            coef = front.solver_weights(np.atleast_2d(dense(function.coef)))
            self.group_norms_ = block_norms(penalty, coef)  # type: ignore[arg-type]

    @property
    def density_(self) -> float:
        """Share of non-zero weights."""
        coef = self.coef_
        size = int(np.prod(coef.shape))
        count = coef.nnz if hasattr(coef, "nnz") else np.count_nonzero(coef)
        return float(count / max(size, 1))

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


def _largest_strength(draft: Problem, chunk: Chunk) -> float:
    one = replace(draft, outputs=1)
    if draft.outputs == 1:
        return largest_useful_strength(one, chunk)
    parts = [chunk._replace(y=driver.signs(chunk.y, c)) for c in range(draft.outputs)]
    if draft.penalty.shared:
        return draft.penalty.emptying(np.stack([gradient_at_zero(one, part) for part in parts]))
    return max(largest_useful_strength(one, part) for part in parts)
