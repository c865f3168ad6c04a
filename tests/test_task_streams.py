"""Files whose rows name their tasks, learned as streams: tasks, memory, resuming, workers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from thresher import load_model, open_data, train
from thresher._rows import as_rows
from thresher.data import DataError
from thresher.engines.base import Serial
from thresher.functions.own_task import taken_apart

N, SCHOOLS = 3000, 60
ABOUT = {"target": "score", "task_column": "school", "seed": 1}
SMALL = {**ABOUT, "memory": 1}


def made(rows=N, seed=0):
    """Sorted by school, so that the first rows know few of them."""
    rng = np.random.default_rng(seed)
    school = np.sort(rng.integers(SCHOOLS, size=rows))
    X = rng.normal([5.0, 0.0, 0.0], size=(rows, 3))
    y = X[:, 0] * (1.0 + school / SCHOOLS) - X[:, 1] + 0.1 * rng.normal(size=rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.insert(1, "school", [f"s{k:02d}" for k in school])
    return frame.assign(score=y)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("tasks") / "d.csv"
    made().to_csv(file, index=False)
    return file


@pytest.fixture(scope="module")
def streamed(path):
    return train(path, **SMALL)


def test_all_tasks_of_a_file_are_found_whatever_its_first_rows_say(path, streamed):
    names = [f"s{k:02d}" for k in range(SCHOOLS)]
    assert streamed.estimator.tasks_.tolist() == names
    assert not streamed.training["in_memory"]
    assert streamed.training["held_out"]["r2"] > 0.9
    assert train(path, **ABOUT).estimator.tasks_.tolist() == names


@pytest.mark.parametrize("kind", ["parquet", "frame"])
def test_formats_agree(kind, streamed, tmp_path):
    frame = made()
    data = frame
    if kind == "parquet":
        data = tmp_path / "d.parquet"
        frame.to_parquet(data)
    found = train(data, **SMALL)
    assert found.estimator.tasks_.tolist() == streamed.estimator.tasks_.tolist()
    np.testing.assert_allclose(found.predict(frame), streamed.predict(frame), atol=1e-6)


def test_predictions_of_a_file_and_of_new_tasks(path, streamed, tmp_path):
    streamed.save(tmp_path / "m.thresher")
    again = load_model(tmp_path / "m.thresher")
    frame = made()
    np.testing.assert_array_equal(again.predict(path), streamed.predict(frame))
    assert again.evaluate(path)["r2"] > 0.9
    f = again.function
    X = frame[["a", "b", "c"]].to_numpy()
    codes = np.searchsorted(again.estimator.tasks_, frame["school"])
    own = np.einsum("ij,ij->i", X, f.coef[codes]) + f.intercept[codes]
    np.testing.assert_allclose(streamed.predict(frame), own)
    mean = X @ f.coef.mean(axis=0) + f.intercept.mean()
    np.testing.assert_allclose(again.predict(frame.assign(school="new")), mean)


def test_without_a_scan(path):
    """Names are looked for, rows are not counted."""
    model = train(path, scan=False, passes=4, **SMALL)
    assert model.estimator.tasks_.size == SCHOOLS
    assert model.evaluate(path)["r2"] > 0.9


def test_classes(tmp_path):
    frame = made()
    frame["score"] = np.where(frame["score"] > frame["score"].median(), "high", "low")
    frame.to_csv(tmp_path / "c.csv", index=False)
    model = train(tmp_path / "c.csv", **SMALL)
    assert model.estimator.classes_.tolist() == ["high", "low"]
    assert model.evaluate(tmp_path / "c.csv")["error"] < 0.15


def test_a_stream_goes_on_where_it_was_interrupted(path, streamed, tmp_path):
    passes = 0

    def stop():
        nonlocal passes
        passes += 1
        return passes == 3

    about = {**SMALL, "checkpoint": "1", "model": tmp_path / "m.thresher"}
    broken = train(path, stop=stop, **about)
    assert broken.training["status"] == "INTERRUPTED"
    went_on = train(path, resume=True, **about)
    np.testing.assert_array_equal(went_on.function.coef, streamed.function.coef)
    assert went_on.training["held_out"] == streamed.training["held_out"]


def test_one_shard_is_the_stream_and_two_come_close(path, streamed):
    one = train(path, cluster=Serial(), shards=1, **SMALL)
    np.testing.assert_array_equal(one.function.coef, streamed.function.coef)
    two = train(path, cluster=Serial(), shards=2, **SMALL)
    assert two.estimator.tasks_.tolist() == one.estimator.tasks_.tolist()
    assert two.training["held_out"]["r2"] > 0.85


def test_settings_are_searched_by_rows_that_name_their_tasks(path):
    model = train(path, tune=2, params={"least_rows": 1, "penalty": "l1"}, **SMALL)
    assert all(trial["state"] != "failed" for trial in model.training["trials"])
    assert model.training["held_out"]["r2"] > 0.5


def test_weights_and_rows_without_a_task(tmp_path):
    frame = made(600)
    frame["w"] = np.where(frame["school"] == "s00", 0.0, 1.0)
    frame.loc[5, "school"] = None
    frame.to_csv(tmp_path / "w.csv", index=False)
    model = train(tmp_path / "w.csv", weight="w", holdout=0.0, **SMALL)
    names = model.estimator.tasks_.tolist()
    assert "s00" not in names  # of weight nothing, and so is the row without a school
    assert len(names) == SCHOOLS - 1
    assert np.all(np.isfinite(model.predict(tmp_path / "w.csv")))


def test_categories_of_all_rows(tmp_path):
    text = "k,v\n" + "a,1\n" * 20000 + "07,1\n7.0,2\nNA,3\n 7 ,3\n\nz,4\nbad\n"
    (tmp_path / "k.csv").write_text(text)
    data = open_data(tmp_path / "k.csv", types={"k": "category:all"}, on_bad_rows="skip")
    assert data.schema.column("k").values == ("07", "7", "a", "z")
    data = open_data(tmp_path / "k.csv", types={1: "category:all"}, on_bad_rows="skip")
    assert data.schema.column("k").values == ("07", "7", "a", "z")
    with pytest.raises(ValueError, match="category:all for all of the file"):
        open_data(tmp_path / "k.csv", types={"k": "category:every"})
    with pytest.raises(DataError, match="'kk'"):
        open_data(tmp_path / "k.csv", types={"kk": "category:all"})


@pytest.mark.parametrize("dense", [True, False])
def test_rows_without_the_features_that_name_tasks(dense):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 7)) * (rng.uniform(size=(9, 7)) < 0.6)
    X[:, 2:5] = 0.0
    X[np.arange(8), 2 + np.arange(8) % 3] = 1.0
    places = np.append(np.arange(8) % 3, -1)
    for rows in (X, sparse.csr_array(X)):
        others, found = taken_apart(as_rows(rows), 2, 5, dense)
        others = others if dense else others.toarray()
        np.testing.assert_array_equal(others, np.delete(X, [2, 3, 4], axis=1))
        np.testing.assert_array_equal(found, places)
