"""Warm starts along regularisation paths.

A fit that differs from an earlier one on the same fold by its ``alpha`` only starts where that one
ended; of several, from the one with the nearest log(alpha).  Solvers that end at the optimum, to
the tolerance, wherever they start (``Solver.start_from``) gain: on a path from strong to weak
penalties, proximal Newton and dual coordinate descent need a tenth of the passes, Newton half.

Where a trial may start from is settled between batches of trials, and does not depend on how many
threads evaluate a batch.  A search that is resumed starts cold, so its scores are the same to the
solvers' tolerance.
"""

from __future__ import annotations

import math
import threading
from typing import Any, NamedTuple

from thresher.estimators.base import Setup
from thresher.estimators.linear_model import LinearModel
from thresher.search.settings import settings_key
from thresher.solvers import Result, Solver, Status
from thresher.solvers.base import Near

__all__ = ["Paths", "steps_along"]

_MEMORY = 2.5e8  # bytes of solutions to start from
_USABLE = (Status.CONVERGED, Status.MAX_ITER, Status.STALLED, Status.ALL_ZERO)


class End(NamedTuple):
    """Where one fit ended: a solution for every output."""

    alpha: float
    number: int  # of the trial
    fold: int
    nears: dict[int | None, Near]

    @property
    def bytes(self) -> int:
        return sum(near.bytes for near in self.nears.values())


class Paths:
    """Ends of fits by fold and settings; safe to use from several threads."""

    def __init__(self) -> None:
        self._settled: dict[tuple, list[End]] = {}
        self._fresh: list[tuple[tuple, End]] = []
        self._lock = threading.Lock()

    def walk(self, model: Any, params: dict[str, Any], fold: int, number: int) -> None:
        """Let ``model``, about to be fitted for a trial, start from a neighbour and be one."""
        alpha = _positive(params.get("alpha"))
        if alpha is None or not isinstance(model, LinearModel):
            return
        key = (fold, *settings_key(params, lambda name: name != "alpha"))
        ends = self._settled.get(key, ())
        near = min(ends, key=lambda e: (abs(math.log(e.alpha / alpha)), e.number), default=None)
        end = End(alpha, number, fold, {})
        with self._lock:
            self._fresh.append((key, end))
        model.follow(_Walk(near, end))

    def settle(self, folds: dict[int, int]) -> None:
        """Between batches: later trials may start where those of the batch ended.

        ``folds`` gives how many folds of each trial count: of a trial that was given up, threads
        may have fitted more of them or not.
        """
        with self._lock:
            fresh, self._fresh = self._fresh, []
        for key, end in sorted(fresh, key=lambda item: item[1].number):
            if end.nears and end.fold < folds.get(end.number, 0):
                self._settled.setdefault(key, []).append(end)
        self._forget()

    def _forget(self) -> None:
        """The oldest trials, so that what is kept fits in memory."""
        ends = [end for ends in self._settled.values() for end in ends]
        total = 0
        for end in sorted(ends, key=lambda e: -e.number):
            total += end.bytes
            if total > _MEMORY:
                for kept in self._settled.values():
                    kept[:] = [e for e in kept if e.number > end.number]
                return


def steps_along(points: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Settings from strong to weak penalties, those of the same ``alpha`` together.

    Each step then starts where the last one ended: a strong penalty is the easy problem.
    """
    if any(_positive(point.get("alpha")) is None for point in points):
        return [points]
    steps: dict[float, list[dict[str, Any]]] = {}
    for point in points:
        steps.setdefault(float(point["alpha"]), []).append(point)
    return [steps[alpha] for alpha in sorted(steps, reverse=True)]


def _positive(alpha: Any) -> float | None:
    return float(alpha) if isinstance(alpha, int | float) and alpha > 0.0 else None


class _Walk:
    """One fit on its path (the protocol ``estimators.base.Path``)."""

    def __init__(self, near: End | None, end: End):
        self.near, self.end = near, end

    def start(self, setup: Setup, output: int | None) -> Near | None:
        near = None if self.near is None else self.near.nears.get(output)
        fits = near is not None and near.coef.size == setup.problem.n_features
        return near if fits else None

    def keep(self, setup: Setup, output: int | None, result: Result) -> None:
        starts = type(setup.solver).start_from is not Solver.start_from
        if starts and result.status in _USABLE:
            self.end.nears[output] = Near.of(setup.problem, result)
