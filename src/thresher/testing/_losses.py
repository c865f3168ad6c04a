"""Checks of a loss against the definitions of its methods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import minimize_scalar

from thresher._terms import capabilities
from thresher.losses import Loss
from thresher.testing._require import require, require_close, require_dataclass, same_compiled

_EXTREME = (1e3, 1e5, 1e8)


def check_loss(loss: Loss, targets: Sequence[float] | None = None, seed: int = 0) -> None:
    """Check ``value``, ``deriv`` and every optional method of a loss against each other.

    Derivatives are compared with differences of the value, the conjugate with Fenchel and Young's
    inequality, the dual step with a numerical minimisation, and the compiled with the interpreted
    methods.

    Parameters
    ----------
    loss : Loss
    targets : sequence of float or None, default=None
        The values of y to try; None: -1 and 1, and others for regression.
    seed : int, default=0
        Of the predictions to try.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from thresher import Hinge
    >>> from thresher.testing import check_loss
    >>> check_loss(Hinge())
    >>> @dataclass(frozen=True)
    ... class Wrong(Hinge):
    ...     def deriv(self, y, p):
    ...         return y if y * p < 1.0 else 0.0
    >>> check_loss(Wrong())
    Traceback (most recent call last):
        ...
    AssertionError: Wrong: ...
    """
    require_dataclass(loss, Loss)
    name, caps = type(loss).__name__, capabilities(loss)
    if targets is None:
        targets = (-1.0, 1.0, 0.3, -2.7) if "regression" in loss.tasks else (-1.0, 1.0)
    rng = np.random.default_rng(seed)
    for y in targets:
        try:
            points = _points(loss, y, rng)
            _check_values(loss, name, y, points)
            if "curvature" in caps:
                _check_curvature(loss, name, y, points)
            if "conjugate" in caps:
                _check_conjugate(loss, name, y, points)
            if "dual_step" in caps:
                require("conjugate" in caps, f"{name}: dual_step needs its conjugate to be given")
                _check_dual_step(loss, name, y, rng)
            if "kinks" in caps:
                _check_kinks(loss, name, y, points)
        except (OverflowError, ZeroDivisionError) as error:
            raise AssertionError(f"{name}: raises {error!r} at y={y}") from error
    if "link" in caps:
        _check_link(loss, name)
    _check_compiled_loss(loss, name, targets, rng, caps)


def _points(loss: Any, y: float, rng: np.random.Generator) -> np.ndarray:
    """Predictions to try, with the place where the derivative jumps most among them."""
    p = np.unique(np.concatenate([np.linspace(-6.0, 6.0, 49), rng.normal(0.0, 3.0, 30), [y]]))
    slopes = np.array([loss.deriv(y, float(v)) for v in p])
    k = int(np.argmax(np.abs(np.diff(slopes)) / np.diff(p)))
    low, high = float(p[k]), float(p[k + 1])
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = abs(loss.deriv(y, middle) - loss.deriv(y, low))
        right = abs(loss.deriv(y, high) - loss.deriv(y, middle))
        low, high = (low, middle) if left >= right else (middle, high)
    return np.unique(np.concatenate([p, [low, high]]))


def _check_values(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    far = [s * e for e in _EXTREME for s in (-1.0, 1.0)]
    p = np.concatenate([points, far])
    value = np.array([loss.value(y, float(v)) for v in p], dtype=np.float64)
    slope = np.array([loss.deriv(y, float(v)) for v in p], dtype=np.float64)
    for v, a, b in zip(p, value, slope, strict=True):
        require(math.isfinite(a), f"{name}: value({y}, {v}) = {a} is not finite")
        require(math.isfinite(b), f"{name}: deriv({y}, {v}) = {b} is not finite")
    _check_differences(loss.value, slope, name, "deriv", "value", y, points, 1e-4)
    for i, j in itertools.combinations(range(points.size), 2):
        middle = loss.value(y, 0.5 * float(p[i] + p[j]))
        chord = 0.5 * (value[i] + value[j])
        require(
            middle <= chord + 1e-10 * (1.0 + abs(chord)),
            f"{name}: not convex between p={p[i]} and p={p[j]} at y={y}",
        )
    for i, j in itertools.permutations(range(p.size), 2):
        tangent = value[i] + slope[i] * (p[j] - p[i])
        slack = 1e-10 * (1.0 + abs(value[i]) + abs(value[j]) + abs(slope[i] * (p[j] - p[i])))
        require(
            value[j] >= tangent - slack,
            f"{name}: deriv({y}, {p[i]}) = {slope[i]} is no subgradient: the value at {p[j]} is "
            f"{value[j]}, below its tangent {tangent}",
        )
        gap = abs(p[j] - p[i])
        require(
            abs(slope[j] - slope[i]) <= loss.smoothness * gap * (1.0 + 1e-9) + 1e-9 * (1.0 + gap),
            f"{name}: deriv changes by {abs(slope[j] - slope[i])} between {p[i]} and {p[j]}, more "
            f"than smoothness={loss.smoothness} allows",
        )


def _check_differences(
    function: Callable[[float, float], float], claimed: np.ndarray, name: str, what: str,
    of: str, y: float, points: np.ndarray, tol: float,
) -> None:  # fmt: skip
    """``claimed`` against differences of ``function`` at the points where it has no kink."""
    h = 1e-5
    for p, c in zip(points, claimed, strict=False):
        left = (function(y, p) - function(y, p - h)) / h
        right = (function(y, p + h) - function(y, p)) / h
        if abs(right - left) <= 1e-3:
            require_close(
                c, 0.5 * (left + right), tol, f"{name}: {what}({y}, {p}) against {of} differences"
            )


def _check_curvature(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    claimed = np.array([loss.curvature(y, float(p)) for p in points])
    require(np.all(claimed >= 0.0), f"{name}: curvature is negative at y={y}")
    _check_differences(loss.deriv, claimed, name, "curvature", "deriv", y, points, 1e-4)
    for far in (-1e3, 1e3, -1e8, 1e8):
        require(math.isfinite(loss.curvature(y, far)), f"{name}: curvature({y}, {far})")


def _check_conjugate(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    value = np.array([loss.value(y, float(p)) for p in points])
    slope = np.array([loss.deriv(y, float(p)) for p in points])
    for a, p, v in zip(slope, points, value, strict=True):
        got = loss.conjugate(y, float(a))
        require_close(got, a * p - v, 1e-7, f"{name}: Fenchel-Young equality at y={y}, p={p}")
        worst = np.max(a * points - value)
        require(got >= worst - 1e-7 * (1.0 + abs(worst)), f"{name}: conjugate({y}, {a}) too low")
    for k in range(points.size - 1):  # slopes that only a kink has
        a, bounds = 0.5 * float(slope[k] + slope[k + 1]), (float(points[k]), float(points[k + 1]))
        # the best of the interval lies inside: its ends have slopes on either side of a
        best = minimize_scalar(
            lambda p, a=a: loss.value(y, p) - a * p, bounds=bounds, method="bounded",
            options={"xatol": 1e-10},
        )  # fmt: skip
        ends = [loss.value(y, p) - a * p for p in bounds]
        require_close(
            loss.conjugate(y, a), -min(best.fun, *ends), 1e-6, f"{name}: conjugate({y}, {a})"
        )
    for side in (-1.0, 1.0):
        near, end = loss.deriv(y, side * 1e6), loss.deriv(y, side * 1e8)
        if near == end:  # slopes are bounded: beyond the bound the supremum is infinite
            outside = end + side * 1e-2 * (1.0 + abs(end))
            require(
                loss.conjugate(y, outside) == math.inf,
                f"{name}: conjugate({y}, {outside}) must be infinite, no prediction has that slope",
            )


def _check_dual_step(loss: Any, name: str, y: float, rng: np.random.Generator) -> None:
    """The dual's minimiser; where rows weigh much, most of the way to it will do."""
    for k in range(80):
        top, far, short = (1.0, 3.0, 0.0) if k < 40 else (2.5, 10.0, 0.1)
        c, q = (float(v) for v in 10.0 ** rng.uniform(-2.0, top, 2))
        p, start = (float(v) for v in rng.normal(0.0, far, 2))
        b = -c * loss.deriv(y, start)

        def dual(new: float, b: float = b, c: float = c, q: float = q, p: float = p) -> float:
            return 0.5 * q * (new - b) ** 2 + p * (new - b) + c * loss.conjugate(y, -new / c)

        still = loss.dual_step(y, start, b, q, c)
        require(
            abs(still - b) <= 1e-6 * (1.0 + abs(b)),
            f"{name}: dual_step(y={y}, p={start}, b={b}, q={q}, c={c}) moves an optimal variable "
            f"to {still}",
        )
        new = loss.dual_step(y, p, b, q, c)
        where = f"{name}: dual_step(y={y}, p={p}, b={b}, q={q}, c={c}) = {new}"
        require(math.isfinite(dual(new)), f"{where} lies outside the conjugate's domain")
        ends = sorted(-c * loss.deriv(y, s * 1e3) for s in (-1.0, 1.0))
        brute = minimize_scalar(dual, bounds=ends, method="bounded", options={"xatol": 1e-10})
        nearby = [new + s * r * (1.0 + abs(new)) for r in (1e-1, 1e-2, 1e-3) for s in (-1, 1)]
        best = min(brute.fun, dual(ends[0]), dual(ends[1]), *map(dual, nearby))
        missed = short * max(dual(b) - best, 0.0) + 1e-8 * (1.0 + abs(best))
        require(
            dual(new) <= best + missed,
            f"{where} is not the minimiser: {dual(new)} > {best}",
        )


def _check_kinks(loss: Any, name: str, y: float, points: np.ndarray) -> None:
    """Lines through the kinks, from the slope before the first of them, are the loss."""
    places, rises = (np.array(part) for part in zip(*loss.kinks(y), strict=True))
    require(np.all(np.diff(places) >= 0.0), f"{name}: kinks({y}) are not in increasing order")
    require(np.all(rises >= 0.0), f"{name}: a slope falls at a kink, kinks({y}) = {loss.kinks(y)}")
    before = float(places[0]) - 1.0 - abs(float(places[0]))
    start, slope = loss.value(y, before), loss.deriv(y, before)
    for p in (*points, *places, *(far * e for e in _EXTREME for far in (-1.0, 1.0))):
        line = start + slope * (p - before) + float(rises @ np.maximum(p - places, 0.0))
        value = loss.value(y, float(p))
        slack = 1e-9 * (1.0 + abs(value) + abs(slope * p))
        require(
            abs(value - line) <= slack,
            f"{name}: value({y}, {p}) = {value}, but by its kinks {line}",
        )


def _check_link(loss: Any, name: str) -> None:
    points = [-1e8, -1e3, *np.linspace(-8.0, 8.0, 65), 1e3, 1e8]
    try:
        link = np.array([loss.link(float(p)) for p in points])
    except OverflowError as error:
        raise AssertionError(f"{name}: link raises {error!r}") from error
    require(np.all((link >= 0.0) & (link <= 1.0)), f"{name}: link leaves [0, 1]")
    require(np.all(np.diff(link) >= 0.0), f"{name}: link decreases")
    require(link[-1] > link[0], f"{name}: link is constant")


@njit(cache=True)
def _loss_table(loss, y, p, out):
    for i in range(p.size):
        out[0, i] = loss.value(y[i], p[i])
        out[1, i] = loss.deriv(y[i], p[i])


@njit(cache=True)
def _curvatures(loss, y, p, out):
    for i in range(p.size):
        out[i] = loss.curvature(y[i], p[i])


@njit(cache=True)
def _duals(loss, y, p, out):
    for i in range(p.size):
        b = -loss.deriv(y[i], -p[i])
        out[0, i] = loss.conjugate(y[i], -b)
        out[1, i] = loss.dual_step(y[i], p[i], b, 0.7, 1.0)


@njit(cache=True)
def _all_kinks(loss, y, p, out):
    for i in range(p.size):
        for place, rise in loss.kinks(y[i]):
            out[0, i] += place
            out[1, i] += rise


@njit(cache=True)
def _links(loss, y, p, out):
    for i in range(p.size):
        out[i] = loss.link(p[i])


def _check_compiled_loss(
    loss: Loss, name: str, targets: Iterable[float], rng: np.random.Generator, caps: frozenset[str]
) -> None:
    y = np.repeat(np.asarray(list(targets), dtype=np.float64), 40)
    p = rng.normal(0.0, 3.0, y.size)
    kernels: list[tuple[Any, tuple[int, ...]]] = [(_loss_table, (2, y.size))]
    if "curvature" in caps:
        kernels.append((_curvatures, y.shape))
    if {"conjugate", "dual_step"} <= caps:
        kernels.append((_duals, (2, y.size)))
    if "link" in caps:
        kernels.append((_links, y.shape))
    if "kinks" in caps:
        kernels.append((_all_kinks, (2, y.size)))
    for kernel, shape in kernels:
        same_compiled(kernel, shape, name, loss, y, p)
