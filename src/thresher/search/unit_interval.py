"""Parameters as numbers between 0 and 1, whatever their ranges, scales and steps.

A float is placed linearly or, if its distribution says so, by its logarithm.  A stepped or whole
number owns a cell of equal width around it, so that all of them are equally likely; so does each
choice of a categorical.
"""

from __future__ import annotations

import math
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

__all__ = ["from_unit", "is_numeric", "reflect", "to_unit"]


def is_numeric(distribution: BaseDistribution) -> bool:
    """Whether neighbouring points of the unit interval are neighbouring values."""
    return isinstance(distribution, (FloatDistribution, IntDistribution))


def from_unit(distribution: BaseDistribution, u: float) -> Any:
    """The value at ``u`` in [0, 1]."""
    u = min(max(float(u), 0.0), 1.0)
    if isinstance(distribution, CategoricalDistribution):
        k = len(distribution.choices)
        return distribution.choices[min(int(u * k), k - 1)]
    low, high = _ends(distribution)
    value = low + u * (high - low)
    if distribution.log:  # type: ignore[attr-defined]
        value = math.exp(value)
    if isinstance(distribution, IntDistribution):
        first, last, step = distribution.low, distribution.high, distribution.step
        return min(max(first + step * round((value - first) / step), first), last)
    assert isinstance(distribution, FloatDistribution)
    if distribution.step is not None:
        value = distribution.low + distribution.step * round(
            (value - distribution.low) / distribution.step
        )
    return min(max(value, distribution.low), distribution.high)


def to_unit(distribution: BaseDistribution, value: Any) -> float:
    """Where ``value`` lies in [0, 1]; values outside the range (narrowed since) go to its ends."""
    if isinstance(distribution, CategoricalDistribution):
        k = len(distribution.choices)
        return (distribution.to_internal_repr(value) + 0.5) / k
    low, high = _ends(distribution)
    if high <= low:
        return 0.5
    if distribution.log:  # type: ignore[attr-defined]
        value = math.log(value) if value > 0 else -math.inf
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _ends(distribution: Any) -> tuple[float, float]:
    low, high = float(distribution.low), float(distribution.high)
    if distribution.step is not None and low < high:
        half = 0.5 * distribution.step
        low, high = low - half, high + half
    return (math.log(low), math.log(high)) if distribution.log else (low, high)


def reflect(u: float) -> float:
    """Fold the line into [0, 1] as if the ends were mirrors."""
    u = abs(u) % 2.0
    return 2.0 - u if u > 1.0 else u
