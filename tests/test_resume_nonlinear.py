"""Streams of the nonlinear learners, interrupted anywhere and resumed to the same model."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.sparse import csr_array

import thresher.data.dataset as dataset
from conftest import after_checkpoint
from thresher import load_model, open_data
from thresher.artifacts import container
from thresher.artifacts.container import BadFile
from thresher.estimators.saving import to_document
from thresher.training import Training, run
from thresher.training.checkpoint import checkpoint_path

SMALL = 1 << 12  # memory that forces a stream
WINDOW = 180  # rows
RNG = np.random.default_rng(0)
X = np.round(RNG.uniform(-1, 1, size=(500, 3)), 3)
BOARD = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)
RINGS = np.digitize(np.sum(X[:, :2] ** 2, axis=1), [0.3, 0.8])
WAVE = np.sin(3 * X[:, 0]) + X[:, 1] ** 2

CASES = {
    "kernel": (X, BOARD, "kernel", {"n_components": 20}),
    "kernel, classes, blocks": (X, RINGS, "kernel", {"n_components": 20, "memory": 2e4}),
    "kernel, one against the rest": (
        X, RINGS, "kernel", {"solver": "pegasos", "loss": "hinge", "n_components": 20},
    ),
    "kernel, normal equations": (X, WAVE, "kernel", {"n_components": 20}),
    "kernel, fourier": (X, BOARD, "kernel", {"map": "fourier", "n_components": 30}),
    "kernel, forest": (X, RINGS, "kernel", {"map": "forest", "n_components": 5}),
    "kernel, terms": (csr_array(X * (X > 0)), RINGS, "kernel", {"map": "terms"}),
    "kernel, the best pass": (
        X, RINGS, "kernel", {"n_components": 20, "early_stopping": True, "patience": 1},
    ),
    "kernel, sparse": (csr_array(X * (X > 0)), BOARD, "kernel", {"scale": True}),
    "budgeted": (X, BOARD, "budgeted", {"budget": 15}),
    "budgeted, classes": (X, RINGS, "budgeted", {"budget": 15, "class_weight": "balanced"}),
    "budgeted, regression": (X, WAVE, "budgeted", {"budget": 15}),
    "budgeted, last iterate": (X, BOARD, "budgeted", {"average": False, "fit_intercept": True}),
    "budgeted, projecting": (X, RINGS, "budgeted", {"budget": 9, "maintenance": "project"}),
    "budgeted, at random": (X, BOARD, "budgeted", {"budget": 9, "maintenance": "remove_random"}),
    "hyperplanes": (X, RINGS, "hyperplanes", {"prune_every": 70, "prune_norm": 3.0}),
    "hyperplanes, growing": (X, BOARD, "hyperplanes", {"algorithm": "gamm", "clone_rate": 0.9}),
    "hyperplanes, last iterate": (X, BOARD, "hyperplanes", {"average": False, "scale": False}),
    "confidence": (X, RINGS, "confidence", {}),
    "confidence, full": (X, BOARD, "confidence", {"covariance": "full", "method": "scw"}),
    "confidence, low rank": (X, RINGS, "confidence", {"covariance": "low_rank", "rank": 1}),
    "confidence, regression": (X, WAVE, "confidence", {"prior_variance": 2.0}),
    "confidence, sparse": (csr_array(X * (X > 0)), BOARD, "confidence", {}),
    "hyperplanes, sparse": (csr_array(X * (X > 0)), BOARD, "hyperplanes", {"scale": True}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def small_windows(monkeypatch):
    monkeypatch.setattr(dataset, "_WINDOW_ROWS", WINDOW)


def trained(case, path=None, **how):
    data, y, learner, params = CASES[case]
    how = {"passes": 2, "memory": SMALL, "checkpoint": path and "1", **how}
    return run(open_data(data, y), Training(dict(params), learner, model=path, **how))


def content(model):
    """Everything that a model file holds, but for the time it took."""
    document, arrays = to_document(model.estimator)
    told = {name: model.training[name] for name in ("history", "passes", "held_out", "status")}
    return document, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}, told


def stopped(case, path, questions, **how):
    """Stopped when asked for the so-many-th time: after every window and every pass."""
    asked = itertools.count(1)
    model = trained(case, path, stop=lambda: next(asked) >= questions, **how)
    assert model.training["status"] == "INTERRUPTED"
    return model


@pytest.mark.parametrize("case", CASES)
def test_interrupted_at_every_window(case, tmp_path):
    whole = content(trained(case))
    path = tmp_path / "m.thresher"
    for questions in range(1, 9):  # three windows and the end of the pass, twice
        model = stopped(case, path, questions)
        assert model.training["in_memory"] is False
        assert checkpoint_path(path).exists()
        assert content(trained(case, path, resume=True)) == whole
        assert not checkpoint_path(path).exists()


@pytest.mark.parametrize("case", ["kernel", "budgeted, regression", "hyperplanes"])
def test_interrupted_again_and_again(case, tmp_path):
    path = tmp_path / "m.thresher"
    model = stopped(case, path, 1)
    for _ in range(20):
        if model.training["status"] != "INTERRUPTED":
            break
        model = trained(case, path, resume=True, stop=lambda: True)
    assert content(model) == content(trained(case))


@pytest.mark.parametrize("case", ["kernel", "budgeted, classes", "hyperplanes"])
def test_without_a_scan_the_held_out_rows_are_found_again(case, tmp_path):
    how = {"scan": False, "holdout": 0.3}
    whole, path = content(trained(case, **how)), tmp_path / "m.thresher"
    for questions in (2, 6):
        stopped(case, path, questions, **how)
        assert content(trained(case, path, resume=True, **how)) == whole


@pytest.mark.parametrize("case", ["kernel", "budgeted", "hyperplanes"])
def test_a_training_in_memory_has_no_checkpoints(case, tmp_path):
    path = tmp_path / "m.thresher"
    model = trained(case, path, memory=1 << 30, resume=True)
    assert model.training["in_memory"] is True
    assert not checkpoint_path(path).exists()


# ---------------------------------------------------------------- what is not resumed


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    path = tmp_path / "m.thresher"
    stopped("budgeted", path, 2)
    data, y, _, given = CASES["budgeted"]

    def resumed(learner="budgeted", params=given, y=y, seed=0):
        how = Training(dict(params), learner, model=path, resume=True, passes=2, memory=SMALL,
                       seed=seed)  # fmt: skip
        return run(open_data(data, y), how)

    with pytest.raises(ValueError, match="other learner"):
        resumed("hyperplanes", {})
    with pytest.raises(ValueError, match="other parameters"):
        resumed(params={"budget": 16})
    with pytest.raises(ValueError, match="other schema"):
        resumed(y=RINGS)
    with pytest.raises(ValueError, match="other seed"):
        resumed(seed=1)
    assert resumed().training["status"] == "COMPLETED"


def test_other_landmarks_are_another_training(tmp_path):
    path = tmp_path / "m.thresher"
    how = {"model": path, "memory": SMALL, "passes": 2, "checkpoint": "1"}
    run(open_data(X, BOARD), Training({"landmarks": X[:9]}, "kernel", stop=lambda: True, **how))
    with pytest.raises(ValueError, match="other arrays"):
        run(open_data(X, BOARD), Training({"landmarks": X[9:18]}, "kernel", resume=True, **how))


@pytest.mark.parametrize("case", ["kernel", "budgeted", "hyperplanes"])
def test_a_damaged_checkpoint_is_refused(case, tmp_path):
    path = tmp_path / "m.thresher"
    stopped(case, path, 2)
    kept = checkpoint_path(path)
    data = kept.read_bytes()
    kept.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadFile, match=r"m\.thresher\.checkpoint: .*cut off"):
        trained(case, path, resume=True)
    middle = len(data) // 2
    kept.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    with pytest.raises(BadFile, match=r"m\.thresher\.checkpoint"):
        trained(case, path, resume=True)


def with_state(path, edit):
    """Rewrite a checkpoint after ``edit`` has changed the fields of the learner's state."""
    kept = checkpoint_path(path)
    document, arrays = container.read(kept, kind="checkpoint")
    state = document["job"]["learners"][0]["$tuple"][-1]["$object"]["fields"]
    edit(state["lanes"]["$object"]["fields"] if "lanes" in state else state, arrays)
    for name in ("format", "kind", "version", "versions", "arrays"):
        del document[name]
    container.write(kept, document, arrays, kind="checkpoint")


def shortened(name):
    def edit(fields, arrays):
        key = fields[name]["$array"][0]
        arrays[key] = arrays[key][..., :-1].copy()

    return edit


def homeless(fields, arrays):
    arrays[fields["owner"]["$array"][0]][0] = 99


@pytest.mark.parametrize(
    ("case", "edit", "reason"),
    [
        ("kernel", shortened("mean"), "mean has shape"),
        ("budgeted", shortened("vectors"), "no room for the budget"),
        ("budgeted", lambda fields, _: fields.update(size=16), "more support vectors"),
        ("budgeted", lambda fields, _: fields.update(empty=-1), "no count"),
        ("hyperplanes", shortened("sums"), "sums has shape"),
        ("hyperplanes", homeless, "a class has no weight"),
        ("hyperplanes", shortened("sizes"), "sizes has shape"),
    ],
)
def test_a_state_that_compiled_code_must_not_see_is_refused(case, edit, reason, tmp_path):
    path = tmp_path / "m.thresher"
    stopped(case, path, 2)
    with_state(path, edit)
    with pytest.raises(BadFile, match=f"not a usable checkpoint: .*{reason}"):
        trained(case, path, resume=True)


# ---------------------------------------------------------------- real processes

LEARNERS = {
    "kernel": {"n_components": 30},
    "budgeted": {"budget": 30},
    "hyperplanes": {"prune_every": 1000},
}
PASSES = 15  # of 12 windows: a process writes some 180 checkpoints, time enough to be killed
PROGRAM = f"""
import sys
import thresher.data.dataset as dataset
dataset._WINDOW_ROWS = {WINDOW}
from thresher.cli import main
main()
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of three columns and a target."""
    path = tmp_path_factory.mktemp("killed") / "data.csv"
    lines = [f"{a},{b},{c},{t}" for (a, b, c), t in zip(X.tolist(), RINGS.tolist(), strict=True)]
    path.write_text("a,b,c,y\n" + "\n".join(lines * 4) + "\n")
    return path


def started(table, learner, model):
    """The command in a process of its own."""
    options = ["--memory", str(SMALL), "--passes", str(PASSES), "--checkpoint", "1"]
    for name, value in LEARNERS[learner].items():
        options += ["--set", f"{name}={value}"]
    command = ["train", str(table), "-t", "y", "--learner", learner, "-m", str(model), "--resume"]
    return subprocess.Popen([sys.executable, "-c", PROGRAM, *command, *options, "--quiet"])


def in_this_process(table, learner, model=None):
    """From the beginning, or from the checkpoint beside the model."""
    how = {"passes": PASSES, "memory": SMALL, "model": model, "resume": model is not None}
    return run(open_data(str(table), target="y"), Training(dict(LEARNERS[learner]), learner, **how))


def killed(table, learner, model, seconds):
    """Kill the process so long after its first checkpoint; True if that was before its end."""
    process = after_checkpoint(lambda: started(table, learner, model), model)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("learner", LEARNERS)
def test_killed_and_resumed(table, learner, tmp_path):
    model = tmp_path / "m.thresher"
    assert killed(table, learner, model, seconds=0.05)
    assert checkpoint_path(model).exists()
    assert not model.exists()
    resumed = in_this_process(table, learner, model)
    assert content(resumed) == content(in_this_process(table, learner))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
def test_killed_at_many_moments(table, learner, tmp_path):
    model, rng = tmp_path / "m.thresher", np.random.default_rng(0)
    kills = [killed(table, learner, model, float(rng.exponential(0.3))) for _ in range(5)]
    assert any(kills)
    assert started(table, learner, model).wait() == 0
    assert content(load_model(model)) == content(in_this_process(table, learner))
    assert [path.name for path in tmp_path.iterdir()] == [model.name]
