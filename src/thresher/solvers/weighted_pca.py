r"""Kernel spectral clustering: the principal directions of rows weighted by their inverse degrees.

With features phi of a kernel, :math:`k(x, z) = \varphi(x)\cdot\varphi(z)`, and degrees
:math:`d_i = \operatorname{mean}_j k(x_i, x_j) = \varphi_i \cdot \bar\varphi`, the projections
:math:`e_l = w_l \cdot \varphi(x) + b_l` of

.. math:: \max_{w_l, b_l} \sum_i e_{il}^2 / d_i \quad\text{with}\quad \|w_l\| = 1, \;
          w_l \cdot w_m = 0, \; \sum_i e_{il} / d_i = 0

are the eigenvectors of :math:`\sum_i (\varphi_i - \mu)(\varphi_i - \mu)' / d_i`, mu the mean
weighted by 1/d.  In the dual, with Omega the kernel matrix and D the diagonal matrix of degrees,
they are those of :math:`D^{-1} M_D \Omega`, and :math:`e_i / d_i` is the embedding of spectral
clustering (Alzate and Suykens, 2010).  Unlike that one it is a function, defined for every row.

*Smoothing.*  Rows that are like few others have small degrees, weigh much, and become clusters of
their own before anything else is told apart.  So degrees are raised by ``smoothing`` times their
mean, which is spectral clustering with all rows a little alike (Amini, Chen, Bickel and Levina,
2013; Zhang and Rohe, 2018).  The projections see nothing else of it: a constant kernel has no
directions.

Sums over rows are exact however these come.  Degrees are sums over all rows too, and the
projections are worth nothing where they are those of other rows: of rows in parts a first pass adds
up degrees, a second one moments, and what is asked for before that is learned from a random sample
of the rows so far.  O(features^2) a row.

*Clusters* of the k - 1 projections are found on a sample (``assign``): the k most frequent patterns
of signs ("codebook", as published), directions ("cosine"), or centres of e / d ("kmeans").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import eigh

from thresher._random import uniform
from thresher._rows import as_rows
from thresher.functions import Codebook, LinearFunction
from thresher.functions.codebook import ASSIGNMENTS
from thresher.losses import LeastSquares
from thresher.penalties import L1
from thresher.solvers._states import added, check_arrays, present
from thresher.solvers.base import Chunk, Problem, Solver
from thresher.solvers.driver import Plan, learn, whole
from thresher.solvers.lloyd import Lloyd

__all__ = ["WeightedPCA", "check_smoothing"]

_SAMPLE = 5000  # rows on which clusters are told apart
_ALONE = 2.0  # a row is connected if it is as like all others together as itself
_BLOCK = 2048


class PCAState(NamedTuple):
    """Sums over the rows of this pass; moments are those of weights 1/d, once degrees are known."""

    weighs: int  # 1: degrees are known
    reference: np.ndarray  # mean of the features of all rows
    floor: float  # degrees below belong to rows that are like no other
    likeness: float  # the largest of a row to itself
    total: np.ndarray
    sums: np.ndarray
    moments: np.ndarray
    inverse: float  # sum of 1/d
    alone: float  # mass of the rows below the floor
    mass: float
    step: int
    sample: np.ndarray  # features of some rows
    chance: np.ndarray  # the numbers that these were drawn by, the smallest of all


@njit(cache=True, nogil=True)
def _chances(seed, start, out):
    for r in range(out.size):
        out[r] = uniform(seed, start + r, 0)


@dataclass(frozen=True)
class WeightedPCA(Solver):
    """The projections of kernel spectral clustering, and their clusters.

    Parameters
    ----------
    assign : {"cosine", "kmeans", "codebook"}, default="cosine"
        How rows are grouped by their projections.
    in_parts : bool, default=False
        No chunk holds all rows: the first pass adds up their degrees.
    smoothing : float, default=0.1
        Degrees are raised by so many of their mean; 0: as published.
    """

    assign: str = "cosine"
    in_parts: bool = False
    smoothing: float = 0.1

    target_kinds = frozenset({"none"})
    linear = False
    joint = True
    by_blocks = True
    default_passes = 2
    asks_function = False
    sum_fields = frozenset({"total", "sums", "moments", "inverse", "alone", "mass", "step"})
    merges_exactly = True

    @property
    def by_rows(self) -> bool:
        return False

    def check(self, problem: Problem) -> None:
        if self.assign not in ASSIGNMENTS:
            known = ", ".join(map(repr, ASSIGNMENTS))
            raise ValueError(f"assign must be one of {known}, got {self.assign!r}")
        check_smoothing(self.smoothing)

    def for_stream(self, problem: Problem) -> WeightedPCA:
        return replace(self, in_parts=True)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> PCAState:
        m = problem.n_features
        vectors = (np.zeros(m) for _ in range(3))
        reference, total, sums = vectors
        state = PCAState(
            0, reference, 0.0, 0.0, total, sums, np.zeros((m, m)), 0.0, 0.0, 0.0, 0,
            np.zeros((0, m)), np.zeros(0),
        )  # fmt: skip
        if chunk is None:
            return state
        if chunk.order.size < problem.outputs:
            raise ValueError(
                f"n_samples={chunk.order.size} rows should be at least n_clusters="
                f"{problem.outputs}: there is nothing to tell apart"
            )
        return state if self.in_parts else _weighing(self.update(problem, state, chunk))

    def update(self, problem: Problem, s: PCAState, chunk: Chunk) -> PCAState:
        total, sums, moments = s.total.copy(), s.sums.copy(), s.moments.copy()
        likeness, inverse, alone, mass = s.likeness, s.inverse, s.alone, s.mass
        sample, chance, step = s.sample, s.chance, s.step
        for order in np.array_split(chunk.order, max(-(-chunk.order.size // _BLOCK), 1)):
            features, weight = chunk.rows.taken(order), chunk.weight[order]
            mass += float(weight.sum())
            if s.weighs:
                shares = self._shares(s, features, weight)
                alone += float(weight[shares == 0.0].sum())
                inverse += float(shares.sum())
                sums += shares @ features
                features *= np.sqrt(shares)[:, None]
                moments += features.T @ features
            else:
                total += weight @ features
                likeness = max(likeness, _largest(features))
                sample, chance = _drawn(problem.seed, step, features, sample, chance)
            step += order.size
        return s._replace(
            likeness=likeness, total=total, sums=sums, moments=moments, inverse=inverse,
            alone=alone, mass=mass, step=step, sample=sample, chance=chance,
        )  # fmt: skip

    def between(
        self, problem: Problem, state: PCAState, chunk: Chunk | None, done: int,
        planned: int | None,
    ) -> PCAState:  # fmt: skip
        return state if state.weighs or not state.mass > 0.0 else _weighing(state)

    def finish(self, problem: Problem, state: PCAState) -> Codebook:
        k, m = problem.outputs, problem.n_features
        coef, intercept = np.zeros((k, m)), np.zeros(k)
        words = np.zeros((k, k - 1))
        if not state.weighs and state.sample.shape[0]:
            state = self._by_sample(state)
        if state.inverse > 0.0:
            lift = self._lift(state)
            coef, intercept = _projections(state, k, lift)
            words = self._words(problem, state.sample @ coef.T + intercept, state.floor + lift)
        linear = LinearFunction(coef.astype(problem.dtype), intercept)
        return Codebook(linear, words, self.assign)

    def merge(self, problem: Problem, states: Any, base: PCAState, weights: Any) -> PCAState:
        """Sums are added, and of all drawn rows the first are kept."""
        sums = added(states, base, weights, self.sum_fields - {"step"}, "mass")
        states, _ = present(states, weights)
        likeness = max([base.likeness, *(s.likeness for s in states)])
        drawn = [base, *states]
        chance, first = np.unique(np.concatenate([s.chance for s in drawn]), return_index=True)
        sample = np.concatenate([s.sample for s in drawn])[first[:_SAMPLE]]
        return self.copy(base)._replace(
            **sums, likeness=likeness, sample=sample, chance=chance[:_SAMPLE]
        )

    def check_state(self, problem: Problem, state: PCAState) -> None:
        rows = np.asarray(state.sample).shape[:1]
        sized: Any = {"sample": np.zeros((*rows, problem.n_features)), "chance": np.zeros(rows)}
        check_arrays(state, self.init(problem)._replace(**sized))
        if state.weighs not in (0, 1):
            raise ValueError(f"the state's weighs is {state.weighs}")

    # ------------------------------------------------------------ degrees

    def _lift(self, s: PCAState) -> float:
        """What degrees are raised by: their mean is that of the features, squared."""
        return self.smoothing * float(s.reference @ s.reference)

    def _shares(self, s: PCAState, features: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """weight / d, nothing for rows that are like no other."""
        degrees = features @ s.reference
        counts = degrees > s.floor
        return np.where(counts, weight / (np.where(counts, degrees, 1.0) + self._lift(s)), 0.0)

    def _by_sample(self, s: PCAState) -> PCAState:
        """What the sample alone has to say, its own degrees included."""
        rows, weight = s.sample, np.ones(s.sample.shape[0])
        s = _weighing(s._replace(total=weight @ rows, mass=float(weight.size)))
        shares = self._shares(s, rows, weight)
        moments = (rows * shares[:, None]).T @ rows
        return s._replace(sums=shares @ rows, moments=moments, inverse=float(shares.sum()))

    # ------------------------------------------------------------ clusters of projections

    def _words(self, problem: Problem, projections: np.ndarray, floor: float) -> np.ndarray:
        """What each cluster is told by; the largest first."""
        e, degrees = projections[:, :-1], projections[:, -1]
        connected = degrees > floor
        e, degrees = e[connected], degrees[connected]
        k = problem.outputs
        if e.shape[0] < k or not e.any():  # nothing, or nobody, to tell apart
            return np.zeros((k, k - 1))
        if self.assign == "codebook":
            return _frequent_signs(e, k)
        if self.assign == "cosine":
            return _centres(e, None, "cosine", k, problem.seed)
        return _centres(e / degrees[:, None], degrees, "euclidean", k, problem.seed)


def _largest(features: np.ndarray) -> float:
    return float(np.max(np.einsum("ij,ij->i", features, features), initial=0.0))


def _drawn(
    seed: int, start: int, features: np.ndarray, sample: np.ndarray, chance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sample with these rows: those of the smallest chances, whatever chunks they come in."""
    own = np.empty(features.shape[0])
    _chances(seed, start, own)
    chance = np.concatenate([chance, own])
    first = np.argsort(chance, kind="stable")[:_SAMPLE]
    if not np.any(first >= sample.shape[0]):
        return sample, chance[first]
    return np.concatenate([sample, features])[first], chance[first]


def _weighing(s: PCAState) -> PCAState:
    """With the degrees that a pass has added up, ready for the moments of the next one."""
    return s._replace(
        weighs=1, reference=s.total / s.mass, floor=_ALONE * s.likeness / s.mass, mass=0.0, step=0,
    )  # fmt: skip


def check_smoothing(smoothing: float) -> None:
    if not (smoothing >= 0.0 and math.isfinite(smoothing)):
        raise ValueError(f"smoothing must be a number of at least 0, got {smoothing}")


def _projections(s: PCAState, k: int, lift: float) -> tuple[np.ndarray, np.ndarray]:
    """(k, features) and (k,): the k - 1 projections in units of their spread, and the degree."""
    if k == 1:
        return s.reference[None, :].copy(), np.full(1, lift)
    mean = s.sums / s.inverse
    covariance = s.moments / s.inverse - np.outer(mean, mean)
    m = mean.size
    values, vectors = eigh(covariance, subset_by_index=(max(m - k + 1, 0), m - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    W = np.zeros((m, k - 1))  # of fewer rows that differ than clusters, some say nothing
    rounding = 1e-13 * float(np.trace(s.moments)) / s.inverse  # all that same rows differ by
    says = values > max(1e-12 * values[0], rounding)
    W[:, : says.size][:, says] = vectors[:, says] / np.sqrt(values[says])
    W *= np.where(np.take_along_axis(W, np.abs(W).argmax(axis=0)[None], axis=0) < 0.0, -1.0, 1.0)
    return np.vstack([W.T, s.reference]), np.append(-mean @ W, lift)


def _frequent_signs(e: np.ndarray, k: int) -> np.ndarray:
    patterns, counts = np.unique(np.where(e < 0.0, -1.0, 1.0), axis=0, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:k]
    words = np.zeros((k, e.shape[1]))  # fewer patterns than clusters leave some without rows
    words[: most.size] = patterns[most]
    return words


def _centres(e: np.ndarray, weight: Any, metric: str, k: int, seed: int) -> np.ndarray:
    problem = Problem(
        LeastSquares(), L1(0.0), e.shape[1], seed=seed, tol=1e-6, outputs=k, targets="none"
    )
    chunk = whole(as_rows(np.ascontiguousarray(e)), np.zeros(e.shape[0]), weight)
    found = learn(Lloyd(metric, restarts=10), problem, chunk, Plan(passes=300))
    return np.asarray(found.function.centers, dtype=np.float64)
