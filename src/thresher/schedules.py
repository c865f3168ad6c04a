"""Step sizes: ``at(t)`` is the step of update t = 1, 2, ..."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from thresher._terms import Term

__all__ = ["Constant", "InverseRoot", "InverseTime", "Pegasos", "Schedule"]


class Schedule(Term):
    """Protocol of a step-size schedule: a frozen dataclass with one method, ``at(t)``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher.schedules import Schedule
    >>> @dataclass(frozen=True)
    ... class Halving(Schedule):
    ...     every: int = 1000
    ...
    ...     def at(self, t):
    ...         return 0.5 ** (t // self.every)
    >>> Halving().at(2500)
    0.25
    """

    def at(self, t):
        raise NotImplementedError


@dataclass(frozen=True)
class Pegasos(Schedule):
    """1 / (strength (t + delay)): the step of Pegasos for an objective of that strong convexity.

    Parameters
    ----------
    strength : float
        Of the quadratic penalty, positive.
    delay : float, default=0.0
        Steps that are taken for gone: the first one is 1 / (strength (1 + delay)).

    Examples
    --------
    >>> from thresher.schedules import Pegasos
    >>> Pegasos(strength=0.01).at(1), Pegasos(strength=0.01).at(50)
    (100.0, 2.0)
    """

    strength: float
    delay: float = 0.0

    def __post_init__(self):
        _check_positive(self, "strength")
        if not self.delay >= 0.0:
            raise ValueError(f"Pegasos: delay must be at least 0, got {self.delay}")

    def at(self, t):
        return 1.0 / (self.strength * (t + self.delay))


@dataclass(frozen=True)
class InverseTime(Schedule):
    """theta / t: for a strongly convex objective whose strength is not known.

    Parameters
    ----------
    theta : float, default=1.0
        Length of the first step.

    Examples
    --------
    >>> from thresher.schedules import InverseTime
    >>> InverseTime(theta=2.0).at(8)
    0.25
    """

    theta: float = 1.0

    def __post_init__(self):
        _check_positive(self, "theta")

    def at(self, t):
        return self.theta / t


@dataclass(frozen=True)
class InverseRoot(Schedule):
    """theta / sqrt(t): the robust choice for a convex objective.

    Parameters
    ----------
    theta : float, default=1.0
        Length of the first step.

    Examples
    --------
    >>> from thresher.schedules import InverseRoot
    >>> InverseRoot(theta=2.0).at(16)
    0.5
    """

    theta: float = 1.0

    def __post_init__(self):
        _check_positive(self, "theta")

    def at(self, t):
        return self.theta / math.sqrt(t)


@dataclass(frozen=True)
class Constant(Schedule):
    """theta, always: follows a target that moves, and never comes to rest.

    Parameters
    ----------
    theta : float, default=0.1
        Length of every step.

    Examples
    --------
    >>> from thresher.schedules import Constant
    >>> Constant(theta=0.5).at(1), Constant(theta=0.5).at(1000)
    (0.5, 0.5)
    """

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
