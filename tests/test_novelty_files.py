"""Novelty detection from files: training, evaluation, streams, shards, wizard, report."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from thresher import load_model, open_data, train
from thresher.cli.app import app
from thresher.cli.questions import QUESTIONS
from thresher.cli.talk import Talk
from thresher.cli.wizard import recipe_of
from thresher.data import Schema
from thresher.data.errors import DataError
from thresher.engines.base import Serial
from thresher.registry import LEARNERS
from thresher.training import Training, run
from thresher.training.novelty import NoveltyMetrics
from thresher.views.report.reproduce import recipe


def frame(seed, outliers, rows=150):
    rng = np.random.default_rng(seed)
    known = [rng.normal(centre, 0.4, size=(rows, 2)) for centre in (-1.5, 1.5)]
    odd = rng.uniform(-6, 6, size=(4 * outliers, 2))
    odd = odd[np.abs(np.abs(odd) - 1.5).max(axis=1) > 1.5][:outliers]
    table = pd.DataFrame(np.concatenate([*known, odd]), columns=["u", "v"])
    table["kind"] = np.repeat(["a", "b", "odd"], [rows, rows, len(odd)])
    return table.sample(frac=1, random_state=seed)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("novelty")
    for name, seed, outliers in (("with", 0, 30), ("without", 1, 0), ("test", 2, 60)):
        frame(seed, outliers).to_csv(folder / f"{name}.csv", index=False)
    one = frame(3, 0)
    one[one.kind == "a"].to_csv(folder / "one.csv", index=False)
    return folder


@pytest.mark.parametrize("data", ["with.csv", "without.csv"])
def test_trained_with_and_without_outliers(here, data):
    model = train(str(here / data), target="kind", task="novelty", outlier_label="odd")
    assert model.training["learner"] == "novelty"
    assert model.schema.target.outlier == "odd"
    assert model.classes.tolist() == ["a", "b", "odd"]
    found = model.evaluate(str(here / "test.csv"))
    assert found["error"] < 0.15
    assert found["class_error"] < 0.02
    assert found["false_alarms"] <= found["error"] <= found["false_alarms"] + found["class_error"]
    assert found["detection"] > 0.7
    assert found["auc"] > 0.9
    assert np.sum(found["confusion"]) == found["rows"] == 360
    table = pd.read_csv(here / "test.csv")
    predicted = model.predict(table)
    assert np.mean(predicted[table.kind == "odd"] == "odd") == pytest.approx(found["detection"])


def test_one_class_and_strange_labels(here):
    model = train(str(here / "one.csv"), target="kind", learner="novelty")
    assert model.classes.tolist() == ["a", "outlier"]
    found = pd.Series(model.predict(str(here / "test.csv")))
    truth = pd.read_csv(here / "test.csv").kind
    assert (found[truth == "a"] == "a").mean() > 0.85
    assert (found[truth == "b"] == "outlier").mean() > 0.95
    with pytest.raises(DataError, match="not among the classes 'a', 'outlier'"):
        model.evaluate(str(here / "test.csv"))


def test_learner_and_task_go_together(here):
    assert LEARNERS.agreed(None, None) == ("linear", None)
    assert LEARNERS.agreed(None, "novelty") == ("novelty", "novelty")
    assert LEARNERS.agreed("novelty", None) == ("novelty", "novelty")
    assert LEARNERS.agreed("hyperplanes", None) == ("hyperplanes", None)
    path = str(here / "with.csv")
    with pytest.raises(ValueError, match="not for novelty; use novelty"):
        train(path, target="kind", task="novelty", learner="linear")
    with pytest.raises(ValueError, match="say task='novelty'"):
        train(path, target="kind", outlier_label="odd")
    with pytest.raises(ValueError, match="is said when data are opened"):
        train(path, target="kind", learner="novelty", params={"outlier_label": "a"})
    with pytest.raises(ValueError, match="numbers"):
        open_data(np.eye(3), [0, 1, 2], task="novelty", outlier_label="odd")
    with pytest.raises(DataError, match="all rows looked at have the outliers' label"):
        open_data(np.eye(3), [1, 1, 1], task="novelty", outlier_label=1)
    with pytest.warns(UserWarning, match="'Oddd', but some have 'odd'"):
        open_data(path, target="kind", task="novelty", outlier_label="Oddd")
    numbers = open_data(np.eye(3), [0, 1, 1], task="novelty", outlier_label="1")  # as typed
    assert (numbers.schema.target.classes, numbers.schema.target.outlier) == ((0, 1), 1)


def test_a_schema_from_a_file_is_checked(here):
    schema = open_data(str(here / "with.csv"), target="kind", task="novelty").schema
    assert Schema.from_json(schema.to_json()) == schema
    for change in ({"outlier": None}, {"outlier": "c"}, {"task": "classification"}):
        target = dataclasses.replace(schema.target, **change)
        broken = dataclasses.replace(schema, target=target).to_json()
        with pytest.raises(DataError, match="outliers' label"):
            Schema.from_json(broken)


def linear(**more):
    params = {"algorithm": "pegasos", "map": "fourier", "n_components": 30}
    return {
        "learner": "novelty",
        "outlier_label": "odd",
        "target": "kind",
        "params": params,
        **more,
    }


def test_streams_shards_and_checkpoints(here, tmp_path):
    path = str(here / "with.csv")
    whole = train(path, memory=1, passes=3, **linear())
    assert not whole.training["in_memory"]
    assert whole.estimator.threshold_ == 0.0
    test = str(here / "test.csv")
    assert whole.evaluate(test)["class_error"] < 0.05
    scores = whole.function.scores(pd.read_csv(test)[["u", "v"]].to_numpy())
    shard = train(path, cluster=Serial(), shards=1, passes=3, **linear())
    again = shard.function.scores(pd.read_csv(test)[["u", "v"]].to_numpy())
    np.testing.assert_array_equal(again, scores)
    many = train(path, cluster=Serial(), shards=3, passes=3, **linear())
    assert many.evaluate(test)["class_error"] < 0.05
    model, asked = tmp_path / "m.thresher", iter([False] * 3)
    given = linear(passes=3, memory=1, model=model, checkpoint="1")
    reading = {name: given.pop(name) for name in ("target", "outlier_label")}

    def run_with(**how):
        return run(open_data(path, task="novelty", **reading), Training(**given, **how))

    cut = run_with(stop=lambda: next(asked, True))
    assert cut.training["status"] == "INTERRUPTED"
    resumed = run_with(resume=True)
    again = resumed.function.scores(pd.read_csv(test)[["u", "v"]].to_numpy())
    np.testing.assert_array_equal(again, scores)


def test_metrics():
    metrics = NoveltyMetrics(np.array(["a", "none", "z"]), "none")
    assert metrics.summary() == {"rows": 0}
    known = np.array([[2.0, -1.0], [1.0, 3.0], [-1.0, -2.0], [-1.0, -3.0], [1.0, 0.5]])
    scores = np.insert(known, 1, -known.max(axis=1), axis=1)
    metrics.add(np.array([0, 0, 0, 1, 1]), scores, None)  # right, wrong, rejected; found, missed
    found = metrics.summary()
    assert found["error"] == pytest.approx(2 / 3)
    assert found["class_error"] == pytest.approx(1 / 3)
    assert found["false_alarms"] == pytest.approx(1 / 3)
    assert found["detection"] == 0.5
    assert found["confusion"] == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]
    only = NoveltyMetrics(np.array(["a", "none", "z"]), "none")
    only.add(np.array([0, 2]), scores[:2], None)
    assert (only.summary()["detection"], only.summary()["auc"]) == (None, None)


def test_the_command_and_its_recipe(here, tmp_path):
    out = tmp_path / "m.thresher"
    words = ["train", str(here / "with.csv"), "-t", "kind", "--task", "novelty", "--outlier-label",
             "odd", "--set", "algorithm=least_squares", "-m", str(out)]  # fmt: skip
    assert CliRunner().invoke(app, words).exit_code == 0
    shown = CliRunner().invoke(app, ["evaluate", str(out), str(here / "test.csv")]).output
    for label in ("error without rejections", "false alarms", "outliers detected"):
        assert label in shown
    model = load_model(out)
    said = recipe(model)
    assert {"task": "novelty", "outlier_label": "odd"}.items() <= said.reading.items()
    assert "outlier_label" not in said.params
    again = train(str(here / "with.csv"), **{**said.arguments(), "model": None})
    np.testing.assert_array_equal(again.predict(str(here / "test.csv")),
                                  model.predict(str(here / "test.csv")))  # fmt: skip
    page = tmp_path / "r.html"
    done = CliRunner().invoke(app, ["report", str(out), "--data", str(here / "test.csv"), "--quick",
                                    "--static", "--html", str(page)])  # fmt: skip
    assert done.exit_code == 0
    text = page.read_text()
    assert "of the outliers are detected" in text
    assert "Normals of the classes" in text


def test_the_wizard_asks_for_the_label(here):
    talk = Talk([str(here / "with.csv")])
    wanted = {"target": "kind", "task": "novelty", "outlier_label": "odd", "save": str(here / "w")}
    for question in QUESTIONS:
        if question.asked(talk):
            talk.answer(question, wanted.get(question.key, ""))
    assert "loss" not in talk.answers
    assert "budget" not in talk.answers
    assert talk.answers["learner"] == "novelty"
    assert talk.answers["criterion"] == "novelty"
    words = recipe_of(talk.paths, {}, talk.answers).words()
    assert words[-6:-2] == ["--outlier-label", "odd", "--learner", "novelty"]
