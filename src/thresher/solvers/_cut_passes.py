"""What a pass of cutting planes adds up: the state, and the loops over rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from thresher._random import generator
from thresher.solvers._cut_set import Cuts
from thresher.solvers._kinked_line import add_kinks
from thresher.solvers.base import Chunk, Problem

__all__ = [
    "CUTTING", "SEARCHING", "CutState", "Predictions", "emptied", "first_step", "is_first",
    "mean_loss_of", "mean_of", "partitions_of", "passed",
]  # fmt: skip

CUTTING, SEARCHING = 0, 1  # what a pass is for
_NONE, _NO_PARTS = np.zeros(0), np.zeros(0, dtype=np.int64)


class Predictions(NamedTuple):
    """Of all rows, which lie in memory."""

    best: np.ndarray
    point: np.ndarray
    part: np.ndarray  # the partitions of the rows; empty if there is one
    mean: np.ndarray  # of the rows


class CutState(NamedTuple):
    """The cuts, the points between them, and sums over the rows seen in this pass.

    A point is weights, then the intercept.
    """

    slopes: np.ndarray  # those of ``Cuts``, from here ...
    offsets: np.ndarray
    block: np.ndarray
    alpha: np.ndarray
    idle: np.ndarray
    resting: np.ndarray
    products: np.ndarray  # ... to here
    minimum: np.ndarray  # above the cuts
    lower: float  # bound of the objective
    best: np.ndarray
    best_value: float  # the objective there; -1: not known
    trial: np.ndarray  # maybe the next best
    point: np.ndarray  # where this pass takes its cuts
    share: float  # of the way from the trial to the minimum that the point lies on
    stalled: int  # rounds without a new cut
    rounds: int
    phase: int
    value: float  # sum of the losses at the trial
    new_slopes: np.ndarray
    new_offsets: np.ndarray
    kinks: np.ndarray  # in bins between the best point and the minimum
    start: float  # derivative at the best point towards the minimum
    spread: float  # sum of |x|^2 + 1
    steep: float  # sum of squared slopes
    mass: float
    step: int
    memory: Predictions | None  # belongs to no file

    @property
    def cuts(self) -> Cuts:
        return Cuts(
            self.slopes,
            self.offsets,
            self.block,
            self.alpha,
            self.idle,
            self.resting,
            self.products,
        )


@njit(cache=True, nogil=True)
def _add_cuts(
    rows, y, weight, order, loss, given, p, point, trial, apart, part, project, slopes, offsets,
    sums,
):  # fmt: skip
    """Add the rows' lines at the point; sums: loss at the trial, |x|^2 + 1, slope^2, mass.

    ``given``: p holds the predictions at the point, and the first three sums are not asked for.
    """
    d = point.size - 1
    blocks = offsets.size
    value, spread, steep, mass = sums[0], sums[1], sums[2], sums[3]
    for r in range(order.size):
        i = order[r]
        s = weight[i]
        prediction = p[i] if given else rows.dot(i, point[:d]) + point[d]
        k = 0
        if blocks > 1:
            k = part[i] if given else _part_of(rows, i, y[i], project, blocks)
        height = loss.value(y[i], prediction)
        slope = loss.deriv(y[i], prediction)
        if slope != 0.0:
            rows.add(i, s * slope, slopes[k, :d])
            slopes[k, d] += s * slope
        offsets[k] += s * (height - slope * prediction)
        mass += s
        if not given:
            if apart:
                height = loss.value(y[i], rows.dot(i, trial[:d]) + trial[d])
            value += s * height
            spread += s * (rows.sqnorm(i) + 1.0)
            steep += s * slope * slope
    sums[0], sums[1], sums[2], sums[3] = value, spread, steep, mass


@njit(cache=True, nogil=True)
def _part_of(rows, i, y, project, blocks):
    """A partition that depends on the row alone: wherever it lies, and whoever reads it."""
    place = 1e3 * (rows.dot(i, project) + 0.7548776662466927 * y)
    return min(int(blocks * (place - math.floor(place))), blocks - 1)


@njit(cache=True, nogil=True)
def _parts(rows, y, order, project, blocks, part):
    for r in range(order.size):
        i = order[r]
        part[i] = _part_of(rows, i, y[i], project, blocks)


@njit(cache=True, nogil=True)
def _losses(y, weight, order, loss, p):
    total = 0.0
    for r in range(order.size):
        i = order[r]
        total += weight[i] * loss.value(y[i], p[i])
    return total


def passed(problem: Problem, s: CutState, chunk: Chunk) -> CutState:
    """The state after the rows of a chunk."""
    rows, y, weight, order = chunk
    if s.phase == SEARCHING:
        start = add_kinks(rows, y, weight, order, problem.loss, s.best, s.minimum, s.kinks, s.start)
        mass = s.mass + float(np.sum(weight[order]))
        return s._replace(start=float(start), mass=mass, step=s.step + order.size)
    memory = s.memory
    p, part = (_NONE, _NO_PARTS) if memory is None else (memory.point, memory.part)
    sums = np.array([s.value, s.spread, s.steep, s.mass])
    _add_cuts(
        rows, y, weight, order, problem.loss, memory is not None, p, s.point, s.trial,
        s.share > 0.0, part, _projection(problem), s.new_slopes, s.new_offsets, sums,
    )  # fmt: skip
    value, spread, steep, mass = (float(v) for v in sums)
    return s._replace(value=value, spread=spread, steep=steep, mass=mass, step=s.step + order.size)


def partitions_of(problem: Problem, chunk: Chunk, blocks: int) -> np.ndarray:
    """Of all rows; empty if there is one."""
    part = np.zeros(chunk.size if blocks > 1 else 0, dtype=np.int64)
    if blocks > 1:
        _parts(chunk.rows, chunk.y, chunk.order, _projection(problem), blocks, part)
    return part


@njit(cache=True, nogil=True)
def _add_rows(rows, weight, order, out):
    for r in range(order.size):
        rows.add(order[r], weight[order[r]], out)


def mean_of(chunk: Chunk) -> np.ndarray:
    """The weighted mean of the rows."""
    out = np.zeros(chunk.rows.shape[1])
    _add_rows(chunk.rows, chunk.weight, chunk.order, out)
    return out / max(float(np.sum(chunk.weight[chunk.order])), 1e-300)


def _projection(problem: Problem) -> np.ndarray:
    """The same for all shards, whose seeds differ."""
    return generator(0, 12).uniform(size=problem.n_features)


def mean_loss_of(problem: Problem, chunk: Chunk, p: np.ndarray) -> float:
    mass = float(np.sum(chunk.weight[chunk.order]))
    return float(_losses(chunk.y, chunk.weight, chunk.order, problem.loss, p)) / max(mass, 1e-300)


def is_first(s: CutState) -> bool:
    return s.rounds == 0 and s.memory is None and s.mass > 0.0


def first_step(problem: Problem, s: CutState) -> np.ndarray:
    """After a pass at zero: a step so short that the lines of usual rows still hold."""
    length = s.value / max(s.steep, 1e-300) / max(s.spread / s.mass, 1e-300)
    w = s.point - length * np.sum(s.new_slopes, axis=0) / s.mass
    if not problem.fit_intercept:
        w[-1] = 0.0
    return w


def emptied(s: CutState) -> CutState:
    """For the sums of the next pass."""
    return s._replace(
        value=0.0, new_slopes=np.zeros_like(s.new_slopes), new_offsets=np.zeros_like(s.new_offsets),
        kinks=np.zeros_like(s.kinks), start=0.0, spread=0.0, steep=0.0, mass=0.0,
    )  # fmt: skip
