r"""Terms weighed: for rows of counts or weights of words, of which each has few.

With n_j of the n rows that have the term j, and power p and rarity q,

.. math::

    \varphi_j(x) \propto \operatorname{sign}(x_j) |x_j|^p \Bigl(\frac{n + 1}{n_j + 1}\Bigr)^q,
    \qquad \lVert\varphi(x)\rVert = 1.

The tenth occurrence of a word says less than the first (p < 1), a rare word says more than a common
one (q > 0), and a long text says no more than a short one.  These are the three parts of every
weighting of terms (tf, idf and length; p = 1/2 and q = 0 is Hellinger's kernel); what is added is
that both exponents are numbers that can be tuned.  20 newsgroups, counts, nothing tuned: 12.9 %,
with tf-idf and LinearSVC 14.7 (``benchmarks/terms.py``).  It also helps rows that have been weighed
already: the same set as tf-idf, 13.2 against 14.8 (``benchmarks/budget.py``).

References: Salton and Buckley, Term-weighting approaches in automatic text retrieval, Information
Processing & Management (1988); Rennie, Shih, Teevan and Karger, Tackling the poor assumptions of
naive Bayes text classifiers, ICML (2003).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from thresher._allowed import NOT_NEGATIVE, POSITIVE
from thresher.dimensions import Float
from thresher.functions.base import check_numbers, require
from thresher.kernels.gram import blocks
from thresher.kernels.matrices import canonical
from thresher.maps.base import Circumstances, FeatureMap
from thresher.registry import Contestant
from thresher.solvers import Solver

__all__ = ["TermFeatures"]


class TermFeatures(FeatureMap):
    """Powers of the values times powers of the terms' rarity, rows of length one.

    Sparse rows stay sparse, and a row without terms stays zero.

    Parameters
    ----------
    power : float, default=0.5
        Of the values, above 0: 1 keeps them, with less a repetition counts for less.
    rarity : float, default=0.3
        Power of (rows + 1) / (rows that have the term + 1), at least 0.

    Attributes
    ----------
    weights_ : array of shape (n_features,)
        The terms' rarity to its power.
    entries_ : float
        Terms that the mean row has.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from thresher.maps import TermFeatures
    >>> rows = csr_matrix([[4.0, 0.0, 1.0], [1.0, 2.0, 0.0], [9.0, 0.0, 0.0]])
    >>> print(TermFeatures().fit_transform(rows).toarray().round(2))
    [[0.85 0.   0.52]
     [0.5  0.87 0.  ]
     [1.   0.   0.  ]]
    """

    allowed = {"power": POSITIVE, "rarity": NOT_NEGATIVE}
    by_entries = True
    uses_kernel = False
    by_columns = True
    unit = "weighted terms"
    contestants = (
        Contestant("weighted terms", {"map": "terms"}, rows="sparse", scales=False),
        Contestant(  # which errs elsewhere: the two are better together
            "least-squares terms", {"map": "terms", "loss": "least_squares"}, rows="sparse",
            scales=False, task="classification",
        ),
    )  # fmt: skip
    usual_strength = 0.3  # of rows of length one: as for a linear model
    state_names = ("weights_", "entries_")

    def __init__(self, power: float = 0.5, rarity: float = 0.3):
        self.power = power
        self.rarity = rarity

    def learn(self, X: Any, y: np.ndarray | None = None) -> TermFeatures:
        """How many rows have each term."""
        self.check_options()
        having = _counts(X)
        self.weights_ = ((X.shape[0] + 1.0) / (having + 1.0)) ** self.rarity
        self.entries_ = float(having.sum() / X.shape[0])
        return self

    def features(self, X: Any, out: np.ndarray | None = None) -> Any:
        """The largest value of a row is brought to one before it is raised: none overflows then."""
        weights = self.weights_.astype(X.dtype)
        if not hasattr(X, "indptr"):
            largest = _or_one(np.abs(X).max(axis=1))
            Z = _raised(X / largest[:, None], self.power) * weights
            return np.divide(Z, _or_one(np.linalg.norm(Z, axis=1))[:, None], out=out)
        X = canonical(X)
        shares = X.data / _by_entry(np.maximum, np.abs(X.data), X.indptr)
        values = _raised(shares, self.power) * weights[X.indices]
        values /= np.sqrt(_by_entry(np.add, values**2, X.indptr))
        return csr_matrix((values, X.indices, X.indptr), shape=X.shape)

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        out = np.empty((X.shape[0], table.shape[0]))
        for part in blocks(X.shape[0], self.stored_per_row):
            out[part] = self.features(X[part]) @ table.T
        return out

    @property
    def width(self) -> int:
        return self.weights_.size

    @property
    def stored_per_row(self) -> int:
        """A value and a column number for each term."""
        return min(int(2.0 * self.entries_) + 1, self.weights_.size)

    def prefers(self, found: Circumstances) -> Solver:
        """As for a linear model: the features are as sparse as the rows."""
        return found.usual

    def space(self, estimator: Any, X: Any) -> dict[str, Any]:
        """How much repetitions and rare terms count."""
        return {"map__power": Float(0.1, 1.0), "map__rarity": Float(0.0, 0.6)}

    def check(self, features: int, width: int) -> None:
        self.check_options()
        check_numbers("weights_", self.weights_, (features,))
        entries = self.entries_
        sound = type(entries) is float and 0.0 <= entries <= features
        sound = sound and bool(np.all(self.weights_ > 0.0)) and features == width
        require(sound, "the weights of the terms are wrong")

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        size = graph.add("Abs", rows)
        largest = graph.add("ReduceMax", size, axes=[1], keepdims=1)
        share = graph.add("Div", size, graph.or_one(largest))
        raised = graph.add("Pow", share, graph.constant(float(self.power)))
        weighed = graph.add("Mul", raised, graph.constant(self.weights_.astype(np.float64)))
        terms = graph.add("Mul", weighed, graph.add("Sign", rows))
        squares = graph.add("Mul", terms, terms)
        total = graph.add("ReduceSum", squares, graph.constant(np.array([1])), keepdims=1)
        terms = graph.add("Div", terms, graph.or_one(graph.add("Sqrt", total)))
        return graph.add("MatMul", terms, graph.constant(np.asarray(table, dtype=np.float64).T))


def _counts(X: Any) -> np.ndarray:
    """Rows in which a feature is not zero."""
    if not hasattr(X, "indptr"):
        return np.count_nonzero(X, axis=0)
    X = canonical(X)
    return np.bincount(X.indices[X.data != 0.0], minlength=X.shape[1])


def _raised(values: np.ndarray, power: float) -> np.ndarray:
    size = np.abs(values)
    size = np.sqrt(size) if power == 0.5 else size ** values.dtype.type(power)  # roots are quick
    return np.copysign(size, values)


def _by_entry(ufunc: np.ufunc, values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """For each entry, its row's values put together, or one where that is zero."""
    sizes = np.diff(indptr)
    some = sizes > 0  # the others would be given the entry after them
    return np.repeat(_or_one(ufunc.reduceat(values, indptr[:-1][some])), sizes[some])


def _or_one(lengths: np.ndarray) -> np.ndarray:
    return np.where(lengths > 0.0, lengths, lengths.dtype.type(1.0))
