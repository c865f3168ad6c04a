"""Streams, the loop over passes, and patience: the same for every solver and every source."""

import math
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

from conftest import READY, chunk_of, make_data, make_penalty
from thresher.functions import LinearFunction
from thresher.kernels import RBF
from thresher.losses import Hinge, LeastSquares, Logistic, SquaredHinge
from thresher.penalties import L2
from thresher.solvers import Problem, Solver, Status, driver
from thresher.solvers.budgeted import Budgeted
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.driver import Patience, Plan, run
from thresher.solvers.hyperplanes import Hyperplanes
from thresher.solvers.stream import Facts, Stream, open_streams, signs

X, Y = make_data(n=90, d=12, seed=2)
CODES = np.digitize(X[:, 1] - X[:, 3], [-0.3, 0.3]).astype(float)
THREE = chunk_of(X, CODES)
PARTS = np.array_split(np.arange(90, dtype=np.uint32), [30, 36, 66])  # at seams of 2 and 3 rows


def pieces(chunk):
    return [chunk._replace(order=part) for part in PARTS]


# ---------------------------------------------------------------- streams

STREAMING = {name: solver for name, solver in READY.items() if solver.streaming}


def problem_for(name, solver, outputs):
    loss = LeastSquares() if name == "least_squares" else Logistic()
    if "kinks" in solver.loss_needs:
        loss = Hinge()
    return Problem(loss, make_penalty(solver.default_penalty, 12), 12, outputs=outputs)


@pytest.mark.parametrize("name", STREAMING)
@pytest.mark.parametrize("facts", [Facts(), Facts(rows=90, mass=90.0, visits=180)])
def test_one_learner_per_class_is_as_good_as_each_by_itself(name, facts):
    solver = STREAMING[name]
    streams = open_streams(problem_for(name, solver, 3), solver, THREE, facts)
    alone = []
    for c in range(3):
        mine = THREE._replace(y=signs(CODES, c))
        np.testing.assert_array_equal(mine.y, 2.0 * (c == CODES) - 1.0)
        alone.append(Stream.open(problem_for(name, solver, 1), solver, mine, facts))
    for k, chunk in enumerate(pieces(THREE)):
        for learner in (streams, *alone):
            learner.between(None, k, 4)
        streams.update(chunk)
        for c, one in enumerate(alone):
            one.update(chunk._replace(y=signs(CODES, c)))
    found, wanted = streams.function(), LinearFunction.stacked([s.function() for s in alone])
    tol = 0.0
    if solver.joint:  # with a plan, one that learns by itself predicts some rows ahead
        tol = 1e-9 if facts.visits is None else 0.05
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=0.0, atol=tol)
    np.testing.assert_allclose(found.intercept, wanted.intercept, rtol=0.0, atol=tol)
    assert np.any(found.coef)
    assert not np.any(streams.nothing().coef)
    assert streams.problem.outputs == 3
    assert streams.step == alone[0].step
    if not solver.joint:
        before = streams.nothing()
        each = [one.residual(one.nothing(), one.function()) for one in alone]
        assert streams.residual(before, found) == pytest.approx(max(each), nan_ok=True)


def test_streams_are_done_when_all_are():
    @dataclass(frozen=True)
    class Easy(Counting):
        """Done where class 0 is learned, or after three passes."""

        def update(self, problem, state, chunk):
            first = bool(np.array_equal(chunk.y, signs(CODES, 0)))
            return super().update(problem, state, chunk)._replace(done=first or state.step >= 2)

        def is_done(self, problem, state, residual):
            return state.done

    streams = open_streams(Problem(Logistic(), L2(0.1), 12, outputs=3), Easy(), THREE, Facts())
    done = []
    for _ in range(3):
        streams.update(THREE)
        done.append((streams.is_done(0.0), [part.is_done(0.0) for part in streams.parts]))
    assert done == [(False, [True, False, False])] * 2 + [(True, [True] * 3)]


NONLINEAR = {
    "budgeted": (Budgeted(RBF(0.1), budget=10), Problem(Hinge(), L2(0.01), 12, outputs=3)),
    "hyperplanes": (Hyperplanes(cap=5), Problem(Hinge(), L2(0.01), 12, outputs=3)),
    "confidence": (DiagonalConfidence(), Problem(SquaredHinge(), L2(0.01), 12, outputs=3)),
}
EVERY = {name: (solver, problem_for(name, solver, 3)) for name, solver in STREAMING.items()}
EVERY |= NONLINEAR


@pytest.mark.parametrize("name", EVERY)
def test_a_stream_that_is_written_down_goes_on_as_if_nothing_had_happened(name):
    solver, problem = EVERY[name]
    stream, other = (open_streams(problem, solver, THREE, Facts()) for _ in range(2))
    rows = np.random.default_rng(1).normal(size=(9, 12))
    for chunk in pieces(THREE):
        stream.update(chunk)
        other = pickle.loads(pickle.dumps(other))
        other.check(12, 3)
        other.update(chunk)
    np.testing.assert_array_equal(other.function().scores(rows), stream.function().scores(rows))
    assert other.step == stream.step
    for features, outputs in ((11, 3), (12, 2), (12, 4)):
        with pytest.raises(ValueError, match=r"other features or classes|learners for"):
            other.check(features, outputs)


@pytest.mark.parametrize("name", EVERY)
def test_a_damaged_state_is_refused(name):
    solver, problem = EVERY[name]
    stream = open_streams(problem, solver, THREE, Facts())
    part = stream.parts[0]
    part.state = part.solver.init(Problem(problem.loss, L2(0.01), 7, outputs=part.problem.outputs))
    with pytest.raises(ValueError, match="state"):
        stream.check(12, 3)
    part.state = None
    with pytest.raises(ValueError, match="state"):
        stream.check(12, 3)


# ---------------------------------------------------------------- the loop


class Count(NamedTuple):
    step: int
    value: float
    done: bool = False


@dataclass(frozen=True)
class Counting(Solver):
    """All weights are the number of updates, NaN from update ``bad`` on; keeps a diary."""

    bad: float = math.inf
    diary: list[Any] = field(default_factory=list, compare=False)

    def init(self, problem, chunk=None):
        return Count(0, 0.0)

    def update(self, problem, state, chunk):
        step = state.step + 1
        self.diary.append(("update", step))
        return Count(step, float(step) if step < self.bad else math.nan, state.done)

    def between(self, problem, state, chunk, done, planned):
        self.diary.append(("between", done, planned, chunk is not None))
        return state

    def finish(self, problem, state):
        return LinearFunction(np.full(problem.n_features, state.value), 0.0)


def counting(bad=math.inf, tol=None, solver=Counting):
    problem = Problem(Logistic(), L2(0.1), 12, tol=tol)
    return Stream.open(problem, solver(bad), THREE, Facts())


def passes(count, chunks=1):
    return [[THREE] * chunks] * count


def value_of(outcome):
    (value,) = set(outcome.function.coef.tolist())
    return value


def test_passes_end_where_they_were_planned_to():
    stream = counting()
    outcome = run(stream, passes(4, chunks=3), 4, chunk=THREE)
    assert value_of(outcome) == stream.step == 12
    assert (outcome.status, outcome.passes) == (Status.COMPLETED, 4)
    assert outcome.residual == pytest.approx(3 / 12)
    between = [entry for entry in stream.solver.diary if entry[0] == "between"]
    assert between == [("between", k, 4, True) for k in range(4)]


def test_without_a_plan_every_pass_may_be_followed_by_another():
    stream = counting()
    run(stream, passes(3), None)
    told = [("between", 0), ("update", 1), ("between", 1), ("update", 2), ("between", 2),
            ("update", 3), ("between", 3)]  # fmt: skip
    assert [entry[:2] for entry in stream.solver.diary] == told


def test_without_a_pass_there_is_what_was_known_before():
    outcome = run(counting(), [], 0)
    assert (value_of(outcome), outcome.passes, outcome.status) == (0.0, 0, Status.COMPLETED)
    assert run(counting(tol=1e-3), [], 0).status is Status.MAX_ITER


@pytest.mark.parametrize(("bad", "kept"), [(1, 0.0), (2, 0.0), (5, 4.0), (6, 4.0), (7, 6.0)])
def test_after_divergence_the_last_sound_function_stays(bad, kept):
    """Of the last pass that ended well; passes have two chunks."""
    stream, seen = counting(bad), []
    outcome = run(stream, passes(9, chunks=2), 9, monitor=lambda event: seen.append(event) and None)
    assert outcome.status is Status.DIVERGED
    assert value_of(outcome) == kept
    assert outcome.function.is_finite()
    assert outcome.passes == kept / 2 + 1  # with the one that went wrong
    assert len(stream.solver.diary) < 40  # and no other follows
    assert [event.passes for event in seen] == list(range(1, int(kept / 2) + 1))


def test_rows_in_memory_are_learned_by_the_same_loop():
    outcome = driver.learn(Counting(4), Problem(Logistic(), L2(0.1), 12), THREE, Plan(9))
    assert outcome.status is Status.DIVERGED
    np.testing.assert_array_equal(outcome.coef, np.full(12, 3.0))


def test_a_monitor_hears_of_every_pass_and_stops_the_run():
    stream, seen = counting(), []

    def monitor(event):
        seen.append(event)
        return Status.EARLY_STOPPED if event.passes == 3 else None

    outcome = run(stream, passes(9, chunks=2), 9, monitor=monitor)
    assert (outcome.status, outcome.passes) == (Status.EARLY_STOPPED, 3)
    assert value_of(outcome) == 6.0
    assert [(e.passes, e.step, e.function.coef[0]) for e in seen] == [
        (1, 2, 2),
        (2, 4, 4),
        (3, 6, 6),
    ]
    assert [e.residual for e in seen] == pytest.approx([1.0, 1 / 2, 1 / 3])


@pytest.mark.parametrize(
    ("bad", "status", "kept"), [(99, Status.INTERRUPTED, 5.0), (5, Status.DIVERGED, 3.0)]
)
def test_a_run_can_be_stopped_after_any_chunk(bad, status, kept):
    """The function is that of the moment; if it is not sound, that of the last whole pass."""
    told = []

    def after_chunk(passes):
        told.append(passes)
        return Status.INTERRUPTED if len(told) == 5 else None

    stream = counting(bad)
    outcome = run(stream, passes(9, chunks=3), 9, after_chunk=after_chunk)
    assert told == [1, 1, 1, 2, 2]  # the pass that a chunk belongs to
    assert (outcome.status, outcome.passes, value_of(outcome)) == (status, 1, kept)
    assert stream.step == 5


def test_a_run_that_goes_on_counts_the_passes_before():
    stream, seen, told = counting(), [], []
    outcome = run(
        stream, passes(2), 7, monitor=lambda event: seen.append(event.passes),
        after_chunk=lambda number: told.append(number), first=5,
    )  # fmt: skip
    assert (outcome.passes, seen, told) == (7, [6, 7], [6, 7])
    diary = [entry[:2] for entry in stream.solver.diary]
    assert diary == [("between", 5), ("update", 1), ("between", 6), ("update", 2)]


def test_a_pass_that_has_begun_is_not_begun_again():
    stream = counting()
    run(stream, passes(2), 7, first=5, begun=True)
    diary = [entry[:2] for entry in stream.solver.diary]
    assert diary == [("update", 1), ("between", 6), ("update", 2)]


def test_a_run_in_two_parts_is_one_run():
    solver, problem = READY["pegasos"], problem_for("pegasos", READY["pegasos"], 1)
    chunk = THREE._replace(y=signs(CODES, 0))
    whole = Stream.open(problem, solver, chunk, Facts())
    once = run(whole, [pieces(chunk)] * 4, 4)
    parts = Stream.open(problem, solver, chunk, Facts())
    run(parts, [pieces(chunk)], 4)
    (interrupted, *rest) = pieces(chunk), pieces(chunk), pieces(chunk)
    parts.update(interrupted[0])
    twice = run(parts, [interrupted[1:], *rest], 4, first=1, begun=True)
    assert (twice.passes, twice.status) == (once.passes, once.status)
    np.testing.assert_array_equal(twice.function.coef, once.function.coef)


@dataclass(frozen=True)
class Standing(Counting):
    """Stays at zero until update ``bad``, and at one from then on."""

    def update(self, problem, state, chunk):
        return Count(state.step + 1, float(state.step + 1 >= self.bad))


@pytest.mark.parametrize(("moves", "ended"), [(1, 2), (2, 3), (3, 2)])
def test_standing_still_at_nothing_is_convergence_only_the_second_time(moves, ended):
    outcome = run(counting(moves, tol=1e-3, solver=Standing), passes(9), 9)
    assert (outcome.status, outcome.passes) == (Status.CONVERGED, ended)


def test_passes_run_out_before_the_tolerance():
    assert run(counting(tol=1e-3), passes(3), 3).status is Status.MAX_ITER


@pytest.mark.parametrize("name", STREAMING)
def test_where_a_pass_is_cut_does_not_matter(name):
    """Rows in memory, and the same rows in pieces cut at seams."""
    solver, problem = STREAMING[name], problem_for(name, STREAMING[name], 1)
    chunk = THREE._replace(y=signs(CODES, 0))
    found = driver.learn(solver, problem, chunk, Plan(3, order="sequential")).function
    stream = Stream.open(problem, solver, chunk, Facts(90, visits=270, whole=True))
    seam = 2 * solver.seam
    cut = [chunk._replace(order=chunk.order[k : k + seam]) for k in range(0, 90, seam)]
    other = run(stream, [cut] * 3, 3, chunk=chunk)
    stream.polish(chunk)
    assert other.passes == 3 or other.status is Status.CONVERGED
    tol = 1e-9 if solver.by_blocks else 0.0
    np.testing.assert_allclose(stream.function().coef, found.coef, rtol=tol, atol=tol)


# ---------------------------------------------------------------- patience


def stopped(patience, losses):
    """(passes until it ran out or the losses ended, whether it ran out)"""
    for number, loss in enumerate(losses, start=1):
        if patience.has_run_out(loss, number, f"model {number}"):
            return number, True
    return len(losses), False


@pytest.mark.parametrize(
    ("passes", "losses", "ended", "best"),
    [
        (1, [3.0, 2.0, 1.0], (3, False), 3),  # better each time
        (1, [3.0, 2.0, 2.5, 1.0], (3, True), 2),  # the first that is worse
        (1, [3.0, 2.0, 2.0, 1.0], (3, True), 2),  # as good is not better
        (2, [3.0, 2.0, 2.0, 1.0], (4, False), 4),
        (2, [1.0, 2.0, 1.5, 0.5], (3, True), 1),  # better than the last is not enough
        (3, [5.0, 4.0, 6.0, 6.0, 3.9, 6.0, 6.0, 6.0], (8, True), 5),
        (2, [math.nan, 1.0, 2.0, 2.0], (4, True), 2),
        (1, [math.inf, math.inf], (2, True), 1),
    ],
)  # fmt: skip
def test_patience(passes, losses, ended, best):
    patience = Patience(passes)
    assert stopped(patience, losses) == ended
    assert (patience.best, patience.best_pass) == (f"model {best}", best)


def test_patience_keeps_the_first_of_equals_and_goes_on_after_a_break():
    patience = Patience(2)
    assert not patience.has_run_out(1.0, 1, "first")
    again = pickle.loads(pickle.dumps(patience))
    for one in (patience, again):
        assert not one.has_run_out(1.0, 2, "second")
        assert one.has_run_out(1.0, 3, "third")
        assert (one.best, one.loss) == ("first", 1.0)
