"""``KernelSpectralClustering``: clusters of any shape, which new rows can be assigned to."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import NOT_NEGATIVE, OneOf
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.estimators import input
from thresher.estimators.base import Setup
from thresher.estimators.clusterer import Clusterer
from thresher.estimators.fronts import Front
from thresher.estimators.spaces import kernel_dimensions
from thresher.functions.codebook import ASSIGNMENTS
from thresher.kernels.width import GAMMA
from thresher.losses import LeastSquares
from thresher.maps.nystroem import Nystroem
from thresher.partitions import balanced_line_fit
from thresher.penalties import L1
from thresher.solvers import Chunk, Problem, Result, driver
from thresher.solvers.stream import Facts
from thresher.solvers.weighted_pca import WeightedPCA

__all__ = ["KernelSpectralClustering"]

_FEW = 0.05  # share of rows without a say that is no news


class KernelSpectralClustering(Clusterer):
    """Spectral clustering that is a function: weighted kernel PCA on landmarks.

    Rows are alike by a kernel; a cluster is what hangs together, whatever its shape.  What spectral
    clustering finds of the rows of a matrix of all pairs, this learns as a function of the kernel
    values of some landmarks: new rows are assigned as fast as a kernel machine predicts, and a
    million rows need one pass.

    Parameters
    ----------
    n_clusters : int, default=8
        One takes all rows, and says nothing of them.
    kernel : {"rbf", "exponential", "cosine", ...} or Kernel, default="rbf"
        Its values should not be negative.
    gamma : float, "median" or None, default=None
        Width of the kernel; None: the object's own, or "median" for a name.  The larger, the less
        far likeness reaches.  ``TunedClusterer`` finds it, with the number of clusters.
    n_components : int, "auto", "sqrt" or "full", default="auto"
        Landmarks; as many as rows ("full", up to 3000) is the exact method.
    landmarks : {"uniform", "entropy", "kmeans", "kmedoids"}, array or callable, default="uniform"
        See ``Nystroem``.
    assign : {"cosine", "kmeans", "codebook"}, default="cosine"
        How projections become clusters: by the nearest of centres of e / d, the embedding of
        spectral clustering; by their direction; or by the signs of the projections, as published.
    smoothing : float, default=0.1
        Degrees, the means of rows' kernel values, are raised by so many of their mean, so that rows
        that are like few others make no clusters of their own; 0: as published.
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred.
    memory : float, default=2e9
        Bytes for features of landmarks; beyond, they are computed block by block.
    max_iter : int or None, default=None
        Passes over rows that come in parts; None: 2, one for the degrees and one for the rest.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    labels_ : array of shape (rows,)
        The cluster of every row of the last call.
    inertia_ : float
        Weighted sum of what rows are away from their clusters, in the measure of ``assign``.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : Codebook
        What was learned.
    solver_, penalty_ : WeightedPCA, Penalty
        What was used.

    References
    ----------
    Alzate and Suykens (2010), Multiway spectral clustering with out-of-sample extensions through
    weighted kernel PCA, IEEE Transactions on Pattern Analysis and Machine Intelligence.
    Zhang and Rohe (2018), Understanding regularized spectral clustering via graph conductance.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from thresher import KernelSpectralClustering
    >>> X, y = make_circles(600, factor=0.3, noise=0.05, random_state=0)
    >>> model = KernelSpectralClustering(2, gamma=20.0, random_state=0).fit(X[:500])
    >>> len(set(zip(model.predict(X[500:]), y[500:])))  # two rings, two clusters
    2
    """

    allowed = {
        "gamma": GAMMA, "assign": OneOf(*ASSIGNMENTS), "smoothing": NOT_NEGATIVE,
    }  # fmt: skip
    alpha = 0.0

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        n_components: Any = "auto",
        landmarks: Any = "uniform",
        assign: str = "cosine",
        smoothing: float = 0.1,
        scale: bool = False,
        memory: float = 2e9,
        max_iter: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.n_components = n_components
        self.landmarks = landmarks
        self.assign = assign
        self.smoothing = smoothing
        self.scale = scale
        self.memory = memory
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ from parameters to a solver

    def check_options(self) -> None:
        super().check_options()

    def learn_front(
        self, rows: Rows, targets: np.ndarray, weight: np.ndarray | None, moments: Any = None
    ) -> Front:
        made = Nystroem(
            self.n_components, kernel=self.kernel, gamma=self.gamma, landmarks=self.landmarks,
            random_state=seed_from(self.random_state),
        )  # fmt: skip
        return self.learn_map(made, rows, targets, weight, moments)

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Terms, solver and plan."""
        problem = Problem(
            LeastSquares(), L1(0.0), rows.shape[1], True, rows.dtype, seed_from(self.random_state),
            None, outputs, "none",
        )  # fmt: skip
        return Setup(
            problem, WeightedPCA(self.assign, smoothing=float(self.smoothing)),
            driver.Plan(1 if facts.whole else self.max_iter or 2),
        )  # fmt: skip

    def fit_rows(self, X: Any, weight: np.ndarray | None = None) -> Self:
        input.refuse_far_rows(X)
        rows = input.to_rows(X)
        if rows.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={rows.shape[0]} rows should be at least n_clusters={self.n_clusters}: "
                "there is nothing to tell apart"
            )
        self.fit_targets(rows, np.zeros(rows.shape[0]), weight, self.n_clusters)
        scores = self.function_.scores(X)
        self.labels_ = scores.argmax(axis=1).astype(np.int32)
        away = -scores.max(axis=1)
        self.inertia_ = float(away.sum() if weight is None else weight @ away)
        return self

    def _keep(self, results: list[Result], judges: Any, front: Front, offset: float) -> None:
        if self.n_clusters > 1:
            _refuse_unlike(results[0].state)
        found = int(np.count_nonzero(np.any(results[0].function.coef[:-1] != 0.0, axis=1))) + 1
        if found < self.n_clusters:
            warnings.warn(
                f"n_clusters={self.n_clusters}, but the landmarks tell {found} apart at most: "
                "raise n_components, or too few rows differ",
                ConvergenceWarning,
                stacklevel=5,
            )
        super()._keep(results, judges, front, offset)

    def _learned(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        """Labels are those of the function."""

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        return super().dimensions(X, y) | kernel_dimensions(self, X)

    # ------------------------------------------------------------ use

    def balanced_line_fit(self, X: Any) -> float:
        """How clear the clusters of these rows are: ``thresher.partitions.balanced_line_fit``.

        Of two clusters, which have one projection, the degree is the other one.
        """
        check_is_fitted(self)
        X = input.checked_X(self, X)
        found = self.function_.projections(X)
        clusters = self.function_.scores(X).argmax(axis=1)
        return balanced_line_fit(found if self.n_clusters == 2 else found[:, :-1], clusters)

    def comparable(self, X: Any) -> Any:
        """In the units that the kernel sees."""
        return self.function_.inner.in_units(X)


def _refuse_unlike(state: Any) -> None:
    """Rows that are like no others have no say; without any other, there are no clusters."""
    if state.alone <= _FEW * state.mass:
        return
    if state.alone >= state.mass:
        raise ValueError(
            "every row is like no other: by its kernel values, none is as like all others together "
            "as it is like itself; use a wider kernel (a smaller gamma), or one without negative "
            "values, or more rows"
        )
    warnings.warn(
        f"{state.alone:g} of {state.mass:g} rows are like no other (but themselves) and have no "
        "say in the clusters: use a wider kernel (a smaller gamma) or more landmarks",
        ConvergenceWarning,
        stacklevel=6,
    )
