"""``StochasticKMeans``: k-means with sparse centres, from memory or from a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from thresher._allowed import NOT_NEGATIVE, OneOf, whole
from thresher._rows import Rows
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.dimensions import Float
from thresher.estimators.base import Setup
from thresher.estimators.clusterer import Clusterer
from thresher.estimators.fronts import Front
from thresher.functions.centres import METRICS
from thresher.losses import LeastSquares
from thresher.penalties import Penalty, strengthened
from thresher.registry import resolve
from thresher.solvers import Chunk, Problem, driver
from thresher.solvers.lloyd import Lloyd, Means
from thresher.solvers.online_means import OnlineMeans
from thresher.solvers.starts import STARTS
from thresher.solvers.stochastic_means import StochasticMeans
from thresher.solvers.stream import Facts

__all__ = ["StochasticKMeans"]

_ALGORITHMS = ("auto", "lloyd", "online", "stochastic")
_MOST_PASSES = {"lloyd": 300, "online": 3, "stochastic": 20}
_RESTARTS = 3


class StochasticKMeans(Clusterer):
    r"""k-means with an l1 penalty on the centres: clusters that are told apart by few features.

    Minimises :math:`\sum_c [\frac{1}{2 N_c} \sum_{x \in S_c} \|w_c - x\|^2 + \alpha \|w_c\|_1]`
    over centres w and clusters S by exact passes with the closed form of a centre,
    soft(mean, alpha); alpha = 0, the default, is k-means.  Rows in memory keep bounds on their
    distances, so that a pass looks only at rows in doubt, and starts are found on small samples.

    Parameters
    ----------
    n_clusters : int, default=8
    algorithm : {"auto", "lloyd", "online", "stochastic"}, default="auto"
        Exact passes over all rows ("lloyd"); running means of mini-batches ("online");
        the published loop of stochastic steps ("stochastic").  "auto": exact passes over rows in
        memory, running means of a stream.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine": rows and centres of length one (spherical k-means).
    alpha : float, default=0.0
        Strength of the penalty (lambda), in the units of the rows.
    penalty : {"l1", "elastic_net", ...} or Penalty, default="l1"
        Any with a proximal map for single features.
    init : {"refined", "k-means++", "random"} or array, default="refined"
        Where to start: k-means++ on a sample, moved by passes over growing samples; k-means++ on
        all rows; rows at random; or centres that are given, (n_clusters, n_features).
    n_init : int or "auto", default="auto"
        Starts that compete on the sample ("refined"); "auto" is 3.  Others start once.
    max_iter : int or None, default=None
        Passes over the data; None: at most 300 exact ones (10 of a file), 3 of running means, 20 of
        the published loop.
    tol : float, default=1e-4
        Exact passes end when the squared moves of the centres add up to at most so much of the mean
        variance of a feature.
    batch_size : int, default=1024
        Rows of a mini-batch ("online").
    draws : int, default=10000
        Rows drawn for each centre and pass ("stochastic").
    scale : bool, default=False
        Standardise the features on the fly; sparse data are scaled but not centred.  The penalty
        then pulls centres to the mean of the data.
    n_jobs : int or None, default=None
        Threads; the result does not depend on them.
    random_state : int, RandomState or None, default=None
        Seed of everything random; None: another one each time.
    verbose : int, default=0
        Print a line after each pass.
    callbacks : list of callables or None, default=None
        Each is called with a ``FitEvent`` after every pass; returning True stops the fit.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        In the units of the data; with ``scale`` the sparse ones are ``function_.centers``.
    labels_ : array of shape (rows,)
        The cluster of every row of the last call.
    inertia_ : float
        Weighted sum of squared distances to the nearest centre, of ``fit``.
    n_features_in_, feature_names_in_ : as in scikit-learn
    n_iter_ : int
        Passes used.
    status_ : Status
        How the fit ended; its text says what to change.
    function_ : Centres
        What was learned.
    solver_, penalty_ : Lloyd, OnlineMeans or StochasticMeans; Penalty
        What was used.

    References
    ----------
    Jumutc (2016), PhD thesis, KU Leuven, section 4.2.  Jumutc, Langone and Suykens (2015),
    Regularized and sparse stochastic k-means for distributed large-scale clustering, IEEE Big Data.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import StochasticKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5))
    >>> X[:150, 0] += 8.0  # the only feature that tells two clusters apart
    >>> model = StochasticKMeans(2, alpha=0.3, random_state=0).fit(X)
    >>> np.count_nonzero(model.cluster_centers_, axis=0).tolist()
    [1, 0, 0, 0, 0]
    >>> len(set(model.labels_[:150])), len(set(model.labels_[150:]))
    (1, 1)
    """

    allowed = {
        "algorithm": OneOf(*_ALGORITHMS), "metric": OneOf(*METRICS), "alpha": NOT_NEGATIVE,
        "n_init": whole(1) | "auto", "tol": NOT_NEGATIVE, "batch_size": whole(1),
        "draws": whole(1),
    }  # fmt: skip

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        algorithm: str = "auto",
        metric: str = "euclidean",
        alpha: float = 0.0,
        penalty: Any = "l1",
        init: Any = "refined",
        n_init: Any = "auto",
        max_iter: int | None = None,
        tol: float = 1e-4,
        batch_size: int = 1024,
        draws: int = 10_000,
        scale: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Any = None,
    ):
        self.n_clusters = n_clusters
        self.algorithm = algorithm
        self.metric = metric
        self.alpha = alpha
        self.penalty = penalty
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.draws = draws
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @property
    def cluster_centers_(self) -> np.ndarray:
        """The centres in the units of the data."""
        if "function_" not in vars(self):
            raise AttributeError(f"{type(self).__name__} is not fitted: it has no centres yet")
        return self.function_.original()

    def comparable(self, X: Any) -> Any:
        """In the units of the centres; of length one with "cosine"."""
        from sklearn.preprocessing import normalize  # slow to import

        X = X if self.function_.units is None else self.function_.units.matrix(X)
        return normalize(X) if self.metric == "cosine" else X

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        found = super().dimensions(X, y)
        return found | ({"alpha": Float(1e-3, 1.0, log=True)} if self.alpha > 0.0 else {})

    # ------------------------------------------------------------ from parameters to a solver

    def check_options(self) -> None:
        super().check_options()
        names = ("refined", *STARTS)
        if isinstance(self.init, str) and self.init not in names:
            known = ", ".join(map(repr, names))
            raise ValueError(f"init must be one of {known} or an array, got {self.init!r}")

    def _can_stream(self) -> bool:
        if self.algorithm in ("auto", "online"):
            return True
        raise AttributeError(
            f"algorithm={self.algorithm!r} goes over the same rows again and again and has no "
            "partial_fit: use 'online'"
        )

    def streams_files(self) -> bool:
        """Files can be read again: exact passes go over them window by window."""
        return self.algorithm != "stochastic"

    def set_up(self, front: Front, rows: Rows, chunk: Chunk, outputs: int, facts: Facts) -> Setup:
        """Terms, solver and plan."""
        usual = "lloyd" if facts.whole else "online"
        algorithm = usual if self.algorithm == "auto" else self.algorithm
        solver = self._solver(algorithm, front)
        tol = float(self.tol) if algorithm == "lloyd" else None
        problem = Problem(
            LeastSquares(), self._penalty(), rows.shape[1], True, rows.dtype,
            seed_from(self.random_state), tol, outputs, "none",
        )  # fmt: skip
        return Setup(problem, solver, driver.Plan(self.max_iter or _MOST_PASSES[algorithm]))

    def _solver(self, algorithm: str, front: Front) -> Means:
        start: Any = self.init
        if not isinstance(start, str):
            start = _centres_given(start)
            if front.units is not None and start.ndim == 2:
                start = front.units.matrix(start)
        restarts = _RESTARTS if self.n_init == "auto" else int(self.n_init)
        common = (self.metric, start, restarts, threads(self.n_jobs))
        if algorithm == "online":
            return OnlineMeans(*common, batch=self.batch_size)
        if algorithm == "stochastic":
            return StochasticMeans(*common, draws=self.draws)
        return Lloyd(*common)

    def _penalty(self) -> Penalty:
        if isinstance(self.penalty, Penalty):
            return self.penalty if not self.alpha else strengthened(self.penalty, self.alpha)
        return resolve(self.penalty, Penalty, "penalty", strength=float(self.alpha))


def _centres_given(init: Any) -> np.ndarray:
    """Centres to start from, as numbers."""
    try:
        centres = np.asarray(init.toarray() if issparse(init) else init, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"init must be a name or an array of numbers, got {init!r:.80}") from None
    if not np.all(np.isfinite(centres)):
        raise ValueError("init holds NaN or infinity: centres to start from are finite")
    return centres
