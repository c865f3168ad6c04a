"""States and sparse matrices that compiled loops would follow out of their arrays are refused."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from scipy import sparse

from conftest import READY, chunk_of, make_data, make_penalty
from thresher import (
    LinearClassifier,
    ObjectMatching,
    load_model,
    losses,
    open_data,
    save_model,
    train,
)
from thresher._rows import check_compressed
from thresher.data.errors import DataError
from thresher.maps import Nystroem
from thresher.penalties import L2, GroupL2, WeightedL1
from thresher.solvers import RDA, AdaptiveRDA, AveragedSGD, Problem
from thresher.solvers.budgeted import Budgeted
from thresher.solvers.confidence_diagonal import DiagonalConfidence
from thresher.solvers.confidence_full import FullConfidence
from thresher.solvers.confidence_low_rank import LowRankConfidence
from thresher.solvers.confidence_rules import AROW
from thresher.solvers.hyperplanes import Hyperplanes
from thresher.solvers.stream import Facts, Stream

D, CLASSES = 12, 3
CONFIDENCE = (DiagonalConfidence, FullConfidence, partial(LowRankConfidence, rank=2))
WORD = "bounds hold"


def problem_for(solver):
    kinked = solver.loss_needs & {"smoothed", "kinks"}
    loss = losses.Hinge() if kinked else losses.Logistic()
    loss = losses.LeastSquares() if "square" in solver.loss_needs else loss
    return Problem(loss, make_penalty(solver.default_penalty, D), D, seed=3)


def learners():
    """(problem, solver) of everything that a checkpoint can hold."""
    ready = [(problem_for(solver), solver) for solver in READY.values() if solver.streaming]
    plain = Problem(losses.Hinge(), L2(0.01), D)
    three = dataclasses.replace(plain, outputs=CLASSES)
    groups = Problem(losses.Logistic(), GroupL2(np.arange(D) // 3, 0.01), D)
    weighted = Problem(losses.Logistic(), WeightedL1(np.ones(D), 0.01), D)
    kept = [(plain, Budgeted(budget=5, maintenance=how)) for how in ("merge", "remove", "project")]
    planes = [Hyperplanes(), Hyperplanes(cap=2, clone=0.5, every=20, threshold=5.0)]
    return [
        *ready, *kept, (groups, RDA(gamma=2.0)), (weighted, AdaptiveRDA(gamma=2.0)),
        (three, Budgeted(budget=5)), (three, AveragedSGD(eta0=0.2)),
        *((three, solver) for solver in planes),
        *((kind, form(AROW())) for kind in (plain, three) for form in CONFIDENCE),
    ]  # fmt: skip


def some_rows(problem, seed=0):
    X, y = make_data(n=60, d=D, seed=seed)
    several = problem.outputs > 1
    return chunk_of(X, np.arange(60.0) % problem.outputs if several else y)


def running(problem, solver):
    """A stream that has seen some rows."""
    stream = Stream.open(problem, solver, some_rows(problem), Facts(rows=60, visits=120))
    stream.update(some_rows(problem))
    return stream


def go_on(stream):
    stream.update(some_rows(stream.problem, seed=1))
    return stream.function()


@pytest.mark.parametrize("case", learners(), ids=lambda case: type(case[1]).__name__)
def test_sound_states_are_accepted(case):
    stream = running(*case)
    stream.check(D, case[0].outputs)
    assert go_on(stream).is_finite()


# ---------------------------------------------------------------- states that were accepted once


def refused(stream, match, **fields):
    stream.state = stream.state._replace(**fields)
    with pytest.raises(ValueError, match=match):
        stream.check(D, stream.problem.outputs)


def test_active_features_and_their_places_agree():
    def fresh():
        return running(problem_for(READY["rw_l1_rda"]), READY["rw_l1_rda"])

    every = np.arange(D)
    refused(fresh(), "disagree", place=np.full(D, -1), n_active=D, active=every)
    refused(fresh(), "disagree", place=np.zeros(D, np.int64), n_active=D, active=every)
    refused(fresh(), "disagree", active=np.full(D, -1), n_active=2)
    refused(fresh(), "more features", n_active=D + 1)
    refused(fresh(), "points beyond", active=np.full(D, D))


def test_penalties_weigh_every_feature():
    few = Problem(losses.Logistic(), WeightedL1(np.ones(2), 0.01), D)
    stream = running(Problem(losses.Logistic(), WeightedL1(np.ones(D), 0.01), D), AdaptiveRDA(1.0))
    stream.problem = few
    with pytest.raises(ValueError, match="2 weights"):
        stream.check(D, 1)


def test_numbers_keep_their_types():
    def fresh():
        return running(problem_for(READY["pegasos"]), READY["pegasos"])

    refused(fresh(), "bias is a int", bias=0)
    refused(fresh(), "step is a float", step=1.0)
    refused(fresh(), "step is a bool", step=True)
    refused(fresh(), "no count", step=-1)
    refused(fresh(), "not an array", direction=np.zeros(D, np.float32))
    refused(fresh(), "shape", direction=np.zeros(D - 1))


def test_arrays_keep_their_order():
    three = Problem(losses.Hinge(), L2(0.01), D, outputs=CLASSES)
    stream = running(three, AveragedSGD(eta0=0.2))
    refused(stream, "another order", direction=np.asfortranarray(stream.state.direction))


def test_a_budget_needs_its_room():
    """Not by asking for the memory."""
    stream = running(Problem(losses.Hinge(), L2(0.01), D), Budgeted(budget=5))
    stream.solver = dataclasses.replace(stream.solver, budget=2**53)
    refused(stream, "no room")


def test_batches_and_precisions_are_bounded():
    stream = running(problem_for(READY["pegasos"]), dataclasses.replace(READY["pegasos"], batch=2))
    stream.solver = dataclasses.replace(stream.solver, batch=2**40)
    refused(stream, "batch must be")
    stream = running(problem_for(READY["pegasos"]), READY["pegasos"])
    for word in ("a0", "<f8", np.float16, None, 7):
        stream.problem = dataclasses.replace(stream.problem, dtype=word)
        refused(stream, "precision")


def test_zero_weights_of_hyperplanes():
    three = Problem(losses.Hinge(), L2(0.01), D, outputs=CLASSES)
    stream = running(three, Hyperplanes(cap=2))
    stream.solver = dataclasses.replace(stream.solver, cap=1)
    refused(stream, "zero weight")


# ---------------------------------------------------------------- at length, with bounds checked


def damaged(value, rng):
    """A number or an array of another value; arrays keep their shape."""
    places = [-1, 0, 1, 2, D - 1, D, 2**31, 2**40]
    if isinstance(value, np.ndarray) and value.size:
        value = value.copy()
        at = rng.integers(value.size, size=rng.integers(1, 4))
        new = rng.choice(places if value.dtype.kind == "i" else [0.0, -1.0, 1e300, np.nan], at.size)
        value.reshape(-1)[at] = new.astype(value.dtype)
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        return float(rng.choice([0.0, -1.0, 1e300, np.nan])) if isinstance(value, float) else value
    return int(rng.choice(places))


def damaged_state(state, rng):
    fields = state._asdict()
    for name in rng.choice(list(fields), rng.integers(1, 3)):
        value = fields[name]
        fields[name] = (
            damaged_state(value, rng) if hasattr(value, "_fields") else damaged(value, rng)
        )
    return state._replace(**fields)


def fuzz(examples):
    """Damaged states of every learner: refused, or learned from within their arrays."""
    accepted = 0
    for seed, (problem, solver) in enumerate(learners()):
        rng = np.random.default_rng(seed)
        kept = running(problem, solver)
        for _ in range(examples):
            state = damaged_state(kept.solver.copy(kept.state), rng)
            stream = Stream(kept.problem, kept.solver, state)
            try:
                stream.check(D, problem.outputs)
            except ValueError:
                continue
            accepted += 1
            try:
                with np.errstate(all="ignore"), suppress(ArithmeticError):  # 1e300 may overflow
                    go_on(stream)
            except Exception as error:
                raise AssertionError(f"{solver} accepted {state}") from error
    return accepted


@pytest.mark.slow
def test_damaged_states_stay_within_their_arrays(tmp_path):
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, __file__, "200"], capture_output=True, text=True, timeout=3000,
        env={**os.environ, **checked}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert WORD in done.stdout


# ---------------------------------------------------------------- sparse matrices


def hidden(n=200, d=10):
    """A matrix that SciPy's full check finds sound: the last pointer is 0, those before are not."""
    pointers = np.arange(n + 1, dtype=np.int32) * 100_000
    pointers[-1] = 0
    X = sparse.csr_array((n, d))
    X.data, X.indices, X.indptr = np.ones(5), np.zeros(5, np.int32), pointers
    return X


def beyond(d=10):
    X = sparse.csr_array(np.eye(d))
    X.indices = X.indices + np.int32(3)
    return X


def before(d=10):
    X = sparse.csr_array(np.eye(d))
    X.indices = X.indices - np.int32(1)
    return X


def outside(form):
    """A matrix in one of the forms that SciPy turns into CSR without a look at its places."""
    X = sparse.csr_array(np.eye(10)).asformat(form)
    if form == "coo":
        X.row[3] = 10**6
    elif form == "bsr":
        X.indices[3] = 10**6
    else:
        X.rows[3] = [10**6]
    return X


def halves(d=10):
    X = sparse.csr_array(np.eye(d))
    X.indptr = X.indptr + 0.5
    return X


BAD = [hidden(), beyond(), before(), beyond().T, hidden().T, halves()]
BAD += [outside(form) for form in ("coo", "bsr", "lil")]


@pytest.mark.parametrize("bad", BAD)
def test_matrices_that_lead_outside_their_arrays(bad):
    y = np.arange(bad.shape[0]) % 2
    model = LinearClassifier(max_iter=2).fit(np.eye(bad.shape[1])[: len(y)], y[: bad.shape[1]] > 0)
    for use in (
        lambda: check_compressed(bad),
        lambda: LinearClassifier().fit(bad, y),
        lambda: model.predict(bad),
        lambda: Nystroem(n_components=3).fit(bad),
        lambda: Nystroem(landmarks=bad).fit(np.eye(bad.shape[1])),
        lambda: ObjectMatching().fit(bad, np.eye(3)),
        lambda: ObjectMatching().fit(np.eye(3), bad),
        lambda: open_data(bad, y),
    ):
        with pytest.raises(ValueError, match="not a sound sparse matrix"):
            use()


def test_sound_matrices_pass():
    rng = np.random.default_rng(0)
    for form in ("csr", "csc", "coo", "bsr", "lil", "dok", "dia"):
        check_compressed(sparse.random_array((30, 7), density=0.2, format=form, rng=rng))
    check_compressed(sparse.csr_array((0, 5)))
    check_compressed(np.eye(3))


def test_files_of_such_matrices(tmp_path):
    X, path = hidden(), tmp_path / "bad.npz"
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(path, **parts, format=b"csr", y=np.arange(200) % 2)
    with pytest.raises(DataError, match="not a sound sparse matrix"):
        train(path)
    good = sparse.csr_array(np.eye(10)[np.arange(200) % 10])
    model = train(good, np.arange(200) % 2)
    save_model(model, tmp_path / "m.thresher")
    with pytest.raises(DataError, match="not a sound sparse matrix"):
        load_model(tmp_path / "m.thresher").predict(path)


if __name__ == "__main__":
    print(WORD, fuzz(int(sys.argv[1])))
