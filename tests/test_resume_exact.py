"""Exact kernel machines, interrupted anywhere and resumed to the same model."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from thresher import (
    RBF,
    Linear,
    MultipleKernelClassifier,
    MultipleKernelRegressor,
    NoveltyClassifier,
    OneClassMachine,
    SemiparametricRegressor,
    SupportVectorClassifier,
    SupportVectorRegressor,
    UniversumClassifier,
    open_data,
)
from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.estimators.base import StatusWarning
from thresher.estimators.ledger import Finished, Ledger, Standing, recording
from thresher.solvers import Status
from thresher.training import Training, run
from thresher.training.checkpoint import checkpoint_path

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(700, 3))
BOARD = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
RINGS = np.digitize(np.sum(X[:, :2] ** 2, axis=1), [0.3, 0.8])
MANY = np.digitize(np.sum(X[:, :2] ** 2, axis=1), [0.2, 0.4, 0.6, 0.8, 1.0])
WAVE = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
BLANKS = np.where(np.arange(700) % 7 == 0, np.where(BOARD == 1, "up", "down"), "").astype(object)
BLANKS[1::35] = "neither"
THREE = np.where(np.arange(700) % 7 == 0, np.array(["a", "b", "c"])[RINGS], "")
FEW = {"kernels": [RBF(2.0), RBF(0.2), Linear()], "v": 1.0, "gap": 1e-4}


def partly(**params):
    return UniversumClassifier(
        irrelevant="neither", gamma=3.0, C=10.0, tol=1e-4, random_state=0, **params
    )


CASES = {
    "two classes": (SupportVectorClassifier(100.0), BOARD),
    "pairs of classes": (SupportVectorClassifier(100.0), RINGS),
    "many pairs": (SupportVectorClassifier(100.0), MANY),
    "one against the rest": (SupportVectorClassifier(100.0, multiclass="ovr"), RINGS),
    "nu": (SupportVectorClassifier(nu=0.1), BOARD),
    "regression": (SupportVectorRegressor(100.0, epsilon=0.01), WAVE),
    "nu regression": (SupportVectorRegressor(1.0, nu=0.5), WAVE),
    "one class": (OneClassMachine(0.2), None),
    "novelty": (NoveltyClassifier(algorithm="exact", nu=0.1, gamma=3.0), RINGS),
    "universum": (partly(algorithm="exact"), BLANKS),
    "universum, balanced": (partly(algorithm="exact", balance=0.0), BLANKS),
    "transductive": (partly(algorithm="exact", unlabelled="relevant"), BLANKS),
    "universum on landmarks": (partly(algorithm="mapped", n_components=30), BLANKS),
    "universum, three classes": (UniversumClassifier(gamma=3.0, C=10.0), THREE),
    "many kernels": (MultipleKernelClassifier(10.0, **FEW), BOARD),
    "many kernels, blocks": (MultipleKernelClassifier(10.0, **FEW, method="block"), BOARD),
    "many kernels, equal": (MultipleKernelClassifier(10.0, **FEW | {"v": "uniform"}), BOARD),
    "many kernels, three classes": (MultipleKernelClassifier(10.0, **FEW), RINGS),
    "weights of each class": (MultipleKernelClassifier(10.0, **FEW, multiclass="own"), RINGS),
    "many kernels, regression": (MultipleKernelRegressor(10.0, **FEW), WAVE),
    "semiparametric": (SemiparametricRegressor("1, x0", gamma=3.0, alpha=1e-5, tol=1e-4), WAVE),
}


def stopping(after):
    """A callback that asks to stop at its n-th call."""
    calls = []

    def stop(event):
        calls.append(event)
        return len(calls) == after

    return stop


def values(model):
    return model.decision_function(X) if model.task != "regression" else model.predict(X)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("after", [1, 2])
def test_a_stopped_fit_goes_on(case, after):
    model, y = CASES[case]
    expected = values(model.set_params(callbacks=None).fit(X, y))
    whole = model.n_iter_
    kept = Ledger()
    with recording(kept), warnings.catch_warnings():
        warnings.simplefilter("ignore", StatusWarning)
        model.set_params(callbacks=[stopping(after)]).fit(X, y)
    assert model.status_ is Status.INTERRUPTED
    assert not kept.is_empty
    again = Ledger.restored(kept.snapshot())
    with recording(again):
        model.set_params(callbacks=None).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.n_iter_ >= min(after, whole)
    assert np.abs(values(model) - expected).max() < 0.02 * np.ptp(expected)


def test_problems_that_were_finished_are_the_same_to_the_bit():
    """Where every pair is one call, the whole model is."""
    model = SupportVectorClassifier(100.0)
    expected = model.fit(X, MANY).dual_coef_
    kept = Ledger()
    with recording(kept):
        model.set_params(callbacks=[stopping(6)]).fit(X, MANY)
    solved = []
    with recording(Ledger.restored(kept.snapshot())):
        model.set_params(callbacks=[lambda event: solved.append(event.output)]).fit(X, MANY)
    assert solved == list(range(6, 15))
    assert np.array_equal(model.dual_coef_, expected)


def test_steps_before_count():
    model = SupportVectorClassifier(1e4, tol=1e-6, max_iter=2)
    kept = Ledger()
    with recording(kept), pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, BOARD)
    with recording(Ledger.restored(kept.snapshot())), pytest.warns(UserWarning, match="max_iter"):
        model.fit(X, BOARD)
    assert model.n_iter_ == 2


def test_another_problem_is_refused():
    kept = Ledger()
    with recording(kept):
        SupportVectorClassifier().fit(X, BOARD)
    with recording(Ledger.restored(kept.snapshot())), pytest.raises(ValueError, match="variables"):
        SupportVectorClassifier().fit(X[:600], BOARD[:600])


# ---------------------------------------------------------------- files


def training(path, **how):
    params = how.pop("params", {"C": 100.0})
    return Training(learner="svm", params=params, model=path, holdout=0.0, **how)


def interrupted(path, y, after=1):
    """A training that is stopped at the n-th look; what is left is its checkpoint."""
    looks = iter(range(1000))
    how = training(path, checkpoint="1h", stop=lambda: next(looks) >= after)
    model = run(open_data(X, y), how)
    assert model.training["status"] == "INTERRUPTED"
    assert model.estimator.predict(X[:5]).shape == (5,)
    assert checkpoint_path(path).exists()


FILES = {
    "novelty": (RINGS, {"nu": 0.1}, {"task": "novelty"}),
    "mkl": (BOARD, {"kernels": FEW["kernels"], "gap": 1e-4}, {}),
    "universum": (BLANKS, {"gamma": 3.0}, {"partly_labelled": True, "irrelevant": "neither"}),
    "semiparametric": (WAVE, {"basis": "1, x0", "gamma": 2.0, "alpha": 1e-3}, {}),
}


@pytest.mark.parametrize("learner", FILES)
def test_their_relatives_are_resumed_from_files(tmp_path, learner):
    """Each stopped at its first look; what is left is a model, and where its problems stood."""
    y, params, reading = FILES[learner]
    table, path = tmp_path / "rows.csv", tmp_path / "m.thresher"
    lines = [",".join(map(str, (*row, label))) for row, label in zip(X[:350], y, strict=False)]
    table.write_text("\n".join(["x0,x1,x2,y", *lines]))
    data = open_data(table, target="y", **reading)
    how = {"learner": learner, "params": params, "model": path, "holdout": 0.0}
    whole = run(data, Training(**how))
    stopped = run(data, Training(**how, checkpoint="1h", stop=lambda: True))
    assert stopped.training["status"] == "INTERRUPTED"
    assert checkpoint_path(path).exists()
    resumed = run(data, Training(**how, resume=True))
    assert resumed.training["status"] == "CONVERGED"
    assert not checkpoint_path(path).exists()
    expected = values(whole.estimator)
    assert np.abs(values(stopped.estimator) - expected).max() > 0.02 * np.ptp(expected)
    assert np.abs(values(resumed.estimator) - expected).max() < 0.02 * np.ptp(expected)


@pytest.mark.parametrize("y", [BOARD, RINGS, MANY], ids=["two", "pairs", "many"])
def test_a_training_is_resumed(tmp_path, y):
    path = tmp_path / "m.thresher"
    whole = run(open_data(X, y), training(path))
    interrupted(path, y)
    resumed = run(open_data(X, y), training(path, resume=True))
    assert resumed.training["status"] == "CONVERGED"
    assert not checkpoint_path(path).exists()
    gap = np.abs(resumed.estimator.decision_function(X) - whole.estimator.decision_function(X))
    assert gap.max() < 0.02
    assert resumed.estimator.n_iter_ >= 1


def test_another_training_is_refused(tmp_path):
    path = tmp_path / "m.thresher"
    interrupted(path, BOARD)
    with pytest.raises(ValueError, match="belongs to another training"):
        run(open_data(X, BOARD), training(path, resume=True, params={"C": 10.0}))


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    path, seen = tmp_path / "m.thresher", []

    def stop():
        seen.append(checkpoint_path(path).exists())
        return False

    run(open_data(X, BOARD), training(path, checkpoint="1", stop=stop))
    assert any(seen)
    assert not checkpoint_path(path).exists()


# ---------------------------------------------------------------- hostile files

GOOD = Finished(np.ones(3), 0.5, np.ones(3), "CONVERGED", 3, 1e-4, 0)


def snapshot(**changes):
    base = {"rows_learned": 5, "standing": [(0, 0, np.ones(4), 2)], "finished": [(0, 1, *GOOD)]}
    return base | changes


def test_a_sound_snapshot_is_accepted():
    kept = Ledger.restored(snapshot())
    assert kept.standing(0, 0, 4).steps == 2
    assert kept.finished(0, 1, 3).status == "CONVERGED"


HOSTILE = {
    "nothing": None,
    "no lists": snapshot(standing=3),
    "a count": snapshot(rows_learned=-1),
    "a bool": snapshot(standing=[(True, 0, np.ones(4), 2)]),
    "short": snapshot(standing=[(0, 0, np.ones(4))]),
    "no numbers": snapshot(standing=[(0, 0, np.array(["a"]), 2)]),
    "no array": snapshot(standing=[(0, 0, "ones", 2)]),
    "NaN": snapshot(standing=[(0, 0, np.array([np.nan]), 2)]),
    "a table": snapshot(standing=[(0, 0, np.ones((2, 2)), 2)]),
    "steps": snapshot(standing=[(0, 0, np.ones(4), 1e9)]),
    "scores": snapshot(finished=[(0, 1, *GOOD._replace(scores=np.ones(2)))]),
    "status": snapshot(finished=[(0, 1, *GOOD._replace(status="FINE"))]),
    "intercept": snapshot(finished=[(0, 1, *GOOD._replace(intercept=np.inf))]),
    "negative": snapshot(finished=[(0, 1, *GOOD._replace(negative=-1))]),
    "more": snapshot(standing=[(0, 0, np.ones(4), 2, 7)]),
    "more of it": snapshot(standing=[(0, 0, np.ones(4), 2, {"sides": "all"})]),
    "NaN in more": snapshot(standing=[(0, 0, np.ones(4), 2, {"sides": np.array([np.nan])})]),
}


@pytest.mark.parametrize("state", HOSTILE.values(), ids=HOSTILE)
def test_damaged_snapshots_are_refused(state):
    with pytest.raises(ValueError, match=r"problem|count"):
        Ledger.restored(state)


DAMAGED = [
    ("universum", "sides", lambda old: None),
    ("universum", "sides", lambda old: old[1:]),
    ("universum", "sides", lambda old: old - 3.0),
    ("universum", "sides", lambda old: -old),
    ("universum", "objectives", lambda old: np.array([1.0, 2.0])),
    ("many kernels", "weights", lambda old: None),
    ("many kernels", "weights", lambda old: -old),
    ("many kernels", "best", lambda old: 0.0 * old),
    ("many kernels", "best_forms", lambda old: old[None]),
    ("many kernels", "best_values", lambda old: old[::-1].copy()),
    ("many kernels", "cut_constants", lambda old: old[:0]),
    ("many kernels", "cut_forms", lambda old: old[1:]),
    ("semiparametric", "coefficients", lambda old: None),
    ("semiparametric", "coefficients", lambda old: np.append(old, 1.0)),
]


@pytest.mark.parametrize(("case", "name", "damage"), DAMAGED)
def test_damaged_searches_are_refused(case, name, damage):
    model, y = CASES[case]
    kept = Ledger()
    with recording(kept):
        model.set_params(callbacks=None).fit(X, y)
    state = kept.snapshot()
    (*place, more), *_ = state["standing"]
    more = more | {name: damage(more[name])}
    more = {key: value for key, value in more.items() if value is not None}
    again = Ledger.restored(state | {"standing": [(*place, more)]})
    with recording(again), pytest.raises(ValueError, match="of a problem"):
        model.fit(X, y)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "m.thresher"
    interrupted(path, BOARD)
    place = checkpoint_path(path)
    document, arrays = container.read(place, kind="checkpoint")
    for name, array in arrays.items():
        damaged = arrays | {name: np.full_like(array, np.nan)}
        container.write(place, document, damaged, kind="checkpoint")
        with pytest.raises(BadFile, match="not a usable checkpoint"):
            run(open_data(X, BOARD), training(path, resume=True))
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(BadFile):
        run(open_data(X, BOARD), training(path, resume=True))


def test_start_of_another_size_says_so(tmp_path):
    kept = Ledger()
    kept.note(0, 0, Standing(np.ones(9), 1))
    with recording(kept), pytest.raises(ValueError, match="9 variables, but there are 1,400"):
        SupportVectorRegressor().fit(X, WAVE)
