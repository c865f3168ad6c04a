"""Penalties that are a sum over the coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thresher.dimensions import Float
from thresher.penalties.base import (
    Penalty,
    RowLevels,
    check_strength,
    check_weights,
    sign,
    weights_misfit,
)

__all__ = ["L1", "L2", "Box", "ElasticNet", "WeightedL1", "WeightedL2"]


@dataclass(frozen=True)
class L2(Penalty):
    """The ridge: strength / 2 ||w||^2.

    Parameters
    ----------
    strength : float, default=1.0

    Examples
    --------
    >>> from thresher.penalties import L2
    >>> L2(0.5).value(-2.0, 0), L2(1.0).prox(3.0, 0.5, 0)
    (1.0, 2.0)
    """

    strength: float = 1.0
    traits = frozenset({"quadratic", "uniform", "lazy"})

    def __post_init__(self):
        check_strength(self)

    @property
    def ridge(self) -> float:
        return self.strength

    def value(self, w, j):
        return 0.5 * self.strength * w * w

    def prox(self, w, step, j):
        return w / (1.0 + step * self.strength)

    def rest(self, w, step, j):
        return w

    def precision(self, j):
        return self.strength

    def subgrad(self, w, j):
        return self.strength * w

    def row_levels(self, n_features: int) -> RowLevels:
        return RowLevels(np.zeros(n_features), np.zeros(n_features), self.strength)


@dataclass(frozen=True)
class L1(Penalty):
    """The lasso: strength ||w||_1, which gives exact zeros.

    Parameters
    ----------
    strength : float, default=1.0

    Examples
    --------
    >>> from thresher.penalties import L1
    >>> L1(0.5).value(-2.0, 0), L1(1.0).prox(3.0, 0.5, 0), L1(1.0).prox(0.25, 0.5, 0)
    (1.0, 2.5, 0.0)
    """

    strength: float = 1.0
    traits = frozenset({"lazy"})

    def __post_init__(self):
        check_strength(self)

    def value(self, w, j):
        return self.strength * abs(w)

    def prox(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength, 0.0), w)

    def rest(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength, 0.0), w)

    def subgrad(self, w, j):
        return self.strength * sign(w)

    def row_levels(self, n_features: int) -> RowLevels:
        return RowLevels(np.zeros(n_features), np.full(n_features, self.strength), 0.0)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """Lasso and ridge: strength (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2).

    Parameters
    ----------
    strength : float, default=1.0
    l1_ratio : float, default=0.5
        Share of the l1 part, within [0, 1].

    Examples
    --------
    >>> from thresher.penalties import ElasticNet
    >>> ElasticNet(2.0, 0.5).value(-2.0, 0), ElasticNet(2.0, 0.5).prox(3.0, 1.0, 0)
    (4.0, 1.0)
    """

    strength: float = 1.0
    l1_ratio: float = 0.5
    space = {"l1_ratio": Float(0.0, 1.0)}
    traits = frozenset({"lazy"})

    def __post_init__(self):
        check_strength(self)
        if not 0.0 <= self.l1_ratio <= 1.0:
            raise ValueError(f"ElasticNet: l1_ratio must lie in [0, 1], got {self.l1_ratio}")

    @property
    def ridge(self) -> float:
        return self.strength * (1.0 - self.l1_ratio)

    def value(self, w, j):
        return self.strength * (self.l1_ratio * abs(w) + 0.5 * (1.0 - self.l1_ratio) * w * w)

    def prox(self, w, step, j):
        return self.rest(w, step, j) / (1.0 + step * self.strength * (1.0 - self.l1_ratio))

    def rest(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength * self.l1_ratio, 0.0), w)

    def subgrad(self, w, j):
        return self.strength * (self.l1_ratio * sign(w) + (1.0 - self.l1_ratio) * w)

    def row_levels(self, n_features: int) -> RowLevels:
        entries = np.full(n_features, self.strength * self.l1_ratio)
        return RowLevels(np.zeros(n_features), entries, self.ridge)


@dataclass(frozen=True, eq=False)
class WeightedL2(Penalty):
    """A ridge for every feature: strength / 2 sum_j weights_j w_j^2.

    Parameters
    ----------
    weights : array of shape (n_features,)
        Numbers of at least 0.
    strength : float, default=1.0

    Examples
    --------
    >>> from thresher.penalties import WeightedL2
    >>> penalty = WeightedL2([1.0, 4.0], 0.5)
    >>> print(penalty.value(2.0, 0), penalty.value(2.0, 1))
    1.0 4.0
    """

    weights: np.ndarray
    strength: float = 1.0
    traits = frozenset({"quadratic"})

    def __post_init__(self):
        check_strength(self)
        check_weights(self)

    def misfit(self, n_features: int) -> str:
        return weights_misfit(self, n_features)

    def value(self, w, j):
        return 0.5 * self.strength * self.weights[j] * w * w

    def prox(self, w, step, j):
        return w / (1.0 + step * self.strength * self.weights[j])

    def precision(self, j):
        return self.strength * self.weights[j]

    def subgrad(self, w, j):
        return self.strength * self.weights[j] * w


@dataclass(frozen=True, eq=False)
class WeightedL1(Penalty):
    """A lasso with a weight for every feature: strength sum_j weights_j |w_j|.

    Parameters
    ----------
    weights : array of shape (n_features,)
        Numbers of at least 0; a feature of weight 0 is not penalised.
    strength : float, default=1.0

    Examples
    --------
    >>> from thresher.penalties import WeightedL1
    >>> penalty = WeightedL1([0.0, 1.0])
    >>> print(penalty.prox(3.0, 0.5, 0), penalty.prox(3.0, 0.5, 1))
    3.0 2.5
    """

    weights: np.ndarray
    strength: float = 1.0
    traits = frozenset({"lazy"})

    def __post_init__(self):
        check_strength(self)
        check_weights(self)

    def misfit(self, n_features: int) -> str:
        return weights_misfit(self, n_features)

    def value(self, w, j):
        return self.strength * self.weights[j] * abs(w)

    def prox(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength * self.weights[j], 0.0), w)

    def rest(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength * self.weights[j], 0.0), w)

    def subgrad(self, w, j):
        return self.strength * self.weights[j] * sign(w)

    def row_levels(self, n_features: int) -> RowLevels:
        return RowLevels(np.zeros(n_features), self.strength * self.weights, 0.0)


@dataclass(frozen=True)
class Box(Penalty):
    """Bounds: zero where low <= w_j <= high, infinite elsewhere; the box must hold zero.

    Parameters
    ----------
    low : float, default=-1.0
    high : float, default=1.0

    Examples
    --------
    >>> from thresher.penalties import Box
    >>> Box(0.0, 2.0).prox(-3.0, 1.0, 0), Box(0.0, 2.0).prox(5.0, 1.0, 0)
    (0.0, 2.0)
    """

    low: float = -1.0
    high: float = 1.0
    traits = frozenset({"lazy"})

    def __post_init__(self):
        if not self.low <= 0.0 <= self.high:
            raise ValueError(f"Box: needs low <= 0 <= high, got [{self.low}, {self.high}]")

    def value(self, w, j):
        return 0.0 if self.low <= w <= self.high else math.inf

    def prox(self, w, step, j):
        return min(max(w, self.low), self.high)

    def rest(self, w, step, j):
        return min(max(w, self.low), self.high)

    def pattern(self, w, j):
        """Which bound the weight lies on, -1 or 1, or 0 between them."""
        return (1.0 if w >= self.high else 0.0) - (1.0 if w <= self.low else 0.0)
