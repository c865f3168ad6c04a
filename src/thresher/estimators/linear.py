"""``LinearClassifier`` and ``LinearRegressor``: any loss, any penalty, any solver."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher.estimators.classifier import Classifier
from thresher.estimators.linear_model import LinearModel
from thresher.estimators.regressor import Regressor
from thresher.functions import LinearFunction
from thresher.penalties import L2
from thresher.solvers import Newton, Status

__all__ = ["LinearClassifier", "LinearModel", "LinearRegressor", "imported"]


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
