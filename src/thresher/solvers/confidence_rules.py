r"""Rules of confidence-weighted learning: how far a row moves the mean, and what it says.

The belief over weights is a Gaussian N(mu, S), so that the margin of a row is N(m, v) with
m = y mu.x and v = x'Sx.  Every rule makes the smallest change of belief, in Kullback-Leibler
divergence, that does justice to the row, and all have the same form:

.. math:: \mu \leftarrow \mu + \text{move}\; S x, \qquad
          S^{-1} \leftarrow S^{-1} + \text{gain}\; xx'

with the old S in the first.  Only the two numbers differ, so that a rule is a term with one method,
and every form of S learns by every rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import ndtri

from thresher._terms import Term

__all__ = ["AROW", "CW", "SCW", "Recursive", "Rule"]

_DIGITS = 1e-11  # eps^(2/3): a smaller x'Sx is less than the errors that one like it leaves in S
_CERTAIN = 1e-100  # rows that contradict each other make variances vanish: then nothing moves


class Rule(Term):
    """Protocol of a rule: a frozen dataclass with ``step``; its other methods may be left out.

    ==========================================  ====================================================
    ``step(y, score, variance, weight)``        (move, gain) for a row of this target, whose score
                                                has this mean and variance; (0, 0): nothing changes
    ``rests(y, score)``                         nothing changes, whatever the variance
    ``error(y, score)``                         what the noise is measured by: by default how much
                                                the margin is short of one
    ``spread_factor(noise)``                    see ``confidence.py``: by default one
    ==========================================  ====================================================

    Targets of classes are -1 and +1.  ``certain`` is the part of a row's first variance below which
    nothing more is learned from rows like it, where the covariance is kept as a matrix: what is
    left of it is a difference, and only rules with a noise of their own do not divide by it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher.solvers.confidence_rules import Rule
    >>> @dataclass(frozen=True)
    ... class Perceptron(Rule):
    ...     def step(self, y, score, variance, weight):
    ...         return (weight * y if y * score <= 0.0 else 0.0), 0.0
    >>> Perceptron().step(1.0, -0.5, 1.0, 2.0)
    (2.0, 0.0)
    """

    certain = 0.0

    def step(self, y, score, variance, weight):
        raise NotImplementedError

    def rests(self, y, score):
        return False

    def error(self, y, score):
        return max(0.0, 1.0 - y * score)

    def spread_factor(self, noise: float) -> float:
        """What variances are multiplied by when they are told, the mean squared error known."""
        return 1.0


@dataclass(frozen=True)
class AROW(Rule):
    r"""Adaptive regularisation of weights: squared hinge loss against loss of confidence.

    .. math:: \min_{\mu, S} \mathrm{KL}(\mathrm{new} \,\|\, \mathrm{old}) + \frac1{2r}
              \max(0, 1 - y\,\mu\cdot x)^2 + \frac1{2r} x'Sx

    A row acts where its margin is below one, right or wrong; acting on mistakes only, as is
    sometimes printed, costs several points of accuracy.  A weight divides r.

    Parameters
    ----------
    r : float, default=1.0
        How little one row is believed: the variance of its noise.

    References
    ----------
    Crammer, Kulesza and Dredze (2009), Adaptive regularization of weight vectors, NIPS.

    Examples
    --------
    >>> from thresher.solvers.confidence_rules import AROW
    >>> AROW(r=1.0).step(1.0, 0.0, 1.0, 1.0), AROW().step(1.0, 2.0, 1.0, 1.0)
    ((0.5, 1.0), (0.0, 0.0))
    """

    r: float = 1.0

    def __post_init__(self):
        _check_positive(self, "r")

    def step(self, y, score, variance, weight):
        short = 1.0 - y * score
        if short <= 0.0:
            return 0.0, 0.0
        return y * short / (variance + self.r / weight), weight / self.r

    def rests(self, y, score):
        return y * score >= 1.0

    def spread_factor(self, noise: float) -> float:
        return noise / self.r


@dataclass(frozen=True)
class Recursive(Rule):
    r"""Recursive least squares, AROW for regression: every row acts, by its squared error.

    With full covariance the mean is ridge regression to rounding, of strength r / (prior variance).

    Parameters
    ----------
    r : float, default=1.0
        How little one row is believed: the variance of its noise.

    References
    ----------
    Vaits and Crammer (2011), Re-adapting the regularization of weights for non-stationary
    regression, ALT.

    Examples
    --------
    >>> from thresher.solvers.confidence_rules import Recursive
    >>> Recursive(r=1.0).step(3.0, 1.0, 1.0, 1.0)
    (1.0, 1.0)
    """

    r: float = 1.0

    def __post_init__(self):
        _check_positive(self, "r")

    def step(self, y, score, variance, weight):
        return (y - score) / (variance + self.r / weight), weight / self.r

    def error(self, y, score):
        return y - score

    def spread_factor(self, noise: float) -> float:
        return noise / self.r


@dataclass(frozen=True)
class CW(Rule):
    r"""Confidence-weighted learning: each row becomes right with probability ``confidence``.

    .. math:: \min_{\mu, S} \mathrm{KL}(\mathrm{new} \,\|\, \mathrm{old}) \quad\text{so that}\quad
              y\,\mu\cdot x \ge \phi \sqrt{x'Sx}, \qquad \phi = \Phi^{-1}(\mathrm{confidence})

    in closed form.  One wrong label is believed like any other, so that noise hurts; a row of any
    positive weight must be satisfied.

    Parameters
    ----------
    confidence : float, default=0.9
        Between one half and one.

    References
    ----------
    Crammer, Dredze and Pereira (2009), Exact convex confidence-weighted learning, NIPS.

    Examples
    --------
    >>> from thresher.solvers.confidence_rules import CW
    >>> move, gain = CW(0.9).step(1.0, 0.0, 1.0, 1.0)
    >>> bool(abs(move - 1.28155 * (1.0 / (1.0 + gain)) ** 0.5) < 1e-4)  # the constraint is met
    True
    """

    confidence: float = 0.9
    certain = _DIGITS
    derived = ("phi",)

    def __post_init__(self):
        _set_phi(self)

    def step(self, y, score, variance, weight):
        return _constrained(y, score, variance, self.phi, np.inf)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class SCW(Rule):
    r"""Soft confidence-weighted learning (SCW-I): :class:`CW` whose constraint may be paid off.

    .. math:: \min_{\mu, S} \mathrm{KL}(\mathrm{new} \,\|\, \mathrm{old}) + C \max(0,\;
              \phi \sqrt{x'Sx} - y\,\mu\cdot x)

    A weight multiplies C.

    Parameters
    ----------
    confidence : float, default=0.9
        Between one half and one.
    C : float, default=1.0
        The price: the longest move of the mean.

    References
    ----------
    Wang, Zhao and Hoi (2012), Exact soft confidence-weighted learning, ICML.

    Examples
    --------
    >>> from thresher.solvers.confidence_rules import CW, SCW
    >>> SCW(0.9, C=1e9).step(1.0, 0.0, 1.0, 1.0) == CW(0.9).step(1.0, 0.0, 1.0, 1.0)
    True
    """

    confidence: float = 0.9
    C: float = 1.0
    certain = _DIGITS
    derived = ("phi",)

    def __post_init__(self):
        _set_phi(self)
        _check_positive(self, "C")

    def step(self, y, score, variance, weight):
        phi = self.phi  # type: ignore[attr-defined]
        return _constrained(y, score, variance, phi, weight * self.C)


@njit(cache=True, nogil=True)
def _constrained(y, score, variance, phi, most):
    """The closed form of CW, with a move of at most ``most``."""
    m, v = y * score, variance
    if v < _CERTAIN or m >= phi * math.sqrt(v):
        return 0.0, 0.0
    psi, zeta = 1.0 + 0.5 * phi * phi, 1.0 + phi * phi
    root = math.sqrt(0.25 * m * m * phi**4 + v * phi * phi * zeta)
    move = min((root - m * psi) / (v * zeta), most)
    # The standard deviation of the margin afterwards: the positive root of s^2 + move v phi s = v,
    # written so that nothing cancels.
    half = 0.5 * move * v * phi
    deviation = v / (half + math.sqrt(half * half + v))
    if deviation < _CERTAIN:
        return 0.0, 0.0
    return y * move, move * phi / deviation


def _set_phi(rule) -> None:
    if not 0.5 < rule.confidence < 1.0:
        name = type(rule).__name__
        raise ValueError(f"{name}: confidence must lie between 0.5 and 1, got {rule.confidence}")
    object.__setattr__(rule, "phi", float(ndtri(rule.confidence)))


def _check_positive(rule, name) -> None:
    value = getattr(rule, name)
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"{type(rule).__name__}: {name} must be positive, got {value}")
