r"""The Nystroem map: kernel values against m landmarks, whitened.

.. math:: \phi(x) = W' [k(x, z_1), \ldots, k(x, z_m)]', \qquad W W' = K_{mm}^{-1}

A linear model on phi is the best kernel machine whose expansion uses the landmarks only, and its
score is :math:`\sum_j \beta_j k(x, z_j)` with beta = W w: m kernel values a prediction, whatever
the number of training rows.  With all rows as landmarks it is the exact kernel machine.  Cost of a
row: O(m (d + m/2)) for its features, O(m d) for its score.

Williams and Seeger (2001); Suykens et al. (2002) for the fixed-size LS-SVM; Zhang et al. (2008).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array

from thresher._allowed import number, whole
from thresher._random import generator, uniform
from thresher._rows import check_compressed
from thresher.dimensions import Int
from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.kernels import Kernel
from thresher.kernels.expansion import onnx_values
from thresher.kernels.gram import Points, blocks, gram
from thresher.kernels.left_out import kernel_by_left_out
from thresher.kernels.matrices import distinct, stack
from thresher.kernels.width import GAMMA, resolve_kernel
from thresher.maps.base import FeatureMap
from thresher.maps.entropy import CHANCES, entropy
from thresher.maps.landmarks import (
    COMPONENTS,
    LANDMARKS,
    check_rule,
    landmark_room,
    landmark_work,
    subset_size,
)
from thresher.maps.whitening import Basis, whitening
from thresher.registry import Contestant

__all__ = ["Nystroem", "check_landmarks"]


_WITHOUT_KERNEL = ("uniform", "kmeans", "kmedoids")


class Nystroem(FeatureMap):
    """Features whose inner products approximate a kernel, from a few landmarks.

    Parameters
    ----------
    n_components : int, "auto", "sqrt" or "full", default="auto"
        Number of landmarks; "auto": 10 sqrt(n) within 100 .. 2000, "sqrt": the fixed-size rule
        sqrt(n), from 10,000 rows on sqrt(n) / 5; "full": every row, up to 3000.  Not used when
        ``landmarks`` is an array.
    kernel : {"rbf", "polynomial", "exponential", ...} or Kernel, default="rbf"
    gamma : float, "median", "loo" or None, default=None
        Width of the kernel; None: the object's own, or "median" for a name; "loo": the one of five
        with which least squares does best on rows that are left out, of a sample of at most 700.
    landmarks : {"uniform", "entropy", "kmeans", "kmedoids", "leverage", "margin"}, array or \
callable, default="uniform"
        How landmarks are chosen (``thresher.maps.landmarks`` says when which one pays), the
        landmarks themselves, or a function (X, m, seed) -> points.
    tol : float or None, default=None
        None: whitening by Cholesky, the fastest.  A number: by eigenvalues, without those below
        tol times the largest; the number of features is what remains.
    sample : int, default=20000
        Landmarks are chosen among so many rows.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    landmarks_ : array or CSR matrix of shape (m, n_features)
    kernel_ : Kernel
        With the width that was used.
    projection_ : array of shape (m, n_components)
        W above; its transpose is lower triangular where ``tol`` is None.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.maps import Nystroem
    >>> X, y = load_digits(return_X_y=True)
    >>> Nystroem(50, random_state=0).fit_transform(X).shape
    (1797, 50)
    """

    allowed = {
        "n_components": COMPONENTS, "gamma": GAMMA | "loo", "tol": number(0.0, 1.0, "[)") | None,
        "sample": whole(1),
    }  # fmt: skip
    contestants = (
        Contestant("kernel"),
        Contestant(
            "least-squares kernel",
            {"loss": "least_squares", "gamma": "loo", "n_components": "full"},
        ),
    )
    state_names = ("landmarks_", "projection_", "kernel_")

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        landmarks: Any = "uniform",
        tol: float | None = None,
        sample: int = 20_000,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.landmarks = landmarks
        self.tol = tol
        self.sample = sample
        self.random_state = random_state

    def learn(self, X: Any, y: np.ndarray | None = None) -> Nystroem:
        self.check_options()
        seed = self._seed()
        for name in ("_stream", "_ridge"):
            self.__dict__.pop(name, None)
        self._learn_kernel(X, y, seed)
        if not isinstance(self.landmarks, str) and not callable(self.landmarks):
            self._prepare(self._given(X.shape[1]), X.dtype)
            return self
        n = X.shape[0]
        m = subset_size(self.n_components, n)
        if not isinstance(self.n_components, str) and self.n_components > n:
            warnings.warn(
                f"n_components={self.n_components} landmarks were asked for, but there are {n} "
                "rows: all of them are used",
                stacklevel=3,
            )
        if m == n and not callable(self.landmarks) and self.landmarks != "kmeans":
            self._prepare(distinct(X), X.dtype)
            return self
        if n > max(self.sample, m):
            rows = generator(seed, 10).choice(n, max(self.sample, m), replace=False)
            X, y = X[rows], None if y is None else y[rows]
        if callable(self.landmarks):
            points = self._checked(self.landmarks(X, m, seed), X.shape[1])
        else:
            points = LANDMARKS[self.landmarks](self.kernel_, X, y, m, seed)
        self._prepare(points, X.dtype)
        return self

    def _learn_kernel(self, X: Any, y: np.ndarray | None, seed: int) -> None:
        if self.gamma != "loo":
            self.kernel_ = resolve_kernel(self.kernel, self.gamma, X, seed)
            return
        if y is None:
            raise ValueError("gamma='loo' leaves out targets: it requires y to be passed")
        kernel = resolve_kernel(self.kernel, "median", X, seed)  # refuses one without gamma
        self.kernel_, self._ridge = kernel_by_left_out(kernel, X, y, seed)

    @property
    def usual_strength(self) -> float:  # type: ignore[override]
        return getattr(self, "_ridge", FeatureMap.usual_strength)

    def _can_stream(self) -> bool:
        if isinstance(self.landmarks, str) and self.landmarks in ("uniform", "entropy"):
            return True
        raise AttributeError(
            "landmarks can be chosen from a stream by 'uniform' or 'entropy', "
            f"not by {self.landmarks!r}"
        )

    @available_if(_can_stream)
    def partial_fit(self, X: Any, y: Any = None) -> Nystroem:
        """Choose landmarks from a stream: "uniform" (a reservoir) or "entropy" (swaps within one).

        The first rows set the width.  Each call may change the map, so transform only after the
        last one.
        """
        first = not hasattr(self, "_stream")
        X = self.checked(X, reset=first)
        if first:
            self.check_options()
            seed = self._seed()
            self.kernel_ = resolve_kernel(self.kernel, self.gamma, X, seed)
            size = subset_size(self.n_components, 10**9)
            # The search for large entropy has so many random rows to choose among as in memory.
            chances = 1 + CHANCES if self.landmarks == "entropy" else 1
            self._stream, self._wanted = Reservoir(chances * size, seed), size
        self._stream.update(X)
        points = self._stream.points
        if self.landmarks == "entropy":
            points = entropy(self.kernel_, points, min(self._wanted, points.shape[0]), self._seed())
        self._prepare(points, X.dtype)
        return self

    def features(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        points, basis = self.ready(X.dtype.str)
        width = basis.projection.shape[1]
        if out is None:
            out = np.empty((X.shape[0], width), dtype=X.dtype)
        for part in blocks(X.shape[0], points.size, elements=1 << 22):
            if basis.triangular:
                basis.apply(points(X[part], out[part]))
            else:
                out[part] = basis.apply(points(X[part]))
        return out

    def fold(self, coef: np.ndarray) -> np.ndarray:
        """beta = W w for every output: (outputs, landmarks)."""
        return np.asarray(coef, dtype=np.float64) @ self.projection_.T

    def scores(self, X: Any, table: np.ndarray) -> np.ndarray:
        points, _ = self.ready(X.dtype.str)
        table = np.ascontiguousarray(table.T, dtype=X.dtype)
        out = np.empty((X.shape[0], table.shape[1]), dtype=np.float64)
        for part in blocks(X.shape[0], points.size):
            out[part] = points(X[part]) @ table
        return out

    @property
    def width(self) -> int:
        return self.projection_.shape[1]

    @property
    def table_width(self) -> int:
        return int(self.landmarks_.shape[0])

    @property
    def size(self) -> int:
        return count_nonzero(self.landmarks_)

    @property
    def serves_all_folds(self) -> bool:
        return not (isinstance(self.landmarks, str) and self.landmarks == "margin")

    @property
    def ignores_kernel(self) -> bool:
        """Whether the landmarks are the same for every kernel."""
        return not isinstance(self.landmarks, str) or self.landmarks in _WITHOUT_KERNEL

    def components(self, wanted: Any, rows: int) -> int:
        return subset_size(wanted, rows)

    def room(self, rows: int) -> Int:
        return landmark_room(rows)

    def work(self, size: int, rows: int) -> float:
        return landmark_work(size, rows)

    def check(self, features: int, width: int) -> None:
        size = check_landmarks(self, features)
        check_numbers("projection_", self.projection_, (size, width))

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        values = onnx_values(graph, self.kernel_, rows, self.landmarks_)
        return graph.add("MatMul", values, graph.constant(table.T.astype(np.float64)))

    # ------------------------------------------------------------ parts

    def check_options(self) -> None:
        super().check_options()
        check_rule(self.landmarks)

    def _given(self, n_features: int) -> Any:
        return self._checked(self.landmarks, n_features)

    def _checked(self, points: Any, n_features: int) -> Any:
        check_compressed(points, "landmarks")
        points = check_array(points, accept_sparse="csr", dtype=[np.float64, np.float32])
        if points.shape[1] != n_features:
            raise ValueError(
                f"the landmarks have {points.shape[1]} features, but the rows {n_features}"
            )
        return points

    def _prepare(self, points: Any, dtype: Any) -> None:
        """Whiten; the jitter is what the kernel values themselves are uncertain by."""
        self.landmarks_ = points.astype(dtype, copy=False)
        jitter = 1e-6 if np.dtype(dtype) == np.float32 else 1e-10
        K = gram(self.kernel_, points.astype(np.float64))
        basis = whitening(0.5 * (K + K.T), jitter, self.tol)
        self.projection_ = basis.projection
        self._cache: dict[str, tuple[Points, Basis]] = {}

    def ready(self, dtype: str) -> tuple[Points, Basis]:
        """Points and basis in a precision; kept between blocks, not pickled."""
        cache = self.__dict__.setdefault("_cache", {})
        if dtype not in cache:
            points = Points(self.kernel_, self.landmarks_, np.dtype(dtype))
            W = self.projection_
            triangular = W.shape[0] == W.shape[1] and not np.any(np.tril(W, -1))
            cache[dtype] = points, Basis(W, triangular).astype(np.dtype(dtype))
        return cache[dtype]

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in super().__getstate__().items() if k != "_cache"}


def check_landmarks(made: Any, features: int) -> int:
    """Their number; ValueError for what cannot be landmarks of so many features."""
    require(isinstance(made.kernel_, Kernel), "kernel_ must be a Kernel")
    made.kernel_.check()
    points = made.landmarks_
    require(np.ndim(points) == 2 or hasattr(points, "indptr"), "landmarks_ must be a matrix")
    check_numbers("landmarks_", points, (points.shape[0], features))
    return int(points.shape[0])


class Reservoir:
    """A uniform sample of the rows of a stream, whatever its length (Vitter's algorithm R)."""

    def __init__(self, size: int, seed: int):
        self.size, self.seed, self.seen = size, seed, 0
        self.points: Any = None

    def update(self, X: Any) -> None:
        start = self.seen
        self.seen += X.shape[0]
        taken = min(max(self.size - start, 0), X.shape[0])
        if taken:
            self.points = X[:taken] if self.points is None else stack(self.points, X[:taken])
        if taken == X.shape[0]:
            return
        number = np.arange(start + taken, self.seen)
        place = _places(self.seed, number)
        chosen = np.flatnonzero(place < self.size)
        members = np.arange(self.size)
        members[place[chosen]] = self.size + taken + chosen  # of several, the last stays
        self.points = stack(self.points, X)[members]


def _places(seed: int, number: np.ndarray) -> np.ndarray:
    """Row t goes to a random place among t + 1: each row's draw is named by its number."""
    u = np.array([uniform(seed, int(t), 0) for t in number])
    return (u * (number + 1)).astype(np.int64)
