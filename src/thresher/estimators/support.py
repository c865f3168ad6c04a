"""``SupportVectorClassifier`` and ``SupportVectorRegressor``: kernel machines solved exactly."""

from __future__ import annotations

import inspect
import math
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.base import SEVERITY, Learner
from thresher.estimators.classifier import Classifier
from thresher.estimators.progress import Held
from thresher.estimators.regressor import Regressor
from thresher.estimators.spaces import kernel_dimensions, term_dimensions
from thresher.estimators.support_fit import Fitted, Watch, duels, support_function, together
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.estimators.views import view
from thresher.functions.base import require
from thresher.kernels import Kernel
from thresher.kernels.gram import gram
from thresher.kernels.width import resolve_kernel
from thresher.losses import EpsilonInsensitive, Hinge, LeastSquares, Loss
from thresher.penalties import L2
from thresher.registry import resolve
from thresher.solvers import Problem, Status, driver
from thresher.solvers.kernel_least_squares import kernel_least_squares
from thresher.solvers.machines import (
    KernelDual,
    classification,
    nu_classification,
    nu_regression,
    regression,
)
from thresher.solvers.stream import Stream

__all__ = ["SupportVectorClassifier", "SupportVectorModel", "SupportVectorRegressor"]

_MULTICLASS = ("ovo", "ovr")
_INSTEAD = (
    "learner='kernel' (landmarks in place of all rows, in a few percent of the time) or "
    "learner='budgeted' (row by row)"
)
_INDEFINITE = (
    "the kernel is not positive definite on these rows: the model is a stationary point of its "
    "objective, maybe not the best one"
)


class SupportVectorModel(Learner):
    """What the two share: parameters, the kernel, memory, and what becomes of the solutions."""

    scales = ("relevance",)
    alpha_per_row = False  # C is one row's
    optional_record = (*Learner.optional_record, "loo_error_", "violation_")
    support_vectors_ = view("vectors", "In the units of ``shift_`` and ``scale_``.")
    dual_coef_ = view("coef", "Coefficients of the support vectors.")
    intercept_ = view("intercept", "One per function.")
    kernel_ = view("kernel", "With its width filled in.")
    losses: tuple[str, ...]
    loss: Any
    C: Any
    nu: float | None
    kernel: Any
    gamma: Any
    tol: Any
    memory: float
    multiclass = "ovr"

    # ------------------------------------------------------------ options

    def check_options(self) -> None:
        super().check_options()
        usual = inspect.signature(type(self)).parameters
        for name in ("C", "tol", "memory"):
            value = getattr(self, name)
            if value is None and usual[name].default is None:
                continue
            if not (isinstance(value, int | float | np.number) and 0.0 < value < math.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.nu is not None and not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu must lie in (0, 1], or be None for C alone; got {self.nu!r}")
        if self.max_iter is not None and self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1 (or None), got {self.max_iter}")
        resolve(self.kernel, Kernel, "kernel")
        if self.loss not in self.losses:
            known = " or ".join(map(repr, self.losses))
            raise ValueError(f"loss must be {known}, got {self.loss!r}")
        if self.nu is not None and self.loss == "least_squares":
            raise ValueError("nu is for the loss with a margin or a tube, not for 'least_squares'")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        parts: dict[str, Any] = {"C": Float(1e-2, 1e4, log=True)}
        if self.nu is not None:
            parts = {"nu": Float(0.01, 0.5, log=True)}
        parts |= kernel_dimensions(self, X)
        parts.pop("kernel__degree", None)  # a kernel object then, and gamma is for kernels by name
        return parts | term_dimensions(self)

    def work(self, params: dict[str, Any], rows: int) -> float:
        return float(rows) ** 2

    def _can_stream(self) -> bool:
        raise AttributeError(
            f"{type(self).__name__} compares all rows with each other and has no partial_fit: use "
            "the learner 'budgeted' for streams"
        )

    def streams_files(self) -> bool:
        """An exact machine needs all rows together."""
        return False

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return "the exact kernel machine", _INSTEAD

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

    # ------------------------------------------------------------ the fit

    def fit_targets(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, outputs: int,
        held: Held | None = None,
    ) -> None:  # fmt: skip
        """Learn from coded targets: -1 and +1, class numbers if ``outputs`` > 1, or numbers."""
        self._forget()
        judges = driver.whole(rows, targets, weight)
        front = self.learn_front(rows, targets, weight)
        X = input.matrix_of(rows)
        X = X if front.units is None else front.units.matrix(X)
        weight = np.ones(targets.size) if weight is None else weight
        kept = np.flatnonzero(weight > 0.0)
        if kept.size < weight.size:
            X, targets, weight = X[kept], targets[kept], weight[kept]
        input.refuse_far_rows(X)
        kernel = resolve_kernel(self.kernel, self.gamma, X, seed_from(self.random_state))
        targets = targets.astype(np.float64)
        C, tol = self._numbers(targets, weight)
        given = KernelRows(kernel, X, targets, C * weight)
        solver = KernelDual(tol, float(self.memory), self.max_iter, self._jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            function, fitted = self._learned_from(given, solver, outputs)
        status = max((f.status for f in fitted), key=SEVERITY.index)
        self.violation_ = max(f.violation for f in fitted)
        function = function.unscaled(front.units)
        if not function.is_finite():
            raise ArithmeticError("the model overflows: scale the features or lower C")
        mass = float(weight.sum())
        problem = Problem(
            self._loss(), L2(1.0 / (C * mass)), X.shape[1], True, rows.dtype, 0, tol, outputs,
        )  # fmt: skip
        stream = Stream(problem, solver, None)
        if not self._is_good(given, fitted, outputs):
            status = self.judged(status, stream, judges, function, front)
        self.keep(function, status, max(f.steps for f in fitted), stream)
        if any(f.negative for f in fitted):
            warnings.warn(f"{type(self).__name__}: {_INDEFINITE}", ConvergenceWarning, stacklevel=4)
        if SEVERITY.index(status) >= SEVERITY.index(Status.MAX_ITER):
            self._warn(status)

    def _learned_from(
        self, given: KernelRows, solver: KernelDual, outputs: int
    ) -> tuple[Any, list[Fitted]]:
        """The function, and how each of its problems ended."""
        watch = Watch(self)
        if self.loss == "least_squares" and (outputs == 1 or self.multiclass == "ovr"):
            return self._by_least_squares(given, outputs)

        def learn(part: KernelRows, output: int | None, own: KernelDual, cache: Any) -> Fitted:
            if watch.is_over():
                return Fitted.nothing(part.y.size, 0.0, watch.stopped or Status.OUT_OF_TIME)
            if self.loss == "least_squares":
                return self._least_squares(part, part.y[:, None])[0][0]
            columns = part.columns(solver.tol) if cache is None else cache.source
            return self._solve(own, columns, part, watch.monitor(output), cache)

        if outputs > 1 and self.multiclass == "ovo":
            return duels(learn, given, outputs, solver, watch)
        fitted = together(learn, given, outputs, solver)
        return support_function(given, fitted), fitted

    @property
    def _jobs(self) -> int:
        return threads(self.n_jobs)

    def _solve(
        self, solver: KernelDual, columns: Any, part: KernelRows, monitor: Any, cache: Any
    ) -> Fitted:
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        """C and the tolerance."""
        return float(self.C), float(self.tol)

    def _is_good(self, given: KernelRows, fitted: list[Fitted], outputs: int) -> bool:
        """Whether the training scores alone say that the model is worth having."""
        return False

    # ------------------------------------------------------------ least squares

    def _by_least_squares(self, given: KernelRows, outputs: int) -> tuple[Any, list[Fitted]]:
        y = given.y[:, None]
        if outputs > 1:
            y = np.where(y == np.arange(outputs), 1.0, -1.0)
        fitted, left_out = self._least_squares(given, y)
        self.loo_error_ = self._left_out(given, left_out)
        return support_function(given, fitted), fitted

    def _least_squares(self, part: KernelRows, y: np.ndarray) -> tuple[list[Fitted], np.ndarray]:
        n = y.shape[0]
        if 8 * n * n > max(self.memory, 2e9):
            raise ValueError(
                f"least squares over {n:,} rows needs {8 * n * n:,} bytes for the kernel matrix: "
                f"raise memory to that, or use {_INSTEAD}"
            )
        K = gram(part.kernel, part.X.astype(np.float64))
        found = kernel_least_squares(K, y, part.weight)
        fitted = [
            Fitted(coef, float(b), scores, Status.CONVERGED, 1, 0.0)
            for coef, b, scores in zip(found.coef.T, found.intercept, found.scores.T, strict=True)
        ]
        return fitted, found.left_out

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        raise NotImplementedError


class SupportVectorClassifier(Classifier, SupportVectorModel):
    """Support vector machine, solved exactly: C-SVC, nu-SVC or LS-SVM, with any kernel.

    The same model as LIBSVM's (scikit-learn's ``SVC`` and ``NuSVC``), in a tenth of its time on
    larger sets.  Time and memory still grow with the square of the rows; ``KernelClassifier``
    approximates it in a few percent of the time, for any number of rows.

    Parameters
    ----------
    C : float, default=10.0
        Weight of a row's loss beside half the squared norm of the function; alpha = 1 / (C n) of
        ``KernelClassifier``.
    kernel : {"rbf", "polynomial", "exponential", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    nu : float or None, default=None
        In place of C (nu-SVC): the share of rows that may lie within the margin.
    loss : {"hinge", "least_squares"}, default="hinge"
        "least_squares" is the LS-SVM: one linear system in all rows, all of which become support
        vectors, with the leave-one-out error in closed form.
    multiclass : {"ovo", "ovr"}, default="ovo"
        A machine for every pair of classes, which vote, or one for each class against the rest.
    scale : bool or "relevance", default=False
        Standardise the features; sparse data are scaled but not centred.  "relevance" also weighs
        them, as in ``KernelClassifier``.
    tol : float, default=1e-3
        How much the KKT conditions may be violated by, as in LIBSVM.
    memory : float, default=2e8
        Bytes of kernel columns that are kept, 4 for each row of a column.
    max_iter : int or None, default=None
        Most renewals of the working set; None: as many as it takes.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on out-of-fold scores.
    n_jobs : int or None, default=None
        Threads, for pairs of classes or the columns of one problem.
    random_state : int, RandomState or None, default=None
        Seed of the rows that the median distance is taken over.
    verbose : int, default=0
        Print a line every second or so.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every step (a pass is a working set); returning
        True stops the fit.

    Attributes
    ----------
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        In the units of ``shift_`` and ``scale_``; sorted by class with "ovo".
    dual_coef_ : array of shape (n_functions, n_support)
        y alpha; with "ovo" in LIBSVM's layout, (n_classes - 1, n_support).
    intercept_ : array of shape (n_functions,)
    kernel_ : Kernel
        With its width filled in.
    violation_ : float
        By how much the KKT conditions are violated.
    loo_error_ : float
        Share of wrong predictions of rows that were left out one by one, in closed form; with
        loss="least_squares" of two classes or "ovr".
    shift_, scale_ : arrays of shape (n_features,) or None
        With ``scale`` rows are read as (x - shift_) * scale_; sparse ones are not shifted.
    function_ : SupportFunction or Duels
        What was learned: the numbers above.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Working sets of the longest problem.
    status_ : Status
        How the fit ended; its text says what to change.
    solver_, penalty_ : KernelDual, L2
        What was used; the strength of the penalty is 1 / (C n).
    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher import SupportVectorClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SupportVectorClassifier().fit(X[:1200], y[:1200])
    >>> print(model.score(X[1200:], y[1200:]) > 0.95, model.status_.name)
    True CONVERGED
    """

    optional_record = (*Classifier.optional_record, "loo_error_", "violation_")
    losses = ("hinge", "least_squares")

    def __init__(
        self,
        C: float = 10.0,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        nu: float | None = None,
        loss: str = "hinge",
        multiclass: str = "ovo",
        scale: Any = False,
        tol: float = 1e-3,
        memory: float = 2e8,
        max_iter: int | None = None,
        class_weight: Any = None,
        calibrate: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.nu = nu
        self.loss = loss
        self.multiclass = multiclass
        self.scale = scale
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def check_options(self) -> None:
        super().check_options()
        if self.multiclass not in _MULTICLASS:
            known = ", ".join(map(repr, _MULTICLASS))
            raise ValueError(f"multiclass must be one of {known}, got {self.multiclass!r}")

    def _solve(
        self, solver: KernelDual, columns: Any, part: KernelRows, monitor: Any, cache: Any
    ) -> Fitted:
        if self.nu is None:
            found = classification(
                solver, columns, part.y, part.weight, monitor=monitor, cache=cache
            )
        else:
            found = nu_classification(
                solver, columns, part.y, part.weight / self.C, self.nu, monitor=monitor,
                cache=cache,
            )  # fmt: skip
        return Fitted.of(found)

    def _loss(self) -> Loss:
        return LeastSquares() if self.loss == "least_squares" else Hinge()

    def _is_good(self, given: KernelRows, fitted: list[Fitted], outputs: int) -> bool:
        """Whether half of the errors of the most frequent class are not made."""
        if outputs > 1 or len(fitted) > 1:
            return False
        wrong = fitted[0].scores * given.y <= 0.0
        positive = given.y > 0.0
        usual = min(given.weight[positive].sum(), given.weight[~positive].sum())
        return bool(given.weight[wrong].sum() <= 0.5 * usual)

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        if left_out.shape[1] == 1:
            wrong = left_out[:, 0] * given.y <= 0.0
        else:
            wrong = left_out.argmax(axis=1) != given.y
        return float(np.average(wrong, weights=given.weight))

    def check_targets(self) -> None:
        super().check_targets()
        require(self.multiclass in _MULTICLASS, "multiclass is neither 'ovo' nor 'ovr'")


class SupportVectorRegressor(Regressor, SupportVectorModel):
    """Support vector regression, solved exactly: epsilon-SVR, nu-SVR or LS-SVM, with any kernel.

    The same model as LIBSVM's (scikit-learn's ``SVR`` and ``NuSVR``), in a fifth of its time or
    less on larger sets; ``KernelRegressor`` approximates it for any number of rows.

    Parameters
    ----------
    C : float or None, default=None
        Weight of a row's loss beside half the squared norm of the function, as in LIBSVM; None: ten
        times the deviation of the targets (10 with least squares), so that their units do not
        matter.
    epsilon : float or None, default=None
        Half the width of the tube within which a miss costs nothing, in units of the targets; None:
        a tenth of their deviation.
    kernel : {"rbf", "polynomial", "exponential", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    nu : float or None, default=None
        In place of epsilon (nu-SVR): the share of rows that may lie outside the tube, whose width
        is then found.
    loss : {"epsilon_insensitive", "least_squares"}, default="epsilon_insensitive"
        "least_squares" is the LS-SVM (kernel ridge regression with an intercept): one linear system
        in all rows, with the leave-one-out error in closed form.
    scale : bool or "relevance", default=False
        Standardise the features; sparse data are scaled but not centred.  "relevance" also weighs
        them, as in ``KernelRegressor``.
    tol : float or None, default=None
        How much the KKT conditions may be violated by, in units of the targets, as in LIBSVM; None:
        a thousandth of their deviation.
    memory : float, default=2e8
        Bytes of kernel columns that are kept, 4 for each row of a column.
    max_iter : int or None, default=None
        Most renewals of the working set; None: as many as it takes.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, RandomState or None, default=None
        Seed of the rows that the median distance is taken over.
    verbose, callbacks : as in ``SupportVectorClassifier``

    Attributes
    ----------
    support_vectors_ : array or CSR matrix of shape (n_support, n_features)
        In the units of ``shift_`` and ``scale_``.
    dual_coef_ : array of shape (1, n_support)
        alpha - alpha*.
    intercept_ : array of shape (1,)
    kernel_ : Kernel
        With its width filled in.
    epsilon_ : float
        Half the width of the tube, given or found by nu, in units of the targets.
    violation_ : float
        By how much the KKT conditions are violated.
    loo_error_ : float
        Mean squared error of rows that were left out one by one, in closed form; with
        loss="least_squares".
    function_ : SupportFunction
        What was learned: the numbers above.
    shift_, scale_, n_features_in_, feature_names_in_, n_iter_, status_, solver_, penalty_ : as in \
``SupportVectorClassifier``

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import SupportVectorRegressor
    >>> x = np.linspace(-3, 3, 200)[:, None]
    >>> model = SupportVectorRegressor(epsilon=0.05).fit(x, np.sinc(x[:, 0]))
    >>> print(model.score(x, np.sinc(x[:, 0])) > 0.98, len(model.support_vectors_) < 60)
    True True
    """

    optional_record = (*Regressor.optional_record, "loo_error_", "violation_", "epsilon_")
    losses = ("epsilon_insensitive", "least_squares")

    def __init__(
        self,
        C: float | None = None,
        epsilon: float | None = None,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        nu: float | None = None,
        loss: str = "epsilon_insensitive",
        scale: Any = False,
        tol: float | None = None,
        memory: float = 2e8,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.nu = nu
        self.loss = loss
        self.scale = scale
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def check_options(self) -> None:
        super().check_options()
        wide = self.epsilon
        if wide is not None and not (math.isfinite(wide) and wide >= 0.0):
            raise ValueError(f"epsilon must be a number of at least 0 (or None), got {wide!r}")

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        unit = 1.0 if y is None else _deviation(np.asarray(y, dtype=np.float64), None)
        parts = super().dimensions(X, y)
        if self.loss != "least_squares":
            parts |= {"C": Float(1e-2 * unit, 1e4 * unit, log=True)}
            if self.nu is None:
                parts["epsilon"] = Float(1e-3 * unit, unit, log=True)
        return parts

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        unit = _deviation(y, weight)
        self.epsilon_ = 0.1 * unit if self.epsilon is None else float(self.epsilon)
        usual = 10.0 * (1.0 if self.loss == "least_squares" else unit)
        C = usual if self.C is None else float(self.C)
        return C, 1e-3 * unit if self.tol is None else float(self.tol)

    def _solve(
        self, solver: KernelDual, columns: Any, part: KernelRows, monitor: Any, cache: Any
    ) -> Fitted:
        if self.nu is None:
            found = regression(
                solver, columns, part.y, part.weight, self.epsilon_, monitor=monitor, cache=cache
            )
        else:
            found, self.epsilon_ = nu_regression(
                solver, columns, part.y, part.weight, self.nu, monitor=monitor, cache=cache
            )
        return Fitted.of(found)

    def _loss(self) -> Loss:
        if self.loss == "least_squares":
            return LeastSquares()
        return EpsilonInsensitive(self.epsilon_)

    def _is_good(self, given: KernelRows, fitted: list[Fitted], outputs: int) -> bool:
        """Whether the squared misses are less than half of the targets' variance."""
        misses = np.average((fitted[0].scores - given.y) ** 2, weights=given.weight)
        return bool(misses < 0.5 * _deviation(given.y, given.weight) ** 2)

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        return float(np.average((left_out[:, 0] - given.y) ** 2, weights=given.weight))


def _deviation(y: np.ndarray, weight: np.ndarray | None) -> float:
    """Of the targets; 1 where all are the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = math.sqrt(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
    return found if 0.0 < found < math.inf else 1.0
