r"""Where the weights of kernels live: sets of :math:`\theta \ge 0, \sum_q g(\theta_q) \le 1`.

=====================  ==============================  ============================================
set                    g                               kernels that are chosen
=====================  ==============================  ============================================
``ElasticNetBall(v)``  v t + (1 - v) t^2               few; alike ones together, unless v = 1 (l1)
``NormBall(p)``        t^p, p > 1                      all of them
=====================  ==============================  ============================================

Everything that multiple kernel learning asks of a set has a closed form or is one monotone
equation: the best weights for given quadratic forms s, their value (the support function
:math:`\sigma(s) = \max_{\theta \in \Theta} \theta's`), the nearest point, equal weights, and the
weights that balance block norms.

For v < 1, with h = v / (2 (1 - v)), both the best weights for s and the projection of z lie on the
curve max(b u - h, 0), u = s and u = z + h; the number of weights that are not zero follows from one
sort, and b from the constraint.

Reference: Yang, Xu, Ye, King and Lyu, Efficient sparse generalized multiple kernel learning (2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["ElasticNetBall", "KernelBall", "NormBall", "simplex_projection"]

_SIMPLEX = 1e-6  # so close to v = 1 the ball is taken as the simplex: beyond, digits are lost
_NEWTON = 60  # steps at most, of equations that Newton's method solves from one side


class KernelBall(Protocol):
    """A set of kernel weights; see the module's text."""

    def value(self, weights: np.ndarray) -> float:
        """sum_q g(theta_q): at most one within the set."""

    def slope(self, weights: np.ndarray) -> np.ndarray:
        """g' of every weight."""

    def bend(self, weights: np.ndarray) -> np.ndarray:
        """g'' of every weight."""

    def start(self, count: int) -> np.ndarray:
        """Equal weights, as large as they may be."""

    def best(self, forms: np.ndarray) -> np.ndarray:
        """The weights with the largest sum theta's; zeros where no form is positive."""

    def project(self, point: np.ndarray) -> np.ndarray:
        """The nearest weights."""

    def balanced(self, norms: np.ndarray) -> np.ndarray:
        """The weights with the least sum of norms_q / theta_q."""


@dataclass(frozen=True)
class ElasticNetBall:
    """theta >= 0 with v ||theta||_1 + (1 - v) ||theta||_2^2 <= 1.

    Parameters
    ----------
    v : float, default=0.5
        From 0 (l2: no weight is zero) to 1 (l1: the fewest kernels).

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.solvers.kernel_balls import ElasticNetBall
    >>> ElasticNetBall(0.5).best(np.array([3.0, 3.0, 0.5]))
    array([0.61803399, 0.61803399, 0.        ])
    """

    v: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.v <= 1.0:
            raise ValueError(f"v must lie in 0 .. 1, got {self.v!r}")

    @property
    def _is_simplex(self) -> bool:
        return self.v > 1.0 - _SIMPLEX

    def value(self, weights: np.ndarray) -> float:
        return float(np.sum(self.v * weights + (1.0 - self.v) * weights**2))

    def slope(self, weights: np.ndarray) -> np.ndarray:
        return self.v + 2.0 * (1.0 - self.v) * weights

    def bend(self, weights: np.ndarray) -> np.ndarray:
        return np.full(weights.shape, 2.0 * (1.0 - self.v))

    def start(self, count: int) -> np.ndarray:
        v, rest = self.v, (1.0 - self.v) * count
        # The positive root of rest c^2 + v count c = 1, in the form that loses no digits.
        c = 2.0 / (v * count + math.sqrt((v * count) ** 2 + 4.0 * rest))
        return np.full(count, c)

    def best(self, forms: np.ndarray) -> np.ndarray:
        largest = float(np.max(forms, initial=0.0))
        if not largest > 0.0:
            return np.zeros(forms.size)
        if self._is_simplex:  # equal kernels share
            top = forms >= largest * (1.0 - 1e-12)
            return top / np.count_nonzero(top)
        return self._tight(forms)

    def project(self, point: np.ndarray) -> np.ndarray:
        inside = np.maximum(point, 0.0)
        if self.value(inside) <= 1.0:
            return inside
        if self._is_simplex:
            return simplex_projection(point)
        return self._tight(point + self._offset)

    @property
    def _offset(self) -> float:
        return 0.5 * self.v / (1.0 - self.v)

    def _tight(self, u: np.ndarray) -> np.ndarray:
        """max(b u - h, 0) with b such that the constraint holds with equality.

        The largest must be positive; it is made one, so that no square overflows.
        """
        h, u = self._offset, u / u.max()
        falling = -np.sort(-u)
        m = np.arange(1, u.size + 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.sqrt((1.0 / (1.0 - self.v) + m * h * h) / np.cumsum(falling**2))
            fits = (falling > 0.0) & (b * falling > h)
        last = int(np.flatnonzero(fits)[-1])
        return np.maximum(b[last] * u - h, 0.0)

    def balanced(self, norms: np.ndarray) -> np.ndarray:
        sizes = _scaled(norms)
        if self._is_simplex:
            out = np.sqrt(sizes)
            return out / out.sum()
        if self.v == 0.0:
            out = np.cbrt(sizes)
            return out / np.linalg.norm(out)

        def excess(log_factor: float) -> float:
            return self.value(self._stationary(sizes * math.exp(log_factor))) - 1.0

        return self.project(self._stationary(sizes * math.exp(_root(excess))))

    def _stationary(self, right: np.ndarray) -> np.ndarray:
        """The t >= 0 with 2 (1 - v) t^3 + v t^2 = right, by Newton's method from above."""
        cubic, square = 2.0 * (1.0 - self.v), self.v
        t = np.minimum(np.cbrt(right / cubic), np.sqrt(right / square))
        for _ in range(_NEWTON):
            slope = 3.0 * cubic * t**2 + 2.0 * square * t
            step = (cubic * t**3 + square * t**2 - right) / np.where(slope > 0.0, slope, 1.0)
            t = np.maximum(t - step, 0.0)
            if np.all(np.abs(step) <= 1e-15 * t):
                break
        return t


@dataclass(frozen=True)
class NormBall:
    """theta >= 0 with ||theta||_p <= 1.

    Parameters
    ----------
    p : float, default=2.0
        Above 1; the larger, the more equal the weights.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.solvers.kernel_balls import NormBall
    >>> NormBall(2.0).best(np.array([3.0, 4.0]))
    array([0.6, 0.8])
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        if not 1.0 < self.p < math.inf:
            raise ValueError(f"p must be a number above 1, got {self.p!r}; p = 1 is v = 1")

    def value(self, weights: np.ndarray) -> float:
        return float(np.sum(weights**self.p))

    def slope(self, weights: np.ndarray) -> np.ndarray:
        return self.p * weights ** (self.p - 1.0)

    def bend(self, weights: np.ndarray) -> np.ndarray:
        return self.p * (self.p - 1.0) * np.maximum(weights, 1e-12) ** (self.p - 2.0)

    def start(self, count: int) -> np.ndarray:
        return np.full(count, count ** (-1.0 / self.p))

    def best(self, forms: np.ndarray) -> np.ndarray:
        largest = float(np.max(forms, initial=0.0))
        if not largest > 0.0:
            return np.zeros(forms.size)
        return self._on_sphere((np.maximum(forms, 0.0) / largest) ** (1.0 / (self.p - 1.0)))

    def project(self, point: np.ndarray) -> np.ndarray:
        inside = np.maximum(point, 0.0)
        if self.value(inside) <= 1.0:
            return inside

        def excess(log_multiplier: float) -> float:
            return self.value(self._pulled(inside, math.exp(log_multiplier))) - 1.0

        return self._on_sphere(self._pulled(inside, math.exp(_root(excess))))

    def _pulled(self, point: np.ndarray, multiplier: float) -> np.ndarray:
        """The t >= 0 with t + multiplier p t^(p - 1) = point.

        Newton's method from above, in t or in t^(p - 1), whichever has the convex equation.
        """
        c, flat = multiplier * self.p, self.p < 2.0
        power = 1.0 / (self.p - 1.0) if flat else self.p - 1.0
        line, curve = (c, 1.0) if flat else (1.0, c)  # line y + curve y^power = point
        y = np.minimum(point / line, (point / curve) ** (1.0 / power))
        for _ in range(_NEWTON):
            slope = line + curve * power * y ** (power - 1.0)
            step = (line * y + curve * y**power - point) / slope
            y = np.maximum(y - step, 0.0)
            if np.all(np.abs(step) <= 1e-15 * y):
                break
        return y**power if flat else y

    def balanced(self, norms: np.ndarray) -> np.ndarray:
        return self._on_sphere(_scaled(norms) ** (1.0 / (self.p + 1.0)))

    def _on_sphere(self, weights: np.ndarray) -> np.ndarray:
        weights = weights / weights.max()
        return weights / float(np.sum(weights**self.p)) ** (1.0 / self.p)


def simplex_projection(point: np.ndarray) -> np.ndarray:
    """The nearest point with non-negative coordinates that add up to one, by one sort."""
    falling = -np.sort(-point)
    excess = np.cumsum(falling) - 1.0
    last = int(np.flatnonzero(falling * np.arange(1, point.size + 1) > excess)[-1])
    return np.maximum(point - excess[last] / (last + 1), 0.0)


def _scaled(norms: np.ndarray) -> np.ndarray:
    largest = float(np.max(norms, initial=0.0))
    if not largest > 0.0:
        raise ValueError("all blocks are zero: there are no weights that balance them")
    return np.maximum(norms, 0.0) / largest


def _root(excess: Callable[[float], float]) -> float:
    """Where a monotone function changes its sign."""
    from scipy.optimize import brentq  # slow to import

    low, high = -1.0, 1.0
    while excess(low) * excess(high) > 0.0 and high < 600.0:
        low, high = 2.0 * low, 2.0 * high
    return float(brentq(excess, low, high, rtol=1e-14))
