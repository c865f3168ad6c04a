"""What every clustering shares: rows without targets, and labels that are numbers of clusters."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from thresher._allowed import whole
from thresher._interrupts import clean_interrupts
from thresher.dimensions import Int
from thresher.estimators import input
from thresher.estimators.base import Learner, Setup, StatusWarning
from thresher.estimators.fronts import Front
from thresher.functions.base import require
from thresher.solvers import Chunk, Result, Status
from thresher.solvers.stream import Stream, Streams

__all__ = ["Clusterer"]


class Clusterer(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, Learner):
    """Base of the clusterings: everything around the coded core.

    A solver of theirs also has ``labelled(problem, state, chunk)``, the cluster of every visit and
    its squared distance.
    """

    task = "clustering"
    alpha_per_row = False  # means do not grow with the rows
    optional_record = (*Learner.optional_record, "inertia_")
    allowed = {"n_clusters": whole(1)}
    order = "shuffle"
    n_clusters: int
    alpha: float

    # ------------------------------------------------------------ learning

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
        return self.fit_rows(X, input.check_weight(sample_weight, X))

    def fit_rows(self, X: Any, weight: np.ndarray | None = None) -> Self:
        """The same for rows that have been checked."""
        input.refuse_far_rows(X)
        rows = input.to_rows(X)
        self.fit_targets(rows, np.zeros(rows.shape[0]), weight, self.n_clusters)
        if weight is not None:
            out = np.flatnonzero(weight == 0.0)
            self.labels_[out] = self._nearest(X[out]) if out.size else 0
            self.inertia_ *= float(weight.sum()) / np.count_nonzero(weight)
        return self

    def _learned(self, setup: Setup, result: Result, chunk: Chunk) -> None:
        solver: Any = result.stream.solver
        labels, squares = solver.labelled(result.stream.problem, result.state, chunk)
        self.labels_ = np.empty(chunk.size, np.int32)
        self.labels_[chunk.order] = labels
        self.inertia_ = float(chunk.weight[chunk.order] @ squares)
        filled = np.unique(labels).size
        if filled < self.n_clusters and (not self.alpha or result.function.size):
            warnings.warn(
                f"{type(self).__name__}: rows fill only {filled} of {self.n_clusters} clusters: "
                "ask for fewer (rows are equal, or so close together that squared distances "
                "vanish: multiply the features)",
                StatusWarning, stacklevel=6,
            )  # fmt: skip

    @available_if(lambda self: self._can_stream())
    @clean_interrupts()
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go once over these rows; the first call's set units and starts."""
        self.check_options()
        X = input.checked_X(self, X, reset=not self.has_feed)
        input.refuse_far_rows(X)
        weight = input.check_weight(sample_weight, X)
        rows = input.to_rows(self._in_precision(X))
        self.feed_targets(rows, np.zeros(rows.shape[0]), weight, self.n_clusters)
        self.labels_ = self._nearest(X)
        self.__dict__.pop("inertia_", None)  # of a fit before
        return self

    def _in_precision(self, X: Any) -> Any:
        """A stream keeps the precision of its first rows."""
        return X.astype(self._feed.stream.problem.dtype, copy=False) if self.has_feed else X

    def _forget(self) -> None:
        super()._forget()
        for name in ("labels_", "inertia_"):
            self.__dict__.pop(name, None)

    def judged(
        self, status: Status, stream: Stream | Streams, judges: Chunk, function: Any, front: Front,
        learned: Any = None, begun: bool = False,
    ) -> Status:  # fmt: skip
        """A penalty that leaves nothing of the centres says so; there is no target to judge by."""
        ends = status in (Status.CONVERGED, Status.COMPLETED)
        return Status.ALL_ZERO if ends and self.alpha > 0.0 and not function.size else status

    # ------------------------------------------------------------ as readers code it

    def fit_coded(self, X: Any, y: Any, classes: np.ndarray, weight: Any = None) -> Self:
        """Learn from checked rows; whatever labels they bring are not looked at."""
        return self.fit_rows(X, weight)

    def coded(self, y: np.ndarray) -> tuple[np.ndarray, int]:
        """Zeros for the solver, and the number of clusters."""
        return np.zeros(np.shape(y)[0]), self.n_clusters

    def decoded(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
        """Clusters of scores (rows, clusters), the scores, and no probabilities."""
        return scores.argmax(axis=1), scores, None

    def check_targets(self) -> None:
        """ValueError for a function, read from a file, that is none of a clustering."""
        found, wanted = self.function_.outputs, self.n_clusters
        require(found == wanted, f"{wanted} clusters have as many outputs, got {found}")

    # ------------------------------------------------------------ use

    def predict(self, X: Any) -> np.ndarray:
        """The number of the nearest cluster, for every row."""
        check_is_fitted(self)
        return self._nearest(input.checked_X(self, X))

    def _nearest(self, X: Any) -> np.ndarray:
        return self.function_.scores(X).argmax(axis=1).astype(np.int32)

    def transform(self, X: Any) -> np.ndarray:
        """(rows, clusters): the distance to every cluster."""
        check_is_fitted(self)
        X = input.checked_X(self, X)
        return self.function_.distances(X).astype(X.dtype, copy=False)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances: the higher the better."""
        check_is_fitted(self)
        X = input.checked_X(self, X)
        weight = input.check_weight(sample_weight, X)
        squares = self.function_.squares(X).min(axis=1)
        return -float(squares.sum() if weight is None else weight @ squares)

    def comparable(self, X: Any) -> Any:
        """Rows as distances between them are to be measured."""
        return X

    def dimensions(self, X: Any = None, y: Any = None) -> dict[str, Any]:
        """The number of clusters; by default as many as rows may fill, 20 at most."""
        rows = 40 if X is None else X.shape[0]
        return {"n_clusters": Int(2, max(3, min(20, rows // 2)))}

    @property
    def _n_features_out(self) -> int:
        return int(self.function_.outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
