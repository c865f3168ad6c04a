"""Leaves of trees as features: what forests and boosted trees share.

A row has the value 1/sqrt(trees) at the leaf that it reaches in each tree, and zeros elsewhere.
All trees are one table of 12 bytes per node; rows go down one tree after the other in blocks, so
that a tree's nodes are at hand.  Whoever grows the trees gives them as :class:`Trees`.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

from thresher._rows import as_rows
from thresher._threads import threads
from thresher.functions.base import require
from thresher.kernels.gram import blocks
from thresher.maps.base import Circumstances, FeatureMap
from thresher.maps.bundles import Bundles, bundled
from thresher.solvers import DualDescent, Solver
from thresher.solvers.compatible import takes

__all__ = [
    "LeafFeatures",
    "Trees",
    "blurred_column",
    "joined",
    "one_tree",
    "refuse_doubles",
    "rounded_down",
]

LEAF = np.uint32(2**32 - 1)
_KINDS = (np.uint32, np.uint32, np.float32, np.uint32)
_EXACT = 2**24  # whole numbers up to which singles hold each
_SAMPLE = 2000  # rows, about, that are looked at to know what singles can tell apart
_TOGETHER = 1 << 17  # numbers of the rows that go through a tree together


class Trees(NamedTuple):
    """All trees as one table of nodes; the left child of a node is the next one."""

    roots: np.ndarray  # the first node of each tree
    feature: np.ndarray  # that a node looks at; of a leaf ``LEAF``
    threshold: np.ndarray  # float32: rows up to it go left
    right: np.ndarray  # the right child; of a leaf its number among the leaves of all trees

    @property
    def leaves(self) -> int:
        return int(self.right[-1]) + 1  # the last node is the last leaf

    @property
    def is_leaf(self) -> np.ndarray:
        return self.feature == LEAF

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


class LeafFeatures(FeatureMap):
    """Base of the maps whose features are the leaves of trees, grown with the targets."""

    by_entries = True
    uses_kernel = False
    unit = "leaves"
    state_names: ClassVar[tuple[str, ...]] = ("trees_", "bundles_")
    n_jobs: int | None
    bundle: bool
    trees_: Trees
    bundles_: Bundles | None

    def _grown_with(self, y: np.ndarray | None) -> np.ndarray:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} grows trees with the targets: it requires y to be passed, "
                "but the target y is None"
            )
        return y

    def _bundled(self, X: Any, y: np.ndarray) -> Any:
        """The rows as the trees see them: categories may be one column."""
        self.bundles_ = bundled(X, y) if self.bundle else None
        return X if self.bundles_ is None else self.bundles_.rows(X)

    def needs_units(self, X: Any) -> bool:
        return blurred_column(X) is not None

    def refuse_blurred(self, X: Any) -> None:
        """ValueError for a column whose values are the same to the trees."""
        column = blurred_column(X)
        if column is not None:
            raise ValueError(
                f"{type(self).__name__}: values of column {column} are too close to each other (or "
                "to zero) for the single precision of trees: standardise them (scale=True)"
            )

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
            rows = X[part] if self.bundles_ is None else self.bundles_.rows(X[part])
            block = np.zeros((together, rows.shape[1]), dtype=np.float32)
            _leaves(as_rows(rows), block, *self.trees_, out[part])

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
        return sum(int(np.count_nonzero(part)) for part in (*self.trees_, *(self.bundles_ or ())))

    def describe(self) -> str:
        return f"{self.trees_.roots.size} trees"

    def prefers(self, found: Circumstances) -> Solver:
        """A leaf is a feature that few rows have: the dual is never far from its optimum."""
        batch = not found.streaming and not found.steps and takes(DualDescent(), found.problem)
        return DualDescent() if batch else found.usual

    def check(self, features: int, width: int) -> None:
        require(isinstance(self.trees_, Trees), "the trees are missing")
        if self.bundles_ is not None:
            require(isinstance(self.bundles_, Bundles), "the bundles of columns are damaged")
            self.bundles_.check(features)
        self.trees_.check(features if self.bundles_ is None else self.bundles_.width)
        threads(self.n_jobs)  # predicting asks for them
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
        if self.bundles_ is not None:
            single = graph.add("MatMul", single, graph.constant(self.bundles_.matrix.toarray()))
        number = graph.add("TreeEnsembleRegressor", single, domain="ai.onnx.ml", **numbers)
        leaf = graph.add("Add", graph.whole(number), graph.constant(trees.first_leaves()))
        found = graph.add("Gather", graph.constant(votes.T), leaf, axis=0)
        return graph.add("ReduceSum", found, graph.constant(np.array([1])), keepdims=0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def one_tree(
    leaf: np.ndarray, feature: np.ndarray, threshold: np.ndarray, left: np.ndarray,
    right: np.ndarray,
) -> Trees:  # fmt: skip
    """One of scikit-learn's trees, without all that it knows of its nodes besides."""
    inner = np.flatnonzero(~leaf)
    if not np.array_equal(left[inner], inner + 1):
        raise RuntimeError("scikit-learn numbers the nodes of its trees in another order by now")
    right = right.astype(np.uint32)
    right[leaf] = np.arange(np.count_nonzero(leaf))
    feature = np.where(leaf, LEAF, feature).astype(np.uint32)
    return Trees(np.zeros(1, dtype=np.uint32), feature, threshold, right)


def refuse_doubles(values: np.ndarray) -> None:
    """Trees compare singles: ValueError for values that are none."""
    if np.any(np.abs(values) > np.finfo(np.float32).max):
        raise ValueError("a value of X is too large for single precision, as trees use: scale it")


def joined(trees: list[Trees]) -> Trees:
    """One table of all trees: nodes and leaves are numbered on."""
    roots = np.cumsum([0, *(tree.feature.size for tree in trees)])
    leaves = np.cumsum([0, *(tree.leaves for tree in trees)])
    if roots[-1] >= LEAF:
        raise ValueError(f"{roots[-1]} nodes are too many: fewer trees, or a larger min_leaf")
    feature = np.concatenate([tree.feature for tree in trees])
    threshold = np.concatenate([tree.threshold for tree in trees])
    firsts = zip(trees, roots.astype(np.uint32), leaves.astype(np.uint32), strict=False)
    right = [t.right + np.where(t.is_leaf, leaf, root) for t, root, leaf in firsts]
    return Trees(roots[:-1].astype(np.uint32), feature, threshold, np.concatenate(right))


def blurred_column(X: Any) -> int | None:
    """A column half of whose values, in a sample of rows, are one with others as singles.

    Of sparse rows: one with values that are zero as singles.  Values beyond the largest single are
    another matter.
    """
    stored = X.data if hasattr(X, "indptr") else X
    if X.dtype == np.float32 or np.any(np.abs(stored) > np.finfo(np.float32).max):
        return None
    if hasattr(X, "indptr"):
        lost = (X.data != 0.0) & (X.data.astype(np.float32) == 0.0)
        return int(X.indices[np.argmax(lost)]) if np.any(lost) else None
    for j, column in enumerate(X[:: max(1, X.shape[0] // _SAMPLE)].T):
        values = np.unique(column)
        if 2 * np.unique(values.astype(np.float32)).size <= values.size:
            return j
    return None


def rounded_down(thresholds: np.ndarray) -> np.ndarray:
    """The next single below: single values are on the same side of it."""
    single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


@njit(cache=True, nogil=True)
def _leaf(x, node, feature, threshold, right):
    while feature[node] != LEAF:
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
