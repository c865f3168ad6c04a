"""The explorer: codes, levels, windows and selections against plain NumPy."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thresher import RowOrdering, load_model
from thresher.data import DataError
from thresher.views import plot_ordering
from thresher.views.explorer.codes import MISSING, OTHER, code_column, code_numbers
from thresher.views.explorer.colours import colour_tables
from thresher.views.explorer.explore import open_session
from thresher.views.explorer.page import write_page
from thresher.views.explorer.picture import draw_picture, map_colours, write_picture
from thresher.views.explorer.pyramid import build_pyramid
from thresher.views.explorer.reading import read_table
from thresher.views.explorer.selection import differences, labels, rows_of
from thresher.views.explorer.session import Session, shown_classes
from thresher.views.explorer.window import Window, cut_out


def table_of(n=700, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.random(n)
    return pa.table({
        "wave": np.cos(3 * t),
        "gap": np.where(rng.random(n) < 0.4, np.nan, t),
        "colour": rng.choice(["red", "green", "blue"], n, p=[0.6, 0.3, 0.1]),
        "count": rng.integers(0, 3, n),
        "id": [f"row-{i}" for i in range(n)],
        "label": np.where(t > 0.7, "yes", "no"),
    })  # fmt: skip


@pytest.fixture(scope="module")
def session():
    return Session(table_of(), "label", scores=np.arange(700.0), title="a table")


# ---------------------------------------------------------------- codes


def test_numbers_are_ranks_and_equal_values_the_middle_of_theirs():
    values = np.random.default_rng(0).permutation(np.arange(2550.0))
    codes = code_numbers("a", values).codes
    assert np.abs(codes - values * 254 / 2549).max() <= 1.0
    halves = code_numbers("a", np.repeat([0.0, 1.0], 50)).codes
    assert sorted(set(halves.tolist())) == [63, 190]  # the middles of 0 .. 127 and of 127 .. 254
    assert set(code_numbers("a", np.full(9, 3.5)).codes.tolist()) == {127}


def test_numbers_may_be_missing_infinite_or_all_of_it():
    codes = code_numbers("a", np.array([np.nan, -np.inf, 0.0, np.inf])).codes
    assert codes[0] == MISSING
    assert codes[1] < codes[2] < codes[3] < MISSING
    assert set(code_numbers("a", np.full(3, np.nan)).codes.tolist()) == {MISSING}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=400))
def test_codes_are_the_middles_that_numpy_finds(values):
    column = code_numbers("a", np.array(values, dtype=float))
    sides = [np.searchsorted(column.cuts, values, side=side) for side in ("left", "right")]
    np.testing.assert_array_equal(column.codes, sum(sides) // 2)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=60))
def test_codes_keep_the_order_of_numbers(values):
    values = np.array(values)
    codes = code_numbers("a", values).codes[np.argsort(values)]
    assert np.all(np.diff(codes.astype(int)) >= 0)
    assert codes.max() < MISSING


def test_categories_are_numbered_by_frequency():
    column = code_column("c", pa.chunked_array([["b", "a", None], ["b", "c"]]))
    assert column.codes.tolist() == [0, 1, MISSING, 0, 2]
    assert column.values == ("b", "a", "c")
    assert [column.meaning(k) for k in (0, 2, MISSING)] == ["b", "c", "missing"]


def test_beyond_254_categories_share_one_code():
    column = code_column("c", pa.chunked_array([[f"{i:03}" for i in range(300)]]))
    assert column.codes.tolist() == [*range(254), *[OTHER] * 46]
    assert column.meaning(OTHER) == "(other)"


@pytest.mark.parametrize(
    ("cells", "distinct"),
    [
        (pa.array([True, False, None]), 3),
        (pa.array([1, 2, 3], pa.timestamp("us")), 3),
        (pa.array([1, 2, 3], pa.date32()), 3),
        (pa.array([None, None]), 1),
        (pa.array(["x", "y", "x"]).dictionary_encode(), 2),
        (pa.array([], pa.float64()), 0),
    ],
)
def test_every_type_has_codes(cells, distinct):
    codes = code_column("c", pa.chunked_array([cells])).codes
    assert codes.size == len(cells)
    assert len(set(codes.tolist())) == distinct


def test_what_has_no_picture_is_named():
    with pytest.raises(DataError, match="'c' holds"):
        code_column("c", pa.chunked_array([[[1, 2], [3]]]))


# ---------------------------------------------------------------- pyramid and window


def number_cell(part):
    known = part[part != MISSING].astype(float)
    if 2 * known.size < part.size:
        return MISSING, MISSING
    far = known[np.argmax(np.abs(known - 127))]
    return int(np.floor(known.mean() + 0.5)), int(far)


def category_cell(part):
    if 2 * np.sum(part == MISSING) > part.size:
        return MISSING, MISSING
    known = part[part != MISSING]
    return int(np.argmax(np.bincount(known, minlength=256))), int(known.max())


@pytest.mark.parametrize("n", [65, 130, 700])
def test_levels_are_those_of_plain_numpy(n):
    table = table_of(n, seed=n)
    columns = [code_column(name, table[name]) for name in table.column_names]
    order = np.random.default_rng(1).permutation(n)
    pyramid = build_pyramid(columns, order, threads=2)
    assert pyramid.rows(pyramid.depth - 1) <= 64
    for level in range(1, pyramid.depth):
        for j, column in enumerate(columns):
            codes = column.codes[order]
            parts = [codes[i : i + 2**level] for i in range(0, n, 2**level)]
            cell = category_cell if column.is_category else number_cell
            expected = np.array([cell(part) for part in parts])
            for k, layer in enumerate(("means", "extremes")):
                got = pyramid.cells(level, layer, j, 0, pyramid.rows(level))
                np.testing.assert_array_equal(got, expected[:, k])


def test_a_window_is_exactly_the_cells_that_are_asked_for(session):
    pyramid, columns = session.pyramid, session.column_order
    for level in range(pyramid.depth):
        bytes_ = session.window(Window(level, 3, 20, 1, 4))
        expected = [pyramid.cells(level, "means", j, 3, 20) for j in columns[1:4]]
        assert bytes_ == np.array(expected).tobytes()
    assert session.window(Window(0, -5, 10**9, -5, 10**9)) == b"".join(
        session.columns[j].codes[session.order].tobytes() for j in columns
    )
    assert session.window(Window(0, 50, 40, 0, 2)) == b""


def test_columns_that_share_a_cell_show_their_mean():
    rng = np.random.default_rng(0)
    columns = [code_numbers(str(j), rng.random(100)) for j in range(5)]
    pyramid = build_pyramid(columns, np.arange(100))
    shown = cut_out(pyramid, np.arange(5), Window(0, 0, 100, 0, 5, step=2))
    codes = np.array([c.codes for c in columns], dtype=float)
    assert shown.shape == (3, 100)
    np.testing.assert_array_equal(shown[1], np.floor(codes[2:4].mean(axis=0) + 0.5))
    np.testing.assert_array_equal(shown[2], codes[4])


@pytest.mark.parametrize(
    "window", [Window(99, 0, 1, 0, 1), Window(-1, 0, 1, 0, 1), Window(0, 0, 1, 0, 1, step=0),
               Window(0, 0, 1, 0, 1, layer="other")],
)  # fmt: skip
def test_windows_that_do_not_exist_are_refused(session, window):
    with pytest.raises(ValueError, match=r"there is no level|layer must be"):
        session.window(window)


def test_beside_the_map_are_shares_of_classes_and_mean_scores(session):
    level, rows = 2, session.pyramid.rows(2)
    shares = np.frombuffer(session.side(0, level, 0, rows), np.uint8).reshape(8, rows)
    labels_ = np.array(session.table["label"].to_pylist())[session.order]
    for i in (0, 7, rows - 1):
        part = labels_[4 * i : 4 * i + 4]
        for c, value in enumerate(session.target.values):
            assert shares[c, i] == round(255 * np.mean(part == value))
    scores = np.frombuffer(session.side(1, level, 5, 6), np.uint8)
    assert scores[0] == number_cell(session.scores.codes[session.order[20:24]])[0]


# ---------------------------------------------------------------- selections


def test_differences_are_those_of_all_pairs(session):
    rows = session.order[100:180]
    rest = np.setdiff1d(session.order, rows)
    found = {d["name"]: d for d in differences(session.columns, rows)}
    for column in session.columns:
        here, there = (column.codes[r].astype(int) for r in (rows, rest))
        here, there = here[here != MISSING], there[there != MISSING]
        if column.is_category:
            p, q = (np.bincount(x, minlength=256) / x.size for x in (here, there))
            effect = np.abs(p - q).sum() / 2
        else:
            effect = np.sign(here[:, None] - there[None, :]).mean()
        assert found[column.name]["effect"] == pytest.approx(effect, abs=1e-12)


def test_the_most_different_column_comes_first(session):
    session.show("column wave")
    summary = session.summary([[0, 60], [30, 100]])
    assert summary["rows"] == 100
    assert summary["columns"][0]["name"] == "wave"
    assert summary["columns"][0]["effect"] == pytest.approx(-1.0, abs=0.02)
    session.show("similar")


def test_exports_hold_the_selected_rows_in_their_order(session):
    ranges = [[10, 20], [5, 12]]
    expected = session.table.take(pa.array(session.order[5:20]))
    csv = pa_csv.read_csv(io.BytesIO(session.export("csv", ranges)))
    assert csv["id"].to_pylist() == expected["id"].to_pylist()
    parquet = pq.read_table(io.BytesIO(session.export("parquet", ranges)))
    assert parquet.column_names == session.table.column_names
    np.testing.assert_array_equal(parquet["gap"].to_numpy(), expected["gap"].to_numpy())
    with pytest.raises(ValueError, match="not as 'exe'"):
        session.export("exe", ranges)


def test_named_selections_stay_with_their_rows():
    session = Session(table_of(100))
    session.name("first", [[0, 10]])
    rows = session.order[:10]
    session.show("file")
    session.name("second", [[98, 100]])
    table = pa_csv.read_csv(io.BytesIO(session.export_labels()))
    found = set(zip(table["row"].to_pylist(), table["label"].to_pylist(), strict=True))
    assert found == {(r + 1, "first") for r in rows} | {(99, "second"), (100, "second")}
    assert b'5,"a"' in labels([("a", np.array([2]))], stride=2)
    with pytest.raises(ValueError, match="needs a name"):
        session.name(" ", [[0, 1]])


@pytest.mark.parametrize("ranges", [[[-1, 3]], [[3, 3]], [[0, 11]]])
def test_places_beyond_the_table_are_refused(ranges):
    with pytest.raises(ValueError, match="do not lie in"):
        rows_of(np.arange(10), ranges)


# ---------------------------------------------------------------- sessions


def test_every_order_is_one_of_all_rows_and_the_target_has_no_part(session):
    for order in session.orders.values():
        assert sorted(order.tolist()) == list(range(700))
    by_label = np.array(session.table["label"].to_pylist())[session.orders["by label"]]
    assert np.sum(by_label[1:] != by_label[:-1]) == 1
    assert "label" not in [c["name"] for c in session.describe()["columns"]]
    with pytest.raises(ValueError, match="no order"):
        session.show("column label")


def test_a_category_does_not_break_the_order_of_the_numbers():
    rng = np.random.default_rng(0)
    t = rng.permutation(np.linspace(0.0, 1.0, 600))
    third = np.array(["low", "middle", "high"])[(t * 2.99).astype(int)]
    table = pa.table({**{f"v{k}": np.cos(k * t) for k in range(1, 5)}, "third": third})
    session = Session(table)
    steps = np.abs(np.diff(t[session.order]))
    assert np.median(steps) < 2.5 / 600
    assert np.sum(steps > 0.1) <= 6
    assert np.all(session.weights > 0.0)


def test_rows_have_their_numbers_and_values(session):
    row = session.row(17)
    number = int(session.order[17])
    names = [c["name"] for c in session.describe()["columns"]]
    assert row["row"] == number + 1
    assert row["values"][names.index("id")] == f"row-{number}"


def test_values_and_rows_are_found(session):
    place = session.find("ROW-123", None, 0)
    assert session.order[place] == 123
    assert session.order[session.find("#8", None, 0)] == 7
    found = session.find("2", "count", 10)
    counts = np.array(session.table["count"].to_pylist())[session.order]
    assert found == 11 + np.flatnonzero(counts[11:] == 2)[0]
    assert session.find("nothing", None, 0) is None
    assert session.find("#99999", None, 0) is None


def test_cuts_are_places_between_unlike_rows():
    table = pa.table({"a": np.repeat([0.0, 5.0, 9.0], 200), "b": np.repeat([1.0, 0.0, 1.0], 200)})
    session = Session(table)
    values = np.array(table["a"])[session.order]
    assert session.cuts(3) == (np.flatnonzero(np.diff(values)) + 1).tolist()


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1.0]}),
        pa.table({"a": [1.0, 2.0], "b": ["x", None]}),
        pa.table({"a": np.arange(200)}),
        pa.table({"a": np.ones(200), "b": np.ones(200)}),
        pa.table({"a": ["p", "q"] * 100, "b": [f"{i}" for i in range(200)]}),
        pa.table({"a": [None] * 5, "b": [np.nan] * 5}),
    ],
    ids=["one row", "two rows", "one column", "all equal", "text only", "all missing"],
)
def test_small_and_empty_tables_have_a_picture(table, tmp_path):
    session = Session(table)
    n, d = table.shape
    assert len(session.window(Window(0, 0, n, 0, d))) == n * d
    assert session.summary([[0, n]])["rows"] == n
    assert len(session.cuts(3)) <= 2
    assert write_page(session, tmp_path / "page.html") == 1


def test_without_rows_or_columns_there_is_no_picture():
    with pytest.raises(ValueError, match="at least one row"):
        Session(pa.table({"a": [1.0]}), "a")
    with pytest.raises(ValueError, match="no column 'z'"):
        Session(pa.table({"a": [1.0]}), "z")


def test_a_picture_has_the_colours_of_the_cells(session, tmp_path):
    pytest.importorskip("matplotlib")
    colours = map_colours(session)
    assert colours.shape == (700, 5, 3)
    place = [c["name"] for c in session.describe()["columns"]].index("gap")
    missing = np.isnan(session.table["gap"].to_numpy()[session.order])
    grey = np.all(colours[:, place] == colour_tables()["number"][MISSING], axis=1)
    np.testing.assert_array_equal(grey, missing)
    write_picture(session, tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="a picture ends in"):
        write_picture(session, tmp_path / "map.exe")


def test_a_picture_shows_what_is_beside_the_map():
    pytest.importorskip("matplotlib")
    session = Session(table_of(300), "label", scores=np.linspace(0.0, 1.0, 300))
    axes = draw_picture(session)
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names[-2:] == ["label", "score"]
    _, shares, means = (image.get_array() for image in axes.images)
    assert shares.shape[:2] == means.shape[:2] == (300, 24)
    codes = session.target.codes[session.order]
    classes = colour_tables()["category"][np.where(codes == MISSING, 0, codes)]
    np.testing.assert_array_equal(shares[codes != MISSING, 0], classes[codes != MISSING])
    colours = colour_tables()["number"][session.scores.codes[session.order]]
    np.testing.assert_array_equal(means[:, 0], colours)
    words = [text.get_text() for text in axes.figure.legends[0].get_texts()]
    assert words == [f"label: {value}" for value in session.target.values]


def test_of_many_classes_the_last_colour_is_for_all_others():
    words = code_column("c", pa.chunked_array([[str(k % 9) for k in range(90)]]))
    assert shown_classes(words) == [*map(str, range(7)), "(other)"]
    eight = code_column("c", pa.chunked_array([[str(k % 8) for k in range(80)]]))
    assert shown_classes(eight) == [*map(str, range(8))]


def test_colours_of_codes_can_be_told_apart():
    for kind, table in colour_tables().items():
        assert table.shape == (256, 3)
        apart = np.abs(table[:7, None].astype(int) - table[None, :7]).sum(axis=2)
        if kind == "category":
            assert apart[~np.eye(7, dtype=bool)].min() > 60
        assert np.abs(table[:MISSING].astype(int) - table[MISSING]).sum(axis=1).min() > 60


@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_a_table_beyond_memory_is_every_so_manieth_row(batch):
    table = pa.table({"a": np.arange(1000)})
    whole = read_table(table.to_batches(max_chunksize=batch), 10**9)
    assert (whole.stride, whole.n_rows, whole.table.num_rows) == (1, 1000, 1000)
    part = read_table(table.to_batches(max_chunksize=batch), 2500)
    assert part.table["a"].to_pylist() == list(range(0, 1000, part.stride))
    assert part.stride == 4
    with pytest.raises(DataError, match="no rows"):
        read_table([], 100)


# ---------------------------------------------------------------- from code and from the shell


def test_an_ordering_that_is_fitted_is_taken_as_it_is():
    X = np.random.default_rng(0).random((80, 3))
    X[3, 1] = np.nan
    ordering = RowOrdering(random_state=1).fit(X)
    session = open_session(X, ordering=ordering)
    np.testing.assert_array_equal(session.order, ordering.order_)
    np.testing.assert_array_equal(session.weights, ordering.weights_)
    assert [c.name for c in session.columns] == ["x1", "x2", "x3"]
    with pytest.raises(ValueError, match="of 80 rows, the table has 79"):
        open_session(X[1:], ordering=ordering)


def test_an_ordering_draws_its_rows():
    pytest.importorskip("matplotlib")
    X = np.random.default_rng(0).random((80, 3))
    axes = plot_ordering(RowOrdering(random_state=0).fit(X), X)
    assert [label.get_text() for label in axes.get_xticklabels()].count("x2") == 1
    assert axes.images[0].get_array().shape == (80, 3, 3)


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "table.csv"
    pa_csv.write_csv(table_of(400), path)
    return path


def test_the_command_writes_pages_and_pictures(thresher, csv, tmp_path):
    html, png = tmp_path / "page.html", tmp_path / "map.png"
    words = ("explore", csv, "-t", "label", "--ignore", "id", "--html", html, "--png", png)
    code, out, _ = thresher(*words, "--json")
    assert code == 0
    assert json.loads(out) == {
        "files": [str(html), str(png)], "rows_per_cell": 1, "rows": 400, "stride": 1,
    }  # fmt: skip
    assert png.stat().st_size > 1000
    assert '"name": "gap"' in html.read_text()
    code, out, _ = thresher(*words, "--json", "--memory", "10KB")
    assert json.loads(out)["stride"] > 1


def test_scores_of_a_model_stand_beside_the_map(thresher, csv, tmp_path):
    model = tmp_path / "m.thresher"
    trained = thresher("train", csv, "-t", "label", "--ignore", "id", "-m", model, "--quiet")
    assert trained[0] == 0
    loaded = load_model(model)
    session = open_session(str(csv), "label", loaded)
    parts = [part.scores for part in loaded.predictions(loaded.open(str(csv)))]
    scores = np.concatenate(parts).ravel()
    np.testing.assert_array_equal(session.scores.codes, code_numbers("score", scores).codes)
    assert [side.name for side in session.sides] == ["label", "score"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--ignore", "nothing"), 3, "no column 'nothing'"),
        (("--target", "nothing"), 3, "nothing"),
        (("--port", "70000", "--no-browser"), 5, "port must be"),
        (("--png", "map.exe"), 5, "a picture ends in"),
        (("--png", "no/such/folder/map.png"), 3, "no folder"),
        (("--html", "no/such/folder/page.html"), 3, "no folder"),
    ],
)
def test_wrong_commands_are_answered(thresher, csv, words, code, said):
    got, _, err = thresher("explore", csv, *words)
    assert got == code
    assert said in err


# ---------------------------------------------------------------- beyond memory


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A file of which one row in several is ordered, and the session that looks at it."""
    rng = np.random.default_rng(3)
    t = rng.random(4000)
    table = pa.table({
        "a": np.cos(3 * t), "b": np.where(rng.random(t.size) < 0.3, np.nan, t), "c": np.sin(2 * t),
        "word": np.where(t < 0.4, "low", np.where(t < 0.9, "mid", "top")),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("crowd") / "rows.parquet"
    pq.write_table(table, path, row_group_size=700)
    return table, t, open_session(path, memory=table.nbytes // 3)


def test_rows_beyond_memory_are_placed_beside_rows_like_them(crowded):
    table, t, session = crowded
    assert session.stride == 4
    assert session.describe()["placed"] == table.num_rows
    kept = t[::4]
    assert np.array_equal(session.owner[::4], np.arange(kept.size))
    assert np.abs(kept[session.owner] - t).mean() < 0.02  # 0.33 for a random place
    assert session.find("#6", None, 0) == np.flatnonzero(session.order == session.owner[5])[0]
    assert session.find("#4001", None, 0) is None


def test_cells_show_all_rows_that_are_beside_one(crowded):
    table, _, session = crowded
    for j, column in enumerate(session.columns):
        cells = column.same_codes(table[column.name])
        assert np.array_equal(cells[::4], column.codes)
        for row in range(0, session.order.size, 17):
            part = cells[session.owner == row]
            shown, unusual = session.shown[j].codes[row], session.shown[j].extremes[row]
            if column.is_category:
                counts = np.bincount(part)
                if 2 * counts.max() > part.size:
                    assert shown == counts.argmax()
                assert unusual == part.max()
            else:
                mean, far = number_cell(part)
                assert shown == mean
                assert abs(int(unusual) - 127) == abs(far - 127)
    level = session.window(Window(0, 0, 50, 0, 4, layer="extremes"))
    first = session.column_order[0]
    assert list(level[:50]) == session.shown[first].extremes[session.order[:50]].tolist()


def test_labels_are_of_all_rows_and_tables_of_the_ordered_ones(crowded):
    _, _, session = crowded
    session.name("some", [[0, 30]])
    lines = session.export_labels().decode().splitlines()[1:]
    rows = np.flatnonzero(np.isin(session.owner, session.order[:30]))
    assert [int(line.split(",")[0]) for line in lines] == (rows + 1).tolist()
    assert len(session.export("csv", [[0, 30]]).splitlines()) == 31


def test_new_values_of_a_category_are_among_the_rest():
    column = code_column("c", pa.chunked_array([["a", "b", "a"]]))
    codes = column.same_codes(pa.chunked_array([["b", "new", None]]))
    assert codes.tolist() == [1, OTHER, MISSING]
    empty = code_numbers("x", np.full(3, np.nan))
    assert empty.same_codes(pa.chunked_array([[1.0, 2.0]])).tolist() == [MISSING] * 2


def test_of_very_many_columns_some_decide_about_the_order():
    rng = np.random.default_rng(0)
    t = rng.random(60)
    X = np.cos(np.outer(t, rng.uniform(1, 3, 4500)))
    session = Session(pa.table(list(X.T), names=[f"x{j}" for j in range(4500)]))
    assert session.describe()["ordered_by"] == 1500
    assert np.count_nonzero(session.weights) <= 1500
    steps = np.diff(t[session.order])
    assert np.all(steps > 0) or np.all(steps < 0)
    assert sorted(session.column_order.tolist()) == list(range(4500))
    width = -(-4500 // 90)
    cells = np.frombuffer(session.window(Window(0, 0, 60, 0, 4500, 90)), np.uint8)
    assert cells.size == width * 60
