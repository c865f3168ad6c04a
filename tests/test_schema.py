"""Schemas: read off a sample, applied to later rows, saved and read back."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from thresher.data import Column, DataError, Schema, Target, open_data
from thresher.data._csv_text import murmur3
from thresher.data.schema import NULLS, unique_names


def csv_data(tmp_path, text, name="data.csv", **options):
    path = tmp_path / name
    path.write_text(text)
    return open_data(path, **options)


def rows(data):
    (batch,) = data.chunks(1 << 20)
    return batch.rows.X


def both(tmp_path, frame, **options):
    """The same table as text and as typed columns; their schemas must agree."""
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    text, typed = (open_data(tmp_path / f"t.{k}", **options) for k in ("csv", "parquet"))
    assert text.schema == typed.schema
    np.testing.assert_array_equal(rows(text), rows(typed))
    return text


# ---------------------------------------------------------------- kinds of columns


def test_kinds_are_read_off_the_sample(tmp_path):
    n = 200
    frame = pd.DataFrame(
        {
            "number": np.arange(n) / 4,
            "whole": np.arange(n),
            "word": ["red", "blue"] * (n // 2),
            "yes": ["yes", "No"] * (n // 2),
            "empty": [None] * n,
            "id": [f"id{k}" for k in range(n)],
            "blank": ["  ", "x"] * (n // 2),
        }
    )
    data = both(tmp_path, frame)
    kinds = {c.name: c.kind for c in data.schema.columns}
    assert kinds == {
        "number": "number", "whole": "number", "word": "category", "yes": "boolean",
        "empty": "ignored", "id": "ignored", "blank": "category",
    }  # fmt: skip
    assert data.schema.column("yes").values == ("no", "yes")
    assert data.schema.column("blank").values == ("x",)
    assert "identifier" in data.schema.column("id").describe()
    assert "no values" in data.schema.column("empty").describe()
    with pytest.raises(DataError, match="did you mean 'word'"):
        data.schema.column("wrod")


def test_feature_names_and_encoding(tmp_path):
    text = "a,w,b,h\n1,u,yes,p\n,v,no,q\n3,,,\n"
    data = csv_data(tmp_path, text, types={"h": "hashed:2"})
    names = data.schema.feature_names()
    assert names == [
        "a", "a is missing", "w=u", "w=v", "w=(other)", "w is missing", "b", "b is missing",
        "h#0", "h#1", "h#2", "h#3", "h is missing",
    ]  # fmt: skip
    assert data.schema.n_features == len(names)
    p, q = (murmur3(word) & 3 for word in (b"p", b"q"))
    hashed = np.zeros((3, 5))
    hashed[0, p] = hashed[1, q] = hashed[2, 4] = 1
    expected = [[1, 0, 1, 0, 0, 0, 1, 0], [2, 1, 0, 1, 0, 0, 0, 0], [3, 0, 0, 0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(rows(data), np.hstack([expected, hashed]))
    later = csv_data(tmp_path, "h,b,w,a\np,YES,new,7\n", "later.csv", schema=data.schema)
    np.testing.assert_array_equal(rows(later)[0, :8], [7, 0, 0, 0, 1, 0, 1, 0])


def test_powers_of_a_number_are_of_its_difference_to_the_mean(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, None, 6.0], "b": [0.5, 0.0, 1.5, 2.0]})
    data = both(tmp_path, frame, types={"a": "powers:3", "b": "powers:2"})
    names = ["a", "(a - 3)^2", "(a - 3)^3", "a is missing", "b", "(b - 1)^2"]
    assert data.schema.feature_names() == names
    expected = [
        [1, 4, -8, 0, 0.5, 0.25], [2, 1, -1, 0, 0.0, 1.0],
        [3, 0, 0, 1, 1.5, 0.25], [6, 9, 27, 0, 2.0, 1.0],
    ]  # fmt: skip
    np.testing.assert_allclose(rows(data), expected)
    assert "powers up to 3" in data.schema.column("a").describe()
    sparse = dataclasses.replace(data.schema, layout="sparse")
    again = csv_data(tmp_path, "b,a\n1,6\n0,\n", "later.csv", schema=sparse)
    (batch,) = again.chunks(10)
    assert batch.rows.is_sparse
    dense = csr_matrix((batch.rows.data, batch.rows.indices, batch.rows.indptr)).toarray()
    np.testing.assert_allclose(dense, [[6, 9, 27, 0, 1, 0], [3, 0, 0, 1, 0, 1]])
    wide = csv_data(tmp_path, "a,b\n1e200,1\n2,1\n", "w.csv", schema=sparse)
    with pytest.raises(
        DataError, match=r"w.csv.*line 2.*1e\+200 is too far from 3, .* a power of 3"
    ):
        rows(wide)


@pytest.mark.parametrize("missing", ["error", "most_frequent"])
def test_powers_whatever_becomes_of_missing_values(tmp_path, missing):
    data = csv_data(tmp_path, "a\n1\n1\n7\n", missing=missing, types={"a": "powers:2"})
    usual = {"error": 3.0, "most_frequent": 1.0}[missing]
    a = np.array([1.0, 1.0, 7.0])
    np.testing.assert_allclose(rows(data), np.column_stack([a, (a - usual) ** 2]))


@pytest.mark.parametrize("kind", ["powers", "powers:", "powers:0", "powers:10", "powers:x"])
def test_powers_that_are_none(tmp_path, kind):
    with pytest.raises(ValueError, match=r"column 'a': powers:3 .* lies in 1 \.\. 9, got"):
        csv_data(tmp_path, "a\n1\n2\n", types={"a": kind})


def test_most_frequent_takes_the_place_of_missing(tmp_path):
    text = "a,w,b,h\n5,u,no,p\n5,v,yes,q\n1,v,yes,q\n,,,\n"
    data = csv_data(tmp_path, text, missing="most_frequent", types={"h": "hashed:3"})
    X = rows(data)
    np.testing.assert_array_equal(X[3], X[1])
    assert X[3, 0] == 5
    assert data.schema.feature_names()[:5] == ["a", "w=u", "w=v", "w=(other)", "b"]


def test_capped_and_hashed_categories(tmp_path):
    words = ["a"] * 5 + ["b"] * 4 + ["c"] * 3 + ["d"]
    text = "w,x\n" + "".join(f"{w},{k}\n" for k, w in enumerate(words))
    data = csv_data(tmp_path, text, max_categories=2)
    assert data.schema.columns[0].values == ("a", "b")
    assert "the 2 most frequent of 4" in data.schema.columns[0].describe()
    assert rows(data)[:, 2].tolist() == [0] * 9 + [1] * 4
    data = csv_data(tmp_path, text, hash_bits=5)
    assert (data.schema.columns[0].kind, data.schema.columns[0].bits) == ("hashed", 5)
    assert data.schema.n_features == 32 + 1 + 1
    data = csv_data(tmp_path, text, hash_bits=5, types={"w": "category"})
    assert data.schema.columns[0].kind == "category"


def test_numbers_as_categories_agree_in_text_and_typed_columns(tmp_path):
    frame = pd.DataFrame({"zip": [1234, 567, 1234, 8], "x": [0.5, 1.5, 2.5, 3.5]})
    data = both(tmp_path, frame, types={"zip": "category"})
    assert data.schema.columns[0].values == ("1234", "567", "8")
    frame["zip"] = [1234.0, 567.0, np.nan, 8.0]  # as pandas has whole numbers with gaps
    data = both(tmp_path, frame, types={"zip": "category"})
    assert data.schema.columns[0].values == ("1234", "567", "8")
    assert rows(data)[:, :5].argmax(axis=1).tolist() == [0, 1, 4, 2]
    schema = data.schema
    for text in ("1234", "1234.0", '"1234.0"', " 1234 "):
        later = csv_data(tmp_path, f"zip,x\n{text},1\n", "later.csv", schema=schema)
        assert rows(later)[0, :4].tolist() == [1, 0, 0, 0]
    frame["zip"] = [0.25, 1.5, 0.25, 7.0]
    assert both(tmp_path, frame, types={"zip": "category"}).schema.columns[0].values == (
        "0.25", "1.5", "7",
    )  # fmt: skip


def test_booleans_agree_in_text_and_typed_columns(tmp_path):
    frame = pd.DataFrame({"b": [True, False, True], "x": [1, 2, 3]})
    data = both(tmp_path, frame)
    assert data.schema.columns[0].values == ("false", "true")
    assert rows(data)[:, 0].tolist() == [1, 0, 1]
    for text, value in (("TRUE", 1), ("false", 0), ("True", 1), ("true", 1), ('"True"', 1)):
        later = csv_data(tmp_path, f"b,x\n{text},1\n", "later.csv", schema=data.schema)
        assert rows(later)[0, 0] == value
    data = both(tmp_path, frame.assign(b=[1, 0, 1]), types={"b": "boolean"})
    assert rows(data)[:, 0].tolist() == [1, 0, 1]
    data = both(tmp_path, frame.assign(b=["f", "m", "m"]), types={"b": "boolean"})
    assert rows(data)[:, 0].tolist() == [0, 1, 1]
    data = both(tmp_path, frame.assign(b=["yes"] * 3), types={"b": "boolean"})
    assert data.schema.columns[0].values == ("no", "yes")
    many = pd.DataFrame({"b": ["Yes", "NO"] * 100 + ["maybe"], "x": range(201)})
    data = open_data(many)
    assert data.schema.columns[0].values == ("no", "yes")
    with pytest.raises(DataError, match="row 201, column 'b': 'maybe' is neither of no/yes"):
        rows(data)
    with pytest.raises(DataError, match=r"no boolean, it holds 3 values \('a', 'b', 'c'\)"):
        open_data(frame.assign(b=["a", "b", "c"]), types={"b": "boolean"})


def test_dates_are_numbers_on_request(tmp_path):
    days = ["2024-03-01", "1969-12-31", "2024-03-01T12:00", None, "2024-03-02T00:00+02:00"]
    text = pa.table({"day": days, "x": range(5)})
    moments = pd.to_datetime(pd.Series(days), format="ISO8601", utc=True)
    typed = pa.table({"day": pa.array(moments), "x": range(5)})
    assert open_data(typed).schema.columns[0].note == (
        "a date: types={'day': 'date'} makes it a number"
    )
    expected = [19783, -1, 19783.5, np.mean([19783, -1, 19783.5, 19783 + 22 / 24]), 19783 + 22 / 24]
    schemas = []
    for source in (text, typed):
        assert open_data(source).schema.columns[0].kind == "ignored"
        assert "a date" in open_data(source).schema.columns[0].note
        data = open_data(source, types={"day": "date"})
        np.testing.assert_allclose(rows(data)[:, 0], expected, rtol=1e-12)
        assert rows(data)[:, 1].tolist() == [0, 0, 0, 1, 0]
        schemas.append(data.schema)
    assert schemas[0] == schemas[1]
    data = csv_data(tmp_path, "day,x\n2024-03-01,1\nlately,2\n", types={"day": "date"})
    with pytest.raises(DataError, match="line 3, column 'day': 'lately' is not a date like"):
        rows(data)
    whole = pa.table({"day": pa.array([19783, 0], pa.date32()), "x": [1, 2]})
    assert rows(open_data(whole, types={"day": "date"}))[:, 0].tolist() == [19783, 0]


def test_a_typo_does_not_make_a_category(tmp_path):
    lines = [f"{k},{k % 2}\n" for k in range(300)]
    lines[150] = "1O,0\n"
    data = csv_data(tmp_path, "a,y\n" + "".join(lines), target="y")
    assert data.schema.columns[0].kind == "number"
    assert "not numbers" in data.schema.columns[0].describe()
    with pytest.raises(DataError, match="line 152, column 'a': '1O' is not a number"):
        rows(data)
    data = csv_data(tmp_path, "a,y\n1,0\nx,1\n2,1\n", target="y")
    assert data.schema.columns[0].kind == "category"


def test_missing_numbers(tmp_path):
    frame = pd.DataFrame({"a": [1.0, np.nan, 4.0], "b": [1, 2, 3]})
    data = both(tmp_path, frame)
    assert rows(data).tolist() == [[1, 0, 1], [2.5, 1, 2], [4, 0, 3]]
    polars = pytest.importorskip("polars").DataFrame({"a": [1.0, math.nan, 4.0], "b": [1, 2, 3]})
    assert open_data(polars).schema == data.schema
    data = csv_data(tmp_path, "a,b\n-999,1\n3,2\nx,3\n", nulls=["-999", " x "])
    assert rows(data).tolist() == [[3, 1, 1], [3, 0, 2], [3, 1, 3]]
    clean = csv_data(tmp_path, "a,b\n1,1\n3,2\n")
    later = csv_data(tmp_path, "a,b\nNA,1\n", "later.csv", schema=clean.schema)
    assert rows(later).tolist() == [[2, 1]]  # no gaps in the sample, so no feature for them


def test_columns_by_number_are_found_and_left_out(tmp_path):
    data = csv_data(tmp_path, "a,b,c,y\n1,2,3,0\n4,5,6,1\n", target=-1, ignore=["2", 3])
    assert data.schema.feature_names() == ["a"]
    assert data.schema.target.name == "y"
    assert csv_data(tmp_path, "a,y\n1,0\n2,1\n", target="1").schema.target.name == "a"


# ---------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        ([0, 1, 1, 0], "classification", (0, 1)),
        ([-1.0, 1.0, 1.0, -1.0], "classification", (-1, 1)),
        ([3, 1, 2, 2], "classification", (1, 2, 3)),
        ([1, 2, 3, 4], "regression", ()),
        ([0.5, 1.0, 1.0, 0.5], "regression", ()),
        (["b", "a", "a", "b"], "classification", ("a", "b")),
        (["2", "10", "2", "10"], "classification", (2, 10)),
    ],
)
def test_task_and_labels(tmp_path, values, task, classes):
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "y": values})
    data = both(tmp_path, frame, target="y")
    assert (data.schema.target.task, data.schema.target.classes) == (task, classes)
    assert [type(c) for c in data.schema.target.classes] == [type(c) for c in classes]
    (batch,) = data.chunks()
    numeric = [float(v) for v in values] if classes == () else [
        float(classes.index(type(classes[0])(v))) for v in values
    ]  # fmt: skip
    assert batch.y.tolist() == numeric


def test_task_as_told():
    X = np.eye(4)
    assert open_data(X, [0, 1, 1, 0], task="regression").schema.target.classes == ()
    assert open_data(X, [0.5, 1, 1, 2], task="classification").schema.target.classes == (0.5, 1, 2)
    assert open_data(X, [1, 2, 3, 4], task="classification").schema.target.classes == (1, 2, 3, 4)
    assert open_data(X, [True, False] * 2).schema.target.classes == (0, 1)
    assert open_data(X, [0, 1, 1, 0], classes=[2, 1, 0]).schema.target.classes == (0, 1, 2)
    with pytest.raises(DataError, match="10001 different labels"):
        open_data(np.ones((10001, 1)), np.arange(10001), task="classification")
    measured = np.arange(40) + 0.5
    for task in ("classification", "novelty"):
        with pytest.raises(DataError, match="40 different values in 40 rows"):
            open_data(np.ones((40, 1)), measured, task=task)
    assert (
        len(
            open_data(
                np.ones((80, 1)), np.tile(measured, 2), task="classification"
            ).schema.target.classes
        )
        == 40
    )


def test_bad_targets(tmp_path):
    with pytest.raises(DataError, match="'y' is 'u' in a row"):
        csv_data(tmp_path, "x,y\n1,u\n", target="y", task="regression")
    with pytest.raises(DataError, match="'y' is empty"):
        csv_data(tmp_path, "x,y\n1,\n2,?\n", target="y")
    words = "".join(f"{k},w{k}\n" for k in range(1200))
    with pytest.raises(DataError, match="different words: no labels"):
        csv_data(tmp_path, "x,y\n" + words, target="y")
    with pytest.raises(DataError, match="holds list"):
        open_data(pa.table({"x": [1], "y": [[1]]}), target="y")


def test_prediction_needs_no_target(tmp_path):
    schema = csv_data(tmp_path, "x,y,w\n1,0,1\n2,1,1\n", target="y", weight="w").schema
    plain = schema.without_target()
    data = csv_data(tmp_path, "x\n5\n", "later.csv", schema=plain)
    (batch,) = data.chunks()
    assert batch.y is None
    assert batch.weight is None
    assert batch.rows.X.tolist() == [[5]]
    with pytest.raises(DataError, match="has no column 'y'"):
        rows(csv_data(tmp_path, "x\n5\n", "later.csv", schema=schema))


# ---------------------------------------------------------------- as JSON

WORDS = st.text(max_size=5)


@st.composite
def columns(draw):
    kind = draw(st.sampled_from(["number", "boolean", "date", "category", "hashed", "ignored"]))
    values = ()
    if kind == "category":
        values = tuple(draw(st.lists(WORDS, max_size=4)))
    if kind == "boolean":
        values = ("no", "yes")
    bits = draw(st.integers(1, 20)) if kind == "hashed" else 0
    fill = draw(st.floats(allow_nan=False, allow_infinity=False))
    if kind in ("category", "hashed"):
        fill = float(draw(st.integers(0, len(values) if kind == "category" else 2**bits - 1)))
    missing = draw(st.sampled_from(["mean", "most_frequent", "error"]))
    powers = draw(st.integers(1, 9)) if kind == "number" else 1
    return Column("", kind, values, bits, missing, draw(st.booleans()), fill, draw(WORDS), powers)


@given(st.lists(columns(), max_size=4), st.sampled_from([None, "w"]), st.booleans())
def test_json_gives_the_same_schema(found, weight, by_words):
    named = tuple(dataclasses.replace(c, name=f"n{k}") for k, c in enumerate(found))
    classes = ("a", "b") if by_words else (0, 1, 2.5)
    schema = Schema(named, Target("y", "classification", classes), weight, nulls=("", "x"))
    document = json.loads(json.dumps(schema.to_json()))
    assert Schema.from_json(document) == schema
    assert Schema.from_json(schema.to_json()) == schema


def document():
    schema = Schema(
        (Column("a", "category", ("u", "v")), Column("h", "hashed", bits=3), Column("n", "number")),
        Target("y", "classification", (0, 1)),
    )
    return json.loads(json.dumps(schema.to_json()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("columns",), None), (("columns",), "ab"), (("columns",), [1]), (("columns", 0), {}),
        (("columns", 0, "name"), 3), (("columns", 0, "name"), "h"), (("columns", 0, "kind"), "int"),
        (("columns", 0, "kind"), []), (("columns", 0, "values"), "uv"),
        (("columns", 0, "values"), [1, 2]), (("columns", 0, "fill"), 3.0),
        (("columns", 0, "fill"), -1.0), (("columns", 0, "fill"), 0.5),
        (("columns", 0, "fill"), math.nan), (("columns", 0, "fill"), math.inf),
        (("columns", 0, "fill"), None), (("columns", 0, "fill"), True),
        (("columns", 0, "flag"), 7), (("columns", 0, "missing"), "zero"),
        (("columns", 0, "note"), 1), (("columns", 0, "extra"), 1), (("columns", 1, "bits"), 0),
        (("columns", 1, "bits"), 27), (("columns", 1, "bits"), True), (("columns", 1, "bits"), 3.0),
        (("columns", 1, "fill"), 8.0), (("columns", 2, "fill"), math.nan),
        (("columns", 2, "fill"), 10**400), (("columns", 2, "kind"), "boolean"),
        (("target",), 0), (("target",), []), (("target", "task"), "rank"),
        (("target", "name"), None), (("target", "classes"), [1, 0]),
        (("target", "classes"), [0, "a"]), (("target", "classes"), [0, 0]),
        (("target", "classes"), []), (("target", "classes"), [0, math.nan]),
        (("target", "classes"), [0, math.inf]), (("target", "classes"), [False, True]),
        (("target", "classes"), [[0], [1]]), (("target", "task"), "regression"),
        (("weight",), 3), (("matrix_features",), 4), (("matrix_features",), -1),
        (("first_index",), 2), (("layout",), "wide"), (("row_bytes",), 0), (("row_bytes",), 1.5),
        (("nulls",), "NA"), (("nulls",), [1]), (("more",), 1),
    ],
)  # fmt: skip
def test_hostile_json_is_refused(path, value):
    bad = document()
    assert Schema.from_json(document()).n_features == 3 + 8 + 1
    place = bad
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(DataError, match="not a valid schema"):
        Schema.from_json(bad)


@pytest.mark.parametrize("bad", [None, 3, "x", [], {}, [1], {"columns": []}])
def test_other_json_is_refused(bad):
    with pytest.raises(DataError, match="not a valid schema"):
        Schema.from_json(bad)
    too_wide = document()
    too_wide["columns"] = [
        {**too_wide["columns"][1], "name": str(k), "bits": 26} for k in range(40)
    ]
    with pytest.raises(DataError, match="number of features"):
        Schema.from_json(too_wide)


def test_names_are_made_unique():
    assert unique_names(["a", " a", "", "a_2", "a"]) == ["a", "a_2", "c3", "a_2_2", "a_3"]
    assert "" in NULLS
