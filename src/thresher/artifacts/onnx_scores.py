"""How models score rows, as ONNX operators: linear, kernel machines, forests, weighted terms,
several hyperplanes per class.

Each has ``features`` and ``outputs`` and builds, in a graph, scores of shape [N, outputs] from the
rows [N, features], all in double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from thresher import kernels

__all__ = [
    "ForestScores", "FourierScores", "KernelScores", "LinearScores", "LocalScores", "PlaneScores",
    "TermScores",
]  # fmt: skip

_EXACT = 2**24  # whole numbers up to which singles hold each


@dataclass
class LinearScores:
    """coef . x + intercept, one row of coef per output."""

    coef: np.ndarray
    intercept: np.ndarray

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    def build(self, graph: Any, rows: str) -> str:
        products = graph.add("MatMul", rows, graph.constant(self.coef.T))
        return graph.add("Add", products, graph.constant(self.intercept))


@dataclass
class _InUnits:
    """Rows are taken as (x - shift) * scale first, where these are given."""

    shift: np.ndarray | None
    scale: np.ndarray | None

    def scaled(self, graph: Any, rows: str) -> str:
        if self.shift is not None:
            rows = graph.add("Sub", rows, graph.constant(self.shift.astype(np.float64)))
        if self.scale is not None:
            rows = graph.add("Mul", rows, graph.constant(self.scale.astype(np.float64)))
        return rows


def _or_one(graph: Any, lengths: str) -> str:
    """To divide by: one in place of zero."""
    some = graph.add("Greater", lengths, graph.constant(0.0))
    return graph.add("Where", some, lengths, graph.constant(1.0))


@dataclass
class KernelScores(_InUnits):
    """sum_j table[:, j] k(x, points[j]) + intercept."""

    kernel: Any
    points: np.ndarray
    table: np.ndarray
    intercept: np.ndarray

    @property
    def features(self) -> int:
        return int(self.points.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.table.shape[0])

    def build(self, graph: Any, rows: str) -> str:
        products = self.expansion(graph, self.values(graph, self.scaled(graph, rows)))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))

    def expansion(self, graph: Any, values: str) -> str:
        return graph.add("MatMul", values, graph.constant(self.table.T.astype(np.float64)))

    def values(self, graph: Any, rows: str) -> str:
        """Kernel values of scaled rows and all points."""
        points = np.asarray(self.points, dtype=np.float64)
        inner = graph.add("MatMul", rows, graph.constant(points.T))
        squares = graph.add("Mul", rows, rows)
        norms = graph.add("ReduceSum", squares, graph.constant(np.array([1])), keepdims=1)
        return self._values(graph, inner, norms, graph.constant((points**2).sum(axis=1)))

    def _values(self, graph: Any, inner: str, sq_x: str, sq_z: str) -> str:
        kernel = self.kernel
        if isinstance(kernel, kernels.Linear):
            return inner
        if isinstance(kernel, kernels.Cosine):
            size = graph.add("Sqrt", graph.add("Mul", sq_x, sq_z))
            return graph.add("Div", inner, _or_one(graph, size))
        if isinstance(kernel, kernels.Polynomial | kernels.Sigmoid):
            steep = graph.add("Mul", inner, graph.constant(float(kernel.gamma)))
            raised = graph.add("Add", steep, graph.constant(float(kernel.intercept)))
            if isinstance(kernel, kernels.Sigmoid):
                return graph.add("Tanh", raised)
            return graph.add("Pow", raised, graph.constant(float(kernel.degree)))
        if isinstance(kernel, kernels.RBF | kernels.Exponential):
            twice = graph.add("Mul", inner, graph.constant(2.0))
            squared = graph.add("Sub", graph.add("Add", sq_x, sq_z), twice)
            distance = graph.add("Max", squared, graph.constant(0.0))
            if isinstance(kernel, kernels.Exponential):
                distance = graph.add("Sqrt", distance)
            return graph.add(
                "Exp", graph.add("Mul", distance, graph.constant(-float(kernel.gamma)))
            )
        raise ValueError(f"the kernel {type(kernel).__name__} is not known to ONNX")


@dataclass
class LocalScores(KernelScores):
    """The same with the points of the row's cell, that of the nearest centre, and its constant.

    A graph has no branches worth having: all kernel values are computed, and those of other cells
    counted as zero.
    """

    centres: np.ndarray
    ends: np.ndarray  # of each cell among the points
    constants: np.ndarray  # (outputs, cells)

    def build(self, graph: Any, rows: str) -> str:
        rows = self.scaled(graph, rows)
        centres = self.centres.astype(np.float64)
        inner = graph.add("MatMul", rows, graph.constant(centres.T))
        away = graph.add("Sub", graph.constant(0.5 * (centres**2).sum(axis=1)), inner)
        cell = graph.add("ArgMin", away, axis=1, keepdims=0)
        own = graph.add("Gather", graph.constant(self._membership()), cell, axis=0)
        values = graph.add("Mul", self.values(graph, rows), own)
        products = self.expansion(graph, values)
        constants = (self.constants + self.intercept[:, None]).T.astype(np.float64)
        return graph.add(
            "Add", products, graph.add("Gather", graph.constant(constants), cell, axis=0)
        )

    def _membership(self) -> np.ndarray:
        """1 where a point belongs to a cell."""
        owner = np.searchsorted(self.ends, np.arange(self.points.shape[0]), side="right")
        return (owner == np.arange(self.ends.size)[:, None]).astype(np.float64)


@dataclass
class FourierScores(_InUnits):
    """coef . sqrt(2/m) cos(frequencies' x + phases) + intercept."""

    frequencies: np.ndarray
    phases: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    @property
    def features(self) -> int:
        return int(self.frequencies.shape[0])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    def build(self, graph: Any, rows: str) -> str:
        turns = graph.add("MatMul", self.scaled(graph, rows), graph.constant(self.frequencies))
        # ONNX runtimes know the sine of doubles more often than the cosine.
        waves = graph.add("Sin", graph.add("Add", turns, graph.constant(self.phases + math.pi / 2)))
        table = np.asarray(self.coef, dtype=np.float64).T * math.sqrt(2.0 / self.phases.size)
        products = graph.add("MatMul", waves, graph.constant(table))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))


@dataclass
class ForestScores(_InUnits):
    """sum over the trees of table[:, leaf of x in the tree] + intercept.

    Trees are nodes in a row, tree after tree, the left child after its parent: rows go there whose
    ``feature`` is, in single precision, at most ``threshold``.  ``right`` is the other child, of a
    leaf its number.

    ONNX's own ensembles add up weights in single precision.  Here the trees only say which leaf a
    row reaches, each to an output of its own: a whole number, which is exact.  The weights are
    looked up in a table of doubles, so that scores are as good as those of the other models.
    """

    features: int
    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    right: np.ndarray
    is_leaf: np.ndarray
    table: np.ndarray
    intercept: np.ndarray

    @property
    def outputs(self) -> int:
        return int(self.table.shape[0])

    @property
    def nbytes(self) -> int:
        """In the file: some 40 bytes for a node, 16 for a leaf, and the table."""
        return 40 * self.is_leaf.size + (16 + 8 * self.outputs) * self.table.shape[1]

    def build(self, graph: Any, rows: str) -> str:
        single = graph.single(self.scaled(graph, rows))
        number = graph.add(
            "TreeEnsembleRegressor", single, domain="ai.onnx.ml", **self._nodes(), **self._numbers()
        )
        leaf = graph.add("Add", graph.whole(number), graph.constant(self._first_leaves()))
        table = np.asarray(self.table, dtype=np.float64).T
        votes = graph.add("Gather", graph.constant(table), leaf, axis=0)
        total = graph.add("ReduceSum", votes, graph.constant(np.array([1])), keepdims=0)
        return graph.add("Add", total, graph.constant(self.intercept.astype(np.float64)))

    def _nodes(self) -> dict[str, Any]:
        """Attributes of the operator: nodes are numbered from 0 in each tree."""
        tree, own = self._places()
        child = np.where(self.is_leaf, 0, self.right - self.roots[tree])
        return {
            "nodes_treeids": tree.tolist(),
            "nodes_nodeids": own.tolist(),
            "nodes_modes": np.where(self.is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
            "nodes_featureids": np.where(self.is_leaf, 0, self.feature).tolist(),
            "nodes_values": np.where(self.is_leaf, 0.0, self.threshold).tolist(),
            "nodes_truenodeids": np.where(self.is_leaf, 0, own + 1).tolist(),
            "nodes_falsenodeids": child.tolist(),
        }

    def _numbers(self) -> dict[str, Any]:
        """More attributes: a leaf gives its number, from 0 in its tree, to the tree's output."""
        tree, own = (part[self.is_leaf] for part in self._places())
        numbers = self.right[self.is_leaf] - self._first_leaves()[tree]
        if numbers.max() >= _EXACT:
            raise ValueError(f"a tree has more than {_EXACT} leaves, which ONNX cannot number")
        return {
            "n_targets": self.roots.size,
            "target_treeids": tree.tolist(),
            "target_nodeids": own.tolist(),
            "target_ids": tree.tolist(),
            "target_weights": numbers.astype(float).tolist(),
        }

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """The tree of every node, and the node's number in it."""
        tree = np.repeat(np.arange(self.roots.size), np.diff(self.roots, append=self.is_leaf.size))
        return tree, np.arange(self.is_leaf.size) - self.roots[tree]

    def _first_leaves(self) -> np.ndarray:
        return (np.cumsum(self.is_leaf) - self.is_leaf)[self.roots]


@dataclass
class TermScores(_InUnits):
    """coef . z / |z| + intercept, where z = sign(x) |x|^power * weights."""

    power: float
    weights: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def outputs(self) -> int:
        return int(self.coef.shape[0])

    def build(self, graph: Any, rows: str) -> str:
        rows = self.scaled(graph, rows)
        size = graph.add("Abs", rows)
        largest = graph.add("ReduceMax", size, axes=[1], keepdims=1)
        share = graph.add("Div", size, _or_one(graph, largest))
        raised = graph.add("Pow", share, graph.constant(self.power))
        weighed = graph.add("Mul", raised, graph.constant(self.weights.astype(np.float64)))
        terms = graph.add("Mul", weighed, graph.add("Sign", rows))
        squares = graph.add("Mul", terms, terms)
        total = graph.add("ReduceSum", squares, graph.constant(np.array([1])), keepdims=1)
        terms = graph.add("Div", terms, _or_one(graph, graph.add("Sqrt", total)))
        table = np.asarray(self.coef, dtype=np.float64).T
        products = graph.add("MatMul", terms, graph.constant(table))
        return graph.add("Add", products, graph.constant(self.intercept.astype(np.float64)))


@dataclass
class PlaneScores:
    """The best of each class's hyperplanes; for two classes the second's less the first's."""

    coef: np.ndarray
    intercept: np.ndarray
    owners: np.ndarray  # class number of each row of coef

    @property
    def features(self) -> int:
        return int(self.coef.shape[1])

    @property
    def outputs(self) -> int:
        classes = int(self.owners.max()) + 1
        return 1 if classes == 2 else classes

    def build(self, graph: Any, rows: str) -> str:
        linear = LinearScores(self.coef.astype(np.float64), self.intercept.astype(np.float64))
        every = linear.build(graph, rows)
        best = []
        for c in range(int(self.owners.max()) + 1):
            own = graph.constant(np.flatnonzero(self.owners == c))
            best.append(
                graph.add(
                    "ReduceMax", graph.add("Gather", every, own, axis=1), axes=[1], keepdims=1
                )
            )
        if len(best) == 2:
            return graph.add("Sub", best[1], best[0])
        return graph.add("Concat", *best, axis=1)
