"""The dual solver against a conic solver, and what must not change a solution."""

from itertools import pairwise

import clarabel
import numpy as np
import pytest
from scipy import sparse

from thresher import RBF, Sigmoid
from thresher._clock import ending
from thresher.kernels.columns import GramColumns, KernelColumns, WeightedColumns
from thresher.kernels.gram import gram
from thresher.solvers import Status
from thresher.solvers._dual_choice import renew, violations
from thresher.solvers._dual_pairs import place_rows
from thresher.solvers.dual import DualProblem, solve_dual

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4))
y = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=120) > 0, 1.0, -1.0)
KERNEL = RBF(0.4)
K = gram(KERNEL, X)


def matrix(problem, K):
    """The whole Q of a problem."""
    n = problem.p.size
    rows = np.arange(n) if problem.rows is None else problem.rows
    signs = np.ones(n) if problem.signs is None else problem.signs
    block = np.zeros(n, int) if problem.block is None else problem.block
    B = np.atleast_2d(problem.coupling)
    return K[np.ix_(rows, rows)] * B[np.ix_(block, block)] * np.outer(signs, signs)


def conic(problem, K):
    """The objective that an interior point finds."""
    n, totals = problem.p.size, np.atleast_1d(problem.totals)
    group = np.zeros(n, int) if problem.group is None else problem.group
    A = sparse.csr_matrix((np.ones(n), (group, np.arange(n))), shape=(totals.size, n))
    A = sparse.vstack([A, sparse.eye(n), -sparse.eye(n)], format="csc")
    b = np.concatenate([totals, problem.upper, -problem.lower])
    cones = [clarabel.ZeroConeT(totals.size), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    Q = sparse.csc_matrix(np.triu(matrix(problem, K)))
    return clarabel.DefaultSolver(Q, problem.p, A, b, cones, settings).solve().obj_val


def classification(C=1.0, columns=None, y=y):
    columns = KernelColumns(KERNEL, X) if columns is None else columns
    return DualProblem(columns, -y, np.minimum(0.0, C * y), np.maximum(0.0, C * y))


def regression():
    n, t = 120, X[:, 0] ** 2
    C = np.full(n, 2.0)
    return DualProblem(
        KernelColumns(KERNEL, X), np.concatenate([0.1 - t, -0.1 - t]),
        np.concatenate([np.zeros(n), -C]), np.concatenate([C, np.zeros(n)]),
        rows=np.tile(np.arange(n), 2),
    )  # fmt: skip


def two_groups():
    """nu-classification, nu = 0.3."""
    return DualProblem(
        KernelColumns(KERNEL, X), np.zeros(120), np.minimum(0.0, y), np.maximum(0.0, y),
        totals=[18.0, -18.0], group=(y < 0).astype(int),
    )  # fmt: skip


def coupled():
    """One function for each of three classes, coupled by a matrix, with a sum each."""
    n, c = 120, 3
    codes = np.arange(n) % c
    M = 1.5 * np.eye(c) + np.ones((c, c))
    signs = np.concatenate([np.where(codes == j, 1.0, -1.0) for j in range(c)])
    block = np.repeat(np.arange(c), n)
    return DualProblem(
        KernelColumns(KERNEL, X), np.zeros(n * c), np.zeros(n * c), np.full(n * c, 0.05),
        totals=np.ones(c), group=block, rows=np.tile(np.arange(n), c), signs=signs, block=block,
        coupling=np.linalg.inv(M),
    )  # fmt: skip


PROBLEMS = {
    "classification": classification, "hard": lambda: classification(1000.0),
    "regression": regression, "two groups": two_groups, "coupled": coupled,
}  # fmt: skip


@pytest.mark.parametrize("working", [None, 40])
@pytest.mark.parametrize("name", PROBLEMS)
def test_it_finds_what_an_interior_point_finds(name, working):
    problem, tol = PROBLEMS[name](), 1e-6 if name == "coupled" else 1e-4
    found = solve_dual(problem, tol=tol, working=working)
    best = conic(problem, K)
    assert found.status is Status.CONVERGED
    assert found.violation <= tol
    assert abs(found.objective - best) <= 1e-4 * abs(best)
    assert found.objective - best <= found.gap + 5e-5 * abs(best)
    Q = matrix(problem, K)
    value = 0.5 * found.z @ Q @ found.z + problem.p @ found.z
    np.testing.assert_allclose(found.objective, value, rtol=5e-5)
    rounding = 1e-7 * np.abs(found.z).sum()  # of kernel values in single precision
    np.testing.assert_allclose(found.gradient, Q @ found.z + problem.p, atol=1e-5 + rounding)
    assert np.all((problem.lower <= found.z) & (found.z <= problem.upper))
    group = 0 if problem.group is None else problem.group
    sums = np.bincount(np.broadcast_to(group, found.z.shape), found.z)
    np.testing.assert_allclose(sums, problem.totals, atol=1e-9)


def test_free_variables_have_the_multiplier_for_a_gradient():
    problem = two_groups()
    found = solve_dual(problem, tol=1e-5)
    free = (problem.lower + 1e-9 < found.z) & (found.z < problem.upper - 1e-9)
    reduced = found.gradient - found.multipliers[problem.group]
    assert np.all(np.abs(reduced[free]) <= 1e-4)
    assert np.all(reduced[found.z == problem.lower] >= -1e-4)
    assert np.all(reduced[found.z == problem.upper] <= 1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_start_at_the_solution_takes_no_step(name):
    problem = PROBLEMS[name]()
    found = solve_dual(problem, tol=1e-4)
    again = solve_dual(problem, found.z, tol=2e-4)
    assert again.steps == 0
    np.testing.assert_array_equal(again.z, found.z)


def test_a_start_is_made_feasible():
    found = solve_dual(classification(), start=RNG.normal(size=120), tol=1e-4)
    np.testing.assert_allclose(found.objective, solve_dual(classification(), tol=1e-4).objective,
                               rtol=1e-5)  # fmt: skip
    assert abs(found.z.sum()) < 1e-9


def test_the_order_of_rows_does_not_matter():
    order = RNG.permutation(120)
    one = solve_dual(classification(10.0), tol=1e-5)
    other = solve_dual(classification(10.0, KernelColumns(KERNEL, X[order]), y[order]), tol=1e-5)
    np.testing.assert_allclose(one.z[order], other.z, atol=2e-3)
    np.testing.assert_allclose(one.multipliers, other.multipliers, atol=1e-4)


def test_a_bound_twice_as_wide_is_a_row_twice():
    weight = 1.0 + (np.arange(120) % 3 == 0)
    C = 0.5 * weight
    heavy = DualProblem(
        KernelColumns(KERNEL, X), -y, np.minimum(0, C * y), np.maximum(0, C * y)
    )  # fmt: skip
    twice = np.repeat(np.arange(120), weight.astype(int))
    many = classification(0.5, KernelColumns(KERNEL, X[twice]), y[twice])
    a, b = solve_dual(heavy, tol=1e-5), solve_dual(many, tol=1e-5)
    np.testing.assert_allclose(a.objective, b.objective, rtol=1e-6)
    np.testing.assert_allclose(a.multipliers, b.multipliers, atol=1e-4)


def test_layouts_sources_and_little_memory_agree():
    expected = solve_dual(classification(), tol=1e-5).objective
    sources = [
        KernelColumns(KERNEL, X, np.float64), KernelColumns(KERNEL, sparse.csr_matrix(X)),
        GramColumns(K), WeightedColumns([GramColumns(0.25 * K), GramColumns(K)], [2.0, 0.5]),
    ]  # fmt: skip
    for source in sources:
        found = solve_dual(classification(columns=source), tol=1e-5)
        np.testing.assert_allclose(found.objective, expected, rtol=1e-5)
    narrow = solve_dual(classification(), tol=1e-5, memory=3 * 480)
    np.testing.assert_allclose(narrow.objective, expected, rtol=1e-6)


def test_threads_agree():
    rows = RNG.normal(size=(3000, 3))
    labels = np.where(rows[:, 0] + RNG.normal(size=3000) > 0, 1.0, -1.0)
    problem = classification(1.0, KernelColumns(KERNEL, rows), labels)
    one, two, again = (solve_dual(problem, threads=threads) for threads in (1, 2, 2))
    np.testing.assert_allclose(one.objective, two.objective, rtol=1e-4)
    np.testing.assert_array_equal(two.z, again.z)


def test_parts_of_the_matrix_of_a_working_set_make_the_whole():
    rng = np.random.default_rng(5)
    members, slots = np.arange(64) + 10, np.arange(64)
    fresh = np.sort(rng.permutation(64)[:20])
    kernel = rng.normal(size=(200, 200)).astype(np.float32)
    kernel = kernel + kernel.T
    before = kernel[np.ix_(members, members)]
    before[fresh], before[:, fresh] = 7.0, 7.0
    for cuts in ([0, 64], [0, 23, 64]):
        Q = before.copy()
        for a, b in pairwise(cuts):
            values = kernel[np.ix_(members[fresh], members[a:b])]
            assert place_rows(
                Q, values, fresh, slots[a:b], members, np.zeros(200, np.int64), np.ones(200),
                np.ones((1, 1)), True,
            )  # fmt: skip
        np.testing.assert_array_equal(Q, kernel[np.ix_(members, members)])


@pytest.mark.parametrize("n", [2, 3, 5, 33])
def test_tiny_problems(n):
    labels = np.where(np.arange(n) % 2, 1.0, -1.0)
    problem = classification(5.0, KernelColumns(KERNEL, X[:n]), labels)
    found = solve_dual(problem, tol=1e-5)
    np.testing.assert_allclose(found.objective, conic(problem, K[:n, :n]), rtol=1e-4)


def test_copies_of_rows_with_the_same_and_with_other_labels():
    rows = np.repeat(X[:20], 3, axis=0)
    labels = np.where(np.arange(60) % 3 == 0, 1.0, -1.0)
    problem = classification(1.0, KernelColumns(KERNEL, rows), labels)
    found = solve_dual(problem, tol=1e-4)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.objective, conic(problem, gram(KERNEL, rows)), rtol=1e-4)


def test_an_indefinite_kernel_ends_at_a_stationary_point_and_says_so():
    kernel = Sigmoid(gamma=1.0, intercept=-2.0)
    found = solve_dual(classification(1.0, KernelColumns(kernel, X)), tol=1e-3)
    assert found.status is Status.CONVERGED
    assert found.negative > 0
    assert solve_dual(classification()).negative == 0


def test_what_cannot_be_is_refused():
    labels = np.array([1.0] * 5 + [-1.0] * 4)
    with pytest.raises(ValueError, match=r"group 0 must add up to 7, .* allow -4 to 5 only"):
        solve_dual(DualProblem(GramColumns(np.eye(9)), -labels, np.minimum(0, labels),
                               np.maximum(0, labels), totals=[7.0]))  # fmt: skip
    with pytest.raises(ValueError, match=r"variable 1: no number lies in 1\.0 \.\. 0\.0"):
        solve_dual(DualProblem(GramColumns(np.eye(2)), np.ones(2), np.array([0.0, 1.0]),
                               np.array([1.0, 0.0])))  # fmt: skip
    with pytest.raises(ValueError, match="rows must hold numbers from 0 to 119"):
        solve_dual(DualProblem(GramColumns(K), np.ones(2), np.zeros(2), np.ones(2),
                               rows=np.array([0, 120])))  # fmt: skip
    with pytest.raises(ValueError, match="cannot hold one kernel column"):
        solve_dual(classification(), memory=10)
    with pytest.raises(ArithmeticError, match="not finite"):
        solve_dual(classification(columns=GramColumns(np.full((120, 120), np.nan))))


def test_steps_time_and_monitors_end_it():
    problem = classification(1000.0)
    assert solve_dual(problem, working=32, max_steps=2).status is Status.MAX_ITER
    with ending(lambda: True):
        assert solve_dual(problem).status is Status.OUT_OF_TIME
    seen = []

    def stop(event):
        seen.append(event)
        return Status.INTERRUPTED if event.steps == 3 else None

    found = solve_dual(problem, working=32, monitor=stop)
    assert found.status is Status.INTERRUPTED
    assert [event.steps for event in seen] == [1, 2, 3]
    assert seen[0].objective > seen[2].objective
    assert abs(found.z.sum()) < 1e-9
    np.testing.assert_array_equal(seen[2].z, found.z)
    whole, rest = solve_dual(problem, tol=1e-4), solve_dual(problem, seen[1].z, tol=1e-4)
    np.testing.assert_allclose(rest.objective, whole.objective, rtol=5e-5)


def test_rounding_that_keeps_it_from_the_tolerance_ends_it():
    class Rough(GramColumns):
        def block(self, rows, others, out):
            super().block(rows, others, out)
            out *= 1.0 + RNG.normal(size=out.shape)

    found = solve_dual(classification(10.0, Rough(K)), tol=1e-6, working=40, max_steps=5000)
    assert found.status is Status.STALLED
    assert found.steps < 1000


def test_new_members_are_the_worst_of_either_side():
    rng = np.random.default_rng(3)
    n, room = 500, 64
    G, z = np.round(rng.normal(size=n), 1), rng.choice([0.0, 0.5, 1.0], n)  # with ties
    lower, upper, starts, seats = np.zeros(n), np.ones(n), np.array([0, n]), np.array([0, room])
    high, low = np.zeros(1), np.zeros(1)
    violations(G, z, lower, upper, starts, high, low)
    members, recent, slot_of = np.full(room, -1), np.zeros(room, np.int64), np.full(n, -1)
    held, taken, fresh = np.zeros(1, np.int64), np.zeros(n, bool), np.zeros(room, np.int64)
    count = renew(
        G, z, lower, upper, starts, seats, high, low, 1e-3, 0.5, members, slot_of, recent, held,
        taken, fresh,
    )  # fmt: skip
    chosen = members[fresh[:count]]
    assert count == np.unique(chosen).size == room // 2
    up, down = chosen[: room // 4], chosen[room // 4 :]
    assert np.all(z[up] < 1.0)
    assert np.all(z[down] > 0.0)
    np.testing.assert_array_equal(np.sort(G[up]), np.sort(G[z < 1.0])[: room // 4])
    others = (z > 0.0) & ~np.isin(np.arange(n), up)
    np.testing.assert_array_equal(np.sort(G[down]), np.sort(G[others])[-(room // 4) :])
    np.testing.assert_array_equal(slot_of[chosen], fresh[:count])
    assert not taken.any()
