r"""The kernel of a forest: two rows are alike in so far as trees do not tell them apart.

With T trees, each of which sends a row x to one of its leaves,

.. math:: k(x, z) = \frac1T \sum_t \mathbb 1[\text{leaf}_t(x) = \text{leaf}_t(z)],

and the features are 1/sqrt(T) at the leaves of the row, zeros elsewhere.  A linear model on them is
a forest whose leaves vote with weights that were learned together, on all rows, and not each on the
rows it happens to hold.  Where classes are told apart by thresholds of single features, whose
units say nothing, this is the better kernel (covtype, shuttle, letter); where they meet on a smooth
surface, or the labels are noisy, a smooth kernel is.

The trees are extremely randomised: at every node one random threshold for each of some random
features, of which the best split is taken; features are stretched first so that thresholds fall
where there are rows (``levels.py``).  A tree sees ``sample`` rows at most, so that a forest
costs the same from there on; all rows take part in learning the weights of the leaves.

Measured on covtype (464,809 rows; 30 trees, the weights included): 2.6 % in 29 s on one core, 17 s
on two.

References: Geurts, Ernst and Wehenkel, Extremely randomized trees, Machine Learning (2006); Ren,
Cao, Wei and Sun, Global refinement of random forest, CVPR (2015).
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from thresher._allowed import FLAG, INTEGER, POSITIVE, whole
from thresher._clock import is_over, passed_on
from thresher._random import generator
from thresher._threads import threads
from thresher.dimensions import Float, Int
from thresher.kernels.matrices import canonical
from thresher.maps.leaves import (
    LeafFeatures,
    Trees,
    joined,
    one_tree,
    refuse_doubles,
    rounded_down,
)
from thresher.maps.levels import Levels
from thresher.registry import Contestant

__all__ = ["ForestFeatures"]

_USUAL_TREES = 50
_MOST_TREES = 400
_ALL_TRIED = 1000  # features of a race, in nodes that try them all
_MOST_FEATURES = 10_000  # in a race: beyond, most nodes would not meet one that matters
_ROUTING = 0.1  # what a row costs a tree that was not grown on it, to what it costs one that was
_OF_NUMBERS = 0.01  # alpha n of a regression
_DENSE_BYTES = 1e9  # up to which sparse rows are grown on as dense ones, which is faster


class ForestFeatures(LeafFeatures):
    """The leaves of randomised trees, grown with the targets, as features; a CSR matrix.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Trees; "auto": 50.  More are better and slower.
    min_leaf : int, default=1
        Rows that a leaf holds at least, of those the tree has seen.  With noisy labels or targets
        20 and more are better.
    max_features : int, float, "sqrt" or "auto", default="auto"
        Features that a node tries, or their share; "sqrt": the root of their number; "auto": half
        of them, but at most 3 sqrt(d).
    stretch : bool, default=True
        Stretch features by their quantiles before thresholds are drawn; False: they are drawn
        between the smallest and the largest value of a node, which suits features on a smooth
        scale, as those of images.
    bundle : bool, default=True
        Columns of zeros and ones of which every row has exactly one, as categories become, are one
        column to the trees: the categories in the order of their mean targets.
    sample : int, default=200000
        Rows that each tree is grown on, at most; each has its own.
    n_jobs : int or None, default=None
        Threads: trees grow side by side, and rows are sent down them in as many parts.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    trees_ : Trees
        The nodes of all trees, as arrays.
    bundles_ : Bundles or None
        Which columns are one to the trees.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.maps import ForestFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> Z = ForestFeatures(10, random_state=0).fit_transform(X, y)
    >>> Z.shape[0], Z.nnz // Z.shape[0]
    (1797, 10)
    """

    allowed = {
        "n_components": whole(1) | "auto", "min_leaf": whole(1),
        "max_features": POSITIVE | "sqrt" | "auto", "stretch": FLAG, "bundle": FLAG,
        "sample": whole(1), "n_jobs": INTEGER | None,
    }  # fmt: skip
    additive = True
    few, least = 100, 8
    contestants = (
        Contestant(
            "forest kernel", {"map": "forest", "map__stretch": False},
            {
                "classification": {"map__max_features": "sqrt"},
                "regression": {"map__max_features": 1.0},
            },
            most_features=_MOST_FEATURES, scales=False,
        ),
        Contestant(
            "stretched forest", {"map": "forest", "map__max_features": 1.0},
            most_features=_ALL_TRIED, scales=False,
        ),
    )  # fmt: skip

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        min_leaf: int = 1,
        max_features: Any = "auto",
        stretch: bool = True,
        bundle: bool = True,
        sample: int = 200_000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.stretch = stretch
        self.bundle = bundle
        self.sample = sample
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------ growing

    def learn(self, X: Any, y: np.ndarray | None = None) -> ForestFeatures:
        """Targets of an integer type are classes, others are to be predicted."""
        y = self._grown_with(y)
        self._numbers = y.dtype.kind == "f"
        from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor  # slow to import

        self.refuse_blurred(X)
        X = self._bundled(X, y)
        options, seed = self._checked_options(X.shape[1]), self._seed()
        X, levels = _for_growing(X, seed, self.stretch)
        cls = ExtraTreeRegressor if y.dtype.kind == "f" else ExtraTreeClassifier

        def grown(number: int) -> Trees | None:
            if number >= self.least and is_over():
                return None
            rng = generator(seed, 24, number)
            tree = cls(**options, random_state=int(rng.integers(2**31)))
            part, targets = X, y
            if X.shape[0] > self.sample:
                rows = np.sort(rng.choice(X.shape[0], self.sample, replace=False))
                part, targets = np.asfortranarray(X[rows]) if _is_dense(X) else X[rows], y[rows]
            return _table(tree.fit(part, targets, check_input=False).tree_)

        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            trees = list(pool.map(passed_on(grown), range(_usual_trees(self.n_components))))
        self.trees_ = _in_units(joined([tree for tree in trees if tree is not None]), levels)
        return self

    def _checked_options(self, d: int) -> dict[str, Any]:
        self.check_options()
        tried = self.max_features
        if isinstance(tried, str):
            tried = {"auto": _usual_share(d), "sqrt": round(math.sqrt(d))}.get(tried)
        if isinstance(tried, float) and tried <= 1.0:
            tried = max(1, math.ceil(tried * d))
        return {"min_samples_leaf": int(self.min_leaf), "max_features": int(min(tried, d))}

    def check_options(self) -> None:
        super().check_options()
        tried = self.max_features
        if not (isinstance(tried, str) or tried <= 1.0 or whole(1).admits(tried)):
            raise ValueError(
                "max_features must be a number of features, a share up to 1.0, 'sqrt' or 'auto', "
                f"got {tried!r}"
            )

    @property
    def usual_strength(self) -> float:  # type: ignore[override]
        """Numbers are shrunk by the penalty, classes only get smaller scores.

        Of trees whose leaves hold a row each, least squares with alpha n = a takes every mean of
        leaves 1 / (1 + a) times.
        """
        return _OF_NUMBERS if getattr(self, "_numbers", False) else super().usual_strength

    # ------------------------------------------------------------ searches and races

    def space(self, estimator: Any, X: Any) -> dict[str, Any]:
        """How large leaves are, and how random the splits."""
        share = _usual_share(X.shape[1] if hasattr(X, "shape") else 10)
        return {
            "map__min_leaf": Int(1, 100, log=True),
            "map__max_features": Float(share / 3.0, min(3.0 * share, 1.0), log=True),
        }

    def components(self, wanted: Any, rows: int) -> int:
        return _usual_trees(wanted)

    def room(self, rows: int) -> Int:
        return Int(self.few, _MOST_TREES, log=True)

    def work(self, size: int, rows: int) -> float:
        """Trees are grown on some of the rows, if there are many."""
        return size * (min(rows, self.sample) + _ROUTING * rows)

    def starts(self, rows: int, numbers: bool = False) -> list[dict[str, Any]]:
        """Trees know no units, but noise."""
        return [{"map__min_leaf": 20, "alpha": (1.0 if numbers else 10.0) / rows}]

    def finer(self, params: dict[str, Any], factor: float) -> dict[str, Any] | None:
        leaf = params.get("map__min_leaf", 1)
        return {"map__min_leaf": max(1, int(leaf / factor))} if leaf > 1 else {}


def _usual_trees(n_components: Any) -> int:
    """How many trees: a number, or 50 for "auto"."""
    return _USUAL_TREES if n_components == "auto" else int(n_components)


def _usual_share(d: int) -> float:
    """Of d features, that a node tries where nobody says."""
    return min(0.5, 3.0 / math.sqrt(d))


def _is_dense(X: Any) -> bool:
    return not hasattr(X, "indptr")


def _for_growing(X: Any, seed: int, stretch: bool) -> tuple[Any, Levels | None]:
    """By columns, since nodes look at few features of many rows; stretched, and how to go back.

    Sparse rows that would be too large as dense ones keep their units.
    """
    refuse_doubles(X if _is_dense(X) else X.data)
    if not _is_dense(X) and 4.0 * X.shape[0] * X.shape[1] > _DENSE_BYTES:
        return canonical(X).tocsc().astype(np.float32), None
    X = X if _is_dense(X) else X.toarray()
    if not stretch:
        return np.asfortranarray(X, dtype=np.float32), None
    levels = Levels(X, seed)
    return levels.stretched(X), levels


def _in_units(trees: Trees, levels: Levels | None) -> Trees:
    """With thresholds as singles, in the units of the rows."""
    threshold, inner = trees.threshold.copy(), ~trees.is_leaf
    threshold[~inner] = 0.0
    if levels is not None:
        threshold[inner] = levels.taken_back(threshold[inner], trees.feature[inner])
    return trees._replace(threshold=rounded_down(threshold))


def _table(tree: Any) -> Trees:
    """One of scikit-learn's trees, without all that it knows of its nodes besides."""
    threshold = tree.threshold.copy()  # in double precision until they are in units
    leaf = tree.feature < 0
    return one_tree(leaf, tree.feature, threshold, tree.children_left, tree.children_right)
