r"""Penalties :math:`\psi(w) = \sum_j \psi_j(w_j)` over the coordinates, or over groups of them.

``value(w, j)`` is one coordinate's term and ``prox(w, step, j)`` its proximal map,
:math:`\arg\min_u \psi_j(u) + (u - w)^2 / (2\,\mathrm{step})`.  Solvers go further with what a
penalty can also promise:

``subgrad(w, j)``
    an element of the subdifferential, for plain subgradient descent;
trait ``quadratic``
    it is :math:`\tfrac12 \sum_j \lambda_j w_j^2` with ``precision(j)`` = lambda_j, and ``uniform``
    if all lambda_j are the same;
trait ``lazy``
    ``rest`` is the proximal map of all but a uniform quadratic part of strength ``ridge``, and its
    steps add up, rest(rest(w, a), b) = rest(w, a + b).  A solver may then leave a coordinate alone
    until a row needs it: the cost of a step is that of the row's non-zeros.  Where ``ridge`` is
    not zero, ``rest`` must also be positively homogeneous: rest(s w, s a) = s rest(w, a).

A penalty over groups (:class:`GroupPenalty`, trait ``grouped``) is a sum over disjoint groups of
coordinates, :math:`\psi(w) = \sum_g \psi_g(w_g)`.  In place of ``value`` and ``prox`` it has
``value_block(w, group)`` and ``prox_block(v, step, group, out)`` for all coordinates of one group.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit

from thresher._terms import Term

__all__ = [
    "L1",
    "L2",
    "Box",
    "ElasticNet",
    "GroupL2",
    "GroupPenalty",
    "Penalty",
    "WeightedL1",
    "WeightedL2",
    "evaluate",
    "strengthened",
]


@njit(cache=True, nogil=True)
def _sign(w):
    return math.copysign(1.0, w) if w != 0.0 else 0.0


class Penalty(Term):
    """Protocol of a separable convex penalty that is smallest at zero."""

    traits: ClassVar[frozenset[str]] = frozenset()

    rest: ClassVar[Any] = None
    precision: ClassVar[Any] = None
    subgrad: ClassVar[Any] = None
    value_block: ClassVar[Any] = None
    prox_block: ClassVar[Any] = None

    @property
    def ridge(self) -> float:
        """Strength of the uniform quadratic part that ``rest`` leaves out."""
        return 0.0

    def value(self, w, j):
        raise NotImplementedError

    def prox(self, w, step, j):
        raise NotImplementedError


@dataclass(frozen=True)
class L2(Penalty):
    """strength / 2 ||w||^2."""

    strength: float = 1.0
    traits = frozenset({"quadratic", "uniform", "lazy"})

    def __post_init__(self):
        _check_strength(self)

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


@dataclass(frozen=True)
class L1(Penalty):
    """strength ||w||_1."""

    strength: float = 1.0
    traits = frozenset({"lazy"})

    def __post_init__(self):
        _check_strength(self)

    def value(self, w, j):
        return self.strength * abs(w)

    def prox(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength, 0.0), w)

    def rest(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength, 0.0), w)

    def subgrad(self, w, j):
        return self.strength * _sign(w)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """strength (l1_ratio ||w||_1 + (1 - l1_ratio) / 2 ||w||^2)."""

    strength: float = 1.0
    l1_ratio: float = 0.5
    traits = frozenset({"lazy"})

    def __post_init__(self):
        _check_strength(self)
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
        return self.strength * (self.l1_ratio * _sign(w) + (1.0 - self.l1_ratio) * w)


@dataclass(frozen=True, eq=False)
class WeightedL2(Penalty):
    """strength / 2 sum_j weights_j w_j^2."""

    weights: np.ndarray
    strength: float = 1.0
    traits = frozenset({"quadratic"})

    def __post_init__(self):
        _check_strength(self)
        _check_weights(self)

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
    """strength sum_j weights_j |w_j|."""

    weights: np.ndarray
    strength: float = 1.0
    traits = frozenset({"lazy"})

    def __post_init__(self):
        _check_strength(self)
        _check_weights(self)

    def value(self, w, j):
        return self.strength * self.weights[j] * abs(w)

    def prox(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength * self.weights[j], 0.0), w)

    def rest(self, w, step, j):
        return math.copysign(max(abs(w) - step * self.strength * self.weights[j], 0.0), w)

    def subgrad(self, w, j):
        return self.strength * self.weights[j] * _sign(w)


@dataclass(frozen=True)
class Box(Penalty):
    """Zero where low <= w_j <= high, infinite elsewhere; the box must hold zero."""

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


class GroupPenalty(Penalty):
    r"""Protocol of a convex penalty over disjoint groups of coordinates, smallest at zero.

    A subclass has a field ``groups``, one label per feature, and calls ``_lay_out`` in its
    ``__post_init__``.  The labels become 0, 1, ...; the features of group g are then
    ``order[pointers[g]:pointers[g + 1]]``.  A block is the vector of a group's coordinates in that
    order.

    ``value_block(w, group)``
        the group's term at the block w
    ``prox_block(v, step, group, out)``
        :math:`\arg\min_u \psi_g(u) + \|u - v\|^2 / (2\,\mathrm{step})`, written to the
        block ``out``, which may be ``v`` itself
    """

    traits = frozenset({"grouped"})
    derived = ("order", "pointers")
    # None of the coordinates has a term of its own.
    value: ClassVar[Any] = None  # type: ignore[assignment]
    prox: ClassVar[Any] = None  # type: ignore[assignment]

    groups: np.ndarray
    order: np.ndarray
    pointers: np.ndarray

    def _lay_out(self) -> None:
        labels = np.asarray(self.groups)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(f"{type(self).__name__}: groups must be one label per feature")
        if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
            raise ValueError(f"{type(self).__name__}: groups must be labels, got NaN or infinity")
        _, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        same = labels.dtype == np.int64 and labels.flags.c_contiguous
        if not (same and np.array_equal(inverse, labels)):
            labels = np.ascontiguousarray(inverse, dtype=np.int64)
        object.__setattr__(self, "groups", labels)
        object.__setattr__(self, "order", np.argsort(labels, kind="stable"))
        object.__setattr__(self, "pointers", np.concatenate([[0], np.cumsum(sizes)]))


@dataclass(frozen=True, eq=False)
class GroupL2(GroupPenalty):
    """strength sum_g sqrt(size of g) ||w_g||_2: the group lasso, whole groups become zero."""

    groups: np.ndarray
    strength: float = 1.0

    def __post_init__(self):
        _check_strength(self)
        self._lay_out()

    def weight(self, group):
        # By the number of features: a block may hold several outputs of each.
        return self.strength * math.sqrt(self.pointers[group + 1] - self.pointers[group])

    def value_block(self, w, group):
        return self.weight(group) * _norm(w)

    def prox_block(self, v, step, group, out):
        norm, pull = _norm(v), step * self.weight(group)
        factor = 1.0 - pull / norm if norm > pull else 0.0
        for k in range(v.size):
            out[k] = factor * v[k]


@njit(cache=True, nogil=True)
def _norm(w):
    total = 0.0
    for k in range(w.size):
        total += w[k] * w[k]
    return math.sqrt(total)


@njit(cache=True, nogil=True)
def _sum_of_coordinates(penalty, w):
    total = 0.0
    for j in range(w.size):
        total += penalty.value(w[j], j)
    return total


@njit(cache=True, nogil=True)
def _sum_of_groups(penalty, w):
    block, total = np.empty(w.size), 0.0
    for group in range(penalty.pointers.size - 1):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        for k in range(start, stop):
            block[k] = w[penalty.order[k]]
        total += penalty.value_block(block[start:stop], group)
    return total


def evaluate(penalty: Penalty, w: np.ndarray) -> float:
    """psi(w), whether the penalty is one over coordinates or over groups."""
    if "grouped" in penalty.traits:
        return float(_sum_of_groups(penalty, w))
    return float(_sum_of_coordinates(penalty, w))


def strengthened(penalty: Penalty, alpha: float) -> Penalty:
    """``penalty`` times ``alpha``, through its field ``strength``."""
    if alpha == 1.0:
        return penalty
    if "strength" not in {f.name for f in dataclasses.fields(penalty)}:  # type: ignore[arg-type]
        raise ValueError(
            f"alpha={alpha} scales a penalty's field 'strength', which {type(penalty).__name__} "
            "does not have: leave alpha=None"
        )
    changed: dict[str, Any] = {"strength": alpha * penalty.strength}  # type: ignore[attr-defined]
    return dataclasses.replace(penalty, **changed)  # type: ignore[type-var]


def _check_strength(penalty: Any) -> None:
    if not (penalty.strength >= 0.0 and math.isfinite(penalty.strength)):
        name = type(penalty).__name__
        raise ValueError(f"{name}: strength must be finite and at least 0, got {penalty.strength}")


def _check_weights(penalty: Any) -> None:
    weights = np.ascontiguousarray(penalty.weights, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        raise ValueError(
            f"{type(penalty).__name__}: weights must be one finite number of at least 0 per feature"
        )
    object.__setattr__(penalty, "weights", weights)
