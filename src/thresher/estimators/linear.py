"""``LinearClassifier`` and ``LinearRegressor``: any loss, any penalty, any solver."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher._terms import capabilities
from thresher.estimators import _calibration, _input
from thresher.estimators._classifier import Classifier
from thresher.estimators._linear import LinearModel
from thresher.estimators._progress import Held
from thresher.losses import Loss
from thresher.registry import resolve

__all__ = ["LinearClassifier", "LinearRegressor"]

_SHARED = """
    penalty : {"l2", "l1", "elastic_net", ...}, Penalty or None, default=None
        What large weights cost. None: the one the solver is made for ("l2" unless it is sparse).
    solver : {"auto", "asgd", "dcd", "newton", "pegasos", "fobos", "rda", ...} or Solver
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
        Accuracy to reach: relative duality gap ("dcd"), estimated relative suboptimality
        ("newton"), relative change of the weights per pass (others).  None: as good as predictions
        need.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    early_stopping : bool, default=False
        Hold out ``validation_fraction`` of the rows, stop when their loss has not improved for
        ``patience`` passes, and return the best pass.
    validation_fraction : float, default=0.1
    patience : int, default=3
    n_jobs : int or None, default=None
        Threads for one-vs-rest problems; -1 uses all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
    trace : bool, default=False
        Record objective, regret, non-zeros and stability in ``trace_``.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (n_outputs, n_features)
    intercept_ : array of shape (n_outputs,)
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used (the most of all classes).
    status_ : Status
        How the fit ended; its text says what to change.
    density_ : float
        Share of non-zero weights.
    solver_, penalty_ : what was used
    trace_ : list of lists of Record, if asked for
"""


class LinearClassifier(Classifier, LinearModel):
    __doc__ = f"""Linear classifier for dense or sparse data of any size.

    Parameters
    ----------
    loss : {{"squared_hinge", "hinge", "logistic", "pinball", ...}} or Loss, default="squared_hinge"
        A name, or an object such as ``Pinball(tau=0.2)`` or one of your own classes.
{
        _SHARED.replace(
            "    Attributes",
            '''    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Fit ``predict_proba`` on out-of-fold scores. None: probabilities by the loss's own link,
        where it has one (logistic, modified Huber).

    Attributes''',
            1,
        )
    }    classes_ : array
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

    _task = "classification"

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
        super().__init__(
            loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibrate = calibrate

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearClassifier:
        """Learn from all rows; ``sample_weight`` k means the same as the row k times."""
        self._check_options()
        X, y, codes, weight = self._labelled(X, y, sample_weight)
        self._reset()
        weighted = self._class_weighted(codes, weight)
        targets, outputs = self._targets(codes)
        (rows, targets, weighted), held = self._hold_out(X, targets, weighted, codes)
        self._fit_rows(rows, targets, weighted, outputs, held)
        self._fit_calibration(X, y, weight)
        return self

    @available_if(LinearModel._can_stream)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> LinearClassifier:
        """Go once over these rows, in the given order; the first call names all ``classes``.

        The first call opens a new stream (after ``fit`` too, whose classes are then the default).
        A step size that is left to be found is found on the first call's rows.
        """
        first = not hasattr(self, "_stream")
        X, y = _input.checked_Xy(self, X, y, reset=first, numeric=False)
        codes = self._stream_codes(y, classes, first)
        weight = self._class_weighted(codes, _input.check_weight(sample_weight, X))
        targets, outputs = self._targets(codes)
        self._partial_fit_rows(_input.to_rows(X), targets, weight, outputs)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores: (n,) for two classes, positive for ``classes_[1]``; else (n, n_classes)."""
        check_is_fitted(self)
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _has_probabilities(self) -> bool:
        if self.calibrate is not None or "link" in capabilities(resolve(self.loss, Loss, "loss")):
            return True
        raise AttributeError(
            f"predict_proba needs calibrate='sigmoid' or 'isotonic' with loss={self.loss!r}"
        )

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Calibrated, or by the loss's own link."""
        if self.calibrate is not None:
            return super()._probabilities(scores)
        link = np.vectorize(resolve(self.loss, Loss, "loss").link, otypes=[np.float64])
        return _calibration.normalised(link(scores))

    # ------------------------------------------------------------ parts of the fit

    def _reset(self) -> None:
        for name in ("_stream", "_stream_units", "trace_", "calibrator_"):
            if hasattr(self, name):
                delattr(self, name)

    def _hold_out(self, X: Any, targets: np.ndarray, weight: Any, codes: np.ndarray) -> Any:
        if not self.early_stopping:
            return (_input.to_rows(X), targets, weight), None
        counts = np.bincount(codes)
        roomy = self.validation_fraction * codes.size >= counts.size
        strata = codes if np.min(counts) > 1 and roomy else None
        return _split(self, X, targets, weight, strata)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")


class LinearRegressor(RegressorMixin, LinearModel):
    __doc__ = f"""Linear regression for dense or sparse data of any size.

    Parameters
    ----------
    loss : {{"least_squares", "huber", "epsilon_insensitive", ...}} or Loss, default="least_squares"
        A name, or an object such as ``Huber(delta=2.0)`` or one of your own classes.
{_SHARED}
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher import LinearRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> print(round(LinearRegressor(scale=True).fit(X, y).score(X, y), 3))
    0.518
    """

    _task = "regression"

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
        super().__init__(
            loss, penalty, solver, alpha, fit_intercept, scale, max_iter, steps, tol, order,
            early_stopping, validation_fraction, patience, n_jobs, random_state, trace, verbose,
            callbacks,
        )  # fmt: skip

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegressor:
        """Learn from all rows; ``sample_weight`` k means the same as the row k times."""
        self._check_options()
        X, y = _input.checked_Xy(self, X, y, reset=True, numeric=True)
        weight = _input.check_weight(sample_weight, X)
        for name in ("_stream", "_stream_units", "trace_"):
            if hasattr(self, name):
                delattr(self, name)
        if self.early_stopping:
            (rows, y, weight), held_rows = _split(self, X, y, weight, None)
        else:
            rows, held_rows = _input.to_rows(X), None
        self._fit_rows(rows, y, weight, 1, held_rows)
        return self

    @available_if(LinearModel._can_stream)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearRegressor:
        """Go once over these rows, in the given order."""
        X, y = _input.checked_Xy(self, X, y, reset=not hasattr(self, "_stream"), numeric=True)
        weight = _input.check_weight(sample_weight, X)
        self._partial_fit_rows(_input.to_rows(X), y, weight, 1)
        return self

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._scores(X)[:, 0]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")


def _split(estimator: Any, X: Any, y: np.ndarray, weight: Any, strata: np.ndarray | None) -> Any:
    """Rows to learn from and rows to watch; a zero-weight row counts for neither."""
    from sklearn.model_selection import train_test_split  # slow to import, seldom needed

    if not 1 <= int(estimator.validation_fraction * y.size) < y.size:
        raise ValueError(
            f"validation_fraction={estimator.validation_fraction} of {y.size} rows leaves nothing "
            "to hold out or to learn from"
        )
    train, held = train_test_split(
        np.arange(y.size),
        test_size=estimator.validation_fraction,
        random_state=check_random_state(estimator.random_state),
        stratify=strata,
    )
    held_weight = None if weight is None else weight[held]
    if held_weight is not None and not np.any(held_weight):
        raise ValueError("all held-out rows have weight zero: raise validation_fraction")
    train_weight = None if weight is None else weight[train]
    return (
        (_input.to_rows(X[train]), y[train], train_weight),
        Held(_input.to_rows(X[held]), y[held], held_weight),
    )
