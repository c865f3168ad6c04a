"""The learners that are not linear, through ``train``, the command line and model files."""

from __future__ import annotations

import itertools
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from thresher import load_model, open_data, train
from thresher.cli import main
from thresher.training import Training, run

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(3000, 2))
BOARD = ((X[:, 0] > 0) ^ (X[:, 1] > 0)).astype(int)  # no linear function separates it
WAVE = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
SMALL = 1 << 14  # memory that forces a stream


@pytest.mark.parametrize("learner", ["kernel", "budgeted", "hyperplanes"])
@pytest.mark.parametrize("memory", [1 << 30, SMALL])
def test_what_a_linear_model_cannot_learn(learner, memory, tmp_path):
    model = train(X, BOARD, learner=learner, memory=memory)
    assert model.training["in_memory"] == (memory > SMALL)
    assert model.training["held_out"]["error"] < 0.06
    assert train(X, BOARD).training["held_out"]["error"] > 0.3
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    assert np.array_equal(again.predict(X[:100]), model.predict(X[:100]))


@pytest.mark.parametrize("learner", ["kernel", "budgeted"])
@pytest.mark.parametrize("memory", [1 << 30, SMALL])
def test_regression(learner, memory):
    model = train(X, WAVE, learner=learner, memory=memory)
    assert model.training["held_out"]["r2"] > 0.9


def test_hyperplanes_do_not_regress():
    with pytest.raises(ValueError, match="is not for regression; use linear or kernel"):
        train(X, WAVE, learner="hyperplanes")
    with pytest.raises(ValueError, match="choose one of linear"):
        train(X, BOARD, learner="forest")


def test_streams_do_not_depend_on_blocks_and_stop_on_request():
    models = []
    for size in (300, 1 << 20):
        data = open_data(X, BOARD, block_bytes=size)
        models.append(run(data, Training(learner="budgeted", memory=SMALL, passes=2)))
    first, second = (m.estimator for m in models)
    assert np.array_equal(first.support_vectors_, second.support_vectors_)
    asked = iter([False, True, True])
    stopped = run(
        open_data(X, BOARD),
        Training(learner="budgeted", memory=SMALL, passes=50, stop=lambda: next(asked, True)),
    )
    assert stopped.training["status"] == "INTERRUPTED"
    assert stopped.predict(X[:3]).shape == (3,)


def test_early_stopping_keeps_the_best_pass_of_a_stream():
    noisy = np.where(RNG.random(3000) < 0.3, 1 - BOARD, BOARD)
    params = {"early_stopping": True, "patience": 2, "alpha": 1e-9, "n_components": 300}
    model = train(X, noisy, learner="kernel", memory=SMALL, passes=40, params=params)
    assert model.training["status"] == "EARLY_STOPPED"
    errors = [line["error"] for line in model.training["history"]]
    assert errors.index(min(errors)) == len(errors) - 3  # two passes of patience
    assert model.training["held_out"]["error"] == min(errors)


def test_balanced_classes_and_calibration_in_a_stream():
    y = (X[:, 0] ** 2 + X[:, 1] ** 2 < 0.2).astype(int)
    params = {"class_weight": "balanced", "calibrate": "sigmoid"}
    model = train(X, y, learner="kernel", memory=SMALL, params=params)
    assert model.training["held_out"]["log_loss"] < 0.3
    assert model.training["held_out"]["error"] < 0.1


def test_the_command_line_offers_them(tmp_path, monkeypatch, capsys):
    path = tmp_path / "d.csv"
    lines = [f"{a},{b},{y}" for (a, b), y in zip(X.tolist(), BOARD.tolist(), strict=True)]
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")

    def thresher(*words):
        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    out = tmp_path / "m.thresher"
    code, text, err = thresher(
        "train", path, "-t", "y", "--learner", "kernel", "--set", "n_components=60", "-m", out,
        "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(text)["held_out"]["error"] < 0.06
    code, text, err = thresher("inspect", out)
    assert (code, "60 features of the kernel" in text) == (0, True), err
    code, _, err = thresher("export", out, "-o", tmp_path / "m.csv")
    assert (code, "no weights of the features" in err) == (5, True)
    code, _, err = thresher("export", out, "-o", tmp_path / "m.onnx")
    assert code == 0, err
    code, _, err = thresher("train", path, "-t", "y", "--learner", "trees")
    assert (code, "choose one of" in err) == (5, True)


@pytest.mark.parametrize("memory", [1 << 30, SMALL])
def test_a_budget_finds_the_learner(memory, monkeypatch):
    """With a clock that takes a fifth of a second for every look at it: a short race."""
    ticks = itertools.count()
    fake = SimpleNamespace(monotonic=lambda: 0.2 * next(ticks), perf_counter=lambda: 0.0)
    monkeypatch.setattr("thresher.race.race.time", fake)
    for module in ("session", "one_run", "choice"):
        monkeypatch.setattr(f"thresher.training.{module}.time", fake)
    model = train(X, BOARD, budget=40, memory=memory)
    assert model.training["learner"] in ("kernel", "budgeted", "hyperplanes")
    assert model.training["held_out"]["error"] < 0.1
    assert model.training["held_out"]["log_loss"] < 0.4  # calibrated
    assert {t["params"]["learner"] for t in model.training["trials"]} >= {"linear", "kernel"}
    assert model.training["reason"]
    spent = model.training["held_out_rows"] - model.training["held_out"]["rows"]
    assert (spent > 0) == (memory == SMALL)  # a stream is calibrated on held-out rows
    with pytest.raises(ValueError, match="do not give them"):
        train(X, BOARD, budget=40, learner="kernel")
    with pytest.raises(ValueError, match="positive number"):
        train(X, BOARD, budget=-1)


def test_a_race_on_few_rows_ends_with_probabilities(monkeypatch):
    """Of three held-out rows hardly any class has one."""
    ticks = itertools.count()
    fake = SimpleNamespace(monotonic=lambda: 0.2 * next(ticks), perf_counter=lambda: 0.0)
    monkeypatch.setattr("thresher.race.race.time", fake)
    for module in ("session", "one_run", "choice"):
        monkeypatch.setattr(f"thresher.training.{module}.time", fake)
    rows = np.linspace(0, BOARD.size - 1, 30).astype(int)
    model = train(X[rows], BOARD[rows], budget=40, seed=0)
    assert model.training["held_out_rows"] < 6
    assert model.estimator.predict_proba(X).shape == (BOARD.size, 2)


@pytest.mark.parametrize("memory", [1 << 30, 1])
@pytest.mark.parametrize("learner", ["linear", "kernel", "budgeted", "hyperplanes", "confidence"])
def test_an_unknown_calibration_is_refused_before_any_work(learner, memory):
    with pytest.raises(ValueError, match="calibrate must be 'sigmoid', 'isotonic' or None"):
        train(X, BOARD, learner=learner, params={"calibrate": "platt"}, memory=memory)


def test_an_option_that_nobody_takes_is_refused_by_name():
    with pytest.raises(TypeError, match="no option 'lerner': did you mean 'learner'"):
        train(X, BOARD, lerner="kernel")
    with pytest.raises(TypeError, match=r"no option 'alpha'.*goes into params"):
        train(X, BOARD, alpha=1.0)
    opened = open_data(X, BOARD)
    with pytest.raises(TypeError, match="no option 'lerner'"):
        train(opened, lerner="kernel")
    with pytest.raises(TypeError, match="missing is said when data are opened"):
        train(opened, missing="error")
    model = train(X, BOARD)
    with pytest.raises(TypeError, match="missing is said when data are opened"):
        model.predict(opened, missing="error")
