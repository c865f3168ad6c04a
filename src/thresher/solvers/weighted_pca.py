r"""Kernel spectral clustering: the principal directions of rows weighted by their inverse degrees.

With features phi of a kernel, :math:`k(x, z) = \varphi(x)\cdot\varphi(z)`, and degrees
:math:`d_i = \operatorname{mean}_j k(x_i, x_j) = \varphi_i \cdot \bar\varphi`, the projections
:math:`e_l = w_l \cdot \varphi(x) + b_l` of

.. math:: \max_{w_l, b_l} \sum_i e_{il}^2 / d_i \quad\text{with}\quad \|w_l\| = 1, \;
          w_l \cdot w_m = 0, \; \sum_i e_{il} / d_i = 0

are the eigenvectors of :math:`\sum_i (\varphi_i - \mu)(\varphi_i - \mu)' / d_i`, mu the mean weighted
by 1/d.  In the dual, with Omega the kernel matrix and :math:`D = \operatorname{diag}(d)`, they are those of
:math:`D^{-1} M_D \Omega`, and :math:`e_i / d_i` is the embedding of spectral clustering (Alzate and
Suykens, 2010).  Unlike that one it is a function, defined for every row.

An update adds rows up and is exact however they come; the degrees are taken beside the rows that the
state began with: all of them in memory, the first ones of a stream.  O(features^2) a row.

*Clusters* of the k - 1 projections are found on a sample (``assign``): the k most frequent patterns of
signs ("codebook", as published), directions ("cosine"), or centres of e / d ("kmeans").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from thresher._random import generator
from thresher._rows import as_rows
from thresher.functions import Codebook, LinearFunction
from thresher.functions.codebook import ASSIGNMENTS
from thresher.losses import LeastSquares
from thresher.penalties import L1
from thresher.solvers._states import added
from thresher.solvers.base import Chunk, Problem, Solver, check_arrays
from thresher.solvers.driver import Plan, learn, whole
from thresher.solvers.lloyd import Lloyd

__all__ = ["WeightedPCA"]

_SAMPLE = 5000  # rows on which clusters are told apart
_ALONE = 2.0  # a row is connected if it is as like all others together as itself
_BLOCK = 2048


class PCAState(NamedTuple):
    """Sums over the rows, of weight 1/d."""

    reference: np.ndarray  # mean of the features of all rows
    floor: float  # degrees below belong to rows that are like no other
    sums: np.ndarray
    moments: np.ndarray
    inverse: float  # sum of 1/d
    alone: float  # mass of the rows below the floor
    mass: float
    step: int
    sample: np.ndarray  # features of some rows


@dataclass(frozen=True)
class WeightedPCA(Solver):
    """The projections of kernel spectral clustering, and their clusters.

    Parameters
    ----------
    assign : {"cosine", "kmeans", "codebook"}, default="cosine"
        How rows are grouped by their projections.
    """

    assign: str = "cosine"

    target_kinds = frozenset({"none"})
    linear = False
    joint = True
    by_blocks = True
    default_passes = 1
    asks_function = False
    sum_fields = frozenset({"sums", "moments", "inverse", "alone", "mass", "step"})
    merges_exactly = True

    @property
    def by_rows(self) -> bool:
        return False

    def check(self, problem: Problem) -> None:
        if self.assign not in ASSIGNMENTS:
            known = ", ".join(map(repr, ASSIGNMENTS))
            raise ValueError(f"assign must be one of {known}, got {self.assign!r}")
        if problem.outputs - 1 > problem.n_features:
            raise ValueError(
                f"n_clusters={problem.outputs} needs at least {problem.outputs - 1} landmarks, but "
                f"there are {problem.n_features}: raise n_components, or there are too few rows "
                "that differ"
            )

    def init(self, problem: Problem, chunk: Chunk | None = None) -> PCAState:
        m = problem.n_features
        none = np.zeros(m), 0.0, np.zeros(m), np.zeros((m, m)), 0.0, 0.0, 0.0, 0
        state = PCAState(*none, np.zeros((0, m)))
        if chunk is None:
            return state
        n = chunk.order.size
        if n < problem.outputs:
            raise ValueError(
                f"n_samples={n} rows should be at least n_clusters={problem.outputs}: there is "
                "nothing to tell apart"
            )
        total, likeness, mass = np.zeros(m), 0.0, 0.0
        for order in np.array_split(chunk.order, -(-n // _BLOCK)):
            features, weight = chunk.rows.taken(order), chunk.weight[order]
            total += weight @ features
            mass += float(weight.sum())
            likeness = max(likeness, float(np.max(np.einsum("ij,ij->i", features, features))))
        drawn = generator(problem.seed, 31).permutation(n)[:_SAMPLE]
        sample = chunk.rows.taken(chunk.order[np.sort(drawn)])
        return state._replace(
            reference=total / mass, floor=_ALONE * likeness / mass,
            sample=np.ascontiguousarray(sample),
        )  # fmt: skip

    def update(self, problem: Problem, s: PCAState, chunk: Chunk) -> PCAState:
        sums, moments = s.sums.copy(), s.moments.copy()
        inverse, alone, mass = s.inverse, s.alone, s.mass
        for order in np.array_split(chunk.order, max(-(-chunk.order.size // _BLOCK), 1)):
            features, weight = chunk.rows.taken(order), chunk.weight[order]
            degrees = features @ s.reference
            counts = degrees > s.floor
            shares = np.where(counts, weight / np.where(counts, degrees, 1.0), 0.0)
            sums += shares @ features
            features *= np.sqrt(shares)[:, None]
            moments += features.T @ features
            inverse += float(shares.sum())
            alone += float(weight[~counts].sum())
            mass += float(weight.sum())
        return s._replace(
            sums=sums, moments=moments, inverse=inverse, alone=alone, mass=mass,
            step=s.step + chunk.order.size,
        )  # fmt: skip

    def finish(self, problem: Problem, state: PCAState) -> Codebook:
        k, m = problem.outputs, problem.n_features
        coef, intercept = np.zeros((k, m)), np.zeros(k)
        words = np.zeros((k, k - 1))
        if state.inverse > 0.0:
            coef, intercept = _projections(state, k)
            words = self._words(problem, state.sample @ coef.T + intercept, state.floor)
        linear = LinearFunction(coef.astype(problem.dtype), intercept)
        return Codebook(linear, words, self.assign)

    def is_done(self, problem: Problem, state: PCAState, residual: float) -> bool:
        return True

    def merge(self, problem: Problem, states: Any, base: PCAState, weights: Any) -> PCAState:
        sums = added(states, base, weights, self.sum_fields - {"step"}, "mass")
        return self.copy(base)._replace(**sums)

    def check_state(self, problem: Problem, state: PCAState) -> None:
        fresh = self.init(problem)
        rows = np.shape(getattr(state, "sample", None))[:1]
        check_arrays(state, fresh._replace(sample=np.zeros((*rows, problem.n_features))))

    # ------------------------------------------------------------ clusters of projections

    def _words(self, problem: Problem, projections: np.ndarray, floor: float) -> np.ndarray:
        """What each cluster is told by; the largest first."""
        e, degrees = projections[:, :-1], projections[:, -1]
        connected = degrees > floor
        e, degrees = e[connected], degrees[connected]
        k = problem.outputs
        if e.shape[0] < k:
            return np.zeros((k, k - 1))
        if self.assign == "codebook":
            return _frequent_signs(e, k)
        if self.assign == "cosine":
            return _centres(e, None, "cosine", k, problem.seed)
        return _centres(e / degrees[:, None], degrees, "euclidean", k, problem.seed)


def _projections(s: PCAState, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(k, features) and (k,): the k - 1 projections in units of their spread, and the degree."""
    mean = s.sums / s.inverse
    covariance = s.moments / s.inverse - np.outer(mean, mean)
    m = mean.size
    values, vectors = eigh(covariance, subset_by_index=(m - k + 1, m - 1))
    W = vectors[:, ::-1] / np.sqrt(np.maximum(values[::-1], 1e-300 + 1e-15 * values[-1]))
    W *= np.where(np.take_along_axis(W, np.abs(W).argmax(axis=0)[None], axis=0) < 0.0, -1.0, 1.0)
    return np.vstack([W.T, s.reference]), np.append(-mean @ W, 0.0)


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
