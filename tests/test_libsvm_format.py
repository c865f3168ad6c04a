"""LIBSVM itself reads what we write, and we read what it writes."""

import sys

import numpy as np
import pytest
from scipy import sparse

from thresher import (
    RBF,
    Exponential,
    Linear,
    OneClassMachine,
    Polynomial,
    Sigmoid,
    SupportVectorClassifier,
    SupportVectorRegressor,
    load_model,
    save_model,
)
from thresher.artifacts.container import BadFile
from thresher.artifacts.libsvm import read_libsvm, write_libsvm
from thresher.cli import main
from thresher.estimators.support import imported
from thresher.functions import SupportFunction

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)) * (RNG.uniform(size=(90, 5)) < 0.7)
CODES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.3)


@pytest.fixture(scope="module")
def tool():
    return pytest.importorskip("libsvm.svmutil")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "libsvm.model"


def predicted(tool, path):
    found, _, values = tool.svm_predict([0] * 90, X, tool.svm_load_model(str(path)), "-q")
    return np.array(found), np.array(values)


@pytest.mark.parametrize("kernel", [Linear(), Polynomial(2, 0.5, 1.0), Sigmoid(0.1, 0.0)])
def test_libsvm_knows_the_kernels(tool, path, kernel):
    function = SupportFunction(kernel, X[:7], RNG.normal(size=(1, 7)), np.array([0.3]))
    write_libsvm(path, function)
    found, _ = predicted(tool, path)
    np.testing.assert_allclose(found, function.scores(X)[:, 0], atol=1e-9)


@pytest.mark.parametrize("labels", [[-1, 1], [3, 7], [-2, 0, 4]])
def test_libsvm_predicts_the_same(tool, path, labels):
    y = np.array(labels)[CODES % len(labels)]
    model = SupportVectorClassifier().fit(X, y)
    write_libsvm(path, model.function_, model.classes_)
    found, values = predicted(tool, path)
    if len(labels) == 2:
        np.testing.assert_allclose(-values[:, 0], model.decision_function(X), atol=1e-9)
        np.testing.assert_array_equal(found, model.predict(X))
    else:
        np.testing.assert_allclose(-values, model.function_.duels(X), atol=1e-9)
        assert np.mean(found == model.predict(X)) > 0.95  # LIBSVM gives ties to the first


def test_regressions(tool, path):
    model = SupportVectorRegressor().fit(X, X[:, 0] ** 2)
    write_libsvm(path, model.function_)
    found, _ = predicted(tool, path)
    np.testing.assert_allclose(found, model.predict(X), atol=1e-9)


MACHINES = [
    ("c_svc", SupportVectorClassifier(5.0, kernel=RBF(0.3))),
    ("nu_svc", SupportVectorClassifier(nu=0.5, kernel=Polynomial(2, 0.2, 1.0))),
    ("epsilon_svr", SupportVectorRegressor(5.0, 0.1, kernel=Linear())),
    ("nu_svr", SupportVectorRegressor(nu=0.4, kernel=Sigmoid(0.05, 0.0))),
    ("one_class", OneClassMachine(0.2, kernel=RBF(0.3))),
    ("one_class", OneClassMachine(0.2, kernel=Linear())),
]


@pytest.mark.parametrize(("kind", "model"), MACHINES)
def test_every_machine_goes_there_and_back(tool, path, tmp_path, monkeypatch, kind, model):
    """By the command line: to LIBSVM, which predicts the same, and back."""
    y = X[:, 0] ** 2 + X[:, 1]
    y = None if kind == "one_class" else np.where(y > 0.4, 7, -3) if kind.endswith("svc") else y
    expected = model.fit(X, y).predict(X)
    ours, back = tmp_path / "ours.thresher", tmp_path / "back.thresher"
    save_model(model, ours)
    for command in (["export", ours, "-o", path], ["convert", path, "-o", back]):
        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, command)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
    assert path.read_text().startswith(f"svm_type {kind}\n")
    found, _ = predicted(tool, path)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    again = load_model(back)
    assert type(again.estimator) is type(model)
    np.testing.assert_allclose(again.predict(X), expected, atol=1e-9)


@pytest.mark.parametrize("options", ["-s 0 -t 2 -g 0.3", "-s 0 -t 1 -d 2 -r 1", "-s 0 -t 0"])
@pytest.mark.parametrize("labels", [[5, -3], [-3, 5], [7, 2, 5], [2, 7, 5]])
def test_we_predict_the_same_as_libsvm(tool, path, labels, options):
    y = np.array(labels)[CODES % len(labels)]
    tool.svm_save_model(str(path), tool.svm_train(y, X, f"{options} -q"))
    found, values = predicted(tool, path)
    model = imported(read_libsvm(path))
    assert model.classes_.tolist() == sorted(labels)
    agree = model.predict(X) == found
    if len(labels) == 2:
        np.testing.assert_allclose(np.abs(model.decision_function(X)), np.abs(values[:, 0]))
        assert np.all(agree)
    else:
        duels = model.function_.duels(X)
        np.testing.assert_allclose(
            np.sort(np.abs(duels), axis=1), np.sort(np.abs(values), axis=1), atol=1e-12
        )
        assert np.mean(agree) > 0.95


def test_regressions_and_one_class_of_libsvm(tool, path):
    for options in ("-s 3 -p 0.2", "-s 4 -n 0.4", "-s 2 -n 0.3"):
        tool.svm_save_model(str(path), tool.svm_train(X[:, 0] ** 2, X, f"{options} -q"))
        _, values = predicted(tool, path)
        found = read_libsvm(path, features=5)
        assert found.labels is None
        np.testing.assert_allclose(found.function.scores(X), values, atol=1e-12)


def test_what_is_written_is_read_again(path):
    for rows in (X, sparse.csr_matrix(X)):
        model = SupportVectorClassifier().fit(rows, CODES)
        write_libsvm(path, model.function_, model.classes_)
        again = imported(read_libsvm(path, features=5))
        np.testing.assert_allclose(again.decision_function(X), model.decision_function(X))


def test_what_libsvm_cannot_hold_is_refused(path):
    scaled = SupportVectorClassifier(scale=True).fit(X, CODES)
    with pytest.raises(ValueError, match="no units"):
        write_libsvm(path, scaled.function_, scaled.classes_)
    rest = SupportVectorClassifier(multiclass="ovr").fit(X, CODES)
    with pytest.raises(ValueError, match="multiclass='ovo'"):
        write_libsvm(path, rest.function_, rest.classes_)
    other = SupportFunction(Exponential(1.0), X[:7], np.ones((1, 7)), np.zeros(1))
    with pytest.raises(ValueError, match="does not know the kernel Exponential"):
        write_libsvm(path, other)
    words = SupportVectorClassifier().fit(X, np.array(["a", "b", "c"])[CODES])
    with pytest.raises(ValueError, match="integer labels only"):
        write_libsvm(path, words.function_, words.classes_)


GOOD = (
    "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 2\nrho 0.1\nlabel 1 -1\n"
    "nr_sv 1 1\nSV\n1.0 1:0.5 3:1 \n-1.0 2:1 \n"
)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("c_svc", "tree", "line 9: unknown svm_type 'tree'"),
        ("rbf", "wavelet", "line 2: kernel 'wavelet' is not"),
        ("gamma 0.5", "gamma x", "line 3: 'x' is no finite number"),
        ("gamma 0.5\n", "", "'gamma' of the kernel is missing"),
        ("nr_class 2", "nr_class 1", "line 4: nr_class must be a number from 2"),
        ("total_sv 2", "total_sv 999999", "do not fit into"),
        ("total_sv 2", "total_sv 3", "line 8: nr_sv does not add up|ends after 2 of 3"),
        ("rho 0.1", "rho 0.1 0.2", "line 6: 1 numbers of rho were expected, got 2"),
        ("label 1 -1", "label 1 1", "line 7: a label is repeated"),
        ("label 1 -1\n", "", "'label' is missing above"),
        ("nr_sv 1 1", "nr_sv 5 1", "line 8: nr_sv does not add up to 2"),
        ("1:0.5 3:1", "3:0.5 1:1", "line 10: columns must be numbers from 1 that rise"),
        ("1:0.5 3:1", "0:0.5", "line 10: columns must be numbers from 1 that rise"),
        ("2:1 \n", "2:1 \n1.0 1:1\n", "line 12: text after the last support vector"),
        ("-1.0 2:1", "nan 2:1", "line 11: 'nan' is no finite number"),
        ("SV\n", "", "no field of a LIBSVM model"),
        ("rho", "roh", "'roh' is no field"),
    ],
)
def test_damaged_files_name_the_line(path, old, new, words):
    path.write_text(GOOD)
    assert read_libsvm(path).labels.tolist() == [-1, 1]
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(BadFile, match=words):
        read_libsvm(path)


def test_the_command_line_reads_and_writes_them(tmp_path, monkeypatch, capsys):
    def thresher(*words):
        monkeypatch.setattr(sys, "argv", ["thresher", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, capsys.readouterr().err

    table = "\n".join(f"{a},{b},{c}" for (a, b), c in zip(X[:, :2], CODES, strict=True))
    (tmp_path / "d.csv").write_text(f"a,b,y\n{table}\n")
    thresher("train", tmp_path / "d.csv", "-t", "y", "--learner", "svm", "--set", "scale=false",
             "-m", tmp_path / "m.thresher")  # fmt: skip
    thresher("export", tmp_path / "m.thresher", "-o", tmp_path / "m.model")
    thresher("convert", tmp_path / "m.model", "-o", tmp_path / "n.thresher")
    first, second = (load_model(tmp_path / f"{name}.thresher").estimator for name in "mn")
    np.testing.assert_allclose(
        first.decision_function(X[:, :2]), second.decision_function(X[:, :2]), rtol=1e-6
    )
