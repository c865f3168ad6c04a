r"""Random Fourier features: a map that needs no data, for streams without end.

.. math:: \phi_j(x) = \sqrt{2/m}\,\cos(\omega_j \cdot x + \theta_j), \qquad
          \theta_j \sim U[0, 2\pi],

the frequencies drawn from the Fourier transform of the kernel: N(0, 2 gamma I) for the Gaussian,
gamma times a multivariate Cauchy vector for exp(-gamma ||x - z||).  Then phi(x).phi(z) has mean
k(x, z) and variance of order 1/m.  (Lee's thesis prints sqrt(1/n) and the reciprocal variance.)
Cost O(d m) a row; at the same m less accurate than landmarks from the data.

``orthogonal=True`` draws the directions of each block of d frequencies orthogonal to each other,
with the same lengths: a smaller variance at the same cost (Yu et al., 2016).

Rahimi and Recht (2007).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from thresher._allowed import FLAG, whole
from thresher._random import generator
from thresher._rows import as_rows
from thresher.dimensions import Int
from thresher.functions.base import check_numbers, count_nonzero, require
from thresher.kernels import RBF, Exponential, Kernel
from thresher.kernels.gram import blocks, inner_products
from thresher.kernels.width import GAMMA, resolve_kernel
from thresher.maps.base import FeatureMap
from thresher.maps.landmarks import landmark_room, landmark_work, subset_size

__all__ = ["FourierFeatures"]

_USUAL = 500


class FourierFeatures(FeatureMap):
    """Random features whose inner products approximate a radial kernel, without landmarks.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Frequencies; "auto": 500.
    kernel : {"rbf", "exponential"} or such a Kernel object, default="rbf"
    gamma : float, "median" or None, default=None
        Width of the kernel; None: the object's own, or "median" for a name.
    orthogonal : bool, default=True
        Orthogonal frequencies: closer to the kernel at the same cost.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    frequencies_ : array of shape (n_features, n_components)
    phases_ : array of shape (n_components,)
    kernel_ : Kernel
        With the width that was used.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from thresher.maps import FourierFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> FourierFeatures(200, random_state=0).fit_transform(X).shape
    (1797, 200)
    """

    allowed = {"n_components": whole(1) | "auto", "gamma": GAMMA, "orthogonal": FLAG}
    state_names = ("frequencies_", "phases_", "kernel_")

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        orthogonal: bool = True,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.orthogonal = orthogonal
        self.random_state = random_state

    def learn(self, X: Any, y: np.ndarray | None = None) -> FourierFeatures:
        wanted = _USUAL if self.n_components == "auto" else self.n_components
        self.check_options()
        seed = self._seed()
        self.kernel_ = resolve_kernel(self.kernel, self.gamma, X, seed)
        rng = generator(seed, 18)
        d, m = X.shape[1], int(wanted)
        directions = _orthogonal(rng, d, m) if self.orthogonal else rng.standard_normal((d, m))
        self.frequencies_ = directions * _spread(self.kernel_, rng, m)
        self.phases_ = rng.uniform(0.0, 2.0 * math.pi, m)
        return self

    def features(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        m = self.frequencies_.shape[1]
        if out is None:
            out = np.empty((X.shape[0], m), dtype=X.dtype)
        frequencies = np.ascontiguousarray(self.frequencies_, dtype=X.dtype)
        phases = self.phases_.astype(X.dtype)
        for part in blocks(X.shape[0], m):
            block = out[part]
            if hasattr(X, "indptr"):
                inner_products(as_rows(X[part]), frequencies, block)
            else:
                np.matmul(X[part], frequencies, out=block)
            block += phases
            np.cos(block, out=block)
            block *= X.dtype.type(math.sqrt(2.0 / m))
        return out

    @property
    def width(self) -> int:
        return self.frequencies_.shape[1]

    @property
    def size(self) -> int:
        return count_nonzero(self.frequencies_) + count_nonzero(self.phases_)

    def components(self, wanted: Any, rows: int) -> int:
        return _USUAL if wanted == "auto" else subset_size(wanted, rows)

    def room(self, rows: int) -> Int:
        return landmark_room(rows)

    def work(self, size: int, rows: int) -> float:
        return landmark_work(size, rows)

    @property
    def serves_all_folds(self) -> bool:
        return True

    def check(self, features: int, width: int) -> None:
        require(isinstance(self.kernel_, Kernel), "kernel_ must be a Kernel")
        self.kernel_.check()
        check_numbers("frequencies_", self.frequencies_, (features, width))
        check_numbers("phases_", self.phases_, (width,))

    def to_onnx(self, graph: Any, rows: str, table: np.ndarray) -> str:
        turns = graph.add("MatMul", rows, graph.constant(self.frequencies_))
        # ONNX runtimes know the sine of doubles more often than the cosine.
        phases = graph.constant(self.phases_ + math.pi / 2)
        waves = graph.add("Sin", graph.add("Add", turns, phases))
        weights = np.asarray(table, dtype=np.float64).T * math.sqrt(2.0 / self.phases_.size)
        return graph.add("MatMul", waves, graph.constant(weights))


def _spread(kernel: Kernel, rng: np.random.Generator, m: int) -> Any:
    """What standard normal directions are multiplied by to be the kernel's frequencies."""
    if isinstance(kernel, RBF):
        return math.sqrt(2.0 * kernel.gamma)
    if isinstance(kernel, Exponential):
        return kernel.gamma / np.abs(rng.standard_normal(m))
    raise ValueError(
        f"the Fourier transform of kernel {type(kernel).__name__} is not known here: use 'rbf' or "
        "'exponential', or map='nystroem', which takes any kernel"
    )


def _orthogonal(rng: np.random.Generator, d: int, m: int) -> np.ndarray:
    """Columns with the lengths of normal vectors, orthogonal within each block of d of them."""
    if d > 2000:  # random directions in so many dimensions are nearly orthogonal anyway
        return rng.standard_normal((d, m))
    columns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(-(-m // d))]
    lengths = np.sqrt(rng.chisquare(d, m))
    return np.hstack(columns)[:, :m] * lengths
