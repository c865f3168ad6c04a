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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from thresher._random import generator
from thresher._rows import as_rows
from thresher._threads import threads
from thresher.dimensions import Float, Int
from thresher.functions.base import require
from thresher.kernels.gram import blocks
from thresher.kernels.matrices import canonical
from thresher.maps.base import Circumstances, FeatureMap
from thresher.maps.levels import Levels
from thresher.registry import Contestant
from thresher.solvers import DualDescent, Solver
from thresher.solvers.base import takes

__all__ = ["ForestFeatures", "Trees"]

_USUAL_TREES = 50
_LEAF = np.uint32(2**32 - 1)
_KINDS = (np.uint32, np.uint32, np.float32, np.uint32)
_MOST_TREES = 200
_MOST_FEATURES = 10_000  # in a race: beyond, most nodes would not meet one that matters
_ROUTING = 0.1  # what a row costs a tree that was not grown on it, to what it costs one that was
_EXACT = 2**24  # whole numbers up to which singles hold each
_TOGETHER = 1 << 17  # numbers of the rows that go through a tree together
_DENSE_BYTES = 1e9  # up to which sparse rows are grown on as dense ones, which is faster


class Trees(NamedTuple):
    """All trees as one table of nodes; the left child of a node is the next one."""

    roots: np.ndarray  # the first node of each tree
    feature: np.ndarray  # that a node looks at; of a leaf ``_LEAF``
    threshold: np.ndarray  # float32: rows up to it go left
    right: np.ndarray  # the right child; of a leaf its number among the leaves of all trees

    @property
    def leaves(self) -> int:
        return int(self.right[-1]) + 1  # the last node is the last leaf

    @property
    def is_leaf(self) -> np.ndarray:
        return self.feature == _LEAF

    def check(self, d: int) -> None:
        """ValueError unless these are trees for rows of ``d`` features.

        For trees that a file describes: compiled loops follow the children without looking.  Since
        children come after their parent and within its tree, every walk ends, and at a leaf.
        """
        self._check_arrays()
        leaf, inner = np.flatnonzero(self.is_leaf), np.flatnonzero(~self.is_leaf)
        ends = np.append(self.roots[1:].astype(np.int64), self.feature.size)
        if not np.all(self.is_leaf[ends - 1]):
            raise ValueError("trees: the last node of a tree must be a leaf")
        if np.any(self.feature[inner] >= d):
            raise ValueError(f"trees: a node looks at none of the {d} features")
        if not np.array_equal(self.right[leaf], np.arange(leaf.size)):
            raise ValueError("trees: the leaves must be numbered in order")
        right, tree = self.right[inner], np.searchsorted(ends, inner, side="right")
        if np.any(right <= inner + 1) or np.any(right >= ends[tree]):
            raise ValueError("trees: children must come after their parent, in the same tree")
        if not np.array_equal(np.sort(right), np.setdiff1d(leaf[:-1] + 1, self.roots)):
            raise ValueError("trees: after a leaf there must be the right child of one node")

    def first_leaves(self) -> np.ndarray:
        """The number of each tree's first leaf, among those of all trees."""
        return (np.cumsum(self.is_leaf) - self.is_leaf)[self.roots]

    def onnx_attributes(self) -> dict[str, Any]:
        """Of ONNX's operator: nodes and leaves are numbered from 0 in each tree, and a leaf gives
        its number to the tree's output."""
        roots, leaf = self.roots.astype(np.int64), self.is_leaf
        tree = np.repeat(np.arange(roots.size), np.diff(roots, append=leaf.size))
        own = np.arange(leaf.size) - roots[tree]
        child = np.where(leaf, 0, self.right.astype(np.int64) - roots[tree])
        numbers = self.right.astype(np.int64)[leaf] - self.first_leaves()[tree[leaf]]
        if numbers.max() >= _EXACT:
            raise ValueError(f"a tree has more than {_EXACT} leaves, which ONNX cannot number")
        return {
            "nodes_treeids": tree.tolist(),
            "nodes_nodeids": own.tolist(),
            "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
            "nodes_featureids": np.where(leaf, 0, self.feature.astype(np.int64)).tolist(),
            "nodes_values": np.where(leaf, 0.0, self.threshold).tolist(),
            "nodes_truenodeids": np.where(leaf, 0, own + 1).tolist(),
            "nodes_falsenodeids": child.tolist(),
            "n_targets": roots.size,
            "target_treeids": tree[leaf].tolist(),
            "target_nodeids": own[leaf].tolist(),
            "target_ids": tree[leaf].tolist(),
            "target_weights": numbers.astype(float).tolist(),
        }

    def _check_arrays(self) -> None:
        for name, kind in zip(self._fields, _KINDS, strict=True):
            values = getattr(self, name)
            if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype != kind:
                raise ValueError(f"trees: {name} must be an array of {np.dtype(kind)}")
        size = self.feature.size
        if not size or not size == self.threshold.size == self.right.size:
            raise ValueError("trees: features, thresholds and children are not of equal number")
        roots = self.roots.astype(np.int64)
        if not roots.size or roots[0] or np.any(np.diff(roots) < 1) or roots[-1] >= size:
            raise ValueError("trees: the roots must rise from 0")
        if not np.all(np.isfinite(self.threshold)):
            raise ValueError("trees: thresholds must be finite")


class ForestFeatures(FeatureMap):
    """The leaves of randomised trees, grown with the targets, as features; a CSR matrix.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Trees; "auto": 50.  More are better and slower.
    min_leaf : int, default=1
        Rows that a leaf holds at least, of those the tree has seen.  With noisy labels or targets
        20 and more are better.
    max_features : int, float or "auto", default="auto"
        Features that a node tries, or their share; "auto": half of them, but at most 3 sqrt(d).
    sample : int, default=200000
        Rows that each tree is grown on, at most; each has its own.
    n_jobs : int or None, default=None
        Threads: trees grow side by side, and rows are sent down them in as many parts.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    trees_ : Trees
        The nodes of all trees, as arrays.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.maps import ForestFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> Z = ForestFeatures(10, random_state=0).fit_transform(X, y)
    >>> Z.shape[0], Z.nnz // Z.shape[0]
    (1797, 10)
    """

    by_entries = True
    uses_kernel = False
    unit = "leaves"
    additive = True
    few, least = 24, 8
    contestant = Contestant(
        "forest kernel", {"map": "forest"}, most_features=_MOST_FEATURES, scales=False
    )
    state_names = ("trees_",)

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        min_leaf: int = 1,
        max_features: Any = "auto",
        sample: int = 200_000,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.sample = sample
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------ growing

    def learn(self, X: Any, y: np.ndarray | None = None) -> ForestFeatures:
        """Targets of an integer type are classes, others are to be predicted."""
        if y is None:
            raise ValueError(
                "ForestFeatures grows trees with the targets: it requires y to be passed, but the "
                "target y is None"
            )
        from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor  # slow to import

        options, seed = self._checked_options(X.shape[1]), self._seed()
        X, levels = _for_growing(X, seed)
        cls = ExtraTreeRegressor if y.dtype.kind == "f" else ExtraTreeClassifier

        def grown(number: int) -> Any:
            rng = generator(seed, 24, number)
            tree = cls(**options, random_state=int(rng.integers(2**31)))
            part, targets = X, y
            if X.shape[0] > self.sample:
                rows = np.sort(rng.choice(X.shape[0], self.sample, replace=False))
                part, targets = np.asfortranarray(X[rows]) if _is_dense(X) else X[rows], y[rows]
            return _table(tree.fit(part, targets, check_input=False).tree_)

        with ThreadPoolExecutor(threads(self.n_jobs)) as pool:
            trees = _joined(list(pool.map(grown, range(_usual_trees(self.n_components)))))
        self.trees_ = _in_units(trees, levels)
        return self

    def _checked_options(self, d: int) -> dict[str, Any]:
        _usual_trees(self.n_components)
        for name in ("min_leaf", "sample"):
            value = getattr(self, name)
            if not _is_whole(value):
                raise ValueError(f"{name} must be a whole number above 0, got {value!r}")
        tried = self.max_features
        if tried == "auto":
            tried = _usual_share(d)
        if isinstance(tried, float) and 0.0 < tried <= 1.0:
            tried = max(1, math.ceil(tried * d))
        if not _is_whole(tried):
            raise ValueError(
                f"max_features must be a number of features, a share up to 1.0 or 'auto', got "
                f"{self.max_features!r}"
            )
        return {"min_samples_leaf": int(self.min_leaf), "max_features": int(min(tried, d))}

    # ------------------------------------------------------------ features and scores

    def features(self, X: Any, out: np.ndarray | None = None) -> csr_matrix:
        n, size = X.shape[0], self.trees_.roots.size
        indices = self._leaves(X)
        values = np.full(indices.size, 1.0 / math.sqrt(size), dtype=X.dtype)
        ends = np.arange(0, indices.size + 1, size, dtype=indices.dtype)
        features = csr_matrix((values, indices.ravel(), ends), shape=(n, self.width))
        features.has_canonical_format = True  # leaves are numbered tree by tree
        return features

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        by_leaf = np.ascontiguousarray(table.T)
        out = np.zeros((X.shape[0], table.shape[0]))
        for part in blocks(X.shape[0], self.trees_.roots.size):
            _votes(self._leaves(X[part]), by_leaf, out[part])
        return out / math.sqrt(self.trees_.roots.size)

    def _leaves(self, X: Any) -> np.ndarray:
        """The leaf of every row in every tree."""
        n, size = X.shape[0], self.trees_.roots.size
        wide = max(n * size, self.width) > np.iinfo(np.int32).max
        out = np.empty((n, size), dtype=np.int64 if wide else np.int32)
        together = max(min(_TOGETHER // max(X.shape[1], 1), n), 1)

        def sent(part: slice) -> None:
            block = np.zeros((together, X.shape[1]), dtype=np.float32)
            _leaves(as_rows(X[part]), block, *self.trees_, out[part])

        ends = np.linspace(0, n, threads(self.n_jobs) + 1).astype(int)
        parts = [slice(*pair) for pair in pairwise(ends)]
        with ThreadPoolExecutor(len(parts)) as pool:
            list(pool.map(sent, parts))
        return out

    @property
    def width(self) -> int:
        return self.trees_.leaves

    @property
    def stored_per_row(self) -> int:
        """A value and a column number for each tree."""
        return 2 * self.trees_.roots.size

    @property
    def size(self) -> int:
        return sum(int(np.count_nonzero(part)) for part in self.trees_)

    def describe(self) -> str:
        return f"{self.trees_.roots.size} trees"

    def prefers(self, found: Circumstances) -> Solver:
        """A leaf is a feature that few rows have: the dual is never far from its optimum."""
        batch = not found.streaming and not found.steps and takes(DualDescent(), found.problem)
        return DualDescent() if batch else found.usual

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

    def starts(self, rows: int) -> list[dict[str, Any]]:
        """Trees know no units, but noise."""
        return [{"map__min_leaf": 20, "alpha": 10.0 / rows}]

    def finer(self, params: dict[str, Any], factor: float) -> dict[str, Any] | None:
        leaf = params.get("map__min_leaf", 1)
        return {"map__min_leaf": max(1, int(leaf / factor))} if leaf > 1 else {}

    def check(self, features: int, width: int) -> None:
        require(isinstance(self.trees_, Trees), "the trees are missing")
        self.trees_.check(features)
        require(self.trees_.leaves == width, "coef_ does not fit the leaves of the trees")

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        """ONNX's own ensembles add up weights in single precision.

        Here the trees only say which leaf a row reaches, each to an output of its own: a whole
        number, which is exact.  The weights are looked up in a table of doubles, so that scores
        are as good as those of the other models.
        """
        trees = self.trees_
        votes = table.astype(np.float64) / np.sqrt(trees.roots.size)
        graph.reserve(40 * trees.feature.size + (16 + 8 * votes.shape[0]) * votes.shape[1])
        numbers = trees.onnx_attributes()
        single = graph.single(rows)
        number = graph.add("TreeEnsembleRegressor", single, domain="ai.onnx.ml", **numbers)
        leaf = graph.add("Add", graph.whole(number), graph.constant(trees.first_leaves()))
        found = graph.add("Gather", graph.constant(votes.T), leaf, axis=0)
        return graph.add("ReduceSum", found, graph.constant(np.array([1])), keepdims=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _usual_trees(n_components: Any) -> int:
    """How many trees: a number, or 50 for "auto"."""
    if n_components == "auto":
        return _USUAL_TREES
    if not _is_whole(n_components):
        raise ValueError(
            f"n_components must be a whole number above 0 or 'auto', got {n_components!r}"
        )
    return int(n_components)


def _usual_share(d: int) -> float:
    """Of d features, that a node tries where nobody says."""
    return min(0.5, 3.0 / math.sqrt(d))


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return bool(whole and value >= 1)


def _is_dense(X: Any) -> bool:
    return not hasattr(X, "indptr")


def _for_growing(X: Any, seed: int) -> tuple[Any, Levels | None]:
    """Stretched, by columns, since nodes look at few features of many rows; and how to go back.

    Sparse rows that would be too large as dense ones keep their units.
    """
    if np.any(np.abs(X if _is_dense(X) else X.data) > np.finfo(np.float32).max):
        raise ValueError("ForestFeatures: a value of X is too large for single precision: scale it")
    if not _is_dense(X) and 4.0 * X.shape[0] * X.shape[1] > _DENSE_BYTES:
        return canonical(X).tocsc().astype(np.float32), None
    X = X if _is_dense(X) else X.toarray()
    levels = Levels(X, seed)
    return levels.stretched(X), levels


def _in_units(trees: Trees, levels: Levels | None) -> Trees:
    """With thresholds as singles, in the units of the rows."""
    threshold, inner = trees.threshold.copy(), ~trees.is_leaf
    threshold[~inner] = 0.0
    if levels is not None:
        threshold[inner] = levels.taken_back(threshold[inner], trees.feature[inner])
    return trees._replace(threshold=_rounded_down(threshold))


def _table(tree: Any) -> Trees:
    """One of scikit-learn's trees, without all that it knows of its nodes besides."""
    inner = tree.feature >= 0
    if not np.array_equal(tree.children_left[inner], np.flatnonzero(inner) + 1):
        raise RuntimeError("scikit-learn numbers the nodes of its trees in another order by now")
    right = tree.children_right.copy()
    right[~inner] = np.arange(np.count_nonzero(~inner))
    feature = np.where(inner, tree.feature, _LEAF).astype(np.uint32)
    threshold = tree.threshold.copy()  # in double precision until they are in units
    return Trees(np.zeros(1, dtype=np.uint32), feature, threshold, right.astype(np.uint32))


def _joined(trees: list[Trees]) -> Trees:
    """One table of all trees: nodes and leaves are numbered on."""
    roots = np.cumsum([0, *(tree.feature.size for tree in trees)])
    leaves = np.cumsum([0, *(tree.leaves for tree in trees)])
    if roots[-1] >= _LEAF:
        raise ValueError(f"{roots[-1]} nodes are too many: fewer trees, or a larger min_leaf")
    feature = np.concatenate([tree.feature for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    firsts = zip(trees, roots.astype(np.uint32), leaves.astype(np.uint32), strict=False)
    right = [t.right + np.where(t.is_leaf, leaf, root) for t, root, leaf in firsts]
    return Trees(roots[:-1].astype(np.uint32), feature, threshold, np.concatenate(right))


def _rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """The next single below: single values are on the same side of it."""
    single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


@njit(cache=True, nogil=True)
def _leaf(x, node, feature, threshold, right):
    while feature[node] != _LEAF:
        left, other = node + np.uint32(1), right[node]  # both at hand: no branch to guess
        node = left if x[feature[node]] <= threshold[node] else other
    return right[node]


@njit(cache=True, nogil=True)
def _leaves(rows, block, roots, feature, threshold, right, out):
    """Which leaf of every tree a row reaches.

    Some rows at a time, as dense singles in ``block``, go through one tree after the other: its
    nodes are at hand then.  ``block`` comes, and is left, full of zeros.
    """
    for first in range(0, out.shape[0], block.shape[0]):
        size = min(block.shape[0], out.shape[0] - first)
        for r in range(size):
            rows.add(first + r, 1.0, block[r])
        for t in range(roots.size):
            for r in range(size):
                out[first + r, t] = _leaf(block[r], roots[t], feature, threshold, right)
        for r in range(size):
            for k in range(rows.start(first + r), rows.stop(first + r)):
                block[r, rows.column(first + r, k)] = 0.0


@njit(cache=True, nogil=True)
def _votes(leaves, table, out):
    """Sums of the table's entries at the leaves of a row."""
    for i in range(leaves.shape[0]):
        for t in range(leaves.shape[1]):
            for c in range(table.shape[1]):
                out[i, c] += table[leaves[i, t], c]
