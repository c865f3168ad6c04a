"""``MultiHyperplaneClassifier``: several linear functions per class, nearly as fast as one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher._allowed import FLAG, NOT_NEGATIVE, POSITIVE, SHARE, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.dimensions import Float, Int
from thresher.estimators import input
from thresher.estimators.base import Setup
from thresher.estimators.classifier import Classifier
from thresher.estimators.fronts import Front
from thresher.estimators.spaces import row_count
from thresher.estimators.views import view
from thresher.losses import Hinge
from thresher.penalties import L2
from thresher.solvers import Chunk, Problem, Status, driver
from thresher.solvers.hyperplanes import Hyperplanes
from thresher.solvers.step_lengths import mean_sqnorm
from thresher.solvers.stream import Facts

__all__ = ["MultiHyperplaneClassifier"]

_ALGORITHMS = ("amm", "gamm", "pegasos")
_VARIANTS = ("online", "batch")
_STREAM_ALPHA, _STREAM_NORM = 1e-5, 10.0


class MultiHyperplaneClassifier(Classifier):
    r"""Adaptive multi-hyperplane machine: nonlinear classes from several linear functions each.

    A class scores a row by the best of its weights, g(i, x) = max_j w_ij . x + b_ij, and the best
    class wins.  Training minimises  alpha/2 ||W||^2 + mean hinge loss of g(y, x) against the best
    other class, one row at a time, at a cost of O(non-zeros x weights).  The number of weights is
    found on the way: a row that no weight of its class scores above zero founds a new one, and
    small weights are pruned.  Between linear models and kernel machines in accuracy, close to
    linear ones in time.

    Parameters
    ----------
    algorithm : {"amm", "gamm", "pegasos"}, default="amm"
        Adaptive machine; growing machine, which also splits weights in demand (for classes in many
        pieces); multi-class Pegasos, one weight per class (Crammer and Singer's linear SVM).
    variant : {"online", "batch"}, default="online"
        "online" picks each row's weight anew at every visit; "batch" keeps the choice fixed during
        a pass and revises it between passes (descent on the objective, about twice the time).
    alpha : float or None, default=None
        Strength of the penalty (lambda).  None: 2 m / (n k), m the mean squared norm of the rows, n
        their number and k that of the classes; 1e-5 in ``partial_fit``.
    max_iter : int, default=5
        Passes over the data (``fit``).
    sub_epochs : int, default=1
        Passes between revisions of the choice of weights (variant "batch").
    max_weights : int or None, default=None
        Most weights of a class.  None: 50, with "gamm" 1000, with "pegasos" 1.
    prune_every : int, default=10000
        Steps between prunes.
    prune_norm : float or None, default=None
        A prune deletes the smallest weights as long as the sums of rows that they stand for have a
        joint norm of at most this (the constant c of the paper); 0 prunes nothing.  None: 2.5
        (with "gamm" 12.5) times the root mean squared norm of the rows; 10 (50) in ``partial_fit``.
    bias : float, default=1.0
        Value of a constant feature, which gives every weight a (penalised) intercept; 0: none.
    clone_rate, clone_decay : float, default=0.2 and 0.99
        With "gamm": probability that a row that violates its margin splits its weight, and the
        factor by which it falls after each split.
    average : bool, default=True
        Predict with the average of the last pass (of a stream, ``partial_fit`` or a large file: of
        all steps, late ones counting more) instead of the last iterate.
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred, so zeros stay
        zeros.  ``coef_`` is in the original units.
    order : {"shuffle", "sequential", "sampled"}, default="shuffle"
        Visit rows in a new random order each pass, as given, or drawn with replacement.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Fit ``predict_proba`` on out-of-fold scores.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass (its ``residual`` is the share of rows
        that violated their margin); returning True stops the fit.

    Attributes
    ----------
    coef_ : array of shape (n_weights, n_features)
        All weights, sorted by class.
    intercept_ : array of shape (n_weights,)
    weight_classes_ : array of shape (n_weights,)
        Which of ``classes_`` each weight belongs to.
    weight_ids_ : array of shape (n_weights,)
        Serial numbers of the weights, in the order of their creation; never used twice.
    births_, prunes_, clones_ : int
        Weights that came and went during training.
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : Planes
        What was learned; the weights are its fields.
    solver_, penalty_ : Hyperplanes, L2
        What was used, with all that was left to be found.
    alpha_ : float
        The strength that was used.

    References
    ----------
    Wang, Djuric, Crammer and Vucetic (2011), Trading representability for scalability: adaptive
    multi-hyperplane machine for nonlinear classification, KDD.  Djuric (2014), PhD thesis, Temple
    University, chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import MultiHyperplaneClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0  # exclusive or: no linear function separates it
    >>> model = MultiHyperplaneClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

    allowed = {
        "algorithm": OneOf(*_ALGORITHMS), "variant": OneOf(*_VARIANTS),
        "order": OneOf(*driver.ORDERS), "alpha": POSITIVE | None, "max_iter": whole(1),
        "sub_epochs": whole(1), "max_weights": whole(1) | None, "prune_every": whole(1),
        "prune_norm": NOT_NEGATIVE | None, "bias": NOT_NEGATIVE, "clone_rate": SHARE,
        "clone_decay": SHARE, "average": FLAG,
    }  # fmt: skip
    by_codes = True
    record = (*Classifier.record, "births_", "prunes_", "clones_")
    coef_ = view("coef", "All weights, sorted by class, (weights, features).")
    intercept_ = view("intercept", "One per weight.")
    weight_classes_ = view("owners", "Which of ``classes_`` each weight belongs to.")
    weight_ids_ = view("ids", "Serial numbers of the weights, in the order of their creation.")

    def __init__(
        self,
        algorithm: str = "amm",
        *,
        variant: str = "online",
        alpha: float | None = None,
        max_iter: int = 5,
        sub_epochs: int = 1,
        max_weights: int | None = None,
        prune_every: int = 10_000,
        prune_norm: float | None = None,
        bias: float = 1.0,
        clone_rate: float = 0.2,
        clone_decay: float = 0.99,
        average: bool = True,
        scale: bool = False,
        order: str = "shuffle",
        class_weight: Any = None,
        calibrate: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.algorithm = algorithm
        self.variant = variant
        self.alpha = alpha
        self.max_iter = max_iter
        self.sub_epochs = sub_epochs
        self.max_weights = max_weights
        self.prune_every = prune_every
        self.prune_norm = prune_norm
        self.bias = bias
        self.clone_rate = clone_rate
        self.clone_decay = clone_decay
        self.average = average
        self.scale = scale
        self.order = order
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def alpha_(self) -> float:
        """The strength that was used."""
        return float(self.penalty_.strength)

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        n = row_count(X)
        return {
            "alpha": Float(1e-3 / n, min(1e4 / n, 10.0), log=True),
            "max_weights": Int(2, 100, log=True, when={"algorithm": "amm"}),
            "clone_rate": Float(0.02, 0.5, log=True, when={"algorithm": "gamm"}),
        }

    def _can_stream(self) -> bool:
        if self.variant != "batch":
            return True
        raise AttributeError("variant='batch' must see all rows at once and has no partial_fit")

    def _centres(self) -> bool:
        return self.bias > 0

    def check_options(self) -> None:
        super().check_options()
        if self.algorithm == "pegasos":
            if self.variant == "batch":
                raise ValueError("algorithm='pegasos' has no choice of weights: no variant='batch'")
            if self.max_weights not in (None, 1):
                raise ValueError("algorithm='pegasos' has one weight per class; use 'amm' for more")

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Parameters with those left open filled in."""
        growing, linear = self.algorithm == "gamm", self.algorithm == "pegasos"
        alpha, norm = self.alpha, 0.0 if linear else self.prune_norm
        if facts.mass is not None and (alpha is None or norm is None):
            with np.errstate(over="ignore"):
                square = max(mean_sqnorm(chunk) + self.bias**2, 1e-300)
            if not math.isfinite(square):
                input.refuse_huge(chunk)
            alpha = 2.0 * square / (outputs * facts.mass) if alpha is None else alpha
            norm = (12.5 if growing else 2.5) * math.sqrt(square) if norm is None else norm
        alpha = _STREAM_ALPHA if alpha is None else alpha
        norm = (5.0 if growing else 1.0) * _STREAM_NORM if norm is None else norm
        cap = 1 if linear else self.max_weights or (1000 if growing else 50)
        clone = self.clone_rate if growing else 0.0
        solver = Hyperplanes(
            cap, self.prune_every, norm, self.bias, clone, self.clone_decay, self.average,
            self.variant == "batch", self.sub_epochs,
        )  # fmt: skip
        problem = Problem(
            Hinge(), L2(float(alpha)), rows.shape[1], self.bias > 0, rows.dtype,
            seed_from(self.random_state), None, outputs,
        )  # fmt: skip
        return Setup(problem, solver, driver.Plan(self.max_iter, self.order))

    def keep(
        self, function: Any, status: Status, passes: int, stream: Any, front: Any = None
    ) -> None:
        """Also how many weights came and went."""
        super().keep(function, status, passes, stream, front)
        lanes = stream.state.lanes
        self.births_, self.prunes_, self.clones_ = lanes.births, lanes.prunes, lanes.clones

    def _in_precision(self, X: Any) -> Any:
        """Lanes keep the precision of the first rows."""
        return X.astype(self._feed.stream.problem.dtype, copy=False) if self.has_feed else X
