"""Penalties over groups of features, and the solvers that take or refuse them."""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from conftest import READY, batches, chunk_of, feed, make_data, soft, visits
from thresher.losses import Hinge, LeastSquares, Logistic
from thresher.penalties import (
    L1,
    GroupL2,
    GroupPenalty,
    SparseGroupL2,
    evaluate,
    strengthened,
)
from thresher.schedules import InverseRoot
from thresher.solvers import FOBOS, RDA, AdaptiveRDA, Problem, ProximalNewton, driver
from thresher.solvers.auto import choose_solver, choose_stream_solver
from thresher.solvers.base import check_compatible
from thresher.testing import check_penalty, check_solver

OVERLAPPING = [[0, 1, 2], [2, 3], [3, 4, 5, 6], [6, 7], [7, 8, 9, 0], [10, 11]]
GROUPS = np.array([2, 0, 0, 1, 2, 1, 1, 3, 0, 3, 2, 1])

PENALTIES = [
    GroupL2(GROUPS, 0.01, elastic=0.2),
    SparseGroupL2(GROUPS, 0.01, 0.5),
    GroupL2(OVERLAPPING, 0.01),
]


def shrink(v, pull):
    norm = np.linalg.norm(v)
    return v * (1.0 - pull / norm) if norm > pull else 0.0 * v


def prox(penalty, v, step):
    """The proximal map of a whole vector, group by group."""
    w = np.empty_like(v)
    for g in range(penalty.pointers.size - 1):
        places = penalty.order[penalty.pointers[g] : penalty.pointers[g + 1]]
        out = np.empty(places.size)
        penalty.prox_block(v[places], step, g, out)
        w[places] = out
    return w


# ---------------------------------------------------------------- the penalty


def test_values_and_maps_worked_by_hand():
    penalty = GroupL2(np.array([0, 1, 0, 1, 1]), 0.5)
    w = np.array([3.0, 1.0, -4.0, 2.0, 2.0])
    assert evaluate(penalty, w) == pytest.approx(0.5 * (math.sqrt(2) * 5 + math.sqrt(3) * 3))
    got = prox(penalty, w, 2.0)
    assert_allclose(got[[0, 2]], shrink(w[[0, 2]], math.sqrt(2)))
    assert_allclose(got[[1, 3, 4]], shrink(w[[1, 3, 4]], math.sqrt(3)))
    assert_array_equal(prox(penalty, w, 100.0), 0.0)


def test_groups_of_one_feature_are_the_l1_penalty():
    one, l1, w = GroupL2(np.arange(12), 0.4), L1(0.4), np.random.default_rng(0).normal(size=12)
    assert evaluate(one, w) == pytest.approx(evaluate(l1, w))
    assert_allclose(prox(one, w, 0.7), [l1.prox(x, 0.7, 0) for x in w], atol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [GROUPS * 10 - 7, GROUPS.astype(float), [f"g{g}" for g in GROUPS], GROUPS.astype(np.int32)],
)
def test_any_labels_will_do(labels):
    penalty = GroupL2(labels)
    assert_array_equal(penalty.groups, GROUPS)
    assert penalty.groups.dtype == np.int64
    assert_array_equal(penalty.groups[penalty.order], np.sort(GROUPS))
    assert_array_equal(penalty.pointers, [0, 3, 7, 10, 12])


@pytest.mark.parametrize("seed", range(3))
def test_the_map_is_the_minimiser_a_conic_solver_finds(seed):
    """Over (u, t): sum_g weight_g t_g + |u - v|^2 / (2 step) with |u_g| <= t_g."""
    import clarabel

    rng = np.random.default_rng(seed)
    penalty, step, v = GroupL2(GROUPS, 1.1), 0.9, rng.normal(0.0, 1.5, 12)
    sizes = np.diff(penalty.pointers)
    P = sparse.block_diag([sparse.eye_array(12) / step, sparse.csc_array((4, 4))], format="csc")
    q = np.concatenate([-v / step, 1.1 * np.sqrt(sizes)])
    blocks, cones = [], []
    for g, size in enumerate(sizes):
        block = np.zeros((size + 1, 16))
        block[0, 12 + g] = -1.0
        block[
            1 + np.arange(size), penalty.order[penalty.pointers[g] : penalty.pointers[g + 1]]
        ] = -1
        blocks.append(block)
        cones.append(clarabel.SecondOrderConeT(size + 1))
    A = sparse.csc_array(np.vstack(blocks))
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(P, q, A, np.zeros(A.shape[0]), cones, options).solve()
    got = prox(penalty, v, step)
    assert_allclose(got, solution.x[:12], atol=1e-6)
    assert 0 < np.count_nonzero(got) < 12


@pytest.mark.parametrize("groups", [np.ones((2, 2)), [], [0.0, math.nan]])
def test_labels_that_are_none_are_refused(groups):
    with pytest.raises(ValueError, match="GroupL2: groups must be"):
        GroupL2(groups)


def test_it_is_a_value_like_other_terms():
    penalty = GroupL2([1, 0, 1], 0.3)
    for other in (pickle.loads(pickle.dumps(penalty)), clone(penalty, safe=False)):
        assert_array_equal(other.groups, penalty.groups)
        assert_array_equal(other.order, penalty.order)
        assert other.strength == 0.3
    fields = {"groups", "strength", "weights", "elastic", "shared", "members", "names"}
    assert penalty.get_params().keys() == fields
    stronger = strengthened(penalty, 2.0)
    assert stronger.strength == 0.6
    assert_array_equal(stronger.pointers, penalty.pointers)


# ------------------------------------------------ deliberately wrong penalties must not pass


def no_minimiser(self, v, step, group, out):
    out[:] = v / (1.0 + step)


def shrinks_coordinates(self, v, step, group, out):
    out[:] = soft(v, step * self.weight(group))


def ignores_the_step(self, v, step, group, out):
    out[:] = shrink(v, self.weight(group))


def moves_zero(self, v, step, group, out):
    out[:] = shrink(v, step * self.weight(group)) + 1.0


def clobbers_its_input(self, v, step, group, out):
    out[:] = 0.0
    out[:] = shrink(v, step * self.weight(group))


def forgets_the_size(self, w, group):
    return self.strength * math.sqrt(float(w @ w))


def not_convex(self, w, group):
    return self.weight(group) * float(np.sum(np.sqrt(np.abs(w))))


def too_large_a_weight(self, group):
    return 2.0 * self.strength * self.factors[group]


def by_factors(self, w, group):
    return self.strength * self.factors[group] * math.sqrt(float(w @ w))


def shrinks_by_factors(self, v, step, group, out):
    out[:] = shrink(v, step * self.strength * self.factors[group])


def half_as_much(self, w, group):
    norm = math.sqrt(float(w @ w))
    return self.weight(group) * norm + 0.1 * norm**2


def shrinks_half(self, v, step, group, out):
    out[:] = shrink(v, step * self.weight(group)) / (1.0 + 0.2 * step)


MUTANTS = [
    ({"prox_block": no_minimiser}, "not the minimiser"),
    ({"prox_block": shrinks_coordinates}, "not the minimiser"),
    ({"prox_block": ignores_the_step}, "not the minimiser"),
    ({"prox_block": moves_zero}, "moves zero"),
    ({"prox_block": clobbers_its_input}, "in place"),
    ({"value_block": forgets_the_size}, "not the minimiser"),
    ({"value_block": not_convex}, "not convex"),
    ({"prox": lambda self, w, step, j: w}, "offers prox of one coordinate"),
    ({"prox_block": None}, "has no prox_block"),
    (
        {"weight": too_large_a_weight, "value_block": by_factors, "prox_block": shrinks_by_factors},
        "at least weight",
    ),
    ({"value_block": half_as_much, "prox_block": shrinks_half}, "radial, but"),
]


@pytest.mark.parametrize(("changed", "message"), MUTANTS)
def test_check_penalty_rejects(changed, message):
    kind = dataclass(frozen=True, eq=False)(type("Mutant", (GroupL2,), changed))
    with pytest.raises(AssertionError, match=message):
        check_penalty(kind(np.array([0, 1, 0, 1, 1]), 0.7))


@dataclass(frozen=True, eq=False)
class Scrambled(GroupL2):
    def __post_init__(self):
        self._lay_out()
        object.__setattr__(self, "order", np.arange(self.groups.size))


def test_check_penalty_rejects_an_order_that_does_not_gather_the_groups():
    with pytest.raises(AssertionError, match="do not gather"):
        check_penalty(Scrambled(np.array([0, 1, 0])))


@dataclass(frozen=True, eq=False)
class Own(GroupPenalty):
    """A penalty of one's own over groups: strength sum_g (sqrt(size) ||w_g|| + ratio ||w_g||_1)."""

    groups: np.ndarray
    strength: float = 1.0
    ratio: float = 0.5

    def __post_init__(self):
        self._lay_out()

    def weight(self, group):
        return self.strength * math.sqrt(self.pointers[group + 1] - self.pointers[group])

    def value_block(self, w, group):
        square, total = 0.0, 0.0
        for k in range(w.size):
            square += w[k] * w[k]
            total += abs(w[k])
        return self.weight(group) * math.sqrt(square) + self.strength * self.ratio * total

    def prox_block(self, v, step, group, out):
        square = 0.0
        for k in range(v.size):
            left = max(abs(v[k]) - step * self.strength * self.ratio, 0.0)
            out[k] = math.copysign(left, v[k])
            square += left * left
        norm, pull = math.sqrt(square), step * self.weight(group)
        factor = 1.0 - pull / norm if norm > pull else 0.0
        for k in range(v.size):
            out[k] *= factor


def test_the_next_group_penalty_is_only_a_class():
    check_penalty(Own(GROUPS, 0.6, 0.4))


# ---------------------------------------------------------------- dual averaging


def group_rda(X, y, order, batch, penalty, gamma, rho, growth):
    """DA-GL and DA-ESGL straight from the table of closed forms, all groups at every step."""
    gradient, bias_gradient = np.zeros(X.shape[1]), 0.0
    w, bias = np.zeros(X.shape[1]), 0.0
    for t, rows in batches(order, batch):
        p = X[rows] @ w + bias
        slopes = -y[rows] / (1.0 + np.exp(y[rows] * p)) / rows.size
        gradient, bias_gradient = gradient + X[rows].T @ slopes, bias_gradient + slopes.sum()
        beta = gamma * (math.sqrt(t) if growth == "root" else 1.0 + math.log(t))
        for g in np.unique(penalty.groups):
            places = penalty.groups == g
            c = soft(gradient[places] / t, beta / t * rho)
            w[places] = -t / beta * shrink(c, penalty.strength * math.sqrt(places.sum()))
        bias = -bias_gradient / beta
    return w, bias


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(("batch", "rho", "growth"), [(1, 0.0, "root"), (3, 0.02, "root"),
                                                      (4, 0.0, "log")])  # fmt: skip
def test_rda_over_groups_is_the_closed_form(layout, batch, rho, growth):
    X, y = make_data()
    X = X * (np.random.default_rng(1).uniform(size=X.shape) < 0.4)
    penalty, order = GroupL2(GROUPS, 0.03), visits(200, 2)
    problem = Problem(Logistic(), penalty, 12)
    coef, bias = feed(RDA(2.0, rho, growth, batch), problem, chunk_of(X, y, layout), order)
    wanted, wanted_bias = group_rda(X, y, order, batch, penalty, 2.0, rho, growth)
    assert_allclose(coef, wanted, atol=1e-12)
    assert bias == pytest.approx(wanted_bias, abs=1e-12)


def test_rda_over_groups_of_one_is_the_l1_method():
    X, y = make_data()
    chunk, order = chunk_of(X, y), visits(200, 2)
    both = [
        feed(RDA(2.0, batch=3), Problem(Logistic(), penalty, 12), chunk, order)
        for penalty in (L1(0.05), GroupL2(np.arange(12), 0.05))
    ]
    assert_allclose(both[1][0], both[0][0], atol=1e-12)
    assert_array_equal(both[1][0] == 0.0, both[0][0] == 0.0)
    assert 0 < np.count_nonzero(both[0][0]) < 12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rda_over_groups_is_a_state_and_an_update(dtype):
    check_solver(RDA(gamma=2.0, batch=3), penalty=GroupL2(GROUPS, 0.01), dtype=dtype)
    check_solver(RDA(gamma=2.0), penalty=Own(GROUPS, 0.01), dtype=dtype)


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("solver", [AdaptiveRDA(1.0), FOBOS(InverseRoot(0.5), batch=3)])
def test_solvers_over_groups_are_a_state_and_an_update(solver, penalty):
    check_solver(solver, penalty=penalty)


def test_rda_over_groups_reaches_the_batch_optimum():
    """Proximal gradient steps with all rows, until nothing moves, are the reference."""
    X, y = make_data()
    penalty = GroupL2(GROUPS, 0.06)
    problem, chunk = Problem(Logistic(), penalty, 12, fit_intercept=False), chunk_of(X, y)
    step, w = 4.0 / np.linalg.norm(X, 2) ** 2 * 200, np.zeros(12)
    for _ in range(5000):
        slopes = -y / (1.0 + np.exp(y * (X @ w)))
        w = prox(penalty, w - step * X.T @ slopes / 200, step)
    best = driver.objective(problem, chunk, w, 0.0)
    result = driver.learn(RDA(), problem, chunk, driver.Plan(200))
    found = driver.objective(problem, chunk, result.coef, result.intercept)
    assert best - 1e-9 <= found <= best * 1.002
    off = [g for g in range(4) if not np.any(w[g == GROUPS])]
    assert 0 < len(off) < 4
    assert [g for g in range(4) if not np.any(result.coef[g == GROUPS])] == off


def test_three_of_twenty_groups_are_found():
    """The acceptance run of the tutorial's section 4.1, with fewer rows."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 5)
    truth = np.where(groups < 3, rng.normal(size=100), 0.0)
    X = rng.normal(size=(4000, 100))
    y = np.where(rng.uniform(size=4000) < 1.0 / (1.0 + np.exp(-X @ truth)), 1.0, -1.0)
    problem = Problem(Logistic(), GroupL2(groups, 0.02), 100, fit_intercept=False)
    coef, _ = feed(RDA(gamma=0.5), problem, chunk_of(X, y), visits(4000, 1))
    assert {int(g) for g in groups[coef != 0.0]} == {0, 1, 2}
    assert all(np.all(coef[groups == g] != 0.0) for g in range(3))


# ---------------------------------------------------------------- who takes them


TAKES = {"adaptive_rda", "fobos", "lps", "proximal_newton", "rda", "rda_plus"}


@pytest.mark.parametrize("name", READY)
def test_solvers_take_groups_or_say_what_is_missing(name):
    solver = READY[name]
    straight = dict.fromkeys(["smoothed_newton", "cutting_plane", "ocas", "mcpa"], Hinge())
    loss = {**straight, "least_squares": LeastSquares()}.get(name, Logistic())
    problem = Problem(loss, GroupL2(GROUPS, 0.01), 12)
    if name in TAKES:
        check_compatible(solver, problem)
        return
    usual = r"does not take GroupL2, a penalty over groups; these do: (.*)"
    with pytest.raises(ValueError, match=rf"{usual}|bring their own penalty") as raised:
        check_compatible(solver, problem)
    named = str(raised.value).partition("these do: ")[2]
    assert set(named.split(", ")) <= TAKES | {""}
    for other in filter(None, named.split(", ")):
        check_compatible(READY[other], problem)


def test_the_number_of_labels_must_be_that_of_the_features():
    problem = Problem(Logistic(), GroupL2([0, 0, 1]), 12)
    with pytest.raises(ValueError, match="GroupL2 has 3 labels of groups, but the data has 12"):
        check_compatible(RDA(), problem)


def test_auto_chooses_a_solver_that_takes_groups():
    for loss, solver in ((Logistic(), ProximalNewton()), (Hinge(), RDA())):
        assert choose_solver(loss, GroupL2(GROUPS), (100, 12), 1200, exact=True) == solver
    joined = GroupL2(GROUPS, shared=True)
    assert choose_solver(Logistic(), joined, (100, 12), 1200, exact=True) == RDA()
    assert choose_stream_solver(GroupL2(GROUPS)) == RDA()
