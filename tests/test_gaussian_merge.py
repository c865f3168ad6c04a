"""Gaussians nearest to several others, against a general minimiser and by what must hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from conftest import chunk_of
from thresher.losses import LeastSquares, SquaredHinge
from thresher.penalties import L2
from thresher.solvers import Problem
from thresher.solvers._gaussian_merge import Gaussian, GaussianSums, inverse
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_rules import AROW, Recursive


def some(count, d, diagonal, seed=0, size=1.0):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        if diagonal:
            covariance = np.exp(rng.normal(size=d))
        else:
            half = rng.normal(size=(d, d + 2))
            covariance = half @ half.T / d
        found.append(Gaussian(size * rng.normal(size=d), covariance))
    return found


def summed(gaussians, weights, origin):
    total = GaussianSums.of(gaussians[0], weights[0], origin)
    for gaussian, weight in zip(gaussians[1:], weights[1:], strict=True):
        total = total.plus(GaussianSums.of(gaussian, weight, origin))
    return total


def divergence(a, b):
    """Half of KL(a, b) + KL(b, a)."""
    A, B = (np.diag(g.covariance) if g.covariance.ndim == 1 else g.covariance for g in (a, b))
    return 0.5 * (relative_entropy(a.mean, A, b.mean, B) + relative_entropy(b.mean, B, a.mean, A))


def relative_entropy(m, S, n, T):
    Q, away = np.linalg.inv(T), m - n
    logs = np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    return 0.5 * (np.trace(Q @ S) + away @ Q @ away - m.size + logs)


def cost(gaussian, gaussians, weights):
    each = [w * divergence(gaussian, other) for w, other in zip(weights, gaussians, strict=True)]
    return sum(each) / sum(weights)


def by_minimiser(gaussians, weights, diagonal):
    """Over the mean and the logarithms of variances, or a triangular factor."""
    d = gaussians[0].mean.size
    lower = np.tril_indices(d)

    def unpack(z):
        if diagonal:
            return Gaussian(z[:d], np.exp(z[d:]))
        factor = np.zeros((d, d))
        factor[lower] = z[d:]
        factor[np.diag_indices(d)] = np.exp(np.diag(factor))
        return Gaussian(z[:d], factor @ factor.T)

    start = np.zeros(2 * d if diagonal else d + lower[0].size)
    best = minimize(lambda z: cost(unpack(z), gaussians, weights), start, method="BFGS",
                    options={"gtol": 1e-9, "maxiter": 3000})  # fmt: skip
    return unpack(best.x)


@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_the_centre_is_the_minimum(diagonal, seed):
    gaussians, weights = some(4, 3, diagonal, seed), [1.0, 2.0, 0.5, 3.0]
    found = summed(gaussians, weights, np.zeros(3)).centre()
    wanted = by_minimiser(gaussians, weights, diagonal)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=2e-4)
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=2e-3, atol=2e-4)
    assert cost(found, gaussians, weights) <= cost(wanted, gaussians, weights) + 1e-12


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_both_equations_hold_and_order_and_origin_do_not_matter(count, d, seed, diagonal):
    gaussians = some(count, d, diagonal, seed, size=3.0)
    weights = np.random.default_rng(seed).uniform(0.1, 2.0, count)
    found = summed(gaussians, weights, np.zeros(d)).centre()
    p = weights / weights.sum()
    full = [Gaussian(g.mean, np.diag(g.covariance) if diagonal else g.covariance)
            for g in gaussians]  # fmt: skip
    S = np.diag(found.covariance) if diagonal else found.covariance
    A = sum(w * np.linalg.inv(g.covariance) for w, g in zip(p, full, strict=True))
    B = sum(w * (g.covariance + np.outer(found.mean - g.mean, found.mean - g.mean))
            for w, g in zip(p, full, strict=True))  # fmt: skip
    residual = S @ A @ S - B
    residual = np.diag(residual) if diagonal else residual
    assert np.max(np.abs(residual)) < 1e-8 * np.max(np.abs(B))
    Q = np.linalg.inv(S)
    right = sum(
        w * (Q + np.linalg.inv(g.covariance)) @ g.mean for w, g in zip(p, full, strict=True)
    )
    np.testing.assert_allclose((Q + A) @ found.mean, right, atol=1e-8 * np.abs(right).max())
    order = np.random.default_rng(seed + 1).permutation(count)
    turned = summed([gaussians[k] for k in order], weights[order], np.full(d, 1.5)).centre()
    np.testing.assert_allclose(turned.mean, found.mean, atol=1e-8)
    np.testing.assert_allclose(turned.covariance, found.covariance, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("diagonal", [True, False])
def test_equal_gaussians_and_one_alone_stay(diagonal):
    (one,) = some(1, 4, diagonal)
    for count in (1, 2, 7):
        found = summed([one] * count, [0.3] * count, one.mean).centre()
        np.testing.assert_allclose(found.mean, one.mean, rtol=1e-12)
        np.testing.assert_allclose(found.covariance, one.covariance, rtol=1e-9, atol=1e-12)


def test_a_common_origin_keeps_the_digits():
    """Means that lie close together and far from zero."""
    gaussians = [g._replace(mean=1e8 + 1e-3 * g.mean) for g in some(3, 2, True)]
    origin = gaussians[0].mean.copy()
    found = summed(gaussians, [1.0] * 3, origin).centre()
    near = [g._replace(mean=g.mean - origin) for g in gaussians]
    wanted = summed(near, [1.0] * 3, np.zeros(2)).centre()
    np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-10)


def test_inverses_of_uneven_matrices_are_symmetric_and_exact():
    units = np.geomspace(1e-8, 1e8, 6)
    half = np.random.default_rng(0).normal(size=(6, 9))
    S = (half @ half.T) * units[:, None] * units
    P = inverse(S)
    assert np.array_equal(P, P.T)
    np.testing.assert_allclose((P * units[:, None] * units) @ (half @ half.T), np.eye(6), atol=1e-9)


# ---------------------------------------------------------------- merging states


RNG = np.random.default_rng(1)
X = RNG.normal(size=(300, 4))
TARGET = X @ np.array([1.0, -1.0, 0.0, 2.0]) + 0.1 * RNG.normal(size=300)


def states(solver, problem, y, parts, base):
    found = []
    for part in np.array_split(np.arange(300), parts):
        chunk = chunk_of(X, y)._replace(order=part.astype(np.uint32))
        found.append(solver.update(problem, solver.copy(base), chunk))
    return found


@pytest.mark.parametrize("parts", [2, 10])
def test_the_product_of_full_beliefs_is_one_stream(parts):
    solver, problem = FullConfidence(Recursive(0.5)), Problem(LeastSquares(), L2(1.0), 4)
    base = solver.init(problem)
    merged = solver.merge(
        problem, states(solver, problem, TARGET, parts, base), base, [1.0] * parts
    )
    one = solver.update(problem, solver.copy(base), chunk_of(X, TARGET))
    np.testing.assert_allclose(merged.mean, one.mean, rtol=1e-8)
    np.testing.assert_allclose(merged.covariance, one.covariance, rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("form", [DiagonalConfidence, FullConfidence])
def test_states_are_merged_as_their_gaussians(form):
    """Of several classes, each for itself, by the masses of the rows."""
    solver = form(AROW(0.5), combine="divergence")
    y = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
    problem = Problem(SquaredHinge(), L2(1.0), 4, outputs=3)
    base = solver.init(problem)
    parts, weights = states(solver, problem, y, 3, base), [1.0, 2.0, 3.0]
    merged = solver.merge(problem, parts, base, weights)
    for c in range(3):
        each = [solver.gaussian(part, c) for part in parts]
        wanted = summed(each, weights, np.zeros(5)).centre()
        np.testing.assert_allclose(solver.gaussian(merged, c).mean, wanted.mean, rtol=1e-8)
        np.testing.assert_allclose(
            solver.gaussian(merged, c).covariance, wanted.covariance, rtol=1e-8, atol=1e-14
        )


def test_shards_of_a_product_are_as_sure_as_all_rows_and_those_of_a_centre_as_one():
    y = np.sign(X[:, 0] + 0.5 * RNG.normal(size=300))
    problem = Problem(SquaredHinge(), L2(1.0), 4)
    deviations = {}
    for how in ("product", "divergence", "average"):
        solver = DiagonalConfidence(AROW(1.0), combine=how)
        base = solver.init(problem)
        parts = states(solver, problem, y, 10, base)
        merged = solver.merge(problem, parts, base, [1.0] * 10)
        deviations[how] = np.sqrt(solver.gaussian(merged, 0).covariance).mean()
        one = np.sqrt(solver.gaussian(parts[0], 0).covariance).mean()
    stream = solver.update(problem, solver.init(problem), chunk_of(X, y))
    every = np.sqrt(solver.gaussian(stream, 0).covariance).mean()
    assert deviations["product"] < 1.2 * every
    assert 0.7 * one < deviations["divergence"] < 1.3 * one
    assert 0.7 * one < deviations["average"] < 1.3 * one
