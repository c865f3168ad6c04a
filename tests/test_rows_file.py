"""Files of parsed rows: the same bits, refused when damaged, made anew when stale."""

import errno
import json
import math
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from thresher.data import DataError, open_data, rows_file
from thresher.data.encode import Encoder
from thresher.data.rows_file import RowsFile, write_rows

COLUMNS = 40


def arrays(batch):
    rows = batch.rows
    parts = [rows.X] if hasattr(rows, "X") else [rows.data, rows.indices, rows.indptr]
    return [*parts, batch.y, batch.weight]


def assert_same(found, expected):
    for a, b in zip(found.chunks(1 << 20), expected.chunks(1 << 20), strict=True):
        for left, right in zip(arrays(a), arrays(b), strict=True):
            assert (left is None) == (right is None)
            if left is not None:
                assert left.dtype == right.dtype
                assert left.tobytes() == right.tobytes()


def problem(density, n=150, weighted=True):
    rng = np.random.default_rng(0)
    X = sparse.random_array((n, COLUMNS), density=density, rng=rng, format="csr")
    weight = rng.random(n) if weighted else None
    return open_data(X, rng.integers(0, 3, n), weight=weight)


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("weighted", [True, False])
def test_what_is_written_is_read(tmp_path, density, weighted, monkeypatch):
    data = problem(density, weighted=weighted)
    told = []
    monkeypatch.setattr(rows_file, "window_rows", lambda row_bytes: 64)
    assert write_rows(data, tmp_path / "a.rows", told.append) == 150
    assert told == [64, 128, 150]
    found = open_data(tmp_path / "a.rows")
    assert found.schema == data.schema
    assert found.n_rows == 150
    assert_same(found, data)
    assert os.listdir(tmp_path) == ["a.rows"]
    renamed = (tmp_path / "a.rows").rename(tmp_path / "a.dat")
    assert_same(open_data(renamed), data)


@pytest.mark.parametrize("density", [0.05, 0.9])
def test_rows_are_the_file_itself(tmp_path, density):
    path = tmp_path / "a.rows"
    write_rows(problem(density), path)
    before = path.read_bytes()
    (batch,) = open_data(path).chunks(1 << 20)
    for array in arrays(batch):
        assert not array.flags.owndata
        assert array.ctypes.data % 64 == 0
        array[:] = 0  # a copy of the page, should anybody write
    assert path.read_bytes() == before


def test_tables_keep_their_schema(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,w,y\n1,u,yes\n,v,no\n3,u,no\n")
    data = open_data(path, target="y")
    write_rows(data, tmp_path / "a.rows")
    found = open_data(tmp_path / "a.rows", target="y", schema=data.schema)
    assert_same(found, data)
    (batch,) = open_data(tmp_path / "a.rows", schema=data.schema.without_target()).chunks()
    assert batch.y is None
    with pytest.raises(DataError, match="was made to predict 'y', not 'w'"):
        open_data(tmp_path / "a.rows", target="w")
    other = open_data(path, target="y", missing="most_frequent").schema
    with pytest.raises(DataError, match="another schema"):
        list(open_data(tmp_path / "a.rows", schema=other).chunks())
    classes = open_data(path, target="y", classes=["no", "yes", "?"]).schema
    with pytest.raises(DataError, match="holds the target"):
        list(open_data(tmp_path / "a.rows", schema=classes).chunks())
    with pytest.raises(DataError, match="is a table"):
        open_data(tmp_path / "a.rows", schema=problem(0.5).schema)


# ---------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    out = []
    for density in (0.05, 0.9):
        write_rows(problem(density, n=30), folder / "a.rows")
        out.append((folder / "a.rows").read_bytes())
    return folder / "mutated.rows", out


def read(path):
    """The rows, checked as compiled code would trust them; or None if the file was refused."""
    try:
        data = open_data(path)
        batches = list(data.chunks(1 << 20))
    except DataError:
        return None
    for batch in batches:
        rows = batch.rows
        if not hasattr(rows, "X"):
            assert rows.indptr[0] == 0
            assert rows.indptr[-1] == rows.data.size == rows.indices.size
            assert np.all(np.diff(rows.indptr.astype(np.int64)) >= 0)
            assert rows.indices.size == 0 or rows.indices.max() < data.schema.n_features
        assert np.all((batch.y >= 0) & (batch.y < len(data.schema.target.classes)))
        assert np.all(batch.weight >= 0)
    return batches


@settings(max_examples=300)
@given(st.data())
def test_mutated_files_are_refused_or_harmless(contents, data):
    path, originals = contents
    content = bytearray(data.draw(st.sampled_from(originals)))
    header = 16 + struct.unpack_from("<Q", content, 8)[0]
    low = data.draw(st.sampled_from([0, header]))  # half of the damage behind the header
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(low, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    read(path)


@given(st.data())
def test_truncated_and_lengthened_files_are_refused(contents, data):
    path, originals = contents
    content = data.draw(st.sampled_from(originals))
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    assert read(path) is None
    place = data.draw(st.integers(16, len(content)))
    path.write_bytes(content[:place] + b"\1" * data.draw(st.integers(1, 99)) + content[place:])
    assert read(path) is None


def corrupted(content, where, kind, value):
    out = bytearray(content)
    struct.pack_into(kind, out, where, value)
    return bytes(out)


def test_each_check(contents):
    path, (thin, full) = contents
    start = 16 + struct.unpack_from("<Q", thin, 8)[0]
    n, nonzeros = struct.unpack_from("<qq", thin, start)
    assert n == 30
    sizes = [16, 4 * (n + 1), 4 * nonzeros, 8 * nonzeros, 8 * n, 8 * n]
    places = start + np.cumsum([64 * math.ceil(size / 64) for size in sizes])
    indptr, indices, values, targets, weights, end = places
    assert start % 64 == 0
    assert end + 24 == len(thin)
    full_start = 16 + struct.unpack_from("<Q", full, 8)[0]
    for bad in [
        corrupted(thin, indptr, "<i", 1), corrupted(thin, indptr + 8, "<i", 2**30),
        corrupted(thin, indptr + 8, "<i", -1), corrupted(thin, indices, "<i", COLUMNS),
        corrupted(thin, indices, "<i", -1), corrupted(thin, values, "<d", np.nan),
        corrupted(thin, targets, "<d", 3.0), corrupted(thin, targets, "<d", -1.0),
        corrupted(thin, targets, "<d", 0.5), corrupted(thin, targets, "<d", np.nan),
        corrupted(thin, weights, "<d", -1.0), corrupted(thin, weights, "<d", np.inf),
        corrupted(thin, start, "<q", 29), corrupted(thin, start, "<q", 0),
        corrupted(thin, start, "<q", 2**62), corrupted(thin, start + 8, "<q", -1),
        corrupted(thin, start + 8, "<q", 2**62), corrupted(thin, len(thin) - 24, "<Q", 29),
        corrupted(thin, len(thin) - 24, "<Q", 31), corrupted(thin, len(thin) - 8, "<Q", 0),
        corrupted(thin, 0, "<Q", 0), corrupted(thin, 8, "<Q", 2**60),
        corrupted(full, full_start + 8, "<q", 0), corrupted(full, full_start + 64, "<d", np.inf),
        corrupted(full, full_start + 64 + 8 * 77, "<d", -np.inf), b"THRROWS1" + thin[8:],
    ]:  # fmt: skip
        path.write_bytes(bad)
        assert read(path) is None
    path.write_bytes(thin)
    assert sum(b.size for b in read(path)) == 30


@pytest.mark.parametrize("header", [b"[]", b"{}", b"{", b"[" * 100_000, b'{"schema": 3}', b"\xff"])
def test_foreign_headers(tmp_path, header):
    path = tmp_path / "a.rows"
    header += b" " * (-(16 + len(header)) % 64)
    path.write_bytes(b"THRROWS2" + struct.pack("<Q", len(header)) + header
                     + struct.pack("<QQ8s", 0, 0, b"THRROWSE"))  # fmt: skip
    with pytest.raises(DataError):
        open_data(path)


def test_not_a_file_of_rows(tmp_path):
    path = tmp_path / "a.rows"
    for content, expected in [
        (b"", "too short"), (b"a,b\n1,2\n", "too short"), (b"x" * 500, "not a file of rows"),
        (b"THRROWS1" + b"x" * 500, "of another version: make it again"),
    ]:  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(DataError, match=expected):
            open_data(path)


# ---------------------------------------------------------------- writing


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "a.rows"
    write_rows(problem(0.9), path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        write_rows(problem(0.05), path)
    assert os.listdir(tmp_path) == ["a.rows"]
    assert path.read_bytes() == before
    with pytest.raises(DataError, match="cannot be written: No such file"):
        write_rows(problem(0.05), tmp_path / "none" / "a.rows")


def test_an_interruption_leaves_nothing_behind(tmp_path):
    def stop(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(problem(0.9), tmp_path / "a.rows", stop)
    assert os.listdir(tmp_path) == []


def test_bad_rows_leave_nothing_behind(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,0\n2,1\nx,1\n")
    data = open_data(tmp_path / "a.csv", target="y", types={"a": "number"})
    with pytest.raises(DataError, match="line 4"):
        write_rows(data, tmp_path / "a.rows")
    assert os.listdir(tmp_path) == ["a.csv"]


# ---------------------------------------------------------------- caches


def test_caches_are_used_and_made_anew(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\n2,1\n")
    written = []
    write = rows_file.write_rows
    monkeypatch.setattr(rows_file, "write_rows", lambda *a: written.append(1) or write(*a))

    def opened(**options):
        data = open_data(path, cache=True, **{"target": "y", **options})
        assert isinstance(data.source, RowsFile)
        assert_same(data, open_data(path, **{"target": "y", **options}))
        return len(written)

    assert opened() == 1
    assert opened() == 1
    assert (tmp_path / "a.csv.rows").exists()
    path.write_text("a,y\n1,0\n2,1\n3,1\n")
    assert opened() == 2
    os.utime(path, ns=(0, 0))
    assert opened() == 3
    assert opened(target="a") == 4
    assert opened(missing="error") == 5
    (tmp_path / "a.csv.rows").write_bytes(b"damaged")
    assert opened(missing="error") == 6
    assert opened(missing="error") == 6


def test_a_cache_does_not_hide_bad_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n1,0\nx,1\n2,1\n")
    options = {"target": "y", "types": {"a": "number"}, "cache": True}
    data = open_data(path, on_bad_rows="skip", **options)
    for _ in range(2):
        assert sum(batch.size for batch in data.chunks()) == 2
        assert data.bad.count == 1
    with pytest.raises(DataError, match="line 3, column 'a'"):
        open_data(path, **options)


def test_only_local_files_can_be_cached():
    with pytest.raises(DataError, match="cannot be cached"):
        open_data(np.eye(3), cache=True)


def test_the_header_is_readable_by_others(tmp_path):
    write_rows(problem(0.9), tmp_path / "a.rows")
    content = (tmp_path / "a.rows").read_bytes()
    header = json.loads(content[16 : 16 + struct.unpack_from("<Q", content, 8)[0]])
    assert header["schema"]["matrix_features"] == COLUMNS
    assert header["made_from"] == []


# ---------------------------------------------------------------- files that change meanwhile


def in_blocks(tmp_path, monkeypatch):
    """A file of ten blocks, opened, and an iterator that has read the first."""
    monkeypatch.setattr(rows_file, "window_rows", lambda row_bytes: 100)
    X = np.arange(4000.0).reshape(1000, 4)
    path = tmp_path / "a.rows"
    write_rows(open_data(X, X[:, 0] % 2), path)
    data = open_data(path)
    blocks = data.source.blocks(Encoder(data.schema, data.bad))
    first = next(blocks)
    assert first.size == 100
    return path, first, blocks


def test_a_file_that_becomes_shorter(tmp_path, monkeypatch):
    """Rows that were read stay as they are, others are refused; a mapped file ends the process."""
    path, first, blocks = in_blocks(tmp_path, monkeypatch)
    with open(path, "r+b") as file:
        file.truncate(1000)
    assert first.matrix[99, 3] == 399.0
    with pytest.raises(DataError, match=r"damaged|has changed"):
        next(blocks)


def test_a_file_that_is_overwritten(tmp_path, monkeypatch):
    path, first, blocks = in_blocks(tmp_path, monkeypatch)
    content = path.read_bytes()
    os.utime(path, ns=(0, 0))  # whatever the resolution of the clock
    with open(path, "r+b") as file:
        file.write(content)
    assert first.matrix[99, 3] == 399.0
    with pytest.raises(DataError, match="has changed since it was opened"):
        next(blocks)


def test_a_file_that_is_replaced_between_passes(tmp_path):
    X = np.arange(400.0).reshape(100, 4)
    path = tmp_path / "a.rows"
    write_rows(open_data(X, X[:, 0] % 2), path)
    data = open_data(path)
    write_rows(open_data(X + 1.0, X[:, 0] % 2), path)
    with pytest.raises(DataError, match="has changed since it was opened"):
        list(data.chunks())
