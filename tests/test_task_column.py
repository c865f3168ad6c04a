"""Files whose rows name their tasks in a column: training, predicting, evaluating, model files."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from thresher import GroupL2, MultiTaskRegressor, load_model, train
from thresher.artifacts.container import BadFile
from thresher.cli.app import app
from thresher.estimators.saving import from_document, to_document
from thresher.functions import OwnTask
from thresher.views import write_report

RNG = np.random.default_rng(0)
N, SCHOOLS = 400, 5


@pytest.fixture(scope="module")
def frame():
    school = RNG.integers(SCHOOLS, size=N)
    X = RNG.normal(size=(N, 3))
    y = X[:, 0] * (1.0 + school) - X[:, 1] + school + 0.1 * RNG.normal(size=N)
    made = pd.DataFrame({"a": X[:, 0], "school": school, "b": X[:, 1], "c": X[:, 2], "score": y})
    made["passed"] = np.where(y > np.median(y), "yes", "no")
    return made


def test_the_model_of_a_file_is_that_of_its_rows(frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.to_csv(path, index=False)
    options = {"target": "score", "ignore": ["passed"], "holdout": 0.0, "params": {"alpha": 0.1}}
    model = train(path, task_column="school", **options)
    assert model.training["learner"] == "multitask"
    rows = frame[["a", "b", "c"]].to_numpy()
    plain = MultiTaskRegressor(alpha=0.1, scale=True)
    plain.fit(rows, frame["score"], task=frame["school"])
    found = model.predict(frame)
    np.testing.assert_allclose(found, plain.predict(rows, task=frame["school"]), atol=1e-5)
    assert model.estimator.tasks_.tolist() == [str(k) for k in range(SCHOOLS)]
    model.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    np.testing.assert_array_equal(again.predict(frame), found)
    assert again.evaluate(path)["r2"] > 0.99
    sections = write_report(again, html=tmp_path / "r.html", quick=True, static=True)
    (chart,) = next(section for section in sections if section.key == "tasks").charts
    assert chart.layers[0].shares.shape == (2, SCHOOLS)
    assert list(chart.layers[0].names) == ["a", "b"]
    new = frame.assign(school=77)
    mean = rows @ plain.coef_.mean(axis=0) + plain.intercept_.mean()
    np.testing.assert_allclose(again.predict(new), mean, atol=1e-5)


def test_rows_of_new_tasks_are_refused_where_that_is_asked(frame, tmp_path):
    path = tmp_path / "d.csv"
    frame.to_csv(path, index=False)
    options = {"target": "score", "ignore": ["passed"], "task_column": "school"}
    model = train(path, params={"new_tasks": "error"}, **options)
    model.predict(frame)
    school = frame["school"].astype(float).mask(frame.index == 7)
    new = frame.assign(school=np.where(frame.index == 7, 77, school))
    for other in (new, frame.assign(school=school)):
        for use in (model.predict, model.evaluate):
            with pytest.raises(ValueError, match="row 7 is of a task that was not there"):
                use(other)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"task_column": "score"}, "'score' is the target"),
        ({"penalty": GroupL2({"ab": ["a", "b"], "c": ["c"]})}, "groups of several features"),
        ({"penalty": GroupL2({"ab": ["a", "bb"], "c": ["c"]})}, "'bb', which is no feature"),
    ],
)
def test_impossible_tasks_and_groups_are_named(frame, tmp_path, more, said):
    path = tmp_path / "d.csv"
    frame.to_csv(path, index=False)
    params = {"penalty": more.pop("penalty")} if "penalty" in more else {}
    options = {"task_column": "school", **more}
    with pytest.raises(ValueError, match=said):
        train(path, target="score", ignore=["passed"], params=params, **options)


def test_commands(frame, tmp_path):
    path, model = tmp_path / "d.csv", tmp_path / "m.thresher"
    frame.to_csv(path, index=False)

    def said(*words):
        result = CliRunner().invoke(app, [str(word) for word in words])
        assert result.exit_code == 0, result.output
        return result.stdout

    said("train", path, "--target", "passed", "--ignore", "score", "--task-column", "school",
         "--set", "alpha=0.01", "--model", model, "--quiet")  # fmt: skip
    told = json.loads(said("evaluate", model, path, "--json"))
    assert told["error"] < 0.1
    lines = said("predict", model, path, "--probabilities").splitlines()
    assert len(lines) == N
    said("inspect", model)


def test_what_cannot_be(frame):
    about = {"target": "score", "ignore": ["passed"]}
    with pytest.raises(ValueError, match="asks for the column that names the task"):
        train(frame, learner="multitask", **about)
    with pytest.raises(
        ValueError, match="task_column is for learner='multitask', not for 'kernel'"
    ):
        train(frame, learner="kernel", task_column="school", **about)
    with pytest.raises(ValueError, match="must be a category, not 'number'"):
        train(frame, task_column="school", types={"school": "number"}, **about)
    with pytest.raises(ValueError, match="'shool'"):
        train(frame, task_column="shool", **about)
    with pytest.raises(ValueError, match="no feature beside the task column 'school'"):
        train(frame[["school", "score"]], target="score", task_column="school")
    asked = {"params": {"solver": "proximal_newton"}, "memory": 1}
    with pytest.raises(ValueError, match=r"proximal_newton' must see all rows .* use solver='auto"):
        train(frame, task_column="school", **asked, **about)
    with pytest.raises(ValueError, match="asks for the column that names the task"):
        train(frame, learner="multitask", memory=1, **about)
    lonely = frame.assign(school=np.where(np.arange(N) == 3, 99, frame["school"]))
    for memory in (1 << 30, 1):
        with pytest.raises(ValueError, match="task '99' with one sample only"):
            train(lonely, task_column="school", holdout=0.0, memory=memory, **about)


def test_own_scores_in_onnx(frame, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from thresher.artifacts.onnx_graph import write_onnx

    f = OwnTask(RNG.normal(size=(3, 2)), RNG.normal(size=3), 1, np.array([2, 0, -1, 1]))
    rows = np.zeros((6, 6))
    rows[:, [0, 5]] = RNG.normal(size=(6, 2))
    rows[np.arange(4), 1 + np.arange(4)] = 1.0
    write_onnx(tmp_path / "m.onnx", f, dtype="float64")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    name = session.get_inputs()[0].name
    found = np.asarray(session.run(None, {name: rows})[0]).reshape(-1)
    np.testing.assert_allclose(found, f.scores(rows)[:, 0], atol=1e-9)


def test_hostile_functions_are_refused(frame):
    options = {"target": "score", "ignore": ["passed"], "holdout": 0.0}
    model = train(frame, task_column="school", **options)
    function = model.function
    for wrong in (
        function._replace(places=function.places + 9), function._replace(first=99),
        function._replace(places=function.places.astype(float)),
        function._replace(coef=function.coef * np.nan),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"task|among|coef_"):
            wrong.check()
    document, arrays = to_document(model.estimator)
    document["parameters"]["task_columns"] = None
    with pytest.raises(BadFile, match="task_columns"):
        from_document(document, arrays, 2)


def test_rows_without_a_task_get_the_mean():
    f = OwnTask(np.array([[1.0], [3.0]]), np.array([0.0, 1.0]), 0, np.array([1, 0]))
    rows = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 2.0]])
    np.testing.assert_allclose(f.scores(rows)[:, 0], [7.0, 2.0, 4.5])
    assert (f.features, f.outputs, f.size) == (3, 1, 2)
