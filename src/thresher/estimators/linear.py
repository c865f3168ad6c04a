"""``LinearClassifier`` and ``LinearRegressor``: any loss, any penalty, any solver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.dimensions import Choice
from thresher.estimators.base import Learner, Setup
from thresher.estimators.classifier import Classifier
from thresher.estimators.fronts import Front
from thresher.estimators.regressor import Regressor
from thresher.estimators.sizes import sizes
from thresher.estimators.spaces import (
    context_of,
    feature_dimensions,
    sparse_strength,
    strength,
    term_dimensions,
)
from thresher.estimators.views import view
from thresher.functions import LinearFunction
from thresher.functions.base import dense
from thresher.losses import Loss
from thresher.maps.base import Circumstances
from thresher.penalties import L2, Features, Penalty, strengthened
from thresher.penalties.blocks import block_norms
from thresher.registry import LOSSES, TASKS, resolve
from thresher.solvers import Chunk, Newton, Problem, Solver, Status, driver
from thresher.solvers.auto import (
    choose_solver,
    choose_stream_solver,
    default_tolerance,
    gradient_at_zero,
    largest_useful_strength,
)
from thresher.solvers.stream import Facts

__all__ = ["LinearClassifier", "LinearModel", "LinearRegressor", "imported"]

_STREAM_ALPHA = 1e-5


class LinearModel(Learner):
    """What linear estimators share, also those behind a map: terms, solver choice, parameters."""

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
        penalty = self.penalty_for(problem, chunk, facts.mass, usual)
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
        self, draft: Problem, chunk: Chunk, mass: float | None, usual_strength: float = 1.0
    ) -> Penalty:
        """The penalty object, its strength filled in from ``alpha`` or from the data."""
        penalty = self._default_penalty() if self.penalty is None else self.penalty
        named = not isinstance(penalty, Penalty)
        term = resolve(penalty, Penalty, "penalty").bound(self._features(draft.n_features))
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

    def _features(self, count: int) -> Features:
        """What is known of so many features, those of the rows or those of a map."""
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

    def check_options(self) -> None:
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

    def _can_stream(self) -> bool:
        if self.solver == "auto" or resolve(self.solver, Solver, "solver").streaming:
            return True
        raise AttributeError(
            f"solver={self.solver!r} must see all rows at once and has no partial_fit; use 'auto', "
            "'asgd', 'pegasos', 'fobos' or one of the RDA solvers"
        )

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


class LinearClassifier(Classifier, LinearModel):
    """Linear classifier for dense or sparse data of any size.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge", "logistic", "pinball", ...} or Loss, default="squared_hinge"
        A name, or an object such as ``Pinball(tau=0.2)`` or one of your own classes.
    penalty : {"l2", "l1", "elastic_net", "group", ...}, Penalty or None, default=None
        What large weights cost. None: the one the solver is made for ("l2" unless it is sparse).
        ``GroupL2(groups)`` keeps or drops whole groups of features.
    solver : {"auto", "asgd", "dcd", "newton", "rda", ...} or Solver, default="auto"
        "auto" looks at the loss, the penalty and the shape of the data.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha * penalty(w).  None: for "l2" 0.3/n times
        the typical squared distance of a row from the mean, which suits all units alike (1/n is
        what LIBLINEAR calls C=1), for sparse penalties a hundredth of the strength that would
        leave an empty model, 1e-5 in ``partial_fit``; a Penalty object is used as it is.  Given
        with a Penalty object, alpha multiplies the object's strength.
    fit_intercept : bool, default=True
        Learn an intercept; unpenalised, except with the solver "dcd".
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred, so zeros stay
        zeros.  ``coef_`` is in the original units.
    max_iter : int or None, default=None
        Most passes over the data; None: the solver's own.
    steps : int or None, default=None
        End after so many updates instead, however many passes that takes.
    tol : float or None, default=None
        Accuracy to reach: relative duality gap ("dcd", cutting planes), estimated relative
        suboptimality ("newton"), relative change of the weights per pass (others).  None: as good
        as predictions need.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the rows, stop when their loss has not improved for
        ``patience`` passes, and return the best pass.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out.
    patience : int, default=3
        Passes that early stopping waits for a lower loss.
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems; -1 uses all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    trace : bool, default=False
        Record objective, regret, non-zeros and stability in ``trace_``.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Fit ``predict_proba`` on out-of-fold scores; predictions stay those of the scores, so that
        near a boundary the most probable class may be another one. None: probabilities by the
        loss's own link, where it has one (logistic, modified Huber).

    Attributes
    ----------
    coef_ : array of shape (n_outputs, n_features)
        One row for two classes, positive for the second; otherwise one for each class.
    intercept_ : array of shape (n_outputs,)
    function_ : LinearFunction
        What was learned; ``coef_`` and ``intercept_`` are its fields.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used (the most of all classes).
    status_ : Status
        How the fit ended; its text says what to change.
    density_ : float
        Share of non-zero weights.
    solver_, penalty_ : Solver, Penalty
        What was used, with all that was left to be found.
    group_norms_ : array of shape (n_groups,)
        With a penalty over groups: the norm of each group's weights, as the solver saw the features
        (standardised, if ``scale``).
    trace_ : list of lists of Record
        One for each problem that was solved, if asked for.
    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher import LinearClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearClassifier(scale=True, random_state=0).fit(X, y)
    >>> print(round(model.score(X, y), 3), model.status_.name)
    0.988 CONVERGED
    """

    def __init__(
        self,
        loss: Any = "squared_hinge",
        *,
        penalty: Any = None,
        solver: Any = "auto",
        alpha: float | None = None,
        fit_intercept: bool = True,
        scale: Any = False,
        max_iter: int | None = None,
        steps: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        class_weight: Any = None,
        calibrate: str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
        trace: bool = False,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        LinearModel.__init__(
            self, loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibrate = calibrate


class LinearRegressor(Regressor, LinearModel):
    """Linear regression for dense or sparse data of any size.

    Parameters
    ----------
    loss : {"least_squares", "huber", "epsilon_insensitive", ...} or Loss, default="least_squares"
        A name, or an object such as ``Huber(delta=2.0)`` or one of your own classes.
    penalty : {"l2", "l1", "elastic_net", "group", ...}, Penalty or None, default=None
        What large weights cost. None: the one the solver is made for ("l2" unless it is sparse).
        ``GroupL2(groups)`` keeps or drops whole groups of features.
    solver : {"auto", "asgd", "dcd", "newton", "rda", ...} or Solver, default="auto"
        "auto" looks at the loss, the penalty and the shape of the data.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha * penalty(w).  None: 1/n for "l2" (what
        LIBLINEAR calls C=1), for sparse penalties a hundredth of the strength that would leave an
        empty model, 1e-5 in ``partial_fit``; a Penalty object is used as it is.  Given with a
        Penalty object, alpha multiplies the object's strength.
    fit_intercept : bool, default=True
        Learn an intercept; unpenalised, except with the solver "dcd".
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred, so zeros stay
        zeros.  ``coef_`` is in the original units.
    max_iter : int or None, default=None
        Most passes over the data; None: the solver's own.
    steps : int or None, default=None
        End after so many updates instead, however many passes that takes.
    tol : float or None, default=None
        Accuracy to reach: relative duality gap ("dcd", cutting planes), estimated relative
        suboptimality ("newton"), relative change of the weights per pass (others).  None: as good
        as predictions need.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the rows, stop when their loss has not improved for
        ``patience`` passes, and return the best pass.
    validation_fraction : float, default=0.1
        Share of the rows that early stopping holds out.
    patience : int, default=3
        Passes that early stopping waits for a lower loss.
    n_jobs : int or None, default=None
        Without effect: a regression is one problem.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    trace : bool, default=False
        Record objective, regret, non-zeros and stability in ``trace_``.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    intercept_ : array of shape (1,)
    function_ : LinearFunction
        What was learned; ``coef_`` and ``intercept_`` are its fields.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    density_ : float
        Share of non-zero weights.
    solver_, penalty_ : Solver, Penalty
        What was used, with all that was left to be found.
    group_norms_ : array of shape (n_groups,)
        With a penalty over groups: the norm of each group's weights, as the solver saw the features
        (standardised, if ``scale``).
    trace_ : list of lists of Record
        One list, if asked for.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(round(LinearRegressor(scale=True).fit(X, y).score(X, y), 3))
    0.518
    """

    def __init__(
        self,
        loss: Any = "least_squares",
        *,
        penalty: Any = None,
        solver: Any = "auto",
        alpha: float | None = None,
        fit_intercept: bool = True,
        scale: Any = False,
        max_iter: int | None = None,
        steps: int | None = None,
        tol: float | None = None,
        order: str = "shuffle",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 3,
        n_jobs: int | None = None,
        random_state: Any = None,
        trace: bool = False,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        LinearModel.__init__(
            self, loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip


def imported(
    coef: np.ndarray, intercept: np.ndarray, labels: np.ndarray | None, logistic: bool
) -> LinearClassifier | LinearRegressor:
    """A fitted estimator around weights that another tool learned; labels None: a regression."""
    estimator: Any = LinearRegressor()
    if labels is not None:
        estimator = LinearClassifier("logistic" if logistic else "squared_hinge")
        estimator.classes_ = labels
    estimator.function_ = LinearFunction(np.atleast_2d(coef), np.atleast_1d(intercept))
    estimator.n_features_in_ = estimator.function_.features
    estimator.n_iter_, estimator.status_ = 0, Status.COMPLETED
    estimator.solver_, estimator.penalty_ = Newton(), L2(0.0)
    return estimator
