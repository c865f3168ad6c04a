"""``ConfidenceClassifier``, ``ConfidenceRegressor``: linear models that know how sure they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import OPEN_SHARE, POSITIVE, OneOf
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.classifier import Classifier
from thresher.estimators.confidence_model import ConfidenceModel
from thresher.estimators.regressor import Regressor
from thresher.functions import Sigmoid, Softmax
from thresher.solvers.confidence_rules import AROW, CW, SCW, Recursive, Rule

__all__ = ["ConfidenceClassifier", "ConfidenceRegressor"]

_METHODS = ("arow", "cw", "scw")
_PROBIT = 1.702  # the logistic function of 1.702 z is the normal distribution function to 0.01
_LEAST_NOISE = 1e-4  # rows without an error do not make certain


class ConfidenceClassifier(Classifier, ConfidenceModel):
    r"""Confidence-weighted classifier: a Gaussian belief over the weights, learned row by row.

    A row whose margin falls short moves the weights that are least known most, and makes them
    better known: second-order learning without a step size, at the cost of the row's non-zeros
    (``covariance="diagonal"``).  Beliefs of shards can be merged (``thresher.solvers.confidence``).
    Several classes have a belief each; a row acts on its own and on the strongest other one.

    Parameters
    ----------
    method : {"arow", "cw", "scw"}, default="arow"
        Adaptive regularisation of weights, squared hinge loss against loss of confidence;
        confidence-weighted learning, which satisfies every row and therefore suffers from noise;
        soft confidence-weighted learning, which may pay instead.
    covariance : {"diagonal", "full", "low_rank", "auto"}, default="diagonal"
        A variance for each weight; all covariances (features^2 per row that acts, a matrix for each
        output); a diagonal and ``rank`` directions of the precision (rank x features); full up to
        200 features, else diagonal.
    rank : int, default=10
        Directions of ``covariance="low_rank"``.
    r : float, default=0.3
        With "arow": how little one row is believed, in units of the prior variance of a usual
        row's score (with ``prior_variance=None``).
    confidence : float, default=0.9
        With "cw" and "scw": probability with which a row is to be right.
    C : float, default=1.0
        With "scw": the price of a row that is not, and the longest move of the mean.
    prior_mean : array of shape (features,), with several classes (classes, features), or None
        Weights to start from, in the features' units; None: zeros.  The intercept starts at zero,
        where rows are centred at their mean.
    prior_variance : float, array of shape (features,) or None, default=None
        Variances of the weights before any row.  None: all the same in the units of ``scale``, and
        such that the score of a usual row has the variance one.
    combine : {"product", "divergence", "average"} or None, default=None
        How beliefs of shards are merged.  None: "product", for CW and low rank "average".
    max_iter : int or None, default=None
        Passes over the data (``fit``).  None: 10.
    fit_intercept : bool, default=True
        Add a constant feature, whose weight has a variance too.
    scale : {"auto", True, False}, default="auto"
        Standardise the features on the fly: dense rows only, all (sparse ones are scaled but not
        centred), or none.  ``coef_`` is in the original units.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Fit ``predict_proba`` on out-of-fold scores.  None: by the noise that "arow" has seen.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (n_outputs, n_features)
        Means of the weights; one output for two classes.
    intercept_ : array of shape (n_outputs,)
    weight_deviations : array of shape (n_outputs, n_features)
        Standard deviations of the weights.
    noise_ : float
        Mean squared shortfall of the margins, each just before its row was learned from.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : BeliefFunction
        What was learned: the numbers above.
    solver_, penalty_ : Confidence, L2 or WeightedL2
        What was used, with all that was left to be found; the penalty is one over the prior
        variances.

    References
    ----------
    Crammer, Kulesza and Dredze (2009), Adaptive regularization of weight vectors, NIPS.  Crammer,
    Dredze and Pereira (2009), Exact convex confidence-weighted learning, NIPS.  Wang, Zhao and Hoi
    (2012), Exact soft confidence-weighted learning, ICML.  Djuric (2014), PhD thesis, Temple
    University, chapter 6.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher import ConfidenceClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ConfidenceClassifier(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> sure = model.probability_right(X) > 0.99
    >>> bool(model.score(X[sure], y[sure]) > model.score(X[~sure], y[~sure]))
    True
    """

    allowed = {"method": OneOf(*_METHODS), "confidence": OPEN_SHARE, "C": POSITIVE}

    def __init__(
        self,
        method: str = "arow",
        *,
        covariance: str = "diagonal",
        rank: int = 10,
        r: float = 0.3,
        confidence: float = 0.9,
        C: float = 1.0,
        prior_mean: Any = None,
        prior_variance: Any = None,
        combine: str | None = None,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        scale: Any = "auto",
        order: str = "shuffle",
        class_weight: Any = None,
        calibrate: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.method = method
        self.covariance = covariance
        self.rank = rank
        self.r = r
        self.confidence = confidence
        self.C = C
        self.prior_mean = prior_mean
        self.prior_variance = prior_variance
        self.combine = combine
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.order = order
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        return {
            "r": Float(1e-2, 10.0, log=True, when={"method": "arow"}),
            "confidence": Float(0.55, 0.99, when={"method": ("cw", "scw")}),
            "C": Float(1e-2, 1e2, log=True, when={"method": "scw"}),
        }

    def _rule(self, weight: float) -> Rule:
        if self.method == "arow":
            return AROW(self.r / weight)
        return CW(self.confidence) if self.method == "cw" else SCW(self.confidence, weight * self.C)

    def probability_right(self, X: Any) -> np.ndarray:
        r"""Probability that each row's predicted class is the better one: equation 6.2 of Djuric.

        .. math:: \Phi\bigl(m / \sqrt{v}\bigr)

        with the margin m between the two best classes and its variance v.  It tells how well the
        weights are known where the row lies, and tends to one with more rows; how noisy labels are
        is told by ``predict_proba``.
        """
        check_is_fitted(self)
        X = input.checked_X(self, X)
        scores, variances = self.function_.scores(X), self.function_.variances(X)
        if scores.shape[1] == 1:
            margin, variance = np.abs(scores[:, 0]), variances[:, 0]
        else:
            best = np.argsort(scores, axis=1)[:, -2:]
            second, first = np.take_along_axis(scores, best, axis=1).T
            margin, variance = first - second, np.take_along_axis(variances, best, 1).sum(axis=1)
        return ndtr(margin / np.sqrt(np.maximum(variance, 1e-300)))

    @property
    def link(self) -> Any:
        """Calibrated, or by the noise: the logistic function of 1.702 margin / deviation."""
        if self.calibrate is not None or self.method != "arow" or "function_" not in vars(self):
            return super().link
        slope = _PROBIT / math.sqrt(max(self.function_.noise, _LEAST_NOISE))
        return Sigmoid(slope, 0.0) if self.function_.outputs == 1 else Softmax(slope)

    def _has_probabilities(self) -> bool:
        if self.calibrate is not None or self.method == "arow":
            return True
        raise AttributeError(
            f"predict_proba needs calibrate='sigmoid' or 'isotonic' with method={self.method!r}"
        )


class ConfidenceRegressor(Regressor, ConfidenceModel):
    r"""Recursive least squares: a Gaussian belief over the weights, learned row by row (AROWR).

    With ``covariance="full"`` one pass is ridge regression to rounding, and ``intervals`` are those
    of least squares; "diagonal" costs the row's non-zeros.  Beliefs of shards can be merged, of
    full covariances exactly.

    Parameters
    ----------
    covariance : {"auto", "diagonal", "full", "low_rank"}, default="auto"
        Full up to 200 features, else diagonal; a variance for each weight; all covariances
        (features^2 per row); a diagonal and ``rank`` directions of the precision (rank x features).
    rank : int, default=10
        Directions of ``covariance="low_rank"``.
    r : float, default=0.3
        How little one row is believed, in units of the prior variance of a usual row's score (with
        ``prior_variance=None``).
    prior_mean : array of shape (features,) or None, default=None
        Weights to start from, in the features' units; None: zeros.  The intercept starts at the
        mean target, where rows are centred at their mean.
    prior_variance : float, array of shape (features,) or None, default=None
        Variances of the weights before any row.  None: all the same in the units of ``scale``, and
        such that the score of a usual row has the variance one.
    combine : {"product", "divergence", "average"} or None, default=None
        How beliefs of shards are merged.  None: "product", for low rank "average".
    max_iter : int or None, default=None
        Passes over the data (``fit``).  None: 10 with a diagonal, else one, which says all.
    fit_intercept : bool, default=True
        Add a constant feature, whose weight has a variance too.
    scale : {"auto", True, False}, default="auto"
        Standardise the features on the fly: dense rows only, all (sparse ones are scaled but not
        centred), or none.  ``coef_`` is in the original units.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    random_state : int, RandomState or None, default=None
        Seed of the order of the rows; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Means of the weights.
    intercept_ : array of shape (1,)
    weight_deviations : array of shape (1, n_features)
        Standard deviations of the weights.
    noise_ : float
        Mean squared error of the rows, each just before it was learned from.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : BeliefFunction
        What was learned: the numbers above.
    solver_, penalty_ : Confidence, L2 or WeightedL2
        What was used, with all that was left to be found; the penalty is one over the prior
        variances.

    References
    ----------
    Vaits and Crammer (2011), Re-adapting the regularization of weights for non-stationary
    regression, ALT.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from thresher import ConfidenceRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ConfidenceRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    >>> low, high = model.intervals(0.95)[0, 2]  # body mass index
    >>> bool(low > 0.0)
    True
    """

    def __init__(
        self,
        covariance: str = "auto",
        *,
        rank: int = 10,
        r: float = 0.3,
        prior_mean: Any = None,
        prior_variance: Any = None,
        combine: str | None = None,
        max_iter: int | None = None,
        fit_intercept: bool = True,
        scale: Any = "auto",
        order: str = "shuffle",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.covariance = covariance
        self.rank = rank
        self.r = r
        self.prior_mean = prior_mean
        self.prior_variance = prior_variance
        self.combine = combine
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.order = order
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _rule(self, weight: float) -> Rule:
        return Recursive(self.r / weight)

    def _offset(self, targets: np.ndarray, weight: np.ndarray | None) -> float:
        """The mean target: the intercept's prior is around it."""
        return float(np.average(targets, weights=weight)) if self.fit_intercept else 0.0
