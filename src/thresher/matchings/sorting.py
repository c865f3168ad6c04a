r"""Kernelized sorting: the permutation that makes two kernels most alike, by linear assignments.

.. math:: \max_\pi \operatorname{tr}(K \pi L \pi') \quad\text{by}\quad
   \pi_{t+1} = \arg\max_\pi \langle \pi, K \pi_t L \rangle

With centred kernels the objective is the Hilbert-Schmidt independence criterion.  It is convex for
positive semi-definite kernels, so that it never falls, and has many local maxima: the start
decides.  Quadrianto, Smola, Song and Tuytelaars (2010).

Where one set is larger the objective is half of :math:`-\|K - \pi L \pi'\|^2` up to a constant:
the squares of the kernel among the chosen objects are no longer the same for every choice, and
without them the assignments would collect whatever is similar to everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thresher._random import generator
from thresher.matchings.assignment import best_assignment, permutation_matrix

__all__ = ["Sorted", "likeness", "pair_scores", "sort_from", "sorted_best", "spectral_starts"]


class Sorted(NamedTuple):
    """Pairs (-1: none), the objective there, and the number of assignments that were solved."""

    match: np.ndarray
    objective: float
    n_iter: int


def sort_from(
    K: np.ndarray, L: np.ndarray, P: np.ndarray, pulls: np.ndarray | None = None, most: int = 100
) -> Sorted:
    """Assignments from the soft or hard matching P until the objective no longer grows.

    ``pulls`` is added to the scores of pairs, and twice to the objective: what else speaks for a
    pair, very negative for impossible ones.
    """
    best = Sorted(np.full(K.shape[0], -1), -np.inf, 0)
    for step in range(1, most + 1):
        scores = pair_scores(K, P, L)
        match = best_assignment(scores if pulls is None else scores + pulls)
        value = likeness(K, L, match)
        if pulls is not None:
            paired = np.flatnonzero(match >= 0)
            value += 2.0 * float(pulls[paired, match[paired]].sum(dtype=np.float64))
        if value <= best.objective + 1e-12 * abs(best.objective):
            break
        best = Sorted(match, value, step)
        P = permutation_matrix(match, L.shape[0], K.dtype)
    return best


def likeness(K: np.ndarray, L: np.ndarray, match: np.ndarray) -> float:
    """The objective: tr(K pi L pi'), and what the subset of the larger set takes from it."""
    pairs = np.flatnonzero(match >= 0)
    K_pairs, L_pairs = K[np.ix_(pairs, pairs)], L[np.ix_(match[pairs], match[pairs])]
    value = float(np.vdot(K_pairs, L_pairs))
    if K.shape != L.shape:
        larger = K_pairs if K.shape[0] > L.shape[0] else L_pairs
        value -= 0.5 * float(np.vdot(larger, larger))
    return value


def sorted_best(
    K: np.ndarray, L: np.ndarray, starts: int, seed: int, pulls: np.ndarray | None = None
) -> Sorted:
    """The best of several starts: the leading eigenvectors, then random permutations."""
    runs = [sort_from(K, L, P, pulls) for P in spectral_starts(K, L)]
    n, m = K.shape[0], L.shape[0]
    for number in range(1, starts):
        rng = generator(seed, number)
        P = np.zeros((n, m), dtype=K.dtype)
        k = min(n, m)
        P[rng.permutation(n)[:k], rng.permutation(m)[:k]] = 1.0
        runs.append(sort_from(K, L, P, pulls))
    return max(runs, key=lambda run: run.objective)


def spectral_starts(K: np.ndarray, L: np.ndarray) -> list[np.ndarray]:
    """Objects paired by their rank along the leading eigenvector of each kernel.

    The sign of an eigenvector is free: there are two such orders, and which is the better one is
    known only in the end.
    """
    u, v = (np.linalg.eigh(A)[1][:, -1] for A in (K, L))
    pairs = [best_assignment(np.outer(u, sign * v)) for sign in (1.0, -1.0)]
    return [permutation_matrix(match, L.shape[0], K.dtype) for match in pairs]


def pair_scores(K: np.ndarray, P: np.ndarray, L: np.ndarray) -> np.ndarray:
    """Half of the slope of the objective at P: what an assignment is to maximise."""
    scores = K @ P @ L
    if K.shape[0] > L.shape[0]:
        scores -= 0.5 * ((K * K) @ P.sum(axis=1))[:, None]
    elif K.shape[0] < L.shape[0]:
        scores -= 0.5 * ((L * L) @ P.sum(axis=0))
    return scores
