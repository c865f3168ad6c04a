r"""One Gaussian of several: the mean under symmetrised Kullback-Leibler divergence.

.. math:: \min_{\mu, S}\; \sum_m p_m \tfrac12 \bigl[\mathrm{KL}(N \| N_m) +
          \mathrm{KL}(N_m \| N)\bigr], \qquad N = N(\mu, S),\; N_m = N(\mu_m, S_m)

The logarithms of the determinants cancel, and what is left is jointly convex.  With the precisions
:math:`P_m = S_m^{-1}` its stationary point is

.. math:: (S^{-1} + A)\,\mu = \sum_m p_m (S^{-1} + P_m)\,\mu_m, \qquad S A S = B, \\
          A = \sum_m p_m P_m, \qquad B = \sum_m p_m \bigl(S_m + (\mu-\mu_m)(\mu-\mu_m)'\bigr)

The Riccati equation is solved by the geometric mean of A^-1 and B: with A = U'U,

.. math:: S = U^{-1} (U B U')^{1/2} U^{-T}

(the square root of the whole matrix; taking it of U and B apart, as is sometimes printed, is right
only where they commute).  Of diagonal covariances s_j = sqrt(b_j / a_j).  mu and S take turns until
they rest.

Both equations depend on the Gaussians through five sums alone: of the weights, of P, P mu, mu and
S + mu mu'.  So shards send sums, sums are added in any order and along any tree, and thousands of
shards need no more memory than one (:class:`GaussianSums`).  Means are counted from a common
origin, near all of them, so that B does not cancel.

Djuric (2014), PhD thesis, Temple University, section 6.4, corrected as above.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, eigh, solve, solve_triangular

__all__ = ["Gaussian", "GaussianSums", "inverse"]

_TOLERANCE, _MOST_TURNS = 1e-12, 200


class Gaussian(NamedTuple):
    """``covariance`` is a matrix, or a vector if it is diagonal."""

    mean: np.ndarray
    covariance: np.ndarray


class GaussianSums(NamedTuple):
    """What symmetrised divergences ask of any number of Gaussians; means are less ``origin``."""

    origin: np.ndarray
    weight: float
    precision: np.ndarray  # sum w P
    natural: np.ndarray  # sum w P (mu - origin)
    mean: np.ndarray  # sum w (mu - origin)
    second: np.ndarray  # sum w (S + (mu - origin)(mu - origin)')

    @classmethod
    def of(cls, gaussian: Gaussian, weight: float, origin: np.ndarray) -> GaussianSums:
        """Those of one: what a shard sends."""
        away, covariance = gaussian.mean - origin, gaussian.covariance
        precision = inverse(covariance)
        natural = _times(precision, away)
        second = covariance + _square(away, covariance)
        return cls(origin, weight, weight * precision, weight * natural, weight * away,
                   weight * second)  # fmt: skip

    def plus(self, other: GaussianSums) -> GaussianSums:
        """Of both; they count from the same origin."""
        return GaussianSums(
            self.origin, self.weight + other.weight, self.precision + other.precision,
            self.natural + other.natural, self.mean + other.mean, self.second + other.second,
        )  # fmt: skip

    def centre(self) -> Gaussian:
        """The Gaussian nearest to all."""
        a, natural = self.precision / self.weight, self.natural / self.weight
        mean, second = self.mean / self.weight, self.second / self.weight
        mu = mean
        for _ in range(_MOST_TURNS):
            spread = second - _cross(mu, mean, second) + _square(mu, second)
            covariance = _geometric_mean(a, spread)
            precision = inverse(covariance)
            before, mu = mu, _solved(precision + a, _times(precision, mean) + natural)
            if np.max(np.abs(mu - before)) <= _TOLERANCE * max(float(np.max(np.abs(mu))), 1e-300):
                break
        return Gaussian(self.origin + mu, covariance)


def inverse(covariance: np.ndarray) -> np.ndarray:
    """Of a positive definite matrix, exactly symmetric, or of a diagonal."""
    if covariance.ndim == 1:
        return 1.0 / covariance
    # In units in which the diagonal is one: columns of very different sizes lose no digits.
    unit = 1.0 / np.sqrt(np.diag(covariance))
    factor = cholesky(covariance * unit[:, None] * unit, lower=True)
    half = solve_triangular(factor, np.diag(unit), lower=True)
    return half.T @ half


def _geometric_mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The solution S of S a S = b."""
    if a.ndim == 1:
        return np.sqrt(b / a)
    upper = cholesky(a)  # a = upper' upper
    values, vectors = eigh(upper @ b @ upper.T)
    half = solve_triangular(upper, vectors * np.maximum(values, 0.0) ** 0.25)
    return half @ half.T


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return matrix * vector if matrix.ndim == 1 else matrix @ vector


def _solved(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return vector / matrix if matrix.ndim == 1 else solve(matrix, vector, assume_a="pos")


def _square(vector: np.ndarray, like: np.ndarray) -> np.ndarray:
    return vector * vector if like.ndim == 1 else np.outer(vector, vector)


def _cross(a: np.ndarray, b: np.ndarray, like: np.ndarray) -> np.ndarray:
    return 2.0 * a * b if like.ndim == 1 else np.outer(a, b) + np.outer(b, a)
