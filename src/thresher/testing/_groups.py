"""Checks of a penalty over groups of coordinates."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import minimize

from thresher._terms import capabilities
from thresher.penalties import evaluate
from thresher.testing._require import require, require_close, same_compiled

_POINTS = 8  # blocks of each group on which it is tried


def check_group_penalty(penalty: Any, rng: np.random.Generator) -> None:
    """The layout of the groups, then value and proximal map of each, and of all together."""
    name, caps = type(penalty).__name__, capabilities(penalty)
    for method in ("value_block", "prox_block"):
        require(method in caps, f"{name}: grouped, but has no {method}")
    for method in ("value", "prox"):
        require(method not in caps, f"{name}: grouped, but offers {method} of one coordinate")
    _check_layout(penalty, name)
    for group, size in enumerate(np.diff(penalty.pointers)):
        blocks = rng.normal(0.0, 2.0, (_POINTS, size)) * (rng.uniform(size=(_POINTS, size)) < 0.8)
        _check_value(penalty, name, group, blocks)
        for v in blocks:
            _check_prox(penalty, name, group, v, float(10.0 ** rng.uniform(-2.0, 1.0)), rng)
        _check_distances(penalty, name, group, blocks)
        if "weight" in caps:
            _check_weight(penalty, name, group, blocks)
    copies = rng.normal(0.0, 2.0, penalty.order.size)
    w = np.bincount(penalty.order, copies)  # of features, each the sum of its copies
    bounds = itertools.pairwise(penalty.pointers)
    by_group = sum(penalty.value_block(copies[a:b], g) for g, (a, b) in enumerate(bounds))
    if penalty.overlaps:
        lower = evaluate(penalty, w) <= by_group * (1.0 + 1e-9)
        require(lower, f"{name}: some split of the weights is better than the best")
    else:
        found = evaluate(penalty, w)
        require_close(found, by_group, 1e-12, f"{name}: not the sum over the groups")
    same_compiled(_table, (2, copies.size), name, penalty, copies)


def _check_layout(penalty: Any, name: str) -> None:
    """Of the copies of features in groups; without shared features each has one."""
    groups, order, pointers = penalty.groups, penalty.order, penalty.pointers
    members = np.arange(groups.size) if penalty.members is None else penalty.members
    present = np.array_equal(np.unique(order), np.arange(members.max() + 1))
    require(present, f"{name}: order does not have all features")
    whole = pointers[0] == 0 and pointers[-1] == groups.size and np.all(np.diff(pointers) > 0)
    require(whole, f"{name}: pointers must rise from 0 to the number of features")
    pairs = sorted(zip(groups.tolist(), members.tolist(), strict=True))
    owners = np.repeat(np.arange(pointers.size - 1), np.diff(pointers))
    found = sorted(zip(owners.tolist(), order.tolist(), strict=True))
    require(found == pairs, f"{name}: order and pointers do not gather the groups")
    feature = np.repeat(np.arange(penalty.starts.size - 1), np.diff(penalty.starts))
    back = np.array_equal(order[penalty.places], feature)
    require(back, f"{name}: places are not those of the features")
    homes = np.array_equal(owners[penalty.places], penalty.homes)
    require(homes, f"{name}: homes are not the groups of the copies")


def _check_weight(penalty: Any, name: str, group: int, blocks: np.ndarray) -> None:
    """What solvers conclude from it: blocks that become zero, and for radial ones all blocks."""
    weight, step = penalty.weight(group), 0.7
    for v in blocks:
        norm, value = float(np.linalg.norm(v)), penalty.value_block(v, group)
        least = value >= weight * norm * (1.0 - 1e-12)
        require(least, f"{name}: a group's term must be at least weight ||w||")
        if "radial" in penalty.traits:
            whole = weight * norm + 0.5 * penalty.ridge * norm**2
            text = f"{name}: radial, but its value is not weight ||w|| + ridge / 2 ||w||^2"
            require_close(value, whole, 1e-10, text)
            shrunk = v * max(1.0 - step * weight / norm, 0.0) if norm else v
            wanted = shrunk / (1.0 + step * penalty.ridge)
            require_close(_prox(penalty, v, step, group), wanted, 1e-10, f"{name}: radial, but")


def _check_value(penalty: Any, name: str, group: int, blocks: np.ndarray) -> None:
    at_zero = penalty.value_block(np.zeros(blocks.shape[1]), group)
    require(math.isfinite(at_zero), f"{name}: value_block(0, {group}) is not finite")
    values = [penalty.value_block(w, group) for w in blocks]
    require(min(values) >= at_zero, f"{name}: not smallest at zero, group {group}")
    for (w, a), (u, b) in itertools.combinations(zip(blocks, values, strict=True), 2):
        middle = penalty.value_block(0.5 * (w + u), group)
        require(middle <= 0.5 * (a + b) * (1.0 + 1e-12) + 1e-12, f"{name}: not convex")


def _check_prox(
    penalty: Any, name: str, group: int, v: np.ndarray, step: float, rng: np.random.Generator
) -> None:
    def problem(u: np.ndarray) -> float:
        return penalty.value_block(u, group) + float((u - v) @ (u - v)) / (2.0 * step)

    u, zero = _prox(penalty, v, step, group), np.zeros(v.size)
    where = f"{name}: prox_block({v}, {step}, {group})"
    require(math.isfinite(problem(u)), f"{where} = {u} has no finite penalty")
    require(not np.any(_prox(penalty, zero, step, group)), f"{name}: prox_block moves zero")
    in_place = v.copy()
    penalty.prox_block(in_place, step, group, in_place)
    require(np.array_equal(in_place, u), f"{where} is another one in place")
    # Convex: who finds nothing lower nearby, nor by descent from there, is at the minimum.
    directions = rng.normal(size=(6, v.size))
    nearby = [u + r * d for r in (1e-1, 1e-2, 1e-3, 1e-4) for d in (*directions, u, -u)]
    best = min(map(problem, (zero, v, *nearby)))
    for start in (u, 0.5 * v):
        found = minimize(lambda x: min(problem(x), 1e30), start, method="L-BFGS-B")
        best = min(best, float(found.fun))
    require(
        problem(u) <= best + 1e-9 * (1.0 + abs(best)),
        f"{where} = {u} is not the minimiser: {problem(u)} > {best}",
    )


def _check_distances(penalty: Any, name: str, group: int, blocks: np.ndarray) -> None:
    """A proximal map brings no two points further apart."""
    images = [_prox(penalty, v, 0.3, group) for v in blocks]
    for (v, a), (u, b) in itertools.combinations(zip(blocks, images, strict=True), 2):
        apart = float(np.linalg.norm(a - b))
        require(
            apart <= float(np.linalg.norm(v - u)) * (1.0 + 1e-9) + 1e-12,
            f"{name}: prox_block moves {v} and {u} of group {group} apart",
        )


def _prox(penalty: Any, v: np.ndarray, step: float, group: int) -> np.ndarray:
    out = np.empty_like(v)
    penalty.prox_block(v, step, group, out)
    return out


@njit(cache=True)
def _table(penalty, w, out):
    for group in range(penalty.pointers.size - 1):
        start, stop = penalty.pointers[group], penalty.pointers[group + 1]
        out[0, start:stop] = penalty.value_block(w[start:stop], group)
        penalty.prox_block(w[start:stop], 0.3, group, out[1, start:stop])
