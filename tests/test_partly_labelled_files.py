"""Rows without a label and rows of no class, from files to evaluated models."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thresher import DataError, Schema, load_model, open_data, train
from thresher._blanks import IRRELEVANT_TARGET
from thresher.cli.questions import QUESTIONS
from thresher.cli.talk import Talk
from thresher.cli.wizard import recipe_of
from thresher.data import Target
from thresher.training.holdout import HoldOut

RNG = np.random.default_rng(1)
N = 240
X = RNG.normal(size=(N, 2)) + np.repeat([[2.0], [-2.0], [0.0]], N // 3, axis=0)
WORDS = np.repeat(["up", "down", "other"], N // 3).astype(object)
WORDS[RNG.random(N) > 0.4] = None
NUMBERS = {"up": 1.0, "down": 0.0, "other": 7.0, None: np.nan}


def frame(words=True):
    y = WORDS if words else np.array([NUMBERS[w] for w in WORDS])
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})


@pytest.fixture(params=["csv", "parquet", "frame", "matrix", "dask"])
def source(request, tmp_path):
    kind = request.param
    if kind == "matrix":
        return lambda words: ((X, frame(words)["y"].to_numpy()), {})
    if kind == "frame":
        return lambda words: ((frame(words),), {"target": "y"})
    if kind == "dask":
        dd = pytest.importorskip("dask.dataframe")
        return lambda words: ((dd.from_pandas(frame(words), npartitions=3),), {"target": "y"})

    def written(words):
        path = tmp_path / f"d.{kind}"
        if kind == "csv":
            frame(words).to_csv(path, index=False)
        else:
            pq.write_table(pa.Table.from_pandas(frame(words)), path)
        return (path,), {"target": "y"}

    return written


@pytest.mark.parametrize("words", [True, False])
def test_every_format_reads_the_same_targets(source, words):
    args, options = source(words)
    marker = "other" if words else 7
    data = open_data(*args, **options, partly_labelled=True, irrelevant=marker)
    assert data.schema.target.classes == (("down", "up") if words else (0, 1))
    assert data.schema.target.irrelevant == marker
    y = np.concatenate([batch.y for batch in data.chunks()])
    expected = [{"up": 1.0, "down": 0.0, "other": IRRELEVANT_TARGET}.get(w, np.nan) for w in WORDS]
    assert np.array_equal(y, expected, equal_nan=True)
    counts = data.scan().class_counts
    assert counts.tolist() == [np.sum(WORDS == "down"), np.sum(WORDS == "up")]


def test_without_the_wish_a_blank_is_a_bad_row(tmp_path):
    path = tmp_path / "d.csv"
    frame().to_csv(path, index=False)
    with pytest.raises(DataError, match="the target is missing"):
        list(open_data(path, target="y").chunks())
    data = open_data(path, target="y", on_bad_rows="skip")
    assert sum(batch.size for batch in data.chunks()) == np.sum(WORDS != None)  # noqa: E711


def test_a_cache_keeps_blanks(tmp_path):
    path = tmp_path / "d.csv"
    frame().to_csv(path, index=False)
    options = {"target": "y", "partly_labelled": True, "irrelevant": "other"}
    first, second = (open_data(path, **options, cache=True) for _ in range(2))
    one, two = (np.concatenate([b.y for b in data.chunks()]) for data in (first, second))
    assert np.array_equal(one, two, equal_nan=True)
    assert np.isnan(one).any()
    assert (one == IRRELEVANT_TARGET).any()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"irrelevant": "other", "target": "a"}, "is about labels, but the target 'a' is a number"),
        ({"irrelevant": "x", "target": "n"}, "is a word, but the labels are numbers"),
        ({"irrelevant": "only", "target": "one"}, "all labelled rows looked at are irrelevant"),
        ({"target": "blank"}, "is empty in the sample"),
    ],
)
def test_what_cannot_be_read_is_told(options, words):
    table = frame().assign(n=np.arange(N) % 3, one="only", blank=pd.Series([None] * N, dtype=str))
    with pytest.raises(DataError, match=words):
        open_data(table, **options, partly_labelled=True)


def test_labels_that_come_late_are_listed():
    table = frame().assign(y=pd.Series([None] * N, dtype=str))
    data = open_data(table, target="y", partly_labelled=True, classes=["up", "down"])
    assert data.schema.target.classes == ("down", "up")


def test_schemas_go_to_json_and_hostile_ones_are_refused():
    schema = Schema(
        target=Target("y", "classification", (0, 2), partly=True, irrelevant=1), matrix_features=2
    )
    document = schema.to_json()
    assert Schema.from_json(document) == schema
    assert schema.target.labels == (0, 1, 2)
    for wrong in ({"irrelevant": 2}, {"irrelevant": "a"}, {"partly": 1}, {"partly": False},
                  {"irrelevant": [1]}, {"irrelevant": float("nan")}):  # fmt: skip
        target = {**document["target"], **wrong}
        with pytest.raises((DataError, ValueError, TypeError)):
            Schema.from_json({**document, "target": target})


def test_rows_without_a_label_are_never_held_out():
    data = open_data(frame(), target="y", partly_labelled=True, irrelevant="other")
    hold = HoldOut(0.5, 10_000, 0)
    for batch in data.chunks():
        held = hold.collect(batch)
        assert not held[~batch.labelled].any()
    assert 10 < hold.size < np.sum(np.isin(WORDS, ["up", "down"]))


def test_a_model_is_trained_evaluated_and_saved(tmp_path):
    model = train(frame(), target="y", learner="universum", irrelevant="other")
    told = model.training
    assert told["rows"] + told["held_out_rows"] == N
    known = int(np.sum(np.isin(WORDS, ["up", "down"])))
    assert told["unlabelled_rows"] == N - known
    measured = model.evaluate(frame())
    assert measured["rows"] == known
    assert measured["error"] < 0.1
    path = tmp_path / "m.thresher"
    model.save(path)
    loaded = load_model(path)
    assert loaded.schema.target.irrelevant == "other"
    assert np.array_equal(loaded.predict(frame()), model.predict(frame()))
    assert loaded.evaluate(frame()) == measured


def test_settings_are_searched_on_labelled_rows():
    model = train(
        frame(), target="y", learner="universum", irrelevant="other", tune=3, search="random"
    )
    assert model.training["tuning"]["done"] == 3
    assert model.evaluate(frame())["error"] < 0.1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"learner": "linear", "irrelevant": "other"}, "labelled rows only: .* universum"),
        ({"learner": "universum", "params": {"irrelevant": "other"}}, "--irrelevant"),
        ({"learner": "universum", "memory": 2000}, "must see all rows at once"),
    ],
)
def test_what_cannot_be_learned_is_told(options, words):
    with pytest.raises(ValueError, match=words):
        train(frame(), target="y", **options)


def test_a_label_that_no_row_has_is_told():
    with pytest.warns(UserWarning, match="'Othr', but some have 'other'"):
        open_data(frame(), target="y", irrelevant="Othr")
    with pytest.warns(UserWarning, match="no row has the label irrelevant='water'"):
        train(frame(), target="y", learner="universum", irrelevant="water")


def test_the_command_line(thresher, tmp_path):
    path, model = tmp_path / "d.csv", tmp_path / "m.thresher"
    frame().to_csv(path, index=False)
    given = ["train", path, "-t", "y", "-m", model, "--learner", "universum"]
    code, out, err = thresher(*given, "--irrelevant", "other", "--set", "tuning=forward", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["learner"] == "universum"
    assert told["unlabelled_rows"] > 0
    code, out, err = thresher("evaluate", model, path, "--json")
    assert code == 0, err
    assert json.loads(out)["error"] < 0.1
    code, _, err = thresher("report", model, "--data", path, "--html", tmp_path / "m.html")
    assert code == 0, err
    assert "after each concave-convex step" in (tmp_path / "m.html").read_text()
    code, _, err = thresher(*given, "--irrelevant", "other")
    assert code == 0
    assert "other is none" in err
    assert "without a class" in " ".join(err.split())
    code, _, err = thresher("train", path, "-t", "y", "--irrelevant", "other")
    assert code != 0
    assert "universum" in err


def test_the_wizard_asks_for_the_label_of_rows_of_no_class(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame().to_csv("d.csv", index=False)
    talk = Talk(["d.csv"])
    answers = {"loss": "hinge", "learner": "universum", "irrelevant": "other"}
    for question in QUESTIONS:
        if question.asked(talk):
            talk.answer(question, answers.get(question.key, ""))
    recipe = recipe_of(["d.csv"], {}, talk.answers)
    assert recipe.reading["irrelevant"] == "other"
    assert "--irrelevant other" in " ".join(recipe.words())
    assert talk.rarest() > 0.1
