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

``pattern(w, j)``, of groups ``pattern_block(w, group)``, numbers the smooth piece of the penalty
that a weight, or the weights of a group, lie on.  All of them together are the manifold that w lies
on: within it the penalty is smooth (:func:`pattern_of`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit

from thresher._terms import Term
from thresher.dimensions import Float

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
    "pattern_of",
    "strengthened",
]


@njit(cache=True, nogil=True)
def _sign(w):
    return math.copysign(1.0, w) if w != 0.0 else 0.0


class Penalty(Term):
    """Protocol of a separable convex penalty that is smallest at zero.

    A penalty of your own is a frozen dataclass with ``value`` and ``prox``; ``traits`` and the
    other methods let more solvers take it, see the top of this file.

    Examples
    --------
    >>> import math
    >>> from dataclasses import dataclass
    >>> from thresher.penalties import Penalty
    >>> @dataclass(frozen=True)
    ... class NonNegative(Penalty):
    ...     strength: float = 1.0
    ...     def value(self, w, j):
    ...         return self.strength * w if w >= 0.0 else math.inf
    ...     def prox(self, w, step, j):
    ...         return max(w - step * self.strength, 0.0)
    >>> NonNegative().prox(3.0, 0.5, 0)
    2.5
    """

    traits: ClassVar[frozenset[str]] = frozenset()
    #: fields that a search may try, and where (``thresher.dimensions``)
    space: ClassVar[dict[str, Any]] = {}

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

    def pattern(self, w, j):
        """The smooth piece that a weight lies on: its sign, or zero."""
        return _sign(w)


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

    Examples
    --------
    >>> import numpy as np
    >>> from dataclasses import dataclass
    >>> from thresher.penalties import GroupPenalty
    >>> @dataclass(frozen=True, eq=False)
    ... class GroupRidge(GroupPenalty):
    ...     groups: np.ndarray
    ...     strength: float = 1.0
    ...     def __post_init__(self):
    ...         self._lay_out()
    ...     def value_block(self, w, group):
    ...         return 0.5 * self.strength * w.size * np.sum(w * w)
    ...     def prox_block(self, v, step, group, out):
    ...         for k in range(v.size):
    ...             out[k] = v[k] / (1.0 + step * self.strength * v.size)
    >>> GroupRidge(["a", "b", "a"]).order.tolist()
    [0, 2, 1]
    """

    traits = frozenset({"grouped"})
    derived = ("order", "pointers")
    # None of the coordinates has a term of its own.
    value: ClassVar[Any] = None  # type: ignore[assignment]
    prox: ClassVar[Any] = None  # type: ignore[assignment]
    pattern: ClassVar[Any] = None  # type: ignore[assignment]

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

    def pattern_block(self, w, group):
        """The smooth piece that the weights of a group lie on: 0 where all are zero, else 1."""
        return 1.0 if _norm(w) > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class GroupL2(GroupPenalty):
    """The group lasso: strength sum_g sqrt(size of g) ||w_g||_2; whole groups become zero.

    Its proximal map shortens the weights of a group together, v (1 - step weight_g / ||v||)_+.

    Parameters
    ----------
    groups : array of shape (n_features,)
        A label for each feature: those with the same label are one group.
    strength : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import GroupL2, evaluate
    >>> penalty = GroupL2(["age", "town", "town", "town"], 0.5)
    >>> penalty.pointers.tolist()
    [0, 1, 4]
    >>> w = np.array([3.0, 2.0, -2.0, 1.0])
    >>> bool(abs(evaluate(penalty, w) - 0.5 * (3.0 + 3.0 * np.sqrt(3.0))) < 1e-12)
    True
    """

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
    """psi(w), whether the penalty is one over coordinates or over groups.

    Parameters
    ----------
    penalty : Penalty
    w : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, evaluate
    >>> evaluate(L1(0.5), np.array([3.0, -1.0]))
    2.0
    """
    if "grouped" in penalty.traits:
        return float(_sum_of_groups(penalty, w))
    return float(_sum_of_coordinates(penalty, w))


@njit(cache=True, nogil=True)
def _pattern_of_coordinates(penalty, w, out):
    for j in range(w.size):
        out[j] = penalty.pattern(w[j], j)


@njit(cache=True, nogil=True)
def _pattern_of_groups(penalty, w, out):
    block = np.empty(w.size)
    for group in range(out.size):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        for k in range(start, stop):
            block[k] = w[penalty.order[k]]
        out[group] = penalty.pattern_block(block[start:stop], group)


def pattern_of(penalty: Penalty, w: np.ndarray) -> np.ndarray:
    """The manifold that w lies on: a small number for each coordinate, or for each group.

    Parameters
    ----------
    penalty : Penalty
    w : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import L1, GroupL2, pattern_of
    >>> w = np.array([0.0, -2.0, 0.0, 0.5])
    >>> pattern_of(L1(), w).tolist(), pattern_of(GroupL2([0, 1, 0, 1]), w).tolist()
    ([0, -1, 0, 1], [0, 1])
    """
    if "grouped" in penalty.traits:
        out = np.zeros(penalty.pointers.size - 1, np.int8)  # type: ignore[attr-defined]
        _pattern_of_groups(penalty, w, out)
    else:
        out = np.zeros(w.size, np.int8)
        _pattern_of_coordinates(penalty, w, out)
    return out


def strengthened(penalty: Penalty, alpha: float) -> Penalty:
    """``penalty`` times ``alpha``, through its field ``strength``.

    Parameters
    ----------
    penalty : Penalty
        One with a field ``strength``, unless alpha is 1.
    alpha : float
        Factor of the strength.

    Examples
    --------
    >>> from thresher.penalties import L1, strengthened
    >>> strengthened(L1(0.5), 4.0)
    L1(strength=2.0)
    """
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
