"""Weights of kernels: closed forms, bounds and searches against a conic solver and each other."""

import math
from dataclasses import replace

import clarabel
import numpy as np
import pytest
from scipy import sparse

from thresher import RBF, Linear, Polynomial
from thresher._clock import ending
from thresher.kernels.bank import GramBank, KernelBank, Member
from thresher.kernels.columns import take
from thresher.kernels.gram import gram
from thresher.solvers import Status
from thresher.solvers.cut_model import Cuts, level_projection, lower_bound
from thresher.solvers.kernel_balls import ElasticNetBall, NormBall, simplex_projection
from thresher.solvers.level import PUBLISHED, Search, Visit, level_method
from thresher.solvers.machines import KernelDual
from thresher.solvers.multiple_kernels import (
    KernelWeights,
    Saddle,
    Side,
    _least_multiple,
    learn_kernels,
)

RNG = np.random.default_rng(3)
ELASTIC = [ElasticNetBall(v) for v in (0.0, 0.3, 0.5, 0.9, 1.0)]
NORMS = [NormBall(p) for p in (1.3, 2.0, 3.0)]
every = pytest.mark.parametrize("ball", [*ELASTIC, *NORMS], ids=str)
elastic = pytest.mark.parametrize("ball", ELASTIC, ids=str)


def conic(v, P, c, A=None, b=None, extra=0):
    """min x'Px / 2 + c'x over (theta, extra numbers), theta in the elastic-net ball, Ax <= b."""
    n = c.size
    Q = n - extra
    rows, right, cones = [np.hstack([-np.eye(Q), np.zeros((Q, extra))])], [np.zeros(Q)], []
    if A is not None:
        rows, right = [*rows, A], [*right, b]
    if v == 1.0:
        rows, right = [*rows, np.r_[np.ones(Q), np.zeros(extra)][None]], [*right, np.ones(1)]
    cones.append(clarabel.NonnegativeConeT(sum(r.shape[0] for r in rows)))
    if v < 1.0:  # ||(2 sqrt(1 - v) theta, u - 1)|| <= u + 1 with u = 1 - v sum theta
        top = np.r_[np.full(Q, v), np.zeros(extra)][None]
        body = np.hstack([-2.0 * math.sqrt(1.0 - v) * np.eye(Q), np.zeros((Q, extra))])
        rows, right = [*rows, top, body, top], [*right, [2.0], np.zeros(Q), [0.0]]
        cones.append(clarabel.SecondOrderConeT(Q + 2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    found = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(P)), c, sparse.csc_matrix(np.vstack(rows)),
        np.concatenate(right), cones, settings,
    ).solve()  # fmt: skip
    return np.array(found.x), found.obj_val


# ---------------------------------------------------------------- closed forms


@elastic
def test_best_weights_are_the_conic_solver_s(ball):
    for _ in range(5):
        s = RNG.gamma(1.0, size=12)
        best = ball.best(s)
        _, value = conic(ball.v, np.zeros((12, 12)), -s)
        assert best @ s == pytest.approx(-value, rel=1e-7)
        assert ball.value(best) == pytest.approx(1.0)
        assert np.all(best >= 0.0)


@elastic
def test_projections_are_the_conic_solver_s(ball):
    for size in (0.05, 1.0, 10.0):
        z = size * RNG.normal(size=9)
        found, _ = conic(ball.v, np.eye(9), -z)
        np.testing.assert_allclose(ball.project(z), found, atol=2e-5)


@every
def test_projections_lie_in_the_set_and_nothing_in_it_is_nearer(ball):
    z = RNG.normal(size=30)
    x = ball.project(z)
    assert ball.value(x) <= 1.0 + 1e-9
    assert np.all(x >= 0.0)
    for _ in range(20):  # (z - x)'(u - x) <= 0 for every u of the set
        u = ball.project(RNG.normal(size=30))
        assert (z - x) @ (u - x) <= 1e-9
    np.testing.assert_allclose(ball.project(x), x, atol=1e-12)


@every
def test_best_weights_beat_all_others(ball):
    s = RNG.gamma(1.0, size=30)
    best = ball.best(s)
    assert ball.value(best) == pytest.approx(1.0)
    for _ in range(20):
        assert ball.project(RNG.normal(size=30)) @ s <= best @ s + 1e-9
    np.testing.assert_allclose(ball.best(1e-150 * s), best)
    assert not ball.best(-s).any()


@every
def test_equal_weights_fill_the_set(ball):
    assert ball.value(ball.start(17)) == pytest.approx(1.0)
    known = {0.0: 1 / math.sqrt(17), 1.0: 1 / 17}
    if isinstance(ball, ElasticNetBall) and ball.v in known:
        assert ball.start(17)[0] == pytest.approx(known[ball.v])


@every
def test_balanced_weights_are_stationary(ball):
    norms = np.r_[0.0, RNG.gamma(1.0, size=10)]
    theta = ball.balanced(norms)
    assert ball.value(theta) == pytest.approx(1.0)
    assert theta[0] == 0.0
    ratios = norms[1:] / theta[1:] ** 2 / ball.slope(theta[1:])  # one multiplier for all
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)


def test_identical_kernels_get_identical_weights():
    for ball in (*ELASTIC, *NORMS):
        best = ball.best(np.array([1.0, 2.0, 2.0, 0.1]))
        assert best[1] == best[2] > 0.0


def test_zeros_are_exact_and_their_number_grows_with_v():
    s = np.sort(RNG.gamma(1.0, size=60))
    zeros = [np.count_nonzero(ball.best(s) == 0.0) for ball in ELASTIC]
    assert zeros[0] == 0
    assert zeros[-1] == 59
    assert zeros == sorted(zeros)


def test_simplex_projection():
    z = RNG.normal(size=8)
    found, _ = conic(1.0, np.eye(8), -10.0 - z)  # far outside, so that the sum is one
    np.testing.assert_allclose(simplex_projection(10.0 + z), found, atol=1e-6)


@pytest.mark.parametrize("v", [-0.1, 1.01, math.nan])
def test_v_out_of_range(v):
    with pytest.raises(ValueError, match=r"v must lie in 0 \.\. 1"):
        ElasticNetBall(v)
    with pytest.raises(ValueError, match="p must be a number above 1"):
        NormBall(0.5)


# ---------------------------------------------------------------- the level method's problems


def some_cuts(m, Q):
    return Cuts(RNG.uniform(5, 6, m), RNG.uniform(0, 3, (m, Q)) ** 2)


@elastic
@pytest.mark.parametrize(("m", "Q"), [(1, 4), (3, 7), (12, 40)])
def test_bounds_and_projections_are_the_conic_solver_s(ball, m, Q):
    cuts = some_cuts(m, Q)
    bound, shares = lower_bound(ball, cuts)
    A = np.hstack([-0.5 * cuts.forms, -np.ones((m, 1))])
    _, value = conic(ball.v, np.zeros((Q + 1, Q + 1)), np.r_[np.zeros(Q), 1.0], A,
                     -cuts.constants, extra=1)  # fmt: skip
    assert bound == pytest.approx(value, rel=1e-6)
    assert shares.sum() == pytest.approx(1.0)
    at = ball.start(Q)
    level = bound + 0.4 * (cuts.values(at).max() - bound)
    found, _ = conic(ball.v, np.eye(Q), -at, -0.5 * cuts.forms, level - cuts.constants)
    np.testing.assert_allclose(level_projection(ball, cuts, level, at), found, atol=3e-5)


@pytest.mark.parametrize("ball", NORMS, ids=str)
def test_bounds_of_norms_are_tight(ball):
    cuts = some_cuts(10, 30)
    bound, shares = lower_bound(ball, cuts)
    assert cuts.values(ball.best(shares @ cuts.forms)).max() == pytest.approx(bound, rel=1e-6)


def test_the_worked_example():
    """-cos x over -1.2 .. 1.2 from -1 with tau = 0.9: the published first steps."""
    seen = []

    def oracle(theta, accuracy):
        x = -1.2 + 2.4 * float(theta[0])
        seen.append(x)
        value, slope = -math.cos(x), math.sin(x)
        return Visit(value, value + slope * (-1.2 - x), np.array([-2.0 * 2.4 * slope]))

    bounds = []
    ball, start = ElasticNetBall(1.0), Search(np.array([0.2 / 2.4]))
    level_method(
        oracle, ball, start, tau=0.9, tol=1e-4,
        monitor=lambda d: bounds.append((d.lower, d.upper)),
    )  # fmt: skip
    assert seen[1:4] == pytest.approx([-0.780, -0.582, -0.404], abs=5e-4)
    assert bounds[0][0] == pytest.approx(-2.3915, abs=1e-4)
    assert bounds[1][0] == pytest.approx(-2.103, abs=1e-3)
    assert bounds[6][1] - bounds[6][0] == pytest.approx(0.002, abs=1e-3)
    assert abs(seen[-1]) < 0.02


# ---------------------------------------------------------------- banks

X = RNG.normal(size=(150, 3))
MEMBERS = [
    Member(RBF(0.7)), Member(RBF(0.7), (1,)), Member(Polynomial(2), (0, 2)), Member(RBF(0.02)),
    Member(Linear(), (1,)), Member(Polynomial(3)),
]  # fmt: skip
GRAMS = [gram(m.kernel, np.ascontiguousarray(m.taken(X))) for m in MEMBERS]
GRAMS = [K / np.diag(K).mean() for K in GRAMS]
THETA = np.array([0.5, 0.0, 0.3, 0.1, 0.2, 0.7])
SUM = sum(w * K for w, K in zip(THETA, GRAMS, strict=True))


@pytest.mark.parametrize(
    "bank", [KernelBank(MEMBERS, X), KernelBank(MEMBERS, sparse.csr_matrix(X)), GramBank(GRAMS)],
    ids=["dense", "sparse", "given"],
)  # fmt: skip
def test_sums_and_forms_of_a_bank(bank):
    assert (bank.size, bank.count) == (150, 6)
    near = {"rtol": 1e-5, "atol": 1e-5 * SUM.max()}
    np.testing.assert_allclose(bank.gram(THETA), SUM, **near)
    np.testing.assert_allclose(bank.gram(THETA, threads=2), SUM, **near)
    columns, rows = bank.columns(THETA), np.array([5, 130, 7])
    np.testing.assert_allclose(take(columns, rows), SUM[rows], **near)
    np.testing.assert_allclose(columns.diagonal, np.diag(SUM), **near)
    block = np.empty((4, 5), np.float32)
    columns.block(rows, np.array([1, 149, 3, 5]), block)
    np.testing.assert_allclose(block[:3, :4], SUM[np.ix_(rows, [1, 149, 3, 5])], **near)
    z = RNG.normal(size=(2, 150)) * (RNG.uniform(size=150) < 0.9)
    expected = [[row @ K @ row for K in GRAMS] for row in z]
    np.testing.assert_allclose(bank.forms(z), expected, rtol=1e-4)


def test_a_kernel_that_is_zero_has_no_factor():
    bank = KernelBank([Member(Linear(), (0,)), Member(RBF(1.0))], np.zeros((5, 1)))
    assert bank.factors.tolist() == [0.0, 1.0]


# ---------------------------------------------------------------- the whole problem

Y = np.where(X[:, 1] ** 2 + 0.3 * RNG.normal(size=150) > 0.6, 1.0, -1.0)
PART = np.arange(60)
GRAMS_PART = [K[np.ix_(PART, PART)] for K in GRAMS]
BANK = KernelBank(MEMBERS, X)


def conic_saddle(v, y, C, grams):
    """min over weights of the machine's objective, as one conic problem in the dual.

    max 1'a - t / 2 with t >= sigma(s(a)); for v = 1 and v = 0 the norm of s is a cone.
    """
    n, roots = y.size, [np.linalg.cholesky(K + 1e-9 * np.eye(len(K))).T * y for K in grams]
    Q = len(grams)
    # unknowns a (n), s (Q), t: ||R_q a||^2 <= s_q, and max s <= t or ||s|| <= t
    width = n + Q + 1
    rows = [np.r_[y, np.zeros(Q + 1)][None], np.hstack([np.eye(n), np.zeros((n, Q + 1))]),
            np.hstack([-np.eye(n), np.zeros((n, Q + 1))])]  # fmt: skip
    right = [np.zeros(1), np.full(n, C), np.zeros(n)]
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    last = np.zeros((1, width))
    last[0, -1] = -1.0
    if v == 1.0:
        rows += [np.hstack([np.zeros((Q, n)), np.eye(Q), -np.ones((Q, 1))])]
        right += [np.zeros(Q)]
        cones += [clarabel.NonnegativeConeT(Q)]
    else:
        rows += [last, np.hstack([np.zeros((Q, n)), -np.eye(Q), np.zeros((Q, 1))])]
        right += [np.zeros(Q + 1)]
        cones += [clarabel.SecondOrderConeT(Q + 1)]
    for q, root in enumerate(roots):  # ||(2 R a, s - 1)|| <= s + 1
        unit = np.zeros((1, width))
        unit[0, n + q] = -1.0
        rows += [unit, np.hstack([-2.0 * root, np.zeros((n, Q + 1))]), unit]
        right += [[1.0], np.zeros(n), [-1.0]]
        cones += [clarabel.SecondOrderConeT(n + 2)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    c = np.r_[-np.ones(n), np.zeros(Q), 0.5]
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((width, width)), c, sparse.csc_matrix(np.vstack(rows)),
        np.concatenate(right), cones, settings,
    )  # fmt: skip
    return -solver.solve().obj_val


@pytest.mark.parametrize("v", [0.0, 1.0])
@pytest.mark.parametrize("method", ["level", "block"])
def test_the_objective_is_the_conic_solver_s(v, method):
    bank = GramBank(GRAMS_PART)
    grams = [f * K for f, K in zip(bank.factors, GRAMS_PART, strict=True)]
    expected = conic_saddle(v, Y[PART], 2.0, grams)
    solver = KernelWeights(v, method=method, gap=1e-4)
    found = learn_kernels(solver, bank, [Side(Y[PART], np.full(60, 2.0))])
    assert found.status is Status.CONVERGED
    assert found.lower <= expected * (1 + 1e-6)
    assert found.upper >= expected * (1 - 1e-6)
    assert found.upper == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("solver", [KernelWeights(0.5), KernelWeights(p=1.5), KernelWeights(1.0)])
def test_level_method_and_block_descent_agree(solver):
    sides = [Side(Y, np.full(150, 3.0))]
    ours = learn_kernels(replace(solver, gap=1e-4), BANK, sides)
    other = learn_kernels(replace(solver, gap=1e-4, method="block"), BANK, sides)
    slow = learn_kernels(replace(solver, tau=PUBLISHED, max_steps=40), BANK, sides)
    assert ours.lower <= other.upper
    assert other.lower <= ours.upper
    assert slow.steps >= ours.steps
    assert slow.lower <= ours.upper
    np.testing.assert_allclose(ours.weights, other.weights, atol=0.05)


def test_the_certificate_holds_at_the_optimum_and_nowhere_else():
    solver = KernelWeights(0.5, gap=1e-5)
    ball, sides = solver.ball, [Side(Y, np.full(150, 3.0))]
    saddle = Saddle(BANK, sides, KernelDual(1e-5))
    best = solver.descend(saddle)

    def certificate(weights):
        visit = saddle(weights, 0.0)
        return 0.5 * (ball.best(visit.forms) @ visit.forms - weights @ visit.forms) / visit.value

    assert 0.0 <= certificate(best.weights) + 1e-6 < 2e-4
    assert certificate(ball.start(6)) > 0.05


def test_several_machines_share_their_weights():
    codes = np.digitize(X[:, 1], [-0.5, 0.5])
    sides = [Side(np.where(codes == c, 1.0, -1.0), np.full(150, 3.0)) for c in range(3)]
    found = learn_kernels(KernelWeights(0.5), BANK, sides)
    saddle = Saddle(BANK, sides, KernelDual())
    visit = saddle(found.weights, 1e-3)
    alone = [Saddle(BANK, [side], KernelDual())(found.weights, 1e-3) for side in sides]
    assert visit.value == pytest.approx(sum(one.value for one in alone), rel=1e-3)
    np.testing.assert_allclose(visit.forms, sum(one.forms for one in alone), rtol=0.05, atol=0.05)


def test_regression_has_the_primal_objective():
    """By strong duality the bound is a loss and a norm."""
    y = np.sin(2.0 * X[:, 1])
    side = Side(y, np.full(150, 5.0), 0.1)
    found = learn_kernels(KernelWeights(0.5, gap=1e-4, machine=KernelDual(1e-5)), BANK, [side])
    machine, K = found.machines[0], BANK.gram(found.weights).astype(float)
    scores = K @ machine.coef + machine.intercept
    loss = 5.0 * np.maximum(np.abs(scores - y) - 0.1, 0.0).sum()
    assert loss + 0.5 * machine.coef @ K @ machine.coef == pytest.approx(found.upper, rel=1e-3)


@pytest.mark.parametrize("v", [0.0, 1.0])
def test_bounds_meet_however_large_c_is(v):
    """Where no row may be within the margin, which rows are by rounding."""
    bank, y = GramBank(GRAMS_PART), Y[PART]
    grams = [f * K for f, K in zip(bank.factors, GRAMS_PART, strict=True)]
    expected = conic_saddle(v, y, 1e5, grams)
    for C in (1e5, 1e9):
        found = learn_kernels(KernelWeights(v), bank, [Side(y, np.full(60, C))])
        assert found.status is Status.CONVERGED
        assert found.upper == pytest.approx(expected, rel=2e-3)


def test_bounds_meet_where_a_regression_may_miss_nothing():
    found = learn_kernels(KernelWeights(0.5), BANK, [Side(X[:, 1], np.full(150, 1e4), 0.1)])
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("p", [16.0, 100.0, 1e4])
def test_balls_that_are_nearly_boxes(p):
    found = learn_kernels(KernelWeights(p=p), BANK, [Side(Y, np.full(150, 3.0))])
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("square", [0.1, 3.0, 50.0])
def test_the_best_multiple_of_a_function(square):
    margins, bounds = RNG.normal(0.5, 1.0, 40), RNG.uniform(0.1, 2.0, 40)
    k = np.linspace(0.0, 20.0, 100001)[:, None]
    every = 0.5 * square * k[:, 0] ** 2 + np.maximum(1.0 - k * margins, 0.0) @ bounds
    least = _least_multiple(square, bounds, margins)
    assert least == pytest.approx(every.min(), rel=1e-5)


def test_little_memory_gives_the_same_weights():
    sides = [Side(Y, np.full(150, 3.0))]
    whole = learn_kernels(KernelWeights(0.5, gap=1e-6), BANK, sides)
    little = KernelWeights(0.5, gap=1e-6, machine=KernelDual(memory=40 * 4 * 150))
    parts = learn_kernels(little, BANK, sides)
    np.testing.assert_allclose(parts.weights, whole.weights, atol=1e-3)


def test_uniform_weights_and_a_clock():
    sides = [Side(Y, np.full(150, 3.0))]
    found = learn_kernels(KernelWeights(None), BANK, sides)
    assert np.all(found.weights == 1 / 6)
    assert found.steps == 1
    with ending(lambda: True):
        stopped = learn_kernels(KernelWeights(1.0), BANK, sides)
    assert stopped.status is Status.OUT_OF_TIME
    short = learn_kernels(KernelWeights(1.0, max_steps=2), BANK, sides)
    assert short.status is Status.MAX_ITER
    assert short.steps == 2
