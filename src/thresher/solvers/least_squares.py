r"""Least squares by one direct solve, with the leave-one-out errors in closed form.

.. math:: \min_{w,b}\; \tfrac12\sum_j\lambda_j w_j^2 + \operatorname{mean}_i \tfrac12
          (w\cdot x_i + b - y_i)^2, \qquad (\tilde X'\tilde X + n\Lambda)\,(w, b) = \tilde X'y

with :math:`\tilde x = (x, 1)`.  The state is the two sums on the left and right: rows may come in
any chunks, states of different rows are added, and all classes share the matrix.  On the features
of a kernel map this is the fixed-size LS-SVM (Suykens et al., 2002; De Brabanter et al., 2010).

*Leave-one-out.*  Without row i, and with the ridge n Lambda left as it is, the prediction for row i
misses its target by :math:`(y_i - p_i) / (1 - h_i)`, where :math:`h_i = \tilde x_i' (\tilde
X'\tilde X + n\Lambda)^{-1} \tilde x_i`: exact, no model is fitted again (Cawley and Talbot, 2004).

Cost O(n d^2) in BLAS and O(d^3) once; leave-one-out costs another O(n d^2).  Weights count as
repetitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq, solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm

from thresher.functions import LinearFunction
from thresher.solvers._states import present
from thresher.solvers.base import Chunk, Problem, Solver, precisions

__all__ = ["DirectLeastSquares", "refuse_large_matrix", "ridged"]

_BLOCK = 1 << 20  # elements of the rows that enter the matrix together


class NormalEquations(NamedTuple):
    """Sums over the rows seen; the intercept is the last place."""

    gram: np.ndarray  # upper triangle of X'X
    moments: np.ndarray  # X'y, one column per output
    mass: float
    step: int


@njit(cache=True, nogil=True)
def _gather(rows, weight, order, block):
    """block = sqrt(weight) * (x, 1) for the rows in ``order``."""
    d = block.shape[1] - 1
    for r in range(order.size):
        i = order[r]
        line = block[r]
        for j in range(line.size):
            line[j] = 0.0
        factor = np.sqrt(weight[i])
        rows.add(i, factor, line[:d])
        line[d] = factor


@dataclass(frozen=True)
class DirectLeastSquares(Solver):
    """Normal equations by Cholesky: the exact model of the least-squares loss in one pass.

    Learns several classes, or a matrix of real targets, from one matrix of the features.

    Parameters
    ----------
    max_features : int, default=20000
        Refuse more features than this, since the matrix has their square.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from thresher import LinearRegressor
    >>> X, y = make_regression(300, 20, noise=5.0, random_state=0)
    >>> model = LinearRegressor("least_squares", solver="least_squares", alpha=0.0).fit(X, y)
    >>> from numpy.linalg import norm
    >>> residual = y - model.predict(X)
    >>> bool(norm(X.T @ residual) < 1e-6 * norm(X.T @ y))  # the normal equations hold
    True
    """

    max_features: int = 20_000
    loss_needs = frozenset({"square"})
    penalty_needs = frozenset({"quadratic"})
    default_passes = 1
    joint = True
    target_kinds = frozenset({"classes", "matrix"})
    by_blocks = True
    sum_fields = frozenset(NormalEquations._fields)
    merges_exactly = True

    def check(self, problem: Problem) -> None:
        refuse_large_matrix(self, problem.n_features, self.max_features)

    def init(self, problem: Problem, chunk: Chunk | None = None) -> NormalEquations:
        d = problem.n_features + 1
        return NormalEquations(np.zeros((d, d), order="F"), np.zeros((d, problem.outputs)), 0.0, 0)

    def update(self, problem: Problem, state: NormalEquations, chunk: Chunk) -> NormalEquations:
        gram, moments = state.gram, state.moments
        rank_update = ssyrk if chunk.rows.dtype == np.float32 else dsyrk
        for order, block in _blocks(chunk):
            # Sums of some thousand rows in the rows' precision, sums of those in double.
            gram += rank_update(1.0, block.T)
            weighted = _targets(problem, chunk.y[order]) * block[:, -1:]
            moments += block.T @ weighted.astype(block.dtype)
        mass = state.mass + float(np.sum(chunk.weight[chunk.order]))
        return NormalEquations(gram, moments, mass, state.step + chunk.order.size)

    def finish(self, problem: Problem, state: NormalEquations) -> LinearFunction:
        k = problem.outputs
        solution = np.zeros((problem.n_features + 1, k))
        if state.step:
            A, size = _system(problem, state)
            solution[:size] = _solve(A, state.moments[:size])
        coef = solution[:-1].T.astype(problem.dtype)
        if k == 1:
            return LinearFunction(coef[0], float(solution[-1, 0]))
        return LinearFunction(coef, solution[-1])

    def check_state(self, problem: Problem, state: NormalEquations) -> None:
        super().check_state(problem, state)
        if (state.step > 0) != (state.mass > 0.0):
            raise ValueError("the state's mass does not fit its rows")

    def merge(
        self, problem: Problem, states: Any, base: NormalEquations, weights: Any
    ) -> NormalEquations:
        """G = G_base + sum_k c_k (G_k - G_base), and so the moments: exact.

        With the masses of the rows as weights every c_k is one.  In general c_k = p_k M / M_k, p_k
        the share of shard k in the weights, M_k the mass that it saw and M that of all: the mean
        equations of the shards are averaged with these weights.
        """
        states, shares = present(states, weights)
        merged = self.copy(base)
        masses = np.array([s.mass - base.mass for s in states])
        learned = masses > 0.0  # a shard that saw nothing has no mean equations
        total, share = float(masses[learned].sum()), float(shares[learned].sum())
        for k in np.flatnonzero(learned):
            factor = (shares[k] / share) * (total / masses[k])
            merged.gram[...] += factor * (states[k].gram - base.gram)
            merged.moments[...] += factor * (states[k].moments - base.moments)
        step = base.step + sum(s.step - base.step for s in states)
        return merged._replace(mass=base.mass + total, step=step)

    def leave_one_out(
        self, problem: Problem, state: NormalEquations, chunk: Chunk
    ) -> tuple[np.ndarray, np.ndarray]:
        """(targets, predictions without the row), each (rows of ``chunk.order``, outputs)."""
        A, size = _system(problem, state)
        solution = _solve(A, state.moments[:size]).astype(chunk.rows.dtype)
        factor = cho_factor(A, lower=True)[0]
        inverse = solve_triangular(factor, np.eye(size), lower=True)
        inverse = np.asfortranarray(inverse, dtype=chunk.rows.dtype)
        multiply = strmm if chunk.rows.dtype == np.float32 else dtrmm
        targets, predictions = [], []
        for order, block in _blocks(chunk):
            root = np.maximum(block[:, -1:].astype(np.float64), 1e-300)
            block = np.ascontiguousarray(block[:, :size])
            y = _targets(problem, chunk.y[order])
            residual = y - (block @ solution) / root
            half = multiply(1.0, inverse, block.T, lower=1, overwrite_b=1)
            leverage = np.einsum("ji,ji->i", half, half)[:, None]
            targets.append(y)
            predictions.append(y - residual / np.maximum(1.0 - leverage, 1e-9))
        return np.concatenate(targets), np.concatenate(predictions)


def refuse_large_matrix(solver: Solver, d: int, most: int) -> None:
    if d > most:
        raise ValueError(
            f"{type(solver).__name__} would need a matrix of {d} x {d}: "
            "use another solver or raise max_features"
        )


def _targets(problem: Problem, y: np.ndarray) -> np.ndarray:
    """Columns of targets in double precision; -1 / +1 for every class against the rest."""
    if problem.targets == "matrix":
        if y.ndim != 2 or y.shape[1] != problem.outputs:
            raise ValueError(
                f"targets of shape {y.shape}: a problem of {problem.outputs} outputs needs "
                f"(rows, {problem.outputs})"
            )
        return y.astype(np.float64)
    if problem.outputs == 1:
        return y.astype(np.float64)[:, None]
    return np.where(y[:, None] == np.arange(problem.outputs), 1.0, -1.0)


def _blocks(chunk: Chunk) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows in their order, dense and weighted, some thousand at a time."""
    width = chunk.rows.shape[1] + 1
    size = max(_BLOCK // width, 256)
    block = np.empty((min(size, chunk.order.size), width), dtype=chunk.rows.dtype)
    for start in range(0, chunk.order.size, size):
        order = chunk.order[start : start + size]
        part = block[: order.size]
        _gather(chunk.rows, chunk.weight, order, part)
        yield order, part


def _system(problem: Problem, state: NormalEquations) -> tuple[np.ndarray, int]:
    """The regularised matrix, with the intercept's place only if there is one."""
    A = ridged(state.gram, state.mass * precisions(problem), problem.fit_intercept)
    return A, A.shape[0]


def ridged(gram: np.ndarray, ridge: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """The symmetric matrix of an upper triangle, plus a ridge for all but the intercept."""
    d = ridge.size
    size = d + 1 if fit_intercept else d
    A = np.triu(gram[:size, :size])
    A = A + np.triu(A, 1).T
    A[np.arange(d), np.arange(d)] += ridge
    # Directions that neither data nor penalty hold get a trace of curvature.
    A[np.arange(size), np.arange(size)] += 1e-12 * max(float(np.trace(A)) / size, 1e-300)
    return A


def _solve(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        return cho_solve(cho_factor(A, lower=True), b)
    except LinAlgError:
        return lstsq(A, b)[0]
