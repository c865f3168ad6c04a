"""``BudgetedClassifier`` and ``BudgetedRegressor``: kernel machines of a fixed size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher._allowed import FLAG, POSITIVE, UNLIMITED, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.data.moments import Moments
from thresher.dimensions import Int
from thresher.estimators.base import Learner, Setup
from thresher.estimators.classifier import Classifier
from thresher.estimators.fronts import Front
from thresher.estimators.regressor import Regressor
from thresher.estimators.spaces import kernel_dimensions, strength, term_dimensions
from thresher.estimators.views import view
from thresher.kernels import RBF, Kernel
from thresher.losses import Hinge, Loss
from thresher.penalties import L2
from thresher.registry import LOSSES, resolve
from thresher.solvers import Chunk, Problem, driver
from thresher.solvers.budgeted import Budgeted
from thresher.solvers.stream import Facts

__all__ = ["BudgetedClassifier", "BudgetedModel", "BudgetedRegressor"]

_STREAM_ALPHA = 1e-5
_MOST_VECTORS = 2000  # in a race


class BudgetedModel(Learner):
    """What the two share: parameters, and the problem they stand for."""

    allowed = {
        "alpha": POSITIVE | None, "gamma": POSITIVE | None, "budget": whole(1),
        "max_iter": whole(1), "order": OneOf("shuffle", "sequential"), "fit_intercept": FLAG,
        "eta0": UNLIMITED | None, "average": FLAG, "scale": FLAG | "relevance",
    }  # fmt: skip
    support_vectors_ = view("vectors", "In the units of ``shift_`` and ``scale_``.")
    dual_coef_ = view("coef", "Coefficients of the support vectors, (outputs, support vectors).")
    intercept_ = view("intercept", "One per output.")
    kernel_ = view("kernel", "With its width filled in.")

    def __init__(
        self, kernel: Any, gamma: float | None, alpha: float | None, budget: int, maintenance: str,
        max_iter: int, order: str, fit_intercept: bool, eta0: float | None, average: bool,
        scale: Any, random_state: Any, verbose: int, callbacks: Any,
    ):  # fmt: skip
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.budget = budget
        self.maintenance = maintenance
        self.max_iter = max_iter
        self.order = order
        self.fit_intercept = fit_intercept
        self.eta0 = eta0
        self.average = average
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def alpha_(self) -> float:
        """The strength that was used."""
        return float(self.penalty_.strength)

    @property
    def shift_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = self.function_.units
        return None if units is None else units.shift

    @property
    def scale_(self) -> np.ndarray | None:
        """Rows are read as (x - shift_) * scale_."""
        units = self.function_.units
        return None if units is None else units.scale

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts = {"alpha": strength(X), **kernel_dimensions(self, X)}
        parts.pop("kernel__degree", None)  # a kernel object then, and gamma is for kernels by name
        return parts | term_dimensions(self)

    def capacity(self, rows: int) -> dict[str, Int]:
        return {"budget": Int(50, min(_MOST_VECTORS, max(rows // 4, 100)), log=True)}

    def components(self, params: dict[str, Any], rows: int) -> int:
        return int(params.get("budget", self.budget))

    # ------------------------------------------------------------ from parameters to a problem

    def _loss(self) -> Loss:
        return Hinge()

    def check_options(self) -> None:
        super().check_options()
        if self.gamma is not None and isinstance(self.kernel, Kernel):
            raise ValueError(
                f"gamma={self.gamma} is for kernels given by name; "
                f"{type(self.kernel).__name__} has its own parameters"
            )
        solver = self._solver(resolve(self.kernel, Kernel, "kernel"), self.budget)
        solver.check(Problem(self._loss(), L2(1.0), 1))

    def _solver(self, kernel: Kernel, budget: int) -> Budgeted:
        constant, memory = float(self.fit_intercept), 16.0 if self.average else None
        return Budgeted(kernel, int(budget), self.maintenance, constant, self.eta0, memory)

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        moments = Moments.empty(rows.shape[1]).updated(rows, chunk.weight)
        mean, deviation = moments.mean_and_deviation()
        with np.errstate(over="ignore"):
            variance, square = float(np.sum(deviation**2)), float(np.sum(mean**2 + deviation**2))
        gamma = self.gamma
        if gamma is None:
            gamma = 1.0 / variance if 0.0 < variance < math.inf else 1.0
        kernel = resolve(self.kernel, Kernel, "kernel", gamma=gamma)
        # Distances from inner products cancel: single precision while that leaves four digits.
        short = isinstance(kernel, RBF) and kernel.gamma * square < 200.0 and square < 1e30
        alpha = self.alpha or (_STREAM_ALPHA if facts.mass is None else 1.0 / facts.mass)
        budget = self.budget if facts.rows is None else min(self.budget, facts.rows)
        problem = Problem(
            self._loss(), L2(float(alpha)), rows.shape[1], self.fit_intercept,
            np.float32 if short else np.float64, seed_from(self.random_state), None, outputs,
        )  # fmt: skip
        return Setup(problem, self._solver(kernel, budget), driver.Plan(self.max_iter, self.order))


class BudgetedClassifier(Classifier, BudgetedModel):
    """Kernel support vector machine with a bounded number of support vectors.

    Stochastic gradient descent on the hinge loss (of Crammer and Singer for more than two classes);
    time and memory are linear in the data, whatever their number.  ``sample_weight`` and
    ``class_weight`` multiply a row's loss; since rows are visited one by one, weight k and k copies
    of a row agree in the objective, not to the last digit of a run.

    Parameters
    ----------
    kernel : {"rbf", "polynomial", "exponential", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float or None, default=None
        Width of a kernel given by name. None: 1 / (sum of the features' variances); after
        ``scale=True`` that is one over the number of features that vary.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 * ||f||^2. None: 1/n, in ``partial_fit``
        1e-5.
    budget : int, default=200
        Most support vectors.
    maintenance : {"merge", "project", "remove", "remove_random"}, default="merge"
        How one is given up when there are too many: the lightest is merged with another (RBF
        kernel only), projected onto all others (positive definite kernels), or dropped.
    max_iter : int, default=5
        Passes over the data.
    order : {"shuffle", "sequential"}, default="shuffle"
        Visit rows in a new random order each pass, or as given.
    fit_intercept : bool, default=False
        Add a constant feature to the kernel's; its weight is the intercept, penalised like theirs.
    eta0 : float or None, default=None
        Length of the first step, in  1 / (alpha t + 1/eta0). None: what moves a prediction by
        about one. ``math.inf`` is Pegasos as published, which starts with steps of 1/alpha.
    average : bool, default=True
        Use an average of the last iterates (weighed by t^16) instead of the last one alone.
    scale : bool or "relevance", default=False
        Standardise the features on the fly; sparse data are scaled but not centred.  "relevance"
        also weighs them, as in ``KernelClassifier``.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass (``coef`` are the dual coefficients);
        returning True stops the fit.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on out-of-fold scores.

    Attributes
    ----------
    support_vectors_ : array of shape (n_support, n_features)
        In the units of ``shift_`` and ``scale_``.
    dual_coef_ : array of shape (n_outputs, n_support)
    intercept_ : array of shape (n_outputs,)
    kernel_ : Kernel
        With its width filled in.
    alpha_ : float
        The strength that was used.
    shift_, scale_ : arrays of shape (n_features,) or None
        With ``scale`` rows are read as (x - shift_) * scale_; sparse ones are not shifted.
    function_ : Expansion
        What was learned: the numbers above.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    solver_, penalty_ : Budgeted, L2
        What was used, with all that was left to be found.
    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher import BudgetedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BudgetedClassifier(budget=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), len(model.support_vectors_)
    (True, 100)
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: float | None = None,
        alpha: float | None = None,
        budget: int = 200,
        maintenance: str = "merge",
        max_iter: int = 5,
        order: str = "shuffle",
        fit_intercept: bool = False,
        eta0: float | None = None,
        average: bool = True,
        scale: Any = False,
        class_weight: Any = None,
        calibrate: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        BudgetedModel.__init__(
            self, kernel, gamma, alpha, budget, maintenance, max_iter, order, fit_intercept, eta0,
            average, scale, random_state, verbose, callbacks,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibrate = calibrate


class BudgetedRegressor(Regressor, BudgetedModel):
    """Kernel regression with a bounded number of support vectors.

    ``sample_weight`` multiplies a row's loss, as in :class:`BudgetedClassifier`.

    Parameters
    ----------
    loss : {"least_squares", "huber", "epsilon_insensitive", ...} or Loss, default="least_squares"
        Any regression loss. "epsilon_insensitive" leaves rows within the tube alone, which saves
        time; its width is in the units of y.
    kernel : {"rbf", "polynomial", "exponential", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float or None, default=None
        Width of a kernel given by name. None: 1 / (sum of the features' variances); after
        ``scale=True`` that is one over the number of features that vary.
    alpha : float or None, default=None
        Strength of the penalty, in  mean loss + alpha / 2 * ||f||^2. None: 1/n, in ``partial_fit``
        1e-5.
    budget : int, default=200
        Most support vectors.
    maintenance : {"merge", "project", "remove", "remove_random"}, default="merge"
        How one is given up when there are too many: the lightest is merged with another (RBF
        kernel only), projected onto all others (positive definite kernels), or dropped.
    max_iter : int, default=5
        Passes over the data.
    order : {"shuffle", "sequential"}, default="shuffle"
        Visit rows in a new random order each pass, or as given.
    fit_intercept : bool, default=True
        Start from the mean target, and add a constant feature to the kernel's; its weight, which is
        penalised like theirs, and the mean are the intercept.
    eta0 : float or None, default=None
        Length of the first step, in  1 / (alpha t + 1/eta0). None: what moves a prediction by
        about one. ``math.inf`` is Pegasos as published, which starts with steps of 1/alpha.
    average : bool, default=True
        Use an average of the last iterates (weighed by t^16) instead of the last one alone.
    scale : bool or "relevance", default=False
        Standardise the features on the fly; sparse data are scaled but not centred.  "relevance"
        also weighs them, as in ``KernelClassifier``.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass (``coef`` are the dual coefficients);
        returning True stops the fit.

    Attributes
    ----------
    support_vectors_ : array of shape (n_support, n_features)
        In the units of ``shift_`` and ``scale_``.
    dual_coef_ : array of shape (1, n_support)
    intercept_ : array of shape (1,)
    kernel_ : Kernel
        With its width filled in.
    alpha_ : float
        The strength that was used.
    shift_, scale_ : arrays of shape (n_features,) or None
        With ``scale`` rows are read as (x - shift_) * scale_; sparse ones are not shifted.
    function_ : Expansion
        What was learned: the numbers above.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    solver_, penalty_ : Budgeted, L2
        What was used, with all that was left to be found.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher import BudgetedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(BudgetedRegressor(scale=True, random_state=0).fit(X, y).score(X, y) > 0.45)
    True
    """

    def __init__(
        self,
        loss: Any = "least_squares",
        *,
        kernel: Any = "rbf",
        gamma: float | None = None,
        alpha: float | None = None,
        budget: int = 200,
        maintenance: str = "merge",
        max_iter: int = 5,
        order: str = "shuffle",
        fit_intercept: bool = True,
        eta0: float | None = None,
        average: bool = True,
        scale: Any = False,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        BudgetedModel.__init__(
            self, kernel, gamma, alpha, budget, maintenance, max_iter, order, fit_intercept, eta0,
            average, scale, random_state, verbose, callbacks,
        )  # fmt: skip
        self.loss = loss

    def _loss(self) -> Loss:
        loss = resolve(self.loss, Loss, "loss")
        if "regression" not in loss.tasks:
            fitting = [name for name, cls in LOSSES.items() if "regression" in cls.tasks]
            raise ValueError(
                f"loss {type(loss).__name__} is not for regression; use one of {', '.join(fitting)}"
            )
        return loss

    def _offset(self, targets: np.ndarray, weight: np.ndarray | None) -> float:
        """The mean target: steps need not spend themselves on reaching it."""
        return float(np.average(targets, weights=weight)) if self.fit_intercept else 0.0
