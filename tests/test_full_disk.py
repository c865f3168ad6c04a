"""A full disk: files are whole or not there, and a training outlives a checkpoint."""

import errno
import os

import numpy as np
import pytest

from conftest import make_data
from thresher import LinearClassifier, load_model, open_data, save_model, train
from thresher.artifacts import container
from thresher.training.checkpoint import CheckpointWarning, checkpoint_path
from thresher.views.report import build as report


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def model(tmp_path):
    X, y = make_data(n=100, d=3)
    save_model(LinearClassifier().fit(X, y), tmp_path / "m.thresher")
    return load_model(tmp_path / "m.thresher")


@pytest.mark.parametrize("kind", ["html", "pdf", "png"])
@pytest.mark.parametrize("before", [None, b"the old report"])
def test_reports(model, tmp_path, monkeypatch, kind, before):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"r.{kind}"
    if before:
        path.write_bytes(before)
    whole = sorted(os.listdir(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)  # what is in the buffers finds no room
        with pytest.raises(OSError, match="No space left"):
            report.write_report(model, None, **{kind: path}, quick=True, static=True)
    assert sorted(os.listdir(tmp_path)) == whole
    assert (path.read_bytes() if path.exists() else None) == before
    report.write_report(model, None, **{kind: path}, quick=True, static=True)
    assert path.stat().st_size > 1000


def stream(tmp_path, monkeypatch, fails):
    """Trains in a stream that saves after every window; the n-th write fails where ``fails(n)``."""
    X, y = make_data(n=3000, d=3)
    written, write = [], container.write

    def attempt(path, document, arrays, kind):
        written.append(kind)
        if kind == "checkpoint" and fails(len(written)):
            full()
        write(path, document, arrays, kind)

    monkeypatch.setattr(container, "write", attempt)
    out = tmp_path / "m.thresher"
    trained = train(
        X, y, params={"solver": "asgd"}, memory=1, passes=3, checkpoint="100", model=out
    )
    return trained, written, out


def test_a_checkpoint_that_fails_is_tried_again(tmp_path, monkeypatch):
    with pytest.warns(CheckpointWarning, match="no checkpoint: .*No space left"):
        trained, written, out = stream(tmp_path, monkeypatch, lambda n: n == 1)
    assert written.count("checkpoint") > 1
    assert trained.training["status"] == "COMPLETED"
    assert np.array_equal(load_model(out).estimator.coef_, trained.estimator.coef_)
    assert not checkpoint_path(out).exists()


def test_the_model_does_not_depend_on_checkpoints(tmp_path, monkeypatch):
    saving, _, _ = stream(tmp_path, monkeypatch, lambda n: False)
    with pytest.warns(CheckpointWarning):
        failing, _, _ = stream(tmp_path, monkeypatch, lambda n: True)
    assert np.array_equal(failing.estimator.coef_, saving.estimator.coef_)


def test_an_interrupted_training_gives_its_model(tmp_path, monkeypatch):
    """Also where its checkpoint cannot be written."""
    monkeypatch.setattr("thresher.training.checkpoint.Checkpointer.save", full)
    X, y = make_data(n=3000, d=3)
    asked = []
    with pytest.warns(CheckpointWarning):
        model = train(
            open_data(X, y), params={"solver": "asgd"}, memory=1, passes=50, checkpoint="60s",
            model=tmp_path / "m.thresher", stop=lambda: asked.append(1) or len(asked) > 2,
        )  # fmt: skip
    assert model.training["status"] == "INTERRUPTED"
    assert load_model(tmp_path / "m.thresher").evaluate(X, y=y)["error"] < 0.4
