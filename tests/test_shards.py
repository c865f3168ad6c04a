"""Shards: parts of a data set that together are the whole, whatever the format and the cuts."""

import gzip
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from thresher import DataError, open_data
from thresher.data.dataset import renumbered
from thresher.data.rows_file import write_rows
from thresher.data.spans import shares

RNG = np.random.default_rng(0)
ROWS = 997
TABLE = {
    "a": RNG.normal(size=ROWS).round(3),
    "kind": np.array(["x", "y y", "z"])[RNG.integers(0, 3, ROWS)],
    "y": np.array(["no", "yes"])[RNG.integers(0, 2, ROWS)],
}


def csv_lines(quoted=False):
    """Quoted kinds hold a newline and a delimiter."""
    kind = (lambda k: '"' + k + ',\n"""') if quoted else str
    rows = zip(TABLE["a"], TABLE["kind"], TABLE["y"], strict=True)
    return ["a,kind,y", *(f"{a},{kind(k)},{y}" for a, k, y in rows)]


@pytest.fixture(params=["csv", "quoted", "no newline", "gz", "two", "parquet", "arrow", "stream",
                        "svmlight", "rows"])  # fmt: skip
def data(request, tmp_path):
    kind = request.param
    if kind in ("csv", "quoted", "no newline"):
        path = tmp_path / "a.csv"
        end = "" if kind == "no newline" else "\n"
        path.write_text("\n".join(csv_lines(kind == "quoted")) + end)
        return open_data(path, target="y")
    if kind == "gz":
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress("\n".join(csv_lines()).encode() + b"\n"))
        return open_data(tmp_path / "a.csv.gz", target="y")
    if kind == "two":
        lines = csv_lines()
        (tmp_path / "a.csv").write_text("\n".join(lines[:300]) + "\n")
        other = [
            ",".join(np.array(line.split(","))[[2, 0, 1]]) for line in [lines[0], *lines[300:]]
        ]
        (tmp_path / "b.csv").write_text("\n".join(other) + "\n")
        return open_data([tmp_path / "a.csv", tmp_path / "b.csv"], target="y")
    if kind == "svmlight":
        X = sparse.random(ROWS, 30, 0.2, format="csr", random_state=0)
        dump_svmlight_file(X, RNG.integers(0, 2, ROWS), str(tmp_path / "a.svm"))
        return open_data(tmp_path / "a.svm")
    table = pa.table(TABLE)
    if kind == "parquet":
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=90)
        return open_data(tmp_path / "a.parquet", target="y")
    if kind == "rows":
        whole = open_data(RNG.normal(size=(200_000, 2)), np.arange(200_000) % 2)
        write_rows(whole, tmp_path / "a.rows")
        return open_data(tmp_path / "a.rows")
    opened = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
    with opened(str(tmp_path / "a.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=100)
    return open_data(tmp_path / "a.arrow", target="y")


def whole(batches):
    batches = list(batches)
    X = [b.X.toarray() if sparse.issparse(b.X) else b.X for b in batches]
    return np.vstack(X), np.concatenate([b.y for b in batches])


@pytest.mark.parametrize("n", [1, 2, 7, 50])
def test_shards_are_the_whole(data, n):
    shards = data.shards(n)
    assert 1 <= len(shards) <= n
    read = [list(pickle.loads(pickle.dumps(shard)).chunks(50)) for shard in shards]
    rows = [sum(b.size for b in batches) for batches in read]
    for shard, batches in zip(renumbered(shards, rows), read, strict=True):
        assert not batches or batches[0].first >= shard.first  # never too small
    X, y = whole(b for batches in read for b in batches)
    expected = whole(data.chunks())
    np.testing.assert_array_equal(X, expected[0])
    np.testing.assert_array_equal(y, expected[1])


@pytest.mark.parametrize("n", [2, 7])
def test_rows_are_numbered_as_in_the_whole(data, n):
    """Quoted newlines make too many of them, which a reader finds out."""
    shards = data.shards(n)
    rows = [sum(b.size for b in shard.chunks()) for shard in shards]
    firsts = [shard.first for shard in shards]
    if '"' not in str(data.schema):
        assert firsts == [shard.first for shard in renumbered(shards, rows)]
    assert sum(rows) == sum(b.size for b in data.chunks())


def test_a_shard_opens_a_file_once(tmp_path):
    pq.write_table(pa.table(TABLE), tmp_path / "a.parquet", row_group_size=90)
    shards = open_data(tmp_path / "a.parquet", target="y").shards(3)
    assert [len(shard.source.spans) for shard in shards] == [1, 1, 1]


def test_a_plain_file_is_cut_into_as_many(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(csv_lines()) + "\n")
    shards = open_data(tmp_path / "a.csv", target="y").shards(10)
    rows = [sum(b.size for b in shard.chunks()) for shard in shards]
    assert len(shards) == 10
    assert max(rows) < 1.3 * min(rows)


@pytest.mark.parametrize("n", [1, 4])
def test_errors_name_the_line_of_the_file(tmp_path, n):
    lines = csv_lines()
    lines[800] = "word,x,yes"
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    shards = open_data(tmp_path / "a.csv", target="y", types={"a": "number"}).shards(n)
    with pytest.raises(DataError, match="line 801"):
        [list(shard.chunks()) for shard in shards]


def test_bad_rows_are_counted_by_whoever_meets_them(tmp_path):
    lines = csv_lines()
    for k in (100, 101, 900):
        lines[k] = "1,2"
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    shards = open_data(tmp_path / "a.csv", target="y", on_bad_rows="skip").shards(5)
    rows = [sum(b.size for b in shard.chunks()) for shard in shards]
    assert sum(rows) == ROWS - 3
    assert [shard.bad.count for shard in shards] == [2, 0, 0, 0, 1]


def test_memory_and_pipes_cannot_be_shared():
    with pytest.raises(DataError, match="in memory"):
        open_data(np.eye(3), [0, 1, 1]).shards(2)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 50))
def test_shares_are_consecutive_and_even(sizes, n):
    runs = shares(sizes, n)
    assert [i for run in runs for i in range(run.start, run.stop)] == list(range(len(sizes)))
    assert len(runs) <= n
    assert all(run.stop > run.start for run in runs)
    most = max(sum(sizes[run]) for run in runs)
    assert most <= sum(sizes) / n + 2 * max(sizes)
