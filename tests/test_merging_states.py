"""States of shards become one: closed forms, and wrong merges that ``check_solver`` must refuse."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from conftest import READY, ROOT, chunk_of, close, make_data, soft
from thresher.losses import Hinge, LeastSquares, Logistic
from thresher.penalties import L1, L2, ElasticNet, WeightedL2
from thresher.registry import SOLVERS
from thresher.solvers import (
    ASSET,
    FOBOS,
    RDA,
    SGD,
    AveragedSGD,
    DirectLeastSquares,
    DropoutPegasos,
    DualDescent,
    Newton,
    Pegasos,
    Problem,
    ProximalNewton,
    QuasiNewton,
    ReweightedL1,
    ReweightedL2,
    SmoothedNewton,
    Solver,
    TruncatedGradient,
)
from thresher.testing import check_solver

X, Y = make_data()
CHUNK = chunk_of(X, Y)
CUTS = np.split(CHUNK.order, [60, 130])  # what the base sees, and two shards


def learned(solver, problem, *orders, chunk=CHUNK):
    """The state after visiting the rows of each order in turn."""
    state = solver.init(problem, chunk)
    for order in orders:
        state = solver.update(problem, state, chunk._replace(order=order))
    return state


def shards(solver, problem):
    """(base, states of two shards that started from it)."""
    first, *rest = CUTS
    base = learned(solver, problem, first)
    return base, [learned(solver, problem, first, order) for order in rest]


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize(
    ("solver", "penalty"),
    [
        (Pegasos(3), L2(0.1)),
        (Pegasos(3), WeightedL2(np.linspace(0.5, 2.0, 12), 0.1)),
        (DropoutPegasos(3), L2(0.1)),
        (FOBOS(ROOT, 3), L1(0.01)),
        (TruncatedGradient(ROOT, every=3), L1(0.01)),
        (SGD(ROOT, average_from=None), L2(0.1)),
        (AveragedSGD(eta0=0.2, every=16), L2(0.1)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_of_averaging_solvers_are_the_weighted_mean(solver, penalty):
    problem = Problem(Logistic(), penalty, 12)
    base, states = shards(solver, problem)
    (a, b), (c, d) = (solver.finish(problem, state) for state in states)
    merged = solver.merge(problem, states, base, [1.0, 3.0])
    close(solver.finish(problem, merged), ((a + 3 * c) / 4, (b + 3 * d) / 4))
    assert states[0].step <= merged.step <= states[1].step or merged.step == states[0].step


def test_dual_averaging_merges_to_the_mean_gradient_by_the_clock_of_a_shard():
    problem = Problem(Logistic(), L1(0.01), 12, fit_intercept=False)
    solver = RDA(gamma=2.0, batch=3)
    base, (a, b) = shards(solver, problem)
    merged = solver.merge(problem, [a, b], base, [70.0, 70.0])
    g, t = (a.gradient + b.gradient) / 2, round((a.step + b.step) / 2)
    coef, _ = solver.finish(problem, merged)
    np.testing.assert_allclose(coef, -math.sqrt(t) / 2.0 * soft(g / t, 0.01), atol=1e-12)
    assert merged.seen == 200
    assert merged.paid == pytest.approx(a.paid + b.paid - base.paid)


@pytest.mark.parametrize("solver", [SGD(ROOT), ASSET(theta=0.1, box=3.0)], ids=repr)
def test_merged_averages_are_those_of_the_mean_path(solver):
    """Two shards of equally many steps: average w_t over the shards, then over t."""
    problem = Problem(Hinge(), L2(0.1), 12)
    solver, problem = solver.prepare(problem, CHUNK)
    base, states = shards(solver, problem)
    merged = solver.merge(problem, states, base, [1.0, 3.0])
    sums, steps = [], []
    for order in CUTS[1:]:
        state, total, mass = solver.init(problem), np.zeros(12), 0.0
        before = state
        for i in np.concatenate([CUTS[0], order]):
            before = solver.copy(state)
            state = solver.update(problem, state, CHUNK._replace(order=np.array([i], np.uint32)))
            eta = weight_of_average(state) - weight_of_average(before)
            total, mass = total + eta * state.scale * state.direction, mass + eta
        sums.append(total)
        steps.append(mass)
    wanted = (sums[0] + 3 * sums[1]) / (steps[0] + 3 * steps[1])
    np.testing.assert_allclose(solver.finish(problem, merged)[0], wanted, atol=1e-9)


def weight_of_average(state):
    return state.total if hasattr(state, "total") else state.steps_sum


@pytest.mark.parametrize("k", [1, 2, 3])
def test_normal_equations_of_shards_are_those_of_all_rows(k):
    problem, solver = Problem(LeastSquares(), L2(0.02), 12), DirectLeastSquares()
    weight = np.linspace(0.2, 3.0, 200)
    chunk = chunk_of(X, Y, weight=weight)
    first, rest = np.split(chunk.order, [50])
    base = learned(solver, problem, first, chunk=chunk)
    parts = np.array_split(rest, k)
    states = [learned(solver, problem, first, order, chunk=chunk) for order in parts]
    masses = [chunk.weight[order].sum() for order in parts]
    merged = solver.merge(problem, states, base, masses)
    whole = learned(solver, problem, chunk.order, chunk=chunk)
    np.testing.assert_allclose(merged.gram, whole.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(merged.moments, whole.moments, rtol=1e-9, atol=1e-9)
    assert merged.mass == pytest.approx(whole.mass)
    assert merged.step == 200
    close(solver.finish(problem, merged), solver.finish(problem, whole))


def test_weights_of_normal_equations_weigh_the_shards():
    """A shard of twice the weight counts as if its rows were there twice."""
    problem, solver = Problem(LeastSquares(), L2(0.0), 12), DirectLeastSquares()
    a, b = CHUNK.order[:100], CHUNK.order[100:]
    base, states = solver.init(problem), [learned(solver, problem, order) for order in (a, b)]
    merged = solver.merge(problem, states, base, [1.0, 2.0])
    twice = learned(solver, problem, a, b, b)
    close(solver.finish(problem, merged), solver.finish(problem, twice))


@pytest.mark.parametrize("average_weights", [True, False])
@pytest.mark.parametrize("variant", ["l1", "thesis", "literal"])
def test_reweighted_sums_are_brought_up_to_date(average_weights, variant):
    """The weights follow from g and the Thetas of all steps, zeros that waited included."""
    if variant == "l1":
        solver = ReweightedL1(gamma=2.0, average_weights=average_weights)
    else:
        solver = ReweightedL2(0.1, variant=variant, gamma=1.0, average_weights=average_weights)
    problem = Problem(Logistic(), L1(0.01), 12)
    check_solver(solver, penalty=problem.penalty)
    base, states = shards(solver, problem)
    merged = solver.merge(problem, states, base, [70.0, 70.0])
    rule, at_zero = solver.rule(problem), 1.0 / solver.epsilon
    full = [s.thetas + (s.step - s.since) * at_zero for s in (base, *states)]
    thetas, g = (full[1] + full[2]) / 2, sum(s.gradient for s in states) / 2
    np.testing.assert_allclose(merged.thetas, thetas)
    if average_weights:
        t = merged.step
        wanted = [rule.weight(*pair, 0.0, t) for pair in zip(g / t, thetas / t, strict=True)]
        np.testing.assert_allclose(merged.w, wanted, atol=1e-12)
    active = merged.active[: merged.n_active]
    np.testing.assert_array_equal(np.sort(active), np.flatnonzero(merged.w))
    np.testing.assert_array_equal(merged.place[active], np.arange(active.size))


@pytest.mark.parametrize(
    ("solver", "penalty"),
    [
        (SGD(ROOT, average_from=None), L2(0.05)),
        (SGD(ROOT, average_from=30, batch=3), L2(0.05)),
        (SGD(ROOT, batch=3), L1(0.01)),
        (FOBOS(ROOT, batch=3), ElasticNet(0.02, 0.5)),
        (FOBOS(ROOT, batch=3), WeightedL2(np.linspace(0.5, 2.0, 12), 0.02)),
        (TruncatedGradient(ROOT, every=3, ceiling=0.3), L1(0.01)),
        (RDA(gamma=2.0, rho=0.01, batch=3), ElasticNet(0.02, 0.5)),
        (Pegasos(3, project=False), L2(0.1)),
        (AveragedSGD(eta0=0.2, every=50), L2(0.01)),
    ],
    ids=repr,
)
def test_merging_with_other_settings(solver, penalty):
    check_solver(solver, penalty=penalty)


@pytest.mark.parametrize("k", [3, 20])
def test_all_classes_of_joint_solvers_are_merged(k):
    codes = np.random.default_rng(0).integers(k, size=200).astype(float)
    problem = Problem(Logistic(), L2(0.05), 12, outputs=k)
    solver, chunk = AveragedSGD(eta0=0.2, every=16), chunk_of(X, codes)
    base = learned(solver, problem, CUTS[0], chunk=chunk)
    states = [learned(solver, problem, CUTS[0], order, chunk=chunk) for order in CUTS[1:]]
    (a, b), (c, d) = (solver.finish(problem, state) for state in states)
    coef, bias = solver.finish(problem, solver.merge(problem, states, base, [1.0, 3.0]))
    np.testing.assert_allclose(coef, (a + 3 * c) / 4, rtol=1e-12)
    np.testing.assert_allclose(bias, (b + 3 * d) / 4, rtol=1e-12)


def test_a_shard_without_a_snapshot_lends_its_iterate():
    problem, solver = Problem(Logistic(), L2(0.05), 12), AveragedSGD(eta0=0.2, every=16)
    base = solver.init(problem)
    states = [learned(solver, problem, CHUNK.order[:5]), learned(solver, problem, CHUNK.order[5:])]
    assert [bool(s.snapshots) for s in states] == [False, True]
    models = [solver.finish(problem, state) for state in states]
    merged = solver.merge(problem, states, base, [0.5, 0.5])
    close(
        solver.finish(problem, merged),
        tuple((first + second) / 2 for first, second in zip(*models, strict=True)),
    )


# ---------------------------------------------------------------- what cannot be merged


@pytest.mark.parametrize(
    "solver",
    [Newton(), SmoothedNewton(), ProximalNewton(), QuasiNewton(), DualDescent()],
    ids=lambda solver: type(solver).__name__,
)
def test_batch_solvers_say_that_they_need_all_rows(solver):
    problem = Problem(Hinge(), L2(0.1), 12)
    with pytest.raises(NotImplementedError, match="batch solver, whose updates need all rows"):
        solver.merge(problem, [], None, [])


def test_every_streaming_solver_can_be_merged():
    ready = {name: READY[name].prepare(Problem(Logistic(), L2(0.1), 12), CHUNK)[0]
             for name in SOLVERS if READY[name].streaming}  # fmt: skip
    assert all(type(solver).merge is not Solver.merge for solver in ready.values())


@pytest.mark.parametrize(
    ("weights", "message"),
    [([1.0], "2 states to merge, but 1 weights"), ([1.0, -1.0], "at least 0"),
     ([1.0, math.nan], "at least 0"), ([1.0, math.inf], "finite")],
)  # fmt: skip
def test_weights_that_are_no_masses_are_refused(weights, message):
    solver, problem = Pegasos(), Problem(Logistic(), L2(0.1), 12)
    state = solver.init(problem)
    with pytest.raises(ValueError, match=message):
        solver.merge(problem, [state, state], state, weights)


# ------------------------------------------------ deliberately wrong merges must not pass


def ignores_weights(cls, solver, problem, states, base, weights):
    return cls.merge(solver, problem, states, base, [1.0] * len(states))


def weighs_but_for_zero(cls, solver, problem, states, base, weights):
    return cls.merge(solver, problem, states, base, [float(weight > 0.0) for weight in weights])


def counts_the_base_twice(cls, solver, problem, states, base, weights):
    if "step" in solver.sum_fields:
        nothing = solver.init(problem)
        return cls.merge(solver, problem, states, nothing, weights)
    return cls.merge(solver, problem, [*states, base], base, [*weights, max(weights)])


def returns_the_first(cls, solver, problem, states, base, weights):
    return solver.copy(states[0])


def forgets_the_counters(cls, solver, problem, states, base, weights):
    merged = cls.merge(solver, problem, states, base, weights)
    return merged._replace(step=base.step)


def forgets_the_accounts(cls, solver, problem, states, base, weights):
    merged = cls.merge(solver, problem, states, base, weights)
    return merged._replace(seen=max(s.seen for s in states))


def adds_iterates(cls, solver, problem, states, base, weights):
    merged = cls.merge(solver, problem, states, base, weights)
    if isinstance(solver, DirectLeastSquares):
        return merged._replace(moments=sum(s.moments for s in states))
    return merged._replace(**{merged._fields[0]: sum(s[0] for s in states)})


def hands_out_its_parts(cls, solver, problem, states, base, weights):
    merged = cls.merge(solver, problem, states, base, weights)
    return states[0] if len(states) == 1 else merged._replace(**{merged._fields[0]: states[0][0]})


WRONG = [
    (cls, wrong)
    for cls in (Pegasos, FOBOS, RDA, AveragedSGD, DropoutPegasos, SGD, ReweightedL1, ASSET,
                DirectLeastSquares)
    for wrong in (ignores_weights, counts_the_base_twice, returns_the_first, forgets_the_counters,
                  adds_iterates, hands_out_its_parts)
]  # fmt: skip
WRONG += [(cls, weighs_but_for_zero) for cls in (Pegasos, FOBOS, AveragedSGD, SGD, ASSET)]
WRONG += [(cls, forgets_the_accounts) for cls in (Pegasos, FOBOS, RDA, SGD, ReweightedL1)]


def mutant(cls, wrong):
    """The tested solver of this class with another merge."""
    ready = next(solver for solver in READY.values() if type(solver) is cls)
    changed = {"merge": lambda self, *arguments: wrong(cls, self, *arguments)}
    kind = dataclass(frozen=True)(type(f"Wrong{cls.__name__}", (cls,), changed))
    return kind(**{name: getattr(ready, name) for name in kind.__dataclass_fields__})


@pytest.mark.parametrize(
    ("cls", "wrong"), WRONG, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_check_solver_rejects_a_merge_that(cls, wrong):
    with pytest.raises(AssertionError, match=r"merging|shard|merge|weight|memory|order"):
        check_solver(mutant(cls, wrong))


def test_check_solver_accepts_the_mutants_unchanged():
    def right(cls, *arguments):
        return cls.merge(*arguments)

    for cls in {cls for cls, _ in WRONG}:
        check_solver(mutant(cls, right))


@dataclass(frozen=True)
class Leaky(Pegasos):
    def copy(self, state):
        return state


def test_check_solver_rejects_a_copy_that_shares_memory():
    with pytest.raises(AssertionError, match="copy shares memory"):
        check_solver(Leaky())
