"""``BudgetedClassifier`` and ``BudgetedRegressor``: kernel machines of a fixed size."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thresher._rows import Rows, scaled
from thresher.data.moments import Moments
from thresher.estimators import _input
from thresher.estimators._classifier import Classifier
from thresher.estimators._nested import NestedParameters
from thresher.estimators._progress import FitEvent
from thresher.estimators._stream import stream_chunk
from thresher.kernels import RBF, Kernel
from thresher.losses import Hinge, Loss
from thresher.registry import LOSSES, resolve
from thresher.solvers import Chunk, Status, driver
from thresher.solvers.budgeted import Budgeted, CrammerSinger, OneOutput, packed, scores

__all__ = ["BudgetedClassifier", "BudgetedRegressor"]

_STREAM_ALPHA = 1e-5
_SHARED = """
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
    fit_intercept : bool, default=False for the classifier, True for the regressor
        Add a constant feature to the kernel's; its weight is the intercept, penalised like them.
        Regression also starts from the mean target then.
    eta0 : float or None, default=None
        Length of the first step, in  1 / (alpha t + 1/eta0). None: what moves a prediction by
        about one. ``math.inf`` is Pegasos as published, which starts with steps of 1/alpha.
    average : bool, default=True
        Use an average of the last iterates (weighed by t^16) instead of the last one alone.
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass (``coef`` are the dual coefficients);
        returning True stops the fit.

    Attributes
    ----------
    support_vectors_ : array of shape (n_support, n_features)
        In the units of ``shift_`` and ``scale_``.
    dual_coef_ : array of shape (n_outputs, n_support)
    intercept_ : array of shape (n_outputs,)
    kernel_ : Kernel
        With its width filled in.
    alpha_ : float
    shift_, scale_ : arrays of shape (n_features,) or None
        With ``scale=True`` rows are read as (x - shift_) * scale_.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
    status_ : Status
"""


class BudgetedModel(NestedParameters):
    """Base of the budgeted estimators: everything but targets and predictions."""

    _task: str

    def __init__(
        self, kernel: Any, gamma: float | None, alpha: float | None, budget: int, maintenance: str,
        max_iter: int, order: str, fit_intercept: bool, eta0: float | None, average: bool,
        scale: bool, random_state: Any, verbose: int, callbacks: Any,
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

    # ------------------------------------------------------------ from parameters to a learner

    def _check_options(self) -> None:
        for name in ("alpha", "gamma"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} must be positive and finite (or None), got {value}")
        if self.eta0 is not None and not self.eta0 > 0.0:
            raise ValueError(f"eta0 must be positive (or None), got {self.eta0}")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}")
        if self.order not in ("shuffle", "sequential"):
            raise ValueError(f"order={self.order!r} is unknown: use shuffle or sequential")
        if self.gamma is not None and isinstance(self.kernel, Kernel):
            raise ValueError(
                f"gamma={self.gamma} is for kernels given by name; "
                f"{type(self.kernel).__name__} has its own parameters"
            )
        kernel = resolve(self.kernel, Kernel, "kernel")
        Budgeted(OneOutput(Hinge()), kernel, 1, 1.0, self.budget, self.maintenance).check()

    def _learner(
        self, rule: Any, outputs: int, chunk: Chunk, weight: np.ndarray | None, mass: float | None
    ) -> Budgeted:
        """``mass`` is the total weight of all rows, None in a stream."""
        rows = chunk.rows
        moments = Moments.empty(rows.shape[1]).updated(rows, weight)
        mean, deviation = moments.mean_and_deviation()
        with np.errstate(over="ignore"):
            variance, square = float(np.sum(deviation**2)), float(np.sum(mean**2 + deviation**2))
        gamma = self.gamma
        if gamma is None:
            gamma = 1.0 / variance if 0.0 < variance < math.inf else 1.0
        kernel = resolve(self.kernel, Kernel, "kernel", gamma=gamma)
        # Distances from inner products cancel: single precision while that leaves four digits.
        short = isinstance(kernel, RBF) and kernel.gamma * square < 200.0 and square < 1e30
        alpha = self.alpha or (_STREAM_ALPHA if mass is None else 1.0 / mass)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        budget = self.budget if mass is None else min(self.budget, chunk.size)
        return Budgeted(
            rule, kernel, rows.shape[1], float(alpha), int(budget), self.maintenance, outputs,
            1.0 if self.fit_intercept else 0.0, self.eta0 or self._first_step(rule, kernel, chunk),
            16.0 if self.average else None, np.float32 if short else np.float64, seed,
        )  # fmt: skip

    def _first_step(self, rule: Any, kernel: Any, chunk: Chunk) -> float:
        """1 / mean k(x, x) of some rows, times the spread of numbers that are to be predicted."""
        block, part = next(packed(chunk.rows, chunk.order[:200], np.float64))
        sizes = [abs(float(kernel.of(s, s, s))) for s in block.squares[: part.size].tolist()]
        step = 1.0 / max(float(np.mean(sizes)), 1e-12)
        if self._task == "regression" and math.isinf(rule.loss.smoothness):
            step *= float(np.std(chunk.y)) or 1.0
        return step

    # ------------------------------------------------------------ the fit

    def _fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, rule: Any, outputs: int
    ) -> None:
        self._forget()
        rows = self._in_units(rows, weight)
        chunk = driver.whole(rows, targets, weight)
        mass = float(rows.shape[0] if weight is None else weight.sum())
        learner = self._learner(rule, outputs, chunk, weight, mass)
        state, status, passes = learner.init(), Status.COMPLETED, 0
        started = time.perf_counter()
        for passes in range(1, self.max_iter + 1):
            order = driver.pass_order(chunk.order, self.order, learner.seed, passes - 1)
            state = learner.update(state, chunk._replace(order=order))
            if self._told(learner, state, passes, time.perf_counter() - started):
                status = Status.INTERRUPTED
                break
        self._store(learner, state, chunk, passes, status)

    def _partial_fit_rows(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, rule: Any, outputs: int
    ) -> None:
        first = not hasattr(self, "_stream")
        if first:
            rows = self._in_units(rows, weight)
        elif self.scale_ is not None:
            rows = scaled(rows, self.shift_, self.scale_)
        chunk = stream_chunk(rows, targets, weight)
        if first:
            learner = self._learner(rule, outputs, chunk, weight, None)
            self._stream = learner, learner.init()
        learner, state = self._stream
        self._stream = learner, learner.update(state, chunk)
        self._store(*self._stream, chunk, 1, Status.COMPLETED)

    def _forget(self) -> None:
        for name in ("_stream", "calibrator_"):
            if hasattr(self, name):
                delattr(self, name)

    def _in_units(self, rows: Rows, weight: np.ndarray | None) -> Rows:
        self.shift_, self.scale_ = None, None
        if not self.scale:
            return rows
        weight = np.ones(rows.shape[0]) if weight is None else weight
        self.shift_, self.scale_ = _input.learn_units(rows, weight, centre=hasattr(rows, "X"))
        return scaled(rows, self.shift_, self.scale_)

    def _told(self, learner: Budgeted, state: Any, passes: int, seconds: float) -> bool:
        """Report the pass; True if a callback asks to stop."""
        if self.verbose:
            print(
                f"[thresher] pass {passes}  support vectors {state.size}/{learner.budget}  "
                f"{seconds:.1f} s",
                flush=True,
            )
        if not self.callbacks:
            return False
        _, coef, intercept = learner.finish(state)
        event = FitEvent(
            self, None, passes, int(state.step), math.nan, int(state.size), None, seconds, coef,
            intercept,
        )  # fmt: skip
        answers = [callback(event) for callback in self.callbacks]
        return any(answers)

    def _store(
        self, learner: Budgeted, state: Any, chunk: Chunk, passes: int, status: Status
    ) -> None:
        vectors, coef, intercept = learner.finish(state)
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(vectors))):
            _input.refuse_huge(chunk)
            warnings.warn(
                f"{type(self).__name__}: {Status.DIVERGED}", ConvergenceWarning, stacklevel=4
            )
            coef, vectors, status = np.zeros_like(coef), np.zeros_like(vectors), Status.DIVERGED
            intercept = np.zeros_like(intercept)
        self.support_vectors_, self.dual_coef_ = vectors, coef
        self.intercept_ = intercept
        self.kernel_, self.alpha_ = learner.kernel, learner.lam
        self.n_iter_, self.status_ = passes, status

    # ------------------------------------------------------------ use

    def _scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        rows = _input.to_rows(_input.checked_X(self, X))
        if self.scale_ is not None:
            rows = scaled(rows, self.shift_, self.scale_)
        return scores(rows, self.kernel_, self.support_vectors_, self.dual_coef_, self.intercept_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "dual_coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class BudgetedClassifier(Classifier, BudgetedModel):
    __doc__ = f"""Kernel support vector machine with a bounded number of support vectors.

    Stochastic gradient descent on the hinge loss (of Crammer and Singer for more than two classes);
    time and memory are linear in the data, whatever their number.  ``sample_weight`` and
    ``class_weight`` multiply a row's loss; since rows are visited one by one, weight k and k copies
    of a row agree in the objective, not to the last digit of a run.

    Parameters
    ----------
{
        _SHARED.strip(chr(10)).replace(
            "    Attributes",
            '''    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on out-of-fold scores.

    Attributes''',
            1,
        )
    }    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.estimators.budgeted import BudgetedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = BudgetedClassifier(budget=100, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97), len(model.support_vectors_)
    (True, 100)
    """

    _task = "classification"

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
        scale: bool = False,
        class_weight: Any = None,
        calibrate: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        super().__init__(
            kernel, gamma, alpha, budget, maintenance, max_iter, order, fit_intercept, eta0,
            average, scale, random_state, verbose, callbacks,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibrate = calibrate

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BudgetedClassifier:
        """Learn from all rows."""
        self._check_options()
        X, y, codes, weight = self._labelled(X, y, sample_weight)
        self._fit_rows(_input.to_rows(X), *self._task_of(codes, weight))
        self._fit_calibration(X, y, weight)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> BudgetedClassifier:
        """Go once over these rows, in the given order; the first call names all ``classes``.

        What is left to be found from the data (gamma, the first step, units, precision) is found on
        the first call's rows; after that the cut of the stream into calls leaves no trace.
        """
        self._check_options()
        first = not hasattr(self, "_stream")
        X, y = _input.checked_Xy(self, X, y, reset=first, numeric=False)
        codes = self._stream_codes(y, classes, first)
        weight = _input.check_weight(sample_weight, X)
        self._partial_fit_rows(_input.to_rows(X), *self._task_of(codes, weight))
        return self

    def _task_of(self, codes: np.ndarray, weight: np.ndarray | None) -> tuple[Any, ...]:
        """Targets, weights, loss and number of outputs."""
        targets, outputs = self._targets(codes)
        rule: Any = OneOutput(Hinge()) if outputs == 1 else CrammerSinger()
        return targets, self._class_weighted(codes, weight), rule, outputs

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes)."""
        found = self._scores(X)
        return found[:, 0] if found.shape[1] == 1 else found


class BudgetedRegressor(RegressorMixin, BudgetedModel):
    __doc__ = f"""Kernel regression with a bounded number of support vectors.

    ``sample_weight`` multiplies a row's loss, as in :class:`BudgetedClassifier`.

    Parameters
    ----------
    loss : {{"least_squares", "huber", "epsilon_insensitive", ...}} or Loss, default="least_squares"
        Any regression loss. "epsilon_insensitive" leaves rows within the tube alone, which saves
        time; its width is in the units of y.
{_SHARED.strip(chr(10))}
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher.estimators.budgeted import BudgetedRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> bool(BudgetedRegressor(scale=True, random_state=0).fit(X, y).score(X, y) > 0.45)
    True
    """

    _task = "regression"

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
        scale: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        super().__init__(
            kernel, gamma, alpha, budget, maintenance, max_iter, order, fit_intercept, eta0,
            average, scale, random_state, verbose, callbacks,
        )  # fmt: skip
        self.loss = loss

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> BudgetedRegressor:
        """Learn from all rows."""
        self._check_options()
        rule = self._rule()
        X, y = _input.checked_Xy(self, X, y, reset=True, numeric=True)
        weight = _input.check_weight(sample_weight, X)
        centre = self._centre_of(y, weight)
        self._fit_rows(_input.to_rows(X), y - centre, weight, rule, 1)
        self.intercept_ = self.intercept_ + centre
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> BudgetedRegressor:
        """Go once over these rows, in the given order; the first call's set the units."""
        self._check_options()
        first = not hasattr(self, "_stream")
        rule = self._rule()
        X, y = _input.checked_Xy(self, X, y, reset=first, numeric=True)
        weight = _input.check_weight(sample_weight, X)
        if first:
            self._centre = self._centre_of(y, weight)
        self._partial_fit_rows(_input.to_rows(X), y - self._centre, weight, rule, 1)
        self.intercept_ = self.intercept_ + self._centre
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self._scores(X)[:, 0]

    def _rule(self) -> OneOutput:
        loss = resolve(self.loss, Loss, "loss")
        if "regression" not in loss.tasks:
            fitting = [name for name, cls in LOSSES.items() if "regression" in cls.tasks]
            raise ValueError(
                f"loss {type(loss).__name__} is not for regression; use one of {', '.join(fitting)}"
            )
        return OneOutput(loss)

    def _centre_of(self, y: np.ndarray, weight: np.ndarray | None) -> float:
        """The mean target: steps need not spend themselves on reaching it."""
        return float(np.average(y, weights=weight)) if self.fit_intercept else 0.0
