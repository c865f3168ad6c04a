"""The protocols of penalties, their value at a vector, and what their fields must be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from numba import njit

from thresher._terms import Term

__all__ = ["GroupPenalty", "Penalty", "check_strength", "check_weights", "evaluate", "strengthened"]


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


def check_strength(penalty: Any) -> None:
    if not (penalty.strength >= 0.0 and math.isfinite(penalty.strength)):
        name = type(penalty).__name__
        raise ValueError(f"{name}: strength must be finite and at least 0, got {penalty.strength}")


def check_weights(penalty: Any) -> None:
    weights = np.ascontiguousarray(penalty.weights, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        raise ValueError(
            f"{type(penalty).__name__}: weights must be one finite number of at least 0 per feature"
        )
    object.__setattr__(penalty, "weights", weights)
