"""Who belongs to which group: from what users write to labels of features.

======================================= ==========================================================
``["a", "a", "b"]``, an array           a label for each feature
``[[0, 1], [2]]``, ``[["x", "y"], ..]`` the features of each group, by place or by name (that
                                        of a column: all features that are made of it)
``{"size": ["x", "y"], ...}``           the same with names of the groups
``r"^(\\w+)_"``                          a regular expression: features whose names agree in what
                                        it matches (in its first parenthesis, if it has one)
``"columns"``                           each column of the data, with all features made of it
======================================= ==========================================================

Features that are in several groups have a *copy* in each: copy c is feature ``members[c]`` in group
``labels[c]``.  Nothing but these two arrays is ever copied.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Features", "Membership", "membership"]

_SHOWN = 5


@dataclass(frozen=True)
class Features:
    """What is known of the features when groups are to be found.

    Parameters
    ----------
    count : int
    names : sequence of str or None, default=None
        Of the features.
    columns : sequence of (str, int) or None, default=None
        The columns of the data that they were made of, in order: name and number of features.

    Examples
    --------
    >>> from thresher.penalties import Features
    >>> Features(2, ["height", "width"]).count
    2
    """

    count: int
    names: Sequence[str] | None = None
    columns: Sequence[tuple[str, int]] | None = None


class Membership(NamedTuple):
    """Copy c of feature ``members[c]`` is in group ``labels[c]``, of 0, 1, ...

    ``members`` is None where every feature is in one group; ``names`` where groups have none.
    """

    labels: np.ndarray
    members: np.ndarray | None = None
    names: tuple[str, ...] | None = None


def membership(groups: Any, features: Features | None, owner: str) -> Membership | None:
    """What ``groups`` says, for these features; None: it needs to know them first.

    ``owner`` is named in errors.
    """
    if isinstance(groups, str):
        return None if features is None else _by_text(groups, features, owner)
    names = None
    if isinstance(groups, Mapping):
        if not groups:
            raise ValueError(f"{owner}: there are no groups")
        names, groups = tuple(map(str, groups)), list(groups.values())
    if isinstance(groups, list | tuple) and any(map(_is_listed, groups)):
        return _by_lists(groups, names, features, owner)
    if names is not None:
        raise ValueError(f"{owner}: group {names[0]!r} must be a list of features")
    return _by_labels(groups, owner)


def _is_listed(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset | range | np.ndarray)


def _by_labels(groups: Any, owner: str) -> Membership:
    labels = np.asarray(groups)
    if labels.ndim != 1 or labels.size == 0:
        raise ValueError(
            f"{owner}: groups must be one label per feature, or lists of the features of each group"
        )
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ValueError(f"{owner}: groups must be labels, got NaN or infinity")
    if labels.dtype.kind not in "biufU":
        labels = labels.astype(str)
    if _are_numbers(labels):
        return Membership(labels, None, None)
    distinct, codes = np.unique(labels, return_inverse=True)
    names = tuple(distinct.tolist()) if distinct.dtype.kind == "U" else None
    return Membership(np.ascontiguousarray(codes, dtype=np.int64), None, names)


def _are_numbers(labels: np.ndarray) -> bool:
    """Whether they are 0, 1, ... with none left out, as a penalty keeps them: no need to sort."""
    if labels.dtype != np.int64 or not labels.flags.c_contiguous:
        return False
    return 0 <= labels.min() <= labels.max() < labels.size and bool(np.all(np.bincount(labels)))


def _by_text(text: str, features: Features, owner: str) -> Membership:
    if text == "columns":
        return _by_columns(features)
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise ValueError(f"{owner}: groups={text!r} is no regular expression: {error}") from None
    if features.names is None:
        raise ValueError(
            f"{owner}: groups={text!r} is a pattern of names, but the features have none: give a "
            "frame, or labels"
        )
    found = [pattern.search(name) for name in features.names]
    if not any(found):
        raise ValueError(
            f"{owner}: no feature's name matches groups={text!r}; they are {_listed(features)}"
        )
    place = 1 if pattern.groups else 0
    # A feature without a match is a group by itself, whose name nobody else can have.
    keys = [
        (m[place] or "", "") if m else (n, n) for m, n in zip(found, features.names, strict=True)
    ]
    known: dict[tuple[str, str], int] = {}
    codes = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
    return Membership(codes, None, tuple(key[0] for key in known))


def _by_columns(features: Features) -> Membership:
    if features.columns is None:
        names = None if features.names is None else tuple(map(str, features.names))
        return Membership(np.arange(features.count), None, names)
    widths = [width for _, width in features.columns]
    codes = np.repeat(np.arange(len(widths)), widths)
    return Membership(codes, None, tuple(name for name, _ in features.columns))


# ---------------------------------------------------------------- lists of features


def _by_lists(
    groups: Sequence[Any], names: tuple[str, ...] | None, features: Features | None, owner: str
) -> Membership | None:
    shown = [repr(n) for n in names] if names else [str(g) for g in range(len(groups))]
    for title, group in zip(shown, groups, strict=True):
        if not _is_listed(group):
            raise ValueError(f"{owner}: group {title} must be a list of features, got {group!r}")
        if len(group) == 0:
            raise ValueError(f"{owner}: group {title} is empty")
    listed = [list(group) for group in groups]
    if features is None and any(isinstance(item, str) for group in listed for item in group):
        return None
    places = [
        _places(g, features, f"{owner}: group {t}") for t, g in zip(shown, listed, strict=True)
    ]
    members = np.concatenate(places)
    labels = np.repeat(np.arange(len(places)), [p.size for p in places])
    count = int(members.max()) + 1 if features is None else features.count
    covered = np.bincount(members, minlength=count)
    if not np.all(covered):
        largest = "" if features is not None else f", but feature {count - 1} is in one"
        missed = _missed(np.flatnonzero(covered == 0), features)
        raise ValueError(f"{owner}: {missed} in no group{largest}")
    if members.size > count:
        return Membership(labels, members, names)
    return Membership(labels[np.argsort(members, kind="stable")], None, names)


def _places(group: list[Any], features: Features | None, owner: str) -> np.ndarray:
    """The features of a group as numbers."""
    known = {} if features is None else _numbered(features)
    out: list[int] = []
    for item in group:
        if isinstance(item, str):
            if item not in known:
                near = difflib.get_close_matches(item, known, n=1)
                hint = f": did you mean {near[0]!r}?" if near else ""
                which = "" if known else ", and the features have no names"
                raise ValueError(f"{owner} names {item!r}, which is no feature{which}{hint}")
            out.extend(known[item])
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            if item < 0 or (features is not None and item >= features.count):
                most = "" if features is None else f" of {features.count}"
                raise ValueError(f"{owner} has feature {item}, which is none{most}")
            out.append(int(item))
        else:
            raise ValueError(f"{owner} has {item!r}, which is neither a name nor a place")
    if len(set(out)) < len(out):
        twice = next(j for k, j in enumerate(out) if j in out[:k])
        name = twice if features is None or features.names is None else str(features.names[twice])
        raise ValueError(f"{owner} has feature {name!r} twice")
    return np.array(out, dtype=np.int64)


def _numbered(features: Features) -> dict[str, range]:
    """The features that a name stands for: one, or those of a column."""
    known, first = {}, 0
    for column, width in features.columns or ():
        known[str(column)] = range(first, first + width)
        first += width
    names = () if features.names is None else features.names
    return known | {str(name): range(j, j + 1) for j, name in enumerate(names)}


def _missed(places: np.ndarray, features: Features | None) -> str:
    names = None if features is None else features.names
    shown = [str(j) if names is None else repr(str(names[j])) for j in places[:_SHOWN].tolist()]
    more = f" and {places.size - _SHOWN} more" if places.size > _SHOWN else ""
    several = places.size > 1
    return f"feature{'s' * several} {', '.join(shown)}{more} {'are' if several else 'is'}"


def _listed(features: Features) -> str:
    assert features.names is not None
    return ", ".join(map(repr, features.names[:_SHOWN])) + (", ..." * (features.count > _SHOWN))
