"""Step sizes: ``at(t)`` is the step of update t = 1, 2, ..."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from thresher._terms import Term

__all__ = ["Constant", "InverseRoot", "InverseTime", "Pegasos", "Schedule"]


class Schedule(Term):
    """Protocol of a step-size schedule."""

    def at(self, t):
        raise NotImplementedError


@dataclass(frozen=True)
class Pegasos(Schedule):
    """1 / (strength t): the step of Pegasos for an objective of that strong convexity."""

    strength: float

    def __post_init__(self):
        _check_positive(self, "strength")

    def at(self, t):
        return 1.0 / (self.strength * t)


@dataclass(frozen=True)
class InverseTime(Schedule):
    """theta / t."""

    theta: float = 1.0

    def __post_init__(self):
        _check_positive(self, "theta")

    def at(self, t):
        return self.theta / t


@dataclass(frozen=True)
class InverseRoot(Schedule):
    """theta / sqrt(t): the robust choice for a convex objective."""

    theta: float = 1.0

    def __post_init__(self):
        _check_positive(self, "theta")

    def at(self, t):
        return self.theta / math.sqrt(t)


@dataclass(frozen=True)
class Constant(Schedule):
    """theta."""

    theta: float = 0.1

    def __post_init__(self):
        _check_positive(self, "theta")

    def at(self, t):
        return self.theta


def _check_positive(schedule: Any, field: str) -> None:
    value = getattr(schedule, field)
    if not (value > 0.0 and math.isfinite(value)):
        raise ValueError(
            f"{type(schedule).__name__}: {field} must be positive and finite, got {value}"
        )
