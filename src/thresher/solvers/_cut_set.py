r"""A set of cuts under a mean loss that is split over blocks of rows, and the minimum above them.

A cut d of block k bounds its rows' part of the mean loss from below,
:math:`R_k(w, b) \ge a_d\cdot w + e_d b + s_d`, and so does zero.  The minimum of
:math:`\tfrac12\sum_j\lambda_j w_j^2 + \sum_k \max_{d\in D_k}(a_d\cdot w + e_d b + s_d)` is a bound
of the whole objective from below; in its dual,

.. math:: \max_\alpha\; s'\alpha - \tfrac12 \alpha' H \alpha, \quad
          H_{cd} = \sum_j a_{cj} a_{dj} / \lambda_j, \quad
          \sum_{d \in D_k}\alpha_d \le 1, \quad \sum_d \alpha_d e_d = 0,

any feasible point is one, and :math:`w_j = -\sum_d \alpha_d a_{dj} / \lambda_j`.

*The intercept* b is the multiplier of the one equality.  It is found by proximal steps: with b held
to its last value by :math:`(b - b_0)^2 / 2\rho` the equality becomes the term
:math:`\tfrac\rho2 (e'\alpha)^2`, and :math:`b = b_0 - \rho\,e'\alpha`.  A large rho makes two or
three of them enough.  A penalised intercept is the same with :math:`b_0 = 0` and a given rho.

*Held.*  Few cuts say little of a free intercept, and their minimum jumps along it from one kink to
another, far from all that was seen.  So the next point is that of a single proximal step: the mean
prediction is held to that of the best point so far, at first ten times as strongly as the weights
are to zero, and the less the closer the bounds.  That of the objective stays that of a free
intercept.  (The mean prediction and not the intercept, which has to follow the weights
where features are far from zero.)

*Rest.*  A cut without weight in ``rest`` rounds rests: neither it nor its column of H takes part.
After ``recheck`` rounds resting cuts that are violated come back; the others are forgotten.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from thresher.solvers._cut_quadratic import minimise

__all__ = ["Cuts", "Held", "Relaxed", "Shrinking", "empty", "relaxed", "shrunk", "with_cuts"]

_PULL = 1e4  # rho, in units of the largest curvature of the cuts over their largest e^2
_PROXIMAL_STEPS = 20
_SAME = 1e-13  # relative difference from which on two cuts are two


class Cuts(NamedTuple):
    """The cuts, one after the other, and the inner products of those that do not rest."""

    slopes: np.ndarray  # (cuts, features + 1): a_d, then e_d
    offsets: np.ndarray  # s_d
    block: np.ndarray
    alpha: np.ndarray
    idle: np.ndarray  # rounds without weight
    resting: np.ndarray
    products: np.ndarray  # H of the others

    @property
    def size(self) -> int:
        return self.offsets.size


class Shrinking(NamedTuple):
    """When cuts rest, when they are looked at again, and how many there may be."""

    rest: int
    recheck: int
    most: int


class Held(NamedTuple):
    """What a free intercept is held by: the mean of the rows, the best prediction there, and how
    strongly, in units of the penalty on a weight."""

    mean: np.ndarray
    at: float
    strength: float


class Relaxed(NamedTuple):
    """The minimum above the cuts: where, and a bound of all objectives from below."""

    cuts: Cuts
    w: np.ndarray
    lower: float


def empty(features: int) -> Cuts:
    none, count = np.zeros(0), np.zeros(0, dtype=np.int64)
    slopes = np.zeros((0, features + 1))
    return Cuts(slopes, none, count, none, count, np.zeros(0, dtype=bool), np.zeros((0, 0)))


def with_cuts(
    cuts: Cuts, slopes: np.ndarray, offsets: np.ndarray, precision: np.ndarray
) -> tuple[Cuts, int]:
    """The set with a further cut for every block, and how many of these it did not have yet.

    A cut of zeros says nothing, and one that is there already nothing new.
    """
    fresh = [k for k in range(offsets.size) if not _is_known(cuts, k, slopes[k], offsets[k])]
    count = len(fresh)
    if not count:
        return cuts, 0
    new = slopes[fresh]
    scaled = (new[:, :-1] / precision).T
    present = cuts.slopes[~cuts.resting]
    mixed, own = present[:, :-1] @ scaled, new[:, :-1] @ scaled
    products = np.block([[cuts.products, mixed], [mixed.T, own]])
    zeros = np.zeros(count, dtype=np.int64)
    grown = Cuts(
        np.concatenate([cuts.slopes, new]), np.append(cuts.offsets, offsets[fresh]),
        np.append(cuts.block, np.array(fresh, dtype=np.int64)), np.append(cuts.alpha, 0.0 * zeros),
        np.append(cuts.idle, zeros), np.append(cuts.resting, zeros > 0), products,
    )  # fmt: skip
    return grown, count


def _is_known(cuts: Cuts, k: int, slopes: np.ndarray, offset: float) -> bool:
    if offset == 0.0 and not np.any(slopes):
        return True
    size = abs(offset) + float(np.abs(slopes).max())
    alike = np.abs(cuts.offsets - offset) <= _SAME * size
    alike &= np.abs(cuts.slopes[:, -1] - slopes[-1]) <= _SAME * size
    alike &= (cuts.block == k) & ~cuts.resting
    return any(np.abs(cuts.slopes[d] - slopes).max() <= _SAME * size for d in np.flatnonzero(alike))


def relaxed(
    cuts: Cuts, blocks: int, precision: np.ndarray, b: float, pull: float | None, gap: float,
    held: Held | None = None,
) -> Relaxed:  # fmt: skip
    """The minimum above the cuts that do not rest, to ``gap``.

    ``pull`` is the strength of a penalty on the intercept, zero if there is no intercept and None
    if it is free; then the search for it starts at ``b``, and what is ``held`` is so at the point
    but not in the bound.
    """
    here = ~cuts.resting
    m = int(np.count_nonzero(here))
    H = np.zeros((m + blocks, m + blocks))  # the last ones are the cuts of zeros
    H[:m, :m] = cuts.products
    e, s = (
        np.append(part, np.zeros(blocks)) for part in (cuts.slopes[here, -1], cuts.offsets[here])
    )
    block = np.append(cuts.block[here], np.arange(blocks))
    alpha = np.append(cuts.alpha[here], np.zeros(blocks))
    alpha[m:] = np.maximum(1.0 - np.bincount(block, alpha, minlength=blocks), 0.0)
    if pull is None and held is not None:
        near, w = _near(H, e, s, block, blocks, alpha, gap, cuts.slopes[here], precision, held)
        alpha, _, lower = _free(H, e, s, block, blocks, near.copy(), float(w[-1]), gap)
        return Relaxed(_weighted(cuts, here, 0.5 * (near + alpha)), w, lower)  # neither's cuts rest
    if pull is None:
        alpha, b, lower = _free(H, e, s, block, blocks, alpha, b, gap)
    else:
        rho = 1.0 / pull if pull > 0.0 else 0.0
        K = H + rho * np.outer(e, e)
        _minimise(K, s, block, blocks, alpha, gap)
        b, lower = -rho * float(e @ alpha), _value(K, s, alpha)
    w = np.append(-(alpha[:m] @ cuts.slopes[here, :-1]) / precision, b)
    return Relaxed(_weighted(cuts, here, alpha), w, lower)


def _weighted(cuts: Cuts, here: np.ndarray, alpha: np.ndarray) -> Cuts:
    every = np.zeros(cuts.size)
    every[here] = alpha[: np.count_nonzero(here)]
    return cuts._replace(alpha=every)


def _near(
    H: np.ndarray, e: np.ndarray, s: np.ndarray, block: np.ndarray, blocks: int,
    alpha: np.ndarray, gap: float, slopes: np.ndarray, precision: np.ndarray, held: Held,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Weights of the cuts, and the point, one proximal step away in the mean prediction.

    With weights and mean prediction as unknowns the slopes are a_d - e_d x, x the mean of the rows.
    """
    rho = 1.0 / (held.strength * float(np.mean(precision)))
    scaled = held.mean / precision
    along = np.append(slopes[:, :-1] @ scaled, np.zeros(blocks))
    K = H - np.outer(along, e) - np.outer(e, along)
    K += (rho + float(held.mean @ scaled)) * np.outer(e, e)
    near = alpha.copy()
    _minimise(K, s + held.at * e, block, blocks, near, gap)
    off = float(e @ near)
    w = off * scaled - (near[: slopes.shape[0]] @ slopes[:, :-1]) / precision
    return near, np.append(w, held.at - rho * off - float(w @ held.mean))


def _free(
    H: np.ndarray, e: np.ndarray, s: np.ndarray, block: np.ndarray, blocks: int,
    alpha: np.ndarray, b: float, gap: float,
) -> tuple[np.ndarray, float, float]:  # fmt: skip
    """Weights, the intercept and the bound from below; see the module's text."""
    largest = float(np.max(e * e, initial=0.0))
    if largest == 0.0:
        _minimise(H, s, block, blocks, alpha, gap)
        return alpha, b, _value(H, s, alpha)
    # Where the features say nothing H is zero, and only the heights of the cuts have its unit.
    size = max(float(np.max(np.diag(H))), float(np.max(np.abs(s))), 1e-300)
    rho = _PULL * size / largest
    last = math.inf
    for _ in range(_PROXIMAL_STEPS):
        steps = _minimise(H + rho * np.outer(e, e), s + b * e, block, blocks, alpha, gap)
        off = float(e @ alpha)
        if not steps and abs(off) > 0.5 * last:  # as good as rounding allows
            break
        b -= rho * off
        if rho * off * off <= 0.01 * gap or abs(off) <= 1e-15 * math.sqrt(largest):
            break
        if abs(off) > 0.1 * last:
            rho *= 10.0
        last = abs(off)
    return alpha, b, _value(H, s, _balanced(e, block, blocks, alpha))


def _balanced(e: np.ndarray, block: np.ndarray, blocks: int, alpha: np.ndarray) -> np.ndarray:
    """Weights next to ``alpha`` with e'alpha = 0: part of the way to the other side."""
    off = float(e @ alpha)
    other = np.zeros_like(alpha)
    for k in range(blocks):
        mine = np.flatnonzero(block == k)
        other[mine[np.argmin(math.copysign(1.0, off) * e[mine])]] = 1.0
    across = float(e @ other)
    if off == 0.0:
        return alpha
    if across == 0.0:  # nothing can balance: only cuts of e = 0 have weights
        return np.where(e == 0.0, alpha, 0.0)
    share = off / (off - across)
    return (1.0 - share) * alpha + share * other


def _minimise(
    K: np.ndarray, s: np.ndarray, block: np.ndarray, blocks: int, alpha: np.ndarray, gap: float
) -> int:
    return int(minimise(K, s, block, blocks, alpha, gap, 4 * alpha.size + 200))


def _value(K: np.ndarray, s: np.ndarray, alpha: np.ndarray) -> float:
    used = np.flatnonzero(alpha)
    a = alpha[used]
    return float(s[used] @ a - 0.5 * a @ (K[np.ix_(used, used)] @ a))


def shrunk(cuts: Cuts, w: np.ndarray, rounds: int, rule: Shrinking, precision: np.ndarray) -> Cuts:
    """The set after a round: idle cuts rest, and now and then resting ones return or go."""
    idle = np.where(cuts.alpha > 0.0, 0, cuts.idle + 1)
    present = np.flatnonzero(~cuts.resting)
    stays = idle[present] < rule.rest
    if np.count_nonzero(stays) > rule.most:  # the longest idle make room
        oldest = np.argsort(-idle[present], kind="stable")[: present.size - rule.most]
        oldest = oldest[idle[present[oldest]] > 0]
        stays[oldest] = False
    resting = cuts.resting.copy()
    resting[present[~stays]] = True
    products = cuts.products if stays.all() else cuts.products[np.ix_(stays, stays)]
    cuts = cuts._replace(idle=idle, resting=resting, products=products)
    crowded = cuts.size > rule.most
    return _rechecked(cuts, w, precision) if crowded or rounds % rule.recheck == 0 else cuts


def _rechecked(cuts: Cuts, w: np.ndarray, precision: np.ndarray) -> Cuts:
    if not np.any(cuts.resting):
        return cuts
    height = cuts.slopes @ w + cuts.offsets
    top = np.zeros(int(cuts.block.max(initial=-1)) + 1)
    np.maximum.at(top, cuts.block[~cuts.resting], height[~cuts.resting])
    back = cuts.resting & (height > top[cuts.block])
    keep = ~cuts.resting | back
    slopes = cuts.slopes[keep]
    kept = Cuts(
        slopes, cuts.offsets[keep], cuts.block[keep], cuts.alpha[keep],
        np.where(back, 0, cuts.idle)[keep], np.zeros(slopes.shape[0], dtype=bool), cuts.products,
    )  # fmt: skip
    if not np.any(back):
        return kept
    return kept._replace(products=(slopes[:, :-1] / precision) @ slopes[:, :-1].T)
