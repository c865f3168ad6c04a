"""Pipes given as files: read once, as if they were files."""

import gc
import io
import os
import sys
import tempfile
import threading

import numpy as np
import pytest

from thresher import DataError, open_data, train

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no named pipes")
X = np.random.default_rng(0).normal(size=(300, 3)).round(3)
Y = (X[:, 0] > 0).astype(int)
TEXT = "a,b,c,y\n" + "".join(
    f"{a},{b},{c},{t}\n" for (a, b, c), t in zip(X.tolist(), Y, strict=True)
)


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """A function: the path of a new pipe that somebody writes these bytes to."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def made(content, name="pipe"):
        path = tmp_path / name
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
        return path

    return made


def kept(folder):
    gc.collect()
    return [name for name in os.listdir(folder) if name.startswith("thresher-pipe")]


def test_a_model_is_that_of_the_file(pipe, tmp_path):
    file = tmp_path / "d.csv"
    file.write_text(TEXT)
    wanted = train(file, target="y")
    found = train(pipe(TEXT.encode()), target="y")
    assert np.array_equal(found.estimator.coef_, wanted.estimator.coef_)
    assert np.array_equal(found.predict(pipe(TEXT.encode(), "more")), wanted.predict(file))


def test_many_passes_over_a_pipe(pipe, tmp_path):
    data = open_data(pipe(TEXT.encode()), target="y")
    assert [sum(b.size for b in data.chunks()) for _ in range(3)] == [300] * 3
    assert data.name == str(tmp_path / "pipe")
    assert len(kept(tmp_path)) == 1
    del data
    assert kept(tmp_path) == []


def test_other_formats(pipe):
    matrix = io.BytesIO()
    np.savez(matrix, X=X, y=Y)
    assert open_data(pipe(matrix.getvalue(), "m.npz")).n_rows == 300
    lines = b"".join(b"%d 1:%f 2:%f\n" % (t, a, b) for (a, b, _), t in zip(X, Y, strict=True))
    assert open_data(pipe(lines, "lines")).schema.n_features == 2


def test_two_pipes(pipe):
    both = [pipe(TEXT.encode(), "first"), pipe(TEXT.encode(), "second")]
    assert sum(batch.size for batch in open_data(both, target="y").chunks()) == 600


def test_errors_name_the_pipe(pipe, tmp_path):
    bad = TEXT.replace("\n", "\n1,2\n", 1).encode()
    with pytest.raises(DataError, match=f"{tmp_path / 'pipe'}, line 2: 2 fields where 4"):
        list(open_data(pipe(bad), target="y").chunks())
    with pytest.raises(DataError, match="cannot be cached"):
        open_data(pipe(TEXT.encode(), "other"), target="y", cache=True)
    with pytest.raises(DataError, match="is empty"):
        open_data(pipe(b"", "empty"), target="y")
