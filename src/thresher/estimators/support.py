"""``SupportVectorClassifier`` and ``SupportVectorRegressor``: kernel machines solved exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from thresher._allowed import NOT_NEGATIVE, POSITIVE, OneOf
from thresher.dimensions import Float
from thresher.estimators.classifier import Classifier
from thresher.estimators.one_class import OneClassMachine
from thresher.estimators.regressor import Regressor
from thresher.estimators.support_fit import (
    Fitted,
    avoids_half_the_errors,
    deviation,
    explains_half,
)
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.estimators.support_model import SupportVectorModel
from thresher.functions.base import require
from thresher.losses import EpsilonInsensitive, Hinge, LeastSquares, Loss
from thresher.penalties import L2
from thresher.solvers import Status
from thresher.solvers.machines import (
    KernelDual,
    classification,
    nu_classification,
    nu_regression,
    regression,
)

__all__ = ["SupportVectorClassifier", "SupportVectorRegressor", "imported"]

_MULTICLASS = ("ovo", "ovr")


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

    allowed = {"loss": OneOf("hinge", "least_squares"), "multiclass": OneOf(*_MULTICLASS)}
    optional_record = (*Classifier.optional_record, "loo_error_", "violation_")

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

    def _linear(self, alpha: float) -> str:
        return f"LinearClassifier('hinge', solver='smoothed_newton', alpha={alpha:.3g})"

    def _solve(self, solver: KernelDual, columns: Any, part: KernelRows, **how: Any) -> Fitted:
        if self.nu is None:
            found = classification(solver, columns, part.y, part.weight, **how)
        else:
            found = nu_classification(
                solver, columns, part.y, part.weight / self.C, self.nu, **how
            )  # fmt: skip
        return Fitted.of(found)

    @property
    def libsvm_type(self) -> str:
        """What LIBSVM calls it."""
        return "c_svc" if self.nu is None else "nu_svc"

    def _loss(self) -> Loss:
        return LeastSquares() if self.loss == "least_squares" else Hinge()

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        if outputs == 1:
            return avoids_half_the_errors(y, weight, fitted[0].scores)
        return self.multiclass == "ovo" and self._wins_duels(y, weight, fitted, outputs)

    def _wins_duels(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        """Whether every pair of classes is told apart."""
        own = [weight[y == c] for c in range(outputs)]
        pairs = ((own[i], own[j]) for i in range(outputs) for j in range(i + 1, outputs))
        return all(
            avoids_half_the_errors(
                np.repeat([-1.0, 1.0], [a.size, b.size]), np.concatenate([a, b]), found.scores
            )
            for (a, b), found in zip(pairs, fitted, strict=True)
        )

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

    allowed = {
        "C": POSITIVE | None, "epsilon": NOT_NEGATIVE | None, "tol": POSITIVE | None,
        "loss": OneOf("epsilon_insensitive", "least_squares"),
    }  # fmt: skip
    optional_record = (*Regressor.optional_record, "loo_error_", "violation_", "epsilon_")
    variables = 2

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

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        unit = 1.0 if y is None else deviation(np.asarray(y, dtype=np.float64), None)
        parts = super().dimensions(X, y)
        if self.loss != "least_squares":
            parts |= {"C": Float(1e-2 * unit, 1e4 * unit, log=True)}
            if self.nu is None:
                parts["epsilon"] = Float(1e-3 * unit, unit, log=True)
        return parts

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        unit = deviation(y, weight)
        self.epsilon_ = 0.1 * unit if self.epsilon is None else float(self.epsilon)
        usual = 10.0 * (1.0 if self.loss == "least_squares" else unit)
        C = usual if self.C is None else float(self.C)
        return C, 1e-3 * unit if self.tol is None else float(self.tol)

    def _linear(self, alpha: float) -> str:
        loss = f"EpsilonInsensitive({self.epsilon_:.3g})"
        return f"LinearRegressor({loss}, solver='smoothed_newton', alpha={alpha:.3g})"

    def _solve(self, solver: KernelDual, columns: Any, part: KernelRows, **how: Any) -> Fitted:
        """In a unit near the largest target, a power of two so that no digit changes: columns, and
        what is added to a gradient, are in single precision, which ends at 1e38 and 1e-38."""
        largest = float(np.abs(part.y).max())
        unit = 2.0 ** math.frexp(max(largest, 1e-200))[1] if largest > 0.0 else 1.0
        solver = replace(solver, tol=solver.tol / unit)
        y, bounds = part.y / unit, part.weight / unit
        if self.nu is None:
            found = regression(solver, columns, y, bounds, self.epsilon_ / unit, **how)
        else:
            found, width = nu_regression(solver, columns, y, bounds, self.nu, **how)
            self.epsilon_ = width * unit
        return Fitted.of(found).times(unit)

    @property
    def libsvm_type(self) -> str:
        """What LIBSVM calls it."""
        return "epsilon_svr" if self.nu is None else "nu_svr"

    def _loss(self) -> Loss:
        if self.loss == "least_squares":
            return LeastSquares()
        # A tube that was found may be as wide as the targets, and would excuse anything.
        return EpsilonInsensitive(self.epsilon_ if self.nu is None else 0.0)

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        return explains_half(y, weight, fitted[0].scores)

    def _left_out(self, given: KernelRows, left_out: np.ndarray) -> float:
        return float(np.average((left_out[:, 0] - given.y) ** 2, weights=given.weight))


def imported(found: Any) -> SupportVectorClassifier | SupportVectorRegressor | OneClassMachine:
    """A fitted estimator around a machine that LIBSVM learned (``artifacts.libsvm``)."""
    made: dict[str, Any] = {
        "c_svc": SupportVectorClassifier, "nu_svc": partial(SupportVectorClassifier, nu=0.5),
        "epsilon_svr": SupportVectorRegressor, "nu_svr": partial(SupportVectorRegressor, nu=0.5),
        "one_class": OneClassMachine,
    }  # fmt: skip
    estimator = made[found.svm_type](kernel=found.function.kernel)
    if found.labels is not None:
        estimator.classes_ = found.labels
    estimator.function_ = found.function
    estimator.n_features_in_ = found.function.features
    estimator.n_iter_, estimator.status_ = 0, Status.COMPLETED
    estimator.solver_, estimator.penalty_ = KernelDual(), L2(0.0)
    return estimator
