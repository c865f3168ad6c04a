r"""Kernels that rows without labels have bent: near along the data means near.

With features phi of a kernel, :math:`\Omega_{ij} = \varphi_i\cdot\varphi_j`, and a symmetric matrix
M that says what is expected of a function :math:`f = w\cdot\varphi` on all rows,

.. math:: \tfrac12\|w\|^2 + \tfrac12 f'Mf = \tfrac12 w'(I + \Phi'M\Phi)w

is the squared norm of f in another space, whose kernel is

.. math:: \tilde k(x, z) = \varphi(x)'(I + \Phi'M\Phi)^{-1}\varphi(z).

So a machine that learns from few labels and many rows is one that learns from the labels alone,
with this kernel: a *section* is the function :math:`\tilde k(x_l, \cdot)` of a labelled row.  Who
hides some of the labels has the same sections, of fewer rows.

- *By degrees*, :math:`M = -\gamma D^{-1}`, D the diagonal matrix of :math:`d_i = \sum_j
  \Omega_{ij}`: kernel spectral clustering, which wants :math:`\sum_i f_i^2 / d_i` large.  Without
  negative kernel values :math:`0 \le \sum_i f_i^2/d_i \le \|w\|^2`, so that :math:`\gamma < 1` is
  convex; and :math:`(I - \gamma D^{-1}\Omega)^{-1} = \sum_k \gamma^k (D^{-1}\Omega)^k` is a random
  walk of :math:`\gamma / (1 - \gamma)` steps on average.
- *By a graph*, :math:`M = c L` with the Laplacian L: manifold regularisation.

*Centred*, features are taken from their mean with the weights 1/d, which is what a bias outside of
the norm comes to: the largest eigenvalue 1, of a function that is the same everywhere, goes away,
and gamma may grow until the first function that tells clusters apart costs nothing.

In the space of all rows (:class:`GramSpace`) a section has a coefficient for every row:
:math:`F = (I + \Omega M)^{-1}\Omega_l` are the values of the sections on all rows and
:math:`E_l - MF` their coefficients.  One factorisation, O(n^3), and memory for two kernel matrices.
In that of some landmarks' features Z (:class:`FeatureSpace`) they are weights,
:math:`(I + Z'MZ)^{-1}Z_l'`: O(n m^2), in passes over blocks of Z.  With all rows as landmarks the
two are the same.

References: Sindhwani, Niyogi and Belkin, Beyond the point cloud (2005); Alzate and Suykens, A
semi-supervised formulation to binary kernel spectral clustering (2012).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import (
    LinAlgError,
    LinAlgWarning,
    cho_factor,
    cho_solve,
    lu_factor,
    lu_solve,
    solve,
)
from scipy.sparse.linalg import LinearOperator, eigsh

__all__ = ["FeatureSpace", "GramSpace", "Sections"]

_SMALL = 400  # matrices whose eigenvalues are simply computed
_TINY = 1e-6  # of likeness, is none
_SINGULAR = 1e-12  # of the identity that every system has, left in a direction
_ON_THE_EDGE = (
    "unlabelled lies where the problem ceases to be convex and has no single solution (1, in its "
    "units): give less, such as 0.9, or more"
)
_LONELY = (
    "every row is like no other: no kernel value of two rows is positive; use a wider kernel (a "
    "smaller gamma), or one without negative values"
)


class Sections(NamedTuple):
    """The functions of the labelled rows in a deformed kernel.

    ``weights`` has a column for each, of coefficients of all rows or of weights of features;
    ``values`` are those of the labelled rows on each other.
    """

    weights: np.ndarray
    values: np.ndarray


class GramSpace:
    """Functions are sums of kernel values over all rows.

    Parameters
    ----------
    K : array of shape (n, n)
        The kernel matrix; :meth:`centre` changes it.
    known : int array
        The labelled rows.
    weight : array of shape (n,)
        A row of weight k is k rows.

    Attributes
    ----------
    shares : array of shape (n,)
        weight / d.
    alone : int
        Rows that are like no other.

    Examples
    --------
    Two pairs of rows, a label for one of each:

    >>> import numpy as np
    >>> from thresher.solvers.deformed import GramSpace
    >>> K = np.kron(np.eye(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> space = GramSpace(K, np.array([0, 2]), np.ones(4))
    >>> space.by_degrees(0.9).values.round(3).tolist()
    [[7.857, 0.0], [0.0, 7.857]]
    """

    def __init__(self, K: np.ndarray, known: np.ndarray, weight: np.ndarray):
        self.K, self.known = K, known
        degrees = K @ weight
        wrong = np.flatnonzero(~(degrees > 0.0))
        if wrong.size:
            row = int(wrong[0])
            raise ValueError(
                f"row {row} has the degree {degrees[row]:.3g}, the sum of its kernel values: rows "
                "are like no other by such a kernel; use one without negative values, such as "
                "'rbf', or a wider one"
            )
        self.degrees, self.weight = degrees, weight
        self.shares = weight / degrees
        # The diagonal is the likeness of a row to itself; of k such rows, one is it.
        self.alone = int(np.count_nonzero(degrees - np.diag(K) <= _TINY * degrees))
        if self.alone == degrees.size:
            raise ValueError(_LONELY)
        self._mean: tuple[np.ndarray, np.ndarray] | None = None
        self._limit: float | None = None

    @property
    def mass(self) -> float:
        """The sum of the shares."""
        return float(self.shares.sum())

    def centre(self) -> None:
        """Take the mean, weighted by the shares, from all features."""
        share = self.shares / self.mass
        own = self.K @ share
        self.K -= own
        self.K -= own[:, None]
        self.K += float(share @ own)
        self._mean, self._limit = (share, own), None

    def limit(self) -> float:
        """The gamma below which :meth:`by_degrees` is convex."""
        if self._limit is None:
            self._limit = _inverse(self._top())
        return self._limit

    def _top(self) -> float:
        """The largest eigenvalue of the kernel in units of the roots of the degrees."""
        root = np.sqrt(self.shares)
        n = root.size
        if n <= _SMALL:
            return float(np.linalg.eigvalsh(self._normal(1.0))[-1])
        operator = LinearOperator((n, n), lambda v: root * (self.K @ (root * v.ravel())))
        start = np.random.default_rng(0).normal(size=n)
        top = eigsh(operator, 1, which="LA", tol=1e-3, v0=start, return_eigenvectors=False)
        return float(top[0])

    def by_degrees(self, gamma: float) -> Sections:
        """The sections for M = -gamma / D; beyond the limit those of a stationary point."""
        columns = self.K[:, self.known]
        root = np.sqrt(self.shares)[:, None]
        F = _solved(lambda: _plus_one(self._normal(-gamma)), root * columns) / root
        return self._sections(F, -gamma * self.shares[:, None] * F)

    def by_graph(self, laplacian: Any, strength: float) -> Sections:
        """The sections for M = strength times a sparse Laplacian of all rows."""
        system = np.asarray(laplacian @ self.K)
        system *= strength
        factor = lu_factor(_plus_one(system).T, overwrite_a=True, check_finite=False)
        F = lu_solve(factor, self.K[:, self.known], check_finite=False)
        return self._sections(F, strength * (laplacian @ F))

    def by_own_graph(self, strength: float) -> Sections:
        """The same where kernel values are the weights of the graph."""
        w = self.weight
        scale = strength / float(w @ self.degrees)
        laplacian = self.K * (-scale * w)
        laplacian *= w[:, None]
        laplacian[np.diag_indices_from(laplacian)] += scale * w * self.degrees
        return self.by_graph(laplacian, 1.0)

    def function(self, weights: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, rows) and (outputs,): of features as they were before they were centred."""
        if self._mean is None:
            return weights.T.copy(), intercept
        share, own = self._mean
        inner = weights - np.outer(share, weights.sum(axis=0))
        return inner.T.copy(), intercept - own @ inner

    def _normal(self, factor: float) -> np.ndarray:
        """The kernel in units of the roots of the degrees, times a factor."""
        root = np.sqrt(self.shares)
        out = self.K * (factor * root)
        out *= root[:, None]
        return out

    def _sections(self, F: np.ndarray, MF: np.ndarray) -> Sections:
        weights = -MF
        weights[self.known, np.arange(self.known.size)] += 1.0
        values = F[self.known]
        return Sections(weights, 0.5 * (values + values.T))


class FeatureSpace:
    """Functions are linear in features of landmarks.

    Parameters
    ----------
    blocks : callable
        Gives (slice of rows, their features) over all rows, whenever it is called.
    known : array of shape (labelled, m)
        Features of the labelled rows.
    weight : array of shape (n,)
        A row of weight k is k rows.

    Attributes
    ----------
    alone : int
        Rows that are like no other; they have no say.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.solvers.deformed import FeatureSpace
    >>> Z = np.abs(np.random.default_rng(0).normal(size=(50, 3)))
    >>> space = FeatureSpace(lambda: [(slice(0, 50), Z)], Z[:4], np.ones(50))
    >>> space.by_degrees(0.5).values.shape, round(space.limit(), 6)
    ((4, 4), 1.0)
    """

    def __init__(
        self, blocks: Callable[[], Iterator[tuple[slice, np.ndarray]]], known: np.ndarray,
        weight: np.ndarray,
    ):  # fmt: skip
        self._blocks, self.known, self.weight = blocks, known.astype(np.float64), weight
        m = known.shape[1]
        total, likeness = np.zeros(m), 0.0
        for part, Z in blocks():
            total += weight[part] @ Z
            likeness = max(likeness, float(np.max(_squares(Z), initial=0.0)))
        self._total, least = total, _TINY * likeness
        self.mass, self.alone = 0.0, 0
        self._moments, mean = np.zeros((m, m)), np.zeros(m)
        for part, Z in blocks():
            Z = Z.astype(np.float64)
            degrees, own = Z @ total, weight[part]
            itself = _squares(Z)
            self.alone += int(np.count_nonzero(degrees - itself <= least))
            # Landmarks may miss a row: its degree is then less than its own part of it.
            counts = (degrees > least) & (degrees > (1.0 - _TINY) * itself)
            shares = np.where(counts, own / np.where(counts, degrees, 1.0), 0.0)
            self.mass += float(shares.sum())
            mean += shares @ Z
            self._moments += (Z * shares[:, None]).T @ Z
        if self.alone == weight.size or not self.mass > 0.0:
            raise ValueError(_LONELY)
        self._own_mean, self._mean = mean / self.mass, np.zeros(m)

    def centre(self) -> None:
        """Take the mean, weighted by 1/d, from all features."""
        self._mean = self._own_mean
        self._moments -= self.mass * np.outer(self._mean, self._mean)

    def limit(self) -> float:
        """The gamma below which :meth:`by_degrees` is convex."""
        return _inverse(float(np.linalg.eigvalsh(self._moments)[-1]))

    def by_degrees(self, gamma: float) -> Sections:
        """The sections for M = -gamma / D; beyond the limit those of a stationary point."""
        return self._sections(-gamma * self._moments)

    def by_graph(self, laplacian: Any, strength: float) -> Sections:
        """The sections for M = strength times a sparse Laplacian of all rows."""
        Z = np.concatenate([block for _, block in self._blocks()])
        return self._sections(strength * (Z.T @ (laplacian @ Z)))

    def by_own_graph(self, strength: float) -> Sections:
        """The same where kernel values are the weights of the graph."""
        m = self._mean.size
        flow, second, volume = np.zeros((m, m)), np.zeros((m, m)), 0.0
        for part, Z in self._blocks():
            Z, own = Z.astype(np.float64), self.weight[part]
            degrees = own * np.maximum(Z @ self._total, 0.0)
            volume += float(degrees.sum())
            flow += (Z * degrees[:, None]).T @ Z
            second += (Z * own[:, None]).T @ Z
        return self._sections((strength / volume) * (flow - second @ second))

    def function(self, weights: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, features) and (outputs,): of features before they were centred."""
        return weights.T.copy(), intercept - self._mean @ weights

    def _sections(self, system: np.ndarray) -> Sections:
        known = self.known - self._mean
        weights = _solved(lambda: _plus_one(0.5 * (system + system.T)), known.T)
        values = known @ weights
        return Sections(weights, 0.5 * (values + values.T))


def _solved(system: Callable[[], np.ndarray], right: np.ndarray) -> np.ndarray:
    """By Cholesky where the system is positive definite, or else it is made again.

    A ValueError where it is singular: at the very edge of what is convex.
    """
    try:  # in LAPACK's order, for a symmetric matrix the same, nothing is copied
        factor = cho_factor(system().T, overwrite_a=True, check_finite=False)
        if float(np.min(np.diagonal(factor[0]))) ** 2 > _SINGULAR:
            return cho_solve(factor, right, check_finite=False)
        raise ValueError(_ON_THE_EDGE)
    except LinAlgError:
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", LinAlgWarning)
            return solve(system().T, right, assume_a="sym", overwrite_a=True, check_finite=False)
    except (LinAlgError, LinAlgWarning):
        raise ValueError(_ON_THE_EDGE) from None


def _squares(Z: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", Z, Z)


def _plus_one(system: np.ndarray) -> np.ndarray:
    """The identity added, in place."""
    system[np.diag_indices_from(system)] += 1.0
    return system


def _inverse(value: float) -> float:
    return 1.0 / value if value > 1e-12 else 1e12
