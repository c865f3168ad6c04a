r"""First-order inner solvers of :math:`\max_\eta \min_{l\le z\le u} F(z) + \eta'(Az - r)`.

*PDSG* (Lee, 2011, algorithm 5, corrected): of the ``group`` variables that violate their conditions
most, those within their bounds take Newton's step :math:`(Q_{FF}+\tau I)^{-1} g_F`, the others
:math:`g_i / Q_{ii}`; the clipped move d is taken at its best length,
:math:`\min(1, -g'd / d'Qd)`; then :math:`\eta_j += (Az - r)_j / G_j`.  (Printed are a
move of the opposite sign, a length without the bound of one, and a dual step of the wrong sign.)

*MPD*, the method of multipliers: single variables (group = 1), and multipliers that move rarely, as
soon as the variables are settled for the present ones: what they violate is half of the next move.
As moves are rare, each also corrects G: down where an equality is still missed on the same side, up
where it is missed on the other.

The scale G of the dual steps stands for :math:`A_F Q_{FF}^{-1} A_F'` of the free variables.  Too
small a G makes eta diverge, the more easily the larger the bounds.  The safe one is a ridge over
all variables, :math:`G_j = a_j'(K + \varrho I)^{-1} a_j`; where violations have grown to ten times
the first ones (or the unit of the targets), the best pair is restored and G becomes four times as
large.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import cho_factor, cho_solve

from thresher.solvers._equality_qp import Block

__all__ = ["Saddle", "ridge_scales", "saddle_steps"]

_TAU = 1e-8
_LEAST = 1e-12


class Saddle(NamedTuple):
    """Where a run of steps ended."""

    z: np.ndarray
    eta: np.ndarray
    scales: np.ndarray
    steps: int
    violation: float


def ridge_scales(block: Block, ridge: float = 1e-2) -> np.ndarray:
    """a_j' (K + ridge I)^-1 a_j over the rows of the block, ``ridge`` of its mean diagonal."""
    count = block.Q.shape[0]
    table = np.zeros((block.A.shape[0], count))
    table[:, block.row] = block.A  # variables of one row count alike
    mean = float(np.mean(np.diag(block.Q)))
    factor = cho_factor(block.Q + ridge * mean * np.eye(count), lower=True, check_finite=False)
    solved = cho_solve(factor, table.T, check_finite=False)
    return np.maximum(np.einsum("jk,kj->j", table, solved), _LEAST)


def saddle_steps(
    block: Block, z: np.ndarray, eta: np.ndarray, scales: np.ndarray, *,
    group: int, patient: bool, tol: float, most: int, unit: float = 1.0,
) -> Saddle:  # fmt: skip
    """At most ``most`` steps, and where they ended.

    ``patient``: multipliers wait for the variables (MPD).  The violation of an equality is measured
    by the mean distance of the bounds, and ``unit`` of it counts as much as that of a condition.
    """
    z, eta, scales = z.copy(), eta.copy(), scales.copy()
    steps, violation = _steps(
        block.Q, block.row.astype(np.int64), block.linear, block.lower, block.upper, block.A,
        block.target, z, eta, scales, max(int(group), 1), bool(patient), float(tol), int(most),
        block.width / unit, float(unit),
    )  # fmt: skip
    return Saddle(z, eta, scales, int(steps), float(violation))


@njit(cache=True, nogil=True)
def _steps(
    Q, row, linear, lower, upper, A, target, z, eta, scales, group, patient, tol, most, width, unit
):
    n, K = z.size, eta.size
    mine, residue = np.zeros(Q.shape[0]), -target
    for i in range(n):
        mine[row[i]] += z[i]
        for j in range(K):
            residue[j] += A[j, i] * z[i]
    images = np.zeros(Q.shape[0])
    for a in range(mine.size):
        if mine[a] != 0.0:
            for b in range(images.size):
                images[b] += mine[a] * Q[a, b]
    best_z, best_eta, best = z.copy(), eta.copy(), np.inf
    chosen, worst = np.empty(group, np.int64), np.empty(group)
    slopes, moves = np.empty(group), np.empty(group)
    system, shift = np.empty((group, group)), np.empty(group)
    earlier = np.zeros(K)
    steps, last, first = 0, np.inf, unit
    while True:
        count, primal = _worst(row, linear, lower, upper, A, z, eta, images, chosen, worst, slopes)
        last = primal
        for j in range(K):
            last = max(last, abs(residue[j]) / width)
        if last < best:
            best = last
            best_z[:] = z
            best_eta[:] = eta
        if last <= tol or steps >= most:
            break
        first = max(first, primal) if steps == 0 else first
        if primal > 10.0 * first:  # diverged: back to the best pair, and more carefully
            z[:] = best_z
            eta[:] = best_eta
            for j in range(K):
                scales[j] *= 4.0
                residue[j] = -target[j]
            mine[:] = 0.0
            for i in range(n):
                mine[row[i]] += z[i]
                for j in range(K):
                    residue[j] += A[j, i] * z[i]
            images[:] = 0.0
            for a in range(mine.size):
                if mine[a] != 0.0:
                    for b in range(images.size):
                        images[b] += mine[a] * Q[a, b]
            steps += 1
            continue
        if primal > 0.0:
            _two_metrics(Q, row, lower, upper, z, chosen, count, slopes, moves, system, shift)
            _move(Q, row, A, lower, upper, z, images, residue, chosen, count, slopes, moves)
        due = 0.0
        for j in range(K):
            due = max(due, abs(residue[j]) / scales[j])
        if not patient or primal <= 0.5 * max(due, tol):
            for j in range(K):
                if patient and earlier[j] != 0.0:
                    scales[j] *= 0.7 if earlier[j] * residue[j] > 0.0 else 2.0
                earlier[j] = residue[j]
                eta[j] += residue[j] / scales[j]
        steps += 1
    # Not the best pair: whoever went back to it would go the same way again.
    return steps, last


@njit(cache=True, nogil=True)
def _worst(row, linear, lower, upper, A, z, eta, images, chosen, worst, slopes):
    """The variables of the largest violations, in no order, and the largest."""
    count, largest, least = 0, 0.0, 0
    for i in range(z.size):
        g = images[row[i]] + linear[i]
        for j in range(eta.size):
            g += eta[j] * A[j, i]
        if z[i] <= lower[i]:
            v = -g
        elif z[i] >= upper[i]:
            v = g
        else:
            v = abs(g)
        if v <= 0.0:
            continue
        largest = max(largest, v)
        if count < chosen.size:
            chosen[count], worst[count], slopes[count] = i, v, g
            if v < worst[least]:
                least = count
            count += 1
        elif v > worst[least]:
            chosen[least], worst[least], slopes[least] = i, v, g
            for k in range(count):
                if worst[k] < worst[least]:
                    least = k
    return count, largest


@njit(cache=True, nogil=True)
def _two_metrics(Q, row, lower, upper, z, chosen, count, slopes, moves, system, shift):
    """Newton's step for the free ones, a scaled one for those on a bound; then clipped."""
    free = 0
    for a in range(count):
        i = chosen[a]
        moves[a] = -slopes[a] / max(Q[row[i], row[i]], _LEAST)
        if lower[i] < z[i] < upper[i]:
            b = 0
            for c in range(a + 1):
                k = chosen[c]
                if lower[k] < z[k] < upper[k]:
                    system[free, b] = Q[row[i], row[k]]
                    b += 1
            system[free, free] += _TAU
            shift[free] = -slopes[a]
            free += 1
    # Cholesky in place, the pivots kept positive; then forth and back.
    for a in range(free):
        for b in range(a + 1):
            total = system[a, b]
            for c in range(b):
                total -= system[a, c] * system[b, c]
            if a == b:
                system[a, a] = np.sqrt(max(total, _TAU))
            else:
                system[a, b] = total / system[b, b]
        for c in range(a):
            shift[a] -= system[a, c] * shift[c]
        shift[a] /= system[a, a]
    for a in range(free - 1, -1, -1):
        for c in range(a + 1, free):
            shift[a] -= system[c, a] * shift[c]
        shift[a] /= system[a, a]
    free = 0
    for a in range(count):
        i = chosen[a]
        if lower[i] < z[i] < upper[i]:
            moves[a] = shift[free]
            free += 1
        moves[a] = min(max(z[i] + moves[a], lower[i]), upper[i]) - z[i]


@njit(cache=True, nogil=True)
def _move(Q, row, A, lower, upper, z, images, residue, chosen, count, slopes, moves):
    """The moves at their best common length, at most one."""
    slope, curvature = 0.0, 0.0
    for a in range(count):
        slope += slopes[a] * moves[a]
        for b in range(count):
            curvature += moves[a] * moves[b] * Q[row[chosen[a]], row[chosen[b]]]
    if slope >= 0.0:
        return
    length = 1.0 if curvature <= -slope else -slope / curvature
    for a in range(count):
        i = chosen[a]
        to = z[i] + moves[a] * length
        if length == 1.0 and (moves[a] == lower[i] - z[i] or moves[a] == upper[i] - z[i]):
            to = lower[i] if moves[a] == lower[i] - z[i] else upper[i]
        step = min(max(to, lower[i]), upper[i]) - z[i]
        if step == 0.0:
            continue
        z[i] += step
        line = Q[row[i]]
        for b in range(images.size):
            images[b] += step * line[b]
        for j in range(residue.size):
            residue[j] += step * A[j, i]
