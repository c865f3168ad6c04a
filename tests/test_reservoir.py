"""RDA+ in one pass: a uniform sample of the rows is kept, and phase two works on it."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from conftest import chunk_of
from thresher import load_model, train
from thresher.engines import Serial
from thresher.losses import LeastSquares, Logistic
from thresher.penalties import L1, GroupL2
from thresher.solvers import Problem, ProximalNewton, RDAPlus, driver
from thresher.solvers._reservoir import Reservoir, joined
from thresher.solvers.stream import Facts, Stream
from thresher.testing import check_solver

N, D = 600, 12
RNG = np.random.default_rng(2)
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.7)
NUMBERS = X[:, 0] * 2.0 - X[:, 1] + 0.7 + 0.5 * RNG.normal(size=N)
SIGNS = np.where(NUMBERS > 0.0, 1.0, -1.0)
WEIGHT = RNG.random(N) + 0.5
PENALTIES = {"l1": L1(0.03), "groups": GroupL2(np.arange(D) % 4, 0.03)}


def parts_of(chunk, size=100):
    n = chunk.order.size
    return [chunk._replace(order=chunk.order[k : k + size]) for k in range(0, n, size)]


def opened(problem, chunk, size, **options):
    return Stream.open(problem, RDAPlus(reservoir=size, **options), chunk, Facts(chunk.order.size))


def sample_of(chunk, size, seed=0, before=0, cut=100):
    problem = Problem(Logistic(), L1(0.1), chunk.rows.shape[1])
    sample = Reservoir.empty(problem)
    for part in parts_of(chunk, cut):
        sample = sample.with_rows(part, seed, before, size)
        before += part.order.size
    return sample


# ---------------------------------------------------------------- the sample


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_the_sample_depends_neither_on_the_cut_nor_on_the_layout(layout):
    one = sample_of(chunk_of(X, SIGNS, "dense", weight=WEIGHT), 50, cut=N)
    other = sample_of(chunk_of(X, SIGNS, layout, weight=WEIGHT), 50, cut=7)
    assert one.size == 50
    found = other.X.toarray() if layout == "csr" else other.X
    assert np.array_equal(one.numbers, other.numbers)
    assert np.array_equal(one.X, found)
    assert np.array_equal(one.y, other.y)
    place = [int(np.flatnonzero(np.all(x == X, axis=1))[0]) for x in one.X]
    np.testing.assert_allclose(one.weight, (WEIGHT / WEIGHT.mean())[place])
    assert np.array_equal(one.y, SIGNS[place])
    assert np.unique(place).size == 50


def test_every_row_is_as_likely_as_any_other_also_when_shards_are_merged():
    """Shards of different sizes that have started from a sample of the first rows."""
    rows = np.arange(60.0)[:, None] + 1.0
    alone, together, pairs = np.zeros(60), np.zeros(60), 0
    draws, size = 2000, 12
    chunk = chunk_of(rows, np.ones(60))
    a, b, c = (chunk._replace(order=part) for part in np.split(chunk.order, [15, 42]))
    for seed in range(draws):
        alone[sample_of(chunk, size, seed).X[:, 0].astype(int) - 1] += 1
        base = sample_of(a, size, seed)
        shards = [base.with_rows(part, seed, 15, size) for part in (b, c)]
        merged = joined([base, *shards], size)
        assert merged.size == size
        assert np.array_equal(joined([base, *shards[::-1]], size).X, merged.X)
        place = merged.X[:, 0].astype(int) - 1
        together[place] += 1
        pairs += np.intersect1d(place - 15, place[place >= 42] - 42).size
    for counts in (alone, together):
        assert counts.sum() == draws * size
        assert chisquare(counts).pvalue > 1e-3
    # The k-th rows of two shards are together no more often than any two rows.
    expected = 18 * draws * (size * (size - 1)) / (60 * 59)
    assert abs(pairs - expected) < 4.0 * np.sqrt(expected)


# ---------------------------------------------------------------- learning


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", PENALTIES)
def test_a_sample_of_all_rows_gives_the_optimum_in_one_pass(name, layout):
    problem = Problem(Logistic(), PENALTIES[name], D, tol=1e-9)
    chunk = chunk_of(X, SIGNS, layout, weight=WEIGHT)
    found = driver.run(opened(problem, chunk, N), [parts_of(chunk)] * 5, 5)
    best = driver.learn(ProximalNewton(), replace(problem, tol=1e-14), chunk, driver.Plan(100))
    assert (found.status.name, found.passes) == ("CONVERGED", 1)
    assert found.residual <= 1e-9
    np.testing.assert_allclose(found.coef, best.coef, atol=1e-6)
    assert found.intercept == pytest.approx(best.intercept, abs=1e-6)
    assert 0 < np.count_nonzero(found.coef) < D


def test_a_smaller_sample_gives_its_own_optimum_and_no_rows_stay():
    problem, chunk = Problem(Logistic(), L1(0.03), D, tol=1e-9), chunk_of(X, SIGNS)
    stream = opened(problem, chunk, 200)
    for part in parts_of(chunk):
        stream.update(part)
    few = stream.state.sample.chunk()
    assert few.size == 200
    stream.passed(1, 1)
    best = driver.learn(ProximalNewton(), replace(problem, tol=1e-14), few, driver.Plan(100))
    np.testing.assert_allclose(stream.function().coef, best.coef, atol=1e-6)
    assert stream.state.sample.size == 0
    stream.check(D, 1)


def test_rows_are_taken_in_the_first_pass_only_and_phase_two_waits_for_the_online_passes():
    problem, chunk = Problem(Logistic(), L1(0.03), D, tol=1e-9), chunk_of(X, SIGNS)
    stream = opened(problem, chunk, N, online_passes=3.0, tau=10**6)
    samples = []
    driver.run(
        stream, [parts_of(chunk)] * 5, 5,
        monitor=lambda event: samples.append((event.passes, event.state.sample)),
    )  # fmt: skip
    assert [passes for passes, _ in samples] == [1, 2, 3]
    assert [(s.size, s.is_open) for _, s in samples] == [(N, False), (N, False), (0, False)]


@pytest.mark.parametrize("kind", ["matrix", "pairs"])
def test_many_tasks(kind):
    rng = np.random.default_rng(0)
    Y = np.column_stack([NUMBERS, -NUMBERS, X[:, 2]]) + 0.3 * rng.normal(size=(N, 3))
    targets = np.column_stack([rng.integers(3, size=N), NUMBERS]) if kind == "pairs" else Y
    penalty = GroupL2(np.arange(D), 0.1, shared=True)
    problem = Problem(LeastSquares(), penalty, D, outputs=3, targets=kind, tol=1e-8)
    chunk = chunk_of(X, targets)
    found = driver.run(opened(problem, chunk, N), [parts_of(chunk)], 1)
    best = driver.learn(ProximalNewton(), replace(problem, tol=1e-14), chunk, driver.Plan(300))
    assert found.status.name == "CONVERGED"
    np.testing.assert_allclose(found.coef, best.coef, atol=1e-6)
    few = driver.run(opened(problem, chunk, 40), [parts_of(chunk)], 1)
    assert few.status.name == "CONVERGED"
    assert few.function.is_finite()
    if kind == "pairs":  # a task that the sample has no rows of keeps to the others' zeros
        lone = targets.copy()
        lone[:, 0] = np.where(np.arange(N) == 0, 2, np.minimum(lone[:, 0], 1))
        chunk = chunk_of(X, lone)
        few = driver.run(opened(problem, chunk, 40), [parts_of(chunk)], 1)
        assert few.function.is_finite()


def test_the_protocol_of_solvers_holds():
    check_solver(RDAPlus(gamma=2.0, batch=3, reservoir=30, in_parts=True, every=1))


@pytest.mark.parametrize("field", ["X", "y", "weight", "numbers"])
def test_a_sample_from_a_file_is_checked(field):
    problem, chunk = Problem(Logistic(), L1(0.03), D, tol=1e-9), chunk_of(X, SIGNS, "csr")
    stream = opened(problem, chunk, 20)
    stream.update(chunk)
    stream.check(D, 1)
    good = stream.state.sample
    value = getattr(good, field)
    for bad in (value[:-1], value * np.nan, value.astype(np.float32)):
        stream.state = stream.state._replace(sample=good._replace(**{field: bad}))
        with pytest.raises(ValueError, match="sample of the rows"):
            stream.check(D, 1)
    stream.state = stream.state._replace(sample=None)
    with pytest.raises(ValueError, match="sample of the rows"):
        stream.check(D, 1)


def test_a_negative_number_of_rows_is_refused():
    with pytest.raises(ValueError, match="reservoir"):
        opened(Problem(Logistic(), L1(0.03), D), chunk_of(X, SIGNS), -1)


# ---------------------------------------------------------------- files


ROWS = 60_000
MODEL = {"loss": "logistic", "penalty": "l1", "alpha": 0.02}
ONE_PASS = {**MODEL, "solver": RDAPlus(reservoir=3000)}
SAMPLED = {"target": "y", "memory": 1, "params": ONE_PASS}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(1)
    table = np.round(rng.normal(size=(ROWS, 8)), 3)
    y = (table[:, 0] - table[:, 1] + rng.normal(size=ROWS) > 0).astype(int)
    file = tmp_path_factory.mktemp("reservoir") / "data.csv"
    np.savetxt(
        file, np.column_stack([table, y]), fmt="%.3f," * 8 + "%d", comments="",
        header=",".join([*"abcdefgh", "y"]),
    )  # fmt: skip
    return file


@pytest.fixture(scope="module")
def once(path):
    return train(path, **SAMPLED)


def test_a_file_in_one_pass(path, once):
    best = train(path, target="y", params={**MODEL, "solver": "proximal_newton"})
    assert (once.training["passes"], once.training["status"]) == (1, "CONVERGED")
    assert np.array_equal(once.function.coef != 0.0, best.function.coef != 0.0)
    np.testing.assert_allclose(once.function.coef, best.function.coef, atol=0.1)
    assert not once.training["in_memory"]


def test_an_interrupted_training_goes_on_to_the_same_model(path, once, tmp_path):
    windows = 0

    def stop():
        nonlocal windows
        windows += 1
        return windows == 2

    about = {**SAMPLED, "checkpoint": "1", "model": tmp_path / "m.thresher"}
    broken = train(path, stop=stop, **about)
    assert broken.training["status"] == "INTERRUPTED"
    kept = load_model(tmp_path / "m.thresher")
    assert np.array_equal(kept.function.coef, broken.function.coef)
    went_on = train(path, resume=True, **about)
    assert np.array_equal(went_on.function.coef, once.function.coef)
    assert went_on.training["held_out"] == once.training["held_out"]


def test_shards_are_merged_and_then_finished(path, once):
    one = train(path, cluster=Serial(), shards=1, **SAMPLED)
    assert np.array_equal(one.function.coef, once.function.coef)
    two = train(path, cluster=Serial(), shards=2, **SAMPLED)
    assert (two.training["passes"], two.training["status"]) == (1, "CONVERGED")
    np.testing.assert_allclose(two.function.coef, once.function.coef, atol=0.15)


class Stdin:
    """As ``sys.stdin``: bytes that can be read once."""

    def __init__(self, data):
        self.buffer = io.BytesIO(data)


def test_the_command_line_reads_standard_input_once(path, once, thresher, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stdin(path.read_bytes()))
    options = ["--target", "y", "--solver", "rda_plus", "--loss", "logistic", "--penalty", "l1"]
    options += ["--alpha", "0.02", "--set", "solver.reservoir=3000", "--memory", "1MB", "--json"]
    code, out, _ = thresher("train", "-", *options)
    told = json.loads(out)
    assert (code, told["status"], told["passes"]) == (0, "CONVERGED", 1)
    assert abs(told["held_out"]["error"] - once.training["held_out"]["error"]) < 0.02
