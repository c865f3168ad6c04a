"""Model files and checkpoints that would predict nonsense, or cost too much, are refused."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from conftest import make_data
from thresher import BudgetedClassifier, KernelClassifier, load_model, open_data, save_model
from thresher.artifacts.container import BadFile
from thresher.training import Training, run
from thresher.training.checkpoint import Checkpointer, Every
from thresher.training.one_run import Run

pytestmark = pytest.mark.filterwarnings("ignore:.*no better than a constant")

BAD_MODEL = 4


def rewritten(path, change):
    """The file with its document changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["document.json"])
    change(document)
    members["document.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def kernel_fields(document):
    function = document["model"]["function"]["$object"]["fields"]
    return function["kernel"]["$object"]["fields"]


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("gamma", {"$float": "nan"}, "not a number"),
        ("gamma", {"$float": "inf"}, "must be finite"),
        ("gamma", 10**400, "too large a whole number"),
        ("gamma", True, "must be float"),
        ("degree", 2**40, "0 .. 1000"),
        ("degree", -1, "0 .. 1000"),
    ],
)
def test_parameters_of_kernels(tmp_path, field, value, match):
    X, y = make_data(n=60, d=3)
    model = BudgetedClassifier(
        kernel="polynomial" if field == "degree" else "rbf", maintenance="remove", budget=5
    ).fit(X, y)
    path = tmp_path / "m.thresher"
    save_model(model, path)
    load_model(path)
    rewritten(path, lambda document: kernel_fields(document).update({field: value}))
    with pytest.raises(BadFile, match=match):
        load_model(path)


def test_the_exit_code_of_a_bad_file(tmp_path):
    X, y = make_data(n=60, d=3)
    path = tmp_path / "m.thresher"
    save_model(BudgetedClassifier(budget=5).fit(X, y), path)
    rewritten(path, lambda document: kernel_fields(document).update(gamma={"$float": "nan"}))
    np.savez(tmp_path / "X.npz", X=X)
    command = [sys.executable, "-m", "thresher", "predict", str(path), str(tmp_path / "X.npz")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == BAD_MODEL


@pytest.mark.parametrize("value", ["<f8", [], -1.5, {"$float": "nan"}])
def test_threads_of_a_map(tmp_path, value):
    X, y = make_data(n=60, d=3)
    path = tmp_path / "m.thresher"
    save_model(KernelClassifier(map="forest", n_components=2, random_state=0).fit(X, y), path)

    def change(document):
        made = document["model"]["function"]["$object"]["fields"]["map"]["$map"]
        made["parameters"]["n_jobs"] = value

    rewritten(path, change)
    with pytest.raises(BadFile, match="n_jobs"):
        load_model(path)


def test_a_small_file_cannot_become_large(tmp_path):
    X, y = make_data(n=60, d=3)
    path = tmp_path / "m.thresher"
    save_model(BudgetedClassifier(budget=5).fit(X, y), path)
    rewritten(path, lambda document: document["training"].update(empty=[[]] * 2**21))
    assert path.stat().st_size < 50_000
    with pytest.raises(BadFile, match="lists and objects, more than"):
        load_model(path)


# ---------------------------------------------------------------- checkpoints


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A checkpoint of a stream, and a function that reads it."""
    X, y = make_data(n=400, d=3)
    out = tmp_path_factory.mktemp("stopped") / "m.thresher"
    begun = []
    how = Training(
        {"solver": "pegasos"}, passes=2, checkpoint="60s", model=out, memory=1 << 12,
        stop=lambda: bool(begun),
        on_progress=lambda event: begun.append(event.stage == "learning") or None,
    )  # fmt: skip
    data = open_data(X, y)
    run(data, how)
    path = out.with_name(out.name + ".checkpoint")

    def load(path):
        training = Run(data, how)
        task = training._checkpointer().task
        return Checkpointer(path, Every(), task).load(training.estimator, 3, 1)

    return path, load


def solver_fields(job):
    return job["learners"][0]["$tuple"][1]["$object"]["fields"]


def state_fields(job):
    return job["learners"][0]["$tuple"][2]["$object"]["fields"]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda job: state_fields(job).update(bias=0), "bias is a int"),
        (lambda job: solver_fields(job).update(batch=2**40), "batch must be"),
        (lambda job: job.update(passes=2**40), "too many"),
        (lambda job: job.update(history=[{"$float": "nan"}]), "history"),
        (lambda job: job.update(history=[{"passes": "x"}]), "history"),
    ],
)
def test_checkpoints(stopped, tmp_path, change, match):
    kept, load = stopped
    path = tmp_path / "c.checkpoint"
    path.write_bytes(kept.read_bytes())
    assert load(path).feed.passes == 2
    rewritten(path, lambda document: change(document["job"]))
    with pytest.raises(BadFile, match=match):
        load(path)
