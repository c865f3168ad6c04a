"""Bad input: every message names file, line, column and value, and skipping counts."""

import bz2
import gzip
import io
import os
import re
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from thresher.data import DataError, files, open_data
from thresher.data.errors import BadCell, BadRows, nearest

BLOCKS = (16, 100, 4 << 20)


def written(tmp_path, content, name="data.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def message(path, **options):
    with pytest.raises(DataError) as error:
        list(open_data(path, **options).chunks())
    return str(error.value)


def rows_of(data):
    return sum(batch.size for batch in data.chunks())


# ---------------------------------------------------------------- places in messages


def numbers(n, header="a,b,y\n", wrong=None, row="{i},{i}.5,{k}\n"):
    lines = [row.format(i=i, k=i % 2) for i in range(n)]
    for line, content in (wrong or {}).items():
        lines[line - 1 - bool(header)] = content
    return header + "".join(lines)


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("header", ["a,b,y\n", ""])
@pytest.mark.parametrize("line", [2, 150, 300])
@pytest.mark.parametrize(
    ("content", "place"),
    [
        ("1,oops,0\n", "column 'b': 'oops' is not a number"),
        ("1,2,3,4\n", "4 fields where 3 are expected"),
        ("1\n", "1 fields where 3 are expected"),
        ("1,inf,0\n", "column 'b': 'inf' is not a number"),
        ("1,1e999,0\n", "column 'b': '1e999' is not a finite number"),
        ("1,2,7\n", "column 'y': label 7 is not among the classes 0, 1"),
        ("1,2,\n", "column 'y': the target is missing"),
    ],
)
def test_lines_are_counted_right(tmp_path, block_bytes, header, line, content, place):
    path = written(tmp_path, numbers(300, header, {line: content}))
    if not header:
        place = place.replace("'b'", "'c2'").replace("'y'", "'c3'")
    options = {"target": 3, "block_bytes": block_bytes, "classes": [0, 1]}
    found = message(path, **options)
    assert re.match(re.escape(f"{path}, line {line}") + "[,:]", found)
    assert place in found
    data = open_data(path, on_bad_rows="skip", **options)
    assert rows_of(data) == 299
    assert data.bad.count == 1
    assert (data.bad.first[0].file, data.bad.first[0].line) == (str(path), line)


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_lines_after_quotes_blanks_and_other_bad_rows(tmp_path, block_bytes):
    content = (
        'a,w,y\n1,"two\nlines",0\n\n2,"",1\n3,plain,1,extra\n4,"x\n\ny",0\nbad,z,1\n'
        + "5,z,0\n" * 50
        + "worse,z,1\n"
    )
    path = written(tmp_path, content)
    options = {"target": "y", "types": {"a": "number"}, "block_bytes": block_bytes}
    data = open_data(path, on_bad_rows="skip", **options)
    assert rows_of(data) == 53
    lines = {cell.line: cell.problem for cell in data.bad.first}
    assert lines == {
        6: "4 fields where 3 are expected",
        10: "'bad' is not a number",
        61: "'worse' is not a number",
    }
    assert rows_of(data) == 53  # counted anew in every pass
    assert data.bad.count == 3


def test_places_in_second_files_and_typed_sources(tmp_path):
    first = written(tmp_path, "a,y\n1,0\n2,1\n", "1.csv")
    second = written(tmp_path, "y,a\n0,1\n1,x\n", "2.csv")
    expected = f"{second}, line 3, column 'a': 'x' is not a number"
    assert expected in message([first, second], target="y", types={"a": "number"})
    frame = pd.DataFrame({"a": [1.0, 2.0, np.inf], "y": [0, 1, 1]})
    frame.to_parquet(tmp_path / "p.parquet")
    for source, name in ((frame, "the data frame"), (tmp_path / "p.parquet", tmp_path)):
        found = message(source, target="y")
        assert found.startswith(str(name))
        assert "row 3, column 'a': 'inf' is not a finite number" in found
    pq.write_table(pa.table({"a": ["x", "y"], "y": [1, 0]}), tmp_path / "q.parquet")
    paths = [tmp_path / "p.parquet", tmp_path / "q.parquet"]
    assert "columns differ in type" in message(paths, target="y")
    schema = open_data(paths[0], target="y").schema
    data = open_data(paths, schema=schema, on_bad_rows="skip")
    assert rows_of(data) == 2
    assert [c.line for c in data.bad.first] == [3, 1, 2]


@pytest.mark.parametrize("block_bytes", BLOCKS)
@pytest.mark.parametrize("quote", ["", '"'])
def test_values_are_named_that_are_not_among_the_words(tmp_path, block_bytes, quote):
    lines = [f"{quote}yes{quote},{k % 3}.5,{'uv'[k % 2]}\n" for k in range(20)]
    content = "flag,x,label\n" + "no,1,u\n" + "".join(lines)
    path = written(tmp_path, content + f"no,1,{quote}w{quote}\n")
    options = {"target": "label", "block_bytes": block_bytes}
    expected = f"{path}, line 23, column 'label': 'w' is not among the classes 'u', 'v'"
    assert expected in message(path, classes=["u", "v"], **options)
    path = written(tmp_path, content + f"{quote}maybe{quote},1,u\n")
    expected = f"{path}, line 23, column 'flag': 'maybe' is neither of no/yes"
    found = message(path, schema=open_data(written(tmp_path, content, "b.csv"), **options).schema,
                    block_bytes=block_bytes)  # fmt: skip
    assert expected in found


@pytest.mark.parametrize("value", ["-1", "nan", "x", ""])
def test_weights(tmp_path, value):
    path = written(tmp_path, f"a,w,y\n1,2,0\n2,0,1\n3,{value},1\n")
    found = message(path, target="y", weight="w")
    assert f"{path}, line 4, column 'w'" in found
    data = open_data(path, target="y", weight="w", on_bad_rows="skip")
    assert rows_of(data) == 2
    with pytest.raises(DataError, match="row 2, column 'weight': weight -1"):
        list(open_data(np.eye(2), weight=[0, -1]).chunks())


def test_missing_values_as_errors(tmp_path):
    path = written(tmp_path, "a,w,y\n1,u,0\n2,v,1\n,u,1\n3,?,1\n")
    assert f"{path}, line 4, column 'a': missing value" in message(
        path, target="y", missing="error"
    )
    data = open_data(path, target="y", missing="error", on_bad_rows="skip")
    assert rows_of(data) == 2
    assert [(c.line, c.column) for c in data.bad.first] == [(4, "a"), (5, "w")]


# ---------------------------------------------------------------- svmlight


@pytest.mark.parametrize("block_bytes", BLOCKS)
def test_svmlight_lines(tmp_path, block_bytes):
    content = "# x\n1 1:1\n\n0 2:2\n" + "1 1:3 # c\n" * 30 + "1 3:x\n0 9:1 5:0\n1 2:1\n"
    path = written(tmp_path, content, "a.svm")
    options = {"n_features": 5, "block_bytes": block_bytes}
    assert f"{path}, line 35: 'x' is not a number (character 5)" in message(path, **options)
    data = open_data(path, on_bad_rows="skip", **options)
    assert rows_of(data) == 33
    assert [cell.line for cell in data.bad.first] == [35, 36]
    assert "feature 9 is outside 1 .. 5" in data.bad.first[1].problem
    (batch,) = data.chunks(100)
    np.testing.assert_array_equal(batch.rows.X[:2], [[1, 0, 0, 0, 0], [0, 2, 0, 0, 0]])
    np.testing.assert_array_equal(batch.rows.X[-1], [0, 1, 0, 0, 0])
    zero = written(tmp_path, "1 1:1\n0 0:1\n", "z.svm")
    expected = f"{zero}, line 2: feature 0 is outside 1 .. 3"
    assert expected in message(zero, n_features=3, zero_based=False)


def test_svmlight_without_rows(tmp_path):
    assert "is empty" in message(written(tmp_path, "# nothing\n", "a.svm"))
    found = message(written(tmp_path, "\nx 1:2\n", "a.svm"))
    assert found.endswith("a.svm, line 2: 'x' is not a number")


# ---------------------------------------------------------------- whole files


def test_files_that_are_no_data(tmp_path):
    assert "is empty" in message(written(tmp_path, ""))
    assert "blank lines only" in message(written(tmp_path, "\n\r\n\n"))
    assert "a header but no rows" in message(written(tmp_path, "a,b,c\n"))
    assert "a header but no rows" in message(written(tmp_path, "a,b,c"))
    assert "is a directory" in message(tmp_path)
    near = message(tmp_path / "dat.csv")
    assert near.startswith("no file ")
    assert near.endswith("did you mean " + repr(str(tmp_path / "data.csv")) + "?")
    assert "no file matches" in message(str(tmp_path / "*.tsv"))
    assert "folder" in message(tmp_path / "none" / "a.csv")
    assert "no file given" in message_of_list([])
    garbage = np.random.default_rng(0).bytes(5000)
    assert "not text" in message(written(tmp_path, b"\0" + garbage))
    assert "latin-1" in message(written(tmp_path, garbage.replace(b"\0", b"")))
    for name, kind in (("a.parquet", "Parquet"), ("a.feather", "Arrow"), ("a.npz", ".npz")):
        assert f"is not a readable {kind} file" in message(written(tmp_path, garbage, name))
        assert f"is not a readable {kind} file" in message(written(tmp_path, "", name))
    assert "carriage returns" in message(written(tmp_path, "a,b\r1,2\r"))


def message_of_list(paths):
    with pytest.raises(DataError) as error:
        files.expand(paths)
    return str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path):
    path = written(tmp_path, "a\n1\n")
    path.chmod(0)
    assert "permission denied" in message(path)


def test_unreadable_file_by_its_access(tmp_path, monkeypatch):
    path = written(tmp_path, "a\n1\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "permission denied" in message(path)


@pytest.mark.parametrize("suffix", ["csv.gz", "svm.gz", "csv.zst", "csv.bz2"])
def test_damaged_compression(tmp_path, suffix):
    content = b"a,y\n" + b"".join(b"%d,%d\n" % (i * 7919, i % 2) for i in range(20000))
    if "svm" in suffix:
        content = b"".join(b"%d 1:%d\n" % (i % 2, i * 7919) for i in range(20000))
    if suffix.endswith("gz"):
        packed = gzip.compress(content)
    elif suffix.endswith("zst"):
        packed = pa.compress(content, "zstd", asbytes=True)
    else:
        packed = bz2.compress(content)
    whole = written(tmp_path, packed, f"whole.{suffix}")
    options = {} if "svm" in suffix else {"target": "y"}
    assert rows_of(open_data(whole, **options)) == 20000
    path = written(tmp_path, packed[: len(packed) // 2], f"half.{suffix}")
    assert "cannot be read to its end" in message(path, block_bytes=1 << 16, **options)
    path = written(tmp_path, b"not packed at all" * 10, f"foreign.{suffix}")
    assert "cannot be read to its end" in message(path, **options)


def test_wrong_encoding_is_named_with_its_line(tmp_path):
    lines = ["w,y\n", *(f"word{k % 3},{k % 2}\n" for k in range(100)), "größe,1\n"]
    path = written(tmp_path, "".join(lines).encode("latin-1"))
    for block_bytes in BLOCKS:
        found = message(path, target="y", block_bytes=block_bytes)
        assert f"{path}, line 102: byte 0xf6 is not utf-8 text" in found
        assert rows_of(open_data(path, target="y", encoding="latin-1")) == 101
    assert "unknown encoding" in message(path, encoding="klingon")
    assert "unknown encoding" in message(path, encoding="hex")
    assert "is not utf-16 text" in message(written(tmp_path, b"abc"), encoding="utf-16")


def test_a_quote_that_is_never_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_LONGEST_LINE", 1 << 16)
    content = "a,w,y\n" + "1,u,0\n2,v,1\n" * 100 + '3,"u,0\n' + "4,v,1\n" * 50_000
    path = written(tmp_path, content)
    found = message(path, target="y", block_bytes=1000)
    assert re.search(r"from line 2\d\d: no end of the line in 0 MB: a quote", found)
    short = written(tmp_path, "a,w,y\n" + "1,u,0\n2,v,1\n" * 10 + '3,"u,0\n4,v,1\n', "short.csv")
    assert f"{short}, line 22: a quote opens here that is never" in message(short, target="y")


def test_wrong_delimiter_and_missing_columns(tmp_path):
    path = written(tmp_path, "alpha;beta;label\n1;2;0\n3;4;1\n")
    found = message(path, target="label", delimiter=",")
    assert "has no target 'label'" in found
    assert "is the delimiter right?" in found
    found = message(path, target="lable")
    assert found == f"{path} has no target 'lable': did you mean 'label'?"
    assert "did you mean 'label'?" in message(path, target="LABEL")
    assert "--header" not in found
    bare = written(tmp_path, "1,2,0\n3,4,1\n", "bare.csv")
    assert "there are 'c1', 'c2', 'c3' (no header was found: --header" in message(bare, target="y")
    assert "there are 'alpha', 'beta', 'label'" in message(path, target="zzz")
    assert "has no weight column 'w'" in message(path, target="label", weight="w")
    assert "has no column 'gamma'" in message(path, types={"gamma": "number"})
    assert "has no column '9'" in message(path, ignore=["9"])
    assert "both target and weight" in message(path, target="beta", weight="beta")
    for delimiter in (",,", "1", '"', "é", "e"):
        assert "the delimiter must be" in message(path, delimiter=delimiter)
    assert "no column is left" in message(path, target="label", ignore=["alpha", 2])


def test_second_files_that_do_not_fit(tmp_path):
    first = written(tmp_path, "a,b\n1,2\n", "1.csv")
    other = written(tmp_path, "a,c\n1,2\n", "2.csv")
    assert f"{other} and {first} differ in column 'b'" in message([first, other])
    plain = written(tmp_path, "1,2\n", "3.csv")
    wide = written(tmp_path, "1,2,3\n", "4.csv")
    assert f"{wide} has 3 columns, {plain} has 2" in message([plain, wide])
    svm = written(tmp_path, "1 1:1\n", "5.svm")
    assert "several formats (csv, svmlight)" in message([first, svm])
    for kind in ("parquet", "feather"):
        paths = [tmp_path / f"{k}.{kind}" for k in (1, 2)]
        for path, name in zip(paths, "bc", strict=True):
            getattr(pd.DataFrame({"a": [1], name: [2]}), f"to_{kind}")(path)
        assert "has no column 'b'" in message(paths)


def test_a_file_that_changes(tmp_path):
    path = written(tmp_path, numbers(5000))
    data = open_data(path, target="y", block_bytes=1000)
    assert rows_of(data) == 5000
    chunks = data.chunks(rows=10)
    next(chunks)
    with path.open("a") as file:
        file.write("1,2,0\n")
    with pytest.raises(DataError, match="has changed while it was read"):
        list(chunks)
    with pytest.raises(DataError, match="has changed since it was opened"):
        list(data.chunks())
    path.unlink()
    with pytest.raises(DataError, match="cannot be read any more"):
        list(data.chunks())


def test_a_mapped_file_that_changes(tmp_path):
    """Reading on in an Arrow file that became shorter would end the process."""
    path = tmp_path / "a.feather"
    pd.DataFrame({"a": np.arange(50_000.0), "y": np.arange(50_000) % 2}).to_feather(path)
    chunks = open_data(path, target="y", block_bytes=1000).chunks(rows=10)
    next(chunks)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(DataError, match="has changed while it was read"):
        list(chunks)


def test_damaged_tables(tmp_path):
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=5000), "y": 1})
    for kind in ("parquet", "feather"):
        path = tmp_path / f"a.{kind}"
        getattr(frame, f"to_{kind}")(path)
        content = bytearray(path.read_bytes())
        content[4:2000] = bytes(1996)
        path.write_bytes(content)
        found = message(path)
        assert str(path) in found
    with pytest.raises(DataError, match="'a' 2 times"):
        open_data(pa.table([[1], [2]], names=["a", "a"]))
    mixed = pd.DataFrame({"a": [1, "x", None]}, dtype=object)
    assert "the data frame cannot be read" in message(mixed)
    assert "holds list<" in message(pa.table({"a": [[1], [2]]}), types={"a": "number"})
    assert "holds int64" in message(pa.table({"a": [1, 2]}), types={"a": "date"})
    found = message(pa.table({"a": [[1]], "y": [1]}), target=2)
    assert "a: ignored (list<element: int64> values are no features)" in found.replace(
        "item", "element"
    )
    assert "columns but no rows" in message(pa.table({"a": pa.array([], pa.int64())}))


def test_repeated_and_empty_names_are_numbered(tmp_path):
    data = open_data(written(tmp_path, "a, a,,a\n1,2,3,4\n"))
    assert data.source.names == ["a", "a_2", "c3", "a_3"]


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_elements_that_are_no_numbers(kind):
    X = np.eye(40)
    X[30, 7], X[30, 9], X[35, 2] = np.nan, np.inf, -np.inf
    y = np.arange(40) % 2
    with pytest.raises(DataError, match="the matrix, row 31, column '7': NaN or infinite"):
        list(open_data(kind(X), y).chunks())
    data = open_data(kind(X), y.astype(float), on_bad_rows="skip", block_bytes=1)
    (batch,) = data.chunks()
    assert batch.y.tolist() == np.delete(y, [30, 35]).tolist()
    assert [cell.line for cell in data.bad.first] == [31, 36]
    y = np.where(np.arange(40) == 33, np.nan, y)
    data = open_data(kind(X), y, on_bad_rows="skip")
    list(data.chunks())
    assert sorted(cell.line for cell in data.bad.first) == [31, 34, 36]


def test_matrices_of_the_wrong_kind(tmp_path):
    for X, expected in [
        (np.zeros(3), "shape"),
        (np.zeros((0, 3)), "no rows"),
        (np.array([["a"]]), "numbers are expected"),
        ([[1], [1, 2]], "no matrix"),
        (np.zeros((2, 2), complex), "numbers are expected"),
    ]:
        assert expected in message(X)
    for y, expected in [([1], "y has shape"), (["a", "b"], "not numbers")]:
        with pytest.raises(DataError, match=expected):
            open_data(np.eye(2), y, task="regression")
    with pytest.raises(DataError, match="row 2, column 'y': label 5"):
        list(open_data(np.eye(2), [1, 5], classes=[1, 2]).chunks())
    schema = open_data(np.eye(2), [0, 1]).schema
    with pytest.raises(DataError, match="3 columns, 2 are expected"):
        list(open_data(np.eye(3), [0, 1, 1], schema=schema).chunks())
    with pytest.raises(DataError, match="without targets"):
        list(open_data(np.eye(2), schema=schema).chunks())
    with pytest.raises(DataError, match="is a table with named columns"):
        open_data(pd.DataFrame({"a": [1]}), schema=schema)
    np.savez(tmp_path / "a.npz", Z=np.eye(2))
    assert "holds Z: an array X is expected" in message(tmp_path / "a.npz")
    parts = {"data": [1.0], "indices": [7], "indptr": [0, 1], "shape": [1, 2]}
    np.savez(tmp_path / "b.npz", **parts)
    assert "not a sound sparse matrix" in message(tmp_path / "b.npz")
    sparse.save_npz(tmp_path / "c.npz", sparse.csc_array(np.eye(2)))
    assert "csc format" in message(tmp_path / "c.npz")


def test_arguments_that_do_not_go_together(tmp_path):
    path = written(tmp_path, "a,y\n1,0\n2,1\n")
    frame = pd.DataFrame({"a": [1]})
    calls = [
        (path, {"y": [1, 2]}), (path, {"weight": [1, 2]}), (frame, {"y": [1]}),
        (frame, {"weight": [1.0]}), (np.eye(2), {"weight": "w"}), (path, {"format": "cvs"}),
        (path, {"on_bad_rows": "ignore"}), (path, {"missing": "zero"}), (path, {"task": "rank"}),
        (path, {"hash_bits": 40}), (path, {"max_categories": 0}), (path, {"types": {"a": "int"}}),
        (path, {"types": {"a": "hashed:99"}}), (path, {"types": {"a": "number:3"}}),
        (np.eye(2), {"y": [0, 1], "classes": [0, "a"]}),
        (np.eye(2), {"y": [0, 1], "classes": [0, 1], "task": "regression"}),
    ]  # fmt: skip
    for data, options in calls:
        with pytest.raises(ValueError, match=r"\w") as error:
            open_data(data, **options)
        assert not isinstance(error.value, DataError), options
    assert "several files cannot" in message([path, path], format="npz")
    with pytest.raises(DataError, match="only once"):
        open_data(["-", "-"])
    with pytest.raises(DataError, match="text only"):
        open_data("-", format="parquet")


# ---------------------------------------------------------------- the account of bad rows


def test_the_account():
    bad = BadRows("skip")
    assert str(bad) == "no bad rows"
    for k in range(7):
        bad.add(BadCell("f.csv", k, "c", "wrong"))
    lines = str(bad).splitlines()
    assert lines[0] == "7 bad rows were left out:"
    assert lines[1] == "  f.csv, line 0, column 'c': wrong"
    assert lines[-1] == "  ... and 2 more"
    with pytest.raises(DataError, match=r"^f, row 3: wrong \(on_bad_rows='skip'"):
        BadRows().add(BadCell("f", 3, None, "wrong", "row"))
    assert str(BadCell("f", None, None, "wrong")) == "f: wrong"


def test_the_sample_does_not_count_bad_rows(tmp_path):
    path = written(tmp_path, numbers(400, wrong={390: "1,x,0\n"}))
    data = open_data(path, target="y", on_bad_rows="skip")
    assert rows_of(data) == 399
    assert data.sample.size == 399
    assert data.bad.count == 1
    path = written(tmp_path, "a,y\nx,1\nz,1\n")
    data = open_data(path, on_bad_rows="skip", types={"a": "number"})
    with pytest.raises(DataError, match="no usable rows"):
        data.head(5)


def test_nearest():
    assert nearest("Price ", ["cost", "price"]) == "did you mean 'price'?"
    assert nearest("qqq", []) == "there are none"
    assert nearest("qqq", [f"c{k}" for k in range(20)]).endswith("'c11', ...")


def test_standard_input_without_data(monkeypatch):
    class Stdin:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdin", Stdin)
    with pytest.raises(DataError, match="- is empty"):
        open_data("-")
