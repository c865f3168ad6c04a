"""Real processes, killed at random moments and resumed: the model is the same to the bit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from conftest import after_checkpoint
from thresher import load_model
from thresher.training.checkpoint import checkpoint_path

ROWS, PASSES = 400_000, 10


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A file, the command that trains on it in a stream, and the uninterrupted model."""
    folder = tmp_path_factory.mktemp("resume")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(ROWS, 4)), 3)
    y = (X.sum(axis=1) + rng.normal(size=ROWS) > 0).astype(int)
    data = folder / "data.csv"
    lines = [f"{a},{b},{c},{d},{t}" for (a, b, c, d), t in zip(X.tolist(), y.tolist(), strict=True)]
    data.write_text("a,b,c,d,y\n" + "\n".join(lines) + "\n")

    def command(model, *more):
        train = ["train", str(data), "--target", "y", "--memory", "1MB", "--passes", str(PASSES)]
        options = ["--checkpoint", "1", "-m", str(model), "--quiet", *more]
        return [sys.executable, "-m", "thresher", *train, *options]

    whole = folder / "whole.thresher"
    subprocess.run(command(whole), check=True)
    return folder, command, load_model(whole)


def same(model, other):
    return (
        np.array_equal(model.estimator.coef_, other.estimator.coef_)
        and np.array_equal(model.estimator.intercept_, other.estimator.intercept_)
        and model.training["history"] == other.training["history"]
    )


def killed_and_resumed(job, seed, times):
    """The number of kills, each some time after a checkpoint, before it comes to its end."""
    folder, command, whole = job
    model = folder / f"killed{seed}.thresher"
    rng = np.random.default_rng(seed)
    kills = 0
    for _ in range(times):
        process = after_checkpoint(lambda: subprocess.Popen(command(model, "--resume")), model)
        time.sleep(rng.exponential(0.3))
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
    process = subprocess.run(command(model, "--resume"))
    assert process.returncode == 0
    assert same(load_model(model), whole)
    assert not checkpoint_path(model).exists()
    assert not list(folder.glob(f".{model.name}*.tmp"))
    return kills


def interrupted(command, model):
    """The exit code after Ctrl-C."""
    process = after_checkpoint(lambda: subprocess.Popen(command), model)
    process.send_signal(signal.SIGINT)
    return process.wait(timeout=60)


def test_a_killed_training_resumes_to_the_same_model(job):
    assert killed_and_resumed(job, 0, times=2) > 0


@pytest.mark.slow
def test_twenty_kills(job):
    kills, seed = 0, 1
    while kills < 20:
        kills += killed_and_resumed(job, seed, times=5)
        seed += 1


def test_ctrl_c_leaves_a_usable_model_and_a_checkpoint(job):
    folder, command, _ = job
    model = folder / "stopped.thresher"
    assert interrupted(command(model, "--passes", "1000"), model) == 130
    stopped = load_model(model)
    assert stopped.training["status"] == "INTERRUPTED"
    assert stopped.training["held_out"]["error"] < 0.5
    assert checkpoint_path(model).exists()


def test_a_changed_file_is_not_resumed(job):
    folder, command, _ = job
    model, data = folder / "changed.thresher", folder / "data.csv"
    interrupted(command(model, "--passes", "1000"), model)
    text = data.read_text()
    data.write_text(text + "1,1,1,1,1\n")
    try:
        done = subprocess.run(
            command(model, "--passes", "1000", "--resume"), capture_output=True, text=True
        )
    finally:
        data.write_text(text)
    assert done.returncode == 5
    assert "other files" in done.stderr
