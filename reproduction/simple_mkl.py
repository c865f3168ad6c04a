"""SimpleMKL's reduced gradient, the published way to the weights of l1-MKL, as a yardstick.

The same machines, kernels and accuracy as the level method has (``thresher.solvers``); only the
search over weights differs.

Reference: Rakotomamonjy, Bach, Canu and Grandvalet, SimpleMKL, JMLR 9 (2008).
"""

from __future__ import annotations

from itertools import count

import numpy as np

from thresher.solvers.base import Status
from thresher.solvers.level import Descent, Visit
from thresher.solvers.multiple_kernels import Saddle

_ACCURACY = 1e-4  # of a machine, as a share of its objective
_NOTHING = 1e-8  # weights below are zero, as published
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_LINE, _FINEST = 0.1, 1e-5  # of a line search, as a share of the longest step; until it descends


class _Machines:
    """Objective and gradient at weights, with the visits counted."""

    def __init__(self, saddle: Saddle):
        self.saddle, self.count, self.unit = saddle, 0, 0.0

    def __call__(self, weights: np.ndarray) -> Visit:
        self.count += 1
        visit = self.saddle(weights, _ACCURACY * self.unit or np.inf)
        if not self.unit:
            self.unit = abs(visit.value)
            visit = self.saddle(weights, _ACCURACY * self.unit)
        return visit


def simple_mkl(saddle: Saddle, tol: float = 0.01, most: int = 1500) -> tuple[Descent, int]:
    """The weights at which the duality gap is ``tol`` of the objective, and the machines solved.

    Of which there are ``most`` about at most.
    """
    machines = _Machines(saddle)
    weights = np.full(saddle.bank.count, 1.0 / saddle.bank.count)
    visit = machines(weights)
    for step in count(1):
        lower = visit.constant - 0.5 * float(visit.forms.max())
        found = Descent(weights, visit, lower, visit.value, step)
        if found.gap <= tol:
            return found._replace(status=Status.CONVERGED), machines.count
        if machines.count >= most:
            return found._replace(status=Status.MAX_ITER), machines.count
        weights, visit = _descended(machines, weights, visit)
    raise AssertionError


def _direction(weights: np.ndarray, visit: Visit) -> tuple[np.ndarray, int]:
    """Downhill within the simplex, along the largest weight's row."""
    slope = -0.5 * visit.forms
    top = int(np.argmax(weights))
    along = slope[top] - slope
    along[(weights <= 0.0) & (along < 0.0)] = 0.0
    along[top] = 0.0
    along[top] = -along.sum()
    return along, top


def _descended(machines: _Machines, weights: np.ndarray, visit: Visit) -> tuple[np.ndarray, Visit]:
    """As far as weights can be taken to zero one by one, then a line search."""
    along, top = _direction(weights, visit)
    at, here = weights, visit
    while True:
        falls = np.flatnonzero(along < 0.0)
        if not falls.size:
            return at, here
        steps = -at[falls] / along[falls]
        first = falls[int(np.argmin(steps))]
        longest = float(steps.min())
        end = _moved(at, longest, along)
        end[first] = 0.0
        there = machines(end)
        # What is lower for all that is known: else short steps end the descent, by their noise.
        if there.constant - 0.5 * float(end @ there.forms) >= here.value:
            break
        at, here = end, there
        if first == top:  # what the others gain was to come from it
            return at, here
        along = along.copy()
        along[top] += along[first]
        along[first] = 0.0
    return _golden(machines, at, here, along, longest)


def _moved(at: np.ndarray, step: float, along: np.ndarray) -> np.ndarray:
    """Within the simplex; what rounding leaves of a weight is none."""
    out = at + step * along
    out[out < _NOTHING] = 0.0
    return out / out.sum()


def _golden(
    machines: _Machines, at: np.ndarray, here: Visit, along: np.ndarray, longest: float
) -> tuple[np.ndarray, Visit]:
    """The best of a golden section of the step."""
    low, high = 0.0, longest
    best = (at, here)
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    visits = [machines(_moved(at, step, along)) for step in inner]
    while high - low > (_LINE if best[0] is not at else _FINEST) * longest:
        for step, visit in zip(inner, visits, strict=True):
            if visit.value < best[1].value:
                best = (_moved(at, step, along), visit)
        if visits[0].value < visits[1].value:
            high, inner[1], visits[1] = inner[1], inner[0], visits[0]
            inner[0] = high - _GOLDEN * (high - low)
            visits[0] = machines(_moved(at, inner[0], along))
        else:
            low, inner[0], visits[0] = inner[0], inner[1], visits[1]
            inner[1] = low + _GOLDEN * (high - low)
            visits[1] = machines(_moved(at, inner[1], along))
    return best
