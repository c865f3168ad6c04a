"""Many tasks: dual averaging and the batch optimum, against formulas, scikit-learn and Clarabel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso, MultiTaskElasticNet, MultiTaskLasso

from thresher._rows import as_rows
from thresher.losses import Hinge, LeastSquares, Logistic, SquaredHinge
from thresher.penalties import L1, L2, Box, ElasticNet, GroupL2, SparseGroupL2
from thresher.solvers import RDA, Problem, ProximalNewton, driver
from thresher.solvers._task_descent import descend_by_lines, descend_by_matrix
from thresher.solvers.tasks import even_weights, task_gradient_at_zero

D, TASKS = 8, 4


def rows_and_targets(n=40, seed=0, holes=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)) * (rng.uniform(size=(n, D)) < 0.7)
    W = np.zeros((D, TASKS))
    W[:3] = rng.normal(size=(3, TASKS))
    Y = X @ W + 0.3 * rng.normal(size=(n, TASKS)) + np.arange(TASKS)
    Y[rng.uniform(size=Y.shape) < holes] = np.nan
    return X, Y


def long(X, Y, seed=0):
    """Each known target as a row of its own, in random order."""
    row, task = np.nonzero(~np.isnan(Y))
    order = np.random.default_rng(seed).permutation(row.size)
    row, task = row[order], task[order]
    return X[row], np.column_stack([task, Y[row, task]])


def problem(penalty, targets, loss=None, **more):
    return Problem(
        loss or LeastSquares(), penalty, D, outputs=TASKS, targets=targets, tol=1e-13, **more
    )


def penalties(strength):
    each = np.arange(D)
    return {
        "iMTFS": L1(strength),
        "iMTFS, elastic": ElasticNet(strength, 0.7),
        "aMTFS": GroupL2(each, strength, shared=True),
        "aMTFS, elastic": GroupL2(each, strength, elastic=0.3, shared=True),
        "MTFTS": SparseGroupL2(each, strength, within=0.4, shared=True),
        "MTFTS, elastic": SparseGroupL2(each, strength, within=0.4, elastic=0.3, shared=True),
        "ridge": L2(strength),
    }


NAMES = list(penalties(1.0))


# ---------------------------------------------------------------- dual averaging


def published(X, Y, levels, gamma, rho, rounds_per_row, passes=2):
    """Dual averaging as it is written down: everything dense, everything again at each step."""
    rows, entries, ridge = levels
    G, b = np.zeros((D, Y.shape[1])), np.zeros(Y.shape[1])
    t, W = 0.0, np.zeros_like(G)
    for _ in range(passes):
        for x, y in zip(X, Y, strict=True):
            beta = gamma * np.sqrt(t)
            bias = -b / beta if t else np.zeros_like(b)
            slope = np.where(np.isnan(y), 0.0, x @ W + bias - np.nan_to_num(y))
            G, b, t = G + np.outer(x, slope), b + slope, t + rounds_per_row
            beta = gamma * np.sqrt(t)
            mean, soft = G / t, entries[:, None] + rho * beta / t
            U = np.sign(mean) * np.maximum(np.abs(mean) - soft, 0.0)
            norm = np.linalg.norm(U, axis=1, keepdims=True)
            shrunk = np.maximum(1.0 - rows[:, None] / np.maximum(norm, 1e-300), 0.0)
            W = -shrunk * U / (ridge + beta / t)
    return W.T, -b / beta


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("targets", ["matrix", "pairs"])
def test_dual_averaging_is_the_published_one(name, targets):
    penalty = penalties(0.3)[name]
    X, Y = rows_and_targets(holes=0.2)
    rho = 0.01 if "elastic" in name else 0.0
    # Between sums of entries beyond a threshold some are overtaken: see _task_rda.py.
    tol = 2e-3 if targets == "pairs" and (rho or "MTFTS" in name) else 1e-10
    solver, task = RDA(gamma=4.0, rho=rho, origin=0.0), problem(penalty, targets)
    y, share, shown = Y, 1.0, Y
    if targets == "pairs":
        X, y = long(X, Y)
        share, shown = 1.0 / TASKS, np.full((y.shape[0], TASKS), np.nan)
        shown[np.arange(y.shape[0]), y[:, 0].astype(int)] = y[:, 1]
    W, b = published(X, shown, penalty.row_levels(D), 4.0, rho, share)
    for rows in (as_rows(X), as_rows(sparse.csr_array(X))):
        chunk = driver.whole(rows, y)
        found = driver.learn(solver, replace(task, tol=None), chunk, driver.Plan(2, "sequential"))
        np.testing.assert_allclose(found.function.coef, W, atol=tol)
        np.testing.assert_allclose(found.function.intercept, b, atol=tol)


def test_a_stream_may_be_cut_anywhere_and_merged():
    X, Y = rows_and_targets(60)
    X, y = long(X, Y)
    task = replace(problem(penalties(0.1)["MTFTS"], "pairs"), tol=None)
    solver, chunk = RDA(gamma=4.0), driver.whole(as_rows(X), y)

    def fed(*cuts, state=None):
        state = solver.init(task) if state is None else solver.copy(state)
        for part in cuts:
            state = solver.update(task, state, chunk._replace(order=chunk.order[part]))
        return state

    one = fed(slice(None))
    cut = fed(slice(0, 7), slice(7, 80), slice(80, None))
    np.testing.assert_array_equal(solver.finish(task, cut).coef, solver.finish(task, one).coef)
    base = fed(slice(0, 40))
    shards = [fed(part, state=base) for part in (slice(40, 140), slice(140, None))]
    merged = solver.merge(task, shards, base, [100.0, 100.0])
    np.testing.assert_allclose(merged.gradient, (shards[0].gradient + shards[1].gradient) / 2.0)
    assert merged.step == shards[0].step
    solver.check_state(task, merged)
    with pytest.raises(ValueError, match="gradient"):
        solver.check_state(task, merged._replace(gradient=merged.gradient[:, :2]))


def test_the_cost_of_a_row_of_one_task_does_not_grow_with_the_tasks():
    """Only the weights of its task are touched."""
    X, Y = rows_and_targets(20)
    task = replace(problem(penalties(0.1)["aMTFS"], "pairs"), tol=None)
    y = np.column_stack([np.full(20, 2.0), Y[:, 2]])
    state = RDA(gamma=4.0).update(task, RDA(gamma=4.0).init(task), driver.whole(as_rows(X), y))
    others = np.delete(np.arange(TASKS), 2)
    assert np.any(state.gradient[:, 2])
    assert not np.any(state.gradient[:, others])
    np.testing.assert_allclose(state.sums[:, 0], np.sum(state.gradient**2, axis=1))


# ---------------------------------------------------------------- the batch optimum


def optimum(task, X, y, **options):
    chunk = driver.whole(as_rows(X), y)
    result = driver.learn(ProximalNewton(**options), task, chunk, driver.Plan(300))
    assert result.status.name == "CONVERGED"
    return result.function


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rows_are_the_multi_task_lasso(layout):
    X, Y = rows_and_targets()
    X = X + 2.0  # far from the intercept
    for name, peer in (
        ("aMTFS", MultiTaskLasso(0.3, tol=1e-12, max_iter=100_000)),
        ("aMTFS, elastic", MultiTaskElasticNet(0.3, l1_ratio=0.7, tol=1e-12, max_iter=100_000)),
    ):
        peer.fit(X, Y)
        found = optimum(problem(penalties(0.3)[name], "matrix"), layout(X), Y, first=2)
        np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-6)
        np.testing.assert_allclose(found.intercept, peer.intercept_, atol=1e-5)
        XL, y = long(X, Y)
        found = optimum(problem(penalties(0.3)[name], "pairs"), layout(XL), y, first=2)
        np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-6)


def test_entries_are_a_lasso_for_each_task():
    X, Y = rows_and_targets(holes=0.3)
    own = [Lasso(0.2, tol=1e-12).fit(X[k], Y[k, q]) for q, k in enumerate(~np.isnan(Y).T)]
    XL, y = long(X, Y)
    for targets, rows, values in (("matrix", X, Y), ("pairs", XL, y)):
        task = problem(L1(0.2), targets)
        task = replace(task, task_weight=even_weights(task, values, None))
        found = optimum(task, rows, values)
        np.testing.assert_allclose(found.coef, [m.coef_ for m in own], atol=1e-7)
        np.testing.assert_allclose(found.intercept, [m.intercept_ for m in own], atol=1e-6)


def by_clarabel(X, Y, levels, factors):
    """The best objective of least squares with holes; variables W, b, residuals, bounds."""
    import clarabel

    rows, entries, ridge = levels
    n, tasks = Y.shape
    seen = np.argwhere(~np.isnan(Y))
    size = D * tasks
    total = size + tasks + len(seen) + D + size  # W, b, r, row norms, absolute values
    at_r, at_u, at_v = size + tasks, size + tasks + len(seen), total - size
    scale = np.array([factors[q] for _, q in seen]) / n
    P = sparse.diags_array(
        np.concatenate([np.full(size, ridge), np.zeros(tasks), scale, np.zeros(D + size)])
    ).tocsc()
    cost = np.zeros(total)
    cost[at_u : at_u + D], cost[at_v:] = rows, np.repeat(entries, tasks)
    fit = np.zeros((len(seen), total))
    for e, (i, q) in enumerate(seen):
        fit[e, q:size:tasks], fit[e, size + q], fit[e, at_r + e] = X[i], 1.0, -1.0
    eye, parts = np.eye(size), [fit]
    for sign in (1.0, -1.0):
        part = np.zeros((size, total))
        part[:, :size], part[:, at_v:] = sign * eye, -eye
        parts.append(part)
    cones = [clarabel.ZeroConeT(len(seen)), clarabel.NonnegativeConeT(2 * size)]
    for j in range(D):
        part = np.zeros((tasks + 1, total))
        part[0, at_u + j] = -1.0
        part[1:, j * tasks : (j + 1) * tasks] = -np.eye(tasks)
        parts.append(part)
        cones.append(clarabel.SecondOrderConeT(tasks + 1))
    A = np.concatenate(parts)
    b = np.zeros(A.shape[0])
    b[: len(seen)] = Y[~np.isnan(Y)]
    options = clarabel.DefaultSettings()
    options.verbose = False
    solved = clarabel.DefaultSolver(P, cost, sparse.csc_array(A), b, cones, options).solve()
    return solved.obj_val


@pytest.mark.parametrize("name", ["aMTFS", "MTFTS", "MTFTS, elastic"])
def test_optimum_with_holes_is_that_of_a_conic_solver(name):
    X, Y = rows_and_targets(25, holes=0.4)
    penalty = penalties(0.15)[name]
    XL, y = long(X, Y)
    task = problem(penalty, "matrix")
    task = replace(task, task_weight=even_weights(task, Y, None))
    best = by_clarabel(X, Y, penalty.row_levels(D), task.task_weight)
    found = optimum(task, X, Y, first=2)
    value = driver.objective(task, driver.whole(as_rows(X), Y), *found)
    assert value == pytest.approx(best, rel=1e-6)
    pairs = problem(penalty, "pairs")
    pairs = replace(pairs, task_weight=even_weights(pairs, y, None))
    again = optimum(pairs, XL, y)
    np.testing.assert_allclose(again.coef, found.coef, atol=1e-6)
    assert driver.objective(pairs, driver.whole(as_rows(XL), y), *again) == pytest.approx(value)


@pytest.mark.parametrize("name", ["aMTFS", "MTFTS, elastic"])
def test_logistic_optimum_has_no_slope(name):
    """Within the subdifferential of the penalty, feature by feature."""
    X, Y = rows_and_targets(120, holes=0.3)
    Y = np.where(np.isnan(Y), np.nan, np.where(np.nanmean(Y, axis=0) < Y, 1.0, -1.0))
    penalty = penalties(0.02)[name]
    task = problem(penalty, "matrix", Logistic())
    task = replace(task, task_weight=even_weights(task, Y, None))
    W, b = optimum(task, X, Y)
    seen = ~np.isnan(Y)
    slopes = np.where(seen, -Y / (1.0 + np.exp(np.nan_to_num(Y) * (X @ W.T + b))), 0.0)
    slopes = np.nan_to_num(slopes) * task.task_weight / X.shape[0]
    np.testing.assert_allclose(slopes.sum(axis=0), 0.0, atol=1e-6)
    G = X.T @ slopes
    rows, entries, ridge = penalty.row_levels(D)
    assert 0 < np.count_nonzero(np.any(W, axis=0)) < D
    for j in range(D):
        w = W[:, j]
        g = G[j] + ridge * w
        if not np.any(w):
            left = np.maximum(np.abs(g) - entries[j], 0.0)
            assert np.linalg.norm(left) <= rows[j] + 1e-6
            continue
        here = w != 0.0
        full = g + rows[j] * w / np.linalg.norm(w) + entries[j] * np.sign(w)
        np.testing.assert_allclose(full[here], 0.0, atol=1e-6)
        assert np.all(np.abs(g[~here]) <= entries[j] + 1e-6)


def test_a_weight_that_no_row_of_its_task_bends_for_goes_to_zero():
    """Beyond the margin of a squared hinge nothing but the penalty speaks; weights stayed there."""
    rng = np.random.default_rng(2)
    n, d, tasks, strength = 400, 20, 30, 0.0224
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.3)
    W = rng.normal(size=(d, tasks)) * (rng.uniform(size=(d, 1)) < 0.4)
    task = np.resize(np.arange(tasks), n)
    label = np.where(np.einsum("ij,ji->i", X, W[:, task]) + rng.normal(size=n) > 0.0, 1.0, -1.0)
    label[:tasks], label[tasks : 2 * tasks] = 1.0, -1.0
    targets = np.column_stack([task, label])
    whole = Problem(
        SquaredHinge(), L1(strength), d, outputs=tasks, targets="pairs", tol=1e-13,
    )  # fmt: skip
    whole = replace(whole, task_weight=even_weights(whole, targets, None))
    found = optimum(whole, sparse.csr_array(X), targets)
    slack = np.maximum(1.0 - label * (np.einsum("ij,ij->i", X, found.coef[task])
                                      + found.intercept[task]), 0.0)  # fmt: skip
    slopes = -2.0 * label * slack / np.bincount(task)[task]
    G = np.zeros((tasks, d))
    np.add.at(G, task, slopes[:, None] * X)
    used = found.coef != 0.0
    assert 0 < used.sum() < used.size
    np.testing.assert_allclose(G[used], -strength * np.sign(found.coef[used]), atol=1e-6)
    assert np.abs(G[~used]).max() <= strength + 1e-6


@pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("strength", [0.5, 0.05])
def test_lines_of_few_of_many_features_are_enough(layout, strength):
    """Features of a working set that stay out have no line of the matrix of all features."""
    rng = np.random.default_rng(0)
    n, d, tasks = 300, 240, 3
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < 0.5) + 1.0
    W = np.zeros((d, tasks))
    W[rng.choice(d, 10, replace=False)] = rng.normal(size=(10, tasks))
    Y = X @ W + rng.normal(size=(n, tasks))
    peer = MultiTaskLasso(strength, tol=1e-12, max_iter=100_000).fit(X, Y)
    task = Problem(
        LeastSquares(), GroupL2(np.arange(d), strength, shared=True), d, outputs=tasks,
        targets="matrix", tol=1e-13,
    )  # fmt: skip
    found = optimum(task, layout(X), Y, first=8)
    np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(found.intercept, peer.intercept_, atol=1e-5)
    chunk, solver = driver.whole(as_rows(layout(X)), Y), ProximalNewton(8)
    state = solver.update(task, solver.init(task, chunk), chunk)
    assert 0 < state.gram.members.size <= 8
    assert np.any(state.w, axis=1).sum() == state.gram.members.size


def test_strength_that_leaves_nothing():
    X, Y = rows_and_targets(holes=0.2)
    task = problem(GroupL2(np.arange(D), 1.0, shared=True), "matrix")
    strength = task.penalty.emptying(task_gradient_at_zero(task, driver.whole(as_rows(X), Y)))
    for factor, empty in ((1.001, True), (0.99, False)):
        own = replace(task, penalty=replace(task.penalty, strength=factor * strength))
        chunk = driver.whole(as_rows(X), Y)
        found = driver.learn(ProximalNewton(), own, chunk, driver.Plan(100)).function
        assert (found.size == 0) == empty


# ---------------------------------------------------------------- refusals


def test_who_cannot_learn_tasks_says_so():
    X, Y = rows_and_targets()
    chunk = driver.whole(as_rows(X), Y)
    with pytest.raises(ValueError, match="Box is not for many tasks: use 'group'"):
        driver.learn(RDA(), problem(Box(), "matrix"), chunk, driver.Plan(1))
    grouped = GroupL2(np.arange(D) // 2, 1.0, shared=True)
    with pytest.raises(ValueError, match="groups of several features"):
        driver.learn(ProximalNewton(), problem(grouped, "matrix"), chunk, driver.Plan(1))
    with pytest.raises(ValueError, match="curvature"):
        driver.learn(ProximalNewton(), problem(L1(1.0), "matrix", Hinge()), chunk, driver.Plan(1))
    pairs = driver.whole(as_rows(X), np.full((X.shape[0], 2), float(TASKS)))
    with pytest.raises(ValueError, match="beyond the 4"):
        driver.learn(RDA(gamma=1.0), problem(L1(1.0), "pairs"), pairs, driver.Plan(1))


# ---------------------------------------------------------------- the descents


@pytest.mark.parametrize("share", [0.02, 0.6])
@pytest.mark.parametrize(("n", "d", "tasks"), [(200, 70, 3), (200, 96, 40), (40, 130, 5)])
def test_blocks_of_features_end_where_the_conditions_of_the_optimum_hold(n, d, tasks, share):
    """Of many blocks, most of whose features move (a weak penalty), or few of them."""
    rng = np.random.default_rng(0)
    X, C = rng.normal(size=(n, d)) / np.sqrt(n), rng.normal(size=(d, tasks))
    C[5:] *= 0.2
    S = X.T @ X
    by_row = np.full(d, share * np.linalg.norm(C, axis=1).max())
    found = []
    for matrix, lines in ((S, None), (None, np.ascontiguousarray(X.T))):
        W = np.zeros((d, tasks))
        rest = (-C, by_row, np.zeros(d), 0.1, W, 20_000, 1e-16)
        if matrix is not None:
            descend_by_matrix(matrix, *rest)
        else:
            descend_by_lines(lines, *rest)
        found.append(W)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    slopes = (S + 0.1 * np.eye(d)) @ found[0] - C
    norms = np.linalg.norm(found[0], axis=1, keepdims=True)
    used = norms[:, 0] > 0.0
    pull = by_row[:, None] * found[0] / np.where(norms > 0.0, norms, 1.0)
    assert np.abs(slopes[used] + pull[used]).max() < 1e-6
    assert np.all(np.linalg.norm(slopes[~used], axis=1) <= by_row[~used] + 1e-6)
    assert 0 < used.sum() <= d
