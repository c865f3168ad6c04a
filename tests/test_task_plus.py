"""RDA+ over many tasks: the batch optimum, its manifold, streams by sums, merging, estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import MultiTaskLasso

from thresher import MultiTaskClassifier, MultiTaskRegressor, train
from thresher._rows import as_rows
from thresher.losses import LeastSquares, Logistic
from thresher.penalties import L1, ElasticNet, GroupL2, SparseGroupL2, pattern_of
from thresher.solvers import Problem, ProximalNewton, RDAPlus, driver
from thresher.solvers._manifold import distance, proximal_point
from thresher.solvers.stream import Facts, Stream
from thresher.solvers.tasks import task_gradient_at_zero, task_loss, task_penalty

N, D, TASKS = 60, 8, 4
EACH = np.arange(D)
PENALTIES = {
    "iMTFS": L1(0.1),
    "iMTFS, elastic": ElasticNet(0.1, 0.7),
    "aMTFS": GroupL2(EACH, 0.2, shared=True),
    "MTFTS, elastic": SparseGroupL2(EACH, 0.15, within=0.4, elastic=0.1, shared=True),
}


def targets_of(kind, loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * (rng.uniform(size=(N, D)) < 0.7)
    W = np.zeros((D, TASKS))
    W[:3] = rng.normal(size=(3, TASKS))
    Y = X @ W + 0.3 * rng.normal(size=(N, TASKS))
    Y = np.sign(Y) if type(loss) is Logistic else Y + np.arange(TASKS)
    if kind == "whole":
        return X, Y
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    if kind == "holes":
        return X, Y
    row, task = np.nonzero(~np.isnan(Y))
    order = rng.permutation(row.size)
    return X[row][order], np.column_stack([task, Y[row, task]])[order]


def posed(penalty, kind, loss, tol=1e-9):
    X, Y = targets_of(kind, loss)
    problem = Problem(
        loss, penalty, D, outputs=TASKS, targets="pairs" if kind == "pairs" else "matrix", tol=tol
    )
    return problem, driver.whole(as_rows(X), Y)


def parts_of(chunk, size=17):
    n = chunk.order.size
    return [chunk._replace(order=chunk.order[k : k + size]) for k in range(0, n, size)]


@pytest.mark.parametrize("loss", [LeastSquares(), Logistic()], ids=["squares", "logistic"])
@pytest.mark.parametrize("kind", ["whole", "holes", "pairs"])
@pytest.mark.parametrize("name", PENALTIES)
def test_the_optimum_is_that_of_proximal_newton(name, kind, loss):
    """In memory, and in a stream whose later passes take Newton steps by sums."""
    problem, chunk = posed(PENALTIES[name], kind, loss)
    exact = replace(problem, tol=1e-13)
    best = driver.learn(ProximalNewton(), exact, chunk, driver.Plan(300))
    found = driver.learn(RDAPlus(), problem, chunk, driver.Plan(30))
    stream = Stream.open(problem, RDAPlus(), chunk, Facts(chunk.order.size))
    passed = driver.run(stream, [parts_of(chunk)] * 40, 40)
    for one in (found, passed):
        assert one.status.name == "CONVERGED"
        np.testing.assert_allclose(one.coef, best.coef, atol=1e-6)
        np.testing.assert_allclose(one.intercept, best.intercept, atol=1e-6)
        assert np.array_equal(one.coef == 0.0, best.coef == 0.0)
    assert 3 <= passed.passes < 20
    stream.check(D, TASKS)


def test_whole_rows_are_those_of_scikit_learn():
    problem, chunk = posed(PENALTIES["aMTFS"], "whole", LeastSquares())
    found = driver.learn(RDAPlus(), problem, chunk, driver.Plan(30))
    X, Y = targets_of("whole", LeastSquares())
    peer = MultiTaskLasso(alpha=0.2, tol=1e-12, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(found.coef, peer.coef_, atol=1e-5)
    assert 0 < np.count_nonzero(found.coef.any(axis=0)) < D


@pytest.mark.parametrize("name", PENALTIES)
def test_a_proximal_step_of_tables_is_that_of_the_penalty(name):
    """The objective of the map, 1/2 ||U - V||^2 + step psi(U), is lower nowhere near."""
    problem, _ = posed(PENALTIES[name], "whole", LeastSquares())
    rng = np.random.default_rng(1)
    (W, G), step = 0.1 * rng.normal(size=(2, D, TASKS)), 2.0
    U = proximal_point(problem.penalty, W, G, step)

    def value(at):
        return 0.5 * np.sum((at - W + step * G) ** 2) + step * task_penalty(problem, at.T)

    assert np.any(U == 0.0)
    for size in (1e-1, 1e-3, 1e-5):
        for _ in range(50):
            assert value(U) <= value(U + size * rng.normal(size=U.shape)) + 1e-12


def test_delta_at_zero_is_what_the_penalty_does_not_hold():
    problem, chunk = posed(PENALTIES["iMTFS"], "whole", LeastSquares())
    gradient = task_gradient_at_zero(problem, chunk).T
    left = np.maximum(np.abs(gradient) - 0.1, 0.0)
    by_hand = np.sqrt((np.sum(left**2) + 4 * 0.5**2) / (D * TASKS + TASKS))
    found = distance(problem.penalty, np.zeros((D, TASKS)), gradient, np.full(TASKS, 0.5))
    assert found == pytest.approx(by_hand, rel=1e-9)


def test_patterns_of_tasks():
    W = np.array([[1.0, 0.0, 0.0], [-2.0, 0.0, 3.0]])  # (tasks, features)
    each = np.arange(3)
    assert pattern_of(L1(), W).tolist() == [1, 0, 0, -1, 0, 1]
    assert pattern_of(GroupL2(each, 1.0, shared=True), W).tolist() == [1, 0, 1]
    within = SparseGroupL2(each, 1.0, shared=True)
    assert pattern_of(within, W).tolist() == [1, -1, 0, 0, 0, 1]


def test_merged_shards_are_one_stream_in_phase_two():
    problem, chunk = posed(PENALTIES["aMTFS"], "pairs", LeastSquares())
    stream = Stream.open(problem, RDAPlus(), chunk, Facts(chunk.order.size))
    driver.run(stream, [parts_of(chunk)] * 2, 2)
    solver, problem = stream.solver, stream.problem
    state = solver.between(problem, stream.state, None, 2, 30)
    assert state.phase == 1
    one = solver.update(problem, state, chunk)
    halves = np.split(chunk.order, [50])
    shards = [
        solver.update(problem, solver.copy(state), chunk._replace(order=half)) for half in halves
    ]
    merged = solver.merge(problem, shards, state, [1.0, 1.0])
    for name in ("sums", "hessian", "value", "mass"):
        np.testing.assert_allclose(getattr(merged, name), getattr(one, name), rtol=1e-9, atol=1e-9)


def test_merged_shards_of_phase_one_have_their_mean_gradient():
    problem, chunk = posed(PENALTIES["MTFTS, elastic"], "pairs", LeastSquares())
    stream = Stream.open(problem, RDAPlus(batch=1), chunk, Facts(chunk.order.size))
    solver, problem, base = stream.solver, stream.problem, stream.state
    halves = np.split(chunk.order, [50])
    shards = [
        solver.update(problem, solver.copy(base), chunk._replace(order=half)) for half in halves
    ]
    merged = solver.merge(problem, shards, base, [1.0, 1.0])
    np.testing.assert_allclose(merged.gradient, (shards[0].gradient + shards[1].gradient) / 2)
    assert merged.step == chunk.order.size // 2
    assert merged.seen == chunk.order.size
    solver.check_state(problem, merged)


def test_a_state_from_a_file_is_checked():
    problem, chunk = posed(PENALTIES["aMTFS"], "whole", LeastSquares())
    stream = Stream.open(problem, RDAPlus(), chunk, Facts(chunk.order.size))
    driver.run(stream, [parts_of(chunk)] * 3, 3)
    good = stream.state
    for bad in (
        good._replace(hessian=np.zeros((TASKS, 2, 2))),
        good._replace(norms=np.zeros((D, 3))),
        good._replace(point=np.zeros((D, TASKS))),
        good._replace(inside=np.full(D, 5, np.int8)),
    ):
        with pytest.raises(ValueError, match="state"):
            stream.solver.check_state(stream.problem, bad)


def test_a_stream_with_too_many_weights_stays_online():
    problem, chunk = posed(PENALTIES["aMTFS"], "whole", LeastSquares())
    few = RDAPlus(newton_threshold=4)  # of 4 tasks: Hessians of two features
    stream = Stream.open(problem, few, chunk, Facts(chunk.order.size))
    driver.run(stream, [parts_of(chunk)] * 5, 5)
    assert stream.state.phase == 0
    assert np.count_nonzero(stream.function().coef) > 0


def test_estimators_learn_with_it():
    X, Y = targets_of("holes", LeastSquares())
    plus, best = (
        MultiTaskRegressor(alpha=0.1, solver=solver, tol=tol, random_state=0).fit(X, Y)
        for solver, tol in (("rda_plus", 1e-9), ("proximal_newton", 1e-14))
    )
    np.testing.assert_allclose(plus.coef_, best.coef_, atol=1e-6)
    assert plus.status_.name == "CONVERGED"
    X, Y = targets_of("holes", Logistic())
    model = MultiTaskClassifier(solver="rda_plus", alpha=0.05, random_state=0).fit(X, Y)
    assert model.status_.name == "CONVERGED"
    stream = MultiTaskRegressor(alpha=0.1, solver="rda_plus", random_state=0)
    X, Y = targets_of("pairs", LeastSquares())
    for part in np.array_split(np.arange(len(X)), 4):
        stream.partial_fit(X[part], Y[part, 1], task=Y[part, 0].astype(int), tasks=range(TASKS))
    assert stream.score(X, Y[:, 1], task=Y[:, 0].astype(int)) > 0.3


def file_of(tmp_path):
    X, Y = targets_of("pairs", LeastSquares())
    lines = [
        ",".join([f"t{int(task)}", *(f"{v:.6f}" for v in x), f"{y:.6f}"])
        for x, (task, y) in zip(X, Y, strict=True)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([",".join(["who", *(f"x{j}" for j in EACH), "y"]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("after", [1, 2, 4])
def test_an_interrupted_stream_goes_on_in_either_phase(after, tmp_path):
    """Checkpoints of the second phase were refused: their tables lay column by column."""
    path, passes = file_of(tmp_path), 0

    def stop():
        nonlocal passes
        passes += 1
        return passes == after

    params = {"solver": "rda_plus", "alpha": 0.1, "scale": False, "tol": 1e-12}
    about = {"target": "y", "task_column": "who", "params": params, "passes": 6, "memory": 1}
    once = train(path, **about)
    about |= {"checkpoint": "1", "model": tmp_path / "m.thresher"}
    assert train(path, stop=stop, **about).training["status"] == "INTERRUPTED"
    went_on = train(path, resume=True, **about)
    np.testing.assert_array_equal(went_on.function.coef, once.function.coef)


def test_a_file_is_learned_in_memory_and_as_a_stream(tmp_path):
    path = file_of(tmp_path)
    params = {"solver": "rda_plus", "alpha": 0.1, "balance": "rows", "scale": False}
    options = {"target": "y", "task_column": "who", "holdout": 0.0}
    whole = train(path, params=params, **options)
    parts = train(path, params=params, passes=20, memory=1000, **options)
    coef, other = (np.asarray(model.estimator.coef_) for model in (whole, parts))
    np.testing.assert_allclose(other, coef, atol=2e-3)


def test_the_objective_falls_to_that_of_the_batch_solver_where_features_abound():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(40, 300)), rng.normal(size=(40, 3))
    Y += X[:, :1]
    penalty = GroupL2(np.arange(300), 0.3, shared=True)
    problem = Problem(LeastSquares(), penalty, 300, outputs=3, targets="matrix", tol=1e-7)
    chunk = driver.whole(as_rows(X), Y)
    values = []
    for solver, tol in ((RDAPlus(), 1e-7), (ProximalNewton(), 1e-13)):
        result = driver.learn(solver, replace(problem, tol=tol), chunk, driver.Plan(100))
        loss = task_loss(problem, chunk, result.coef, result.intercept)
        values.append(loss + task_penalty(problem, result.coef))
    assert values[0] == pytest.approx(values[1], rel=1e-9)
