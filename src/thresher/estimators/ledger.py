"""Where the dual problems of a fit stand, for whoever wants to go on after an interrupt.

Whoever can save them says so with :func:`recording`; fits note every problem that is finished and,
step by step, where the running ones stand.  A fit inside the same call, with a ledger that was read
back, takes finished problems as they are and starts the others from where they stood: those that
were finished are the same to the bit, the others the same to the tolerance.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from thresher.functions.base import check_numbers, require
from thresher.solvers import Status

__all__ = ["Finished", "Ledger", "Standing", "current", "recording"]

_MOST = 2**31


class Standing(NamedTuple):
    """A problem that is being solved: its variables, and the steps that led there.

    ``more`` is what else a search over several problems needs to go on; whoever reads it checks
    that it fits.
    """

    z: np.ndarray
    steps: int
    more: dict[str, np.ndarray] | None = None

    def check(self) -> None:
        require(np.ndim(self.z) == 1, "the variables of a problem are damaged")
        check_numbers("the variables of a problem", self.z, self.z.shape)
        require(_is_count(self.steps), "a count is not a whole number")
        require(isinstance(self.more, dict | None), "a problem is damaged")
        for name, values in (self.more or {}).items():
            require(isinstance(name, str), "a problem is damaged")
            check_numbers(f"{name} of a problem", values, np.shape(values))

    def part(self, name: str, *shape: int | None) -> np.ndarray:
        """One of the arrays of ``more``; a length None may be any."""
        values = (self.more or {}).get(name)
        sizes = np.shape(values) if values is not None else ()
        fits = len(sizes) == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, sizes, strict=True)
        )
        require(values is not None and fits, f"{name} of a problem is missing or damaged")
        assert values is not None
        return values.astype(np.float64)


class Finished(NamedTuple):
    """A problem that was solved: the fields of a ``Fitted``, its status by name."""

    coef: np.ndarray
    intercept: float
    scores: np.ndarray
    status: str
    steps: int
    violation: float
    negative: int

    def check(self) -> None:
        require(np.ndim(self.coef) == 1, "the coefficients of a problem are damaged")
        check_numbers("the coefficients of a problem", self.coef, self.coef.shape)
        check_numbers("the scores of a problem", self.scores, self.coef.shape)
        plain = isinstance(self.intercept, float) and isinstance(self.violation, float)
        require(plain and np.isfinite(self.intercept), "the intercept of a problem is damaged")
        require(self.status == Status.CONVERGED.name, "the end of a problem is damaged")
        counts = _is_count(self.steps) and _is_count(self.negative)
        require(counts, "a count is not a whole number")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _MOST


class Ledger:
    """The problems of the fits of one call, by the number of the fit and of the problem.

    Parameters
    ----------
    on_change : callable or None, default=None
        Called with the ledger, under its lock, whenever something was noted.
    """

    def __init__(self, on_change: Callable[[Ledger], None] | None = None):
        self.on_change = on_change
        self.rows_learned = 0  # variables times steps
        self._standing: dict[tuple[int, int], Standing] = {}
        self._finished: dict[tuple[int, int], Finished] = {}
        self._fits = 0
        self._lock = threading.RLock()

    def begin(self) -> int:
        """The number of the fit that begins."""
        self._fits += 1
        return self._fits - 1

    def standing(self, fit: int, problem: int, size: int) -> Standing | None:
        """Where a problem of so many variables stood."""
        return _fitting(self._standing.get((fit, problem)), size)

    def finished(self, fit: int, problem: int, rows: int) -> Finished | None:
        """What was found of a problem over so many rows."""
        return _fitting(self._finished.get((fit, problem)), rows)

    def note(self, fit: int, problem: int, standing: Standing) -> None:
        """Where a problem stands now."""
        with self._lock:
            self._standing[fit, problem] = standing
            self._changed(standing.z.size)

    def finish(self, fit: int, problem: int, found: Finished) -> None:
        """What was found of a problem in the end."""
        with self._lock:
            self._standing.pop((fit, problem), None)
            self._finished[fit, problem] = found
            self._changed(found.coef.size)

    def _changed(self, variables: int) -> None:
        self.rows_learned += variables
        if self.on_change is not None:
            self.on_change(self)

    @property
    def is_empty(self) -> bool:
        return not (self._standing or self._finished)

    # ------------------------------------------------------------ as plain values

    def snapshot(self) -> dict[str, Any]:
        """For a file."""
        with self._lock:
            return {
                "rows_learned": self.rows_learned,
                "standing": [(*key, *value) for key, value in self._standing.items()],
                "finished": [(*key, *value) for key, value in self._finished.items()],
            }

    @classmethod
    def restored(cls, state: Any) -> Ledger:
        """Of a snapshot that may hold anything; ValueError says what is wrong with it."""
        require(isinstance(state, dict), "the problems are missing")
        out = cls()
        count = state.get("rows_learned")
        require(type(count) is int and 0 <= count < 2**63, "a count is not a whole number")
        out.rows_learned = count
        out._standing.update(_lines(state.get("standing"), Standing))
        out._finished.update(_lines(state.get("finished"), Finished))
        return out


def _lines(lines: Any, kind: Any) -> dict[tuple[int, int], Any]:
    """Problems by their numbers, checked."""
    require(isinstance(lines, list), "the problems are missing")
    out = {}
    for line in lines:
        most = 2 + len(kind._fields)  # files of earlier versions lack what has a default
        sizes = range(most - len(kind._field_defaults), most + 1)
        whole = isinstance(line, tuple) and len(line) in sizes
        require(whole and all(map(_is_count, line[:2])), "a problem is damaged")
        out[line[0], line[1]] = value = kind(*line[2:])
        value.check()
    return out


def _fitting(value: Any, size: int) -> Any:
    """The value, if it is one of so many variables."""
    if value is not None and value[0].size != size:
        raise ValueError(
            f"the checkpoint holds a problem of {value[0].size:,} variables, but there are "
            f"{size:,}: start anew without --resume"
        )
    return value


_current: contextvars.ContextVar[Ledger | None] = contextvars.ContextVar("ledger", default=None)


def current() -> Ledger | None:
    """The ledger of whoever called, if there is one."""
    return _current.get()


@contextmanager
def recording(ledger: Ledger | None) -> Iterator[None]:
    """Fits inside note their problems in this ledger; None: nowhere."""
    token = _current.set(ledger)
    try:
        yield
    finally:
        _current.reset(token)
