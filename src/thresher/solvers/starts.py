r"""Where k-means starts: rows at random, k-means++, or starts refined on growing samples.

k-means++ (Arthur and Vassilvitskii, 2007) draws each start with probability in proportion to the
squared distance from those before; of several draws the one is kept that leaves the least.  Only
some hundred rows for each cluster are needed to tell where centres go (Bradley and Fayyad, 1998),
and passes over few rows are cheap: several starts compete on a sample, and the best is moved by
Lloyd's passes on samples that grow fourfold, until it moves by less than the next sample will
correct anyway.  A uniform sample would miss small clusters far away: samples are lightweight
coresets (Bachem, Lucic and Krause, 2018), drawn half uniformly, half in proportion to the squared
distance from the shift, a point amid the rows, and weighted back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from thresher._random import generator
from thresher.penalties import L1
from thresher.solvers._bounds import fresh_bounds, move_rows
from thresher.solvers._means import MeansState, new_centres
from thresher.solvers._nearest import Seen, dense_rows, nearest, own_squares, table
from thresher.solvers.base import Problem

__all__ = ["STARTS", "plus_plus", "random_rows", "refined"]

_PER_CLUSTER, _FEWEST = 256, 4096  # rows of the first sample
_GROWTH = 4
_MOST_PASSES = 25  # on one sample
_BETTER = 1.0 - 1e-9
_NOISE = 0.1  # of the scatter that a sample leaves in its centres


def random_rows(seen: Seen, clusters: int, seed: int, number: int = 0) -> np.ndarray:
    """Different rows, as probable as they are heavy; about the shift."""
    rng = generator(seed, 31, number)
    return dense_rows(seen, rng.choice(seen.size, clusters, False, seen.weight / seen.mass))


def plus_plus(seen: Seen, clusters: int, seed: int, number: int = 0) -> np.ndarray:
    """Greedy k-means++: rows, about the shift.  O(rows clusters log clusters)."""
    weight = seen.weight
    rng = generator(seed, 32, number)
    trials = 2 + int(math.log(clusters))
    chosen = [_drawn(np.cumsum(weight), rng.random(1))]
    left = _squares_to(seen, dense_rows(seen, chosen[0]))[:, 0]
    while len(chosen) < clusters:
        tried = _drawn(np.cumsum(weight * left), rng.random(trials))
        squares = np.minimum(left[:, None], _squares_to(seen, dense_rows(seen, tried)))
        best = int((weight @ squares).argmin())
        chosen.append(tried[best : best + 1])
        left = np.ascontiguousarray(squares[:, best])
    return dense_rows(seen, np.concatenate(chosen))


def _drawn(cumulated: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Places by their shares of the total; where all shares are zero, any place."""
    total = float(cumulated[-1])
    if not total > 0.0:
        return (draws * cumulated.size).astype(np.int64)
    places = np.searchsorted(cumulated, draws * total, side="right")
    return np.minimum(places, cumulated.size - 1)


def _squares_to(seen: Seen, points: np.ndarray) -> np.ndarray:
    """(rows, points): squared distances."""
    out = np.empty((seen.size, points.shape[0]))
    for c, point in enumerate(points):
        centre = table(seen, point[None])
        out[:, c] = own_squares(seen, np.zeros(seen.size, np.int32), centre)
    return out


def refined(
    problem: Problem, seen: Seen, state: MeansState, cosine: bool, restarts: int, threads: int
) -> np.ndarray:
    """Centres, about the shift, from the best of some starts on a sample and growing ones.

    The penalty has no say on the first sample: with it, a poor start may lose the features that
    tell the clusters apart before they are found.  On the others it has, or its part would be left
    to passes over all rows.
    """
    free = replace(problem, penalty=L1(0.0))
    k, n = problem.outputs, seen.size
    size = max(_PER_CLUSTER * k, _FEWEST)
    size = n if _GROWTH * size > n else size
    chances = _chances(seen)
    sample = _coreset(seen, chances, size, problem.seed)
    starts = (plus_plus(sample, k, problem.seed, number) for number in range(restarts))
    found = [_descended(free, sample, state, rows, cosine, threads) for rows in starts]
    centres, least = found[0]
    for other, cost in found[1:]:
        if cost < _BETTER * least:  # starts that end alike differ by rounding
            centres, least = other, cost
    while _GROWTH * (size := size * _GROWTH) < n:
        sample = _coreset(seen, chances, size, problem.seed)
        centres, _ = _descended(problem, sample, state, centres, cosine, threads)
    return centres


def _chances(seen: Seen) -> np.ndarray:
    """Of each row to be drawn: half by its weight, half by its squared distance from the shift."""
    away = seen.weight * seen.square
    total = float(away.sum())
    share = seen.weight / seen.mass
    return share if total == 0.0 else 0.5 * (share + away / total)


def _coreset(seen: Seen, chances: np.ndarray, size: int, seed: int) -> Seen:
    """Rows whose weighted costs are about those of all rows, wherever centres lie."""
    if size >= seen.size:
        return seen
    # One draw in each of as many equal strata: less scatter than independent ones.
    draws = (np.arange(size) + generator(seed, 33, size).random(size)) / size
    visits = _drawn(np.cumsum(chances), draws)
    return seen.part(visits)._replace(weight=seen.weight[visits] / (size * chances[visits]))


def _descended(
    problem: Problem, seen: Seen, state: MeansState, starts: np.ndarray, cosine: bool, threads: int
) -> tuple[np.ndarray, float]:
    """Centres after Lloyd's passes over a sample, and their mean squared distance to it."""
    k, d = starts.shape
    centres, bounds = starts, fresh_bounds(seen, starts)
    sums, counts = np.zeros((k, d)), np.zeros(k)
    enough = state.spread * max(problem.tol or 0.0, _NOISE * d * k * k / seen.size)
    for _ in range(_MOST_PASSES):
        bounds = move_rows(bounds, table(seen, centres), sums, counts, threads)
        filled = state._replace(centres=state.shift + centres, sums=sums, counts=counts)
        before, centres = centres, new_centres(problem, filled, cosine) - state.shift
        if float(np.sum((centres - before) ** 2)) <= enough:
            break
    _, squares = nearest(seen, table(seen, centres), threads)
    return centres, float(seen.weight @ squares) / seen.mass


#: names of starts that are rows: (seen, clusters, seed) -> (clusters, features) about the shift
STARTS: dict[str, Callable[..., Any]] = {"k-means++": plus_plus, "random": random_rows}
