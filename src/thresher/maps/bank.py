r"""Many kernels at once, each on columns of its own: blocks of features, a block for each kernel.

.. math:: \phi_q(x) = W_q' [k_q(x, z_1), \ldots, k_q(x, z_m)]', \qquad W_q W_q' = K_q^{-1} / \mu_q

with the mean :math:`\mu_q` of the kernel's diagonal over a sample, so that no kernel is larger than
the others by its units.  A linear model with a penalty over the blocks, strength :math:`\sum_q c_q
\|w_q\|`, is multiple kernel learning on landmarks: of the kernels whose block is zero nothing is
computed in a prediction.  Memory is that of some rows' features, whatever the number of rows.

Reference: Bach, Consistency of the group lasso and multiple kernel learning (2008); Xu, Jin, Yang,
King and Lyu, Simple and efficient multiple kernel learning by group lasso (2010).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thresher._allowed import whole
from thresher._random import generator
from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.functions.kernel_sum import are_columns, taken_columns
from thresher.kernels import Kernel
from thresher.kernels.expansion import onnx_values
from thresher.kernels.gram import Points, blocks, gram, self_values, squares
from thresher.kernels.members import described, members_of
from thresher.maps.base import FeatureMap
from thresher.maps.whitening import whitening

__all__ = ["BankFeatures"]

_USUAL = 20  # landmarks of a kernel on one column
_TIMES = 5  # as many landmarks has a kernel on several columns
_TOL = 1e-6  # eigenvalues below this share of the largest are no features


class BankFeatures(FeatureMap):
    """Features of many kernels on single columns, groups of them, or all: a block for each.

    With ``penalty="group"``, the default behind this map, a model keeps or drops whole kernels:
    multiple kernel learning for any number of rows.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Landmarks of a kernel on one column, at quantiles of the column; "auto": 20.  Kernels on
        several columns have five times as many, rows drawn at random.  Fewer features are left
        where kernel values depend on each other.
    kernels : "bank" or list, default="bank"
        As in ``MultipleKernelClassifier``: ten Gaussians and three polynomials, or kernels and
        pairs (kernel, columns).
    columns : {"auto", "both", "each", "all"} or list, default="auto"
        Which columns kernels are taken of.
    sample : int, default=20000
        Landmarks, widths and means are those of so many rows.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    kernels_, columns_ : tuples
        The kernels and their columns (None: all), in the order of the blocks.
    widths_ : int array
        Features of each block.
    landmarks_ : array or CSR matrix of shape (n_landmarks, n_features)
    spans_ : int array of shape (n_kernels, 2)
        First and last + 1 of the landmarks of each kernel.
    projection_ : array
        The W_q, one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher import KernelClassifier
    >>> from thresher.maps import BankFeatures
    >>> X = np.random.default_rng(0).normal(size=(2000, 5))
    >>> y = X[:, 1] ** 2 > 0.5
    >>> model = KernelClassifier("logistic", map="bank", random_state=0).fit(X, y)
    >>> print(model.score(X, y) > 0.95, model.chosen_parts()[0][0].endswith("column 1"))
    True True
    """

    allowed = {"n_components": whole(1) | "auto", "sample": whole(1)}
    unit = "features of the kernels"
    usual_penalty = "group"
    state_names = ("landmarks_", "kernels_", "columns_", "spans_", "widths_", "projection_")

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        kernels: Any = "bank",
        columns: Any = "auto",
        sample: int = 20_000,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernels = kernels
        self.columns = columns
        self.sample = sample
        self.random_state = random_state

    def learn(self, X: Any, y: np.ndarray | None = None) -> BankFeatures:
        self.check_options()
        few = _USUAL if self.n_components == "auto" else self.n_components
        seed = self._seed()
        if X.shape[0] > self.sample:
            X = X[np.sort(generator(seed, 11).choice(X.shape[0], self.sample, replace=False))]
        members = members_of(self.kernels, self.columns, X, None, seed)
        landmarks, single_span, span_of_rows = _landmarks(X, int(few), seed)
        kept, spans, parts = [], [], []
        for member in members:
            single = member.columns is not None and len(member.columns) == 1
            span = single_span if single else span_of_rows
            basis = _basis(member, X, landmarks[span[0] : span[1]])
            if basis is not None:
                kept.append(member)
                spans.append(span)
                parts.append(basis)
        if not kept:
            raise ValueError("every kernel is zero, or not finite, on these rows: none can be used")
        self.kernels_ = tuple(member.kernel for member in kept)
        self.columns_ = tuple(member.columns for member in kept)
        first, last = np.min(spans), np.max(spans)
        self.landmarks_ = landmarks[first:last]
        self.spans_ = np.array(spans, dtype=np.int64) - first
        self.widths_ = np.array([part.shape[1] for part in parts], dtype=np.int64)
        self.projection_ = np.concatenate([part.ravel() for part in parts])
        self._cache: dict[str, tuple[list[Points], list[np.ndarray]]] = {}
        return self

    def needs_units(self, X: Any) -> bool:
        return True

    # ------------------------------------------------------------ features and scores

    def features(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        if out is None:
            out = np.empty((X.shape[0], self.width), dtype=X.dtype)
        ends = np.cumsum(self.widths_)
        points, bases = self._ready(X.dtype.str)
        for part in blocks(X.shape[0], self._most, elements=1 << 20):
            rows = X[part]
            for q, (columns, end) in enumerate(zip(self.columns_, ends, strict=True)):
                values = points[q](taken_columns(rows, columns))
                out[part, end - self.widths_[q] : end] = values @ bases[q]
        return out

    def fold(self, coef: np.ndarray) -> np.ndarray:
        """Coefficients of the kernel values of every kernel with its landmarks."""
        coef = np.asarray(coef, dtype=np.float64)
        cut = np.split(coef, np.cumsum(self.widths_)[:-1], axis=1)
        return np.hstack([part @ W.T for part, W in zip(cut, self._bases(), strict=True)])

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        out = np.zeros((X.shape[0], table.shape[0]))
        points, _ = self._ready(X.dtype.str)
        used = [(q, beta) for q, beta in enumerate(self._cut(table)) if np.any(beta != 0.0)]
        for part in blocks(X.shape[0], self._most, elements=1 << 20):
            rows = X[part]
            for q, beta in used:  # of the others nothing is computed
                values = points[q](taken_columns(rows, self.columns_[q]))
                out[part] += values @ beta.T.astype(X.dtype, copy=False)
        return out

    def _cut(self, table: np.ndarray) -> list[np.ndarray]:
        return np.split(table, np.cumsum(self._counts)[:-1], axis=1)

    def _bases(self) -> list[np.ndarray]:
        sizes = self._counts * self.widths_
        cut = np.split(self.projection_, np.cumsum(sizes)[:-1])
        shapes = zip(cut, self._counts, self.widths_, strict=True)
        return [part.reshape(m, width) for part, m, width in shapes]

    def _ready(self, dtype: str) -> tuple[list[Points], list[np.ndarray]]:
        """Landmarks and bases of every kernel, in a precision; not pickled."""
        cache = self.__dict__.setdefault("_cache", {})
        if dtype not in cache:
            kind = np.dtype(dtype)
            points = [
                Points(kernel, taken_columns(self.landmarks_[a:b], columns), kind)
                for kernel, columns, (a, b) in zip(
                    self.kernels_, self.columns_, self.spans_, strict=True
                )
            ]
            bases = [np.ascontiguousarray(W, dtype=kind) for W in self._bases()]
            cache[dtype] = points, bases
        return cache[dtype]

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_cache"}

    # ------------------------------------------------------------ what it is

    @property
    def _counts(self) -> np.ndarray:
        return np.diff(self.spans_, axis=1)[:, 0]

    @property
    def _most(self) -> int:
        return int(self._counts.max())

    @property
    def width(self) -> int:
        return int(self.widths_.sum())

    @property
    def table_width(self) -> int:
        return int(self._counts.sum())

    @property
    def size(self) -> int:
        return count_nonzero(self.landmarks_)

    def parts(self, names: Any = None) -> list[tuple[str, int]]:
        told = zip(self.kernels_, self.columns_, self.widths_, strict=True)
        return [(described(kernel, cols, names), int(width)) for kernel, cols, width in told]

    def describe(self) -> str:
        return f"{len(self.kernels_)} kernels"

    def components(self, wanted: Any, rows: int) -> int:
        return _USUAL if wanted == "auto" else int(wanted)

    def check(self, features: int, width: int) -> None:
        kernels, columns = self.kernels_, self.columns_
        plain = isinstance(kernels, tuple) and all(isinstance(k, Kernel) for k in kernels)
        require(plain and len(kernels) > 0, "kernels_ must be a tuple of Kernel")
        for kernel in kernels:
            kernel.check()
        paired = isinstance(columns, tuple) and len(columns) == len(kernels)
        whole = paired and all(c is None or are_columns(c, features) for c in columns)
        require(whole, "columns_ are damaged")
        points = self.landmarks_
        require(len(np.shape(points)) == 2, "landmarks_ must be a table")
        check_numbers("landmarks_", points, (points.shape[0], features))
        for name, shape in (("spans_", (len(kernels), 2)), ("widths_", (len(kernels),))):
            value = getattr(self, name)
            counts = isinstance(value, np.ndarray) and value.dtype == np.int64
            require(counts and value.shape == shape, f"{name} must be {shape} counts")
        first, last = self.spans_.T
        sound = np.all(first >= 0) and np.all(first < last) and last.max() == points.shape[0]
        require(sound, "spans_ are not those of the landmarks")
        require(np.all((self.widths_ > 0) & (self.widths_ <= self._counts)), "widths_ are damaged")
        require(self.width == width, f"the map has {self.width} features, not {width}")
        total = int((self._counts * self.widths_).sum())
        check_numbers("projection_", self.projection_, (total,))

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        total = ""
        for q, beta in enumerate(self._cut(table)):
            if total and not np.any(beta != 0.0):
                continue
            columns, (a, b) = self.columns_[q], self.spans_[q]
            taken = rows
            if columns is not None:
                taken = graph.add("Gather", rows, graph.constant(np.array(columns)), axis=1)
            landmarks = taken_columns(self.landmarks_[a:b], columns)
            values = onnx_values(graph, self.kernels_[q], taken, landmarks)
            coef = graph.constant(np.ascontiguousarray(beta.T, dtype=np.float64))
            product = graph.add("MatMul", values, coef)
            total = graph.add("Add", total, product) if total else product
        return total


def _landmarks(X: Any, few: int, seed: int) -> tuple[Any, tuple[int, int], tuple[int, int]]:
    """Rows of quantiles, and rows at random; which of them are for single columns, and for several.

    Quantiles of sparse columns are mostly zero: there all of them are rows at random.
    """
    n = X.shape[0]
    rows = X[generator(seed, 12).permutation(n)[: _TIMES * few]]
    many = int(rows.shape[0])
    if hasattr(X, "indptr"):
        return rows, (0, min(few, many)), (0, many)
    at = (np.arange(few) + 0.5) / few
    even = np.quantile(X, at, axis=0, method="nearest") if n > few else X
    split = int(even.shape[0])
    return np.vstack([even, rows]), (0, split), (split, split + many)


def _basis(member: Any, X: Any, landmarks: Any) -> np.ndarray | None:
    """W of a kernel, None if it is zero or not finite on all rows."""
    own = taken_columns(X, member.columns).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(np.mean(self_values(member.kernel, np.sqrt(squares(own))[:, None])))
        K = gram(member.kernel, taken_columns(landmarks, member.columns).astype(np.float64))
    if not (0.0 < mean < np.inf) or not np.all(np.isfinite(K)):
        return None
    return whitening(0.5 * (K + K.T), 0.0, _TOL).projection / np.sqrt(mean)
