"""``OneClassMachine``: where rows usually lie, by a kernel machine solved exactly."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import FLAG, number
from thresher._interrupts import clean_interrupts
from thresher.dimensions import Float
from thresher.estimators import input
from thresher.estimators.support_fit import Fitted
from thresher.estimators.support_fit import Rows as KernelRows
from thresher.estimators.support_model import SupportVectorModel
from thresher.functions.base import require
from thresher.losses import Hinge, Loss
from thresher.solvers.machines import KernelDual, one_class

__all__ = ["OneClassMachine"]


class OneClassMachine(OutlierMixin, SupportVectorModel):
    """One-class support vector machine, solved exactly: tells rows that are unlike all others.

    The same model as LIBSVM's (scikit-learn's ``OneClassSVM``), in about a quarter of its time on
    larger sets.

    Parameters
    ----------
    nu : float, default=0.1
        At most this share of the rows is told to be unlike the others (to the tolerance), and at
        least as many are support vectors.
    kernel : {"rbf", "exponential", ...} or Kernel, default="rbf"
        A name, or an object such as ``Polynomial(degree=3)`` or one of your own classes.
    gamma : float, "median" or None, default=None
        Width of a kernel given by name, exp(-gamma ||x - z||^2) for "rbf"; None and "median": one
        over the median squared distance.  With a Kernel object, None keeps its own.
    scale : bool, default=False
        Standardise the features; sparse data are scaled but not centred.
    tol : float, default=1e-3
        How much the KKT conditions may be violated by, as in LIBSVM.
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
    intercept_ : array of shape (1,)
        Minus ``offset_``.
    offset_ : float
        ``decision_function`` is ``score_samples`` less this.
    kernel_, violation_, function_, shift_, scale_, n_features_in_, feature_names_in_, n_iter_, \
status_, solver_, penalty_ : as in ``SupportVectorClassifier``

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import OneClassMachine
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> model = OneClassMachine(nu=0.05, tol=1e-6).fit(X)
    >>> model.predict(np.array([[0.0, 0.0], [6.0, 6.0]])).tolist()
    [1, -1]
    >>> print(np.mean(model.predict(X) == -1) <= 0.06)
    True
    """

    task = "one_class"
    allowed = {"nu": number(0.0, 1.0, "(]"), "scale": FLAG}
    loss = "one_class"
    C = 1.0
    libsvm_type = "one_class"

    def __init__(
        self,
        nu: float = 0.1,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        scale: bool = False,
        tol: float = 1e-3,
        memory: float = 2e8,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.scale = scale
        self.tol = tol
        self.memory = memory
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def without_stream(self) -> tuple[str, str]:
        """Who needs all rows, and what to use where they are too many."""
        return "a one-class machine", "a sample of the rows"

    @clean_interrupts()
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from all rows.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (rows, features)
        y : ignored
        sample_weight : array or None, default=None
            Weight k means the same as the row k times.
        """
        self.check_options()
        X = input.checked_X(self, X, reset=True)
        return self.fit_coded(X, None, np.empty(0), input.check_weight(sample_weight, X))

    def fit_coded(self, X: Any, y: Any, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows; whatever labels they bring are not looked at."""
        rows = input.to_rows(X)
        self.fit_targets(rows, np.ones(rows.shape[0]), weight, 1)
        return self

    def _solve(self, solver: KernelDual, columns: Any, part: KernelRows, **how: Any) -> Fitted:
        assert self.nu is not None
        return Fitted.of(one_class(solver, columns, part.weight, self.nu, **how))

    def _loss(self) -> Loss:
        return Hinge()

    def _is_good(
        self, y: np.ndarray, weight: np.ndarray, fitted: list[Fitted], outputs: int
    ) -> bool:
        """There is no target to judge by."""
        return True

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        return super().dimensions(X, y) | {"nu": Float(0.01, 0.5, log=True)}

    # ------------------------------------------------------------ use

    @property
    def offset_(self) -> float:
        return -float(self.intercept_[0])

    def decision_function(self, X: Any) -> np.ndarray:
        """Positive where rows usually lie, negative elsewhere."""
        check_is_fitted(self)
        return self.scores(X)[:, 0]

    def score_samples(self, X: Any) -> np.ndarray:
        """The same without the offset: the higher, the more usual a row is."""
        return self.decision_function(X) + self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """1 for rows like the others, -1 for those that are not."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def coded(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        """Ones for the solver, and one output."""
        return np.ones(np.shape(y)[0]), 1

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """1 or -1 of scores (rows, 1), the scores, and no probabilities."""
        return np.where(scores[:, 0] >= 0.0, 1, -1), scores[:, 0], None

    def comparable(self, X: Any) -> Any:
        """Nothing is told of distances between rows."""
        return None

    def check_targets(self) -> None:
        """ValueError for a function, read from a file, that is none of one class."""
        require(self.function_.outputs == 1, "one class has one output")
