"""Merging two support vectors: formulas against explicit expansions, look-up against search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thresher.solvers import merging

SHARE = st.floats(0.001, 1.0)


def kernel(x, z, gamma=1.0):
    return math.exp(-gamma * float(np.sum((x - z) ** 2)))


def brute(a, b, kappa):
    """The least loss over h in [0, 1], by finer and finer grids."""

    aa, bb, ab = a @ a, b @ b, a @ b

    def kept(h):
        p, q = kappa ** ((1 - h) ** 2), kappa ** (h * h)
        return aa * p * p + bb * q * q + 2 * ab * p * q

    h = np.linspace(0.0, 1.0, 501)
    for width in (2e-3, 1e-5, 1e-7):
        best = h[np.argmax(kept(h))]
        h = np.clip(best + width * np.linspace(-1.0, 1.0, 501), 0.0, 1.0)
    return float(aa + bb + 2 * kappa * ab - np.max(kept(h)))


def setup(rng, outputs, size=30, d=4, dtype=np.float64):
    """Random vectors of one state; slot of the lightest, its kernel values, and the rest."""
    vectors = rng.normal(size=(d, size)).astype(dtype)
    coef = (rng.normal(size=(outputs, size)) * rng.gamma(1.0, size=size)).astype(dtype)
    mass = np.sum(coef**2, axis=0)
    light = int(np.argmin(mass))
    kappa = np.exp(-0.3 * np.sum((vectors - vectors[:, [light]]) ** 2, axis=0)).astype(dtype)
    return vectors, coef, mass, light, kappa


@given(a=SHARE, b=SHARE, cosine=st.floats(-1.0, 1.0), kappa=st.floats(1e-6, 1.0))
def test_the_best_share_is_global_and_on_the_heavier_side(a, b, cosine, kappa):
    a, b = min(a, b), max(a, b)
    h = merging.best_share(a * a, b * b, cosine * a * b, math.log(kappa), 40)
    assert 0.0 <= h <= 0.5
    first = np.array([a, 0.0])
    second = b * np.array([cosine, math.sqrt(max(1.0 - cosine**2, 0.0))])
    p, q = kappa ** ((1 - h) ** 2), kappa ** (h * h)
    lost = a * a + b * b + 2 * kappa * cosine * a * b - np.sum((p * first + q * second) ** 2)
    assert lost <= brute(first, second, kappa) + 1e-9 * (a + b) ** 2


@given(
    seed=st.integers(0, 1000), outputs=st.integers(1, 4), spread=st.floats(0.05, 2.0)
)  # fmt: skip
def test_merging_against_explicit_expansions(seed, outputs, spread):
    """The new coefficient is the projection, and the lost norm is that of the difference."""
    rng = np.random.default_rng(seed)
    vectors = spread * rng.normal(size=(3, 2))
    coef = rng.normal(size=(outputs, 2))
    mass = np.sum(coef**2, axis=0)
    light = int(np.argmin(mass))
    other = 1 - light
    old, old_coef = vectors.copy(), coef.copy()
    kappa = kernel(old[:, 0], old[:, 1])
    lag, norms = 2.0 * coef, np.sum(vectors**2, axis=0)
    merging.fuse(light, other, coef, lag, mass, kappa, vectors, norms)
    z = vectors[:, other]
    to_z = np.array([kernel(old[:, j], z) for j in range(2)])
    np.testing.assert_allclose(coef[:, other], old_coef @ to_z, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lag[:, other], 2.0 * coef[:, other], rtol=1e-9, atol=1e-12)
    assert norms[other] == pytest.approx(z @ z)
    K = np.array([[1.0, kappa, to_z[0]], [kappa, 1.0, to_z[1]], [to_z[0], to_z[1], 1.0]])
    difference = np.column_stack([old_coef, -coef[:, other]])
    lost = float(np.sum((difference @ K) * difference))
    wanted = brute(old_coef[:, light], old_coef[:, other], kappa)
    assert lost == pytest.approx(wanted, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize(
    ("outputs", "table"), [(1, merging.signed_table), (4, merging.joint_table)]
)
def test_the_table_finds_the_partner_that_a_search_finds(outputs, table):
    rng = np.random.default_rng(0)
    cost = np.empty(30)
    regrets = []
    for _ in range(20):
        _, coef, mass, light, kappa = setup(rng, outputs)
        chosen = merging.mate(light, coef, mass, kappa, 30, table(), cost)
        exact = np.array([
            math.inf if j == light else brute(coef[:, light], coef[:, j], kappa[j])
            for j in range(30)
        ])  # fmt: skip
        np.testing.assert_allclose(cost * mass[light], exact, atol=0.02 * mass[light])
        regrets.append(exact[chosen] / exact.min() - 1.0)
    assert np.mean(regrets) < 1e-3
    assert np.max(regrets) < 0.01


def test_one_output_is_a_plane_of_the_joint_table():
    rng = np.random.default_rng(1)
    _, coef, mass, light, kappa = setup(rng, 1)
    both = np.vstack([coef, np.zeros_like(coef)])  # the second output has no say
    plane, joint = np.empty(30), np.empty(30)
    merging.mate(light, coef, mass, kappa, 30, merging.signed_table(), plane)
    merging.mate(light, both, mass, kappa, 30, merging.joint_table(), joint)
    np.testing.assert_allclose(joint, plane, atol=0.01)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_identical_vectors_add_up(side):
    coef = np.array([[0.3, side * 0.5]])
    vectors, norms = np.ones((2, 2)), np.full(2, 2.0)
    merging.fuse(0, 1, coef, coef.copy(), coef[0] ** 2, 1.0, vectors, norms)
    assert coef[0, 1] == pytest.approx(0.3 + side * 0.5)
    np.testing.assert_allclose(vectors[:, 1], 1.0)


def test_far_vectors_are_left_where_they_are():
    coef = np.array([[0.3, 0.5]])
    vectors, norms = np.array([[0.0, 100.0]]), np.array([0.0, 1e4])
    merging.fuse(0, 1, coef, coef.copy(), coef[0] ** 2, 0.0, vectors, norms)
    assert coef[0, 1] == pytest.approx(0.5, rel=1e-6)
    assert vectors[0, 1] == pytest.approx(100.0, abs=1e-3)


@given(seed=st.integers(0, 200), size=st.integers(2, 12))
def test_the_inverse_follows_the_vectors(seed, size):
    """Adding and giving up vectors keeps Q the inverse of their (ridged) kernel matrix."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(size, 2))
    K = np.exp(-np.sum((Z[:, None] - Z[None]) ** 2, axis=-1))
    inverse, work = np.zeros((size, size)), np.empty(size)
    for j in range(size):
        kernels = np.where(np.arange(size) < j, K[j], 0.0)
        merging.border(inverse, kernels, j, 1.0, size, work)
    ridged = K + merging.RIDGE * np.eye(size)
    np.testing.assert_allclose(inverse @ ridged, np.eye(size), atol=1e-5)
    coef = rng.normal(size=(2, size))
    lag = 3.0 * coef
    before = coef.copy()
    gone = merging.project(coef, lag, inverse, size, np.empty(size))
    rest = np.arange(size) != gone
    onto = np.linalg.solve(ridged[np.ix_(rest, rest)], ridged[rest, gone])
    wanted = before[:, rest] + before[:, [gone]] * onto
    np.testing.assert_allclose(coef[:, rest], wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(lag[:, rest], 3.0 * wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        inverse[np.ix_(rest, rest)] @ ridged[np.ix_(rest, rest)], np.eye(size - 1), atol=1e-4
    )
