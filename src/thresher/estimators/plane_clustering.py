"""``PlaneClustering``: clusters that lie along planes."""

from __future__ import annotations

from typing import Any

from thresher._allowed import NOT_NEGATIVE, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher.estimators.base import Setup
from thresher.estimators.clusterer import Clusterer
from thresher.estimators.fronts import Front
from thresher.estimators.views import view
from thresher.losses import LeastSquares
from thresher.penalties import L1
from thresher.solvers import Chunk, Problem, driver
from thresher.solvers.proximal_planes import ProximalPlanes
from thresher.solvers.starts import STARTS
from thresher.solvers.stream import Facts

__all__ = ["PlaneClustering"]


class PlaneClustering(Clusterer):
    """Proximal plane clustering: the centre of a cluster is a plane close to its rows.

    For rows that lie on a few flat pieces, wherever on them.  Each plane goes through the mean of
    its rows; its normal is the eigenvector of the smallest eigenvalue of their second moments less
    ``repulsion`` times those of all other rows.

    Parameters
    ----------
    n_clusters : int, default=8
    repulsion : float, default=0.0
        How much a plane avoids the rows of other clusters (c); 0 is k-plane clustering.
    init : {"k-means++", "random"}, default="k-means++"
        First clusters: around rows that k-means++ chooses, or around rows at random.
    n_init : int, default=3
        Starts, of which the one goes on whose planes are closest to the rows.
    max_iter : int, default=100
        Passes over the data.
    tol : float, default=1e-6
        Passes end when the squared changes of the planes add up to no more.
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_clusters, n_features) and (n_clusters,)
        The planes coef . x + intercept = 0, in the units of the data.
    labels_ : array of shape (rows,)
        The cluster of every row.
    inertia_ : float
        Weighted sum of squared distances to the nearest plane.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : FlatPlanes
        What was learned.
    solver_, penalty_ : ProximalPlanes, Penalty
        What was used.

    References
    ----------
    Bradley and Mangasarian (2000), k-plane clustering, Journal of Global Optimization.  Shao, Bai,
    Wang, Hua and Deng (2013), Proximal plane clustering via eigenvalues, Procedia Computer Science.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import PlaneClustering
    >>> t = np.linspace(-1.0, 1.0, 100)
    >>> X = np.concatenate([np.c_[t, t], np.c_[t, -t]])  # a cross
    >>> model = PlaneClustering(2, n_init=10, random_state=0).fit(X)
    >>> model.inertia_ < 1e-9
    True
    """

    allowed = {
        "repulsion": NOT_NEGATIVE, "init": OneOf(*STARTS), "n_init": whole(1),
        "max_iter": whole(1), "tol": NOT_NEGATIVE,
    }  # fmt: skip
    alpha = 0.0
    coef_ = view("coef", "Normals of the planes, (clusters, features).")
    intercept_ = view("intercept", "One per plane.")

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        repulsion: float = 0.0,
        init: str = "k-means++",
        n_init: int = 3,
        max_iter: int = 100,
        tol: float = 1e-6,
        scale: bool = False,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.n_clusters = n_clusters
        self.repulsion = repulsion
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    def _can_stream(self) -> bool:
        raise AttributeError(
            "PlaneClustering goes over the same rows again and again and has no partial_fit"
        )

    def streams_files(self) -> bool:
        """Files can be read again: passes go over them window by window."""
        return True

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Terms, solver and plan."""
        problem = Problem(
            LeastSquares(), L1(0.0), rows.shape[1], True, rows.dtype, seed_from(self.random_state),
            float(self.tol), outputs, "none",
        )  # fmt: skip
        solver = ProximalPlanes(float(self.repulsion), self.init, int(self.n_init))
        return Setup(problem, solver, driver.Plan(self.max_iter))
