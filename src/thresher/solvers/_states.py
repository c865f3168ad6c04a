"""States as values: copies, what a file may bring, and one made of several of different rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from thresher._lanes import aligned

__all__ = ["added", "check_arrays", "combined", "copied", "present"]


def copied(value: Any) -> Any:
    """The same state in memory of its own: arrays, also within lists and states, are copied."""
    if isinstance(value, np.ndarray):
        return _fresh(value, value.dtype)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(copied, value))
    if isinstance(value, list | tuple):
        return type(value)(map(copied, value))
    return value


def check_arrays(state: Any, fresh: Any) -> None:
    """ValueError unless the state has the type, arrays and numbers that a ``fresh`` one has.

    Of numbers the types count, which compiled code is made for, and that counts are counts.
    """
    if type(state) is not type(fresh):
        raise ValueError(f"the state is not a {type(fresh).__name__}")
    for name, expected, found in zip(fresh._fields, fresh, state, strict=True):
        if isinstance(expected, np.ndarray):
            _check_array(name, expected, found)
        elif isinstance(expected, bool | int | float):
            _check_number(name, expected, found)


def _check_array(name: str, expected: np.ndarray, found: Any) -> None:
    if not isinstance(found, np.ndarray) or found.dtype != expected.dtype:
        raise ValueError(f"the state's {name} is not an array of {expected.dtype}")
    if found.shape != expected.shape:
        raise ValueError(f"the state's {name} has shape {found.shape}, not {expected.shape}")
    by_columns = expected.flags.fnc  # columns lie together: the loops count on the one or the other
    if not (found.flags.f_contiguous if by_columns else found.flags.c_contiguous):
        raise ValueError(f"the state's {name} is stored in another order")
    if found.dtype.kind == "f" and not np.all(np.isfinite(found)):
        raise ValueError(f"the state's {name} holds NaN or infinite numbers")


def _check_number(name: str, expected: Any, found: Any) -> None:
    kinds = (float, np.float64) if isinstance(expected, float) else (type(expected), np.int64)
    if not isinstance(found, kinds) or isinstance(found, bool) != isinstance(expected, bool):
        raise ValueError(f"the state's {name} is a {type(found).__name__}")
    if isinstance(expected, float):
        if not math.isfinite(found):
            raise ValueError(f"the state's {name} is {found}")
    elif not 0 <= found < 2**62:
        raise ValueError(f"the state's {name} is {found}, which is no count")


def present(states: Sequence[Any], weights: Sequence[float]) -> tuple[list[Any], np.ndarray]:
    """The states whose rows have a mass, and their shares of it, which sum to one."""
    masses = [float(weight) for weight in weights]
    if len(masses) != len(states):
        raise ValueError(f"{len(states)} states to merge, but {len(masses)} weights")
    if not all(0.0 <= mass < math.inf for mass in masses):
        raise ValueError(f"weights are masses of rows, finite and at least 0: got {masses}")
    kept = [k for k, mass in enumerate(masses) if mass > 0.0]
    shares = np.array([masses[k] for k in kept])
    return [states[k] for k in kept], shares / max(float(shares.sum()), 1e-300)


def combined(states: Sequence[Any], base: Any, shares: np.ndarray, sums: frozenset[str]) -> Any:
    """Field by field: base + sum_k (state_k - base) where ``sums`` names it, else sum_k share_k
    state_k, rounded for a counter.

    Both count the base once.  ``shares`` sum to one, and no memory is shared with the arguments.
    """
    fields: list[Any] = []
    for name, start, values in zip(base._fields, base, zip(*states, strict=True), strict=True):
        value = _added(values, start) if name in sums else _mean(values, shares)
        if isinstance(start, np.ndarray):
            fields.append(_fresh(value, start.dtype))
        else:
            fields.append(round(value) if isinstance(start, int | np.integer) else float(value))
    return type(base)(*fields)


def added(
    states: Sequence[Any], base: Any, weights: Sequence[float], names: Iterable[str], mass: str
) -> dict[str, Any]:
    """Sums over the rows of all shards: the base's, and what each has added to them.

    ``weights`` are the masses that the shards' rows are to count as; the field ``mass`` says what
    they had.  Steps are counted as they are.
    """
    states, shares = present(states, weights)
    own = np.array([getattr(s, mass) - getattr(base, mass) for s in states])
    learned = np.flatnonzero(own > 0.0)
    total, share = float(own[learned].sum()), float(shares[learned].sum())
    sums = {name: getattr(base, name) + 0.0 for name in names}
    for k in learned:
        factor = float((shares[k] / share) * (total / own[k]))
        for name in sums:
            sums[name] = sums[name] + factor * (getattr(states[k], name) - getattr(base, name))
    sums[mass] = getattr(base, mass) + total
    sums["step"] = base.step + sum(s.step - base.step for s in states)
    return sums


def _added(values: Sequence[Any], start: Any) -> Any:
    total = _double(start)
    for value in values:
        total = total + (_double(value) - _double(start))
    return total


def _mean(values: Sequence[Any], shares: np.ndarray) -> Any:
    return sum(share * _double(value) for share, value in zip(shares, values, strict=True))


def _double(value: Any) -> Any:
    """Sums of single-precision weights are taken in double precision; counters stay whole."""
    return value.astype(np.float64) if isinstance(value, np.ndarray) else value


def _fresh(array: np.ndarray, dtype: Any) -> np.ndarray:
    """A copy that starts on a cache line, as tables of several classes must for their speed."""
    if not array.flags.c_contiguous:
        return np.array(array, dtype=dtype, order="K")
    out = aligned(array.shape, dtype)
    out[...] = array
    return out
