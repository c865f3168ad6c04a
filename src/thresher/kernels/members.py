"""Which kernels a bank has: standard ones or a user's, on single columns, groups of them or all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thresher.kernels.bank import Member
from thresher.kernels.functions import RBF, Kernel, Polynomial
from thresher.kernels.width import resolve_kernel
from thresher.registry import resolve

__all__ = ["column_groups", "described", "members_of", "standard_kernels"]

_PLACES = ("auto", "both", "each", "all")
_MANY = 100  # columns beyond which none has kernels of its own, unless it is asked for


def standard_kernels() -> list[Kernel]:
    """Gaussians of widths sigma = 2^-3 .. 2^6 and polynomials of degree 1 to 3.

    For standardised columns; 13 (d + 1) kernels of d columns and all of them together, as in
    Rakotomamonjy, Bach, Canu and Grandvalet, SimpleMKL (2008).
    """
    gaussians: list[Kernel] = [RBF.from_sigma(2.0**k) for k in range(-3, 7)]
    return [*gaussians, *(Polynomial(degree=k) for k in (1, 2, 3))]


def column_groups(
    columns: Any, n_features: int, names: Sequence[str] | None = None
) -> list[tuple[int, ...] | None]:
    """Groups of column numbers, None for all; ``columns`` is as users say it.

    "all", "each" (every column alone), "both", "auto" ("both" of up to 100 columns, else "all"), or
    a list of columns and lists of columns, by number or name.
    """
    if isinstance(columns, str) and columns in _PLACES:
        if columns == "auto":
            columns = "both" if n_features <= _MANY else "all"
        single: list[tuple[int, ...] | None] = [(j,) for j in range(n_features)]
        together: list[tuple[int, ...] | None] = [None]
        return {"all": together, "each": single, "both": together + single}[columns]
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        known = ", ".join(map(repr, _PLACES))
        raise ValueError(f"columns must be one of {known} or a list, got {columns!r}")
    groups = [_group(item, n_features, names) for item in columns]
    if not groups:
        raise ValueError("columns is empty: there is nothing to compare rows by")
    return groups


def _group(item: Any, n_features: int, names: Sequence[str] | None) -> tuple[int, ...] | None:
    if item is None or (isinstance(item, str) and item == "all"):
        return None
    several = isinstance(item, list | tuple | np.ndarray | range)
    numbers = tuple(_number(one, n_features, names) for one in (item if several else [item]))
    if not numbers:
        raise ValueError("a group of columns is empty: there is nothing to compare rows by")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"the group of columns {item!r} names a column twice")
    return numbers


def _number(item: Any, n_features: int, names: Sequence[str] | None) -> int:
    if isinstance(item, str):
        if names is None or item not in names:
            raise ValueError(f"there is no column named {item!r}")
        return list(names).index(item)
    if isinstance(item, bool) or not isinstance(item, int | np.integer):
        raise ValueError(f"a column is a number or a name, got {item!r}")
    if not 0 <= item < n_features:
        raise ValueError(f"there is no column {item}: they have the numbers 0 to {n_features - 1}")
    return int(item)


def members_of(
    kernels: Any, columns: Any, X: Any, names: Sequence[str] | None = None, seed: int = 0
) -> list[Member]:
    """The kernels of a bank for the rows of X.

    ``kernels`` is "bank" for the standard ones, or a list of kernels (names or objects, which are
    taken on all groups of ``columns``) and pairs (kernel, columns).
    """
    given = standard_kernels() if isinstance(kernels, str) and kernels == "bank" else kernels
    if isinstance(given, str | Kernel) or not isinstance(given, Iterable):
        raise ValueError(
            f"kernels must be 'bank', 'precomputed' or a list of kernels, got {kernels!r}"
        )
    out: list[Member] = []
    for item in given:
        if isinstance(item, tuple | list):
            out += _paired(item, X, names, seed)
        else:
            resolve(item, Kernel, "kernel")
            groups = column_groups(columns, X.shape[1], names)
            out += [_member(item, group, X, seed) for group in groups]
    if not out:
        raise ValueError("kernels is empty: give at least one")
    order = {group: k for k, group in reversed(list(enumerate(m.columns for m in out)))}
    return sorted(out, key=lambda member: order[member.columns])  # those of a group together


def _paired(item: Any, X: Any, names: Sequence[str] | None, seed: int) -> list[Member]:
    if len(item) != 2:
        raise ValueError(f"a kernel on some columns is a pair (kernel, columns), got {item!r}")
    kernel, where = item
    resolve(kernel, Kernel, "kernel")
    if isinstance(where, str) and where in _PLACES:
        groups = column_groups(where, X.shape[1], names)
    else:
        groups = [_group(where, X.shape[1], names)]
    return [_member(kernel, group, X, seed) for group in groups]


def _member(kernel: Any, group: tuple[int, ...] | None, X: Any, seed: int) -> Member:
    """A kernel by name gets its width from these columns."""
    if isinstance(kernel, str):
        kernel = resolve_kernel(kernel, None, Member(resolve(kernel, Kernel, "kernel"), group)
                                .taken(X), seed)  # fmt: skip
    return Member(kernel, group)


def described(kernel: Kernel, columns: tuple[int, ...] | None, names: Sequence[str] | None) -> str:
    """A kernel and its columns in words."""
    if columns is None:
        return f"{kernel} of all columns"
    shown = [names[j] if names is not None else f"column {j}" for j in columns[:4]]
    more = f" and {len(columns) - 4} more" if len(columns) > 4 else ""
    return f"{kernel} of {', '.join(shown)}{more}"
