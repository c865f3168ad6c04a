"""What may be tuned: ranges, scales and conditions, independent of who searches.

>>> from thresher.search import Choice, Float, Space
>>> space = Space(
...     alpha=Float(1e-6, 1.0, log=True),
...     loss=Choice("hinge", "pinball"),
...     loss__tau=Float(0.0, 1.0, when={"loss": "pinball"}),
... )
>>> print(space.narrowed(alpha=(1e-4, 1e-2), loss="pinball"))
alpha in [0.0001, 0.01] (log)
loss = 'pinball'
loss__tau in [0, 1] if loss is 'pinball'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from thresher.search.unit_interval import from_unit

__all__ = ["Choice", "Dimension", "Float", "Int", "Space"]

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

    def distribution(self) -> BaseDistribution:
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

    def distribution(self) -> BaseDistribution:
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

    def distribution(self) -> BaseDistribution:
        return CategoricalDistribution(self.labels())

    def value(self, stored: Any) -> Any:
        for label, value in zip(self.labels(), self.values, strict=True):
            if label == stored and isinstance(label, bool) == isinstance(stored, bool):
                return value
        raise ValueError(f"{stored!r} is not among the choices {self.labels()}")

    def __str__(self) -> str:
        return "in {" + ", ".join(repr(label) for label in self.labels()) + "}"


Dimension = Float | Int | Choice


class Space:
    """Named dimensions; conditions look at dimensions before them and at fixed parameters.

    Parameters
    ----------
    dimensions, **named : dict and keywords
        Names to Float, Int or Choice; parameters with other values are constants.
    feasible : callable or None, default=None
        ``feasible(params) -> bool`` rules out combinations; they cost no evaluation.

    Examples
    --------
    >>> from thresher.search import Choice, Float, Space
    >>> space = Space(
    ...     alpha=Float(1e-6, 1.0, log=True),
    ...     loss=Choice("hinge", "pinball"),
    ...     loss__tau=Float(0.0, 1.0, when={"loss": "pinball"}),
    ... )
    >>> [sorted(setting) for setting in space.grid(4)]
    [['alpha', 'loss'], ['alpha', 'loss', 'loss__tau']]
    """

    def __init__(
        self,
        dimensions: Mapping[str, Any] | None = None,
        /,
        *,
        feasible: Callable[[dict[str, Any]], bool] | None = None,
        **named: Any,
    ):
        given = {**(dimensions or {}), **named}
        self.dimensions: dict[str, Dimension] = {}
        self.constants: dict[str, Any] = {}
        for name, entry in given.items():
            if isinstance(entry, Dimension):
                self.dimensions[name] = entry
            else:
                self.constants[name] = entry
        self.feasible = feasible

    # ------------------------------------------------------------ changing it

    def narrowed(self, changes: Mapping[str, Any] | None = None, /, **named: Any) -> Space:
        """A copy with some dimensions replaced.

        ``(low, high)`` gives a known dimension another range; a list another choice; a Float, Int
        or Choice replaces or adds a dimension; any other value fixes the parameter.
        """
        order: dict[str, Any] = {**self.dimensions, **self.constants}
        for name, change in {**(changes or {}), **named}.items():
            old = self.dimensions.get(name)
            when = old.when if old is not None else None
            if isinstance(change, tuple) and len(change) == 2 and isinstance(old, (Float, Int)):
                change = replace(old, low=change[0], high=change[1])
            elif isinstance(change, list):
                change = Choice(*change, when=when)
            elif isinstance(change, tuple):
                raise ValueError(
                    f"{name}={change} gives a range, but the space has no number of that name; it "
                    f"has {', '.join(self.dimensions) or 'no dimensions'}"
                )
            order[name] = change
        # A condition can only look at what comes before it.
        names = sorted(order, key=lambda name: "__" in name)
        return Space({name: order[name] for name in names}, feasible=self.feasible)

    def prefixed(self, prefix: str) -> Space:
        """The same space for a step of a pipeline, ``prefix__name``."""

        def moved(when: Condition) -> Condition:
            if when is None:
                return None
            if isinstance(when, Mapping):
                return {f"{prefix}__{name}": value for name, value in when.items()}
            cut = len(prefix) + 2
            return lambda params: when(
                {k[cut:]: v for k, v in params.items() if k.startswith(prefix + "__")}
            )

        def with_when(dimension: Dimension) -> Dimension:
            if isinstance(dimension, Choice):
                return Choice(*dimension.values, when=moved(dimension.when))
            return replace(dimension, when=moved(dimension.when))

        parts: dict[str, Any] = {f"{prefix}__{k}": with_when(v) for k, v in self.dimensions.items()}
        parts |= {f"{prefix}__{k}": v for k, v in self.constants.items()}
        return Space(parts)

    # ------------------------------------------------------------ drawing from it

    def suggest(self, trial: Any, context: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Parameters of an Optuna trial; ``context`` holds what is fixed outside the space."""

        def draw(name: str, dimension: Dimension) -> Any:
            if isinstance(dimension, Choice):
                return dimension.value(trial.suggest_categorical(name, dimension.labels()))
            suggest = trial.suggest_int if isinstance(dimension, Int) else trial.suggest_float
            return suggest(name, dimension.low, dimension.high, log=dimension.log)

        return self._walk(draw, context or {})

    def sample(
        self, rng: np.random.Generator, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Parameters drawn uniformly (on each dimension's scale)."""
        return self._walk(
            lambda name, dimension: dimension.value(
                from_unit(dimension.distribution(), rng.random())
            ),
            context or {},
        )

    def grid(self, points: int, context: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """At most about ``points`` combinations (stored values), as many per number as possible.

        Choices are taken in full, so there may be more points than asked for if they alone exceed
        the number.
        """
        levels, best = 1, self._grid(1, context or {})
        while levels < points:
            bigger = self._grid(levels + 1, context or {})
            if len(bigger) > points or (len(bigger) == len(best) and levels > 64):
                break
            levels, best = levels + 1, bigger
        return best

    def _grid(self, levels: int, context: Mapping[str, Any]) -> list[dict[str, Any]]:
        names = list(self.dimensions)

        def extend(k: int, stored: dict[str, Any], known: dict[str, Any]) -> list[dict[str, Any]]:
            if k == len(names):
                return [stored]
            name, dimension = names[k], self.dimensions[names[k]]
            if not _holds(dimension.when, known):
                return extend(k + 1, stored, known)
            found = []
            for v in _levels(dimension, levels):
                found += extend(k + 1, {**stored, name: v}, {**known, name: dimension.value(v)})
            return found

        return extend(0, {}, {**context, **self.constants})

    def _walk(
        self, draw: Callable[[str, Dimension], Any], context: Mapping[str, Any]
    ) -> dict[str, Any]:
        known = {**context, **self.constants}
        params: dict[str, Any] = dict(self.constants)
        for name, dimension in self.dimensions.items():
            if _holds(dimension.when, known):
                params[name] = known[name] = draw(name, dimension)
        return params

    def __iter__(self) -> Iterator[str]:
        return iter(self.dimensions)

    def __len__(self) -> int:
        return len(self.dimensions)

    def __str__(self) -> str:
        lines = [f"{name} = {value!r}" for name, value in self.constants.items()]
        lines += [f"{name} {d}{_told(d.when)}" for name, d in self.dimensions.items()]
        return "\n".join(sorted(lines, key=lambda line: line.split()[0]))

    def __repr__(self) -> str:
        return f"Space({', '.join([*self.dimensions, *self.constants])})"


def _levels(dimension: Dimension, levels: int) -> list[Any]:
    """Stored values at equal distances on the dimension's scale; all of a choice."""
    if isinstance(dimension, Choice):
        return dimension.labels()
    at = [(k + 0.5) / levels for k in range(levels)]
    return list(dict.fromkeys(from_unit(dimension.distribution(), u) for u in at))


def _holds(when: Condition, known: dict[str, Any]) -> bool:
    if when is None:
        return True
    if not isinstance(when, Mapping):
        return bool(when(known))
    return all(name in known and _matches(known[name], wanted) for name, wanted in when.items())


def _matches(value: Any, wanted: Any) -> bool:
    options = wanted if isinstance(wanted, (tuple, list, set, frozenset)) else (wanted,)
    return any(type(value) is type(o) and value == o for o in options)


def _told(when: Condition) -> str:
    if when is None:
        return ""
    if not isinstance(when, Mapping):
        return f" if {getattr(when, '__name__', 'its condition holds')}"
    return " if " + " and ".join(
        f"{name} is " + (" or ".join(map(repr, w)) if isinstance(w, (tuple, list)) else repr(w))
        for name, w in when.items()
    )


def _check_range(dimension: Any) -> None:
    name = f"{type(dimension).__name__}({dimension.low}, {dimension.high})"
    if not (math.isfinite(dimension.low) and math.isfinite(dimension.high)):
        raise ValueError(f"{name} must have finite ends")
    if dimension.low > dimension.high:
        raise ValueError(f"{name} is empty: the space has no point")
    if dimension.log and not dimension.low > 0:
        raise ValueError(f"{name} on a log scale must start above zero")
