"""Matchings against brute force, Clarabel, finite differences and what must not matter."""

from itertools import combinations, permutations

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_matrix, csr_matrix, diags, eye, kron, vstack

from thresher import ObjectMatching
from thresher.matchings.assignment import best_assignment, best_few, permutation_matrix, recall
from thresher.matchings.convex import is_degenerate, soft_match
from thresher.matchings.copies import matched_copies
from thresher.matchings.refining import exchanged, refined
from thresher.matchings.similarities import (
    centred,
    evened,
    flattened,
    of_unit_size,
    without_diagonal,
)
from thresher.matchings.sorting import likeness, sort_from, sorted_best, spectral_starts
from thresher.matchings.spectra import Coupling, Spectrum
from thresher.matchings.stochastic import nearest_stochastic


def gaussian(X):
    square = np.sum((X[:, None] - X) ** 2, axis=2)
    return np.exp(-square / np.median(square[square > 0]))


def kernels(n, m, seed=0, noise=0.2):
    """Of two noisy copies of the same points, the longer with more of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(max(n, m), 3))
    return gaussian(X[:n]), gaussian(X[:m] + noise * rng.normal(size=(m, 3)))


def coupled(K, L):
    return Coupling(Spectrum.of(K), Spectrum.of(L))


def objective(coupling, P, penalty):
    """The value of the penalised problem at P; of the first term alone where C is infinite."""
    if np.isinf(penalty):
        return coupling.value(P)
    rows, columns = P.sum(axis=1) - 1.0, P.sum(axis=0) - 1.0
    if P.shape[0] < P.shape[1]:  # objects of the larger set may have less than one
        columns = np.maximum(columns, 0.0)
    elif P.shape[0] > P.shape[1]:
        rows = np.maximum(rows, 0.0)
    return coupling.value(P) + penalty * (rows @ rows + columns @ columns)


# ---------------------------------------------------------------- the quadratic term


@pytest.mark.parametrize(("n", "m"), [(5, 5), (4, 6)])
def test_value_and_slope_are_those_of_the_formula(n, m):
    K, L = kernels(n, m)
    P = np.random.default_rng(1).normal(size=(n, m))
    term = coupled(K, L)
    E = K @ P - P @ L
    assert term.value(P) == pytest.approx(np.sum(E**2))
    numeric = np.empty_like(P)
    for place in np.ndindex(P.shape):
        step = np.zeros_like(P)
        step[place] = 1e-5
        numeric[place] = (term.value(P + step) - term.value(P - step)) / 2e-5
    np.testing.assert_allclose(term.gradient(P), numeric, atol=1e-8)


@pytest.mark.parametrize("rank", [None, 2])
def test_the_proximal_step_solves_its_linear_system(rank):
    K, L = kernels(5, 6)
    left, right = Spectrum.of(K, rank), Spectrum.of(L, rank)
    K, L = ((s.vectors * s.values) @ s.vectors.T for s in (left, right))
    P = np.random.default_rng(1).normal(size=(5, 6))
    A = np.kron(K, np.eye(6)) - np.kron(np.eye(5), L)  # of row-major vectors
    X = np.linalg.solve(2.0 * A.T @ A + 0.3 * np.eye(30), 0.3 * P.ravel())
    found = Coupling(left, right)
    np.testing.assert_allclose(found.proximal(P, 0.3).ravel(), X, atol=1e-10)
    assert found.value(P) == pytest.approx(np.sum((A @ P.ravel()) ** 2))


# ---------------------------------------------------------------- convex problems, by Clarabel


def solved(quadratic, linear, n, m, penalty):
    """min x'Qx/2 + q'x + penalty (sums - 1)² over x >= 0; the smaller set's sums are equalities."""
    rows, columns = kron(eye(n), np.ones((1, m))), kron(np.ones((1, n)), eye(m))
    size = n * m
    if np.isinf(penalty):
        equal, below = (rows, columns) if n <= m else (columns, rows)
        if n == m:
            equal, below = vstack([rows, columns]), csc_matrix((0, size))
        A = vstack([equal, below, -eye(size)], format="csc")
        b = np.concatenate([np.ones(equal.shape[0] + below.shape[0]), np.zeros(size)])
        cones = [clarabel.ZeroConeT(equal.shape[0]),
                 clarabel.NonnegativeConeT(below.shape[0] + size)]  # fmt: skip
    else:
        assert n == m
        sums = vstack([rows, columns])
        quadratic = quadratic + 2.0 * penalty * (sums.T @ sums)
        linear = linear - 2.0 * penalty * np.asarray(sums.sum(axis=0)).ravel()
        A, b, cones = -eye(size, format="csc"), np.zeros(size), [clarabel.NonnegativeConeT(size)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    upper = csc_matrix(np.triu(np.asarray(csc_matrix(quadratic).todense())))
    return np.array(
        clarabel.DefaultSolver(upper, linear, csc_matrix(A), b, cones, options).solve().x
    ).reshape(n, m)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 6), st.floats(0.1, 100.0), st.booleans(),
    st.integers(0, 2**16),
)  # fmt: skip
def test_the_nearest_stochastic_matrix(n, m, size, exact, seed):
    V = size * np.random.default_rng(seed).normal(size=(n, m))
    penalty = np.inf if exact or n != m else 3.0
    P, _ = nearest_stochastic(V, 2.0 * penalty)
    assert P.min() >= 0.0
    expected = solved(diags(np.ones(n * m)), -V.ravel(), n, m, penalty)
    np.testing.assert_allclose(P, expected, atol=1e-5 * max(size, 1.0))


def test_the_nearest_stochastic_matrix_leaves_barred_entries_zero():
    V = np.zeros((3, 3))
    V[0, 1:] = V[1:, 0] = -np.inf
    P, _ = nearest_stochastic(V)
    np.testing.assert_allclose(P, [[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]], atol=1e-8)


@pytest.mark.parametrize(
    ("n", "m", "penalty"),
    [(5, 5, 10.0), (5, 5, 0.5), (6, 6, np.inf), (4, 6, np.inf), (5, 3, np.inf)],
)
def test_the_soft_match_is_the_optimum(n, m, penalty):
    K, L = kernels(n, m)
    term = coupled(K, L)
    A = np.kron(K, np.eye(m)) - np.kron(np.eye(n), L)
    expected = solved(csc_matrix(2.0 * A.T @ A), np.zeros(n * m), n, m, penalty)
    found = soft_match(term, penalty, max_iter=5000, tol=1e-8)
    assert found.residual <= 1e-8
    best = objective(term, expected, penalty)
    assert objective(term, found.P, penalty) == pytest.approx(best, rel=1e-4, abs=1e-6)
    np.testing.assert_allclose(found.P, expected, atol=1e-3)


def test_centred_kernels_make_the_uniform_matrix_optimal():
    K, L = (centred(A) for A in kernels(8, 8))
    assert is_degenerate(K, L)
    assert objective(coupled(K, L), np.full((8, 8), 1 / 8), 10.0) == pytest.approx(0.0, abs=1e-20)
    assert not is_degenerate(*kernels(8, 8))
    with pytest.warns(UserWarning, match="centred"):
        found = ObjectMatching(kernel="precomputed", centre=True).fit(*kernels(8, 8))
    np.testing.assert_allclose(found.probabilities_, 1 / 8, atol=1e-4)  # in single precision
    with pytest.warns(UserWarning, match="centred"):
        found = ObjectMatching(kernel="precomputed", centre=True, tol=1e-6).fit(*kernels(8, 8))
    np.testing.assert_allclose(found.probabilities_, 1 / 8, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_points_on_a_circle_are_all_alike(size):
    angle = np.arange(7) * 2 * np.pi / 7
    K = gaussian(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    assert is_degenerate(K, size * np.eye(7))
    assert not is_degenerate(K, kernels(7, 7)[0])
    term, uniform = coupled(K, size * np.eye(7)), np.full((7, 7), 1 / 7)
    best = soft_match(term, np.inf, max_iter=2000, tol=1e-8).P
    assert term.value(uniform) <= term.value(best) + 1e-9
    with pytest.warns(UserWarning, match="mean nothing"):
        ObjectMatching(kernel="precomputed").fit(K, K)


# ---------------------------------------------------------------- exact copies


@pytest.mark.parametrize("seed", range(5))
def test_copies_have_one_match_and_it_is_found(seed):
    K, _ = kernels(6, 6, seed)
    order = np.random.default_rng(seed).permutation(6)
    L = K[np.ix_(order, order)]
    exact = [p for p in permutations(range(6)) if np.allclose(K, L[np.ix_(p, p)])]
    assert [tuple(matched_copies(K, L))] == exact
    found = ObjectMatching(kernel="precomputed").fit(K, L)
    assert found.n_iter_ == 0
    assert objective(coupled(K, L), found.probabilities_, 10.0) == pytest.approx(0.0, abs=1e-20)
    slow = ObjectMatching(kernel="precomputed").fit(K, L, seeds=[(0, int(order.argmin()))])
    assert slow.n_iter_ > 0
    assert np.array_equal(slow.match_, found.match_)


def test_what_is_no_copy_or_has_a_symmetry_is_left_to_the_solver():
    K, L = kernels(6, 6)
    assert matched_copies(K, L) is None
    assert matched_copies(K, K[:5, :5]) is None
    twins = np.r_[0, 0, 1:6]
    assert matched_copies(K[np.ix_(twins, twins)], K[np.ix_(twins, twins)]) is None
    same_sums = K.copy()
    for i, j, step in ((0, 1, 0.1), (1, 2, -0.1), (2, 3, 0.1), (3, 0, -0.1)):
        same_sums[i, j] += step
        same_sums[j, i] += step
    np.testing.assert_allclose(same_sums.sum(axis=1), K.sum(axis=1))
    assert matched_copies(K, same_sums) is None


# ---------------------------------------------------------------- assignments


def alike(K, L, match):
    return float(np.sum(K * L[np.ix_(match, match)]))


@pytest.mark.parametrize("seed", range(5))
def test_sorting_is_never_above_and_with_starts_at_the_best_permutation(seed):
    K, L = (centred(A) for A in kernels(5, 5, seed))
    best = max(alike(K, L, np.array(p)) for p in permutations(range(5)))
    run = sorted_best(K, L, 600, seed)
    assert run.objective == pytest.approx(alike(K, L, run.match))
    assert run.objective == pytest.approx(best)
    for match in permutations(range(5)):  # it never falls
        P = permutation_matrix(np.array(match), 5)
        assert sort_from(K, L, P).objective >= alike(K, L, np.array(match)) - 1e-9


def test_the_spectral_start_finds_points_on_a_line():
    x = np.sort(np.random.default_rng(0).exponential(size=12))
    order = np.random.default_rng(1).permutation(12)
    K = centred(np.outer(x, x))
    L = K[np.ix_(order, order)]
    starts = [order[np.argmax(P, axis=1)] for P in spectral_starts(K, L)]
    assert any(np.array_equal(found, np.arange(12)) for found in starts)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 999))
def test_the_assignment_is_the_best_of_all(n, m, seed):
    scores = np.random.default_rng(seed).normal(size=(n, m))
    match = best_assignment(scores)
    paired = match >= 0
    assert paired.sum() == min(n, m) == np.unique(match[paired]).size
    tall = scores if n >= m else scores.T
    best = max(
        tall[list(rows), range(min(n, m))].sum()
        for rows in permutations(range(max(n, m)), min(n, m))
    )
    assert scores[paired, match[paired]].sum() == pytest.approx(best)


@pytest.mark.parametrize(("n", "m"), [(7, 7), (5, 7), (7, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_of_two_partners_gains_in_the_end(n, m, seed):
    rng = np.random.default_rng(seed)
    K, L = (without_diagonal(A) for A in kernels(n, m, seed))
    pulls = rng.normal(size=(n, m))

    def value(match):
        pairs = np.flatnonzero(match >= 0)
        inner = K[np.ix_(pairs, pairs)] * L[np.ix_(match[pairs], match[pairs])]
        return inner.sum() + 2 * pulls[pairs, match[pairs]].sum()

    start = best_assignment(rng.normal(size=(n, m)))
    found = exchanged(K, L, start, pulls)
    assert value(found) >= value(start)
    assert np.array_equal(np.sort(found), np.sort(start))
    for i, j in combinations(np.flatnonzero(found >= 0), 2):
        other = found.copy()
        other[[i, j]] = other[[j, i]]
        assert value(other) <= value(found) + 1e-6


def test_the_pull_decides_where_the_kernels_say_nothing():
    P = permutation_matrix(np.array([2, 0, 3, 1]), 4) * 0.5 + 0.125
    assert refined(np.eye(4), np.eye(4), P).tolist() == [2, 0, 3, 1]
    assert refined(np.eye(4), np.eye(4), P, -100.0 * P).tolist() != [2, 0, 3, 1]


def test_what_comes_second_counts_in_evened_kernels():
    """Noise in the direction of largest spread hides which partners are right, but not evened."""
    rng = np.random.default_rng(0)
    loud, quiet = rng.normal(size=(80, 1)), rng.normal(size=(80, 4))
    X = np.hstack([5.0 * loud, quiet])
    Y = np.hstack([5.0 * loud + rng.normal(size=(80, 1)), quiet + 0.1 * rng.normal(size=(80, 4))])
    K, L = X @ X.T, Y @ Y.T
    truth = np.arange(80)
    plain, even = (
        sort_from(without_diagonal(A), without_diagonal(B), np.eye(80))
        for A, B in ((centred(K), centred(L)), (evened(K), evened(L)))
    )
    assert np.mean(even.match == truth) > 0.9 > np.mean(plain.match == truth) + 0.1
    P = np.full((80, 80), 0.01) + np.eye(80) * 0.1
    assert np.mean(refined(K, L, P) == truth) > 0.9


def test_short_lists_and_recall():
    scores = np.array([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1]])
    assert best_few(scores, 2).tolist() == [[1, 2], [0, 2]]
    assert recall(scores, np.array([2, 0]), 1) == 0.5
    assert recall(scores, np.array([2, 0]), 2) == 1.0
    assert recall(scores, np.array([-1, 0]), 1) == 1.0
    with pytest.raises(ValueError, match="no row"):
        recall(scores, np.array([-1, -1]), 1)


def test_kernels_are_made_comparable():
    K, _ = kernels(6, 6)
    H = np.eye(6) - 1 / 6
    np.testing.assert_allclose(centred(K), H @ K @ H, atol=1e-12)
    np.testing.assert_allclose(of_unit_size(7.0 * K), K, atol=1e-12)
    C, c = H @ K @ H, np.trace(H @ K @ H) / 6
    np.testing.assert_allclose(evened(K), C @ np.linalg.inv(C + c * np.eye(6)), atol=1e-12)
    assert not evened(np.ones((3, 3))).any()
    hollow = without_diagonal(K)
    assert not np.diag(hollow).any()
    np.testing.assert_allclose(of_unit_size(3.0 * hollow), of_unit_size(hollow))
    raised = np.sqrt(K)
    raised /= np.linalg.norm(raised, axis=1, keepdims=True)
    np.testing.assert_allclose(flattened(K, 0.5), raised @ raised.T, atol=1e-12)


# ---------------------------------------------------------------- the estimator


def copies(n, noise=0.0, seed=0, d=4):
    """Points, noisy copies of them in another order, and the true partners."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    order = rng.permutation(n)
    return X, (X + noise * rng.normal(size=X.shape))[order], np.argsort(order)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("penalty", [10.0, np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exact_copies_are_matched_exactly(refine, penalty, dtype):
    X, Y, truth = copies(40)
    turned = (Y @ np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]) * 5.0 + 3.0
    found = ObjectMatching(refine=refine, penalty=penalty).fit(
        X.astype(dtype), turned.astype(dtype)
    )
    assert np.array_equal(found.match_, truth)
    assert found.alignment_ == pytest.approx(1.0, abs=1e-5)
    assert found.probabilities_.dtype == dtype
    assert found.recall(truth, 1) == 1.0
    assert np.array_equal(found.top(1)[:, 0], truth)


def test_noisy_copies_are_mostly_matched_and_more_of_them_after_refining():
    X, Y, truth = copies(60, 0.3, d=5)
    plain, refined = (
        np.mean(ObjectMatching(refine=refine).fit(X, Y).match_ == truth) for refine in (False, True)
    )
    assert refined >= plain > 0.6


@pytest.mark.parametrize(
    ("method", "tol", "apart"),
    [("convex", 1e-3, 1e-4), ("convex", 1e-6, 1e-6), ("sorting", 1e-3, 1e-6)],
)
def test_the_order_of_the_other_set_does_not_matter(method, tol, apart):
    """To single precision by default, to double where the tolerance asks for it."""
    X, Y, _ = copies(25, 0.1)
    order = np.random.default_rng(5).permutation(25)
    options = {"method": method, "starts": 1, "random_state": 0, "tol": tol}
    one, other = ObjectMatching(**options).fit(X, Y), ObjectMatching(**options).fit(X, Y[order])
    assert np.array_equal(order[other.match_], one.match_)
    np.testing.assert_allclose(other.probabilities_, one.probabilities_[:, order], atol=apart)


def test_exchanging_the_sets_transposes_the_match():
    X, Y, _ = copies(20, 0.1)
    one, other = ObjectMatching().fit(X, Y[:15]), ObjectMatching().fit(Y[:15], X)
    np.testing.assert_allclose(one.probabilities_, other.probabilities_.T, atol=1e-6)
    np.testing.assert_allclose(other.probabilities_.sum(axis=1), 1.0, atol=1e-6)
    assert one.probabilities_.sum(axis=1).max() < 1.01
    assert (one.match_ >= 0).sum() == 15
    assert (other.match_ >= 0).all()


@pytest.mark.parametrize("exchanged", [False, True])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_part_is_found_in_the_whole(noise, exchanged):
    X, Y, truth = copies(60, noise, d=5)
    match = ObjectMatching(gamma=0.12).fit(*((X, Y[:40]) if exchanged else (Y[:40], X))).match_
    if exchanged:
        assert np.mean(match[truth < 40] == truth[truth < 40]) > 0.85
    else:
        assert np.mean(truth[match] == np.arange(40)) > 0.85


def test_of_unequal_sets_the_best_choice_is_the_nearest_kernel():
    K, L = kernels(3, 5, noise=0.5)
    choices = [np.array(p) for p in permutations(range(5), 3)]
    gaps = [np.sum((K - L[np.ix_(p, p)]) ** 2) for p in choices]
    assert np.ptp([2 * likeness(K, L, p) + g for p, g in zip(choices, gaps, strict=True)]) < 1e-9
    best = sorted_best(K, L, 300, 0)
    assert best.objective == pytest.approx(max(likeness(K, L, p) for p in choices))
    back = np.full(5, -1)
    back[best.match] = np.arange(3)
    assert likeness(L, K, back) == pytest.approx(best.objective)


@pytest.mark.parametrize("method", ["convex", "sorting"])
@pytest.mark.parametrize("refine", [False, True])
def test_seeds_are_kept_and_help(method, refine):
    X, Y, truth = copies(40, 0.6, seed=3)
    wrong = [(0, truth[1])]  # whatever is known is believed
    options = {"method": method, "refine": refine, "random_state": 0}
    assert ObjectMatching(**options).fit(X, Y, seeds=wrong).match_[0] == truth[1]
    seeds = [(i, truth[i]) for i in range(15)]
    found = ObjectMatching(**options).fit(X, Y, seeds=seeds)
    assert np.array_equal(found.match_[:15], truth[:15])
    np.testing.assert_allclose(found.probabilities_[range(15), truth[:15]], 1.0, atol=1e-4)
    alone = ObjectMatching(**options).fit(X, Y)
    assert np.mean(found.match_ == truth) > np.mean(alone.match_ == truth)


def test_sparse_rows_and_precomputed_kernels_are_the_same_matching():
    X, Y, _ = copies(15, 0.1)
    plain = ObjectMatching(kernel="linear").fit(X, Y)
    for one, other, kernel in (
        (csr_matrix(X), csr_matrix(Y), "linear"),
        (X @ X.T, Y @ Y.T, "precomputed"),
    ):
        found = ObjectMatching(kernel=kernel).fit(one, other)
        assert np.array_equal(found.match_, plain.match_)
        np.testing.assert_allclose(found.probabilities_, plain.probabilities_, atol=1e-6)


def test_all_eigenvectors_are_the_whole_kernel_and_a_few_do():
    X, Y, truth = copies(40, 0.05)
    whole = ObjectMatching(refine=False, rank=None).fit(X, Y)
    same = ObjectMatching(refine=False, rank=40).fit(X, Y)
    np.testing.assert_allclose(same.probabilities_, whole.probabilities_, atol=1e-8)
    assert np.mean(ObjectMatching(rank=20).fit(X, Y).match_ == truth) > 0.9


def test_landmarks_find_the_eigenvectors_of_a_kernel_of_low_rank():
    F = np.random.default_rng(0).normal(size=(60, 5))
    exact = Spectrum.of(F @ F.T, 5)
    near = Spectrum.by_landmarks(F @ F.T, 12, seed=0, rank=5)
    np.testing.assert_allclose(near.values, exact.values, rtol=1e-9)
    overlap = np.abs(near.vectors.T @ exact.vectors)
    np.testing.assert_allclose(overlap, np.eye(5), atol=1e-6)
    assert near.energy == exact.energy == pytest.approx(np.sum(exact.values**2))


def test_landmarks_and_small_eigenvalues_change_little():
    X, Y, truth = copies(120, 0.05)
    whole = ObjectMatching(rank=None, landmarks=None).fit(X, Y)
    for options in ({}, {"landmarks": 40}, {"tol": 1e-5}):
        found = ObjectMatching(random_state=0, **options).fit(X, Y)
        assert np.mean(found.match_ == truth) > 0.97
        moved = np.abs(found.probabilities_ - whole.probabilities_).sum(axis=1) / 2
        assert moved.mean() < 0.15
    few = Coupling(Spectrum.of(F := np.diag([1.0, 2.0, 3.0, 100.0])), Spectrum.of(F))
    assert few.without_small(0.01).left.values.tolist() == [100.0]
    assert few.without_small(1e-9).left.values.size == 4


def test_kernelized_sorting_with_powers():
    X, Y, truth = copies(12, 0.02, d=3)
    found = ObjectMatching("sorting", power=0.5, starts=40, random_state=0).fit(X, Y)
    assert np.mean(found.match_ == truth) > 0.8
    assert np.array_equal(np.argmax(found.probabilities_, axis=1), found.match_)


@pytest.mark.parametrize(
    ("options", "seeds", "message"),
    [
        ({"method": "magic"}, None, "method"),
        ({"penalty": 0.0}, None, "penalty"),
        ({"power": 2.0}, None, "power"),
        ({"power": "half"}, None, "power"),
        ({"tol": -1.0}, None, "tol"),
        ({"starts": 0}, None, "starts"),
        ({"rank": 0}, None, "rank"),
        ({"rank": "some"}, None, "rank"),
        ({"landmarks": 0}, None, "landmarks"),
        ({}, [(0, 9)], "row 9 of Y"),
        ({}, [(-1, 0)], "row -1 of X"),
        ({}, [(1, 0), (1, 2)], "row 1 of X more than once"),
        ({}, [0, 1], "pairs"),
        ({"kernel": "precomputed"}, None, "square"),
    ],
)
def test_errors_name_what_is_wrong(options, seeds, message):
    X, Y, _ = copies(5)
    with pytest.raises(ValueError, match=message):
        ObjectMatching(**options).fit(X, Y, seeds=seeds)


def test_lopsided_kernels_and_wrong_truths_are_refused():
    K, L = kernels(5, 5)
    L[1, 2] += 0.1
    with pytest.raises(ValueError, match=r"symmetric, but Y\[1, 2\]"):
        ObjectMatching(kernel="precomputed").fit(K, L)
    found = ObjectMatching().fit(*copies(5)[:2])
    with pytest.raises(ValueError, match="shape"):
        found.recall([0, 1])
    with pytest.raises(ValueError, match="n must be"):
        found.top(0)
