"""The quick way to a schema of numbers finds what the careful one finds."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from thresher import DataError, open_data
from thresher.data import infer
from thresher.data.infer import infer_table
from thresher.data.infer_numbers import infer_numbers
from thresher.data.wishes import Wishes

CELLS = st.one_of(
    st.sampled_from([0.0, 1.0, np.nan, -0.0, 1e308, -1e308, 5e-324]), st.floats(allow_nan=True)
)
TABLES = hnp.arrays(np.float64, st.tuples(st.integers(2, 6), st.integers(1, 9)), elements=CELLS)


def outcome(infer, *given_):
    try:
        return infer(*given_)
    except DataError as error:
        return str(error)


@given(
    TABLES, st.sampled_from(["mean", "most_frequent", "error"]), st.booleans(),
    st.sampled_from([None, "regression"]), st.booleans(),
)  # fmt: skip
def test_both_agree(cells, missing, weighted, task, ignoring):
    names = [f"c{k}" for k in range(len(cells))]
    weight = names[1] if weighted else None
    ignore = names[2:3] if ignoring else ()
    wishes = Wishes(names[0], weight, ignore, task=task, missing=missing)
    table = pa.table([pa.array(c, from_pandas=True) for c in cells], names=names)
    assert outcome(infer_numbers, names, cells, wishes, "f") == outcome(
        infer_table, table, wishes, "f"
    )


@pytest.mark.parametrize("rows", [7, 1000, 5000])
def test_means_to_the_bit(rows):
    """Sums of many rows are taken in the same order."""
    cells = np.random.default_rng(0).normal(size=(40, rows))
    names = [f"c{k}" for k in range(40)]
    wishes = Wishes("c0")
    table = pa.table(list(cells), names=names)
    assert infer_numbers(names, cells, wishes, "f") == infer_table(table, wishes, "f")


def test_as_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3)).round(2)
    lines = [f"{a},{b},,{c},{i % 2}" for i, (a, b, c) in enumerate(X.tolist())]
    lines[3] = "1,,,2,1"
    path = tmp_path / "d.csv"
    path.write_text("a,b,none,c,y\n" + "\n".join(lines) + "\n")
    quick = open_data(path, target="y").schema
    careful = open_data(path, target="y", types={"a": "number"}).schema
    assert quick == careful
    assert [c.kind for c in quick.columns] == ["number", "number", "ignored", "number", "ignored"]
    assert quick.columns[1].flag


# ---------------------------------------------------------------- numbers among other columns

WORDS = ["", "NA", "1", " 2.5 ", "-3e2", "0", "1e999", "x", "yes", "no", "2024-01-02", "007"]
COLUMN = st.one_of(
    st.lists(st.sampled_from(WORDS[:6]), min_size=6, max_size=6),
    st.lists(st.sampled_from(WORDS), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), CELLS), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.integers(-3, 3)), min_size=6, max_size=6),
    st.lists(st.booleans(), min_size=6, max_size=6),
)


@given(
    st.lists(COLUMN, min_size=1, max_size=5), st.sampled_from(["mean", "most_frequent", "error"]),
    st.sampled_from([None, {"c0": "category"}, {"c0": "number"}]),
)  # fmt: skip
def test_one_look_at_all_columns_finds_what_a_look_at_each_does(columns, missing, types):
    names = [f"c{k}" for k in range(len(columns))]
    table = pa.table([pa.array(c) for c in [*columns, [0, 1] * 3]], names=[*names, "y"])
    wishes = Wishes("y", types=types, missing=missing)
    found = outcome(infer_table, table, wishes, "f")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(infer, "numbers_among", lambda *_: ([], np.empty((0, 6))))
        assert outcome(infer_table, table, wishes, "f") == found
