"""Penalties that are a sum over groups of coordinates: group lasso, sparse group lasso."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thresher.dimensions import Float
from thresher.penalties.base import RowLevels, check_strength, sign
from thresher.penalties.blocks import GroupPenalty, block_norm

__all__ = ["GroupL2", "SparseGroupL2", "lp_value"]

_FIELDS = frozenset({"members", "names", "weights", "shared"})


class _Weighted(GroupPenalty):
    """What these share: a factor for each group, and a ridge."""

    hidden = _FIELDS
    derived = (*GroupPenalty.derived, "factors")
    strength: Any
    weights: Any
    elastic: float
    factors: np.ndarray  # of the norms of the groups

    def __post_init__(self):
        if self.strength is not None:
            check_strength(self)
            self._set(strength=float(self.strength))
        name, number = type(self).__name__, isinstance(self.elastic, int | float | np.number)
        if not (number and 0.0 <= self.elastic <= 1.0):
            raise ValueError(f"{name}: elastic must lie in [0, 1], got {self.elastic!r}")
        self._lay_out()
        if not self.is_bound:
            self._set(factors=np.zeros(0))
            return
        self._set(factors=np.sqrt(np.diff(self.pointers)))
        if self.weights is not None:
            self._set(factors=self._numbers("weights", self.weights))

    def _numbers(self, name: str, given: Any) -> np.ndarray:
        """One of at least 0 for each group."""
        kind = type(self).__name__
        try:
            numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"{kind}: {name} must be a number for each group, got {given!r}"
            ) from None
        if numbers.shape != (self.n_groups,):
            raise ValueError(f"{kind}: {name} of shape {numbers.shape} for {self.n_groups} groups")
        wrong = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0.0)))
        if wrong.size:
            group = int(wrong[0])
            raise ValueError(
                f"{kind}: {name} must be finite and at least 0, got {numbers[group]} for group "
                f"{self.name_of(group)!r}"
            )
        return np.ascontiguousarray(numbers)

    @property
    def ridge(self) -> float:
        return (self.strength or 0.0) * self.elastic

    def __repr__(self) -> str:
        shown = repr(self.groups)
        if self.is_bound:
            shown = f"<{self.n_groups} groups of {self.starts.size - 1} features>"
        rest = {n: v for n, v in self.get_params().items() if n not in ("groups", *_FIELDS)}
        fields = [f"groups={shown}", *(f"{name}={value!r}" for name, value in rest.items())]
        return f"{type(self).__name__}({', '.join(fields)})"

    def weight(self, group):
        return self.strength * (1.0 - self.elastic) * self.factors[group]

    def row_levels(self, n_features: int) -> RowLevels | None:
        """With every feature a group by itself, shared by all outputs."""
        if not self.is_bound or self.overlaps or self.n_groups != n_features:
            return None
        # Not by ``block_weights``: to compile for a new penalty takes longer than a small fit.
        norms = self.strength * (1.0 - self.elastic) * self.factors
        return RowLevels(norms[self.groups], self._entry_levels()[self.groups], self.ridge)

    def _entry_levels(self) -> np.ndarray:
        return np.zeros(self.n_groups)


@dataclass(frozen=True, eq=False, repr=False)
class GroupL2(_Weighted):
    """The group lasso: strength sum_g sqrt(size of g) ||w_g||_2; whole groups become zero.

    Its proximal map shortens the weights of a group together, v (1 - step weight_g / ||v||)_+.
    Where groups share features, the weights are split among them (``thresher.penalties.blocks``),
    and the non-zero ones are those of a union of groups.

    Parameters
    ----------
    groups : labels, lists of features, a dictionary of them, or str, default="columns"
        A label for each feature: those with the same label are one group.  Or the features of each
        group, by place or by name, ``[["height", "width"], ["age"]]`` or ``{"size": ["height",
        "width"], ...}``; groups may share features.  Or a regular expression: features whose names
        agree in what it matches (in its first parenthesis, if it has one).  "columns": each column
        of the data is a group, with all features that are made of it.
    strength : float or None, default=None
        None: an estimator finds it, a hundredth of the strength that leaves an empty model.
    weights : array of shape (n_groups,) or None, default=None
        Factors of the groups' norms, at least 0.  None: the roots of their sizes.
    elastic : float, default=0.0
        Share of a ridge within [0, 1]: strength ((1 - elastic) sum_g weight_g ||w_g|| + elastic / 2
        ||w||^2).
    shared : bool, default=False
        Of several classes: one norm for a group's weights of all classes, so that all of them use
        the same groups; otherwise each class has its own.
    members : array or None, default=None
        Where groups share features: the feature that each of ``groups`` is a copy of; found.
    names : tuple of str or None, default=None
        Of the groups, for people; found.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import GroupL2, evaluate
    >>> penalty = GroupL2(["age", "town", "town", "town"], 0.5)
    >>> penalty.pointers.tolist(), penalty.names
    ([0, 1, 4], ('age', 'town'))
    >>> w = np.array([3.0, 2.0, -2.0, 1.0])
    >>> bool(abs(evaluate(penalty, w) - 0.5 * (3.0 + 3.0 * np.sqrt(3.0))) < 1e-12)
    True
    >>> GroupL2([[0, 1], [1, 2]]).order.tolist()  # feature 1 has a copy in each group
    [0, 1, 1, 2]
    """

    groups: Any = "columns"
    strength: Any = None
    weights: Any = None
    elastic: float = 0.0
    shared: bool = False  # type: ignore[misc]
    members: Any = None
    names: Any = None
    traits = frozenset({"grouped", "radial"})
    space = {"elastic": Float(0.0, 1.0)}

    def value_block(self, w, group):
        norm = block_norm(w)
        return self.weight(group) * norm + 0.5 * self.strength * self.elastic * norm * norm

    def prox_block(self, v, step, group, out):
        norm, pull = block_norm(v), step * self.weight(group)
        factor = 1.0 - pull / norm if norm > pull else 0.0
        factor /= 1.0 + step * self.strength * self.elastic
        for k in range(v.size):
            out[k] = factor * v[k]


@dataclass(frozen=True, eq=False, repr=False)
class SparseGroupL2(_Weighted):
    """The sparse group lasso: strength sum_g (sqrt(size of g) ||w_g||_2 + within_g ||w_g||_1).

    Whole groups become zero, and single weights within the others.  Its proximal map thresholds
    each weight, then shortens what is left of a group together.

    Parameters
    ----------
    groups : labels, lists of features, a dictionary of them, or str, default="columns"
        As in :class:`GroupL2`.
    strength : float or None, default=None
        None: an estimator finds it, a hundredth of the strength that leaves an empty model.
    within : float or array of shape (n_groups,), default=1.0
        Factors of the l1 norms within the groups; 0: the group lasso.
    weights : array of shape (n_groups,) or None, default=None
        Factors of the groups' norms, at least 0.  None: the roots of their sizes.
    elastic : float, default=0.0
        Share of a ridge within [0, 1], as in :class:`GroupL2`.
    shared : bool, default=False
        Of several classes: one norm for a group's weights of all classes, as in :class:`GroupL2`.
    members : array or None, default=None
        Where groups share features: the feature that each of ``groups`` is a copy of; found.
    names : tuple of str or None, default=None
        Of the groups, for people; found.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import SparseGroupL2
    >>> penalty, out = SparseGroupL2([0, 0, 0], 1.0, within=0.5, weights=[1.0]), np.empty(3)
    >>> penalty.prox_block(np.array([3.5, 0.25, -4.5]), 1.0, 0, out)
    >>> out.round(3).tolist()
    [2.4, 0.0, -3.2]
    """

    groups: Any = "columns"
    strength: Any = None
    within: Any = 1.0
    weights: Any = None
    elastic: float = 0.0
    shared: bool = False  # type: ignore[misc]
    members: Any = None
    names: Any = None
    hidden = _FIELDS | {"within"}
    derived = (*_Weighted.derived, "thresholds")
    space = {"elastic": Float(0.0, 1.0)}
    thresholds: ClassVar[Any] = None  # of the weights of each group

    def __post_init__(self):
        super().__post_init__()
        given = self.within
        if np.ndim(given) == 0:
            if not (isinstance(given, int | float | np.number) and 0.0 <= given < math.inf):
                raise ValueError(
                    f"SparseGroupL2: within must be finite and at least 0, got {given!r}"
                )
            given = np.full(self.n_groups, float(given))
        self._set(thresholds=self._numbers("within", given) if self.is_bound else np.zeros(0))

    def pattern_within(self, w, group):
        """Its sign, or zero, where single weights have a threshold."""
        return sign(w) if self.thresholds[group] > 0.0 else 1.0

    def threshold(self, group):
        return self.strength * (1.0 - self.elastic) * self.thresholds[group]

    def _entry_levels(self) -> np.ndarray:
        return self.strength * (1.0 - self.elastic) * self.thresholds

    def value_block(self, w, group):
        square, total = 0.0, 0.0
        for k in range(w.size):
            square += w[k] * w[k]
            total += abs(w[k])
        ridge = 0.5 * self.strength * self.elastic * square
        return self.weight(group) * math.sqrt(square) + self.threshold(group) * total + ridge

    def prox_block(self, v, step, group, out):
        square, least = 0.0, step * self.threshold(group)
        for k in range(v.size):
            left = max(abs(v[k]) - least, 0.0)
            out[k] = math.copysign(left, v[k])
            square += left * left
        norm, pull = math.sqrt(square), step * self.weight(group)
        factor = 1.0 - pull / norm if norm > pull else 0.0
        factor /= 1.0 + step * self.strength * self.elastic
        for k in range(v.size):
            out[k] *= factor


def lp_value(w: Any, p: float, penalty: GroupPenalty | None = None) -> float:
    """sum_j |w_j|^p, or sum_g ||w_g||^p over the groups of a penalty; p = 0 counts the non-zeros.

    With p < 1 it is not convex: a measure of how sparse weights are, and not to be learned with.

    Parameters
    ----------
    w : array of shape (n_features,)
    p : float
        At least 0.
    penalty : GroupPenalty or None, default=None
        Whose groups they are, disjoint ones.

    Examples
    --------
    >>> import numpy as np
    >>> from thresher.penalties import GroupL2, lp_value
    >>> w = np.array([3.0, 4.0, 0.0])
    >>> lp_value(w, 0.0), lp_value(w, 0.0, GroupL2([0, 0, 1])), lp_value(w, 2.0)
    (2.0, 1.0, 25.0)
    """
    if not 0.0 <= p < math.inf:
        raise ValueError(f"p must be finite and at least 0, got {p}")
    lengths = np.abs(np.asarray(w, dtype=np.float64))
    if penalty is not None:
        if penalty.overlaps:
            raise ValueError("the groups share features: their norms are not those of the weights")
        size = penalty.starts.size - 1
        if size != lengths.size:
            raise ValueError(
                f"the penalty has groups of {size} features, for {lengths.size} weights"
            )
        lengths = np.sqrt(np.bincount(penalty.groups, lengths**2, penalty.n_groups))
    return float(np.count_nonzero(lengths) if p == 0.0 else np.sum(lengths**p))
