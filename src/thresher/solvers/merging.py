r"""Giving up one support vector at the least cost: by merging two, or by projecting one.

**Merging** (Gaussian kernel).  The vectors :math:`z_a, z_b` with coefficients :math:`a, b \in R^C`
(one per output) are replaced by :math:`z = h z_a + (1-h) z_b`.  With :math:`\kappa = k(z_a, z_b)`
the kernels to the new vector are :math:`k(z_a, z) = \kappa^{(1-h)^2}` and :math:`k(z_b, z) =
\kappa^{h^2}`, the best coefficient is the projection :math:`a\,\kappa^{(1-h)^2} +
b\,\kappa^{h^2}`, and the squared norm that is lost is

.. math:: D = \|a\|^2 + \|b\|^2 + 2\kappa\, a\cdot b - \max_h g(h), \qquad
          g(h) = \|a\,\kappa^{(1-h)^2} + b\,\kappa^{h^2}\|^2.

Only :math:`\|a\|, \|b\|` and :math:`a\cdot b` enter, so :math:`D / \|a\|^2` is a function of three
numbers: kappa, the share :math:`m = \|a\| / (\|a\|+\|b\|)` and the cosine of a and b.  With a the
lighter one it lies between 0 and :math:`1-\kappa^2` (h = 0: a is projected onto b) and is smooth
down to m = 0, where :math:`D / (\|a\|+\|b\|)^2` vanishes quadratically and would be interpolated
badly.  For one output the cosine is 1 or -1: a plane of the table, and a closed form (below).

Two facts make the search short (with :math:`\|a\| \le \|b\|`):

* :math:`g(h) - g(1-h) = (\|b\|^2-\|a\|^2)(\kappa^{2h^2}-\kappa^{2(1-h)^2}) \ge 0` for h <= 1/2,
  whatever the cosine: the best h lies in the heavier vector's half.  There g has one peak; on
  [0, 1] it may have two, and the better one jumps from side to side at m = 1/2.
* for opposite coefficients (cosine -1) g falls from h = 0 on: the lighter vector is projected onto
  the heavier one and :math:`D = \|a\|^2 (1-\kappa^2)`.

Which partner loses least is decided by the table, O(1) per candidate; one golden section then finds
h for the winner alone.  h itself is never interpolated.  Wang, Crammer and Vucetic (2012);
Glasmachers and Qaadan (2018), who tabulated the one-output case.

**Projecting** (any positive definite kernel).  With :math:`Q = (K + \rho\,diag K)^{-1}` of all
support vectors, giving up the j-th and projecting it onto the others loses
:math:`\|a_j\|^2 / Q_{jj}`, and the coefficients of the projection are :math:`-Q_{ij} / Q_{jj}`:
the best one to give up is known in O(B), and Q follows by rank-one steps in O(B^2).
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numba import njit

from thresher.kernels import expansion

__all__ = [
    "MAINTENANCE",
    "MERGE",
    "PROJECT",
    "RANDOM",
    "REMOVE",
    "RIDGE",
    "best_share",
    "border",
    "fuse",
    "joint_table",
    "lightest",
    "mate",
    "merge_lightest",
    "project",
    "signed_table",
]

#: how a support vector is given up, and the numbers that compiled code knows them by
MAINTENANCE = ("merge", "remove", "remove_random", "project")
MERGE, REMOVE, RANDOM, PROJECT = range(len(MAINTENANCE))
RIDGE = 1e-5  # rho of the projection
_NOTHING = 1e12  # Q_jj of a vector without a length

_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)


@njit(cache=True, nogil=True)
def kept(aa, bb, ab, log_kappa, h):
    """g(h): the squared norm of the best single coefficient at h."""
    p = math.exp(log_kappa * (1.0 - h) * (1.0 - h))
    q = math.exp(log_kappa * h * h)
    return aa * p * p + bb * q * q + 2.0 * ab * p * q


@njit(cache=True, nogil=True)
def best_share(aa, bb, ab, log_kappa, steps):
    """The h in [0, 1/2] that keeps most, for squared norms aa <= bb and inner product ab."""
    low, high = 0.0, 0.5
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = kept(aa, bb, ab, log_kappa, left), kept(aa, bb, ab, log_kappa, right)
    for _ in range(steps):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = kept(aa, bb, ab, log_kappa, left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = kept(aa, bb, ab, log_kappa, right)
    h = 0.5 * (low + high)
    return h if kept(aa, bb, ab, log_kappa, h) > kept(aa, bb, ab, log_kappa, 0.0) else 0.0


@njit(cache=True, nogil=True)
def _fill(cosines, kappas, shares, table):
    for r in range(cosines.size):
        for k in range(kappas.size):
            kappa = kappas[k]
            log_kappa = math.log(max(kappa, 1e-30))
            for s in range(shares.size):
                a = max(shares[s], 1e-3)  # the limit at 0, before digits cancel
                b = 1.0 - a
                ab = cosines[r] * a * b
                h = best_share(a * a, b * b, ab, log_kappa, 28)
                most = kept(a * a, b * b, ab, log_kappa, h)
                lost = a * a + b * b + 2.0 * kappa * ab - most
                table[r, k, s] = max(lost, 0.0) / (a * a)


def _table(cosines: np.ndarray, kappas: int, shares: int) -> np.ndarray:
    table = np.empty((cosines.size, kappas, shares), dtype=np.float32)
    _fill(cosines, np.linspace(0.0, 1.0, kappas), np.linspace(0.0, 0.5, shares), table)
    return table


@functools.cache
def signed_table() -> np.ndarray:
    """D / |a|^2 over (1, kappa, share) for coefficients of the same sign."""
    return _table(np.ones(1), 401, 201)


@functools.cache
def joint_table() -> np.ndarray:
    """D / |a|^2 over (cosine, kappa, share)."""
    return _table(np.linspace(-1.0, 1.0, 17), 129, 33)


@njit(cache=True, nogil=True)
def _plane(plane, k, s, u, v):
    low = plane[k, s] + v * (plane[k, s + 1] - plane[k, s])
    high = plane[k + 1, s] + v * (plane[k + 1, s + 1] - plane[k + 1, s])
    return low + u * (high - low)


@njit(cache=True, nogil=True)
def _signed(light, coef, kappa, size, table, out):
    """D / |a|^2 for merging ``light`` with each vector, one output; infinite for itself."""
    plane = table[0]
    rows, columns = plane.shape[0] - 1, plane.shape[1] - 1
    a = abs(coef[light])
    side = 1.0 if coef[light] > 0.0 else -1.0
    for j in range(size):
        b = side * coef[j]
        if b > 0.0:
            u, v = kappa[j] * rows, 2.0 * a / (a + b) * columns
            k, s = min(int(u), rows - 1), min(int(v), columns - 1)
            out[j] = _plane(plane, k, s, u - k, v - s)
        else:
            out[j] = 1.0 - kappa[j] * kappa[j]
    out[light] = math.inf


@njit(cache=True, nogil=True)
def _joint(light, coef, mass, kappa, size, table, out):
    """The same for coefficient vectors ``coef[:, j]`` of squared norms ``mass``, all positive."""
    layers, rows, columns = table.shape[0] - 1, table.shape[1] - 1, table.shape[2] - 1
    for j in range(size):
        out[j] = 0.0
    for c in range(coef.shape[0]):
        here = coef[c, light]
        if here != 0.0:
            for j in range(size):
                out[j] += here * coef[c, j]
    a = math.sqrt(mass[light])
    for j in range(size):
        b = math.sqrt(mass[j])
        w = (out[j] / (a * b) + 1.0) * (0.5 * layers)
        u, v = kappa[j] * rows, 2.0 * a / (a + b) * columns
        r = min(max(int(w), 0), layers - 1)
        k, s = min(int(u), rows - 1), min(int(v), columns - 1)
        u, v, w = u - k, v - s, w - r
        near = _plane(table[r], k, s, u, v)
        far = _plane(table[r + 1], k, s, u, v)
        out[j] = near + w * (far - near)
    out[light] = math.inf


# ---------------------------------------------------------------- merging


@njit(cache=True, nogil=True)
def smallest(values, size):
    best = 0
    for j in range(1, size):
        if values[j] < values[best]:
            best = j
    return best


@njit(cache=True, nogil=True)
def masses(coef, size, out):
    """Squared norm of every vector's coefficients."""
    for j in range(size):
        out[j] = 0.0
    for c in range(coef.shape[0]):
        for j in range(size):
            out[j] += coef[c, j] * coef[c, j]


@njit(cache=True, nogil=True)
def mate(light, coef, mass, kappa, size, table, cost):
    """The partner with which ``light`` is merged at the least ``cost`` (D / |a|^2)."""
    if coef.shape[0] == 1:
        _signed(light, coef[0], kappa, size, table, cost)
    else:
        _joint(light, coef, mass, kappa, size, table, cost)
    return smallest(cost, size)


@njit(cache=True, nogil=True)
def fuse(light, other, coef, lag, mass, kappa, vectors, norms):
    """Merge ``light`` into ``other``; what ``lag`` sums up is mapped in the same way."""
    shared = 0.0
    for c in range(coef.shape[0]):
        shared += coef[c, light] * coef[c, other]
    log_kappa = math.log(min(max(float(kappa), 1e-300), 1.0))
    h = best_share(float(mass[light]), float(mass[other]), shared, log_kappa, 24)
    p, q = math.exp(log_kappa * (1.0 - h) * (1.0 - h)), math.exp(log_kappa * h * h)
    for c in range(coef.shape[0]):
        coef[c, other] = p * coef[c, light] + q * coef[c, other]
        lag[c, other] = p * lag[c, light] + q * lag[c, other]
    if h > 0.0:
        square = 0.0
        for d in range(vectors.shape[0]):
            z = vectors.dtype.type(h * vectors[d, light] + (1.0 - h) * vectors[d, other])
            vectors[d, other] = z
            square += float(z) * float(z)
        norms[other] = square


@njit(cache=True, nogil=True)
def merge_lightest(kernel, state, size, table, columns, values, inner, kernels, mass, cost):
    """Merge the lightest vector into its best partner; returns the slot that is free then."""
    vectors, norms, coef = state.vectors, state.norms, state.coef
    masses(coef, size, mass)
    light = smallest(mass, size)
    if mass[light] > 0.0:
        count = 0
        for d in range(vectors.shape[0]):
            if vectors[d, light] != 0.0:
                columns[count], values[count] = d, vectors[d, light]
                count += 1
        expansion.inner_products(columns, values, 0, count, vectors, norms.size, inner)
        expansion.kernel_values(kernel, inner, norms, norms[light], norms.size, kernels)
        other = mate(light, coef, mass, kernels, size, table, cost)
        fuse(light, other, coef, state.lag, mass, kernels[other], vectors, norms)
    return light


@njit(cache=True, nogil=True)
def lightest(kernel, norms, coef, size, mass):
    """The slot of the smallest ||alpha||^2 k(z, z)."""
    masses(coef, size, mass)
    for j in range(size):
        mass[j] *= kernel.of(norms[j], norms[j], norms[j])
    return smallest(mass, size)


# ---------------------------------------------------------------- projecting


@njit(cache=True, nogil=True)
def border(inverse, kernels, slot, own, size, work):
    """Add the vector in ``slot`` to Q: ``kernels`` with the others (0 in slot), ``own`` k(z, z)."""
    rest = own * (1.0 + RIDGE)
    for i in range(size):
        total = 0.0
        for j in range(size):
            total += inverse[i, j] * kernels[j]
        work[i] = total
        rest -= total * kernels[i]
    # An empty row is nothing to a kernel such as the linear one: it costs nothing to give it up.
    pivot = _NOTHING if own == 0.0 else 1.0 / max(rest, 0.5 * RIDGE * own)
    work[slot] = -1.0
    for i in range(size):
        share = work[i] * pivot
        for j in range(size):
            inverse[i, j] += share * work[j]


@njit(cache=True, nogil=True)
def project(coef, lag, inverse, size, mass):
    """Project the cheapest vector onto the others and take it out of Q; returns its slot."""
    masses(coef, size, mass)
    for j in range(size):
        mass[j] /= inverse[j, j]
    gone = smallest(mass, size)
    pivot = 1.0 / inverse[gone, gone]
    for c in range(coef.shape[0]):
        a, b = coef[c, gone] * pivot, lag[c, gone] * pivot
        for j in range(size):
            coef[c, j] -= a * inverse[gone, j]
            lag[c, j] -= b * inverse[gone, j]
    for i in range(size):
        if i != gone:
            share = inverse[i, gone] * pivot
            for j in range(size):
                inverse[i, j] -= share * inverse[gone, j]
    for j in range(size):
        inverse[gone, j] = 0.0
        inverse[j, gone] = 0.0
    return gone
