"""The protocol of penalties, and what their fields must be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import njit

from thresher._terms import Term
from thresher.penalties.membership import Features

__all__ = [
    "Penalty", "RowLevels", "check_strength", "check_weights", "sign", "strengthened",
    "weights_misfit",
]  # fmt: skip


class RowLevels(NamedTuple):
    r"""A penalty of weights W, (features, outputs), that acts on the rows of W and on its entries.

    .. math:: \psi(W) = \sum_j \Bigl(\mathrm{rows}_j\,\|W_{j\cdot}\|_2
              + \mathrm{entries}_j\,\|W_{j\cdot}\|_1\Bigr) + \tfrac{\mathrm{ridge}}{2}\|W\|^2

    Parameters
    ----------
    rows, entries : arrays of shape (n_features,)
    ridge : float
    """

    rows: np.ndarray
    entries: np.ndarray
    ridge: float


@njit(cache=True, nogil=True)
def sign(w):
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

    plain = Term.plain | {"bound", "emptying", "misfit", "name_of", "row_levels"}
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

    #: coordinates of all outputs of a feature are one block: they are learned together
    shared: ClassVar[bool] = False
    #: whether a feature may have several weights, which are added
    overlaps: ClassVar[bool] = False

    def bound(self, features: Features) -> Penalty:
        """The penalty for these features, where it was waiting to know them."""
        return self

    def emptying(self, gradient: np.ndarray) -> float:
        """The least strength that leaves no weight where this is the gradient of the mean loss.

        That of an l1 penalty here; (outputs, features) for a penalty that joins outputs.
        """
        return float(np.max(np.abs(gradient), initial=0.0))

    def misfit(self, n_features: int) -> str:
        """What is wrong with it for so many features; empty if nothing is."""
        return ""

    def row_levels(self, n_features: int) -> RowLevels | None:
        """For the weights of many tasks: what it is of their rows and entries; None: it is not."""
        return None

    def value(self, w, j):
        raise NotImplementedError

    def prox(self, w, step, j):
        raise NotImplementedError

    def pattern(self, w, j):
        """The smooth piece that a weight lies on: its sign, or zero."""
        return sign(w)


def strengthened(penalty: Penalty, alpha: float) -> Penalty:
    """``penalty`` times ``alpha``, through its field ``strength``; None counts as 1.

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
    if alpha == 1.0 and getattr(penalty, "strength", 1.0) is not None:
        return penalty
    if "strength" not in {f.name for f in dataclasses.fields(penalty)}:  # type: ignore[arg-type]
        raise ValueError(
            f"alpha={alpha} scales a penalty's field 'strength', which {type(penalty).__name__} "
            "does not have: leave alpha=None"
        )
    strength = penalty.strength  # type: ignore[attr-defined]
    changed: dict[str, Any] = {"strength": alpha if strength is None else alpha * strength}
    return dataclasses.replace(penalty, **changed)  # type: ignore[type-var]


def check_strength(penalty: Any) -> None:
    strength = penalty.strength
    number = isinstance(strength, int | float | np.number)
    if not (number and strength >= 0.0 and math.isfinite(strength)):
        name = type(penalty).__name__
        raise ValueError(f"{name}: strength must be finite and at least 0, got {strength!r}")


def check_weights(penalty: Any) -> None:
    weights = np.ascontiguousarray(penalty.weights, dtype=np.float64)
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0.0):
        raise ValueError(
            f"{type(penalty).__name__}: weights must be one finite number of at least 0 per feature"
        )
    object.__setattr__(penalty, "weights", weights)


def weights_misfit(penalty: Any, n_features: int) -> str:
    """What is wrong with a penalty of a weight for each feature, for so many of them."""
    size, name = penalty.weights.size, type(penalty).__name__
    if size == n_features:
        return ""
    return f"{name} has {size} weights, but the data has {n_features} features"
