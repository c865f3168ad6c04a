"""The same data in every format, in blocks of any size, gives the same rows to the bit."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from conftest import JIT_DISABLED
from thresher.data import DataError, open_data
from thresher.data._svmlight_text import cut
from thresher.data.arrow_cells import _side_by_side
from thresher.data.batch import Batch, Sparse, gathered
from thresher.data.dataset import rows_in
from thresher.data.files import Span, expand, suffix, text_blocks
from thresher.data.quotes import record_end


def whole(data, rows=1 << 30):
    """All rows in one dense matrix, with targets and weights."""
    batches = list(data.chunks(rows))
    assert [b.first for b in batches] == list(np.cumsum([0, *(b.size for b in batches)])[:-1])
    X = np.concatenate([dense(b.rows) for b in batches])
    y = None if batches[0].y is None else np.concatenate([b.y for b in batches])
    weight = None if batches[0].weight is None else np.concatenate([b.weight for b in batches])
    return X, y, weight


def dense(rows):
    if hasattr(rows, "X"):
        return rows.X
    parts = (rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
    return sparse.csr_array(parts, shape=rows.shape).toarray()


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_array_equal(a.view(np.int64), b.view(np.int64))


def assert_like(data, reference):
    for name in ("layout", "row_bytes", "n_features"):
        assert getattr(data.schema, name) == getattr(reference.schema, name), name
    for rows in (7, 1 << 30):
        assert_same(whole(data, rows), whole(reference))


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "count": rng.integers(-5, 6, n),
            "word": rng.choice(["x", "y", "z w", "ü"], n),
            "flag": rng.random(n) < 0.3,
            "weight": rng.integers(0, 3, n),
            "label": rng.integers(0, 3, n),
        }
    )
    frame.loc[rng.random(n) < 0.1, "a"] = np.nan
    frame.loc[rng.random(n) < 0.1, "word"] = None
    return frame


def write(frame, folder, kind):
    path = folder / f"data.{kind}"
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    if kind in ("csv", "csv.gz"):
        frame.to_csv(path, index=False)
    elif kind == "csv.zst":
        with pa.output_stream(path, compression="zstd") as sink:
            sink.write(frame.to_csv(index=False).encode())
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t", lineterminator="\r\n")
    elif kind == "quoted.csv":
        frame.to_csv(path, index=False, quoting=1, sep=";")
    elif kind == "parquet":
        pq.write_table(arrow, path, row_group_size=70)
    elif kind == "feather":
        pyarrow.feather.write_feather(arrow, path, chunksize=50)
    elif kind == "arrows":
        with pa.ipc.new_stream(path, arrow.schema) as sink:
            sink.write_table(arrow, max_chunksize=90)
    return path


FILES = ["csv", "csv.gz", "csv.zst", "tsv", "quoted.csv", "parquet", "feather", "arrows"]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("block_bytes", [64, 999, 4 << 20])
def test_files_hold_what_the_frame_holds(tmp_path, kind, block_bytes):
    frame = table()
    options = {"target": "label", "weight": "weight"}
    reference = open_data(frame, **options)
    data = open_data(write(frame, tmp_path, kind), block_bytes=block_bytes, **options)
    assert data.schema == reference.schema
    assert_like(data, reference)
    assert whole(data)[0].shape == (300, 1 + 1 + 1 + 6 + 1)


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas, lambda f: f])
def test_frames_of_every_library(convert):
    frame = table()
    data = open_data(convert(frame), target="label", weight="weight")
    reference = open_data(pa.Table.from_pandas(frame), target="label", weight="weight")
    assert data.schema == reference.schema
    assert_like(data, reference)
    assert data.n_rows == 300


def test_dictionaries_and_wide_strings_are_words():
    words = pa.array(["b", "a", None, " b "])
    reference = open_data(pa.table({"w": words, "y": [1, 2, 3, 4]}), target="y")
    for other in (words.dictionary_encode(), words.cast(pa.large_string()),
                  words.cast(pa.string_view())):  # fmt: skip
        data = open_data(pa.table({"w": other, "y": [1, 2, 3, 4]}), target="y")
        assert data.schema == reference.schema
        assert_like(data, reference)
    assert whole(reference)[0].tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0]]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9).map(float)


@given(
    st.integers(1, 40).flatmap(
        lambda d: st.lists(st.lists(NUMBERS, min_size=d, max_size=d), min_size=1, max_size=12)
    ),
    st.sampled_from([16, 64, 300]),
    st.integers(1, 5),
)
def test_any_matrix_in_any_format(tmp_path_factory, values, block_bytes, rows):
    folder = tmp_path_factory.mktemp("matrix")
    X = np.array(values) + 0.0  # no negative zeros: svmlight text has none
    y = np.arange(len(X)) % 2
    reference = open_data(X, y)
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).assign(y=y)
    lines = [
        " ".join([str(label), *(f"{j + 1}:{v!r}" for j, v in enumerate(row) if v or j == 0)])
        for label, row in zip(y, X.tolist(), strict=True)
    ]
    (folder / "a.svm").write_text("\n".join(lines))
    sources = [
        open_data(sparse.csr_array(X), y, block_bytes=block_bytes),
        open_data(write(frame, folder, "csv"), target="y", block_bytes=block_bytes),
        open_data(write(frame, folder, "parquet"), target="y", block_bytes=block_bytes),
        open_data(folder / "a.svm", n_features=X.shape[1], block_bytes=block_bytes),
    ]
    for data in sources:
        assert data.schema.layout == reference.schema.layout
        assert data.schema.row_bytes == reference.schema.row_bytes
        assert data.schema.target.classes == reference.schema.target.classes
        assert_same(whole(data, rows), whole(reference))


def test_sparse_layout_is_the_same_everywhere(tmp_path):
    rng = np.random.default_rng(3)
    X = sparse.random_array((400, 60), density=0.05, rng=rng, format="csr")
    X.data = X.data.round(4)  # scikit-learn writes 16 digits
    y = rng.integers(0, 2, 400)
    reference = open_data(X.toarray(), y)
    assert reference.schema.layout == "sparse"
    dump_svmlight_file(X, y, str(tmp_path / "zero.svm"), zero_based=True)
    dump_svmlight_file(X, y, str(tmp_path / "one.svm"), zero_based=False, comment="a comment")
    np.savez(tmp_path / "dense.npz", X=X.toarray(), y=y)
    frame = pd.DataFrame(X.toarray(), columns=[f"f{k}" for k in range(60)]).assign(y=y)
    for data in [
        open_data(X, y, block_bytes=64),
        open_data(X.tocoo(), y),
        open_data(tmp_path / "dense.npz"),
        open_data(tmp_path / "zero.svm", block_bytes=256),
        open_data(tmp_path / "one.svm", zero_based=False),
        open_data(write(frame, tmp_path, "csv"), target="y", block_bytes=700),
        open_data(write(frame, tmp_path, "parquet"), target="y"),
    ]:
        assert_like(data, reference)
    assert whole(reference)[0].tobytes() == X.toarray().tobytes()


def test_svmlight_details(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("# a comment\n1 qid:3 2:0.5 1:2 # more\n\n-1 qid:3 4:0 3:1e3\r\n")
    data = open_data(path)
    X, y, _ = whole(data)
    assert data.schema.target.classes == (-1, 1)
    assert X.tolist() == [[2.0, 0.5, 0.0, 0.0], [0.0, 0.0, 1000.0, 0.0]]
    assert y.tolist() == [1.0, 0.0]
    zero = tmp_path / "zero.svm.gz"
    zero.write_bytes(gzip.compress(b"1.5 0:1 2:3\n0.25 1:1\n"))
    data = open_data(zero)
    assert (data.schema.first_index, data.schema.n_features) == (0, 3)
    assert data.schema.target.task == "regression"
    assert whole(data)[1].tolist() == [1.5, 0.25]
    assert open_data([path, path], n_features=9).schema.n_features == 9


def test_a_stored_zero_is_no_non_zero(tmp_path):
    row = " ".join(f"{j}:0" for j in range(2, 40))
    (tmp_path / "a.svm").write_text(f"1 1:5 {row}\n0 39:1\n")
    data = open_data(tmp_path / "a.svm")
    (batch,) = data.chunks()
    assert data.schema.layout == "sparse"
    assert batch.rows.stored == 2


# ---------------------------------------------------------------- delimited text


def csv_of(tmp_path, text, **options):
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return open_data(path, **options)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " "])
def test_the_delimiter_is_found(tmp_path, delimiter):
    text = "a,b,y\n1,2.5,0\n3,4,1\n5,6,1\n".replace(",", delimiter)
    data = csv_of(tmp_path, text, target="y")
    assert data.source.delimiter == delimiter
    assert whole(data)[0].tolist() == [[1, 2.5], [3, 4], [5, 6]]


def test_delimiters_inside_words_do_not_confuse(tmp_path):
    data = csv_of(tmp_path, 'name,x,y\nJohn Q A Smith,1,0\nAnn B C Lee,2,1\n"Ü, V",3,1\n')
    assert data.source.names == ["name", "x", "y"]
    assert csv_of(tmp_path, "a;b\n1,5;2,5\n3,5;4,5\n").source.names == ["a", "b"]
    ragged = "a,b,y\n" + "1,2,0\n" * 30 + "1,2,3,4\n" + "1,2,1\n" * 30
    assert csv_of(tmp_path, ragged, on_bad_rows="skip").source.names == ["a", "b", "y"]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("a,b\n1,2\n", True),
        ("1,2\n3,4\n", False),
        ("red,big\nblue,small\nred,small\n", False),
        ("colour,size\nred,big\nblue,big\n", True),
        ("x,1\ny,2\n", False),
        ("yes,x\nno,1\nyes,2\n", True),
        ("yes,x\nno,1\nyes,\n", True),
        ("yes,x\nno,\nyes,z\n", False),
        (",name\n0,ann\n1,bob\n", True),
        ("0,1,2,y\n0,1,5,a\n3,1,2,b\n", True),
        ("1,2,3,y\n0,1,5,1.5\n3,1,2,2.5\n", True),
        (",0,1,2,y\n0,3,1,5,a\n1,4,1,2,b\n", True),
        ("0,1,2,a\n3,1,5,a\n3,1,2,b\n", False),
        ("0,1,3,y\n0,1,5,a\n3,1,2,b\n", False),
        ("0,1,2,3\n0,1,5,4\n3,1,2,5\n", False),
    ],
)
def test_the_header_is_recognised(tmp_path, text, header):
    data = csv_of(tmp_path, text)
    assert data.source.header is header
    assert (data.source.names[0] == "c1") == (not header or text.startswith(","))


def test_header_as_told(tmp_path):
    assert csv_of(tmp_path, "1,2\n3,4\n5,7\n", header=True).source.names == ["1", "2"]
    data = csv_of(tmp_path, "a,b\nc,d\n", header=False)
    assert whole(data)[0].shape[0] == 2


def test_quotes_newlines_blank_lines_and_marks(tmp_path):
    text = (
        b'\xef\xbb\xbf\r\n"a","long ""name""\r\nover two lines",y\r\n'
        b'1,"two\r\nlines",0\r\n\r\n2,"say ""hi""",1\r\n3,5" pipe,1\r\n"4", spaced ,0'
    )
    for block_bytes in (16, 40, 4 << 20):
        data = csv_of(tmp_path, text, target="y", block_bytes=block_bytes)
        assert data.source.names == ["a", 'long "name"\r\nover two lines', "y"]
        values = data.schema.columns[1].values
        assert values == ('5" pipe', 'say "hi"', "spaced", "two\r\nlines")
        X, y, _ = whole(data)
        assert X[:, 0].tolist() == [1, 2, 3, 4]
        assert X[:, 1:5].argmax(axis=1).tolist() == [3, 1, 0, 2]
        assert y.tolist() == [0, 1, 1, 0]


@given(st.text(alphabet='a,"\n\r', max_size=40))
def test_blocks_are_cut_between_records(text):
    """Whatever is cut off, reading both parts is reading the whole (PyArrow's rules)."""

    def rows(part):
        if not part.strip("\r\n"):
            return []
        widths = []

        def count(row):
            widths.append(row.actual_columns)
            return "skip"

        found = pyarrow.csv.read_csv(
            io.BytesIO(part.encode()),
            pyarrow.csv.ReadOptions(column_names=["a", "b"], block_size=1000),
            pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=count),
            pyarrow.csv.ConvertOptions(
                column_types={"a": pa.string(), "b": pa.string()}, strings_can_be_null=False
            ),
        )
        return found.to_pylist() + sorted(widths)

    end = record_end(np.frombuffer(text.encode(), np.uint8), ",")
    assert end == 0 or text[end - 1] == "\n"
    if text.count('"') == 0:
        assert end == text.rfind("\n") + 1
    both = rows(text[:end]) + rows(text[end:])
    assert sorted(map(str, both)) == sorted(map(str, rows(text)))


@pytest.mark.skipif(JIT_DISABLED, reason="a long file")
def test_odd_lines_between_plain_ones(tmp_path):
    """Long stretches of both kinds, so that the compiled parser and PyArrow take turns."""
    lines = [
        f'{i},"{i}",w{i % 3}\n' if i // 900 % 2 else f"{i},{i},w{i % 3}\n" for i in range(9000)
    ]
    for block_bytes in (500, 4 << 20):
        data = csv_of(tmp_path, "a,b,c\n" + "".join(lines), block_bytes=block_bytes)
        X = whole(data)[0]
        np.testing.assert_array_equal(X[:, 0], np.arange(9000))
        np.testing.assert_array_equal(X[:, 1], np.arange(9000))
        np.testing.assert_array_equal(X[:, 2:5].argmax(axis=1), np.arange(9000) % 3)


def test_other_encodings(tmp_path):
    text = "größe,y\nklein,0\nübel,1\nklein,1\n"
    for encoding in ("latin-1", "utf-16", "utf-16-le", "cp1252", "utf-8-sig"):
        for block_bytes in (16, 4 << 20):
            data = csv_of(
                tmp_path, text.encode(encoding), encoding=encoding, target="y",
                block_bytes=block_bytes,
            )  # fmt: skip
            assert data.schema.columns[0].values == ("klein", "übel"), encoding
            assert whole(data)[0][:, 1].tolist() == [0, 1, 0]


def test_several_files_and_other_orders(tmp_path):
    (tmp_path / "p1.csv").write_text("a,b,y\n1,2,0\n")
    (tmp_path / "p2.csv").write_text("\ny,b,a\n1,4,3\n0,6,5\n")
    for paths in ([tmp_path / "p1.csv", tmp_path / "p2.csv"], str(tmp_path / "p*.csv")):
        X, y, _ = whole(open_data(paths, target="y"))
        assert X.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert y.tolist() == [0, 1, 0]
    for kind in ("parquet", "feather"):
        parts = [pd.read_csv(tmp_path / f"p{k}.csv") for k in (1, 2)]
        folders = [tmp_path / f"{kind}{k}" for k in (1, 2)]
        for part, folder in zip(parts, folders, strict=True):
            folder.mkdir()
            write(part, folder, kind)
        data = open_data(str(tmp_path / f"{kind}*" / "data.*"), target="y")
        assert whole(data)[0].tolist() == [[1, 2], [3, 4], [5, 6]]
        assert data.n_rows == (3 if kind == "parquet" else None)


class Stdin:
    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("block_bytes", [16, 4 << 20])
@pytest.mark.parametrize("form", ["csv", "svmlight"])
def test_standard_input_is_read_once(monkeypatch, form, block_bytes):
    rows = [(i % 7, i % 3, i % 2) for i in range(40)]
    if form == "csv":
        text = "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows)
    else:
        text = "".join(f"{y} 1:{a} 2:{b}\n" for a, b, y in rows)
    monkeypatch.setattr(sys, "stdin", Stdin(text.encode()))
    options = {"target": "y"} if form == "csv" else {}
    data = open_data("-", format=form, block_bytes=block_bytes, **options)
    assert not data.source.rereadable
    X, y, _ = whole(data)
    assert [(a, b, t) for (a, b), t in zip(X, y, strict=True)] == rows
    with pytest.raises(DataError, match="only once"):
        list(data.chunks())
    with pytest.raises(DataError, match="only once"):
        data.head(3)


def test_remote_files():
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    frame = table(50)
    files.pipe("/d/a1.csv", frame.to_csv(index=False).encode())
    files.pipe("/d/a2.csv.gz", gzip.compress(frame.to_csv(index=False).encode()))
    sink = io.BytesIO()
    frame.to_parquet(sink)
    files.pipe("/d/a.parquet", sink.getvalue())
    sink = io.BytesIO()
    frame.to_feather(sink)
    files.pipe("/d/a.arrow", sink.getvalue())
    reference = open_data(frame, target="label")
    for name in ("a1.csv", "a2.csv.gz", "a.parquet", "a.arrow"):
        assert_like(open_data(f"memory://d/{name}", target="label"), reference)
    X = whole(open_data("memory://d/a*.csv*", target="label"))[0]
    assert X.shape[0] == 100
    with pytest.raises(DataError, match="no file matches"):
        open_data("memory://d/*.none")
    with pytest.raises(DataError, match="cannot be opened"):
        open_data("memory://d/none.csv")
    with pytest.raises(DataError, match="nosuch"):
        open_data("nosuch://d/none.csv")


# ---------------------------------------------------------------- arrays


def test_arrays_of_all_kinds(tmp_path):
    X = np.arange(12).reshape(4, 3)
    y = ["b", "a", "b", "c"]
    weight = [1, 2, 0, 1]
    for given_x in (X, X.astype(np.float32), X.tolist(), np.asfortranarray(X)):
        data = open_data(given_x, y, weight=weight)
        assert data.schema.target.classes == ("a", "b", "c")
        found = whole(data)
        assert_same(found, (X.astype(float), np.array([1.0, 0, 1, 2]), np.array([1.0, 2, 0, 1])))
        assert data.n_rows == 4
    duplicates = sparse.coo_array(([1, 2, 3], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert whole(open_data(duplicates))[0].tolist() == [[0, 3], [3, 0]]
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(X))
    assert whole(open_data(tmp_path / "s.npz"))[0].tolist() == X.tolist()


@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 16, 21])
def test_columns_become_rows(k):
    n = 30 if JIT_DISABLED else 5000  # more than one tile
    X = np.random.default_rng(k).normal(size=(n, k))
    np.testing.assert_array_equal(_side_by_side(list(np.asfortranarray(X).T), n), X)


def test_blocks_of_text_outlive_the_next(tmp_path):
    text = b"".join(b"%d 1:%s\n" % (i, b"1" * (i % 50)) for i in range(200))
    (tmp_path / "a.svm").write_bytes(text)
    blocks = list(text_blocks(Span(str(tmp_path / "a.svm")), cut, 32))
    assert len(blocks) > 10
    assert b"".join(block.data.tobytes() for block in blocks) == text
    lines = np.cumsum([1, *(block.newlines for block in blocks)])[:-1]
    assert [block.first_line for block in blocks] == lines.tolist()


def test_chunks_have_the_size_asked_for():
    X = np.arange(20.0).reshape(10, 2)
    for rows in (1, 3, 10, 99):
        batches = list(open_data(X, block_bytes=1).chunks(rows))
        assert [b.size for b in batches[:-1]] == [rows] * (len(batches) - 1)
        assert sum(b.size for b in batches) == 10
    assert rows_in(1000, 8) == 64  # at least
    assert rows_in(1 << 20, 8) == 1 << 17
    assert rows_in((1 << 20) - 1, 8) == 1 << 16
    assert open_data(X, chunk_bytes=1 << 12).chunk_rows == rows_in(1 << 12, 8 * 2 + 8)
    sample = open_data(X).sample
    assert sample.size == 10
    assert sample.first == 0


def test_gathered_cuts_sparse_blocks():
    matrix = sparse.random_array((23, 5), density=0.4, rng=np.random.default_rng(0), format="csr")

    def block(a, b):
        part = matrix[a:b]
        thin = Sparse(part.data, part.indices, part.indptr)
        return Batch(thin, np.arange(a, b) * 1.0, None, n_features=5)

    parts = list(gathered([block(0, 4), block(4, 4), block(4, 17), block(17, 23)], 5))
    assert [p.size for p in parts] == [5, 5, 5, 5, 3]
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), np.arange(23))
    found = np.concatenate([dense(p.rows) for p in parts])
    np.testing.assert_array_equal(found, matrix.toarray())


def test_scan_counts_rows_classes_and_non_zeros(tmp_path):
    data = csv_of(tmp_path, "a,y\n1,u\n2,v\n3,v\n", target="y")
    told = []
    extent = data.scan(told.append)
    assert (extent.rows, extent.class_counts.tolist(), extent.nonzeros) == (3, [1, 2], 3)
    assert extent.moments.mean.tolist() == [2.0]
    assert told == [3]


def test_names_of_files(tmp_path):
    assert suffix("a/b.tar/c.CSV.GZ") == ".csv"
    assert suffix("https://x.org/d.parquet?v=1.csv") == ".parquet"
    assert suffix("plain") == ""
    (tmp_path / "b[1].csv").write_text("x")
    assert expand(tmp_path / "b[1].csv") == [str(tmp_path / "b[1].csv")]


def test_format_by_content(tmp_path):
    frame = table(20)
    for kind, expected in (("parquet", "ParquetSource"), ("feather", "ArrowSource")):
        path = write(frame, tmp_path, kind).rename(tmp_path / f"{kind}.dat")
        assert type(open_data(path, target="label").source).__name__ == expected
    (tmp_path / "c.data").write_text("1 2 3\n4 5 6\n")
    assert type(open_data(tmp_path / "c.data").source).__name__ == "CsvSource"
    (tmp_path / "s.data").write_text("# x\n1 2:3\n4\n")
    assert type(open_data(tmp_path / "s.data").source).__name__ == "SvmlightSource"


@pytest.mark.skipif(JIT_DISABLED, reason="a long file")
def test_reading_takes_bounded_memory(tmp_path):
    """Blocks and chunks are small against the file (tracked by NumPy's own account)."""
    import tracemalloc

    row = ",".join("0.123456" for _ in range(20)) + "\n"
    (tmp_path / "a.csv").write_text(row * 60_000)
    data = open_data(tmp_path / "a.csv", block_bytes=1 << 16, chunk_bytes=1 << 17, header=False)
    list(data.chunks())  # compiled now
    tracemalloc.start()
    rows = sum(batch.size for batch in data.chunks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 60_000
    assert peak < 2 << 20 < 60_000 * 20 * 8
