r"""Boosted trees: each tree is grown on what the trees before it have left.

.. math:: f_c(x) = b_c + \sum_t v_{ct}(\text{leaf}_t(x))

scikit-learn's histogram gradient boosting grows the trees; their leaves are features as those of a
forest (``leaves.py``).  The weights v are boosting's own, which minimise the log loss (classes) or
the squared error; with ``relearn=True`` all of them are learned again, together, with the
estimator's loss and penalty.

Values are compared in single precision, and trees are grown on the rows in single precision, so
that a row is never on another side of a threshold than it was for boosting.  The columns of zeros
and ones that a schema makes of a category are one column to the trees (``bundles.py``): as good,
and two to six times as fast on seven sets.

Leaves are held back by a ridge.  Without one, scikit-learn's default, the leaves of a class with
few rows take ever longer steps, and spoil the others: 63 % errors on 6,000 rows of kddcup99, 31 on
covtype, where 0.1 leaves 0.3 and 20.

References: Friedman, Greedy function approximation: a gradient boosting machine, Annals of
Statistics (2001); Ke et al., LightGBM, NeurIPS (2017), for the histograms.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from thresher._allowed import FLAG, INTEGER, NOT_NEGATIVE, POSITIVE, whole
from thresher._clock import has_end, is_over
from thresher._threads import threads
from thresher.dimensions import Float, Int
from thresher.maps.base import Circumstances
from thresher.maps.leaves import (
    LeafFeatures,
    Trees,
    joined,
    one_tree,
    refuse_doubles,
    rounded_down,
)
from thresher.registry import Contestant
from thresher.solvers import Solver
from thresher.solvers.given import Given

__all__ = ["BoostedFeatures"]

_USUAL_ROUNDS, _MOST_ROUNDS = 100, 500
_SOME_ROWS = 2000  # that call for more rounds, and not for shorter steps
# Rounds and seconds between looks at the clock: each part sorts the values into bins again.
_PART, _SECONDS = 10, 0.5
_MOST_FEATURES = 1000  # in a race: a fit that takes as long as there are features cannot be stopped
_MOST_BYTES = 4e9  # of sparse rows as dense ones
_MANY_ROWS = 10_000  # from which several threads are faster, also where they must share a core
_ROWS_OF_BIN, _FEW_BINS, _MOST_BINS = 20, 63, 255
_NEVER = 50.0  # what the score of a class without rows is below all others


class BoostedFeatures(LeafFeatures):
    """The leaves of boosted trees as features, with boosting's own weights; a CSR matrix.

    Sample weights are those of boosting too.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Rounds, of one tree for each class (one in all for two classes and for numbers); "auto":
        100, fewer from 10,000 rows on if a tenth of them, held out, no longer gains.
    learning_rate : float, default=0.1
        Share of each tree's step that is taken; with less, more rounds are needed.
    max_leaves : int, default=31
        Of a tree.
    min_leaf : int, default=20
        Rows that a leaf holds at least.
    ridge : float, default=0.1
        Penalty of the square of a leaf's value.
    bundle : bool, default=True
        Columns of zeros and ones of which every row has exactly one, as categories become, are one
        column to the trees: the categories in the order of their mean targets.
    relearn : bool, default=False
        Learn the weights of all leaves again, by the estimator's loss, penalty and solver.
    n_jobs : int or None, default=None
        Threads.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    trees_ : Trees
        The nodes of all trees, as arrays.
    bundles_ : Bundles or None
        Which columns are one to the trees.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from thresher import KernelClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelClassifier(map="boosted", n_components=20, random_state=0).fit(X, y)
    >>> print(model.map_.describe(), bool(model.score(X, y) > 0.98))
    20 trees True
    """

    allowed = {
        "n_components": whole(1) | "auto", "learning_rate": POSITIVE, "max_leaves": whole(2),
        "min_leaf": whole(1), "ridge": NOT_NEGATIVE, "bundle": FLAG, "relearn": FLAG,
        "n_jobs": INTEGER | None,
    }  # fmt: skip
    contestants = (
        Contestant("boosted trees", {"map": "boosted"}, most_features=_MOST_FEATURES, scales=False),
    )

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        learning_rate: float = 0.1,
        max_leaves: int = 31,
        min_leaf: int = 20,
        ridge: float = 0.1,
        bundle: bool = True,
        relearn: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.min_leaf = min_leaf
        self.ridge = ridge
        self.bundle = bundle
        self.relearn = relearn
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------ growing

    def learn(self, X: Any, y: np.ndarray | None = None) -> BoostedFeatures:
        return self.learn_weighted(X, self._grown_with(y), None)

    def learn_weighted(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> BoostedFeatures:
        """Targets of an integer type are classes, others are to be predicted."""
        from sklearn.ensemble import (  # slow to import
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
        )

        self.refuse_blurred(X)
        X = self._bundled(X, y)
        numbers = y.dtype.kind == "f"
        grower = (HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier)(
            **self._checked_options(), max_bins=_bins(X.shape[0]), random_state=self._seed()
        )
        with threadpool_limits(self._threads(X), "openmp"):
            _grow(grower, _single(X), y, weight)
        # What scikit-learn pickles: it has no other way to its trees.
        grown = grower.__getstate__()
        rounds, self._start = grown["_predictors"], np.ravel(grown["_baseline_prediction"])
        trees = [_table(tree.nodes) for one in rounds for tree in one]
        self.trees_ = joined([table for table, _ in trees])
        self._values = [values for _, values in trees]
        self._labels = None if numbers else grower.classes_
        return self

    def _threads(self, X: Any) -> int:
        """One for few rows: threads would wait for each other longer than they work.

        Two on one busy core took a hundred times as long as one (1,000 rows of 784 pixels).
        """
        return threads(self.n_jobs) if X.shape[0] >= _MANY_ROWS else 1

    def _checked_options(self) -> dict[str, Any]:
        self.check_options()
        auto = self.n_components == "auto"
        return {
            "max_iter": _USUAL_ROUNDS if auto else int(self.n_components),
            "early_stopping": "auto" if auto else False,
            "learning_rate": float(self.learning_rate),
            "max_leaf_nodes": int(self.max_leaves),
            "min_samples_leaf": int(self.min_leaf),
            "l2_regularization": float(self.ridge),
            "categorical_features": None,
        }

    # ------------------------------------------------------------ the weights

    @property
    def learns_weights(self) -> bool:
        return self.relearn

    def prefers(self, found: Circumstances) -> Solver:
        return super().prefers(found) if self.relearn else Given(*self._own(found.problem.outputs))

    def _own(self, outputs: int) -> tuple[np.ndarray, np.ndarray]:
        """Boosting's weights, in units of the features' values, and its start."""
        coef = np.zeros((outputs, self.width), order="F")
        intercept = np.zeros(outputs)
        places = self._places(outputs)
        absent = sorted(set(range(outputs)) - {c for one in places for c, _ in one})
        ends = np.cumsum([values.size for values in self._values])
        for t, (values, end) in enumerate(zip(self._values, ends, strict=True)):
            for c, sign in places[t % len(places)]:
                coef[c, end - values.size : end] = sign * values * math.sqrt(len(self._values))
        for one, start in zip(places, self._start, strict=True):
            for c, sign in one:
                intercept[c] = sign * start
        intercept[absent] = intercept.min() - _NEVER
        return coef, intercept

    def _places(self, outputs: int) -> list[list[tuple[int, float]]]:
        """For each tree of a round, the outputs that it adds to, and with which sign."""
        if outputs == 1:
            return [[(0, 1.0)]]
        assert self._labels is not None
        codes = [int(code) for code in self._labels]
        if len(codes) == 2:  # of several classes two have rows: one tree tells them apart
            return [[(codes[1], 1.0), (codes[0], -1.0)]]
        return [[(code, 1.0)] for code in codes]

    # ------------------------------------------------------------ searches and races

    def space(self, estimator: Any, X: Any) -> dict[str, Any]:
        return {
            "map__n_components": Int(50, _MOST_ROUNDS, log=True),
            "map__learning_rate": Float(0.02, 0.3, log=True),
            "map__max_leaves": Int(7, 127, log=True),
            "map__min_leaf": Int(5, 100, log=True),
            "map__ridge": Float(0.01, 10.0, log=True),
        }

    def components(self, wanted: Any, rows: int) -> int:
        return _USUAL_ROUNDS if wanted == "auto" else int(wanted)

    def starts(self, rows: int, numbers: bool = False) -> list[dict[str, Any]]:
        """More rounds; shorter steps where there are few rows."""
        shorter = {"map__learning_rate": 0.05} if rows < _SOME_ROWS else {}
        return [{"map__n_components": 200} | shorter]

    def finer(self, params: dict[str, Any], factor: float) -> dict[str, Any] | None:
        """Twice the rounds."""
        rounds = self.components(params.get("map__n_components", self.n_components), 0)
        return {"map__n_components": min(2 * rounds, _MOST_ROUNDS)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def _grow(grower: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
    """All rounds; in parts, which give the same trees, where there may be no time for all."""
    rounds, done, part = grower.max_iter, 0, _PART if has_end() else grower.max_iter
    grower.set_params(warm_start=part < rounds)
    started = time.monotonic()
    while done < rounds:
        done = min(done + part, rounds)
        grower.set_params(max_iter=done).fit(X, y, sample_weight=weight)
        if is_over() or grower.n_iter_ < done:
            return
        part = max(_PART, int(_SECONDS * done / (time.monotonic() - started)))


def _bins(rows: int) -> int:
    """Thresholds of a feature that are tried, and one: few rows cannot tell many apart.

    On 1,000 rows of 14 sets 63 make .96 of the errors of 255, in half of the time or a little less
    than all of it.
    """
    return min(max(rows // _ROWS_OF_BIN, _FEW_BINS), _MOST_BINS)


def _single(X: Any) -> np.ndarray:
    """Dense rows in single precision."""
    sparse = hasattr(X, "indptr")
    if sparse and 4.0 * X.shape[0] * X.shape[1] > _MOST_BYTES:
        raise ValueError(
            f"BoostedFeatures needs dense rows, and {X.shape[0]} x {X.shape[1]} would take more "
            f"than {_MOST_BYTES / 1e9:.0f} GB: use map='terms' or a linear model"
        )
    rows = X.toarray() if sparse else X
    refuse_doubles(rows)
    return rows.astype(np.float32)


def _table(nodes: np.ndarray) -> tuple[Trees, np.ndarray]:
    """One of scikit-learn's trees as ours, and the values of its leaves."""
    leaf = nodes["is_leaf"].astype(bool)
    largest = float(np.finfo(np.float32).max)
    threshold = np.where(leaf, 0.0, np.clip(nodes["num_threshold"], -largest, largest))
    threshold = rounded_down(threshold)
    table = one_tree(leaf, nodes["feature_idx"], threshold, nodes["left"], nodes["right"])
    return table, nodes["value"][leaf].copy()
