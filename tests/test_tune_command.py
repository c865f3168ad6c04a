"""Tuning as part of a training: settings found on some rows, a model of all, and its story."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import random as sparse_random

from thresher import load_model, open_data, train
from thresher.cli import show
from thresher.search import TunedClassifier, storage
from thresher.training import Training, run
from thresher.training.holdout import HoldOut
from thresher.training.intake import take_in
from thresher.training.sample import stratified_rows
from thresher.views.report.reproduce import recipe, search_recipe

SMALL = 1 << 14  # memory that forces a stream
QUICK = {"search": "random", "cv": 3}


def noisy(n, seed, d=60):
    """One feature that matters among many that do not: the usual alpha is far too weak."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + rng.normal(size=n) > 0, "up", "down")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    for name, n, seed in (("data", 300, 0), ("test", 3000, 1)):
        X, y = noisy(n, seed)
        frame = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(X.shape[1])])
        frame.assign(y=y).to_csv(folder / f"{name}.csv", index=False)
    rare = pd.DataFrame({"x": np.arange(40.0), "y": ["a"] * 40})
    rare.loc[3, "y"] = "b"
    rare.to_csv(folder / "rare.csv", index=False)
    rare[:4].assign(y=["a", "b", "a", "b"]).to_csv(folder / "four.csv", index=False)
    return folder


@pytest.fixture
def seen(monkeypatch):
    """The rows, labels and estimators that searches were given."""
    given = []
    fit = TunedClassifier.fit

    def spied(self, X, y, **rest):
        given.append((np.array(X), np.array(y), self.estimator))
        return fit(self, X, y, **rest)

    monkeypatch.setattr(TunedClassifier, "fit", spied)
    return given


# ---------------------------------------------------------------- the command


def test_tuned_beats_the_defaults_where_they_are_bad(thresher, folder, tmp_path):
    errors = {}
    given = [folder / "data.csv", "-t", "y", "--penalty", "l1"]
    for name, words in (("default", []), ("tuned", ["--tune", 12, "--folds", 3])):
        path = tmp_path / f"{name}.thresher"
        code, _, err = thresher("train", *given, *words, "-m", path)
        assert code == 0, err
        errors[name] = load_model(path).evaluate(str(folder / "test.csv"))["error"]
    assert errors["tuned"] < errors["default"] - 0.03
    model = load_model(path)
    story = model.training["tuning"]
    assert f"gave the lowest error of {story['done']} settings" in " ".join(err.split())
    assert story["score"] < story["default"]
    assert story["significance"]["default"]["folds"] == 3
    best = min(model.training["trials"], key=lambda t: t["score"] or 1.0)
    assert model.estimator.alpha == best["params"]["alpha"]
    assert model.training["trials"][0]["score"] == story["default"]


def test_what_is_given_is_no_part_of_the_space(thresher, folder):
    words = ["train", folder / "data.csv", "-t", "y", "--tune", 4, "--folds", 2, "--json"]
    code, out, err = thresher(*words, "--loss", "pinball", "--alpha", "0.01")
    assert code == 0, err
    found = json.loads(out)
    assert {name for t in found["trials"] for name in t["params"]} == {"loss__tau"}
    assert found["tuning"]["given"] == {"loss": "pinball", "alpha": 0.01}
    code, _, err = thresher(*words, "--alpha", "0.01")
    assert (code, "nothing to tune: all is given (alpha)" in err) == (5, True), err
    code, _, err = thresher(*words, "--loss", "Pinball(tau=0.2)", "--set", "penalty.strength=0.1")
    assert (code, "nothing to tune: all is given (alpha, loss__tau)" in err) == (5, True), err


def test_options_from_a_file(thresher, folder, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('target = "y"\n[train]\ntune = 3\nfolds = 2\ncriterion = "auc"\n'
                      'search = "random"\n')  # fmt: skip
    code, out, err = thresher("train", folder / "data.csv", "--config", config, "--json")
    assert code == 0, err
    story = json.loads(out)["tuning"]
    assert (story["trials"], story["folds"], story["search"]) == (3, 2, "random")
    assert (story["criterion"], story["direction"]) == ("auc", "maximize")
    assert story["score"] >= max(t["score"] for t in json.loads(out)["trials"][1:])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["data.csv", "--tune", "0"], 2, "--tune"),
        (["data.csv", "--tune", "3", "--budget", "9s"], 5, "give one of the two"),
        (["data.csv", "--tune", "3", "--criterion", "eror"], 5, "did you mean 'error'?"),
        (["data.csv", "--tune", "3", "--criterion", "sparse"], 5, "did you mean 'sparse_error'?"),
        (
            ["data.csv", "--tune", "3", "--criterion", "r2"],
            5,
            "is for regression; use one of error",
        ),
        (["data.csv", "--tune", "3", "--criterion", "log_loss"], 5, "--calibrate sigmoid"),
        (["data.csv", "--tune", "3", "--search", "wild"], 5, "--search wild is unknown"),
        (["data.csv", "--tune", "3", "--folds", "few"], 5, "--folds few is unknown"),
        (["data.csv", "--criterion", "auc"], 5, "--criterion auc is about tuning"),
        (["data.csv", "--folds", "5"], 5, "--tune 40"),
        (["four.csv", "--tune", "3", "--holdout", "0"], 5, "cannot be split into 5 folds"),
        (["rare.csv", "--tune", "3", "--holdout", "0"], 5, "two members of at least two classes"),
        (["data.csv", "--tune", "3", "-m", "m", "--resume"], 5, "--study FILE.db"),
        (["data.csv", "--tune", "3", "--study", "no/where.db"], 3, "check the folder"),
        (["data.csv", "--tune", "3", "--study", "data.csv"], 3, "not a readable study database"),
    ],
)
def test_mistakes_get_one_clear_line(thresher, folder, monkeypatch, words, code, said):
    monkeypatch.chdir(folder)
    got, _, err = thresher("train", words[0], "-t", "y", *words[1:], "-q")
    assert (got, said in " ".join(err.split())) == (code, True), (got, err)
    assert "Traceback" not in err


def test_a_locked_study(thresher, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "_PATIENCE", 0.1)
    words = ["train", folder / "data.csv", "-t", "y", "--tune", 2, "--folds", 2]
    words += ["--study", tmp_path / "s.db", "-q"]
    assert thresher(*words)[0] == 0
    with sqlite3.connect(tmp_path / "s.db") as other:
        other.execute("BEGIN EXCLUSIVE")
        code, _, err = thresher(*words)
    assert (code, "stayed locked" in err) == (3, True), err


def test_control_c_keeps_the_best_so_far_and_trains_it(thresher, folder, tmp_path, monkeypatch):
    told = []

    def progress(self, event):
        told.append(show.training_line(event, 1.0))
        if event.stage == "tuning" and event.passes == 5:  # the end of a generation
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(show.Live, "progress", progress)
    path = tmp_path / "m.thresher"
    words = ["train", folder / "data.csv", "-t", "y", "--tune", 500, "--folds", 2, "-m", path]
    code, _, err = thresher(*words)
    training = load_model(path).training
    assert (code, training["status"]) == (130, "CONVERGED"), err
    assert training["tuning"]["done"] == 5
    assert "the best so far is trained" in err
    assert "the search ended before 500 settings (on request)" in training["reason"]
    assert any(line.startswith("tuning  trial 3/500  best error so far 0.") for line in told)


def test_a_training_without_tuning_loads_no_database():
    script = "import sys, thresher.training; print('sqlalchemy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


# ---------------------------------------------------------------- which rows


def test_held_out_rows_are_not_seen(seen):
    n = 500
    X, y = noisy(n, 0, 5)
    X[:, 4] = np.arange(n)
    for memory in (1 << 30, SMALL):
        model = train(X, y, tune=2, memory=memory, **QUICK)
        rows = set(seen[-1][0][:, 4].astype(int))
        intake = next(open_data(X, y).chunks(n))
        held = set(np.flatnonzero(HoldOut(0.1, 1000, 0).mask(intake)))
        assert len(held) == model.training["held_out_rows"] > 0
        assert rows == set(range(n)) - held


def test_a_stream_is_tuned_on_a_stratified_sample_and_learned_whole(seen):
    rng = np.random.default_rng(0)
    n = 6000
    X = rng.normal(size=(n, 3))
    y = np.where(np.arange(n) < 12, "rare", np.where(X[:, 0] > 0.5, "up", "down"))  # sorted
    for params in ({}, {"alpha": 1e-3, "loss": "pinball"}):
        model = train(X, y, tune=3, memory=SMALL, params=params, **QUICK)
        rows, labels, estimator = seen[-1]
        training = model.training
        assert not training["in_memory"]
        assert training["rows"] == n - training["held_out_rows"]
        said = f"a stratified sample of {len(rows):,} of {training['rows']:,} rows"
        assert said in training["reason"]
        share = 1000 / training["rows"]
        for label in ("up", "down"):  # to the row; the rare class is there as a whole
            learned = round(np.sum(labels == label) / share)
            assert abs(learned - np.sum(y == label) * (1 - training["holdout"])) < 0.03 * n
        assert np.sum(labels == "rare") == 10
        if params:
            assert estimator.alpha == pytest.approx(1e-3 * training["rows"] / len(rows))
            assert model.estimator.alpha == 1e-3
        elif training["tuning"]["helped"]:
            best = min(training["trials"], key=lambda t: 1.0 if t["score"] is None else t["score"])
            scaled = best["params"]["alpha"] * len(rows) / training["rows"]
            assert model.estimator.alpha == pytest.approx(scaled)


def test_shares_of_a_sample_are_exact_and_its_rows_random():
    n = 4000
    y = np.arange(n) % 4 == 0
    X = np.arange(n, dtype=float)[:, None]

    def sample(seed, **options):
        intake = take_in(
            open_data(X, y, **options), HoldOut(0.0, 10, 0), 1, True, lambda rows: None
        )
        return stratified_rows(intake, np.array([False, True]), 400, 10, seed)

    rows = sample(0)
    assert (rows.size, int(rows.y.sum())) == (400, 100)
    assert len(np.unique(rows.X)) == 400
    assert abs(rows.X.mean() / n - 0.5) < 4 * np.sqrt(1 / 12 / 400)
    assert np.array_equal(rows.X, sample(0, block_bytes=500).X)
    assert not np.array_equal(rows.X, sample(1).X)


def test_a_sample_keeps_weights_and_sparse_rows():
    X = sparse_random(300, 400, density=0.01, random_state=0, format="csr")
    y = np.arange(300) % 2
    data = open_data(X, y, weight=np.arange(300.0) + 1)
    intake = take_in(data, HoldOut(0.0, 10, 0), 1, True, lambda rows: None)
    rows = stratified_rows(intake, np.array([0, 1]), 50, 5, 0)
    at = rows.weight.astype(int) - 1
    assert np.array_equal(rows.X.toarray(), X.toarray()[at])
    assert np.array_equal(rows.y, y[at])


def test_numbers_and_rows_that_are_read_once(folder):
    X, _ = noisy(400, 0, 4)
    model = train(X, X[:, 0] ** 2, tune=3, learner="kernel", criterion="mae", **QUICK)
    assert model.training["tuning"]["criterion"] == "mae"
    assert model.training["held_out"]["r2"] > 0.8
    streamed = train(
        str(folder / "data.csv"), target="y", tune=2, memory=SMALL, scan=False, **QUICK
    )
    assert "tuned on the first" in streamed.training["reason"]
    with pytest.raises(ValueError, match="must see all rows"):
        train(X, X[:, 0] > 0, tune=2, memory=SMALL, params={"solver": "newton"}, **QUICK)


# ---------------------------------------------------------------- studies


def test_a_study_goes_on(folder, tmp_path):
    X, y = noisy(200, 3, 10)
    how = {**QUICK, "study": tmp_path / "s.db"}
    first = train(X, y, tune=3, **how).training["trials"]
    again = train(X, y, tune=6, **how).training["trials"]
    whole = train(X, y, tune=6, **QUICK).training["trials"]
    assert [t["params"] for t in again] == [t["params"] for t in whole]
    assert [t["seconds"] for t in again[1:4]] == [t["seconds"] for t in first[1:]]  # not run again
    other = train(X, y, tune=2, params={"loss": "logistic"}, **how)  # in the same file
    assert other.training["tuning"]["done"] == 2
    with pytest.raises(storage.StudyError, match="data and folds"):
        train(X[1:], y[1:], tune=3, **how)


def test_a_checkpoint_goes_with_its_study(tmp_path):
    X, y = noisy(400, 3, 5)
    path, stops = tmp_path / "m.thresher", iter([False] * 2)
    how = {"memory": SMALL, "passes": 4, "model": path}
    how |= {"tune": 2, "search": "random", "cv": 2, "study": tmp_path / "s.db"}
    whole = run(open_data(X, y), Training(**how))
    trained = {"now": False}

    def told(event):
        trained["now"] = event.stage == "learning"

    part = run(
        open_data(X, y),
        Training(checkpoint="1", on_progress=told,
                 stop=lambda: trained["now"] and next(stops, True), **how),
    )  # fmt: skip
    assert part.training["status"] == "INTERRUPTED"
    rest = run(open_data(X, y), Training(resume=True, **how))
    assert np.array_equal(rest.estimator.coef_, whole.estimator.coef_)


# ---------------------------------------------------------------- the report


def test_the_report_tells_of_the_search_and_its_commands_work(
    thresher, folder, tmp_path, monkeypatch
):
    pytest.importorskip("bokeh")
    monkeypatch.chdir(tmp_path)
    words = ["train", folder / "data.csv", "-t", "y", "--loss", "pinball", "--tune", 7]
    words += ["--folds", 3, "--seed", 2, "-m", "m.thresher", "-q"]
    assert thresher(*words)[0] == 0
    code, _, err = thresher("report", "m.thresher", "--quick", "-q")
    assert code == 0, err
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    for said in ("Search history", "Parallel coordinates", "is the best setting found really",
                 "the mean over 3 folds", "--tune 7", "loss__tau"):  # fmt: skip
        assert said in page, said
    model = load_model("m.thresher")
    model.training["data"] = str(folder / "data.csv")
    for again in (recipe(model), search_recipe(model)):
        code, _, err = thresher(*shlex.split(shlex.join(again.words()))[1:], "-q")
        assert code == 0, err
        same = load_model("again.thresher")
        assert np.array_equal(same.estimator.coef_, model.estimator.coef_)
