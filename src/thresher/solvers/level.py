r"""The level method: minimise a convex function over a set of weights by its cuts.

Every visit of a point gives a cut; the least height of all cuts over the set is a lower bound, the
least value that was met an upper one.  The next point is the nearest one to this where all cuts lie
below a level between the bounds, so that the steps are long where little is known and short where
much is.

Reference: Lemaréchal, Nemirovskii and Nesterov, New variants of bundle methods (1995).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from thresher.solvers.base import Status
from thresher.solvers.cut_model import Cuts, level_projection, lower_bound
from thresher.solvers.kernel_balls import KernelBall

__all__ = ["PUBLISHED", "Descent", "Search", "Visit", "level_method"]

#: tau = 0.90, and 0.99 from a gap of a hundredth of the objective on
PUBLISHED = "published"
_ACCURACY, _FINEST = 0.1, 1e-6  # of an oracle, as a share of the distance of the bounds
_MOST_CUTS = 120  # of which those without a share in the bound are forgotten


class Visit(NamedTuple):
    """What an oracle says of a point.

    ``value`` is at least the function there; ``constant`` - ``forms`` . x / 2 is nowhere above the
    function, and nearly ``value`` there.
    """

    value: float
    constant: float
    forms: np.ndarray
    found: Any = None


class Descent(NamedTuple):
    """Where a minimisation over weights ended, or stands."""

    weights: np.ndarray
    visit: Visit
    lower: float
    upper: float
    steps: int
    status: Status | None = None

    @property
    def gap(self) -> float:
        """What is missing to the minimum at most, as a share of it."""
        return (self.upper - self.lower) / max(abs(self.upper), 1e-300)


class Search(NamedTuple):
    """A search that begins or goes on: the weights to be visited next, and what was found before.

    ``cuts`` are those of the level method.
    """

    at: np.ndarray
    best: Descent | None = None
    cuts: Cuts | None = None


Oracle = Callable[[np.ndarray, float], Visit]
Monitor = Callable[[Descent], Status | None]
Told = Callable[[Search], None]


def level_method(
    oracle: Oracle, ball: KernelBall, start: Search, *, tau: float | str = 0.5,
    tol: float = 1e-3, max_steps: int = 500, least_step: float = 0.0,
    monitor: Monitor | None = None, told: Told | None = None,
) -> Descent:  # fmt: skip
    """Minimise until the bounds differ by ``tol`` times the upper one.

    Parameters
    ----------
    oracle : callable
        Given weights and the accuracy that is of use (as a number in units of the function), a
        :class:`Visit`.
    ball : KernelBall
    start : Search
        Weights to begin with, or a search that was cut short.
    tau : float or "published", default=0.5
        Where the level lies, between the lower (0) and the upper bound (1).
    tol : float, default=1e-3
    max_steps : int, default=500
    least_step : float, default=0.0
        A step that changes no weight by more ends the search; as published 0.001, with tau
        "published", which ends it early.
    monitor : callable or None, default=None
        Called with a :class:`Descent` after every step; a Status that it returns ends the search.
    told : callable or None, default=None
        Called with a :class:`Search` before every step.
    """
    at, best, cuts = start
    share = _ACCURACY
    lower, before = (-math.inf, 0) if best is None else (best.lower, best.steps)
    for step in range(before + 1, max(before, max_steps) + 1):
        if told is not None:
            told(Search(at, best, cuts))
        visit = oracle(at, share * (best.upper - lower) if best is not None else math.inf)
        cuts = _with(cuts, visit)
        found, shares = lower_bound(ball, cuts)
        lower = max(lower, found)
        if best is None or visit.value < best.upper:
            best = Descent(at, visit, lower, visit.value, step)
        best = best._replace(lower=min(lower, best.upper), steps=step)
        status = _ended(best, tol, monitor)
        if status is not None:
            return best._replace(status=status)
        if cuts.constants.size > _MOST_CUTS:
            cuts = cuts.taken(np.flatnonzero(shares > 1e-9))
        width = best.upper - lower
        height = lower + _tau(tau, best.gap) * width
        following = level_projection(ball, cuts, height, at)
        moved = float(np.max(np.abs(following - at)))
        if moved == 0.0 and share > _FINEST:  # the value here is not known well enough to go on
            share *= 0.1
            continue
        if moved <= least_step:
            return best._replace(status=Status.COMPLETED)
        at, share = following, _ACCURACY
    assert best is not None
    return best._replace(status=Status.MAX_ITER)


def _with(cuts: Cuts | None, visit: Visit) -> Cuts:
    if cuts is None:
        return Cuts(np.array([visit.constant]), visit.forms[None, :])
    return cuts.added(visit.constant, visit.forms)


def _tau(tau: float | str, gap: float) -> float:
    if tau == PUBLISHED:
        return 0.99 if gap <= 0.01 else 0.90
    return float(tau)


def _ended(best: Descent, tol: float, monitor: Monitor | None) -> Status | None:
    if best.gap <= tol:
        return Status.CONVERGED
    return None if monitor is None else monitor(best)
