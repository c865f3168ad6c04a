"""The command line as people use it: files in, files out, one line and a code when it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from thresher import LinearClassifier, LinearRegressor, load_model
from thresher.cli import warmup
from thresher.cli.spelling import as_options
from thresher.race.contestants import contestants

COMMANDS = ("train", "predict", "evaluate", "inspect", "convert", "export", "report", "explore",
            "wizard", "warmup", "demo")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    n = 1500
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, size=n),
            "work": rng.choice(["private", "state", "self, own"], size=n),
            "hours": np.where(rng.random(n) < 0.1, np.nan, np.round(rng.normal(40, 9, n), 1)),
        }
    )
    score = 0.1 * (frame["age"] - 50) + (frame["work"] == "state") * 2 + rng.normal(size=n)
    frame["income"] = np.where(score > 0, ">50K", "<=50K")
    frame["pay"] = np.round(score * 10 + 100, 2)
    frame[: n // 2].to_csv(folder / "one.csv", index=False)
    frame[n // 2 :].to_csv(folder / "two.csv", index=False)
    frame.to_csv(folder / "all.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    """Trained as a stranger would do it: no option but the target, in a process of its own."""
    path = folder / "income.thresher"
    command = [sys.executable, "-m", "thresher", "train", str(folder / "all.csv")]
    done = subprocess.run(
        [*command, "--target", "income", "--ignore", "pay", "--model", str(path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "2 classes: <=50K, >50K" in done.stderr
    assert "held out" in done.stderr
    return path


def test_predictions_in_every_format(thresher, folder, model, tmp_path):
    for name in ("p.csv", "p.parquet", "p.arrow", "p.txt"):
        code, _, err = thresher(
            "predict", model, folder / "two.csv", "-o", tmp_path / name, "--scores", "-q"
        )
        assert code == 0, err
    table = pd.read_csv(tmp_path / "p.csv")
    assert list(table) == ["prediction", "score"]
    assert pq.read_table(tmp_path / "p.parquet").to_pandas().equals(table)
    assert pd.read_feather(tmp_path / "p.arrow").equals(table)
    lines = (tmp_path / "p.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == list(table["prediction"])
    direct = load_model(model).predict(str(folder / "two.csv"))
    assert list(table["prediction"]) == list(direct)
    code, out, _ = thresher("predict", model, folder / "two.csv", "-q")
    assert out.split() == list(direct)


def test_files_without_the_target_can_be_predicted(thresher, folder, model, tmp_path):
    frame = pd.read_csv(folder / "two.csv").drop(columns=["income", "pay"])
    frame[["work", "hours", "age"]].to_csv(tmp_path / "new.csv", index=False)  # in another order
    code, out, err = thresher("predict", model, tmp_path / "new.csv", "-q")
    assert code == 0, err
    assert out.split() == list(load_model(model).predict(str(folder / "two.csv")))


def test_evaluate(thresher, folder, model):
    code, out, _ = thresher("evaluate", model, folder / "one.csv", "--json")
    metrics = json.loads(out)
    assert code == 0
    assert metrics["error"] < 0.2
    truth = pd.read_csv(folder / "one.csv")["income"]
    wrong = np.mean(load_model(model).predict(str(folder / "one.csv")) != truth)
    assert metrics["error"] == pytest.approx(wrong)
    code, out, _ = thresher("evaluate", model, folder / "one.csv", "-q")
    assert f"{wrong:.2%}" in out
    assert "truth in rows" in out


def test_probabilities_where_the_model_has_them(thresher, folder, model, tmp_path):
    code, _, err = thresher("predict", model, folder / "one.csv", "--probabilities")
    assert code == 5
    assert "--calibrate" in err
    path = tmp_path / "p.thresher"
    code, _, err = thresher(
        "train", folder / "one.csv", "-t", "income", "-m", path, "--loss", "logistic", "-q"
    )
    assert code == 0, err
    code, out, _ = thresher("predict", path, folder / "two.csv", "--probabilities", "-q")
    label, low, high = out.splitlines()[0].split()
    assert float(low) + float(high) == pytest.approx(1.0)
    assert label == ("<=50K" if float(low) > 0.5 else ">50K")


def test_every_parameter_of_the_estimators_is_an_option(thresher, folder, tmp_path):
    """By its own name, or by --set; what is set is found in the saved model."""
    path = tmp_path / "m.thresher"
    code, _, err = thresher(
        "train", folder / "all.csv", "-t", "income", "-m", path, "--loss", "Pinball(tau=0.2)",
        "--solver", "pegasos", "--alpha", "0.01", "--set", "solver.batch=5", "--set", "n_jobs=2",
        "--set", "patience=7", "--no-scale", "--passes", "3", "--seed", "4", "-q",
    )  # fmt: skip
    assert code == 0, err
    params = load_model(path).estimator.get_params()
    assert params["loss__tau"] == 0.2
    assert params["solver__batch"] == 5
    assert params["alpha"] == 0.01
    assert (params["n_jobs"], params["patience"], params["scale"]) == (2, 7, False)
    assert params["random_state"] == 4
    for cls in (LinearClassifier, LinearRegressor):
        for name in cls().get_params(deep=False):
            value = cls().get_params()[name]
            code, _, err = thresher(
                "train", folder / "one.csv", "-t",
                "income" if cls is LinearClassifier else "pay", "--ignore",
                "pay" if cls is LinearClassifier else "income", "--set", f"{name}={value}", "-q",
            )  # fmt: skip
            assert code == 0, (name, err)


def test_options_from_a_file_and_those_given_win(thresher, folder, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text(
        'target = "income"\nignore = ["pay"]\n'
        '[train]\nloss = "logistic"\nalpha = 0.5\nmax-categories = 2\n'
        "[set]\npatience = 5\n"
    )
    path = tmp_path / "m.thresher"
    code, _, err = thresher(
        "train", folder / "all.csv", "--config", config, "--alpha", "0.25", "-m", path, "-q"
    )
    assert code == 0, err
    estimator = load_model(path).estimator
    assert (estimator.loss, estimator.alpha, estimator.patience) == ("logistic", 0.25, 5)
    assert len(load_model(path).schema.column("work").values) == 2
    config.write_text('tarjet = "income"\n')
    code, _, err = thresher("train", folder / "all.csv", "--config", config)
    assert code == 5
    assert "'tarjet', which is no option: did you mean 'target'?" in err


def test_several_files_are_one(thresher, folder, tmp_path):
    runs = []
    for words in ([folder / "all.csv"], [folder / "one.csv", folder / "two.csv"]):
        path = tmp_path / "m.thresher"
        code, _, err = thresher(
            "train", *words, "-t", "pay", "--ignore", "income", "-m", path, "-q"
        )
        assert code == 0, err
        runs.append(load_model(path))
    assert np.array_equal(runs[0].estimator.coef_, runs[1].estimator.coef_)
    assert runs[0].training["held_out"]["r2"] > 0.8


def test_inspect_data_and_models(thresher, folder, model):
    code, out, _ = thresher("inspect", folder / "all.csv", "-t", "income", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rows"] == 1500
    frame = pd.read_csv(folder / "all.csv")
    age = next(c for c in found["columns"] if c["name"] == "age")
    assert age["smallest"] == frame["age"].min()
    assert age["mean"] == pytest.approx(frame["age"].mean())
    assert found["classes"]["<=50K"] == int((frame["income"] == "<=50K").sum())
    code, out, _ = thresher("inspect", folder / "all.csv", "-t", "income", "-q")
    assert "class balance" in out
    code, out, _ = thresher("inspect", model, "--json")
    assert (
        json.loads(out)["training"]["rows"] + json.loads(out)["training"]["held_out_rows"] == 1500
    )
    code, out, _ = thresher("inspect", model)
    assert "largest weights" in out


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv", ".svm", ".npz", ".rows"])
def test_converted_data_trains_the_same_model(thresher, folder, tmp_path, suffix):
    output = tmp_path / f"d{suffix}"
    source = folder / "all.csv"
    code, _, err = thresher("convert", source, "-o", output, "-t", "pay", "-q")
    assert code == 0, err
    target = ["-t", "pay"] if suffix in (".parquet", ".arrow", ".csv") else []
    models = []
    for words in ([source, "-t", "pay"], [output, *target]):
        path = tmp_path / "m.thresher"
        code, _, err = thresher("train", *words, "-m", path, "--scale", "-q")
        assert code == 0, err
        models.append(load_model(path))
    first, second = (m.estimator.coef_[0] for m in models)
    d = second.size  # svmlight text does not tell of features that are always zero
    assert first[:d] == pytest.approx(second, abs=1e-9)
    assert not np.any(first[d:])


def test_cached_rows_are_used_and_renewed(thresher, folder, tmp_path):
    data = tmp_path / "d.csv"
    data.write_text((folder / "one.csv").read_text())
    words = ["train", data, "-t", "income", "--ignore", "pay", "--cache", "--json"]
    first = json.loads(thresher(*words)[1])
    assert (tmp_path / "d.csv.rows").exists()
    assert json.loads(thresher(*words)[1])["held_out"] == first["held_out"]
    data.write_text((folder / "all.csv").read_text())
    assert json.loads(thresher(*words)[1])["rows"] > first["rows"]


@pytest.mark.parametrize("name", ["m.onnx", "m.csv", "m.liblinear"])
def test_exports(thresher, folder, tmp_path, name):
    path = tmp_path / "m.thresher"
    frame = pd.read_csv(folder / "all.csv")
    frame["label"] = (frame["income"] == ">50K").astype(int)
    frame[["age", "label"]].to_csv(tmp_path / "d.csv", index=False)
    assert thresher("train", tmp_path / "d.csv", "-t", "label", "-m", path, "-q")[0] == 0
    code, _, err = thresher("export", path, "-o", tmp_path / name)
    assert code == 0, err
    estimator = load_model(path).estimator
    if name == "m.csv":
        table = pd.read_csv(tmp_path / name)
        assert table["1"].tolist() == [*estimator.intercept_, *estimator.coef_[0]]
    elif name == "m.onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(str(tmp_path / name))
        X = frame[["age"]].to_numpy(dtype=np.float64)
        (label,) = session.run(["label"], {"X": X})
        assert np.array_equal(label, estimator.predict(X))
    else:
        again = tmp_path / "again.thresher"
        assert thresher("convert", tmp_path / name, "-o", again)[0] == 0
        assert load_model(again).estimator.coef_ == pytest.approx(estimator.coef_)


def test_a_users_own_loss(thresher, folder, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from dataclasses import dataclass\nfrom thresher import Loss, register\n"
        "@dataclass(frozen=True)\nclass Cubed(Loss):\n    power: float = 3.0\n"
        "    def value(self, y, p):\n        return max(0.0, 1.0 - y * p) ** self.power\n"
        "    def deriv(self, y, p):\n"
        "        return -y * self.power * max(0.0, 1.0 - y * p) ** (self.power - 1.0)\n"
        "register('cubed', Cubed)\n"
    )
    path = tmp_path / "m.thresher"
    words = ["train", folder / "all.csv", "-t", "income", "--ignore", "pay", "--loss", "cubed"]
    code, _, err = thresher(*words, "--solver", "asgd", "-m", path, "--plugin", plugin, "-q")
    assert code == 0, err
    command = [sys.executable, "-m", "thresher", "evaluate", str(path), str(folder / "all.csv")]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    assert done.returncode == 4
    assert "cubed" in done.stderr
    done = subprocess.run(
        [*command, "--json", "--plugin", str(plugin)], capture_output=True, text=True
    )
    assert json.loads(done.stdout)["error"] < 0.2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["train", "nowhere.csv", "-t", "y"], 3, "no file nowhere.csv"),
        (["train", "{}/all.csv", "-t", "incom"], 3, "did you mean 'income'?"),
        (["train", "{}/all.csv"], 5, "target"),
        (["train", "{}", "-t", "y"], 3, "is a directory"),
        (["train", "{}/all.csv", "-t", "income", "--loss", "hing"], 5, "hinge"),
        (["train", "{}/all.csv", "-t", "income", "--loss", "os.system('x')"], 5, "none of our"),
        (["train", "{}/all.csv", "-t", "income", "--set", "nope=1"], 5, "nope"),
        (["train", "{}/all.csv", "-t", "income", "--set", "nope"], 5, "name=value"),
        (["train", "{}/all.csv", "-t", "income", "--memory", "lots"], 5, "not a size"),
        (["train", "{}/all.csv", "-t", "income", "--checkpoint", "5s"], 5, "--model"),
        (["train", "{}/all.csv", "-t", "income", "--holdout", "1.5"], 5, "held-out share"),
        (["train", "{}/all.csv", "-t", "income", "--type", "age"], 5, "COLUMN=KIND"),
        (["train", "{}/all.csv", "-t", "income", "--type", "age=blue"], 5, "unknown type"),
        (["train", "{}/all.csv", "-t", "income", "--task", "regression"], 3, "not a number"),
        (["train", "{}/all.csv", "-t", "income", "-m", "no/where/m"], 5, "no folder"),
        (["train", "{}/all.csv", "-t", "income", "--passes", "0"], 2, "--passes"),
        (["train", "{}/all.csv", "-t", "income", "--on-bad-rows", "hide"], 5, "on_bad_rows"),
        (["train", "{}/all.csv", "-t", "income", "--alpha", "much"], 2, "--alpha"),
        (["predict", "{}/all.csv", "{}/all.csv"], 4, "all.csv"),
        (["evaluate", "{}/none.thresher", "{}/all.csv"], 3, "none.thresher"),
        (["convert", "{}/all.csv", "-o", "out.xyz"], 5, "suffix"),
        (["convert", "{}/all.csv", "-o", "out.svm"], 5, "--target"),
        (["nothing"], 2, "nothing"),
    ],
)
def test_mistakes_get_one_clear_line_and_a_code(thresher, folder, words, code, said):
    got, _, err = thresher(*(w.replace("{}", str(folder)) for w in words))
    assert (got, said in err) == (code, True), (got, err)
    assert "Traceback" not in err


def test_labels_not_seen_in_training(thresher, folder, model, tmp_path):
    text = (folder / "one.csv").read_text().replace("<=50K", "unknown", 1)
    (tmp_path / "odd.csv").write_text(text)
    code, _, err = thresher("evaluate", model, tmp_path / "odd.csv")
    assert code == 3
    assert "odd.csv, line " in err
    assert "column 'income'" in err
    code, out, _ = thresher(
        "evaluate", model, tmp_path / "odd.csv", "--on-bad-rows", "skip", "--json"
    )
    assert (code, json.loads(out)["bad_rows"]) == (0, 1)


def test_help_and_version(thresher):
    code, out, _ = thresher("--help")
    assert code == 0
    for command in COMMANDS:
        assert command in out
    assert "Exit codes" in out
    code, out, _ = thresher("train", "--help")
    assert "--checkpoint" in out
    assert thresher("--version")[1].strip()


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv = ['thresher', 'train', '--help']\n"
        "from thresher.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'numba', 'sklearn', 'scipy', 'pyarrow', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip().endswith("heavy: []")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("(on_bad_rows='skip' leaves such rows out)", "(--on-bad-rows skip leaves such rows out)"),
        ("name it, for example encoding='latin-1'", "name it, for example --encoding latin-1"),
        ("a date: types={'since': 'date'} makes it", "a date: --type since=date makes it"),
        ("loss='hing' is unknown", "--loss hing is unknown"),
        ("solver=None and x=2", "--solver None and x=2"),
        (
            "outside 1 .. 3 (n_features= says how many)",
            "outside 1 .. 3 (--n-features says how many)",
        ),
        (
            "memory=100 bytes cannot hold one kernel column",
            "--set memory=100 bytes cannot hold one kernel column",
        ),
    ],
)
def test_messages_speak_of_options(said, shown):
    assert as_options(said) == shown


def test_warmup_fits_all_that_race_and_reads_text(thresher, monkeypatch):
    tried = []

    def some(X, target):
        """One setting of every learner, task and kind of rows: compiled here already."""
        for name, model, labels in racing(X, target):
            if (name, labels.dtype, hasattr(X, "indptr")) not in tried:
                tried.append((name, labels.dtype, hasattr(X, "indptr")))
                yield name, model, labels

    racing = warmup._racing
    monkeypatch.setattr(warmup, "_linear", lambda target: [])
    monkeypatch.setattr(warmup, "_racing", some)
    code, out, err = thresher("warmup", "--json")
    assert code == 0, err
    assert json.loads(out)["fits"] == len(tried)
    assert {name for name, *_ in tried} == set(contestants("classification", True, 10))
