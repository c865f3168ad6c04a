"""onnxruntime gives the predictions of the exported model."""

import json
import sys

import numpy as np
import pytest
from scipy import sparse

from conftest import make_data
from thresher import (
    ConfidenceClassifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    TermFeatures,
)
from thresher.artifacts.onnx_graph import write_onnx
from thresher.functions import Isotonic, LinearFunction, Link, Sigmoids, VectorSoftmax
from thresher.losses import Logistic, ModifiedHuber

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def outputs_of(path, X):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def linear(coef, intercept):
    return LinearFunction(np.asarray(coef, dtype=float), np.asarray(intercept, dtype=float))


def labelled(kind, n=150):
    X, y = make_data(n=n, d=6, seed=3)
    codes = np.digitize(y + X[:, 1], [-0.5, 0.5]) if kind.startswith("three") else (y > 0) * 1
    names = {
        "int": [3, 7],
        "bool": [False, True],
        "float": [1.0, 2.0],
        "str": ["no", "ja ü"],
        "three": [-1, 0, 5],
        "three str": ["a", "b", "c"],
    }[kind]
    return X, np.array(names)[codes]


def check(path, model, X, dtype="float64"):
    write_onnx(path, model.function_, model.classes_, model.link, dtype=dtype)
    found = outputs_of(path, X.astype(dtype))
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(found["scores"], model.decision_function(X), **close)
    assert found["label"].tolist() == model.predict(X).tolist()
    if hasattr(model, "predict_proba"):
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), **close)
    else:
        assert "probabilities" not in found
    return found


@pytest.mark.parametrize("kind", ["int", "bool", "float", "str", "three", "three str"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "modified_huber"])
def test_classifiers(path, kind, loss):
    X, y = labelled(kind)
    model = LinearClassifier(loss, solver="newton").fit(X, y)
    check(path, model, X)


@pytest.mark.parametrize("kind", ["int", "three str"])
@pytest.mark.parametrize("method", ["arow", "scw"])
def test_confidence_weighted_classifiers(path, kind, method):
    X, y = labelled(kind)
    check(path, ConfidenceClassifier(method, random_state=0).fit(X, y), X)


@pytest.mark.parametrize("kind", ["int", "three str"])
@pytest.mark.parametrize("calibrate", ["sigmoid", "isotonic"])
def test_calibrated_classifiers(path, kind, calibrate):
    X, y = labelled(kind)
    model = LinearClassifier(solver="newton", calibrate=calibrate).fit(X, y)
    check(path, model, np.vstack([X, 50 * X, 0 * X]))


@pytest.mark.parametrize("kind", [VectorSoftmax, Sigmoids])
def test_calibrators_of_several_classes(path, kind):
    X, y = labelled("three")
    model = LinearClassifier(solver="newton", calibrate="sigmoid").fit(X, y)
    model.calibrator_ = kind(np.array([1.0, 3.0, 0.5]), np.array([0.5, 0.0, -1.0]))
    check(path, model, np.vstack([X, 50 * X, 0 * X]))


def test_single_precision_input_gives_the_same(path):
    X, y = labelled("three")
    X = X.astype(np.float32).astype(np.float64)
    check(path, LinearClassifier("logistic", solver="newton").fit(X, y), X, "float32")


def test_all_scores_far_below_give_a_uniform_row(path):
    """One-vs-rest probabilities that all vanish."""
    classes = np.array([1, 2, 3])
    write_onnx(path, linear(np.ones((3, 2)), [-1.0] * 3), classes, Link(ModifiedHuber()))
    found = outputs_of(path, np.array([[-5.0, -5.0], [0.5, 1.0]]))
    np.testing.assert_allclose(found["probabilities"], np.full((2, 3), 1 / 3))
    assert found["label"].tolist() == [1, 1]


def test_a_score_of_zero_is_the_first_class(path):
    write_onnx(path, linear([[1.0]], [0.0]), ["a", "b"])
    assert outputs_of(path, np.array([[0.0], [1e-9]]))["label"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    "steps", [([0.3], [0.7]), ([0.0, 1.0], [0.2, 0.9]), ([-1, 0, 2], [0, 0, 1])]
)
def test_step_functions(path, steps):
    x, y = (np.asarray(part, dtype=float) for part in steps)
    write_onnx(path, linear([[1.0]], [0.0]), [0, 1], Isotonic([(x, y)]))
    X = np.linspace(-3, 3, 101)[:, None]
    found = outputs_of(path, X)["probabilities"][:, 1]
    np.testing.assert_allclose(found, np.interp(X[:, 0], *steps), atol=1e-14)


def test_regression(path):
    X, y = make_data(regression=True, n=100, d=6)
    model = LinearRegressor(solver="newton").fit(X, y)
    model.sparsify()
    write_onnx(path, model.function_, feature_names=[f"f{i}" for i in range(6)])
    found = outputs_of(path, X)
    assert list(found) == ["prediction"]
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-12, atol=1e-12)
    properties = {p.key: p.value for p in onnx.load(str(path)).metadata_props}
    assert json.loads(properties["feature_names"]) == [f"f{i}" for i in range(6)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [False, True])
def test_forests(path, dtype, scale):
    """Trees decide in single precision, weights are added in double precision."""
    X, y = labelled("three str")
    X = X.astype(np.float32).astype(np.float64)
    model = KernelClassifier(map="forest", n_components=9, scale=scale, random_state=0).fit(X, y)
    write_onnx(path, model.function_, model.classes_, dtype=dtype)
    unseen = np.vstack([X, X[::-1] + np.float32(0.1), 1e30 * X]).astype(np.float32)
    found = outputs_of(path, unseen.astype(dtype))
    scores = model.decision_function(unseen.astype(np.float64))
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-12, atol=1e-12)
    domains = {opset.domain: opset.version for opset in onnx.load(str(path)).opset_import}
    assert domains == {"": 17, "ai.onnx.ml": 3}


@pytest.mark.parametrize("scale", [False, True])
def test_weighted_terms(path, scale):
    X, y = labelled("three str")
    X = X * (np.abs(X) > 0.5)
    model = KernelClassifier(map=TermFeatures(0.4, 0.7), scale=scale, random_state=0).fit(X, y)
    write_onnx(path, model.function_, model.classes_)
    unseen = np.vstack([X, 1e200 * X, 1e-200 * X, np.zeros_like(X[:1])])
    scores = outputs_of(path, unseen)["scores"]
    np.testing.assert_allclose(scores, model.decision_function(unseen), rtol=1e-10, atol=1e-10)


def test_a_forest_of_stumps_and_single_leaves(path):
    X = np.repeat([[0.0, 1.0], [0.0, 2.0]], 5, axis=0)
    for target in (X[:, 1], np.ones(10)):
        model = KernelRegressor(map="forest", n_components=3, random_state=0).fit(X, target)
        write_onnx(path, model.function_)
        found = outputs_of(path, X)["prediction"]
        np.testing.assert_allclose(found, model.predict(X), rtol=1e-12)


def test_trees_that_onnx_cannot_hold(path, monkeypatch):
    X, y = labelled("int")
    model = KernelClassifier(map="forest", n_components=2, random_state=0).fit(X, y)
    monkeypatch.setattr("thresher.maps.leaves._EXACT", 4)
    with pytest.raises(ValueError, match="a tree has more than 4 leaves"):
        write_onnx(path, model.function_, model.classes_)
    monkeypatch.setattr("thresher.artifacts.onnx_graph._LARGEST", 1000)
    with pytest.raises(ValueError, match="do not fit into ONNX's 2 GiB"):
        write_onnx(path, model.function_, model.classes_)


def test_equal_models_give_equal_bytes(tmp_path):
    for name in "ab":
        function = LinearFunction(sparse.csr_matrix([[1.0, 0.0]]), np.array([0.5]))
        write_onnx(tmp_path / name, function, ["x", "y"], Link(Logistic()))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"classes": None, "link": Link(Logistic())}, "no probabilities"),
        ({"function": linear([[np.nan]], [0.0])}, "NaN"),
        ({"dtype": "float16"}, "dtype must be"),
        ({"feature_names": ["a", "b"]}, "2 feature names"),
        ({"classes": [1, 2, 3]}, "3 classes need 3 outputs"),
    ],
)
def test_what_cannot_be_exported(path, options, match):
    with pytest.raises(ValueError, match=match):
        write_onnx(path, **{"function": linear([[1.0]], [0.0]), "classes": [0, 1], **options})
    assert not path.exists()


def test_without_onnx_the_way_out_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "thresher\[onnx\]"'):
        write_onnx(path, linear([[1.0]], [0.0]))
