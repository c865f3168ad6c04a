"""Solvers over groups against their formulas, written for dense rows and all groups at once."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from conftest import batches, chunk_of, feed, make_data, soft, visits
from thresher import LinearClassifier, load_model, train
from thresher._rows import as_rows
from thresher.losses import LeastSquares, Logistic, SquaredHinge
from thresher.penalties import L1, GroupL2, SparseGroupL2, evaluate
from thresher.schedules import InverseRoot
from thresher.solvers import FOBOS, RDA, AdaptiveRDA, Problem, ProximalNewton, driver
from thresher.solvers.regret import average_regret, regret_bound
from thresher.testing import check_solver

GROUPS = np.array([2, 0, 0, 1, 2, 1, 1, 3, 0, 3, 2, 1])
SHARED = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [6, 7], [7, 8, 9, 0], [10, 11]]
PENALTIES = {
    "group": GroupL2(GROUPS, 0.03),
    "elastic": GroupL2(GROUPS, 0.05, elastic=0.3),
    "sparse": SparseGroupL2(GROUPS, 0.03, within=[0.5, 0.0, 1.0, 0.2]),
    "shared": GroupL2(SHARED, 0.03),
    "shared sparse": SparseGroupL2(SHARED, 0.02, within=0.5),
}
each_penalty = pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)


def thin_data(seed=1):
    X, y = make_data()
    return X * (np.random.default_rng(seed).uniform(size=X.shape) < 0.4), y


def blocks(penalty):
    return [
        penalty.order[a:b] for a, b in zip(penalty.pointers[:-1], penalty.pointers[1:], strict=True)
    ]


def mapped(penalty, g, v, step):
    out = np.empty_like(v)
    penalty.prox_block(v, step, g, out)
    return out


def slopes_of(X, y, rows, w, bias):
    return -y[rows] / (1.0 + np.exp(y[rows] * (X[rows] @ w + bias))) / rows.size


def dual_averaging(X, y, order, batch, penalty, gamma, rho, adaptive):
    d = X.shape[1]
    s, bias_s, w, bias = np.zeros(d), 0.0, np.zeros(d), 0.0
    squares, bias_square = np.zeros(len(blocks(penalty))), 0.0
    for t, rows in batches(order, batch):
        slopes = slopes_of(X, y, rows, w, bias)
        g = X[rows].T @ slopes
        s, bias_s, w = s + g, bias_s + slopes.sum(), np.zeros(d)
        bias_square += slopes.sum() ** 2
        for k, places in enumerate(blocks(penalty)):
            squares[k] += g[places] @ g[places]
            beta = gamma * ((rho + math.sqrt(squares[k])) if adaptive else math.sqrt(t))
            u = soft(-s[places] / beta, 0.0 if adaptive else rho)
            w[places] += mapped(penalty, k, u, t / beta)
        bias = -bias_s / (gamma * ((rho + math.sqrt(bias_square)) if adaptive else math.sqrt(t)))
    return w, bias


@each_penalty
@pytest.mark.parametrize(("batch", "rho"), [(1, 0.0), (3, 0.02)])
def test_dual_averaging(penalty, batch, rho):
    X, y = thin_data()
    problem, order = Problem(Logistic(), penalty, 12), visits(200, 2)
    coef, bias = feed(RDA(2.0, rho, batch=batch), problem, chunk_of(X, y, "csr"), order)
    wanted, wanted_bias = dual_averaging(X, y, order, batch, penalty, 2.0, rho, False)
    assert_allclose(coef, wanted, atol=1e-11)
    assert bias == pytest.approx(wanted_bias, abs=1e-11)
    assert np.count_nonzero(coef) > 0


@each_penalty
@pytest.mark.parametrize("batch", [1, 3])
def test_adaptive_dual_averaging(penalty, batch):
    X, y = thin_data()
    problem, order = Problem(Logistic(), penalty, 12), visits(200, 2)
    coef, bias = feed(AdaptiveRDA(1.0, 0.5, batch), problem, chunk_of(X, y, "csr"), order)
    wanted, wanted_bias = dual_averaging(X, y, order, batch, penalty, 1.0, 0.5, True)
    assert_allclose(coef, wanted, atol=1e-11)
    assert bias == pytest.approx(wanted_bias, abs=1e-11)


@each_penalty
@pytest.mark.parametrize("batch", [1, 3])
def test_fobos(penalty, batch):
    X, y = thin_data()
    problem, order = Problem(Logistic(), penalty, 12), visits(200, 2)
    coef, bias = feed(FOBOS(InverseRoot(0.7), batch), problem, chunk_of(X, y, "csr"), order)
    v, wanted, wanted_bias = np.zeros(penalty.order.size), np.zeros(12), 0.0
    for t, rows in batches(order, batch):
        eta, slopes = 0.7 / math.sqrt(t), slopes_of(X, y, rows, wanted, wanted_bias)
        v -= eta * (X[rows].T @ slopes)[penalty.order]
        for k, (a, b) in enumerate(zip(penalty.pointers[:-1], penalty.pointers[1:], strict=True)):
            v[a:b] = mapped(penalty, k, v[a:b], eta)
        wanted = np.bincount(penalty.order, v, 12)
        wanted_bias -= min(eta, 1.0 / math.sqrt(t)) * slopes.sum()
    assert_allclose(coef, wanted, atol=1e-11)
    assert_array_equal(coef == 0.0, wanted == 0.0)
    assert bias == pytest.approx(wanted_bias, abs=1e-11)


def test_norms_are_summed_anew_now_and_then(monkeypatch):
    """The same model, whatever a norm has lost on its way."""
    from thresher.solvers import _block_fobos, _block_rda

    X, y = thin_data()
    problem, order = Problem(Logistic(), PENALTIES["group"], 12), visits(200, 2)
    for solver, module in ((RDA(2.0), _block_rda), (FOBOS(InverseRoot(0.7)), _block_fobos)):
        usual = feed(solver, problem, chunk_of(X, y, "csr"), order).coef
        name = "_by_norms" if module is _block_rda else "_lazy"
        kernel = getattr(module, name)
        monkeypatch.setattr(module, "_AGAIN", 7)
        monkeypatch.setattr(module, name, getattr(kernel, "py_func", kernel))
        assert_allclose(feed(solver, problem, chunk_of(X, y, "csr"), order).coef, usual, atol=1e-12)


# ---------------------------------------------------------------- the batch optimum


def optimality(penalty, gradient, copies):
    """How far a proximal step of length one would move the copies."""
    moved = 0.0
    for k, (a, b) in enumerate(zip(penalty.pointers[:-1], penalty.pointers[1:], strict=True)):
        point = copies[a:b]
        step = mapped(penalty, k, point - gradient[penalty.order[a:b]], 1.0)
        moved = max(moved, float(np.max(np.abs(step - point))))
    return moved


@each_penalty
@pytest.mark.parametrize(
    ("loss", "layout", "solver"),
    [(Logistic(), "dense", ProximalNewton()), (Logistic(), "csr", ProximalNewton(1, 1)),
     (LeastSquares(), "dense", ProximalNewton(1, 1))],
)  # fmt: skip
def test_newton_ends_at_the_optimum(penalty, loss, layout, solver):
    X, y = thin_data()
    problem, chunk = Problem(loss, penalty, 12, tol=1e-12), chunk_of(X, y, layout)
    result = driver.learn(solver, problem, chunk, driver.Plan(300))
    p = X @ result.coef + result.intercept
    slopes = -y / (1.0 + np.exp(y * p)) if loss == Logistic() else p - y
    assert abs(slopes.mean()) < 1e-6
    assert optimality(penalty, X.T @ slopes / 200, result.state.w) < 1e-5
    assert np.count_nonzero(result.coef) > 0


@pytest.mark.parametrize("name", ["group", "elastic", "shared"])
@pytest.mark.parametrize("solver", [ProximalNewton(), ProximalNewton(1, 1)])
def test_features_of_a_group_may_have_any_units(name, solver):
    """Steps along the slopes of a group crept: after hundreds the objective was .3 % too high."""
    X, y = make_data()
    X, penalty = X * np.geomspace(0.01, 100.0, 12), replace(PENALTIES[name], strength=0.01)
    problem, chunk = Problem(SquaredHinge(), penalty, 12, tol=1e-14), chunk_of(X, y, "dense")
    result = driver.learn(solver, problem, chunk, driver.Plan(50))
    assert result.status.name == "CONVERGED"
    slack = np.maximum(1.0 - y * (X @ result.coef + result.intercept), 0.0)
    gradient, used = -2.0 * X.T @ (y * slack) / y.size, 0
    for g, (a, b) in enumerate(zip(penalty.pointers[:-1], penalty.pointers[1:], strict=True)):
        slope, w = gradient[penalty.order[a:b]], result.state.w[a:b]
        length = np.linalg.norm(w)
        used += length > 0.0
        if length > 0.0:
            held = penalty.weight(g) * w / length + penalty.ridge * w
            assert_allclose(slope, -held, atol=1e-5)
        else:
            assert np.linalg.norm(slope) <= penalty.weight(g) + 1e-6
    assert used


def test_newton_starts_from_a_neighbour():
    X, y = thin_data()
    for name in ("group", "shared"):
        problem = Problem(Logistic(), PENALTIES[name], 12, tol=1e-10)
        chunk, plan = chunk_of(X, y), driver.Plan(100)
        first = driver.learn(ProximalNewton(), problem, chunk, plan)
        from thresher.solvers.base import Near

        again = driver.learn(ProximalNewton(), problem, chunk, plan, Near.of(problem, first))
        assert again.passes < first.passes
        assert_allclose(again.coef, first.coef, atol=1e-5)


@pytest.mark.parametrize("name", ["group", "sparse", "shared"])
def test_newton_is_a_state_and_an_update(name):
    check_solver(ProximalNewton(), penalty=PENALTIES[name])


# ---------------------------------------------------------------- regret


def acceptance(rows, seed=0):
    """20 groups of 5, 3 of them active; the squared norm of a row is about 9."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(20), 5)
    truth = np.where(groups < 3, 3.0 * rng.normal(size=100), 0.0)
    X = 0.3 * rng.normal(size=(rows, 100))
    y = np.where(rng.uniform(size=rows) < 1.0 / (1.0 + np.exp(-X @ truth)), 1.0, -1.0)
    problem = Problem(Logistic(), GroupL2(groups, 0.01), 100, fit_intercept=False)
    return problem, chunk_of(X, y), groups


def used(groups, coef):
    return {int(g) for g in groups[coef != 0.0]}


def test_average_regret_falls_as_one_over_the_root():
    """The acceptance run of the tutorial, section 4.1: regret and the groups of the optimum."""
    problem, chunk, groups = acceptance(20_000)
    found = average_regret(RDA(gamma=0.5), problem, chunk, [500, 2000, 8000, 20_000], every=20)
    rates = [r.average * math.sqrt(r.rows) for r in found]
    assert 2.8 > rates[0] > rates[1] > rates[2] > rates[3] > 0.0
    for r in found[1:]:
        online = feed(RDA(gamma=0.5), problem, chunk, chunk.order[: r.rows])
        assert used(groups, online.coef) == used(groups, r.function.coef) == {0, 1, 2}


def test_regret_is_what_it_says():
    """Step by step, with the penalty of every iterate."""
    problem, chunk, _ = acceptance(60)
    solver, state, paid = RDA(gamma=0.5), RDA(gamma=0.5).init(problem), 0.0
    for i in range(60):
        w = solver.finish(problem, state).coef
        one = chunk._replace(order=chunk.order[i : i + 1])
        paid += driver.objective(problem, one, w, 0.0)
        state = solver.update(problem, state, one)
    (found,) = average_regret(solver, problem, chunk, [60])
    assert found.paid == pytest.approx(paid / 60)
    assert found.best <= driver.objective(problem, chunk, solver.finish(problem, state).coef, 0.0)


def test_regret_stays_below_its_bound():
    problem, chunk, _ = acceptance(4000)
    steepness = math.sqrt(max(chunk.rows.sqnorm(i) for i in range(4000)))  # slopes are below one
    ridge = 0.02
    curved = replace(problem, penalty=replace(problem.penalty, strength=0.04, elastic=0.5))
    assert curved.penalty.ridge == pytest.approx(ridge)
    slow, fast = RDA(gamma=0.5), RDA(gamma=ridge, growth="log")
    for solver, own, convexity in ((slow, problem, 0.0), (fast, curved, ridge)):
        for found in average_regret(solver, own, chunk, [500, 4000], every=20):
            reach = np.linalg.norm(found.function.coef) / math.sqrt(2.0)
            bound = regret_bound(found.rows, 0.5, reach, steepness, convexity)
            assert 0.0 < found.average < bound


@pytest.mark.parametrize("kind", ["matrix", "pairs"])
def test_regret_of_many_tasks_is_their_mean(kind):
    """And that of all of them by themselves, where nothing joins them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    Y = np.sign(X[:, :3] + 0.5 * rng.normal(size=(1500, 3)))
    options = {"outputs": 3, "targets": kind, "fit_intercept": False}
    problem = Problem(Logistic(), L1(0.05), 4, **options)
    rows = np.repeat(X, 3, axis=0) if kind == "pairs" else X
    pairs = np.column_stack([np.tile(np.arange(3.0), 1500), Y.reshape(-1)])
    chunk = driver.whole(as_rows(rows), pairs if kind == "pairs" else Y)
    rounds = [100, 1500]
    marks = [3 * r for r in rounds] if kind == "pairs" else rounds
    solver = RDA(gamma=0.5, floor=0.0, batch=3 if kind == "pairs" else 1)
    found = average_regret(solver, problem, chunk, marks, every=3 if kind == "pairs" else 1)
    alone = [
        average_regret(
            RDA(gamma=0.5), Problem(Logistic(), L1(0.05), 4, fit_intercept=False),
            driver.whole(as_rows(X), Y[:, q]), rounds,
        )
        for q in range(3)
    ]  # fmt: skip
    for k, one in enumerate(found):
        assert one.best == pytest.approx(np.mean([a[k].best for a in alone]), rel=1e-6)
        if kind == "matrix":
            assert one.paid == pytest.approx(np.mean([a[k].paid for a in alone]), rel=1e-9)
        assert 0.0 < one.average < 0.4
    assert found[1].average < 0.5 * found[0].average


def test_who_keeps_no_account_has_no_regret():
    problem, chunk, _ = acceptance(30)
    with pytest.raises(ValueError, match="keeps no account"):
        average_regret(ProximalNewton(), problem, chunk, [30])


# ---------------------------------------------------------------- several classes


def classes(rows=300):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 12))
    W = np.zeros((3, 12))
    W[:, GROUPS == 0] = rng.normal(0.0, 2.0, (3, 3))
    W[0, GROUPS == 1] = 1.5
    return X, np.argmax(X @ W.T + rng.normal(0.0, 0.5, (rows, 3)), axis=1)


def test_groups_shared_by_classes_are_blocks_of_all_their_weights():
    X, codes = classes()
    penalty = GroupL2(GROUPS, 0.05, shared=True)
    problem = Problem(Logistic(), penalty, 12, outputs=3)
    order = visits(300, 1)
    found = feed(RDA(2.0, batch=2), problem, chunk_of(X, codes.astype(float), "csr"), order)
    W, bias, s, bias_s = np.zeros((3, 12)), np.zeros(3), np.zeros((3, 12)), np.zeros(3)
    Y = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    for t, rows in batches(order, 2):
        slopes = -Y[rows] / (1.0 + np.exp(Y[rows] * (X[rows] @ W.T + bias))) / rows.size
        s, bias_s = s + slopes.T @ X[rows], bias_s + slopes.sum(axis=0)
        beta = 2.0 * math.sqrt(t)
        for g in range(4):
            u = -s[:, g == GROUPS] / beta
            pull = t / beta * 0.05 * math.sqrt((g == GROUPS).sum())
            W[:, g == GROUPS] = u * max(1.0 - pull / np.linalg.norm(u), 0.0)
        bias = -bias_s / beta
    assert_allclose(found.coef, W, atol=1e-11)
    assert_allclose(found.intercept, bias, atol=1e-11)
    value = sum(
        0.05 * math.sqrt((g == GROUPS).sum()) * np.linalg.norm(W[:, g == GROUPS]) for g in range(4)
    )
    assert evaluate(penalty, W) == pytest.approx(value)


def test_classes_have_groups_of_their_own_or_share_them():
    X, codes = classes()
    norms = {}
    for shared in (False, True):
        penalty = GroupL2(GROUPS, 0.06, shared=shared)
        model = LinearClassifier("logistic", penalty=penalty, random_state=0).fit(X, codes)
        assert model.coef_.shape == (3, 12)
        norms[shared] = np.array([[np.any(w[g == GROUPS]) for g in range(4)] for w in model.coef_])
        assert model.score(X, codes) > 0.6
    assert np.all(norms[True] == norms[True][0])  # all classes alike
    assert not np.all(norms[False] == norms[False][0])
    with pytest.raises(ValueError, match="groups cannot be shared among them; these do: rda"):
        LinearClassifier("logistic", penalty=penalty, solver="fobos").fit(X, codes)


# ---------------------------------------------------------------- streams and files


@pytest.mark.filterwarnings("ignore:.*no better than a constant")
def test_a_stream_may_be_cut_anywhere_and_kept(tmp_path):
    X, y = thin_data()
    models = []
    for cuts in ([200], [50, 51, 200]):
        model = LinearClassifier(
            "logistic", penalty=PENALTIES["shared"], solver=RDA(2.0), random_state=0
        )
        start = 0
        for stop in cuts:
            model.partial_fit(X[start:stop], y[start:stop], classes=[-1.0, 1.0])
            start = stop
        models.append(model.coef_)
    assert_array_equal(*models)


def table(n=400):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "age": rng.normal(40.0, 10.0, n), "town": rng.choice(["ulm", "bonn", "kiel"], n),
        "noise": rng.normal(size=n), "colour": rng.choice(["red", "blue"], n),
    })  # fmt: skip
    frame.loc[::9, "age"] = np.nan
    effect = {"ulm": 2.0, "bonn": -2.0, "kiel": 0.0}
    score = frame["town"].map(effect) + 0.2 * (frame["age"].fillna(40.0) - 40.0)
    frame["y"] = np.where(score + 0.3 * rng.normal(size=n) > 0.0, "yes", "no")
    return frame


def test_columns_that_matter_are_told(tmp_path, thresher):
    frame = table()
    frame.to_csv(tmp_path / "d.csv", index=False)
    model = tmp_path / "m.thresher"
    words = ("train", tmp_path / "d.csv", "--target", "y", "--penalty", "group")
    code, _, err = thresher(*words, "--loss", "logistic", "--alpha", "0.03", "--model", model)
    assert code == 0
    assert "2 of 4 groups are used" in err
    assert "not used: noise, colour" in err
    ranked = load_model(model).ranked_groups()
    assert [(g["name"], g["features"]) for g in ranked[:2]] in (
        [("town", 5), ("age", 2)], [("age", 2), ("town", 5)],
    )  # fmt: skip
    assert [g["norm"] for g in ranked[2:]] == [0.0, 0.0]
    code, out, _ = thresher("inspect", model)
    assert code == 0
    assert "2 of 4 groups are used" in out
    code, _, err = thresher(*words, "--type", "age=powers:3", "--model", model)
    assert (code, "powers up to 3" in err) == (0, True)
    assert ("age", 4) in [(g["name"], g["features"]) for g in load_model(model).ranked_groups()]


def test_columns_of_a_stream_and_patterns_of_their_names():
    params = {"penalty": "sparse_group", "solver": "rda", "loss": "logistic"}
    model = train(table(), target="y", params=params)
    assert {g["name"] for g in model.training["groups"]} == {"age", "town", "noise", "colour"}
    assert model.training["groups"][0]["norm"] > 0.0
    params = {"penalty": GroupL2("^[a-z]+"), "loss": "logistic"}
    assert train(table(), target="y", params=params).training["groups"][-1]["name"] != ""
    with pytest.raises(ValueError, match="'twon', which is no feature"):
        train(table(), target="y", params={"penalty": GroupL2([["twon"]])})
