"""Few labels in model files, exports, training and commands."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from test_hostile_files import rewritten
from thresher import (
    DataError,
    SemiSupervisedClassifier,
    TunedClassifier,
    load_model,
    save_model,
    train,
)
from thresher.artifacts.container import BadFile
from thresher.cli.questions import QUESTIONS
from thresher.cli.talk import Talk
from thresher.solvers.label_machines import METHODS

MOONS, HALVES = make_moons(200, noise=0.06, random_state=0)
BLOBS, GROUPS = make_blobs(120, centers=3, cluster_std=1.5, random_state=1)
FEW = np.where(np.arange(200) < 12, HALVES, np.nan)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("landmarks", ["auto", 40])
def test_model_files(method, landmarks, tmp_path):
    path = tmp_path / "m.thresher"
    given = {"n_components": landmarks, "reject": -1, "random_state": 0, "scale": True}
    few = np.where(np.arange(120) < 40, GROUPS, np.nan)
    for X, y in ((MOONS, FEW), (BLOBS, few)):
        model = SemiSupervisedClassifier(method, **given).fit(X, y)
        save_model(model, path)
        again = load_model(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(
            again.estimator.decision_function(X), model.decision_function(X)
        )
        assert again.estimator.solver_ == model.solver_
        assert again.estimator.kernel_ == model.kernel_
    chosen = SemiSupervisedClassifier(method, C="cv", random_state=0).fit(MOONS, FEW)
    save_model(chosen, path)
    assert load_model(path).estimator.cv_results_ == chosen.cv_results_


def set_in(part, name, value):
    return lambda document: document["model"][part].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in("parameters", "method", "lap_svm"), "2 classes need 1 rows of coef_, got 2"),
        (set_in("parameters", "method", "magic"), "'magic' is unknown"),
        (set_in("parameters", "repulsion", 0.5), "repulsion must be a number above 1"),
        (set_in("parameters", "reject", 1), "reject=1 is the label of a class"),
        (set_in("record", "kernel_", 3), "kernel_ must be a Kernel"),
        (set_in("record", "solver_", 3), "solver_ must be a Solver"),
        (set_in("record", "classes_", [1, 2, 3]), "classes_ must be numbers or strings"),
    ],
)
def test_files_that_no_fit_gave(change, message, tmp_path):
    path = tmp_path / "m.thresher"
    save_model(SemiSupervisedClassifier("bi_semi_ksc", random_state=0).fit(MOONS, FEW), path)
    rewritten(path, change)
    with pytest.raises(BadFile, match=message):
        load_model(path)


@pytest.mark.parametrize("method", ["semi_ksc", "bi_semi_ksc"])
@pytest.mark.parametrize("landmarks", ["auto", 40])
def test_onnx(method, landmarks, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from thresher.artifacts.onnx_graph import write_onnx

    model = SemiSupervisedClassifier(method, n_components=landmarks, scale=True, random_state=0)
    model.fit(MOONS, FEW)
    write_onnx(tmp_path / "m.onnx", model.function_, model.classes_)
    path = str(tmp_path / "m.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": MOONS}), strict=True))
    np.testing.assert_array_equal(found["label"], model.predict(MOONS))


@pytest.mark.parametrize("method", METHODS)
def test_training_and_evaluation(method):
    params = {"method": method, "gamma": 5.0}
    model = train(MOONS, HALVES, learner="few_labels", params=params, seed=0)
    found = model.evaluate(MOONS, y=HALVES)
    assert found["error"] < 0.02
    assert found["auc"] > 0.99
    assert model.training["learner"] == "few_labels"


def test_commands(thresher, tmp_path):
    table, path = tmp_path / "d.csv", tmp_path / "m.thresher"
    words = np.where(HALVES, "up", "down")
    words[np.arange(words.size) % 10 > 0] = ""  # few have labels
    rows = zip(MOONS.tolist(), words, strict=True)
    lines = [f"{a:.3f},{b:.3f},{word}" for (a, b), word in rows]
    table.write_text("a,b,side\n" + "\n".join(lines) + "\n")
    options = ["--learner", "few_labels", "--set", "gamma=5", "--set", "method=bi_semi_ksc", "-q"]
    code, _, err = thresher("train", table, "-t", "side", "-m", path, *options)
    assert code == 0, err
    code, out, err = thresher("predict", path, table)
    assert code == 0, err
    told = np.array(out.split()[-200:])
    assert np.mean((told == "up") == HALVES) > 0.95
    code, out, _ = thresher("inspect", path)
    assert code == 0
    assert "support vectors" in out
    code, _, err = thresher("train", table, "-t", "side", "-m", path, "--memory", "1K", *options)
    assert code != 0
    assert "a sample of the rows without labels" in err


@pytest.fixture
def blank_table(tmp_path):
    """Every eighth row of the moons has a label."""
    table = tmp_path / "few.csv"
    sides = np.where(np.arange(200) % 8 == 0, np.where(HALVES == 1, "up", "down"), "")
    rows = zip(MOONS.tolist(), sides, strict=True)
    table.write_text("a,b,side\n" + "".join(f"{a:.3f},{b:.3f},{side}\n" for (a, b), side in rows))
    return table


def test_empty_targets_of_a_file_are_rows_without_labels(thresher, blank_table, tmp_path):
    path = tmp_path / "m.thresher"
    options = ["--learner", "few_labels", "--set", "gamma=5", "--holdout", "0"]
    code, out, err = thresher("train", blank_table, "-t", "side", "-m", path, *options)
    assert code == 0, err
    assert "200 learned from" in (out + err).replace("\n", " ")
    model = load_model(path)
    assert model.training["unlabelled_rows"] == 175
    code, out, err = thresher("predict", path, blank_table)
    assert np.mean((np.array(out.split()[-200:]) == "up") == HALVES) > 0.97
    assert model.evaluate(str(blank_table))["error"] < 0.05
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("a,b,side\n1,2,\n")
    code, _, err = thresher("evaluate", path, nothing)
    assert code == 3
    assert "no row has a label to compare predictions with" in err


def test_tuning_on_a_file_learns_from_all_rows(blank_table):
    how = {"learner": "few_labels", "target": "side", "tune": 3, "seed": 0, "holdout": 0.0}
    model = train(str(blank_table), **how)
    assert model.training["tuning"] is not None
    assert model.training["unlabelled_rows"] == 175
    tuned = TunedClassifier(
        SemiSupervisedClassifier(random_state=0), n_trials=3, cv=3, random_state=0
    )
    tuned.fit(MOONS, np.where(np.arange(200) % 8 == 0, HALVES, np.nan))
    assert tuned.score(MOONS, HALVES) > 0.8


def test_no_label_in_a_file(tmp_path):
    table = tmp_path / "none.csv"
    table.write_text("a,b,side\n" + "".join(f"{a:.3f},{b:.3f},\n" for a, b in MOONS.tolist()))
    with pytest.raises(DataError, match="the target column 'side' is empty"):
        train(str(table), learner="few_labels", target="side")
    table.write_text("a,b,side\n" + "1,2,up\n" * 5 + "1,3,\n" * 20)
    with pytest.raises(ValueError, match="one class only, 'up'"):
        train(str(table), learner="few_labels", target="side")


def test_the_wizard_asks_only_those_who_know_rows_of_no_class(blank_table):
    talk = Talk([str(blank_table)], {})
    talk.answers.update({"target": "side", "task": "classification", "budget": "none"})
    question = next(q for q in QUESTIONS if q.key == "irrelevant")
    asked = {}
    for learner in ("linear", "few_labels", "universum"):
        talk.answers["learner"] = learner
        asked[learner] = bool(question.asked(talk))
    assert asked == {"linear": False, "few_labels": False, "universum": True}
