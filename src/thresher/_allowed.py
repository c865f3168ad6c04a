"""What an option may be: said once, as the check and as the words of its error.

Estimators and maps declare ``allowed = {"C": POSITIVE, "max_iter": whole(1) | None}``.  What a
class declares adds to what its bases do.  Options that are objects (terms, solvers, maps) are
checked where they are resolved, and those that depend on each other by their class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

__all__ = [
    "BYTES", "FLAG", "INTEGER", "NOT_NEGATIVE", "OPEN_SHARE", "POSITIVE", "SECONDS", "SHARE",
    "UNLIMITED", "Allowed", "OneOf", "allowed_of", "check_allowed", "number", "whole",
]  # fmt: skip


@dataclass(frozen=True)
class Allowed:
    """Values of a kind, and a few words besides: ``POSITIVE | "auto" | None``."""

    #: beside the values of the kind: None and strings
    also: tuple[Any, ...] = ()
    kind: ClassVar[str]

    def __or__(self, other: Any) -> Self:
        return replace(self, also=(*self.also, other))

    def admits(self, value: Any) -> bool:
        """Whether an option may have this value."""
        return _is_among(value, self.also) or self._is_of_kind(value)

    def _is_of_kind(self, value: Any) -> bool:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.kind + (f" (or {_listed(self.also, ' or ')})" if self.also else "")


@dataclass(frozen=True)
class Number(Allowed):
    """A real number, no truth value, between two ends."""

    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"  # round where an end itself is not allowed
    is_whole: bool = False
    is_finite: bool = True
    unit: str = ""

    def _is_of_kind(self, value: Any) -> bool:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            return False
        if not isinstance(value, Integral) and not self._admits_fraction(value):
            return False
        given: Any = value
        above = given > self.low if self.ends[0] == "(" else given >= self.low
        return bool(above and (given < self.high if self.ends[1] == ")" else given <= self.high))

    def _admits_fraction(self, value: Any) -> bool:
        return not self.is_whole and (not self.is_finite or math.isfinite(value))

    @property
    def kind(self) -> str:  # type: ignore[override]
        noun = "whole number" if self.is_whole else "number"
        if self.low == 0.0 and self.ends[0] == "(" and self.high == math.inf:
            words = f"a positive {noun}"
        elif self.high < math.inf:
            words = f"a {noun} in {self.ends[0]}{self.low:g}, {self.high:g}{self.ends[1]}"
        elif self.low > -math.inf:
            words = f"a {noun} {'above' if self.ends[0] == '(' else 'of at least'} {self.low:g}"
        else:
            words = f"a {noun}"
        return f"{words} {self.unit}".rstrip()


@dataclass(frozen=True)
class Flag(Allowed):
    """True or false; 0 and 1 are these."""

    kind = "True or False"

    def _is_of_kind(self, value: Any) -> bool:
        return isinstance(value, bool | np.bool_ | Integral) and value in (0, 1)


@dataclass(frozen=True, init=False)
class OneOf(Allowed):
    """One of some words; None may be one of them."""

    def __init__(self, *also: Any):
        object.__setattr__(self, "also", also)

    def __or__(self, other: Any) -> OneOf:  # type: ignore[override]
        return OneOf(*self.also, other)

    def _is_of_kind(self, value: Any) -> bool:
        return False

    def __str__(self) -> str:
        return f"one of {_listed(self.also, ', ')}"


def number(low: float = -math.inf, high: float = math.inf, ends: str = "[]") -> Number:
    """A finite number; ``ends`` such as "[)" say which ends are allowed themselves."""
    return Number(low=low, high=high, ends=ends)


def whole(low: int = 0, high: float = math.inf) -> Number:
    """A whole number, from ``low`` to ``high``."""
    return Number(low=low, high=high, is_whole=True)


INTEGER = Number(is_whole=True)
POSITIVE = number(0.0, ends="(]")
#: that may be infinite
UNLIMITED = Number(low=0.0, ends="(]", is_finite=False)
NOT_NEGATIVE = number(0.0)
SHARE, OPEN_SHARE = number(0.0, 1.0), number(0.0, 1.0, "()")
BYTES = replace(UNLIMITED, unit="of bytes")
SECONDS = replace(POSITIVE, unit="of seconds")
FLAG = Flag()


def allowed_of(cls: type) -> dict[str, Allowed]:
    """What the options of a class may be, its bases' included."""
    out: dict[str, Allowed] = {}
    for base in reversed(cls.__mro__):
        out |= vars(base).get("allowed", {})
    return out


def check_allowed(owner: Any) -> None:
    """ValueError that names the first option of ``owner`` with a value that it may not have."""
    for name, allowed in allowed_of(type(owner)).items():
        value = getattr(owner, name)
        if not allowed.admits(value):
            raise ValueError(f"{name} must be {allowed}, got {value!r:.200}")


def _is_among(value: Any, words: tuple[Any, ...]) -> bool:
    """By identity or as strings: arrays, whose equality is none, may be asked about."""
    return any(
        value is word or (isinstance(value, str) and isinstance(word, str) and value == word)
        for word in words
    )


def _listed(words: tuple[Any, ...], between: str) -> str:
    return between.join(map(repr, words))
