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
from scipy.linalg.blas import dsyrk, dtrmm, ssyrk, strmm

from thresher.functions import LinearFunction
from thresher.solvers._states import present
from thresher.solvers._system import Factored, factored, mirrored
from thresher.solvers.base import Chunk, Problem, Solver, precisions

__all__ = ["DirectLeastSquares", "refuse_large_matrix"]

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
        for order, block in _blocks(chunk):
            y = _targets(problem, chunk.y[order])
            if chunk.rows.dtype == np.float32:
                _add_about_mean(block, y, gram, moments)
            else:
                gram += dsyrk(1.0, block.T)
                moments += block.T @ (y * block[:, -1:])
        mass = state.mass + float(np.sum(chunk.weight[chunk.order]))
        return NormalEquations(gram, moments, mass, state.step + chunk.order.size)

    def finish(self, problem: Problem, state: NormalEquations) -> LinearFunction:
        k = problem.outputs
        solution = np.zeros((problem.n_features + 1, k))
        if state.step:
            system = _system(problem, state)
            solution[: system.size] = system.solve(state.moments[: system.size])
        coef = solution[:-1].T.astype(problem.dtype)
        if k == 1:
            return LinearFunction(coef[0], float(solution[-1, 0]))
        return LinearFunction(coef, solution[-1])

    def check_state(self, problem: Problem, state: NormalEquations) -> None:
        super().check_state(problem, state)
        if (state.step > 0) != (state.mass > 0.0):
            raise ValueError("the state's mass does not fit its rows")

    def is_done(self, problem: Problem, state: NormalEquations, residual: float) -> bool:
        """One pass gives the optimum, whatever accuracy was asked for."""
        return problem.tol is not None

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
        system, d = _system(problem, state), problem.n_features
        solution = system.solve(state.moments[: system.size])
        # Rows are taken about their mean: what all of them share is added in double precision.
        weights = solution[:d].astype(chunk.rows.dtype)
        level = system.mean @ solution[:d] + (solution[d] if problem.fit_intercept else 0.0)
        free = 0.0 if system.level is None else 1.0 / system.level
        whitener = np.asfortranarray(system.whitener(), dtype=chunk.rows.dtype)
        multiply = strmm if chunk.rows.dtype == np.float32 else dtrmm
        targets, predictions = [], []
        for order, block in _blocks(chunk):
            root = np.maximum(block[:, -1:].astype(np.float64), 1e-300)
            around = np.ascontiguousarray(block[:, :d])
            if problem.fit_intercept:
                around -= root * system.mean
            y = _targets(problem, chunk.y[order])
            residual = y - ((around @ weights) / root + level)
            half = multiply(1.0, whitener, around.T, lower=1, overwrite_b=1)
            leverage = np.einsum("ji,ji->i", half, half)[:, None] + root * root * free
            targets.append(y)
            predictions.append(y - residual / np.maximum(1.0 - leverage, 1e-9))
        return np.concatenate(targets), np.concatenate(predictions)


def _add_about_mean(
    block: np.ndarray, y: np.ndarray, gram: np.ndarray, moments: np.ndarray
) -> None:
    r"""Add the sums over some thousand rows in single precision, which are taken about their means.

    With x = m + z and y = u + v:  sum xx' = sum zz' + m s' + s m' + (sum 1) mm' and
    sum xy = sum zv + s u + m (sum y), where s = sum z.  The products of z and v are in the rows'
    precision; m and u, which may be much larger, are multiplied in double.
    """
    d = block.shape[1] - 1
    root = block[:, -1].astype(np.float64)
    mass = float(root @ root)
    m, u = root @ block[:, :d] / mass, (root * root) @ y / mass
    z = (block[:, :d] - np.outer(root, m)).astype(block.dtype)
    s = np.append(root @ z, 0.0)
    v = (root[:, None] * (y - u)).astype(block.dtype)
    lift = np.append(m, 1.0)
    gram[:d, :d] += ssyrk(1.0, z.T)
    gram += np.outer(lift, s) + np.outer(s, lift) + mass * np.outer(lift, lift)
    moments[:d] += z.T @ v
    moments += np.outer(s, u) + np.outer(lift, (root * root) @ y)


def refuse_large_matrix(solver: Solver, d: int, most: int, instead: str = "another solver") -> None:
    if d > most:
        raise ValueError(
            f"{type(solver).__name__} would need a matrix of {d} x {d}: "
            f"use {instead} or raise max_features"
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


def _system(problem: Problem, state: NormalEquations) -> Factored:
    """The regularised matrix, with the intercept's place only if there is one."""
    ridge = state.mass * precisions(problem)
    return factored(mirrored(state.gram), ridge, problem.fit_intercept)
