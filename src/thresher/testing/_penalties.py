"""Checks of a penalty and of a schedule."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import minimize_scalar

from thresher._terms import capabilities
from thresher.penalties import Penalty
from thresher.schedules import Schedule
from thresher.testing._groups import check_group_penalty
from thresher.testing._require import require, require_close, require_dataclass, same_compiled


def check_penalty(penalty: Penalty, n_features: int = 4, seed: int = 0) -> None:
    """Check a penalty's proximal map, its subgradient and what its traits promise.

    A penalty over groups has its own number of features; its groups are checked one by one, and as
    parts of a whole vector.

    Parameters
    ----------
    penalty : Penalty
    n_features : int, default=4
        Coordinates to try; a penalty with a weight per coordinate must have as many.
    seed : int, default=0
        Of the points and the steps to try.

    Examples
    --------
    >>> from thresher import ElasticNet
    >>> from thresher.testing import check_penalty
    >>> check_penalty(ElasticNet(strength=0.5, l1_ratio=0.3), n_features=1)
    """
    require_dataclass(penalty, Penalty)
    if "grouped" in penalty.traits:
        check_group_penalty(penalty, np.random.default_rng(seed))
    else:
        _check_penalty(penalty, n_features, np.random.default_rng(seed))


def _check_penalty(penalty: Any, n_features: int, rng: np.random.Generator) -> None:
    name, caps = type(penalty).__name__, capabilities(penalty)
    for j in range(n_features):
        points = np.concatenate([rng.normal(0.0, 2.0, 25), [0.0, 1.0, -1.0]])
        value = np.array([penalty.value(float(w), j) for w in points])
        at_zero = penalty.value(0.0, j)
        require(math.isfinite(at_zero), f"{name}: value(0, {j}) is not finite")
        require(np.all(value >= at_zero), f"{name}: not smallest at zero, coordinate {j}")
        for (w, a), (u, b) in itertools.combinations(zip(points, value, strict=True), 2):
            middle = penalty.value(0.5 * float(w + u), j)
            require(middle <= 0.5 * (a + b) * (1.0 + 1e-12) + 1e-12, f"{name}: not convex")
        for w in points:
            step = float(10.0 ** rng.uniform(-2.0, 1.0))
            _check_prox(penalty, name, float(w), step, j)
            if "lazy" in penalty.traits:
                _check_lazy(penalty, name, caps, float(w), step, float(rng.uniform(0.1, 2.0)), j)
            if "subgrad" in caps:
                slope = penalty.subgrad(float(w), j)
                below = penalty.value(float(w), j) + slope * (points - w)
                require(
                    np.all(value >= below - 1e-10 * (1.0 + np.abs(below))),
                    f"{name}: subgrad({w}, {j}) = {slope} is no subgradient",
                )
            if "quadratic" in penalty.traits:
                require("precision" in caps, f"{name}: quadratic, but has no precision(j)")
                require_close(
                    penalty.value(float(w), j), 0.5 * penalty.precision(j) * w * w, 1e-10,
                    f"{name}: a quadratic penalty is precision(j) / 2 w^2",
                )  # fmt: skip
        if "uniform" in penalty.traits:
            require_close(
                penalty.ridge, penalty.precision(j), 1e-12,
                f"{name}: a uniform quadratic penalty has precision(j) = ridge",
            )  # fmt: skip
    same_compiled(
        _penalty_table, (2, 20), name, penalty, rng.normal(0.0, 2.0, 20),
        rng.integers(n_features, size=20),
    )  # fmt: skip


def _check_prox(penalty: Any, name: str, w: float, step: float, j: int) -> None:
    def problem(u: float) -> float:
        return penalty.value(u, j) + (u - w) ** 2 / (2.0 * step)

    u = penalty.prox(w, step, j)
    where = f"{name}: prox({w}, {step}, {j}) = {u}"
    require(math.isfinite(problem(u)), f"{where} has no finite penalty")
    require(penalty.prox(0.0, step, j) == 0.0, f"{name}: prox moves zero")
    # smallest at zero and convex: the minimiser lies between zero and w
    brute = minimize_scalar(
        lambda v: min(problem(v), 1e30), bounds=sorted((0.0, w + 1e-12)), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    nearby = [u + s * r for r in (1e-1, 1e-2, 1e-3, 1e-4) for s in (-1.0, 1.0)]
    best = min(brute.fun, *map(problem, (0.0, w, *nearby)))
    require(
        problem(u) <= best + 1e-10 * (1.0 + abs(best)),
        f"{where} is not the minimiser: {problem(u)} > {best}",
    )


def _check_lazy(
    penalty: Any, name: str, caps: frozenset[str], w: float, step: float, more: float, j: int
) -> None:
    require("rest" in caps, f"{name}: lazy, but has no rest(w, step, j)")
    rest = penalty.rest(w, step, j)
    require_close(
        penalty.rest(rest, more, j), penalty.rest(w, step + more, j), 1e-12,
        f"{name}: the steps of rest must add up at w={w}",
    )  # fmt: skip
    require_close(
        penalty.prox(w, step, j), rest / (1.0 + step * penalty.ridge), 1e-12,
        f"{name}: prox must be rest, then division by 1 + step * ridge, at w={w}",
    )  # fmt: skip
    if penalty.ridge > 0.0:
        require_close(
            penalty.rest(more * w, more * step, j), more * rest, 1e-12,
            f"{name}: with a ridge, rest must be homogeneous, at w={w}",
        )  # fmt: skip


@njit(cache=True)
def _penalty_table(penalty, w, j, out):
    for i in range(w.size):
        out[0, i] = penalty.value(w[i], j[i])
        out[1, i] = penalty.prox(w[i], 0.3, j[i])


def check_schedule(schedule: Schedule) -> None:
    """Check that every step size is a positive, finite number, compiled and interpreted.

    Parameters
    ----------
    schedule : Schedule

    Examples
    --------
    >>> from thresher.schedules import InverseRoot
    >>> from thresher.testing import check_schedule
    >>> check_schedule(InverseRoot(theta=0.5))
    """
    require_dataclass(schedule, Schedule)
    name = type(schedule).__name__
    times = np.array([1, 2, 3, 7, 10, 100, 10_000, 10**6, 10**9])
    for t in times:
        try:
            step = schedule.at(int(t))
        except (ArithmeticError, ValueError) as error:
            raise AssertionError(f"{name}: at({t}) raises {error!r}") from error
        require(0.0 < step < math.inf, f"{name}: at({t}) = {step} is no positive, finite step")
    same_compiled(_steps, times.shape, name, schedule, times)


@njit(cache=True)
def _steps(schedule, times, out):
    for i in range(times.size):
        out[i] = schedule.at(times[i])
