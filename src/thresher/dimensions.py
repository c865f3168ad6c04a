"""What a setting may be: ranges, scales and choices, which learners and maps declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "Condition", "Dimension", "Float", "Int"]

#: which earlier parameters must have which value(s), or a function of the parameters so far
Condition = Mapping[str, Any] | Callable[[dict[str, Any]], bool] | None


@dataclass(frozen=True)
class Float:
    """A number in a range.

    Parameters
    ----------
    low, high : float
        The ends, both included.
    log : bool, default=False
        Search on a logarithmic scale.
    when : dict, callable or None, default=None
        The dimension exists only where earlier parameters have these values, each one value or a
        tuple of them, or where ``when(params)`` is true.  None: always.

    Examples
    --------
    >>> from thresher.search import Float
    >>> print(Float(1e-6, 1.0, log=True))
    in [1e-06, 1] (log)
    """

    low: float
    high: float
    log: bool = False
    when: Condition = None

    def __post_init__(self) -> None:
        _check_range(self)

    def distribution(self) -> Any:
        from optuna.distributions import FloatDistribution  # slow to import

        return FloatDistribution(float(self.low), float(self.high), log=self.log)

    def value(self, stored: Any) -> Any:
        return stored

    def __str__(self) -> str:
        return f"in [{self.low:g}, {self.high:g}]{' (log)' if self.log else ''}"


@dataclass(frozen=True)
class Int:
    """A whole number in a range.

    Parameters
    ----------
    low, high : int
        The ends, both included.
    log : bool, default=False
        Search on a logarithmic scale.
    when : dict, callable or None, default=None
        As in :class:`Float`.

    Examples
    --------
    >>> from thresher.search import Int
    >>> print(Int(2, 5, when={"kernel": "polynomial"}))
    in 2..5
    """

    low: int
    high: int
    log: bool = False
    when: Condition = None

    def __post_init__(self) -> None:
        _check_range(self)
        if int(self.low) != self.low or int(self.high) != self.high:
            raise ValueError(f"Int({self.low}, {self.high}) needs whole numbers")

    def distribution(self) -> Any:
        from optuna.distributions import IntDistribution  # slow to import

        return IntDistribution(int(self.low), int(self.high), log=self.log)

    def value(self, stored: Any) -> Any:
        return stored

    def __str__(self) -> str:
        return f"in {self.low}..{self.high}{' (log)' if self.log else ''}"


@dataclass(frozen=True, init=False)
class Choice:
    """One of some values.

    Parameters
    ----------
    *values : anything
        What to choose from; objects are stored in a study by their text.
    when : dict, callable or None, default=None
        As in :class:`Float`.

    Examples
    --------
    >>> from thresher import Pinball
    >>> from thresher.search import Choice
    >>> print(Choice("hinge", Pinball(0.2)))
    in {'hinge', 'Pinball(tau=0.2)'}
    """

    values: tuple[Any, ...]
    when: Condition = None

    def __init__(self, *values: Any, when: Condition = None):
        if not values:
            raise ValueError("Choice() offers no value: the space would have no point")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "when", when)
        if len(set(self.labels())) != len(values):
            raise ValueError(f"Choice{values} offers the same value twice")

    def labels(self) -> list[Any]:
        plain = (type(None), bool, int, float, str)
        return [v if isinstance(v, plain) else repr(v) for v in self.values]

    def distribution(self) -> Any:
        from optuna.distributions import CategoricalDistribution  # slow to import

        return CategoricalDistribution(self.labels())

    def value(self, stored: Any) -> Any:
        for label, value in zip(self.labels(), self.values, strict=True):
            if label == stored and isinstance(label, bool) == isinstance(stored, bool):
                return value
        raise ValueError(f"{stored!r} is not among the choices {self.labels()}")

    def __str__(self) -> str:
        return "in {" + ", ".join(repr(label) for label in self.labels()) + "}"


Dimension = Float | Int | Choice


def _check_range(dimension: Any) -> None:
    name = f"{type(dimension).__name__}({dimension.low}, {dimension.high})"
    if not (math.isfinite(dimension.low) and math.isfinite(dimension.high)):
        raise ValueError(f"{name} must have finite ends")
    if dimension.low > dimension.high:
        raise ValueError(f"{name} is empty: the space has no point")
    if dimension.log and not dimension.low > 0:
        raise ValueError(f"{name} on a log scale must start above zero")
