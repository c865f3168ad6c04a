"""Concave-convex steps: each against an interior point, and what holds of all of them together."""

import clarabel
import numpy as np
import pytest
from scipy import sparse

from conftest import JIT_DISABLED
from thresher import RBF
from thresher._rows import as_rows
from thresher.kernels.columns import GramColumns, KernelColumns, take
from thresher.kernels.gram import gram
from thresher.kernels.mean_columns import MeanColumns
from thresher.solvers import Status
from thresher.solvers.machines import KernelDual
from thresher.solvers.universum import READINGS, Convex, ThreeClass, descend
from thresher.solvers.universum_exact import ExactSteps
from thresher.solvers.universum_features import FeatureSteps, SidedHinges

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3)) + np.repeat([[1.2], [-1.2], [0.0]], N // 3, axis=0)
Y = np.full(N, np.nan)
Y[:6], Y[20:26], Y[40:48] = 1.0, -1.0, 0.0
COST = np.where(np.isnan(Y), 0.4, 2.0)
FREE = np.flatnonzero(np.isnan(Y))
KERNEL = RBF(0.3)
K = gram(KERNEL, X)
SOLVER = KernelDual(1e-7)


def oracle(features, step, members=None, balance=None):
    """w, b and the objective of a convex step, from an interior point on the primal."""
    n, d = features.shape
    one = np.hstack([features, np.ones((n, 1))])  # f = one @ (w, b)
    lines, slopes = [], np.zeros(d + 1)  # cost * max(0, bound + direction * f)
    for i in range(n):
        c, side = step.cost[i], step.sides[i]
        if side == 0:
            lines += [(c, -step.epsilon, one[i]), (c, -step.epsilon, -one[i])]
        elif not np.isnan(step.y[i]):
            lines += [(c, 1.0, -side * one[i])]
        else:
            lines += [(c, 1.0, -one[i]), (c, 1.0, one[i])]
            slopes -= 0.0 if side == 2 else c * side * one[i]
    m = len(lines)
    P = sparse.diags(np.r_[np.ones(d), np.zeros(1 + m)]).tocsc()
    q = np.r_[slopes, [line[0] for line in lines]]
    above = np.hstack([[line[2] for line in lines], -np.eye(m)])
    A = np.vstack([above, np.hstack([np.zeros((m, d + 1)), -np.eye(m)])])
    b = np.r_[[-line[1] for line in lines], np.zeros(m)]
    cones = [clarabel.NonnegativeConeT(2 * m)]
    if balance is not None:
        A = np.vstack([np.r_[one[members].mean(axis=0), np.zeros(m)], A])
        b, cones = np.r_[balance, b], [clarabel.ZeroConeT(1), *cones]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    found = clarabel.DefaultSolver(P, q, sparse.csc_matrix(A), b, cones, settings).solve()
    return np.array(found.x[:d]), found.x[d], found.obj_val


def roots(K):
    """Features whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


SIDES = np.where(np.isnan(Y), RNG.integers(-1, 3, size=N), Y).astype(np.int8)
STEP = Convex(0.2, Y, COST, SIDES)


@pytest.mark.parametrize("balance", [None, 0.3])
def test_an_exact_step_is_that_of_an_interior_point(balance):
    w, b, _ = oracle(roots(K), STEP, FREE, balance)
    expected = roots(K) @ w + b
    with ExactSteps(SOLVER, GramColumns(K), FREE, balance) as solve:
        found = solve(STEP, None)
        again = solve(STEP, found.start)
    assert found.status is Status.CONVERGED
    assert np.allclose(found.scores, expected, atol=2e-3)
    assert np.isclose(found.squared_norm, w @ w, rtol=1e-3)
    assert np.allclose(K @ found.coef + found.intercept, found.scores, atol=1e-4)
    assert np.allclose(again.scores, found.scores, atol=1e-4)
    assert again.steps <= found.steps
    if balance is not None:
        assert found.scores[FREE].mean() == pytest.approx(balance, abs=1e-4)


@pytest.mark.skipif(JIT_DISABLED, reason="long when interpreted")
@pytest.mark.parametrize("balance", [None, -0.2])
def test_a_step_on_features_is_that_of_an_interior_point(balance):
    _, _, least = oracle(X, STEP, FREE, balance)
    found = FeatureSteps(as_rows(X), FREE, balance, tol=1e-7)(STEP, None)
    f, free = found.scores, np.isnan(Y)
    assert np.allclose(f, X @ found.coef + found.intercept)
    either = np.maximum(1.0 - f, 0.0) + np.maximum(1.0 + f, 0.0)
    tangent = np.where(SIDES == 2, 0.0, SIDES * f)
    losses = np.where(free, either - tangent, np.maximum(1.0 - SIDES * f, 0.0))
    losses = np.where(SIDES == 0, np.maximum(np.abs(f) - 0.2, 0.0), losses)
    value = 0.5 * found.coef @ found.coef + COST @ losses
    assert value == pytest.approx(least, rel=1e-5)
    if balance is not None:
        assert f[FREE].mean() == pytest.approx(balance)


def concave_convex(loss, features, start):
    """The published procedure, with an interior point: objectives and scores."""
    unknown = np.isnan(Y)

    def value(w, f):
        hinge, tube = np.maximum(1.0 - np.abs(f), 0.0), np.maximum(np.abs(f) - loss.epsilon, 0.0)
        free = np.minimum(hinge, 1.0 + loss.kappa)
        free = {"mixed": np.minimum(free, tube), "relevant": free, "irrelevant": tube}
        told = np.where(Y == 0.0, tube, np.maximum(1.0 - np.nan_to_num(Y) * f, 0.0))
        return 0.5 * w @ w + COST @ np.where(unknown, free[loss.unlabelled], told)

    sides = np.where(unknown, 0.0, Y).astype(np.int8)
    cost = np.where(unknown, 0.0, COST) if start == "labelled" else COST
    w, b, _ = oracle(features, Convex(loss.epsilon, Y, cost, sides))
    f = features @ w + b
    path = [value(w, f)]
    for _ in range(30):
        flat = np.minimum(np.maximum(1.0 - np.abs(f), 0.0), 1.0 + loss.kappa)
        member = loss.unlabelled == "relevant"
        if loss.unlabelled == "mixed":
            member = flat <= np.maximum(np.abs(f) - loss.epsilon, 0.0)
        side = np.where(f > -loss.kappa, 1, np.where(f < loss.kappa, -1, 2))
        now = np.where(unknown, np.where(member, side, 0), np.nan_to_num(Y)).astype(np.int8)
        w, b, _ = oracle(features, Convex(loss.epsilon, Y, COST, now))
        f = features @ w + b
        path.append(value(w, f))
        if path[-2] - path[-1] <= 1e-6 * path[-1]:
            break
    return path, f


@pytest.mark.parametrize("kappa", [0.0, -0.4])
@pytest.mark.parametrize("reading", ["mixed", "relevant"])
def test_all_steps_are_those_of_an_interior_point(reading, kappa):
    loss = ThreeClass(0.2, kappa, reading)
    start = "irrelevant" if reading == "mixed" else "labelled"
    path, scores = concave_convex(loss, roots(K), start)
    with ExactSteps(SOLVER, GramColumns(K)) as solve:
        found = descend(loss, Y, COST, solve, start=start)
    assert found.status is Status.CONVERGED
    assert found.path[-1] == pytest.approx(path[-1], rel=1e-3)
    assert np.allclose(found.path[: len(path)], path[: len(found.path)], rtol=2e-3)
    assert np.allclose(found.stage.scores, scores, atol=0.02)


@pytest.mark.parametrize("start", ["irrelevant", "labelled"])
@pytest.mark.parametrize("kappa", [0.0, -0.5, -0.9])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("reading", READINGS)
def test_no_step_raises_the_objective(reading, epsilon, kappa, start):
    """Every stage as it comes, before ``descend`` could leave one out."""
    loss, seen = ThreeClass(epsilon, kappa, reading), []
    with ExactSteps(SOLVER, GramColumns(K)) as solve:

        def step(problem, start):
            stage = solve(problem, start)
            value = 0.5 * stage.squared_norm + COST @ loss.values(Y, stage.scores)
            seen.append(value)
            return stage

        found = descend(loss, Y, COST, step, start=start)
    assert found.status is Status.CONVERGED
    assert np.all(np.diff(seen) <= 1e-4 * np.abs(seen[0]))
    assert np.all(np.diff(found.path) <= 0.0)
    assert reading != "irrelevant" or len(seen) == 1


def test_losses_are_the_formula():
    f = np.linspace(-2.0, 2.0, 401)
    free = np.full(f.size, np.nan)
    hinge, tube = np.maximum(1.0 - np.abs(f), 0.0), np.maximum(np.abs(f) - 0.1, 0.0)
    assert np.allclose(ThreeClass(0.1).values(free, f), np.minimum(hinge, tube))
    assert np.allclose(ThreeClass(0.1, -0.5).values(free, f), np.minimum(hinge, tube).clip(0, 0.5))
    assert np.allclose(ThreeClass(0.1, 0.0, "relevant").values(free, f), hinge)
    assert np.allclose(ThreeClass(0.1, 0.0, "irrelevant").values(free, f), tube)
    assert np.allclose(ThreeClass(0.1).values(0.0 * f, f), tube)
    assert np.allclose(ThreeClass(0.1).values(0.0 * f - 1.0, f), np.maximum(1.0 + f, 0.0))
    peak = ThreeClass(0.2).values(free, f).argmax()
    assert abs(f[peak]) == pytest.approx(0.6, abs=0.01)  # (1 + epsilon) / 2


@pytest.mark.parametrize("kappa", [0.0, -0.5])
@pytest.mark.parametrize("reading", READINGS)
def test_a_convex_step_lies_above_the_loss_and_touches_it(reading, kappa):
    """Up to a constant, which is what makes every step lower the objective."""
    loss, f = ThreeClass(0.1, kappa, reading), np.linspace(-2.0, 2.0, 201)
    free = np.full(1, np.nan)
    for now in (-1.7, -0.8, -0.3, 0.0, 0.2, 0.62, 1.1):
        sides = loss.sides(free, np.array([now]))
        p, low, high = Convex(0.1, free, np.ones(1), sides).hinges()
        above = sum(np.maximum(-low[k] * (f + p[k]), -high[k] * (f + p[k])) for k in (0, 1))
        at = sum(max(-low[k] * (now + p[k]), -high[k] * (now + p[k])) for k in (0, 1))
        values = loss.values(np.full(f.size, np.nan), f)
        value = loss.values(free, np.array([now]))[0]
        assert np.all(above - at >= values - value - 1e-9)


def test_columns_with_a_mean_row():
    members = np.array([0, 3, 50])
    both = MeanColumns(KernelColumns(KERNEL, X), members)
    mixing = np.vstack([np.eye(N), np.isin(np.arange(N), members) / 3.0])
    expected = mixing @ K @ mixing.T
    assert np.allclose(take(both, np.arange(N + 1)), expected, atol=1e-5)
    assert np.allclose(both.diagonal, np.diag(expected), atol=1e-6)
    rows, others = np.array([N, 2, 7]), np.array([1, N])
    out = np.empty((3, 2), dtype=np.float32)
    both.block(rows, others, out)
    assert np.allclose(out, expected[np.ix_(rows, others)], atol=1e-5)
    part = np.zeros((2, N + 1), dtype=np.float32)
    both.fill(np.array([4, N]), part, np.arange(2), 10, N + 1)
    assert np.allclose(part[:, 10:], expected[[4, N], 10:], atol=1e-5)
    assert not part[:, :10].any()


@pytest.mark.parametrize("y", [-1.0, 1.0, 0.0, 2.0, -2.0, 3.0])
def test_slopes_of_the_loss_on_features(y):
    loss = SidedHinges().smoothed(0.1)
    p = np.linspace(-2.0, 2.0, 81) + 0.0007
    h = 1e-6
    slopes = [(loss.value(y, v + h) - loss.value(y, v - h)) / (2 * h) for v in p]
    assert np.allclose([loss.deriv(y, v) for v in p], slopes, atol=1e-5)
    bends = [(loss.deriv(y, v + h) - loss.deriv(y, v - h)) / (2 * h) for v in p]
    close = np.isclose([loss.curvature(y, v) for v in p], bends, atol=1e-3)
    assert close.mean() > 0.95  # but at kinks of the slope


def test_a_told_stop_ends_the_descent():
    with ExactSteps(SOLVER, GramColumns(K)) as solve:
        found = descend(ThreeClass(0.2), Y, COST, solve, told=lambda *_: Status.INTERRUPTED)
    assert found.status is Status.INTERRUPTED
    assert len(found.path) == 1


@pytest.mark.parametrize("reading", ["mixed", "relevant"])
def test_a_descent_goes_on_from_every_position(reading):
    loss, seen = ThreeClass(0.2, -0.4, reading), []
    with ExactSteps(SOLVER, GramColumns(K)) as solve:
        whole = descend(loss, Y, COST, solve, told=seen.append)
        for position in seen:
            found = descend(loss, Y, COST, solve, at=position)
            assert found.status is Status.CONVERGED
            assert len(found.path) == len(whole.path)
            assert found.path == pytest.approx(whole.path, rel=1e-4)
            assert np.array_equal(found.sides, whole.sides)
    assert len(seen) > 1
