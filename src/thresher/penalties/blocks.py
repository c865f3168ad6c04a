r"""The protocol of penalties over groups of coordinates, and the layout of the groups.

Groups may share features.  The penalty is then that of the best split of the weights among the
groups (Jacob, Obozinski and Vert, 2009: the latent group lasso),

.. math:: \psi(w) = \min_v \left\{\sum_g \psi_g(v_g) : w_j = \sum_{g \ni j} v_{g,j}\right\},

and solvers learn v, a weight for each copy of a feature, from rows that are never copied: only
``order``, the feature of each copy, is.  The non-zero weights are then those of a union of groups.
"""

from __future__ import annotations

import dataclasses
import math
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numba import njit

from thresher.penalties.base import Penalty
from thresher.penalties.membership import Features, Membership, membership

__all__ = [
    "GroupPenalty",
    "block_norm",
    "block_norms",
    "block_weights",
    "folded",
    "split",
]

_ROUNDS, _ENOUGH = 2000, 1e-9  # of splitting weights among groups
_DUST = 1e-6  # a group with no larger share of any of its features is not used


class GroupPenalty(Penalty):
    r"""Protocol of a convex penalty over groups of coordinates, smallest at zero.

    A subclass has a field ``groups``, one label per feature, and calls ``_lay_out`` in its
    ``__post_init__``.  The labels become 0, 1, ...; the features of group g are then
    ``order[pointers[g]:pointers[g + 1]]``.  A block is the vector of a group's coordinates in that
    order; of several outputs that are learned together it holds the first output's, then the
    next one's.

    ``value_block(w, group)``
        the group's term at the block w
    ``prox_block(v, step, group, out)``
        :math:`\arg\min_u \psi_g(u) + \|u - v\|^2 / (2\,\mathrm{step})`, written to the
        block ``out``, which may be ``v`` itself
    ``weight(group)``
        optional: the group's term is at least weight ||w||, so that a block becomes zero where
        ||v|| <= step weight; solvers keep norms to know it without a look at the block.  With the
        trait ``radial`` the term *is* weight ||w|| + ridge / 2 ||w||^2, and the norms of the groups
        that a row touches are all that is asked for.
    ``pattern_within(w, group)``
        optional, of a penalty with corners within groups: the smooth piece that a single weight of
        a group that is not zero lies on

    With fields ``members`` and ``names`` besides (None by default) groups may be anything that
    ``thresher.penalties.membership`` lists, and may share features: coordinate c of ``groups`` is
    then a copy of feature ``members[c]``.

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
    derived: ClassVar[tuple[str, ...]] = (
        "order", "pointers", "starts", "places", "owners", "homes",
    )  # fmt: skip
    weight: ClassVar[Any] = None
    pattern_within: ClassVar[Any] = None
    # None of the coordinates has a term of its own.
    value: ClassVar[Any] = None  # type: ignore[assignment]
    prox: ClassVar[Any] = None  # type: ignore[assignment]
    pattern: ClassVar[Any] = None  # type: ignore[assignment]

    groups: Any
    members: Any = None
    names: Any = None
    #: feature of each copy, group after group, and where groups begin
    order: np.ndarray
    pointers: np.ndarray
    #: the copies of feature j are ``places[starts[j]:starts[j + 1]]``, their groups ``homes`` there
    starts: np.ndarray
    places: np.ndarray
    homes: np.ndarray
    #: the group of each copy
    owners: np.ndarray

    @property
    def is_bound(self) -> bool:
        """Whether the features of its groups are known."""
        return isinstance(self.groups, np.ndarray)

    @property
    def n_groups(self) -> int:
        return self.pointers.size - 1

    @property
    def overlaps(self) -> bool:  # type: ignore[override]
        """Whether groups share features."""
        return self.members is not None

    @cached_property
    def latent(self) -> Self:
        """The penalty of the copies, as if each, group after group, were a feature by itself."""
        if not self.overlaps:
            return self
        labels = self.owners.astype(np.int64)
        return dataclasses.replace(self, groups=labels, members=None)  # type: ignore[type-var]

    def pattern_block(self, w, group):
        """The smooth piece that the weights of a group lie on: 0 where all are zero, else 1."""
        return 1.0 if block_norm(w) > 0.0 else 0.0

    def name_of(self, group: int) -> str:
        """For people."""
        return str(group) if self.names is None else self.names[group]

    def bound(self, features: Features) -> Self:
        if self.is_bound:
            return self
        found = membership(self.groups, features, type(self).__name__)
        assert found is not None
        return dataclasses.replace(  # type: ignore[type-var]
            self, groups=found.labels, members=found.members, names=found.names
        )

    def misfit(self, n_features: int) -> str:
        kind = type(self).__name__
        if not self.is_bound:
            return f"{kind}: groups={self.groups!r} are not yet those of features: see bound"
        size = self.starts.size - 1
        if size != n_features:
            what = "features in its groups" if self.overlaps else "labels of groups"
            more = f": feature {size} is in no group" if size < n_features else ""
            return f"{kind} has {size} {what}, but the data has {n_features} features{more}"
        if getattr(self, "strength", 1.0) is None:
            return f"{kind} has no strength yet: give one"
        return ""

    def emptying(self, gradient: np.ndarray) -> float:
        """By halving: the strength at which a proximal step moves no group any more.

        For the group lasso that is the largest of the groups' gradient norms over their weights.
        """
        unit: Any = dataclasses.replace(self, strength=1.0)  # type: ignore[type-var]
        table = np.atleast_2d(np.asarray(gradient, dtype=np.float64))
        wrong = unit.misfit(table.shape[1])
        if wrong:
            raise ValueError(wrong)
        high = 1.0
        while _moves_any(unit, table, high) and high < 1e75:
            high *= 4.0
        low = 0.0 if high == 1.0 else 0.25 * high
        while high - low > 1e-12 * high and high > 1e-75:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _moves_any(unit, table, middle) else (low, middle)
        return high

    def _lay_out(self) -> None:
        """Make labels, and all that is derived from them, of what the user wrote."""
        known = {f.name for f in dataclasses.fields(self)}  # type: ignore[arg-type]
        found = self._found()
        if found is None:
            if "names" not in known:
                raise ValueError(f"{type(self).__name__}: groups must be one label per feature")
            empty = np.zeros(0, np.int64)
            self._set(order=empty, pointers=np.zeros(1, np.int64), starts=np.zeros(1, np.int64))
            small = empty.astype(np.uint32)
            self._set(places=small, owners=small, homes=small)
            return
        labels, members, names = found
        if members is not None and "members" not in known:
            raise ValueError(f"{type(self).__name__}: its groups cannot share features")
        self._set(groups=labels)
        if "names" in known:
            self._set(names=names, members=members)
        by_group = np.argsort(labels, kind="stable")
        order = by_group if members is None else members[by_group]
        pointers = np.concatenate([[0], np.cumsum(np.bincount(labels))])
        places = np.argsort(order, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(order))])
        owners = np.repeat(np.arange(pointers.size - 1), np.diff(pointers))
        self._set(order=order, pointers=pointers, starts=starts)
        self._set(places=places.astype(np.uint32), owners=owners.astype(np.uint32))
        self._set(homes=self.owners[places])

    def _found(self) -> Membership | None:
        kind = type(self).__name__
        if self.members is None:
            found = membership(self.groups, None, kind)
            if found is None or found.names is not None or self.names is None:
                return found
            return found._replace(names=self._named(int(found.labels.max()) + 1))
        labels, members = np.asarray(self.groups), np.asarray(self.members)
        whole = all(a.ndim == 1 and a.size and a.dtype.kind in "iu" for a in (labels, members))
        if not whole or labels.shape != members.shape or min(labels.min(), members.min()) < 0:
            raise ValueError(f"{kind}: groups and members must be a label and a feature per copy")
        listed: list[list[int]] = [[] for _ in range(_count(labels, kind))]
        for label, member in zip(labels.tolist(), members.tolist(), strict=True):
            listed[label].append(member)
        names = self._named(len(listed))
        found = membership(listed, None, kind)
        assert found is not None
        if found.members is None:
            raise ValueError(f"{kind}: members are for groups that share features")
        same = np.array_equal(found.labels, labels) and np.array_equal(found.members, members)
        return found._replace(names=names) if not same else Membership(labels, members, names)

    def _named(self, groups: int) -> tuple[str, ...] | None:
        names = None if self.names is None else tuple(map(str, self.names))
        if names == self.names:
            names = self.names  # the same object: scikit-learn's clone looks for it
        if names is not None and len(names) != groups:
            raise ValueError(f"{type(self).__name__}: {len(names)} names for {groups} groups")
        return names

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@njit(cache=True, nogil=True)
def _moves_any(penalty, gradient, strength):
    """Whether a step along -gradient / strength moves a group whose penalty has strength one."""
    outputs = gradient.shape[0]
    for group in range(penalty.pointers.size - 1):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        block = np.empty(outputs * (stop - start))
        for c in range(outputs):
            for k in range(start, stop):
                block[c * (stop - start) + k - start] = gradient[c, penalty.order[k]] / strength
        penalty.prox_block(block, 1.0, group, block)
        for k in range(block.size):
            if block[k] != 0.0:
                return True
    return False


def _count(labels: np.ndarray, kind: str) -> int:
    """Number of groups; none may be without members, as those of a file could be."""
    count = int(labels.max()) + 1
    if count > labels.size:
        raise ValueError(f"{kind}: some of its {count} groups are empty")
    return count


@njit(cache=True, nogil=True)
def _fill_weights(penalty, out):
    for group in range(out.size):
        out[group] = penalty.weight(group)


def block_weights(penalty: GroupPenalty) -> np.ndarray:
    """The weights of the groups of a radial penalty."""
    out = np.empty(penalty.n_groups)
    _fill_weights(penalty, out)
    return out


@njit(cache=True, nogil=True)
def block_norm(w):
    """The Euclidean length of a block."""
    total = 0.0
    for k in range(w.size):
        total += w[k] * w[k]
    return math.sqrt(total)


def folded(penalty: GroupPenalty, copies: np.ndarray) -> np.ndarray:
    """Weights of features: the sums of their copies', group after group."""
    if not penalty.overlaps:
        w = np.empty_like(copies)
        w[penalty.order] = copies
        return w
    return np.bincount(penalty.order, copies, penalty.starts.size - 1).astype(copies.dtype)


@njit(cache=True, nogil=True)
def _split(penalty, w, rounds, enough, copies):
    r"""The copies of least penalty whose sums are w, from above.

    Shares of a feature go to its groups by :math:`\eta_g = \|v_g\|^2 / \psi_g(v_g)`, again and
    again (the quadratic bound of a norm, minimised; it never rises).
    """
    pointers, order = penalty.pointers, penalty.order
    eta, total = np.ones(pointers.size - 1), np.empty(w.size)
    before = math.inf
    for _ in range(rounds):
        total[:] = 0.0
        for group in range(eta.size):
            for k in range(pointers[group], pointers[group + 1]):
                total[order[k]] += eta[group]
        value = 0.0
        for group in range(eta.size):
            start, stop = pointers[group], pointers[group + 1]
            square = 0.0
            for k in range(start, stop):
                j = order[k]
                copies[k] = w[j] * eta[group] / total[j] if total[j] > 0.0 else 0.0
                square += copies[k] * copies[k]
            own = penalty.value_block(copies[start:stop], group)
            value += own
            if own > 0.0:
                eta[group] = square / own
            elif square > 0.0:
                eta[group] = 1e30
            else:
                eta[group] = 0.0
        if value >= before * (1.0 - enough):
            break
        before = value
    _swept(penalty, w, eta, copies)


@njit(cache=True, nogil=True)
def _swept(penalty, w, eta, copies):
    """Takes groups out whose shares go to zero, and would get there after infinitely many rounds
    only; the other groups get what they had."""
    pointers, order = penalty.pointers, penalty.order
    total = np.zeros(w.size)
    for group in range(eta.size):
        largest = 0.0
        for k in range(pointers[group], pointers[group + 1]):
            if w[order[k]] != 0.0:
                largest = max(largest, abs(copies[k] / w[order[k]]))
        if largest <= _DUST:
            eta[group] = 0.0
        for k in range(pointers[group], pointers[group + 1]):
            total[order[k]] += eta[group]
    for group in range(eta.size):
        for k in range(pointers[group], pointers[group + 1]):
            j = order[k]
            copies[k] = w[j] * eta[group] / total[j] if total[j] > 0.0 else 0.0


def split(penalty: GroupPenalty, w: np.ndarray) -> np.ndarray:
    """Weights of the copies, group after group, that have the least penalty for these weights."""
    if not penalty.overlaps:
        return np.asarray(w, dtype=np.float64)[penalty.order]
    copies = np.empty(penalty.order.size)
    _split(penalty, np.asarray(w, dtype=np.float64), _ROUNDS, _ENOUGH, copies)
    return copies


def block_norms(penalty: GroupPenalty, coef: np.ndarray) -> np.ndarray:
    """The norm of each group's weights, over all outputs, for weights (outputs, features)."""
    squares = sum(split(penalty, w) ** 2 for w in coef)
    return np.sqrt(np.add.reduceat(squares, penalty.pointers[:-1]))
