"""``BudgetedClassifier`` and ``BudgetedRegressor``: kernel machines of a fixed size."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from thresher.estimators import _input
from thresher.estimators._budgeted import BudgetedModel
from thresher.estimators._classifier import Classifier
from thresher.losses import Hinge, Loss
from thresher.registry import LOSSES, resolve
from thresher.solvers.budgeted import CrammerSinger, OneOutput

__all__ = ["BudgetedClassifier", "BudgetedRegressor"]

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
    scale : bool or "relevance", default=False
        Standardise the features on the fly; sparse data are scaled but not centred.  "relevance"
        also weighs them, as in ``KernelClassifier``.
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
        scale: Any = False,
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
        scale: Any = False,
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
