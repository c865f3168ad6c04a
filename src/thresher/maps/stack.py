"""Several models as one: their scores are features, and weights say how much to believe each.

The weights are learned on scores of rows that a model has not seen (by folds; ``pooling.py``), the
models themselves then from all rows.  A linear function of their scores is a model like any other:
it is saved, exported and calibrated as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from thresher._allowed import INTEGER, whole
from thresher._clock import passed_on
from thresher._random import generator
from thresher._threads import threads
from thresher.functions import LinearFunction
from thresher.functions.base import check_numbers, require
from thresher.maps.base import Circumstances, FeatureMap
from thresher.maps.pooling import Pool, pool_classes, pool_numbers
from thresher.registry import LEARNERS
from thresher.solvers import Solver
from thresher.solvers.given import Given

__all__ = ["StackFeatures"]

_NEVER = 50.0  # what the score of a class without rows is below all others


class StackFeatures(FeatureMap):
    """What several models say of a row, and how much each of them counts.

    Parameters
    ----------
    members : list of estimators of Thresher, or None, default=None
        Of the task of the targets; None: a linear model, a forest and boosted trees.
    weights : array of shape (members,) or None, default=None
        Of the members' scores; None: learned from rows that they have not seen.
    offsets : array of shape (outputs,) or None, default=None
        Added to the weighted scores, where ``weights`` are given; None: zeros.
    folds : int, default=5
        In which scores of unseen rows are made, where weights are to be learned: as many more fits
        of every member.
    n_jobs : int or None, default=None
        Members that are fitted at a time.
    random_state : int, RandomState or None, default=None
        Of the folds.

    Attributes
    ----------
    functions_ : tuple of functions
        What the members have learned.
    weights_, offsets_ : arrays
        How their scores are added up.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher import KernelClassifier, LinearClassifier
    >>> from thresher.maps import StackFeatures
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> members = [LinearClassifier(scale=True), KernelClassifier(map="forest", random_state=0)]
    >>> model = KernelClassifier(map=StackFeatures(members), random_state=0).fit(X, y)
    >>> print(model.map_.describe(), bool(model.score(X, y) > 0.98))
    2 models True
    """

    allowed = {"folds": whole(0), "n_jobs": INTEGER | None}
    uses_kernel = False
    unit = "scores of models"
    learns_weights = False
    state_names = ("functions_", "weights_", "offsets_")

    def __init__(
        self,
        members: Any = None,
        *,
        weights: Any = None,
        offsets: Any = None,
        folds: int = 5,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.members = members
        self.weights = weights
        self.offsets = offsets
        self.folds = folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------ learning

    def learn(self, X: Any, y: np.ndarray | None = None) -> StackFeatures:
        if y is None:
            raise ValueError(
                "StackFeatures learns models of the targets: it requires y to be passed, but the "
                "target y is None"
            )
        return self.learn_weighted(X, y, None)

    def learn_weighted(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> StackFeatures:
        """Targets of an integer type are classes, others are to be predicted."""
        self.check_options()
        numbers = y.dtype.kind == "f"
        codes, classes = (y, np.empty(0)) if numbers else _codes(y)
        members = self._checked_members("regression" if numbers else "classification")
        pool = self._given_pool(len(members), 1 if classes.size <= 2 else classes.size)
        if pool is None:
            pool = self._learned_pool(members, X, codes, classes, weight)
        self.functions_ = tuple(self._learned(members, X, codes, classes, weight))
        self.weights_, self.offsets_ = pool
        return self

    def _learned(
        self, members: list[Any], X: Any, codes: np.ndarray, classes: np.ndarray,
        weight: np.ndarray | None,
    ) -> list[Any]:  # fmt: skip
        """The members' functions, learned side by side."""
        jobs = min(threads(self.n_jobs), len(members))

        def learned(member: Any) -> Any:
            return _learned(member, X, codes, classes, weight)

        # BLAS threads of fits side by side would wait for each other.
        with threadpool_limits(1 if jobs > 1 else None, "blas"), ThreadPoolExecutor(jobs) as pool:
            return list(pool.map(passed_on(learned), members))

    def taking(self, functions: Any, pool: Pool) -> StackFeatures:
        """The same of models that have been learned already."""
        self.functions_, self.weights_, self.offsets_ = tuple(functions), *pool
        return self

    def _checked_members(self, task: str) -> list[Any]:
        if self.members is None:
            return _usual_members(task, self._seed())
        members = list(self.members)
        require(members, "a stack needs at least one member")
        known = set(LEARNERS.kinds().values())
        for one in members:
            name = type(one).__name__
            if type(one) not in known or one.task != task:
                raise ValueError(f"members of a stack must be learners of {task}, got {name}")
        return members

    def _given_pool(self, size: int, outputs: int) -> Pool | None:
        if self.weights is None:
            return None
        weights = np.asarray(self.weights, dtype=np.float64)
        offsets = np.zeros(outputs) if self.offsets is None else np.asarray(self.offsets, float)
        for name, given, shape in (("weights", weights, size), ("offsets", offsets, outputs)):
            if given.shape != (shape,) or not np.all(np.isfinite(given)):
                raise ValueError(f"{name} must be {shape} finite numbers, got {given}")
        return Pool(weights, offsets)

    def _learned_pool(
        self, members: list[Any], X: Any, codes: np.ndarray, classes: np.ndarray,
        weight: np.ndarray | None,
    ) -> Pool:  # fmt: skip
        """From scores of rows that the models of other folds have not seen."""
        outputs = 1 if classes.size <= 2 else classes.size
        scores = [np.empty((codes.size, outputs)) for _ in members]
        for train, test in self._folds(codes, classes):
            mine = None if weight is None else weight[train]
            found = self._learned(members, X[train], codes[train], classes, mine)
            for function, out in zip(found, scores, strict=True):
                out[test] = function.scores(X[test])
        return (pool_classes if classes.size else pool_numbers)(scores, codes, weight)

    def _folds(
        self, codes: np.ndarray, classes: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows of a class are spread over the folds."""
        if self.folds < 2:
            raise ValueError(f"folds must be a whole number of at least 2, got {self.folds!r}")
        if codes.size < 2 * self.folds:
            raise ValueError(f"n_samples={codes.size} are too few for {self.folds} folds")
        order = generator(self._seed(), 26).permutation(codes.size)
        if classes.size:
            order = order[np.argsort(codes[order], kind="stable")]
        fold = np.empty(codes.size, dtype=np.int64)
        fold[order] = np.arange(codes.size) % self.folds
        for k in range(int(self.folds)):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    # ------------------------------------------------------------ use

    def features(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        return self._said(X).astype(X.dtype)

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        return self._said(X) @ table.T

    def _said(self, X: Any) -> np.ndarray:
        return np.hstack([function.scores(X) for function in self.functions_])

    def prefers(self, found: Circumstances) -> Solver:
        pooled = self.pooled(found.problem.outputs)
        return Given(pooled.coef, pooled.intercept)

    def pooled(self, outputs: int) -> LinearFunction:
        """The pool as a function of the features; a class that had no rows is never right."""
        own = int(self.offsets_.size)
        coef, intercept = np.zeros((outputs, self.width)), np.zeros(outputs)
        for m, weight in enumerate(self.weights_):
            coef[np.arange(own), m * own + np.arange(own)] = weight
        intercept[:own] = self.offsets_
        intercept[own:] = self.offsets_.min() - _NEVER
        return LinearFunction(coef, intercept)

    @property
    def width(self) -> int:
        return int(self.weights_.size * self.offsets_.size)

    @property
    def size(self) -> int:
        return sum(int(function.size) for function in self.functions_)

    def check(self, features: int, width: int) -> None:
        require(isinstance(self.functions_, tuple) and self.functions_, "damaged stack")
        check_numbers("weights_", self.weights_, (len(self.functions_),))
        check_numbers("offsets_", self.offsets_, (np.size(self.offsets_),))
        for function in self.functions_:
            known = isinstance(function, tuple) and hasattr(function, "to_onnx")
            require(known, "a member of a stack is no function")
            function.check()
            fits = function.features == features and function.outputs == self.offsets_.size
            require(fits, "the members of a stack differ in features or outputs")
        require(width == self.width, f"{width} weights do not fit {self.width} scores")

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        said = [function.to_onnx(graph, rows) for function in self.functions_]
        joined = said[0] if len(said) == 1 else graph.add("Concat", *said, axis=1)
        return graph.add("MatMul", joined, graph.constant(table.T.astype(np.float64)))

    def describe(self) -> str:
        count = len(self.functions_)
        return f"{count} model{'s' if count > 1 else ''}"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _codes(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Class numbers, also of two classes, which come as -1 and 1."""
    codes = (y > 0).astype(np.int64) if y.min() < 0 else y.astype(np.int64)
    return codes, np.arange(max(int(codes.max()) + 1, 2))


def _usual_members(task: str, seed: int) -> list[Any]:
    linear, kernel = (LEARNERS.estimator(name, task) for name in ("linear", "kernel"))
    trees = [kernel(map=name, random_state=seed) for name in ("forest", "boosted")]
    return [linear(scale=True, random_state=seed), *trees]


def _learned(
    member: Any, X: Any, codes: np.ndarray, classes: np.ndarray, weight: np.ndarray | None
) -> Any:
    """The function of a copy of the member, fitted."""
    model = clone(member)
    model.check_options()
    model.n_features_in_ = X.shape[1]
    return model.fit_coded(X, codes, classes, weight).function_
