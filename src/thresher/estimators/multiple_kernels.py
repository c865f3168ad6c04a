"""``MultipleKernelClassifier`` and ``MultipleKernelRegressor``: which kernels of which columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._allowed import NOT_NEGATIVE, POSITIVE, OneOf
from thresher.dimensions import Float
from thresher.estimators.classifier import Classifier
from thresher.estimators.multiple_kernels_model import MultipleKernelModel
from thresher.estimators.regressor import Regressor
from thresher.estimators.support_fit import (
    Fitted,
    avoids_half_the_errors,
    deviation,
    explains_half,
)
from thresher.functions.base import require
from thresher.losses import EpsilonInsensitive, Hinge, Loss
from thresher.solvers.multiple_kernels import Side

__all__ = ["MultipleKernelClassifier", "MultipleKernelRegressor"]

_MULTICLASS = ("shared", "own")


class MultipleKernelClassifier(Classifier, MultipleKernelModel):
    """Support vector machine that chooses among many kernels, each on columns of its own.

    The kernel is a sum with weights that are learned together with the machine: generalised
    multiple kernel learning.  What is chosen says which columns matter, and how smoothly.  For up
    to some thousand rows.

    Parameters
    ----------
    C : float, default=10.0
        Weight of a row's loss beside half the squared norm of the function, where the mean of every
        kernel's diagonal is one.
    v : float or "uniform", default=0.5
        Weights theta obey v ||theta||_1 + (1 - v) ||theta||^2 <= 1.  1 (l1) chooses the fewest
        kernels, 0 (l2) takes all; in between few are chosen, those that say the same together.
        "uniform": all weights are equal, and nothing is chosen.
    p : float or None, default=None
        In place of v: ||theta||_p <= 1, p of at least 1.
    kernels : "bank", "precomputed" or list, default="bank"
        "bank": Gaussians of ten widths, from 1/8 to 64 standard deviations, and polynomials of
        degree 1 to 3.  A list holds kernels (names, or objects such as ``RBF(0.5)`` or of your own
        classes), and pairs (kernel, columns).  "precomputed": X holds the kernels side by side,
        (rows, kernels x training rows).
    columns : {"auto", "both", "each", "all"} or list, default="auto"
        Which columns kernels are taken of: each alone, all together, both ("auto": of up to 100
        columns), or a list of columns and groups of them, by number or name.
    multiclass : {"shared", "own"}, default="shared"
        Each class against the rest, with the same weights for all classes, or each its own.
    method : {"level", "block"}, default="level"
        How weights are found: the level method, or block descent, which is faster for v = 0.
    tau : float or "published", default=0.5
        Of the level method: how boldly it steps; "published" is 0.9, and 0.99 near the end.
    gap : float, default=1e-3
        Between the bounds of the objective, as a share of it, at which the search ends.
    scale : bool, default=True
        Standardise the columns; sparse data are scaled but not centred.
    tol : float, default=1e-3
        How much the KKT conditions of the machine may be violated by.
    memory : float, default=2e8
        Bytes for values of the sum of kernels; single kernels are never kept.
    max_iter : int, default=500
        Most steps of the search for weights.
    class_weight : dict, "balanced" or None, default=None
        Factors for the rows of each class.
    calibrate : {"sigmoid", "isotonic"} or None, default=None
        Offer ``predict_proba``, fitted on out-of-fold scores.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, RandomState or None, default=None
        Seed of the rows that the widths of kernels by name are taken over.
    verbose : int, default=0
        Print a line every second or so.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every step of the search; returning True stops it.

    Attributes
    ----------
    kernel_weights_ : array of shape (n_kernels,), or (n_classes, n_kernels) if they have their own
    kernels_ : tuple of (Kernel, columns)
        What the weights belong to; columns None: all.
    selected_ : int array
        Numbers of the chosen kernels, the largest weight first.
    bounds_ : (float, float)
        Between which the least objective lies; the second is that of the model.
    gap_ : float
        Their difference, as a share.
    function_ : KernelSum
        What was learned; of the chosen kernels only.
    violation_ : float
        By how much the KKT conditions are violated.
    shift_, scale_ : arrays of shape (n_features,) or None
        Rows are read as (x - shift_) * scale_; sparse ones are not shifted.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Steps of the search.
    status_ : Status
        How the fit ended; its text says what to change.
    solver_, penalty_ : KernelWeights, L2
        What was used.
    classes_ : array
        The labels, in the order of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import MultipleKernelClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 5))
    >>> y = X[:, 1] ** 2 > 0.5
    >>> model = MultipleKernelClassifier().fit(X, y)
    >>> print(model.score(X, y) > 0.95, model.kernels_[model.selected_[0]][1])
    True (1,)
    """

    allowed = {"multiclass": OneOf(*_MULTICLASS)}
    optional_record = (
        *MultipleKernelModel.optional_record, *Classifier.optional_record,
    )  # fmt: skip

    def __init__(
        self,
        C: float = 10.0,
        v: Any = 0.5,
        *,
        p: float | None = None,
        kernels: Any = "bank",
        columns: Any = "auto",
        multiclass: str = "shared",
        method: str = "level",
        tau: Any = 0.5,
        gap: float = 1e-3,
        scale: Any = True,
        tol: float = 1e-3,
        memory: float = 2e8,
        max_iter: int = 500,
        class_weight: Any = None,
        calibrate: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.C = C
        self.v = v
        self.p = p
        self.kernels = kernels
        self.columns = columns
        self.multiclass = multiclass
        self.method = method
        self.tau = tau
        self.gap = gap
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
        if self.calibrate is not None and self._is_precomputed:
            raise ValueError(
                "calibrate learns again on parts of the rows, but precomputed kernels have a "
                "column for each of them: calibrate the scores outside"
            )

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        return float(self.C), float(self.tol)

    def _side(self, y: np.ndarray, bounds: np.ndarray) -> Side:
        return Side(y, bounds)

    def _loss(self) -> Loss:
        return Hinge()

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        return outputs == 1 and avoids_half_the_errors(y, weight, fitted[0].scores)

    def check_targets(self) -> None:
        super().check_targets()
        require(self.multiclass in _MULTICLASS, "multiclass is neither 'shared' nor 'own'")
        self.check_choice()


class MultipleKernelRegressor(Regressor, MultipleKernelModel):
    """Support vector regression that chooses among many kernels, each on columns of its own.

    With the epsilon-insensitive loss; kernels, columns and weights are those of
    ``MultipleKernelClassifier``.

    Parameters
    ----------
    C : float or None, default=None
        Weight of a row's loss beside half the squared norm of the function; None: ten times the
        deviation of the targets.
    v : float or "uniform", default=0.5
        From 1 (l1, the fewest kernels) to 0 (l2, all of them).
    epsilon : float or None, default=None
        Half the width of the tube within which a miss costs nothing, in units of the targets; None:
        a tenth of their deviation.
    p, kernels, columns, method, tau, gap, scale, memory, max_iter, n_jobs, random_state, verbose, \
callbacks : as in ``MultipleKernelClassifier``
    tol : float or None, default=None
        How much the KKT conditions may be violated by, in units of the targets; None: a thousandth
        of their deviation.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube.
    kernel_weights_, kernels_, selected_, bounds_, gap_, function_, violation_, shift_, scale_, \
n_features_in_, feature_names_in_, n_iter_, status_, solver_, penalty_ : as in \
``MultipleKernelClassifier``

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import MultipleKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(200, 4))
    >>> y = np.sinc(X[:, 2])
    >>> model = MultipleKernelRegressor().fit(X, y)
    >>> print(model.score(X, y) > 0.95, model.kernels_[model.selected_[0]][1])
    True (2,)
    """

    allowed = {"C": POSITIVE | None, "tol": POSITIVE | None, "epsilon": NOT_NEGATIVE | None}
    optional_record = (
        *MultipleKernelModel.optional_record, *Regressor.optional_record, "epsilon_",
    )  # fmt: skip

    def __init__(
        self,
        C: float | None = None,
        v: Any = 0.5,
        *,
        epsilon: float | None = None,
        p: float | None = None,
        kernels: Any = "bank",
        columns: Any = "auto",
        method: str = "level",
        tau: Any = 0.5,
        gap: float = 1e-3,
        scale: Any = True,
        tol: float | None = None,
        memory: float = 2e8,
        max_iter: int = 500,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.C = C
        self.v = v
        self.epsilon = epsilon
        self.p = p
        self.kernels = kernels
        self.columns = columns
        self.method = method
        self.tau = tau
        self.gap = gap
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
        return super().dimensions(X, y) | {
            "C": Float(1e-2 * unit, 1e4 * unit, log=True),
            "epsilon": Float(1e-3 * unit, unit, log=True),
        }

    def _numbers(self, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        self._unit = deviation(y, weight)
        self.epsilon_ = 0.1 * self._unit if self.epsilon is None else float(self.epsilon)
        C = 10.0 * self._unit if self.C is None else float(self.C)
        return C, 1e-3 * self._unit if self.tol is None else float(self.tol)

    def _side(self, y: np.ndarray, bounds: np.ndarray) -> Side:
        return Side(y, bounds, self.epsilon_, self._unit)

    def _loss(self) -> Loss:
        return EpsilonInsensitive(self.epsilon_)

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        return explains_half(y, weight, fitted[0].scores)

    def check_targets(self) -> None:
        super().check_targets()
        self.check_choice()
