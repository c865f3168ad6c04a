"""The weights of all classes in the lanes of one table: births, clones, prunes, and room for them.

Sums are stored feature-major, (features, lanes), so that all weights take a non-zero of a row by a
few vector operations.  Lanes grow when births need them and are packed when a prune has freed a
register of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from thresher._lanes import LANES, aligned, whole_registers
from thresher.solvers._states import check_arrays

__all__ = [
    "SLOTS", "HyperplaneState", "averaging", "check_lanes", "compacted", "copy_lane", "free_lane",
    "prune", "settle", "widened", "zero_lane",
]  # fmt: skip

SLOTS = 1 << 20  # an id is a serial number and a lane: serial * SLOTS + lane


class HyperplaneState(NamedTuple):
    """Sums of signed rows by lane; a lane is a weight, a class's zero weight (no hits), or free."""

    sums: np.ndarray  # (features, lanes): u
    bias: np.ndarray  # (lanes,): the constant feature's part of every margin
    late: np.ndarray  # (features, lanes): sum of (averaged steps before it) * change; empty if off
    late_bias: np.ndarray
    owner: np.ndarray  # (lanes,): class, or -1 for a free lane
    ids: np.ndarray  # (lanes,): who lives there, never used twice
    hits: np.ndarray  # (lanes,): steps the weight took; 0 for a zero weight
    sqnorm: np.ndarray  # (lanes,): of u with the constant feature
    sizes: np.ndarray  # (classes,): numbers of weights
    chance: float  # of a clone
    step: int
    violations: int  # steps that moved weights
    averaged: int  # steps that the average covers
    serial: int
    births: int
    prunes: int
    clones: int


@njit(cache=True, nogil=True)
def free_lane(owner):
    """The first lane that no class owns, or -1."""
    for s in range(owner.size):
        if owner[s] < 0:
            return s
    return -1


@njit(cache=True, nogil=True)
def zero_lane(owner, hits, label):
    """The lane of the class's zero weight, or -1 where it is full."""
    for s in range(owner.size):
        if owner[s] == label and hits[s] == 0:
            return s
    return -1


@njit(cache=True, nogil=True)
def settle(owner, ids, hits, s, label, serial):
    """A new zero weight in lane ``s``."""
    owner[s] = label
    ids[s] = serial * SLOTS + s
    hits[s] = 0
    return serial + 1


@njit(cache=True, nogil=True)
def prune(state, threshold, cap, serial):
    """Delete the smallest weights while their joint norm is within ``threshold``; O(lanes^2).

    Every class keeps one weight.  Returns the numbers of weights pruned and the next serial.
    """
    owner, hits, sqnorm, sizes = state.owner, state.hits, state.sqnorm, state.sizes
    sums, late = state.sums, state.late
    passed = np.zeros(owner.size, dtype=np.bool_)
    pruned, total = 0, 0.0
    while True:
        small = -1
        for s in range(owner.size):
            known = owner[s] >= 0 and hits[s] > 0 and not passed[s]
            if known and (small < 0 or sqnorm[s] < sqnorm[small]):
                small = s
        if small < 0 or total + sqnorm[small] > threshold * threshold:
            return pruned, serial
        passed[small] = True
        label = owner[small]
        if sizes[label] == 1:
            continue
        total += sqnorm[small]
        pruned += 1
        for j in range(sums.shape[0]):
            sums[j, small] = 0.0
        for j in range(late.shape[0]):
            late[j, small] = 0.0
        state.bias[small], state.late_bias[small], sqnorm[small] = 0.0, 0.0, 0.0
        owner[small], hits[small] = -1, 0
        if sizes[label] == cap:  # a full class had no zero weight
            serial = settle(owner, state.ids, hits, small, label, serial)
        sizes[label] -= 1


@njit(cache=True, nogil=True)
def copy_lane(state, source, to):
    """Copy a weight with its history into the free lane ``to``."""
    for j in range(state.sums.shape[0]):
        state.sums[j, to] = state.sums[j, source]
    for j in range(state.late.shape[0]):
        state.late[j, to] = state.late[j, source]
    state.bias[to], state.late_bias[to] = state.bias[source], state.late_bias[source]
    state.sqnorm[to], state.hits[to] = state.sqnorm[source], state.hits[source]


def averaging(state: HyperplaneState) -> HyperplaneState:
    """The same state, averaging from now on."""
    return state._replace(
        late=aligned(state.sums.shape, state.sums.dtype),
        late_bias=np.zeros_like(state.late_bias),
        averaged=0,
    )


def check_lanes(state: HyperplaneState, fresh: HyperplaneState, classes: int, cap: int) -> None:
    """ValueError unless ``state`` could have come from ``fresh``, but for the number of lanes."""
    if not isinstance(state, HyperplaneState) or not isinstance(state.owner, np.ndarray):
        raise ValueError("the state has no lanes")
    lanes = state.owner.size
    if np.shape(state.late)[:1] == fresh.sums.shape[:1]:
        fresh = averaging(fresh)
    wide: dict[str, Any] = {
        name: np.broadcast_to(value[..., :1], (*value.shape[:-1], lanes))
        for name, value in fresh._asdict().items()
        if isinstance(value, np.ndarray) and name != "sizes"
    }
    check_arrays(state, fresh._replace(**wide))
    if not lanes or lanes % LANES:
        raise ValueError(f"{lanes} lanes are not whole registers")
    owner, used = state.owner, state.hits > 0
    if not np.array_equal(np.setdiff1d(owner, -1), np.arange(classes)):
        raise ValueError("a class has no weight")
    counts = np.bincount(owner[used & (owner >= 0)], minlength=classes)
    if not np.array_equal(counts, state.sizes):
        raise ValueError("the weights of the classes are miscounted")
    zeros = np.bincount(owner[~used & (owner >= 0)], minlength=classes)
    if np.any(counts > cap) or not np.array_equal(zeros, counts < cap):
        raise ValueError("a class that is not full has one zero weight, a full one has none")


# ---------------------------------------------------------------- room


def widened(state: HyperplaneState) -> HyperplaneState:
    """A quarter more lanes."""
    lanes = state.owner.size
    if lanes >= SLOTS // 2:
        raise ValueError("Hyperplanes: too many weights; lower the cap or raise the threshold")
    return _moved(state, np.arange(lanes), whole_registers(lanes + lanes // 4))


def compacted(state: HyperplaneState, assigned: np.ndarray) -> HyperplaneState:
    """Only as many lanes as are in use; the rows' ids follow their weights."""
    lanes = np.flatnonzero(state.owner >= 0)
    lane = assigned % SLOTS
    if lane.size:
        lane = np.minimum(lane, state.owner.size - 1)
        known = (state.ids[lane] == assigned) & (state.owner[lane] >= 0)
        position = np.cumsum(state.owner >= 0) - 1
        assigned[known] += position[lane[known]] - lane[known]
        assigned[~known] = -1
    return _moved(state, lanes, whole_registers(lanes.size))


def _moved(state: HyperplaneState, lanes: np.ndarray, size: int) -> HyperplaneState:
    """The given lanes first, then free ones up to ``size``."""

    def moved(values: np.ndarray, rest: int = 0) -> np.ndarray:
        out = aligned((*values.shape[:-1], size), values.dtype)
        out[..., lanes.size :] = rest
        out[..., : lanes.size] = values[..., lanes]
        return out

    ids = moved(state.ids)
    ids[: lanes.size] += np.arange(lanes.size) - lanes
    return state._replace(
        sums=moved(state.sums), bias=moved(state.bias), late=moved(state.late),
        late_bias=moved(state.late_bias), owner=moved(state.owner, -1), ids=ids,
        hits=moved(state.hits), sqnorm=moved(state.sqnorm),
    )  # fmt: skip
