"""``MultiHyperplaneClassifier``: several linear functions per class, nearly as fast as one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.estimators import _input
from thresher.estimators._classifier import Classifier
from thresher.estimators._progress import FitEvent
from thresher.solvers import Chunk, Status, driver
from thresher.solvers.hyperplane_lanes import HyperplaneState
from thresher.solvers.hyperplanes import Hyperplanes
from thresher.solvers.pegasos import mean_sqnorm

__all__ = ["MultiHyperplaneClassifier"]

_ALGORITHMS = ("amm", "gamm", "pegasos")
_VARIANTS = ("online", "batch")
_STREAM_ALPHA, _STREAM_NORM = 1e-5, 10.0
_BLOCK = 1 << 22  # scores held at a time


class MultiHyperplaneClassifier(Classifier, BaseEstimator):
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
        Predict with the average of the last pass (in ``partial_fit``: of all steps, late ones
        counting more) instead of the last iterate.
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
        How the fit ended.
    solver_ : Hyperplanes
        The parameters as used, with those that were left to be found.

    References
    ----------
    Wang, Djuric, Crammer and Vucetic (2011), Trading representability for scalability: adaptive
    multi-hyperplane machine for nonlinear classification, KDD.  Djuric (2014), PhD thesis, Temple
    University, chapter 4.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.estimators.hyperplanes import MultiHyperplaneClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(2000, 2))
    >>> y = X[:, 0] * X[:, 1] > 0  # exclusive or: no linear function separates it
    >>> model = MultiHyperplaneClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.98
    True
    """

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

    # ------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiHyperplaneClassifier:
        """Learn from all rows; a row of ``sample_weight`` k takes steps k times as long."""
        self._check_options()
        X, y, codes, given = self._labelled(X, y, sample_weight)
        for name in ("_stream", "_stream_units", "calibrator_"):
            if hasattr(self, name):
                delattr(self, name)
        weight = self._class_weighted(codes, given)
        rows = _input.to_rows(X)
        units = self._units(rows, weight)
        chunk = _chunk(units.apply(rows) if units else rows, codes, weight)
        mass = float(codes.size if weight is None else weight.sum())
        if weight is not None:  # mean one, so that steps keep their meaning
            chunk = chunk._replace(weight=weight * (chunk.order.size / mass))
        solver = self._solver(chunk, mass)
        state, passes, status = self._passes(solver, chunk)
        self._store(solver, state, units, chunk, passes, status)
        self._fit_calibration(X, y, given)
        return self

    def _passes(self, solver: Hyperplanes, chunk: Chunk) -> tuple[HyperplaneState, int, Status]:
        """Passes until ``max_iter``, a callback, or (batch) rows that all keep their weights."""
        started = time.perf_counter()
        batch = self.variant == "batch"
        assigned = np.full(chunk.size, -1, np.int64) if batch else None
        state = solver.init(chunk.rows.shape[1], self.classes_.size, chunk.rows.dtype)
        status, passes, last = Status.COMPLETED, 0, self.max_iter - 1
        for order in self._orders(solver.seed, chunk.order):
            part, before = chunk._replace(order=order), state.violations
            if self.average and passes >= last:
                state = solver.averaging(state)
            state = solver.update(state, part, assigned, frozen=batch and passes > 0)
            passes += 1
            share = (state.violations - before) / max(order.size, 1)
            if self._told(solver, state, passes, share, time.perf_counter() - started):
                return state, passes, Status.INTERRUPTED
            if passes > last:
                break
            revise = passes > 1 and (passes - 1) % self.sub_epochs == 0
            if assigned is not None and revise and not solver.assign(state, chunk, assigned):
                last, status = passes, Status.CONVERGED  # one more pass, to be averaged
        return state, passes, status

    def _orders(self, seed: int, rows: np.ndarray) -> Iterator[np.ndarray]:
        for number in range(self.max_iter):
            yield driver.pass_order(rows, self.order, seed, number)

    def _told(
        self, solver: Hyperplanes, state: HyperplaneState, passes: int, share: float, seconds: float
    ) -> bool:
        """Progress after a pass; True where a callback asks to stop."""
        if self.verbose:
            print(
                f"[thresher] pass {passes}  weights {int(state.sizes.sum())}  "
                f"births {state.births}  prunes {state.prunes}  clones {state.clones}  "
                f"violations {100 * share:.1f} %  {seconds:.1f} s",
                flush=True,
            )
        if not self.callbacks:
            return False
        planes = solver.finish(state)
        event = FitEvent(
            self, None, passes, state.step, share, int(np.count_nonzero(planes.coef)), None,
            seconds, planes.coef, planes.intercept,
        )  # fmt: skip
        answers = [callback(event) for callback in self.callbacks]  # all are told
        return any(answers)

    def _can_stream(self) -> bool:
        if self.variant != "batch":
            return True
        raise AttributeError("variant='batch' must see all rows at once and has no partial_fit")

    @available_if(_can_stream)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> MultiHyperplaneClassifier:
        """Go once over these rows, in the given order; the first call names all ``classes``.

        How a stream is cut into calls does not matter, except that ``scale=True`` learns its units
        from the first call's rows.
        """
        self._check_options()
        first = not hasattr(self, "_stream")
        X, y = _input.checked_Xy(self, X, y, reset=first, numeric=False)
        codes = self._stream_codes(y, classes, first)
        weight = self._class_weighted(codes, _input.check_weight(sample_weight, X))
        rows = _input.to_rows(X)
        if first:
            self._stream_units = self._units(rows, weight)
        chunk = _chunk(
            self._stream_units.apply(rows) if self._stream_units else rows, codes, weight
        )
        if first:
            solver = self._solver(chunk, None)
            state = solver.init(rows.shape[1], self.classes_.size, rows.dtype)
            self._stream = solver, solver.averaging(state) if self.average else state
        solver, state = self._stream
        if rows.dtype != state.sums.dtype:
            chunk = chunk._replace(rows=_input.to_rows(X.astype(state.sums.dtype)))
            units = self._stream_units
            chunk = chunk._replace(rows=units.apply(chunk.rows)) if units else chunk
        self._stream = solver, solver.update(state, chunk)
        self._store(solver, self._stream[1], self._stream_units, chunk, 1, Status.COMPLETED)
        return self

    # ------------------------------------------------------------ use

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores g: (n,) for two classes, g(1) - g(0); else (n, n_classes)."""
        check_is_fitted(self)
        X = _input.checked_X(self, X)
        n, k = X.shape[0], self.classes_.size
        scores = np.empty((n, k))
        starts = np.searchsorted(self.weight_classes_, np.arange(k))
        block = max(1, _BLOCK // self.coef_.shape[0])
        for a in range(0, n, block):
            part = X[a : a + block] @ self.coef_.T + self.intercept_
            np.maximum.reduceat(part, starts, axis=1, out=scores[a : a + block])
        return scores[:, 1] - scores[:, 0] if k == 2 else scores

    # ------------------------------------------------------------ parts

    def _check_options(self) -> None:
        for name, choices in (
            ("algorithm", _ALGORITHMS), ("variant", _VARIANTS), ("order", driver.ORDERS),
        ):  # fmt: skip
            if getattr(self, name) not in choices:
                known = ", ".join(repr(choice) for choice in choices)
                raise ValueError(f"{name} must be one of {known}, got {getattr(self, name)!r}")
        for name in ("alpha", "max_iter", "sub_epochs", "max_weights", "prune_every"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive, got {value}")
        for name in ("prune_norm", "bias"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be a finite number of at least 0, got {value}")
        for name in ("clone_rate", "clone_decay"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in 0 .. 1, got {getattr(self, name)}")
        if self.algorithm == "pegasos":
            if self.variant == "batch":
                raise ValueError("algorithm='pegasos' has no choice of weights: no variant='batch'")
            if self.max_weights not in (None, 1):
                raise ValueError("algorithm='pegasos' has one weight per class; use 'amm' for more")

    def _solver(self, chunk: Chunk, mass: float | None) -> Hyperplanes:
        """Parameters with those left open filled in; ``mass`` is None in a stream."""
        growing, linear = self.algorithm == "gamm", self.algorithm == "pegasos"
        alpha, norm = self.alpha, 0.0 if linear else self.prune_norm
        if mass is not None and (alpha is None or norm is None):
            with np.errstate(over="ignore"):
                square = max(mean_sqnorm(chunk) + self.bias**2, 1e-300)
            if not math.isfinite(square):
                _input.refuse_huge(chunk)
            alpha = 2.0 * square / (self.classes_.size * mass) if alpha is None else alpha
            norm = (12.5 if growing else 2.5) * math.sqrt(square) if norm is None else norm
        alpha = _STREAM_ALPHA if alpha is None else alpha
        norm = (5.0 if growing else 1.0) * _STREAM_NORM if norm is None else norm
        cap = self.max_weights or (1000 if growing else 50)
        seed = seed_from(self.random_state)
        return Hyperplanes(
            alpha, 1 if linear else cap, self.prune_every, norm, self.bias,
            self.clone_rate if growing else 0.0, self.clone_decay, seed,
        )  # fmt: skip

    def _units(self, rows: Rows, weight: np.ndarray | None) -> _input.Units | None:
        if not _input.wants_units(self.scale):
            return None
        weight = np.ones(rows.shape[0]) if weight is None else weight
        return _input.learn_units(rows, weight, centre=hasattr(rows, "X") and self.bias > 0)

    def _store(
        self, solver: Hyperplanes, state: HyperplaneState, units: _input.Units | None,
        chunk: Chunk, passes: int, status: Status,
    ) -> None:  # fmt: skip
        planes = solver.finish(state)
        coef, intercept = planes.coef, planes.intercept
        if not (np.all(np.isfinite(coef)) and np.all(np.isfinite(intercept))):
            _input.refuse_huge(chunk)
            raise ValueError(str(Status.DIVERGED))
        if units is not None:
            coef, intercept = units.undo(coef, intercept)
        self.coef_ = coef.astype(state.sums.dtype, copy=False)
        self.intercept_ = np.asarray(intercept, dtype=np.float64)
        self.weight_classes_, self.weight_ids_ = planes.classes, planes.ids
        self.births_, self.prunes_, self.clones_ = state.births, state.prunes, state.clones
        self.n_iter_, self.status_, self.solver_ = passes, status, solver

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _chunk(rows: Rows, codes: np.ndarray, weight: np.ndarray | None) -> Chunk:
    """Class numbers as targets; unit weights take one element and no memory."""
    order = np.arange(codes.size) if weight is None else np.flatnonzero(weight)
    full = np.ones(1) if weight is None else np.asarray(weight, dtype=np.float64)
    return Chunk(rows, codes.astype(np.int32), full, order.astype(np.uint32))
