"""Rows, or columns, in an order in which neighbours are alike, as estimators."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from thresher._allowed import FLAG, INTEGER, NOT_NEGATIVE, OneOf, check_allowed, number, whole
from thresher._random import generator
from thresher._rows import check_compressed
from thresher._seed import seed_from
from thresher._threads import threads
from thresher.data.dataset import DataSet
from thresher.kernels.matrices import canonical
from thresher.orderings.arranged import RowBlocks
from thresher.orderings.baselines import BASELINES, baseline
from thresher.orderings.coding import GAUSSIAN, LAPLACIAN, RESIDUALS
from thresher.orderings.em import POLICIES, Columns, Iterate, em_iterates, entropy
from thresher.orderings.path import PathSearch, default_effort, path_in_place
from thresher.orderings.placing import positions
from thresher.orderings.points import MANHATTAN, METRICS

__all__ = ["CHECKS", "OrderingEvent", "RowOrdering"]

CHECKS: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": [np.float64, np.float32],
    "ensure_all_finite": "allow-nan",
}
_ORDERS = 5  # found for dense rows
_ROUGH = 1  # binary levels of the paths from which weights are learned
_METHODS = ("tsp", *BASELINES)


class OrderingEvent(NamedTuple):
    """What a callback is told; one that returns True ends the fit with the order of the event.

    Parameters
    ----------
    estimator : the estimator that is fitted
    stage : int
        0 for the coarsest order; each is finer or shorter than the one before.
    order : array of shape (n_rows,)
        Of all rows.
    seconds : float
        Since the fit began.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RowOrdering
    >>> seen = []
    >>> ordering = RowOrdering(callbacks=[lambda event: seen.append(event.stage)])
    >>> ordering = ordering.fit(np.eye(4))
    >>> seen
    [0, 1, 2, 3]
    """

    estimator: Any
    stage: int
    order: np.ndarray
    seconds: float


class RowOrdering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The order of the rows in which a table is easiest to look at, and the columns that matter.

    EM-ordering: a path through the rows, and weights of the columns by how small their steps along
    it are, in turn (``thresher.orderings.em``); then the order itself, with the best weights found.
    Weights are learned from rough paths, by TSP-means on a binary tree: a path that is as short as
    can be follows the noise as well, whose steps then look small.  The order is a short
    path (``thresher.orderings.path``), or one of the usual orders to compare with.  Missing values
    (NaN) are welcome; categories come as the features of a schema: fit what
    :func:`thresher.open_data` gives.

    Parameters
    ----------
    method : {"tsp", "pca", "spectral", "lle", "hierarchical", "optimal_leaf", "nearest"}, \
            default="tsp"
        How the rows are ordered in the end.
    residual : {"gaussian", "laplacian"}, default="gaussian"
        What steps between neighbours are like; "laplacian" forgives a few large ones.
    policy : {"tolerance", "hard", "soft"}, default="tolerance"
        Whether columns are dropped whose steps tell no less than their values.
    alpha : float, default=1.1
        Of "tolerance": by how much more they must tell.
    metric : {"euclidean", "squared"}, default="euclidean"
        Of steps with Gaussian residuals: "squared" is what they cost, "euclidean" gives shorter
        paths.  Laplacian ones have their own, the sum of magnitudes.
    max_iter : int or None, default=None
        Orders found, at most, the last of which is the answer; 1: weights are not learned.  None: 5
        for dense rows and 1 for sparse ones, where the rarest columns would weigh most.
    tol : float, default=0.01
        Weights that change by less than this share of the largest end the iterations.
    scale : bool or None, default=None
        Begin with columns of equal spread; False: with the columns as they are.  None: True for
        dense rows, False for sparse ones.
    sample : int or None, default=20000
        Rows by which weights are learned, at most; None: all.
    effort : float, "auto" or None, default="auto"
        Random attempts at a shorter path for each row: time is in proportion.  "auto": 0.25 for
        many rows (0.1 if there are more than six columns), up to 5 for few; None: TSP-means alone.
    levels : int or None, default=None
        Of TSP-means: a node of the tree has up to 2^levels children.  None: half of the depth of
        the tree, at most 7.
    n_jobs : int or None, default=None
        Threads; -1: all cores.  The order does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
    callbacks : sequence of callables or None, default=None
        Called with an :class:`OrderingEvent` whenever there is a better order.

    Attributes
    ----------
    order_ : array of shape (n_rows,)
        Numbers of the rows, in order.
    weights_ : array of shape (n_features_in_,)
        Of the columns, in units of their spread: one over the scale of their steps.  Large where
        the order follows a column, 0 where it was dropped or has one value only.
    entropy_ : float
        Nats that a row takes as a step from the one before, likeliest scales given; a dropped
        column counts with the entropy of its values, one of a single value not at all.
    history_ : list of float
        The same for the rough paths from which weights were learned.
    n_iter_ : int
        Orders found.
    columns_ : the centre and the spread of each column
    rows_ : array or CSR matrix
        The weighed rows along the path: what new rows are compared with.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import RowOrdering
    >>> rng = np.random.default_rng(0)
    >>> t = rng.permutation(np.linspace(0.0, 1.0, 200))
    >>> noise = rng.standard_normal((200, 2))
    >>> X = np.column_stack([np.cos(np.outer(t, [1, 2, 3, 4, 5])), noise])
    >>> ordering = RowOrdering(random_state=0).fit(X)
    >>> steps = np.diff(t[ordering.order_])
    >>> bool(np.all(steps > 0) or np.all(steps < 0))
    True
    >>> (ordering.weights_ > 0).tolist()
    [True, True, True, True, True, False, False]
    """

    allowed = {
        "method": OneOf(*_METHODS), "residual": OneOf(*RESIDUALS), "policy": OneOf(*POLICIES),
        "metric": OneOf("euclidean", "squared"), "alpha": number(1.0), "tol": NOT_NEGATIVE,
        "max_iter": whole(1) | None, "scale": FLAG | None, "sample": whole(2) | None,
        "effort": number(0.0, 1e6, "[)") | "auto" | None, "levels": whole(1, 12) | None,
        "n_jobs": INTEGER | None,
    }  # fmt: skip

    def __init__(
        self,
        method: str = "tsp",
        *,
        residual: str = GAUSSIAN,
        policy: str = "tolerance",
        alpha: float = 1.1,
        metric: str = "euclidean",
        max_iter: int | None = None,
        tol: float = 0.01,
        scale: bool | None = None,
        sample: int | None = 20_000,
        effort: Any = "auto",
        levels: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
        callbacks: Sequence[Callable[[OrderingEvent], Any]] | None = None,
    ):
        self.method = method
        self.residual = residual
        self.policy = policy
        self.alpha = alpha
        self.metric = metric
        self.max_iter = max_iter
        self.tol = tol
        self.scale = scale
        self.sample = sample
        self.effort = effort
        self.levels = levels
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    # ------------------------------------------------------------ fitting

    def fit(self, X: Any, y: Any = None) -> Self:
        """Order the rows of an array, a frame, a sparse matrix or a data set; ``y`` is not used.

        Beside these rows it takes one copy of them in single precision, which ``rows_`` keeps.
        """
        check_allowed(self)
        X = self._checked(X, reset=True)
        started, seed = time.perf_counter(), seed_from(self.random_state)
        columns = Columns.of(X, self.residual)
        is_sparse = hasattr(X, "indptr")
        scales = not is_sparse if self.scale is None else self.scale
        start = np.where(columns.spread > 0.0, 1.0, 0.0) if scales else columns.spread
        orders = (1 if is_sparse else _ORDERS) if self.max_iter is None else self.max_iter
        weights = self._learned_weights(X, columns, start, orders - 1, seed, started)
        self.order_, self.rows_ = self._ordered(columns.scaled(X, weights), seed, started)
        self.weights_, self.columns_ = weights, columns
        self.entropy_ = entropy(X, self.order_, columns, weights > 0.0, self.residual)
        self.n_iter_ = len(self.history_) + 1
        self._n_features_out = 1
        return self

    def _learned_weights(
        self, X: Any, columns: Columns, start: np.ndarray, orders: int, seed: int, started: float
    ) -> np.ndarray:  # fmt: skip
        """Those of the best of some rough paths through all or some of the rows."""
        if self.sample is not None and X.shape[0] > self.sample:
            X = X[np.sort(generator(seed, 26).choice(X.shape[0], self.sample, False))]

        def path(rows: Any, t: int) -> np.ndarray:
            return path_in_place(rows, self._search(None, _ROUGH, seed + t))[0]

        def tell(iterate: Iterate) -> None:
            if self.verbose:
                seconds = time.perf_counter() - started
                print(f"[thresher] entropy {iterate.entropy:.4f} nats  {seconds:.1f} s", flush=True)

        found = em_iterates(
            X, columns, path, start, residual=self.residual, policy=self.policy, alpha=self.alpha,
            max_iter=orders, tol=self.tol, on_iterate=tell,
        )  # fmt: skip
        self.history_ = [iterate.entropy for iterate in found]
        if not found:
            return start
        return min(found, key=lambda iterate: iterate.entropy).weights

    def _ordered(self, rows: Any, seed: int, started: float) -> tuple[np.ndarray, Any]:
        """The order by the method that was asked for, and the rows, which may be moved, in it."""
        stage = -1

        def tell(order: np.ndarray) -> bool:
            nonlocal stage
            stage += 1
            event = OrderingEvent(self, stage, order, time.perf_counter() - started)
            answers = [callback(event) for callback in self.callbacks or ()]  # all are told
            return any(answer is True for answer in answers)

        if rows.shape[1] == 0:
            return np.arange(rows.shape[0]), rows
        if self.method != "tsp":
            order = baseline(self.method, rows, seed)
            return order, rows[order]
        effort = default_effort(*rows.shape) if self.effort == "auto" else self.effort
        return path_in_place(rows, self._search(effort, self.levels, seed), tell)

    def _search(self, effort: float | None, levels: int | None, seed: int) -> PathSearch:
        metric = MANHATTAN if self.residual == LAPLACIAN else METRICS[self.metric]
        return PathSearch(metric, effort, levels, seed=seed, threads=threads(self.n_jobs))

    def _checked(self, X: Any, reset: bool) -> Any:
        if isinstance(X, RowBlocks):
            self.n_features_in_ = X.shape[1]
            return X
        if isinstance(X, DataSet):
            X = next(X.chunks(2**62)).X
        check_compressed(X)
        X = validate_data(self, X, reset=reset, **CHECKS)
        if not hasattr(X, "indptr"):
            return X
        if np.isnan(X.data).any():
            raise ValueError("X is sparse and contains NaN: absent entries are zeros, not missing")
        return canonical(X)

    # ------------------------------------------------------------ new rows

    def transform(self, X: Any) -> np.ndarray:
        """Where rows belong in the order: places, with fractions between those of the fitted rows.

        A row goes beside the fitted row that is nearest to it, on the side where the detour is
        shorter.  O(rows x fitted rows).
        """
        check_is_fitted(self)
        rows = self.columns_.scaled(self._checked(X, reset=False), self.weights_)
        return positions(self.rows_, rows)[:, None]

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """The place of every row in the order."""
        order = self.fit(X).order_
        places = np.empty((order.size, 1))
        places[order, 0] = np.arange(order.size)
        return places

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
